"""Rates and times that no implementation can reach don't count, and none is predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.catalog.measurements import RATES, SPEED_FAMILIES, measurements
from planner.measure.comparison import compare_record
from planner.measure.impossible import (
    NOTE,
    is_impossible,
    most_tokens_per_s,
    without_the_impossible,
)
from planner.measure.predict import run_of
from planner.measure.record import Record, measurement_of
from planner.measure_report import measured_text
from planner.speed.bounds import ttft_bound
from planner.ui.locale import text


def record(
    gpu: str = "h100-sxm-80gb",
    figure: str = "output_tokens_per_s",
    value: float = 1000.0,
    **row: Any,
) -> Record:
    spread = {"median": value, "low": value, "high": value, "repeats": 1}
    scenario = {"model": "Qwen/Qwen3-8B", "engine": "vllm", "weights": "bf16"}
    scenario |= {"input_tokens": 1000, "output_tokens": 200, "concurrency": 16} | row.pop(
        "scenario", {}
    )
    one = {"id": "a", "scenario": scenario, "measured": {figure: spread}, "arrivals": "burst"} | row
    return Record.model_validate(
        {
            "format": "headroom-measurement",
            "schema_version": 1,
            "name": "made up",
            "date": "2026-11-30",
            "origin": "imported",
            "accelerator": gpu,
            "conditions": {"noisy": False},
            "rows": [one],
        }
    )


def test_no_published_rate_is_above_what_we_hold_possible() -> None:
    for family in SPEED_FAMILIES:
        for row in measurements(family):
            rates = {name: row.measured[name] for name in RATES if name in row.measured}
            if rates:
                assert not is_impossible(run_of(replace(row, measured=rates))), row.id


@pytest.mark.parametrize("figure", RATES)
@pytest.mark.parametrize("arrivals", ["loop", "burst", "offline", "poisson"])
def test_a_rate_above_its_bound_does_not_count(figure: str, arrivals: str) -> None:
    how: dict[str, Any] = {"arrivals": arrivals}
    how |= {"request_rate_per_s": 2.0} if arrivals == "poisson" else {}
    made = record(figure=figure, **how)
    most = most_tokens_per_s(run_of(measurement_of(made, made.rows[0])), figure)
    fast = without_the_impossible(record(figure=figure, value=2.0 * most, **how)).rows[0]
    slow = without_the_impossible(record(figure=figure, value=0.8 * most, **how)).rows[0]
    assert (fast.role, fast.notes) == ("other", [NOTE])
    assert (slow.role, slow.notes) == ("fit", [])


def test_the_bound_of_a_rate_by_hand() -> None:
    """One request alone: 8.2e9 parameters of 2 bytes at 3.35 TB/s are 4.9 ms for each token."""
    made = record(scenario={"concurrency": 1, "input_tokens": 10, "output_tokens": 1000})
    most = most_tokens_per_s(run_of(measurement_of(made, made.rows[0])), "output_tokens_per_s")
    assert most == pytest.approx(3.35e12 / (2 * 7.57e9), rel=0.05)  # without the embedding
    made = record(scenario={"concurrency": 1000, "input_tokens": 8000, "output_tokens": 1})
    most = most_tokens_per_s(run_of(measurement_of(made, made.rows[0])), "total_tokens_per_s")
    linear, attention = 2 * 6.95e9, 2 * 36 * 4096 * 8000  # FLOP of a prompt's token
    assert most == pytest.approx(989e12 / (linear + attention), rel=0.1)


@pytest.mark.parametrize("gpu", ["h100-sxm-80gb", "a100-sxm4-80gb", "l4"])
@pytest.mark.parametrize("arrivals", ["burst", "offline", "loop"])
@pytest.mark.parametrize("shape", [(1000, 1000, 1), (8000, 1, 500), (4000, 2, 500)])
def test_no_end_of_a_predicted_rate_is_above_its_bound(
    gpu: str, arrivals: str, shape: tuple[int, int, int]
) -> None:
    scenario = dict(zip(("input_tokens", "output_tokens", "concurrency"), shape, strict=True))
    made = record(gpu, "total_tokens_per_s", arrivals=arrivals, scenario=scenario)
    (found,) = compare_record(made).figures
    most = most_tokens_per_s(run_of(measurement_of(made, made.rows[0])), "total_tokens_per_s")
    assert found.before.high <= most * (1 + 1e-9)


def test_no_shipped_prompt_of_llama_cpp_is_quicker_than_its_floor() -> None:
    """GeForce cards multiply in fp16 twice as fast where they sum up in it too, as llama.cpp has them do."""
    ratios = {}
    for row in measurements("llama-cpp"):
        if row.measured.get("prefill_s") is None:
            continue
        run = run_of(row)
        floor = ttft_bound(
            run.deployment.work, run.deployment.hardware, float(row.scenario["input_tokens"])
        )
        ratios[row.id] = row.measured["prefill_s"] / float(floor.seconds)
    assert len(ratios) > 100
    assert min(ratios.values()) > 1.0, min(ratios, key=ratios.__getitem__)
    assert min(ratios.values()) < 2.0


def test_a_row_that_counts_for_nothing_is_marked_too_but_not_that_of_several_copies() -> None:
    """As of a server that sends all its tokens at once and doesn't count them."""
    made = {
        notes: without_the_impossible(
            record(figure="tpot_s", value=1.43e-6, role="other", notes=list(notes))
        ).rows[0]
        for notes in ((), ("imported_copies",))
    }
    assert made[()].notes == [NOTE]
    assert made["imported_copies",].notes == ["imported_copies"]


@pytest.mark.parametrize("language", ["en", "es"])
def test_the_command_line_says_that_a_row_is_too_fast(language: str) -> None:
    for value, times in ((1e-6, 1), (0.01, 0)):
        made = without_the_impossible(record(figure="tpot_s", value=value))
        said = measured_text(made, language)
        name = text("figure.tpot_s", language)
        (line,) = (line for line in said.splitlines() if f" {name} " in line)
        assert line.count(text("measure.cli.impossible_mark", language)) == times
        assert said.count(text("measure.cli.impossible", language)) == times
