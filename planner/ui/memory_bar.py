"""The memory of one card as a bar: what fills it, where the limit is, and the same as a list."""

from __future__ import annotations

from dataclasses import dataclass

from planner.architecture.cache import cache_bytes
from planner.deployment import resolve
from planner.evaluation import Evaluation
from planner.memory.budget import requested_sequences
from planner.memory_limits import budget_of
from planner.ui import state
from planner.ui.device_words import device_words
from planner.ui.widgets import draw, h, shown

# Theme colour of each component; the rest of the pool is striped in the colour of what fills it.
COLOURS = {
    "weights": "s1",
    "activations": "s3",
    "runtime": "grey",
    "outside": "s9",
    "cache": "s4",
    "pool": "s4",
}
ADDED_SEEN = 0.005  # share of the cache in use from which what the engine adds is said
LABELLED = 0.09  # share of the bar from which a component's size is written on it


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the bar: `component.<name>` in the catalogues, bytes on one card."""

    name: str
    size_bytes: float


@dataclass(frozen=True, slots=True)
class Filling:
    """What fills one card, in the bar's order.

    Attributes:
        usable_bytes: what the engine can see of the card.
        limit_bytes: what it lets itself take for the components before those that lie outside its share.
        over_bytes: what the workload needs beyond that limit; 0 where it fits.
    """

    components: tuple[Component, ...]
    usable_bytes: float
    limit_bytes: float
    over_bytes: float


def filling(evaluation: Evaluation) -> Filling:
    """The heaviest card's memory: within the engine's share first, then what it takes beside it, then free."""
    memory, scenario = evaluation.memory, evaluation.scenario
    budget = budget_of(resolve(scenario), scenario)
    weights = float(memory.weights_bytes_per_gpu.mid)
    activations = Component("activations", float(memory.activation_bytes_per_gpu.mid))
    runtime = Component("runtime", float(memory.overhead_bytes_per_gpu.mid))
    cache = float(memory.needed_bytes_per_gpu.mid) - weights
    cache = max(cache - activations.size_bytes - runtime.size_bytes, 0.0)
    rest = max(float(memory.kv_pool_bytes_per_gpu.mid) - cache, 0.0)
    of_cache = (Component("cache", cache), Component("pool", rest))
    # Some engines count activations and the run time to their share, one counts only weights and cache.
    narrow = budget.settings.policy == "static_fraction"
    beside = float(budget.outside_bytes)
    inside = (Component("weights", weights), *(() if narrow else (activations, runtime)), *of_cache)
    outside = (activations, runtime) if narrow else (Component("outside", beside),)
    usable, limit = float(memory.usable_bytes_per_gpu.mid), float(budget.allowed_bytes)
    over = max(sum(part.size_bytes for part in inside) - rest - limit, 0.0)
    taken = sum(part.size_bytes for part in (*inside, *outside))
    parts = (*inside, *outside, Component("free", max(usable - taken, 0.0)))
    return Filling(tuple(part for part in parts if part.size_bytes > 0.0), usable, limit, over)


def draw_bar(evaluation: Evaluation) -> None:
    """The bar with its limit, then the components with their sizes and shares."""
    full = filling(evaluation)
    whole = max(sum(part.size_bytes for part in full.components), full.usable_bytes)
    segments = "".join(_segment(part, whole) for part in full.components)
    listed = "".join(_legend(part, full.usable_bytes) for part in full.components)
    told = ", ".join(
        f"{h(f'component.{p.name}')} {shown(p.size_bytes, 'gib')}" for p in full.components
    )
    gpus = evaluation.deployment.gpus
    card = device_words(evaluation.deployment.accelerator_name, state.language())
    about = h("bar.about_each", gpus=gpus, card=card) if gpus > 1 else h("bar.about", card=card)
    draw(
        f'<p class="hr-about">{about}</p><div class="hr-bar" role="img" aria-label="{told}">'
        f'<div class="hr-track">{segments}</div>{_marks(full, whole)}</div>'
        f'<div class="hr-legend">{listed}</div>{_over(full)}{_added(evaluation, full)}{_beside(evaluation)}'
    )


def _added(evaluation: Evaluation, full: Filling) -> str:
    """What of the cache in use the engine adds to what the model itself keeps, where it is seen."""
    used = sum(part.size_bytes for part in full.components if part.name == "cache")
    deployment, scenario = resolve(evaluation.scenario), evaluation.scenario
    tokens = float(scenario.input_tokens + scenario.output_tokens)
    each = float(cache_bytes(deployment.rank_layout, tokens))
    users = float(requested_sequences(scenario.concurrency, deployment.parallelism.dp))
    more = used - users * each
    if more <= ADDED_SEEN * used:
        return ""
    told = h("bar.cache_more", own=users * each, users=users, more=more)
    return f'<p class="hr-about">{told}</p>'


def _beside(evaluation: Evaluation) -> str:
    """What lies in host memory instead of on the card."""
    weights, cache = evaluation.memory.host_weights_bytes, evaluation.memory.host_kv_bytes
    if weights is None:
        return ""
    key = "bar.host_weights" if cache is None else "bar.host"
    told = {"weights": float(weights.mid)} | ({"cache": float(cache.mid)} if cache else {})
    return f'<p class="hr-about">{h(key, **told)}</p>'


def _marks(full: Filling, whole: float) -> str:
    """The engine's own limit where it has one, else the end of the card; both where more is needed than there is."""
    card = _mark(full.usable_bytes / whole, h("bar.card", size=full.usable_bytes))
    if not _has_own_limit(full):
        return card
    limit = _mark(full.limit_bytes / whole, h("bar.limit", size=full.limit_bytes))
    room = abs(full.usable_bytes - full.limit_bytes) / whole > 0.3
    return limit + card if room else limit


def _has_own_limit(full: Filling) -> bool:
    return full.limit_bytes < 0.995 * full.usable_bytes


def _mark(share: float, words: str) -> str:
    side = " hr-left" if share < 0.4 else ""
    return f'<div class="hr-mark{side}" style="left:{100 * share:.2f}%"><span>{words}</span></div>'


def _segment(part: Component, whole: float) -> str:
    share = part.size_bytes / whole
    label = h(f"component.{part.name}")
    size = shown(part.size_bytes, "gib")
    inside = size if share > LABELLED and part.name != "free" else ""
    striped = " hr-striped" if part.name == "pool" else ""
    return (
        f'<div class="hr-seg{striped}" style="width:{100 * share:.3f}%;{_fill(part.name)}" '
        f'title="{label}: {size}">{inside}</div>'
    )


def _fill(name: str) -> str:
    """Colours of a component, as CSS; what is free has none."""
    if name not in COLOURS:
        return "background-color:transparent"
    return f"background-color:var(--hr-{COLOURS[name]});color:var(--hr-on-{COLOURS[name]})"


def _legend(part: Component, usable: float) -> str:
    striped = " hr-striped" if part.name == "pool" else ""
    edge = ";box-shadow:inset 0 0 0 1px var(--hr-grey)" if part.name == "free" else ""
    size, share = shown(part.size_bytes, "gib"), shown(part.size_bytes / usable, "percent")
    return (
        f'<div><span class="hr-key{striped}" style="{_fill(part.name)}{edge}"></span>'
        f"<span>{h(f'component.{part.name}')}</span>"
        f'<span><span class="hr-num">{size}</span> · {share}</span></div>'
    )


def _over(full: Filling) -> str:
    if not full.over_bytes:
        return ""
    key = "bar.over_limit" if _has_own_limit(full) else "bar.over"
    return f'<p class="hr-over">✕ {h(key, size=full.over_bytes)}</p>'
