"""Which part of a model a tensor belongs to, by its name in the checkpoint.

Only as fine as loaders and sharding need: embedding, head, layers, routed experts, towers, next-token-prediction
layers. A name that says nothing else counts among the layers.
"""

from __future__ import annotations

import re

from planner.architecture.checkpoint.sizes import Group

# Modules' names in published checkpoints, as whole components of a dotted path.
_TOWERS = frozenset(
    {
        *("visual", "vision_tower", "vision_model", "vision_encoder", "vision_embed_tokens", "vision"),
        *("vpm", "vit", "mlp1", "resampler", "merger", "patch_merger", "img_processor", "image_newline"),
        *("multi_modal_projector", "mm_projector", "mm_projectors", "vision_projector", "vision_adapter"),
        *("audio_tower", "audio_encoder", "audio_projector", "embed_vision", "embed_audio", "connector"),
        *("audio_embed", "speech_encoder", "talker", "token2wav", "code2wav", "projector", "view_seperator"),
    }
)  # fmt: skip
_EMBEDDINGS = frozenset(
    {
        *("embed_tokens", "embed_positions", "embed_tokens_per_layer", "embeddings", "embedding", "embed"),
        *("wte", "wpe", "word_embeddings", "tok_embeddings", "embed_in", "shared", "altup_projections"),
    }
)  # fmt: skip
_HEADS = frozenset(
    {"lm_head", "embed_out", "output_layer", "altup_unembed_projections", "lm_head_bias"}
)
_HEADS_AT_THE_TOP = frozenset({"output", "head"})
_MTP = frozenset({"mtp", "mtp_layers", "mtp_block", "mtp_head", "eh_proj", "enorm", "hnorm", "nextn"})  # fmt: skip
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,5})\.")

_GGUF_BLOCK = re.compile(r"blk\.(\d{1,5})\.")
_GGUF_EMBEDDINGS = (
    "token_embd",
    "position_embd",
    "token_types",
    "per_layer_token_embd",
    "altup_proj",
)
_GGUF_HEADS = ("output.", "altup_unembd_proj")
_GGUF_TOWERS = ("v.", "a.", "mm.", "resampler.")


def group_by_name(name: str, layers: int | None = None) -> Group:
    """The group of a tensor in a Hugging Face checkpoint.

    Args:
        layers: of the model itself; a language-model layer from there on is a next-token-prediction layer.
    """
    parts = name.split(".")
    found = set(parts)
    if found & _TOWERS:
        return Group.TOWER
    if found & _MTP:
        return Group.MTP
    layer = _LAYER.search(name)
    if layer is not None:
        if layers is not None and int(layer[1]) >= layers:
            return Group.MTP
        return Group.EXPERTS if "experts" in found else Group.LAYERS
    if found & _HEADS or parts[0] in _HEADS_AT_THE_TOP:
        return Group.HEAD
    if found & _EMBEDDINGS:
        return Group.EMBEDDING
    return Group.EXPERTS if "experts" in found else Group.LAYERS


def group_by_gguf_name(name: str, layers: int | None = None) -> Group:
    """The group of a tensor in a GGUF; `layers` as in `group_by_name`."""
    block = _GGUF_BLOCK.match(name)
    if block is not None:
        if ".nextn." in name or (layers is not None and int(block[1]) >= layers):
            return Group.MTP
        return Group.EXPERTS if "_exps." in name else Group.LAYERS
    if name.startswith(_GGUF_EMBEDDINGS):
        return Group.EMBEDDING
    if name.startswith(_GGUF_HEADS):
        return Group.HEAD
    return Group.TOWER if name.startswith(_GGUF_TOWERS) else Group.LAYERS
