"""More dense decoders as rows of traits: language models of multimodal wrappers, and families with one quirk each.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import replace

from planner.architecture.adapters import windows
from planner.architecture.adapters.decoder import Dimensions, Traits
from planner.architecture.adapters.decoder import architecture as build
from planner.architecture.adapters.llama_like import BIAS, MLP_BIAS
from planner.architecture.adapters.llama_like import FAMILIES as DENSE
from planner.architecture.blocks import Weights, embedding, head, norm, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Architecture, Part

_USE_BIAS = ("use_bias", False)


def _lambdas(keys: Keys, sizes: Dimensions, width: int) -> Weights:
    """Four vectors per layer whose products say how much of the second attention map is taken off the first."""
    return vector("lambda", Part.ATTENTION, sizes.head_dim, copies=4)


def _prediction_norms(keys: Keys, sizes: Dimensions, width: int) -> Weights:
    """Norms inside attention and feed-forward (BioGPT's and Kosmos' are before their last projections)."""
    return (
        *norm("attention_inner_norm", sizes.hidden, kind="layer"),
        *norm("mlp_inner_norm", width, kind="layer"),
    )


def _mlp_inner_norm(keys: Keys, sizes: Dimensions, width: int) -> Weights:
    return norm("mlp_inner_norm", width, kind="layer")


_KOSMOS = Traits(
    names={
        "hidden_size": ("embed_dim",),
        "num_hidden_layers": ("layers",),
        "num_attention_heads": ("attention_heads",),
        "intermediate_size": ("ffn_dim",),
    },
    tied=True,
    grouped=False,
    reads_head_dim=False,
    max_positions=2048,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    norm="layer",
    extra=_prediction_norms,
    dtype="float32",
)

FAMILIES: dict[str, Traits] = {
    "apertus1p5_text": replace(DENSE["apertus"], max_positions=65536),
    "biogpt": Traits(
        max_positions=1024,
        grouped=False,
        reads_head_dim=False,
        tied=True,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        gated=False,
        norm="layer",
        positions=True,
        positions_offset=2,
        dtype="float32",
    ),
    # Full attention unless `layer_types` says otherwise.
    "cohere_compass_text": replace(
        DENSE["cohere2"], windows=windows.by_layer_type(4096, windows.all_full)
    ),
    "cosmos3_edge_text": Traits(
        kv_heads=8,
        head_dim=128,
        max_positions=131072,
        qkv_bias=BIAS,
        output_bias=BIAS,
        mlp_bias=MLP_BIAS,
        gated=False,
    ),
    "diffllama": Traits(
        kv_heads=None,
        max_positions=2048,
        qkv_bias=BIAS,
        output_bias=BIAS,
        passes=2,
        extra=_lambdas,
    ),
    "emu3_text_model": Traits(
        kv_heads=8, max_positions=9216, qkv_bias=BIAS, output_bias=BIAS, mlp_bias=MLP_BIAS
    ),
    "glm4v_text": Traits(kv_heads=2, max_positions=32768, qkv_bias=True, norms=4),
    "glm_ocr_text": Traits(kv_heads=8, max_positions=131072, norms=4),
    "granite4_vision_text": replace(DENSE["granite"], qkv_bias=BIAS),
    "granite_docling_text": replace(DENSE["granite"], kv_heads=4, max_positions=32768, tied=True),
    "hunyuan_vl_text": replace(DENSE["hunyuan_v1_dense"], tied=True),
    "kosmos_2_text_model": _KOSMOS,
    "kosmos_2_5_text_model": replace(_KOSMOS, max_positions=4096, extra=_mlp_inner_norm),
    "paddleocr_vl_text": Traits(
        kv_heads=2,
        head_dim=128,
        max_positions=131072,
        tied=True,
        qkv_bias=_USE_BIAS,
        output_bias=_USE_BIAS,
        mlp_bias=_USE_BIAS,
    ),
    "phi4_multimodal_text": Traits(kv_heads=8, max_positions=131072, windows=windows.uniform(None)),
    "qwen2_5_omni_text": Traits(
        kv_heads=4,
        max_positions=32768,
        qkv_bias=True,
        windows=windows.after_max_window_layers(28),
    ),
}


def architecture(keys: Keys) -> Architecture:
    """The architecture of a dense decoder of any family in the table."""
    return build(keys, FAMILIES[keys.text("model_type")])


def apertus(keys: Keys) -> Architecture:
    """Apertus 1.5: the head may leave out the last token ids, which only ever stand in the input."""
    built = architecture(keys)
    kept = keys.optional_integer("output_vocab_size")
    if kept is None or built.tied:
        return built
    if kept > built.vocabulary_size:
        raise keys.contradiction("output_vocab_size", "too_large", given=kept)
    return _with_head(built, head(kept, built.hidden_size))


def kosmos(keys: Keys) -> Architecture:
    """Kosmos 2 and 2.5: fixed positions, a norm before each block's last projection; 2.5 marks text and image."""
    built = architecture(keys)
    if keys.text("model_type") == "kosmos_2_5_text_model":
        return replace(built, outer=built.outer + embedding(2, built.hidden_size, name="segments"))
    return built


def molmo2(keys: Keys) -> Architecture:
    """Molmo 2's decoder: `additional_vocab_size` image tokens in the table that the head leaves out."""
    kind = keys.text("qk_norm_type", default="qwen3")
    if kind not in ("qwen3", "olmo"):
        raise keys.contradiction("qk_norm_type", "unknown_norm", given=kind)
    traits = Traits(
        kv_heads=8,
        head_dim=128,
        max_positions=36864,
        qkv_bias=BIAS,
        qk_norm="head" if kind == "qwen3" else "full",
    )
    built = build(keys, traits)
    added = keys.integer("additional_vocab_size", default=128, minimum=0)
    if not added:
        return built
    images = embedding(added, built.hidden_size, name="image_embedding")
    return replace(built, outer=built.outer + images)


def _with_head(built: Architecture, weights: Weights) -> Architecture:
    rest = tuple(weight for weight in built.outer if weight.name != "head")
    return replace(built, outer=rest + weights)
