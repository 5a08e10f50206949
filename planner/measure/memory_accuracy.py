"""How far the planner's memory figures are from what engines logged: every shipped row predicted, family by family.

Weights, activations, libraries and the cache pool as the log of an engine's start states them; tokens of a pool of the
printed size; llama.cpp's cache and buffers; what transformers has allocated. Held out: with the constants that were
fitted to such logs (bytes per sampled logit, libraries) taken from the rows of other models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from planner.catalog.engine_profiles import parse_version
from planner.catalog.measurements import (
    MEMORY_FAMILIES,
    Measurement,
    measured_shapes,
    measurements,
)
from planner.deployment import Deployment, resolve
from planner.errors import Note, PlannerError
from planner.measure.memory_constants import held_out_shifts
from planner.memory.activations import rotary_bytes
from planner.memory.budget import (
    MemoryBudget,
    engine_printed_kv_tokens,
    over_pool,
    workload_bytes,
)
from planner.memory.parts import WEIGHTS_BAND
from planner.memory.pool import pool_layout, sequence_bytes
from planner.memory.state_slots import cache_part_bytes
from planner.memory_limits import budget_of
from planner.quantity import GIB, MIB
from planner.scenario import Scenario

# Most that the median error may be, where a target was set. llama.cpp's cache is exact: it prints hundredths of a MiB.
MEMORY_TARGETS: dict[str, float] = {
    "vllm.pool.baseline": 0.02,
    "vllm.weights.plain": 0.005,
    "vllm.weights.quantised": 0.02,
    "llama-cpp.weights": 0.01,
    "llama-cpp.kv": 0.0002,
    "llama-cpp.compute": 0.15,
    "transformers.allocated.plain": 0.03,
    "transformers.allocated.quantised": 0.03,
    "bitsandbytes.weights": 0.03,
}
CURRENT = (0, 17)  # the first vLLM whose profile run samples with fewer copies
BASELINE = (0, 19)  # the version that the thirteen dense models of the accuracy report ran on
PLAIN = ("bf16", "fp16", "fp32")
BITSANDBYTES = ("nf4", "nf4-dq", "llm-int8")
# What PyTorch allocates for cuBLAS at the first product, from Hopper on and before. The planner counts it with the
# context; what transformers has allocated holds it. Source: PyTorch, aten/src/ATen/cuda/CublasHandlePool.cpp.
CUBLAS_BYTES = (32 * MIB, 8.125 * MIB)
# Half of the last digit that a log prints.
PRINTED_POOL_BYTES = 0.005 * GIB
PRINTED_CACHE_BYTES = 0.005 * MIB


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPoint:
    """One logged quantity and the planner's figure for it, in bytes or tokens.

    Attributes:
        family: what it is counted under ("vllm.pool.baseline").
        low, high: the range around `mid`.
        held: the figure by constants of other models' rows, where it depends on any, else None.
    """

    family: str
    row: Measurement
    deployment: Deployment
    quantity: str
    measured: float
    low: float
    mid: float
    high: float
    held: float | None

    @property
    def error(self) -> float:
        """predicted / measured − 1."""
        return self.mid / self.measured - 1.0

    @property
    def covered(self) -> bool:
        """What was logged lies in the range."""
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """Errors of a group of points.

    Attributes:
        models: how many different ones.
        median, p90: of the absolute relative error; bias: the median of the signed one.
        coverage: part inside their ranges.
        held: median absolute error by constants of other models' rows; None where the figure rests on none.
    """

    rows: int
    models: int
    median: float
    p90: float
    bias: float
    coverage: float
    held: float | None


def memory_scenario(row: Measurement) -> Scenario:
    """The scenario of a row; a model that the catalogue lacks comes with its configuration.

    Raises:
        InvalidInput: naming the field that is wrong.
    """
    values: dict[str, object] = dict(row.scenario)
    shape = measured_shapes().get(row.scenario["model"])
    if shape is not None:
        values["config"] = dict(shape)
    return Scenario.parse(values)


@lru_cache(maxsize=1)
def memory_points() -> tuple[tuple[MemoryPoint, ...], tuple[Note, ...]]:
    """Every logged quantity predicted, and the rows that the planner refuses, with the reason."""
    found: list[MemoryPoint] = []
    refused: list[Note] = []
    runs: list[tuple[Measurement, Scenario, Deployment, MemoryBudget]] = []
    for family in MEMORY_FAMILIES:
        for row in measurements(family):
            try:
                scenario = memory_scenario(row)
                deployment = resolve(scenario)
                runs.append((row, scenario, deployment, budget_of(deployment, scenario)))
            except PlannerError as error:
                refused.append(Note(error.code, {"row": row.id, "family": family, **error.values}))
    shifts = held_out_shifts([(row, deployment) for row, _, deployment, _ in runs])
    for row, scenario, deployment, budget in runs:
        for quantity, measured in row.measured.items():
            name = memory_family(row, deployment, quantity)
            if name is None:
                continue
            low, mid, high = predicted_memory(row, scenario, deployment, budget, quantity)
            shift = shifts.get((row.id, quantity))
            held = None if shift is None else mid + shift
            found.append(
                MemoryPoint(name, row, deployment, quantity, measured, low, mid, high, held)
            )
    return tuple(found), tuple(refused)


def predicted_memory(
    row: Measurement,
    scenario: Scenario,
    deployment: Deployment,
    budget: MemoryBudget,
    quantity: str,
) -> tuple[float, float, float]:
    """The planner's figure for a logged quantity with its range: low, mid, high (bytes or tokens)."""
    loaded = _loaded_extra(deployment)
    if quantity == "weights_bytes" and deployment.engine.id == "llama.cpp":
        # Its log has the whole file, wherever its layers lie.
        share = deployment.stored.total_bytes
        return share * (1.0 + WEIGHTS_BAND[0]), share, share * (1.0 + WEIGHTS_BAND[1])
    if quantity == "weights_bytes":
        part = budget.weights
        return _three(part.low + loaded, part.mid + loaded, part.high + loaded)
    if quantity in ("activation_bytes", "compute_buffer_bytes"):
        part = budget.activation
        return _three(part.low, part.mid, part.high)
    if quantity == "runtime_bytes":
        part = budget.runtime
        return _three(np.maximum(part.low - loaded, 0.0), part.mid - loaded, part.high - loaded)
    if quantity == "graphs_bytes":
        part = budget.graphs
        return _three(part.low, part.mid, part.high)
    if quantity == "kv_pool_bytes":
        slots = budget.pool.slots
        if slots is not None:  # printed apart from what holds state
            keys = over_pool(budget, lambda size: cache_part_bytes(slots, size), "bytes")
            return _three(keys.low, keys.mid, keys.high)
        part = budget.kv_pool
        return _three(part.low, part.mid, part.high)
    if quantity == "kv_pool_tokens":
        return _tokens(row, scenario, deployment, budget)
    if quantity == "kv_bytes":
        # Of the whole model, wherever its layers lie.
        pool = pool_layout(deployment.architecture, deployment.model_layout, deployment.settings)
        size = scenario.concurrency * float(
            sequence_bytes(pool, float(scenario.max_model_len or 0))
        )
        return size - PRINTED_CACHE_BYTES, size, size + PRINTED_CACHE_BYTES
    card, tokens = deployment.accelerator, float(scenario.input_tokens + scenario.output_tokens)
    lossy = float(workload_bytes(budget, float(scenario.concurrency), tokens))
    cache = lossy / budget.kv_factor + CUBLAS_BYTES[(card.compute_capability or (0, 0)) < (9, 0)]
    weights = budget.weights
    lost = lossy - lossy / budget.kv_factor
    return _three(weights.low + cache, weights.mid + cache, weights.high + cache + lost)


