"""Zamba 2: Mamba-2 layers, some of which first run a transformer block that several of them share."""

from __future__ import annotations

from planner.architecture import recurrent
from planner.architecture.adapters.common import assemble, layer_count, outer_weights
from planner.architecture.adapters.hybrid_parts import RECURRENT, layer_pattern
from planner.architecture.blocks import Weights, gated_mlp, grouped_query_attention, linear, norm
from planner.architecture.keys import MAX_LAYERS, Keys
from planner.architecture.mixers import Attention, Composite
from planner.architecture.spec import Architecture, LayerKind, Part, Shard
from planner.architecture.totals import linear_flops

_HYBRID = "hybrid"
_NAMES = {"mamba": RECURRENT, "linear_attention": RECURRENT, "hybrid": _HYBRID}


def zamba2(keys: Keys) -> Architecture:
    """Zamba 2: `num_mem_blocks` blocks take turns over the hybrid layers, each use with low-rank adapters of its own.

    A block's weights are stored with the first layer that uses it; later uses cost its FLOPs and a cache of their own.
    The block attends over the residual stream and the embedding side by side, twice the hidden size.
    """
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    vocabulary = keys.integer("vocab_size")
    heads = keys.integer("n_mamba_heads", default=8, maximum=100_000)
    inner = keys.integer("mamba_expand", default=2, maximum=1000) * hidden
    if inner % heads:
        raise keys.contradiction("n_mamba_heads", "not_divisible", given=inner, divisor=heads)
    sizes = recurrent.StateSpace(
        heads,
        inner // heads,
        keys.integer("mamba_d_state", default=64, maximum=100_000),
        keys.integer("mamba_ngroups", default=1, maximum=100_000),
        keys.integer("mamba_d_conv", default=4, maximum=1000),
    )
    biased = keys.flag("add_bias_linear", default=False)
    mamba, carried = recurrent.mamba2(hidden, sizes, proj_bias=biased)
    plain = (*mamba, *norm("norm", hidden))
    wide = keys.integer("intermediate_size", default=4 * hidden)
    block, cached = _block(keys, hidden, wide, biased)
    joined = (
        *plain,
        *linear("block_output", Part.FEED_FORWARD, hidden, hidden),
        *_adapters(keys, hidden, wide),
    )
    again = Composite("shared_block", recurrent_flops=linear_flops(block))
    kinds = {
        RECURRENT: LayerKind((carried,), plain),
        _HYBRID: LayerKind((cached, carried), (*block, *joined), feed_forward_width=wide),
        "again": LayerKind((cached, carried, again), joined, feed_forward_width=wide),
    }
    blocks = keys.integer("num_mem_blocks", default=1, maximum=MAX_LAYERS)
    order, used = [], 0
    for name in _pattern(keys, layers):
        if name == _HYBRID:
            order.append(kinds[_HYBRID if used < blocks else "again"])
            used += 1
        else:
            order.append(kinds[RECURRENT])
    tied = keys.flag("tie_word_embeddings", default=True)
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
    )


def _block(keys: Keys, hidden: int, wide: int, biased: bool) -> tuple[Weights, Attention]:
    heads = keys.integer("num_attention_heads", default=32, maximum=100_000)
    kv_heads = keys.optional_integer("num_key_value_heads", maximum=100_000) or heads
    if 2 * hidden % heads or heads % kv_heads:
        raise keys.contradiction(
            "num_attention_heads", "not_divisible", given=2 * hidden, divisor=heads
        )
    head_dim = 2 * hidden // heads
    projections = grouped_query_attention(2 * hidden, heads, kv_heads, head_dim)
    # The block reads twice the hidden size and writes the hidden size.
    attention = tuple(weight for weight in projections if weight.name != "output")
    weights = (
        *attention,
        *linear("output", Part.ATTENTION, hidden, heads * head_dim, row_parallel=True),
        *gated_mlp(hidden, wide, bias=biased),
        *norm("block_norm", 2 * hidden),
        *norm("norm", hidden),
    )
    return weights, Attention(heads, kv_heads, head_dim, head_dim)


def _adapters(keys: Keys, hidden: int, wide: int) -> Weights:
    """Low-rank additions to the shared block's projections, one set per use."""
    rank = keys.integer("adapter_rank", default=128)
    weights = (
        *linear("mlp_adapter_down", Part.FEED_FORWARD, rank, hidden, shard=Shard.NONE),
        *linear("mlp_adapter_up", Part.FEED_FORWARD, 2 * wide, rank),
    )
    if keys.flag("use_shared_attention_adapter", default=False):
        for name in ("query", "key", "value"):
            part = Part.ATTENTION
            weights += linear(f"{name}_adapter_down", part, rank, 2 * hidden, shard=Shard.NONE)
            weights += linear(f"{name}_adapter_up", part, 2 * hidden, rank)
    return weights


def _pattern(keys: Keys, layers: int) -> tuple[str, ...]:
    given = layer_pattern(keys, "layers_block_type", "layer_types", layers=layers, known=_NAMES)
    if given is not None:
        return given
    hybrid = keys.integers("hybrid_layer_ids", maximum=MAX_LAYERS)
    if hybrid is None:
        raise keys.contradiction("layers_block_type", "list_length", expected=layers, given=0)
    chosen = frozenset(hybrid)
    return tuple(_HYBRID if index in chosen else RECURRENT for index in range(layers))
