"""Ranges around predictions, from what predictions were off by."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from planner.quantity import FloatArray

INSIDE = 0.8
LEAST = 0.02  # on either side of a prediction
# 90 % of Student's t lie below, by degrees of freedom from 1; from there on by its expansion around the normal's.
T90 = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372)
NORMAL90 = 1.2816


def spread_of(residuals: FloatArray, inside: float = INSIDE) -> tuple[float, float]:
    """The range around a prediction that held `inside` of what was measured: ends of measured / predicted − 1.

    Args:
        residuals: log(predicted / measured); NaN doesn't count.

    Raises:
        ValueError: for no residuals.
    """
    known = residuals[~np.isnan(residuals)]
    if not len(known):
        raise ValueError("no residuals")
    low, high = np.quantile(-known, (0.5 - inside / 2.0, 0.5 + inside / 2.0))
    return _ends(float(low), float(high))


def spread_unseen(residuals: FloatArray, groups: Sequence[str]) -> tuple[float, float]:
    """The range that holds 80 % of what a group that none of the residuals is of would measure; ends as in `spread_of`.

    Rows of a model, or of a card, err together. What a new one is off by is drawn as an offset of its own, as the
    groups' means lie around their centre, and a row's distance from its group's mean. The centre and the spread of the
    offsets are themselves known from so many groups only, which widens the offsets as Student's t does a normal's. A
    group of n rows counts as √n, as in the fits: neither its one offset alone, nor n of them.

    Args:
        residuals: log(predicted / measured) by fits that hadn't seen each row's group; NaN doesn't count.
        groups: of each residual.

    Raises:
        ValueError: for no residuals.

    References:
        Prediction intervals of random-effects models: Higgins, Thompson and Spiegelhalter, J. R. Stat. Soc. A 172
        (2009). Grouped data without a distribution: Dunn, Wasserman and Ramdas, arXiv 1809.07441.
    """
    known = ~np.isnan(residuals)
    if not known.any():
        raise ValueError("no residuals")
    off = -residuals[known]
    _, member, counts = np.unique(
        np.asarray(groups)[known], return_inverse=True, return_counts=True
    )
    means = np.bincount(member, off) / counts
    weight = np.sqrt(counts) / np.sqrt(counts).sum()
    centre = float(weight @ means)
    offsets = centre + (means - centre) * unseen_factor(len(counts))
    drawn = offsets[:, None] + (off - means[member])[None, :]
    chance = weight[:, None] * (weight / counts)[member][None, :]
    tail = (1.0 - INSIDE) / 2.0
    low, high = _quantiles(drawn.ravel(), chance.ravel(), (tail, 1.0 - tail))
    return _ends(low, high)


def unseen_factor(groups: int) -> float:
    """How much further a new group may lie from the centre than so many known ones do: t·√(1 + 1/m) / z at 90 %."""
    if groups < 2:
        return 1.0
    expanded = NORMAL90 + (NORMAL90**3 + NORMAL90) / (4.0 * (groups - 1))
    t = T90[groups - 2] if groups - 2 < len(T90) else expanded
    return t * sqrt(1.0 + 1.0 / groups) / NORMAL90


def _quantiles(values: FloatArray, weights: FloatArray, at: Sequence[float]) -> list[float]:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) - weights[order] / 2.0
    return [float(value) for value in np.interp(at, reached / weights.sum(), values[order])]


def _ends(low: float, high: float) -> tuple[float, float]:
    return min(float(np.expm1(low)), -LEAST), max(float(np.expm1(high)), LEAST)
