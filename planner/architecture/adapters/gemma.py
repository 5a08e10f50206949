"""Gemma 3n and Gemma 4: caches shared between layers, per-layer embeddings, and geometry that varies by layer type.

Defaults are those of Gemma3nTextConfig and Gemma4TextConfig in transformers 5.24. Layers that reuse another layer's
keys and values don't need projections for them, but checkpoints hold them: they're counted as buffers.
"""

from __future__ import annotations

from dataclasses import replace

from planner.architecture.adapters import windows
from planner.architecture.adapters.common import (
    assemble,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import (
    Weights,
    gated_mlp,
    grouped_query_attention,
    linear,
    norm,
    vector,
)
from planner.architecture.keys import Keys
from planner.architecture.mixers import Attention
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Shard, Weight

_GEMMA4_EXPERTS = Mixture(experts=("num_experts",), per_token=("top_k_experts",))


def gemma3n(keys: Keys) -> Architecture:
    """Gemma 3n's language model: AltUp, LAuReL, per-layer embeddings, the last layers' caches shared."""
    hidden = keys.integer("hidden_size")
    layers = layer_count(keys)
    heads, kv_heads = _heads(keys, default_kv_heads=2)
    head_dim = keys.integer("head_dim", default=256, maximum=100_000)
    bias = keys.flag("attention_bias", default=False)
    widths = _widths(keys, layers)
    types = windows.layer_types(keys, layers, windows.every(5, None))
    window = windows.sliding_window(keys, 512)
    stores = _stores(keys, types, default_shared=15)
    inputs = keys.integer("altup_num_inputs", default=4, maximum=64)
    rank = keys.integer("laurel_rank", default=64)
    per_layer = keys.integer("hidden_size_per_layer_input", default=256)
    rest = (
        *norm("norm", hidden, copies=4),
        *linear("laurel_left", Part.FEED_FORWARD, rank, hidden, shard=Shard.NONE),
        *linear("laurel_right", Part.FEED_FORWARD, hidden, rank, shard=Shard.NONE),
        *norm("laurel_norm", hidden),
        *vector("altup_scale", Part.FEED_FORWARD, hidden),
        *linear("altup_correction", Part.FEED_FORWARD, inputs, inputs, shard=Shard.NONE),
        *linear("altup_prediction", Part.FEED_FORWARD, inputs**2, inputs, shard=Shard.NONE),
        *linear("altup_router", Part.FEED_FORWARD, inputs, hidden, shard=Shard.NONE),
        *norm("altup_norm", hidden),
        *_per_layer_input(hidden, per_layer),
    )
    kinds: dict[tuple[int, str, bool], LayerKind] = {}
    order = []
    for key in zip(widths, types, stores, strict=True):
        if key not in kinds:
            width, kind, own_cache = key
            attention = _attention(hidden, heads, kv_heads, head_dim, bias, own_cache=own_cache)
            kinds[key] = LayerKind(
                (
                    Attention(
                        heads,
                        kv_heads,
                        head_dim,
                        head_dim,
                        window if kind == windows.SLIDING else None,
                        caches=own_cache,
                    ),
                ),
                (*attention, *rest, *gated_mlp(hidden, width)),
                feed_forward_width=width,
            )
        order.append(kinds[key])
    mixing = linear(
        "altup_projection", Part.EMBEDDING, hidden, hidden, copies=inputs - 1, shard=Shard.NONE
    ) + linear("altup_unembedding", Part.HEAD, hidden, hidden, copies=inputs - 1, shard=Shard.NONE)
    return _finish(
        keys, order, hidden, per_layer, extra=mixing if inputs > 1 else (), default_positions=32768
    )


def gemma4(keys: Keys) -> Architecture:
    """Gemma 4's language model: wider heads on full-attention layers, whose values may be made from the keys; experts
    beside the dense feed-forward where `enable_moe_block` is set."""
    hidden = keys.integer("hidden_size")
    layers = layer_count(keys)
    heads, kv_heads = _heads(keys, default_kv_heads=4)
    head_dim = keys.integer("head_dim", default=256, maximum=100_000)
    bias = keys.flag("attention_bias", default=False)
    width = keys.integer("intermediate_size")
    types = windows.layer_types(keys, layers, windows.every(6, None))
    # The last layer attends to everything whatever the pattern says.
    types = (*types[:-1], windows.FULL)
    window = windows.sliding_window(keys, 512)
    stores = _stores(keys, types, default_shared=0)
    reuse = keys.flag("attention_k_eq_v", default=False)
    global_dim = keys.integer("global_head_dim", default=512, maximum=100_000)
    global_kv_heads = (
        keys.optional_integer("num_global_key_value_heads", maximum=heads) if reuse else None
    ) or kv_heads
    wide = keys.flag("use_double_wide_mlp", default=False)
    per_layer = keys.integer("hidden_size_per_layer_input", default=256, minimum=0)
    sparse = keys.flag("enable_moe_block", default=False)
    experts = _GEMMA4_EXPERTS.read(keys) if sparse else None
    rest = norm("norm", hidden, copies=7 if sparse else 4) + vector(
        "layer_scalar", Part.NORM, 1, buffer=True
    )
    if per_layer:
        rest += _per_layer_input(hidden, per_layer)
    if experts:
        rest += _GEMMA4_EXPERTS.weights(keys, hidden, experts)
        rest += vector("router_scale", Part.ROUTER, hidden)
        rest += vector("expert_scale", Part.ROUTER, experts.count)
    kinds: dict[tuple[str, bool], LayerKind] = {}
    order = []
    for key in zip(types, stores, strict=True):
        if key not in kinds:
            kind, own_cache = key
            full = kind == windows.FULL
            d = global_dim if full else head_dim
            k = global_kv_heads if full else kv_heads
            own_width = width * (2 if wide and not own_cache else 1)
            attention = _attention(
                hidden, heads, k, d, bias, own_cache=own_cache, value_reuses_key=reuse and full
            )
            kinds[key] = LayerKind(
                (Attention(heads, k, d, d, None if full else window, caches=own_cache),),
                (*attention, *rest, *gated_mlp(hidden, own_width)),
                experts.count if experts else 0,
                experts.per_token if experts else 0,
                own_width + (experts.active_width if experts else 0),
            )
        order.append(kinds[key])
    return _finish(keys, order, hidden, per_layer, default_positions=131072)


def _heads(keys: Keys, default_kv_heads: int) -> tuple[int, int]:
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=default_kv_heads, maximum=heads)
    if heads % kv_heads:
        raise keys.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    return heads, kv_heads


