"""The comparison as a table that sorts by a click on a column, and whose ticked rows stand side by side below."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pandas as pd
import streamlit as st

from planner.compare.objectives import JUDGED, Met, Objectives, judged, verdict_on
from planner.compare.table import Row
from planner.errors import Note, PlannerError
from planner.quantity import Basis, Estimate
from planner.ui import state
from planner.ui.locale import say_error, say_note, text
from planner.ui.locale.numbers import format_value, significant
from planner.ui.look import palette
from planner.ui.state import plain
from planner.ui.widgets import BASIS_MARKS, MET_MARKS, VERDICT_MARKS, t

PINS_KEY = "compare_pins"
SHOWN_KEY = "compare_shown"
TABLE_KEY = "compare-table"
MOST_PINS = 4
HEIGHT = 458  # twelve rows and the header
NONE = "–"
WHY_NOT, OBJECTIVES = "why_not", "objectives"
PINNED = "accelerator"  # stays where it is when the table moves sideways
FIRST_COLUMNS = 3  # who, whether, how many
# Of a column (pixels): a character of words and one of figures, what stands around the text, and the most.
CHARACTER, DIGIT, AROUND, WIDEST, PINNED_WIDEST = 6.3, 5.5, 20, 400, 165
ROOM = 745  # what columns have on a page of 1280 pixels, beside the ticks


class Cell(float):
    """A number that sorts as itself and reads as its text."""

    text: str

    def __new__(cls, value: float, text: str) -> Cell:
        cell = super().__new__(cls, value)
        cell.text = text
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
    return Cell(float(estimate.mid), f"{mid} ({span})")


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
    return Cell(float(estimate.mid), mid if low == high else f"{mid} ({low} – {high})")


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
    Column("accelerator", lambda row, _: row.accelerator.name),
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
            return Cell(float(found), f"{MET_MARKS[verdict]} {found.text}")

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


# --- Pins ------------------------------------------------------------------------------------------------------------


def pins(default: Sequence[str]) -> list[str]:
    """Ids of the accelerators that stand side by side; until the visitor has chosen, the default ones."""
    chosen: list[str] | None = st.session_state.get(PINS_KEY)
    return list(default) if chosen is None else chosen


def unpin(id_: str, before: Sequence[str]) -> None:
    """Takes one away; `before` are all pins there were, those that the chips hide among them."""
    st.session_state[PINS_KEY] = [one for one in before if one != id_]


def _take_ticks(before: Sequence[str]) -> None:
    """Ticked rows become pins after those there are; pins that the table doesn't show stay.

    Where that is one too many, the oldest but the first, which the others are compared with, makes room.
    """
    shown_ids: list[str] = st.session_state[SHOWN_KEY]
    ticked = [shown_ids[index] for index in st.session_state[TABLE_KEY]["selection"]["rows"]]
    kept = [id_ for id_ in before if id_ in ticked or id_ not in shown_ids]
    wanted = [*kept, *(id_ for id_ in ticked if id_ not in kept)]
    if len(wanted) > MOST_PINS:
        wanted = [wanted[0], *wanted[1 - MOST_PINS :]]
        st.toast(t("compare.most_pins", most=MOST_PINS), icon=":material/push_pin:")
    st.session_state[PINS_KEY] = wanted


# --- Drawing ---------------------------------------------------------------------------------------------------------


def draw_table(
    rows: Sequence[Row], pinned: Sequence[str], objectives: Objectives, *, every_column: bool
) -> None:
    """The table, with the pinned rows ticked; without `every_column` as many columns as a small screen has room for."""
    ids = [row.accelerator.id for row in rows]
    st.session_state[SHOWN_KEY] = ids
    ticks = [ids.index(id_) for id_ in pinned if id_ in ids]
    st.session_state[TABLE_KEY] = {"selection": {"rows": ticks, "columns": [], "cells": []}}
    known = columns_for(objectives)
    frame = frame_of(rows, state.language(), known)
    by_name = {column.name: column for column in known}
    columns = [by_name[str(name)] for name in frame]
    numbers = [column.name for column in columns if column.number]
    verdicts: list[Hashable] = [name for name in ("verdict", OBJECTIVES) if name in frame]
    widths = {column.name: _width(column, frame[column.name]) for column in columns}
    st.dataframe(
        frame.style.format(dict.fromkeys(numbers, _as_text)).apply(_tones, subset=verdicts),
        key=TABLE_KEY,
        height=HEIGHT,
        hide_index=True,
        column_config={column.name: _config(column, widths[column.name]) for column in columns},
        column_order=list(widths) if every_column else _that_fit(widths),
        on_select=lambda: _take_ticks(pinned),
        selection_mode="multi-row",
        placeholder=NONE,
        alt=plain("compare.table_alt", number=len(rows)),
    )


def _as_text(cell: object) -> str:
    return cell.text if isinstance(cell, Cell) else str(cell)


def _width(column: Column, cells: pd.Series[Any]) -> int:
    """A width at which nothing is cut off, within reason (pixels)."""
    longest = max((len(_as_text(cell)) for cell in cells.dropna()), default=0)
    written = (DIGIT if column.number else CHARACTER) * longest
    label = CHARACTER * len(plain(f"compare.column_{column.name}"))
    most = PINNED_WIDEST if column.name == PINNED else WIDEST
    return round(min(max(written, label) + AROUND, most))


def _that_fit(widths: Mapping[str, int]) -> list[str]:
    """The first columns that stand beside each other without a move sideways."""
    ends = accumulate(widths.values())
    return [name for name, end in zip(widths, ends, strict=True) if end <= ROOM]


def _config(column: Column, width: int) -> Any:
    """Label, explanation and width."""
    kind = st.column_config.NumberColumn if column.number else st.column_config.TextColumn
    return kind(
        plain(f"compare.column_{column.name}"),
        help=plain(f"compare.about_{column.name}"),
        width=width,
        pinned=column.name == PINNED,
    )


def _tones(verdicts: pd.Series[Any]) -> list[str]:
    """The colours of verdicts; their marks and words say the same."""
    colours = palette()
    tones = {"fits": colours.green, "tight": colours.amber, "does_not_fit": colours.red}
    by_mark = {
        VERDICT_MARKS[verdict]: f"color: {tone}; font-weight: 600"
        for verdict, tone in tones.items()
    }
    return [by_mark.get(str(verdict)[0], f"color: {colours.grey}") for verdict in verdicts]
