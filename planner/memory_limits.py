"""How much a deployment holds: budgets at any workload, the most users, the longest context.

Engines that take memory as they need it process all prompts of a batch together, so that activations grow with the
batch and with its prompts and leave less for the cache. For the others the pool alone decides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.deployment import Deployment
from planner.memory.budget import (
    MemoryBudget,
    max_concurrency,
    max_context,
    memory_budget,
    over_pool,
    requested_sequences,
)
from planner.memory.fit import fit_level, needed_bytes
from planner.memory.parts import UNKNOWN_POOL_BAND
from planner.memory.pool import pool_layout, sequences_bytes
from planner.quantity import GIB, Estimate, FloatArray, Quantity, maximum, minimum
from planner.scenario import MAX_CONCURRENCY, Scenario
from planner.speed.kernels import as_factor

GROWING = frozenset({"grow", "context"})  # policies that take what the workload needs
SHORT = 2  # the level of `fit_level` that doesn't fit


def budget_at(
    deployment: Deployment,
    *,
    input_tokens: Quantity,
    output_tokens: Quantity,
    concurrency: Quantity,
    max_model_len: int | None,
) -> MemoryBudget:
    """The memory budget of a deployment under any workload; floats or arrays."""
    return memory_budget(
        deployment.architecture,
        deployment.stored.rank_bytes,
        deployment.rank_layout,
        deployment.settings,
        deployment.parallelism,
        deployment.usable_bytes,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        concurrency=concurrency,
        max_model_len=max_model_len,
        compute_bytes=deployment.compute_bytes,
        padding_bytes=deployment.padding_bytes,
        quantised=deployment.quantised_unread,
        host=deployment.stored.host,
    )


def budget_of(deployment: Deployment, scenario: Scenario) -> MemoryBudget:
    """The memory budget of the deployment under the scenario's workload."""
    return budget_with(deployment, scenario, float(scenario.concurrency))


def budget_with(deployment: Deployment, scenario: Scenario, users: float) -> MemoryBudget:
    """The memory budget with another number of the scenario's users."""
    return budget_at(
        deployment,
        input_tokens=float(scenario.input_tokens),
        output_tokens=float(scenario.output_tokens),
        concurrency=users,
        max_model_len=scenario.max_model_len,
    )


def budget_for_length(deployment: Deployment, scenario: Scenario, tokens: float) -> MemoryBudget:
    """The memory budget with sequences of `tokens` tokens, of which the answer keeps its length."""
    prompt, answer = split_length(tokens, float(scenario.output_tokens))
    return budget_at(
        deployment,
        input_tokens=prompt,
        output_tokens=answer,
        concurrency=float(scenario.concurrency),
        max_model_len=None,
    )


def most_users(
    deployment: Deployment,
    input_tokens: Quantity,
    output_tokens: Quantity,
    max_model_len: int | None,
) -> Quantity:
    """Most sequences of this length held at once, activations counted (whole sequences); numbers or arrays."""

    def budget_for(users: Quantity) -> MemoryBudget:
        return budget_at(
            deployment,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            concurrency=users,
            max_model_len=max_model_len,
        )

    tokens = input_tokens + output_tokens
    alone = budget_for(1.0)
    most = max_concurrency(alone, tokens)
    if deployment.settings.policy not in GROWING or alone.pool.empty:
        return most
    if isinstance(most, np.ndarray):
        return _halved(budget_for, most, tokens)
    return _most_whole(
        float(most), lambda users: bool(fit_level(budget_for(users), users, tokens) < SHORT)
    )


def filled_sequences(deployment: Deployment, scenario: Scenario, most: float) -> float:
    """Sequences that fill the memory of an engine that takes it as they come, a part of the last one counted.

    Args:
        most: whole sequences that it holds.
    """
    tokens = float(scenario.input_tokens + scenario.output_tokens)

    def needed(users: float) -> float:
        return float(needed_bytes(budget_with(deployment, scenario, users), users, tokens))

    if budget_of(deployment, scenario).kv_pool_bytes <= 0.0:
        return 0.0
    groups = float(deployment.parallelism.dp)
    less, more = needed(most), needed(most + groups)
    room = float(deployment.usable_bytes) - less
    return most + groups * min(max(room / (more - less), 0.0), 1.0) if more > less else most


