"""Results of the engines' own benchmarks in the form that their latest versions write."""

from __future__ import annotations

import json

import pytest

from planner.measure.readers import recognise
from tests.measure.readers.fixture_results import data


def test_vllm_lists_the_whole_times_of_requests() -> None:
    document = json.loads(data("vllm-0.32-serve.json"))
    (row,) = recognise(json.dumps(document)).rows
    whole = row.measured["e2e_s"]
    # 19 that were finished, and one nought for the request that failed.
    assert whole.spread.median == pytest.approx(sorted(document["latencies"])[10])
    assert (whole.ends, whole.spread.repeats) == ("p10_p90", 19)
    # What the tool printed counts over its list.
    said = document | {"median_e2el_ms": 400.0}
    (row,) = recognise(json.dumps(said)).rows
    assert row.measured["e2e_s"].spread.median == pytest.approx(0.4)
    # A list of other requests than those that count gives none.
    (row,) = recognise(json.dumps(document | {"completed": 18})).rows
    assert "e2e_s" not in row.measured


@pytest.mark.parametrize("field", ["spec_decode_num_drafts", "spec_decode_draft_tokens"])
def test_vllm_s_speculative_decoding_does_not_count(field: str) -> None:
    document = json.loads(data("vllm-0.32-serve.json")) | {field: 40}
    (row,) = recognise(json.dumps(document)).rows
    assert (row.role, "imported_speculative" in row.notes) == ("other", True)


@pytest.mark.parametrize("name", ["vllm-latency.json", "vllm-throughput.json"])
def test_vllm_s_offline_benchmarks_name_the_model(name: str) -> None:
    document = json.loads(data(name))
    assert recognise(json.dumps(document)).printed_model == ""
    for printed, known in (("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"), ("/data/our-own", None)):
        reading = recognise(json.dumps(document | {"model_id": printed}))
        assert (reading.printed_model, reading.known.get("model")) == (printed, known)


def test_failures_are_counted_from_sglang_s_list_of_errors() -> None:
    (row,) = recognise(data("sglang-0.5.23-detailed.jsonl")).rows
    assert "imported_failed_requests" in row.notes
    assert row.noisy  # 1 of 13
    assert row.measured["ttft_s"].spread.low > 0.0
