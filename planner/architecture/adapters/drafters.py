"""Gemma 4's assistants: small decoders that draft for a larger model and read its keys and values, storing none."""

from __future__ import annotations

from dataclasses import replace

from planner.architecture.adapters import adapter_for
from planner.architecture.blocks import Weights, linear, vector
from planner.architecture.keys import Keys
from planner.architecture.mixers import Attention
from planner.architecture.spec import Architecture, LayerKind, Part, Shard

_TEXT_TYPES = {
    "gemma4_assistant": "gemma4_text",
    "gemma4_unified_assistant": "gemma4_unified_text",
}
_BACKBONE = {"gemma4_assistant": 1536, "gemma4_unified_assistant": 3840}
_MADE_BY_THE_MODEL = ("key", "key_bias", "value", "value_bias", "key_norm")


def gemma4(keys: Keys) -> Architecture:
    """An assistant: Gemma 4's layers with queries alone, between projections from and to the model's width."""
    model_type = keys.text("model_type")
    section = keys.section("text_config")
    # As if each layer stored its own, and then without what it doesn't have.
    text = {
        "hidden_size_per_layer_input": 0,
        **section.config,
        "model_type": _TEXT_TYPES[model_type],
        "num_kv_shared_layers": 0,
        "quantization_config": keys.config.get("quantization_config"),
        "dtype": keys.config.get("dtype", keys.config.get("torch_dtype")),
        "tie_word_embeddings": keys.flag("tie_word_embeddings", default=True),
    }
    adapter = adapter_for(_TEXT_TYPES[model_type])
    assert adapter is not None
    built = adapter(Keys(text, section.prefix))
    hidden = built.hidden_size
    width = keys.integer("backbone_hidden_size", default=_BACKBONE[model_type])
    part = Part.PROJECTOR
    extra: Weights = (
        *linear("input_projection", part, hidden, 2 * width, shard=Shard.NONE),
        *linear("output_projection", part, width, hidden, shard=Shard.NONE),
    )
    if keys.flag("use_ordered_embeddings", default=False):
        groups = keys.integer("num_centroids", default=2048)
        extra += linear("centroids", Part.HEAD, groups, hidden)
        extra += vector("token_order", Part.HEAD, built.vocabulary_size, dtype="int64", buffer=True)
    return replace(
        built,
        model_type=model_type,
        layer_kinds=tuple(_reading(kind) for kind in built.layer_kinds),
        outer=built.outer + extra,
    )


def _reading(kind: LayerKind) -> LayerKind:
    mixers = tuple(
        replace(mixer, caches=False) if isinstance(mixer, Attention) else mixer
        for mixer in kind.mixers
    )
    weights = tuple(weight for weight in kind.weights if weight.name not in _MADE_BY_THE_MODEL)
    return replace(kind, mixers=mixers, weights=weights)
