"""More towers that keep an image's own resolution and merge neighbouring patches: GLM-V, ERNIE, HunYuan and others.

How many tokens an image takes depends on its size: `tokens_note` is as in `tower_dynamic`.

References:
    The published modelling code of each family (transformers 5.24).
"""

from __future__ import annotations

from dataclasses import replace

from planner.architecture import tower_dynamic
from planner.architecture.blocks import Weights, gated_mlp, linear, norm, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Shape, Tower, Weight
from planner.architecture.tower_blocks import (
    encoder_layers,
    patches,
    projector,
    table,
    text_width,
)
from planner.architecture.tower_dynamic import pixtral_encoder, square
from planner.architecture.tower_llava import Towers, headless_siglip

_VISION, _PROJECTOR = Part.VISION, Part.PROJECTOR


def lighton_ocr(keys: Keys) -> Towers:
    """LightOn OCR: Pixtral, merged patches, a bias-free two-layer projector."""
    return tower_dynamic.mistral3(keys)


def paddleocr_vl(keys: Keys) -> Towers:
    """PaddleOCR-VL: SigLIP at any resolution, 2 × 2 patches merged by a two-layer projector as wide as they are."""
    vision = keys.section("vision_config")
    sized = {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304}
    sized |= {"patch_size": 14, "image_size": 384, **vision.config}
    section = Keys(sized, vision.prefix)
    encoder = headless_siglip(section)
    merge = section.integer("spatial_merge_size", default=2)
    merged = encoder.width * merge**2
    weights = (
        *encoder.weights,
        *norm("projector_norm", encoder.width, kind="layer", part=_PROJECTOR),
        *projector(merged, merged, text_width(keys, 1024), bias=True),
    )
    side = section.integer("patch_size", default=14) * merge
    return (Tower("siglip", "image", weights, tokens_note=square(side)),)


def cosmos3_edge(keys: Keys) -> Towers:
    """Cosmos 3 Edge: SigLIP 2 with patches by a linear layer, 2 × 2 merged by a two-layer projector."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1152)
    layers = vision.integer("num_hidden_layers", default=27)
    wide = vision.integer("intermediate_size", default=4304)
    patch = vision.integer("patch_size", default=16)
    channels = vision.integer("num_channels", default=3)
    count = vision.integer("num_patches", default=256)
    merge = vision.integer("spatial_merge_size", default=2)
    inner = keys.integer("projector_hidden_size", default=11520)
    weights = (
        *linear("patch_embedding", _VISION, width, channels * patch**2, bias=True),
        *table("positions", _VISION, count, width),
        *encoder_layers(_VISION, layers, width, wide),
        *norm("final_norm", width, kind="layer", part=_VISION),
        *norm("projector_norm", width, kind="layer", part=_PROJECTOR),
        *projector(width * merge**2, inner, text_width(keys, 2048), bias=True),
    )
    return (Tower("siglip2", "image", weights, tokens_note=square(patch * merge)),)


def video_llama_3(keys: Keys) -> Towers:
    """VideoLLaMA 3: SigLIP with rotary positions in place of a table, a two-layer projector."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=768)
    layers = vision.integer("num_hidden_layers", default=12)
    wide = vision.integer("intermediate_size", default=3072)
    patch = vision.integer("patch_size", default=16)
    channels = vision.integer("num_channels", default=3)
    hidden = text_width(keys, 4096)
    weights = (
        *patches(_VISION, width, channels * patch**2, bias=True),
        *encoder_layers(_VISION, layers, width, wide),
        *norm("final_norm", width, kind="layer", part=_VISION),
        *projector(width, hidden, hidden, bias=True),
    )
    return (Tower("siglip", "image", weights, tokens_note=square(patch)),)


def _glm_merger(width: int, wide: int) -> Weights:
    """GLM's merger after its strided convolution: a projection, a norm, a gated feed-forward."""
    return (
        *linear("projector", _PROJECTOR, width, width),
        *norm("projector_norm", width, kind="layer", part=_PROJECTOR),
        *gated_mlp(width, wide, part=_PROJECTOR),
    )


