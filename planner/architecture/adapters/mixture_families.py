"""More mixtures of experts: language models of multimodal wrappers, and families whose experts are arranged otherwise.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

import math
from dataclasses import replace

from planner.architecture.adapters import mixtures, windows
from planner.architecture.adapters.common import (
    assemble,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.decoder import Traits
from planner.architecture.adapters.decoder import architecture as build
from planner.architecture.adapters.expert_families import BIAS
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import (
    Weights,
    convolution,
    gated_mlp,
    grouped_query_attention,
    linear,
    norm,
    vector,
)
from planner.architecture.keys import MAX_EXPERTS, Keys
from planner.architecture.spec import (
    Architecture,
    Attention,
    LayerKind,
    Part,
    Recurrence,
    Shape,
    Shard,
    StateTensor,
    Weight,
)

_USE_BIAS = ("use_bias", False)
_ROUTED = ("n_routed_experts", "num_local_experts", "num_experts")


def _last_of_six_and_the_last(keys: Keys) -> windows.FullLayers:
    return lambda index, layers: (index + 1) % 6 == 0 or index == layers - 1


FAMILIES: dict[str, Traits] = {
    "aria_text": Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mixture=Mixture(
            experts=("moe_num_experts",),
            per_token=("moe_topk",),
            width=("intermediate_size",),
            shared=("moe_num_shared_experts",),
            default_shared=2,
        ),
    ),
    "beam": Traits(
        kv_heads=8,
        head_dim=128,
        max_positions=8192,
        qkv_bias=BIAS,
        output_bias=BIAS,
        norms=4,
        qk_norm="head",
        output_gate="full",
        windows=windows.by_layer_type(512, _last_of_six_and_the_last),
        mixture=Mixture(
            correction="buffer", layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(3))
        ),
    ),
    "cohere2_moe": Traits(
        names={"intermediate_size": ("prefix_dense_intermediate_size",)},
        head_dim=128,
        max_positions=8192,
        tied=True,
        qkv_bias=BIAS,
        output_bias=BIAS,
        norms=1,
        windows=windows.by_layer_type(4096, windows.every(4)),
        mixture=Mixture(
            width=("intermediate_size",),
            shared=("num_shared_experts",),
            default_shared=0,
            layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(0)),
        ),
    ),
    "glm4v_moe_text": Traits(
        kv_heads=8,
        max_positions=65536,
        qkv_bias=("attention_bias", True),
        mixture=Mixture(
            experts=_ROUTED,
            shared=("n_shared_experts",),
            default_shared=1,
            correction="buffer",
            layers=mixtures.after_first_dense(1),
        ),
    ),
    # Full attention over the prompt, a window over what is generated: what is kept grows by the prompt.
    "unlimited_ocr_text": Traits(
        max_positions=32768,
        reads_head_dim=False,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mixture=Mixture(
            experts=_ROUTED,
            shared=("n_shared_experts",),
            default_shared=2,
            layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(1)),
        ),
    ),
}


def architecture(keys: Keys) -> Architecture:
    """The architecture of a decoder with experts of any family in the table."""
    return build(keys, FAMILIES[keys.text("model_type")])


def beam(keys: Keys) -> Architecture:
    """Beam: gated attention with one gate bias per head, windows on five layers of six, experts after three layers."""
    built = architecture(keys)
    heads = keys.integer("num_attention_heads")
    return _in_every_layer(built, vector("gate_bias", Part.ATTENTION, heads, shard=Shard.EVEN))


def glm4v_moe(keys: Keys) -> Architecture:
    """GLM-4.5V's decoder, whose head size is rounded down where heads don't divide the hidden size."""
    heads = keys.integer("num_attention_heads", maximum=100_000)
    size = keys.optional_integer("head_dim") or keys.integer("hidden_size") // heads
    return architecture(Keys({**keys.config, "head_dim": size}, keys.prefix))


def ernie_vl(keys: Keys) -> Architecture:
    """ERNIE 4.5 VL: experts for text and narrower ones for images, each with its router, and shared ones for both.

    A text token passes through the text experts; the image experts lie idle.
    """
    widths = keys.integers("moe_intermediate_size", length=2, minimum=1) or (1536, 512)
    counts = keys.config.get("moe_num_experts")
    if isinstance(counts, list):
        experts, of_images = keys.integers("moe_num_experts", length=2, minimum=1) or (64, 64)
    else:
        experts = of_images = keys.integer("moe_num_experts", default=64, maximum=MAX_EXPERTS)
    flat = {**keys.config, "moe_intermediate_size": widths[0], "moe_num_experts": experts}
    traits = Traits(
        kv_heads=4,
        max_positions=131072,
        tied=True,
        qkv_bias=_USE_BIAS,
        output_bias=_USE_BIAS,
        mlp_bias=_USE_BIAS,
        mixture=Mixture(
            experts=("moe_num_experts",),
            per_token=("moe_k",),
            default_per_token=6,
            shared=("moe_num_shared_experts",),
            default_shared=2,
            shared_bias=_USE_BIAS,
            correction="parameter",
            layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(1)),
        ),
    )
    built = build(Keys(flat, keys.prefix), traits)
    hidden = built.hidden_size
    # Not in the token loop of text, so no part of what routed experts cost.
    images = (
        *linear("image_router", Part.VISION, of_images, hidden, shard=Shard.NONE),
        *vector("image_router_correction", Part.VISION, of_images, dtype="float32"),
        *gated_mlp(hidden, widths[1], part=Part.VISION, copies=of_images),
    )
    images = tuple(replace(weight, shape=_not_multiplied(weight)) for weight in images)
    kinds = tuple(
        replace(kind, weights=kind.weights + images) if kind.experts else kind
        for kind in built.layer_kinds
    )
    return replace(built, layer_kinds=kinds)


def _not_multiplied(weight: Weight) -> Shape:
    return Shape.TABLE if weight.shape is Shape.LINEAR else weight.shape


def muse_spark(keys: Keys) -> Architecture:
    """Muse Spark: experts in a narrower space behind a projection each way, gated attention, gated residuals."""
    hidden = keys.integer("hidden_size")
    inner = keys.integer("moe_hidden_size")
    layers = layer_count(keys)
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=16, maximum=heads)
    head_dim = keys.integer("head_dim", default=64, maximum=100_000)
    if heads % kv_heads:
        raise keys.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    bias = keys.flag("attention_bias", default=False)
    rest = (
        *grouped_query_attention(
            hidden,
            heads,
            kv_heads,
            head_dim,
            query_bias=bias,
            kv_bias=bias,
            output_bias=bias,
            output_gate=heads * head_dim,
        ),
        # The norm after attention has no weight.
        *norm("norm", hidden, copies=3),
        *vector("residual_gate", Part.NORM, hidden, copies=2, dtype="float32"),
    )
    mixture = Mixture(experts=("num_local_experts", "num_experts"), correction="buffer")
    sparse = mixtures.by_mlp_layer_type(mixtures.all_sparse)(keys, layers)
    experts = mixture.read(keys)
    routed = (
        *(
            replace(weight, columns=hidden) if weight.name == "router" else weight
            for weight in mixture.weights(keys, inner, experts)
        ),
        *linear("expert_space_in", Part.FEED_FORWARD, inner, hidden, shard=Shard.NONE),
        *linear("expert_space_out", Part.FEED_FORWARD, hidden, inner, shard=Shard.NONE),
        *norm("expert_space_norm", inner, copies=2),
    )
    wide = 0 if all(sparse) else keys.integer("intermediate_size")
    spans = windows.by_layer_type(2048, windows.counted_from_the_end(4))(keys, layers)
    kinds: dict[tuple[bool, int | None], LayerKind] = {}
    order = []
    for is_sparse, window in zip(sparse, spans, strict=True):
        if (is_sparse, window) not in kinds:
            mixer = Attention(heads, kv_heads, head_dim, head_dim, window)
            kinds[is_sparse, window] = (
                LayerKind(
                    (mixer,),
                    (*rest, *routed),
                    experts.count,
                    experts.per_token,
                    experts.active_width,
                )
                if is_sparse
                else LayerKind((mixer,), (*rest, *gated_mlp(hidden, wide)), feed_forward_width=wide)
            )
        order.append(kinds[is_sparse, window])
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=1048576),
    )


def jetmoe(keys: Keys) -> Architecture:
    """JetMoE: experts for the query and output projections too; keys and values are shared by a token's experts."""
    hidden = keys.integer("hidden_size", default=2048)
    kv_heads = keys.integer("num_key_value_heads", default=16, maximum=100_000)
    size = keys.integer("kv_channels", default=128, maximum=100_000)
    count = keys.integer("num_local_experts", default=8, maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=2, maximum=count)
    wide = keys.integer("intermediate_size", default=5632)
    inner = kv_heads * size
    shard, part = Shard.EXPERTS, Part.EXPERTS
    weights = (
        *linear("query", part, inner, hidden, copies=count, shard=shard),
        *linear("output", part, hidden, inner, copies=count, shard=shard),
        *linear("attention_router", Part.ROUTER, count, hidden, shard=Shard.NONE),
        *linear(
            "key_value",
            Part.ATTENTION,
            2 * inner,
            hidden,
            shard=Shard.KV_HEADS,
            kv_heads=kv_heads,
        ),
        *linear("router", Part.ROUTER, count, hidden, shard=Shard.NONE),
        *gated_mlp(hidden, wide, part=part, copies=count, shard=shard),
        *vector("mixture_bias", Part.FEED_FORWARD, hidden, copies=2),
        *norm("norm", hidden, copies=2),
    )
    # Each chosen expert brings one query head per key/value head.
    mixer = Attention(chosen * kv_heads, kv_heads, size, size)
    kind = LayerKind((mixer,), weights, count, chosen, chosen * wide)
    vocabulary = keys.integer("vocab_size", default=32000)
    tied = keys.flag("tie_word_embeddings", default=True)
    return assemble(
        keys,
        (kind,) * layer_count(keys),
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=4096),
    )


