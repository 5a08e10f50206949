"""What all charts share: layout, axes with the language's numbers, bands, marks, and the frame around a chart.

A figure is plain data under plotly's names. plotly itself is imported by Streamlit when a chart is drawn.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from planner.quantity import Estimate
from planner.ui.guard import guarded
from planner.ui.look import NEUTRAL, SERIES
from planner.ui.widgets import draw, shown, t, table_html

Array = NDArray[np.float64]
HEIGHT = 300
TOP_MARGIN = 30  # pixels, as the next two
ABOVE = 6  # from a chart to words above it
LINE = 18  # what one line of such words takes
AXIS_NAME = "axis"
CONFIG = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False, "responsive": True}
TIME_TICKS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0)
FINE_TIME_TICKS = tuple(
    sorted(
        {
            *TIME_TICKS,
            *(m * d for d in (1e-4, 1e-3, 1e-2, 0.1, 1.0) for m in (2, 5)),
            20.0,
            120.0,
            300.0,
            1200.0,
        }
    )
)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and the words around it.

    Attributes:
        key: unique on its page.
        finding: what it shows, as a sentence (HTML).
        about: how to read it, in one line (HTML).
        alt: the same for those who don't see it (plain text).
        figure: data and layout.
        head, rows: the numbers as a table, worked out when it's opened; cells are HTML.
        legend: names and colours of the series, where they don't stand in the chart (HTML).
    """

    key: str
    finding: str
    about: str
    alt: str
    figure: dict[str, Any]
    head: Sequence[str]
    rows: Callable[[], Iterable[Sequence[str]]]
    legend: str = ""


def draw_chart(chart: Chart) -> None:
    """The finding, the chart, how to read it, and the numbers behind a toggle."""
    with st.container(key=f"box-{chart.key}", gap="xsmall"):
        _figure(chart)
        _words(chart)


@st.fragment
def draw_choosable_chart(chart: Chart, say: Callable[[Any], str]) -> None:
    """The same for a chart whose points tell more when one is clicked.

    Args:
        say: what a point tells (HTML), from the second part of its `customdata`.
    """
    with st.container(key=f"box-{chart.key}", gap="xsmall"):
        chosen = _figure(chart, on_select="rerun", selection_mode="points")
        points = chosen.selection.points if chosen else []
        with st.container(key=f"chosen-{chart.key}"):
            if points:
                draw(say(points[0]["customdata"][1]))
        _words(chart)


def _figure(chart: Chart, **more: Any) -> Any:
    from plotly.graph_objects import Figure  # here: plotly isn't on the app's import path

    # Not checked property by property, which costs more than drawing: a test does that for every chart.
    figure = Figure(chart.figure, _validate=False)
    draw(f'<p class="hr-finding">{chart.finding}</p>')
    key = f"chart-{chart.key}"
    return st.plotly_chart(figure, key=key, config=CONFIG, theme="streamlit", alt=chart.alt, **more)


def _words(chart: Chart) -> None:
    draw(f'{chart.legend}<p class="hr-about">{chart.about}</p>')
    _table(chart)


@st.fragment
def _table(chart: Chart) -> None:
    with st.expander(
        t("chart.table"), type="compact", key=f"table-{chart.key}", on_change="rerun"
    ) as toggle:
        if toggle.open:
            with guarded(f"table-{chart.key}"):
                draw(table_html(chart.finding, chart.head, chart.rows()))


# --- Layout and axes -------------------------------------------------------------------------------------------------


def axis(title: str, *, log: bool = False, **more: Any) -> dict[str, Any]:
    """An axis: title with unit, light grid, no zooming by accident."""
    return {
        "title": {"text": html.escape(title), "standoff": 8},
        "type": "log" if log else "linear",
        "fixedrange": True,
        "zeroline": False,
        "automargin": True,
        **more,
    }


def layout(
    x: dict[str, Any], y: dict[str, Any], *, height: int = HEIGHT, **more: Any
) -> dict[str, Any]:
    """A chart's layout: no title (it stands above), small margins; the upright axis has its name on top, lying."""
    name = y.pop("title", {}).get("text", "")
    named = {
        "text": name, "xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom",
        "yshift": ABOVE, "showarrow": False, "font": {"size": 12}, "name": AXIS_NAME,
    }  # fmt: skip
    return {
        "xaxis": x,
        "yaxis": y,
        "height": height,
        "margin": {"l": 8, "r": 14, "t": TOP_MARGIN, "b": 8},
        "hovermode": "closest",
        "showlegend": False,
        "font": {"size": 13},
        "annotations": [named] if name else [],
        **more,
    }


