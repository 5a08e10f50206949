"""Charts of the Fit page: which context lengths and users fit, and how the cache grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.deployment import resolve
from planner.evaluation import Evaluation
from planner.sweeps import CacheCurve, FitMap, cache_curve, fit_map
from planner.ui.charts.base import (
    Array,
    Chart,
    here,
    hovers,
    layout,
    line,
    linear_axis,
    log_axis,
    whole_powers,
)
from planner.ui.choices import TOKEN_STOPS
from planner.ui.look import NEUTRAL, SERIES, palette
from planner.ui.state import plain
from planner.ui.widgets import h, shown

POINTS = 41
USERS_MOST = 4096.0
REGIONS = ("fits", "tight", "does_not_fit")


# --- Context × users -------------------------------------------------------------------------------------------------


def _map_axes(evaluation: Evaluation) -> tuple[Array, Array]:
    """Contexts up to the model's own, and users up to a good deal more than fit at the shortest."""
    scenario = evaluation.scenario
    tokens = scenario.input_tokens + scenario.output_tokens
    longest = max(float(evaluation.model.max_context_tokens or 32768), 2.0 * tokens)
    contexts = np.geomspace(max(min(256.0, tokens / 4.0), 16.0), longest, POINTS)
    most = 4.0 * max(float(evaluation.memory.max_concurrency.mid), scenario.concurrency, 8.0)
    return contexts, np.geomspace(1.0, min(most, USERS_MOST), POINTS)


def map_chart(evaluation: Evaluation) -> Chart:
    """Fits, tight, doesn't fit, over tokens per person and people at once; the scenario as a point."""
    scenario = evaluation.scenario
    contexts, users = _map_axes(evaluation)
    found = fit_map(scenario, contexts, users)
    tokens = float(scenario.input_tokens + scenario.output_tokens)
    said = h("chart.here", tokens=int(tokens), users=scenario.concurrency)
    traces = [*_regions(found, users), *_limit_line(found, users)]
    traces.append(here(tokens, float(scenario.concurrency), said))
    arrangement = layout(
        log_axis(plain("axis.tokens_each"), contexts, "count", base=2),
        log_axis(plain("axis.users"), users, "count", base=2),
        height=340,
    )
    arrangement["annotations"] += _region_names(found, contexts, users)
    figure = {"data": traces, "layout": arrangement}
    held = float(evaluation.memory.max_concurrency.mid)
    longest = float(evaluation.memory.max_context_tokens.mid)
    served = resolve(scenario).served_sequences
    key = "fit.map_finding" if held >= 1 else "fit.map_finding_none"
    if served < held:
        key = "fit.map_finding_served"
    finding = {"tokens": tokens, "held": held, "longest": longest, "served": served}
    return Chart(
        "map",
        h(key, **finding),
        h("fit.map_about"),
        plain(key, **finding),
        figure,
        (h("axis.tokens_each"), h("fit.map_column")),
        lambda: _map_rows(evaluation, contexts, users),
    )


def _map_rows(evaluation: Evaluation, contexts: Array, users: Array) -> list[tuple[str, str]]:
    """Most people at whole powers of two of context."""
    lengths = np.array(whole_powers(float(contexts[0]), float(contexts[-1])))
    found = fit_map(evaluation.scenario, lengths, users)
    return [
        (shown(length, "count"), _held(float(most)))
        for length, most in zip(lengths, found.limit_users, strict=True)
    ]


def _held(users: float) -> str:
    return shown(users, "count") if users >= 1 else "–"


def _regions(found: FitMap, users: Array) -> list[dict[str, Any]]:
    """The three verdicts as cells, coloured faintly; names and the limit's line tell them apart without colour."""
    colours = palette()
    tints = (colours.accent, colours.amber, colours.red)
    scale: list[list[object]] = []
    for index, tint in enumerate(tints):
        scale += [[index / 3, tint], [(index + 1) / 3, tint]]
    return [
        {
            "type": "heatmap",
            "x": found.contexts,
            "y": users,
            "z": found.verdict,
            "zmin": -0.5,
            "zmax": 2.5,
            "colorscale": scale,
            "showscale": False,
            "opacity": 0.2,
            "hoverinfo": "skip",
        }
    ]


def _limit_line(found: FitMap, users: Array) -> list[dict[str, Any]]:
    """The most that fit, where more don't: an engine with few places lets the others wait, and has no such limit."""
    limit = np.asarray(found.limit_users, dtype=np.float64)
    above = np.minimum(np.searchsorted(users, 1.2 * limit), len(users) - 1)
    ends = np.asarray(found.verdict)[above, np.arange(len(limit))] == REGIONS.index("does_not_fit")
    shown_here = ends & (limit >= users[0]) & (limit <= users[-1])
    if not shown_here.any():
        return []
    x, y = np.asarray(found.contexts)[shown_here], limit[shown_here]
    return [line(x, y, hovers(x, lambda i: h("fit.map_hover", tokens=x[i], users=y[i])))]


