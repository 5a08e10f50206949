"""SAM's encoder as a tower: windowed attention with relative positions, convolutions that shrink its map.

References:
    The published modelling code of GOT-OCR 2, DeepSeek-VL and DeepSeek-OCR (transformers 5.24); SAM, arXiv 2304.02643.
"""

from __future__ import annotations

from planner.architecture.blocks import Weights, gated_mlp, linear, norm, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Tower
from planner.architecture.tower_blocks import encoder_layers, patches, projector, table, text_width
from planner.architecture.tower_llava import Towers
from planner.architecture.tower_vision import PER_TILE, clip_encoder, patch_grid, siglip_encoder

_VISION, _PROJECTOR = Part.VISION, Part.PROJECTOR


def sam_encoder(vision: Keys, image: int = 1024) -> tuple[Weights, int, int]:
    """SAM's encoder with its neck: weights, channels of the map it outputs, patches on one side."""
    width = vision.integer("hidden_size", default=768)
    layers = vision.integer("num_hidden_layers", default=12)
    heads = vision.integer("num_attention_heads", default=12, maximum=100_000)
    if "mlp_ratio" in vision.config and not vision.has("mlp_dim"):
        wide = int(width * vision.number("mlp_ratio", minimum=0.1, maximum=100.0))
    else:
        wide = vision.integer("mlp_dim", default=4 * width)
    patch = vision.integer("patch_size", default=16)
    channels = vision.integer("num_channels", default=3)
    output = vision.integer("output_channels", default=256)
    side = patch_grid(vision, patch, image)
    window = vision.integer("window_size", default=14, minimum=0)
    whole = vision.integers("global_attn_indexes", maximum=1000)
    count = len([i for i in (2, 5, 8, 11) if i < layers] if whole is None else set(whole))
    weights = (
        *patches(_VISION, width, channels * patch**2, bias=True),
        *encoder_layers(
            _VISION,
            layers,
            width,
            wide,
            attention_bias=vision.flag("qkv_bias", default=True),
            output_bias=True,
        ),
        *patches(_VISION, output, width, bias=False, name="neck_1"),
        *patches(_VISION, output, 9 * output, bias=False, name="neck_2"),
        *norm("neck_norm", output, kind="layer", copies=2, part=_VISION),
    )
    if vision.flag("use_abs_pos", default=True):
        weights += table("positions", _VISION, side**2, width)
    if vision.flag("use_rel_pos", default=True):
        size = width // heads
        near = 2 * (window or side) - 1
        if layers > count:
            weights += table("window_positions", _VISION, near, size, copies=2 * (layers - count))
        if count:
            weights += table("map_positions", _VISION, 2 * side - 1, size, copies=2 * count)
    return weights, output, side


def _shrunk(channels: int, *widths: int, part: Part = _PROJECTOR) -> Weights:
    """Convolutions of 3 × 3 with stride 2 through these channels."""
    weights: Weights = ()
    for number, width in enumerate(widths, 1):
        weights += patches(part, width, 9 * channels, bias=False, name=f"downsample_{number}")
        channels = width
    return weights


