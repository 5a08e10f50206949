"""A measurement against length: the first token over prompts, a token over contexts; measured and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.measure.comparison import Compared
from planner.measure.record import Record
from planner.quantity import Estimate, worst
from planner.ui.charts.base import Array, Chart, band, layout, line, log_axis
from planner.ui.look import NEUTRAL, SERIES
from planner.ui.measure_words import compared_cells, compared_head, signed
from planner.ui.state import plain
from planner.ui.widgets import h

ENDS = ("low", "mid", "high")
FEWEST = 3  # lengths, for a curve to say something
QUANTITIES = {"first": ("prefill_s", "ttft_s"), "next": ("tpot_s", "itl_s")}


@dataclass(frozen=True, slots=True)
class Series:
    """One model's figures of one kind at batch 1, by length (tokens, ascending)."""

    model: str
    tokens: Array
    figures: tuple[Compared, ...]


def length_charts(record: Record, figures: Sequence[Compared]) -> list[Chart]:
    """A chart for each kind of figure that was measured at three lengths or more."""
    found = []
    for kind, names in QUANTITIES.items():
        if (
            series := _longest(record, [one for one in figures if one.quantity in names])
        ) is not None:
            found.append(_chart(kind, series))
    return found


def _longest(record: Record, figures: Sequence[Compared]) -> Series | None:
    """The model with most lengths, alone on the device; the fit's before one that was held back."""
    scenarios = {row.id: row.scenario for row in record.rows}
    by_model: dict[tuple[str, str, str], dict[float, Compared]] = {}
    for one in figures:
        said = scenarios[one.row]
        if int(said.get("concurrency", 1)) == 1:
            key = (str(said.get("model", "")), str(said.get("dtype", "")), one.role)
            by_model.setdefault(key, {})[float(said.get("input_tokens", 1))] = one
    if not by_model:
        return None

    def rank(item: tuple[tuple[str, str, str], dict[float, Compared]]) -> tuple[int, bool]:
        return len(item[1]), item[0][2] == "fit"

    (model, _, _), points = max(by_model.items(), key=rank)
    if len(points) < FEWEST:
        return None
    tokens = sorted(points)
    return Series(model, np.array(tokens), tuple(points[length] for length in tokens))


def _chart(kind: str, series: Series) -> Chart:
    x, figures = series.tokens, series.figures
    measured = np.array([one.measured.median for one in figures])
    fitted = all(one.after is not None for one in figures)
    predicted = [one.after if fitted and one.after is not None else one.before for one in figures]
    before = np.array([float(one.before.mid) for one in figures])
    curve = _curve(predicted)
    spreads = [end for one in figures for end in (one.measured.low, one.measured.high)]
    ranges = (np.asarray(curve.low), np.asarray(curve.high)) if fitted else ()
    everything = np.concatenate([spreads, before, *ranges])
    traces = band(x, curve) if fitted else []
    traces.append(line(x, before, None, NEUTRAL, line={"width": 1.6, "dash": "dash"}))
    if fitted:
        traces.append(line(x, np.asarray(curve.mid), None))
    traces.append(_measured(series, measured, predicted))
    values: dict[str, Any] = {
        "model": series.model.rpartition("/")[2],
        "first": x[0],
        "last": x[-1],
        "from": float(measured[0]),
        "to": float(measured[-1]),
    }
    return Chart(
        f"measured-{kind}",
        h(f"measure.lengths_{kind}", **values),
        h("measure.lengths_about" if fitted else "measure.lengths_about_plain"),
        plain(f"measure.lengths_alt_{kind}", **values),
        {
            "data": traces,
            "layout": layout(
                log_axis(plain(f"measure.lengths_x_{kind}"), _room(x), "count", base=2),
                log_axis(plain(f"measure.lengths_axis_{kind}"), _room(everything), "time"),
            ),
        },
        compared_head(),
        lambda: [compared_cells(one) for one in figures],
        _legend(fitted=fitted),
    )


def _room(values: Array) -> Array:
    return np.array([values.min() / 1.15, values.max() * 1.15])


def _curve(points: Sequence[Estimate]) -> Estimate:
    """Predictions at several lengths as one."""
    low, mid, high = (np.array([float(getattr(one, end)) for one in points]) for end in ENDS)
    return Estimate(low, mid, high, "s", worst(*(one.basis for one in points)))


def _measured(series: Series, medians: Array, predicted: Sequence[Estimate]) -> dict[str, Any]:
    """What was measured, as points with the range of the repeats."""
    spreads = [one.measured for one in series.figures]
    texts = [
        "<br>".join(
            [
                h("chart.at_tokens", tokens=tokens),
                h("measure.hover_measured", value=spread.median),
                h("measure.hover_predicted", value=float(estimate.mid)),
                h("measure.hover_off", error=signed(float(estimate.mid) / spread.median - 1.0)),
            ]
        )
        for tokens, spread, estimate in zip(series.tokens, spreads, predicted, strict=True)
    ]
    return {
        "type": "scatter",
        "x": series.tokens,
        "y": medians,
        "mode": "markers",
        "marker": {"size": 10, "color": SERIES[1], "symbol": "diamond"},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [spread.high - spread.median for spread in spreads],
            "arrayminus": [spread.median - spread.low for spread in spreads],
            "color": SERIES[1],
            "thickness": 1.5,
            "width": 4,
        },
        "text": texts,
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
    }


def _legend(*, fitted: bool) -> str:
    """What is a point, and which line is which."""
    keys = [("◆", "measure.measured"), ("╌", "measure.shipped")]
    keys += [("—", "measure.own")] if fitted else []
    return (
        '<div class="hr-keys">'
        + "".join(f'<span><i class="hr-sign">{sign}</i>{h(key)}</span>' for sign, key in keys)
        + "</div>"
    )
