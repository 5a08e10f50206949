"""BART's and Pegasus' kin: whole encoder-decoder models, and their decoders alone where a checkpoint holds only that.

A decoder alone (`…ForCausalLM`) keeps its cross-attention's weights, and attends to nothing until it's joined to an
encoder. In a whole model, keys and values of cross-attention are made once per input, so their projections stand with
the last encoder layer: see `encoder_decoder`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.architecture.adapters import encoder_decoder
from planner.architecture.adapters.common import assemble
from planner.architecture.adapters.encoder import ENCODER
from planner.architecture.blocks import (
    Weights,
    embedding,
    grouped_query_attention,
    head,
    linear,
    norm,
    plain_mlp,
    positions,
    vector,
)
from planner.architecture.keys import MAX_CONTEXT, MAX_LAYERS, Keys
from planner.architecture.mixers import Attention, CrossAttention, Mixer
from planner.architecture.spec import Architecture, LayerKind, Part

_WHOLE_ELSEWHERE = {
    "bart": encoder_decoder.bart,
    "mbart": encoder_decoder.bart,
    "whisper": encoder_decoder.whisper,
}


@dataclass(frozen=True, slots=True)
class _Family:
    """What these models differ in; sizes are what the configuration class takes where a key is absent.

    Attributes:
        offset: rows of the position table before the first token's; None where positions are computed.
        embedding_norm, final_norm: a norm after the embedding, after the last layer of each stack.
        biased: biases on the projections; None: as `use_bias` says.
        rows: the position table.
        vocabulary: tokens.
        logits_bias: a bias on the logits that frameworks keep as a buffer; with one, tables are tied unless said.
        decoder_tied: whether the decoder alone has one table for embedding and head.
    """

    offset: int | None = 0
    embedding_norm: bool = False
    final_norm: bool = False
    biased: bool | None = True
    rows: int = 1024
    vocabulary: int = 50265
    logits_bias: bool = True
    decoder_tied: bool = True


_FAMILIES: dict[str, _Family] = {
    "bart": _Family(offset=2, embedding_norm=True),
    "bigbird_pegasus": _Family(
        embedding_norm=True, biased=None, rows=4096, vocabulary=96103, decoder_tied=False
    ),
    "blenderbot": _Family(final_norm=True, rows=128, vocabulary=8008),
    "blenderbot-small": _Family(embedding_norm=True, rows=512),
    "marian": _Family(vocabulary=58101),
    "mbart": _Family(offset=2, embedding_norm=True, final_norm=True),
    "mvp": _Family(offset=2, embedding_norm=True, vocabulary=50267),
    "pegasus": _Family(final_norm=True),
    "plbart": _Family(offset=2, embedding_norm=True, vocabulary=50005),
    "pp_formulanet_text": _Family(
        offset=2,
        embedding_norm=True,
        final_norm=True,
        rows=2560,
        vocabulary=50000,
        logits_bias=False,
    ),
}


def sequence(keys: Keys) -> Architecture:
    """BART, Pegasus, Marian, Blenderbot and others: the decoder alone where the class says so, else both stacks."""
    model_type = keys.text("model_type")
    names = keys.texts("architectures") or ()
    # PP-FormulaNet's encoder is its image tower.
    alone = model_type == "pp_formulanet_text" or (
        bool(names) and all(name.endswith("ForCausalLM") for name in names)
    )
    if model_type in _WHOLE_ELSEWHERE and not alone:
        return _WHOLE_ELSEWHERE[model_type](keys)
    if model_type == "whisper":
        return _whisper_decoder(keys)
    return _stacks(keys, _FAMILIES[model_type], alone)


def _stacks(keys: Keys, family: _Family, alone: bool) -> Architecture:
    hidden = keys.integer("d_model", "hidden_size", default=1024)
    decoders = keys.integer("decoder_layers", "num_hidden_layers", default=12, maximum=MAX_LAYERS)
    vocabulary = keys.integer("decoder_vocab_size", "vocab_size", default=family.vocabulary)
    rows = keys.integer("max_position_embeddings", default=family.rows, maximum=MAX_CONTEXT)
    biased = keys.flag("use_bias", default=False) if family.biased is None else family.biased
    prompted = keys.flag("use_prompt", default=False)
    if prompted:
        raise keys.contradiction("use_prompt", "prompts_not_described")
    tied = keys.flag("tie_word_embeddings", default=family.logits_bias)
    outer = embedding(vocabulary, hidden)
    stacks = 1 if alone else 2
    if family.offset is not None:
        for name in ("decoder_positions", "encoder_positions")[:stacks]:
            outer += positions(rows + family.offset, hidden, name=name)
    norms = (family.embedding_norm + family.final_norm) * stacks
    outer += norm("stack_norm", hidden, kind="layer", copies=norms) if norms else ()
    if alone:
        tied = tied and family.decoder_tied
    elif family.logits_bias:
        outer += vector("logits_bias", Part.HEAD, vocabulary, buffer=True)
    if not tied:
        outer += head(vocabulary, hidden)
    layers = (
        *_encoder(keys, hidden, biased, decoders, alone),
        *_decoder(keys, hidden, biased, decoders, alone),
    )
    return assemble(
        keys,
        layers,
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=rows,
        default_dtype="float32",
        modality="text" if alone else "encoder-decoder",
    )


def _attention(
    keys: Keys, name: str, hidden: int, biased: bool, default: int = 16
) -> tuple[Weights, int]:
    heads = keys.integer(name, "num_attention_heads", default=default, maximum=100_000)
    if hidden % heads:
        raise keys.contradiction(name, "not_divisible", given=hidden, divisor=heads)
    weights = grouped_query_attention(
        hidden,
        heads,
        heads,
        hidden // heads,
        query_bias=biased,
        kv_bias=biased,
        output_bias=biased,
    )
    return weights, heads


def _encoder(
    keys: Keys, hidden: int, biased: bool, decoders: int, alone: bool
) -> tuple[LayerKind, ...]:
    """Encoder layers, the last one with what cross-attention makes of its output; none for a decoder alone."""
    if alone:
        return ()
    count = keys.integer("encoder_layers", default=12, maximum=MAX_LAYERS)
    attention, heads = _attention(keys, "encoder_attention_heads", hidden, biased)
    wide = keys.integer("encoder_ffn_dim", default=4 * hidden)
    weights = (
        *attention,
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    once: Weights = ()
    for name in ("cross_key", "cross_value"):
        once += linear(name, Part.ATTENTION, hidden, hidden, bias=biased, copies=decoders)
    size = hidden // heads
    mixer = Attention(heads, heads, size, size, caches=False, causal=False)
    layer = LayerKind((mixer,), weights, feed_forward_width=wide, role=ENCODER)
    return (*(layer,) * (count - 1), replace(layer, weights=weights + once))


def _decoder(
    keys: Keys, hidden: int, biased: bool, count: int, alone: bool
) -> tuple[LayerKind, ...]:
    attention, heads = _attention(keys, "decoder_attention_heads", hidden, biased)
    wide = keys.integer("decoder_ffn_dim", "ffn_dim", default=4 * hidden)
    size = hidden // heads
    weights = (
        *attention,
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=3),
        *cross_attention(hidden, hidden, biased, whole=alone),
    )
    mixers: tuple[Mixer, ...] = (
        Attention(heads, heads, size, size),
        CrossAttention(heads, heads, size, size, 0 if alone else None),
    )
    return (LayerKind(mixers, weights, feed_forward_width=wide),) * count


def cross_attention(
    hidden: int, source: int, biased: bool, *, whole: bool = True, key_bias: bool = True
) -> Weights:
    """Query and output projections of cross-attention; with `whole`, key and value from a `source` wide state too."""
    part = Part.ATTENTION
    weights = (
        *linear("cross_query", part, hidden, hidden, bias=biased),
        *linear("cross_output", part, hidden, hidden, bias=biased, row_parallel=True),
    )
    if whole:
        weights += linear("cross_key", part, hidden, source, bias=biased and key_bias)
        weights += linear("cross_value", part, hidden, source, bias=biased)
    return weights


def _whisper_decoder(keys: Keys) -> Architecture:
    """Whisper's decoder alone, as it drafts for a larger one."""
    hidden = keys.integer("d_model", "hidden_size", default=384)
    count = keys.integer("decoder_layers", default=4, maximum=MAX_LAYERS)
    vocabulary = keys.integer("vocab_size", default=51_865)
    rows = keys.integer("max_target_positions", default=448, maximum=MAX_CONTEXT)
    tied = keys.flag("tie_word_embeddings", default=True)
    attention, heads = _attention(keys, "decoder_attention_heads", hidden, True, 6)
    wide = keys.integer("decoder_ffn_dim", default=4 * hidden)
    size = hidden // heads
    weights = (
        *(weight for weight in attention if weight.name != "key_bias"),
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=3),
        *cross_attention(hidden, hidden, True, key_bias=False),
    )
    mixers = (Attention(heads, heads, size, size), CrossAttention(heads, heads, size, size, 0))
    outer = (
        *embedding(vocabulary, hidden),
        *positions(rows, hidden),
        *norm("final_norm", hidden, kind="layer"),
    )
    if not tied:
        outer += head(vocabulary, hidden)
    return assemble(
        keys,
        (LayerKind(mixers, weights, feed_forward_width=wide),) * count,
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=rows,
        default_dtype="float32",
    )


