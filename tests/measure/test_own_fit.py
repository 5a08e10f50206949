"""A calibration fitted to somebody's own runs finds what made them, and reaches every estimate it should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planner import evaluate
from planner.catalog.calibration_constants import SHIPPED, Shelf
from planner.catalog.measurements import read_measurements
from planner.measure.comparison import compare_record, median_errors
from planner.measure.fit.problem import calibration_on
from planner.measure.own_fit import REJECTED, _distinct, calibrated
from planner.measure.predict import predicted, resolve_run
from planner.measure.record import Record, Row, Spread, measurements_of, scenario_of
from planner.measure_report import measured_text
from planner.quantity import Basis
from planner.ui.locale import LANGUAGES, text

CPU = {
    "name": "A CPU",
    "kind": "cpu",
    "memory_usable_bytes": 64e9,
    "bandwidth_bytes_per_s": 20e9,
    "peaks": {"bf16": 4e11, "fp32": 2e11},
    "measured_on": "2026-11-30",
}
TRUTH = {
    "cpu": {
        "transformers": {
            "cpu.weights": 0.45,
            "cpu.host_layer_s.server.16bit": 3e-4,
            "cpu.prefill.16bit": 0.6,
            "cpu.layer_s": 4e-4,
        },
        "accelerator-classes": {"cpu.attention": 0.1},
    },
    "t4": {
        "transformers": {"t4.host_layer_s.cloud.16bit": 2e-3, "t4.prefill.16bit": 0.3},
    },
    "l4": {"accelerator-classes": {"l4.weights": 0.6, "l4.cache": 0.6, "l4.prefill.16bit": 0.3}},
    "h100-sxm-80gb": {"vllm": {"hopper.weights.16bit": 0.6, "hopper.sequence_s": 6e-5}},
    "rtx-4090": {"llama-cpp": {"geforce-ada.weights": 0.6, "geforce-ada.prefill.8bit": 0.5}},
}


def scenario(**changes: Any) -> dict[str, Any]:
    return {
        "model": "Qwen/Qwen2.5-0.5B",
        "engine": "transformers",
        "dtype": "bf16",
        "concurrency": 1,
    } | changes


def grid(
    role: str = "fit",
    arrivals: str = "together",
    batches: tuple[int, ...] = (1,),
    **changes: Any,
) -> list[dict[str, Any]]:
    read = [
        scenario(input_tokens=tokens, output_tokens=1, **changes)
        for tokens in (64, 128, 256, 512, 1024)
    ]
    decoded = [
        scenario(input_tokens=context, output_tokens=33, **changes) | {"concurrency": batch}
        for context in (64, 512, 2048)
        for batch in batches
    ]
    rows = decoded if arrivals == "loop" else [*read, *decoded]
    return [{"role": role, "arrivals": arrivals, "scenario": row} for row in rows]


def made(
    gpu: str,
    cases: list[dict[str, Any]],
    noise: float = 0.01,
    truth: dict[str, dict[str, float]] | None = None,
) -> Record:
    """A record whose figures are the planner's own for other constants, with a little noise."""
    rng = np.random.default_rng(7)
    record = Record.model_validate(
        {
            "format": "headroom-measurement",
            "schema_version": 1,
            "name": "made up",
            "date": "2026-11-30T12:00:00+00:00",
            "origin": "device",
            "accelerator": "own-a-cpu" if gpu == "cpu" else gpu,
            "device": CPU if gpu == "cpu" else None,
            "conditions": {"noisy": False},
            "rows": [],
        }
    )
    shelf = Shelf(values=TRUTH[gpu] if truth is None else truth)
    rows = []
    for number, case in enumerate(cases):
        decodes = case["scenario"]["output_tokens"] > 1
        loop = case["arrivals"] != "together"
        names = ["tpot_s"] if decodes else ["prefill_s"]
        names = ["tpot_s", "ttft_s"] if loop and decodes else names
        blank = Spread(median=1.0, low=1.0, high=1.0, repeats=1)
        row = Row.model_validate(
            {"id": str(number), **case, "measured": dict.fromkeys(names, blank.model_dump())}
        )
        alone = record.model_copy(update={"rows": [row.model_copy(update={"role": "fit"})]})
        run = resolve_run(measurements_of(alone)[0])
        said = predicted(run, calibration_on(shelf, run), names)
        measured = {}
        for name in names:
            value = said[name] * float(np.exp(noise * rng.standard_normal()))
            if np.isfinite(value):
                measured[name] = Spread(
                    median=value, low=value * 0.98, high=value * 1.02, repeats=5
                )
        rows.append(row.model_copy(update={"measured": measured}))
    return record.model_copy(update={"rows": rows})


