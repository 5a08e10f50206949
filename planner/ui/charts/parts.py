"""Charts of where the time goes: shares of one prefill and one decode step, and both under the card's roof."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.evaluation import Evaluation
from planner.sweeps import RooflinePoint, roofline
from planner.ui.charts.base import (
    Array,
    Chart,
    here,
    hovers,
    layout,
    line,
    linear_axis,
    log_axis,
    upright,
    with_marks,
)
from planner.ui.look import NEUTRAL, SERIES, ink_on, palette
from planner.ui.state import plain
from planner.ui.widgets import h, shown

# Parts in the order in which they are stacked; each keeps its colour, whichever are there.
PARTS = {
    "linear": SERIES[0],
    "cache": SERIES[1],
    "attention": SERIES[2],
    "dequantisation": SERIES[3],
    "layers": SERIES[4],
    "sequences": SERIES[9],
    "communication": SERIES[6],
    "pipeline": SERIES[7],
    "host_weights": SERIES[5],
    "transfer": SERIES[8],
    "host": NEUTRAL,
}
SEEN = 0.004  # share from which a part is drawn
NAMED = 0.2  # share from which a part's name has room inside
PHASE_COLOURS = {"prefill": SERIES[0], "decode": SERIES[1]}


# --- Shares of the time ----------------------------------------------------------------------------------------------


def parts_chart(evaluation: Evaluation) -> Chart:
    """Shares of one prefill and of one decode step, stacked."""
    speed = evaluation.speed
    phases = {"prefill": speed.prefill_parts, "decode": speed.decode_parts}
    phases = {name: parts for name, parts in phases.items() if sum(parts.values()) > 0.0}
    totals = {name: sum(parts.values()) for name, parts in phases.items()}
    traces, table, seen = [], [], []
    for part, colour in PARTS.items():
        times = {name: parts.get(part, 0.0) for name, parts in phases.items()}
        shares = [times[name] / totals[name] for name in phases]
        if max(shares) >= SEEN:
            seen.append(part)
            traces.append(_part(part, colour, list(times.values()), shares, list(phases)))
            cells = (
                f"{shown(time, 'time')} · {shown(share, 'percent')}"
                for time, share in zip(times.values(), shares, strict=True)
            )
            table.append((h(f"step.{part}"), *cells))
    table.append((h("step.total"), *(shown(total, "time") for total in totals.values())))
    x = linear_axis("", 1.0, "percent") | {"range": [0.0, 1.0]}
    y = {"fixedrange": True, "autorange": "reversed", "ticksuffix": " ", "automargin": True}
    arrangement = layout(x, y, height=170, barmode="stack", bargap=0.3)
    arrangement["uniformtext"] = {"minsize": 12, "mode": "hide"}
    arrangement["margin"] = {"l": 8, "r": 18, "t": 6, "b": 8}
    words: dict[str, Any] = {
        "prefill": plain(f"limit.{speed.prefill_bound_by}"),
        "decode": plain(f"limit.{speed.bound_by}"),
    }
    several = "decode" in phases
    key = "speed.parts_finding" if several else "speed.parts_finding_one"
    return Chart(
        "parts",
        h(key, **words),
        h("speed.parts_about" if several else "speed.parts_about_one", **totals),
        plain(key, **words),
        {"data": traces, "layout": arrangement},
        (h("speed.parts_column"), *(h(f"phase.{name}") for name in phases)),
        lambda: table,
        _legend(seen),
    )


def _ink(colour: str) -> str:
    """What is readable on a theme colour."""
    seen = palette()
    return ink_on(seen.series[SERIES.index(colour)] if colour in SERIES else NEUTRAL)


def _legend(parts: list[str]) -> str:
    """Colours and names, in the theme's colours as the chart has them."""
    items = []
    for part in parts:
        colour = PARTS[part]
        if colour in SERIES:
            colour = f"var(--hr-s{SERIES.index(colour) + 1})"
        swatch = f'<span class="hr-key" style="background-color:{colour}"></span>'
        items.append(f"<span>{swatch}{h(f'step.{part}')}</span>")
    return f'<div class="hr-keys" aria-hidden="true">{"".join(items)}</div>'


