"""Results of other tools: what is read of each, the record that it becomes, and the calibration that it gives."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InvalidInput, UnknownItem
from planner.measure.own_fit import calibrated
from planner.measure.readers import (
    ResultRow,
    complete,
    missing_fields,
    read_results,
    recognise,
    row_notes,
)
from planner.measure.record import measurements_of, parse_record, record_text, scenario_of
from planner.ui.locale import LANGUAGES, catalogue, say_error, say_note
from tests.measure.readers.fixture_results import H100, RESULTS, data, given_for


def middles(row: ResultRow) -> dict[str, float]:
    return {quantity: stat.spread.median for quantity, stat in row.measured.items()}


@pytest.mark.parametrize("name", RESULTS)
def test_a_record_holds_what_was_read_and_survives_its_file(name: str) -> None:
    reading = recognise(data(name))
    assert missing_fields(reading, given_for(name)) == ()
    record = read_results(data(name), name, given_for(name))
    assert parse_record(record_text(record)) == record
    assert (record.origin, record.name) == ("imported", Path(name).stem)
    assert len(record.rows) == len(reading.rows)
    assert len({row.id for row in record.rows}) == len(record.rows)
    for one, row in zip(reading.rows, record.rows, strict=True):
        for quantity, stat in one.measured.items():
            assert row.measured[quantity] == stat.spread
            assert any(note.endswith(f":{quantity}") for note in row.notes)
        scenario = scenario_of(record, row)
        assert scenario.gpu == record.accelerator
        assert {"model", "engine", "engine_version", "weights"} <= row.scenario.keys()
        for key, value in one.workload.items():
            assert getattr(scenario, key) == value


def test_vllm_bench_serve() -> None:
    reading = recognise(data("vllm-serve.json"))
    assert reading.tool == "vllm-bench-serve"
    assert reading.date == "2025-11-30T14:15:00"
    assert reading.known == {"engine": "vllm", "model": "meta-llama/Llama-3.1-8B-Instruct"}
    assert missing_fields(reading, {}) == ("gpu", "engine_version", "weights", "gpus")
    (row,) = reading.rows
    assert row.workload == {"input_tokens": 1024, "output_tokens": 256, "concurrency": 16}
    assert (row.arrivals, row.role, row.noisy) == ("loop", "fit", False)
    assert middles(row) == {
        "tpot_s": pytest.approx(0.0116),
        "ttft_s": pytest.approx(0.170),
        "itl_s": pytest.approx(0.0116),
        "output_tokens_per_s": pytest.approx(1309.463),
        "total_tokens_per_s": pytest.approx(6547.315),
    }
    tpot = row.measured["tpot_s"]
    # Mean 11.716 ms and deviation 0.928 ms around a median of 11.6 ms.
    assert tpot.spread.low == pytest.approx((11.716 - 1.2816 * 0.928) * 1e-3)
    assert tpot.notes("tpot_s") == ["imported_median:tpot_s", "imported_range_deviation:tpot_s"]
    assert tpot.spread.repeats == 160


def test_a_detailed_file_s_lists_give_percentiles() -> None:
    (row,) = recognise(data("vllm-serve-detailed.json")).rows
    ttft = row.measured["ttft_s"]
    assert ttft.ends == "p10_p90"
    # 16 times from 34 ms up in steps of 0.8 ms: the 10th percentile lies 1.5 steps up.
    assert ttft.spread.low == pytest.approx(0.034 + 1.5 * 0.0008)
    assert ttft.spread.high == pytest.approx(0.034 + 13.5 * 0.0008)


def test_arrivals_at_random_are_no_closed_loop() -> None:
    (row,) = recognise(data("vllm-serve-rate.json")).rows
    assert (row.arrivals, row.request_rate_per_s) == ("poisson", 5.5)
    assert (row.role, row.notes) == ("fit", ("imported_poisson",))
    # Little's law: 5.1 requests a second that take 3.13 s each.
    assert row.workload["concurrency"] == 16


@pytest.mark.parametrize(
    ("changes", "arrivals", "role"),
    [
        ({"request_rate": "5.5"}, "poisson", "fit"),
        ({"burstiness": None}, "poisson", "fit"),
        ({"burstiness": 0.5}, "loop", "other"),
        ({"ramp_up_strategy": "linear"}, "loop", "other"),
        ({"max_concurrency": 20}, "loop", "other"),
        ({"request_throughput": 3.0}, "poisson", "other"),
        ({"completed": 20, "num_prompts": 20}, "poisson", "other"),
        ({"request_rate": "inf"}, "burst", "fit"),
    ],
)
def test_only_enough_arrivals_at_random_that_were_kept_up_with_count(
    changes: dict[str, Any], arrivals: str, role: str
) -> None:
    document = json.loads(data("vllm-serve-rate.json")) | changes
    row = recognise(json.dumps(document)).rows[0]
    assert (row.arrivals, row.role) == (arrivals, role)
    assert (row.request_rate_per_s is not None) == (arrivals == "poisson")


def test_sglang_s_rate_is_one_of_arrivals_at_random() -> None:
    line = json.loads(data("sglang-serving.jsonl").splitlines()[0])
    line |= {"request_rate": 0.001, "max_concurrency": None}
    (row,) = recognise(json.dumps(line)).rows
    assert (row.arrivals, row.request_rate_per_s) == ("poisson", 0.001)


@pytest.mark.parametrize(("kind", "arrivals"), [("poisson", "poisson"), ("constant", "loop")])
def test_guidellm_says_how_requests_came(kind: str, arrivals: str) -> None:
    document = json.loads(data("guidellm-0.5.json"))
    for one in document["benchmarks"]:
        one["config"]["strategy"] = {"type_": kind, "rate": 3.0}
    rows = recognise(json.dumps(document)).rows
    assert {row.arrivals for row in rows} == {arrivals}
    assert {row.request_rate_per_s for row in rows} == {3.0 if kind == "poisson" else None}


@pytest.mark.parametrize(
    ("loadgen", "rate"),
    [
        ({"request_rate": 2.0, "arrival_pattern": "poisson"}, 2.0),
        ({"request_rate": 2.0, "request_rate_mode": "poisson"}, 2.0),
        ({"request_rate": 2.0, "arrival_pattern": "constant"}, None),
        ({"request_rate": 2.0}, None),
    ],
)
def test_aiperf_s_arrivals_are_random_where_it_says_so(
    loadgen: dict[str, Any], rate: float | None
) -> None:
    export = json.loads(data("aiperf.json"))
    export["input_config"]["loadgen"] = loadgen
    (row,) = recognise(json.dumps(export)).rows
    assert row.request_rate_per_s == rate
    assert row.arrivals == ("loop" if rate is None else "poisson")


NO_RATES = [0, -5, float("nan"), 1e300, 1e17, 1e-11, True, "fast", [5], {"a": 1}]


@pytest.mark.parametrize("rate", NO_RATES)
@pytest.mark.parametrize("tool", ["vllm", "aiperf"])
def test_a_rate_that_is_none_is_told_and_its_run_does_not_count(rate: Any, tool: str) -> None:
    if tool == "vllm":
        document = json.loads(data("vllm-serve-at-once.json")) | {"request_rate": rate}
    else:
        document = json.loads(data("aiperf.json"))
        document["input_config"]["loadgen"] = {"request_rate": rate}
    rows = recognise(json.dumps(document)).rows
    assert rows
    for row in rows:
        assert (row.role, row.arrivals) == ("other", "loop")
        assert "imported_rate_unknown" in row.notes


@pytest.mark.parametrize("rate", ["inf", "Infinity", float("inf"), None, ""])
def test_as_fast_as_possible_is_no_rate(rate: Any) -> None:
    document = json.loads(data("vllm-serve-at-once.json")) | {"request_rate": rate}
    rows = recognise(json.dumps(document)).rows
    assert {row.arrivals for row in rows if row.role == "fit"} == {"burst"}
    assert not any("imported_rate_unknown" in row.notes for row in rows)


def test_requests_as_a_trace_has_them_came_at_a_rate_of_their_own() -> None:
    document = json.loads(data("vllm-serve-at-once.json")) | {"request_rate": "trace"}
    for row in recognise(json.dumps(document)).rows:
        assert row.role == "other"
        assert "imported_rate_unknown" not in row.notes


def test_of_requests_sent_at_once_only_the_rates_count() -> None:
    rates, times = recognise(data("vllm-serve-at-once.json")).rows
    assert (rates.role, times.role) == ("fit", "other")
    assert rates.workload["concurrency"] == times.workload["concurrency"] == 200
    assert (rates.arrivals, times.arrivals) == ("burst", "loop")
    assert set(rates.measured) == {"output_tokens_per_s", "total_tokens_per_s"}
    assert set(times.measured) == {"tpot_s", "ttft_s", "itl_s"}


def test_answers_that_differ_in_length_are_told_apart() -> None:
    document = json.loads(data("vllm-serve-at-once.json"))
    completed = document["completed"]

    def varied(**changes: Any) -> bool:
        return recognise(json.dumps(document | changes)).rows[0].varied

    assert not varied(total_output_tokens=completed * 128)
    assert varied(total_output_tokens=completed * 128 + 1)
    # A detailed file lists them: a few that end early don't make them vary.
    early = [128] * (completed - 3) + [60] * 3
    assert not varied(total_output_tokens=sum(early), output_lens=early)
    spread = [int(-128 * math.log(1 - (i + 0.5) / completed)) + 1 for i in range(completed)]
    assert varied(total_output_tokens=sum(spread), output_lens=spread)


@pytest.mark.parametrize(
    ("changes", "role", "noisy", "note"),
    [
        ({"completed": 20, "num_prompts": 20}, "other", False, "imported_few_requests"),
        ({"failed": 3}, "fit", False, "imported_failed_requests"),
        ({"failed": 30}, "fit", True, "imported_failed_requests"),
        ({"accept_length": 2.4}, "other", False, "imported_speculative"),
    ],
)
def test_what_spoils_a_run_is_said(
    changes: dict[str, Any], role: str, noisy: bool, note: str
) -> None:
    document = json.loads(data("vllm-serve.json")) | changes
    (row,) = recognise(json.dumps(document)).rows
    assert (row.role, row.noisy, row.notes) == (role, noisy, (note,))


def test_vllm_bench_latency_is_one_batch() -> None:
    name = "vllm-latency.json"
    assert {"input_tokens", "output_tokens", "concurrency"} <= set(
        missing_fields(recognise(data(name)), {})
    )
    (row,) = read_results(data(name), name, given_for(name)).rows
    assert (row.arrivals, row.id) == ("together", "32x128-c8")
    assert row.measured["e2e_s"].median == pytest.approx(2.41)
    assert row.measured["e2e_s"].low == pytest.approx(2.402)
    assert row.measured["output_tokens_per_s"].median == pytest.approx(8 * 128 / 2.41)


def test_vllm_bench_throughput() -> None:
    name = "vllm-throughput.json"
    (row,) = read_results(data(name), name, given_for(name)).rows
    assert row.scenario["concurrency"] == 1000
    assert row.measured["total_tokens_per_s"].median == pytest.approx(31030.30303)


def test_sglang_bench_serving() -> None:
    reading = recognise(data("sglang-serving.jsonl"))
    assert reading.known == {
        "engine": "sglang",
        "engine_version": "0.5.9",
        "model": "Qwen/Qwen3-8B",
        "tp": 1,
        "pp": 1,
        "ep": 1,
    }
    assert missing_fields(reading, {}) == ("gpu", "weights")
    assert [row.workload["concurrency"] for row in reading.rows] == [4, 32, 8]
    assert [row.role for row in reading.rows] == ["fit", "fit", "other"]
    assert reading.rows[2].notes == ("imported_speculative",)
    assert middles(reading.rows[0])["e2e_s"] == pytest.approx(2.4005)


def test_sglang_s_copies_are_no_deployment_of_one() -> None:
    line = json.loads(data("sglang-serving.jsonl").splitlines()[0])
    line["server_info"] |= {"dp_size": 2}
    assert recognise(json.dumps(line)).rows[0].role == "other"
    line["server_info"] |= {"tp_size": 8, "enable_dp_attention": True}
    reading = recognise(json.dumps(line))
    assert reading.rows[0].role == "fit"
    assert (reading.known["tp"], reading.known["dp"]) == (4, 2)


def test_guidellm() -> None:
    reading = recognise(data("guidellm-0.5.json"))
    assert (reading.tool, reading.version) == ("guidellm", "0.5.3")
    alone, eight, at_a_rate, full = reading.rows
    assert [row.workload["concurrency"] for row in (alone, eight)] == [1, 8]
    assert eight.workload == {"input_tokens": 512, "output_tokens": 256, "concurrency": 8}
    # The gap after the first token, not the mean over all tokens that GuideLLM also states.
    assert middles(eight)["tpot_s"] == pytest.approx(0.0102)
    assert eight.measured["ttft_s"].spread.low == pytest.approx(0.0594)
    assert eight.measured["ttft_s"].ends == "p10_p90"
    assert middles(eight)["e2e_s"] == pytest.approx(2.667)
    assert (at_a_rate.role, at_a_rate.workload["concurrency"]) == ("other", 7)
    # Its 661 requests kept the 512 that were let busy for less than three rounds.
    assert (full.workload["concurrency"], full.role, full.noisy) == (512, "other", True)


def with_benchmarks(**changes: Any) -> bytes:
    """The report with the first benchmark changed."""
    document = json.loads(data("guidellm-0.5.json"))
    document["benchmarks"][0] |= changes
    return json.dumps(document).encode()


@pytest.mark.parametrize("rate", [2e6, 1e-9, 1e15])
def test_a_rate_that_nobody_can_send_leaves_its_own_run_out(rate: float) -> None:
    strategy = {"config": {"strategy": {"type_": "poisson", "rate": rate}}}
    reading = recognise(with_benchmarks(**strategy))
    assert reading.rows == recognise(data("guidellm-0.5.json")).rows[1:]
    (note,) = reading.notes
    assert (note.code, note.values["figure"]) == ("results_out_of_range", "request_rate_per_s")
    assert f"1 ({rate})" in say_note(note, "en")
    assert "entre 0,000001 y 1.000.000" in say_note(note, "es")
    record = complete(reading, given_for("guidellm-0.5.json"))
    assert record.notes == ["imported_in_part"]
    assert parse_record(record_text(record)) == record


@pytest.mark.parametrize("metrics", [None, [], {}, {"request_totals": {"successful": 0}}])
def test_a_benchmark_without_metrics_leaves_the_others(metrics: Any) -> None:
    reading = recognise(with_benchmarks(metrics=metrics))
    assert reading.rows == recognise(data("guidellm-0.5.json")).rows[1:]
    assert [note.code for note in reading.notes] == ["results_runs_empty"]


def test_the_only_run_is_refused_with_its_figure_and_limits() -> None:
    document = json.loads(data("vllm-serve.json")) | {"output_throughput": 1e14}
    with pytest.raises(InvalidInput) as refusal:
        recognise(json.dumps(document))
    assert refusal.value.code == "measurement_row_out_of_range"
    assert say_error(refusal.value, "en").startswith(
        "In the measurement, row 1: output_tokens_per_s is 100000000000000.0, which isn’t between"
    )


@pytest.mark.parametrize(
    ("changes", "figure"),
    [
        ({"median_ttft_ms": 1e13}, "ttft_s"),
        ({"total_input_tokens": 10**17}, "input_tokens"),
        ({"max_concurrency": 10**7, "num_prompts": 10**8}, "concurrency"),
    ],
)
def test_one_bad_line_leaves_the_others(changes: dict[str, Any], figure: str) -> None:
    lines = [json.loads(line) for line in data("vllm-serve-sweep.jsonl").splitlines()]
    whole = recognise(data("vllm-serve-sweep.jsonl"))
    lines[1] |= changes
    reading = recognise("\n".join(map(json.dumps, lines)))
    assert [row.run for row in reading.rows] == [row.run for row in whole.rows if row.run != 2]
    assert [note.values["figure"] for note in reading.notes] == [figure]
    assert len(complete(reading, given_for("vllm-serve-sweep.jsonl")).rows) == len(reading.rows)


def test_many_bad_lines_are_named_up_to_a_bound() -> None:
    line = json.loads(data("vllm-serve.json"))
    bad = [line | {"output_throughput": 1e13 + i} for i in range(50)]
    reading = recognise("\n".join(map(json.dumps, [line, *bad])))
    assert len(reading.rows) == 1
    (note,) = reading.notes
    assert note.values["left"] == 50
    assert say_note(note, "en").endswith("21 (10000000000019.0), … of those read.")


def test_lines_that_are_none_leave_the_others_wherever_they_stand() -> None:
    lines = data("vllm-serve-sweep.jsonl").decode().splitlines()
    mixed = ["[1, 2", "# a remark", '{"other": 1}', *lines, "{", "null"]
    reading = recognise("\n".join(["{}", *mixed]))
    assert reading.rows == recognise(data("vllm-serve-sweep.jsonl")).rows
    (note,) = reading.notes
    assert (note.code, note.values["left"]) == ("results_lines_left_out", 6)


@pytest.mark.parametrize("name", ["aiperf.csv", "genai-perf.csv", "llama-bench.csv"])
def test_a_row_of_a_table_that_is_none_leaves_the_others(name: str) -> None:
    head, *rest = data(name).decode().splitlines(keepends=True)
    cell = "x" * 200_000  # more than Python's own reader takes
    assert recognise("".join([head, cell + "\n", *rest])).rows == recognise(data(name)).rows


def test_guidellm_s_earlier_reports() -> None:
    (row,) = recognise(data("guidellm-0.2.json")).rows
    (same,) = [
        one for one in recognise(data("guidellm-0.5.json")).rows if one.workload["concurrency"] == 8
    ]
    assert row == same


def test_an_unknown_version_is_named_and_read() -> None:
    document = json.loads(data("guidellm-0.5.json"))
    for changes, given in (({"version": 9}, "0.5.3 (9)"), ({"guidellm_version": "3.1"}, "3.1 (1)")):
        changed = {**document, "metadata": document["metadata"] | changes}
        reading = recognise(json.dumps(changed))
        assert [note.values["given"] for note in reading.notes] == [given]
        assert len(reading.rows) == 4
    tests = json.loads(data("llama-bench.json"))
    for test in tests:
        test["build_number"] = 99000
    notes = {note.code: note.values for note in recognise(json.dumps(tests)).notes}
    assert notes["results_version_unread"]["given"] == "b99000"
    export = json.loads(data("aiperf.json")) | {"schema_version": "2.0"}
    (note,) = recognise(json.dumps(export)).notes
    assert note.values["given"] == "0.4.0 (2.0)"


def test_aiperf_s_phases_say_the_load() -> None:
    export = json.loads(data("aiperf.json")) | {"schema_version": "1.4", "aiperf_version": "0.13.0"}
    warm_up = {"name": "warmup", "type": "concurrency", "concurrency": 2}
    phase = {"name": "profiling", "type": "concurrency", "concurrency": 16, "requests": 200}
    models = {"strategy": "round_robin", "items": [{"name": "Qwen/Qwen3-8B"}]}
    export["input_config"] = {"models": models, "phases": [warm_up, phase]}
    reading = recognise(json.dumps(export))
    assert reading.notes == ()
    assert reading.rows == recognise(data("aiperf.json")).rows
    assert reading.known == {"model": "Qwen/Qwen3-8B"}
    phase |= {"type": "poisson", "rate": 4.0}
    del phase["concurrency"]
    (row,) = recognise(json.dumps(export)).rows
    assert (row.arrivals, row.request_rate_per_s) == ("poisson", 4.0)


@pytest.mark.parametrize("said", [{"was_cancelled": True}, {"is_complete": False}])
def test_a_cancelled_run_does_not_count(said: dict[str, Any]) -> None:
    export = json.loads(data("aiperf.json")) | said
    (row,) = recognise(json.dumps(export)).rows
    assert row.noisy
    assert "imported_cancelled" in row.notes


def test_lengths_that_vary_are_said_to_be_means() -> None:
    document = json.loads(data("vllm-serve.json"))
    document["total_output_tokens"] -= 7
    (row,) = recognise(json.dumps(document)).rows
    assert row.notes == ("imported_mean_lengths",)


@pytest.mark.parametrize("name", ["aiperf.json", "aiperf.csv", "genai-perf.json", "genai-perf.csv"])
def test_aiperf_and_genai_perf_say_the_same_in_both_forms(name: str) -> None:
    reading = recognise(data(name))
    assert reading.tool == name.partition(".")[0]
    (row,) = read_results(data(name), name, given_for(name)).rows
    assert row.id == "1000x200-c16"
    # Within what two decimals leave of it.
    assert row.measured["tpot_s"].median == pytest.approx(0.01089, abs=5e-6)
    assert row.measured["ttft_s"].median == pytest.approx(0.1386, abs=5e-6)
    assert row.measured["e2e_s"].median == pytest.approx(2.30571, abs=5e-6)
    assert row.measured["output_tokens_per_s"].median == pytest.approx(1373.99, abs=0.01)
    assert row.measured["tpot_s"].repeats == 200


def test_a_csv_s_tables_of_gpus_are_not_a_request_s() -> None:
    text = data("aiperf.csv").decode()
    assert "GPU Power Usage" in text
    assert recognise(text).rows == recognise(text[: text.index("Endpoint")]).rows


@pytest.mark.parametrize("form", ["jsonl", "csv", "md"])
def test_llama_bench_says_the_same_in_every_form(form: str) -> None:
    expected = recognise(data("llama-bench.json"))
    reading = recognise(data(f"llama-bench.{form}"))
    assert [dict(row.workload) for row in reading.rows] == [
        dict(row.workload) for row in expected.rows
    ]
    for row, same in zip(reading.rows, expected.rows, strict=True):
        assert middles(row) == pytest.approx(middles(same), rel=1e-4)
    assert reading.known["engine_version"] == "b6500"
    assert reading.known["weights"] == "gguf:Q4_K_M"


def test_llama_bench_of_0_5_says_the_same_as_a_table() -> None:
    tests, table = (recognise(data(f"llama-bench-0.5.{form}")) for form in ("json", "md"))
    for reading in (tests, table):
        assert reading.version == "b11000"
        assert (reading.printed_gpu, reading.notes) == ("", ())
        assert "gpu_layers" not in reading.known  # −1: as many as fit
    assert [row.workload for row in tests.rows] == [row.workload for row in table.rows]
    for row, same in zip(tests.rows, table.rows, strict=True):
        # The table has the mean of rates, not the rate of the mean time.
        assert middles(row) == pytest.approx(middles(same), rel=0.005)


def test_llama_bench() -> None:
    record = read_results(data("llama-bench.json"), "llama-bench.json", {})
    assert record.accelerator == "rtx-4090"
    rows = {row.id: row for row in record.rows}
    assert list(rows) == ["512x1-c1", "2048x1-c1", "1x128-c1", "4096x128-c1", "512x128-c1"]
    prompt = rows["2048x1-c1"]
    assert prompt.measured["prefill_s"].median == pytest.approx(2048 / 9350.0, rel=1e-6)
    assert rows["4096x128-c1"].measured["tpot_s"].median == pytest.approx(1 / 139.0, rel=1e-6)
    both = rows["512x128-c1"].measured
    assert both["e2e_s"].median == pytest.approx(640 / 730.0, rel=1e-6)
    assert both["output_tokens_per_s"].median == pytest.approx(128 * 730.0 / 640, rel=1e-6)
    assert all(row.arrivals == "together" for row in record.rows)
    assert "gpu_layers" not in prompt.scenario  # 99 means all
    assert prompt.scenario["kv"] == "f16"


def test_layers_that_stayed_on_the_host_are_kept() -> None:
    tests = json.loads(data("llama-bench.json"))
    for test in tests:
        test["n_gpu_layers"] = 12
    record = read_results(json.dumps(tests), "x.json", {})
    assert record.rows[0].scenario["gpu_layers"] == 12


def test_experts_that_stayed_on_the_host_are_kept_as_far_as_there_are_some() -> None:
    tests = [test | {"n_cpu_moe": 99} for test in json.loads(data("llama-bench.json"))]
    assert "cpu_expert_layers" not in read_results(json.dumps(tests), "x.json", {}).rows[0].scenario
    given = {"model": "openai/gpt-oss-20b"}
    record = read_results(json.dumps(tests), "x.json", given)
    assert record.rows[0].scenario["cpu_expert_layers"] == 24
    assert recognise(json.dumps([test | {"n_cpu_moe": 0} for test in tests])).known == (
        recognise(data("llama-bench.json")).known
    )


@pytest.mark.parametrize("build", [0, 1])
def test_a_build_that_does_not_know_its_number_is_asked_about(build: int) -> None:
    tests = [test | {"build_number": build} for test in json.loads(data("llama-bench.json"))]
    with pytest.raises(InvalidInput) as refusal:
        read_results(json.dumps(tests), "x.json", {})
    assert refusal.value.values["missing"] == ("engine_version",)
    assert not {note.code for note in recognise(json.dumps(tests)).notes} & {
        "results_version_unread"
    }


@pytest.mark.parametrize(
    ("changes", "cards"),
    [
        ({}, 2),
        ({"devices": "auto", "split_mode": "layer"}, 2),
        ({"devices": "CUDA1", "split_mode": "layer"}, 1),
        ({"devices": "CUDA0/CUDA1", "split_mode": "none"}, 1),
    ],
)
def test_the_gpus_that_a_test_used_count(changes: dict[str, str], cards: int) -> None:
    two = {"gpu_info": "NVIDIA GeForce RTX 4090, NVIDIA GeForce RTX 4090"}
    tests = [test | two | changes for test in json.loads(data("llama-bench.json"))]
    assert recognise(json.dumps(tests)).known["pp"] == cards


def test_a_run_without_its_gpu_names_none() -> None:
    tests = [test | {"devices": "none"} for test in json.loads(data("llama-bench.json"))]
    reading = recognise(json.dumps(tests))
    assert (reading.printed_gpu, "gpu" in reading.known) == ("", False)


@pytest.mark.parametrize("form", ["json", "md"])
def test_runs_of_another_set_up_are_left_out_and_counted(form: str) -> None:
    if form == "json":
        tests = json.loads(data("llama-bench.json"))
        text = json.dumps([*tests, *(test | {"flash_attn": False} for test in tests)])
    else:
        lines = data("llama-bench.md").decode().splitlines(keepends=True)
        again = [line.replace("|  99 |  1 |", "|  99 |  0 |") for line in lines[2:8]]
        text = "".join([*lines[:8], *again, *lines[8:]])
    reading = recognise(text)
    assert len(reading.rows) == 5
    notes = {note.code: note.values["left"] for note in reading.notes}
    assert notes["results_others_left_out"] == 6


def test_runs_of_another_model_are_left_out_and_counted() -> None:
    tests = json.loads(data("llama-bench.json"))
    tests[-1]["model_filename"] = "models/another.gguf"
    reading = recognise(json.dumps(tests))
    assert {note.code: note.values["left"] for note in reading.notes} == {
        "results_others_left_out": 1,
        "results_tests_left_out": 1,
    }


def test_what_is_missing_is_named() -> None:
    reading = recognise(data("vllm-serve.json"))
    with pytest.raises(InvalidInput) as refusal:
        complete(reading, {"gpu": "h100"})
    assert refusal.value.code == "reading_incomplete"
    assert refusal.value.values["missing"] == ("engine_version", "weights", "gpus")
    with pytest.raises(InvalidInput) as named:
        complete(recognise(data("llama-bench.md")), {"gpu": "rtx-4090", "gpus": 1})
    assert named.value.code == "reading_names_unknown"
    assert named.value.values["printed"] == "qwen2 7B Q4_K - Medium"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"gpu": "h1000"}, UnknownItem),
        ({"model": "nobody/nothing"}, UnknownItem),
        ({"weights": "fp99"}, UnknownItem),
        ({"engine_version": "newest of all"}, InvalidInput),
        ({"gpus": "two"}, InvalidInput),
        ({"date": "yesterday"}, InvalidInput),
        ({"nonsense": 1}, InvalidInput),
    ],
)
def test_what_is_given_is_checked(
    changes: dict[str, Any], error: type[InvalidInput] | type[UnknownItem]
) -> None:
    with pytest.raises(error):
        read_results(data("vllm-serve.json"), "x.json", {**H100, **changes})


def test_what_is_given_counts_over_the_file() -> None:
    given = {**H100, "model": "Qwen/Qwen3-8B", "tp": "2", "gpus": "", "date": "2026-11-30"}
    record = read_results(data("vllm-serve.json"), "x.json", given | {"name": "the big box"})
    assert record.rows[0].scenario["model"] == "Qwen/Qwen3-8B"
    assert record.rows[0].scenario["tp"] == 2
    assert (record.name, record.date) == ("the big box", "2026-11-30T00:00:00")


def test_a_model_of_one_s_own_travels_in_the_record() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_attention_heads": 8,
        "num_hidden_layers": 4,
        "num_key_value_heads": 4,
        "vocab_size": 1000,
        "torch_dtype": "bfloat16",
    }
    document = json.loads(data("vllm-serve.json")) | {"model_id": "/data/ours"}
    record = read_results(json.dumps(document), "x.json", {**H100, "config": config})
    assert record.configs == {"/data/ours": config}
    assert scenario_of(record, record.rows[0]).config == config


def test_vllm_s_results_calibrate_their_gpu_and_engine() -> None:
    name = "vllm-serve-sweep.jsonl"
    record = read_results(data(name), name, given_for(name))
    assert len(measurements_of(record)) == 6
    own = calibrated(record).calibration
    assert own is not None
    assert (own.accelerator, own.engine) == ("h100-sxm-80gb", "vllm")
    assert own.tpot is not None
    assert own.tpot.rows == 6
    assert own.tpot.after_fraction < 0.05 < own.tpot.before_fraction
    assert own.ttft is not None
    assert own.ttft.after_fraction < own.ttft.before_fraction


def test_rows_that_do_not_count_give_no_calibration() -> None:
    name = "vllm-serve-rate.json"
    bursts = json.loads(data(name)) | {"burstiness": 0.5}
    record = read_results(json.dumps(bursts), name, given_for(name))
    assert measurements_of(record) == []
    assert calibrated(record).calibration is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_note_of_a_row_and_every_tool_has_a_sentence(language: str) -> None:
    for name in RESULTS:
        record = read_results(data(name), name, given_for(name))
        for note in row_notes(record.rows):
            assert say_note(note, language)
        assert f"note.{record.notes[0]}" in catalogue(language)
        assert f"import.tool.{recognise(data(name)).tool}" in catalogue(language)