def glm4v(keys: Keys) -> Towers:
    """GLM-4.1V to 4.6V: two frames a patch, RMS norms, bias-free gated layers, four patches joined by a convolution."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1536)
    layers = vision.integer("depth", default=24)
    patch = vision.integer("patch_size", default=14)
    frames = vision.integer("temporal_patch_size", default=2)
    channels = vision.integer("in_channels", default=3)
    side = vision.integer("image_size", default=336) // patch
    merge = vision.integer("spatial_merge_size", default=2)
    output = vision.integer("out_hidden_size", default=4096)
    biased = vision.flag("attention_bias", default=False)
    weights = (
        *patches(_VISION, width, channels * frames * patch**2, bias=True),
        *table("positions", _VISION, max(1, side) ** 2, width),
        *encoder_layers(
            _VISION,
            layers,
            width,
            output,
            attention_bias=biased,
            output_bias=False,
            gated=True,
            mlp_bias=False,
            norm_kind="rms",
        ),
        *norm("outer_norm", width, copies=2, part=_VISION),
        *patches(_PROJECTOR, output, width * merge**2, bias=True, name="downsample"),
        *_glm_merger(output, vision.integer("intermediate_size", default=13696)),
    )
    return (Tower("glm_vit", "image", weights, tokens_note=square(patch * merge)),)


def glm_ocr(keys: Keys) -> Towers:
    """GLM-OCR and GLM-5 Next: GLM's tower with biases and head norms, without a position table."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1024)
    layers = vision.integer("depth", default=24)
    heads = vision.integer("num_heads", default=16, maximum=100_000)
    patch = vision.integer("patch_size", default=14)
    frames = vision.integer("temporal_patch_size", default=2)
    channels = vision.integer("in_channels", default=3)
    merge = vision.integer("spatial_merge_size", default=2)
    output = vision.integer("out_hidden_size", default=1536)
    biased = vision.flag("attention_bias", default=True)
    stack = encoder_layers(
        _VISION,
        layers,
        width,
        vision.integer("intermediate_size", default=4096),
        attention_bias=biased,
        gated=True,
        mlp_bias=biased,
        norm_kind="rms",
    )
    inner = vision.integer("projection_intermediate_size", default=output * channels)
    weights = (
        *patches(_VISION, width, channels * frames * patch**2, bias=True),
        *stack,
        *norm("head_norm", max(1, width // heads), copies=2 * layers, part=_VISION),
        *norm("outer_norm", width, part=_VISION),
        *patches(_PROJECTOR, output, width * merge**2, bias=True, name="downsample"),
        *_glm_merger(output, inner),
    )
    return (Tower("glm_vit", "image", weights, tokens_note=square(patch * merge)),)


def exaone4_5(keys: Keys) -> Towers:
    """EXAONE 4.5: Qwen2.5-VL's tower with fewer key and value heads than query heads."""
    (tower,) = tower_dynamic.qwen2_5_vl(keys)
    vision = keys.section("vision_config")
    heads = vision.integer("num_heads", default=16, maximum=100_000)
    kv_heads = vision.integer("num_key_value_heads", default=8, maximum=heads)
    if heads % kv_heads:
        raise vision.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    return (replace(tower, weights=tuple(_grouped(w, heads, kv_heads) for w in tower.weights)),)


def _grouped(weight: Weight, heads: int, kv_heads: int) -> Weight:
    if weight.name.removesuffix("_bias") in ("key", "value"):
        return replace(weight, rows=weight.rows // heads * kv_heads)
    return weight


def hyperclovax(keys: Keys) -> Towers:
    """HyperCLOVA X Vision 2: Qwen2.5-VL's tower and one linear layer more."""
    (tower,) = tower_dynamic.qwen2_5_vl(keys)
    output = keys.section("vision_config").integer("out_hidden_size", default=3584)
    extra = linear("projector", _PROJECTOR, text_width(keys, 4096), output, bias=True)
    return (replace(tower, weights=tower.weights + extra),)


def ernie_vl(keys: Keys) -> Towers:
    """ERNIE 4.5 VL: Qwen2-VL's layers, patches by a linear layer, neighbours merged in space and then in time."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1280)
    layers = vision.integer("depth", default=32)
    wide = vision.integer("intermediate_size", default=4 * width)
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("in_channels", default=3)
    merge = vision.integer("spatial_merge_size", default=2)
    frames = vision.integer("temporal_merge_size", default=2)
    hidden = text_width(keys, 2560)
    inner = width * merge**2
    weights: Weights = (
        *linear("patch_embedding", _VISION, width, channels * patch**2),
        *encoder_layers(_VISION, layers, width, wide),
        *norm("final_norm", width, kind="layer", part=_VISION),
    )
    for source in (inner, inner * frames):
        weights += projector(source, inner, inner, bias=True)
        weights += norm("merger_norm", inner, kind="layer", part=_PROJECTOR)
    weights += linear("projector", _PROJECTOR, hidden, inner, bias=True)
    weights += norm("projector_norm", hidden, part=_PROJECTOR)
    return (Tower("ernie_vit", "image", weights, tokens_note=square(patch * merge)),)


def _hunyuan_layers(vision: Keys, width: int, layers: int, wide: int) -> tuple[Weights, int]:
    """Biased ViT layers with a class token's position before the table's, and their width."""
    width = vision.integer("hidden_size", default=width)
    layers = vision.integer("num_hidden_layers", default=layers)
    wide = vision.integer("intermediate_size", default=wide)
    patch = vision.integer("patch_size", default=16)
    channels = vision.integer("num_channels", default=3)
    rows = (vision.integer("max_image_size", default=2048) // patch) ** 2 + 1
    return (
        *patches(_VISION, width, channels * patch**2, bias=True),
        *table("positions", _VISION, rows, width),
        *encoder_layers(_VISION, layers, width, wide),
    ), width


def hunyuan_vl(keys: Keys) -> Towers:
    """HunYuan-VL: a ViT; 2 × 2 patches joined by two convolutions and a linear layer, marks around each image."""
    vision = keys.section("vision_config")
    weights, width = _hunyuan_layers(vision, 1152, 27, 4304)
    merge = vision.integer("spatial_merge_size", default=2)
    output = vision.integer("text_hidden_size", "out_hidden_size", default=4096)
    part = _PROJECTOR
    weights += (
        *norm("projector_input_norm", width, part=part),
        *patches(part, 2 * width, width * merge**2, bias=True, name="merger_1"),
        *patches(part, 4 * width, 2 * width, bias=True, name="merger_2"),
        *linear("projector", part, output, 4 * width, bias=True),
        *vector("row_end", part, 4 * width),
        *vector("marks", part, output, copies=3),
        *norm("projector_norm", output, part=part),
    )
    side = vision.integer("patch_size", default=16) * merge
    return (Tower("hunyuan_vit", "image", weights, tokens_note=square(side, rows=True)),)


def hy_v4_vl(keys: Keys) -> Towers:
    """HunYuan V4 VL: a ViT; 2 × 2 patches joined by two convolutions straight to the text's width."""
    vision = keys.section("vision_config")
    weights, width = _hunyuan_layers(vision, 1536, 40, 6144)
    merge = vision.integer("spatial_merge_size", default=2)
    output = vision.integer("out_hidden_size", default=6144)
    merged = width * merge**2
    part = _PROJECTOR
    weights += (
        *norm("projector_input_norm", width, part=part),
        *patches(part, merged, merged, bias=True, name="merger_1"),
        *patches(part, output, merged, bias=True, name="merger_2"),
        *vector("row_end", part, output),
    )
    side = vision.integer("patch_size", default=16) * merge
    return (Tower("hunyuan_vit", "image", weights, tokens_note=square(side, rows=True)),)


def lfm3_vl(keys: Keys) -> Towers:
    """LFM3-VL: convolutions over the map and grouped attention in turn, bias-free gated layers, 2 × 2 merged."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1024)
    layers = vision.integer("num_hidden_layers", default=14, maximum=10_000)
    wide = vision.integer("intermediate_size", default=2560)
    heads = vision.integer("num_attention_heads", default=16, maximum=100_000)
    kv_heads = vision.integer("num_key_value_heads", default=8, maximum=heads)
    patch = vision.integer("patch_size", default=16)
    frames = vision.integer("temporal_patch_size", default=2)
    channels = vision.integer("in_channels", default=3)
    kernel = vision.integer("conv_kernel_size", default=3, maximum=1000)
    merge = vision.integer("spatial_merge_size", default=2)
    types = vision.texts("layer_types", length=layers)
    attends = (
        sum(index > 0 and index % 2 == 0 for index in range(layers))
        if types is None
        else types.count("full_attention")
    )
    convolves = layers - attends
    size = width // heads
    part = _VISION
    weights: Weights = (
        *linear("patch_embedding", part, width, channels * frames * patch**2),
        *gated_mlp(width, wide, part=part, copies=layers),
        *norm("norm", width, copies=2 * layers + 1, part=part),
    )
    if convolves:
        weights += linear("gates_and_input", part, 3 * width, width, copies=convolves)
        weights += (
            Weight("convolution", part, width, kernel**2, convolves, shape=Shape.CONVOLUTION),
        )
        weights += linear("convolution_output", part, width, width, copies=convolves)
    if attends:
        weights += linear("query", part, width, width, copies=attends)
        weights += linear("key", part, kv_heads * size, width, copies=attends)
        weights += linear("value", part, kv_heads * size, width, copies=attends)
        weights += linear("output", part, width, width, copies=attends, row_parallel=True)
        weights += norm("head_norm", size, copies=2 * attends, part=part)
    inner = keys.integer("projector_hidden_size", default=4096)
    weights += norm("projector_norm", width, kind="layer", part=_PROJECTOR)
    weights += projector(
        width * merge**2,
        inner,
        text_width(keys, 2048),
        bias=keys.flag("projector_bias", default=True),
    )
    return (Tower("lfm3_vit", "image", weights, tokens_note=square(patch * merge)),)


def mistral_large4(keys: Keys) -> Towers:
    """Mistral Large 4: Pixtral with 128-wide heads, merged patches, a bias-free two-layer projector."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1024)
    merge = keys.integer("spatial_merge_size", default=2)
    hidden = text_width(keys, 6144)
    biased = keys.flag("multimodal_projector_bias", default=False)
    weights = (
        *pixtral_encoder(vision),
        *norm("projector_norm", width, part=_PROJECTOR),
        *linear("merger", _PROJECTOR, width, width * merge**2),
        *projector(width, hidden, hidden, bias=biased),
    )
    side = vision.integer("patch_size", default=14) * merge
    return (Tower("pixtral", "image", weights, tokens_note=square(side, rows=True)),)
