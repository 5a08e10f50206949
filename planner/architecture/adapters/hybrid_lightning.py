"""MiniMax-01 and M1: lightning attention with softmax attention every few layers, and experts."""

from __future__ import annotations

from planner.architecture import recurrent
from planner.architecture.adapters.common import assemble, layer_count, outer_weights
from planner.architecture.adapters.hybrid_parts import (
    ATTENTION,
    RECURRENT,
    attention_heads,
    layer_pattern,
    self_attention,
)
from planner.architecture.blocks import mixture_of_experts, norm
from planner.architecture.keys import MAX_EXPERTS, Keys
from planner.architecture.spec import Architecture, LayerKind


def minimax(keys: Keys) -> Architecture:
    """MiniMax-Text-01, M1 and their transformers layout: which layers attend is a list in either of two forms.

    References:
        MiniMax-01, arXiv 2501.08313.
    """
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    vocabulary = keys.integer("vocab_size")
    wide = keys.integer("intermediate_size", default=14336)
    experts = keys.integer("num_local_experts", default=8, maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=2, maximum=experts)
    shared = keys.integer("shared_intermediate_size", default=0, minimum=0)
    rest = (
        *mixture_of_experts(hidden, experts, wide, shared_width=shared),
        *norm("norm", hidden, copies=2),
    )
    heads, _, head_dim = attention_heads(keys, hidden, kv_heads=8)
    attention, cached = self_attention(keys, hidden, kv_heads=8, bias=False)
    linear_attention, carried = recurrent.lightning(hidden, heads, head_dim)
    width = chosen * wide + shared
    kinds = {
        ATTENTION: LayerKind((cached,), (*attention, *rest), experts, chosen, width),
        RECURRENT: LayerKind((carried,), (*linear_attention, *rest), experts, chosen, width),
    }
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        [kinds[name] for name in _pattern(keys, layers)],
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
    )


def _pattern(keys: Keys, layers: int) -> tuple[str, ...]:
    given = layer_pattern(keys, "layer_types", layers=layers)
    if given is not None:
        return given
    kinds = keys.integers("attn_type_list", length=layers, maximum=1)
    if kinds is not None:
        return tuple(ATTENTION if kind else RECURRENT for kind in kinds)
    # The class's own rule, which counts layers from one.
    return tuple(RECURRENT if index % 2 else ATTENTION for index in range(layers))
