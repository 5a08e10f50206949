"""One measurement on the page: predicted against measured, what was fitted, and the calibration put to use."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import streamlit as st

from planner.catalog.calibration_constants import SHIPPED, Constants, weights_kind
from planner.catalog.engine_profiles import engine, engine_ids
from planner.catalog.own_calibration import OwnCalibration, OwnConstant, is_another_version
from planner.errors import PlannerError
from planner.evaluation import Evaluation
from planner.measure.comparison import (
    Compared,
    Comparison,
    compare_record,
    counted,
    median_error,
    that_count,
)
from planner.measure.impossible import NOTE as IMPOSSIBLE
from planner.measure.record import Figure, Record
from planner.ui import choices, state
from planner.ui.calibration_words import worse_words
from planner.ui.charts.base import draw_chart
from planner.ui.charts.measure import measured_chart
from planner.ui.charts.measure_lengths import length_charts
from planner.ui.device_words import device_words, without_device
from planner.ui.measure_loads import loads
from planner.ui.measure_words import (
    compared_cells,
    compared_head,
    condition_words,
    constant_words,
    evenly,
    figure_name,
    filled_table,
    import_words,
    note_words,
    reached_words,
    row_note_words,
    row_words,
    signed,
    size_words,
    some_words,
    spread_words,
)
from planner.ui.sidebar_measured import IN_USE, drop_button
from planner.ui.state import language, plain
from planner.ui.widgets import (
    draw,
    h,
    note_html,
    notes_html,
    refusal_text,
    shown,
    side_by_side,
    t,
    table_html,
)

IMPORTED = "imported"  # the one note of a record that warns of nothing
COMPARED_KEY = "measure_compared"
FIGURE_KINDS = {"B/s": "bandwidth", "FLOP/s": "flops", "s": "time"}


def result(record: Record, evaluation: Evaluation | None) -> None:
    """All that a measurement says.

    Args:
        evaluation: of the scenario, to say whether the calibration counts there; None where it has no answer.
    """
    compared = _compared(record)
    _headline(record, compared)
    _use(record, evaluation)
    codes = [one for one in record.notes if one != IMPORTED]
    codes += [IMPOSSIBLE] if any(IMPOSSIBLE in row.notes for row in record.rows) else []
    warnings = condition_words(record) + note_words(codes)
    if warnings:
        draw(notes_html(warnings, "warn"))
    if IMPORTED in record.notes:
        draw(notes_html(note_words([IMPORTED]), "info"))
    if told := import_words(record):
        with st.expander(t("measure.import_notes"), key="measure-import-notes"):
            draw(notes_html(told, "info"))
    loads(record)
    if (chart := measured_chart(compared.figures, busy=record.conditions.others_seen)) is not None:
        if lengths := length_charts(record, compared.figures):
            with side_by_side():
                for one in lengths:
                    draw_chart(one)
        draw_chart(chart)
    elif compared.figures:
        cells = map(compared_cells, evenly(compared.figures))
        draw(filled_table(h("measure.compared"), compared_head(), cells))
    if some := some_words(len(compared.figures)):
        draw(some)
    with st.container(key="measure-more"):
        _details(record, compared)


def _compared(record: Record) -> Comparison:
    """The comparison, kept in the visitor's session until another measurement is looked at."""
    last: tuple[Record, Comparison] | None = st.session_state.get(COMPARED_KEY)
    if last is None or last[0] != record:
        known = record.accelerator or record.origin != "endpoint"
        last = record, compare_record(record) if known else Comparison((), ())
        st.session_state[COMPARED_KEY] = last
    return last[1]


def _headline(record: Record, compared: Comparison) -> None:
    """What was found, in one sentence."""
    names = choices.accelerator_names()
    where = record.device.name if record.device else names.get(record.accelerator)
    times = counted(compared.figures)
    device = where or record.accelerator or plain("measure.unknown_device")
    said = {
        "name": device_words(without_device(record.name, device, record.date[:10]), language()),
        "device": device_words(device, language()),
        "date": record.date[:10],
    }
    own, busy = record.calibration, record.conditions.others_seen
    over = _error_figures(times, fitted=own is not None)
    if not over:
        sentence = h("measure.headline_alone" if own else "measure.headline_none", **said)
    elif busy:
        sentence = h("measure.headline_busy", **said)
    else:
        error = median_error(over)
        before, after = error.before_fraction, error.after_fraction
        key = "measure.headline_plain" if after is None else "measure.headline"
        counts = {"figures": error.figures, "rows": error.rows}
        sentence = h(key, **said, before=before, after=after or 0.0, **counts)
    more = reached_words(record.rows)
    if own and not busy:
        more += _calibration_errors(own, over, times)
    draw(
        '<div class="hr-verdict hr-plain hr-single" role="status">'
        f'<span class="hr-lead">{sentence}</span><div class="hr-more">{"<br>".join(more)}</div></div>'
    )


