"""Decoders that run some layers several times over: Dory and HRM-Text.

A layer's weights are counted where it runs first; every further pass costs its FLOPs again and, unless the
configuration says otherwise, keeps a cache of its own. So an architecture has as many layers as are run.
"""

from __future__ import annotations

from planner.architecture.adapters import windows
from planner.architecture.adapters.common import assemble, layer_count, max_context_of
from planner.architecture.blocks import (
    Weights,
    embedding,
    gated_mlp,
    grouped_query_attention,
    head,
    vector,
)
from planner.architecture.keys import MAX_LAYERS, Keys
from planner.architecture.mixers import Attention, Composite
from planner.architecture.spec import Architecture, LayerKind, Part, Shard
from planner.architecture.totals import linear_flops

AGAIN = "shared_block"


def run_again(kind: LayerKind, *, caches: bool = True) -> LayerKind:
    """A further pass through a dense layer: no weights, its FLOPs, its attention, and its own cache if it keeps one."""
    mixers = tuple(
        mixer
        if caches or not isinstance(mixer, Attention)
        else Attention(
            mixer.heads,
            mixer.kv_heads,
            mixer.key_dim,
            mixer.value_dim,
            mixer.window,
            mixer.chunked,
            False,
        )
        for mixer in kind.mixers
    )
    again = Composite(AGAIN, recurrent_flops=linear_flops(kind.weights))
    return LayerKind((*mixers, again), (), feed_forward_width=kind.feed_forward_width)


def dory(keys: Keys) -> Architecture:
    """Dory: layers before, a block run `n_recurrent_loops` times, layers after; scales instead of norms.

    Published files count attention and feed-forward as a layer each ("mlp" among `layer_types`): two make one layer.
    """
    hidden = keys.integer("hidden_size")
    stated = layer_count(keys)
    types = keys.texts("layer_types", length=stated)
    halves = types is not None and "mlp" in types
    layers = stated // 2 if halves else stated
    given = {**keys.config, "layer_types": list(types[::2])} if types and halves else keys.config
    spans = windows.by_layer_type(1024, windows.every(4))(Keys(given, keys.prefix), layers)
    first = _layers(keys, "n_input_layers", halves)
    last = _layers(keys, "n_output_layers", halves)
    looped = layers - first - last
    if looped < 0:
        raise keys.contradiction("n_input_layers", "more_than_layers", given=first + last)
    loops = keys.integer("n_recurrent_loops", default=2, maximum=1000)
    mode = keys.text("recurrent_kv_cache_mode", default="per_loop")
    if mode not in ("per_loop", "last_loop"):
        raise keys.contradiction("recurrent_kv_cache_mode", "unknown_mode", given=mode)
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=4, maximum=heads)
    size = keys.integer("head_dim", default=256, maximum=100_000)
    wide = keys.integer("intermediate_size")
    if heads % kv_heads:
        raise keys.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    bias = keys.flag("attention_bias", default=False)
    inner = heads * size
    weights: Weights = (
        *grouped_query_attention(
            hidden,
            heads,
            kv_heads,
            size,
            query_bias=bias,
            kv_bias=bias,
            output_bias=bias,
            output_gate=inner,
        ),
        *vector("query_key_scale", Part.ATTENTION, inner, shard=Shard.EVEN),
        *vector("gate_scale", Part.ATTENTION, inner, shard=Shard.EVEN),
        *gated_mlp(hidden, wide, bias=keys.flag("mlp_bias", default=False)),
        *vector("gate_up_scale", Part.FEED_FORWARD, wide, copies=2, shard=Shard.EVEN),
        *vector("residual_scale", Part.NORM, hidden, copies=2),
    )
    kinds = {
        window: LayerKind(
            (Attention(heads, kv_heads, size, size, window),), weights, feed_forward_width=wide
        )
        for window in set(spans)
    }
    order = [kinds[window] for window in spans]
    block = order[first : first + looped]
    again = [run_again(kind, caches=mode == "per_loop") for kind in block]
    order[first + looped : first + looped] = again * (loops - 1)
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=False)
    outer = embedding(vocabulary, hidden)
    outer += () if tied else head(vocabulary, hidden)
    outer += vector("logit_scale", Part.HEAD, vocabulary, shard=Shard.EVEN)
    return assemble(
        keys,
        order,
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=8192),
    )


def _layers(keys: Keys, name: str, halves: bool) -> int:
    count = keys.integer(name, default=0, minimum=0, maximum=MAX_LAYERS)
    return count // 2 if halves else count


def hrm_text(keys: Keys) -> Architecture:
    """HRM-Text: a fast stack run `L_cycles` times, then a slow one once, and that `H_cycles` times over; bare norms.

    `num_hidden_layers` is what is run where `num_layers_per_stack` stands beside it, else the size of one stack.
    """
    hidden = keys.integer("hidden_size")
    slow = keys.integer("H_cycles", default=2, maximum=1000)
    fast = keys.integer("L_cycles", default=3, maximum=1000)
    depth = keys.optional_integer("num_layers_per_stack", maximum=MAX_LAYERS) or layer_count(keys)
    if depth * slow * (fast + 1) > MAX_LAYERS:
        raise keys.contradiction("H_cycles", "too_many_layers", given=depth * slow * (fast + 1))
    heads = keys.integer("num_attention_heads", default=12, maximum=100_000)
    size = keys.integer("head_dim", default=128, maximum=100_000)
    wide = keys.integer("intermediate_size", default=4096)
    bias = keys.flag("attention_bias", default=False)
    weights = (
        *grouped_query_attention(
            hidden,
            heads,
            heads,
            size,
            query_bias=bias,
            kv_bias=bias,
            output_bias=bias,
            output_gate=heads * size,
        ),
        *(
            vector("output_gate_bias", Part.ATTENTION, heads * size, shard=Shard.EVEN)
            if bias
            else ()
        ),
        *gated_mlp(hidden, wide, bias=keys.flag("mlp_bias", default=False)),
    )
    once = LayerKind((Attention(heads, heads, size, size),), weights, feed_forward_width=wide)
    again = run_again(once)
    cycle = [again] * depth * (fast + 1)
    # Each stack's first pass brings its weights.
    start = [once] * depth + [again] * depth * (fast - 1) + [once] * depth
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=False)
    outer = (*embedding(vocabulary, hidden), *vector("first_state", Part.NORM, hidden))
    if not tied:
        outer += head(vocabulary, hidden)
    return assemble(
        keys,
        start + cycle * (slow - 1),
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=2048),
    )
