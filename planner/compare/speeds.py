"""Speeds of many deployments at once: one call a group, and the range of each as a single answer states it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from planner.compare.held import GroupBudget, at
from planner.deployment import Deployment
from planner.errors import MissingFigure, PlannerError
from planner.quantity import Basis, Estimate, worst
from planner.scenario import Scenario
from planner.speed.bounds import tpot_bound, ttft_bound
from planner.speed.serving_point import ServingPoint
from planner.speed_answer import point_of, rates_basis, speed_answer


@dataclass(frozen=True, slots=True, eq=False)
class Speed:
    """What users see and what the deployment delivers; the names and units of SpeedAnswer.

    Attributes:
        tpot_s, decode_tokens_per_s, output_tokens_per_s: None for a model that generates nothing.
    """

    ttft_s: Estimate
    tpot_s: Estimate | None
    decode_tokens_per_s: Estimate | None
    output_tokens_per_s: Estimate | None
    total_tokens_per_s: Estimate
    bound_by: str


@dataclass(frozen=True, slots=True)
class _Middles:
    """One deployment's serving point and its floors, as numbers (s)."""

    ttft_s: float
    tpot_s: float
    queue_wait_s: float
    running: float
    ttft_floor_s: float
    tpot_floor_s: float
    bound_by: str


def speeds(
    memory: GroupBudget, scenario: Scenario, members: Iterable[int]
) -> dict[int, Speed | PlannerError]:
    """The speed of a group's members under the scenario's workload, or why one has none.

    Args:
        members: indices into the group.
    """
    group = memory.group
    if len(group.deployments) == 1:
        return {index: _alone(memory, scenario, index) for index in members}
    found: dict[int, Speed | PlannerError] = {}
    middles = _middles(memory, scenario)
    for index in members:
        one = middles[index] if middles else None
        if one is None:
            found[index] = _alone(memory, scenario, index)
        else:
            found[index] = _speed(group.deployments[index], scenario, one)
    return found


def _alone(memory: GroupBudget, scenario: Scenario, index: int) -> Speed | PlannerError:
    """One member by itself, which also says what figure is missing."""
    deployment = memory.group.deployments[index]
    try:
        answer = speed_answer(deployment, scenario, memory.budget_at(index))
    except PlannerError as error:
        return error.with_traceback(None)
    return Speed(
        answer.ttft_s,
        answer.tpot_s,
        answer.decode_tokens_per_s,
        answer.output_tokens_per_s,
        answer.total_tokens_per_s,
        answer.bound_by,
    )


def _middles(memory: GroupBudget, scenario: Scenario) -> list[_Middles | None] | None:
    """The whole group in one call: None for a member that lacks a figure, and altogether where all lack one."""
    together = memory.group.together
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    work, hardware = together.work, together.hardware
    try:
        point = point_of(
            together,
            memory.budget,
            input_tokens=inputs,
            output_tokens=outputs,
            concurrency=float(scenario.concurrency),
            max_model_len=scenario.max_model_len,
        )
        running = point.running_batch * together.parallelism.dp
        first = ttft_bound(work, hardware, inputs).seconds
        token = tpot_bound(work, hardware, running, inputs + outputs / 2.0).seconds
    except MissingFigure:
        return None
    names = _names(point, generates=work.generates)
    found: list[_Middles | None] = []
    for index in range(len(memory.group.deployments)):
        one = _Middles(
            at(point.ttft_s, index),
            at(point.tpot_s, index),
            at(point.queue_wait_s, index),
            at(running, index),
            at(first, index),
            at(token, index),
            names[index],
        )
        known = math.isfinite(one.ttft_s + one.tpot_s + one.ttft_floor_s + one.tpot_floor_s)
        found.append(one if known else None)
    return found


def _names(point: ServingPoint, *, generates: bool) -> list[str]:
    return [str(name) for name in (point.bound_by if generates else point.prefill_bound_by)]


def _speed(deployment: Deployment, scenario: Scenario, point: _Middles) -> Speed:
    """Ranges around the middles, held above the floors: as `planner.speed_answer` makes them."""
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    calibration = deployment.calibration
    basis = worst(calibration.basis, rates_basis(deployment))
    own = point.ttft_s - point.queue_wait_s
    first = Estimate.banded(own, calibration.ttft_band, "s", basis, floor=point.ttft_floor_s)
    if not deployment.work.generates:
        rate = _scaled(first.inverse(point.running, "1/s"), inputs, "tokens/s")
        return Speed(first, None, None, None, rate, point.bound_by)
    tpot = Estimate.banded(
        point.tpot_s, calibration.tpot_band, "s", basis, floor=point.tpot_floor_s
    )
    service = _sum(first, _scaled(tpot, outputs - 1.0, "s"), basis)
    requests = service.inverse(point.running, "1/s")
    rounds = point.queue_wait_s / float(service.mid)
    return Speed(
        _sum(first, _scaled(service, rounds, "s"), basis),
        tpot,
        tpot.inverse(1.0, "tokens/s"),
        _scaled(requests, outputs, "tokens/s"),
        _scaled(requests, inputs + outputs, "tokens/s"),
        point.bound_by,
    )


def _scaled(estimate: Estimate, factor: float, unit: str) -> Estimate:
    return Estimate(
        estimate.low * factor, estimate.mid * factor, estimate.high * factor, unit, estimate.basis
    )


def _sum(a: Estimate, b: Estimate, basis: Basis) -> Estimate:
    return Estimate(a.low + b.low, a.mid + b.mid, a.high + b.high, a.unit, basis)
