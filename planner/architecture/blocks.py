"""Weights of the building blocks that layers are made of, each with the way tensor parallelism splits it.

Every function returns a tuple of Weight, so a layer is a sum of blocks. Column-parallel projections (query, gate, up)
and row-parallel ones (output, down) are EVEN; keys and values split by KV heads; a bias follows its projection, except
that a row-parallel projection's bias is added once and kept whole by every rank. Fused projections are written apart:
their parameters are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.architecture.spec import Part, Shape, Shard, Weight

Weights = tuple[Weight, ...]


def vector(
    name: str,
    part: Part,
    size: int,
    *,
    copies: int = 1,
    shard: Shard = Shard.NONE,
    kv_heads: int = 0,
    dtype: str | None = None,
    buffer: bool = False,
) -> Weights:
    """A bias, scale or per-head constant of `size` elements."""
    return (
        Weight(
            name,
            part,
            size,
            copies=copies,
            shape=Shape.VECTOR,
            shard=shard,
            kv_heads=kv_heads,
            dtype=dtype,
            buffer=buffer,
        ),
    )


def linear(
    name: str,
    part: Part,
    rows: int,
    columns: int,
    *,
    bias: bool = False,
    copies: int = 1,
    shard: Shard = Shard.EVEN,
    kv_heads: int = 0,
    row_parallel: bool = False,
    dtype: str | None = None,
) -> Weights:
    """A matrix product of `rows` outputs and `columns` inputs, with or without bias.

    Args:
        row_parallel: split over its inputs, so that its bias isn't split (experts keep theirs with them).
    """
    weight = Weight(name, part, rows, columns, copies, shard=shard, kv_heads=kv_heads, dtype=dtype)
    if not bias:
        return (weight,)
    whole = row_parallel and shard is Shard.EVEN
    return (
        weight,
        *vector(
            f"{name}_bias",
            part,
            rows,
            copies=copies,
            shard=Shard.NONE if whole else shard,
            kv_heads=kv_heads,
            dtype=dtype,
        ),
    )


def convolution(
    name: str,
    part: Part,
    channels: int,
    kernel_elements: int,
    *,
    bias: bool = False,
    shard: Shard = Shard.EVEN,
) -> Weights:
    """A convolution: `channels` outputs, each over `kernel_elements` elements (input channels per group × kernel)."""
    weight = Weight(name, part, channels, kernel_elements, shape=Shape.CONVOLUTION, shard=shard)
    return (weight, *vector(f"{name}_bias", part, channels, shard=shard)) if bias else (weight,)


def norm(
    name: str, size: int, *, kind: str = "rms", copies: int = 1, part: Part = Part.NORM
) -> Weights:
    """One normalisation (or `copies` of it): "rms" has a weight, "layer" weight and bias, "none" no parameter."""
    if kind == "none":
        return ()
    weight = vector(name, part, size, copies=copies)
    if kind == "rms":
        return weight
    if kind == "layer":
        return (*weight, *vector(f"{name}_bias", part, size, copies=copies))
    raise ValueError(f"no such norm: {kind}")


def grouped_query_attention(
    hidden: int,
    heads: int,
    kv_heads: int,
    key_dim: int,
    *,
    value_dim: int | None = None,
    query_bias: bool = False,
    kv_bias: bool = False,
    output_bias: bool = False,
    value_reuses_key: bool = False,
    output_gate: int = 0,
    sinks: bool = False,
    part: Part = Part.ATTENTION,
) -> Weights:
    """Query, key, value and output projections of multi-head, grouped-query or multi-query attention.

    Args:
        hidden: width of the residual stream.
        heads, kv_heads: query and key/value heads.
        key_dim, value_dim: per head; values are as wide as keys unless said.
        value_reuses_key: no value projection: values are made from the projected keys.
        output_gate: outputs of a gate projection on the attention's result (heads, or heads × value_dim), 0 for none.
        sinks: one learned logit per head beside the attended positions.
    """
    value_dim = key_dim if value_dim is None else value_dim
    weights = linear("query", part, heads * key_dim, hidden, bias=query_bias)
    weights += linear(
        "key",
        part,
        kv_heads * key_dim,
        hidden,
        bias=kv_bias,
        shard=Shard.KV_HEADS,
        kv_heads=kv_heads,
    )
    if not value_reuses_key:
        weights += linear(
            "value",
            part,
            kv_heads * value_dim,
            hidden,
            bias=kv_bias,
            shard=Shard.KV_HEADS,
            kv_heads=kv_heads,
        )
    weights += linear(
        "output", part, hidden, heads * value_dim, bias=output_bias, row_parallel=True
    )
    if output_gate:
        weights += linear("output_gate", part, output_gate, hidden)
    if sinks:
        weights += vector("sinks", part, heads, shard=Shard.EVEN)
    return weights


def latent_attention(
    hidden: int,
    heads: int,
    *,
    query_rank: int | None,
    latent_dim: int,
    rope_dim: int,
    nope_dim: int,
    value_dim: int,
    bias: bool = False,
) -> Weights:
    """Projections and norms of multi-head latent attention: h·r_q + r_q + r_q·H·(d_n+d_r) + h·(r+d_r) + r +
    r·H·(d_n+d_v) + H·d_v·h.

    Args:
        query_rank: rank of the query's low-rank projection, or None for a full one.
        bias: on the down-projections and the output projection.

    References:
        DeepSeek-V2, arXiv 2405.04434.
    """
    part = Part.ATTENTION
    query = heads * (nope_dim + rope_dim)
    if query_rank is None:
        weights = linear("query", part, query, hidden)
    else:
        weights = (
            *linear("query_down", part, query_rank, hidden, bias=bias, shard=Shard.NONE),
            *norm("query_norm", query_rank),
            *linear("query_up", part, query, query_rank),
        )
    return (
        *weights,
        *linear("kv_down", part, latent_dim + rope_dim, hidden, bias=bias, shard=Shard.NONE),
        *norm("kv_norm", latent_dim),
        *linear("kv_up", part, heads * (nope_dim + value_dim), latent_dim),
        *linear("output", part, hidden, heads * value_dim, bias=bias, row_parallel=True),
    )


def gated_mlp(
    hidden: int,
    width: int,
    *,
    bias: bool = False,
    part: Part = Part.FEED_FORWARD,
    copies: int = 1,
    shard: Shard = Shard.EVEN,
) -> Weights:
    """Gate, up and down projections (SwiGLU, GeGLU): 3·h·I."""
    return (
        *linear("gate", part, width, hidden, bias=bias, copies=copies, shard=shard),
        *plain_mlp(hidden, width, bias=bias, part=part, copies=copies, shard=shard),
    )


def plain_mlp(
    hidden: int,
    width: int,
    *,
    bias: bool = False,
    part: Part = Part.FEED_FORWARD,
    copies: int = 1,
    shard: Shard = Shard.EVEN,
) -> Weights:
    """Up and down projections without a gate: 2·h·I."""
    return (
        *linear("up", part, width, hidden, bias=bias, copies=copies, shard=shard),
        *linear(
            "down", part, hidden, width, bias=bias, copies=copies, shard=shard, row_parallel=True
        ),
    )


def mixture_of_experts(
    hidden: int,
    experts: int,
    width: int,
    *,
    gated: bool = True,
    bias: bool = False,
    router_bias: bool = False,
    router_correction: bool = False,
    correction_is_buffer: bool = True,
    shared_width: int = 0,
    shared_bias: bool = False,
    shared_gate: bool = False,
) -> Weights:
    """Router, routed experts and shared experts of one layer.

    Args:
        experts, width: routed experts and the intermediate size of each.
        gated: three matrices an expert (gate, up, down) or two.
        bias: on the experts' projections.
        router_bias: an ordinary bias on the router's logits.
        router_correction: a score correction per expert (auxiliary-loss-free balancing), stored as float32.
        correction_is_buffer: stored in checkpoints but no parameter to frameworks.
        shared_width: intermediate size of all shared experts together, 0 for none.
        shared_bias: on the shared experts' projections.
        shared_gate: a sigmoid gate on the shared experts' output.
    """
    mlp = gated_mlp if gated else plain_mlp
    weights = linear("router", Part.ROUTER, experts, hidden, bias=router_bias, shard=Shard.NONE)
    if router_correction:
        weights += vector(
            "router_correction",
            Part.ROUTER,
            experts,
            dtype="float32",
            buffer=correction_is_buffer,
        )
    weights += mlp(hidden, width, bias=bias, part=Part.EXPERTS, copies=experts, shard=Shard.EXPERTS)
    if shared_width:
        weights += mlp(hidden, shared_width, bias=shared_bias, part=Part.SHARED_EXPERTS)
    if shared_gate:
        weights += linear("shared_gate", Part.ROUTER, 1, hidden, shard=Shard.NONE)
    return weights


def embedding(vocabulary: int, width: int, *, name: str = "embedding") -> Weights:
    """The token table: V·h, looked up."""
    return (Weight(name, Part.EMBEDDING, vocabulary, width, shape=Shape.TABLE, shard=Shard.EVEN),)


def positions(count: int, width: int, *, name: str = "positions") -> Weights:
    """A learned table of absolute positions."""
    return (Weight(name, Part.POSITION, count, width, shape=Shape.TABLE),)


def head(vocabulary: int, hidden: int, *, bias: bool = False) -> Weights:
    """The projection to logits, where it isn't the embedding table again."""
    return linear("head", Part.HEAD, vocabulary, hidden, bias=bias)


def with_part(weights: Iterable[Weight], part: Part) -> Weights:
    """The same weights counted under another part (a whole layer as MTP, say)."""
    return tuple(replace(weight, part=part) for weight in weights)


def whole(weights: Iterable[Weight]) -> Weights:
    """The same weights, a full copy on every rank."""
    return tuple(replace(weight, shard=Shard.NONE, kv_heads=0) for weight in weights)