CASES = {
    "cpu": grid() + grid("check", model="HuggingFaceTB/SmolLM2-1.7B"),
    "t4": grid(dtype="fp16") + grid("check", dtype="fp16", model="Qwen/Qwen2.5-1.5B"),
    "l4": grid(arrivals="loop", engine="vllm", model="meta-llama/Llama-3.1-8B", batches=(1, 8, 32)),
    "h100-sxm-80gb": grid(
        arrivals="loop", engine="vllm", model="meta-llama/Llama-3.1-8B", batches=(1, 16, 128)
    ),
    "rtx-4090": grid(
        engine="llama.cpp", dtype="auto", weights="gguf:Q4_K_M", model="meta-llama/Llama-3.1-8B"
    ),
}


@pytest.mark.parametrize("gpu", CASES)
def test_the_fit_finds_what_made_the_runs(gpu: str) -> None:
    record = calibrated(made(gpu, CASES[gpu]))
    own = record.calibration
    assert own is not None
    found = median_errors(compare_record(record).figures, "fit")
    assert found
    for error in found.values():
        assert error.after_fraction is not None
        assert error.after_fraction < 0.05
        assert error.after_fraction < error.before_fraction
    if own.tpot is not None:
        assert own.tpot.after_fraction < 0.05 < own.tpot.before_fraction


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_disturbed_machine_and_a_missing_test_are_said(language: str) -> None:
    record = made("cpu", CASES["cpu"])
    noisy = record.conditions.model_copy(update={"noisy": True})
    rows = [row.model_copy(update={"noisy": row.role == "check"}) for row in record.rows]
    found = calibrated(record.model_copy(update={"conditions": noisy, "rows": rows}))
    assert found.calibration is not None
    assert found.calibration.disturbed
    untested = text("measure.cli.untested", language)
    assert untested in measured_text(found, language)
    quiet = calibrated(record)
    assert quiet.calibration is not None
    assert not quiet.calibration.disturbed
    assert untested not in measured_text(quiet, language)


def test_a_machine_that_is_only_unsteady_gives_a_calibration_with_its_wide_range() -> None:
    record = made("cpu", CASES["cpu"], noise=0.1)
    rows = [
        row.model_copy(
            update={
                "noisy": True,
                "measured": {
                    name: value.model_copy(
                        update={"low": value.median * 0.6, "high": value.median * 1.7}
                    )
                    for name, value in row.measured.items()
                },
            }
        )
        for row in record.rows
    ]
    drifted = {"code": "drift", "drift_fraction": 0.8, "times": 9}
    loaded = {"code": "others_during", "load_fraction": 0.5}
    found = []
    for reasons in ([drifted], [drifted, loaded]):
        seen = record.conditions.model_copy(update={"noisy": True, "reasons": reasons})
        found.append(calibrated(record.model_copy(update={"conditions": seen, "rows": rows})))
    unsteady, busy = found
    assert busy.calibration is None
    own = unsteady.calibration
    assert own is not None
    assert own.disturbed
    for error in (own.tpot, own.ttft):
        assert error is not None
        assert error.low_fraction <= -0.4 + 1e-9
        assert error.high_fraction >= 0.7 - 1e-9
    for role in ("fit", "check"):
        assert median_errors(compare_record(unsteady).figures, role)
        assert not median_errors(compare_record(busy).figures, role)
    for language in LANGUAGES:
        assert text("measure.cli.unsteady", language) in measured_text(unsteady, language)
        assert text("measure.cli.noisy", language) in measured_text(busy, language)


def with_medians(record: Record, factors: dict[str, float]) -> Record:
    """The record of an unsteady machine, some of its rows so many times slower."""
    rows = []
    for row in record.rows:
        times = factors.get(row.id, 1.0)
        figures = {
            name: Spread(
                median=times * value.median,
                low=times * value.low,
                high=times * value.high,
                repeats=4,
            )
            for name, value in row.measured.items()
        }
        rows.append(row.model_copy(update={"noisy": True, "measured": figures}))
    drifted = {"code": "drift", "drift_fraction": 0.8, "times": 9}
    seen = record.conditions.model_copy(update={"noisy": True, "reasons": [drifted]})
    return record.model_copy(update={"conditions": seen, "rows": rows})


def test_an_unsteady_machine_s_ranges_hold_every_run_that_counts() -> None:
    record = calibrated(with_medians(made("cpu", CASES["cpu"]), {"0": 2.2, "4": 0.6, "6": 1.7}))
    assert record.calibration is not None
    figures = [one for one in compare_record(record).figures if one.after is not None]
    timed = [one for one in figures if one.quantity in ("prefill_s", "tpot_s")]
    assert len(timed) == len(record.rows)
    for one in timed:
        assert one.after is not None
        assert one.after.low <= one.measured.median * (1.0 + 1e-9)
        assert one.after.high >= one.measured.median * (1.0 - 1e-9)
    assert REJECTED not in record.notes


