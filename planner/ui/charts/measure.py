"""A measurement's times: predicted against measured, with shipped constants and with the ones fitted to it."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from planner.measure.comparison import Compared, is_time
from planner.ui.charts.base import Chart, layout, line, log_axis
from planner.ui.look import NEUTRAL, SERIES
from planner.ui.measure_words import (
    compared_cells,
    compared_head,
    evenly,
    figure_words,
    without_empty,
)
from planner.ui.state import plain
from planner.ui.widgets import h, range_text, shown

MARGIN = 1.3  # room around the outermost points
HEIGHT = 440


def measured_chart(figures: Sequence[Compared], *, busy: bool = False) -> Chart | None:
    """Every time on logarithmic axes of the same scale; on the line a prediction is right. None without times.

    Args:
        busy: the machine was; an error then says nothing of the predictions, and none is found.
    """
    times = [one for one in figures if is_time(one.quantity)]
    if not times:
        return None
    fitted = [one for one in times if one.after is not None]
    measured = np.array([one.measured.median for one in times])
    predicted = [float(one.before.mid) for one in times]
    for one in fitted:
        if one.after is not None:
            predicted += [float(one.after.low), float(one.after.high)]
    ends = np.array([min(*measured, *predicted) / MARGIN, max(*measured, *predicted) * MARGIN])
    traces = [line(ends, ends, None, NEUTRAL, line={"width": 1.2})]
    if fitted:
        traces.append(_ranges(evenly(fitted)))
    traces.append(_points(evenly(times), after=False))
    if fitted:
        traces.append(_points(evenly(fitted), after=True))
    # No second median beside the headline's, which is over fewer runs: what each point shows is counted.
    shown_here = fitted or times
    said = {
        "runs": len(shown_here),
        "closer": sum(_is_closer(one) for one in fitted),
        "slow": sum(one.before_error_fraction > 0.0 for one in times),
    }
    return Chart(
        "measured",
        h("measure.finding_busy")
        if busy
        else h("measure.finding" if fitted else "measure.finding_plain", **said),
        h("measure.chart_about" if fitted else "measure.chart_about_plain"),
        plain("measure.alt" if fitted else "measure.alt_plain", **said),
        {
            "data": traces,
            "layout": layout(
                log_axis(plain("measure.axis_measured"), ends, "time"),
                log_axis(plain("measure.axis_predicted"), ends, "time"),
                height=HEIGHT,
            ),
        },
        *_table(evenly(figures)),
        _legend(fitted=bool(fitted)),
    )


def _is_closer(one: Compared) -> bool:
    """Whether the calibration predicts nearer to what was measured than what is shipped."""
    after = one.after_error_fraction
    return after is not None and abs(after) < abs(one.before_error_fraction)


def _table(
    figures: Sequence[Compared],
) -> tuple[list[str], Callable[[], list[list[str]]]]:
    head, rows = without_empty(compared_head(), map(compared_cells, figures))
    return head, lambda: rows


def _points(figures: Sequence[Compared], *, after: bool) -> dict[str, Any]:
    chosen = [(one, one.after if after else one.before) for one in figures]
    marker: dict[str, Any] = (
        {"size": 11, "color": SERIES[0], "line": {"width": 1.5, "color": "#ffffff"}}
        if after
        else {"size": 10, "color": NEUTRAL, "symbol": "circle-open", "line": {"width": 2}}
    )
    return {
        "type": "scatter",
        "x": [one.measured.median for one, _ in chosen],
        "y": [float(estimate.mid) for _, estimate in chosen if estimate is not None],
        "mode": "markers",
        "marker": marker,
        "text": [_hover(one, after=after) for one, _ in chosen],
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
    }


def _ranges(figures: Sequence[Compared]) -> dict[str, Any]:
    """The ranges of the calibrated predictions, as upright bars with gaps between them."""
    ends = [(one.measured.median, one.after) for one in figures if one.after is not None]
    x = np.array([at for middle, _ in ends for at in (middle, middle, np.nan)])
    y = np.array([at for _, after in ends for at in (after.low, after.high, np.nan)], dtype=float)
    return line(x, y, None, SERIES[0], line={"width": 5}, opacity=0.22)


def _hover(one: Compared, *, after: bool) -> str:
    estimate = one.after if after and one.after is not None else one.before
    error = one.after_error_fraction if after else one.before_error_fraction
    span = html.escape(range_text(estimate, "time"))
    return "<br>".join(
        [
            figure_words(one),
            h("measure.hover_measured", value=one.measured.median),
            f"{h('measure.hover_after' if after else 'measure.hover_before', value=float(estimate.mid))}"
            + (f" ({span})" if span else ""),
            h("measure.hover_off", error=shown(error or 0.0, "percent")),
        ]
    )


def _legend(*, fitted: bool) -> str:
    shipped = f'<span><i class="hr-sign" style="color:{NEUTRAL}">○</i>{h("measure.shipped")}</span>'
    own = f'<span><i class="hr-sign" style="color:var(--hr-accent)">●</i>{h("measure.own")}</span>'
    return f'<div class="hr-keys">{shipped}{own if fitted else ""}</div>'
