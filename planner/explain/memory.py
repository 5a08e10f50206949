"""Explanations of memory figures."""

from __future__ import annotations

from collections.abc import Callable

from planner.explain.cache import cache_formula, cache_terms
from planner.explain.parts import (
    Context,
    Explanation,
    Term,
    accelerator_sources,
    engine_sources,
    explanation_of,
    model_sources,
)
from planner.memory.state_slots import (
    StateSlots,
    cache_part_bytes,
    slot_count,
    state_part_bytes,
)


def _weights(context: Context) -> Explanation:
    stored, figure = context.deployment.stored, "weights_bytes_per_gpu"
    parts = sorted(stored.by_part.items(), key=lambda item: -item[1])
    terms = [Term(f"W_{part.value}", f"part.{part.value}", size, "bytes") for part, size in parts]
    return explanation_of(
        figure,
        "W = Σ elements · bits / 8  →  W / GPU",
        "{total:gib} → {rank:gib}",
        terms,
        model_sources(context.deployment),
        total=stored.total_bytes,
        rank=stored.rank_bytes,
    )


def _host_weights(context: Context) -> Explanation:
    stored, memory = context.deployment.stored, context.evaluation.memory
    held = float(memory.host_weights_bytes.mid) if memory.host_weights_bytes else 0.0
    return explanation_of(
        "host_weights_bytes",
        "Σ W_i",
        "{held:gib}",
        [Term("W", "term.whole_weights", stored.total_bytes, "gib")],
        model_sources(context.deployment),
        held=held,
    )


POOL_FORMULAS = {
    "of_total": "u·M − W − A − R",
    "static_fraction": "u·(M − R) − W",
    "of_free": "u·(M − W − A − R)",
    "grow": "(M − W − A − R) / f",
    "context": "M − W − A − R",
}


def _budget_values(context: Context) -> dict[str, float]:
    budget, memory = context.budget, context.evaluation.memory
    return {
        "u": budget.settings.gpu_memory_utilization,
        "M": float(budget.usable_bytes),
        "W": float(budget.weights_bytes),
        "A": float(budget.activation_bytes),
        "R": float(memory.overhead_bytes_per_gpu.mid),
        "f": budget.kv_factor,
    }


def _budget_terms(context: Context, symbols: str) -> list[Term]:
    values = _budget_values(context)
    notes = {
        "u": ("term.utilization", "number"),
        "M": ("figure.usable_bytes_per_gpu", "gib"),
        "W": ("figure.weights_bytes_per_gpu", "gib"),
        "A": ("figure.activation_bytes_per_gpu", "gib"),
        "R": ("figure.overhead_bytes_per_gpu", "gib"),
        "f": ("term.fragmentation", "number"),
    }
    return [Term(name, notes[name][0], values[name], notes[name][1]) for name in symbols]


def _fill(formula: str) -> str:
    kinds = {"u": "number", "f": "number"}
    return "".join(
        f"{{{letter}:{kinds.get(letter, 'gib')}}}" if letter in "uMWARf" else letter
        for letter in formula
    )


def _pool(context: Context) -> Explanation:
    policy = context.budget.settings.policy
    formula = POOL_FORMULAS[policy]
    symbols = "".join(letter for letter in "uMWARf" if letter in formula)
    return explanation_of(
        "kv_pool_bytes_per_gpu",
        formula,
        f"{_fill(formula)} = {{pool:gib}}",
        _budget_terms(context, symbols),
        iter(
            (
                *engine_sources(context.deployment),
                *accelerator_sources(context.deployment, "memory_usable_bytes"),
            )
        ),
        **_budget_values(context),
        pool=float(context.budget.kv_pool_bytes),
    )


def _needed(context: Context) -> Explanation:
    memory = context.evaluation.memory
    cache = float(memory.needed_bytes_per_gpu.mid) - sum(
        _budget_values(context)[name] for name in "WAR"
    )
    terms = [*_budget_terms(context, "WAR"), Term("K", "term.workload_cache", cache, "gib")]
    return explanation_of(
        "needed_bytes_per_gpu",
        "W + A + R + K",
        "{W:gib} + {A:gib} + {R:gib} + {K:gib} = {total:gib}",
        terms,
        engine_sources(context.deployment),
        **_budget_values(context),
        K=cache,
        total=float(memory.needed_bytes_per_gpu.mid),
    )


