"""RWKV-5 and RecurrentGemma: recurrences with a feed-forward of their own."""

from __future__ import annotations

from planner.architecture import recurrent
from planner.architecture.adapters.common import assemble, layer_count, outer_weights
from planner.architecture.adapters.hybrid_parts import (
    ATTENTION,
    RECURRENT,
    attention_heads,
)
from planner.architecture.blocks import gated_mlp, grouped_query_attention, linear, norm, vector
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import Attention
from planner.architecture.spec import Architecture, LayerKind, Part


def rwkv5(keys: Keys) -> Architecture:
    """RWKV-5: time mixing and channel mixing, layer norms, one more before the first layer.

    Checkpoints hold a head of their own whatever `tie_word_embeddings` says.
    """
    hidden = keys.integer("hidden_size")
    vocabulary = keys.integer("vocab_size", default=65_536)
    inner = keys.integer("attention_hidden_size", default=hidden)
    size = keys.integer("head_size", "num_attention_heads", default=64, maximum=100_000)
    if inner % size:
        raise keys.contradiction("head_size", "not_divisible", given=inner, divisor=size)
    wide = keys.integer("intermediate_size", default=max(32, int(hidden * 3.5) // 32 * 32))
    time_mixing, mixer = recurrent.rwkv5(hidden, inner, size)
    part = Part.FEED_FORWARD
    weights = (
        *time_mixing,
        *vector("channel_shift", part, hidden, copies=2),
        *linear("key", part, wide, hidden),
        *linear("receptance", part, hidden, hidden),
        *linear("value", part, hidden, wide, row_parallel=True),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    kind = LayerKind((mixer,), weights, feed_forward_width=wide)
    return assemble(
        keys,
        (kind,) * layer_count(keys),
        outer_weights(
            hidden,
            vocabulary,
            tied=False,
            final_norm="layer",
            extra=norm("embedding_norm", hidden, kind="layer"),
        ),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=False,
        max_context_tokens=keys.integer("context_length", default=4096, maximum=MAX_CONTEXT),
    )


def recurrent_gemma(keys: Keys) -> Architecture:
    """RecurrentGemma: two recurrent blocks to one of windowed multi-query attention; half the stated MLP width.

    References:
        RecurrentGemma, arXiv 2404.07839.
    """
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    vocabulary = keys.integer("vocab_size", default=256_000)
    heads, kv_heads, head_dim = attention_heads(keys, hidden)
    wide = keys.integer("intermediate_size", default=3 * hidden, minimum=2) // 2
    width = keys.integer("lru_width", default=hidden)
    if width % heads:
        raise keys.contradiction("lru_width", "not_divisible", given=width, divisor=heads)
    biased = keys.flag("attention_bias", default=False)
    window = keys.integer("attention_window_size", default=2048, maximum=MAX_CONTEXT)
    rest = (*gated_mlp(hidden, wide, bias=True), *norm("norm", hidden, copies=2))
    attention = grouped_query_attention(
        hidden,
        heads,
        kv_heads,
        head_dim,
        query_bias=biased,
        kv_bias=biased,
        output_bias=True,
    )
    block, mixer = recurrent.gated_linear_recurrence(
        hidden, width, heads, keys.integer("conv1d_width", default=4, maximum=1000)
    )
    cached = Attention(heads, kv_heads, head_dim, head_dim, window)
    kinds = {
        ATTENTION: LayerKind((cached,), (*attention, *rest), feed_forward_width=wide),
        RECURRENT: LayerKind((mixer,), (*block, *rest), feed_forward_width=wide),
    }
    names = {"recurrent": RECURRENT, "attention": ATTENTION}
    pattern = keys.texts("block_types", "_block_types", choices=frozenset(names))
    cycle = [names[name] for name in pattern or ("recurrent", "recurrent", "attention")]
    tied = keys.flag("tie_word_embeddings", default=True)
    return assemble(
        keys,
        [kinds[cycle[index % len(cycle)]] for index in range(layers)],
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        # Windows and a constant state set no limit; 8,192 is the length it was trained on.
        max_context_tokens=keys.integer(
            "max_position_embeddings", default=8192, maximum=MAX_CONTEXT
        ),
    )
