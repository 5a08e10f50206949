"""The comparison's table in the browser: it sorts by a click on a column, and ticked rows stand side by side below.

It is drawn in two sizes, of which the style sheet shows the one that there is room for: the server isn't told how wide
a page is.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pandas as pd
import streamlit as st

from planner.compare.objectives import Objectives
from planner.compare.table import Row
from planner.ui import state
from planner.ui.compare_table import (
    COLUMNS,
    NAME,
    NONE,
    OBJECTIVES,
    WHY_NOT,
    Cell,
    as_text,
    columns_for,
    frame_of,
    said_once,
)
from planner.ui.look import palette
from planner.ui.state import plain
from planner.ui.widgets import VERDICT_MARKS, draw, h, t

PINS_KEY = "compare_pins"
SHOWN_KEY = "compare_shown"
TABLE_KEY, NARROW_KEY = "compare-table", "compare-table-narrow"
MOST_PINS = 4
HEIGHT = 458  # twelve rows and the header
# Of a column (pixels): a character of words and one of figures, what stands around the text, and the most.
CHARACTER, DIGIT, AROUND, WIDEST, NAME_WIDEST = 6.3, 5.5, 20, 400, 165
ROOM = 745  # what columns have on a page of 1280 pixels, beside the ticks
# On a telephone of 360 pixels; its rows have three lines, in which names and verdicts wrap.
NARROW_ROOM, NARROW_ROW = 290, 66
NARROW_NAME, NARROW_WORDS = 100, 66  # pixels: the least for a name, and for a verdict
FIGURES = ("each", "output_price", "ttft", "hour_price", "token_price")
BRIEF = ("verdict", *FIGURES)  # have a shorter label for a telephone


# --- Pins ------------------------------------------------------------------------------------------------------------


def pins(default: Sequence[str]) -> list[str]:
    """Ids of the accelerators that stand side by side; until the visitor has chosen, the default ones."""
    chosen: list[str] | None = st.session_state.get(PINS_KEY)
    return list(default) if chosen is None else chosen


def unpin(id_: str, before: Sequence[str]) -> None:
    """Takes one away; `before` are all pins there were, those that the chips hide among them."""
    st.session_state[PINS_KEY] = [one for one in before if one != id_]


def _take_ticks(key: str, before: Sequence[str]) -> None:
    """Rows ticked in a table become pins after those there are; pins that the table doesn't show stay.

    Where that is one too many, the oldest but the first, which the others are compared with, makes room.
    """
    shown_ids: list[str] = st.session_state[SHOWN_KEY]
    ticked = [shown_ids[index] for index in st.session_state[key]["selection"]["rows"]]
    kept = [id_ for id_ in before if id_ in ticked or id_ not in shown_ids]
    wanted = [*kept, *(id_ for id_ in ticked if id_ not in kept)]
    if len(wanted) > MOST_PINS:
        wanted = [wanted[0], *wanted[1 - MOST_PINS :]]
        st.toast(t("compare.most_pins", most=MOST_PINS), icon=":material/push_pin:")
    st.session_state[PINS_KEY] = wanted


# --- The two sizes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Size:
    """How the table is drawn on one kind of page.

    Attributes:
        columns: in order, with their widths (pixels).
        label: of a column.
        written: a figure as text.
        row_height: pixels; None for one line.
    """

    columns: Mapping[str, int]
    label: Callable[[str], str]
    written: Callable[[object], str]
    row_height: int | None = None


def draw_table(
    rows: Sequence[Row], pinned: Sequence[str], objectives: Objectives, *, every_column: bool
) -> None:
    """The table, with the pinned rows ticked, and above it what all rows have in common.

    Args:
        every_column: all of them in a table that moves sideways; else as many as there is room for.
    """
    ids = [row.accelerator.id for row in rows]
    st.session_state[SHOWN_KEY] = ids
    frame = frame_of(rows, state.language(), columns_for(objectives))
    same = said_once(frame)
    if same:
        told = [
            f"{h(f'compare.column_{name}')}: <b>{html.escape(said)}</b>"
            for name, said in same.items()
        ]
        draw(f'<p class="hr-about">{h("compare.same")} {" · ".join(told)}</p>')
    names = [str(name) for name in frame if name not in same]
    widths = {name: _width(name, frame[name]) for name in names}
    ticks = [ids.index(id_) for id_ in pinned if id_ in ids]
    with st.container(key="compare-wide"):
        shown = widths if every_column else _that_fit(widths, ROOM)
        _draw(frame, _Size(shown, _label, as_text), TABLE_KEY, ticks, pinned)
    if every_column:
        return
    with st.container(key="compare-narrow"):
        if "gpus" in names:
            deployments = [
                plain("compare.deployment", gpus=row.gpus, card=row.accelerator.name)
                for row in rows
            ]
            frame = frame.assign(**{NAME: pd.Series(deployments, dtype=object)})
        size = _narrow(frame, names)
        _draw(frame[list(size.columns)], size, NARROW_KEY, ticks, pinned)


def _narrow(frame: pd.DataFrame, names: Sequence[str]) -> _Size:
    """Who, whether, and the figures without their ranges, as far as a telephone has room; or who, and why not."""
    if WHY_NOT in names and not {*names[: names.index(WHY_NOT)]} & {*FIGURES}:
        widths = {NAME: NARROW_NAME, WHY_NOT: NARROW_ROOM - NARROW_NAME}
        return _Size(widths, _label, _brief, NARROW_ROW)
    widths = {NAME: NARROW_NAME}
    if "verdict" in names:
        widths["verdict"] = NARROW_WORDS
    for name in (name for name in names if name in FIGURES):
        longest = max((len(_brief(cell)) for cell in frame[name].dropna()), default=0)
        label = CHARACTER * len(_brief_label(name))
        widths[name] = round(max(DIGIT * longest, label) + AROUND)
    fitting = _that_fit(widths, NARROW_ROOM)
    fitting[NAME] += NARROW_ROOM - sum(fitting.values())
    return _Size(fitting, _brief_label, _brief, NARROW_ROW)


def _that_fit(widths: Mapping[str, int], room: int) -> dict[str, int]:
    """The first columns that stand beside each other without a move sideways."""
    ends = accumulate(widths.values())
    return {name: widths[name] for name, end in zip(widths, ends, strict=True) if end <= room}


def _width(name: str, cells: pd.Series[Any]) -> int:
    """A width at which nothing is cut off, within reason (pixels)."""
    longest = max((len(as_text(cell)) for cell in cells.dropna()), default=0)
    number = any(column.number for column in COLUMNS if column.name == name)
    written = (DIGIT if number else CHARACTER) * longest
    most = NAME_WIDEST if name == NAME else WIDEST
    return round(min(max(written, CHARACTER * len(_label(name))) + AROUND, most))


def _label(name: str) -> str:
    return plain(f"compare.column_{name}")


def _brief_label(name: str) -> str:
    return plain(f"compare.brief_{name}") if name in BRIEF else _label(name)


def _brief(cell: object) -> str:
    return cell.brief if isinstance(cell, Cell) else str(cell)


# --- Drawing ---------------------------------------------------------------------------------------------------------


def _draw(
    frame: pd.DataFrame, size: _Size, key: str, ticks: Sequence[int], pinned: Sequence[str]
) -> None:
    numbers = [column.name for column in COLUMNS if column.number and column.name in frame]
    st.session_state[key] = {"selection": {"rows": list(ticks), "columns": [], "cells": []}}
    verdicts: list[Hashable] = [name for name in ("verdict", OBJECTIVES) if name in frame]
    styled = frame.style.format(dict.fromkeys(numbers, size.written))
    st.dataframe(
        styled.apply(_tones, subset=verdicts) if verdicts else styled,
        key=key,
        height=HEIGHT,
        row_height=size.row_height,
        hide_index=True,
        column_config={
            name: _config(name, size.label(name), width, number=name in numbers)
            for name, width in size.columns.items()
        },
        column_order=list(size.columns),
        on_select=lambda: _take_ticks(key, pinned),
        selection_mode="multi-row",
        placeholder=NONE,
        alt=plain("compare.table_alt", number=len(frame)),
    )


def _config(name: str, label: str, width: int, *, number: bool) -> Any:
    """Label, explanation and width."""
    kind = st.column_config.NumberColumn if number else st.column_config.TextColumn
    # Who it is stays where it is when the table moves sideways.
    return kind(label, help=plain(f"compare.about_{name}"), width=width, pinned=name == NAME)


def _tones(verdicts: pd.Series[Any]) -> list[str]:
    """The colours of verdicts; their marks and words say the same."""
    colours = palette()
    tones = {"fits": colours.green, "tight": colours.amber, "does_not_fit": colours.red}
    by_mark = {
        VERDICT_MARKS[verdict]: f"color: {tone}; font-weight: 600"
        for verdict, tone in tones.items()
    }
    return [by_mark.get(str(verdict)[0], f"color: {colours.grey}") for verdict in verdicts]
