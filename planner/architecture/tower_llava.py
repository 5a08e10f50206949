"""More towers of a fixed input size in front of a small projector: SigLIP, CLIP, InternViT, RADIO and others.

Each function takes the keys of the whole configuration and returns the tower with its projector. A key that a section
leaves out has the default of the published configuration class, which is what a saved file leaves out.

References:
    The published modelling code of each family (transformers 5.24).
"""

from __future__ import annotations

from planner.architecture import tower_vision
from planner.architecture.blocks import Weights, gated_mlp, linear, norm, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Tower
from planner.architecture.totals import linear_flops
from planner.architecture.tower_blocks import (
    Encoder,
    bare_matrix,
    encoder_flops,
    encoder_layers,
    patches,
    projector,
    table,
    text_width,
)
from planner.architecture.tower_vision import (
    PER_TILE,
    clip_encoder,
    fixed_tower,
    patch_grid,
    siglip_encoder,
)

Towers = tuple[Tower, ...]
_VISION, _PROJECTOR = Part.VISION, Part.PROJECTOR


def headless_siglip(vision: Keys) -> Encoder:
    """SigLIP without its pooling head, which the copies of it inside other families leave out."""
    return siglip_encoder(Keys({**vision.config, "vision_use_head": False}, vision.prefix))


def fuyu(keys: Keys) -> Towers:
    """Fuyu: no encoder; patches of 30² pixels enter through one linear layer."""
    patch = keys.integer("patch_size", default=30)
    side = patch_grid(keys, patch, 300)
    elements = keys.integer("num_channels", default=3) * patch**2
    dense = linear("projector", _PROJECTOR, text_width(keys, 4096), elements, bias=True)
    return (Tower("patches", "image", dense, side**2, linear_flops(dense) * side**2),)


