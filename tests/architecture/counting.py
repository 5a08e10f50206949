"""Counts over an architecture's types by plain loops, apart from the formulas under test."""

from __future__ import annotations

from planner.architecture.mixers import CacheStream
from planner.architecture.spec import Architecture, Shape, Weight

MULTIPLIED = (Shape.LINEAR, Shape.CONVOLUTION)


def kept_positions(stream: CacheStream, tokens: int, window_offset: int) -> int:
    """Positions that a stream keeps of `tokens` tokens; `window_offset` more (or fewer) where it has a window."""
    positions = tokens // stream.stride
    if stream.window is None:
        return positions
    return min(positions, stream.window + window_offset)


def cache_elements(architecture: Architecture, tokens: int, *, window_offset: int = 0) -> int:
    """Elements of keys, values, latents and index keys in one sequence's cache, layer by layer."""
    total = 0
    for index in architecture.layer_order:
        for mixer in architecture.layer_kinds[index].mixers:
            for stream in mixer.streams:
                each = stream.key_elements + stream.value_elements
                total += each * kept_positions(stream, tokens, window_offset)
    return total


def multiplied_parameters(architecture: Architecture, *, all_experts: bool = False) -> float:
    """Parameters in a token's matrix products: routed experts by share, the head once, buffers left out."""
    total = 0.0
    for index in architecture.layer_order:
        kind = architecture.layer_kinds[index]
        share = kind.experts_per_token / kind.experts if kind.experts and not all_experts else 1.0
        for weight in kind.weights:
            if weight.shape in MULTIPLIED and not weight.buffer:
                total += weight.elements * (share if weight.part == "experts" else 1.0)
    total += sum(
        weight.elements
        for weight in architecture.outer
        if weight.shape in MULTIPLIED and weight.name != "head"
    )
    return total + architecture.vocabulary_size * architecture.hidden_size


def all_weights(architecture: Architecture) -> list[Weight]:
    """Every weight of the model, each layer's anew, next-token-prediction layers included."""
    layers = [
        weight
        for index in architecture.layer_order
        for weight in architecture.layer_kinds[index].weights
    ]
    towers = [weight for tower in architecture.towers for weight in tower.weights]
    return [*layers, *architecture.outer, *towers, *architecture.mtp]
