"""What the hybrid families read alike: their attention layers, and which layer mixes tokens in which way."""

from __future__ import annotations

from collections.abc import Mapping

from planner.architecture.blocks import Weights, grouped_query_attention, norm, vector
from planner.architecture.keys import Keys
from planner.architecture.mixers import Attention
from planner.architecture.recurrent import StateSpace
from planner.architecture.spec import Part, Shard

ATTENTION, RECURRENT, MLP, MOE = "attention", "recurrent", "mlp", "moe"
# What configuration files call them, older names included.
LAYER_NAMES: Mapping[str, str] = {
    "attention": ATTENTION,
    "full_attention": ATTENTION,
    "mamba": RECURRENT,
    "linear_attention": RECURRENT,
    "conv": RECURRENT,
    "recurrent": RECURRENT,
    "mlp": MLP,
    "moe": MOE,
}


def layer_pattern(
    keys: Keys, *names: str, layers: int | None = None, known: Mapping[str, str] = LAYER_NAMES
) -> tuple[str, ...] | None:
    """The kind of each layer as a list says it, or None where there is none.

    Raises:
        InvalidConfig: where the list's length isn't `layers`, or a layer is of no known kind.
    """
    given = keys.texts(*names, length=layers, choices=frozenset(known))
    return None if given is None else tuple(known[name] for name in given)


def attention_heads(
    keys: Keys, hidden: int, *, kv_heads: int | None = None, head_dim: int | None = None
) -> tuple[int, int, int]:
    """Query heads, key/value heads and head size; `kv_heads` and `head_dim` are the class's defaults.

    Raises:
        InvalidConfig: where heads don't divide by KV heads, or the hidden size by heads and no head size is given.
    """
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv = keys.optional_integer("num_key_value_heads", default=kv_heads, maximum=100_000) or heads
    if heads % kv:
        raise keys.contradiction("num_key_value_heads", "not_divisible", given=heads, divisor=kv)
    size = keys.optional_integer(
        "head_dim", "attention_head_dim", default=head_dim, maximum=100_000
    )
    if size is None:
        if hidden % heads:
            raise keys.contradiction("hidden_size", "not_divisible", given=hidden, divisor=heads)
        size = hidden // heads
    return heads, kv, size


def self_attention(
    keys: Keys,
    hidden: int,
    *,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    bias: bool | None = None,
    head_norms: bool = False,
    gated: bool = False,
) -> tuple[Weights, Attention]:
    """Full causal attention of one layer.

    Args:
        kv_heads, head_dim: the class's defaults.
        bias: on all projections; None: as `attention_bias` says.
        head_norms: RMS norms on queries and keys, shared by all heads.
        gated: a gate as wide as the attention's result.
    """
    heads, kv, size = attention_heads(keys, hidden, kv_heads=kv_heads, head_dim=head_dim)
    biased = keys.flag("attention_bias", default=False) if bias is None else bias
    weights = grouped_query_attention(
        hidden,
        heads,
        kv,
        size,
        query_bias=biased,
        kv_bias=biased,
        output_bias=biased,
        output_gate=heads * size if gated else 0,
    )
    if gated and biased:
        weights += vector("output_gate_bias", Part.ATTENTION, heads * size, shard=Shard.EVEN)
    if head_norms:
        weights += (*norm("query_norm", size), *norm("key_norm", size))
    return weights, Attention(heads, kv, size, size)


def state_space(
    keys: Keys,
    hidden: int,
    *,
    heads: tuple[str, ...] = ("mamba_n_heads",),
    head_dim: tuple[str, ...] = ("mamba_d_head",),
    inner: tuple[str, ...] = (),
    default_state: int = 256,
) -> StateSpace:
    """Sizes of a Mamba-2 mixer under the names that Bamba, Falcon-H1 and Granite share.

    Args:
        heads, head_dim, inner: names of the keys; a head size of "auto" is inner width / heads.

    Raises:
        InvalidConfig: where inner width, heads and head size contradict each other.
    """
    count = keys.integer(*heads, default=128, maximum=100_000)
    expanded = keys.integer("mamba_expand", default=2, maximum=1000) * hidden
    width = keys.integer(*inner, default=expanded) if inner and keys.has(*inner) else expanded
    if keys.config.get(head_dim[0]) in (None, "auto"):
        if width % count:
            raise keys.contradiction(heads[0], "not_divisible", given=width, divisor=count)
        size = width // count
    else:
        size = keys.integer(*head_dim, maximum=100_000)
        if size * count != width:
            raise keys.contradiction(
                head_dim[0], "not_the_product", given=size * count, expected=width
            )
    return StateSpace(
        count,
        size,
        keys.integer("mamba_d_state", default=default_state, maximum=100_000),
        keys.integer("mamba_n_groups", "mamba_ngroups", default=1, maximum=100_000),
        keys.integer("mamba_d_conv", default=4, maximum=1000),
    )
