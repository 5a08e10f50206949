"""A benchmark of an endpoint as text and as data: percentiles, rates and failures of each load, and the prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from planner.measure.comparison import Compared, Comparison, compare_record
from planner.measure.record import Record, RecordQuantity, Row
from planner.measure_report import measured_json
from planner.quantity import Estimate
from planner.report_tables import percent, plain_table
from planner.ui.endpoint_words import failure_words, load_words
from planner.ui.locale import say_error, text
from planner.ui.locale.numbers import format_value

TIMES: tuple[RecordQuantity, ...] = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
TOLD = 20  # of the steps of a phase, however many there are
ENDS = ("p50", "p90", "p95", "p99")


def step_text(step: dict[str, Any], language: str) -> str | None:
    """A step for a person; None where there is nothing to say."""
    done, total = step["done"], step["total"]
    if step["phase"] not in ("probe", "warmup", "requests"):
        return None
    if done * TOLD // max(total, 1) == (done - 1) * TOLD // max(total, 1):
        return None
    said = text(f"endpoint.step.{step['phase']}", language)
    if not total:
        return said
    left = step["left_s"]
    rest = "" if left is None else text("endpoint.step.left", language, left=float(left))
    return f"{said} {done}/{total} {rest}".rstrip()


def endpoint_text(record: Record, language: str) -> str:
    """Each load, then what the record says of the whole, then predicted against measured."""
    software = ", ".join(f"{name} {value}" for name, value in record.software.items())
    lines = [text("endpoint.title", language, name=record.name, software=software)]
    if record.lengths_file is not None:
        lines.append(text("endpoint.lengths_file", language, file=record.lengths_file))
    # What holds for every load is said once.
    same = [code for code in _notes(record) if all(code in row.notes for row in record.rows)]
    for row in record.rows:
        lines += ["", *_load(row, [code for code in row.notes if code not in same], language)]
    if said := [*record.notes, *same]:
        lines += ["", *(note_text(code, language) for code in said)]
    return "\n".join([*lines, "", *_compared(record, language)])


def _notes(record: Record) -> list[str]:
    return list(dict.fromkeys(code for row in record.rows for code in row.notes))


def note_text(code: str, language: str) -> str:
    """What to know of a load or of the whole, in words."""
    return text(f"measure.note.{code}", language)


def _load(row: Row, notes: Sequence[str], language: str) -> Iterator[str]:
    yield text(
        "endpoint.load",
        language,
        load=load_words(row, language),
        done=row.counts.get("done", 0),
        all=sum(row.counts.values()),
        input=int(row.scenario["input_tokens"]),
        output=int(row.scenario["output_tokens"]),
    )
    figures = [(name, row.percentiles[name]) for name in TIMES if name in row.percentiles]
    if figures:
        cells = [
            [
                "  " + text(f"measure.quantity.{name}", language),
                *(format_value(getattr(ends, end), "time", language) for end in ENDS),
            ]
            for name, ends in figures
        ]
        yield from plain_table(["", *ENDS], cells)
    rates = [
        f"{text(f'measure.quantity.{name}', language)} {format_value(spread.median, 'rate', language)}"
        for name, spread in row.measured.items()
        if name.endswith("_tokens_per_s")
    ]
    if rates:
        yield "  " + ", ".join(rates)
    if failed := failure_words(row, language):
        yield "  " + text("endpoint.failures", language, kinds=failed)
    for code in notes:
        yield f"  {note_text(code, language)}"


def _compared(record: Record, language: str) -> Iterator[str]:
    found = comparison_of(record)
    if found is None:
        yield text("endpoint.not_compared", language)
        return
    if found.figures:
        head = ("run", "figure", "measured", "before", "before_error", "after", "after_error")
        columns = [text(f"measure.column.{name}", language) for name in head]
        yield from plain_table(columns, [_cells(one, language) for one in found.figures])
    for row, refusal in found.refused:
        yield f"{row}: {say_error(refusal, language)}"


def _cells(one: Compared, language: str) -> list[str]:
    kind = "rate" if one.quantity.endswith("_tokens_per_s") else "time"

    def shown(estimate: Estimate | None) -> str:
        if estimate is None:
            return "–"
        mid, low, high = (
            format_value(float(end), kind, language)
            for end in (estimate.mid, estimate.low, estimate.high)
        )
        return f"{mid} ({low} – {high})"

    return [
        one.row,
        text(f"measure.quantity.{one.quantity}", language),
        format_value(one.measured.median, kind, language),
        shown(one.before),
        percent(one.before_error_fraction, signed=True),
        shown(one.after),
        percent(one.after_error_fraction, signed=True),
    ]


def comparison_of(record: Record) -> Comparison | None:
    """Predicted against measured; None where nobody said what the server runs on."""
    return compare_record(record) if record.accelerator else None


def endpoint_json(record: Record, language: str) -> dict[str, Any]:
    """As `measured_json`; without a comparison where nobody said what the server runs on."""
    if not record.accelerator:
        return {"measurement": record.model_dump(mode="json"), "comparison": None, "refused": []}
    return measured_json(record, language)
