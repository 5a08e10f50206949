"""Times of collectives between the GPUs of one deployment."""

from __future__ import annotations

from math import log2

from planner.quantity import Quantity

MEASURED_RANKS = (2, 4, 8)
"""Group sizes that latencies and bandwidths are stated for; others are read off between and beyond them."""


def at_ranks(values: tuple[Quantity, Quantity, Quantity], ranks: int) -> Quantity:
    """A figure stated for 2, 4 and 8 ranks, at any number of ranks: linear in log2, constant outside.

    Args:
        values: the figure at MEASURED_RANKS.
        ranks: at least 2.
    """
    two, four, eight = values
    if ranks <= MEASURED_RANKS[0]:
        return two
    if ranks >= MEASURED_RANKS[-1]:
        return eight
    position = log2(ranks) - 1.0
    if position <= 1.0:
        return two + (four - two) * position
    return four + (eight - four) * (position - 1.0)


def all_reduce_time(
    volume_bytes: Quantity, ranks: int, latency_s: Quantity, bandwidth_bytes_per_s: Quantity
) -> Quantity:
    """One all-reduce: α + 2·(r − 1)/r · V/β; nothing for one rank.

    Engines take a one-shot kernel for small messages and a two-shot or ring one for large, so that α hardly grows
    with the message.

    Args:
        volume_bytes: V, bytes that each rank contributes.
        latency_s, bandwidth_bytes_per_s: α and β at this number of ranks.

    Returns:
        Seconds, shape of `volume_bytes`.
    """
    if ranks <= 1:
        return 0.0 * volume_bytes
    return latency_s + 2.0 * (ranks - 1) / ranks * volume_bytes / bandwidth_bytes_per_s


def all_to_all_time(
    tokens: Quantity,
    copies: float,
    element_bytes: float,
    hidden_size: int,
    ranks: int,
    latency_s: Quantity,
    bandwidth_bytes_per_s: Quantity,
) -> Quantity:
    """One dispatch or combine of expert parallelism: α + n·min(k, r)·h·bytes·(r − 1)/r / β.

    Args:
        tokens: tokens on one rank.
        copies: experts per token, k.
        element_bytes: bytes per activation sent (1 for an fp8 dispatch, 2 for a combine in 16 bits).

    Returns:
        Seconds, shape of `tokens`.
    """
    if ranks <= 1:
        return 0.0 * tokens
    sent = tokens * min(copies, ranks) * hidden_size * element_bytes * (ranks - 1) / ranks
    return latency_s + sent / bandwidth_bytes_per_s
