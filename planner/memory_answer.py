"""The memory part of an answer: the engine's budget, the verdict on it, and the figures people ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.answers import MemoryAnswer
from planner.architecture.cache import cache_bytes, marginal_bytes
from planner.catalog.devices import CLASS_OF_CPU
from planner.catalog.formats import kv_format, supported
from planner.deployment import Deployment, resolve
from planner.errors import Note, PlannerError
from planner.memory.budget import (
    MemoryBudget,
    engine_printed_kv_tokens,
    over_pool,
    pool_tokens,
    state_pool_bytes,
)
from planner.memory.fit import Fit, Verdict, fit, remedies
from planner.memory.parts import WEIGHTS_BAND, Component
from planner.memory_limits import (
    GROWING,
    budget_of,
    filled_sequences,
    held_estimate,
    host_bytes,
    longest_context,
    most_users,
    rescaled,
)
from planner.quantity import GIB, Basis, Estimate, worst
from planner.scenario import Scenario

SMALLER_CACHES = ("fp8", "q8_0", "q4_0")
# GGUF formats that another engine's user is offered, largest first; with layers in host memory the usual one.
GGUF_STEPS = ("gguf:Q8_0", "gguf:Q4_K_M", "gguf:Q3_K_M", "gguf:Q2_K", "gguf:IQ2_XXS")
USUAL_GGUF = "gguf:Q4_K_M"
# What is another engine's own, and says nothing to llama.cpp.
ENGINES_OWN = (
    "engine_version", "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "block_size",
    "calibration", "tp", "pp", "ep", "dp",
)  # fmt: skip


def verdict_of(deployment: Deployment, scenario: Scenario, budget: MemoryBudget) -> Fit:
    """Whether the scenario's workload fits into the budget."""
    found = fit(
        budget,
        deployment.architecture,
        input_tokens=scenario.input_tokens,
        output_tokens=scenario.output_tokens,
        concurrency=scenario.concurrency,
        max_model_len=scenario.max_model_len,
        most=_most(deployment, scenario, budget),
    )
    needed = sum(host_bytes(deployment, scenario, budget, float(scenario.concurrency)))
    if scenario.host_memory_gib is None or needed <= scenario.host_memory_gib * GIB:
        return found
    if found.verdict is Verdict.DOES_NOT_FIT:
        return found
    values: dict[str, object] = {
        "needed_bytes": needed,
        "host_bytes": scenario.host_memory_gib * GIB,
    }
    return replace(
        found,
        verdict=Verdict.DOES_NOT_FIT,
        starts=False,
        reason=Note("fit_host_memory_exceeded", values),
    )


def _most(deployment: Deployment, scenario: Scenario, budget: MemoryBudget) -> float | None:
    """Sequences held at once where activations grow with them; None where the pool alone decides."""
    if budget.settings.policy not in GROWING or budget.pool.empty:
        return None
    prompt, answer = float(scenario.input_tokens), float(scenario.output_tokens)
    return float(most_users(deployment, prompt, answer, scenario.max_model_len))


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
    host_weights, host_kv = host_bytes(deployment, scenario, budget, float(scenario.concurrency))
    exact = Estimate.exact
    usable = float(deployment.usable_bytes)
    limit = deployment.architecture.max_context_tokens
    longest = float(min(limit, scenario.max_model_len or limit))
    logged_for = int(scenario.max_model_len or limit)
    context = longest_context(deployment, scenario, budget, longest)
    return MemoryAnswer(
        usable_bytes_per_gpu=Estimate(usable, usable, usable, "bytes", deployment.usable_basis),
        weights_bytes=exact(deployment.stored.total_bytes, "bytes"),
        weights_bytes_per_gpu=budget.weights.estimate,
        activation_bytes_per_gpu=budget.activation.estimate,
        overhead_bytes_per_gpu=_around(sum(float(part.mid) for part in overhead), overhead),
        graphs_bytes_per_gpu=budget.graphs.estimate,
        kv_pool_bytes_per_gpu=exact(0.0, "bytes") if budget.pool.empty else budget.kv_pool.estimate,
        state_pool_bytes_per_gpu=state_pool_bytes(budget),
        kv_bytes_per_token=exact(marginal_bytes(model_layout, tokens), "bytes"),
        kv_bytes_per_token_per_gpu=exact(marginal_bytes(deployment.rank_layout, tokens), "bytes"),
        kv_bytes_per_sequence=exact(
            cache_bytes(model_layout, tokens) - model_layout.constant_bytes, "bytes"
        ),
        state_bytes_per_sequence=exact(model_layout.constant_bytes, "bytes"),
        kv_pool_tokens=_pool_tokens(deployment, scenario, budget, verdict),
        engine_printed_kv_tokens=None
        if growing or budget.pool.empty
        else over_pool(
            budget, lambda pool: engine_printed_kv_tokens(budget, logged_for, pool), "tokens"
        ),
        max_concurrency=held_estimate(deployment, scenario, budget),
        max_context_tokens=context,
        needed_bytes_per_gpu=needed,
        reserved_bytes_per_gpu=_around(reserved, parts)
        if growing
        else Estimate(reserved, reserved, reserved, "bytes", budget.settings.basis),
        host_weights_bytes=_on_host(host_weights, WEIGHTS_BAND),
        host_kv_bytes=_on_host(host_kv, (0.0, 0.0)),
        verdict=verdict.verdict.value,
        starts=verdict.starts,
        reason=verdict.reason,
        remedies=_remedies(deployment, scenario, budget, verdict, float(context.mid)),
    )


