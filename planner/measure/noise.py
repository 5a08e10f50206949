"""Whether a measurement can be trusted: who else used the machine, whether clocks were held down, whether it drifted.

Nothing here fails a measurement. It says what disturbed it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from planner.measure.clock import Timer, variation_fraction
from planner.measure.micro import TORCH_NAMES
from planner.measure.nvml import GpuState, gpu_state
from planner.measure.record import DRIFT, Conditions
from planner.measure.system import Ticks, allowed_threads, load_average, ticks

VARIES_FRACTION = 0.10  # of a row's repeats, from which on it doesn't count
DRIFT_FRACTION = (
    0.15  # of the same small work, from which on the machine wasn't the same throughout
)
OTHERS_FRACTION = 0.10  # of the allowed threads, taken by other programs
# Rows and columns of the canary's product, and bytes of the matrix that it reads: more than any last-level cache has.
PRODUCT_SIZE = {"cpu": 384, "gpu": 4096}
READ_BYTES = {"cpu": 64 * 2**20, "gpu": 256 * 2**20}
READ_COLUMNS = 4096
# A limit of power or clocks holds whenever the card works; heat and a failing supply come and go.
PASSING = ("hardware_slowdown", "hardware_thermal", "software_thermal", "power_brake")

Reason = dict[str, str | int | float]
Song = tuple[float, ...]
"""Times of the canary's works at one moment (s): arithmetic, and a matrix read from memory, as decoding does."""


def others_fraction(before: Ticks | None, after: Ticks | None, threads: int) -> float | None:
    """Share of the allowed threads that other programs took between two readings; None where the system doesn't say."""
    if before is None or after is None or after.wall_s <= before.wall_s:
        return None
    spent = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return min(max(spent / ((after.wall_s - before.wall_s) * threads), 0.0), 1.0)


def is_noisy(values: list[float]) -> bool:
    """A row's repeats vary by more than a tenth, or there is only one on which nothing can be said."""
    return len(values) < 2 or variation_fraction(values) > VARIES_FRACTION


def drift_factor(fraction: float) -> float:
    """How many times as long the slower of two runs of the same work took (≥ 1), from slower or quicker / other − 1."""
    factor = max(1.0 + fraction, 1e-9)
    return max(factor, 1.0 / factor)


def slower(one: Song, other: Song) -> Song:
    """The longer time of each work."""
    return tuple(map(max, one, other))


def usual_range(times: Sequence[float]) -> tuple[float, float]:
    """The range of `DRIFT_FRACTION` that most of the times lie in, of several the quickest one (s)."""
    found = np.sort(np.asarray(times, dtype=float))
    beyond = np.searchsorted(found, found * (1.0 + DRIFT_FRACTION), side="right")
    start = int(np.argmax(beyond - np.arange(len(found))))
    return float(found[start]), float(found[start] * (1.0 + DRIFT_FRACTION))


