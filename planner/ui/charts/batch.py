"""Charts of what more people at once do: to all of them together, and to each."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.errors import PlannerError
from planner.evaluation import Evaluation, evaluate
from planner.quantity import Estimate
from planner.sweeps import BatchCurve, batch_curve
from planner.ui.charts.base import (
    Array,
    Chart,
    band,
    here,
    hovers,
    layout,
    line,
    linear_axis,
    log_axis,
    range_words,
    roomier_side,
    rows_at,
    upright,
    whole_powers,
    with_marks,
)
from planner.ui.state import plain
from planner.ui.widgets import h, shown

POINTS = 28
MOST = 1024.0
DIP = 0.03  # share of the output that is lost from one to two people before it is worth a word


def people_axis(evaluation: Evaluation) -> Array:
    """Whole numbers of people, up to twice what the cache holds."""
    held, now = float(evaluation.memory.max_concurrency.mid), evaluation.scenario.concurrency
    most = min(max(2.0 * held, 2.0 * now, 16.0), max(MOST, 1.5 * now))
    smooth = np.round(np.geomspace(1.0, most, POINTS))
    return np.unique([*smooth, *whole_powers(1.0, most), float(now)])


def batch_charts(evaluation: Evaluation) -> tuple[Chart, Chart]:
    """Output of the whole deployment, and of each person, against people at once."""
    people = people_axis(evaluation)
    curve = batch_curve(evaluation.scenario, people)
    limit = float(np.floor(curve.batch_limit))
    words = {"limit": limit, "critical": curve.critical_batch}
    for key, rate in (("all", curve.system_rate), ("each", curve.user_rate)):
        mid = np.asarray(rate.mid, dtype=np.float64)
        words[key], words[f"{key}_alone"] = float(np.interp(limit, people, mid)), float(mid[0])
    fits = "held" if limit >= 2 else "single" if limit >= 1 else "none"
    return (
        _chart("together", h(f"speed.together_finding_{fits}", **words), curve.system_rate, curve, evaluation),
        _chart("each", h(f"speed.each_finding_{fits}", **words), curve.user_rate, curve, evaluation),
    )  # fmt: skip


def dip(evaluation: Evaluation, people: Array, together: Array) -> str | None:
    """Why two at once get less in all than one alone does; None where they don't, or where it can't be told."""
    alone, both = (float(np.interp(count, people, together)) for count in (1.0, 2.0))
    if people[-1] < 2.0 or both > (1.0 - DIP) * alone:
        return None
    try:
        one, two = (
            evaluate(evaluation.scenario.replace(concurrency=count)).speed for count in (1, 2)
        )
    except PlannerError:
        return None
    if two.decode_parts.get("dequantisation", 0.0) > 2.0 * one.decode_parts.get(
        "dequantisation", 0.0
    ):
        return "unpacking"
    return "prompts" if float(two.ttft_s.mid) > 1.5 * float(one.ttft_s.mid) else None


def _chart(
    key: str, finding: str, rate: Estimate, curve: BatchCurve, evaluation: Evaluation
) -> Chart:
    people = np.asarray(curve.batch, dtype=np.float64)
    mid, high = np.asarray(rate.mid, dtype=np.float64), np.asarray(rate.high)
    now = float(evaluation.scenario.concurrency)
    value = float(np.interp(now, people, mid))
    said = hovers(
        people,
        lambda i: f"{h('chart.at_batch', batch=people[i])}<br>{range_words(rate, i, 'rate')}",
    )
    traces = [*band(people, rate), line(people, mid, said)]
    traces.append(here(now, value, h("chart.here_batch", batch=now, value=shown(value, "rate"))))
    title = plain(f"axis.{key}")
    arrangement = layout(
        log_axis(plain("axis.batch"), people, "count", base=2),
        linear_axis(title, float(high.max()), "number"),
    )
    limit, held = float(np.floor(curve.batch_limit)), float(evaluation.memory.max_concurrency.mid)
    _mark_limits(arrangement, people, limit, held, curve.critical_batch)
    about = h(f"speed.{key}_about")
    if key == "together" and (why := dip(evaluation, people, mid)):
        about += " " + h(f"speed.dip_{why}")
    return Chart(
        key,
        finding,
        about,
        plain("chart.alt_batch", what=title, low=float(mid.min()), high=float(mid.max())),
        {"data": traces, "layout": arrangement},
        (h("axis.batch"), h(f"axis.{key}"), h("chart.low"), h("chart.high")),
        lambda: [
            (
                shown(people[i], "count"),
                *(shown(float(np.asarray(end)[i]), "rate") for end in (rate.mid, rate.low, rate.high)),
            )
            for i in rows_at([*whole_powers(1.0, people[-1]), now, float(np.floor(curve.batch_limit))], people)
        ],
    )  # fmt: skip


def _mark_limits(
    arrangement: dict[str, object], people: Array, limit: float, held: float, critical: float
) -> None:
    """Where cache or engine take no more, and from where on compute limits; their words never overlap."""
    if people[0] < limit < people[-1]:
        words = h(
            "chart.kv_limit" if limit >= np.floor(held) else "chart.served_limit", batch=limit
        )
        with_marks(arrangement, _mark(limit, words, people, inside=False))
    if people[0] < critical < people[-1]:
        words = h("chart.critical", batch=critical)
        with_marks(arrangement, _mark(critical, words, people, inside=True))


def _mark(at: float, words: str, people: Array, *, inside: bool) -> dict[str, Any]:
    """A mark; its words stand on the side where there is more room, inside the chart or above it."""
    side = roomier_side(at, people)
    return upright(at, words, log=True, side=side, row=0.98 if inside else None)
