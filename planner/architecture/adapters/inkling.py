"""Inkling: attention with learned relative positions, and short convolutions on keys, values and both blocks' outputs.

Defaults are those of the configuration class in transformers 5.24.
"""

from __future__ import annotations

from planner.architecture.adapters import mixtures
from planner.architecture.adapters.common import layer_count
from planner.architecture.adapters.decoder import query_key_norms
from planner.architecture.adapters.latent_families import finish
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
from planner.architecture.mixers import Attention, Composite, Recurrence, StateTensor
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Shard, Weight


def inkling(keys: Keys) -> Architecture:
    """Inkling: as above, windows on five layers of six, experts from the start unless the file says otherwise."""
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    local = keys.integers("local_layer_ids", maximum=10_000)
    given = keys.texts("layer_types", length=layers)
    if given is not None:
        slides = tuple(kind == "hybrid_sliding" for kind in given)
    elif local is not None:
        slides = tuple(index in local for index in range(layers))
    else:
        slides = tuple((index + 1) % 6 != 0 for index in range(layers))
    window = keys.integer("sliding_window_size", "sliding_window", default=512)
    kernel = keys.integer("conv_kernel_size", "sconv_kernel_size", default=4, maximum=1000)
    relative = keys.integer("d_rel", default=16, maximum=100_000)
    shared = keys.integer("n_shared_experts", default=2, minimum=0, maximum=MAX_EXPERTS)
    dense = keys.integer("dense_mlp_idx", default=0, minimum=0)
    sparse = mixtures.by_mlp_layer_type(mixtures.after_first_dense(dense))(keys, layers)
    experts = keys.integer("n_routed_experts", "num_experts", maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=6, maximum=experts)
    stated = keys.has("dense_intermediate_size")
    width = keys.integer("intermediate_size" if stated else "moe_intermediate_size")
    routed = (
        # A token's shared experts are weighted by the router too.
        *linear("router", Part.ROUTER, experts + shared, hidden, shard=Shard.NONE),
        *vector("router_scale", Part.ROUTER, 1, dtype="float32"),
        *vector("router_correction", Part.ROUTER, experts, dtype="float32", buffer=True),
        *gated_mlp(hidden, width, part=Part.EXPERTS, copies=experts, shard=Shard.EXPERTS),
        *gated_mlp(hidden, width * shared, part=Part.SHARED_EXPERTS),
    )
    kinds: dict[tuple[bool, bool], LayerKind] = {}
    order = []
    for pair in zip(sparse, slides, strict=True):
        if pair not in kinds:
            is_sparse, sliding = pair
            prefix = "swa_" if sliding else ""
            heads = keys.integer(f"{prefix}num_attention_heads", default=64, maximum=100_000)
            kv = keys.integer(
                f"{prefix}num_key_value_heads", default=16 if sliding else 8, maximum=heads
            )
            size = keys.integer(f"{prefix}head_dim", default=128, maximum=100_000)
            if heads % kv:
                raise keys.contradiction(
                    f"{prefix}num_key_value_heads", "not_divisible", given=heads, divisor=kv
                )
            extent = window if sliding else keys.integer("rel_extent", default=1024)
            part = Part.ATTENTION
            rest = (
                *grouped_query_attention(hidden, heads, kv, size),
                *query_key_norms("head", heads, kv, size),
                *linear("relative", part, heads * relative, hidden),
                *_bare("relative_positions", part, relative, extent),
                *convolution("key_convolution", part, kv * size, kernel),
                *convolution("value_convolution", part, kv * size, kernel),
                *convolution("attention_convolution", part, hidden, kernel),
                *convolution("mlp_convolution", Part.FEED_FORWARD, hidden, kernel),
                *norm("norm", hidden, copies=2),
            )
            past = StateTensor((2 * kv * size + 2 * hidden) * (kernel - 1), taps=kernel)
            mixers = (
                Attention(heads, kv, size, size, window if sliding else None),
                Recurrence("short_convolution", (past,), 0.0),
                # Each head multiplies the table of positions; the weight stands for one.
                Composite(
                    "relative_positions", recurrent_flops=2.0 * (heads - 1) * relative * extent
                ),
            )
            if is_sparse:
                kinds[pair] = LayerKind(
                    mixers, (*rest, *routed), experts, chosen, (chosen + shared) * width
                )
            else:
                wide = keys.integer("dense_intermediate_size", "intermediate_size")
                mlp = (*gated_mlp(hidden, wide), *vector("mlp_scale", Part.FEED_FORWARD, 1))
                kinds[pair] = LayerKind(mixers, (*rest, *mlp), feed_forward_width=wide)
        order.append(kinds[pair])
    return finish(keys, order, hidden, 131072, norm("embedding_norm", hidden))


def _bare(name: str, part: Part, rows: int, columns: int) -> Weights:
    """A matrix product whose weight is no linear layer in the published code, so formats leave it as it is."""
    return (Weight(name, part, rows, columns, shape=Shape.CONVOLUTION),)
