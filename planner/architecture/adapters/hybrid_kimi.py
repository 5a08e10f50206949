"""Kimi Linear and Kimi K3: Kimi Delta Attention with latent attention every few layers, and many experts."""

from __future__ import annotations

from planner.architecture import recurrent
from planner.architecture.adapters.common import (
    assemble,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.hybrid_nemotron import latent_projections, routed_experts
from planner.architecture.adapters.hybrid_parts import ATTENTION, RECURRENT, layer_pattern
from planner.architecture.adapters.mixtures import after_first_dense, by_mlp_layer_type
from planner.architecture.blocks import Weights, gated_mlp, latent_attention, linear, norm, vector
from planner.architecture.keys import MAX_EXPERTS, Keys
from planner.architecture.mixers import LatentAttention, Mixer
from planner.architecture.spec import Architecture, LayerKind, Part

_sparse_layers = by_mlp_layer_type(after_first_dense(1))


def kimi_linear(keys: Keys) -> Architecture:
    """Kimi Linear: its two layer lists count from one; experts in all layers but the first.

    References:
        Kimi Linear, arXiv 2510.26692.
    """
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    vocabulary = keys.integer("vocab_size", default=163_840)
    pattern = _pattern(keys, layers)
    norms = norm("norm", hidden, copies=2)
    residual = _attention_residual(keys, hidden, 4)
    blocks: dict[str, tuple[Weights, Mixer]] = {
        ATTENTION: _latent(keys, hidden),
        RECURRENT: _delta(keys, hidden),
    }
    wide = keys.integer("intermediate_size", default=9216)
    dense = LayerKind((), (*gated_mlp(hidden, wide), *norms, *residual), feed_forward_width=wide)
    routed = _experts(keys, hidden, (*norms, *residual))
    kinds: dict[tuple[str, bool], LayerKind] = {}
    order = []
    for name, sparse in zip(pattern, _sparse_layers(keys, layers), strict=True):
        if (name, sparse) not in kinds:
            weights, mixer = blocks[name]
            rest = routed if sparse else dense
            kinds[name, sparse] = LayerKind(
                (mixer,),
                (*weights, *rest.weights),
                rest.experts,
                rest.experts_per_token,
                rest.feed_forward_width,
            )
        order.append(kinds[name, sparse])
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied, extra=_attention_residual(keys, hidden, 2)),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(
            keys, "max_position_embeddings", "model_max_length", default=1_048_576
        ),
    )


def _pattern(keys: Keys, layers: int) -> tuple[str, ...]:
    """Which layers attend: `layer_types`, else of the two lists (counted from one), else the class's rule."""
    given = layer_pattern(keys, "layer_types", layers=layers)
    if given is not None:
        return given
    section = keys.optional_section("linear_attn_config")
    if section is None or not section.has("full_attn_layers", "kda_layers"):
        return tuple(
            ATTENTION if index and index % 4 == 0 else RECURRENT for index in range(layers)
        )
    attending = section.integers("full_attn_layers", minimum=1, maximum=layers) or ()
    carrying = section.integers("kda_layers", minimum=1, maximum=layers) or ()
    if sorted(attending + carrying) != list(range(1, layers + 1)):
        raise section.contradiction(
            "kda_layers", "list_length", expected=layers, given=len(attending) + len(carrying)
        )
    chosen = frozenset(attending)
    return tuple(ATTENTION if index + 1 in chosen else RECURRENT for index in range(layers))


def _delta(keys: Keys, hidden: int) -> recurrent.Mixed:
    """Sizes stand in a section of their own, or beside the others with a prefix."""
    section = keys.optional_section("linear_attn_config")
    heads, size, kernel = "num_heads", "head_dim", "short_conv_kernel_size"
    if section is None:
        section = keys
        heads, size, kernel = "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"
    return recurrent.kimi_delta(
        hidden,
        section.integer(heads, default=32, maximum=100_000),
        section.integer(size, default=128, maximum=100_000),
        section.integer(kernel, default=4, maximum=1000),
        full_rank_gate=section.flag("use_full_rank_gate", default=False),
    )


def _latent(keys: Keys, hidden: int) -> tuple[Weights, LatentAttention]:
    heads = keys.integer("num_attention_heads", default=32, maximum=100_000)
    latent = keys.integer("kv_lora_rank", default=512)
    rope = keys.integer("qk_rope_head_dim", default=64)
    nope = keys.integer("qk_nope_head_dim", default=128)
    value = keys.integer("v_head_dim", default=128)
    weights = latent_attention(
        hidden,
        heads,
        query_rank=keys.optional_integer("q_lora_rank"),
        latent_dim=latent,
        rope_dim=rope,
        nope_dim=nope,
        value_dim=value,
    )
    if keys.flag("mla_use_output_gate", default=False):
        weights += linear("output_gate", Part.ATTENTION, heads * value, hidden)
    return weights, LatentAttention(heads, latent, rope, nope, value)


def _experts(keys: Keys, hidden: int, rest: Weights) -> LayerKind:
    experts = keys.integer("num_experts", "num_local_experts", default=256, maximum=MAX_EXPERTS)
    chosen = keys.integer(
        "num_experts_per_token", "num_experts_per_tok", default=8, maximum=experts
    )
    wide = keys.integer("moe_intermediate_size", default=1024)
    shared = wide * keys.integer(
        "num_shared_experts", "n_shared_experts", default=1, minimum=0, maximum=MAX_EXPERTS
    )
    latent = keys.optional_integer("routed_expert_hidden_size")
    weights = routed_experts(hidden, latent or hidden, experts, wide, gated=True)
    if latent:
        weights += latent_projections(hidden, latent)
        if keys.flag("latent_moe_use_norm", default=False):
            weights += norm("latent_norm", latent)
    if shared:
        weights += gated_mlp(hidden, shared, part=Part.SHARED_EXPERTS)
    return LayerKind((), (*weights, *rest), experts, chosen, chosen * wide + shared)


def _attention_residual(keys: Keys, hidden: int, vectors: int) -> Weights:
    """Kimi K3's attention over earlier layers' outputs: two vectors for each of a layer's two blocks, two at the end.

    Their number isn't documented; this one leaves 2,208 of 2.78e12 published values unexplained.
    """
    if not keys.has("attn_res_block_size"):
        return ()
    return vector("depth_attention", Part.ATTENTION, hidden, copies=vectors)
