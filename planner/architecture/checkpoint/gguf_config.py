"""From a GGUF's header to a configuration that an adapter describes, checked against the file's own tensors.

What llama.cpp would read from the metadata is translated into the keys of the model type that the file was converted
from; widths and biases come from the tensors, which can't be wrong about themselves. The configuration is then built
once and compared with the file: a model that comes out with another cache or another number of weights is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from planner.architecture.checkpoint.gguf_families import FAMILIES
from planner.architecture.checkpoint.gguf_header import GgufHeader
from planner.architecture.checkpoint.gguf_types import FILE_TYPES, USUAL_FILE_TYPE
from planner.architecture.checkpoint.gguf_values import GgufValues
from planner.architecture.checkpoint.names import group_by_gguf_name
from planner.architecture.checkpoint.sizes import CheckpointBytes, Group, Tally, with_checkpoint
from planner.architecture.checkpoint.tensors import Tensor
from planner.architecture.keys import MAX_EXPERTS
from planner.architecture.mixers import Attention, LatentAttention
from planner.architecture.resolve import architecture_from_config
from planner.architecture.spec import Architecture
from planner.architecture.totals import parameters
from planner.errors import InvalidConfig, InvalidInput, UnsupportedArchitecture

# What may differ without changing what the model is: rotary factors, biases of some layers, padding of the vocabulary.
TOLERANCE = 0.01
_PLAIN = frozenset({"F32", "F16", "BF16"})
_MODEL_TYPES = frozenset({"", "model"})


def config_from_gguf(headers: Sequence[GgufHeader]) -> dict[str, Any]:
    """The configuration of the model in a GGUF, with what the file holds under `CHECKPOINT_KEY`.

    Args:
        headers: of all parts of a split file, in any order; one where it isn't split.

    Raises:
        InvalidInput: `gguf_not_a_model`, `gguf_split`, `gguf_latent_unabsorbed`.
        InvalidConfig: naming the key of the metadata that is missing, out of range, or contradicts the tensors.
        UnsupportedArchitecture: for an architecture that isn't translated.
    """
    first = _first_part(headers)
    metadata = first.metadata
    if str(metadata.get("general.type", "")) not in _MODEL_TYPES:
        raise InvalidInput(
            "gguf_not_a_model", field="model", file=first.name, given=str(metadata["general.type"])
        )
    tensors = [tensor for header in headers for tensor in header.tensors]
    values = GgufValues(metadata, tensors)
    family = FAMILIES.get(values.arch)
    if family is None:
        nearest = get_close_matches(values.arch, FAMILIES, n=3, cutoff=0.5)
        raise UnsupportedArchitecture(
            "gguf_architecture",
            field="model",
            model_type=values.arch[:60],
            nearest=tuple(nearest) or tuple(FAMILIES),
        )
    config = _common(values, family.by_layer)
    config["model_type"] = family.model_type
    if family.period:
        config |= values.windows(family.period)
    if family.refine is not None:
        family.refine(values, config)
    checkpoint = _summed(first, tensors, values.layers)
    config["dtype"] = _dtype(checkpoint)
    _check(architecture_from_config(config), values, checkpoint)
    return with_checkpoint(config, checkpoint)


def _first_part(headers: Sequence[GgufHeader]) -> GgufHeader:
    """The part that holds the metadata.

    Raises:
        InvalidInput: where the parts aren't one whole set.
    """
    by_number: dict[object, GgufHeader] = {}
    for header in headers:
        by_number[header.metadata.get("split.no", 0)] = header
    count = headers[0].metadata.get("split.count", 1)
    first = by_number.get(0)
    whole = set(by_number) == set(range(len(headers))) and count in (0, len(headers))
    if first is None or not whole:
        raise InvalidInput("gguf_split", field="model", file=headers[0].name, parts=len(headers))
    expected = first.metadata.get("split.tensors.count")
    held = sum(len(header.tensors) for header in headers)
    if len(headers) > 1 and expected is not None and expected != held:
        raise InvalidInput("gguf_split", field="model", file=first.name, parts=len(headers))
    return first


def _common(values: GgufValues, by_layer: frozenset[str]) -> dict[str, Any]:
    """Keys that families state alike; adapters leave aside those that theirs doesn't have.

    Args:
        by_layer: metadata that may differ between layers, which the family reads itself.
    """
    layers, heads = values.layers, values.integer("attention.head_count", maximum=100_000)
    hidden = values.integer("embedding_length")
    kv_heads = heads
    if "attention.head_count_kv" not in by_layer:
        kv_heads = values.integer("attention.head_count_kv", default=heads, maximum=heads)
    config: dict[str, Any] = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": values.head_dim(hidden, heads),
        "max_position_embeddings": values.context(),
        "vocab_size": values.vocabulary(),
        "tie_word_embeddings": not values.has("output.weight"),
        "num_nextn_predict_layers": values.nextn,
    }
    fused_bias = values.in_layers("attn_qkv.bias")
    biased = values.in_layers("attn_q.bias") or fused_bias
    config |= dict.fromkeys(
        ("attention_bias", "qkv_bias", "use_bias", "use_qkv_bias", "bias"), biased
    )
    config["attention_out_bias"] = values.in_layers("attn_output.bias")
    config["mlp_bias"] = values.in_layers("ffn_down.bias")
    config["lm_head_bias"] = values.has("output.bias")
    has_norms = values.in_layers("attn_q_norm.weight")
    config |= {"use_qk_norm": has_norms, "qk_layernorm": has_norms}
    if values.given("use_parallel_residual"):
        config["use_parallel_residual"] = values.flag("use_parallel_residual")
    experts = values.integer("expert_count", default=0, minimum=0, maximum=MAX_EXPERTS)
    if "feed_forward_length" not in by_layer:
        config["intermediate_size"] = values.feed_forward()
    if experts:
        config |= _experts(values, experts)
    name = values.metadata.get("general.name")
    if isinstance(name, str) and name:
        config["_name_or_path"] = name
    return config


def _experts(values: GgufValues, experts: int) -> dict[str, Any]:
    per_token = values.integer("expert_used_count", maximum=experts)
    width = values.expert_width()
    shared = values.inputs("ffn_down_shexp.weight") or 0
    sparse = values.sparse_layers()
    dense_first = sparse.index(True) if True in sparse else values.layers
    return {
        **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), experts),
        "num_experts_per_tok": per_token,
        "moe_intermediate_size": width,
        "n_shared_experts": shared // width,
        "num_shared_experts": shared // width,
        "shared_expert_intermediate_size": shared,
        "shared_intermediate_size": shared,
        "first_k_dense_replace": dense_first,
        "num_dense_layers": dense_first,
        "mlp_only_layers": [index for index, routed in enumerate(sparse) if not routed],
    }


def _summed(first: GgufHeader, tensors: Sequence[Tensor], layers: int) -> CheckpointBytes:
    tally = Tally()
    for tensor in tensors:
        tally.add(tensor, group_by_gguf_name(tensor.name, layers))
    result = tally.result("gguf", first.name)
    return tally.result("gguf", first.name, _file_type(first, result))


def _file_type(first: GgufHeader, checkpoint: CheckpointBytes) -> str:
    """The file type that the header states; by most bytes where it states none, or a plain type of a quantised file."""
    number = first.metadata.get("general.file_type")
    stated = FILE_TYPES.get(number, "") if isinstance(number, int) else ""
    sizes = checkpoint.by_dtype
    main = max(sizes, key=lambda dtype: sizes[dtype])
    if stated and (stated not in _PLAIN or main in _PLAIN):
        return stated
    return USUAL_FILE_TYPE.get(main, main)


def _dtype(checkpoint: CheckpointBytes) -> str:
    """What the model's unquantised weights count as: scales of quantised blocks are FP16."""
    return {"BF16": "bfloat16", "F32": "float32"}.get(checkpoint.file_type, "float16")


