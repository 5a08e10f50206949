"""Robust least squares on log errors, with a pull towards what is known beforehand: damped Gauss–Newton in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from planner.quantity import FloatArray

STEP = 1e-3
ROUNDS = 20
ENOUGH = 1e-4
AT_BOUND = 0.005
STEEPEST = 1.0


@dataclass(frozen=True, slots=True)
class Parameter:
    """A constant to fit, as one or more keys of one calibration file that share its value.

    Attributes:
        file, keys: where its value goes.
        low, high: its physical range, both positive.
        centre: what it is expected to be: an earlier fit, a class, a kernel table.
        spread: how far it may be from there, as a standard deviation of its logarithm.
    """

    file: str
    keys: tuple[str, ...]
    low: float
    high: float
    centre: float
    spread: float

    @property
    def name(self) -> str:
        return f"{self.file}:{self.keys[0]}"


@dataclass(frozen=True, slots=True)
class Solution:
    """Where the fit came to rest.

    Attributes:
        values: of the parameters, in their order.
        deviation: standard deviation of each value's logarithm by the curvature there, prior included.
        gain: how much narrower the rows made it than the prior alone, 0 (not at all) to 1.
        at_bound: which values lie at the end of their range, so that the rows don't identify them.
    """

    values: tuple[float, ...]
    deviation: tuple[float, ...]
    gain: tuple[float, ...]
    at_bound: tuple[bool, ...]


def soft_weights(residuals: FloatArray, scale: float) -> FloatArray:
    """Weights of soft-L1: 1 for small residuals, falling as scale / |r| for large."""
    return np.asarray(1.0 / np.sqrt(1.0 + (residuals / scale) ** 2))


def solve(
    parameters: Sequence[Parameter],
    residuals: Callable[[FloatArray, int | None], FloatArray],
    *,
    scale: float = 0.15,
    noise: float = 0.1,
    weights: FloatArray | None = None,
    start: Sequence[float] | None = None,
) -> Solution:
    """Values that make the weighted soft-L1 sum of residuals and of pulls towards the centres smallest.

    Works on logarithms, so that a value stays positive and its prior is a factor; steps are cut at the ends of the
    range, and halved until the sum falls.

    Args:
        residuals: log(predicted / measured) of all rows for logarithms of the values; with an index, it may be told
            that only that parameter has changed since the last full call.
        scale: where the loss turns from square to absolute.
        noise: standard deviation that a row's residual is expected to have, which sets the pull's strength.
        weights: of the rows, mean near 1.
        start: values to begin at in place of the centres; where it ends doesn't depend on them, how soon does.
    """
    low = np.log([p.low for p in parameters])
    high = np.log([p.high for p in parameters])
    centre = np.log([p.centre for p in parameters])
    pull = np.array([noise / p.spread for p in parameters])
    x = np.clip(centre if start is None else np.log(start), low, high)
    r = residuals(x, None)
    w_rows = np.ones_like(r) if weights is None else weights

    def cost(res: FloatArray, at: FloatArray) -> float:
        robust = 2.0 * scale**2 * (np.sqrt(1.0 + (res / scale) ** 2) - 1.0)
        return float(np.sum(w_rows * robust) + np.sum((pull * (at - centre)) ** 2))

    best = cost(r, x)
    damping = 1e-3
    jacobian = _jacobian(residuals, x, r)
    for _ in range(ROUNDS):
        w = w_rows * soft_weights(r, scale)
        gradient = jacobian.T @ (w * r) + pull**2 * (x - centre)
        curvature = (jacobian * w[:, None]).T @ jacobian + np.diag(pull**2)
        free = ~(((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0)))
        improved = False
        for _attempt in range(8):
            step = np.zeros_like(x)
            block = curvature[np.ix_(free, free)]
            block = block + damping * np.diag(np.diag(block))
            step[free] = -np.linalg.solve(block, gradient[free])
            trial = np.clip(x + np.clip(step, -STEEPEST, STEEPEST), low, high)
            r_trial = residuals(trial, None)
            found = cost(r_trial, trial)
            if found < best:
                improved = True
                break
            damping = min(damping * 6.0, 1e6)
        if not improved:
            break
        gained = best - found
        x, r, best = trial, r_trial, found
        damping = max(damping / 4.0, 1e-6)
        if gained < ENOUGH * max(best, 1e-9):
            break
        jacobian = _jacobian(residuals, x, r)
    w = w_rows * soft_weights(r, scale)
    information = (jacobian * w[:, None]).T @ jacobian / noise**2
    prior = np.diag(1.0 / np.array([p.spread for p in parameters]) ** 2)
    deviation = np.sqrt(np.diag(np.linalg.inv(information + prior)))
    spread = np.array([p.spread for p in parameters])
    return Solution(
        tuple(float(v) for v in np.exp(x)),
        tuple(float(v) for v in deviation),
        tuple(float(v) for v in np.clip(1.0 - deviation / spread, 0.0, 1.0)),
        tuple(bool(v) for v in (x - low < AT_BOUND) | (high - x < AT_BOUND)),
    )


def _jacobian(
    residuals: Callable[[FloatArray, int | None], FloatArray], x: FloatArray, r: FloatArray
) -> FloatArray:
    columns = []
    for i in range(len(x)):
        moved = x.copy()
        moved[i] += STEP
        columns.append((residuals(moved, i) - r) / STEP)
    return np.column_stack(columns) if columns else np.zeros((len(r), 0))
