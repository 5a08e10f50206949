"""Times of single kernels, for explaining where a step goes, and the routing statistics of mixtures of experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.catalog.calibrations import GemmConstants
from planner.quantity import Quantity


def as_factor(condition: Any) -> Quantity:
    """A condition as 1.0 or 0.0, to switch a term on and off element by element."""
    if isinstance(condition, np.ndarray):
        return condition.astype(np.float64)
    return 1.0 if condition else 0.0


def expected_distinct_experts(
    experts: float, experts_per_token: float, tokens: Quantity
) -> Quantity:
    """Expected number of experts that at least one token is routed to.

    E·(1 − (1 − k/E)^n) for independent, uniform routing; real routing is skewed, so this is an upper estimate.

    Args:
        experts, experts_per_token: E and k, k ≤ E (count).
        tokens: tokens in the step, any shape, at least 1 (tokens).

    Returns:
        Same shape as `tokens` (experts), between k and E.

    References:
        MoESD, arXiv 2505.19645.
    """
    return experts * (1.0 - (1.0 - experts_per_token / experts) ** tokens)


def p_norm(first: Quantity, second: Quantity, order: float) -> Quantity:
    """Two overlapping times as one: (a^p + b^p)^(1/p), between their maximum (p → ∞) and their sum (p = 1).

    Args:
        first, second: times of the same unit, at least 0.
        order: p, at least 1.
    """
    if order == 2.0:
        total: Quantity = (first * first + second * second) ** 0.5
    else:
        total = (first**order + second**order) ** (1.0 / order)
    return total


def gemm_time(
    m: Quantity,
    n: Quantity,
    k: Quantity,
    constants: GemmConstants,
    *,
    input_bytes: float = 2.0,
    weight_bytes: float = 2.0,
    output_bytes: float = 2.0,
) -> Quantity:
    """Time of one (m × k)·(k × n) product.

    floor + p-norm of 2·m·n·k/(e_c·P) and of (a·m·k + w·n·k + o·m·n)/(e_m·W).

    Args:
        m: tokens; n: output features; k: input features.
        input_bytes, weight_bytes, output_bytes: a, w and o, bytes per element.

    Returns:
        Seconds, in the common shape of m, n and k.
    """
    compute = 2.0 * m * n * k / (constants.compute_efficiency * constants.peak_flops_per_s)
    moved = input_bytes * m * k + weight_bytes * n * k + output_bytes * m * n
    memory = moved / (constants.weights_efficiency * constants.bandwidth_bytes_per_s)
    return constants.floor_s + p_norm(compute, memory, constants.order)
