"""Quantities: estimates with their range and basis, and the units that bytes are shown in.

GiB and GB are used nowhere else: inside, sizes are bytes, times are seconds, rates are per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from planner.errors import InvalidInput

GIB = 2.0**30
MIB = 2.0**20
KIB = 2.0**10
GB = 1e9

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Quantity = float | FloatArray
"""A number, or an array of them: every quantity function takes either and returns the same kind."""


class Basis(IntEnum):
    """What a figure rests on, best first; a combination is worth its worst part."""

    EXACT = 0
    MEASURED = 1
    CALIBRATED = 2
    TRANSFERRED = 3
    PHYSICS = 4
    ASSUMED = 5

    @property
    def label(self) -> str:
        return self.name.lower()


def worst(*bases: Basis) -> Basis:
    """The basis of a figure combined from figures with these bases."""
    return max(bases)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its range and what it rests on.

    Attributes:
        low, mid, high: numbers or arrays of one shape, low ≤ mid ≤ high, in `unit`.
        unit: SI unit as in the nomenclature table ("s", "bytes", "tokens", "1/s").
        basis: the worst basis among the figure's parts.

    Raises:
        InvalidInput: where low ≤ mid ≤ high doesn't hold (NaN included).
    """

    low: Quantity
    mid: Quantity
    high: Quantity
    unit: str
    basis: Basis

    def __post_init__(self) -> None:
        ordered = (self.low <= self.mid) & (self.mid <= self.high)
        if not (ordered if isinstance(ordered, bool) else np.all(ordered)):
            raise InvalidInput("estimate_out_of_order", low=self.low, mid=self.mid, high=self.high)

    @classmethod
    def exact(cls, value: Quantity, unit: str) -> Estimate:
        """A figure that follows from arithmetic alone."""
        return cls(value, value, value, unit, Basis.EXACT)

    @classmethod
    def banded(
        cls,
        mid: Quantity,
        band: tuple[Quantity, Quantity],
        unit: str,
        basis: Basis,
        *,
        floor: Quantity = 0.0,
        ceiling: Quantity | None = None,
    ) -> Estimate:
        """An estimate whose range is `band` (for example (-0.2, 0.35)) around `mid`, held inside physical bounds.

        Args:
            floor: what the figure can't go below (a time's physical bound), same unit and shape.
            ceiling: what it can't exceed (a rate's bound), or None.
        """
        low, high = mid * (1.0 + band[0]), mid * (1.0 + band[1])
        low, mid, high = maximum(low, floor), maximum(mid, floor), maximum(high, floor)
        if ceiling is not None:
            low, mid, high = (
                minimum(low, ceiling),
                minimum(mid, ceiling),
                minimum(high, ceiling),
            )
        return cls(low, mid, high, unit, basis)

    def inverse(self, numerator: Quantity, unit: str) -> Estimate:
        """`numerator` divided by this estimate: the range turns round."""
        return Estimate(
            numerator / self.high,
            numerator / self.mid,
            numerator / self.low,
            unit,
            self.basis,
        )


def minimum(a: Quantity, b: Quantity) -> Quantity:
    """Smaller of two quantities, element by element; plain `min` where both are numbers."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return min(a, b)


def maximum(a: Quantity, b: Quantity) -> Quantity:
    """Larger of two quantities, element by element; plain `max` where both are numbers."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return max(a, b)


def round_up(value: Quantity, multiple: float) -> Quantity:
    """Next multiple of `multiple` at or above `value`."""
    if isinstance(value, np.ndarray):
        return np.asarray(np.ceil(value / multiple) * multiple, dtype=np.float64)
    return float(-(-value // multiple) * multiple)
