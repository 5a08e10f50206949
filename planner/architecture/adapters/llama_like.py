"""Dense decoders as rows of traits.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from planner.architecture.adapters import windows
from planner.architecture.adapters.decoder import Dimensions, Mtp, Traits
from planner.architecture.adapters.decoder import architecture as build
from planner.architecture.blocks import Weights, norm, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Architecture, Part

BIAS = ("attention_bias", False)
MLP_BIAS = ("mlp_bias", False)
_USE_BIAS = ("use_bias", False)

_LLAMA = Traits(max_positions=2048, qkv_bias=BIAS, output_bias=BIAS, mlp_bias=MLP_BIAS)
_MISTRAL = Traits(kv_heads=8, max_positions=131072, windows=windows.uniform(4096))
_QWEN2_VL = Traits(
    kv_heads=8,
    max_positions=32768,
    qkv_bias=True,
    windows=windows.after_max_window_layers(80),
)
_GEMMA = Traits(
    kv_heads=16, head_dim=256, max_positions=8192, tied=True, qkv_bias=BIAS, output_bias=BIAS
)
_GLM = Traits(kv_heads=2, head_dim=128, max_positions=131072, qkv_bias=("attention_bias", True))


def _xielu(keys: Keys, sizes: Dimensions, width: int) -> Weights:
    """Two learned scalars of the activation."""
    return vector("activation", Part.FEED_FORWARD, 1, copies=2)


def _bitnet_norms(keys: Keys, sizes: Dimensions, width: int) -> Weights:
    """Norms before the output and the down projection."""
    return (*norm("attention_sub_norm", sizes.hidden), *norm("mlp_sub_norm", width))


def _post_norms(keys: Keys, sizes: Dimensions, width: int) -> Weights:
    """Norms after attention and feed-forward, unless `use_post_norm` is off."""
    used = keys.flag("use_post_norm", default=True)
    return norm("post_norm", sizes.hidden, copies=2) if used else ()


FAMILIES: dict[str, Traits] = {
    "apertus": Traits(
        max_positions=65536,
        qkv_bias=BIAS,
        output_bias=BIAS,
        gated=False,
        qk_norm="head",
        extra=_xielu,
    ),
    "bitnet": Traits(
        kv_heads=5, max_positions=2048, qkv_bias=BIAS, output_bias=BIAS, extra=_bitnet_norms
    ),
    "hyperclovax": Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=MLP_BIAS,
        extra=_post_norms,
    ),
    "llama": _LLAMA,
    "exaone": Traits(
        names={"num_hidden_layers": ("num_layers", "num_hidden_layers")},
        kv_heads=8,
        max_positions=4096,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=MLP_BIAS,
    ),
    "internlm3": Traits(
        kv_heads=2,
        head_dim=128,
        max_positions=32768,
        qkv_bias=("qkv_bias", False),
        output_bias=("qkv_bias", False),
        mlp_bias=("bias", False),
    ),
    "iquestcoder": Traits(
        kv_heads=8,
        head_dim=128,
        max_positions=131072,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=MLP_BIAS,
    ),
    "seed_oss": Traits(
        kv_heads=8,
        head_dim=128,
        max_positions=524288,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_out_bias", False),
        mlp_bias=MLP_BIAS,
    ),
    "helium": Traits(
        kv_heads=20, head_dim=128, max_positions=4096, qkv_bias=BIAS, mlp_bias=MLP_BIAS
    ),
    "arcee": Traits(
        max_positions=4096, qkv_bias=BIAS, output_bias=BIAS, mlp_bias=MLP_BIAS, gated=False
    ),
    "jais2": Traits(
        max_positions=8192,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        mlp_bias=("mlp_bias", True),
        gated=False,
        norm="layer",
    ),
    "nemotron": Traits(
        max_positions=4096,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=MLP_BIAS,
        gated=False,
        norm="layer",
    ),
    "nanochat": Traits(
        max_positions=2048, qkv_bias=BIAS, output_bias=BIAS, gated=False, norm="none"
    ),
    "hunyuan_v1_dense": Traits(max_positions=2048, qkv_bias=BIAS, output_bias=BIAS, qk_norm="head"),
    "smollm3": Traits(
        kv_heads=4,
        max_positions=32768,
        tied=True,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=MLP_BIAS,
        windows=windows.where_no_rope,
    ),
    "cwm": Traits(
        kv_heads=8,
        head_dim=128,
        max_positions=131072,
        mlp_bias=MLP_BIAS,
        windows=windows.by_layer_type(8192, windows.starting(4)),
    ),
    "granite": _LLAMA,
    "granite_swa": Traits(
        kv_heads=4,
        max_positions=8192,
        tied=True,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=MLP_BIAS,
        sinks=True,
        windows=windows.by_layer_type(128, windows.starting(4)),
    ),
    "mistral": _MISTRAL,
    "ministral": Traits(
        kv_heads=8,
        max_positions=131072,
        windows=windows.by_layer_type(4096, windows.never),
    ),
    "ministral3": Traits(
        kv_heads=8, head_dim=128, max_positions=262144, windows=windows.uniform(None)
    ),
    "qwen2": Traits(
        kv_heads=32,
        max_positions=32768,
        qkv_bias=True,
        windows=windows.after_max_window_layers(28),
    ),
    "qwen2_5_vl_text": _QWEN2_VL,
    "qwen2_vl_text": _QWEN2_VL,
    "mimo": Traits(
        max_positions=32768,
        qkv_bias=("attention_bias", True),
        windows=windows.after_max_window_layers(28),
        mtp=Mtp(stores_tables=False),
    ),
    "qwen3": Traits(
        kv_heads=32,
        head_dim=128,
        max_positions=32768,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="head",
        windows=windows.after_max_window_layers(28),
    ),
    "qwen3_vl_text": Traits(
        kv_heads=32,
        head_dim=128,
        max_positions=128000,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="head",
    ),
    "gemma": _GEMMA,
    "gemma2": Traits(
        kv_heads=4,
        head_dim=256,
        max_positions=8192,
        tied=True,
        qkv_bias=BIAS,
        output_bias=BIAS,
        norms=4,
        windows=windows.by_layer_type(4096, windows.every(2, None)),
    ),
    "vaultgemma": Traits(
        kv_heads=4,
        head_dim=256,
        max_positions=8192,
        tied=True,
        qkv_bias=BIAS,
        output_bias=BIAS,
        windows=windows.by_layer_type(4096, windows.every(2, None)),
    ),
    "gemma3_text": Traits(
        kv_heads=4,
        head_dim=256,
        max_positions=131072,
        length_scales=False,
        tied=True,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="head",
        norms=4,
        windows=windows.by_layer_type(4096, windows.every(6)),
    ),
    "glm": _GLM,
    "glm4": Traits(
        kv_heads=2,
        head_dim=128,
        max_positions=131072,
        qkv_bias=("attention_bias", True),
        norms=4,
    ),
    "exaone4": Traits(
        kv_heads=32,
        max_positions=2048,
        qk_norm="head",
        windows=windows.by_layer_type(4096, windows.lettered(4)),
    ),
    "ernie4_5": Traits(
        kv_heads=2,
        head_dim=128,
        max_positions=131072,
        tied=True,
        qkv_bias=_USE_BIAS,
        output_bias=_USE_BIAS,
        mlp_bias=_USE_BIAS,
    ),
    "olmo": Traits(max_positions=2048, qkv_bias=BIAS, output_bias=BIAS, norm="none"),
    "olmo2": Traits(max_positions=2048, qkv_bias=BIAS, output_bias=BIAS, qk_norm="full"),
    "olmo3": Traits(
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        qk_norm="full",
        windows=windows.by_layer_type(4096, windows.every(4, None)),
    ),
    "cohere": Traits(
        names={"max_position_embeddings": ("model_max_length", "max_position_embeddings")},
        max_positions=8192,
        tied=True,
        qkv_bias=BIAS,
        output_bias=BIAS,
        norms=1,
        qk_norm="full",
        qk_norm_if=("use_qk_norm", False),
    ),
    "cohere2": Traits(
        max_positions=8192,
        reads_head_dim=False,
        tied=True,
        qkv_bias=BIAS,
        output_bias=BIAS,
        norms=1,
        windows=windows.by_layer_type(4096, windows.every(4)),
    ),
    "phi": Traits(
        max_positions=2048,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        head_bias=True,
        gated=False,
        norm="layer",
        norms=1,
        qk_norm="head_layer",
        qk_norm_if=("qk_layernorm", False),
    ),
    "phi-msft": Traits(
        names={
            "hidden_size": ("n_embd",),
            "num_attention_heads": ("n_head",),
            "num_key_value_heads": ("n_head_kv",),
            "num_hidden_layers": ("n_layer",),
            "intermediate_size": ("n_inner",),
            "max_position_embeddings": ("n_positions",),
        },
        max_positions=2048,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        head_bias=True,
        gated=False,
        norm="layer",
        norms=1,
        width_over_hidden=4,
    ),
    "phi3": Traits(max_positions=4096, windows=windows.uniform(None)),
    "persimmon": Traits(
        max_positions=16384,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        gated=False,
        norm="layer",
        qk_norm="head_layer",
        qk_norm_if=("qk_layernorm", True),
    ),
    "stablelm": Traits(
        kv_heads=32,
        max_positions=4096,
        qkv_bias=("use_qkv_bias", False),
        norm="layer",
        norms_if_parallel=1,
        qk_norm="full",
        qk_norm_if=("qk_layernorm", False),
    ),
    "starcoder2": Traits(
        kv_heads=2,
        max_positions=4096,
        tied=True,
        qkv_bias=("use_bias", True),
        output_bias=("use_bias", True),
        mlp_bias=("use_bias", True),
        gated=False,
        norm="layer",
        windows=windows.uniform(None),
    ),
    "muse_glimmer_text": Traits(
        kv_heads=2,
        head_dim=128,
        max_positions=131072,
        qkv_bias=BIAS,
        output_bias=BIAS,
        norms=4,
        output_gate="full",
        windows=windows.by_layer_type(2048, windows.counted_from_the_end(4)),
    ),
}


def architecture(keys: Keys) -> Architecture:
    """The architecture of a dense decoder of any family in the table."""
    return build(keys, FAMILIES[keys.text("model_type")])
