"""Predicted against measured, run by run."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from planner.catalog.measurements import RATES
from planner.ui.accuracy_data import (
    FEW,
    Compared,
    class_name,
    class_of,
    engine_of,
    engines,
    errors_of,
    family_name,
    hovers,
    kind_of,
    link_html,
    off_words,
    points_of,
    quantity_name,
    run_words,
    source_of,
)
from planner.ui.charts.base import Array, Chart, layout, log_axis
from planner.ui.look import NEUTRAL, SERIES
from planner.ui.state import language, plain
from planner.ui.widgets import h, shown

HEIGHT = 480
MARGIN = 1.25  # room around the outermost points
MOST_GROUPS = 6
# Of plotly, and as the legend writes them; a group has a symbol and a colour, so that either tells it.
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
SIGNS = ("●", "■", "◆", "▲", "✚", "✖")
FADED = 0.16
COLOURS = ("engine", "accelerator")


# --- Predicted against measured --------------------------------------------------------------------------------------


def scatter_chart(
    family: str, quantity: str, colour: str, marked: Collection[Compared] | None
) -> Chart:
    """Every figure of one quantity in a family, on logarithmic axes of the same scale.

    Args:
        colour: what tells the points apart, one of COLOURS.
        marked: points that stand out from the others; None for all.
    """
    found = points_of(family, quantity)
    one = errors_of(found)
    ends = np.array([value for p in found for value in (p.measured, p.mid)])
    ends = np.array([ends.min() / MARGIN, ends.max() * MARGIN])
    names = {"family": family_name(family, language()), "rows": one.rows}
    said = {**names, "median": one.median, "coverage": one.coverage}
    groups = _groups(found, colour)
    traces = [_half(ends, one.median, rate=quantity in RATES), _diagonal(ends)]
    traces += _points(found, groups, hovers(family, quantity, language()), marked)
    return Chart(
        f"scatter-{family}-{quantity}",
        h("accuracy.scatter_finding" if one.rows >= FEW else "accuracy.scatter_finding_few", **said),
        h("accuracy.scatter_about", median=one.median),
        plain("accuracy.scatter_alt", **said, p90=one.p90),
        {
            "data": traces,
            "layout": layout(
                _axis("measured", quantity, ends), _axis("predicted", quantity, ends), height=HEIGHT
            ),
        },
        tuple(h(f"accuracy.column.{name}") for name in ("run", "measured", "predicted", "off", "source")),
        lambda: [_row(p) for p in sorted(found, key=lambda p: -abs(math.log(p.mid / p.measured)))],
        signs_legend(list(groups)),
    )  # fmt: skip


def _axis(side: str, quantity: str, ends: Array) -> dict[str, Any]:
    kind = kind_of(quantity)
    name = quantity_name(quantity, language())
    # Ticks of times and sizes carry their units, which differ along the axis; the others' stands in the title.
    title = plain(f"accuracy.axis_{side}_{'rate' if kind == 'rate' else 'value'}", quantity=name)
    if kind == "bytes":
        return log_axis(title, ends, kind, base=2)
    return log_axis(title, ends, "number" if kind == "rate" else kind)


def _half(ends: Array, median: float, *, rate: bool) -> dict[str, Any]:
    """A band around the diagonal in which half of the points lie: errors are of the time, of a rate of its inverse."""
    below, above = max(1.0 - median, 1e-3), 1.0 + median
    if rate:
        below, above = 1.0 / above, 1.0 / below
    low, high = ends
    # Held to the chart: the corners of a wide band would lie far outside it.
    top, right = min(low * above, high), min(low / below, high)
    return {
        "type": "scatter",
        "x": np.array([low, max(high / above, low), high, high, right, low]),
        "y": np.array([top, high, high, max(high * below, low), low, low]),
        "mode": "lines",
        "line": {"width": 0, "color": NEUTRAL},
        "fill": "toself",
        "fillcolor": NEUTRAL,
        "opacity": 0.2,
        "hoverinfo": "skip",
    }


def _diagonal(ends: Array) -> dict[str, Any]:
    return {
        "type": "scatter",
        "x": ends,
        "y": ends,
        "mode": "lines",
        "line": {"color": NEUTRAL, "width": 1.2},
        "hoverinfo": "skip",
    }


def _groups(found: Sequence[Compared], colour: str) -> dict[str, list[int]]:
    """Indices of the points by the name of their group, the largest first; what is left over is one group."""
    key: Callable[[Compared], str] = engine_of if colour == "engine" else class_of
    spoken = language()
    names = [key(one) for one in found]
    common = [name for name, _ in Counter(names).most_common()]
    if len(common) > MOST_GROUPS:
        common = common[: MOST_GROUPS - 1]
    label = {
        name: engines()[name] if colour == "engine" else class_name(name, spoken) for name in common
    }
    groups: dict[str, list[int]] = {label[name]: [] for name in common}
    for index, name in enumerate(names):
        groups.setdefault(label.get(name) or plain("accuracy.others"), []).append(index)
    return groups


def _points(
    found: Sequence[Compared],
    groups: Mapping[str, Sequence[int]],
    said: Sequence[str],
    marked: Collection[Compared] | None,
) -> list[dict[str, Any]]:
    chosen = None if marked is None else {id(one) for one in marked}
    traces = []
    for number, indices in enumerate(groups.values()):
        opacity: float | list[float] = 0.75
        if chosen is not None:
            opacity = [0.85 if id(found[index]) in chosen else FADED for index in indices]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": np.array([found[index].measured for index in indices]),
                "y": np.array([found[index].mid for index in indices]),
                "marker": {
                    "size": 8,
                    "symbol": SYMBOLS[number],
                    "color": SERIES[number],
                    "opacity": opacity,
                },
                "selected": {"marker": {"size": 14}},
                "customdata": [(said[index], index) for index in indices],
                "hovertemplate": "%{customdata[0]}<extra></extra>",
                "cliponaxis": False,
            }
        )
    return traces


def signs_legend(names: Sequence[str]) -> str:
    """Names of groups, each with the symbol and the colour that it has in the chart."""
    items = "".join(
        f'<span><b class="hr-sign" style="color:var(--hr-s{number + 1})">{SIGNS[number]}</b>{html.escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return f'<div class="hr-keys" aria-hidden="true">{items}</div>'


def chosen_words(family: str, quantity: str, index: int) -> str:
    """What a point of the chart tells when it is chosen: all of its hover, and its source as a link (HTML)."""
    said, _, _ = hovers(family, quantity, language())[index].rpartition("<br>")
    title, address = source_of(points_of(family, quantity)[index])
    return f'<div class="hr-chosen">{said}<br>{link_html(title, address)}</div>'


def _row(one: Compared) -> tuple[str, ...]:
    spoken, kind = language(), kind_of(one.quantity)
    return (
        "<br>".join(map(html.escape, run_words(one, spoken))),
        shown(one.measured, kind),
        shown(one.mid, kind),
        html.escape(off_words(one, spoken)),
        link_html(*source_of(one)),
    )