def _part(
    part: str, colour: str, times: list[float], shares: list[float], phases: list[str]
) -> dict[str, Any]:
    """One part over the phases."""
    name = plain(f"step.{part}")
    return {
        "type": "bar",
        "orientation": "h",
        "y": [h(f"phase.{phase}") for phase in phases],
        "x": shares,
        "name": h(f"step.{part}"),
        "marker": {"color": colour},
        "text": [h(f"step.{part}") if share > NAMED else "" for share in shares],
        "textposition": "inside",
        "textangle": 0,
        "insidetextanchor": "middle",
        "insidetextfont": {"size": 12, "color": _ink(colour)},
        "hovertext": [
            h("speed.part_hover", part=name, share=share, time=time)
            for share, time in zip(shares, times, strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


# --- Roofline --------------------------------------------------------------------------------------------------------


def roofline_chart(evaluation: Evaluation) -> Chart:
    """What the card could do at each arithmetic intensity, and where prefill and decode are."""
    roof = roofline(evaluation.scenario)
    peak, bandwidth = float(roof.peak_flops_per_s), float(roof.bandwidth_bytes_per_s)
    ridge = float(roof.ridge_flop_per_byte)
    points = {name: point for name, point in roof.points.items() if point.mid_flops_per_s > 0.0}
    x = _intensities(ridge, points)
    y = np.minimum(peak, x * bandwidth)
    said = hovers(x, lambda i: h("speed.roof_hover", intensity=x[i], rate=y[i]))
    traces = [line(x, y, said, NEUTRAL, line={"width": 1.8})]
    lows = [float(point.low_flops_per_s) for point in points.values()]
    arrangement = layout(
        log_axis(plain("axis.intensity"), x, "number"),
        log_axis(plain("axis.flops"), np.array([min(lows) / 2.0, peak * 1.8]), "flops", most=4),
        height=310,
    )
    table = []
    sides = {}
    for phase, point in points.items():
        possible = min(peak, point.intensity_flop_per_byte * bandwidth)
        traces.append(_roof_point(phase, point, possible))
        arrangement["annotations"].append(_phase_name(phase, point, x))
        side = "memory" if point.intensity_flop_per_byte < ridge else "compute"
        sides[phase] = plain(f"speed.roof_is_{side}")
        rates = (point.mid_flops_per_s, point.low_flops_per_s, point.high_flops_per_s)
        table.append(
            (
                h(f"phase.{phase}"),
                shown(point.intensity_flop_per_byte, "number"),
                *(shown(rate, "flops") for rate in rates),
                shown(point.mid_flops_per_s / possible, "percent"),
                h(f"speed.roof_side_{side}"),
            )
        )
    with_marks(
        arrangement,
        upright(ridge, h("speed.ridge", intensity=ridge), log=True, side="right", row=0.2),
    )
    key = "speed.roof_finding" if len(sides) == 2 else "speed.roof_finding_one"
    return Chart(
        "roofline",
        h(key, **sides),
        h("speed.roof_about"),
        plain(key, **sides),
        {"data": traces, "layout": arrangement},
        (
            h("speed.roof_column"),
            h("axis.intensity"),
            h("axis.flops"),
            h("chart.low"),
            h("chart.high"),
            h("speed.roof_share"),
            h("speed.roof_side"),
        ),
        lambda: table,
    )


def _intensities(ridge: float, points: dict[str, RooflinePoint]) -> Array:
    """The horizontal axis, with the ridge among its points so that the roof has its corner."""
    found = [point.intensity_flop_per_byte for point in points.values()]
    x = np.geomspace(min(1.0, *found) / 2.0, max(40.0 * ridge, 4.0 * max(found)), 30)
    return np.sort(np.append(x, ridge))


def _roof_point(phase: str, point: RooflinePoint, possible: float) -> dict[str, Any]:
    """A phase's point with its range as whiskers."""
    mid, colour = point.mid_flops_per_s, PHASE_COLOURS[phase]
    said = h("speed.roof_point", phase=plain(f"phase.{phase}"), rate=mid, share=mid / possible)
    return here(point.intensity_flop_per_byte, mid, said, colour) | {
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [max(point.high_flops_per_s - mid, 0.0)],
            "arrayminus": [max(mid - point.low_flops_per_s, 0.0)],
            "thickness": 1.5,
            "width": 5,
            "color": colour,
        }
    }


def _phase_name(phase: str, point: RooflinePoint, x: Array) -> dict[str, Any]:
    """A phase's name beside its point, on the side where there is room."""
    right = 14.0 * point.intensity_flop_per_byte < x[-1]
    return {
        "x": float(np.log10(point.intensity_flop_per_byte)),
        "y": float(np.log10(point.mid_flops_per_s)),
        "text": h(f"phase.{phase}"),
        "showarrow": False,
        "xanchor": "left" if right else "right",
        "xshift": 12 if right else -12,
        "font": {"size": 13, "color": PHASE_COLOURS[phase]},
    }