def git(keys: Keys) -> Towers:
    """GIT: CLIP at 224², every position (the class token too) through a linear layer and a norm."""
    vision = keys.optional_section("vision_config") or Keys({}, "vision_config.")
    given = {"hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072}
    sized = {**given, "patch_size": 16, "image_size": 224, **vision.config}
    encoder = clip_encoder(Keys(sized, vision.prefix))
    hidden = keys.integer("hidden_size", default=768)
    connector = projector(encoder.width, hidden, bias=True)
    extra = norm("projector_norm", hidden, kind="layer", part=_PROJECTOR)
    frames = keys.optional_integer("num_image_with_embedding")
    if frames:
        extra += vector("frame_embedding", _PROJECTOR, encoder.width, copies=frames)
    return (fixed_tower("clip", encoder, connector, (encoder.positions or 0) + 1, extra),)


def llava_onevision(keys: Keys) -> Towers:
    """LLaVA-OneVision: SigLIP over tiles, a two-layer projector, one learned separator."""
    vision = keys.section("vision_config")
    sized = {"hidden_size": 1152, "num_hidden_layers": 26, "intermediate_size": 4304}
    sized |= {"patch_size": 14, "image_size": 384, "vision_use_head": False}
    encoder = siglip_encoder(Keys({**sized, **vision.config}, vision.prefix))
    hidden = text_width(keys, 4096)
    biased = keys.flag("multimodal_projector_bias", default=True)
    connector = projector(encoder.width, hidden, hidden, bias=biased)
    extra = vector("separator", _PROJECTOR, hidden)
    tokens = encoder.positions or 0
    return (fixed_tower("siglip", encoder, connector, tokens, extra, PER_TILE),)


def video_llava(keys: Keys) -> Towers:
    """Video-LLaVA: one CLIP for images and one for video frames, one two-layer projector for both."""
    vision = keys.section("vision_config")
    encoder = clip_encoder(Keys({"image_size": 224, **vision.config}, vision.prefix))
    hidden = text_width(keys, 4096)
    biased = keys.flag("multimodal_projector_bias", default=True)
    connector = projector(encoder.width, hidden, hidden, bias=biased)
    tokens = (encoder.positions or 0) + 1
    frames = Tower("clip_video", "image", encoder.weights, tokens, encoder.flops)
    return (fixed_tower("clip", encoder, connector, tokens), frames)


def vipllava(keys: Keys) -> Towers:
    """ViP-LLaVA: five of CLIP's layers side by side, a norm, a two-layer projector."""
    encoder = clip_encoder(keys.section("vision_config"))
    given = keys.config.get("vision_feature_layer", [-2, -5, -8, -11, 6])
    count = len(given) if isinstance(given, (list, tuple)) else 1
    hidden = text_width(keys, 4096)
    inputs = encoder.width * max(count, 1)
    connector = projector(inputs, hidden, hidden, bias=True)
    extra = norm("projector_norm", inputs, kind="layer", part=_PROJECTOR)
    return (fixed_tower("clip", encoder, connector, encoder.positions or 0, extra),)


def deepseek_vl(keys: Keys) -> Towers:
    """DeepSeek-VL: SigLIP and a two-layer projector."""
    encoder = siglip_encoder(keys.section("vision_config"))
    hidden = text_width(keys, 4096)
    connector = projector(encoder.width, hidden, hidden, bias=True)
    return (fixed_tower("siglip", encoder, connector, encoder.positions or 0),)


def aria(keys: Keys) -> Towers:
    """Aria: a SigLIP that keeps the resolution; learned queries attend to it, then a two-layer projector.

    Queries per image follow its patches: 128 for 1,225, 256 for 4,900 unless the configuration says otherwise.
    """
    vision = keys.section("vision_config")
    sized = {"hidden_size": 1152, "patch_size": 32, **vision.config}
    encoder = headless_siglip(Keys(sized, vision.prefix))
    width, hidden = encoder.width, text_width(keys, 4096)
    given = keys.config.get("projector_patch_to_query_dict")
    counts = given.values() if isinstance(given, dict) else (128, 256)
    queries = max((n for n in counts if isinstance(n, int)), default=256)
    queries = keys.integer("max_value_projector_patch_to_query_dict", default=queries)
    part = _PROJECTOR
    weights: Weights = table("queries", part, queries, width)
    for name in ("query", "key", "value"):
        weights += linear(f"projector_{name}", part, width, width)
    weights += (
        *bare_matrix("inner_projections", part, 3 * width, width),
        *vector("inner_projections_bias", part, 3 * width),
        *linear("inner_output", part, width, width, bias=True, row_parallel=True),
        *linear("projector_output", part, width, width, bias=True),
        *norm("projector_norm", width, kind="layer", copies=3, part=part),
        *linear("projector_1", part, hidden, width),
        *linear("projector_2", part, hidden, hidden, row_parallel=True),
    )
    return (Tower("siglip", "image", encoder.weights + weights, queries, tokens_note=PER_TILE),)


def ovis2(keys: Keys) -> Towers:
    """Ovis 2: AIMv2; each position becomes a mixture over a visual vocabulary, which has a table of its own."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1024)
    layers = vision.integer("num_hidden_layers", default=24)
    wide = vision.integer("intermediate_size", default=2816)
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("num_channels", default=3)
    count = patch_grid(vision, patch, 224) ** 2
    words = vision.integer("vocab_size", default=16384)
    marks = vision.integer("num_visual_indicator_tokens", default=5, minimum=0, maximum=words - 1)
    stride = vision.integer("hidden_stride", default=1)
    embedding = patches(_VISION, width, channels * patch**2, bias=True)
    stack = encoder_layers(
        _VISION,
        layers,
        width,
        wide,
        attention_bias=vision.flag("qkv_bias", default=False),
        gated=True,
        mlp_bias=vision.flag("mlp_bias", default=False),
        norm_kind="rms",
    )
    connector = linear("visual_head", _PROJECTOR, words - marks, width * stride**2)
    weights = (
        *embedding,
        *table("positions", _VISION, count, width),
        *norm("outer_norm", width, copies=2, part=_VISION),
        *stack,
        *connector,
        *norm("visual_head_norm", words - marks, kind="layer", part=_PROJECTOR),
        *table("visual_embedding", _PROJECTOR, words, keys.integer("hidden_size", default=1536)),
    )
    tokens = count // stride**2
    flops = encoder_flops(stack, count, layers=layers, attention_width=width)
    flops += linear_flops(embedding) * count + linear_flops(connector) * tokens
    return (Tower("aimv2", "image", weights, tokens, flops, tokens_note=PER_TILE),)


def qianfan_ocr(keys: Keys) -> Towers:
    """Qianfan OCR: InternVL's tower and projector, biased attention."""
    vision = keys.section("vision_config")
    section = Keys({"attention_bias": True, **vision.config}, vision.prefix)
    return tower_vision.internvl(
        Keys({**keys.config, "vision_config": dict(section.config)}, keys.prefix)
    )


def nemotron_h_omni(keys: Keys) -> Towers:
    """Nemotron-H Omni: RADIO over tiles (class and register tokens, layer scales), merged by a two-layer projector."""
    vision = keys.optional_section("vision_config") or Keys({}, "vision_config.")
    width = vision.integer("hidden_size", default=1280)
    layers = vision.integer("num_hidden_layers", default=32)
    wide = int(width * vision.number("mlp_ratio", default=4.0, minimum=0.1, maximum=100.0))
    patch = vision.integer("patch_size", default=16)
    channels = vision.integer("num_channels", default=3)
    frames = vision.integer("video_temporal_patch_size", default=2)
    rows = (vision.integer("max_img_size", default=2048) // patch) ** 2
    special = vision.integer("num_cls_tokens", default=3, minimum=0) + vision.integer(
        "num_registers", default=7, minimum=0
    )
    biased = vision.flag("qkv_bias", default=True)
    if vision.flag("use_swiglu_ffn", default=False):
        raise vision.contradiction("use_swiglu_ffn", "not_described")
    if keys.has("audio_config"):
        raise keys.contradiction("audio_config", "not_described")
    elements = channels * patch**2
    stack = encoder_layers(_VISION, layers, width, wide, attention_bias=biased, output_bias=True)
    ratio = keys.number("downsample_ratio", default=0.5, minimum=0.05, maximum=1.0)
    merged = int(width / ratio**2)
    inner = keys.integer("projector_hidden_size", default=4096)
    weights = (
        *table("positions", _VISION, rows, width),
        *table("special_tokens", _VISION, special, width),
        *linear("patch_embedding", _VISION, width, elements),
        *linear("video_patch_embedding", _VISION, width, elements * frames),
        *stack,
        *vector("layer_scale", _VISION, width, copies=2 * layers),
        *norm("projector_norm", merged, part=_PROJECTOR),
        *projector(merged, inner, text_width(keys, 4096), bias=False),
    )
    side = keys.optional_integer("force_image_size") or vision.integer("image_size", default=224)
    tokens = int((side // patch) ** 2 * ratio**2)
    return (Tower("radio", "image", weights, tokens, tokens_note=PER_TILE),)


def molmo2(keys: Keys) -> Towers:
    """Molmo 2: SigLIP's layers without a norm after them, two side by side, pooled by attention, a gated MLP."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1152)
    layers = vision.integer("num_hidden_layers", default=25)
    wide = vision.integer("intermediate_size", default=4304)
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("num_channels", default=3)
    count = vision.integer("num_position_embeddings", default=729)
    biased = vision.flag("attention_bias", default=True)
    stack = encoder_layers(_VISION, layers, width, wide, attention_bias=biased)
    adapter = keys.optional_section("adapter_config") or Keys({}, "adapter_config.")
    levels = adapter.sequence("vision_feature_layer")
    inputs = width * (2 if levels is None else max(1, len(levels)))
    inner = adapter.integer("hidden_size", default=1152)
    heads = adapter.integer("num_attention_heads", default=16, maximum=100_000)
    kv_heads = adapter.integer("num_key_value_heads", default=16, maximum=100_000)
    size = adapter.integer("head_dim", default=72, maximum=100_000)
    bias = adapter.flag("attention_bias", default=True)
    part = _PROJECTOR
    output = adapter.integer("text_hidden_size", default=text_width(keys, 3584))
    gated = adapter.integer("intermediate_size", default=18944)
    weights = (
        *linear("patch_embedding", _VISION, width, channels * patch**2, bias=True),
        *table("positions", _VISION, count, width),
        *stack,
        *linear("pool_query", part, heads * size, inputs, bias=bias),
        *linear("pool_key", part, kv_heads * size, inputs, bias=bias),
        *linear("pool_value", part, kv_heads * size, inputs, bias=bias),
        *linear("pool_output", part, inner, heads * size, bias=bias, row_parallel=True),
        *(weight for weight in gated_mlp(inner, gated, part=part) if weight.name != "down"),
        *linear("down", part, output, gated, row_parallel=True),
    )
    if adapter.flag("mlp_bias", default=False):
        weights += vector("gate_up_bias", part, gated, copies=2)
    return (Tower("siglip", "image", weights, tokens_note=PER_TILE),)


def vision_encoder_decoder(keys: Keys) -> Towers:
    """A ViT beside a text decoder, with a linear layer between where their widths differ.

    Raises:
        InvalidConfig: where the encoder is no plain ViT.
    """
    vision = keys.section("encoder")
    if vision.text("model_type", default="vit") not in ("vit", "deit"):
        raise vision.contradiction("model_type", "not_described")
    width = vision.integer("hidden_size", default=768)
    layers = vision.integer("num_hidden_layers", default=12)
    wide = vision.integer("intermediate_size", default=3072)
    patch = vision.integer("patch_size", default=16)
    channels = vision.integer("num_channels", default=3)
    distilled = vision.text("model_type", default="vit") == "deit"
    count = patch_grid(vision, patch, 224) ** 2 + 1 + distilled
    stack = encoder_layers(
        _VISION,
        layers,
        width,
        wide,
        attention_bias=vision.flag("qkv_bias", default=True),
        output_bias=True,
    )
    weights = (
        *vector("class_token", _VISION, width, copies=1 + distilled),
        *patches(_VISION, width, channels * patch**2, bias=True),
        *table("positions", _VISION, count, width),
        *stack,
        *norm("final_norm", width, kind="layer", part=_VISION),
        *linear("pooler", _VISION, width, width, bias=True),
    )
    decoder = keys.section("decoder")
    hidden = decoder.integer("hidden_size", "d_model", "n_embd", default=768)
    if hidden != width and not decoder.has("cross_attention_hidden_size"):
        weights += linear("projector", _PROJECTOR, hidden, width, bias=True)
    return (Tower("vit", "image", weights, 1, tokens_note="cross_attention"),)
