"""Mixers with constant state: their weights, what they carry per sequence, and the work of their recurrence per token.

Every function returns `(weights, Recurrence)` of one layer's mixer.

State. The recurrent part is kept in float32 by the published code and stated here so; an engine that stores it in
another type overrides it (`states` of `cache_layout`). A causal convolution of k taps needs the k − 1 inputs before the
current one: that is counted here, in the compute dtype, and what most engines keep. transformers keeps k, a column more
per channel: a few percent of a state at most, but a third of it where the convolution is all there is (LFM2).

Work. `recurrent_flops` counts the recurrence as written, one token at a time, with 1 FLOP for each multiplication and
addition of a state element: decay 1, outer product 1, addition 1, read-out 2. Chunked prefill kernels do more of it per
token, but a constant amount. Convolutions are weights and are counted there.

Sharding. Heads and channels divide over ranks; what is shared by a group of heads (Mamba-2's B and C) divides by groups
and is then repeated, as KV heads are.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.architecture.blocks import Weights, convolution, linear, norm, vector
from planner.architecture.mixers import Recurrence, StateTensor
from planner.architecture.spec import Part, Shape, Shard, Weight

FLOAT32 = "float32"
_PART = Part.RECURRENCE
_STATE_FLOPS = 5.0  # decay, outer product, addition, and a multiply-add to read out
_DELTA_FLOPS = 7.0  # the same, and a multiply-add to read what the key already holds, which is taken off the value

Mixed = tuple[Weights, Recurrence]


@dataclass(frozen=True, slots=True)
class StateSpace:
    """Sizes of a Mamba-2 mixer.

    Attributes:
        heads, head_dim: inner width is heads × head_dim.
        state: state size per channel (N).
        groups: heads in one group share B and C.
        kernel: taps of the causal convolution.
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    kernel: int

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim


def mamba2(
    hidden: int,
    sizes: StateSpace,
    *,
    conv_bias: bool = True,
    proj_bias: bool = False,
    output_bias: bool | None = None,
    gated_norm: bool = True,
) -> Mixed:
    """Mamba-2: state heads × head_dim × N per sequence, one decay per head.

    Args:
        proj_bias: on the input projection, and on the output projection too unless `output_bias` says otherwise.
        gated_norm: an RMS norm over the gated result.

    References:
        Transformers are SSMs (Mamba-2), arXiv 2405.21060.
    """
    inner, shared = sizes.inner, 2 * sizes.groups * sizes.state
    with_output = proj_bias if output_bias is None else output_bias
    weights = (
        *linear("gate_and_input", _PART, 2 * inner, hidden, bias=proj_bias),
        *linear(
            "state_in_out",
            _PART,
            shared,
            hidden,
            bias=proj_bias,
            shard=Shard.KV_HEADS,
            kv_heads=sizes.groups,
        ),
        *linear("time_step", _PART, sizes.heads, hidden, bias=proj_bias),
        *convolution("convolution", _PART, inner, sizes.kernel, bias=conv_bias),
        *_grouped_convolution(shared, sizes.kernel, sizes.groups, conv_bias),
        *vector("decay", _PART, sizes.heads, shard=Shard.EVEN),
        *vector("time_step_bias", _PART, sizes.heads, shard=Shard.EVEN),
        *vector("skip", _PART, sizes.heads, shard=Shard.EVEN),
        *linear("output", _PART, hidden, inner, bias=with_output, row_parallel=True),
    )
    if gated_norm:
        weights += vector("gated_norm", _PART, inner, shard=Shard.EVEN)
    past = sizes.kernel - 1
    states = (
        StateTensor(inner * sizes.state, FLOAT32, sizes.heads),
        StateTensor(inner * past, shards=sizes.heads, taps=sizes.kernel),
        StateTensor(shared * past, shards=sizes.groups, taps=sizes.kernel),
    )
    # Beside the state: the time step scales the input, and the read-out starts from a scaled copy of it.
    flops = _STATE_FLOPS * inner * sizes.state + 2.0 * inner
    return weights, Recurrence("mamba2", states, flops)


