"""Llama 3.2 Vision's language model: some layers attend to the image instead of the text.

Defaults are those of MllamaTextConfig in transformers 5.24.
"""

from __future__ import annotations

from planner.architecture.adapters.common import assemble, layer_count
from planner.architecture.adapters.decoder import query_key_norms
from planner.architecture.blocks import (
    embedding,
    gated_mlp,
    grouped_query_attention,
    head,
    norm,
    vector,
)
from planner.architecture.keys import Keys
from planner.architecture.mixers import Attention, CrossAttention
from planner.architecture.spec import Architecture, LayerKind, Part

# The table has rows for the image token and padding that the head doesn't predict.
_EXTRA_ROWS = 8
_CROSS_LAYERS = (3, 8, 13, 18, 23, 28, 33, 38)


def architecture(keys: Keys) -> Architecture:
    """Llama 3.2 Vision's language model. Without an image, its cross-attention layers attend to nothing."""
    hidden = keys.integer("hidden_size")
    layers = layer_count(keys)
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=8, maximum=heads)
    if hidden % heads or heads % kv_heads:
        raise keys.contradiction("num_attention_heads", "not_divisible", given=heads)
    head_dim = hidden // heads
    width = keys.integer("intermediate_size")
    cross = keys.integers("cross_attention_layers", maximum=layers - 1)
    crossing = frozenset(_CROSS_LAYERS if cross is None else cross)
    projections = grouped_query_attention(hidden, heads, kv_heads, head_dim)
    rest = (*norm("norm", hidden, copies=2), *gated_mlp(hidden, width))
    self_kind = LayerKind(
        (Attention(heads, kv_heads, head_dim, head_dim),),
        (*projections, *rest),
        feed_forward_width=width,
    )
    cross_kind = LayerKind(
        (CrossAttention(heads, kv_heads, head_dim, head_dim, source_tokens=0),),
        (
            *projections,
            *query_key_norms("head", heads, kv_heads, head_dim),
            *vector("attention_gate", Part.ATTENTION, 1),
            *vector("mlp_gate", Part.FEED_FORWARD, 1),
            *rest,
        ),
        feed_forward_width=width,
    )
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=False)
    outer = (*embedding(vocabulary + _EXTRA_ROWS, hidden), *norm("final_norm", hidden))
    return assemble(
        keys,
        [cross_kind if index in crossing else self_kind for index in range(layers)],
        outer if tied else (*outer, *head(vocabulary, hidden)),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
    )
