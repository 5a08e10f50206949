"""Runs of a file that nobody can have made, left out by name so that the others can be used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.catalog.measurements import RATE, is_sane, sane_range
from planner.errors import InvalidInput, Note, brief
from planner.measure.readers.results import ResultRow, ResultsReading
from planner.scenario import MAX_CONCURRENCY, MAX_TOKENS

MOST_NAMED = 20  # runs of one figure
WORKLOAD = {
    "input_tokens": MAX_TOKENS,
    "output_tokens": MAX_TOKENS,
    "concurrency": MAX_CONCURRENCY,
}


def within_limits(reading: ResultsReading, field: str) -> ResultsReading:
    """The reading without runs of which a figure lies beyond its limits; a note for each such figure names them.

    Raises:
        InvalidInput: where none is left, naming the first run and its figure.
    """
    wrong = {id(row): next(_beyond(row), None) for row in reading.rows}
    left = tuple(row for row in reading.rows if wrong[id(row)] is None)
    by_figure: dict[str, list[tuple[int, float]]] = {}
    for row in reading.rows:
        if (found := wrong[id(row)]) is not None:
            by_figure.setdefault(found[0], []).append((row.run, found[1]))
    if reading.rows and not left:
        name, runs = next(iter(by_figure.items()))
        (run, value), (least, most) = runs[0], _limits(name)
        raise InvalidInput(
            "measurement_row_out_of_range",
            field=field,
            row=run,
            figure=name,
            given=brief(value),
            least=least,
            most=most,
        )
    notes = [_note(name, runs) for name, runs in by_figure.items()]
    return replace(reading, rows=left, notes=(*reading.notes, *notes))


def _beyond(row: ResultRow) -> Iterator[tuple[str, float]]:
    """Figures of a run, and what its load was, that lie beyond their limits."""
    for name, figure in row.measured.items():
        ends = (figure.spread.median, figure.spread.low, figure.spread.high)
        yield from ((name, value) for value in ends if not is_sane(name, value))
    if row.request_rate_per_s is not None and not is_sane(RATE, row.request_rate_per_s):
        yield RATE, row.request_rate_per_s
    yield from ((name, value) for name, value in row.workload.items() if value > WORKLOAD[name])


def _limits(name: str) -> tuple[float, float]:
    return (1.0, float(WORKLOAD[name])) if name in WORKLOAD else sane_range(name)


def _note(name: str, runs: list[tuple[int, float]]) -> Note:
    least, most = _limits(name)
    # One run can give two rows, such as rates and times.
    given = dict.fromkeys(f"{run} ({brief(value)})" for run, value in runs)
    named = [*given][:MOST_NAMED] + (["…"] if len(given) > MOST_NAMED else [])
    values = {"figure": name, "runs": tuple(named), "left": len(given)}
    return Note("results_out_of_range", {**values, "least": least, "most": most})
