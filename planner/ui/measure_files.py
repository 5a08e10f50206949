"""What was measured elsewhere, on the page: a start-up log against its prediction, and files of measurements."""

from __future__ import annotations

import html
from threading import Lock
from typing import Any

import streamlit as st

from planner.errors import PlannerError
from planner.measure.job import with_calibration
from planner.measure.readers import LogComparison, LogReading, LogRow, compare_log, read_log
from planner.ui import choices, state
from planner.ui.measure_results import TYPES, record_of, results_fields
from planner.ui.measure_saved import show
from planner.ui.measure_shelf import shelf
from planner.ui.measure_words import signed
from planner.ui.state import plain
from planner.ui.widgets import (
    draw,
    h,
    notes,
    notes_html,
    range_text,
    refusal_text,
    shown,
    t,
    table_html,
)

MOST_MB = 8
_FITTING = Lock()
OWN_DEVICE = "device"
IMPORTED_KEY = "measure_imported"
FILLED = ("model", "weights", "kv", "engine_version")


# --- Logs ------------------------------------------------------------------------------------------------------------


def log_tab() -> None:
    """A log, pasted or as a file; every memory line that it prints beside the prediction."""
    draw(f'<p class="hr-about">{h("measure.log_about")}</p>')
    given = _given("measure_log", plain("measure.log_text"), ["txt", "log"])
    if not given:
        return
    try:
        reading = read_log(given)
    except PlannerError as refusal:
        _refused(refusal)
        return
    filled = _filled(reading)
    if "gpu" in reading.missing and not reading.on_cpu:
        if not (card := _card()):
            draw(f'<p class="hr-about">{h("measure.log_which_gpu")}</p>')
            return
        filled |= card
    try:
        compared = compare_log(reading, filled)
    except PlannerError as refusal:
        if reading.on_cpu:
            _refused(refusal)
        else:
            gpu = {"gpu": reading.scenario.get("gpu"), "device": None, **filled}
            _refused(refusal, choices.engine_name(reading.tool), choices.card_name(gpu))
        return
    _log(reading, compared, filled)


def _refused(refusal: PlannerError, engine: str = "", gpu: str = "") -> None:
    """Why there is nothing to see; of a log that could be read, what it is of."""
    with st.container(key="refusal-log"):
        if engine:
            st.markdown(t("measure.log_refused", engine=engine, gpu=gpu))
        st.markdown(refusal_text(refusal))


def _card() -> dict[str, Any]:
    """The GPU that the log was written on, which most engines don't print; nothing until somebody says it."""
    names = choices.accelerator_names()
    now = state.values()
    if now["device"]:
        own = plain("sidebar.own_device", name=choices.card_name(now))
        names = {OWN_DEVICE: own, **names}
    chosen = st.selectbox(
        plain("measure.log_gpu"),
        list(names),
        index=None,
        format_func=names.__getitem__,
        placeholder=plain("sidebar.choose"),
        key=state.keeping("measure_log_gpu"),
    )
    if not chosen:
        return {}
    if chosen == OWN_DEVICE:
        return {"gpu": now["gpu"], "device": now["device"]}
    return {"gpu": chosen}


def _given(key: str, label: str, types: list[str]) -> str | bytes:
    """What was uploaded, else what was pasted."""
    file = st.file_uploader(
        plain("measure.file"), type=types, key=f"{key}_file", max_upload_size=MOST_MB
    )
    pasted = st.text_area(
        label,
        key=f"{key}_text",
        height=150,
        persist_state="session",
        disabled=file is not None,  # it isn't read then
    )
    return file.getvalue() if file is not None else (pasted or "").strip()


def _filled(reading: LogReading) -> dict[str, Any]:
    """What the log doesn't say, from the scenario in the sidebar; how a model was stored only where it's that model."""
    now = state.values()
    filled = {name: now[name] for name in FILLED if name in reading.missing and now[name]}
    same = "model" in filled or reading.scenario.get("model") == now["model"]
    needed = any(note.code == "log_weights_method" for note in reading.notes)
    if not same:
        filled = {"weights": filled["weights"]} if needed and "weights" in filled else {}
    if "engine_version" in filled and now["engine"] != reading.tool:
        del filled["engine_version"]
    if "model" in filled and now["config"]:
        filled["config"] = now["config"]
    return filled


