"""Files as AIPerf 0.13 wrote them, of a small model behind a server of one thread."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.measure.readers import ResultRow, complete, recognise
from tests.measure.readers.fixture_results import data, given_for


def middle(row: ResultRow, quantity: Any) -> float:
    return row.measured[quantity].spread.median


def test_aiperf_s_failures_count_in_both_forms() -> None:
    for name in ("aiperf-0.13.json", "aiperf-0.13.csv"):
        (row,) = recognise(data(name)).rows
        assert row.noisy
        assert "imported_failed_requests" in row.notes
        assert middle(row, "ttft_s") == pytest.approx(0.0537, abs=5e-6)


@pytest.mark.parametrize(("told", "role"), [(16.0, "other"), (17.6, "fit"), (None, "fit")])
def test_answers_that_the_server_counts_otherwise_do_not_count(
    told: float | None, role: str
) -> None:
    export = json.loads(data("aiperf-0.13.json"))
    del export["error_request_count"]
    export["request_count"]["avg"] = 40
    if told is None:
        del export["usage_completion_tokens"]
    else:
        export["usage_completion_tokens"]["avg"] = told
    (row,) = recognise(json.dumps(export)).rows
    assert row.role == role
    assert ("imported_tokens_recounted" in row.notes) == (role == "other")


def test_aiperf_s_requests_in_flight_follow_from_the_mean_latency() -> None:
    export = json.loads(data("aiperf-0.13.json"))
    phase = {"name": "profiling", "type": "constant", "requests": 20, "rate": 20.0}
    export["input_config"]["phases"] = [phase]
    export["request_throughput"]["avg"] = 20.0
    # A queue: half are answered at once, and a few wait long.
    export["request_latency"] |= {"p50": 50.0, "avg": 500.0}
    (row,) = recognise(json.dumps(export)).rows
    assert row.workload["concurrency"] == 10


def test_aiperf_s_summary_of_loads_has_a_row_for_each() -> None:
    name = "aiperf-0.13-sweep.json"
    record = complete(recognise(data(name)), given_for(name))
    assert [row.id for row in record.rows] == ["64x16-c1", "64x17-c4"]
    assert [row.measured["ttft_s"].median for row in record.rows] == pytest.approx(
        [0.00817953, 0.133986], rel=1e-3
    )
    summary = json.loads(data(name))
    del summary["per_combination_metrics"][0]["metrics"]["request_latency"]
    summary["per_combination_metrics"][1]["parameters"] = {"phases.profiling.rate": 5}
    reading = recognise(json.dumps(summary))
    assert [note.code for note in reading.notes] == ["results_runs_empty"]
    (row,) = reading.rows
    assert "imported_open_loop" in row.notes
    summary["per_combination_metrics"][1]["parameters"] = {"isl": 64}
    (row,) = recognise(json.dumps(summary)).rows
    assert "concurrency" not in row.workload


def test_lengths_of_a_summary_vary_as_its_percentiles_do() -> None:
    summary = json.loads(data("aiperf-0.13-sweep.json"))
    lengths = summary["per_combination_metrics"][0]["metrics"]["output_sequence_length"]
    lengths |= {"avg": 16.0, "std": 0.0, "p10": 1.0, "p90": 60.0}
    first, second = recognise(json.dumps(summary)).rows
    assert first.varied
    assert not second.varied