def _three(low: object, mid: object, high: object) -> tuple[float, float, float]:
    return float(low), float(mid), float(high)  # type: ignore[arg-type]


def _loaded_extra(deployment: Deployment) -> float:
    """What engines log as loaded beside what lies on the card (bytes).

    llama.cpp: the rest of the file, which is in host memory. Engines that take a part of the card: what they add to
    the checkpoint's tensors.
    """
    if deployment.stored.host is not None:
        return deployment.stored.total_bytes - sum(deployment.stored.stage_bytes)
    if deployment.settings.policy in ("grow", "context"):
        return 0.0
    rotary = rotary_bytes(deployment.architecture, deployment.compute_bytes)
    return rotary + deployment.padding_bytes


def _tokens(
    row: Measurement, scenario: Scenario, deployment: Deployment, budget: MemoryBudget
) -> tuple[float, float, float]:
    """Tokens of the printed pool, or of ours where only tokens were printed."""
    length = scenario.max_model_len or deployment.architecture.max_context_tokens
    pool = row.measured.get("kv_pool_bytes")
    if pool is None:
        ends = (budget.kv_pool.low, budget.kv_pool.mid, budget.kv_pool.high)
    else:
        # SGLang prints keys and values apart.
        half = PRINTED_POOL_BYTES * (2.0 if deployment.engine.id == "sglang" else 1.0)
        ends = (pool - half, pool, pool + half)
        # What was printed holds no recurrent state.
        budget = replace(budget, pool=replace(budget.pool, slots=None))
    low, mid, high = (float(engine_printed_kv_tokens(budget, length, size)) for size in ends)
    block = max((group.block_tokens for group in budget.pool.groups), default=0.0)
    return low - block, mid, high + block


