"""The tables of the accuracy page: families, the worst rows, what was left out, and the sources."""

from __future__ import annotations

import csv
import html
from collections import Counter
from collections.abc import Sequence

from planner.catalog.files import profile_lines
from planner.catalog.measurements import measurement_sources
from planner.measure.accuracy import TARGETS, Point, Summary, by, cause, fold_of, worst
from planner.ui.accuracy_data import (
    Record,
    kind_of,
    link_html,
    quantity_name,
    run_words,
    source_of,
)
from planner.ui.state import language, plain
from planner.ui.widgets import h, shown, table_html

NONE = "–"


def family_name(name: str) -> str:
    """What a family is called (plain text)."""
    return plain(f"accuracy.family.{name}")


def _share(value: float | None) -> str:
    return NONE if value is None else shown(value, "percent")


def _signed(value: float) -> str:
    said = shown(value, "percent")
    return f"+{said}" if value > 0 else said


def _judged(error: float | None, target: float | None) -> str:
    """A target, and whether it is met, by a mark and in words for those who don't see it."""
    if target is None:
        return NONE
    said = shown(target, "percent")
    if error is None:
        return said
    met = error <= target
    mark, word = ("✓", "met") if met else ("✕", "missed_mark")
    tone = "fits" if met else "does_not_fit"
    return f'{said} <b class="hr-tone hr-{tone}" title="{h(f"accuracy.{word}")}">{mark}</b>'


def families_table(found: Record) -> str:
    """Every family: how many figures, how far off, to which side, how often ranges hold, and the targets."""
    columns = ("family", "rows", "median", "p90", "bias", "coverage", "held", "held_coverage")
    head = [h(f"accuracy.column.{name}") for name in columns]
    head += [h("accuracy.column.target_in_sample"), h("accuracy.column.target_held_out")]
    rows = []
    for name, one in found.families.items():
        held = one.held.get(fold_of(name))
        in_sample, held_out = TARGETS.get(name, (None, None))
        rows.append(
            (
                html.escape(family_name(name)),
                *_errors(one),
                _share(held),
                _share(one.held_coverage),
                _judged(one.median, in_sample),
                _judged(held, held_out),
            )
        )
    return table_html(h("accuracy.families_title"), head, rows)


def _errors(one: Summary) -> tuple[str, ...]:
    return (
        shown(one.rows, "count"),
        _share(one.median),
        _share(one.p90),
        _signed(one.bias),
        _share(one.coverage),
    )


def own_table(chosen: Sequence[Point]) -> str:
    """The errors of some figures by family."""
    head = [
        h(f"accuracy.column.{name}")
        for name in ("family", "rows", "median", "p90", "bias", "coverage")
    ]
    rows = [
        (html.escape(family_name(name)), *_errors(one))
        for name, one in by(chosen, lambda one: one.family).items()
    ]
    return table_html(h("accuracy.yours_title"), head, rows)


def worst_table(found: Record) -> str:
    """The figures that are furthest off, with the likely cause and the source of each."""
    columns = ("run", "measured", "predicted", "off", "why")
    rows = []
    for one in worst(found.points):
        kind, spoken = kind_of(one.quantity), language()
        what, where, load = map(html.escape, run_words(one, spoken))
        quantity = html.escape(quantity_name(one.quantity, spoken))
        source = f'<span class="hr-words">{link_html(*source_of(one))}</span>'
        rows.append(
            (
                f"<b>{what}</b><br>{where}<br>{load}: {quantity}",
                shown(one.measured, kind),
                shown(one.mid, kind),
                _times(one),
                f"{h(f'accuracy.cause.{cause(one)}')}<br>{source}",
            )
        )
    head = [h(f"accuracy.column.{name}") for name in columns]
    return table_html(h("accuracy.worst_title"), head, rows, wrap=(0, 4))


def _times(one: Point) -> str:
    """The larger of predicted and measured, in parts of the smaller: 6 % of a few hundred can't be told from 5 %."""
    return h("accuracy.times", factor=max(one.mid / one.measured, one.measured / one.mid))


def left_out_table(found: Record) -> str:
    """Rows of the tables that measurements were chosen from which aren't among them, and why."""
    rows = [
        (html.escape(row["table"]), shown(int(row["rows"]), "count"), html.escape(row["reason"]))
        for row in csv.DictReader(profile_lines("measurements/left-out.csv"))
    ]
    if found.refused:
        number = len(found.refused)
        rows.append((NONE, shown(number, "count"), h("accuracy.refused", number=number)))
    head = [h(f"accuracy.column.{name}") for name in ("table", "rows", "why")]
    return table_html(h("accuracy.left_out_title"), head, rows, wrap=(2,))


def sources_table(found: Record) -> str:
    """Where the measurements were read, with the licence and how many figures are from there."""
    counted = Counter(one.run.measurement.source for one in found.points)
    rows = [
        (
            link_html(source["title"], source["url"]),
            shown(counted[key], "count"),
            html.escape(source["licence"]),
        )
        for key, source in measurement_sources().items()
    ]
    head = [h(f"accuracy.column.{name}") for name in ("source", "rows", "licence")]
    return table_html(h("accuracy.sources_title"), head, rows, wrap=(0, 2))