def _error_figures(times: Sequence[Compared], *, fitted: bool) -> list[Compared]:
    """What the headline's error is over: the runs that count, with a calibration those that it was fitted to."""
    if fitted and (mine := that_count(times, "fit")):
        return mine
    return [one for one in times if one.counts] or list(times)


def _calibration_errors(
    own: OwnCalibration, over: Sequence[Compared], times: Sequence[Compared]
) -> list[str]:
    """How far off each figure is before and after, what was held back from the fit, and what none of it counts."""
    said = []
    for what, error in (("ttft", own.ttft), ("tpot", own.tpot)):
        if error is not None:
            ends = {"before": error.before_fraction, "after": error.after_fraction}
            said.append(h(f"measure.error_{what}", **ends, rows=error.rows))
            said += [f"<b>{html.escape(one)}</b>" for one in worse_words(own, what, language())]
    checks = [one for one in that_count(times, "check") if one.after is not None]
    if checks:
        found = median_error(checks)
        ends = {"before": found.before_fraction, "after": found.after_fraction or 0.0}
        said.append(h("measure.error_check", **ends, figures=found.figures, rows=found.rows))
    rest = {one.row for one in times} - {one.row for one in (*over, *checks)}
    return said + ([h("measure.error_none", rows=len(rest))] if rest else [])


# --- Put to use ------------------------------------------------------------------------------------------------------


def _use(record: Record, evaluation: Evaluation | None) -> None:
    own = record.calibration
    if own is None:
        draw(f'<p class="hr-about">{h("measure.no_calibration")}</p>')
        return
    if state.values()["calibration"] == own.model_dump(mode="json"):
        notes = evaluation.assumptions if evaluation else ()
        told = [note_html(note) for note in notes if note.code in IN_USE] or [h("measure.in_use")]
        draw(notes_html(told, "info"))
        drop_button("measure-drop")
        return
    busy = record.conditions.others_seen
    st.button(
        t("measure.use_busy" if busy else "measure.use"),
        key="measure-use",
        type="secondary" if busy else "primary",
        icon=":material/check:",
        on_click=state.apply,
        args=(changes := changes_for(record, own), _changed_words(own, changes)),
    )
    draw(f'<p class="hr-about">{h("measure.use_about", name=own.name, date=own.date)}</p>')


def _changed_words(own: OwnCalibration, changes: Mapping[str, object]) -> state.Sentence:
    """The calibration by its name, and every field that gets another value with it."""
    now = state.values()
    fields = tuple(
        name for name, value in changes.items() if name != "calibration" and value != now[name]
    )
    key = "undo.calibration_changes" if fields else "undo.calibration"
    return state.Sentence(key, {"name": own.name}, fields)


def changes_for(record: Record, own: OwnCalibration) -> dict[str, object]:
    """What puts a calibration to use: itself, its device and engine, and nothing that couldn't run there."""
    now = state.values()
    changes: dict[str, object] = {
        "calibration": own.model_dump(mode="json"),
        "engine": own.engine,
        "engine_version": _version_for(own),
        "gpu": record.accelerator,
        "device": record.device.model_dump(mode="json") if record.device else None,
    }
    if now["gpu"] != record.accelerator:
        # Sizes and degrees were chosen for another card.
        changes |= dict.fromkeys(("gpus", "tp", "pp", "ep", "dp", "gpu_memory_gib"))
        changes["kv"] = "auto"
    if own.kinds == [WIDE_KIND]:
        # What a checkpoint holds is narrower nearly always.
        changes |= {"weights": "fp32", "dtype": "fp32"}
    elif not _kind_ran(str(now["weights"]), own):
        changes["weights"] = "native"
    return changes


def _version_for(own: OwnCalibration) -> str | None:
    """The engine version to estimate with: the one that ran, as of another the calibration's range is twice as wide."""
    now = state.values()
    chosen = now["engine_version"] if now["engine"] == own.engine else None
    newest = engine(own.engine).newest if own.engine in engine_ids() else ""
    return own.engine_version if is_another_version(own, chosen or newest) else chosen


