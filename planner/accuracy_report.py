"""The accuracy report as text, Markdown or data."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

from planner.catalog.files import profile_lines
from planner.catalog.measurements import measurement_sources
from planner.errors import Note
from planner.measure.accuracy import (
    LOADS,
    TARGETS,
    Point,
    Summary,
    against_targets,
    as_asked,
    by,
    cause,
    corner,
    fold_of,
    is_weak,
    load_of,
    points,
    summary,
    worst,
)
from planner.memory_accuracy_report import memory_json, memory_markdown, memory_text
from planner.report_tables import percent, plain_table, table, wrapped
from planner.ui.locale import text

SMALL = 8  # corners with fewer rows are counted together


def accuracy_json() -> dict[str, Any]:
    """Families, corners and the worst rows, as data."""
    found, refused = points()
    return {
        "families": {
            name: _plain(name, one) for name, one in by(found, lambda p: p.family).items()
        },
        "corners": {
            family: {
                name: _plain(family, one)
                for name, one in by([p for p in found if p.family == family], corner).items()
            }
            for family in sorted({p.family for p in found})
        },
        "worst": [_worst_row(one) for one in worst(found)],
        "refused": [{"code": note.code, **note.values} for note in refused],
        "memory": memory_json(),
    }


def _plain(family: str, one: Summary) -> dict[str, Any]:
    target = TARGETS.get(family)
    return {
        "rows": one.rows,
        "median_error_fraction": one.median,
        "p90_error_fraction": one.p90,
        "bias_fraction": one.bias,
        "coverage_fraction": one.coverage,
        "held_out_median_error_fraction": dict(one.held),
        "held_out_coverage_fraction": one.held_coverage,
        "target_fraction": list(target) if target else None,
    }


def _worst_row(one: Point) -> dict[str, Any]:
    scenario = one.run.scenario
    return {
        "family": one.family,
        "row": one.run.measurement.id,
        "engine": one.run.deployment.engine.id,
        "model": one.run.deployment.model.id,
        "gpu": f"{one.run.deployment.parallelism.gpus} × {one.card.id}",
        "input_tokens": scenario.input_tokens,
        "output_tokens": scenario.output_tokens,
        "concurrency": scenario.concurrency,
        "quantity": one.quantity,
        "measured": one.measured,
        "predicted": one.mid,
        "cause": cause(one),
    }


def accuracy_text(language: str) -> str:
    """The families as a plain table, for a terminal."""
    found, refused = points()
    lines = [text("accuracy.heading", language), ""]
    header = [text(f"accuracy.column.{name}", language) for name in _COLUMNS]
    rows = [_family_row(name, one, language) for name, one in by(found, lambda p: p.family).items()]
    lines += plain_table(header, rows)
    lines += ["", text("accuracy.how_to_read", language)]
    if refused:
        lines.append(text("accuracy.refused", language, number=len(refused)))
    lines += ["", *memory_text(language)]
    return "\n".join(lines)


_COLUMNS = (
    "family",
    "rows",
    "median",
    "p90",
    "bias",
    "coverage",
    "held",
    "held_coverage",
    "target",
)


def _family_row(name: str, one: Summary, language: str) -> list[str]:
    target = TARGETS.get(name)
    shown = "–"
    if target:
        shown = " / ".join(percent(part) for part in target)
    return [
        text(f"accuracy.family.{name}", language),
        str(one.rows),
        percent(one.median),
        percent(one.p90),
        percent(one.bias, signed=True),
        percent(one.coverage),
        percent(one.held.get(fold_of(name))),
        _held_range(one),
        shown,
    ]


def _held_range(one: Summary) -> str:
    shown = percent(one.held_coverage)
    return shown if one.held_coverage is None else f"{shown} ({one.held_groups})"


def accuracy_markdown(language: str = "en") -> str:
    """The whole report: families, hold-outs, corners, the worst twenty, what was left out, and the sources."""
    found, refused = points()

    def say(key: str, **values: Any) -> str:
        return text(f"accuracy.{key}", language, **values)

    def prose(key: str, **values: Any) -> str:
        return wrapped(say(key, **values))

    families = by(found, lambda p: p.family)
    header = [say(f"column.{name}") for name in _COLUMNS]
    lines = [f"# {say('title')}", "", prose("introduction"), ""]
    lines += table(header, [_family_row(name, one, language) for name, one in families.items()])
    lines += ["", prose("how_to_read"), "", f"## {say('missed_title')}", ""]
    missed = []
    for name, one in families.items():
        for which, got, target in against_targets(name, one):
            if got > target:
                sentence = say(
                    "missed",
                    family=say(f"family.{name}"),
                    what=say(f"missed_{which}"),
                    error=percent(got),
                    target=percent(target),
                )
                missed.append(wrapped(f"- {sentence} {say(f'why.{name}')}"))
    lines += missed or [say("none_missed")]
    lines += ["", f"## {say('weak_title')}", "", prose("weak_introduction", number=SMALL), ""]
    lines += _weak(found, language)
    folds = sorted({fold for one in families.values() for fold in one.held})
    lines += ["", f"## {say('held_title')}", "", prose("held_introduction"), ""]
    lines += table(
        [say("column.family"), *(say(f"fold.{fold}") for fold in folds)],
        [
            [say(f"family.{name}"), *(percent(one.held.get(fold)) for fold in folds)]
            for name, one in families.items()
            if one.held
        ],
    )
    lines += ["", f"## {say('corners_title')}", "", prose("corners_introduction", number=SMALL), ""]
    lines += _corners(found, language)
    lines += ["", f"## {say('loads_title')}", "", prose("loads_introduction"), ""]
    lines += _loads(found, language)
    lines += ["", f"## {say('settings_title')}", "", prose("settings_introduction"), ""]
    lines += _settings(found, language)
    lines += ["", f"## {say('worst_title')}", "", prose("worst_introduction"), ""]
    lines += _worst(found, language)
    lines += ["", *memory_markdown(language)]
    lines += ["", f"## {say('left_out_title')}", "", prose("left_out_introduction"), ""]
    lines += _left_out(refused, language)
    lines += ["", f"## {say('sources_title')}", "", prose("sources_introduction"), ""]
    lines += [
        wrapped(f"- [{source['title']}]({source['url']}): {source['licence']}; {source['rows']}")
        for source in measurement_sources().values()
    ]
    return "\n".join(lines) + "\n"


def _corners(found: Sequence[Point], language: str) -> list[str]:
    return _table_of(_named_corners(found, language), language)


def _weak(found: Sequence[Point], language: str) -> list[str]:
    """Corners that say little, the worst first."""
    weak = [named for named in _named_corners(found, language) if is_weak(named[1])]
    return _table_of(sorted(weak, key=lambda named: -named[1].median), language)


def _loads(found: Sequence[Point], language: str) -> list[str]:
    """Loops at a server by how many requests run at once."""
    named = []
    for family in sorted({one.family for one in found if one.run.measurement.family == "serving"}):
        title = text(f"accuracy.family.{family}", language)
        groups = by([one for one in found if one.family == family], load_of)
        named += [
            (f"{title}: {text(f'accuracy.load.{load}', language)}", groups[load])
            for load in (*LOADS, "many")
            if load in groups
        ]
    return _table_of(named, language)


def _settings(found: Sequence[Point], language: str) -> list[str]:
    """What rows with settings of their own come to as a scenario asks for them."""
    first = [one for one in found if one.family.startswith("serving.ttft") and one.held]
    asked = [(one, as_asked(one)) for one in first]
    rows = []
    for family in sorted({one.family for one, plain in asked if one is not plain}):
        mine = [pair for pair in asked if pair[0].family == family]
        set_so, plain = summary([one for one, _ in mine]), summary([other for _, other in mine])
        rows.append(
            [
                text(f"accuracy.family.{family}", language),
                str(len(mine)),
                str(sum(one is not other for one, other in mine)),
                *(percent(one.median) for one in (set_so, plain)),
                *(percent(one.held.get(fold_of(family))) for one in (set_so, plain)),
                *(percent(one.coverage) for one in (set_so, plain)),
            ]
        )
    columns = ("family", "rows", "set", "median", "median_asked", "held", "held_asked")
    header = [
        text(f"accuracy.column.{name}", language)
        for name in (*columns, "coverage", "coverage_asked")
    ]
    return table(header, rows)


def _named_corners(found: Sequence[Point], language: str) -> list[tuple[str, Summary]]:
    named = []
    for family in sorted({one.family for one in found}):
        mine = [one for one in found if one.family == family]
        sizes = {name: one.rows for name, one in by(mine, corner).items()}
        small = text("accuracy.others", language)

        def name_of(one: Point, sizes: dict[str, int] = sizes, small: str = small) -> str:
            name = corner(one)
            return name if sizes[name] >= SMALL else small

        title = text(f"accuracy.family.{family}", language)
        named += [(f"{title}: {name}", one) for name, one in by(mine, name_of).items()]
    return named


def _table_of(named: Sequence[tuple[str, Summary]], language: str) -> list[str]:
    header = [text(f"accuracy.column.{name}", language) for name in _COLUMNS[:6]]
    rows = [
        [
            name,
            str(one.rows),
            percent(one.median),
            percent(one.p90),
            percent(one.bias, signed=True),
            percent(one.coverage),
        ]
        for name, one in named
    ]
    return table(header, rows)


def _worst(found: Sequence[Point], language: str) -> list[str]:
    def say(key: str) -> str:
        return text(f"accuracy.{key}", language)

    header = [
        say("column.row"),
        say("column.run"),
        say("column.measured"),
        say("column.predicted"),
        say("column.why"),
    ]
    rows = []
    for one in worst(found):
        scenario = one.run.scenario
        run = (
            f"{one.run.deployment.engine.id}, {one.run.deployment.model.id}, "
            f"{one.run.deployment.parallelism.gpus} × {one.card.id}, "
            f"{scenario.input_tokens} + {scenario.output_tokens}, {scenario.concurrency}"
        )
        rows.append(
            [
                one.run.measurement.id,
                f"{run}: {one.quantity}",
                f"{one.measured:.3g}",
                f"{one.mid:.3g}",
                say(f"cause.{cause(one)}"),
            ]
        )
    return table(header, rows)


def _left_out(refused: Sequence[Note], language: str) -> list[str]:
    lines = profile_lines("measurements/left-out.csv")
    rows = [[row["table"], row["rows"], row["reason"]] for row in csv.DictReader(lines)]
    if refused:
        reason = text("accuracy.refused", language, number=len(refused))
        rows.append(["–", str(len(refused)), reason])
    header = [text(f"accuracy.column.{name}", language) for name in ("table", "rows", "why")]
    return table(header, rows)
