"""Result files that are cut, foreign, or meant to break the reader."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InvalidInput, PlannerError
from planner.measure.readers import complete, recognise
from planner.measure.readers.untrusted import MAX_BYTES
from tests.measure.readers.fixture_results import RESULTS, data, given_for

DOCUMENTS = [name for name in RESULTS if name.endswith((".json", ".jsonl"))]
LOAD_GENERATORS = [name for name in DOCUMENTS if name.startswith(("guidellm", "aiperf", "genai"))]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def test_the_fixtures_are_of_every_tool() -> None:
    tools = {recognise(data(name)).tool for name in RESULTS}
    assert len(tools) == 8


@pytest.mark.parametrize("name", RESULTS)
def test_a_file_cut_anywhere_is_read_in_part_or_refused(name: str) -> None:
    """A run that is read of a part is one of the whole's: no number is taken for a shorter one."""
    content = data(name)
    whole = recognise(content).rows
    runs = [(dict(row.workload), row.measured) for row in whole]
    step = max(len(content) // 400, 1)
    for end in range(0, len(content), step):
        try:
            reading = recognise(content[:end])
        except InvalidInput:
            continue
        assert len(reading.rows) <= len(whole)
        for row in reading.rows:
            # A table whose later lines are gone has fewer figures of the same run.
            assert any(
                row.workload.items() <= workload.items() and _inside(row.measured, measured)
                for workload, measured in runs
            ), row


def _inside(part: Any, whole: Any) -> bool:
    for quantity, stat in part.items():
        if quantity not in whole:
            return False
        spread, same = stat.spread, whole[quantity].spread
        if (spread.median, spread.low, spread.high) != (same.median, same.low, same.high):
            return False
    return True


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "reading_empty"),
        (b"hello", "results_foreign"),
        (b"a,b,c\n1,2,3\n", "results_foreign"),
        (b"{}", "results_foreign"),
        (b"[]", "results_foreign"),
        (b"[1, 2]", "results_foreign"),
        (b'{"benchmarks": []}', "results_foreign"),
        (b'{"format": "headroom-measurement"}', "results_foreign"),
        (b'{"model_id": "x"', "results_not_json"),
        (b"[" * 200_000, "results_not_json"),
        (b'{"a":' * 100_000, "results_not_json"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "results_not_json"),
        (b"Metric,avg\n", "results_without_figures"),
        (b"build_commit,build_number\n", "results_without_figures"),
        (b"x" * (MAX_BYTES + 1), "reading_too_big"),
        (b"\xff\xfe\x00\x01" * 100, "results_foreign"),
    ],
)
def test_what_is_no_result_is_refused_by_name(content: bytes, code: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        recognise(content)
    assert refusal.value.code == code


def test_a_shell_reads_larger_files_than_a_page() -> None:
    document = json.loads(data("guidellm-0.8.json"))
    document["benchmarks"][0]["requests"]["successful"] = [{"output": "x" * 9_000_000}]
    text = json.dumps(document)
    with pytest.raises(InvalidInput) as refusal:
        recognise(text)
    assert refusal.value.code == "reading_too_big"
    assert recognise(text, limit_bytes=16_000_000).rows == recognise(data("guidellm-0.8.json")).rows


def test_a_foreign_file_is_told_what_was_expected() -> None:
    with pytest.raises(InvalidInput) as refusal:
        recognise(b'{"something": "else"}')
    assert "GuideLLM" in str(refusal.value.values["expected"])
    assert "llama-bench" in str(refusal.value.values["expected"])


@pytest.mark.parametrize("name", LOAD_GENERATORS)
def test_a_part_of_a_file_is_refused_with_what_was_expected(name: str) -> None:
    content = data(name)
    for end in (len(content) // 3, len(content) // 2, len(content) - 1):
        with pytest.raises(InvalidInput) as refusal:
            recognise(content[:end])
        assert refusal.value.code == "results_not_json"
        for expected in ("GuideLLM (benchmarks.json)", "profile_export_aiperf"):
            assert expected in str(refusal.value.values["expected"])


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-1", "0", '"12"', "null", "1e-300", "1e300"])
def test_a_figure_that_is_none_is_left_out(bad: str) -> None:
    document = json.loads(data("vllm-serve.json"))
    text = json.dumps({**document, "median_tpot_ms": "@", "mean_tpot_ms": "@"}).replace('"@"', bad)
    (row,) = recognise(text).rows
    assert "tpot_s" not in row.measured
    assert "ttft_s" in row.measured


def test_a_run_without_figures_is_none() -> None:
    with pytest.raises(InvalidInput) as refusal:
        recognise(json.dumps({"model_id": "x", "request_throughput": 0, "output_throughput": 0}))
    assert refusal.value.code == "results_without_figures"


@settings(max_examples=150)
@given(st.sampled_from(DOCUMENTS), st.data(), JSON)
def test_whatever_stands_in_a_place_nothing_but_a_refusal_comes_of_it(
    name: str, draws: st.DataObject, value: Any
) -> None:
    text = data(name).decode()
    document = json.loads(text.splitlines()[0] if name.endswith("jsonl") else text)
    place = document
    for _ in range(draws.draw(st.integers(0, 5))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        inner = [key for key in keys if isinstance(place[key], (dict, list)) and place[key]]
        if not inner:
            break
        place = place[draws.draw(st.sampled_from(inner))]
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    place[draws.draw(st.sampled_from(keys))] = value
    with contextlib.suppress(PlannerError):
        complete(recognise(json.dumps(document)), given_for(name))


@given(st.text(max_size=200), st.sampled_from(RESULTS), st.integers(0, 3000))
def test_noise_inside_a_file_never_breaks_it(noise: str, name: str, at: int) -> None:
    text = data(name).decode()
    at = min(at, len(text))
    with contextlib.suppress(PlannerError):
        complete(recognise(text[:at] + noise + text[at:]), given_for(name))
