"""Decoders whose code lives with their checkpoints: they differ from the common decoder by key names, biases and norms.

References:
    The modelling code published with each model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.architecture.adapters import adapter_for
from planner.architecture.adapters.decoder import Traits
from planner.architecture.adapters.decoder import architecture as build
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import embedding
from planner.architecture.keys import Keys
from planner.architecture.spec import Architecture

# MiniCPM's expert models state the same model type, and are told apart by having experts.
_MINICPM_EXPERTS = Mixture(width=("intermediate_size",))

FAMILIES: dict[str, Traits] = {
    "baichuan": Traits(
        names={"max_position_embeddings": ("max_position_embeddings", "model_max_length")},
        reads_head_dim=False,
    ),
    "internlm": Traits(max_positions=2048, qkv_bias=("bias", True), output_bias=("bias", True)),
    "internlm2": Traits(qkv_bias=("bias", False), output_bias=("bias", False)),
    "minicpm": Traits(
        # The long-context checkpoints state their length beside the positions they were scaled from.
        names={"max_position_embeddings": ("max_length", "max_position_embeddings")},
        tied=True,
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        length_scales=False,
    ),
    "molmo_text": Traits(qkv_bias=("qkv_bias", True)),
    "orion": Traits(norm="layer"),
    "qwen": Traits(
        names={
            "head_dim": ("kv_channels",),
            "max_position_embeddings": ("seq_length", "max_position_embeddings"),
        },
        qkv_bias=True,
        base_has_head=True,
    ),
}


def architecture(keys: Keys) -> Architecture:
    """The architecture of a decoder of any family in the table."""
    return build(keys, FAMILIES[keys.text("model_type")])


def minicpm(keys: Keys) -> Architecture:
    """MiniCPM, dense or with experts as wide as the dense feed-forward."""
    traits = FAMILIES["minicpm"]
    if keys.integer("num_experts", default=0, minimum=0):
        traits = replace(traits, mixture=_MINICPM_EXPERTS)
    return build(keys, traits)


def qwen(keys: Keys) -> Architecture:
    """Qwen 1: the stated intermediate size is gate and up together; with `visual`, Qwen-VL and its tower."""
    from planner.architecture.towers import towers_of

    stated = keys.integer("intermediate_size", minimum=2)
    decoder = build(_with(keys, intermediate_size=stated // 2), FAMILIES["qwen"])
    towers = towers_of(keys.config)
    return replace(decoder, towers=towers, modality="vision-text") if towers else decoder


def molmo(keys: Keys) -> Architecture:
    """Molmo's decoder: Qwen 2's layers under OLMo's names, and 128 image tokens in a table of their own."""
    stated = keys.integer("intermediate_size", minimum=2)
    decoder = build(_with(keys, intermediate_size=stated // 2), FAMILIES["molmo_text"])
    images = embedding(128, decoder.hidden_size, name="image_embedding")
    return replace(decoder, outer=decoder.outer + images)


def chatglm(keys: Keys) -> Architecture:
    """ChatGLM 2 and 3: multi-query groups, biases on queries, keys and values, an untied output layer."""
    grouped = keys.flag("multi_query_attention", default=False)
    groups = keys.integer("multi_query_group_num", default=1) if grouped else None
    traits = Traits(
        names={
            "num_hidden_layers": ("num_layers", "num_hidden_layers"),
            "intermediate_size": ("ffn_hidden_size",),
            "vocab_size": ("padded_vocab_size", "vocab_size"),
            "head_dim": ("kv_channels",),
            "max_position_embeddings": ("seq_length",),
            "num_key_value_heads": ("num_key_value_heads",),
        },
        kv_heads=groups,
        qkv_bias=keys.flag("add_qkv_bias", default=False)
        or keys.flag("add_bias_linear", default=True),
        output_bias=("add_bias_linear", True),
        mlp_bias=("add_bias_linear", True),
        norm="rms" if keys.flag("rmsnorm", default=True) else "layer",
        dtype="float16",
        base_has_head=True,
    )
    return build(keys, traits)


# Text sections of multimodal models, and the family that they are.
_SAME_AS: Mapping[str, str] = {
    "gemma4_unified_text": "gemma4_text",
    "qwen3_omni_moe_text": "qwen3_vl_moe_text",
}


def alias(keys: Keys) -> Architecture:
    """A language model whose section has a model type of its own but is of another family."""
    target = _SAME_AS[keys.text("model_type")]
    adapter = adapter_for(target)
    assert adapter is not None
    # Without encoders, Gemma 4 has no embedding for each layer either.
    absent = {"hidden_size_per_layer_input": 0} if target == "gemma4_text" else {}
    return adapter(Keys({**absent, **keys.config, "model_type": target}, keys.prefix))


def _with(keys: Keys, **values: Any) -> Keys:
    return Keys({**keys.config, **values}, keys.prefix)
