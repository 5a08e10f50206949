"""A measurement in words: its rows, figures, conditions and errors, in the visitor's language."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from planner.errors import Note
from planner.measure.comparison import Compared
from planner.measure.readers.results import row_notes
from planner.measure.record import Figure, Record, Row, Spread
from planner.quantity import Estimate
from planner.ui.coded import coded, reason_values
from planner.ui.locale import catalogue
from planner.ui.state import language, plain
from planner.ui.widgets import h, note_html, range_text, shown, table_html

MOST_SHOWN = 500  # runs or figures, beyond which a browser gets slow and nobody reads them
Item = TypeVar("Item")
ON_CPU = "cpu"  # said by the headline's device
# How a measured figure is written, by what its name ends with.
KINDS = (
    ("_tokens_per_s", "rate"),
    ("_bytes_per_token", "bytes"),
    ("_bytes", "gib"),
    ("_s", "time"),
)


def kind_of(quantity: str) -> str:
    """Format of a quantity's numbers."""
    return next(kind for ending, kind in KINDS if quantity.endswith(ending))


def figure_words(one: Compared) -> str:
    """Which run and which of its figures, as HTML."""
    return f"{html.escape(one.row)}: {h(f'measure.quantity.{one.quantity}')}"


def figure_name(name: str) -> str:
    """A micro-benchmark by its name, as HTML; one of a later version as it stands."""
    return _coded(f"measure.figure.{name}", {"code": name.replace("_", " ")})


def row_words(row: Row) -> str:
    """A run by its scenario, as HTML."""
    said = row.scenario
    known = (said.get("model"), said.get("dtype", said.get("weights")))
    return h(
        "measure.row",
        what=", ".join(str(one) for one in known if one) or "–",
        input=stated(row, "input_tokens"),
        output=stated(row, "output_tokens"),
        batch=stated(row, "concurrency", 1),
    )


def stated(row: Row, name: str, usual: int = 0) -> int:
    """A whole number of a row's scenario; what is usual where it states none, or something else."""
    try:
        return int(float(row.scenario.get(name, usual)))
    except (ValueError, OverflowError):
        return usual


def spread_words(spread: Spread, kind: str) -> str:
    """Median and range of a measured figure, as HTML."""
    low, high = shown(spread.low, kind), shown(spread.high, kind)
    median = shown(spread.median, kind)
    return html.escape(median if low == high else f"{median} ({low} – {high})")


def _estimate_words(estimate: Estimate | None, kind: str) -> str:
    if estimate is None:
        return "–"
    span = range_text(estimate, kind)
    return html.escape(shown(float(estimate.mid), kind) + (f" ({span})" if span else ""))


def signed(fraction: float | None) -> str:
    """An error with its sign: above or below what was measured."""
    if fraction is None:
        return "–"
    return ("+" if fraction > 0 else "") + shown(fraction, "percent")


def compared_head() -> tuple[str, ...]:
    """Head of the table of `compared_cells`."""
    columns = ("run", "figure", "measured", "before", "before_error", "after", "after_error")
    return tuple(h(f"measure.column.{name}") for name in columns)


def compared_cells(one: Compared) -> tuple[str, ...]:
    """A measured figure beside both predictions."""
    kind = kind_of(one.quantity)
    marks = [h("measure.noisy_row")] if one.noisy else []
    marks += [h("measure.check_row")] if one.role == "check" else []
    run = html.escape(one.row) + (f" ({', '.join(marks)})" if marks else "")
    return (
        run,
        h(f"measure.quantity.{one.quantity}"),
        spread_words(one.measured, kind),
        _estimate_words(one.before, kind),
        signed(one.before_error_fraction),
        _estimate_words(one.after, kind),
        signed(one.after_error_fraction),
    )


def filled_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without the columns in which nothing stands; the first, which names the row, may take several lines."""
    return table_html(caption, *without_empty(head, rows), wrap=(0,), folds=True)


def without_empty(
    head: Sequence[str], rows: Iterable[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Head and rows without the columns in which every row has "–"."""
    every = list(rows)
    kept = [i for i in range(len(head)) if not every or any(row[i] != "–" for row in every)]
    return [head[i] for i in kept], [[row[i] for i in kept] for row in every]


