"""Llama-Nemotron found by architecture search: every layer states its own attention and feed-forward, or none."""

from __future__ import annotations

from planner.architecture.adapters.common import assemble, layer_count, outer_weights
from planner.architecture.blocks import gated_mlp, grouped_query_attention, linear, norm
from planner.architecture.keys import Keys
from planner.architecture.mixers import Attention, Mixer
from planner.architecture.spec import Architecture, LayerKind, Part


def nemotron_nas(keys: Keys) -> Architecture:
    """DeciLM's layout: `block_configs` holds one entry per layer; a block that is left out has no norm either.

    References:
        Puzzle, arXiv 2411.19146, and the modelling code published with the models.
    """
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    vocabulary = keys.integer("vocab_size")
    heads = keys.integer("num_attention_heads", maximum=100_000)
    if hidden % heads:
        raise keys.contradiction("hidden_size", "not_divisible", given=hidden, divisor=heads)
    blocks = keys.sequence("block_configs", length=layers)
    if blocks is None:
        raise keys.contradiction("block_configs", "list_length", expected=layers, given=0)
    kinds: dict[tuple[int | None, int | None], LayerKind] = {}
    order = []
    for index, block in enumerate(blocks):
        section = Keys({"block": block}, f"{keys.prefix}block_configs[{index}].").section("block")
        group = _group(section.section("attention"), heads)
        wide = _width(section.section("ffn"), hidden)
        if (group, wide) not in kinds:
            kinds[group, wide] = _layer(keys, hidden, heads, group, wide)
        order.append(kinds[group, wide])
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
    )


_LINEAR = 0  # one linear layer in place of the block


def _group(attention: Keys, heads: int) -> int | None:
    """Query heads that share a KV head, `_LINEAR`, or None for no attention."""
    if attention.flag("no_op", default=False):
        return None
    if attention.flag("replace_with_linear", default=False):
        return _LINEAR
    group = attention.integer("n_heads_in_group", maximum=heads)
    if heads % group:
        raise attention.contradiction(
            "n_heads_in_group", "not_divisible", given=heads, divisor=group
        )
    return group


def _width(ffn: Keys, hidden: int) -> int | None:
    """Intermediate size: two thirds of the stated multiple of the hidden size, rounded up to a multiple of 256."""
    if ffn.flag("no_op", default=False):
        return None
    if ffn.flag("replace_with_linear", default=False):
        return _LINEAR
    wide = int(2 * ffn.number("ffn_mult", maximum=1000.0) * hidden / 3)
    return -(-wide // 256) * 256


def _layer(keys: Keys, hidden: int, heads: int, group: int | None, wide: int | None) -> LayerKind:
    biased = keys.flag("attention_bias", default=False)
    mixers: tuple[Mixer, ...] = ()
    weights = norm("norm", hidden, copies=(group is not None) + (wide is not None))
    if group == _LINEAR:
        weights += linear("attention_linear", Part.ATTENTION, hidden, hidden)
    elif group is not None:
        size = hidden // heads
        mixers = (Attention(heads, heads // group, size, size),)
        weights += grouped_query_attention(
            hidden,
            heads,
            heads // group,
            size,
            query_bias=biased,
            kv_bias=biased,
            output_bias=biased,
        )
    if wide == _LINEAR:
        weights += linear("feed_forward_linear", Part.FEED_FORWARD, hidden, hidden)
    elif wide is not None:
        weights += gated_mlp(hidden, wide, bias=keys.flag("mlp_bias", default=False))
    return LayerKind(mixers, weights, feed_forward_width=wide or 0)
