"""Results of another tool on the page: what they are, and what their file doesn't say."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.catalog.accelerators import accelerator
from planner.catalog.engine_profiles import engine_ids
from planner.catalog.formats import weight_format_ids
from planner.errors import InvalidInput, PlannerError
from planner.measure.readers import ResultsReading, complete, missing_fields, recognise
from planner.measure.record import Record, calibration_record, is_measurement, parse_record
from planner.scenario import MAX_CONCURRENCY, MAX_GPUS, MAX_TOKENS
from planner.ui import choices, state
from planner.ui.state import plain
from planner.ui.widgets import draw, h, missing_label, notes, weights_label

TYPES = ["json", "jsonl", "csv", "md", "txt"]
OWN_FILES = "Headroom measure, calibrate (JSON)"
KEY = "measure_results_{}"
EXAMPLES = {"model": "Qwen/Qwen3-8B", "engine_version": "0.11.0"}
# The most that a number may be.
NUMBERS = {
    "gpus": MAX_GPUS,
    "input_tokens": MAX_TOKENS,
    "output_tokens": MAX_TOKENS,
    "concurrency": MAX_CONCURRENCY,
}


def record_of(content: bytes, name: str) -> Record:
    """The measurement that a file holds, or that another tool's results become with what was filled in.

    Raises:
        PlannerError: where it is neither, or something is missing still.
    """
    if is_measurement(content):
        return parse_record(content)
    if (alone := calibration_record(content)) is not None:
        accelerator(alone.accelerator)  # without its description nobody knows another device
        return alone
    try:
        reading = recognise(content, "file")
    except InvalidInput as refusal:
        if "expected" in refusal.values:
            refusal.values["expected"] = f"{OWN_FILES}; {refusal.values['expected']}"
        raise
    return complete(reading, _filled(reading), name)


def results_fields(content: bytes) -> None:
    """What another tool's results are, and a field for each thing that they don't say; nothing for other files."""
    if is_measurement(content):
        return
    try:
        reading = recognise(content, "file")
    except PlannerError:
        return  # said when it is to be imported
    tool = plain(f"import.tool.{reading.tool}")
    draw(f'<p class="hr-about">{h("import.found", tool=tool, rows=len(reading.rows))}</p>')
    if reading.notes:
        notes(reading.notes, "info")
    missing = missing_fields(reading, {})
    if not missing:
        return
    printed = " · ".join(one for one in (reading.printed_model, reading.printed_gpu) if one)
    key = "import.missing_beside" if printed else "import.missing"
    draw(f'<p class="hr-about">{h(key, printed=printed)}</p>')
    likely = _same_scenario(reading)
    with st.container(key="measure-results", horizontal=True):
        for name in missing:
            _field(name, likely.get(name))


def _same_scenario(reading: ResultsReading) -> dict[str, Any]:
    """The sidebar's values where it is set to what the file names; nothing for runs of something else."""
    now = state.values()
    engine = choices.engine_meant(now)
    stated = reading.known
    if stated.get("model") != now["model"] or stated.get("engine", engine) != engine:
        return {}
    gpu = str(now["gpu"]).partition("@")[0]
    return {
        "engine": engine,
        "gpu": None if now["device"] else gpu,
        "engine_version": now["engine_version"],
        "weights": now["weights"],
    }


def _field(name: str, likely: Any) -> None:
    """A field that is empty until somebody who knows fills it in, but for what the sidebar is likely to share."""
    label, key = missing_label(name), KEY.format(name)
    names = _names(name)
    if names:
        st.selectbox(
            label,
            list(names),
            index=None,
            format_func=names.__getitem__,
            placeholder=plain("sidebar.choose"),
            key=state.keeping(key, likely if likely in names else None),
            width=300,
        )
    elif name in NUMBERS:
        st.number_input(label, 1, NUMBERS[name], None, 1, key=key, width=300)
    else:
        example = plain("measure.example", example=EXAMPLES[name]) if name in EXAMPLES else None
        st.text_input(label, str(likely or ""), 300, key=key, placeholder=example, width=300)


def _names(field: str) -> dict[str, str]:
    """What there is to choose from for a field; nothing for one that is written or counted."""
    if field == "gpu":
        return choices.accelerator_names()
    if field == "engine":
        return {id_: choices.engine_name(id_) for id_ in engine_ids()}
    if field == "weights":
        return {id_: weights_label(id_) for id_ in weight_format_ids()}
    return {}


def _filled(reading: ResultsReading) -> dict[str, Any]:
    """What the visitor said of what is missing."""
    keys = {name: KEY.format(name) for name in missing_fields(reading, {})}
    said = {name: state.kept(key) for name, key in keys.items()}
    now = state.values()
    if now["config"] and said.get("model") == now["model"]:
        said["config"] = now["config"]
    return said
