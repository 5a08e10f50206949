"""Mamba, Mamba-2 and their hybrids with attention: Falcon-H1, Bamba, Granite 4, Jamba."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.architecture import recurrent
from planner.architecture.adapters.common import assemble, layer_count, outer_weights
from planner.architecture.adapters.hybrid_parts import (
    ATTENTION,
    RECURRENT,
    layer_pattern,
    self_attention,
    state_space,
)
from planner.architecture.blocks import Weights, gated_mlp, mixture_of_experts, norm
from planner.architecture.keys import MAX_CONTEXT, MAX_EXPERTS, Keys
from planner.architecture.mixers import Mixer
from planner.architecture.spec import Architecture, LayerKind

UNLIMITED_CONTEXT = 1_048_576
"""Context stated for a model without positions whose configuration names no length: nothing in it sets a limit."""


def mamba(keys: Keys) -> Architecture:
    """Mamba: every layer one selective state space, no feed-forward, no positions."""
    hidden = keys.integer("hidden_size")
    expanded = keys.integer("expand", default=2, maximum=1000) * hidden
    weights, mixer = recurrent.mamba(
        hidden,
        keys.integer("intermediate_size", "d_inner", default=expanded),
        keys.integer("state_size", default=16, maximum=100_000),
        _rank(keys, "time_step_rank", hidden),
        keys.integer("conv_kernel", default=4, maximum=1000),
        conv_bias=keys.flag("use_conv_bias", default=True),
        proj_bias=keys.flag("use_bias", default=False),
    )
    kind = LayerKind((mixer,), (*weights, *norm("norm", hidden)))
    return _model(keys, (kind,) * layer_count(keys), hidden, tied=True, unlimited=True)


def mamba2(keys: Keys) -> Architecture:
    """Mamba-2: every layer one state space, no feed-forward, no positions."""
    hidden = keys.integer("hidden_size")
    sizes = recurrent.StateSpace(
        keys.integer("num_heads", default=128, maximum=100_000),
        keys.integer("head_dim", default=64, maximum=100_000),
        keys.integer("state_size", default=128, maximum=100_000),
        keys.integer("n_groups", default=8, maximum=100_000),
        keys.integer("conv_kernel", default=4, maximum=1000),
    )
    weights, mixer = recurrent.mamba2(
        hidden,
        sizes,
        conv_bias=keys.flag("use_conv_bias", default=True),
        proj_bias=keys.flag("use_bias", default=False),
    )
    kind = LayerKind((mixer,), (*weights, *norm("norm", hidden)))
    return _model(keys, (kind,) * layer_count(keys), hidden, tied=False, unlimited=True)


def falcon_h1(keys: Keys) -> Architecture:
    """Falcon-H1: attention and Mamba-2 side by side in every layer, then a gated feed-forward."""
    hidden = keys.integer("hidden_size")
    attention, cached = self_attention(keys, hidden, kv_heads=8)
    sizes = state_space(keys, hidden, inner=("mamba_d_ssm",))
    mamba, carried = recurrent.mamba2(
        hidden,
        sizes,
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias", default=False),
        output_bias=keys.flag("projectors_bias", default=False),
        gated_norm=keys.flag("mamba_rms_norm", default=False),
    )
    wide = keys.integer("intermediate_size", default=14336)
    kind = LayerKind(
        (cached, carried),
        (
            *attention,
            *mamba,
            *gated_mlp(hidden, wide, bias=keys.flag("mlp_bias", default=False)),
            *norm("norm", hidden, copies=2),
        ),
        feed_forward_width=wide,
    )
    return _model(keys, (kind,) * layer_count(keys), hidden, tied=False)


def bamba(keys: Keys) -> Architecture:
    """Bamba: Mamba-2 with full attention at `attn_layer_indices`, a gated feed-forward in every layer."""
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    attending = frozenset(keys.integers("attn_layer_indices", maximum=10_000) or ())
    wide = keys.integer("intermediate_size", default=14336)
    rest = (
        *gated_mlp(hidden, wide, bias=keys.flag("mlp_bias", default=False)),
        *norm("norm", hidden, copies=2),
    )
    kinds = _two_kinds(keys, hidden, rest, feed_forward_width=wide)
    order = [kinds[ATTENTION if i in attending else RECURRENT] for i in range(layers)]
    return _model(keys, order, hidden, tied=False)


def granite_hybrid(keys: Keys) -> Architecture:
    """Granite 4: Mamba-2 or attention, then shared experts, with routed experts beside them where there are any."""
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    pattern = layer_pattern(keys, "layer_types", "layers_block_type", layers=layers)
    experts = keys.integer("num_local_experts", default=8, minimum=0, maximum=MAX_EXPERTS)
    shared = keys.integer("shared_intermediate_size", default=1024)
    norms = norm("norm", hidden, copies=2)
    if experts:
        wide = keys.integer("intermediate_size", default=11008)
        chosen = keys.integer("num_experts_per_tok", default=2, maximum=experts)
        mixture = mixture_of_experts(hidden, experts, wide, shared_width=shared)
        kinds = _two_kinds(
            keys,
            hidden,
            (*mixture, *norms),
            experts=experts,
            experts_per_token=chosen,
            feed_forward_width=chosen * wide + shared,
        )
    else:
        rest = (*gated_mlp(hidden, shared), *norms)
        kinds = _two_kinds(keys, hidden, rest, feed_forward_width=shared)
    order = [kinds[kind] for kind in pattern or (RECURRENT,) * layers]
    return _model(keys, order, hidden, tied=False)


def jamba(keys: Keys) -> Architecture:
    """Jamba: Mamba with attention every `attn_layer_period` layers, experts every `expert_layer_period`."""
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    wide = keys.integer("intermediate_size", default=14336)
    experts = keys.integer("num_experts", default=16, maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=2, maximum=experts) if experts > 1 else 1
    attending = _periodic(keys, "attn_layer", 8, 4)
    sparse = _periodic(keys, "expert_layer", 2, 1)
    expanded = keys.integer("mamba_expand", default=2, maximum=1000) * hidden
    mixers: dict[bool, tuple[Weights, Mixer]] = {
        True: self_attention(keys, hidden, kv_heads=8, bias=False),
        False: recurrent.mamba(
            hidden,
            expanded,
            keys.integer("mamba_d_state", default=16, maximum=100_000),
            _rank(keys, "mamba_dt_rank", hidden),
            keys.integer("mamba_d_conv", default=4, maximum=1000),
            conv_bias=keys.flag("mamba_conv_bias", default=True),
            proj_bias=keys.flag("mamba_proj_bias", default=False),
            inner_norms=True,
        ),
    }
    norms = norm("norm", hidden, copies=2)
    dense = (*gated_mlp(hidden, wide), *norms)
    routed = (*mixture_of_experts(hidden, experts, wide), *norms)
    kinds: dict[tuple[bool, bool], LayerKind] = {}
    for attends, (weights, mixer) in mixers.items():
        kinds[attends, False] = LayerKind((mixer,), weights + dense, feed_forward_width=wide)
        kinds[attends, True] = LayerKind(
            (mixer,), weights + routed, experts, chosen, feed_forward_width=chosen * wide
        )
    order = [kinds[attending(i), experts > 1 and sparse(i)] for i in range(layers)]
    return _model(keys, order, hidden, tied=False)


def _two_kinds(
    keys: Keys,
    hidden: int,
    rest: Weights,
    *,
    experts: int = 0,
    experts_per_token: int = 0,
    feed_forward_width: int = 0,
) -> dict[str, LayerKind]:
    """An attention layer and a Mamba-2 layer with the same feed-forward."""
    mamba = recurrent.mamba2(
        hidden,
        state_space(keys, hidden),
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias", default=False),
    )
    mixers: dict[str, tuple[Weights, Mixer]] = {
        ATTENTION: self_attention(keys, hidden, kv_heads=8),
        RECURRENT: mamba,
    }
    return {
        name: LayerKind((mixer,), weights + rest, experts, experts_per_token, feed_forward_width)
        for name, (weights, mixer) in mixers.items()
    }


def _rank(keys: Keys, name: str, hidden: int) -> int:
    """Rank of the time step's projection; "auto" is hidden / 16, rounded up."""
    if keys.config.get(name) in (None, "auto"):
        return -(-hidden // 16)
    return keys.integer(name)


def _periodic(keys: Keys, prefix: str, period: int, offset: int) -> Callable[[int], bool]:
    """Whether a layer is the `offset`-th of its period, counted from zero."""
    every = keys.integer(f"{prefix}_period", default=period, maximum=10_000)
    start = keys.integer(f"{prefix}_offset", default=offset, minimum=0, maximum=10_000)
    return lambda index: index % every == start


def _model(
    keys: Keys,
    layers: Sequence[LayerKind],
    hidden: int,
    *,
    tied: bool,
    unlimited: bool = False,
) -> Architecture:
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=tied)
    limit: int | None = None
    notes: tuple[str, ...] = ()
    if unlimited:
        limit = keys.optional_integer("max_position_embeddings", maximum=MAX_CONTEXT)
        notes = () if limit else ("no_context_limit",)
        limit = limit or UNLIMITED_CONTEXT
    return assemble(
        keys,
        layers,
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=limit,
        notes=notes,
    )