def test_a_figure_whose_fit_is_thrown_away_is_noted_beside_one_that_is_kept() -> None:
    decoded = {str(number): 60.0 for number in (5, 6, 7)}
    record = calibrated(with_medians(made("cpu", CASES["cpu"]), decoded))
    assert record.calibration is not None
    assert record.calibration.tpot is None
    assert record.calibration.ttft is not None
    assert REJECTED in record.notes


def test_another_shape_is_predicted_too() -> None:
    record = calibrated(made("cpu", CASES["cpu"]))
    figures = compare_record(record).figures
    for error in median_errors(figures, "check").values():
        assert error.after_fraction is not None
        assert error.after_fraction < 0.2
        assert error.after_fraction < error.before_fraction
    inside = [
        one.after.low <= one.measured.median <= one.after.high
        for one in figures
        if one.after is not None
    ]
    assert np.mean(inside) >= 0.8


def test_estimates_of_the_same_device_are_calibrated_by_name() -> None:
    record = calibrated(made("cpu", CASES["cpu"]))
    answer = evaluate(scenario_of(record, record.rows[0], calibrated=True))
    assert answer.speed.calibration == "made up"
    assert answer.speed.ttft_s.basis is Basis.CALIBRATED


def test_rows_that_do_not_count_move_nothing() -> None:
    record = made("cpu", CASES["cpu"])
    quiet = calibrated(record).calibration
    wrong = [
        row.model_copy(
            update={
                "id": f"noisy {row.id}",
                "noisy": True,
                "measured": {
                    name: spread.model_copy(update={"median": spread.median * 9.0})
                    for name, spread in row.measured.items()
                },
            }
        )
        for row in record.rows
    ]
    loud = record.model_copy(update={"rows": [*record.rows, *wrong]})
    assert calibrated(loud).calibration == quiet


def test_one_row_or_none_gives_no_calibration() -> None:
    record = made("cpu", CASES["cpu"])
    for kept in ([], record.rows[:1]):
        assert calibrated(record.model_copy(update={"rows": kept})).calibration is None


def test_a_fit_that_no_calibration_holds_is_none() -> None:
    """Of a record made in Python, which nothing has checked."""
    record = made("cpu", CASES["cpu"]).model_copy(update={"date": "9999-99-99T99:99"})
    assert calibrated(record).calibration is None


def scaled(record: Record, factor: float) -> Record:
    """The record with every time multiplied."""
    rows = [
        row.model_copy(
            update={
                "measured": {
                    name: Spread(
                        median=spread.median * factor,
                        low=spread.low * factor,
                        high=spread.high * factor,
                        repeats=5,
                    )
                    for name, spread in row.measured.items()
                }
            }
        )
        for row in record.rows
    ]
    return record.model_copy(update={"rows": rows})


def test_what_is_faster_than_possible_counts_in_no_calibration() -> None:
    record = calibrated(scaled(made("t4", CASES["t4"]), 1e-3))
    assert record.calibration is None
    assert all("faster_than_possible" in row.notes for row in record.rows)
    assert {row.role for row in record.rows} == {"other"}


def test_a_fit_that_leaves_the_error_is_thrown_away() -> None:
    record = made("t4", CASES["t4"])
    rng = np.random.default_rng(3)
    rows = [
        row.model_copy(
            update={
                "measured": {
                    name: Spread(median=value, low=value, high=value, repeats=5)
                    for name, value in (
                        (name, float(10 ** rng.uniform(0, 4))) for name in row.measured
                    )
                }
            }
        )
        for row in record.rows
    ]
    found = calibrated(record.model_copy(update={"rows": rows}))
    assert found.calibration is None
    assert "fit_not_trusted" in found.notes


def test_constants_stay_in_their_physical_ranges() -> None:
    own = calibrated(scaled(made("cpu", CASES["cpu"]), 0.7)).calibration
    assert own is not None
    efficiencies = [
        constant.value
        for entries in own.constants.values()
        for key, constant in entries.items()
        if any(name in key for name in ("weights", "prefill", "attention", "compute"))
    ]
    assert efficiencies
    assert max(efficiencies) <= 0.98
    assert SHIPPED.values == {}


def test_repeats_of_a_run_are_one_run() -> None:
    record = made("t4", CASES["t4"])
    once = calibrated(record).calibration
    again = [row.model_copy(update={"id": f"again {row.id}"}) for row in record.rows]
    twice = calibrated(record.model_copy(update={"rows": [*record.rows, *again]})).calibration
    assert once is not None
    assert twice == once


def arriving(rate: float, **changes: Any) -> dict[str, Any]:
    """A case of Poisson arrivals; how many are in flight is left to who asks."""
    shape = scenario(engine="vllm", model="meta-llama/Llama-3.1-8B", **changes)
    return {
        "role": "fit",
        "arrivals": "poisson",
        "request_rate_per_s": rate,
        "scenario": {"input_tokens": 512, "output_tokens": 256, **shape},
    }


