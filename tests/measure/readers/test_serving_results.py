"""Results of the engines' own benchmarks in the form that their latest versions write."""

from __future__ import annotations

import csv
import io
import json

import pytest

from planner.errors import InvalidInput
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


def test_a_sweep_s_summary_is_its_runs() -> None:
    reading = recognise(data("vllm-0.32-sweep.csv"))
    assert (reading.tool, reading.date) == ("vllm-bench-serve", "2026-11-20T09:15:00")
    assert reading.known == {"engine": "vllm", "model": "meta-llama/Llama-3.1-8B-Instruct"}
    assert [row.workload["concurrency"] for row in reading.rows] == [1, 1, 4, 4]
    assert [row.run for row in reading.rows] == [1, 2, 3, 4]
    assert {row.role for row in reading.rows} == {"fit"}
    assert reading.notes == ()


def summary(documents: list[dict[str, object]]) -> str:
    """Runs as the table that the tool makes of them."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["", *documents[0]])
    for number, one in enumerate(documents):
        table.writerow([number, *one.values()])
    return text.getvalue()


def test_a_run_is_the_same_in_a_table_and_in_its_own_file() -> None:
    document = json.loads(data("vllm-0.32-serve.json"))
    others = [document | {"request_rate": 4.0, "max_concurrency": None}, document | {"failed": 0}]
    in_files = recognise(json.dumps([document, *others])).rows
    assert recognise(summary([document, *others])).rows == in_files
    assert len(in_files) == 3


def test_a_line_with_a_cell_too_long_to_read_is_left_out_and_said() -> None:
    document = json.loads(data("vllm-0.32-serve.json"))
    times = [0.3 + number * 1e-6 for number in range(20_000)]
    many = document | {"completed": 20_000, "num_prompts": 20_000, "failed": 0, "latencies": times}
    reading = recognise(summary([many, document]))
    assert [row.workload["concurrency"] for row in reading.rows] == [4]
    assert [note.values for note in reading.notes] == [{"left": 1}]


def test_a_table_s_line_that_is_not_whole_is_left_out_and_said() -> None:
    text = data("vllm-0.32-sweep.csv").decode()
    reading = recognise(text.removesuffix("\n")[:-3])
    assert len(reading.rows) == 3
    assert [note.values for note in reading.notes] == [{"left": 1}]
    with pytest.raises(InvalidInput) as refusal:
        recognise(text.partition("\n")[0])
    assert refusal.value.code == "results_foreign"
    assert "sweep serve" in str(refusal.value.values["expected"])
