"""Budgets for tests: a catalogue model on a card, with the weights given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from planner.architecture.cache import CacheGroup, CacheLayout, cache_layout
from planner.architecture.mixers import Attention, Recurrence, StateTensor
from planner.architecture.spec import Architecture, LayerKind, Part, Weight
from planner.catalog.engines import EngineSettings, engine_settings, with_overrides
from planner.memory.budget import MemoryBudget, memory_budget
from planner.quantity import GIB, Quantity
from planner.scenario import Parallelism


@dataclass(frozen=True)
class Card:
    name: str = "H100 SXM5 80GB"
    vendor: str = "NVIDIA"
    architecture: str = "Hopper"
    compute_capability: tuple[int, int] | None = (9, 0)


ALONE = Parallelism()
H100, L4 = Card(), Card("L4", architecture="Ada Lovelace", compute_capability=(8, 9))
T4 = Card("Tesla T4", architecture="Turing", compute_capability=(7, 5))


def settings_of(
    engine: str, version: str | None, usable_gib: float, card: Card = H100, **changes: Any
) -> EngineSettings:
    """Settings with user settings and any other field changed."""
    parallel = {key: changes.pop(key) for key in ("tp", "pp", "dp") if key in changes}
    settings = engine_settings(engine, version, usable_gib, card, **parallel)
    names = ("gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "block_size")
    chosen = {key: changes.pop(key) for key in names if key in changes}
    settings = with_overrides(settings, **chosen)
    return replace(settings, **changes) if changes else settings


def budget_of(
    architecture: Architecture,
    settings: EngineSettings,
    usable_gib: Quantity,
    weights_gib: float,
    *,
    kv_bytes: float = 2.0,
    parallelism: Parallelism = ALONE,
    input_tokens: Quantity = 1024.0,
    output_tokens: Quantity = 256.0,
    concurrency: Quantity = 1.0,
    max_model_len: int | None = None,
    compute_bytes: float = 2.0,
    layout: CacheLayout | None = None,
) -> MemoryBudget:
    """A budget with the architecture's own cache on one rank of the first pipeline stage."""
    if layout is None:
        layout = cache_layout(
            architecture,
            kv_bytes,
            kv_bytes,
            compute_bytes,
            tp=parallelism.tp,
            last_layer=-(-architecture.layers // parallelism.pp),
            ignore_windows=not settings.windowed_cache,
            states=settings.states,
        )
    return memory_budget(
        architecture,
        weights_gib * GIB,
        layout,
        settings,
        parallelism,
        usable_gib * GIB,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        concurrency=concurrency,
        max_model_len=max_model_len,
        compute_bytes=compute_bytes,
    )


def dense(
    layers: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    hidden: int = 4096,
    width: int = 14336,
    vocabulary: int = 128256,
    heads: int = 32,
    context: int = 131072,
    windows: tuple[int | None, ...] = (None,),
    recurrent_layers: int = 0,
) -> Architecture:
    """A plain decoder, by default of Llama 3.1 8B's shape; windows alternate over its layers."""
    kinds = [
        LayerKind(
            (Attention(heads, kv_heads, head_dim, head_dim, window),), (), feed_forward_width=width
        )
        for window in windows
    ]
    order = [index % len(windows) for index in range(layers)]
    if recurrent_layers:
        state = (StateTensor(32 * 128 * 128, dtype="float32"), StateTensor(8192 * 3))
        kinds.append(
            LayerKind((Recurrence("gated_delta", state, 0.0),), (), feed_forward_width=width)
        )
        order += [len(windows)] * recurrent_layers
    return Architecture(
        model_type="test",
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        layer_kinds=tuple(kinds),
        layer_order=tuple(order),
        outer=(Weight("embedding", Part.EMBEDDING, vocabulary, hidden),),
        tied=True,
        max_context_tokens=context,
    )


def layout_of(*groups: tuple[float, int | None, int], state: float = 0.0) -> CacheLayout:
    """A layout from (bytes per position over all layers, window, layers)."""
    return CacheLayout(
        tuple(CacheGroup(size, window, 1, None, layers) for size, window, layers in groups),
        state,
        0.0,
    )
