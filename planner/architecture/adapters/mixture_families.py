"""More mixtures of experts: language models of multimodal wrappers, and families whose experts are arranged otherwise.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

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
    gated_mlp,
    grouped_query_attention,
    linear,
    norm,
    vector,
)
from planner.architecture.keys import MAX_EXPERTS, Keys
from planner.architecture.mixers import Attention
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Shard, Weight

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
    "deepseek_ocr2_text": Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mixture=Mixture(
            experts=_ROUTED,
            shared=("n_shared_experts",),
            default_shared=2,
            layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(1)),
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
    return in_every_layer(built, vector("gate_bias", Part.ATTENTION, heads, shard=Shard.EVEN))


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


def in_every_layer(built: Architecture, weights: Weights) -> Architecture:
    """The same architecture with further weights in each of its layers."""
    kinds = tuple(replace(kind, weights=kind.weights + weights) for kind in built.layer_kinds)
    return replace(built, layer_kinds=kinds)
