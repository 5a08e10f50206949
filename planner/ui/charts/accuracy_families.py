"""Median errors of families, and what they become where a model, a card or an engine was never measured."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from planner.ui.accuracy_data import family_name, held_of, record, targets_of
from planner.ui.charts.accuracy import HEIGHT, MARGIN, SYMBOLS, signs_legend
from planner.ui.charts.base import Chart, axis, layout
from planner.ui.look import NEUTRAL, SERIES
from planner.ui.state import language, plain
from planner.ui.widgets import h, shown

ROW_HEIGHT, LOW_ROW_HEIGHT = 44, 39
MOST_HIGH_ROWS = 14  # more of them are set closer
FLOOR = 1e-4  # a smaller error stands at the left edge: what is exact has no place on a logarithmic axis
TICKS = (1e-4, 1e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
FEW_TICKS = (1e-4, 1e-3, 0.01, 0.1, 1.0)
MOST_DECADES = 2.0  # from which only the powers of ten are written


def families_chart(names: Sequence[str], told: str) -> Chart:
    """Median errors of some families: in sample, and where something was left out of the fit.

    Args:
        names: families, from top to bottom.
        told: the one that the finding speaks of.
    """
    folds = ["in_sample", *sorted({fold for name in names for fold in held_of(name)})]
    errors = {
        name: {"in_sample": record().families[name].median, **held_of(name)} for name in names
    }
    values = [max(value, FLOOR) for one in errors.values() for value in one.values()]
    targets = [(name, what, target) for name in names for what, _, target in targets_of(name)]
    ends = [*values, *(target for *_, target in targets)]
    traces = [_spans(errors)]
    traces += [_dots(errors, fold, number) for number, fold in enumerate(folds)]
    traces.append(_strokes(names, targets))
    about = "accuracy.families_about"
    if min(values) <= FLOOR:
        about = "accuracy.families_about_exact"
    return Chart(
        "families",
        _finding(told, errors[told]),
        h(about),
        plain("accuracy.families_alt", number=len(names), low=min(values), high=max(values)),
        {"data": traces, "layout": _layout(names, min(ends), max(ends))},
        (h("accuracy.column.family"), *(h(f"accuracy.left_out.{fold}") for fold in folds)),
        lambda: [
            (
                html.escape(family_name(name, language())),
                *(shown(errors[name][fold], "percent") if fold in errors[name] else "–" for fold in folds),
            )
            for name in names
        ],
        signs_legend([plain(f"accuracy.left_out.{fold}") for fold in folds]),
    )  # fmt: skip


def _finding(told: str, errors: dict[str, float]) -> str:
    held = {fold: value for fold, value in errors.items() if fold != "in_sample"}
    values = {"family": family_name(told, language()), "before": errors["in_sample"]}
    if not held:
        kind = "counted" if told in record().memory else "unfitted"
        return h(f"accuracy.families_finding_{kind}", **values)
    worst = max(held, key=lambda fold: held[fold])
    what = plain(f"accuracy.left_out.{worst}")
    return h("accuracy.families_finding", **values, after=held[worst], what=what)


def _layout(names: Sequence[str], low: float, high: float) -> dict[str, Any]:
    """Families one under another, their names above their dots, so that a narrow page has room for both."""
    low, high = low / MARGIN, high * MARGIN
    wide = math.log10(high / low) > MOST_DECADES
    ticks = [tick for tick in (FEW_TICKS if wide else TICKS) if low <= tick <= high]
    row_height = ROW_HEIGHT if len(names) <= MOST_HIGH_ROWS else LOW_ROW_HEIGHT
    arrangement = layout(
        axis(
            plain("accuracy.axis_error"),
            log=True,
            tickmode="array",
            tickvals=ticks,
            ticktext=[shown(tick, "percent") for tick in ticks],
            range=[math.log10(low), math.log10(high)],
        ),
        axis("", range=[len(names) - 0.6, -0.75], showticklabels=False, showgrid=False),
        height=max(HEIGHT, row_height * len(names)),
    )
    arrangement["margin"]["t"] = 8
    arrangement["annotations"] = [
        {
            "xref": "paper", "yref": "y", "x": 0, "y": number, "xanchor": "left", "yanchor": "bottom", "yshift": 7,
            "text": html.escape(family_name(name, language())), "showarrow": False, "font": {"size": 12},
        }
        for number, name in enumerate(names)
    ]  # fmt: skip
    return arrangement


def _spans(errors: dict[str, dict[str, float]]) -> dict[str, Any]:
    """A thin line from a family's smallest error to its largest."""
    x: list[float | None] = []
    y: list[int | None] = []
    for number, one in enumerate(errors.values()):
        x += [max(min(one.values()), FLOOR), max(*one.values(), FLOOR), None]
        y += [number, number, None]
    return {
        "type": "scatter",
        "x": x,
        "y": y,
        "mode": "lines",
        "line": {"color": NEUTRAL, "width": 1.2},
        "hoverinfo": "skip",
    }


def _dots(errors: dict[str, dict[str, float]], fold: str, number: int) -> dict[str, Any]:
    found = [
        (place, name, one[fold]) for place, (name, one) in enumerate(errors.items()) if fold in one
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [max(value, FLOOR) for *_, value in found],
        "y": [place for place, *_ in found],
        "marker": {"size": 10, "symbol": SYMBOLS[number], "color": SERIES[number]},
        "customdata": [
            f"<b>{html.escape(family_name(name, language()))}</b><br>"
            f"{h(f'accuracy.left_out.{fold}')}: {shown(value, 'percent')}"
            for _, name, value in found
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
        "cliponaxis": False,
    }


def _strokes(names: Sequence[str], targets: Sequence[tuple[str, str, float]]) -> dict[str, Any]:
    """Upright strokes where a median error should lie at most."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [target for *_, target in targets],
        "y": [list(names).index(name) for name, *_ in targets],
        "marker": {
            "size": 9,
            "symbol": "line-ns-open",
            "color": NEUTRAL,
            "line": {"width": 2, "color": NEUTRAL},
        },
        "customdata": [
            h("accuracy.hover_target", target=target, what=plain(f"accuracy.missed_{what}"))
            for _, what, target in targets
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
