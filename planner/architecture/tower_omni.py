"""Image towers of models that also listen: Phi-4 multimodal and Dots 3 Note.

Each function returns the tower with its projector; `tokens_note` is as in `tower_dynamic`.

References:
    The published modelling code of each family (transformers 5.24).
"""

from __future__ import annotations

from planner.architecture.blocks import Weights, gated_mlp, linear, norm, vector
from planner.architecture.keys import MAX_EXPERTS, Keys
from planner.architecture.spec import Part, Tower
from planner.architecture.tower_blocks import (
    patches,
    projector,
)
from planner.architecture.tower_dynamic import square
from planner.architecture.tower_vision import PER_TILE, siglip_encoder

_VISION, _PROJECTOR = Part.VISION, Part.PROJECTOR


def phi4_vision(keys: Keys) -> Tower:
    """Phi-4 multimodal's SigLIP over crops of 448², 2 × 2 positions averaged, a two-layer projector, two separators."""
    vision = keys.optional_section("vision_config") or Keys({}, "vision_config.")
    sized = {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304}
    sized |= {"patch_size": 14, "image_size": 448, "vision_use_head": True}
    encoder = siglip_encoder(Keys({**sized, **vision.config}, vision.prefix))
    hidden = keys.integer("hidden_size", default=3072)
    weights = (
        *encoder.weights,
        *vector("separator", _PROJECTOR, encoder.width, copies=2),
        *projector(encoder.width, hidden, hidden, bias=True),
    )
    tokens = (encoder.positions or 0) // 4
    return Tower("siglip", "image", weights, tokens, tokens_note=PER_TILE)


def dots3_vision(vision: Keys) -> Tower:
    """Dots 3 Note's ViT: gated layers with head norms, the last of them mixtures of ever more experts, 2 × 2 merged."""
    width = vision.integer("hidden_size", default=1536)
    layers = vision.integer("num_hidden_layers", default=42, maximum=10_000)
    heads = vision.integer("num_attention_heads", default=24, maximum=100_000)
    wide = vision.integer("intermediate_size", default=4224)
    inner = vision.integer("moe_intermediate_size", default=2112)
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("num_channels", default=3)
    merge = vision.integer("adapter_merge_size", "spatial_merge_size", default=2)
    output = vision.integer("adapter_out_dim", default=5120)
    biased = vision.flag("attention_bias", default=False)
    types = vision.texts("mlp_layer_types", length=layers) or ("dense",) * layers
    counts = _experts_per_layer(vision, layers)
    dense = [index for index, kind in enumerate(types) if kind == "dense"]
    weights: Weights = (
        *patches(_VISION, width, channels * patch**2, bias=True),
        *norm("outer_norm", width, copies=2, part=_VISION),
    )
    for name, rows in (("query_key_value", 3 * width), ("output", width)):
        weights += linear(name, _VISION, rows, width, bias=biased, copies=layers)
    weights += norm("norm", width, copies=2 * layers, part=_VISION)
    weights += norm("head_norm", width // heads, copies=2 * layers, part=_VISION)
    if dense:
        bias = vision.flag("mlp_bias", default=False)
        weights += gated_mlp(width, wide, bias=bias, part=_VISION, copies=len(dense))
    experts = sum(counts[index] for index, kind in enumerate(types) if kind != "dense")
    if experts:
        weights += gated_mlp(width, inner, part=_VISION, copies=experts)
        weights += linear("router", _VISION, experts, width)
        weights += vector("router_correction", _VISION, experts, dtype="float32", buffer=True)
    merged = width * merge**2
    weights += norm("projector_norm", width, kind="layer", part=_PROJECTOR)
    weights += projector(merged, merged, output, bias=True)
    return Tower("dots_vit", "image", weights, tokens_note=square(patch * merge))


def _experts_per_layer(vision: Keys, layers: int) -> list[int]:
    """Experts of each layer: `num_local_experts`, or the layer's own in `per_layer_config`."""
    common = vision.integer("num_local_experts", default=64, maximum=MAX_EXPERTS)
    section = vision.optional_section("per_layer_config")
    if section is None:
        return [common] * layers
    own = {
        int(name): section.section(name).integer(
            "num_local_experts", default=common, maximum=MAX_EXPERTS
        )
        for name in section.config
        if str(name).isdecimal()
    }
    return [own.get(index, common) for index in range(layers)]
