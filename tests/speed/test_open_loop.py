"""Arrivals at random: Little's law, the closed loops it is made of, known queues, and a simulation of it."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.speed import open_loop
from planner.speed.open_loop import OpenLoopPoint, open_loop_point
from planner.speed.serving_point import serving_point
from tests.speed.conditions import setting
from tests.speed.models import LLAMA_8B, work_of

CHAT = {"input_tokens": 1024.0, "output_tokens": 256.0}


def point(rate: float, places: float) -> OpenLoopPoint:
    hardware, constants = setting()
    model = work_of(LLAMA_8B)
    return open_loop_point(
        model, hardware, constants, request_rate_per_s=rate, max_running=places, **CHAT
    )


def loop(users: float, places: float) -> Any:
    hardware, constants = setting()
    model = work_of(LLAMA_8B)
    return serving_point(model, hardware, constants, concurrency=users, max_running=places, **CHAT)


def test_a_rare_request_is_alone() -> None:
    found, alone = point(1e-5, 64.0), loop(1.0, 64.0)
    assert found.ttft_s == pytest.approx(alone.ttft_s, rel=1e-3)
    assert found.ttft_median_s == pytest.approx(alone.ttft_s, rel=1e-3)
    assert found.tpot_s == pytest.approx(alone.tpot_s, rel=1e-3)
    assert found.in_flight == pytest.approx(1e-5 * float(alone.e2e_s), rel=1e-3)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_with_room_it_is_the_closed_loop_of_as_many_as_there_are_on_average(share: float) -> None:
    """The mean field: where n in flight serve λ, the time per token is theirs, but for how n varies."""
    rate = share * float(loop(64.0, 256.0).request_rate_per_s)
    found = point(rate, 256.0)
    same = loop(found.in_flight, 256.0)
    assert float(same.request_rate_per_s) == pytest.approx(rate, rel=0.06)
    assert found.tpot_s == pytest.approx(float(same.tpot_s), rel=0.03)
    assert found.request_rate_per_s == rate
    assert found.e2e_s == pytest.approx(found.ttft_s + 255.0 * found.tpot_s)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.95])
def test_one_place_is_the_queue_of_one_server(load: float) -> None:
    """M/M/1: a mean wait of r / (1 − r) services, and of half of the arrivals none or ln(2r) / −ln(r) of them."""
    alone = loop(1.0, 1.0)
    service = float(alone.e2e_s)
    found = point(load / service, 1.0)
    wait = service * load / (1.0 - load)
    assert found.ttft_s == pytest.approx(float(alone.ttft_s) + wait)
    assert found.in_flight == pytest.approx(load / (1.0 - load))
    longer = max(math.log(0.5 / load) / math.log(load), 0.0)
    assert found.ttft_median_s == pytest.approx(float(alone.ttft_s) + longer * service)


def test_more_than_can_be_served_is_served_at_the_most_and_waits_without_end() -> None:
    full = loop(8.0, 8.0)
    found = point(1.01 * float(full.request_rate_per_s), 8.0)
    assert found.request_rate_per_s == pytest.approx(float(full.request_rate_per_s))
    assert found.tpot_s == pytest.approx(float(full.tpot_s))
    assert math.isinf(found.ttft_s)
    assert math.isinf(found.ttft_median_s)
    assert math.isinf(found.in_flight)
    nearly = point(0.999 * float(full.request_rate_per_s), 8.0)
    assert nearly.tpot_s == pytest.approx(found.tpot_s, rel=0.01)  # no jump where it fills up


def test_everything_grows_with_the_rate() -> None:
    most = float(loop(16.0, 16.0).request_rate_per_s)
    found = [point(share * most, 16.0) for share in np.linspace(0.05, 0.98, 20)]
    for name in ("ttft_s", "ttft_median_s", "tpot_s", "e2e_s", "in_flight"):
        values = [getattr(one, name) for one in found]
        assert values == sorted(values), name


@dataclass
class Fixed:
    """A closed loop of made-up constants, in place of a model's: a + k·n each step."""

    a: float
    k: float
    first_s: float
    outputs: float

    def __call__(self, *_: Any, concurrency: Any, max_running: float, **__: Any) -> Any:
        n = np.minimum(concurrency, max_running)
        tpot = self.a + self.k * n
        service = self.first_s + (self.outputs - 1.0) * tpot
        wait = (concurrency / n - 1.0) * service

        return SimpleNamespace(
            request_rate_per_s=n / service, ttft_s=wait + self.first_s, tpot_s=tpot
        )


def simulated(fixed: Fixed, rate: float, places: int, requests: int) -> tuple[float, float]:
    """Mean wait for a place and mean requests in flight; work of an exponential length, shared by those that run."""
    rng = np.random.default_rng(11)
    arrivals = np.cumsum(rng.exponential(1.0 / rate, requests))
    needs = rng.exponential(1.0, requests)  # of whole services
    now = done = 0.0  # `done`: service given to each that runs since the start
    running: list[tuple[float, float]] = []
    queue: list[int] = []
    waits, area, following = [], 0.0, 0
    while following < requests or running:
        count = len(running)
        speed = 0.0
        if count:
            speed = 1.0 / (fixed.first_s + (fixed.outputs - 1.0) * (fixed.a + fixed.k * count))
        ends = now + (running[0][0] - done) / speed if count else math.inf
        comes = arrivals[following] if following < requests else math.inf
        then = min(ends, comes)
        area += (then - now) * (count + len(queue))
        done += (then - now) * speed
        now = then
        if comes <= ends:
            queue.append(following)
            following += 1
        else:
            heapq.heappop(running)
        while queue and len(running) < places:
            one = queue.pop(0)
            waits.append(now - arrivals[one])
            heapq.heappush(running, (done + needs[one], now))
    return float(np.mean(waits)), area / now


@pytest.mark.parametrize(("places", "load"), [(4, 0.8), (16, 0.9), (64, 0.5)])
def test_it_is_what_a_simulation_gives(
    places: int, load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = Fixed(a=0.01, k=0.0004, first_s=0.2, outputs=100.0)
    monkeypatch.setattr(open_loop, "serving_point", fixed)
    service = fixed.first_s + 99.0 * (fixed.a + fixed.k * places)
    rate = load * places / service
    found = point(rate, float(places))
    waited, in_flight = simulated(fixed, rate, places, 400_000)
    assert found.ttft_s - fixed.first_s == pytest.approx(waited, rel=0.03, abs=1e-6)
    assert rate * (found.ttft_s + 99.0 * found.tpot_s) == pytest.approx(in_flight, rel=0.01)
