"""Decoders that attend to an image instead of reading its tokens, and encoder-decoders that read one with the text.

Idefics, Pix2Struct, UDOP, T5Gemma 2. Without an image the cross-attention attends to nothing. Defaults are those of
each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import replace

from planner.architecture.adapters import windows
from planner.architecture.adapters.common import assemble, layer_count, outer_weights
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
    vector,
)
from planner.architecture.keys import MAX_CONTEXT, MAX_LAYERS, Keys
from planner.architecture.mixers import Attention, CrossAttention
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Weight
from planner.architecture.tower_blocks import patches
from planner.architecture.towers import towers_of


def idefics(keys: Keys) -> Architecture:
    """Idefics: Llama's layers, and before every `cross_layer_interval`-th a gated layer that attends to the image."""
    hidden = keys.integer("hidden_size", default=4096)
    heads = keys.integer("num_attention_heads", default=32, maximum=100_000)
    wide = keys.integer("intermediate_size", default=11008)
    layers = layer_count(keys)
    interval = keys.integer("cross_layer_interval", default=1, maximum=10_000)
    vision = keys.optional_section("vision_config") or Keys({}, "vision_config.")
    source = vision.integer("embed_dim", "hidden_size", default=768)
    if hidden % heads:
        raise keys.contradiction("hidden_size", "not_divisible", given=hidden, divisor=heads)
    size = hidden // heads
    normed = keys.flag("qk_layer_norms", default=False)
    head_norms = norm("head_norm", size, copies=2) if normed else ()
    gate = hidden if keys.text("alpha_type", default="float") == "vector" else 1
    plain = (
        *grouped_query_attention(hidden, heads, heads, size),
        *head_norms,
        *gated_mlp(hidden, wide),
        *norm("norm", hidden, copies=2),
    )
    part = Part.ATTENTION
    gated = (
        *linear("cross_query", part, hidden, hidden),
        *linear("cross_key", part, hidden, source),
        *linear("cross_value", part, hidden, source),
        *linear("cross_output", part, hidden, hidden, row_parallel=True),
        *head_norms,
        *gated_mlp(hidden, wide),
        *norm("cross_norm", hidden, copies=2),
        *vector("cross_gate", part, gate, copies=2),
    )
    own = Attention(heads, heads, size, size)
    crossing = CrossAttention(heads, heads, size, size, 0)
    simple = LayerKind((own,), plain, feed_forward_width=wide)
    both = LayerKind((crossing, own), (*gated, *plain), feed_forward_width=wide)
    count = layers // interval * interval
    order = [both if i % interval == 0 and i < count else simple for i in range(layers)]
    vocabulary = keys.integer("vocab_size", default=32000)
    added = keys.integer("additional_vocab_size", default=0, minimum=0)
    tied = keys.flag("tie_word_embeddings", default=False)
    extra: Weights = ()
    if added:
        extra += embedding(added, hidden, name="added_embedding")
        if not tied:
            extra += linear("added_head", Part.HEAD, added, hidden)
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied, extra=extra),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=keys.integer(
            "max_position_embeddings", default=2048, maximum=MAX_CONTEXT
        ),
    )


def pix2struct(keys: Keys) -> Architecture:
    """Pix2Struct's text decoder: T5's layers, gated, that attend to the image's patches."""
    hidden = keys.integer("hidden_size", default=768)
    heads = keys.integer("num_heads", default=12, maximum=100_000)
    wide = keys.integer("d_ff", default=2048)
    count = keys.integer("num_layers", default=12, maximum=MAX_LAYERS)
    vocabulary = keys.integer("vocab_size", default=50244)
    buckets = keys.integer("relative_attention_num_buckets", default=32)
    if hidden % heads:
        raise keys.contradiction("hidden_size", "not_divisible", given=hidden, divisor=heads)
    size = hidden // heads
    attention = grouped_query_attention(hidden, heads, heads, size)
    cross = tuple(replace(weight, name=f"cross_{weight.name}") for weight in attention)
    weights = (*attention, *cross, *gated_mlp(hidden, wide), *norm("norm", hidden, copies=3))
    kind = LayerKind(
        (Attention(heads, heads, size, size), CrossAttention(heads, heads, size, size, 0)),
        weights,
        feed_forward_width=wide,
    )
    tied = keys.flag("tie_word_embeddings", default=False)
    positions = Weight("relative_positions", Part.POSITION, buckets, heads, shape=Shape.TABLE)
    return assemble(
        keys,
        (kind,) * count,
        outer_weights(hidden, vocabulary, tied=tied, extra=(positions,)),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=keys.integer(
            "max_position_embeddings", "max_length", default=2048, maximum=MAX_CONTEXT
        ),
        default_dtype="float32",
    )


