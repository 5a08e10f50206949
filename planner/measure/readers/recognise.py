"""Which tool wrote a file of results: told by what is in it, not by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.errors import InvalidInput, Note
from planner.measure.readers import (
    guidellm,
    llama_bench,
    perf_exports,
    serving_results,
    serving_table,
)
from planner.measure.readers.limits import within_limits
from planner.measure.readers.results import ResultsReading
from planner.measure.readers.untrusted import MAX_BYTES, MAX_LINE, json_of, text_of
from planner.measure.record import MAX_ROWS

Document = Mapping[str, Any]
EXPECTED = (
    "vllm bench serve, latency or throughput (JSON), sweep serve (JSON, CSV)",
    "SGLang bench_serving (JSONL)",
    "GuideLLM (benchmarks.json)",
    "AIPerf or GenAI-Perf (profile_export_aiperf or profile_export_genai_perf, JSON or CSV)",
    "llama-bench (JSON, JSONL, CSV, Markdown)",
)
LIST_READERS: tuple[
    tuple[Callable[[Document], bool], Callable[[Sequence[Document]], ResultsReading]], ...
] = (
    (serving_results.is_vllm_serve, serving_results.read_vllm_serve),
    (serving_results.is_sglang_serve, serving_results.read_sglang_serve),
    (serving_results.is_vllm_latency, serving_results.read_vllm_latency),
    (serving_results.is_vllm_throughput, serving_results.read_vllm_throughput),
    (llama_bench.is_llama_bench, llama_bench.read_llama_bench),
)
ONE_READERS: tuple[tuple[Callable[[Document], bool], Callable[[Document], ResultsReading]], ...] = (
    (guidellm.is_guidellm, guidellm.read_guidellm),
    (perf_exports.is_perf_export, perf_exports.read_perf_json),
    (perf_exports.is_perf_sweep, perf_exports.read_perf_sweep),
)
LLAMA_BENCH_CSV = ("build_commit,", '"build_commit",')


def recognise(
    data: bytes | str, field: str = "results", *, limit_bytes: int = MAX_BYTES
) -> ResultsReading:
    """Results of another tool, as read.

    Args:
        limit_bytes: the largest that is read.

    Raises:
        InvalidInput: where it is too big, empty, cut short, of no tool that is read, or without a figure.
    """
    text = text_of(data, field, limit_bytes)
    try:
        reading = _read(text, field)
    except RecursionError:  # in comparing or showing what only just could be parsed
        raise _not_json(field) from None
    if not reading.rows:
        raise InvalidInput("results_without_figures", field=field, tool=reading.tool)
    return within_limits(reading, field)


def _read(text: str, field: str) -> ResultsReading:
    start = text.lstrip()
    if start[0] in "[{":
        return _from_json(text, field)
    if start.startswith(LLAMA_BENCH_CSV) or ("build_number" in start.partition("\n")[0]):
        return _from_tests(llama_bench.tests_of_csv(text), field)
    if serving_table.is_serve_table(start[:MAX_LINE].partition("\n")[0]):
        return _from_documents(*serving_table.runs_of_csv(start), field)
    if start.startswith(perf_exports.CSV_START):
        return perf_exports.read_perf_csv(start)
    if "| t/s" in " ".join(start[:MAX_LINE].split()):
        return _from_tests(llama_bench.tests_of_markdown(text), field)
    raise _foreign(field)


def _from_tests(tests: Sequence[Document], field: str) -> ResultsReading:
    tests = [test for test in tests if llama_bench.is_llama_bench(test)]
    if not tests:
        raise InvalidInput("results_without_figures", field=field, tool="llama-bench")
    return llama_bench.read_llama_bench(tests[:MAX_ROWS])


def _from_json(text: str, field: str) -> ResultsReading:
    return _from_documents(*_documents(text, field), field)


def _from_documents(documents: Sequence[Document], cut: int, field: str) -> ResultsReading:
    for first in documents:
        for is_one, read_one in ONE_READERS:
            if is_one(first):
                return _telling(read_one(first), len(documents) - 1 + cut)
        for is_one, read in LIST_READERS:
            if is_one(first):
                mine = [one for one in documents if is_one(one)]
                return _telling(read(mine[:MAX_ROWS]), len(documents) - len(mine) + cut)
    raise _foreign(field)


def _telling(reading: ResultsReading, left: int) -> ResultsReading:
    """The reading with how many lines or objects of its file aren't in it."""
    if not left:
        return reading
    note = Note("results_lines_left_out", {"left": left})
    return replace(reading, notes=(*reading.notes, note))


def _documents(text: str, field: str) -> tuple[list[Document], int]:
    """The objects of a JSON document or of JSON lines, and how many lines weren't one."""
    try:
        data = json_of(text)
    except ValueError:
        data = None
    if isinstance(data, dict):
        return [data], 0
    if isinstance(data, list):
        return [one for one in data if isinstance(one, dict)], 0
    found: list[Document] = []
    broken = 0
    for line in text.split("\n", MAX_ROWS)[:MAX_ROWS]:
        if not line.strip():
            continue
        try:
            one = json_of(line)
        except ValueError:
            one = None
        if isinstance(one, dict):
            found.append(one)
        else:
            broken += 1
    if not found:
        raise _not_json(field)
    return found, broken


def _not_json(field: str) -> InvalidInput:
    return InvalidInput("results_not_json", field=field, expected="; ".join(EXPECTED))


def _foreign(field: str) -> InvalidInput:
    return InvalidInput("results_foreign", field=field, expected="; ".join(EXPECTED))