def _log(reading: LogReading, compared: LogComparison, filled: dict[str, Any]) -> None:
    scenario = compared.scenario
    draw(
        '<div class="hr-verdict hr-plain hr-single" role="status"><span class="hr-lead">'
        + h(
            "log.read",
            engine=choices.engine_name(reading.tool),
            version=reading.version or "–",
            model=scenario.model,
            gpu=choices.card_name(scenario.model_dump(include={"gpu", "device"})),
        )
        + f'</span><div class="hr-more">{_inside_words(compared)}</div></div>'
    )
    names = [plain(f"field.{name}") for name in filled if name in FILLED]
    if names:
        draw(f'<p class="hr-about">{h("measure.log_filled", names=names)}</p>')
    if compared.rows:
        columns = ("figure", "printed", "predicted", "range", "error")
        head = tuple(h(f"log.column.{name}") for name in columns)
        draw(table_html(h("measure.log_title"), head, map(_log_cells, compared.rows)))
    else:
        draw(f'<p class="hr-about">{h("log.nothing")}</p>')
    if compared.notes:
        notes(compared.notes, "info")
    st.button(
        t("measure.log_use"),
        key="measure-log-use",
        on_click=state.apply,
        args=(
            _scenario_changes(compared),
            state.Sentence("undo.log", {"engine": choices.engine_name(reading.tool)}),
        ),
    )


def _inside_words(compared: LogComparison) -> str:
    """How many of the printed figures the predictions hold."""
    ranged = [row for row in compared.rows if row.predicted and _range(row)]
    known = [row.inside for row in ranged if row.inside is not None]
    return h("measure.log_inside", inside=sum(known), known=len(known)) if known else ""


def _scenario_changes(compared: LogComparison) -> dict[str, Any]:
    """The log's scenario as changes of the sidebar's."""
    values = compared.scenario.model_dump()
    return {name: value for name, value in values.items() if name != "calibration"}


def _kind(row: LogRow) -> str:
    """Format of a figure's numbers: requests that the cache holds are printed with decimals."""
    if "bytes" in row.quantity:
        return "gib"
    return "number" if row.quantity == "max_concurrency" else "count"


def _range(row: LogRow) -> str:
    """The predicted range as shown; nothing where it is one number."""
    return range_text(row.predicted, _kind(row)) if row.predicted else ""


def _log_cells(row: LogRow) -> tuple[str, ...]:
    kind = _kind(row)
    figure = h(f"figure.{row.quantity}")
    if row.predicted is None:
        return figure, html.escape(shown(row.printed, kind)), h("log.no_prediction"), "–", "–"
    return (
        figure,
        html.escape(shown(row.printed, kind)),
        html.escape(shown(float(row.predicted.mid), kind)),
        html.escape(_range(row)) or "–",
        signed(row.error_fraction),
    )


# --- Files of measurements -------------------------------------------------------------------------------------------


def import_tab() -> None:
    """A measurement's file, or another tool's results, into the list, fitted where it wasn't yet."""
    draw(f'<p class="hr-about">{h("measure.import_about")} {h("import.about")}</p>')
    file = st.file_uploader(
        plain("measure.file"),
        type=TYPES,
        key="measure_import_file",
        max_upload_size=MOST_MB,
        on_change=_forget_refusal,
    )
    if file is not None:
        results_fields(file.getvalue())
    st.button(t("measure.import_do"), key="measure-import", type="primary", on_click=_import)
    if name := st.session_state.pop(IMPORTED_KEY, None):
        draw(notes_html([h("measure.imported", name=name)], "info"))
    if refused := st.session_state.get("measure_import_refused"):
        with st.container(key="refusal-import"):
            st.markdown(refusal_text(refused))


def _forget_refusal() -> None:
    """What was said of another file."""
    st.session_state["measure_import_refused"] = None


def _import() -> None:
    file = st.session_state.get("measure_import_file")
    _forget_refusal()
    if file is None:
        return
    try:
        # A fit takes all that a processor has: several at once would stand in each other's way, and in the visitors'.
        with st.spinner(plain("measure.fitting")), _FITTING:
            record = with_calibration(record_of(file.getvalue(), file.name))
        key, kept = shelf().save_new(record)
        show(key)
        st.session_state[IMPORTED_KEY] = kept.name
    except PlannerError as refusal:
        st.session_state["measure_import_refused"] = refusal
