"""What somebody measured, in the sidebar: a described device among the accelerators, and the calibration in use."""

from __future__ import annotations

import streamlit as st

from planner.catalog.own_calibration import parse_own_calibration
from planner.evaluation import Evaluation
from planner.ui import choices, state
from planner.ui.widgets import draw, h, note_html, t

IN_USE = ("own_calibration", "own_calibration_elsewhere")


def select_device(names: dict[str, str]) -> None:
    """A select of accelerators that shows the described device; another one takes its place.

    Args:
        names: the catalogue's, by id.
    """
    card = choices.card_of(state.values())
    key = state.showing("gpu_own", card.id, state.language())
    labels = {card.id: state.plain("sidebar.own_device", name=card.name), **names}
    st.selectbox(
        state.plain("field.gpu"),
        list(labels),
        format_func=labels.__getitem__,
        key=key,
        on_change=_take_card,
        args=(key,),
        help=t("help.gpu"),
    )


def _take_card(key: str) -> None:
    chosen = state.chosen("gpu_own", key)
    if chosen in choices.accelerator_names():
        state.change(gpu=chosen, device=None)


def calibration(evaluation: Evaluation | None) -> None:
    """The calibration in use by its name, whether it counts here, and the way to drop it."""
    own = parse_own_calibration(state.values()["calibration"])
    notes = evaluation.assumptions if evaluation else ()
    with st.container(key="calibration-in-use", gap="xxsmall"):
        for note in notes:
            if note.code in IN_USE:
                draw(f'<p class="hr-words">{note_html(note)}</p>')
        if not evaluation:
            draw(f'<p class="hr-words">{h("sidebar.calibration", name=own.name)}</p>')
        drop_button("drop-calibration")


def drop_button(key: str) -> None:
    """The way back to the shipped constants; there has to be a calibration in use."""
    own = parse_own_calibration(state.values()["calibration"])
    st.button(
        t("sidebar.drop_calibration"),
        key=key,
        icon=":material/close:",
        type="tertiary",
        on_click=state.apply,
        args=({"calibration": None}, state.Sentence("undo.drop_calibration", {"name": own.name})),
    )