def _grouped_convolution(channels: int, kernel: int, groups: int, bias: bool) -> Weights:
    weight = Weight(
        "shared_convolution",
        _PART,
        channels,
        kernel,
        shape=Shape.CONVOLUTION,
        shard=Shard.KV_HEADS,
        kv_heads=groups,
    )
    if not bias:
        return (weight,)
    return (
        weight,
        *vector(
            "shared_convolution_bias",
            _PART,
            channels,
            shard=Shard.KV_HEADS,
            kv_heads=groups,
        ),
    )


def mamba(
    hidden: int,
    inner: int,
    state: int,
    rank: int,
    kernel: int,
    *,
    conv_bias: bool = True,
    proj_bias: bool = False,
    inner_norms: bool = False,
) -> Mixed:
    """Mamba (selective state space): state inner × N per sequence, one decay per element.

    Args:
        rank: of the time step's projection.
        inner_norms: RMS norms on the time step, B and C (Jamba).

    References:
        Mamba, arXiv 2312.00752.
    """
    weights = (
        *linear("gate_and_input", _PART, 2 * inner, hidden, bias=proj_bias),
        *convolution("convolution", _PART, inner, kernel, bias=conv_bias),
        *linear("selection", _PART, rank + 2 * state, inner, row_parallel=True),
        *linear("time_step", _PART, inner, rank, bias=True),
        *vector("decay", _PART, inner * state, shard=Shard.EVEN),
        *vector("skip", _PART, inner, shard=Shard.EVEN),
        *linear("output", _PART, hidden, inner, bias=proj_bias, row_parallel=True),
    )
    if inner_norms:
        weights += (*norm("time_step_norm", rank), *norm("state_norm", state, copies=2))
    states = (
        StateTensor(inner * state, FLOAT32, inner),
        StateTensor(inner * (kernel - 1), shards=inner, taps=kernel),
    )
    # The decay of each element is made on the way: a product and an exponential.
    flops = (_STATE_FLOPS + 2.0) * inner * state + 2.0 * inner
    return weights, Recurrence("mamba", states, flops)


def gated_delta(
    hidden: int, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int
) -> Mixed:
    """Gated delta net: state H_v × d_k × d_v per sequence; queries and keys shared by groups of value heads.

    References:
        Gated Delta Networks, arXiv 2412.06464; Qwen3-Next's published modelling code.
    """
    keys, values = key_heads * key_dim, value_heads * value_dim
    weights = (
        *linear("query_key", _PART, 2 * keys, hidden),
        *linear("value_and_gate", _PART, 2 * values, hidden),
        *linear("rates", _PART, 2 * value_heads, hidden),
        *convolution("convolution", _PART, 2 * keys + values, kernel),
        *vector("decay", _PART, value_heads, shard=Shard.EVEN),
        *vector("time_step_bias", _PART, value_heads, shard=Shard.EVEN),
        *vector("gated_norm", _PART, value_dim),
        *linear("output", _PART, hidden, values, row_parallel=True),
    )
    states = (
        StateTensor(value_heads * key_dim * value_dim, FLOAT32, value_heads),
        StateTensor(2 * keys * (kernel - 1), shards=key_heads, taps=kernel),
        StateTensor(values * (kernel - 1), shards=value_heads, taps=kernel),
    )
    flops = _DELTA_FLOPS * value_heads * key_dim * value_dim + 2.0 * values
    return weights, Recurrence("gated_delta", states, flops)


def kimi_delta(
    hidden: int, heads: int, head_dim: int, kernel: int, *, full_rank_gate: bool = False
) -> Mixed:
    """Kimi Delta Attention: a gated delta net whose decay is per channel; state H × d × d per sequence.

    Args:
        full_rank_gate: the output gate is one projection instead of two through the head size.

    References:
        Kimi Linear, arXiv 2510.26692.
    """
    inner = heads * head_dim
    if full_rank_gate:
        gate = linear("output_gate", _PART, inner, hidden)
    else:
        gate = (
            *linear("gate_down", _PART, head_dim, hidden, shard=Shard.NONE),
            *linear("gate_up", _PART, inner, head_dim),
        )
    weights = (
        *linear("query_key_value", _PART, 3 * inner, hidden),
        *convolution("convolution", _PART, 3 * inner, kernel),
        *linear("decay_down", _PART, head_dim, hidden, shard=Shard.NONE),
        *linear("decay_up", _PART, inner, head_dim),
        *vector("time_step_bias", _PART, inner, shard=Shard.EVEN),
        *vector("decay", _PART, heads, shard=Shard.EVEN),
        *linear("rates", _PART, heads, hidden),
        *gate,
        *vector("gated_norm", _PART, head_dim),
        *linear("output", _PART, hidden, inner, row_parallel=True),
    )
    states = (
        StateTensor(inner * head_dim, FLOAT32, heads),
        StateTensor(3 * inner * (kernel - 1), shards=heads, taps=kernel),
    )
    flops = _DELTA_FLOPS * inner * head_dim + 2.0 * inner
    return weights, Recurrence("kimi_delta", states, flops)


