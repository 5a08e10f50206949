"""Decoders with mixtures of experts as rows of traits.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from planner.architecture.adapters import mixtures, windows
from planner.architecture.adapters.decoder import Mtp, Traits
from planner.architecture.adapters.decoder import architecture as build
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.keys import Keys
from planner.architecture.spec import Architecture

BIAS = ("attention_bias", False)
_USE_BIAS = ("use_bias", False)
_LOCAL = ("num_local_experts", "num_experts")
_ROUTED = ("n_routed_experts", "num_local_experts", "num_experts")

_GRANITE_MOE = Mixture(
    experts=_LOCAL,
    width=("intermediate_size",),
    shared_width=("shared_intermediate_size",),
    default_shared=0,
)

FAMILIES: dict[str, Traits] = {
    "mixtral": Traits(
        kv_heads=8,
        max_positions=131072,
        windows=windows.uniform(None),
        mixture=Mixture(experts=_LOCAL, width=("intermediate_size",)),
    ),
    "phimoe": Traits(
        kv_heads=8,
        max_positions=131072,
        qkv_bias=BIAS,
        output_bias=BIAS,
        head_bias=("lm_head_bias", False),
        norm="layer",
        windows=windows.uniform(None),
        mixture=Mixture(experts=_LOCAL, width=("intermediate_size",)),
    ),
    "qwen2_moe": Traits(
        kv_heads=16,
        max_positions=32768,
        qkv_bias=("qkv_bias", True),
        windows=windows.odd_before_max_window_layers,
        mixture=Mixture(
            shared_width=("shared_expert_intermediate_size",),
            shared_gate=True,
            layers=mixtures.by_sparse_step(),
        ),
    ),
    "qwen3_moe": Traits(
        kv_heads=4,
        max_positions=32768,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="head",
        windows=windows.uniform_if_flagged(4096),
        mixture=Mixture(layers=mixtures.by_sparse_step()),
    ),
    "qwen3_vl_moe_text": Traits(
        kv_heads=16,
        max_positions=128000,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="head",
        mixture=Mixture(layers=mixtures.by_sparse_step()),
    ),
    "granitemoe": Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mixture=Mixture(experts=_LOCAL, width=("intermediate_size",)),
    ),
    "granitemoeshared": Traits(
        max_positions=2048, qkv_bias=BIAS, output_bias=BIAS, mixture=_GRANITE_MOE
    ),
    "granitemoe_swa": Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        sinks=True,
        windows=windows.by_layer_type(128, windows.starting(4)),
        mixture=_GRANITE_MOE,
    ),
    "olmoe": Traits(
        max_positions=4096,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="full",
        mixture=Mixture(width=("intermediate_size",)),
    ),
    "flex_olmo": Traits(
        max_positions=4096,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="full",
        mixture=Mixture(width=("intermediate_size",)),
    ),
    "gpt_oss": Traits(
        kv_heads=8,
        head_dim=64,
        max_positions=131072,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        sinks=True,
        windows=windows.by_layer_type(128, windows.every(2, None)),
        mixture=Mixture(
            experts=_LOCAL,
            per_token=("num_experts_per_tok", "experts_per_token"),
            width=("intermediate_size",),
            router_bias=True,
            expert_bias=True,
        ),
    ),
    "minimax_m2": Traits(
        kv_heads=8,
        head_dim=128,
        max_positions=196608,
        qk_norm="full",
        mixture=Mixture(experts=_LOCAL, width=("intermediate_size",), correction="buffer"),
    ),
    "ernie4_5_moe": Traits(
        kv_heads=4,
        max_positions=131072,
        tied=True,
        qkv_bias=_USE_BIAS,
        output_bias=_USE_BIAS,
        mlp_bias=_USE_BIAS,
        head_bias=_USE_BIAS,
        mixture=Mixture(
            experts=("moe_num_experts",),
            per_token=("moe_k",),
            shared=("moe_num_shared_experts",),
            default_shared=2,
            shared_bias=_USE_BIAS,
            correction="parameter",
            layers=mixtures.between,
        ),
        mtp=Mtp(norms=2, stores_tables=False, sparse=False),
    ),
    "glm4_moe": Traits(
        kv_heads=8,
        max_positions=131072,
        qkv_bias=BIAS,
        qk_norm="head",
        qk_norm_if=("use_qk_norm", False),
        mixture=Mixture(
            experts=_ROUTED,
            shared=("n_shared_experts",),
            default_shared=1,
            correction="buffer",
            layers=mixtures.after_first_dense(1),
        ),
        mtp=Mtp(),
    ),
    "sarvam_moe": Traits(
        kv_heads=4,
        head_dim=64,
        max_positions=131072,
        qkv_bias=("attention_bias", False),
        qk_norm="head",
        qk_norm_if=("use_qk_norm", True),
        mixture=Mixture(
            experts=_ROUTED,
            shared=("n_shared_experts", "num_shared_experts"),
            default_shared=1,
            correction="buffer",
            layers=mixtures.after_first_dense(1),
        ),
    ),
    "dots1": Traits(
        kv_heads=32,
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="head",
        windows=windows.after_max_window_layers(62, needs_flag=False),
        mixture=Mixture(
            experts=_ROUTED,
            shared=("n_shared_experts",),
            correction="buffer",
            layers=mixtures.after_first_dense(0),
        ),
    ),
    "solar_open": Traits(
        kv_heads=8,
        head_dim=128,
        max_positions=131072,
        qkv_bias=BIAS,
        mixture=Mixture(
            experts=_ROUTED,
            shared=("n_shared_experts",),
            default_shared=1,
            correction="buffer",
        ),
    ),
    "exaone_moe": Traits(
        kv_heads=32,
        max_positions=2048,
        qk_norm="head",
        windows=windows.by_layer_type(4096, windows.lettered(4)),
        mixture=Mixture(
            shared=("num_shared_experts",),
            default_shared=1,
            correction="buffer",
            layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(1)),
        ),
        mtp=Mtp(stores_tables=False, sparse=False),
    ),
    "afmoe": Traits(
        head_dim=128,
        max_positions=16384,
        qkv_bias=BIAS,
        output_bias=BIAS,
        norms=4,
        qk_norm="head",
        output_gate="full",
        windows=windows.by_layer_type(1024, windows.every(4, "global_attn_every_n_layers")),
        mixture=Mixture(
            shared=("num_shared_experts",),
            default_shared=2,
            correction="parameter",
            layers=mixtures.after_first_dense(1, "num_dense_layers"),
        ),
    ),
    "hunyuan_v1_moe": Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="head",
        mixture=Mixture(
            per_token=("moe_topk",),
            width=("intermediate_size",),
            shared_width=("intermediate_size",),
        ),
    ),
    "hy_v3": Traits(
        kv_heads=8,
        head_dim=128,
        max_positions=131072,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=("mlp_bias", False),
        qk_norm="head",
        mixture=Mixture(
            shared=("num_shared_experts",),
            default_shared=1,
            shared_bias=("mlp_bias", False),
            correction="buffer",
            layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(1)),
        ),
        mtp=Mtp(stores_tables=False),
    ),
    "mellum": Traits(
        kv_heads=4,
        head_dim=128,
        max_positions=131072,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="head",
        windows=windows.by_layer_type(1024, windows.all_full),
        mixture=Mixture(layers=mixtures.by_mlp_layer_type(mixtures.all_sparse)),
    ),
    "flint": Traits(
        kv_heads=4,
        head_dim=128,
        max_positions=262144,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="head",
        sinks=True,
        windows=windows.by_layer_type(513, windows.flint_pattern),
        mixture=Mixture(
            shared_width=("shared_expert_intermediate_size",),
            default_shared=1024,
            layers=mixtures.by_sparse_step((0, 1)),
        ),
    ),
    "kolibri1": Traits(
        kv_heads=4,
        head_dim=128,
        max_positions=262144,
        norms=4,
        qk_norm="head",
        windows=windows.by_layer_type(513, windows.every(5, None)),
        mixture=Mixture(
            experts=_LOCAL,
            shared_width=("shared_expert_intermediate_size",),
            default_shared=512,
            correction="buffer",
        ),
    ),
    # DeepSeek's first mixture of experts, before latent attention; its configuration ships with the checkpoint.
    "deepseek": Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mixture=Mixture(
            experts=("n_routed_experts",),
            shared=("n_shared_experts",),
            layers=mixtures.after_first_dense(0),
        ),
    ),
}


def architecture(keys: Keys) -> Architecture:
    """The architecture of a decoder with experts of any family in the table."""
    return build(keys, FAMILIES[keys.text("model_type")])


def hunyuan(keys: Keys) -> Architecture:
    """Hunyuan's mixtures, which state some sizes once per layer.

    Raises:
        InvalidConfig: where those differ between layers.
    """
    flat = dict(keys.config)
    for name in ("moe_topk", "num_shared_expert", "moe_intermediate_size"):
        if isinstance(flat.get(name), list):
            values = set(keys.integers(name) or ())
            if len(values) != 1:
                raise keys.contradiction(name, "differs_by_layer")
            flat[name] = values.pop()
    return build(Keys(flat, keys.prefix), FAMILIES["hunyuan_v1_moe"])