WIDE_KIND = "32bit"


def _kind_ran(weights: str, own: OwnCalibration) -> bool:
    if weights == "native":
        return True
    try:
        return weights_kind(weights) in own.kinds
    except PlannerError:
        return False


# --- Details ---------------------------------------------------------------------------------------------------------


def _details(record: Record, compared: Comparison) -> None:
    if own := record.calibration:
        with st.expander(t("measure.constants"), key="measure-constants"):
            draw(_constants(record, own))
    if record.figures:
        with st.expander(t("measure.figures"), key="measure-figures"):
            draw(_figures(record.figures))
    if record.rows:
        with st.expander(t("measure.rows", rows=len(record.rows)), key="measure-rows"):
            draw(_rows(record))
            for row, refusal in compared.refused[:20]:
                st.markdown(f"{html.escape(row)}: {refusal_text(refusal)}")
    if record.software:
        with st.expander(t("measure.software"), key="measure-software"):
            head = (h("measure.column.name"), h("measure.column.version"))
            pairs = [(html.escape(k), html.escape(v)) for k, v in sorted(record.software.items())]
            draw(table_html(h("measure.software"), head, pairs))


def _constants(record: Record, own: OwnCalibration) -> str:
    """Each fitted constant beside the shipped one, with its spread and how far the runs narrowed it."""
    columns = ("constant", "shipped", "fitted", "deviation", "narrowed")
    rows = []
    for file, entries in own.constants.items():
        for key, constant in entries.items():
            rows.append(
                (
                    constant_words(file, key),
                    _shipped(record, own, file, key),
                    html.escape(shown(constant.value, "number")),
                    html.escape(f"± {shown(constant.deviation, 'percent')}"),
                    _narrowed(constant),
                )
            )
    about = f'<p class="hr-about">{h("measure.constants_about")}</p>'
    head = tuple(h(f"measure.column.{name}") for name in columns)
    return about + filled_table(h("measure.constants"), head, rows)


def _shipped(record: Record, own: OwnCalibration, file: str, key: str) -> str:
    """What counts for the device where nothing was fitted: the file's own figure, or that of what it builds on."""
    device = record.device.model_dump(mode="json") if record.device else None
    try:
        figure = SHIPPED.figures(file).get(key)
        if figure is None:
            card = choices.card_of({"gpu": record.accelerator, "device": device})
            known = Constants(own.engine, card, own.kinds[0], version=own.engine_version)
            name = key.removeprefix(f"{known.group.name}.")
            found = known.find(name) or known.find(name.partition(".")[0])
            figure = found[0] if found else None
    except PlannerError:  # of a version whose files were called otherwise
        return "–"
    return html.escape(shown(float(figure.value), "number")) if figure else "–"


def _narrowed(constant: OwnConstant) -> str:
    if constant.at_bound:
        return h("measure.at_bound")
    return html.escape(shown(constant.identified_fraction, "percent"))


def _figures(figures: list[Figure]) -> str:
    """What the micro-benchmarks found, beside the data sheet."""
    rows = []
    for one in figures:
        kind = FIGURE_KINDS[one.unit]
        stated = html.escape(shown(one.stated, kind)) if one.stated else "–"
        share = signed(one.value.median / one.stated - 1.0) if one.stated else "–"
        what = " ".join(part for part in (figure_name(one.name), html.escape(one.dtype)) if part)
        size = size_words(one)
        rows.append((what, size, spread_words(one.value, kind), stated, share))
    columns = ("benchmark", "size", "measured", "stated", "difference")
    return filled_table(
        h("measure.figures"), tuple(h(f"measure.column.{name}") for name in columns), rows
    )


def _rows(record: Record) -> str:
    """Every run, also those that failed, with what to know about it."""
    rows = []
    for row in evenly(record.rows):
        outcome = h(f"measure.outcome.{row.outcome}")
        marks = [h("measure.noisy_row")] if row.noisy else []
        marks += [h("measure.check_row")] if row.role == "check" else []
        told = ", ".join([*marks, *row_note_words(row)]) or "–"
        rows.append((f"{html.escape(row.id)}<br>{row_words(row)}", outcome, told))
    columns = ("run", "outcome", "notes")
    head = tuple(h(f"measure.column.{name}") for name in columns)
    table = table_html(h("measure.rows_title"), head, rows, wrap=(0, 2), folds=True)
    return some_words(len(record.rows)) + table
