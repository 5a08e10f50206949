"""A model by its id on the Hub, fetched into the scenario: only when someone presses the button.

The fetch runs in the visitor's own script, in a fragment, so that the page stays as it is meanwhile. It ends by its own
deadline, whatever the network does.
"""

from __future__ import annotations

import os

import streamlit as st

from planner.architecture.hub import FetchedModel, fetch_model
from planner.errors import Note, PlannerError
from planner.ui import state
from planner.ui.guard import guarded
from planner.ui.state import plain
from planner.ui.widgets import draw, note_html, refusal_text, t

SWITCH = "HEADROOM_HUB"
OFF = frozenset({"off", "no", "false", "0"})
DEADLINE_S = 20.0
LONGEST_ID = 200


def is_on() -> bool:
    """False where the operator has switched fetching off."""
    return os.environ.get(SWITCH, "").strip().lower() not in OFF


@st.fragment
def panel() -> None:
    """Field, button, and what became of it; or that the operator has switched it off."""
    st.markdown(f"**{t('hub.title')}**")
    if not is_on():
        st.markdown(t("hub.off"))
        return
    st.markdown(t("hub.about"))
    st.text_input(
        plain("hub.id"),
        key="hub_id",
        max_chars=LONGEST_ID,
        placeholder="Qwen/Qwen3-8B",
        persist_state="session",
    )
    if st.button(t("hub.fetch"), key="hub-fetch", icon=":material/cloud_download:"):
        st.session_state["hub_error"] = None
        with guarded("hub"):
            fetched = _fetch(st.session_state["hub_id"].strip())
            if fetched is not None:
                _take(fetched)
                st.rerun()
    if error := st.session_state.get("hub_error"):
        with st.container(key="refusal-hub"):
            st.markdown(refusal_text(error))


def _fetch(model_id: str) -> FetchedModel | None:
    """The model, with each step told as it happens; None after a refusal, which is kept for the card."""
    with st.status(t("hub.step_info"), expanded=False) as status:

        def tell(step: str, done: int, of: int) -> None:
            status.update(label=t(f"hub.step_{step}", done=done, of=of))

        try:
            fetched = fetch_model(model_id, deadline_s=DEADLINE_S, progress=tell)
        except PlannerError as error:
            st.session_state["hub_error"] = error
            status.update(label=t("hub.failed"), state="error")
            return None
        status.update(label=t("hub.done", model=model_id), state="complete")
        return fetched


def _take(fetched: FetchedModel) -> None:
    """Puts the model where a pasted configuration goes, under its id."""
    told = []
    if fetched.from_cache:
        values: dict[str, object] = {
            "model": fetched.id,
            "date": f"{fetched.fetched_at:%Y-%m-%d}",
        }
        told.append(Note("hub_from_cache", values))
    if fetched.headers_missing:
        told.append(Note("hub_headers_unread", {"model": fetched.id}))
    st.session_state["hub_told"] = (fetched.id, told)
    changes = {"config": fetched.configuration(), "model": fetched.id, "weights": "native"}
    state.apply(changes, state.Sentence("undo.hub", {"model": fetched.id}))


def told() -> None:
    """What is worth knowing about how the scenario's model was fetched, where it was."""
    model_id, found = st.session_state.get("hub_told") or ("", [])
    values = state.values()
    if values["config"] and values["model"] == model_id:
        for note in found:
            draw(f'<p class="hr-words">{note_html(note)}</p>')
