"""Cost against speed over accelerators: the front that nothing beats, the others, and the current deployment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.compare.pareto import pareto_front
from planner.compare.table import Comparison, Row
from planner.quantity import Estimate
from planner.ui.charts.base import Array, Chart, layout, log_axis
from planner.ui.compare_cards import row_name
from planner.ui.look import NEUTRAL, SERIES
from planner.ui.state import plain
from planner.ui.widgets import h, range_text, shown

HEIGHT = 430
MOST_NAMES = 7
NAME_APART = 0.09  # of the axis, so that names don't cover each other
TICKS = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0))
FEWEST_TICKS, MOST_TICKS = 3, 9
MARGIN = 1.18  # room around the outermost points


def cost_of(row: Row) -> Estimate | None:
    """Price of a million tokens of output; of input where there is no output."""
    return row.usd_per_million_output_tokens or row.usd_per_million_tokens


def _priced(row: Row) -> str:
    """Which tokens `cost_of` is of."""
    return "output" if row.usd_per_million_output_tokens is not None else "token"


def _cost(row: Row) -> float:
    cost = cost_of(row)
    return float(cost.mid) if cost else np.inf


def cheapest(rows: Sequence[Row]) -> Row | None:
    """The row with the cheapest tokens of those that hold the workload and have a price."""
    return min(_priced_rows(rows), key=_cost, default=None)


def as_cheap(best: Row, rows: Sequence[Row]) -> int:
    """How many others' middle price lies within the range of the cheapest one's: which is cheaper isn't known."""
    cost = cost_of(best)
    within = float(cost.high) if cost else 0.0
    return sum(row is not best and _cost(row) <= within for row in _priced_rows(rows))


def _priced_rows(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.holds and row.starts and cost_of(row)]


@dataclass(frozen=True, slots=True)
class Merit:
    """What stands on the vertical axis.

    Attributes:
        name: of its sentences; kind: of its numbers.
        figure: of a row.
    """

    name: str
    kind: str
    figure: Callable[[Row], Estimate | None]
    more_is_better: bool = True

    def rounded(self, row: Row) -> float:
        """The figure to two digits, more than which no estimate bears: nearly as fast is as fast."""
        figure = self.figure(row)
        return float(f"{float(figure.mid):.2g}") if figure else np.nan

    def fastest(self, rows: Sequence[Row]) -> Row | None:
        """The fastest of rows that hold the workload and, where any has one, have a price; of equals the cheapest."""
        able = [row for row in rows if row.holds and row.starts and self.figure(row)]
        able = [row for row in able if self.drawable(row)] or able
        sign = -1.0 if self.more_is_better else 1.0
        return min(able, key=lambda row: (sign * self.rounded(row), _cost(row)), default=None)

    def drawable(self, row: Row) -> bool:
        """Whether the row has a point: a price and a speed that it really reaches."""
        return row.starts and cost_of(row) is not None and self.figure(row) is not None

    def point(self, row: Row) -> tuple[float, float]:
        """Cost and speed of a drawable row."""
        cost, speed = cost_of(row), self.figure(row)
        return (float(cost.mid), float(speed.mid)) if cost and speed else (np.nan, np.nan)


MERITS = {
    "each": Merit("each", "rate", lambda row: row.speed.decode_tokens_per_s if row.speed else None),
    "together": Merit("together", "rate", lambda row: row.speed.total_tokens_per_s if row.speed else None),
    "ttft": Merit("ttft", "time", lambda row: row.speed.ttft_s if row.speed else None, more_is_better=False),
}  # fmt: skip


def cost_chart(comparison: Comparison, rows: Sequence[Row], merit: Merit) -> Chart | None:
    """The chart over those of `rows` that hold the workload and have a price, or None where there are none."""
    points = [row for row in rows if row.holds and merit.drawable(row)]
    if not points:
        return None
    places = np.array([merit.point(row) for row in points])
    costs, speeds = places[:, 0].tolist(), [merit.rounded(row) for row in points]
    front = pareto_front(costs, speeds, more_is_better=merit.more_is_better)
    others = [index for index in range(len(points)) if index not in front]
    best = [points[index] for index in front]
    traces = [_others([points[index] for index in others], places[others], merit)]
    traces += _front(best, places[list(front)], merit)
    current = comparison.current
    drawn = merit.drawable(current)
    if drawn:
        traces.append(_current(current, merit))
        places = np.vstack([places, merit.point(current)])
    finding = {
        "number": len(best),
        "cheap": row_name(best[0]),
        "cost": merit.point(best[0])[0],
        "kind": plain(f"compare.kind_{_priced(best[0])}"),
        "fast": row_name(best[-1]),
        "speed": shown(merit.point(best[-1])[1], merit.kind),
    }
    cost = _priced(best[0])
    title = plain(f"compare.axis_{merit.name}")
    return Chart(
        f"cost-{merit.name}",
        h("compare.chart_finding" if len(best) > 1 else "compare.chart_finding_one", **finding),
        h(f"compare.chart_about{_diamond(current, drawn=drawn)}", card=row_name(current)),
        plain("compare.chart_alt", what=title, **finding),
        {
            "data": traces,
            "layout": layout(
                _axis(plain(f"compare.axis_{cost}_cost"), places[:, 0], "usd"),
                _axis(title, places[:, 1], merit.kind),
                height=HEIGHT,
            ),
        },
        tuple(h(f"compare.column_{name}") for name in ("accelerator", f"{cost}_price", merit.name)),
        lambda: [(_name(row), _spread(cost_of(row), "usd"), _spread(merit.figure(row), merit.kind)) for row in best],
    )  # fmt: skip


