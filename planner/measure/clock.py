"""Timing work on a device: repeats within a budget, their median and spread; and what its failures mean.

A GPU works on its own while Python goes on: events in its queue tell how long it took. A processor is done when the
call returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np

from planner.errors import PlannerError
from planner.measure.record import Spread
from planner.measure.spread import NORMAL90, unseen_factor

LOST = ("CUDA error", "HIP error", "device lost", "DEVICE_LOST", "GPU is lost", "cuBLAS error")
FULL = ("out of memory", "can't allocate memory", "not enough memory", "alloc_cpu")


MOST_BEYOND = 1.5  # times the least and the largest value that was seen, where a range ends at most


class OutOfMemory(Exception):
    """The device or the machine has no room for it: a result, not a failure."""


def spread(*rounds: Sequence[float]) -> Spread:
    """Median of positive values, and the range in which 80 % of further rounds' medians would lie, in their unit.

    It holds the middle 80 % of all values, and of a normal's logarithms what the medians of so few rounds tell: values
    of one round are of one moment, and agree with each other better than with those of another.
    """
    values = np.concatenate([np.asarray(one, dtype=float) for one in rounds])
    low, middle, high = (float(x) for x in np.quantile(values, [0.1, 0.5, 0.9]))
    if len(rounds) > 1:
        medians = np.log([np.median(one) for one in rounds])
        aside = NORMAL90 * unseen_factor(len(rounds)) * float(np.std(medians, ddof=1))
        low, high = min(low, middle * exp(-aside)), max(high, middle * exp(aside))
        # Two or three rounds alone can't tell; what lies beyond anything seen isn't claimed.
        low = max(low, float(values.min()) / MOST_BEYOND)
        high = min(high, float(values.max()) * MOST_BEYOND)
    return Spread(median=middle, low=low, high=high, repeats=len(values))


def widened(value: Spread, quick: float, slow: float) -> Spread:
    """A range with moments in which work takes `quick` to `slow` times as long, at most twice either way.

    A machine on which moments differ by more isn't one to measure on; the row says so.
    """
    quick, slow = max(quick, 0.5), min(slow, 2.0)
    return value.model_copy(update={"low": value.low * quick, "high": value.high * slow})


def variation_fraction(values: Sequence[float]) -> float:
    """Coefficient of variation: standard deviation against the mean; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    found = np.asarray(values)
    return float(np.std(found, ddof=1) / np.mean(found))


def understood(error: BaseException) -> BaseException:
    """What an error of torch's means: OutOfMemory, a lost GPU as PlannerError, else itself."""
    if isinstance(error, (OutOfMemory, PlannerError)):
        return error
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return OutOfMemory(str(error))
    words = str(error)
    if isinstance(error, RuntimeError):
        if any(one in words for one in FULL):
            return OutOfMemory(words)
        if type(error).__name__ == "AcceleratorError" or any(one in words for one in LOST):
            return PlannerError("gpu_lost", reason=words.partition("\n")[0][:200])
    return error


@dataclass(frozen=True, slots=True)
class Timer:
    """Times calls on one device.

    Attributes:
        device: torch's name; kind: "cuda", "rocm", "mps", "xpu" or "cpu".
    """

    device: str
    kind: str

    def synchronise(self) -> None:
        """Waits until the device has done everything it was given."""
        import torch

        if self.kind in ("cuda", "rocm"):
            torch.cuda.synchronize(self.device)
        elif self.kind == "mps":
            torch.mps.synchronize()
        elif self.kind == "xpu":
            torch.xpu.synchronize()

    def once(self, work: Callable[[], Any]) -> float:
        """Time of one call until the device is done with it (s).

        Raises:
            OutOfMemory: where there is no room for it.
            PlannerError: `gpu_lost`.
        """
        import torch

        try:
            if self.kind in ("cuda", "rocm"):
                start = torch.cuda.Event(enable_timing=True)
                end = torch.cuda.Event(enable_timing=True)
                self.synchronise()
                start.record()
                work()
                end.record()
                self.synchronise()
                return max(float(start.elapsed_time(end)) * 1e-3, 1e-9)
            self.synchronise()
            begin = time.perf_counter()
            work()
            self.synchronise()
            return max(time.perf_counter() - begin, 1e-9)
        except (RuntimeError, MemoryError) as error:
            raise understood(error) from error

    def repeats(
        self,
        work: Callable[[], Any],
        *,
        budget_s: float,
        least: int = 3,
        most: int = 30,
        warm_up: int = 1,
    ) -> list[float]:
        """Times of repeated calls, as many as the budget allows (s).

        Args:
            budget_s: time for all of them, warm-up included; `least` repeats are made all the same.
            warm_up: calls beforehand that don't count, cut short once a third of the budget is gone.

        Raises:
            OutOfMemory, PlannerError: as `once`.
        """
        begin = time.perf_counter()
        for _ in range(warm_up):
            self.once(work)
            if time.perf_counter() - begin > budget_s / 3.0:
                break
        found: list[float] = []
        while len(found) < most:
            found.append(self.once(work))
            spent = time.perf_counter() - begin
            if len(found) >= least and spent + found[-1] > budget_s:
                break
        return found