def zaya(keys: Keys) -> Architecture:
    """Zaya: attention on convolved, compressed queries and keys, values half of them from the token before.

    The router is a small network that also reads the last layer's routing state; one more expert does nothing.
    """
    hidden = keys.integer("hidden_size")
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=2, maximum=heads)
    size = keys.integer("head_dim", default=128, maximum=100_000)
    bias = keys.flag("attention_bias", default=False)
    wide = keys.integer("moe_intermediate_size")
    experts = keys.integer("num_experts", maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=1, maximum=experts)
    router = keys.integer("router_hidden_size", default=256)
    taps = keys.integer("cca_time0", default=2), keys.integer("cca_time1", default=2)
    if heads % kv_heads or kv_heads * size % 2:
        raise keys.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    channels = (heads + kv_heads) * size
    part = Part.ATTENTION
    attention = (
        *grouped_query_attention(
            hidden, heads, kv_heads, size, query_bias=bias, kv_bias=bias, output_bias=bias
        ),
        *convolution("depthwise_convolution", part, channels, taps[0], bias=True),
        *convolution("grouped_convolution", part, channels, size * taps[1], bias=True),
        *vector("key_temperature", part, kv_heads, shard=Shard.KV_HEADS, kv_heads=kv_heads),
        *norm("norm", hidden, copies=2),
        *vector("residual_scale", Part.NORM, hidden, copies=8),
    )
    feed_forward = (
        *linear("router_down", Part.ROUTER, router, hidden, bias=True, shard=Shard.NONE),
        *norm("router_norm", router, part=Part.ROUTER),
        *linear("router_1", Part.ROUTER, router, router, bias=True, shard=Shard.NONE),
        *linear("router_2", Part.ROUTER, router, router, bias=True, shard=Shard.NONE),
        *linear("router", Part.ROUTER, experts + 1, router, shard=Shard.NONE),
        *vector("router_correction", Part.ROUTER, experts + 1, dtype="float32", buffer=True),
        *gated_mlp(hidden, wide, part=Part.EXPERTS, copies=experts, shard=Shard.EXPERTS),
    )
    # Inputs of the two convolutions, and of the values that come a token late.
    past = StateTensor(channels * (taps[0] + taps[1] - 2), shards=heads)
    late = StateTensor(hidden)
    mixers = (
        Attention(heads, kv_heads, size, size),
        Recurrence("short_convolution", (past, late), 0.0),
    )
    first = LayerKind(mixers, (*attention, *feed_forward), experts, chosen, chosen * wide)
    carries = vector("router_state_scale", Part.ROUTER, router)
    other = replace(first, weights=first.weights + carries)
    layers = layer_count(keys)
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=True)
    head_bias = keys.flag("lm_head_bias", default=False)
    return assemble(
        keys,
        (first, *(other,) * (layers - 1)),
        outer_weights(
            hidden,
            vocabulary,
            tied=tied,
            head_bias=head_bias,
            extra=vector("input_scale", Part.NORM, hidden, copies=2),
        ),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=131072),
    )


