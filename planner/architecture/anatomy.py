"""What a model is made of, in few words: layers that work alike, the pattern in which they come, who takes what.

An architecture keeps layers apart that differ in a single width. A reader wants to know which layers keep every token,
which keep a window or a constant state, and which route to experts; `layer_groups` puts together what agrees in that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import groupby

from planner.architecture.cache import OWN_STATES, CacheLayout, cache_bytes, cache_layout
from planner.architecture.mixers import Attention
from planner.architecture.spec import Architecture, LayerKind, Part
from planner.architecture.totals import parameters_by_part
from planner.catalog.engine_profiles import StateRule
from planner.quantity import Quantity

LONGEST_PATTERN = 10  # runs that one repeated pattern may hold
SEGMENT_COST = 1.0  # of a further segment, in runs


class Keeps(StrEnum):
    """What a layer holds of the past."""

    EVERY_TOKEN = "every_token"
    WINDOW = "window"
    STATE = "state"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that mix tokens, keep the past and route alike, wherever in the model they are.

    Attributes:
        mixers: kinds of the mixers side by side ("full", "mamba2"); empty for a layer that mixes nothing.
        windows: tokens that its windowed attention sees, smallest first; empty where nothing is windowed.
        experts, experts_per_token: routed experts of a layer (the most in the group), and how many a token uses.
        feed_forward: it has one, routed or not.
        layers: places in the model, from 0.
        kinds: indices into `Architecture.layer_kinds`.
    """

    mixers: tuple[str, ...]
    windows: tuple[int, ...]
    experts: int
    experts_per_token: int
    feed_forward: bool
    keeps: Keeps
    layers: tuple[int, ...]
    kinds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a model's layers: runs of layers of one group, all of it `times` times.

    Attributes:
        runs: group's index and number of layers, in order.
    """

    runs: tuple[tuple[int, int], ...]
    times: int


def keeps(kind: LayerKind) -> Keeps:
    """What a layer of this kind holds of the past."""
    streams = [stream for mixer in kind.mixers for stream in mixer.streams]
    if any(stream.window is None for stream in streams):
        return Keeps.EVERY_TOKEN
    if streams:
        return Keeps.WINDOW
    has_state = any(mixer.states for mixer in kind.mixers)
    return Keeps.STATE if has_state else Keeps.NOTHING


def _windows(kind: LayerKind) -> tuple[int, ...]:
    """Tokens that windowed attention sees; of other mixtures, those that their uncompressed caches keep."""
    found = {mixer.window for mixer in kind.mixers if isinstance(mixer, Attention)}
    for mixer in kind.mixers:
        found |= {stream.window for stream in mixer.streams if stream.stride == 1}
    return tuple(sorted(window for window in found if window is not None))


@lru_cache(maxsize=1024)
def layer_groups(architecture: Architecture) -> tuple[LayerGroup, ...]:
    """Layers that work alike, in the order in which a group first occurs; every layer is in one of them."""
    places: dict[tuple[object, ...], list[int]] = {}
    for place, index in enumerate(architecture.layer_order):
        kind = architecture.layer_kinds[index]
        names = tuple(mixer.kind for mixer in kind.mixers)
        feeds = kind.feed_forward_width > 0
        alike = (names, _windows(kind), kind.experts > 0, feeds, keeps(kind))
        places.setdefault(alike, []).append(place)
    groups = []
    for layers in places.values():
        kinds = tuple(dict.fromkeys(architecture.layer_order[place] for place in layers))
        first = architecture.layer_kinds[kinds[0]]
        routed = max((architecture.layer_kinds[index] for index in kinds), key=lambda k: k.experts)
        groups.append(
            LayerGroup(
                tuple(mixer.kind for mixer in first.mixers),
                _windows(first),
                routed.experts,
                routed.experts_per_token,
                first.feed_forward_width > 0,
                keeps(first),
                tuple(layers),
                kinds,
            )
        )
    return tuple(groups)


@lru_cache(maxsize=1024)
def segments(architecture: Architecture) -> tuple[Segment, ...]:
    """The model's layers in as few words as possible: runs, and patterns of runs that repeat."""
    group_of = {
        place: index
        for index, group in enumerate(layer_groups(architecture))
        for place in group.layers
    }
    return shortest_description([group_of[place] for place in range(architecture.layers)])


def shortest_description(order: Sequence[int]) -> tuple[Segment, ...]:
    """A sequence as repeated patterns of runs, such that the least has to be said.

    The shortest description of what remains is found from the end: at each run, the best of all patterns that begin
    there, repeated as often as they are.
    """
    runs = [(value, sum(1 for _ in group)) for value, group in groupby(order)]
    end = len(runs)
    # Of what begins at each run: what it costs to say, where the pattern ends that comes first, its runs, its times.
    best: list[tuple[float, int, int, int]] = [(0.0, end, 0, 0)] * (end + 1)
    for start in reversed(range(end)):
        options = []
        for length in range(1, min(LONGEST_PATTERN, end - start) + 1):
            times, after = 1, start + length
            while True:
                options.append((length + SEGMENT_COST + best[after][0], -after, length, times))
                if runs[after : after + length] != runs[start : start + length]:
                    break
                times, after = times + 1, after + length
        # Of two that say as much, the one that covers more at once.
        cost, after, length, times = min(options)
        best[start] = (cost, -after, length, times)
    found, place = [], 0
    while place < end:
        _, after, length, times = best[place]
        found.append(Segment(tuple(runs[place : place + length]), times))
        place = after
    return tuple(found)


@lru_cache(maxsize=1024)
def active_by_part(architecture: Architecture) -> dict[Part, float]:
    """Parameters of each component that a text token passes through (count); they sum to `active_parameters`.

    Of routed experts the share that is chosen; nothing of towers, their projectors and next-token-prediction layers.
    """
    active = {part: float(count) for part, count in parameters_by_part(architecture).items()}
    active.pop(Part.MTP, None)
    for kind, count in architecture.kind_counts:
        experts = sum(weight.elements for weight in kind.weights if weight.part is Part.EXPERTS)
        if experts:
            active[Part.EXPERTS] -= count * experts * (1.0 - kind.experts_per_token / kind.experts)
    for tower in architecture.towers:
        for weight in tower.weights:
            active[weight.part] -= weight.elements
    return active


def group_layouts(
    architecture: Architecture,
    group: LayerGroup,
    key_bytes: float,
    value_bytes: float,
    compute_bytes: float,
    *,
    ignore_windows: bool = False,
    states: StateRule = OWN_STATES,
) -> tuple[tuple[CacheLayout, int], ...]:
    """Caches of a group's layers: of one of each kind in it, and how many there are; arguments as `cache_layout`."""
    order = architecture.layer_order
    layouts = []
    for index in group.kinds:
        place = order.index(index)
        layout = cache_layout(
            architecture,
            key_bytes,
            value_bytes,
            compute_bytes,
            first_layer=place,
            last_layer=place + 1,
            ignore_windows=ignore_windows,
            states=states,
        )
        layouts.append((layout, order.count(index)))
    return tuple(layouts)


def group_cache_bytes(layouts: tuple[tuple[CacheLayout, int], ...], tokens: Quantity) -> Quantity:
    """Bytes that a group's layers hold of one sequence of `tokens` tokens, constant state included."""
    total: Quantity = 0.0
    for layout, count in layouts:
        total = total + count * cache_bytes(layout, tokens)
    return total
