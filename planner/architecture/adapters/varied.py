"""Decoders whose attention differs between layers: other head counts, widths or chunks by layer type.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from planner.architecture.adapters import mixtures, windows
from planner.architecture.adapters.common import (
    Flag,
    assemble,
    flag,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.decoder import Mtp, mtp_weights, query_key_norms
from planner.architecture.adapters.mixtures import Experts, Mixture
from planner.architecture.blocks import Weights, gated_mlp, grouped_query_attention, norm
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import Attention
from planner.architecture.spec import Architecture, LayerKind

_LAGUNA = Mixture(
    shared_width=("shared_expert_intermediate_size",),
    default_shared=512,
    correction="parameter",
    layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(1)),
)
_STEP = Mixture(
    experts=("n_routed_experts", "moe_num_experts", "num_experts", "num_local_experts"),
    per_token=("num_experts_per_tok", "moe_top_k"),
    shared_width=("share_expert_dim", "share_expert_dims"),
    default_shared=1280,
    shared_bias=("mlp_bias", False),
    correction="buffer",
)
_MIMO = Mixture(
    experts=("n_routed_experts",),
    shared=("n_shared_experts",),
    default_shared=0,
    correction="buffer",
    layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(1)),
)
_LLAMA4 = Mixture(
    experts=("num_local_experts", "num_experts"),
    width=("intermediate_size",),
    shared_width=("intermediate_size",),
)


@dataclass(frozen=True, slots=True)
class _Geometry:
    """Attention of one layer type."""

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    chunked: bool = False
    sinks: bool = False

    def mixer(self) -> Attention:
        return Attention(
            self.heads, self.kv_heads, self.key_dim, self.value_dim, self.window, self.chunked
        )

    def check(self, keys: Keys) -> _Geometry:
        if self.heads % self.kv_heads:
            raise keys.contradiction(
                "num_key_value_heads", "not_divisible", given=self.heads, divisor=self.kv_heads
            )
        return self


def laguna(keys: Keys) -> Architecture:
    """Laguna: query heads per layer, a gate on the attention's result, experts after the first layer."""
    layers = layer_count(keys)
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=8, maximum=heads)
    head_dim = keys.integer("head_dim", default=128, maximum=100_000)
    per_layer = (
        keys.integers("num_attention_heads_per_layer", length=layers, minimum=1, maximum=100_000)
        or (heads,) * layers
    )
    spans = windows.by_layer_type(512, windows.all_full)(keys, layers)
    geometry = [
        _Geometry(count, kv_heads, head_dim, head_dim, window).check(keys)
        for count, window in zip(per_layer, spans, strict=True)
    ]
    gated_per_head = keys.config.get("gating", True) in (True, "per-head")
    return _build(
        keys, geometry, _LAGUNA, _LAGUNA.layers(keys, layers), gated_per_head, positions=131072
    )


def step3p7(keys: Keys) -> Architecture:
    """Step 3.5 and 3.7: more query heads on sliding layers where the configuration says so, a gate per head."""
    mtp = keys.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=100)
    layers = layer_count(keys)
    keys = _without_mtp_layers(keys, layers, mtp)
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", "num_attention_groups", default=8, maximum=heads)
    head_dim = keys.integer("head_dim", default=128, maximum=100_000)
    other = keys.optional_section("attention_other_setting")
    default = other.integer("num_attention_heads", default=heads) if other else heads
    sliding_heads = keys.integer("num_sliding_attention_heads", default=default, maximum=100_000)
    spans = windows.by_layer_type(None, windows.all_full)(keys, layers)
    geometry = [
        _Geometry(
            heads if window is None else sliding_heads, kv_heads, head_dim, head_dim, window
        ).check(keys)
        for window in spans
    ]
    gated_per_head = keys.config.get("gating", True) in (True, "per-head")
    return _build(
        keys,
        geometry,
        _STEP,
        _step_sparse(keys, layers),
        gated_per_head,
        positions=128000,
        mlp_bias=("mlp_bias", False),
        mtp=Mtp(sparse=False, stores_tables=False, stores_head=True),
    )


def mimo_v2_flash(keys: Keys) -> Architecture:
    """MiMo-V2-Flash: twice the key/value heads and sinks on sliding layers, values narrower than keys.

    The window is `sliding_window_size` where it's given: transformers stores it as `sliding_window`, one larger.
    """
    layers = layer_count(keys)
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=4, maximum=heads)
    key_dim = keys.integer("head_dim", default=192, maximum=100_000)
    value_dim = keys.integer("v_head_dim", default=128, maximum=100_000)
    window = keys.optional_integer("sliding_window_size", maximum=MAX_CONTEXT)
    window = window or windows.sliding_window(keys, 129)
    full = _Geometry(heads, kv_heads, key_dim, value_dim).check(keys)
    sliding_heads = keys.integer("swa_num_attention_heads", default=heads, maximum=100_000)
    sliding = _Geometry(
        sliding_heads,
        keys.integer(
            "swa_num_key_value_heads", default=min(2 * kv_heads, sliding_heads), maximum=100_000
        ),
        keys.integer("swa_head_dim", default=key_dim, maximum=100_000),
        keys.integer("swa_v_head_dim", default=value_dim, maximum=100_000),
        window,
        sinks=True,
    ).check(keys)
    pattern = keys.integers("hybrid_layer_pattern", length=layers, maximum=1)
    if pattern is None:
        types = windows.layer_types(keys, layers, windows.first_and_every(6))
        pattern = tuple(int(kind == windows.SLIDING) for kind in types)
    geometry = [sliding if slides else full for slides in pattern]
    return _build(
        keys,
        geometry,
        _MIMO,
        _MIMO.layers(keys, layers),
        None,
        positions=131072,
        qk_norm=False,
        output_bias=False,
        mtp=Mtp(sparse=False, stores_tables=False),
    )


