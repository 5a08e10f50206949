"""A server's loads on the page: how many requests were answered, how fast, and what became of the others."""

from __future__ import annotations

import html
from collections.abc import Iterator

from planner.measure.record import Record, RecordQuantity, Row
from planner.ui.endpoint_words import failure_words, load_words
from planner.ui.measure_words import kind_of, stated
from planner.ui.state import language
from planner.ui.widgets import draw, h, shown, table_html

RATES: tuple[RecordQuantity, ...] = ("output_tokens_per_s", "total_tokens_per_s")
ENDS = ("p50", "p90", "p95", "p99")


def loads(record: Record) -> None:
    """Both tables; nothing for a record of something else."""
    if record.origin != "endpoint" or not record.rows:
        return
    if record.lengths_file is not None:
        draw(f'<p class="hr-about">{h("endpoint.lengths_file", file=record.lengths_file)}</p>')
    head = (
        h("measure.column.load"),
        h("endpoint.column.answered"),
        h("endpoint.column.lengths"),
        *(h(f"measure.quantity.{name}") for name in RATES),
        h("endpoint.column.failed"),
    )
    draw(table_html(h("endpoint.loads"), head, map(_load, record.rows), wrap=(5,), folds=True))
    cells = [one for row in record.rows for one in _percentiles(row)]
    if cells:
        columns = (h("measure.column.load"), h("measure.column.figure"), *ENDS)
        draw(table_html(h("endpoint.percentiles"), columns, cells, folds=True))


def _load(row: Row) -> tuple[str, ...]:
    rates = (row.measured.get(name) for name in RATES)
    return (
        html.escape(load_words(row, language())),
        h("endpoint.answered", done=row.counts.get("done", 0), all=sum(row.counts.values())),
        h(
            "endpoint.lengths",
            input=stated(row, "input_tokens"),
            output=stated(row, "output_tokens"),
        ),
        *(html.escape(shown(rate.median, "rate")) if rate else "–" for rate in rates),
        html.escape(failure_words(row, language())) or "–",
    )


def _percentiles(row: Row) -> Iterator[tuple[str, ...]]:
    for name, percentiles in row.percentiles.items():
        ends = (getattr(percentiles, end) for end in ENDS)
        yield (
            html.escape(load_words(row, language())),
            h(f"measure.quantity.{name}"),
            *(html.escape(shown(end, kind_of(name))) for end in ends),
        )
