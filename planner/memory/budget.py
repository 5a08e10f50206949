"""An engine's memory budget on one rank: what weights, activations and libraries take, and what is left for the cache.

Five policies. A fraction of the card (vLLM): pool = u·M − W − A − R − graphs. A static fraction (SGLang): weights and
pool share f of what is free before loading; activations live in the rest. A fraction of the free part (TensorRT-LLM):
pool = f·(M − W − A − R). Growing (transformers) and by context (llama.cpp): pool = M − W − A − R is the room there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.architecture.cache import CacheLayout
from planner.architecture.spec import Architecture
from planner.catalog.engines import EngineSettings
from planner.memory.activations import (
    compute_buffer_bytes,
    profiled_activation_bytes,
    rotary_bytes,
    step_activation_bytes,
    table_activation_bytes,
)
from planner.memory.parts import Component, components, pool_component
from planner.memory.pool import (
    PoolLayout,
    engine_printed_tokens,
    held_sequences,
    kv_pool_tokens,
    longest_sequence,
    pool_layout,
    sequence_room,
    sequences_bytes,
)
from planner.memory.state_slots import state_part_bytes
from planner.memory.weights import HostWeights
from planner.quantity import Basis, BoolArray, Estimate, Quantity, maximum, minimum, round_up, worst
from planner.scenario import MAX_CONCURRENCY, Parallelism


@dataclass(frozen=True, slots=True, eq=False)
class MemoryBudget:
    """Bytes on the heaviest rank; floats, or arrays over accelerators or workloads.

    Attributes:
        usable_bytes: the card's.
        reserved_bytes: what the engine takes of it: its fraction where it allocates at start, else what the workload
            needs.
        allowed_bytes: most that weights, the parts inside the fraction and the cache may take together.
        fixed_bytes: what of that isn't cache.
        weights, activation, runtime, graphs: the parts; runtime is context, libraries, communication buffers, the
            rotary table and what kernels add to the weights on loading.
        kv_pool: what is left for the cache, 0 where nothing is.
        slack_bytes: what nobody takes; negative where the card is overrun.
        outside_bytes: taken by the engine beyond `reserved_bytes` (graphs and context that its fraction doesn't count).
        kv_factor: what a cached byte costs with the allocator's losses.
        pool: how the engine stores sequences.
        replicas: data-parallel groups, each with a pool of this size.
        settings: the engine's.
    """

    usable_bytes: Quantity
    reserved_bytes: Quantity
    allowed_bytes: Quantity
    fixed_bytes: Quantity
    weights: Component
    activation: Component
    runtime: Component
    graphs: Component
    kv_pool: Component
    slack_bytes: Quantity
    outside_bytes: Quantity
    kv_factor: float
    pool: PoolLayout
    replicas: int
    settings: EngineSettings

    @property
    def weights_bytes(self) -> Quantity:
        return self.weights.mid

    @property
    def activation_bytes(self) -> Quantity:
        return self.activation.mid

    @property
    def runtime_bytes(self) -> Quantity:
        return self.runtime.mid

    @property
    def graphs_bytes(self) -> Quantity:
        return self.graphs.mid

    @property
    def room_outside_bytes(self) -> Quantity:
        """What is left outside the engine's fraction by the smallest graphs; negative: capturing them will fail."""
        if self.settings.graphs_inside_budget:
            return self.slack_bytes
        return self.slack_bytes + (self.graphs.mid - self.graphs.low)

    @property
    def kv_pool_bytes(self) -> Quantity:
        return self.kv_pool.mid

    @property
    def kv_pool_basis(self) -> Basis:
        return self.kv_pool.basis


def memory_budget(
    architecture: Architecture,
    weights_rank_bytes: float,
    layout_rank: CacheLayout,
    settings: EngineSettings,
    parallelism: Parallelism,
    usable_bytes: Quantity,
    *,
    input_tokens: Quantity,
    output_tokens: Quantity,
    concurrency: Quantity,
    max_model_len: int | None,
    compute_bytes: float,
    padding_bytes: float = 0.0,
    quantised: bool = False,
    host: HostWeights | None = None,
) -> MemoryBudget:
    """How an engine divides a card's memory.

    Args:
        weights_rank_bytes: weights on the heaviest rank.
        layout_rank: cache of one sequence on the heaviest rank, windows as the engine honours them.
        usable_bytes: one card's, or an array over cards with the same settings.
        input_tokens, output_tokens: of one sequence; the cache is sized by their sum.
        concurrency: sequences in flight over all data-parallel groups.
        max_model_len: longest sequence that the engine is started for; None: as long as the workload needs.
        compute_bytes: bytes per element of activations.
        padding_bytes: what the engine holds beside the checkpoint's tensors, its rotary tables apart: padding for its
            kernels, copies, blocks of its allocator.
        quantised: the weights are in a format of scales and no header of their files was read.
        host: what of the weights lies in host memory.

    Returns:
        Sizes in bytes per rank; floats, or arrays in the shape of the arguments.
    """
    length = input_tokens + output_tokens
    sequences = running_sequences(concurrency, parallelism.dp, settings)
    context: Quantity = length if max_model_len is None else float(max_model_len)
    pool = pool_layout(architecture, layout_rank, settings, pp=parallelism.pp, dp=parallelism.dp)
    activation = _activation(
        architecture, settings, parallelism, input_tokens, context, sequences, compute_bytes, host
    )
    library = _library_bytes(settings, parallelism)
    beside = padding_bytes
    if settings.policy not in {"grow", "context"}:
        beside += rotary_bytes(architecture, compute_bytes)
    graphs = settings.graphs_bytes
    inside = graphs if settings.graphs_inside_budget else 0.0
    fraction, weights = settings.gpu_memory_utilization, weights_rank_bytes
    factor = 1.0 + settings.fragmentation_fraction
    outside: Quantity = 0.0
    if settings.policy == "of_total":
        runtime = library + beside
        fixed = weights + activation + runtime + inside
        allowed: Quantity = fraction * usable_bytes
        outside = settings.context_bytes + graphs - inside
        reserved = allowed
    elif settings.policy == "static_fraction":
        runtime = library + settings.context_bytes + beside
        fixed = weights + beside + 0.0 * activation
        allowed = fraction * (usable_bytes - library - settings.context_bytes)
        outside = library + settings.context_bytes + activation
        reserved = allowed
    elif settings.policy == "of_free":
        runtime = library + beside
        fixed = weights + activation + runtime
        allowed = fixed + fraction * maximum(usable_bytes - fixed, 0.0)
        reserved = allowed
    else:
        runtime = settings.context_bytes + library + beside
        activation = activation * factor
        fixed = weights + activation + runtime
        allowed = usable_bytes + 0.0 * fixed
        reserved = fixed + factor * sequences_bytes(
            pool, sequences, _slot(settings, length, context)
        )
    free = (allowed - fixed) / factor
    parts = components(
        architecture,
        settings,
        parallelism,
        weights,
        activation,
        runtime,
        graphs + 0.0 * free,
        quantised=quantised,
    )
    counted = parts if inside else parts[:3]
    basis = worst(settings.basis, *(part.basis for part in counted[1:]))
    return MemoryBudget(
        usable_bytes=usable_bytes,
        reserved_bytes=maximum(reserved, 0.0),
        allowed_bytes=allowed,
        fixed_bytes=fixed,
        weights=parts[0],
        activation=parts[1],
        runtime=parts[2],
        graphs=parts[3],
        kv_pool=pool_component(free, counted, settings, basis),
        slack_bytes=usable_bytes - reserved - outside,
        outside_bytes=outside,
        kv_factor=factor,
        pool=pool,
        replicas=parallelism.dp,
        settings=settings,
    )


def running_sequences(concurrency: Quantity, replicas: int, settings: EngineSettings) -> Quantity:
    """Sequences that one data-parallel group runs at once if memory allows: its share, at most max_num_seqs."""
    return minimum(requested_sequences(concurrency, replicas), float(settings.max_num_seqs))


def requested_sequences(concurrency: Quantity, replicas: int) -> Quantity:
    """Sequences that one data-parallel group is to hold at once: its share of those in flight."""
    return concurrency if replicas == 1 else round_up(concurrency, replicas) / replicas


def _slot(settings: EngineSettings, length: Quantity, context: Quantity) -> Quantity:
    """Tokens that a sequence is given: its own length, or its slot's whole context where that is allocated."""
    return context if settings.policy == "context" else length


def _activation(
    architecture: Architecture,
    settings: EngineSettings,
    parallelism: Parallelism,
    input_tokens: Quantity,
    context: Quantity,
    sequences: Quantity,
    compute_bytes: float,
    host: HostWeights | None,
) -> Quantity:
    """Activations by the engine's own way of working (bytes)."""
    batched: Quantity = float(settings.max_num_batched_tokens)
    if settings.policy == "of_total":
        if settings.batched_tokens_follow_context:
            batched = maximum(context, batched)
        return profiled_activation_bytes(
            architecture, settings, parallelism, batched, compute_bytes
        )
    if settings.policy == "of_free":
        return table_activation_bytes(architecture, settings, parallelism)
    if settings.policy == "context":
        return compute_buffer_bytes(architecture, settings, context * sequences, host)
    if settings.policy == "static_fraction":
        return step_activation_bytes(
            architecture, settings, parallelism, batched, sequences, compute_bytes
        )
    rows = input_tokens * sequences if settings.logits_for_all_tokens else sequences
    return step_activation_bytes(
        architecture, settings, parallelism, input_tokens * sequences, rows, compute_bytes
    )


def _library_bytes(settings: EngineSettings, parallelism: Parallelism) -> float:
    if parallelism.tp * parallelism.dp > 1:
        return settings.runtime_library_bytes_tensor
    if parallelism.pp > 1:
        return settings.runtime_library_bytes_pipeline
    return settings.runtime_library_bytes


def workload_bytes(budget: MemoryBudget, sequences: Quantity, tokens: Quantity) -> Quantity:
    """Cache that `sequences` sequences of `tokens` tokens take in one data-parallel group, losses included (bytes).

    Where state is set apart: the smallest pool, divided by the engine's rule, that holds them.
    """
    return budget.kv_factor * sequences_bytes(budget.pool, sequences, tokens)


def pool_too_small(
    budget: MemoryBudget, sequences: Quantity, tokens: Quantity, pool_bytes: Quantity
) -> bool | BoolArray:
    """Whether a pool of `pool_bytes` doesn't hold so many sequences in one data-parallel group; arrays too."""
    if budget.pool.slots is not None:
        return sequences > held_sequences(budget.pool, pool_bytes, tokens)
    cache = workload_bytes(budget, sequences, tokens)
    return cache > budget.kv_factor * pool_bytes


def max_concurrency(
    budget: MemoryBudget, tokens: Quantity, pool_bytes: Quantity | None = None
) -> Quantity:
    """Whole sequences of `tokens` tokens that all pools hold at once.

    Args:
        pool_bytes: another size of the pool, such as an end of its range.
    """
    room = budget.kv_pool.mid if pool_bytes is None else pool_bytes
    each = held_sequences(budget.pool, room, tokens) // 1.0
    return minimum(budget.replicas * each, float(MAX_CONCURRENCY))


def max_context(
    budget: MemoryBudget,
    concurrency: Quantity,
    limit: float,
    pool_bytes: Quantity | None = None,
) -> Quantity:
    """Longest sequence that `concurrency` users can have at once (tokens), at most `limit`; 0 where not one fits."""
    room = budget.kv_pool.mid if pool_bytes is None else pool_bytes
    share = requested_sequences(concurrency, budget.replicas)
    each = sequence_room(budget.pool, room, share)
    return minimum(longest_sequence(budget.pool, each), limit)


def pool_tokens(
    budget: MemoryBudget, tokens: Quantity, pool_bytes: Quantity | None = None
) -> Quantity:
    """Tokens that all pools hold in sequences of `tokens` tokens."""
    room = budget.kv_pool.mid if pool_bytes is None else pool_bytes
    return budget.replicas * kv_pool_tokens(budget.pool, room, tokens)


def over_pool(budget: MemoryBudget, figure: Callable[[Quantity], Quantity], unit: str) -> Estimate:
    """A figure of the pool as an estimate over the pool's range.

    Args:
        figure: what a pool of so many bytes gives; more for a larger pool.
    """
    pool = budget.kv_pool
    low, mid, high = figure(pool.low), figure(pool.mid), figure(pool.high)
    if budget.pool.slots is not None:
        # One more whole slot of state leaves less for the cache: over a few bytes the order may turn.
        low, high = minimum(low, mid), maximum(mid, high)
    return Estimate(low, mid, high, unit, pool.basis)


def state_pool_bytes(budget: MemoryBudget) -> Estimate | None:
    """What of the pool is set apart for recurrent state; None where state comes out of the same pool."""
    slots = budget.pool.slots
    if slots is None:
        return None
    return over_pool(budget, lambda pool: state_part_bytes(slots, pool), "bytes")


def engine_printed_kv_tokens(
    budget: MemoryBudget, max_model_len: int, pool_bytes: Quantity | None = None
) -> Quantity:
    """The cache size in tokens that one engine process logs at start."""
    room = budget.kv_pool.mid if pool_bytes is None else pool_bytes
    return engine_printed_tokens(budget.pool, room, budget.settings, max_model_len)
