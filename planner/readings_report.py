"""What other programs wrote, as text and data: a log against its prediction, imported results against theirs."""

from __future__ import annotations

import shlex
from typing import Any

from planner.catalog.engine_profiles import engine
from planner.errors import Note
from planner.measure.comparison import Compared, compare_record
from planner.measure.readers import LogComparison, LogReading, LogRow, ResultsReading, row_notes
from planner.measure.record import Record, counting
from planner.report_tables import left_table
from planner.ui.locale import catalogue, say_error, say_note, text
from planner.ui.locale.numbers import format_value


def kind_of(quantity: str) -> str:
    """How a quantity of a log is written."""
    if "bytes" in quantity:
        return "bytes"
    return "count" if quantity.endswith("_tokens") else "number"


def comparison_text(reading: LogReading, found: LogComparison, language: str) -> str:
    """What was read, a table of printed against predicted, and what to know about it."""
    scenario = found.scenario
    lines = [
        text(
            "log.read",
            language,
            engine=engine(reading.tool).name,
            version=reading.version or "–",
            model=scenario.model,
            gpu=scenario.gpu,
        ),
        "",
    ]
    header = [text(f"log.column.{name}", language) for name in ("figure", "printed", "predicted")]
    header += [text("log.column.range", language), text("log.column.error", language)]
    lines += left_table([header, *(_cells(row, language) for row in found.rows)])
    if not found.rows:
        lines.append(text("log.nothing", language))
    if found.assumed:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in found.assumed)
        lines += ["", text("log.assumed", language, names=names)]
    if found.notes:
        lines += ["", *(f"- {say_note(note, language)}" for note in found.notes)]
    return "\n".join(lines)


def import_text(reading: ResultsReading, record: Record, written: str | None, language: str) -> str:
    """What was imported: measured against predicted, before and after the calibration, and what to know about it.

    Args:
        written: file that the record was written to, or None.
    """
    count = len(counting(record))
    lines = [
        text(
            "import.read",
            language,
            rows=len(record.rows),
            tool=text(f"import.tool.{reading.tool}", language),
            accelerator=record.accelerator,
            count=count,
        ),
        "",
    ]
    found = compare_record(record)
    columns = ("row", "figure", "measured", "predicted", "before", "after")
    header = [text(f"import.column.{name}", language) for name in columns]
    lines += left_table([header, *(_compared(one, language) for one in found.figures)])
    lines += [f"{row}: {say_error(error, language)}" for row, error in found.refused]
    notes = [*reading.notes, *row_notes(record.rows)]
    lines += ["", *(f"- {_noted(note, language)}" for note in notes)]
    key = "import.without_calibration" if record.calibration is None else "import.calibrated"
    lines += ["", text(key, language)]
    if written is not None:
        lines.append(text("import.written", language, file=written))
    if record.calibration is not None:
        key = "import.next_unwritten" if written is None else "import.next"
        lines.append(text(key, language, file=shlex.quote(written or "")))
    return "\n".join(lines)


def _noted(note: Note, language: str) -> str:
    """What a note says; the codes of a row are also those of rows that were measured here."""
    if f"note.{note.code}" in catalogue(language):
        return say_note(note, language)
    return text(f"measure.note.{note.code}", language)


def _compared(one: Compared, language: str) -> list[str]:
    kind = "rate" if one.quantity.endswith("_per_s") else "time"
    after = one.after_error_fraction
    return [
        one.row if one.role == "fit" and one.counts else f"({one.row})",
        text(f"figure.{one.quantity}", language),
        format_value(one.measured.median, kind, language),
        format_value(one.before.mid, kind, language),
        _signed(one.before_error_fraction, language),
        "" if after is None else _signed(after, language),
    ]


def _cells(row: LogRow, language: str) -> list[str]:
    kind = kind_of(row.quantity)
    cells = [text(f"figure.{row.quantity}", language), format_value(row.printed, kind, language)]
    if row.predicted is None:
        return [*cells, text("log.no_prediction", language), "", ""]
    low, mid, high = (
        format_value(end, kind, language)
        for end in (row.predicted.low, row.predicted.mid, row.predicted.high)
    )
    error = "" if row.error_fraction is None else _signed(row.error_fraction, language)
    return [*cells, mid, f"{low} – {high}", error]


def _signed(fraction: float, language: str) -> str:
    sign = "+" if fraction > 0.0 else ""
    return sign + format_value(fraction, "percent", language)


def comparison_json(reading: LogReading, found: LogComparison, language: str) -> dict[str, Any]:
    """The same as data, in SI units."""
    return {
        "engine": reading.tool,
        "version": reading.version,
        "scenario": found.scenario.model_dump(mode="json", exclude_none=True, exclude={"config"}),
        "assumed": list(found.assumed),
        "rows": [_row_json(row) for row in found.rows],
        "notes": [
            {"code": note.code, "values": note.values, "message": say_note(note, language)}
            for note in found.notes
        ],
    }


def _row_json(row: LogRow) -> dict[str, Any]:
    predicted = row.predicted
    return {
        "quantity": row.quantity,
        "printed": row.printed,
        "predicted": None
        if predicted is None
        else {
            "low": float(predicted.low),
            "mid": float(predicted.mid),
            "high": float(predicted.high),
            "basis": predicted.basis.label,
        },
        "error_fraction": row.error_fraction,
        "inside": row.inside,
        "line": row.line,
        "shown": row.shown,
    }