def _pool_tokens(
    deployment: Deployment, scenario: Scenario, budget: MemoryBudget, verdict: Fit
) -> Estimate | None:
    """Tokens that the cache holds in sequences of the scenario's length; None where nothing is cached."""
    if budget.pool.empty:
        return None
    tokens = float(scenario.input_tokens + scenario.output_tokens)
    by_pool = over_pool(budget, lambda pool: pool_tokens(budget, tokens, pool), "tokens")
    if budget.settings.policy not in GROWING:
        return by_pool
    filled = filled_sequences(deployment, scenario, verdict.held_sequences)
    return rescaled(by_pool, filled * tokens)


def _remedies(
    deployment: Deployment, scenario: Scenario, budget: MemoryBudget, verdict: Fit, longest: float
) -> tuple[Note, ...]:
    """What would change a verdict that isn't good; nothing on the card helps a host that is too small."""
    code = verdict.reason.code
    if verdict.verdict == "fits" or code.startswith(("fit_context", "fit_host_memory")):
        return ()
    found = remedies(
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
        most=verdict.held_sequences,
        longest=longest,
    )
    if deployment.accelerator.accelerator_class == CLASS_OF_CPU:  # nobody adds another processor
        found = tuple(note for note in found if note.code != "remedy_more_gpus")
    if verdict.verdict is not Verdict.DOES_NOT_FIT:
        return found
    more = (Note(f"remedy_{field}", {field: count}) for field, count in offload_that_fits(scenario))
    return (*found, *more, *_under_llama_cpp(deployment, scenario))


def llama_cpp_changes(weights: str, gpu_layers: int | None = None) -> dict[str, Any]:
    """The fields of a scenario that change when llama.cpp runs it with these weights."""
    own: dict[str, Any] = dict.fromkeys(ENGINES_OWN)
    changed = {"engine": "llama.cpp", "weights": weights, "kv": "auto", "dtype": "auto"}
    return own | changed | {"gpu_layers": gpu_layers}


def _under_llama_cpp(deployment: Deployment, scenario: Scenario) -> Iterator[Note]:
    """What llama.cpp would make of it: the largest weights that fit, or usual ones with layers in host memory."""
    if deployment.engine.id == "llama.cpp":
        return
    for weights in GGUF_STEPS:
        changed = scenario.replace(**llama_cpp_changes(weights))
        try:
            other = resolve(changed)
            fits = verdict_of(other, changed, budget_of(other, changed)).verdict
        except PlannerError:
            return
        if fits is not Verdict.DOES_NOT_FIT:
            yield Note("remedy_llama_cpp", {"weights": weights})
            break
        if weights != USUAL_GGUF:
            continue
        for field, count in offload_that_fits(changed):
            if field == "gpu_layers" and count > 0:
                yield Note("remedy_llama_cpp_host", {"weights": weights, field: count})


def offload_that_fits(scenario: Scenario) -> tuple[tuple[str, int], ...]:
    """The least that has to lie in host memory for the workload to fit: experts of a mixture, else whole layers.

    Returns:
        A field of the scenario and its value; empty where the engine or the card has no use for it, or nothing helps.
    """
    deployment = resolve(scenario)
    if deployment.stored.host is None:
        return ()
    layers, before = deployment.architecture.layers, deployment.stored.host.offload
    tries: list[tuple[str, int, int]] = []
    if deployment.stored.experts:
        tries.append(("cpu_expert_layers", before.expert_layers + 1, layers))
    fewest_off = before.host_layers + 1
    tries.append(("gpu_layers", fewest_off, layers + 1))
    for field, first, last in tries:
        found = _least(scenario, field, first, last, layers)
        if found is not None:
            return ((field, found),)
    return ()


def _least(scenario: Scenario, field: str, first: int, last: int, layers: int) -> int | None:
    """The value of `field` at which the fewest layers, from `first` to `last`, are off the GPU and the rest fits."""

    def value(off: int) -> int:
        return off if field == "cpu_expert_layers" else layers + 1 - off

    best = None
    while first <= last:
        middle = (first + last) // 2
        changed = scenario.replace(**{field: value(middle)})
        try:
            deployment = resolve(changed)
            fits = verdict_of(deployment, changed, budget_of(deployment, changed)).verdict
        except PlannerError:
            fits = Verdict.DOES_NOT_FIT
        if fits is Verdict.DOES_NOT_FIT:
            first = middle + 1
        else:
            best, last = value(middle), middle - 1
    return best


def _on_host(size: float, band: tuple[float, float]) -> Estimate | None:
    if not size:
        return None
    return Estimate.banded(size, band, "bytes", Basis.CALIBRATED)


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
