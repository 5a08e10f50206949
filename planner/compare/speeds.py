"""Speeds of many deployments at once: one call a group, and the range of each as a single answer states it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from planner.compare.held import GroupBudget, at
from planner.deployment import Deployment
from planner.errors import MissingFigure, PlannerError
from planner.quantity import Estimate
from planner.scenario import Scenario
from planner.speed.bounds import tpot_bound
from planner.speed.serving_point import ServingPoint
from planner.speed_answer import Middles, first_token_bound, point_of, ranges, speed_answer


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
class _Member:
    middles: Middles
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


def _middles(memory: GroupBudget, scenario: Scenario) -> list[_Member | None] | None:
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
        first = first_token_bound(together, inputs).seconds
        token = tpot_bound(work, hardware, running, inputs + outputs / 2.0).seconds
    except MissingFigure:
        return None
    names = _names(point, generates=work.generates)
    found: list[_Member | None] = []
    for index in range(len(memory.group.deployments)):
        one = Middles(
            ttft_s=at(point.ttft_s, index),
            ttft_unloaded_s=at(point.ttft_unloaded_s, index),
            tpot_s=at(point.tpot_s, index),
            queue_wait_s=at(point.queue_wait_s, index),
            running=at(running, index),
            ttft_floor_s=at(first, index),
            tpot_floor_s=at(token, index),
            ttft_host_fraction=at(point.prefill.offloaded_fraction, index),
            tpot_host_fraction=at(point.decode.offloaded_fraction, index),
        )
        known = math.isfinite(one.ttft_s + one.tpot_s + one.ttft_floor_s + one.tpot_floor_s)
        found.append(_Member(one, names[index]) if known else None)
    return found


def _names(point: ServingPoint, *, generates: bool) -> list[str]:
    return [str(name) for name in (point.bound_by if generates else point.prefill_bound_by)]


def _speed(deployment: Deployment, scenario: Scenario, member: _Member) -> Speed:
    found = ranges(deployment, scenario, member.middles)
    return Speed(
        found.ttft_s,
        found.tpot_s,
        found.decode_tokens_per_s,
        found.output_tokens_per_s,
        found.total_tokens_per_s,
        member.bound_by,
    )
