"""Explanations of what one request's cache takes."""

from __future__ import annotations

from collections.abc import Callable

from planner.architecture.cache import CacheLayout
from planner.explain.parts import (
    Context,
    Explanation,
    Term,
    engine_sources,
    explanation_of,
    model_sources,
)


def cache_terms(layout: CacheLayout, tokens: float) -> list[Term]:
    """The terms of `cache_formula`: tokens, and by kind of layer how many, bytes a position and the window (tokens)."""
    terms = [Term("S", "term.tokens", tokens, "count")]
    for index, group in enumerate(layout.groups, start=1):
        terms.append(Term(f"n_{index}", "term.layers_alike", float(group.layers), "count"))
        terms.append(
            Term(
                f"c_{index}",
                "term.bytes_per_position",
                group.bytes_per_position / group.stride,
                "bytes",
            )
        )
        if group.window is not None:
            terms.append(
                Term(f"w_{index}", "term.window", float(group.window * group.stride), "count")
            )
    if layout.constant_bytes:
        terms.append(Term("s", "term.state", layout.constant_bytes, "bytes"))
    return terms


def cache_formula(layout: CacheLayout) -> str:
    """Bytes that one sequence of S tokens caches, in symbols; constant state apart."""
    pieces = []
    for index, group in enumerate(layout.groups, start=1):
        held = "S" if group.window is None else f"min(S, w_{index})"
        pieces.append(f"c_{index}·{held}")
    return " + ".join(pieces) or "0"


def _per_sequence(context: Context) -> Explanation:
    layout = context.deployment.model_layout
    memory = context.evaluation.memory
    return explanation_of(
        "kv_bytes_per_sequence",
        cache_formula(layout),
        "{size:bytes}",
        cache_terms(layout, context.tokens),
        model_sources(context.deployment),
        size=float(memory.kv_bytes_per_sequence.mid),
    )


def _per_token(context: Context) -> Explanation:
    layout, memory = context.deployment.model_layout, context.evaluation.memory
    growing = " + ".join(
        f"c_{index}"
        for index, group in enumerate(layout.groups, start=1)
        if group.window is None or context.tokens < group.window * group.stride
    )
    return explanation_of(
        "kv_bytes_per_token",
        growing or "0",
        "{size:bytes}",
        cache_terms(layout, context.tokens),
        model_sources(context.deployment),
        size=float(memory.kv_bytes_per_token.mid),
    )


def _state(context: Context) -> Explanation:
    layout = context.deployment.model_layout
    return explanation_of(
        "state_bytes_per_sequence",
        "s = Σ elements · bytes",
        "{state:bytes}",
        [Term("s", "term.state", layout.constant_bytes, "bytes")],
        model_sources(context.deployment),
        state=layout.constant_bytes,
    )


def _host_cache(context: Context) -> Explanation:
    layout, memory = context.deployment.host_layout, context.evaluation.memory
    held = float(memory.host_kv_bytes.mid) if memory.host_kv_bytes else 0.0
    users = float(context.evaluation.scenario.concurrency)
    terms = [Term("u", "term.users", users, "count")]
    if layout is not None:
        terms += cache_terms(layout, context.tokens)
    return explanation_of(
        "host_kv_bytes",
        f"u · ({cache_formula(layout) if layout else '0'})",
        "{held:gib}",
        terms,
        engine_sources(context.deployment),
        held=held,
    )


CACHE: dict[str, Callable[[Context], Explanation]] = {
    "kv_bytes_per_token": _per_token,
    "kv_bytes_per_sequence": _per_sequence,
    "state_bytes_per_sequence": _state,
    "host_kv_bytes": _host_cache,
}
