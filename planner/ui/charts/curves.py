"""Charts of what a longer prompt does: the first token, and the tokens after it, on the same axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.deployment import resolve
from planner.evaluation import Evaluation
from planner.speed.host import PASS_TOKENS
from planner.sweeps import Curve, decode_rate_curve, ttft_curve
from planner.ui.charts.base import (
    Array,
    Chart,
    band,
    bound_line,
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
from planner.ui.choices import TOKEN_STOPS
from planner.ui.state import plain
from planner.ui.widgets import h, shown

POINTS = 28
SHORTEST = 128.0
# Names of growth by their largest exponent.
GROWTH = (("flat", 0.3), ("slow", 0.85), ("linear", 1.2))
FLAT = 0.1  # a rate that has lost less than this share counts as flat


def prompt_axis(evaluation: Evaluation) -> Array:
    """Prompt lengths that both charts share: a little beyond what memory holds, up to what the model was made for."""
    scenario = evaluation.scenario
    longest = float(evaluation.model.max_context_tokens or 32768)
    held = float(evaluation.memory.max_context_tokens.mid)
    wanted = min(max(2.0 * held, 4.0 * scenario.input_tokens, 8192.0), longest)
    top = max((stop for stop in TOKEN_STOPS if stop <= wanted), default=longest)
    top = max(float(top), 1.05 * scenario.input_tokens)
    low = min(SHORTEST, float(scenario.input_tokens))
    smooth = np.geomspace(low, top, POINTS)
    return np.unique([*smooth, *whole_powers(low, top), float(scenario.input_tokens)])


def ttft_chart(evaluation: Evaluation) -> Chart:
    """Time to first token against prompt length, alone on the engine."""
    x = prompt_axis(evaluation)
    curve = ttft_curve(evaluation.scenario, x)
    words = _ends(evaluation, x, np.asarray(curve.estimate.mid))
    # Exponent of growth over what the title names: 1 is "in proportion".
    growth = float(np.log(words["to"] / words["from"]) / np.log(words["last"] / words["first"]))
    shape = next((name for name, most in GROWTH if growth < most), "steep")
    finding = f"speed.ttft_finding_{shape}" if evaluation.speed.tpot_s else "speed.pass_finding"
    return _curve_chart("ttft", h(finding, **words), evaluation, curve, "time", y_log=True)


def decode_chart(evaluation: Evaluation) -> Chart:
    """Tokens per second for one user against context."""
    x = prompt_axis(evaluation)
    curve = decode_rate_curve(evaluation.scenario, x)
    mid = np.asarray(curve.estimate.mid)
    words = _ends(evaluation, x, mid)
    slower = np.flatnonzero(mid < (1.0 - FLAT) * mid[0])
    knee = float(x[max(slower[0] - 1, 0)]) if len(slower) else words["last"]
    words |= {"lost": max(1.0 - words["to"] / words["from"], 0.0), "knee": _round(knee)}
    bends = "knee" if knee > 16.0 * x[0] else "falls"
    shape = "flat" if words["lost"] < FLAT else bends
    return _curve_chart(
        "decode",
        h(f"speed.decode_finding_{shape}", **words),
        evaluation,
        curve,
        "rate",
        y_log=False,
    )


def _at(tokens: float, x: Array, y: Array) -> float:
    return float(np.interp(np.log(tokens), np.log(x), y))


def _round(tokens: float) -> float:
    """A length to name in a sentence: the slider's stop below it."""
    return float(max((stop for stop in TOKEN_STOPS if stop <= tokens), default=tokens))


def _ends(evaluation: Evaluation, x: Array, y: Array) -> dict[str, Any]:
    """The curve's value at the shortest prompt, and at the longest that fits (or at the end, where none does)."""
    held = float(evaluation.memory.max_context_tokens.mid)
    last = _round(min(held, float(x[-1]))) if held > 4.0 * x[0] else float(x[-1])
    return {"first": x[0], "last": last, "from": float(y[0]), "to": _at(last, x, y)}


def _curve_chart(
    key: str, finding: str, evaluation: Evaluation, curve: Curve, kind: str, *, y_log: bool
) -> Chart:
    """One estimate with band, bound, the scenario's point, and the end of what memory holds."""
    x = np.asarray(curve.x, dtype=np.float64)
    estimate = curve.estimate
    mid = np.asarray(estimate.mid, dtype=np.float64)
    bound = None if curve.bound is None else np.asarray(curve.bound, dtype=np.float64) + 0.0 * x
    traces = band(x, estimate)
    everything = [np.asarray(estimate.low), np.asarray(estimate.high)]
    if bound is not None:
        traces.append(bound_line(x, bound))
        everything.append(bound)
    said = hovers(
        x, lambda i: f"{h('chart.at_tokens', tokens=x[i])}<br>{range_words(estimate, i, kind)}"
    )
    traces.append(line(x, mid, said))
    now = float(evaluation.scenario.input_tokens)
    value = _at(now, x, mid)
    traces.append(here(now, value, h("chart.here_value", tokens=now, value=shown(value, kind))))
    values, title = np.concatenate(everything), plain(f"axis.{key}")
    y = (
        log_axis(title, values, kind)
        if y_log
        else linear_axis(title, float(values.max()), "number")
    )
    arrangement = layout(log_axis(plain("axis.prompt"), x, "count", base=2), y)
    held = float(evaluation.memory.max_context_tokens.mid)
    if x[0] < held < 0.98 * x[-1]:
        side = roomier_side(held, x)
        with_marks(arrangement, upright(held, h("chart.memory_ends"), log=True, side=side))
    about = h(f"speed.{key}_about", people=evaluation.scenario.concurrency)
    if key == "ttft" and resolve(evaluation.scenario).machine is not None:
        about += " " + h("speed.ttft_steps", tokens=PASS_TOKENS)
    return Chart(
        key,
        finding,
        about,
        plain("chart.alt_tokens", what=title, low=shown(float(mid[0]), kind), first=x[0],
              high=shown(float(mid[-1]), kind), last=x[-1]),
        {"data": traces, "layout": arrangement},
        (h("axis.prompt"), h(f"axis.{key}"), h("chart.low"), h("chart.high"), h("chart.bound")),
        lambda: [
            (
                shown(x[i], "count"),
                *(shown(float(np.asarray(end)[i]), kind) for end in (estimate.mid, estimate.low, estimate.high)),
                "–" if bound is None else shown(bound[i], kind),
            )
            for i in rows_at([*whole_powers(x[0], x[-1]), now], x)
        ],
    )  # fmt: skip
