"""The summary of `vllm bench sweep serve`: one CSV of all its runs, whose columns are the names of a run's own file."""

from __future__ import annotations

from itertools import islice
from typing import Any

from planner.measure.readers.untrusted import csv_rows, json_of, number_in

NAMES = frozenset({"model_id", "request_throughput", "output_throughput"})
MAX_RUNS = 10_000


def is_serve_table(first_line: str) -> bool:
    """The line of names of such a table."""
    return set(first_line.strip().split(",")) >= NAMES


def runs_of_csv(text: str) -> tuple[list[dict[str, Any]], int]:
    """The runs as their own files have them, and how many lines aren't whole.

    What follows the last line break may have been cut, a number into a shorter one. A cell holds the times of some
    6,500 requests at most; the runs' own files have no such bound.
    """
    whole, _, _ = text.rpartition("\n")
    rows = csv_rows(whole)
    names = next(rows, [])
    found = [
        dict(zip(names, map(_value, cells), strict=True))
        for cells in islice(rows, MAX_RUNS)
        if len(cells) == len(names)
    ]
    lines = sum(bool(line.strip()) for line in text.splitlines()) - 1
    return found, max(lines - len(found), 0)


def _value(cell: str) -> Any:
    """A cell as JSON would have it: nothing, a number, a list, else text."""
    if cell == "":
        return None
    if cell.startswith("["):
        try:
            return json_of(cell)
        except ValueError:
            return None
    number = number_in(cell)
    return cell if number is None else number
