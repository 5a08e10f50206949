"""Encoder-decoder models: an encoder over the input, once, and a decoder that attends to its own past and to that.

The keys and values of cross-attention are made from the encoder's output once per input, so their projections stand
with the last encoder layer: a decoded token neither computes nor reads them.
"""

from __future__ import annotations

from dataclasses import replace

from planner.architecture.adapters.common import assemble
from planner.architecture.blocks import (
    Weights,
    embedding,
    gated_mlp,
    grouped_query_attention,
    head,
    norm,
    plain_mlp,
    positions,
    vector,
)
from planner.architecture.keys import MAX_CONTEXT, MAX_LAYERS, Keys
from planner.architecture.mixers import Attention, CrossAttention
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Weight
from planner.architecture.tower_audio import whisper_front

ENCODER = "encoder"


def t5(keys: Keys) -> Architecture:
    """T5 and Flan-T5: RMS norms, no biases, relative positions in one table per stack.

    References:
        T5, arXiv 1910.10683.
    """
    hidden = keys.integer("d_model", "hidden_size", default=512)
    heads = keys.integer("num_heads", "num_attention_heads", default=8, maximum=100_000)
    size = keys.integer("d_kv", default=64, maximum=100_000)
    wide = keys.integer("d_ff", default=2048)
    encoders = keys.integer("num_layers", "num_hidden_layers", default=6, maximum=MAX_LAYERS)
    decoders = keys.integer("num_decoder_layers", default=encoders, maximum=MAX_LAYERS)
    vocabulary = keys.integer("vocab_size", default=32_128)
    gated = keys.text("feed_forward_proj", default="relu").startswith("gated")
    mlp = gated_mlp(hidden, wide) if gated else plain_mlp(hidden, wide)
    attention = grouped_query_attention(hidden, heads, heads, size)
    buckets = keys.integer("relative_attention_num_buckets", default=32)
    tied = keys.flag("tie_word_embeddings", default=True)
    outer = (
        *embedding(vocabulary, hidden),
        Weight("relative_positions", Part.POSITION, buckets, heads, 2, shape=Shape.TABLE),
        *norm("final_norm", hidden, copies=2),
    )
    if not tied:
        outer += head(vocabulary, hidden)
    layers = _stacks(
        encoders,
        decoders,
        encoder=(*attention, *mlp, *norm("norm", hidden, copies=2)),
        decoder=(*attention, *mlp, *norm("norm", hidden, copies=3)),
        mixers=_mixers(heads, heads, size, source_tokens=None),
        cross=attention,
        wide=(wide, wide),
    )
    return assemble(
        keys,
        layers,
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=keys.integer("n_positions", default=512, maximum=MAX_CONTEXT),
        default_dtype="float32",
        modality="encoder-decoder",
    )


def bart(keys: Keys) -> Architecture:
    """BART and mBART: biased layers with layer norms, learned positions from row two, tied tables."""
    hidden = keys.integer("d_model", "hidden_size", default=1024)
    encoders = keys.integer("encoder_layers", default=12, maximum=MAX_LAYERS)
    decoders = keys.integer("decoder_layers", default=12, maximum=MAX_LAYERS)
    near = keys.integer("encoder_attention_heads", default=16, maximum=100_000)
    far = keys.integer("decoder_attention_heads", default=16, maximum=100_000)
    vocabulary = keys.integer("vocab_size", default=50_265)
    rows = keys.integer("max_position_embeddings", default=1024, maximum=MAX_CONTEXT)
    # mBART norms each stack's output as well.
    stacks = 4 if keys.text("model_type") == "mbart" else 2
    outer = (
        *embedding(vocabulary, hidden),
        *positions(rows + 2, hidden, name="encoder_positions"),
        *positions(rows + 2, hidden, name="decoder_positions"),
        *norm("stack_norm", hidden, kind="layer", copies=stacks),
        *vector("logits_bias", Part.HEAD, vocabulary, buffer=True),
    )
    return _biased(keys, hidden, encoders, decoders, (near, far), vocabulary, outer, rows, None)