def got_ocr2(keys: Keys) -> Towers:
    """GOT-OCR 2: SAM at 1,024², two strided convolutions, one linear layer: 256 tokens."""
    weights, channels, side = sam_encoder(keys.section("vision_config"))
    hidden = text_width(keys, 1024)
    connector = (
        *_shrunk(channels, 2 * channels, 4 * channels),
        *linear("projector", _PROJECTOR, hidden, 4 * channels, bias=True),
    )
    return (Tower("sam", "image", weights + connector, (side // 4) ** 2),)


def pp_formulanet(keys: Keys) -> Towers:
    """PP-FormulaNet: SAM at 512², two strided convolutions, two linear layers, which the text decoder attends to."""
    vision = keys.section("vision_config")
    weights, channels, _ = sam_encoder(vision, 512)
    first = vision.integer("post_conv_mid_channels", default=512)
    second = vision.integer("post_conv_out_channels", default=1024)
    output = vision.integer("decoder_hidden_size", default=512)
    inputs = vision.integer("post_conv_in_channels", default=channels)
    connector = _shrunk(inputs, first, second) + projector(second, second, output, bias=True)
    return (Tower("sam", "image", weights + connector, 1, tokens_note="cross_attention"),)


def deepseek_vl_hybrid(keys: Keys) -> Towers:
    """DeepSeek-VL hybrid: SigLIP at 384² and SAM at 1,024² side by side, a projection each, then one for both."""
    vision = keys.section("vision_config")
    encoder = siglip_encoder(vision)
    high = keys.optional_section("high_res_vision_config") or Keys({}, "high_res_vision_config.")
    weights, channels, _ = sam_encoder(high)
    hidden = text_width(keys, 4096)
    width = high.integer("hidden_size", default=768)
    half = hidden // 2
    part = _PROJECTOR
    connector = (
        # A second neck reads one of the encoder's inner maps, weighted by one learned number.
        *patches(part, channels, width, bias=False, name="neck_1"),
        *patches(part, channels, 9 * channels, bias=False, name="neck_2"),
        *norm("neck_norm", channels, kind="layer", copies=2, part=part),
        *vector("inner_map_weight", part, 1),
        *_shrunk(channels, 2 * channels, 4 * channels),
        *linear("low_projector", part, half, encoder.width, bias=True),
        *linear("high_projector", part, half, 4 * channels, bias=True),
        *linear("projector", part, hidden, hidden, bias=True),
    )
    low = Tower("siglip", "image", encoder.weights, encoder.positions)
    return low, Tower("sam", "image", weights + connector, 0)


def unlimited_ocr(keys: Keys) -> Towers:
    """Unlimited OCR: SAM, whose shrunk map CLIP's layers read in place of patches; one projection for both."""
    vision = keys.section("vision_config")
    sam = vision.optional_section("sam_config") or Keys({}, "vision_config.sam_config.")
    weights, channels, side = sam_encoder(sam)
    widths = sam.integers("downsample_channels", minimum=1) or (512, 1024)
    inner = vision.optional_section("encoder_config") or Keys({}, "vision_config.encoder_config.")
    clip = clip_encoder(Keys({"image_size": 224, **inner.config}, inner.prefix), final_norm=False)
    layers = tuple(weight for weight in clip.weights if weight.name != "patch_embedding")
    hidden = text_width(keys, 1280)
    part = _PROJECTOR
    connector = (
        *_shrunk(channels, *widths, part=_VISION),
        *linear("projector", part, hidden, widths[-1] + clip.width, bias=True),
        *vector("separator", part, hidden, copies=2),
    )
    tokens = (side // 2 ** len(widths)) ** 2
    return (Tower("sam_clip", "image", weights + layers + connector, tokens, tokens_note=PER_TILE),)


def deepseek_ocr2(keys: Keys) -> Towers:
    """DeepSeek-OCR 2: SAM's shrunk map and learned queries through a Qwen 2 decoder's layers, one projection."""
    vision = keys.section("vision_config")
    sam = vision.optional_section("sam_config") or Keys({}, "vision_config.sam_config.")
    weights, channels, _ = sam_encoder(sam)
    widths = sam.integers("downsample_channels", minimum=1) or (512, 896)
    inner = vision.optional_section("encoder_config") or Keys({}, "vision_config.encoder_config.")
    width = inner.integer("hidden_size", default=4096)
    layers = inner.integer("num_hidden_layers", default=32)
    heads = inner.integer("num_attention_heads", default=32, maximum=100_000)
    kv_heads = inner.optional_integer("num_key_value_heads", maximum=100_000) or heads
    size = inner.optional_integer("head_dim") or width // heads
    wide = inner.integer("intermediate_size", default=22016)
    hidden = text_width(keys, 4096)
    part = _VISION
    weights += _shrunk(channels, *widths, part=part)
    for name, rows in (("query", heads), ("key", kv_heads), ("value", kv_heads)):
        weights += linear(name, part, rows * size, width, bias=True, copies=layers)
    weights += (
        *linear("output", part, width, heads * size, copies=layers, row_parallel=True),
        *gated_mlp(width, wide, part=part, copies=layers),
        *norm("norm", width, copies=2 * layers + 1, part=part),
        # One query a token: 12² for views of 768², 16² for views of 1,024².
        *table("queries", part, 144 + 256, width),
        *linear("projector", _PROJECTOR, hidden, width, bias=True),
        *vector("separator", _PROJECTOR, hidden),
    )
    return (Tower("sam_qwen2", "image", weights, 256, tokens_note=PER_TILE),)
