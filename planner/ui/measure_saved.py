"""The saved measurements: which one is looked at, its name, its file, and away with it."""

from __future__ import annotations

import re

import streamlit as st

from planner.catalog.devices import MAX_NAME
from planner.catalog.engine_profiles import engine_ids
from planner.errors import PlannerError
from planner.measure.record import Record, record_text
from planner.measure.store import Kept
from planner.ui import choices, state
from planner.ui.device_words import device_words
from planner.ui.locale import text
from planner.ui.measure_shelf import Shelf, shelf
from planner.ui.measure_switch import sharing_is_on
from planner.ui.sidebar_measured import drop_button
from planner.ui.state import language, plain
from planner.ui.widgets import draw, h, refusal_text, t

SHOWN_KEY = "measure_shown"
DELETED_KEY = "measure_deleted"
REFUSED_KEY = "measure_saved_refused"


def show(key: str) -> None:
    """Looks at a measurement from here on."""
    st.session_state[SHOWN_KEY] = key


def pick() -> Record | None:
    """The select of measurements with what can be done to one; the one that is looked at, or None."""
    place = shelf()
    kept = place.kept()
    _undo(place)
    if not kept:
        draw(f'<p class="hr-about">{h("measure.none_saved")}</p>')
        return None
    by_key = {one.key: one for one in kept}
    labels = {one.key: _label(one, language()) for one in kept}
    current = st.session_state.get(SHOWN_KEY)
    if current not in by_key:
        current = kept[0].key
    name = state.showing("measure_pick", current, labels[current])
    with st.container(key="measure-saved", horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            plain("measure.saved", number=len(kept)),
            list(labels),
            format_func=labels.__getitem__,
            key=name,
            on_change=_take,
            args=(name,),
            width=380,
        )
        record = _actions(place, by_key[current])
    if not sharing_is_on():
        draw(f'<p class="hr-about">{h("measure.session_only")}</p>')
    if refused := st.session_state.pop(REFUSED_KEY, None):
        st.markdown(f":red[**✕**] {refusal_text(refused)}")
    return record


def _take(name: str) -> None:
    chosen = state.chosen("measure_pick", name)
    if chosen in {one.key for one in shelf().kept()}:
        show(chosen)


def _label(one: Kept, spoken: str) -> str:
    if one.refusal is not None:
        return text("measure.saved_damaged", spoken, name=one.name)
    # A name that nobody gave says device and date itself.
    card = choices.accelerator_names().get(one.accelerator.partition("@")[0], one.accelerator)
    engine = choices.engine_name(one.engine) if one.engine in engine_ids() else one.engine
    known = any(said and said in one.name for said in (card, one.accelerator))
    parts = [
        device_words(one.name, spoken),
        *(x for x in (one.date[:10],) if x not in one.name),
        *([] if known or one.accelerator.startswith("own-") else [card]),
        engine,
    ]
    parts += [
        text(f"measure.saved_{name}", spoken, before=before, after=after)
        for name, (before, after) in one.errors.items()
    ]
    return " · ".join(part for part in parts if part)


def _actions(place: Shelf, one: Kept) -> Record | None:
    """Rename, download, delete; a damaged file can only be deleted."""
    try:
        record = place.load(one.key)
    except PlannerError as refusal:
        st.session_state[REFUSED_KEY] = refusal
        record = None
    if record is not None:
        _rename_form(one)
        st.download_button(
            t("measure.download"),
            data=lambda: record_text(record),
            file_name=f"{re.sub(r'[^A-Za-z0-9]+', '-', one.name).strip('-') or 'measurement'}.json",
            mime="application/json",
            icon=":material/download:",
            on_click="ignore",
            key="measure-download",
        )
    st.button(
        t("measure.delete"),
        key="measure-delete",
        icon=":material/delete:",
        on_click=_delete,
        args=(one.key, one.name),
    )
    return record


def _rename_form(one: Kept) -> None:
    """A name and Enter. Another name is another key, with which the popover is a new one, and closed."""
    field = f"measure_name_{one.key}"
    st.session_state.setdefault(field, one.name)
    with (
        st.popover(t("measure.rename"), icon=":material/edit:", key=f"measure-rename-{one.key}"),
        st.form(f"measure-rename-form-{one.key}", border=False),
    ):
        st.text_input(plain("measure.name"), key=field, max_chars=MAX_NAME)
        st.form_submit_button(
            t("measure.rename_do"), key="measure-rename-do", on_click=_rename, args=(one.key, field)
        )


def _rename(key: str, field: str) -> None:
    try:
        show(shelf().rename(key, str(st.session_state.get(field, ""))))
    except PlannerError as refusal:
        st.session_state[REFUSED_KEY] = refusal


def _delete(key: str, name: str) -> None:
    try:
        own = shelf().load(key).calibration
    except PlannerError:  # a damaged file has none
        own = None
    data = own.model_dump(mode="json") if own else None
    try:
        st.session_state[DELETED_KEY] = (shelf().delete(key), name, data)
    except PlannerError as refusal:
        st.session_state[REFUSED_KEY] = refusal


def _undo(place: Shelf) -> None:
    if deleted := st.session_state.get(DELETED_KEY):
        token, name, own = deleted
        in_use = own is not None and state.values()["calibration"] == own
        with st.container(key="measure-undo", horizontal=True, vertical_alignment="center"):
            said = "measure.deleted_in_use" if in_use else "measure.deleted"
            st.markdown(t(said, name=name), width="content")
            if in_use:
                drop_button("measure-drop-deleted")
            st.button(
                t("frame.undo"), key="measure-undo-button", icon=":material/undo:", type="tertiary",
                on_click=_restore, args=(token,),
            )  # fmt: skip


def _restore(token: str) -> None:
    st.session_state[DELETED_KEY] = None
    try:
        show(shelf().restore(token))
    except PlannerError as refusal:
        st.session_state[REFUSED_KEY] = refusal
