"""The comparison as a data frame: columns, cells in the visitor's language, and what all rows have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from planner.compare.objectives import JUDGED, Met, Objectives, judged, verdict_on
from planner.compare.table import Row
from planner.errors import Note, PlannerError
from planner.quantity import Basis, Estimate
from planner.ui.locale import say_error, say_note, text
from planner.ui.locale.numbers import format_value, significant
from planner.ui.widgets import BASIS_MARKS, MET_MARKS, VERDICT_MARKS

NONE = "–"
WHY_NOT, OBJECTIVES = "why_not", "objectives"
NAME = "accelerator"
FIRST_COLUMNS = 3  # who, whether, how many


class Cell(float):
    """A number that sorts as itself and reads as its text, or in brief without its range."""

    text: str
    brief: str

    def __new__(cls, value: float, text: str, brief: str | None = None) -> Cell:
        cell = super().__new__(cls, value)
        cell.text, cell.brief = text, text if brief is None else brief
        return cell


NOTHING = Cell(math.inf, NONE)


def say_plain(reason: Note | PlannerError, language: str) -> str:
    """A reason as plain text."""
    said = say_note(reason, language) if isinstance(reason, Note) else say_error(reason, language)
    return said.replace("**", "")


# --- Cells: each takes the language, so that a thousand of them don't ask for it -------------------------------------


def _number(value: float, kind: str, language: str) -> Cell:
    return Cell(value, format_value(value, kind, language))


def _estimate(estimate: Estimate | None, kind: str, language: str) -> Cell | None:
    """The middle, and behind it the range with the unit once."""
    if estimate is None:
        return None
    low, mid, high = (
        format_value(end, kind, language) for end in (estimate.low, estimate.mid, estimate.high)
    )
    if low == high:
        return Cell(float(estimate.mid), mid)
    number, _, unit = low.rpartition(" ")
    span = f"{number if number and high.endswith(f' {unit}') else low} – {high}"
    return Cell(float(estimate.mid), f"{mid} ({span})", mid)


def _speed(name: str, kind: str) -> Callable[[Row, str], Cell | None]:
    """A speed, where the engine comes up at all."""
    return lambda row, language: (
        _estimate(getattr(row.speed, name), kind, language) if row.speed and row.starts else None
    )


def _money(name: str) -> Callable[[Row, str], Cell | None]:
    """What tokens cost, under the same condition."""
    return lambda row, language: _price(getattr(row, name), language) if row.starts else None


def _hour_price(row: Row, language: str) -> Cell | None:
    return _price(row.usd_per_hour, language)


def _price(estimate: Estimate | None, language: str) -> Cell | None:
    """A price with its range to two digits, so that a column of them has room beside the speeds."""
    if estimate is None:
        return None
    low, mid, high = (
        significant(float(end), language, 2) for end in (estimate.low, estimate.mid, estimate.high)
    )
    return Cell(float(estimate.mid), mid if low == high else f"{mid} ({low} – {high})", mid)


def _verdict(row: Row, language: str) -> str:
    if row.verdict is None:
        return f"{NONE} {text('compare.no_answer', language)}"
    return f"{VERDICT_MARKS[row.verdict]} {text(f'verdict.{row.verdict}', language)}"


def _basis(row: Row, language: str) -> str | None:
    if row.speed is None:
        return None
    basis: Basis = row.speed.ttft_s.basis
    return f"{BASIS_MARKS[basis]} {text(f'basis.{basis.label}', language)}"


def _room(row: Row, language: str) -> Cell | None:
    return None if row.room is None else _number(float(row.room.mid), "count", language)


def _limited_by(row: Row, language: str) -> str | None:
    """What limits the tokens after the first, or the pass where there are none."""
    return text(f"limit.{row.speed.bound_by}", language) if row.speed and row.starts else None


def _why_not(row: Row, language: str) -> str:
    return say_plain(row.obstacle, language) if row.obstacle else ""


def _rent(row: Row, language: str) -> str:
    return text("compare.yes" if row.can_rent else "compare.no", language)


def _class(row: Row, language: str) -> str:
    return text(f"compare.class_{row.accelerator.accelerator_class}", language)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table; its label is `compare.column_<name>`, its explanation `compare.about_<name>`.

    Attributes:
        cell: of a row in a language; None for nothing.
        less_is_better: sorting begins with the smallest, and what has none comes last.
    """

    name: str
    cell: Callable[[Row, str], Any]
    number: bool = False
    less_is_better: bool = False


