"""Explanations of what one request's cache takes."""

from __future__ import annotations

from collections.abc import Callable

from planner.architecture.cache import CacheLayout
from planner.explain.parts import (
    Context,
    Explanation,
    Term,
    computed,
    engine_sources,
    model_sources,
)
from planner.memory.budget import requested_sequences
from planner.memory.pool import pool_layout, sequences_bytes


def cache_terms(layout: CacheLayout, tokens: float) -> list[Term]:
    """The terms of `cache_formula`: tokens, and by kind of layer bytes a position, stride and window (positions)."""
    terms = [Term("S", "term.tokens", tokens, "count")]
    for index, group in enumerate(layout.groups, start=1):
        terms.append(Term(f"n_{index}", "term.layers_alike", float(group.layers), "count"))
        note = "term.bytes_per_position"
        terms.append(Term(f"c_{index}", note, group.bytes_per_position, "bytes"))
        if group.stride != 1:
            terms.append(Term(f"r_{index}", "term.stride", float(group.stride), "count"))
        if group.window is not None:
            terms.append(Term(f"w_{index}", "term.window", float(group.window), "count"))
    if layout.constant_bytes:
        terms.append(Term("s", "term.state", layout.constant_bytes, "bytes"))
    return terms


def cache_formula(layout: CacheLayout) -> str:
    """Bytes that one sequence of S tokens caches, in symbols; constant state apart."""
    pieces = []
    for index, group in enumerate(layout.groups, start=1):
        held = "S" if group.stride == 1 else f"⌊ S / r_{index} ⌋"
        if group.window is not None:
            held = f"min( {held} , w_{index} )"
        pieces.append(f"c_{index}·{held}")
    return " + ".join(pieces) or "0"


def _per_sequence(context: Context) -> Explanation:
    layout = context.deployment.model_layout
    return computed(
        "kv_bytes_per_sequence",
        cache_formula(layout),
        cache_terms(layout, context.tokens),
        model_sources(context.deployment),
        float(context.evaluation.memory.kv_bytes_per_sequence.mid),
        "bytes",
    )


def _per_token(context: Context) -> Explanation:
    layout = context.deployment.model_layout
    growing = " + ".join(
        f"c_{index}" + (f" / r_{index}" if group.stride != 1 else "")
        for index, group in enumerate(layout.groups, start=1)
        if group.window is None or context.tokens // group.stride < group.window
    )
    return computed(
        "kv_bytes_per_token",
        growing or "0",
        cache_terms(layout, context.tokens),
        model_sources(context.deployment),
        float(context.evaluation.memory.kv_bytes_per_token.mid),
        "bytes",
    )


def _state(context: Context) -> Explanation:
    state = context.deployment.model_layout.constant_bytes
    return computed(
        "state_bytes_per_sequence",
        "s",
        [Term("s", "term.state", state, "bytes")],
        model_sources(context.deployment),
        state,
        "bytes",
    )


def _host_cache(context: Context) -> Explanation:
    """Every slot's whole context, as the engine allocates it in host memory."""
    scenario, layout = context.evaluation.scenario, context.deployment.host_layout
    memory, settings = context.evaluation.memory, context.budget.settings
    held = float(memory.host_kv_bytes.mid) if memory.host_kv_bytes else 0.0
    terms: list[Term] = []
    if layout is not None and held:
        pool = pool_layout(context.deployment.architecture, layout, settings)
        length = float(scenario.max_model_len or context.tokens)
        users = float(requested_sequences(scenario.concurrency, context.budget.replicas))
        each = float(sequences_bytes(pool, users, length)) / users
        terms = [
            Term("u", "term.users", users, "count"),
            Term("K_h", "term.stored_on_host", each, "bytes"),
        ]
    return computed(
        "host_kv_bytes",
        "u·K_h" if terms else "0",
        terms,
        engine_sources(context.deployment),
        held,
        "gib",
    )


CACHE: dict[str, Callable[[Context], Explanation]] = {
    "kv_bytes_per_token": _per_token,
    "kv_bytes_per_sequence": _per_sequence,
    "state_bytes_per_sequence": _state,
    "host_kv_bytes": _host_cache,
}
