"""What other programs wrote, as text and data: a log against its prediction."""

from __future__ import annotations

from typing import Any

from planner.catalog.engine_profiles import engine
from planner.measure.readers import LogComparison, LogReading, LogRow
from planner.ui.locale import say_note, text
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
    table = [header, *(_cells(row, language) for row in found.rows)]
    widths = [max(len(line[at]) for line in table) for at in range(len(header))]
    for line in table:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        lines.append("  ".join(padded).rstrip())
    if not found.rows:
        lines.append(text("log.nothing", language))
    if found.assumed:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in found.assumed)
        lines += ["", text("log.assumed", language, names=names)]
    if found.notes:
        lines += ["", *(f"- {say_note(note, language)}" for note in found.notes)]
    return "\n".join(lines)


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
