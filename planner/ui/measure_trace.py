"""A file with the lengths of a benchmark's requests: read once, and kept in the session until it is taken away."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from planner.errors import PlannerError
from planner.measure.endpoint.options import MAX_TRACE_BYTES, MAX_TRACE_LINES, parse_trace
from planner.ui.measure_files import MOST_MB
from planner.ui.state import plain
from planner.ui.widgets import draw, h, refusal_text, t

UPLOAD_KEY = "endpoint_trace"
KEPT_KEY = "endpoint_trace_kept"


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file's name and each request's lengths (tokens); neither without a file."""

    name: str = ""
    lengths: tuple[dict[str, int], ...] = ()


def trace_file() -> TraceFile | None:
    """The file put there, or kept from before, an empty one without; None where it can't be read, which is said."""
    file = st.file_uploader(
        plain("measure.endpoint_trace"),
        type=["csv", "txt"],
        key=UPLOAD_KEY,
        max_upload_size=MOST_MB,
        help=t("measure.endpoint_trace_help", lines=MAX_TRACE_LINES, size=MAX_TRACE_BYTES),
        on_change=_drop,
    )
    if file is not None:
        try:
            lengths = parse_trace(file.getvalue())
        except PlannerError as refusal:
            with st.container(key="refusal-trace"):
                st.markdown(refusal_text(refusal))
            return None
        st.session_state[KEPT_KEY] = TraceFile(file.name, tuple(lengths))
    # While a run is followed the uploader isn't drawn, and forgets its file.
    kept: TraceFile = st.session_state.get(KEPT_KEY, TraceFile())
    if kept.name:
        draw(
            f'<p class="hr-about">{h("measure.endpoint_trace_read", file=kept.name, rows=len(kept.lengths))}</p>'
        )
        if file is None:
            st.button(
                t("measure.endpoint_trace_drop"),
                key="endpoint-trace-drop",
                type="tertiary",
                icon=":material/close:",
                on_click=_drop,
            )
    return kept


def _drop() -> None:
    st.session_state.pop(KEPT_KEY, None)
