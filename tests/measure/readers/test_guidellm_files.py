"""Files as GuideLLM 0.3 and 0.8 wrote them, of a small model behind a server of one thread."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.measure.readers import ResultRow, complete, recognise
from tests.measure.readers.fixture_results import data, given_for


def middle(row: ResultRow, quantity: Any) -> float:
    return row.measured[quantity].spread.median


def changed(name: str, number: int, **metrics: Any) -> list[ResultRow]:
    """The rows of one benchmark of a GuideLLM report, with other figures."""
    document = json.loads(data(name))
    one = document["benchmarks"][number]
    one["metrics"] |= metrics
    return list(recognise(json.dumps(document | {"benchmarks": [one]})).rows)


def test_guidellm_s_own_limit_of_requests_at_once_leaves_arrivals_at_random() -> None:
    row = recognise(data("guidellm-0.8.json")).rows[2]
    strategy = json.loads(data("guidellm-0.8.json"))["benchmarks"][2]["config"]["strategy"]
    assert strategy["max_concurrency"] > 40
    assert (row.arrivals, row.request_rate_per_s, row.role) == ("poisson", 5.0, "fit")


@pytest.mark.parametrize(("peak", "arrivals"), [(9.0, "poisson"), (10.0, "loop")])
def test_a_limit_that_was_reached_held_arrivals_back(peak: float, arrivals: str) -> None:
    document = json.loads(data("guidellm-0.8.json"))
    one = document["benchmarks"][2]
    one["config"]["strategy"]["max_concurrency"] = 10
    one["metrics"]["request_concurrency"]["total"]["max"] = peak
    (row,) = recognise(json.dumps(document | {"benchmarks": [one]})).rows
    assert row.arrivals == arrivals


def test_guidellm_s_throughput_keeps_its_limit_in_flight() -> None:
    row = recognise(data("guidellm-0.8.json")).rows[1]
    assert row.workload["concurrency"] == 512
    assert (row.arrivals, row.role) == ("loop", "other")
    assert row.notes == ("imported_few_requests",)
    totals = {"successful": 40, "errored": 0, "incomplete": 0, "total": 40}
    rates, times = changed("guidellm-0.8.json", 1, request_totals=totals)
    assert (rates.arrivals, rates.role, rates.workload["concurrency"]) == ("burst", "fit", 40)
    assert times.role == "other"


def test_a_burst_that_was_cut_short_is_none() -> None:
    row = recognise(data("guidellm-0.3.json")).rows[1]
    assert row.workload["concurrency"] == 586
    assert (row.arrivals, row.role) == ("loop", "other")
    assert "imported_burst_cut" in row.notes


def test_guidellm_0_3_s_rates_since_1970_are_counted_anew() -> None:
    stated = json.loads(data("guidellm-0.3.json"))["benchmarks"][0]["metrics"]
    assert stated["output_tokens_per_second"]["successful"]["mean"] < 1e-5
    row = recognise(data("guidellm-0.3.json")).rows[0]
    # 22.05 requests of 16 tokens a second, as 110 of them in 5 s are.
    assert middle(row, "output_tokens_per_s") == pytest.approx(110 * 16 / 5.0, rel=0.01)
    assert middle(row, "total_tokens_per_s") == pytest.approx(110 * (16 + 64.8) / 5.0, rel=0.01)
    assert middle(row, "ttft_s") == pytest.approx(0.0085969)
    others = recognise(data("guidellm-0.3.json")).rows[2]
    assert middle(others, "output_tokens_per_s") == pytest.approx(55.0488)


def test_rates_hold_what_the_server_put_out_for_requests_that_were_cut_short() -> None:
    row = recognise(data("guidellm-0.8.json")).rows[0]
    # 12 answers of 128 tokens in 4 s, and 116 tokens in that time of one that wasn't finished.
    assert middle(row, "output_tokens_per_s") == pytest.approx((12 * 128 + 116) / 4.0)
    assert middle(row, "total_tokens_per_s") == pytest.approx(621.0)
    document = json.loads(data("guidellm-0.8.json"))
    document["metadata"]["version"] = 1
    first = recognise(json.dumps(document)).rows[0]
    assert middle(first, "output_tokens_per_s") == pytest.approx(12 * 128 / 4.0)


@pytest.mark.parametrize(("stated", "read"), [(60.0, 60.0), (110.0, 55.2), (30.0, 55.2), (0, None)])
def test_rates_that_leave_out_idle_time_are_counted_anew(stated: float, read: float | None) -> None:
    rates = {"successful": {"mean": stated}}
    (row,) = changed("guidellm-0.3.json", 2, output_tokens_per_second=rates)
    if read is None:
        assert "output_tokens_per_s" not in row.measured
    else:
        assert middle(row, "output_tokens_per_s") == pytest.approx(read, rel=1e-2)


@pytest.mark.parametrize(("name", "number"), [("guidellm-0.3.json", 0), ("guidellm-0.8.json", 3)])
def test_failures_count_wherever_a_version_states_them(name: str, number: int) -> None:
    document = json.loads(data(name))
    one = document["benchmarks"][number]
    place = one if "request_totals" in one else one["metrics"]
    place["request_totals"] = {"successful": 100, "errored": 12, "incomplete": 0, "total": 112}
    (row,) = recognise(json.dumps(document | {"benchmarks": [one]})).rows
    assert row.noisy
    assert "imported_failed_requests" in row.notes


def test_guidellm_says_when_it_ran() -> None:
    record = complete(recognise(data("guidellm-0.8.json")), given_for("guidellm-0.8.json"))
    assert record.date == "2026-12-01T11:14:10+00:00"
    document = json.loads(data("guidellm-0.8.json"))
    for one in document["benchmarks"]:
        one["start_time"] = 1e17
    assert recognise(json.dumps(document)).date is None