RATES = (0.2, 1.0, 3.0, 6.0, 9.0)


def test_arrivals_at_random_calibrate_by_their_time_per_token() -> None:
    record = calibrated(made("h100-sxm-80gb", [arriving(rate) for rate in RATES]))
    own = record.calibration
    assert own is not None
    assert own.tpot is not None
    assert own.tpot.rows == len(RATES)
    assert own.ttft is None
    assert own.tpot.after_fraction < 0.5 * own.tpot.before_fraction
    unseen = made("h100-sxm-80gb", [arriving(4.5)], noise=0.0)
    found = compare_record(unseen.model_copy(update={"calibration": own}))
    (tpot,) = [one for one in found.figures if one.quantity == "tpot_s"]
    assert tpot.after_error_fraction is not None
    assert abs(tpot.after_error_fraction) < 0.1 < 0.2 < abs(tpot.before_error_fraction)


def test_throughput_that_arrivals_set_and_their_first_tokens_calibrate_nothing() -> None:
    record = made("h100-sxm-80gb", [arriving(rate) for rate in RATES])
    rows = [
        row.model_copy(
            update={
                "measured": {"ttft_s": row.measured["tpot_s"], "output_tokens_per_s": spread(99.0)}
            }
        )
        for row in record.rows
    ]
    assert calibrated(record.model_copy(update={"rows": rows})).calibration is None


def test_arrivals_that_may_have_queued_do_not_count() -> None:
    crowded = [arriving(rate, concurrency=200, max_num_seqs=256) for rate in RATES]
    assert calibrated(made("h100-sxm-80gb", crowded)).calibration is None


def test_a_throughput_that_arrivals_set_is_what_arrives() -> None:
    record = made("h100-sxm-80gb", [arriving(2.0), arriving(500.0)])
    rows = [
        row.model_copy(
            update={
                "measured": row.measured
                | {"output_tokens_per_s": spread(512.0), "ttft_s": spread(0.1)}
            }
        )
        for row in record.rows
    ]
    found = compare_record(record.model_copy(update={"rows": [rows[0]]}))
    (rate,) = [one.before for one in found.figures if one.quantity == "output_tokens_per_s"]
    assert rate.mid == rate.high == pytest.approx(512.0)
    more = compare_record(record.model_copy(update={"rows": [rows[1]]}))
    kept = {one.quantity: one.before for one in more.figures}
    assert kept["output_tokens_per_s"].mid < 500.0 * 256.0
    assert set(kept) == {"tpot_s", "output_tokens_per_s"}
    ((_, error),) = more.refused
    assert error.code == "arrivals_outrun"


def spread(value: float) -> Spread:
    return Spread(median=value, low=value, high=value, repeats=1)


def test_a_peak_is_compared_without_what_was_there_before_the_model() -> None:
    """The context and the libraries are loaded before a measurement begins to count."""
    record = made("cpu", grid()[:1])
    held = Spread(median=1.1e9, low=1.1e9, high=1.1e9, repeats=1)
    row = record.rows[0].model_copy(
        update={"measured": {"weights_bytes": held, "peak_bytes": held}}
    )
    record = record.model_copy(update={"rows": [row]})
    found = {one.quantity: one.before for one in compare_record(record).figures}
    memory = evaluate(scenario_of(record, row)).memory
    parts = memory.needed_bytes_per_gpu.mid - memory.overhead_bytes_per_gpu.mid
    assert found["peak_bytes"].mid == pytest.approx(parts)
    assert found["weights_bytes"].mid < found["peak_bytes"].mid < memory.needed_bytes_per_gpu.mid


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("loop,,,1,,,", "loop,,,100,,,"),
        ("loop,,,,,,", "loop,,,,20,,"),
        ("burst,,,,,,", "burst,varied,,,,,"),
        ("loop,,1,,,,", "loop,,4,,,,"),
        ("loop,,,,,,", "loop,,,,,tuned,"),
        ("loop,,,,,,", "burst,,,,,,"),
        ("poisson,,,,,,1", "poisson,,,,,,2"),
    ],
)
def test_runs_that_differ_in_how_requests_came_are_no_repeats(one: str, other: str) -> None:
    header = (
        "id,model,input_tokens,arrivals,lengths,replicas,poll_steps,hold_steps,constants,"
        "request_rate_per_s,tpot_s"
    )
    lines = [header, f"a,m,10,{one},0.5", f"b,m,10,{one},0.7", f"c,m,10,{other},0.9"]
    found = _distinct(list(read_measurements(lines, "own")))
    assert [row.measured["tpot_s"] for row in found] == pytest.approx([0.6, 0.9])