def constant_words(file: str, key: str) -> str:
    """A fitted constant in words, and smaller its file and key, which the calibration's file has."""
    known = _known(language())
    names = (f"measure.constant.{part}" for part in key.split("."))
    word = next((h(name) for name in names if name in known), "")
    own = f"<small>{html.escape(f'{file}: {key}')}</small>"
    return f"{word}<br>{own}" if word else own


def size_words(figure: Figure) -> str:
    """What a micro-benchmark worked on: matrices of n by n, or bytes."""
    if figure.size is None:
        return "–"
    if figure.unit == "B/s":
        return html.escape(shown(float(figure.size), "bytes"))
    side = html.escape(shown(figure.size, "count"))
    return f"{side} × {side}" if figure.unit == "FLOP/s" else side


def reached_words(rows: Sequence[Row]) -> list[str]:
    """How much of the plan was measured, and which models weren't reached at all, as HTML; nothing where all was."""
    done = [row for row in rows if row.outcome == "measured"]
    if len(done) == len(rows):
        return []
    seen = {str(row.scenario.get("model", "?")) for row in done}
    models = dict.fromkeys(str(row.scenario.get("model", "?")) for row in rows)
    left = [name.rpartition("/")[2] for name in models if name not in seen]
    said = [h("measure.reached", done=len(done), all=len(rows))]
    return [*said, *([h("measure.not_reached", models=left)] if left else [])]


def condition_words(record: Record) -> list[str]:
    """What disturbed the machine, and what follows for its figures, as HTML; nothing where it was quiet."""
    if not record.conditions.noisy:
        return []
    said = "unsteady" if record.conditions.only_unsteady else "noisy"
    return [h(f"measure.{said}"), *map(_reason, record.conditions.reasons)]


def _reason(said: Mapping[str, str | int | float]) -> str:
    return _coded(f"measure.noise.{said.get('code')}", reason_values(said, language()))


def evenly(figures: Sequence[Item]) -> Sequence[Item]:
    """As many as a page can show, evenly spread over all of them, the first and the last among them."""
    if len(figures) <= MOST_SHOWN:
        return figures
    last = len(figures) - 1
    return [figures[number * last // (MOST_SHOWN - 1)] for number in range(MOST_SHOWN)]


def some_words(number: int) -> str:
    """That not all of so many are shown, as HTML; nothing where they are."""
    if number <= MOST_SHOWN:
        return ""
    said = h("measure.shown_some", shown=MOST_SHOWN, all=number)
    return f'<p class="hr-about">{said}</p>'


def note_words(codes: Iterable[str]) -> list[str]:
    """What a record's codes say, as HTML."""
    known = _known(language())
    keys = {code: f"note.{code}" for code in codes if code != ON_CPU}
    return [
        _coded(key if key in known else f"measure.note.{code}", {"code": code})
        for code, key in keys.items()
    ]


def row_note_words(row: Row) -> list[str]:
    """What a row's codes say, as HTML, but for those that `import_words` says once for all rows."""
    return [_row_note(code) for code in row.notes if not code.startswith("imported_")]


def _row_note(code: str) -> str:
    head, _, rest = code.partition(":")
    own = f"measure.row_note.{head}"
    if own not in _known(language()):
        return _coded(f"measure.note.{code}", {"code": code})
    *slices, whole = rest.split(",")
    return _coded(own, {"code": code, "slices": " + ".join(slices), "whole": whole})


def import_words(record: Record) -> list[str]:
    """What to know about imported rows, as HTML."""
    if record.origin != "imported":
        return []
    found = [note for note in row_notes(record.rows) if note.code.startswith("imported")]
    found = [note for note in found if f"note.{note.code}" in _known(language())]
    return [note_html(_with_labels(note)) for note in found]


def _with_labels(note: Note) -> Note:
    """The note with its figures called as in the tables."""
    names = note.values.get("quantities")
    if not isinstance(names, tuple):
        return note
    known = _known(language())
    keys = {name: f"measure.quantity.{name}" for name in names}
    told = tuple(plain(key) if key in known else name for name, key in keys.items())
    return Note(note.code, {**note.values, "quantities": told})


def _coded(key: str, said: Mapping[str, str | int | float]) -> str:
    """A code with values as its sentence; a code of a later version as it stands."""
    return coded(key, said, language(), h) or html.escape(str(said.get("code", "?")))


@lru_cache(maxsize=4)
def _known(spoken: str) -> frozenset[str]:
    return frozenset(catalogue(spoken))
