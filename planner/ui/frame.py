"""Around every page: navigation, language, presets, undo, the sidebar; and what stands in for a page without answer."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from planner.errors import PlannerError
from planner.evaluation import Evaluation
from planner.ui import state, widgets
from planner.ui.guard import guarded
from planner.ui.locale import LANGUAGES
from planner.ui.pages import PAGES, PageEntry
from planner.ui.permalink import DEFAULTS
from planner.ui.presets import PRESETS, preset_of
from planner.ui.sidebar import sidebar as draw_sidebar
from planner.ui.widgets import draw, t

# A card, filled most of the way: what the program is about. Drawn here, so that no icon is fetched from anywhere.
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><rect x="2" y="2" width="20" height="20" rx="5" '
    'fill="none" stroke="#0b6fa4" stroke-width="3"/><path d="M6 11h12v7H6z" fill="#0b6fa4"/></svg>'
)
LANGUAGE_NAMES = {"en": "English", "es": "Español"}


def pages() -> list[StreamlitPage]:
    """Every page, ready for `st.navigation`; the first is the one that a bare address opens."""
    found = [
        st.Page(
            _guarded(entry),
            title=state.plain(f"nav.{entry.path}"),
            icon=entry.icon,
            url_path=entry.path,
            default=number == 0,
        )
        for number, entry in enumerate(PAGES)
    ]
    widgets.know_pages(found)
    return found


def _guarded(entry: PageEntry) -> Callable[[], None]:
    """Draws a page, or what stands in its place: refusals and the way out of them, or an apology."""

    def page() -> None:
        wrong = state.problems()
        if wrong and not entry.draw_without:
            for field, error in wrong.items():
                widgets.refusal(error, field)
            return
        with guarded(entry.path):
            answer = None if wrong else state.answer()
            try:
                if isinstance(answer, Evaluation):
                    entry.draw(answer)
                elif entry.draw_without:
                    entry.draw_without()
                elif answer:
                    raise answer
            except PlannerError as refusal:
                widgets.refusal(refusal)

    page.__name__ = entry.path
    return page


def top_row(shown: list[StreamlitPage]) -> None:
    """Name, pages, language; under it the presets, and "undo" after one of them or a what-if."""
    with st.container(key="top", horizontal=True, vertical_alignment="center", gap="small"):
        with st.container(key="brand", width="content"):
            draw('<span class="hr-brand"><i></i>Headroom</span>')
        with st.container(key="nav", horizontal=True, gap="xxsmall", width="stretch"):
            for page in shown:
                st.page_link(page, query_params=state.query())
        with st.container(key="speak", width="content"):
            _language()
    _presets()
    _undo()


def _language() -> None:
    key = state.showing("language", state.language())
    st.segmented_control(
        state.plain("frame.language"),
        LANGUAGES,
        format_func=LANGUAGE_NAMES.__getitem__,
        key=key,
        label_visibility="collapsed",
        required=True,
        on_change=_take_language,
        args=(key,),
    )


def _take_language(key: str) -> None:
    chosen = state.chosen("language", key)
    if chosen in LANGUAGES:
        state.choose_language(chosen)


def _presets() -> None:
    key = state.showing("preset", preset_of(state.values(), DEFAULTS))
    labels = {preset.id: state.plain(f"preset.{preset.id}") for preset in PRESETS}
    with st.container(key="presets"):
        st.pills(
            state.plain("frame.presets"),
            list(labels),
            format_func=labels.__getitem__,
            key=key,
            label_visibility="collapsed",
            on_change=_take_preset,
            args=(key,),
        )


def _take_preset(key: str) -> None:
    wanted = state.chosen("preset", key)
    for preset in PRESETS:
        if preset.id == wanted:
            state.apply(preset.values, state.Sentence(f"preset.{preset.id}"), whole=True)


def _undo() -> None:
    if what := state.undoable():
        with st.container(key="undo", horizontal=True, vertical_alignment="center"):
            st.markdown(t("frame.applied", what=what), width="content")
            st.button(
                t("frame.undo"),
                icon=":material/undo:",
                type="tertiary",
                on_click=state.undo,
                key="undo-button",
            )


def sidebar() -> None:
    """The scenario; a fault in it leaves the page standing."""
    with st.sidebar, guarded("sidebar"):
        try:
            draw_sidebar(state.answer())
        except PlannerError as refusal:
            widgets.refusal(refusal, "sidebar")
