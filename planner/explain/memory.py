"""Explanations of memory figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.explain.activations import activation
from planner.explain.held import held, longest, needed, overhead_of, tokens_held
from planner.explain.parts import (
    SYMBOL,
    Context,
    Explanation,
    Term,
    accelerator_sources,
    computed,
    engine_sources,
    model_sources,
)
from planner.memory.state_slots import slot_count, state_part_bytes


def _weights(context: Context) -> Explanation:
    stored = context.deployment.stored
    parts = sorted(stored.by_part.items(), key=lambda item: -item[1])
    terms = [Term(f"W_{part.value}", f"part.{part.value}", size, "gib") for part, size in parts]
    sources = model_sources(context.deployment)
    formula = " + ".join(term.symbol for term in terms)
    return computed("weights_bytes", formula, terms, sources, stored.total_bytes, "gib")


def _weights_on_gpu(context: Context) -> Explanation:
    """The whole model's parts, and what of them the fullest GPU has."""
    whole, on_gpu = _weights(context), context.deployment.stored.rank_bytes
    shown = replace(whole, title_key="figure.weights_bytes_per_gpu")
    if abs(on_gpu - context.deployment.stored.total_bytes) <= 1.0:
        return shown
    return replace(
        shown,
        formula=f"{whole.formula} → W_GPU",
        filled=f"{whole.filled} → {{rank:gib}}",
        values={**whole.values, "rank": on_gpu},
        terms=(*whole.terms, Term("W_GPU", "term.weights_on_gpu", on_gpu, "gib")),
    )


def _host_weights(context: Context) -> Explanation:
    memory = context.evaluation.memory
    held = float(memory.host_weights_bytes.mid) if memory.host_weights_bytes else 0.0
    terms = [
        Term("W_h", "figure.host_weights_bytes", held, "gib"),
        Term("W", "term.whole_weights", context.deployment.stored.total_bytes, "gib"),
    ]
    sources = model_sources(context.deployment)
    return computed("host_weights_bytes", "W_h", terms, sources, held, "gib")


POOL_FORMULAS = {
    "of_total": "u·M − W − A − R",
    "static_fraction": "u·( M − R_0 ) − W − B",
    "of_free": "u·( M − W − A − R )",
    "grow": "( M − W − A − R ) / f",
    "context": "M − W − A − R",
}


def _pool(context: Context) -> Explanation:
    budget, memory = context.budget, context.evaluation.memory
    formula, activation = POOL_FORMULAS[budget.settings.policy], float(budget.activation_bytes)
    started = (
        float(budget.outside_bytes) - activation
    )  # SGLang's share is of what its start left free
    known = {
        "u": ("term.utilization", budget.settings.gpu_memory_utilization, "number"),
        "M": ("figure.usable_bytes_per_gpu", float(budget.usable_bytes), "gib"),
        "W": ("figure.weights_bytes_per_gpu", float(budget.weights_bytes), "gib"),
        "A": ("figure.activation_bytes_per_gpu", activation, "gib"),
        "R": ("figure.overhead_bytes_per_gpu", overhead_of(budget), "gib"),
        "R_0": ("term.started", started, "gib"),
        "B": ("term.beside_weights", float(budget.runtime_bytes) - started, "gib"),
        "f": ("term.fragmentation", budget.kv_factor, "number"),
    }
    used = [symbol for symbol in SYMBOL.findall(formula) if symbol in known]
    pool = float(memory.kv_pool_bytes_per_gpu.mid)
    if budget.pool.empty:  # an encoder keeps nothing, however much is left
        formula = "0"
    elif not pool:
        formula = f"max( 0 , {formula} )"
    return computed(
        "kv_pool_bytes_per_gpu",
        formula,
        [Term(symbol, *known[symbol]) for symbol in used],
        iter(
            (
                *engine_sources(context.deployment),
                *accelerator_sources(context.deployment, "memory_usable_bytes"),
            )
        ),
        pool,
        "gib",
    )


def _overhead(context: Context) -> Explanation:
    settings, budget = context.budget.settings, context.budget
    inside = float(budget.graphs_bytes) if settings.graphs_inside_budget else 0.0
    terms = [Term("R_0", "term.runtime", float(budget.runtime_bytes), "gib")]
    if inside:
        terms.append(Term("G", "figure.graphs_bytes_per_gpu", inside, "gib"))
    return computed(
        "overhead_bytes_per_gpu",
        " + ".join(term.symbol for term in terms),
        terms,
        engine_sources(context.deployment),
        float(context.evaluation.memory.overhead_bytes_per_gpu.mid),
        "gib",
    )


def _state_pool(context: Context) -> Explanation:
    slots, pool = context.budget.pool.slots, float(context.budget.kv_pool_bytes)
    terms, formula, held = [], "0", 0.0
    if slots is not None:
        formula, held = "( S_s + x )·s_GPU", float(state_part_bytes(slots, pool))
        terms = [
            Term("S_s", "term.slots", float(slot_count(slots, pool)), "count"),
            Term("x", "term.spare_slots", float(slots.spare), "count"),
            Term("s_GPU", "term.slot", slots.slot_bytes, "bytes"),
            Term("pool", "figure.kv_pool_bytes_per_gpu", pool, "gib"),
        ]
        if not slots.fixed:
            formula += ",  S_s = max( ⌊ q·pool / s_GPU ⌋ − x , 0 )"
            terms.append(Term("q", "term.state_share", slots.state_fraction, "number"))
        if held >= pool:
            formula = "pool"
    plain = formula.partition(",")[0]
    shown = computed(
        "state_pool_bytes_per_gpu", plain, terms, engine_sources(context.deployment), held, "gib"
    )
    return replace(shown, formula=formula)


def _usable(context: Context) -> Explanation:
    card = context.deployment.accelerator
    usable = context.deployment.usable_bytes
    return computed(
        "usable_bytes_per_gpu",
        "M",
        [
            Term("M", "figure.usable_bytes_per_gpu", usable, "gib"),
            Term("M_0", "term.memory_sold", card.memory_sold_bytes, "bytes"),
        ],
        accelerator_sources(context.deployment, "memory_usable_bytes", "memory_sold_bytes"),
        usable,
        "gib",
    )


MEMORY: dict[str, Callable[[Context], Explanation]] = {
    "weights_bytes": _weights,
    "weights_bytes_per_gpu": _weights_on_gpu,
    "activation_bytes_per_gpu": activation,
    "overhead_bytes_per_gpu": _overhead,
    "kv_pool_bytes_per_gpu": _pool,
    "state_pool_bytes_per_gpu": _state_pool,
    "needed_bytes_per_gpu": needed,
    "max_concurrency": held,
    "max_context_tokens": longest,
    "kv_pool_tokens": tokens_held,
    "usable_bytes_per_gpu": _usable,
    "host_weights_bytes": _host_weights,
}