def _axis(title: str, values: Array, kind: str) -> dict[str, Any]:
    """A logarithmic axis, its ticks at the roundest numbers that are enough."""
    ends = np.array([values.min() / MARGIN, values.max() * MARGIN])
    axis = log_axis(title, ends, kind)
    for mantissas in TICKS:
        steps = [m * 10.0**p for p in range(-6, 8) for m in mantissas]
        ticks = [tick for tick in steps if ends[0] <= tick <= ends[1]]
        if len(ticks) >= FEWEST_TICKS:
            break
    if len(ticks) > MOST_TICKS:
        return axis
    return axis | {"tickvals": ticks, "ticktext": [shown(tick, kind) for tick in ticks]}


# --- Words -----------------------------------------------------------------------------------------------------------


def _name(row: Row) -> str:
    return h("compare.deployment", gpus=row.gpus, card=row.accelerator.name)


def _spread(estimate: Estimate | None, kind: str) -> str:
    if estimate is None:
        return "–"
    span, middle = range_text(estimate, kind), shown(float(estimate.mid), kind)
    return f"{middle} ({span})" if span else middle


def _hover(row: Row, merit: Merit) -> str:
    return "<br>".join(
        (
            f"<b>{_name(row)}</b>",
            h(
                "compare.hover_cost",
                kind=plain(f"compare.kind_{_priced(row)}"),
                cost=_spread(cost_of(row), "usd"),
            ),
            f"{h(f'compare.column_{merit.name}')}: {_spread(merit.figure(row), merit.kind)}",
            h(f"verdict.{row.verdict}"),
        )
    )


# --- Traces ----------------------------------------------------------------------------------------------------------


def _points(rows: Sequence[Row], places: Array, merit: Merit, **more: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": places[:, 0],
        "y": places[:, 1],
        "customdata": [_hover(row, merit) for row in rows],
        "hovertemplate": "%{customdata}<extra></extra>",
        "cliponaxis": False,
        **more,
    }


def _others(rows: Sequence[Row], places: Array, merit: Merit) -> dict[str, Any]:
    """What something beats: small hollow circles."""
    marker = {"size": 8, "symbol": "circle-open", "color": NEUTRAL, "line": {"width": 1.5}}
    return _points(rows, places.reshape(-1, 2), merit, marker=marker)


def _front(rows: Sequence[Row], places: Array, merit: Merit) -> list[dict[str, Any]]:
    """What nothing beats: filled circles on a stepped line, with names as far as they have room."""
    named = _named(places)
    steps = {
        "type": "scatter",
        "mode": "lines",
        "x": places[:, 0],
        "y": places[:, 1],
        "line": {"color": SERIES[0], "width": 1.5, "shape": "hv", "dash": "dot"},
        "hoverinfo": "skip",
    }
    circles = _points(
        rows,
        places,
        merit,
        mode="markers+text",
        marker={"size": 11, "color": SERIES[0]},
        text=[_name(row) if index in named else "" for index, row in enumerate(rows)],
        textposition="bottom right" if merit.more_is_better else "top right",
        textfont={"size": 12},
    )
    return [steps, circles]


def _named(places: Array) -> set[int]:
    """Points whose names have room: the ends first, then those furthest in height from what has a name."""
    heights = np.log(places[:, 1])
    heights = heights / max(float(np.ptp(heights)), 1e-9)
    chosen = sorted({0, len(heights) - 1})
    while len(chosen) < min(len(heights), MOST_NAMES):
        apart = np.abs(heights[:, None] - heights[chosen]).min(axis=1)
        furthest = int(np.argmax(apart))
        if apart[furthest] < NAME_APART:
            break
        chosen.append(furthest)
    return set(chosen)


def _diamond(current: Row, *, drawn: bool) -> str:
    """How the legend speaks of the scenario's own point."""
    if not drawn:
        return "_unpriced"
    return "" if current.holds else "_waiting"


def _current(row: Row, merit: Merit) -> dict[str, Any]:
    """The deployment of the scenario: a diamond with its own word, hollow where not everybody fits at once."""
    return _points(
        [row],
        np.array([merit.point(row)]),
        merit,
        mode="markers+text",
        marker={
            "size": 15,
            "symbol": "diamond" if row.holds else "diamond-open",
            "color": SERIES[2],
            "line": {"width": 2, "color": "#ffffff" if row.holds else SERIES[2]},
        },
        text=[h("compare.chart_here")],
        textposition="top center",
        textfont={"size": 13},
    )