def doge(keys: Keys) -> Architecture:
    """Doge: a learned mask from the values, scaled residuals; with experts, thousands of one neuron each.

    Experts are found by two half keys, so the router scores 2·√E of them; a dense feed-forward stands beside.
    """
    traits = Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=("mlp_bias", False),
        qk_norm="head",
        windows=windows.uniform(None),
    )
    built = build(keys, traits)
    hidden = built.hidden_size
    mixer = built.layer_kinds[0].mixers[0]
    assert isinstance(mixer, Attention)
    kv_heads, inner = mixer.kv_heads, mixer.kv_heads * mixer.key_dim
    bias = keys.flag("attention_bias", default=False)
    added: Weights = (
        *vector("residual_scale", Part.NORM, hidden, copies=2),
        *vector("mask_scale", Part.ATTENTION, kv_heads, shard=Shard.KV_HEADS, kv_heads=kv_heads),
        *linear("mask", Part.ATTENTION, kv_heads, inner, bias=bias, shard=Shard.NONE),
    )
    if not keys.flag("is_moe", default=False):
        return _in_every_layer(built, added)
    experts = keys.integer("num_experts", default=16384, maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=64, maximum=experts)
    added += linear("router", Part.ROUTER, 2 * math.isqrt(experts), hidden, shard=Shard.NONE)
    for name in ("up", "down"):
        added += linear(
            f"expert_{name}", Part.EXPERTS, 1, hidden, copies=experts, shard=Shard.EXPERTS
        )
    routed = _in_every_layer(built, added)
    kinds = tuple(
        replace(
            kind,
            experts=experts,
            experts_per_token=chosen,
            feed_forward_width=kind.feed_forward_width + chosen,
        )
        for kind in routed.layer_kinds
    )
    return replace(routed, layer_kinds=kinds)


def _in_every_layer(built: Architecture, weights: Weights) -> Architecture:
    kinds = tuple(replace(kind, weights=kind.weights + weights) for kind in built.layer_kinds)
    return replace(built, layer_kinds=kinds)
