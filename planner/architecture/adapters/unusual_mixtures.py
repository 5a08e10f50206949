"""Mixtures of experts that are more than a feed-forward: JetMoE, Zaya, Doge.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

import math
from dataclasses import replace

from planner.architecture.adapters import windows
from planner.architecture.adapters.common import (
    assemble,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.decoder import Traits
from planner.architecture.adapters.decoder import architecture as build
from planner.architecture.adapters.expert_families import BIAS
from planner.architecture.adapters.mixture_families import in_every_layer
from planner.architecture.blocks import (
    Weights,
    convolution,
    gated_mlp,
    grouped_query_attention,
    linear,
    norm,
    vector,
)
from planner.architecture.keys import MAX_EXPERTS, Keys
from planner.architecture.mixers import Attention, Recurrence, StateTensor
from planner.architecture.spec import Architecture, LayerKind, Part, Shard


def jetmoe(keys: Keys) -> Architecture:
    """JetMoE: experts for the query and output projections too; keys and values are shared by a token's experts."""
    hidden = keys.integer("hidden_size", default=2048)
    kv_heads = keys.integer("num_key_value_heads", default=16, maximum=100_000)
    size = keys.integer("kv_channels", default=128, maximum=100_000)
    count = keys.integer("num_local_experts", default=8, maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=2, maximum=count)
    wide = keys.integer("intermediate_size", default=5632)
    inner = kv_heads * size
    shard, part = Shard.EXPERTS, Part.EXPERTS
    weights = (
        *linear("query", part, inner, hidden, copies=count, shard=shard),
        *linear("output", part, hidden, inner, copies=count, shard=shard),
        *linear("attention_router", Part.ROUTER, count, hidden, shard=Shard.NONE),
        *linear(
            "key_value",
            Part.ATTENTION,
            2 * inner,
            hidden,
            shard=Shard.KV_HEADS,
            kv_heads=kv_heads,
        ),
        *linear("router", Part.ROUTER, count, hidden, shard=Shard.NONE),
        *gated_mlp(hidden, wide, part=part, copies=count, shard=shard),
        *vector("mixture_bias", Part.FEED_FORWARD, hidden, copies=2),
        *norm("norm", hidden, copies=2),
    )
    # Each chosen expert brings one query head per key/value head.
    mixer = Attention(chosen * kv_heads, kv_heads, size, size)
    kind = LayerKind((mixer,), weights, count, chosen, chosen * wide)
    vocabulary = keys.integer("vocab_size", default=32000)
    tied = keys.flag("tie_word_embeddings", default=True)
    return assemble(
        keys,
        (kind,) * layer_count(keys),
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=4096),
    )


def zaya(keys: Keys) -> Architecture:
    """Zaya: attention on convolved, compressed queries and keys, values half of them from the token before.

    The router is a small network that also reads the last layer's routing state; one more expert does nothing.
    """
    hidden = keys.integer("hidden_size")
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=2, maximum=heads)
    size = keys.integer("head_dim", default=128, maximum=100_000)
    bias = keys.flag("attention_bias", default=False)
    wide = keys.integer("moe_intermediate_size")
    experts = keys.integer("num_experts", maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=1, maximum=experts)
    router = keys.integer("router_hidden_size", default=256)
    taps = keys.integer("cca_time0", default=2), keys.integer("cca_time1", default=2)
    if heads % kv_heads or kv_heads * size % 2:
        raise keys.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    channels = (heads + kv_heads) * size
    part = Part.ATTENTION
    attention = (
        *grouped_query_attention(
            hidden, heads, kv_heads, size, query_bias=bias, kv_bias=bias, output_bias=bias
        ),
        *convolution("depthwise_convolution", part, channels, taps[0], bias=True),
        *convolution("grouped_convolution", part, channels, size * taps[1], bias=True),
        *vector("key_temperature", part, kv_heads, shard=Shard.KV_HEADS, kv_heads=kv_heads),
        *norm("norm", hidden, copies=2),
        *vector("residual_scale", Part.NORM, hidden, copies=8),
    )
    feed_forward = (
        *linear("router_down", Part.ROUTER, router, hidden, bias=True, shard=Shard.NONE),
        *norm("router_norm", router, part=Part.ROUTER),
        *linear("router_1", Part.ROUTER, router, router, bias=True, shard=Shard.NONE),
        *linear("router_2", Part.ROUTER, router, router, bias=True, shard=Shard.NONE),
        *linear("router", Part.ROUTER, experts + 1, router, shard=Shard.NONE),
        *vector("router_correction", Part.ROUTER, experts + 1, dtype="float32", buffer=True),
        *gated_mlp(hidden, wide, part=Part.EXPERTS, copies=experts, shard=Shard.EXPERTS),
    )
    # Inputs of the two convolutions, and of the values that come a token late.
    past = StateTensor(channels * (taps[0] + taps[1] - 2), shards=heads)
    late = StateTensor(kv_heads * size // 2, shards=kv_heads)
    mixers = (
        Attention(heads, kv_heads, size, size),
        Recurrence("short_convolution", (past, late), 0.0),
    )
    first = LayerKind(mixers, (*attention, *feed_forward), experts, chosen, chosen * wide)
    carries = vector("router_state_scale", Part.ROUTER, router)
    other = replace(first, weights=first.weights + carries)
    layers = layer_count(keys)
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=True)
    head_bias = keys.flag("lm_head_bias", default=False)
    return assemble(
        keys,
        (first, *(other,) * (layers - 1)),
        outer_weights(
            hidden,
            vocabulary,
            tied=tied,
            head_bias=head_bias,
            extra=vector("input_scale", Part.NORM, hidden, copies=2),
        ),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=131072),
    )


def doge(keys: Keys) -> Architecture:
    """Doge: a learned mask from the values, scaled residuals; with experts, thousands of one neuron each.

    Experts are found by two half keys, so the router scores 2·√E of them; a dense feed-forward stands beside.
    """
    traits = Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=("mlp_bias", False),
        qk_norm="head",
        windows=windows.uniform(None),
    )
    built = build(keys, traits)
    hidden = built.hidden_size
    mixer = built.layer_kinds[0].mixers[0]
    assert isinstance(mixer, Attention)
    kv_heads, inner = mixer.kv_heads, mixer.kv_heads * mixer.key_dim
    bias = keys.flag("attention_bias", default=False)
    added: Weights = (
        *vector("residual_scale", Part.NORM, hidden, copies=2),
        *vector("mask_scale", Part.ATTENTION, kv_heads, shard=Shard.KV_HEADS, kv_heads=kv_heads),
        *linear("mask", Part.ATTENTION, kv_heads, inner, bias=bias, shard=Shard.NONE),
    )
    if not keys.flag("is_moe", default=False):
        return in_every_layer(built, added)
    experts = keys.integer("num_experts", default=16384, maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=64, maximum=experts)
    added += linear("router", Part.ROUTER, 2 * math.isqrt(experts), hidden, shard=Shard.NONE)
    for name in ("up", "down"):
        added += linear(
            f"expert_{name}", Part.EXPERTS, 1, hidden, copies=experts, shard=Shard.EXPERTS
        )
    routed = in_every_layer(built, added)
    kinds = tuple(
        replace(
            kind,
            experts=experts,
            experts_per_token=chosen,
            feed_forward_width=kind.feed_forward_width + chosen,
        )
        for kind in routed.layer_kinds
    )
    return replace(routed, layer_kinds=kinds)