def _check(architecture: Architecture, values: GgufValues, checkpoint: CheckpointBytes) -> None:
    """Refuse a translation that the file's own tensors contradict.

    Raises:
        InvalidConfig: naming the tensor, or both numbers of weights.
    """
    for layer, index in enumerate(architecture.layer_order):
        for mixer in architecture.layer_kinds[index].mixers:
            if isinstance(mixer, Attention):
                rows = {
                    "attn_k.weight": mixer.kv_heads * mixer.key_dim,
                    "attn_v.weight": mixer.kv_heads * mixer.value_dim,
                    "attn_qkv.weight": mixer.heads * mixer.key_dim
                    + mixer.kv_heads * (mixer.key_dim + mixer.value_dim),
                }
            elif isinstance(mixer, LatentAttention):
                rows = {"attn_kv_a_mqa.weight": mixer.latent_dim + mixer.rope_dim}
            else:
                continue
            for name, expected in rows.items():
                values.expect_rows(f"blk.{layer}.{name}", expected)
    held = sum(
        share.elements for share in checkpoint.shares if share.group not in (Group.MTP, Group.TOWER)
    )
    # Projections that a layer doesn't use may have been left out.
    most, least = parameters(architecture), parameters(architecture, buffers=False)
    if not (1.0 - TOLERANCE) * least <= held <= (1.0 + TOLERANCE) * most:
        raise InvalidConfig(
            "gguf_parameters_differ",
            key="general.architecture",
            model_type=values.arch,
            held=held,
            described=most,
        )
