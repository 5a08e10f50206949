"""What an architecture adds up to: parameters, work per token. Pure arithmetic, no efficiency factor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from planner.architecture.mixers import Score
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Weight
from planner.quantity import Quantity, minimum


def weights_with_counts(
    architecture: Architecture, *, mtp: bool = False
) -> Iterator[tuple[Weight, int]]:
    """Every weight of the model with the number of times it occurs; MTP layers only where asked for."""
    for kind, count in architecture.kind_counts:
        for weight in kind.weights:
            yield weight, count
    for weight in architecture.outer:
        yield weight, 1
    for tower in architecture.towers:
        for weight in tower.weights:
            yield weight, 1
    if mtp:
        for weight in architecture.mtp:
            yield weight, 1


@lru_cache(maxsize=4096)
def parameters(architecture: Architecture, *, mtp: bool = False, buffers: bool = True) -> int:
    """All parameters, a tied table once (count).

    Args:
        mtp: with next-token-prediction layers.
        buffers: with values stored in checkpoints that frameworks keep as buffers (router biases).
    """
    return sum(
        weight.elements * count
        for weight, count in weights_with_counts(architecture, mtp=mtp)
        if buffers or not weight.buffer
    )


@lru_cache(maxsize=4096)
def parameters_by_part(architecture: Architecture) -> dict[Part, int]:
    """Parameters of each component, MTP apart under its own part (count)."""
    totals: dict[Part, int] = {}
    for weight, count in weights_with_counts(architecture):
        totals[weight.part] = totals.get(weight.part, 0) + weight.elements * count
    if architecture.mtp:
        totals[Part.MTP] = sum(weight.elements for weight in architecture.mtp)
    return totals


def _routed_fraction(kind: LayerKind) -> float:
    return kind.experts_per_token / kind.experts if kind.experts else 1.0


@lru_cache(maxsize=4096)
def active_parameters(architecture: Architecture) -> float:
    """Parameters a text token passes through: everything but unrouted experts, MTP and towers (count)."""
    tower_parameters = sum(
        weight.elements for tower in architecture.towers for weight in tower.weights
    )
    idle = 0.0
    for kind, count in architecture.kind_counts:
        experts = sum(weight.elements for weight in kind.weights if weight.part is Part.EXPERTS)
        idle += count * experts * (1.0 - _routed_fraction(kind))
    return parameters(architecture) - tower_parameters - idle


def linear_flops(weights: Iterable[Weight], routed_fraction: float = 1.0) -> float:
    """FLOP per token of matrix products and short convolutions over these weights (multiply-add = 2)."""
    total = 0.0
    for weight in weights:
        if weight.shape in (Shape.LINEAR, Shape.CONVOLUTION):
            total += (
                2.0 * weight.elements * (routed_fraction if weight.part is Part.EXPERTS else 1.0)
            )
    return total


@lru_cache(maxsize=4096)
def layer_linear_flops_per_token(architecture: Architecture, role: str = "decoder") -> float:
    """FLOP per token of all layers' matrix products, routed experts only, head and towers apart."""
    return sum(
        count * linear_flops(kind.weights, _routed_fraction(kind))
        for kind, count in architecture.kind_counts
        if kind.role == role
    )


def head_flops_per_token(architecture: Architecture) -> float:
    """FLOP per token that needs logits: 2·V·h, tied or not; 0 for a model without a head."""
    return (
        2.0 * architecture.vocabulary_size * architecture.hidden_size
        if architecture.has_head
        else 0.0
    )


def held_positions(tokens: Quantity, window: int | None, stride: int = 1) -> Quantity:
    """Positions that a cache keeps for `tokens` tokens: all, the last `window`, or one in `stride`."""
    positions = tokens if stride == 1 else tokens // stride
    return positions if window is None else minimum(positions, float(window))


def attended_positions(score: Score, new_tokens: Quantity, cached_tokens: Quantity) -> Quantity:
    """Query–position pairs that `new_tokens` tokens attend to after `cached_tokens`, windows and causality applied.

    Causal, full: n·S + n(n+1)/2. Windowed by w: a token at position p sees min(p, w). With a stride, one position in
    `stride` exists. Not causal: every token sees all.
    """
    n, s = new_tokens, cached_tokens
    if not score.causal:
        total: Quantity = n * held_positions(n + s, score.window, score.stride)
        return total
    if score.window is None:
        return (n * s + n * (n + 1) / 2) / score.stride
    window = float(score.window * score.stride)
    start = minimum(s, window)
    growing = minimum(n, window - start)  # tokens still below the window
    ramp = growing * start + growing * (growing + 1) / 2
    return (ramp + (n - growing) * window) / score.stride


def score_flops(
    architecture: Architecture,
    new_tokens: Quantity,
    cached_tokens: Quantity,
    *,
    phase: str,
    role: str = "decoder",
) -> Quantity:
    """FLOP of attention scores and their products with values, for one sequence, all layers of `role`.

    Args:
        phase: "prefill" (latent attention expanded) or "decode" (absorbed).
    """
    total: Quantity = 0.0
    for kind, count in architecture.kind_counts:
        if kind.role != role:
            continue
        for mixer in kind.mixers:
            for score in mixer.scores:
                each = score.prefill_flops if phase == "prefill" else score.decode_flops
                total = total + count * each * attended_positions(score, new_tokens, cached_tokens)
            total = total + count * mixer.recurrent_flops * new_tokens
    return total