def _region_names(found: FitMap, contexts: Array, users: Array) -> list[dict[str, Any]]:
    """Each verdict's name in the middle of its cells."""
    names = []
    verdicts = np.asarray(found.verdict)
    for index, region in enumerate(REGIONS):
        rows, columns = np.nonzero(verdicts == index)
        if len(rows) < 0.06 * verdicts.size or np.ptp(columns) < 0.2 * len(contexts):
            continue
        names.append(
            {
                "x": float(np.log10(contexts[int(np.median(columns))])),
                "y": float(np.log10(users[int(np.median(rows))])),
                "text": h(f"region.{region}"),
                "showarrow": False,
                "font": {"size": 14},
                "opacity": 0.85,
            }
        )
    return names


# --- Growth of the cache ---------------------------------------------------------------------------------------------


def cache_chart(evaluation: Evaluation) -> Chart:
    """Cache of one person against context: as the engine keeps it, and without windows or compression."""
    scenario = evaluation.scenario
    now = float(scenario.input_tokens + scenario.output_tokens)
    longest = float(evaluation.model.max_context_tokens or 32768)
    top = max(stop for stop in TOKEN_STOPS if stop <= max(8.0 * now, 16384.0))
    tokens = np.linspace(0.0, max(min(longest, float(top)), now), POINTS)
    curve = cache_curve(scenario, tokens)
    kept = np.asarray(curve.windowed_bytes, dtype=np.float64) + 0.0 * tokens
    naive = np.asarray(curve.naive_bytes, dtype=np.float64) + 0.0 * tokens
    windowed = bool(kept[-1] < 0.97 * naive[-1])
    most = float(max(kept[-1], naive[-1]))
    unit, unit_name = (2.0**30, "GiB") if most >= 2.0**30 else (2.0**20, "MiB")
    key = "fit.cache_hover" if windowed else "fit.cache_hover_one"
    said = hovers(tokens, lambda i: h(key, tokens=tokens[i], kept=kept[i], naive=naive[i]))
    traces = [line(tokens, kept / unit, said)]
    if windowed:
        dashes = {"width": 1.5, "dash": "dash"}
        traces.insert(0, line(tokens, naive / unit, None, NEUTRAL, line=dashes))
    at_now = float(np.interp(now, tokens, kept))
    traces.append(here(now, at_now / unit, h("fit.cache_here", tokens=now, kept=at_now)))
    arrangement = layout(
        linear_axis(plain("axis.context"), float(tokens[-1]), "count"),
        linear_axis(plain("axis.cache", unit=unit_name), most / unit, "number"),
        height=340,
    )
    arrangement["annotations"] += _end_labels(tokens, kept / unit, naive / unit, windowed)
    values = {
        "tokens": tokens[-1],
        "kept": kept[-1],
        "naive": naive[-1],
        "saved": 1.0 - kept[-1] / naive[-1] if naive[-1] else 0.0,
        "each": float(evaluation.memory.kv_bytes_per_token.mid),
        "state": curve.state_bytes,
    }
    finding = _cache_key(curve, windowed)
    about = "fit.cache_about_state" if curve.state_bytes else "fit.cache_about"
    return Chart(
        "cache",
        h(finding, **values),
        h(about, state=curve.state_bytes),
        plain(finding, **values),
        {"data": traces, "layout": arrangement},
        (h("axis.context"), h("fit.cache_kept"), h("fit.cache_naive")),
        lambda: [
            (shown(tokens[i], "count"), shown(kept[i], "bytes"), shown(naive[i], "bytes"))
            for i in range(0, len(tokens), 4)
        ],
    )


def _cache_key(curve: CacheCurve, windowed: bool) -> str:
    if windowed:
        return "fit.cache_finding_windowed"
    return "fit.cache_finding_state" if curve.state_bytes else "fit.cache_finding_linear"


def _end_labels(tokens: Array, kept: Array, naive: Array, windowed: bool) -> list[dict[str, Any]]:
    """Names at the lines' ends instead of a legend."""
    ends = [(kept, "fit.cache_kept", SERIES[0])]
    if windowed:
        ends.append((naive, "fit.cache_naive", NEUTRAL))
    return [
        {
            "x": float(tokens[-1]), "y": float(values[-1]), "text": h(key), "showarrow": False,
            "xanchor": "right", "yanchor": "bottom", "yshift": 4, "font": {"size": 12, "color": colour},
        }
        for values, key, colour in ends
    ]  # fmt: skip
