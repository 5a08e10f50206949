"""Cache bytes of one sequence: what grows with tokens, what is windowed, what stays constant."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from planner.architecture.mixers import Mixer, Recurrence, StateTensor
from planner.architecture.spec import Architecture
from planner.architecture.totals import held_positions
from planner.catalog.engine_profiles import COMPUTE, StateRule
from planner.quantity import Quantity, minimum

DTYPE_BYTES = {
    "float32": 4.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "float8_e4m3fn": 1.0,
    "float8_scaled128": 1.0
    + 4.0 / 128.0,  # one 32-bit scale per 128 elements, as engines keep indexer keys
    "int8": 1.0,
}

OWN_STATES = StateRule()


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers whose cache grows alike: bytes per kept position over all of them, and the rule for what is kept."""

    bytes_per_position: float
    window: int | None
    stride: int
    read_limit: int | None
    layers: int


@dataclass(frozen=True, slots=True, eq=False)
class CacheLayout:
    """How one sequence's cache grows, on the whole model or on one rank.

    Attributes:
        groups: per growth rule.
        state_bytes: constant part per sequence that each step rewrites (recurrent and convolution state).
        cross_bytes: constant part per sequence that is only read (an encoder's keys and values).
    """

    groups: tuple[CacheGroup, ...]
    state_bytes: float
    cross_bytes: float

    @property
    def constant_bytes(self) -> float:
        return self.state_bytes + self.cross_bytes


@lru_cache(maxsize=4096)
def cache_layout(
    architecture: Architecture,
    key_bytes: float,
    value_bytes: float,
    compute_bytes: float,
    *,
    tp: int = 1,
    first_layer: int = 0,
    last_layer: int | None = None,
    ignore_windows: bool = False,
    states: StateRule = OWN_STATES,
) -> CacheLayout:
    """The cache of one sequence, per rank of `tp` (1: the whole model).

    Args:
        key_bytes, value_bytes: bytes per cached element, scales included.
        compute_bytes: bytes per element of state kept in the compute dtype.
        tp: tensor-parallel ranks; a stream is shared by at most its own `shards` ranks, then replicated.
        first_layer, last_layer: a pipeline stage, as half-open range of layers.
        ignore_windows: every layer keeps the full context (engines without a windowed cache).
        states: how the engine keeps recurrent state.

    Returns:
        Groups of layers with equal growth, ordered with unbounded ones first.
    """
    grouped: dict[tuple[int | None, int, int | None], list[float]] = {}
    state = cross = 0.0
    for index, count in Counter(architecture.layer_order[first_layer:last_layer]).items():
        for mixer in architecture.layer_kinds[index].mixers:
            for stream in mixer.streams:
                fixed = DTYPE_BYTES[stream.dtype] if stream.dtype else None
                size = stream.key_elements * (fixed or key_bytes) + stream.value_elements * (
                    fixed or value_bytes
                )
                window = None if ignore_windows and stream.stride == 1 else stream.window
                entry = grouped.setdefault((window, stream.stride, stream.read_limit), [0.0, 0.0])
                entry[0] += count * size / min(tp, stream.shards)
                entry[1] += count
            for tensor in mixer.states:
                dtype = state_dtype(architecture, mixer, tensor, states)
                each = DTYPE_BYTES[dtype] if dtype else compute_bytes
                size = count * kept_elements(mixer, tensor, states) * each / min(tp, tensor.shards)
                if tensor.recurrent:
                    state += size
                else:
                    cross += size
    groups = tuple(
        CacheGroup(size, window, stride, limit, int(layers))
        for (window, stride, limit), (size, layers) in sorted(
            grouped.items(),
            key=lambda item: (item[0][0] is not None, item[0][0] or 0, item[0][1]),
        )
    )
    return CacheLayout(groups, state, cross)


def state_dtype(
    architecture: Architecture, mixer: Mixer, tensor: StateTensor, states: StateRule
) -> str | None:
    """The type in which an engine keeps a state; None for the compute dtype."""
    if not isinstance(mixer, Recurrence):
        return tensor.dtype
    if tensor.dtype is None:
        return None if states.inputs == COMPUTE else states.inputs
    kept = states.of(mixer.name, architecture.model_type, architecture.state_dtype)
    return None if kept == COMPUTE else kept or tensor.dtype


def kept_elements(mixer: Mixer, tensor: StateTensor, states: StateRule) -> int:
    """Elements of a state as an engine keeps it: of a convolution's inputs all k, or the k − 1 that are needed."""
    if tensor.taps > 1 and isinstance(mixer, Recurrence) and mixer.name in states.all_inputs:
        return tensor.elements // (tensor.taps - 1) * tensor.taps
    return tensor.elements


def states_kept_otherwise(architecture: Architecture, states: StateRule) -> str | None:
    """The type in which an engine keeps recurrent state, where the model's own code has another; else None.

    COMPUTE for the compute dtype.
    """
    for kind in architecture.layer_kinds:
        for mixer in kind.mixers:
            for tensor in mixer.states:
                if tensor.dtype is None:
                    continue
                kept = state_dtype(architecture, mixer, tensor, states)
                if kept != tensor.dtype:
                    return kept or COMPUTE
    return None


def cache_bytes(layout: CacheLayout, tokens: Quantity) -> Quantity:
    """Bytes that one sequence of `tokens` tokens holds, constant state included."""
    total: Quantity = layout.constant_bytes
    for group in layout.groups:
        total = total + group.bytes_per_position * held_positions(
            tokens, group.window, group.stride
        )
    return total


def marginal_bytes(layout: CacheLayout, tokens: Quantity) -> Quantity:
    """Bytes that one more token costs a sequence already `tokens` long; a full window costs nothing more."""
    total: Quantity = 0.0 * tokens
    for group in layout.groups:
        each = group.bytes_per_position / group.stride
        if group.window is None:
            total = total + each
        else:
            growing = 1.0 * ((tokens // group.stride) < group.window)
            total = total + each * cast("Quantity", growing)
    return total


def read_bytes(layout: CacheLayout, tokens: Quantity) -> Quantity:
    """Bytes that one decode step moves for a sequence with `tokens` cached: caches read, state read and written."""
    total: Quantity = 2.0 * layout.state_bytes + layout.cross_bytes
    for group in layout.groups:
        positions = held_positions(tokens, group.window, group.stride)
        if group.read_limit is not None:
            total = total + group.bytes_per_position * minimum(positions, float(group.read_limit))
        else:
            total = total + group.bytes_per_position * positions
    return total
