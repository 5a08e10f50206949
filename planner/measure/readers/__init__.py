"""What other programs wrote: start-up logs of engines, and results of benchmark tools.

A log becomes a `LogReading`, which `compare_log` sets against the planner's prediction; results become a `Record`. All
of it comes from outside, and is read inside bounds (`untrusted.py`).
"""

from __future__ import annotations

from planner.errors import InvalidInput
from planner.measure.readers import llama_cpp_log, sglang_log, vllm_log
from planner.measure.readers.compare_log import LogComparison, LogRow, compare_log
from planner.measure.readers.complete import complete, missing_fields, read_results
from planner.measure.readers.log_reading import LogFigure, LogReading
from planner.measure.readers.recognise import recognise
from planner.measure.readers.results import ResultRow, ResultsReading, row_notes
from planner.measure.readers.untrusted import lines_of, text_of

__all__ = [
    "LogComparison",
    "LogFigure",
    "LogReading",
    "LogRow",
    "ResultRow",
    "ResultsReading",
    "compare_log",
    "complete",
    "missing_fields",
    "read_log",
    "read_results",
    "recognise",
    "row_notes",
]

READERS = {
    "vllm": (vllm_log.MARKERS, vllm_log.read_vllm_log),
    "sglang": (sglang_log.MARKERS, sglang_log.read_sglang_log),
    "llama.cpp": (llama_cpp_log.MARKERS, llama_cpp_log.read_llama_cpp_log),
}
EXPECTED_LOGS = ("vLLM", "SGLang", "llama.cpp")


def read_log(data: str | bytes, field: str = "log") -> LogReading:
    """A start-up log of vLLM, SGLang or llama.cpp, whole or in part.

    Raises:
        InvalidInput: where it is too big, empty, or no log of these.
    """
    text = text_of(data, field)
    counts = dict.fromkeys(READERS, 0)
    for _, line in lines_of(text):
        for tool, (markers, _) in READERS.items():
            counts[tool] += any(marker in line for marker in markers)
    best = max(counts, key=lambda tool: counts[tool])
    if not counts[best]:
        raise InvalidInput("log_foreign", field=field, expected=", ".join(EXPECTED_LOGS))
    return READERS[best][1](text)
