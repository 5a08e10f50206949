"""What disturbs a measurement is seen and said, and never fails it."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import PlannerError
from planner.measure import noise
from planner.measure.clock import Timer
from planner.measure.micro import TORCH_NAMES
from planner.measure.noise import (
    READ_BYTES,
    READ_COLUMNS,
    Watch,
    canary,
    is_noisy,
    others_fraction,
    slower,
    usual_range,
)
from planner.measure.nvml import GpuProcess, GpuState
from planner.measure.system import Ticks
from planner.measure_report import reason_text
from planner.ui.locale import LANGUAGES


def test_the_share_of_others_leaves_out_our_own() -> None:
    before = Ticks(busy_s=100.0, own_s=10.0, wall_s=0.0)
    after = Ticks(busy_s=118.0, own_s=20.0, wall_s=10.0)
    assert others_fraction(before, after, 2) == pytest.approx(0.4)
    assert others_fraction(before, before, 2) is None
    assert others_fraction(None, after, 2) is None


def test_repeats_that_vary_or_are_alone_do_not_count() -> None:
    assert not is_noisy([1.0, 1.02, 0.99])
    assert is_noisy([1.0, 1.5, 0.7])
    assert is_noisy([1.0])


class Clock:
    """A timer whose work takes what a test says."""

    kind, device = "cpu", "cpu"

    def __init__(self, times: list[float]) -> None:
        self.times = times

    def repeats(self, *_: Any, **__: Any) -> list[float]:
        return [self.times.pop(0)]


def watched(
    monkeypatch: pytest.MonkeyPatch,
    *,
    busy: list[float],
    product: list[float],
    reading: list[float] | None = None,
    states: list[GpuState] | None = None,
) -> Watch:
    """A watch on a machine of two threads: processor time of others each time it looks, in tenths of a second."""
    clock = iter(range(1000))
    seen = iter(busy)
    monkeypatch.setattr(noise, "allowed_threads", lambda: (0, 1))
    monkeypatch.setattr(noise, "load_average", lambda: 0.0)
    monkeypatch.setattr(noise, "ticks", lambda *_: Ticks(next(seen), 0.0, float(next(clock))))
    left = list(states or [])
    monkeypatch.setattr(noise, "gpu_state", lambda _: left.pop(0) if left else None)
    watch = Watch()
    works = [product] if reading is None else [product, reading]
    timer: Any = Clock([took for moment in zip(*works, strict=True) for took in moment])
    timer.times[:0] = [0.0] * len(works)  # what pays for loading
    monkeypatch.setattr(noise, "canary", lambda *_: (lambda: None,) * len(works))
    watch.ready(timer, "fp32", "GPU-1" if states else None)
    return watch


def test_an_idle_machine_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watched(monkeypatch, busy=[0.0, 0.1, 0.2], product=[1.0, 1.05, 0.95])
    assert all(watch.is_steady(watch.sing()) for _ in range(2))
    found = watch.conditions()
    assert not found.noisy
    assert found.reasons == []
    assert found.load_before_fraction == pytest.approx(0.05)


def test_a_loaded_and_drifting_machine_is_noisy_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = watched(monkeypatch, busy=[0.0, 1.0, 2.0], product=[1.0, 1.4, 1.0])
    assert [watch.is_steady(watch.sing()) for _ in range(2)] == [False, True]
    found = watch.conditions()
    assert found.noisy
    assert {one["code"] for one in found.reasons} == {"others_before", "others_during", "drift"}
    assert [one["drift_fraction"] for one in found.reasons if one["code"] == "drift"] == [0.4]
    for language in LANGUAGES:
        assert all(reason_text(one, language) for one in found.reasons)


def test_moments_unlike_most_are_noisy_quicker_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watched(monkeypatch, busy=[0.0, 0.0, 0.0], product=[1.0, 0.5, 0.52, 0.7, 0.55, 0.3])
    sung = [watch.sing() for _ in range(5)]
    assert [watch.is_steady(one) for one in sung] == [True, True, False, True, False]
    assert watch.conditions().reasons == [{"code": "drift", "drift_fraction": 2.333, "times": 3}]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([1.0], 1.0),
        ([1.5, 1.0], 1.0),  # of two states seen as often the quicker one
        ([1.0, 1.5, 1.52, 1.6, 1.1], 1.5),
        ([3.0, 1.0, 1.1, 1.14, 1.25], 1.0),
    ],
)
def test_the_usual_range_is_where_most_moments_are(times: list[float], expected: float) -> None:
    low, high = usual_range(times)
    assert low == expected
    assert high == pytest.approx(1.15 * expected)


def test_memory_that_is_slow_is_seen_where_arithmetic_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = watched(
        monkeypatch, busy=[0.0, 0.0, 0.0], product=[1.0, 1.0, 1.02], reading=[4.0, 6.0, 4.1]
    )
    sung = [watch.sing() for _ in range(2)]
    assert [watch.is_steady(one) for one in sung] == [False, True]
    assert watch.is_steady(slower(*sung)) is False
    assert watch.conditions().reasons == [{"code": "drift", "drift_fraction": 0.5, "times": 1}]


@pytest.mark.measure
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_the_canary_multiplies_as_the_models_do(dtype: str) -> None:
    import torch

    product, reading = canary(Timer("cpu", "cpu"), dtype)
    assert product().dtype == getattr(torch, TORCH_NAMES[dtype])
    assert reading().numel() * READ_COLUMNS * 2 == READ_BYTES["cpu"]


def test_how_far_other_moments_were_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = [1.0 + 0.01 * i for i in range(10)]
    watch = watched(monkeypatch, busy=[0.0] * 3, product=alike, reading=alike)
    for _ in alike[1:]:
        watch.sing()
    assert watch.beyond((1.02, 1.03)) == (1.0, 1.0)
    # Memory at two thirds of its speed in three moments of ten, arithmetic never.
    reading = [4.0, 4.1, 4.2, 4.0, 6.9, 6.9, 6.9, 4.0, 4.0, 4.0]
    watch = watched(monkeypatch, busy=[0.0] * 3, product=alike, reading=reading)
    for _ in reading[1:]:
        watch.sing()
    assert watch.beyond((1.0, 4.0)) == (1.0, pytest.approx(6.9 / (4.0 * 1.15)))
    assert watch.beyond((1.0, 6.9)) == (pytest.approx(4.0 * 1.15 / 6.9), 1.0)


def test_a_gpu_held_down_or_shared_is_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = GpuProcess(1, "python", 1e9), GpuProcess(2, "other", 5e9)
    states = [
        GpuState(sm_clock_mhz=1980.0, processes=(ours,)),
        GpuState(
            sm_clock_mhz=1200.0,
            throttle_reasons=("power_cap", "hardware_thermal"),
            processes=(ours, theirs),
        ),
    ]
    watch = watched(monkeypatch, busy=[0.0, 0.0, 0.0], product=[1.0, 1.0], states=states)
    watch.sing()
    found = watch.conditions()
    assert [one.get("why", one["code"]) for one in found.reasons] == [
        "hardware_thermal",
        "gpu_shared",
    ]
    assert (found.sm_clock_mhz, found.throttle_reasons) == (
        1200.0,
        ["hardware_thermal", "power_cap"],
    )
    for language in LANGUAGES:
        assert all(reason_text(one, language) for one in found.reasons)


def test_a_gpu_lost_between_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watched(monkeypatch, busy=[0.0, 0.0], product=[1.0], states=[GpuState()])

    def lost(_: str) -> GpuState:
        raise PlannerError("gpu_lost", reason="gone")

    monkeypatch.setattr(noise, "gpu_state", lost)
    with pytest.raises(PlannerError):
        watch.sing()
