"""Decoders from before the common layout, each with key names and quirks of its own.

GPT, CTRL, XLM, XLNet, CPM-Ant, ProphetNet, GPT-NeoX Japanese, GIT, Moshi. Defaults are those of each model type's
configuration class in transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.architecture.adapters.common import (
    assemble,
    layer_count,
    outer_weights,
)
from planner.architecture.adapters.encoder import ENCODER
from planner.architecture.blocks import (
    Weights,
    embedding,
    gated_mlp,
    grouped_query_attention,
    head,
    linear,
    norm,
    plain_mlp,
    positions,
    vector,
)
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import Attention, Composite, CrossAttention, Mixer, StateTensor
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Shard, Weight


def _block(keys: Keys, hidden: int, heads: int, *, biased: bool = True) -> tuple[Weights, int]:
    """Multi-head attention over the whole width, and the size of a head."""
    if hidden % heads:
        raise keys.contradiction("hidden_size", "not_divisible", given=hidden, divisor=heads)
    size = hidden // heads
    weights = grouped_query_attention(
        hidden, heads, heads, size, query_bias=biased, kv_bias=biased, output_bias=biased
    )
    return weights, size


def _model(
    keys: Keys,
    layers: Sequence[LayerKind],
    outer: Weights,
    hidden: int,
    vocabulary: int,
    limit: int,
    *,
    tied: bool,
    dtype: str = "float32",
) -> Architecture:
    return assemble(
        keys,
        layers,
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=limit,
        default_dtype=dtype,
    )


def openai_gpt(keys: Keys) -> Architecture:
    """GPT: post-norm layers, learned positions, four times the width inside; transformers keeps no cache."""
    hidden = keys.integer("n_embd", default=768)
    heads = keys.integer("n_head", default=12, maximum=100_000)
    vocabulary = keys.integer("vocab_size", default=40478)
    rows = keys.integer("n_positions", default=512, maximum=MAX_CONTEXT)
    attention, size = _block(keys, hidden, heads)
    weights = (
        *attention,
        *plain_mlp(hidden, 4 * hidden, bias=True),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    kind = LayerKind((Attention(heads, heads, size, size),), weights, feed_forward_width=4 * hidden)
    tied = keys.flag("tie_word_embeddings", default=True)
    outer = (*embedding(vocabulary, hidden), *positions(rows, hidden))
    if not tied:
        outer += head(vocabulary, hidden)
    count = layer_count(keys, "n_layer")
    return _model(keys, (kind,) * count, outer, hidden, vocabulary, rows, tied=tied)


def ctrl(keys: Keys) -> Architecture:
    """CTRL: pre-norm layers, computed positions, a bias on the head."""
    hidden = keys.integer("n_embd", default=1280)
    heads = keys.integer("n_head", default=16, maximum=100_000)
    wide = keys.integer("dff", default=8192)
    vocabulary = keys.integer("vocab_size", default=246_534)
    attention, size = _block(keys, hidden, heads)
    weights = (
        *attention,
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    kind = LayerKind((Attention(heads, heads, size, size),), weights, feed_forward_width=wide)
    tied = keys.flag("tie_word_embeddings", default=True)
    return _model(
        keys,
        (kind,) * layer_count(keys, "n_layer"),
        outer_weights(hidden, vocabulary, tied=tied, final_norm="layer", head_bias=True),
        hidden,
        vocabulary,
        keys.integer("n_positions", default=256, maximum=MAX_CONTEXT),
        tied=tied,
    )


def gpt_neox_japanese(keys: Keys) -> Architecture:
    """GPT-NeoX Japanese: no biases but one, on the last layer's attention."""
    hidden = keys.integer("hidden_size", default=2560)
    heads = keys.integer("num_attention_heads", default=32, maximum=100_000)
    wide = hidden * keys.integer("intermediate_multiple_size", default=4, maximum=1000)
    vocabulary = keys.integer("vocab_size", default=32000)
    attention, size = _block(keys, hidden, heads, biased=False)
    weights = (
        *attention,
        *plain_mlp(hidden, wide),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    mixers = (Attention(heads, heads, size, size),)
    kind = LayerKind(mixers, weights, feed_forward_width=wide)
    last = LayerKind(
        mixers, (*weights, *vector("output_bias", Part.ATTENTION, hidden)), feed_forward_width=wide
    )
    tied = keys.flag("tie_word_embeddings", default=True)
    return _model(
        keys,
        (*(kind,) * (layer_count(keys) - 1), last),
        outer_weights(hidden, vocabulary, tied=tied, final_norm="layer"),
        hidden,
        vocabulary,
        keys.integer("max_position_embeddings", default=2048, maximum=MAX_CONTEXT),
        tied=tied,
    )


def cpmant(keys: Keys) -> Architecture:
    """CPM-Ant: 32 learned prompt positions before every text, cached with it; one table of relative positions."""
    hidden = keys.integer("hidden_size", default=4096)
    heads = keys.integer("num_attention_heads", default=32, maximum=100_000)
    size = keys.integer("dim_head", default=128, maximum=100_000)
    wide = keys.integer("dim_ff", default=10240)
    vocabulary = keys.integer("vocab_size", default=30720)
    kinds = keys.integer("prompt_types", default=32, maximum=100_000)
    prompt = keys.integer("prompt_length", default=32, maximum=100_000)
    segments = keys.integer("segment_types", default=32, maximum=100_000)
    buckets = keys.integer("position_bias_num_buckets", default=512)
    weights = (
        *grouped_query_attention(hidden, heads, heads, size),
        *gated_mlp(hidden, wide),
        *norm("norm", hidden, copies=2),
    )
    kept = StateTensor(2 * prompt * heads * size, shards=heads, recurrent=False)
    mixers = (Attention(heads, heads, size, size), Composite("prompt", states=(kept,)))
    tied = False  # the head is stored although the table holds the same rows
    return _model(
        keys,
        (LayerKind(mixers, weights, feed_forward_width=wide),) * layer_count(keys),
        (
            *embedding(vocabulary + kinds * prompt, hidden),
            Weight("segments", Part.EMBEDDING, segments, hidden, shape=Shape.TABLE),
            Weight(
                "relative_positions",
                Part.POSITION,
                segments**2 + buckets,
                heads,
                shape=Shape.TABLE,
            ),
            *norm("final_norm", hidden),
            *head(vocabulary, hidden),
        ),
        hidden,
        vocabulary,
        keys.integer("position_bias_max_distance", default=2048, maximum=MAX_CONTEXT),
        tied=tied,
    )


def xlm(keys: Keys) -> Architecture:
    """XLM: an encoder with a head; every token sees every other, or what came before where `causal` says so."""
    hidden = keys.integer("emb_dim", default=2048)
    heads = keys.integer("n_heads", default=16, maximum=100_000)
    vocabulary = keys.integer("vocab_size", "n_words", default=30145)
    rows = keys.integer("max_position_embeddings", default=512, maximum=MAX_CONTEXT)
    languages = keys.integer("n_langs", default=1, maximum=100_000)
    causal = keys.flag("causal", default=False)
    attention, size = _block(keys, hidden, heads)
    wide = 4 * hidden
    weights = (
        *attention,
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    mixer = Attention(heads, heads, size, size, None, False, False, causal)
    kind = LayerKind((mixer,), weights, feed_forward_width=wide, role=ENCODER)
    tied = keys.flag("tie_word_embeddings", default=True)
    extra = positions(rows, hidden)
    if languages > 1 and keys.flag("use_lang_emb", default=True):
        extra += embedding(languages, hidden, name="languages")
    return _model(
        keys,
        (kind,) * layer_count(keys, "n_layers"),
        outer_weights(
            hidden, vocabulary, tied=tied, final_norm="layer", head_bias=True, extra=extra
        ),
        hidden,
        vocabulary,
        rows,
        tied=tied,
    )


def xlnet(keys: Keys) -> Architecture:
    """XLNet: attention with relative positions and segments; hidden states of earlier text instead of a cache."""
    hidden = keys.integer("d_model", default=1024)
    heads = keys.integer("n_head", default=16, maximum=100_000)
    wide = keys.integer("d_inner", default=4096)
    vocabulary = keys.integer("vocab_size", default=32000)
    attention, size = _block(keys, hidden, heads, biased=False)
    inner = heads * size
    weights = (
        *attention,
        *linear("relative_key", Part.ATTENTION, inner, hidden),
        *vector("position_biases", Part.ATTENTION, inner, copies=3, shard=Shard.EVEN),
        *vector("segments", Part.ATTENTION, inner, copies=2, shard=Shard.EVEN),
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    mixer = Attention(heads, heads, size, size, None, False, False, False)
    kind = LayerKind((mixer,), weights, feed_forward_width=wide, role=ENCODER)
    tied = keys.flag("tie_word_embeddings", default=True)
    outer = (*embedding(vocabulary, hidden), *vector("mask", Part.EMBEDDING, hidden))
    outer += (
        vector("head_bias", Part.HEAD, vocabulary, shard=Shard.EVEN)
        if tied
        else head(vocabulary, hidden, bias=True)
    )
    return _model(
        keys,
        (kind,) * layer_count(keys, "n_layer"),
        outer,
        hidden,
        vocabulary,
        keys.integer("mem_len", default=512, maximum=MAX_CONTEXT),
        tied=tied,
    )


def prophetnet_decoder(keys: Keys) -> Architecture:
    """ProphetNet's decoder alone: relative positions from the hidden state, two future tokens predicted in training."""
    hidden = keys.integer("hidden_size", "d_model", default=1024)
    heads = keys.integer("num_decoder_attention_heads", default=16, maximum=100_000)
    wide = keys.integer("decoder_ffn_dim", default=4096)
    vocabulary = keys.integer("vocab_size", default=30522)
    rows = keys.integer("max_position_embeddings", default=512, maximum=MAX_CONTEXT)
    buckets = keys.integer("num_buckets", default=32)
    names = keys.texts("architectures") or ()
    if not (names and all(name.endswith("ForCausalLM") for name in names)):
        raise keys.contradiction("architectures", "only_the_decoder_is_described")
    crosses = keys.flag("add_cross_attention", default=True)
    attention, size = _block(keys, hidden, heads)
    weights = (
        *attention,
        *linear("relative_positions", Part.ATTENTION, buckets * heads, hidden, bias=True),
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=3 if crosses else 2),
    )
    mixers: tuple[Mixer, ...] = (Attention(heads, heads, size, size),)
    if crosses:
        for name in ("cross_query", "cross_key", "cross_value", "cross_output"):
            weights += linear(name, Part.ATTENTION, hidden, hidden, bias=True)
        mixers += (CrossAttention(heads, heads, size, size, 0),)
    tied = keys.flag("tie_word_embeddings", default=True)
    ahead = keys.integer("ngram", default=2, maximum=1000)
    extra = (
        *positions(rows, hidden),
        Weight("ngram_embedding", Part.EMBEDDING, ahead, hidden, shape=Shape.TABLE),
    )
    return _model(
        keys,
        (LayerKind(mixers, weights, feed_forward_width=wide),)
        * layer_count(keys, "num_decoder_layers"),
        outer_weights(hidden, vocabulary, tied=tied, final_norm="layer", extra=extra),
        hidden,
        vocabulary,
        rows,
        tied=tied,
    )


def git(keys: Keys) -> Architecture:
    """GIT: BERT's layers, causal, over a CLIP encoder's positions and the text; an untied head with bias."""
    hidden = keys.integer("hidden_size", default=768)
    heads = keys.integer("num_attention_heads", default=12, maximum=100_000)
    wide = keys.integer("intermediate_size", default=3072)
    vocabulary = keys.integer("vocab_size", default=30522)
    rows = keys.integer("max_position_embeddings", default=1024, maximum=MAX_CONTEXT)
    attention, size = _block(keys, hidden, heads)
    weights = (
        *attention,
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    kind = LayerKind((Attention(heads, heads, size, size),), weights, feed_forward_width=wide)
    tied = keys.flag("tie_word_embeddings", default=False)
    # The one norm outside the layers is after the embedding.
    outer = outer_weights(
        hidden,
        vocabulary,
        tied=tied,
        final_norm="layer",
        head_bias=True,
        extra=positions(rows, hidden),
    )
    return _model(keys, (kind,) * layer_count(keys), outer, hidden, vocabulary, rows, tied=tied)


def moshi(keys: Keys) -> Architecture:
    """Moshi's text decoder alone: gated layers, one table row more than tokens, a window over everything.

    Raises:
        InvalidConfig: for the whole model, whose depth decoder and audio codec aren't described.
    """
    names = keys.texts("architectures") or ()
    if not (names and all(name.endswith("ForCausalLM") for name in names)):
        raise keys.contradiction("architectures", "only_the_decoder_is_described")
    hidden = keys.integer("hidden_size", default=4096)
    heads = keys.integer("num_attention_heads", default=32, maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=heads, maximum=heads)
    size = keys.integer("head_dim", default=hidden // heads, maximum=100_000)
    wide = keys.integer("ffn_dim", default=22528, minimum=2) // 2
    vocabulary = keys.integer("vocab_size", default=32000)
    if heads % kv_heads:
        raise keys.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    window = keys.optional_integer("sliding_window", default=3000, maximum=MAX_CONTEXT)
    weights = (
        *grouped_query_attention(hidden, heads, kv_heads, size),
        *gated_mlp(hidden, wide),
        *norm("norm", hidden, copies=2),
    )
    kind = LayerKind(
        (Attention(heads, kv_heads, size, size, window),), weights, feed_forward_width=wide
    )
    return _model(
        keys,
        (kind,) * layer_count(keys),
        (
            *embedding(vocabulary + 1, hidden),
            *norm("final_norm", hidden),
            *head(vocabulary, hidden),
        ),
        hidden,
        vocabulary,
        keys.integer("max_position_embeddings", default=3000, maximum=MAX_CONTEXT),
        tied=False,
        dtype="bfloat16",
    )