COLUMNS = (
    Column(NAME, lambda row, _: row.accelerator.name),
    Column("verdict", _verdict),
    Column("gpus", lambda row, language: _number(row.gpus, "count", language), number=True),
    Column("each", _speed("decode_tokens_per_s", "number"), number=True),
    Column("output_price", _money("usd_per_million_output_tokens"), number=True, less_is_better=True),
    Column("ttft", _speed("ttft_s", "time"), number=True, less_is_better=True),
    Column("hour_price", _hour_price, number=True, less_is_better=True),
    Column("token_price", _money("usd_per_million_tokens"), number=True, less_is_better=True),
    Column(WHY_NOT, _why_not),
    Column("together", _speed("total_tokens_per_s", "number"), number=True),
    Column("limited_by", _limited_by),
    Column("room", _room, number=True),
    Column("engine", lambda row, _: row.engine_name or None),
    Column("rent", _rent),
    Column("vendor", lambda row, _: row.accelerator.vendor),
    Column("class", _class),
    Column("year", lambda row, _: Cell(row.accelerator.year, str(row.accelerator.year)), number=True),
    Column("basis", _basis),
    Column("price_date", lambda row, _: row.price.newest if row.price else None),
)  # fmt: skip


def columns_for(objectives: Objectives) -> tuple[Column, ...]:
    """All columns; with objectives one on how they are met, and a mark at figures that may miss theirs."""
    if not objectives:
        return COLUMNS

    def met(row: Row, language: str) -> str | None:
        verdict = verdict_on(row, objectives)
        return verdict and f"{MET_MARKS[verdict]} {text(f'compare.met_{verdict}', language)}"

    def marked(column: Column) -> Column:
        def cell(row: Row, language: str) -> Cell | None:
            found: Cell | None = column.cell(row, language)
            verdict = judged(row, objectives).get(column.name)
            if found is None or verdict is not Met.MAY_MISS:
                return found
            mark = MET_MARKS[verdict]
            return Cell(float(found), f"{mark} {found.text}", f"{mark} {found.brief}")

        return replace(column, cell=cell)

    columns = [marked(one) if one.name in JUDGED else one for one in COLUMNS]
    last = max(n for n, one in enumerate(columns) if one.name in JUDGED)
    columns.insert(last + 1, Column(OBJECTIVES, met))
    return tuple(columns)


def ordered(rows: Iterable[Row]) -> list[Row]:
    """What holds the workload first, the cheapest tokens first, then what has no price, the fastest first."""

    def rank(row: Row) -> tuple[bool, bool, float, float]:
        cost, speed = row.usd_per_million_tokens, row.speed
        return (
            not row.holds,
            cost is None,
            float(cost.mid) if cost else 0.0,
            -float(speed.total_tokens_per_s.mid) if speed else 0.0,
        )

    return sorted(rows, key=rank)


def frame_of(
    rows: Sequence[Row], language: str, columns: Sequence[Column] = COLUMNS
) -> pd.DataFrame:
    """The rows as a data frame of those columns, without the ones that nothing is in.

    Where nothing holds the scenario, what matters is why: then that comes before the figures.
    """
    cells = {column.name: [column.cell(row, language) for row in rows] for column in columns}
    names = [name for name in cells if any(one not in (None, "") for one in cells[name])]
    if WHY_NOT in names and not any(row.holds for row in rows):
        names.remove(WHY_NOT)
        names.insert(FIRST_COLUMNS, WHY_NOT)
    for column in columns:
        if column.less_is_better:
            # The browser takes what is empty for the smallest of all.
            cells[column.name] = [NOTHING if cell is None else cell for cell in cells[column.name]]
    # Of type object, so that a number keeps its text.
    return pd.DataFrame({name: pd.Series(cells[name], dtype=object) for name in names})


def as_text(cell: object) -> str:
    """What a cell says in full."""
    return cell.text if isinstance(cell, Cell) else str(cell)


def said_once(frame: pd.DataFrame) -> dict[str, str]:
    """Columns in which every row says the same, and what; their place is above the table."""
    texts = {str(name): {as_text(cell) for cell in frame[name]} for name in frame}
    several = len(frame) > 1
    return {name: min(said) for name, said in texts.items() if several and len(said) == 1}
