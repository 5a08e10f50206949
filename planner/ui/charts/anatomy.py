"""Charts of what a model is made of: its layers in order, its parameters, and what each kind of layer caches."""

from __future__ import annotations

import html
from textwrap import wrap
from typing import Any

import numpy as np

from planner.architecture.anatomy import (
    Keeps,
    LayerGroup,
    active_by_part,
    group_cache_bytes,
    group_layouts,
    layer_groups,
)
from planner.architecture.spec import Architecture, LayerKind, Part
from planner.architecture.totals import active_parameters, parameters, parameters_by_part
from planner.deployment import Deployment, resolve
from planner.evaluation import Evaluation
from planner.ui.charts.base import (
    Array,
    Chart,
    axis,
    here,
    hovers,
    layout,
    line,
    linear_axis,
    log_axis,
    rows_at,
    whole_powers,
)
from planner.ui.layer_words import group_names, layers_in_words
from planner.ui.look import NEUTRAL, SERIES
from planner.ui.state import plain
from planner.ui.widgets import h, shown

# How high a layer is drawn: the more of the past it holds. Tells kinds apart without colour.
HEIGHTS = {Keeps.EVERY_TOKEN: 1.0, Keeps.WINDOW: 0.62, Keeps.STATE: 0.38, Keeps.NOTHING: 0.18}
POINTS = 40
LABEL_WIDTH = (
    20  # characters of a component's name on one line, so that a telephone has room for the bars
)
SHORTEST = 128.0


# --- Layers in order -------------------------------------------------------------------------------------------------


def layers_chart(evaluation: Evaluation) -> Chart:
    """Every layer as a block: colour by kind, height by what it holds of the past."""
    architecture = resolve(evaluation.scenario).architecture
    groups, names = layer_groups(architecture), group_names(architecture)
    traces = [
        _blocks(architecture, group, name, _colour(index))
        for index, (group, name) in enumerate(zip(groups, names, strict=True))
    ]
    count = architecture.layers
    ends = [number for number in _layer_ticks(count) if number <= count]
    x = axis(
        plain("axis.layer"),
        tickmode="array",
        tickvals=ends,
        ticktext=[shown(number, "count") for number in ends],
        range=[0.4, count + 0.6],
        showgrid=False,
    )
    top = max(HEIGHTS[group.keeps] for group in groups)
    y = axis("", range=[0.0, 1.05 * top], visible=False)
    arrangement = layout(x, y, height=150, barmode="overlay")
    arrangement["margin"] = {"l": 8, "r": 8, "t": 6, "b": 8}
    finding = layers_in_words(architecture)
    return Chart(
        "layers",
        html.escape(finding),
        h("model.layers_about"),
        finding,
        {"data": traces, "layout": arrangement},
        (
            h("model.column_kind"),
            h("model.column_number"),
            h("model.column_window"),
            h("model.column_experts"),
            h("model.column_each"),
            h("model.column_keeps"),
        ),
        lambda: [_group_row(architecture, *pair) for pair in zip(groups, names, strict=True)],
        _legend(groups, names),
    )


def _layer_ticks(count: int) -> list[int]:
    step = next(
        size for size in (1, 2, 4, 8, 12, 16, 24, 32, 64) if count / size <= 9 or size == 64
    )
    return [1, *range(step, count + 1, step)] if step > 1 else list(range(1, count + 1))


def _colour(index: int) -> str:
    return SERIES[index] if index < len(SERIES) else NEUTRAL