ACTIVATION_FORMULAS = {
    "of_total": "max( n·V·c , C·(3·I + 4·h)·b / tp ) + A_0",
    "static_fraction": "C·(3·I + 4·h)·b / tp + n·V·c",
    "of_free": "2 · C · h · A_f",
    "grow": "f·( S·(3·I + 4·h)·b + n·V·c )",
    "context": "max( C·V·c , C·S·2 ) + 4·C·h",
}


def _activation(context: Context) -> Explanation:
    settings, architecture = context.budget.settings, context.deployment.architecture
    return explanation_of(
        "activation_bytes_per_gpu",
        ACTIVATION_FORMULAS[settings.policy],
        "{size:gib}",
        [
            Term("n", "term.max_num_seqs", float(settings.max_num_seqs), "count"),
            Term(
                "C", "term.max_num_batched_tokens", float(settings.max_num_batched_tokens), "count"
            ),
            Term("V", "term.vocabulary", float(architecture.vocabulary_size), "count"),
            Term("h", "term.hidden_size", float(architecture.hidden_size), "count"),
            Term("c", "term.logit_bytes", settings.logit_bytes, "bytes"),
        ],
        engine_sources(context.deployment),
        size=float(context.evaluation.memory.activation_bytes_per_gpu.mid),
    )


def _overhead(context: Context) -> Explanation:
    settings, budget = context.budget.settings, context.budget
    inside = float(budget.graphs_bytes) if settings.graphs_inside_budget else 0.0
    terms = [Term("R_0", "term.runtime", float(budget.runtime_bytes), "gib")]
    if inside:
        terms.append(Term("G", "figure.graphs_bytes_per_gpu", inside, "gib"))
    return explanation_of(
        "overhead_bytes_per_gpu",
        " + ".join(term.symbol for term in terms),
        "{size:gib}",
        terms,
        engine_sources(context.deployment),
        size=float(context.evaluation.memory.overhead_bytes_per_gpu.mid),
    )


def _slot_terms(slots: StateSlots, pool: float) -> list[Term]:
    count = float(slot_count(slots, pool))
    return [
        Term("S_s", "term.slots", count, "count"),
        Term("k", "term.slots_per_request", float(slots.per_sequence), "count"),
        Term("pool_KV", "term.cache_part", float(cache_part_bytes(slots, pool)), "gib"),
    ]


def _state_pool(context: Context) -> Explanation:
    slots, pool = context.budget.pool.slots, float(context.budget.kv_pool_bytes)
    terms, formula, held = [], "0", 0.0
    if slots is not None:
        formula, held = "S_s · s_GPU", float(state_part_bytes(slots, pool))
        terms = [
            Term("S_s", "term.slots", float(slot_count(slots, pool)), "count"),
            Term("s_GPU", "term.slot", slots.slot_bytes, "bytes"),
        ]
        if not slots.fixed:
            formula = "⌊ q · pool / s_GPU ⌋ · s_GPU"
            terms.append(Term("q", "term.state_share", slots.state_fraction, "percent"))
    return explanation_of(
        "state_pool_bytes_per_gpu",
        formula,
        "{held:gib}",
        [*terms, Term("pool", "figure.kv_pool_bytes_per_gpu", pool, "gib")],
        engine_sources(context.deployment),
        held=held,
    )


