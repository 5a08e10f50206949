"""Whether a measurement can be trusted: who else used the machine, whether clocks were held down, whether it drifted.

Nothing here fails a measurement. It says what disturbed it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from planner.measure.clock import Timer, variation_fraction
from planner.measure.nvml import GpuState, gpu_state
from planner.measure.record import Conditions
from planner.measure.system import Ticks, allowed_threads, load_average, ticks

VARIES_FRACTION = 0.10  # of a row's repeats, from which on it doesn't count
DRIFT_FRACTION = (
    0.15  # of the same small work, from which on the machine wasn't the same throughout
)
OTHERS_FRACTION = 0.10  # of all cores, taken by other programs
CANARY_SIZE = {"cpu": 384, "gpu": 2048}
MOST_DRIFTS = 20
# A limit of power or clocks holds whenever the card works; heat and a failing supply come and go.
PASSING = ("hardware_slowdown", "hardware_thermal", "software_thermal", "power_brake")

Reason = dict[str, str | int | float]


def others_fraction(before: Ticks | None, after: Ticks | None, threads: int) -> float | None:
    """Share of all threads that other programs took between two readings; None where the system doesn't say."""
    if before is None or after is None or after.wall_s <= before.wall_s:
        return None
    spent = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return max(spent / ((after.wall_s - before.wall_s) * threads), 0.0)


def is_noisy(values: list[float]) -> bool:
    """A row's repeats vary by more than a tenth, or there is only one on which nothing can be said."""
    return len(values) < 2 or variation_fraction(values) > VARIES_FRACTION


def drift_factor(fraction: float) -> float:
    """How many times as long the slower of two runs of the same work took (≥ 1), from slower or quicker / other − 1."""
    factor = max(1.0 + fraction, 1e-9)
    return max(factor, 1.0 / factor)


class Watch:
    """Looks at the machine before, between and after the rows."""

    def __init__(self) -> None:
        """Begins before anything heavy is loaded, so that what others do meanwhile is seen."""
        self._uuid: str | None = None
        self._threads = max(len(allowed_threads()), 1)
        self._start = self._last = ticks(time.monotonic())
        self._before: float | None = None
        self._load_at_start = load_average()
        self._canary: Callable[[], Any] | None = None
        self._timer: Timer | None = None
        self._canaries: list[float] = []
        self._states: list[GpuState] = []

    def ready(self, timer: Timer, uuid: str | None) -> None:
        """The measuring begins: keeps the load until here as the load before, and times the canary first.

        Args:
            uuid: the driver's, of the GPU that is measured; None for anything else.
        """
        self._uuid = uuid
        now = ticks(time.monotonic())
        self._before = others_fraction(self._start, now, self._threads)
        self._last = now
        self._begin_canary(timer)
        self._sing()  # the first pays for what is loaded
        self._canaries = [self._sing()]
        self._look()

    def _begin_canary(self, timer: Timer) -> None:
        import torch

        size = CANARY_SIZE["cpu" if timer.kind == "cpu" else "gpu"]
        one = torch.ones((size, size), device=timer.device)
        self._timer, self._canary = timer, lambda: torch.mm(one, one)

    def _sing(self) -> float:
        assert self._timer is not None
        assert self._canary is not None
        return statistics.median(self._timer.repeats(self._canary, budget_s=0.1, least=5, most=9))

    def _look(self) -> None:
        state = gpu_state(self._uuid) if self._uuid else None
        if state is not None:
            self._states.append(state)

    def sing(self) -> float:
        """Times the canary again (s); raises PlannerError where the GPU is lost."""
        self._look()
        self._canaries.append(self._sing())
        return self._canaries[-1]

    def is_steady(self, canary_s: float) -> bool:
        """Whether the canary, at that moment, took no longer than at its quickest.

        That is known better the longer the run: a machine that was disturbed when it began is quieter later.
        """
        return canary_s / min(self._canaries) - 1.0 <= DRIFT_FRACTION

    def conditions(self) -> Conditions:
        """What was seen until now."""
        after = others_fraction(self._last, ticks(time.monotonic()), self._threads)
        reasons: list[Reason] = [
            {"code": f"others_{when}", "load_fraction": round(share, 3)}
            for when, share in (("before", self._before), ("during", after))
            if share is not None and share > OTHERS_FRACTION
        ]
        load = self._load_at_start
        if self._before is None and load is not None and load / self._threads > 0.5:
            reasons.append(
                {"code": "load_average", "load_fraction": round(load / self._threads, 3)}
            )
        disturbed = [one for one in self._canaries if not self.is_steady(one)]
        if disturbed:
            reasons.append(
                {
                    "code": "drift",
                    "drift_fraction": round(max(disturbed) / min(self._canaries) - 1.0, 3),
                    "times": min(len(disturbed), MOST_DRIFTS),
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
