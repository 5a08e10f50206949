"""The tables of the accuracy page: families, the worst rows, what was left out, and the sources."""

from __future__ import annotations

import csv
import html
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from planner.catalog.files import profile_lines
from planner.catalog.measurements import measurement_sources
from planner.measure.accuracy import TARGETS, Point, cause, fold_of, worst
from planner.measure.memory_accuracy import MEMORY_TARGETS, worst_memory
from planner.ui.accuracy_data import (
    Compared,
    Errors,
    Record,
    errors_by_family,
    family_name,
    kind_of,
    link_html,
    quantity_name,
    record,
    row_of,
    run_words,
    source_of,
)
from planner.ui.locale import LANGUAGES
from planner.ui.state import language
from planner.ui.widgets import h, shown, table_html

NONE = "–"
FIGURES = ("family", "rows", "median", "p90", "bias", "coverage")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that are the same for every scenario, as HTML."""

    speed: str
    memory: str
    worst: str
    worst_memory: str
    left_out: str
    sources: str


@lru_cache(maxsize=len(LANGUAGES))
def tables(spoken: str) -> Tables:
    """Written once for each language; `spoken` is the visitor's, in which all words come anyway."""
    found = record()
    return Tables(
        _speed_table(found),
        _memory_table(found),
        _worst_table(found),
        _worst_memory_table(),
        _left_out_table(found),
        _sources_table(found),
    )


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


def _name(family: str) -> str:
    return html.escape(family_name(family, language()))


def _head(*columns: str) -> list[str]:
    return [h(f"accuracy.column.{name}") for name in columns]


def _figures(one: Errors) -> tuple[str, ...]:
    return (
        shown(one.rows, "count"),
        _share(one.median),
        _share(one.p90),
        _signed(one.bias),
        _share(one.coverage),
    )


def _speed_table(found: Record) -> str:
    """Every family of speed: how many figures, how far off, to which side, how often ranges hold, and the targets."""
    rows = []
    for name, one in found.speed.items():
        held = one.held.get(fold_of(name))
        in_sample, held_out = TARGETS.get(name, (None, None))
        rows.append(
            (
                _name(name),
                *_figures(one),
                _share(held),
                _share(one.held_coverage),
                _judged(one.median, in_sample),
                _judged(held, held_out),
            )
        )
    head = _head(*FIGURES, "held", "held_coverage", "target_in_sample", "target_held_out")
    return table_html(h("accuracy.families_title"), head, rows, folds=True)


def _memory_table(found: Record) -> str:
    """Every family of memory, and of how many models its figures are."""
    rows = []
    for name, one in found.memory.items():
        count, *figures = _figures(one)
        models = shown(one.models, "count")
        target = _judged(one.median, MEMORY_TARGETS.get(name))
        rows.append((_name(name), count, models, *figures, _share(one.held), target))
    head = [*_head("family", "rows"), h("memory_accuracy.column.models")]
    head += _head(*FIGURES[2:], "held", "target")
    return table_html(h("memory_accuracy.title"), head, rows, folds=True)


def own_table(chosen: tuple[Compared, ...]) -> str:
    """The errors of some figures by family."""
    rows = [(_name(name), *_figures(one)) for name, one in errors_by_family(chosen).items()]
    return table_html(h("accuracy.yours_title"), _head(*FIGURES), rows)


def _worst_table(found: Record) -> str:
    """The figures of speed that are furthest off, with the likely cause and the source of each."""
    group = worst([one for one in found.points if isinstance(one, Point)])
    rows = [_worst_row(one, h(f"accuracy.cause.{cause(one)}")) for one in group]
    head = _head("run", "measured", "predicted", "off", "why")
    return table_html(h("accuracy.worst_title"), head, rows, wrap=(0, 4), folds=True)


def _worst_memory_table() -> str:
    """The figures of memory that are furthest off, with what is known of the row."""
    rows = [
        _worst_row(one, f'<span lang="en">{html.escape(one.row.note or NONE)}</span>')
        for one in worst_memory()
    ]
    head = [*_head("run", "measured", "predicted", "off"), h("memory_accuracy.column.known")]
    return table_html(h("memory_accuracy.worst_title"), head, rows, wrap=(0, 4), folds=True)


def _worst_row(one: Compared, why: str) -> tuple[str, ...]:
    kind, spoken = kind_of(one.quantity), language()
    what, where, load = map(html.escape, run_words(one, spoken))
    quantity = html.escape(quantity_name(one.quantity, spoken))
    # In parts of the smaller: 6 % of a few hundred can't be told from 5 %.
    factor = max(one.mid / one.measured, one.measured / one.mid)
    return (
        f"<b>{what}</b><br>{where}<br>{load}: {quantity}",
        shown(one.measured, kind),
        shown(one.mid, kind),
        h("accuracy.times", factor=factor),
        f'{why}<br><span class="hr-words">{link_html(*source_of(one))}</span>',
    )


def _left_out_table(found: Record) -> str:
    """Rows of the tables that measurements were chosen from which aren't among them, and why."""
    rows = [
        (html.escape(row["table"]), shown(int(row["rows"]), "count"), html.escape(row["reason"]))
        for row in csv.DictReader(profile_lines("measurements/left-out.csv"))
    ]
    if found.refused:
        number = len(found.refused)
        rows.append((NONE, shown(number, "count"), h("accuracy.refused", number=number)))
    head = _head("table", "rows", "why")
    return table_html(h("accuracy.left_out_title"), head, rows, wrap=(2,))


def _sources_table(found: Record) -> str:
    """Where the measurements were read, with the licence and how many figures are from there."""
    counted = Counter(row_of(one).source for one in found.points)
    rows = [
        (
            link_html(source["title"], source["url"]),
            shown(counted[key], "count"),
            html.escape(source["licence"]),
        )
        for key, source in measurement_sources().items()
    ]
    head = _head("source", "rows", "licence")
    return table_html(h("accuracy.sources_title"), head, rows, wrap=(0, 2))