def trocr(keys: Keys) -> Architecture:
    """TrOCR's decoder, joined to an image encoder of `cross_attention_hidden_size`."""
    hidden = keys.integer("d_model", "hidden_size", default=1024)
    count = keys.integer("decoder_layers", default=12, maximum=MAX_LAYERS)
    vocabulary = keys.integer("vocab_size", default=50_265)
    rows = keys.integer("max_position_embeddings", default=512, maximum=MAX_CONTEXT)
    source = keys.optional_integer("cross_attention_hidden_size") or hidden
    attention, heads = _attention(keys, "decoder_attention_heads", hidden, True)
    wide = keys.integer("decoder_ffn_dim", default=4 * hidden)
    tied = keys.flag("tie_word_embeddings", default=True)
    size = hidden // heads
    weights = (
        *attention,
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=3),
        *cross_attention(hidden, source, True),
    )
    outer = embedding(vocabulary, hidden)
    if keys.flag("use_learned_position_embeddings", default=True):
        outer += positions(rows + 2, hidden)
    if keys.flag("layernorm_embedding", default=True):
        outer += norm("embedding_norm", hidden, kind="layer")
    if not tied:
        outer += head(vocabulary, hidden)
    mixers = (Attention(heads, heads, size, size), CrossAttention(heads, heads, size, size, 0))
    return assemble(
        keys,
        (LayerKind(mixers, weights, feed_forward_width=wide),) * count,
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=rows,
        default_dtype="float32",
    )