def memory_family(row: Measurement, deployment: Deployment, quantity: str) -> str | None:
    """What a logged quantity of a row is counted under; None where it isn't compared.

    A pool is only compared where the log states the settings that size it, or where they may be taken as defaults.
    """
    engine = deployment.engine.id
    plain = deployment.stored.label in PLAIN
    if engine == "llama.cpp":
        if quantity == "compute_buffer_bytes":
            return "llama-cpp.compute" if row.settings else "llama-cpp.compute.fork"
        return {"weights_bytes": "llama-cpp.weights", "kv_bytes": "llama-cpp.kv"}[quantity]
    if engine == "transformers":
        if quantity == "weights_bytes":
            return "bitsandbytes.weights"
        return f"transformers.allocated.{'plain' if plain else 'quantised'}"
    if quantity == "weights_bytes":
        if engine != "vllm":
            return f"{engine}.weights"
        return f"vllm.weights.{'plain' if plain else 'quantised'}"
    tokens_of_ours = quantity == "kv_pool_tokens" and "kv_pool_bytes" not in row.measured
    if quantity == "kv_pool_bytes" or tokens_of_ours:
        if not row.settings:
            return None
        return f"vllm.pool.{_pool_kind(row, deployment)}" if engine == "vllm" else f"{engine}.pool"
    if quantity == "kv_pool_tokens":
        return f"{engine}.tokens"
    if quantity == "activation_bytes":
        current = parse_version(row.scenario["engine_version"]) >= CURRENT
        return f"vllm.activation.{'current' if current else 'older'}"
    return "vllm.runtime" if quantity == "runtime_bytes" else "vllm.graphs"


def _pool_kind(row: Measurement, deployment: Deployment) -> str:
    if row.settings == "assumed":
        return "assumed"
    version = parse_version(row.scenario["engine_version"])
    if version < CURRENT:
        return "older"
    architecture = deployment.architecture
    as_published = not row.scenario.get("dtype") and row.scenario["weights"] == "native"
    dense = not deployment.stored.experts and not architecture.towers
    alone = deployment.parallelism.gpus == 1 and row.scenario["kv"] == "auto"
    if version[:2] == BASELINE and dense and alone and as_published:
        return "baseline"
    return "current"


def memory_summary(group: Sequence[MemoryPoint]) -> MemorySummary:
    """Errors and coverage of a group; raises ValueError where it is empty."""
    if not group:
        raise ValueError("no points")
    error = np.array([one.error for one in group])
    held = np.array([abs(one.held / one.measured - 1.0) for one in group if one.held is not None])
    return MemorySummary(
        len(group),
        len({one.row.scenario["model"] for one in group}),
        float(np.median(np.abs(error))),
        float(np.quantile(np.abs(error), 0.9)),
        float(np.median(error)),
        float(np.mean([one.covered for one in group])),
        float(np.median(held)) if held.size else None,
    )


def memory_families() -> Mapping[str, MemorySummary]:
    """Summaries by family, in order."""
    groups: dict[str, list[MemoryPoint]] = {}
    for one in memory_points()[0]:
        groups.setdefault(one.family, []).append(one)
    return {name: memory_summary(groups[name]) for name in sorted(groups)}


def worst_memory(count: int = 10) -> list[MemoryPoint]:
    """The points that are furthest off, by the ratio of predicted and logged.

    Left out: libraries and graphs, which are small parts, and buffers in modes that the planner has no setting for; the
    errors of their families say how far off those are.
    """
    kept = [
        one
        for one in memory_points()[0]
        if one.quantity not in ("runtime_bytes", "graphs_bytes")
        and one.family != "llama-cpp.compute.fork"
    ]
    return sorted(kept, key=lambda one: -abs(np.log(max(one.mid, 1.0) / one.measured)))[:count]
