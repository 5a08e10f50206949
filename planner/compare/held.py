"""The smallest number of GPUs of each accelerator that holds a workload, or why none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.compare.placements import Group, model_of, placements
from planner.deployment import Deployment
from planner.errors import PlannerError
from planner.memory.budget import MemoryBudget
from planner.memory.fit import Fit, fit_level
from planner.memory.parts import Component
from planner.memory_answer import verdict_of
from planner.memory_limits import budget_of, held_estimate
from planner.quantity import Estimate, Quantity
from planner.scenario import Scenario

HOLDS = 1.0  # largest fit_level that counts as holding: fits or tight


@dataclass(frozen=True, slots=True, eq=False)
class GroupBudget:
    """A group's memory under a workload.

    Attributes:
        budget: arrays over the group, or numbers where it has one member.
        held: sequences of the workload's length that are held at once.
    """

    group: Group
    budget: MemoryBudget
    held: Estimate

    def budget_at(self, index: int) -> MemoryBudget:
        """The budget of one member, as numbers."""
        budget, settings = self.budget, self.group.deployments[index].settings
        return replace(
            budget,
            usable_bytes=at(budget.usable_bytes, index),
            reserved_bytes=at(budget.reserved_bytes, index),
            allowed_bytes=at(budget.allowed_bytes, index),
            fixed_bytes=at(budget.fixed_bytes, index),
            weights=_component_at(budget.weights, index),
            activation=_component_at(budget.activation, index),
            runtime=_component_at(budget.runtime, index),
            graphs=_component_at(budget.graphs, index),
            kv_pool=_component_at(budget.kv_pool, index),
            slack_bytes=at(budget.slack_bytes, index),
            outside_bytes=at(budget.outside_bytes, index),
            settings=settings,
        )

    def held_at(self, index: int) -> Estimate:
        """Sequences held at once by one member."""
        held = self.held
        return Estimate(
            at(held.low, index), at(held.mid, index), at(held.high, index), held.unit, held.basis
        )


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """An accelerator with the smallest number of GPUs that holds the workload.

    Where none does: the largest number that resolves; where that fails too, the error says why.

    Attributes:
        gpus: how many.
        error: why the deployment can't be resolved, else None, and then:
        memory, index: the group it was computed in, and its place there.
        fit: the verdict.
    """

    gpus: int
    error: PlannerError | None = None
    memory: GroupBudget | None = None
    index: int = 0
    fit: Fit | None = None

    @property
    def deployment(self) -> Deployment | None:
        """The deployment, where it resolves."""
        return self.memory.group.deployments[self.index] if self.memory else None


def at(quantity: Quantity, index: int) -> float:
    """One element of an array, or the number that stands for all."""
    if isinstance(quantity, np.ndarray) and quantity.ndim:
        return float(quantity[index])
    return float(quantity)


def _component_at(component: Component, index: int) -> Component:
    return Component(
        at(component.mid, index),
        at(component.low, index),
        at(component.high, index),
        component.basis,
    )


def smallest_holding(
    scenario: Scenario, accelerator_ids: tuple[str, ...], counts: Sequence[int]
) -> list[Held]:
    """For each accelerator the smallest of `counts` that holds the workload, in the order of the ids.

    Args:
        counts: numbers of GPUs to try, ascending, at least one.

    Raises:
        UnknownItem, InvalidConfig, UnsupportedArchitecture: for what no accelerator can change.
    """
    tokens = float(scenario.input_tokens + scenario.output_tokens)
    limit = model_of(scenario).architecture.max_context_tokens
    if tokens > min(limit, scenario.max_model_len or limit):
        counts = counts[:1]  # no number of GPUs makes a sequence shorter
    found: dict[int, tuple[int, GroupBudget, int]] = {}
    refused: dict[int, tuple[int, PlannerError]] = {}
    pending = set(range(len(accelerator_ids)))
    for gpus in counts:
        there = placements(scenario, accelerator_ids, gpus)
        for position in pending & there.refused.keys():
            refused.setdefault(position, (gpus, there.refused[position]))
        for group in there.groups:
            if pending.isdisjoint(group.positions):
                continue
            memory = _group_budget(group, scenario)
            levels = fit_level(memory.budget, scenario.concurrency, tokens)
            for index, position in enumerate(group.positions):
                if position in pending:
                    found[position] = (gpus, memory, index)
                    if at(levels, index) <= HOLDS:
                        pending.remove(position)
        if not pending:
            break
    return [
        _held(scenario, *found[position]) if position in found else Held(*refused[position])
        for position in range(len(accelerator_ids))
    ]


def _group_budget(group: Group, scenario: Scenario) -> GroupBudget:
    budget = budget_of(group.together, scenario)
    return GroupBudget(group, budget, held_estimate(group.together, scenario, budget))


def _held(scenario: Scenario, gpus: int, memory: GroupBudget, index: int) -> Held:
    deployment = memory.group.deployments[index]
    fit = verdict_of(deployment, scenario, memory.budget_at(index))
    return Held(gpus, None, memory, index, fit)