def _widths(keys: Keys, layers: int) -> tuple[int, ...]:
    """One intermediate size for all layers, or a list of them."""
    if isinstance(keys.config.get("intermediate_size"), (list, tuple)):
        return keys.integers("intermediate_size", length=layers, minimum=1) or ()
    return (keys.integer("intermediate_size"),) * layers


def _stores(keys: Keys, types: tuple[str, ...], default_shared: int) -> tuple[bool, ...]:
    """Which layers keep keys and values: all but the last `num_kv_shared_layers`, which read the last unshared layer
    of their own type."""
    layers = len(types)
    shared = keys.integer("num_kv_shared_layers", default=default_shared, minimum=0, maximum=layers)
    first = layers - shared
    if set(types[first:]) - set(types[:first]):
        raise keys.contradiction("num_kv_shared_layers", "nothing_to_share", given=shared)
    return tuple(index < first for index in range(layers))


def _attention(
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    bias: bool,
    *,
    own_cache: bool,
    value_reuses_key: bool = False,
) -> Weights:
    weights = grouped_query_attention(
        hidden,
        heads,
        kv_heads,
        head_dim,
        query_bias=bias,
        kv_bias=bias,
        output_bias=bias,
        value_reuses_key=value_reuses_key,
    )
    weights += norm("query_norm", head_dim) + norm("key_norm", head_dim)
    if own_cache:
        return weights
    unused = ("key", "key_bias", "value", "value_bias", "key_norm")
    return tuple(
        replace(weight, buffer=True) if weight.name in unused else weight for weight in weights
    )


def _per_layer_input(hidden: int, width: int) -> Weights:
    """The gate and projection of a layer's own embedding, and this layer's share of the projection that makes it."""
    part, shard = Part.FEED_FORWARD, Shard.NONE
    return (
        *linear("per_layer_gate", part, width, hidden, shard=shard),
        *linear("per_layer_projection", part, hidden, width, shard=shard),
        *linear("per_layer_model_projection", part, width, hidden, shard=shard),
        *norm("per_layer_norm", hidden),
    )


def _finish(
    keys: Keys,
    order: list[LayerKind],
    hidden: int,
    per_layer: int,
    *,
    default_positions: int,
    extra: Weights = (),
) -> Architecture:
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=True)
    if per_layer:
        rows = keys.integer("vocab_size_per_layer_input", default=262144)
        extra += (
            Weight(
                "per_layer_embedding",
                Part.EMBEDDING,
                rows,
                len(order) * per_layer,
                shape=Shape.TABLE,
                shard=Shard.EVEN,
            ),
            *norm("per_layer_projection_norm", per_layer),
        )
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied, extra=extra),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=default_positions, scaled=False),
    )