class Watch:
    """Looks at the machine before, between and after the rows."""

    def __init__(self) -> None:
        """Begins before anything heavy is loaded, so that what others do meanwhile is seen."""
        self._uuid: str | None = None
        self._threads = allowed_threads()
        self._start = self._last = ticks(time.monotonic(), self._threads)
        self._before: float | None = None
        self._load_at_start = load_average()
        self._works: tuple[Callable[[], Any], ...] = ()
        self._timer: Timer | None = None
        self._songs: list[Song] = []
        self._states: list[GpuState] = []

    def ready(self, timer: Timer, dtype: str, uuid: str | None) -> None:
        """The models come now: keeps the load until here as the load before, and times the canary first.

        Args:
            dtype: that the models compute in.
            uuid: the driver's, of the GPU that is measured; None for anything else.
        """
        self._uuid = uuid
        now = ticks(time.monotonic(), self._threads)
        self._before = others_fraction(self._start, now, len(self._threads))
        self._last = now
        self._timer, self._works = timer, canary(timer, dtype)
        self._sing()  # the first pays for what is loaded
        self._songs = [self._sing()]
        self._look()

    def _sing(self) -> Song:
        assert self._timer is not None
        return tuple(
            statistics.median(self._timer.repeats(work, budget_s=0.05, least=3, most=9))
            for work in self._works
        )

    def _look(self) -> None:
        state = gpu_state(self._uuid) if self._uuid else None
        if state is not None:
            self._states.append(state)

    def sing(self) -> Song:
        """Times the canary again; raises PlannerError where the GPU is lost."""
        self._look()
        self._songs.append(self._sing())
        return self._songs[-1]

    def is_steady(self, song: Song) -> bool:
        """Whether the machine was, at that moment, as it was at most others.

        That is known better the longer the run. A machine that others use too may be slower throughout, or for as long
        as a neighbour is at work: what was measured in either state tells nothing of the other.
        """
        usual = (usual_range(times) for times in zip(*self._songs, strict=True))
        return all(low <= took <= high for took, (low, high) in zip(song, usual, strict=True))

    def beyond(self, song: Song) -> tuple[float, float]:
        """Factors by which work is quicker and slower, in 80 % of moments, than at one that sounded so.

        1 where the machine was the same throughout; else the canary's work that was changed most says by how much.
        """
        ends = [np.quantile(times, (0.1, 0.9)) for times in zip(*self._songs, strict=True)]
        quick = [
            low * (1.0 + DRIFT_FRACTION) / took for took, (low, _) in zip(song, ends, strict=True)
        ]
        slow = [
            high / (1.0 + DRIFT_FRACTION) / took for took, (_, high) in zip(song, ends, strict=True)
        ]
        return float(min(1.0, *quick)), float(max(1.0, *slow))

    def conditions(self) -> Conditions:
        """What was seen until now."""
        threads = len(self._threads)
        after = others_fraction(self._last, ticks(time.monotonic(), self._threads), threads)
        reasons: list[Reason] = [
            {"code": f"others_{when}", "load_fraction": round(share, 3)}
            for when, share in (("before", self._before), ("during", after))
            if share is not None and share > OTHERS_FRACTION
        ]
        load = self._load_at_start
        if self._before is None and load is not None and load / threads > 0.5:
            reasons.append({"code": "load_average", "load_fraction": round(load / threads, 3)})
        unsteady = sum(not self.is_steady(one) for one in self._songs)
        if unsteady:
            factors = [max(times) / min(times) for times in zip(*self._songs, strict=True)]
            reasons.append(
                {
                    "code": DRIFT,
                    "drift_fraction": round(max(factors) - 1.0, 3),
                    "times": unsteady,
                }
            )
        slowed = sorted({one for state in self._states for one in state.throttle_reasons})
        reasons += [{"code": "throttled", "why": one} for one in slowed if one in PASSING]
        last = self._states[-1] if self._states else None
        if last is not None:
            strangers = _strangers(self._states)
            if strangers:
                reasons.append({"code": "gpu_shared", "programs": strangers})
        return Conditions(
            noisy=bool(reasons),
            reasons=reasons,
            load_before_fraction=self._before,
            load_after_fraction=after,
            sm_clock_mhz=last.sm_clock_mhz if last else None,
            memory_clock_mhz=last.memory_clock_mhz if last else None,
            power_w=last.power_w if last else None,
            throttle_reasons=slowed,
        )


def _strangers(states: list[GpuState]) -> int:
    """Most programs beside one, the measurement's own, that were on the GPU; in a container none may be listed."""
    return max(max(len(state.processes) - 1, 0) for state in states)


def canary(timer: Timer, dtype: str) -> tuple[Callable[[], Any], ...]:
    """Works that take as long at one moment as at another on a machine that nobody else uses.

    The product is in the dtype that is measured: units that multiply matrices are shared otherwise than those for
    vectors (beside a busy neighbour of the core, Intel's AMX takes 2.5 times as long and AVX-512 1.3 times).
    """
    import torch

    kind = "cpu" if timer.kind == "cpu" else "gpu"
    size = (PRODUCT_SIZE[kind],) * 2
    square = torch.ones(size, device=timer.device, dtype=getattr(torch, TORCH_NAMES[dtype]))
    rows = READ_BYTES[kind] // (2 * READ_COLUMNS)
    matrix = torch.ones((rows, READ_COLUMNS), dtype=torch.bfloat16, device=timer.device)
    vector = torch.ones((1, READ_COLUMNS), dtype=torch.bfloat16, device=timer.device)
    return lambda: torch.mm(square, square), lambda: torch.nn.functional.linear(vector, matrix)
