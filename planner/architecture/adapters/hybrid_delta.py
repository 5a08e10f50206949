"""Gated delta nets with full attention every few layers: Qwen3-Next, Qwen3.5, OLMo Hybrid."""

from __future__ import annotations

from dataclasses import dataclass

from planner.architecture import recurrent
from planner.architecture.adapters.common import assemble, layer_count, outer_weights
from planner.architecture.adapters.decoder import Mtp, mtp_weights, query_key_norms
from planner.architecture.adapters.hybrid_parts import (
    ATTENTION,
    RECURRENT,
    layer_pattern,
    self_attention,
)
from planner.architecture.adapters.mixtures import SparseRule, all_sparse, by_sparse_step
from planner.architecture.blocks import Weights, gated_mlp, mixture_of_experts, norm
from planner.architecture.keys import MAX_EXPERTS, Keys
from planner.architecture.mixers import Mixer
from planner.architecture.spec import Architecture, LayerKind


@dataclass(frozen=True, slots=True)
class _Defaults:
    """What a family's configuration class takes where a key is absent, and what its checkpoints hold besides."""

    experts: int
    per_token: int
    kv_heads: int
    mtp_layers: int
    sparse: SparseRule | None


_NEXT = _Defaults(512, 10, 2, 1, by_sparse_step())
_DENSE = _Defaults(0, 0, 4, 0, None)
_SPARSE = _Defaults(256, 8, 2, 0, all_sparse)


def qwen3_next(keys: Keys) -> Architecture:
    """Qwen3-Next: three gated delta layers to one of gated attention, 512 experts and a gated shared one.

    Its checkpoints hold one MTP layer, which its configuration doesn't mention.
    """
    return _qwen(keys, _NEXT)


def qwen3_5(keys: Keys) -> Architecture:
    """Qwen3.5, dense: Qwen3-Next's layers with one gated feed-forward."""
    return _qwen(keys, _DENSE)


def qwen3_5_moe(keys: Keys) -> Architecture:
    """Qwen3.5 with experts in every layer."""
    return _qwen(keys, _SPARSE)


def _qwen(keys: Keys, family: _Defaults) -> Architecture:
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    vocabulary = keys.integer("vocab_size")
    norms = norm("norm", hidden, copies=2)
    attention = self_attention(
        keys,
        hidden,
        kv_heads=family.kv_heads,
        head_dim=256,
        head_norms=True,
        gated=keys.flag("attn_output_gate", default=True),
    )
    delta = recurrent.gated_delta(
        hidden,
        keys.integer("linear_num_key_heads", default=16, maximum=100_000),
        keys.integer("linear_num_value_heads", default=32, maximum=100_000),
        keys.integer("linear_key_head_dim", default=128, maximum=100_000),
        keys.integer("linear_value_head_dim", default=128, maximum=100_000),
        keys.integer("linear_conv_kernel_dim", default=4, maximum=1000),
    )
    pattern = layer_pattern(keys, "layer_types", layers=layers)
    if pattern is None:
        interval = keys.integer("full_attention_interval", default=4, maximum=10_000)
        pattern = tuple(
            RECURRENT if (index + 1) % interval else ATTENTION for index in range(layers)
        )
    sparse = family.sparse(keys, layers) if family.sparse else (False,) * layers
    dense_kind = None if all(sparse) else _dense(keys, hidden, norms)
    sparse_kind = _sparse(keys, hidden, norms, family) if any(sparse) else None
    kinds: dict[tuple[str, bool], LayerKind] = {}
    order = []
    for mixes, routed in zip(pattern, sparse, strict=True):
        kind = kinds.get((mixes, routed))
        if kind is None:
            rest = sparse_kind if routed else dense_kind
            assert rest is not None
            kind = kinds[mixes, routed] = _with(attention if mixes == ATTENTION else delta, rest)
        order.append(kind)
    last = _with(attention, sparse_kind or dense_kind or _dense(keys, hidden, norms))
    mtp = Mtp(
        names=("mtp_num_hidden_layers", "num_nextn_predict_layers"),
        default=family.mtp_layers,
        stores_tables=keys.flag("mtp_use_dedicated_embeddings", default=False),
    )
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        mtp=mtp_weights(keys, mtp, hidden, vocabulary, last.weights),
    )


def _with(block: tuple[Weights, Mixer], rest: LayerKind) -> LayerKind:
    weights, mixer = block
    return LayerKind(
        (mixer,),
        (*weights, *rest.weights),
        rest.experts,
        rest.experts_per_token,
        rest.feed_forward_width,
    )


def _dense(keys: Keys, hidden: int, norms: Weights) -> LayerKind:
    wide = keys.integer("intermediate_size")
    return LayerKind((), (*gated_mlp(hidden, wide), *norms), feed_forward_width=wide)


def _sparse(keys: Keys, hidden: int, norms: Weights, family: _Defaults) -> LayerKind:
    experts = keys.integer("num_experts", default=family.experts, maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=family.per_token, maximum=experts)
    wide = keys.integer("moe_intermediate_size", default=512)
    shared = keys.integer("shared_expert_intermediate_size", default=512, minimum=0)
    mixture = mixture_of_experts(
        hidden, experts, wide, shared_width=shared, shared_gate=bool(shared)
    )
    return LayerKind((), (*mixture, *norms), experts, chosen, chosen * wide + shared)


def olmo_hybrid(keys: Keys) -> Architecture:
    """OLMo Hybrid: gated delta layers with pre-norms, attention every fourth layer with post-norms."""
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    vocabulary = keys.integer("vocab_size", default=100_352)
    wide = keys.integer("intermediate_size", default=11008)
    rest = (*gated_mlp(hidden, wide), *norm("norm", hidden, copies=2))
    weights, cached = self_attention(keys, hidden)
    weights += query_key_norms("full", cached.heads, cached.kv_heads, cached.key_dim)
    heads = cached.heads
    key_heads = keys.integer("linear_num_key_heads", default=heads, maximum=100_000)
    key_dim = keys.integer("linear_key_head_dim", default=3 * hidden // (4 * key_heads))
    delta, carried = recurrent.gated_delta(
        hidden,
        key_heads,
        keys.integer("linear_num_value_heads", default=heads, maximum=100_000),
        key_dim,
        keys.integer("linear_value_head_dim", default=2 * key_dim),
        keys.integer("linear_conv_kernel_dim", default=4, maximum=1000),
    )
    kinds = {
        ATTENTION: LayerKind((cached,), (*weights, *rest), feed_forward_width=wide),
        RECURRENT: LayerKind((carried,), (*delta, *rest), feed_forward_width=wide),
    }
    pattern = layer_pattern(keys, "layer_types", layers=layers)
    if pattern is None:
        attends = [index % 4 == 3 for index in range(layers)]
        attends[-1] = attends[-1] or not any(attends)
        pattern = tuple(ATTENTION if full else RECURRENT for full in attends)
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        [kinds[name] for name in pattern],
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
    )
