"""Decoders with constant state and nothing else: RWKV-4 and xLSTM."""

from __future__ import annotations

from planner.architecture.adapters.common import assemble, layer_count, outer_weights
from planner.architecture.adapters.hybrid_mamba import UNLIMITED_CONTEXT
from planner.architecture.blocks import Weights, gated_mlp, linear, norm, vector
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import Recurrence, StateTensor
from planner.architecture.spec import Architecture, LayerKind, Part, Shard

_PART = Part.RECURRENCE
FLOAT32 = "float32"


def rwkv4(keys: Keys) -> Architecture:
    """RWKV-4: a running weighted mean per channel (numerator, denominator, largest exponent), token shifts.

    References:
        RWKV, arXiv 2305.13048.
    """
    hidden = keys.integer("hidden_size", default=4096)
    inner = keys.optional_integer("attention_hidden_size") or hidden
    wide = keys.optional_integer("intermediate_size") or 4 * hidden
    vocabulary = keys.integer("vocab_size", default=50277)
    weights: Weights = ()
    for name in ("receptance", "key", "value"):
        weights += linear(name, _PART, inner, hidden)
    weights += (
        *linear("output", _PART, hidden, inner, row_parallel=True),
        *vector("decay", _PART, inner, shard=Shard.EVEN),
        *vector("bonus", _PART, inner, shard=Shard.EVEN),
        *vector("token_shift", _PART, hidden, copies=3),
        *vector("mlp_token_shift", Part.FEED_FORWARD, hidden, copies=2),
        *linear("up", Part.FEED_FORWARD, wide, hidden),
        *linear("down", Part.FEED_FORWARD, hidden, wide, row_parallel=True),
        *linear("mlp_receptance", Part.FEED_FORWARD, hidden, hidden),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    states = (
        StateTensor(3 * inner, FLOAT32, inner),
        StateTensor(2 * hidden),
    )
    # Two exponentials, two products and an addition for each of numerator and denominator, and the read-out's.
    mixer = Recurrence("rwkv4", states, 14.0 * inner)
    kind = LayerKind((mixer,), weights, feed_forward_width=wide)
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        (kind,) * layer_count(keys),
        outer_weights(
            hidden,
            vocabulary,
            tied=tied,
            final_norm="layer",
            extra=norm("first_norm", hidden, kind="layer"),
        ),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=keys.integer("context_length", default=1024, maximum=MAX_CONTEXT),
    )


def xlstm(keys: Keys) -> Architecture:
    """xLSTM: matrix memory per head with exponential gates; state H × (d_qk × d_v + d_qk + 1) per sequence.

    References:
        xLSTM, arXiv 2405.04517; xLSTM 7B, arXiv 2503.13427.
    """
    hidden = keys.integer("hidden_size", "embedding_dim", default=4096)
    heads = keys.integer("num_heads", default=8, maximum=100_000)
    narrow = _rounded(keys, hidden, "qk_dim_factor", 0.5, 64)
    value = _rounded(keys, hidden, "v_dim_factor", 1.0, 64)
    multiple = keys.integer("ffn_round_up_to_multiple_of", default=64)
    wide = _rounded(keys, hidden, "ffn_proj_factor", 2.667, multiple)
    if narrow % heads or value % heads:
        raise keys.contradiction("num_heads", "not_divisible", given=narrow, divisor=heads)
    if keys.text("weight_mode", default="single") not in ("single", "fused"):
        raise keys.contradiction("weight_mode", "unknown_mode", given=keys.text("weight_mode"))
    bias = keys.flag("use_bias", default=False)
    weights = (
        *linear("query_key", _PART, 2 * narrow, hidden, bias=bias),
        *linear("value", _PART, value, hidden, bias=bias),
        *linear("output_gate", _PART, value, hidden, bias=bias),
        *linear("rates", _PART, 2 * heads, hidden, bias=True),
        *vector("head_norm", _PART, value, shard=Shard.EVEN),
        *linear("output", _PART, hidden, value, bias=bias, row_parallel=True),
        *gated_mlp(hidden, wide, bias=bias),
        *norm("norm", hidden, copies=2),
    )
    size, width = narrow // heads, value // heads
    dtype = keys.text("inference_state_dtype", default=FLOAT32)
    states = (StateTensor(heads * (size * width + size + 1), dtype, heads),)
    # Decay, outer product, addition and a read-out of two per element of the memory.
    mixer = Recurrence("xlstm", states, 5.0 * heads * size * width)
    kind = LayerKind((mixer,), weights, feed_forward_width=wide)
    vocabulary = keys.integer("vocab_size", default=50304)
    tied = keys.flag("tie_word_embeddings", default=False)
    normed = "rms" if keys.flag("add_out_norm", default=True) else "none"
    return assemble(
        keys,
        (kind,) * layer_count(keys, "num_hidden_layers", "num_blocks"),
        outer_weights(hidden, vocabulary, tied=tied, final_norm=normed),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=UNLIMITED_CONTEXT,
        notes=("no_context_limit",),
    )


def _rounded(keys: Keys, hidden: int, name: str, default: float, multiple: int) -> int:
    factor = keys.number(name, default=default, minimum=0.001, maximum=1000.0)
    return multiple * max(1, -(-int(hidden * factor) // multiple))