def _blocks(
    architecture: Architecture, group: LayerGroup, name: str, colour: str
) -> dict[str, Any]:
    kinds = [architecture.layer_kinds[architecture.layer_order[place]] for place in group.layers]
    return {
        "type": "bar",
        "x": [place + 1 for place in group.layers],
        "y": [HEIGHTS[group.keeps]] * len(group.layers),
        "width": 0.86,
        "name": html.escape(name),
        "marker": {"color": colour},
        "hovertext": [
            h("model.layer_hover", number=place + 1, kind=name, size=_elements(kind))
            for place, kind in zip(group.layers, kinds, strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _elements(kind: LayerKind) -> int:
    return sum(weight.elements for weight in kind.weights)


def _legend(groups: tuple[LayerGroup, ...], names: list[str]) -> str:
    """Colours and names, with how many layers and how they keep the past."""
    items = []
    for index, (group, name) in enumerate(zip(groups, names, strict=True)):
        colour = f"var(--hr-s{index + 1})" if index < len(SERIES) else NEUTRAL
        words = h("model.legend", number=len(group.layers), kind=name)
        swatch = f'<span class="hr-key" style="background-color:{colour}"></span>'
        items.append(f"<span>{swatch}{words}</span>")
    return f'<div class="hr-keys">{"".join(items)}</div>'


def _group_row(architecture: Architecture, group: LayerGroup, name: str) -> tuple[str, ...]:
    sizes = sorted({_elements(architecture.layer_kinds[index]) for index in group.kinds})
    each = " – ".join(dict.fromkeys(shown(size, "large") for size in (sizes[0], sizes[-1])))
    routed = (
        h("model.experts_of", used=group.experts_per_token, experts=group.experts)
        if group.experts
        else "–"
    )
    window = h("model.window_tokens", tokens=list(group.windows)) if group.windows else "–"
    return (
        html.escape(name),
        shown(len(group.layers), "count"),
        window,
        routed,
        each,
        h(f"model.keeps_{group.keeps}"),
    )


# --- Parameters by component -----------------------------------------------------------------------------------------


def parameters_chart(evaluation: Evaluation) -> Chart:
    """Parameters of each component, and how many of them a text token passes through."""
    architecture = resolve(evaluation.scenario).architecture
    totals = {part: count for part, count in parameters_by_part(architecture).items() if count}
    active = active_by_part(architecture)
    parts = sorted(totals, key=lambda part: -totals[part])
    used = [active.get(part, 0.0) for part in parts]
    idle = [totals[part] - each for part, each in zip(parts, used, strict=True)]
    all_of = float(parameters(architecture))
    said = [
        h("model.part_hover", part=plain(f"part.{part}"), count=totals[part], active=each)
        for part, each in zip(parts, used, strict=True)
    ]
    labels = ["<br>".join(wrap(h(f"part.{part}"), LABEL_WIDTH)) for part in parts]
    traces = [
        _part_bars(labels, used, said, "model.active", SERIES[0], ""),
        _part_bars(labels, idle, said, "model.idle", NEUTRAL, "/"),
    ]
    has_idle = any(count >= 0.5 for count in idle)
    if not has_idle:
        traces = traces[:1]
    x = linear_axis(plain("axis.parameters"), float(max(totals.values())), "large")
    x |= {"tickvals": x["tickvals"][::2], "ticktext": x["ticktext"][::2], "tickangle": 0}
    y = {"fixedrange": True, "autorange": "reversed", "automargin": True, "ticksuffix": " "}
    arrangement = layout(x, y, height=90 + 26 * len(parts), barmode="stack", bargap=0.25)
    arrangement["margin"] = {"l": 8, "r": 18, "t": 6, "b": 8}
    active_of = active_parameters(architecture)
    words: dict[str, Any] = {
        "part": plain(f"part.{parts[0]}"),
        "share": totals[parts[0]] / all_of,
        "count": all_of,
        "active": active_of,
    }
    passed = "_nearly" if has_idle else "_all"
    key = f"model.parameters_finding{'' if active_of < 0.98 * all_of else passed}"
    return Chart(
        "parameters",
        h(key, **words),
        h("model.parameters_about" if has_idle else "model.parameters_about_all"),
        plain(key, **words),
        {"data": traces, "layout": arrangement},
        (h("model.column_part"), h("axis.parameters"), h("model.column_share"), h("model.active")),
        lambda: _part_rows(totals, active, all_of, active_of),
        _active_legend() if has_idle else "",
    )


def _part_rows(
    totals: dict[Part, int], active: dict[Part, float], all_of: float, active_of: float
) -> list[tuple[str, ...]]:
    """Components, largest first, their total, and apart from it the next-token-prediction layers."""
    order = sorted(totals, key=lambda part: (part is Part.MTP, -totals[part]))
    rows = [(h(f"part.{part}"), float(totals[part]), active.get(part, 0.0)) for part in order]
    place = len(order) - (Part.MTP in totals)
    rows.insert(place, (h("model.parameters_total"), all_of, active_of))
    return [
        (name, shown(count, "count"), shown(count / all_of, "percent"), shown(used, "count"))
        for name, count, used in rows
    ]


def _part_bars(
    labels: list[str], counts: list[float], said: list[str], name: str, colour: str, pattern: str
) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "y": labels,
        "x": counts,
        "name": h(name),
        "marker": {"color": colour, "pattern": {"shape": pattern}},
        "hovertext": said,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _active_legend() -> str:
    items = (("var(--hr-s1)", "", "model.active"), (NEUTRAL, " hr-striped", "model.idle"))
    keys = "".join(
        f'<span><span class="hr-key{more}" style="background-color:{colour}"></span>{h(name)}</span>'
        for colour, more, name in items
    )
    return f'<div class="hr-keys" aria-hidden="true">{keys}</div>'


# --- Cache by kind of layer ------------------------------------------------------------------------------------------


def _caches(deployment: Deployment, tokens: Array) -> dict[int, Array]:
    """Bytes that each group of layers holds of one sequence, by its index; without groups that hold nothing."""
    architecture = deployment.architecture
    found = {}
    for index, group in enumerate(layer_groups(architecture)):
        layouts = group_layouts(
            architecture,
            group,
            deployment.kv.key_bytes,
            deployment.kv.value_bytes,
            deployment.compute_bytes,
            ignore_windows=not deployment.settings.windowed_cache,
            states=deployment.settings.states,
        )
        held = np.asarray(group_cache_bytes(layouts, tokens), dtype=np.float64) + 0.0 * tokens
        if held[-1] > 0.0:
            found[index] = held
    return found


def _context_axis(evaluation: Evaluation) -> Array:
    now = float(evaluation.scenario.input_tokens + evaluation.scenario.output_tokens)
    top = max(float(evaluation.model.max_context_tokens or 32768), now, 2.0 * SHORTEST)
    low = min(SHORTEST, now)
    smooth = np.rint(np.geomspace(low, top, POINTS))
    return np.unique([*smooth, *whole_powers(low, top), now])


def layer_cache_chart(evaluation: Evaluation) -> Chart | None:
    """What each kind of layer holds of one sequence against its length; None where nothing is held."""
    deployment = resolve(evaluation.scenario)
    x = _context_axis(evaluation)
    caches = _caches(deployment, x)
    if not caches:
        return None
    groups, names = (
        layer_groups(deployment.architecture),
        group_names(deployment.architecture),
    )
    total = np.sum(list(caches.values()), axis=0)
    traces = []
    if len(caches) > 1:
        for index, held in caches.items():
            traces.append(_cache_line(x, held, names[index], _colour(index), index))
        traces.append(_cache_line(x, total, plain("model.total"), NEUTRAL, 0, width=2.0))
    else:
        index = next(iter(caches))
        traces.append(_cache_line(x, total, names[index], _colour(index), 0))
    now = float(evaluation.scenario.input_tokens + evaluation.scenario.output_tokens)
    at_now = float(np.interp(now, x, total))
    colour = NEUTRAL if len(caches) > 1 else _colour(next(iter(caches)))
    traces.append(here(now, at_now, h("model.cache_here", tokens=now, size=at_now), colour))
    lines = np.concatenate(list(caches.values()))
    lowest = float(lines[lines > 0.0].min())
    arrangement = layout(
        log_axis(plain("axis.context"), x, "count", base=2),
        log_axis(
            plain("axis.layer_cache"),
            np.array([lowest / 1.5, float(total[-1]) * 1.5]),
            "bytes",
            base=2,
            most=5,
        ),
        height=max(280, 90 + 26 * len(parameters_by_part(deployment.architecture))),
    )
    arrangement["margin"] |= {"r": 34}  # half of the last tick's number
    key, words = _cache_finding(caches, total, x, names, groups)
    heads = [html.escape(names[index]) for index in caches]
    return Chart(
        "layer-cache",
        h(key, **words),
        h("model.cache_about", format=evaluation.deployment.kv_format),
        plain(key, **words),
        {"data": traces, "layout": arrangement},
        (h("axis.context"), *heads, h("model.total")),
        lambda: [
            (
                shown(x[i], "count"),
                *(shown(held[i], "bytes") for held in caches.values()),
                shown(total[i], "bytes"),
            )
            for i in rows_at([*whole_powers(x[0], x[-1]), now, x[-1]], x)
        ],
        _cache_legend(caches, names),
    )


DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


def _cache_line(
    x: Array, held: Array, name: str, colour: str, index: int, *, width: float = 2.4
) -> dict[str, Any]:
    said = hovers(x, lambda i: h("model.cache_hover", kind=name, tokens=x[i], size=held[i]))
    # A length below one compressed position holds nothing, which a logarithmic axis can't show.
    seen = np.where(held > 0.0, held, np.nan)
    dash = DASHES[index % len(DASHES)]
    return line(x, seen, said, colour, line={"width": width, "dash": dash})


def _cache_legend(caches: dict[int, Array], names: list[str]) -> str:
    if len(caches) < 2:
        return ""
    items = [(f"var(--hr-s{index + 1})", names[index]) for index in caches]
    items.append((NEUTRAL, plain("model.total")))
    keys = "".join(
        f'<span><span class="hr-key" style="background-color:{colour}"></span>'
        f"{html.escape(name)}</span>"
        for colour, name in items
    )
    return f'<div class="hr-keys" aria-hidden="true">{keys}</div>'


def _cache_finding(
    caches: dict[int, Array],
    total: Array,
    x: Array,
    names: list[str],
    groups: tuple[LayerGroup, ...],
) -> tuple[str, dict[str, Any]]:
    """What follows from the lines: who holds most at the longest context, or that nothing grows."""
    words: dict[str, Any] = {"tokens": x[-1], "total": total[-1]}
    if total[-1] <= total[0] * 1.001:
        return "model.cache_finding_constant", words
    if len(caches) == 1:
        return "model.cache_finding_one", words | {"layers": len(groups[next(iter(caches))].layers)}
    most = max(caches, key=lambda index: caches[index][-1])
    words |= {
        "kind": names[most],
        "layers": len(groups[most].layers),
        "share": caches[most][-1] / total[-1],
    }
    return "model.cache_finding", words
