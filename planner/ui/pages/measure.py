"""Measure: this machine, a server, a log or a file; predicted against measured, and the calibration it gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from planner.evaluation import Evaluation
from planner.ui.guard import guarded
from planner.ui.measure_device import device_tab
from planner.ui.measure_endpoint import endpoint_tab
from planner.ui.measure_files import import_tab, log_tab
from planner.ui.measure_result import result
from planner.ui.measure_run import run_state
from planner.ui.measure_saved import pick, show
from planner.ui.measure_shelf import jobs, owner, shelf
from planner.ui.measure_switch import measuring_is_on, sharing_is_on
from planner.ui.state import language, plain
from planner.ui.widgets import draw, h, t

if TYPE_CHECKING:
    from streamlit.elements.lib.mutable_tab_container import TabContainer

SEEN_KEY = "measure_seen"
TAB_KEY = "measure_tab_at"
TABS = (
    ("device", device_tab),
    ("endpoint", endpoint_tab),
    ("log", log_tab),
    ("import", import_tab),
)


def draw_page(evaluation: Evaluation) -> None:
    draw_measure(evaluation)


def draw_without() -> None:
    """The page where the scenario has no answer: measuring doesn't depend on it."""
    draw_measure(None)


def draw_measure(evaluation: Evaluation | None) -> None:
    draw(f'<p class="hr-intro">{h("measure.about")}</p>')
    if measuring_is_on():
        jobs().collect_left_behind()
        run_state()
    _take_new()
    for tab, (name, draw_tab) in zip(_tabs(), TABS, strict=True):
        with tab, guarded(f"measure-{name}"):
            draw_tab()
    st.subheader(t("measure.saved_title"), anchor="saved")
    with guarded("measure-saved"):
        if (record := pick()) is not None:
            result(record, evaluation)


def _tabs() -> Sequence[TabContainer]:
    """The tabs, the open one staying open whatever appears above it and in whichever language."""
    labels = [plain(f"measure.tab_{name}") for name, _ in TABS]
    last = st.session_state.get(TAB_KEY, 0)
    tabs = st.tabs(
        labels, default=labels[last], key=f"measure_tabs_{language()}", on_change="rerun"
    )
    st.session_state[TAB_KEY] = next((i for i, tab in enumerate(tabs) if tab.open), last)
    return tabs


def _take_new() -> None:
    """Shows what the last run found, once; on a server with users only to whoever started it."""
    view = jobs().view() if measuring_is_on() else None
    if view is None or view.record is None or view.key is None:
        return
    if not sharing_is_on() and view.owner != owner():
        return
    run = (view.owner, view.started_at)
    if st.session_state.get(SEEN_KEY) == run:
        return
    st.session_state[SEEN_KEY] = run
    show(view.key if sharing_is_on() else shelf().save_new(view.record)[0])
