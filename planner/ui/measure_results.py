"""Results of another tool on the page: what they are, and what their file doesn't say."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.errors import PlannerError
from planner.measure.readers import ResultsReading, complete, missing_fields, recognise
from planner.measure.record import Record, parse_record
from planner.ui import choices, state
from planner.ui.state import plain
from planner.ui.widgets import draw, h

TYPES = ["json", "jsonl", "csv", "md", "txt"]
OWN_MARK = b'"headroom-measurement"'
KEY = "measure_results_{}"
# What the sidebar's scenario is likely to share with the runs; the rest is for the visitor to say.
FROM_SCENARIO = ("model", "engine", "engine_version", "weights")


def record_of(content: bytes, name: str) -> Record:
    """The measurement that a file holds, or that another tool's results become with what was filled in.

    Raises:
        PlannerError: where it is neither, or something is missing still.
    """
    if OWN_MARK in content:
        return parse_record(content)
    reading = recognise(content, "file")
    return complete(reading, _filled(reading), name)


def results_fields(content: bytes) -> None:
    """What another tool's results are, and a field for each thing that they don't say; nothing for other files."""
    if OWN_MARK in content:
        return
    try:
        reading = recognise(content, "file")
    except PlannerError:
        return  # said when it is to be imported
    tool = plain(f"import.tool.{reading.tool}")
    draw(f'<p class="hr-about">{h("import.found", tool=tool, rows=len(reading.rows))}</p>')
    missing = missing_fields(reading, {})
    if not missing:
        return
    printed = " · ".join(one for one in (reading.printed_model, reading.printed_gpu) if one)
    key = "import.missing_beside" if printed else "import.missing"
    draw(f'<p class="hr-about">{h(key, printed=printed)}</p>')
    with st.container(key="measure-results", horizontal=True):
        for name in missing:
            _field(name)


def _field(name: str) -> None:
    label, key = plain(f"field.{name}"), KEY.format(name)
    now = state.values()
    if name == "gpu":
        names = choices.accelerator_names()
        base = str(now["gpu"]).partition("@")[0]
        index = list(names).index(base) if base in names else 0
        st.selectbox(
            label, list(names), index=index, format_func=names.__getitem__, key=key, width=300
        )
        return
    shown = ""
    if name == "engine":
        shown = choices.engine_meant(now)
    elif name in FROM_SCENARIO:
        shown = str(now[name] or "")
    st.text_input(label, value=shown, key=key, max_chars=300, width=300)


def _filled(reading: ResultsReading) -> dict[str, Any]:
    """What the visitor said of what is missing."""
    keys = {name: KEY.format(name) for name in missing_fields(reading, {})}
    said = {name: st.session_state.get(key) for name, key in keys.items()}
    now = state.values()
    if now["config"] and said.get("model") == now["model"]:
        said["config"] = now["config"]
    return said
