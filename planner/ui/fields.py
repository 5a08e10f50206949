"""Widgets of the sidebar: each shows a field of the scenario and writes to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import streamlit as st

from planner.ui import choices, state
from planner.ui.locale.numbers import format_value
from planner.ui.widgets import shown, t

SELECTS = ("engine",)  # fields that a select leaves to their default
NOBODY_CHOSE = ""  # the option of a select that leaves a field to its default


def take(field: str, name: str, key: str, options: Collection[object] | None = None) -> None:
    """Writes what a widget was set to into the scenario.

    Args:
        options: what it may be; words that aren't an option's any more are no choice.
    """
    chosen = state.chosen(name, key)
    if chosen is not state.NOTHING and (options is None or chosen in options):
        state.change(**{field: None if chosen == NOBODY_CHOSE else chosen})


def shows(field: str, suffix: str = "", said: object = None) -> dict[str, Any]:
    """Key and callback of a widget for a field; the widget shows the field's value from here on.

    Args:
        said: what its words depend on, where it has options.
    """
    name = field + suffix
    key = state.showing(name, state.values()[field], said)
    return {"key": key, "on_change": take, "args": (field, name, key)}


def select(field: str, labels: dict[str, str], *, help_key: str, value: str | None = None) -> None:
    """A select of ids that are shown under their labels.

    Args:
        value: the one it shows; None: the field's.
    """
    if value is None:
        value = state.values()[field]
    if value is None and field in SELECTS:
        value = NOBODY_CHOSE
    key = state.showing(field, value, labels.get(str(value)))
    st.selectbox(
        state.plain(f"field.{field}"),
        list(labels),
        format_func=labels.__getitem__,
        help=t(help_key),
        placeholder=state.plain("sidebar.choose"),
        key=key,
        on_change=take,
        args=(field, field, key, list(labels)),
    )


def integer(
    field: str, *, most: int, default: object = None, help_key: str = "", least: int = 1
) -> None:
    """A whole number that may stay empty: the default is then shown in grey."""
    st.number_input(
        t(f"field.{field}"),
        min_value=least,
        max_value=most,
        value=None,
        step=1,
        placeholder=default_text(default),
        help=t(help_key) if help_key else None,
        **shows(field),
    )


def default_text(value: object) -> str:
    """What an empty field says: its default where that is a number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        kind = "count" if isinstance(value, int) else "number"
        return state.plain("sidebar.default", value=shown(value, kind))
    return state.plain("sidebar.default_plain")


def magnitude(field: str, all_stops: Sequence[int], limit: int | None, most: int) -> None:
    """A slider over orders of magnitude with a field for the exact value beside it."""
    current = state.values()[field]
    label = state.plain(f"field.{field}")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", wrap=False):
        st.select_slider(
            label,
            choices.stops(all_stops, current, limit),
            format_func=partial(format_value, kind="count", language=state.language()),
            **shows(field, "_slider", state.language()),
        )
        with st.container(key=f"exact-{field}", width="content"):
            st.number_input(
                state.plain("sidebar.exactly", what=label),
                min_value=1,
                max_value=most,
                step=1,
                label_visibility="collapsed",
                width=92,
                **shows(field),
            )


def amount(field: str, default: float | None = None) -> None:
    """A real number that may stay empty: the default is then shown in grey, where there is one."""
    st.number_input(
        t(f"field.{field}"),
        min_value=0.1, max_value=100_000.0, value=None, step=1.0,
        placeholder=default_text(default),
        help=t(f"help.{field}"),
        **shows(field),
    )  # fmt: skip
