"""Dots 3 Note: indexed and windowed latent attention, each with sizes of its own.

Defaults are those of the model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.architecture.adapters import latent, mixtures
from planner.architecture.adapters.common import (
    layer_count,
)
from planner.architecture.adapters.latent import LatentSizes
from planner.architecture.adapters.latent_families import (
    FULL,
    INDEXED,
    ROUTED,
    SLIDING,
    feed_forward,
    finish,
    latent_mixer,
    latent_projections,
    read_indexer,
)
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import (
    linear,
    norm,
)
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import CacheStream, Composite, Mixer, Score
from planner.architecture.spec import Architecture, LayerKind, Part


def dots3_note(keys: Keys) -> Architecture:
    """Dots 3 Note: indexed latent attention on every fourth layer, latent attention in a window of other sizes between.

    The sliding layers' sizes stand in `per_layer_config`, or at the top with the prefix `swa_`.
    """
    layers = layer_count(keys)
    sizes = latent.latent_sizes(keys, 1024)
    hidden = sizes.hidden
    indexer = read_indexer(keys)
    types = _dots_types(keys, layers)
    window = keys.optional_integer("sliding_window", maximum=MAX_CONTEXT) or keys.integer(
        "sliding_window_size", default=512, maximum=MAX_CONTEXT
    )
    mixture = Mixture(
        experts=ROUTED,
        shared_width=("shared_experts_intermediate_size", "moe_shared_expert_intermediate_size"),
        default_shared=1536,
        correction="buffer",
        layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(1)),
    )
    bias = keys.flag("attention_bias", default=False)
    kinds: dict[tuple[bool, str], LayerKind] = {}
    order = []
    for number, (sparse, kind) in enumerate(zip(mixture.layers(keys, layers), types, strict=True)):
        if (sparse, kind) not in kinds:
            here = _dots_sliding(keys, sizes, number) if kind == SLIDING else sizes
            if here.query_rank is None:
                raise keys.contradiction("q_lora_rank", "indexer_needs_query_rank")
            weights = (
                *latent_projections(here, bias),
                *norm("rotary_key_norm", here.rope_dim),
                *linear("output_gate", Part.ATTENTION, here.heads, hidden),
                *norm("norm", hidden, copies=2),
            )
            mixer: Mixer = latent_mixer(here, indexer if kind == INDEXED else None)
            if kind == INDEXED:
                weights += latent.indexer_weights(
                    hidden, here.query_rank, indexer.heads, indexer.head_dim
                )
            elif kind == SLIDING:
                mixer = _windowed(here, window)
            kinds[sparse, kind] = feed_forward(keys, mixture, hidden, sparse, (mixer,), weights)
        order.append(kinds[sparse, kind])
    return finish(keys, order, hidden, 524288)


def _dots_types(keys: Keys, layers: int) -> tuple[str, ...]:
    given = keys.texts("layer_types", length=layers, choices=frozenset({INDEXED, FULL, SLIDING}))
    if given is None:
        slides = keys.flag("use_sliding_window", default=True)
        given = tuple(
            INDEXED if not slides or index < 2 or index % 4 == 1 else SLIDING
            for index in range(layers)
        )
    # Released files call indexed layers full; with `per_layer_config` beside them they mean what they say.
    indexed = keys.flag("use_dsa", default=not keys.has("per_layer_config"))
    if indexed:
        return tuple(INDEXED if kind == FULL else kind for kind in given)
    stated = keys.has("use_dsa")
    return tuple(FULL if kind == INDEXED and stated else kind for kind in given)


def _dots_sliding(keys: Keys, sizes: LatentSizes, layer: int) -> LatentSizes:
    section = keys.optional_section("per_layer_config")
    if section is None:
        nope = keys.integer("swa_qk_nope_head_dim", default=192)
        head = keys.integer("swa_head_dim", default=256)
        return replace(
            sizes,
            heads=keys.integer("swa_num_attention_heads", default=64, maximum=100_000),
            query_rank=keys.integer("swa_q_lora_rank", default=1024),
            latent_dim=keys.integer("swa_kv_lora_rank", default=1024),
            nope_dim=nope,
            rope_dim=keys.integer("swa_qk_rope_head_dim", default=max(1, head - nope)),
            value_dim=keys.integer("swa_v_head_dim", default=128),
        )
    numbered: Mapping[str, Any] = section.config
    names = {int(name): name for name in numbered if str(name).isdecimal()}
    own = section.section(names[layer]) if layer in names else section
    return replace(
        sizes,
        heads=own.integer("num_attention_heads", default=sizes.heads, maximum=100_000),
        query_rank=own.integer("q_lora_rank", default=sizes.query_rank or 1024),
        latent_dim=own.integer("kv_lora_rank", default=sizes.latent_dim),
        nope_dim=own.integer("qk_nope_head_dim", default=sizes.nope_dim),
        rope_dim=own.integer("qk_rope_head_dim", default=sizes.rope_dim),
        value_dim=own.integer("v_head_dim", default=sizes.value_dim),
    )


def _windowed(sizes: LatentSizes, window: int) -> Composite:
    """Latent attention to the last `window` positions, whose latents are all that's kept."""
    whole = latent_mixer(sizes)
    (score,) = whole.scores
    return Composite(
        "sliding",
        (CacheStream(sizes.latent_dim + sizes.rope_dim, 0, window=window),),
        (Score(score.decode_flops, score.prefill_flops, window),),
    )