def _halved(
    budget_for: Callable[[Quantity], MemoryBudget], most: FloatArray, tokens: Quantity
) -> FloatArray:
    fitting, failing = np.zeros_like(most), most + 1.0
    while np.any(failing - fitting > 1.0):
        middle = np.maximum((fitting + failing) // 2.0, 1.0)
        holds = np.asarray(fit_level(budget_for(middle), middle, tokens)) < SHORT
        wide = failing - fitting > 1.0
        fitting = np.where(wide & holds, middle, fitting)
        failing = np.where(wide & ~holds, middle, failing)
    return fitting


def host_bytes(
    deployment: Deployment,
    scenario: Scenario,
    budget: MemoryBudget,
    concurrency: float,
    tokens: float | None = None,
) -> tuple[float, float]:
    """Weights and caches that lie in host memory, `concurrency` slots all at their whole context (bytes).

    Args:
        tokens: the context of a slot; None: what the scenario starts the engine for.
    """
    host, layout = deployment.stored.host, deployment.host_layout
    if host is None or layout is None:
        return 0.0, 0.0
    pool = pool_layout(deployment.architecture, layout, budget.settings)
    whole = scenario.max_model_len or scenario.input_tokens + scenario.output_tokens
    context = float(whole) if tokens is None else tokens
    sequences = requested_sequences(concurrency, budget.replicas)
    return host.total_bytes, float(sequences_bytes(pool, sequences, context))


def _most_whole(limit: float, holds: Callable[[float], bool]) -> float:
    """The largest whole number up to `limit` for which `holds`, which fails from some number on; 0 where none does."""
    fitting, failing = 0.0, limit // 1.0 + 1.0
    while failing - fitting > 1.0:
        middle = (fitting + failing) // 2.0
        if holds(middle):
            fitting = middle
        else:
            failing = middle
    return fitting


def _capped(estimate: Estimate, most: float) -> Estimate:
    low, mid, high = (minimum(x, most) for x in (estimate.low, estimate.mid, estimate.high))
    return Estimate(low, mid, high, estimate.unit, estimate.basis)


def _within_host(
    deployment: Deployment,
    scenario: Scenario,
    budget: MemoryBudget,
    estimate: Estimate,
    needed: Callable[[float], tuple[float, float]],
) -> Estimate:
    """No more than what the host's stated memory has room for.

    Args:
        needed: weights and caches in host memory at a number of sequences, or of tokens (bytes).
    """
    if scenario.host_memory_gib is None or deployment.stored.host is None:
        return estimate
    room = scenario.host_memory_gib * GIB
    most = _most_whole(float(np.max(estimate.high)), lambda value: sum(needed(value)) <= room)
    return _capped(estimate, most)


def held_estimate(deployment: Deployment, scenario: Scenario, budget: MemoryBudget) -> Estimate:
    """Sequences of the scenario's length held at once, over the deployment; numbers or arrays over accelerators.

    Where nothing is cached, what the engine takes into one step; where a part lies in host memory, no more than that
    has room for.
    """
    return _within_host(
        deployment,
        scenario,
        budget,
        _held_on_gpu(deployment, scenario, budget),
        lambda users: host_bytes(deployment, scenario, budget, users),
    )


def _held_on_gpu(deployment: Deployment, scenario: Scenario, budget: MemoryBudget) -> Estimate:
    tokens = float(scenario.input_tokens + scenario.output_tokens)
    if budget.pool.empty:
        runs = as_factor(fit_level(budget, 1.0, tokens) < SHORT)
        most = float(budget.settings.max_num_seqs * budget.replicas) * runs
        return Estimate(most, most, most, "sequences", budget.settings.basis)
    by_pool = over_pool(budget, lambda pool: max_concurrency(budget, tokens, pool), "sequences")
    if budget.settings.policy not in GROWING:
        return by_pool
    mid = most_users(
        deployment,
        float(scenario.input_tokens),
        float(scenario.output_tokens),
        scenario.max_model_len,
    )
    return rescaled(by_pool, minimum(mid, float(MAX_CONCURRENCY)))


def longest_context(
    deployment: Deployment, scenario: Scenario, budget: MemoryBudget, limit: float
) -> Estimate:
    """Longest sequence that all of the scenario's users can have at once (tokens), at most `limit`; numbers only."""
    users = float(scenario.concurrency)
    return _within_host(
        deployment,
        scenario,
        budget,
        _longest_on_gpu(deployment, scenario, budget, limit),
        lambda tokens: host_bytes(deployment, scenario, budget, users, tokens),
    )


def _longest_on_gpu(
    deployment: Deployment, scenario: Scenario, budget: MemoryBudget, limit: float
) -> Estimate:
    users = float(scenario.concurrency)
    by_pool = over_pool(budget, lambda pool: max_context(budget, users, limit, pool), "tokens")
    if budget.settings.policy not in GROWING or budget.pool.empty:
        return by_pool

    def holds(tokens: float) -> bool:
        candidate = budget_for_length(deployment, scenario, tokens)
        return bool(fit_level(candidate, users, tokens) < SHORT)

    return rescaled(by_pool, _most_whole(limit, holds))


def split_length(tokens: Quantity, output_tokens: float) -> tuple[Quantity, Quantity]:
    """Prompt and answer of a sequence of `tokens` tokens: the answer keeps its length while there is room for one."""
    prompt = maximum(tokens - output_tokens, 1.0)
    return prompt, tokens - prompt


def rescaled(by_pool: Estimate, mid: Quantity) -> Estimate:
    """A range in whole units around a middle that also counts what grows beside the pool."""
    low = mid * (1.0 - UNKNOWN_POOL_BAND) // 1.0
    return Estimate(low, mid, mid * (1.0 + UNKNOWN_POOL_BAND) // 1.0, by_pool.unit, by_pool.basis)