def llama4(keys: Keys) -> Architecture:
    """Llama 4's language model: chunked attention on layers with rotary positions, experts on every n-th layer, each
    with a shared one of equal width. Norms on queries and keys have no weights."""
    layers = layer_count(keys)
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=8, maximum=heads)
    head_dim = keys.integer("head_dim", default=128, maximum=100_000)
    base = _Geometry(heads, kv_heads, head_dim, head_dim).check(keys)
    chunk = keys.optional_integer("attention_chunk_size", default=8192, maximum=MAX_CONTEXT)
    chunked = replace(base, window=chunk, chunked=True)
    geometry = [
        chunked if slides and chunk is not None else base
        for slides in _chunked_layers(keys, layers)
    ]
    step = keys.integer("interleave_moe_layer_step", default=1, maximum=10_000)
    given = keys.integers("moe_layers", maximum=10_000)
    with_experts = frozenset(range(step - 1, layers, step) if given is None else given)
    return _build(
        keys,
        geometry,
        _LLAMA4,
        tuple(index in with_experts for index in range(layers)),
        None,
        positions=131072,
        qk_norm=False,
        dense_width="intermediate_size_mlp",
    )


def _chunked_layers(keys: Keys, layers: int) -> tuple[bool, ...]:
    given = keys.texts("layer_types", length=layers, choices=windows.LAYER_TYPES)
    if given is not None:
        return tuple(kind != windows.FULL for kind in given)
    # Despite its name, 1 in `no_rope_layers` means rotary positions.
    rope = keys.integers("no_rope_layers", maximum=1)
    if rope:
        if len(rope) != layers:
            raise keys.contradiction(
                "no_rope_layers", "list_length", expected=layers, given=len(rope)
            )
        return tuple(value == 1 for value in rope)
    interval = keys.integer("no_rope_layer_interval", default=4, maximum=10_000)
    return tuple((index + 1) % interval != 0 for index in range(layers))


def _step_sparse(keys: Keys, layers: int) -> tuple[bool, ...]:
    def listed(keys: Keys, layers: int) -> tuple[bool, ...]:
        if not keys.has("moe_layers_enum"):
            return mixtures.after_first_dense(3)(keys, layers)
        if isinstance(keys.config["moe_layers_enum"], str):
            items = keys.text("moe_layers_enum", longest=100_000).split(",")
            if not all(item.strip().isdecimal() for item in items if item.strip()):
                raise keys.contradiction("moe_layers_enum", "not_numbers")
            sparse = {int(item[:12]) for item in items if item.strip()}
        else:
            sparse = set(keys.integers("moe_layers_enum", maximum=10_000) or ())
        return tuple(index in sparse for index in range(layers))

    return mixtures.by_mlp_layer_type(listed)(keys, layers)


def _without_mtp_layers(keys: Keys, layers: int, mtp: int) -> Keys:
    """Lists per layer cut to the model's own layers: Step's run on into its next-token-prediction layers."""
    cut = {
        name: value[:layers]
        for name in ("layer_types", "mlp_layer_types")
        if isinstance(value := keys.config.get(name), list) and len(value) == layers + mtp
    }
    return Keys({**keys.config, **cut}, keys.prefix) if cut else keys


def _build(
    keys: Keys,
    geometry: list[_Geometry],
    mixture: Mixture,
    sparse: tuple[bool, ...],
    gated_per_head: bool | None,
    *,
    positions: int,
    qk_norm: bool = True,
    output_bias: bool = True,
    dense_width: str = "intermediate_size",
    mlp_bias: Flag = False,
    mtp: Mtp | None = None,
) -> Architecture:
    """Layers by geometry and sparsity; `gated_per_head` None means no gate on the attention's result."""
    hidden = keys.integer("hidden_size")
    bias = keys.flag("attention_bias", default=False)
    width = 0 if all(sparse) and mtp is None else keys.integer(dense_width)
    experts = mixture.read(keys) if any(sparse) else None

    @cache
    def kind(shape: _Geometry, is_sparse: bool) -> LayerKind:
        gate = 0
        if gated_per_head is not None:
            gate = shape.heads * (1 if gated_per_head else shape.value_dim)
        weights = grouped_query_attention(
            hidden,
            shape.heads,
            shape.kv_heads,
            shape.key_dim,
            value_dim=shape.value_dim,
            query_bias=bias,
            kv_bias=bias,
            output_bias=bias and output_bias,
            output_gate=gate,
            sinks=shape.sinks,
        )
        if qk_norm:
            weights += query_key_norms("head", shape.heads, shape.kv_heads, shape.key_dim)
        weights += norm("norm", hidden, copies=2)
        if is_sparse and experts:
            return _sparse(keys, shape, weights, mixture, hidden, experts)
        return LayerKind(
            (shape.mixer(),),
            (*weights, *gated_mlp(hidden, width, bias=flag(keys, mlp_bias))),
            feed_forward_width=width,
        )

    order = [kind(*pair) for pair in zip(geometry, sparse, strict=True)]
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=False)
    # Next-token-prediction layers are windowed where any layer is, and dense.
    predicting = next((shape for shape in geometry if shape.window), geometry[0])
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=positions),
        mtp=(
            mtp_weights(keys, mtp, hidden, vocabulary, kind(predicting, False).weights)
            if mtp
            else ()
        ),
    )


def _sparse(
    keys: Keys, shape: _Geometry, weights: Weights, mixture: Mixture, hidden: int, experts: Experts
) -> LayerKind:
    return LayerKind(
        (shape.mixer(),),
        (*weights, *mixture.weights(keys, hidden, experts)),
        experts.count,
        experts.per_token,
        experts.active_width,
    )