def log_axis(
    title: str, values: Array, kind: str, *, base: int = 10, most: int = 6
) -> dict[str, Any]:
    """A logarithmic axis over `values`, its ticks written in the visitor's language.

    Args:
        base: ticks are whole powers of it (2 for tokens and batches), thinned to at most `most`. Times have their own.
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if kind == "time":
        ticks = [tick for tick in TIME_TICKS if low <= tick <= high]
        if len(ticks) < 3:
            ticks = [tick for tick in FINE_TIME_TICKS if low <= tick <= high]
    else:
        first = math.ceil(math.log(low, base) - 1e-9)
        last = math.floor(math.log(high, base) + 1e-9)
        step = max(1, math.ceil((last - first + 1) / most))
        ticks = [float(base) ** power for power in reversed(range(last, first - 1, -step))]
    if len(ticks) < 2:  # less than one power between the ends
        ticks = [low, math.sqrt(low * high), high]
    return axis(
        title,
        log=True,
        tickmode="array",
        tickvals=ticks,
        ticktext=[shown(tick, kind) for tick in ticks],
        range=[math.log10(low), math.log10(high)],
    )


def linear_axis(title: str, top: float, kind: str, *, scale: float = 1.0) -> dict[str, Any]:
    """A linear axis from nought to `top`, its four or five ticks written in the visitor's language.

    Args:
        scale: values of the ticks are multiples of it (2^30 for GiB).
    """
    top = top if top > 0 else 1.0
    rough = top / scale / 4
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(m for m in (1, 2, 2.5, 5, 10) if m * magnitude >= rough * 0.999) * magnitude * scale
    ticks = [step * number for number in range(int(top / step + 1e-9) + 1)]
    return axis(
        title,
        tickmode="array",
        tickvals=ticks,
        ticktext=[shown(tick, kind) for tick in ticks],
        range=[0.0, top * 1.04],
    )


# --- Traces ----------------------------------------------------------------------------------------------------------


def band(x: Array, estimate: Estimate, colour: str = SERIES[0]) -> list[dict[str, Any]]:
    """Low to high as a pale band."""
    low, high = np.asarray(estimate.low), np.asarray(estimate.high)
    return [
        {
            "type": "scatter",
            "x": np.concatenate([x, x[::-1]]),
            "y": np.concatenate([high, low[::-1]]),
            "mode": "lines",
            "line": {"width": 0, "color": colour},
            "fill": "toself",
            "fillcolor": colour,
            "opacity": 0.16,
            "hoverinfo": "skip",
        }
    ]


def line(
    x: Array, y: Array, hover: Sequence[str] | None, colour: str = SERIES[0], **more: Any
) -> dict[str, Any]:
    """A line with its hover texts, ready in the visitor's language; without texts it doesn't react."""
    trace: dict[str, Any] = {
        "type": "scatter",
        "x": x,
        "y": y,
        "mode": "lines",
        "line": {"color": colour, "width": 2.4, **more.pop("line", {})},
        **more,
    }
    if hover is None:
        return trace | {"hoverinfo": "skip"}
    return trace | {"text": list(hover), "hovertemplate": "%{text}<extra></extra>"}


def bound_line(x: Array, y: Array) -> dict[str, Any]:
    """A physical bound: thin and grey."""
    return line(x, y, None, NEUTRAL, line={"width": 1.2, "dash": "dot"})


def here(x: float, y: float, hover: str, colour: str = SERIES[0]) -> dict[str, Any]:
    """The current scenario as a point."""
    return {
        "type": "scatter",
        "x": [x],
        "y": [y],
        "mode": "markers",
        "marker": {"size": 12, "color": colour, "line": {"width": 2.5, "color": "#ffffff"}},
        "text": [hover],
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
    }


def upright(
    x: float, words: str, *, log: bool = False, side: str = "left", row: float | None = None
) -> dict[str, Any]:
    """A vertical mark with words: `{"shapes": […], "annotations": […]}` for a layout.

    Args:
        side: of the mark on which the words stand.
        row: height of the words within the chart, 0 to 1; None: above it, under the upright axis's name.
    """
    return {
        "shapes": [
            {
                "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1,
                "line": {"color": NEUTRAL, "width": 1.2, "dash": "dash"},
            }
        ],
        "annotations": [
            {
                "xref": "x", "yref": "paper", "x": math.log10(x) if log else x, "y": 1.0 if row is None else row,
                "xanchor": "right" if side == "left" else "left",
                "yanchor": "bottom" if row is None else "top",
                "yshift": ABOVE if row is None else 0,
                "text": words, "align": "right" if side == "left" else "left", "showarrow": False,
                "font": {"size": 12, "color": NEUTRAL},
                "xshift": 0 if row is None else -4 if side == "left" else 4,
            }
        ],
    }  # fmt: skip


def roomier_side(at: float, x: Array) -> str:
    """The side of a mark on a logarithmic axis over `x` on which there is more room for its words."""
    return "left" if at * at > float(x[0]) * float(x[-1]) else "right"


def with_marks(arrangement: dict[str, Any], *marks: dict[str, Any]) -> dict[str, Any]:
    """A layout with marks added; words above it get a line of their own, under the upright axis's name."""
    for mark in marks:
        for name in ("shapes", "annotations"):
            arrangement.setdefault(name, []).extend(mark.get(name, []))
        if any(words["yanchor"] == "bottom" for words in mark["annotations"]):
            for words in arrangement["annotations"]:
                if words.get("name") == AXIS_NAME:
                    words["yshift"] = ABOVE + LINE
            arrangement["margin"]["t"] = TOP_MARGIN + LINE
    return arrangement


def hovers(x: Array, say: Callable[[int], str]) -> list[str]:
    """Hover texts, one for each point."""
    return [say(index) for index in range(len(x))]


def whole_powers(low: float, high: float) -> list[float]:
    """Powers of two between two numbers, both included: rows of a table over a logarithmic axis."""
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    return [2.0**power for power in range(first, last + 1)]


def rows_at(points: Iterable[float], x: Array) -> list[int]:
    """Indices of those points that are among `x`."""
    return [int(index) for index in np.flatnonzero(np.isin(x, list(points)))]


def range_words(estimate: Estimate, index: int, kind: str) -> str:
    """One point of a curve with its range, as HTML for a hover label or a cell."""
    low, mid, high = (
        shown(float(np.asarray(end)[index]), kind)
        for end in (estimate.low, estimate.mid, estimate.high)
    )
    return html.escape(f"{mid} ({low} – {high})")
