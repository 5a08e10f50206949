"""What the speed formulas read of an accelerator: rates as floats, or arrays over accelerators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np

from planner.catalog.accelerators import PEAK_KEYS, Accelerator
from planner.errors import MissingFigure
from planner.quantity import Quantity

# Without a unit of its own for a 16-bit dtype, or with one at a token rate (Pascal's fp16 at 1/64), it is computed in
# 32 bits after a conversion.
WIDENED = {"fp16": "fp32", "bf16": "fp32"}


@dataclass(frozen=True, slots=True, eq=False)
class HostRates:
    """What the machine around an accelerator does; numbers, or arrays over accelerators.

    Attributes:
        bandwidth_bytes_per_s: of its memory; most_bandwidth_bytes_per_s: the most it can be where it isn't known (B/s).
        read_bytes_per_s: what the engine's kernels on the processor reach of it (B/s).
        flops_per_s: of matrix products on the processor (FLOP/s).
        link_bytes_per_s: at which weights are lent to the accelerator (B/s).
        crossing_s: one hand-over between host and accelerator (s).
    """

    bandwidth_bytes_per_s: Quantity
    most_bandwidth_bytes_per_s: Quantity
    read_bytes_per_s: Quantity
    flops_per_s: Quantity
    link_bytes_per_s: Quantity
    crossing_s: Quantity


@dataclass(frozen=True, slots=True, eq=False)
class Hardware:
    """One accelerator's rates, or those of several as arrays of one shape with NaN for what isn't stated.

    Attributes:
        name: the accelerator's id ("" over several).
        bandwidth_bytes_per_s: device memory (B/s).
        peaks: dense rate that products in a dtype run at (FLOP/s); 16-bit floats never below fp32's.
        l2_bytes: last-level cache of the device (bytes); 0 where it isn't stated, so that nothing fits into it.
        link_bytes_per_s: to its peers, one direction (B/s); NaN where there is no link.
        host: the machine around it, where an engine uses that too.
        best_peaks: `peaks` with products in fp16 summed up in fp16, which some cards do twice as fast; None where the
            engine sums up in fp32, or no card gains by it.
    """

    name: str
    bandwidth_bytes_per_s: Quantity
    peaks: Mapping[str, Quantity]
    l2_bytes: Quantity
    link_bytes_per_s: Quantity
    host: HostRates | None = None
    best_peaks: Mapping[str, Quantity] | None = None

    def at_best(self) -> Hardware:
        """The rates that nothing exceeds. `peaks` are what efficiencies are parts of."""
        return self if self.best_peaks is None else replace(self, peaks=self.best_peaks)

    def host_rates(self) -> HostRates:
        """The machine around it.

        Raises:
            MissingFigure: where nothing says what machine that is.
        """
        if self.host is None:
            raise MissingFigure(self.name, "host")
        return self.host

    def peak(self, dtype: str) -> Quantity:
        """The rate for a dtype (FLOP/s).

        Raises:
            MissingFigure: where one accelerator doesn't state it; arrays hold NaN there.
        """
        rate = self.peaks.get(dtype)
        if rate is None:
            raise MissingFigure(self.name, PEAK_KEYS.get(dtype, f"peak_{dtype}_flops_per_s"))
        return rate

    def product_peak(self, dtype: str, compute_dtype: str) -> Quantity:
        """The rate that products stored for `dtype` run at (FLOP/s).

        Hardware without units for a narrow dtype unpacks the weights and multiplies in the compute dtype.

        Raises:
            MissingFigure: where one accelerator states neither; arrays hold NaN there.
        """
        own = self.peaks.get(dtype)
        if own is None:
            return self.peak(compute_dtype)
        if isinstance(own, np.ndarray) and np.isnan(own).any():
            return np.where(np.isnan(own), self.peaks.get(compute_dtype, np.nan), own)
        return own

    def link(self) -> Quantity:
        """The link's rate (B/s).

        Raises:
            MissingFigure: where one accelerator has none; arrays hold NaN there.
        """
        rate = self.link_bytes_per_s
        if isinstance(rate, float) and rate != rate:
            raise MissingFigure(self.name, "link_bidirectional_bytes_per_s")
        return rate


@lru_cache(maxsize=1024)
def hardware_of(accelerator: Accelerator, *, sums_in_fp16: bool = False) -> Hardware:
    """The rates of one accelerator of the catalogue.

    Args:
        sums_in_fp16: the engine's products in fp16 are summed up in fp16 too.
    """
    peaks: dict[str, Quantity] = {}
    for dtype in ("fp32", "fp16", "bf16", "fp8", "int8", "fp4"):
        own = accelerator.peaks.get(dtype, 0.0)
        rate = max(own, accelerator.peaks.get(WIDENED.get(dtype, dtype), 0.0))
        if rate > 0:
            peaks[dtype] = rate
    summed = accelerator.peaks.get("fp16_fp16acc", 0.0) if sums_in_fp16 else 0.0
    best = peaks | {"fp16": summed} if summed > peaks.get("fp16", 0.0) else None
    try:
        link = accelerator.link_bytes_per_s
    except MissingFigure:
        link = float("nan")
    return Hardware(
        accelerator.id,
        accelerator.bandwidth_bytes_per_s,
        peaks,
        accelerator.l2_bytes or 0.0,
        link,
        best_peaks=best,
    )


def stack_hardware(parts: Sequence[Hardware]) -> Hardware:
    """Several accelerators as one, with arrays in their order; NaN where one doesn't state a rate."""
    gain = any(part.best_peaks is not None for part in parts)
    return Hardware(
        "",
        np.array([part.bandwidth_bytes_per_s for part in parts]),
        _stack_peaks([part.peaks for part in parts]),
        np.array([part.l2_bytes for part in parts]),
        np.array([part.link_bytes_per_s for part in parts]),
        _stack_hosts([part.host for part in parts if part.host is not None]),
        _stack_peaks([part.at_best().peaks for part in parts]) if gain else None,
    )


def _stack_peaks(parts: Sequence[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    dtypes = {dtype for part in parts for dtype in part}
    return {dtype: np.array([part.get(dtype, np.nan) for part in parts]) for dtype in dtypes}


def _stack_hosts(parts: Sequence[HostRates]) -> HostRates | None:
    """The machines of several accelerators, all of them or none."""
    if not parts:
        return None
    return HostRates(
        *(np.array([getattr(part, one.name) for part in parts]) for one in fields(HostRates))
    )