def udop(keys: Keys) -> Architecture:
    """UDOP: T5 whose encoder also reads where words stand on the page and the page's patches."""
    hidden = keys.integer("d_model", default=1024)
    heads = keys.integer("num_heads", default=16, maximum=100_000)
    size = keys.integer("d_kv", default=64, maximum=100_000)
    wide = keys.integer("d_ff", default=4096)
    encoders = keys.integer("num_layers", default=24, maximum=MAX_LAYERS)
    decoders = keys.optional_integer("num_decoder_layers", maximum=MAX_LAYERS) or encoders
    vocabulary = keys.integer("vocab_size", default=33201)
    buckets = keys.integer("relative_attention_num_buckets", default=32)
    biases = keys.sequence("relative_bias_args")
    rows = keys.integer("max_2d_position_embeddings", default=1024)
    gated = keys.text("feed_forward_proj", default="relu").startswith("gated")
    mlp = gated_mlp(hidden, wide) if gated else plain_mlp(hidden, wide)
    attention = grouped_query_attention(hidden, heads, heads, size)
    cross = tuple(replace(weight, name=f"cross_{weight.name}") for weight in attention)
    # The first of the biases by relative position is the text's own, in each stack's first layer.
    tables = 2 * (3 if biases is None else len(biases))
    patch = keys.integer("patch_size", default=16)
    elements = keys.integer("num_channels", default=3) * patch**2
    outer = (
        *embedding(vocabulary, hidden),
        Weight("relative_positions", Part.POSITION, buckets, heads, tables, shape=Shape.TABLE),
        Weight("page_positions", Part.POSITION, rows, hidden, 2, shape=Shape.TABLE),
        *patches(Part.VISION, hidden, elements, bias=True) * 2,
        *norm("final_norm", hidden, copies=2),
    )
    tied = keys.flag("tie_word_embeddings", default=True)
    outer += () if tied else head(vocabulary, hidden)
    inner = LayerKind(
        (Attention(heads, heads, size, size, caches=False, causal=False),),
        (*attention, *mlp, *norm("norm", hidden, copies=2)),
        feed_forward_width=wide,
        role=ENCODER,
    )
    outward = LayerKind(
        (Attention(heads, heads, size, size), CrossAttention(heads, heads, size, size, None)),
        (*attention, *cross, *mlp, *norm("norm", hidden, copies=3)),
        feed_forward_width=wide,
    )
    return assemble(
        keys,
        (*(inner,) * encoders, *(outward,) * decoders),
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=keys.integer("n_positions", default=512, maximum=MAX_CONTEXT),
        default_dtype="float32",
        modality="encoder-decoder",
    )


def t5gemma2(keys: Keys) -> Architecture:
    """T5Gemma 2: Gemma 3's layers as encoder and decoder; a decoder layer attends to both in one go."""
    encoder = keys.section("encoder")
    text = encoder.optional_section("text_config") or encoder
    decoder = keys.section("decoder")
    hidden = text.integer("hidden_size", default=2304)
    near = _gemma_layers(text, cached=False)
    far = _gemma_layers(decoder, cached=True)
    if decoder.integer("hidden_size", default=2304) != hidden:
        raise decoder.contradiction("hidden_size", "not_the_encoders", given=hidden)
    vocabulary = text.integer("vocab_size", default=262208)
    tied = keys.flag("tie_word_embeddings", default=True)
    outer = (
        *embedding(vocabulary, hidden),
        *vector("image_end", Part.EMBEDDING, hidden),
        *norm("final_norm", hidden, copies=2),
    )
    outer += () if tied else head(vocabulary, hidden)
    built = assemble(
        keys,
        (*near, *far),
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=decoder.integer(
            "max_position_embeddings", default=131072, maximum=MAX_CONTEXT
        ),
        modality="encoder-decoder",
    )
    wrapped = {
        "model_type": "gemma3",
        "vision_config": encoder.config.get("vision_config"),
        "text_config": {"hidden_size": hidden},
        "mm_tokens_per_image": encoder.config.get("mm_tokens_per_image"),
    }
    return replace(built, towers=towers_of(wrapped))


def _gemma_layers(keys: Keys, *, cached: bool) -> list[LayerKind]:
    hidden = keys.integer("hidden_size", default=2304)
    heads = keys.integer("num_attention_heads", default=8, maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=4, maximum=heads)
    size = keys.integer("head_dim", default=256, maximum=100_000)
    wide = keys.integer("intermediate_size", default=9216)
    bias = keys.flag("attention_bias", default=False)
    layers = keys.integer("num_hidden_layers", default=26, maximum=MAX_LAYERS)
    if heads % kv_heads:
        raise keys.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    weights = (
        *grouped_query_attention(
            hidden, heads, kv_heads, size, query_bias=bias, kv_bias=bias, output_bias=bias
        ),
        *norm("query_norm", size),
        *norm("key_norm", size),
        *gated_mlp(hidden, wide),
        *norm("norm", hidden, copies=4),
    )
    spans = windows.by_layer_type(4096, windows.every(6))(keys, layers)
    kinds: dict[int | None, LayerKind] = {}
    for window in set(spans):
        own = Attention(heads, kv_heads, size, size, window, caches=cached, causal=cached)
        # The input's keys and values are kept too, made by the same projections.
        crossing = (CrossAttention(heads, kv_heads, size, size, None),) if cached else ()
        kinds[window] = LayerKind(
            (own, *crossing),
            weights,
            feed_forward_width=wide,
            role="decoder" if cached else ENCODER,
        )
    return [kinds[window] for window in spans]