def whisper(keys: Keys) -> Architecture:
    """Whisper: two convolutions over 30 seconds of mel frames, 1,500 encoder positions, a decoder of 448 tokens.

    References:
        Whisper, arXiv 2212.04356.
    """
    hidden = keys.integer("d_model", "hidden_size", default=384)
    encoders = keys.integer("encoder_layers", default=4, maximum=MAX_LAYERS)
    decoders = keys.integer("decoder_layers", default=4, maximum=MAX_LAYERS)
    near = keys.integer("encoder_attention_heads", default=6, maximum=100_000)
    far = keys.integer("decoder_attention_heads", default=6, maximum=100_000)
    vocabulary = keys.integer("vocab_size", default=51_865)
    source = keys.integer("max_source_positions", default=1500, maximum=MAX_CONTEXT)
    target = keys.integer("max_target_positions", default=448, maximum=MAX_CONTEXT)
    outer = (
        *whisper_front(hidden, keys.integer("num_mel_bins", default=80), source),
        *embedding(vocabulary, hidden),
        *positions(target, hidden),
        *norm("final_norm", hidden, kind="layer", copies=2),
    )
    return _biased(
        keys,
        hidden,
        encoders,
        decoders,
        (near, far),
        vocabulary,
        outer,
        target,
        source,
        key_bias=False,
        modality="audio-text",
    )


def _biased(
    keys: Keys,
    hidden: int,
    encoders: int,
    decoders: int,
    heads: tuple[int, int],
    vocabulary: int,
    outer: Weights,
    context: int,
    source_tokens: int | None,
    *,
    key_bias: bool = True,
    modality: str = "encoder-decoder",
) -> Architecture:
    """Stacks of biased layers with layer norms, as BART and Whisper have them."""
    near, far = heads
    for name, count in zip(("encoder", "decoder"), heads, strict=True):
        if hidden % count:
            raise keys.contradiction(
                f"{name}_attention_heads", "not_divisible", given=hidden, divisor=count
            )
    widths = (
        keys.integer("encoder_ffn_dim", default=4 * hidden),
        keys.integer("decoder_ffn_dim", default=4 * hidden),
    )
    attention = tuple(
        weight
        for weight in grouped_query_attention(
            hidden,
            far,
            far,
            hidden // far,
            query_bias=True,
            kv_bias=True,
            output_bias=True,
        )
        if key_bias or weight.name != "key_bias"
    )
    layers = _stacks(
        encoders,
        decoders,
        encoder=(
            *attention,
            *plain_mlp(hidden, widths[0], bias=True),
            *norm("norm", hidden, kind="layer", copies=2),
        ),
        decoder=(
            *attention,
            *plain_mlp(hidden, widths[1], bias=True),
            *norm("norm", hidden, kind="layer", copies=3),
        ),
        mixers=_mixers(near, far, hidden // far, source_tokens, hidden // near),
        cross=attention,
        wide=widths,
    )
    tied = keys.flag("tie_word_embeddings", default=True)
    if not tied:
        outer += head(vocabulary, hidden)
    return assemble(
        keys,
        layers,
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=context,
        default_dtype="float32",
        modality=modality,
    )


Mixers = tuple[Attention, Attention, CrossAttention]


def _mixers(
    near: int, far: int, size: int, source_tokens: int | None, near_size: int | None = None
) -> Mixers:
    inner = near_size or size
    return (
        Attention(near, near, inner, inner, caches=False, causal=False),
        Attention(far, far, size, size),
        CrossAttention(far, far, size, size, source_tokens),
    )


def _stacks(
    encoders: int,
    decoders: int,
    *,
    encoder: Weights,
    decoder: Weights,
    mixers: Mixers,
    cross: Weights,
    wide: tuple[int, int],
) -> list[LayerKind]:
    """Encoder layers, the last with the projections for all decoder layers' cross-attention, then decoder layers."""
    bidirectional, causal, crossing = mixers
    once, each = _split(cross, decoders)
    inner = LayerKind((bidirectional,), encoder, feed_forward_width=wide[0], role=ENCODER)
    last = LayerKind((bidirectional,), (*encoder, *once), feed_forward_width=wide[0], role=ENCODER)
    outer = LayerKind((causal, crossing), (*decoder, *each), feed_forward_width=wide[1])
    return [*(inner,) * (encoders - 1), last, *(outer,) * decoders]


def _split(cross: Weights, decoders: int) -> tuple[Weights, Weights]:
    """Cross-attention's weights that run once per input (of all decoder layers), and those of every decoded token."""
    once: Weights = ()
    each: Weights = ()
    for weight in cross:
        renamed = replace(weight, name=f"cross_{weight.name}")
        if weight.name.startswith(("key", "value")):
            once += (replace(renamed, copies=decoders),)
        else:
            each += (renamed,)
    return once, each