def musicgen(keys: Keys) -> Architecture:
    """MusicGen's decoders: one table and one head for each codebook, no biases; Melody has no cross-attention."""
    hidden = keys.integer("hidden_size", default=1024)
    count = keys.integer("num_hidden_layers", default=24, maximum=MAX_LAYERS)
    codes = keys.integer("vocab_size", default=2048)
    books = keys.integer("num_codebooks", default=4, maximum=1000)
    wide = keys.integer("ffn_dim", default=4 * hidden)
    attention, heads = _attention(keys, "num_attention_heads", hidden, False)
    crosses = keys.text("model_type") == "musicgen_decoder"
    size = hidden // heads
    weights = (
        *attention,
        *plain_mlp(hidden, wide),
        *norm("norm", hidden, kind="layer", copies=3 if crosses else 2),
    )
    mixers: tuple[Mixer, ...] = (Attention(heads, heads, size, size),)
    if crosses:
        weights += cross_attention(hidden, hidden, False)
        mixers += (CrossAttention(heads, heads, size, size, 0),)
    return assemble(
        keys,
        (LayerKind(mixers, weights, feed_forward_width=wide),) * count,
        (
            # One more row than codes: where a codebook hasn't begun.
            *embedding(books * (codes + 1), hidden),
            *norm("final_norm", hidden, kind="layer"),
            *head(books * codes, hidden),
        ),
        hidden=hidden,
        vocabulary=books * codes,
        tied=False,
        max_context_tokens=keys.integer("max_position_embeddings", default=2048),
        default_dtype="float32",
    )
