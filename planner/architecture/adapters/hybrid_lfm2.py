"""LFM2: gated short convolutions with grouped-query attention between them, dense or with experts."""

from __future__ import annotations

from collections.abc import Sequence

from planner.architecture import recurrent
from planner.architecture.adapters.common import assemble, layer_count, outer_weights
from planner.architecture.adapters.hybrid_parts import (
    ATTENTION,
    RECURRENT,
    layer_pattern,
    self_attention,
)
from planner.architecture.blocks import Weights, gated_mlp, mixture_of_experts, norm
from planner.architecture.keys import MAX_EXPERTS, Keys
from planner.architecture.mixers import Mixer
from planner.architecture.spec import Architecture, LayerKind


def lfm2(keys: Keys) -> Architecture:
    """LFM2: the stated feed-forward width is cut to two thirds and rounded up to a multiple."""
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    wide = keys.integer("block_ff_dim", "intermediate_size", default=12288)
    if keys.flag("block_auto_adjust_ff_dim", default=True):
        wide = 2 * wide // 3
        factor = keys.number("block_ffn_dim_multiplier", default=1.0, minimum=0.01, maximum=100.0)
        multiple = keys.integer("block_multiple_of", default=256)
        wide = multiple * -(-int(factor * wide) // multiple)
        if not wide:
            raise keys.contradiction("intermediate_size", "too_small", given=wide, expected=1)
    mlp = gated_mlp(hidden, wide)
    kinds = {
        name: LayerKind(mixers, (*weights, *mlp), feed_forward_width=wide)
        for name, (weights, mixers) in _mixers(keys, hidden).items()
    }
    pattern = layer_pattern(keys, "layer_types", layers=layers)
    if pattern is None:
        attending = keys.integers("full_attn_idxs", maximum=10_000)
        pattern = tuple(
            ATTENTION if attending is None or index in attending else RECURRENT
            for index in range(layers)
        )
    return _model(keys, [kinds[name] for name in pattern], hidden)


def lfm2_moe(keys: Keys) -> Architecture:
    """LFM2 with experts after the first dense layers."""
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    dense = keys.integer("num_dense_layers", default=2, minimum=0, maximum=10_000)
    wide = keys.integer("intermediate_size", default=7168)
    each = keys.integer("moe_intermediate_size", default=1792)
    experts = keys.integer("num_experts", default=32, maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=4, maximum=experts)
    mlp = gated_mlp(hidden, wide)
    mixture = mixture_of_experts(
        hidden, experts, each, router_correction=keys.flag("use_expert_bias", default=True)
    )
    kinds: dict[tuple[str, bool], LayerKind] = {}
    for name, (weights, mixers) in _mixers(keys, hidden).items():
        kinds[name, False] = LayerKind(mixers, (*weights, *mlp), feed_forward_width=wide)
        kinds[name, True] = LayerKind(mixers, (*weights, *mixture), experts, chosen, chosen * each)
    pattern = layer_pattern(keys, "layer_types", layers=layers) or (ATTENTION,) * layers
    order = [kinds[name, index >= dense] for index, name in enumerate(pattern)]
    return _model(keys, order, hidden)


def _mixers(keys: Keys, hidden: int) -> dict[str, tuple[Weights, tuple[Mixer, ...]]]:
    norms = norm("norm", hidden, copies=2)
    weights, cached = self_attention(keys, hidden, kv_heads=8, bias=False, head_norms=True)
    convolution, carried = recurrent.short_convolution(
        hidden,
        keys.integer("conv_L_cache", default=3, maximum=1000),
        bias=keys.flag("conv_bias", default=False),
    )
    return {
        ATTENTION: ((*weights, *norms), (cached,)),
        RECURRENT: ((*convolution, *norms), (carried,)),
    }


def _model(keys: Keys, layers: Sequence[LayerKind], hidden: int) -> Architecture:
    vocabulary = keys.integer("vocab_size", default=65536)
    tied = keys.flag("tie_embedding", "tie_word_embeddings", default=True)
    return assemble(
        keys,
        layers,
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
    )