def short_convolution(hidden: int, kernel: int, *, bias: bool = False) -> Mixed:
    """LFM2's mixer: two gates around a causal convolution of a few taps; its inputs are the whole state.

    References:
        LFM2's published modelling code.
    """
    weights = (
        *linear("gates_and_input", _PART, 3 * hidden, hidden, bias=bias),
        *convolution("convolution", _PART, hidden, kernel, bias=bias),
        *linear("output", _PART, hidden, hidden, bias=bias, row_parallel=True),
    )
    states = (StateTensor(hidden * (kernel - 1), shards=hidden, taps=kernel),)
    return weights, Recurrence("short_convolution", states, 2.0 * hidden)


def lightning(hidden: int, heads: int, head_dim: int) -> Mixed:
    """Lightning attention: linear attention with one fixed decay per head; state H × d × d per sequence.

    References:
        MiniMax-01, arXiv 2501.08313.
    """
    inner = heads * head_dim
    weights = (
        *linear("query_key_value", _PART, 3 * inner, hidden),
        *linear("output_gate", _PART, inner, hidden),
        *vector("gated_norm", _PART, inner, shard=Shard.EVEN),
        *linear("output", _PART, hidden, inner, row_parallel=True),
    )
    states = (StateTensor(inner * head_dim, FLOAT32, heads),)
    return weights, Recurrence("lightning", states, _STATE_FLOPS * inner * head_dim)


def rwkv5(hidden: int, inner: int, head_dim: int) -> Mixed:
    """RWKV-5 time mixing: state heads × d × d, and the last input of each of the layer's two blocks.

    References:
        Eagle and Finch, arXiv 2404.05892.
    """
    heads = inner // head_dim
    weights: Weights = ()
    for name in ("receptance", "key", "value", "gate"):
        weights += linear(name, _PART, inner, hidden)
    weights += (
        *vector("token_shift", _PART, hidden, copies=4),
        *vector("decay", _PART, inner, shard=Shard.EVEN),
        *vector("bonus", _PART, inner, shard=Shard.EVEN),
        *vector("head_norm", _PART, inner, copies=2, shard=Shard.EVEN),
        *linear("output", _PART, hidden, inner, row_parallel=True),
    )
    states = (
        StateTensor(inner * head_dim, FLOAT32, heads),
        StateTensor(2 * hidden),
    )
    # The current token's own term is weighted apart (bonus): a product and an addition more per element.
    return weights, Recurrence("rwkv5", states, (_STATE_FLOPS + 2.0) * inner * head_dim)


def gated_linear_recurrence(hidden: int, width: int, blocks: int, kernel: int) -> Mixed:
    """Griffin's recurrent block: RG-LRU with block-diagonal gates; one state element per channel.

    References:
        Griffin, arXiv 2402.19427.
    """
    block = width // blocks
    gates = Weight("gates", _PART, width, block, 2, shape=Shape.CONVOLUTION, shard=Shard.EVEN)
    weights = (
        *linear("input", _PART, width, hidden, bias=True),
        *linear("gate", _PART, width, hidden, bias=True),
        *convolution("convolution", _PART, width, kernel, bias=True),
        gates,
        *vector("gate_biases", _PART, width, copies=2, shard=Shard.EVEN),
        *vector("decay", _PART, width, shard=Shard.EVEN),
        *linear("output", _PART, hidden, width, bias=True, row_parallel=True),
    )
    states = (
        StateTensor(width, FLOAT32, blocks),
        StateTensor(width * (kernel - 1), shards=blocks, taps=kernel),
    )
    # Make the decay (a product and an exponential), gate the input, scale it by the square root of one minus the
    # squared decay, decay the state, add.
    return weights, Recurrence("rg_lru", states, 9.0 * width)
