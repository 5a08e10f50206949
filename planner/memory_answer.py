"""The memory part of an answer: the engine's budget, the verdict on it, and the figures people ask for."""

from __future__ import annotations

from planner.answers import MemoryAnswer
from planner.architecture.cache import cache_bytes, marginal_bytes
from planner.catalog.formats import kv_format, supported
from planner.deployment import Deployment
from planner.memory.budget import (
    Component,
    MemoryBudget,
    engine_printed_kv_tokens,
    over_pool,
    pool_tokens,
)
from planner.memory.fit import Fit, fit, remedies
from planner.memory_limits import GROWING, held_estimate, longest_context
from planner.quantity import Estimate, worst
from planner.scenario import Scenario

SMALLER_CACHES = ("fp8", "q8_0", "q4_0")


def verdict_of(deployment: Deployment, scenario: Scenario, budget: MemoryBudget) -> Fit:
    """Whether the scenario's workload fits into the budget."""
    return fit(
        budget,
        deployment.architecture,
        input_tokens=scenario.input_tokens,
        output_tokens=scenario.output_tokens,
        concurrency=scenario.concurrency,
        max_model_len=scenario.max_model_len,
    )


def memory_answer(
    deployment: Deployment, scenario: Scenario, budget: MemoryBudget, verdict: Fit
) -> MemoryAnswer:
    """All memory figures of a scenario, each with its range."""
    tokens = float(scenario.input_tokens + scenario.output_tokens)
    model_layout = deployment.model_layout
    growing = budget.settings.policy in GROWING
    parts = [budget.weights, budget.activation, budget.runtime]
    overhead = [budget.runtime]
    if budget.settings.graphs_inside_budget:
        overhead.append(budget.graphs)
        parts.append(budget.graphs)
    needed = _around(verdict.needed_bytes, parts)
    reserved = float(budget.reserved_bytes)
    exact = Estimate.exact
    usable = float(deployment.usable_bytes)
    limit = deployment.architecture.max_context_tokens
    longest = float(min(limit, scenario.max_model_len or limit))
    logged_for = int(scenario.max_model_len or limit)
    return MemoryAnswer(
        usable_bytes_per_gpu=Estimate(usable, usable, usable, "bytes", deployment.usable_basis),
        weights_bytes=exact(deployment.stored.total_bytes, "bytes"),
        weights_bytes_per_gpu=budget.weights.estimate,
        activation_bytes_per_gpu=budget.activation.estimate,
        overhead_bytes_per_gpu=_around(sum(float(part.mid) for part in overhead), overhead),
        graphs_bytes_per_gpu=budget.graphs.estimate,
        kv_pool_bytes_per_gpu=exact(0.0, "bytes") if budget.pool.empty else budget.kv_pool.estimate,
        kv_bytes_per_token=exact(marginal_bytes(model_layout, tokens), "bytes"),
        kv_bytes_per_token_per_gpu=exact(marginal_bytes(deployment.rank_layout, tokens), "bytes"),
        kv_bytes_per_sequence=exact(
            cache_bytes(model_layout, tokens) - model_layout.constant_bytes, "bytes"
        ),
        state_bytes_per_sequence=exact(model_layout.constant_bytes, "bytes"),
        kv_pool_tokens=None
        if budget.pool.empty
        else over_pool(budget, lambda pool: pool_tokens(budget, tokens, pool), "tokens"),
        engine_printed_kv_tokens=None
        if growing or budget.pool.empty
        else over_pool(
            budget, lambda pool: engine_printed_kv_tokens(budget, logged_for, pool), "tokens"
        ),
        max_concurrency=held_estimate(deployment, scenario, budget),
        max_context_tokens=longest_context(deployment, scenario, budget, longest),
        needed_bytes_per_gpu=needed,
        reserved_bytes_per_gpu=_around(reserved, parts)
        if growing
        else Estimate(reserved, reserved, reserved, "bytes", budget.settings.basis),
        verdict=verdict.verdict.value,
        starts=verdict.starts,
        reason=verdict.reason,
        remedies=()
        if verdict.verdict == "fits" or verdict.reason.code.startswith("fit_context")
        else remedies(
            budget,
            deployment.architecture,
            input_tokens=scenario.input_tokens,
            output_tokens=scenario.output_tokens,
            concurrency=scenario.concurrency,
            pp=deployment.parallelism.pp,
            kv_alternatives=[
                (name, deployment.layout_with(kv_format(name, deployment.dtype)))
                for name in smaller_caches(deployment)
            ],
        ),
    )


def _around(mid: float, parts: list[Component]) -> Estimate:
    """A sum whose range is that of its parts together."""
    low = mid - sum(float(part.mid - part.low) for part in parts)
    high = mid + sum(float(part.high - part.mid) for part in parts)
    return Estimate(max(low, 0.0), mid, high, "bytes", worst(*(part.basis for part in parts)))


def smaller_caches(deployment: Deployment) -> tuple[str, ...]:
    """Cache formats that take fewer bytes than the present one and that the engine has on this card."""
    present = deployment.kv.key_bytes + deployment.kv.value_bytes
    found = []
    for name in SMALLER_CACHES:
        candidate = kv_format(name, deployment.dtype)
        if candidate.key_bytes + candidate.value_bytes < present and (
            supported(candidate, deployment.engine.id, deployment.accelerator).ok
        ):
            found.append(name)
    return tuple(found)