def _held(context: Context) -> Explanation:
    memory, slots = context.evaluation.memory, context.budget.pool.slots
    each = float(memory.kv_bytes_per_sequence.mid + memory.state_bytes_per_sequence.mid)
    pool = float(context.budget.kv_pool_bytes)
    formula = "⌊ pool / (KV + s) ⌋" if slots is None else "min( ⌊ S_s / k ⌋ , ⌊ pool_KV / KV ⌋ )"
    if context.budget.pool.least_states:
        formula = "max u :  u · KV + max(u, n) · s ≤ pool"
    return explanation_of(
        "max_concurrency",
        formula,
        "{pool:gib} → {held:count}",
        [
            Term("pool", "figure.kv_pool_bytes_per_gpu", pool, "gib"),
            *(() if slots is None else _slot_terms(slots, pool)),
            *_allocated_states(context),
            Term("KV + s", "term.one_request", each, "bytes"),
        ],
        engine_sources(context.deployment),
        pool=pool,
        held=float(memory.max_concurrency.mid),
    )


def _allocated_states(context: Context) -> tuple[Term, ...]:
    """Sequences whose state is allocated at start, whether they come or not."""
    least = context.budget.pool.least_states
    return (Term("n", "term.max_num_seqs", least, "count"),) if least else ()


def _longest(context: Context) -> Explanation:
    memory, scenario = context.evaluation.memory, context.evaluation.scenario
    pool, users = float(context.budget.kv_pool_bytes), float(scenario.concurrency)
    longest = float(memory.max_context_tokens.mid)
    layout, slots = context.deployment.rank_layout, context.budget.pool.slots
    whole = f"u · ({cache_formula(layout)} + s) ≤ pool"
    if slots is not None:
        whole = f"u · ({cache_formula(layout)}) ≤ pool_KV,  u · k ≤ S_s"
    elif context.budget.pool.least_states:
        whole = f"u · ({cache_formula(layout)}) + max(u, n) · s ≤ pool"
    return explanation_of(
        "max_context_tokens",
        f"max S :  {whole},  S ≤ S_max",
        "{users:count} · KV({longest:count}) ≤ {pool:gib}",
        [
            Term("u", "term.users", users, "count"),
            Term("pool", "figure.kv_pool_bytes_per_gpu", pool, "gib"),
            *(() if slots is None else _slot_terms(slots, pool)),
            *_allocated_states(context),
            Term(
                "S_max",
                "term.model_limit",
                float(context.deployment.architecture.max_context_tokens),
                "count",
            ),
            *cache_terms(layout, longest),
        ],
        engine_sources(context.deployment),
        users=users,
        longest=longest,
        pool=pool,
    )


def _tokens_held(context: Context) -> Explanation:
    memory = context.evaluation.memory
    held = memory.kv_pool_tokens
    pool, slots = float(context.budget.kv_pool_bytes), context.budget.pool.slots
    return explanation_of(
        "kv_pool_tokens",
        "pool / (KV + s) · S" if slots is None else "min( ⌊ S_s / k ⌋ , pool_KV / KV ) · S",
        "{pool:gib} → {held:count}",
        [
            Term("pool", "figure.kv_pool_bytes_per_gpu", pool, "gib"),
            *(() if slots is None else _slot_terms(slots, pool)),
            *cache_terms(context.deployment.rank_layout, context.tokens),
        ],
        engine_sources(context.deployment),
        pool=pool,
        held=float(held.mid) if held else 0.0,
    )


def _usable(context: Context) -> Explanation:
    card = context.deployment.accelerator
    sold = card.memory_sold_bytes
    return explanation_of(
        "usable_bytes_per_gpu",
        "M",
        "{usable:gib}",
        [Term("M_0", "term.memory_sold", sold, "bytes")],
        accelerator_sources(context.deployment, "memory_usable_bytes", "memory_sold_bytes"),
        usable=context.deployment.usable_bytes,
    )


MEMORY: dict[str, Callable[[Context], Explanation]] = {
    "weights_bytes": _weights,
    "weights_bytes_per_gpu": _weights,
    "activation_bytes_per_gpu": _activation,
    "overhead_bytes_per_gpu": _overhead,
    "kv_pool_bytes_per_gpu": _pool,
    "state_pool_bytes_per_gpu": _state_pool,
    "needed_bytes_per_gpu": _needed,
    "max_concurrency": _held,
    "max_context_tokens": _longest,
    "kv_pool_tokens": _tokens_held,
    "usable_bytes_per_gpu": _usable,
    "host_weights_bytes": _host_weights,
}
