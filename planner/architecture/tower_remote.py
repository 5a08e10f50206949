"""Vision towers of models whose code lives with their checkpoints: Phi-3 Vision, Molmo, Qwen-VL, Kimi K3.

Where a configuration doesn't describe its tower, the shape is that of the published modelling code.
"""

from __future__ import annotations

from dataclasses import replace

from planner.architecture.blocks import Weights, linear, norm, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Tower
from planner.architecture.totals import linear_flops
from planner.architecture.tower_blocks import (
    bare_matrix,
    encoder_flops,
    encoder_layers,
    patches,
    projector,
    table,
    text_width,
)
from planner.architecture.tower_dynamic import square
from planner.architecture.tower_vision import PER_TILE, clip_encoder, fixed_tower, patch_grid

_VISION = Part.VISION


def phi3_v(keys: Keys) -> tuple[Tower, ...]:
    """Phi-3 Vision: CLIP ViT-L/14 at 336², four patches merged to a token, two learned separators."""
    hidden = keys.integer("hidden_size")
    image = keys.optional_section("img_processor")
    width = 1024 if image is None else image.integer("image_dim_out", default=1024)
    tokens = 144 if image is None else image.integer("num_img_tokens", default=144)
    encoder = clip_encoder(Keys({"hidden_size": width}))
    connector = projector(4 * width, hidden, hidden, bias=True)
    separators = vector("separators", Part.PROJECTOR, 4 * width, copies=2)
    return (fixed_tower("clip", encoder, connector, tokens, separators, note=PER_TILE),)


def molmo(keys: Keys) -> tuple[Tower, ...]:
    """Molmo: 23 layers of CLIP ViT-L/14 at 336², attention pooling over four patches, a gated projector."""
    hidden = keys.integer("hidden_size")
    half = keys.integer("intermediate_size", minimum=2) // 2
    encoder = clip_encoder(Keys({}), layers=23, final_norm=False, linear_patches=True)
    width, pooled = encoder.width, 2 * encoder.width  # features of two layers side by side
    pooling: Weights = ()
    for name in ("pooling_query", "pooling_key", "pooling_value"):
        pooling += linear(name, Part.PROJECTOR, width, pooled, bias=True)
    pooling += linear("pooling_output", Part.PROJECTOR, width, width, bias=True, row_parallel=True)
    connector = (
        *pooling,
        *linear("projector_gate", Part.PROJECTOR, half, width),
        *linear("projector_up", Part.PROJECTOR, half, width),
        *linear("projector_down", Part.PROJECTOR, hidden, half, row_parallel=True),
    )
    padding = vector("padding", Part.PROJECTOR, pooled, copies=2)
    # Keys and values are made of each of the four patches that a token pools, not of the token once.
    each = linear_flops(w for w in pooling if w.name in ("pooling_key", "pooling_value"))
    encoder = replace(encoder, flops=(encoder.flops or 0.0) + 3 * 144 * each)
    return (fixed_tower("clip", encoder, connector, 144, padding, note=PER_TILE),)


def qwen_vl(keys: Keys) -> tuple[Tower, ...]:
    """Qwen-VL: OpenCLIP ViT-bigG at 448² and a resampler to 256 queries by cross-attention.

    References:
        Qwen-VL, arXiv 2308.12966 and the model's published modelling code.
    """
    vision = keys.section("visual")
    width = vision.integer("width")
    layers = vision.integer("layers")
    patch = vision.integer("patch_size", default=14)
    count = patch_grid(vision, patch, 448) ** 2
    wide = int(width * vision.number("mlp_ratio", minimum=0.1, maximum=100.0))
    output = vision.integer("output_dim")
    queries = vision.integer("n_queries", default=256)
    embedding = patches(_VISION, width, 3 * patch**2, bias=False)
    stack = encoder_layers(_VISION, layers, width, wide)
    weights = (
        *embedding,
        *table("positions", _VISION, 256, width),
        *norm("outer_norm", width, kind="layer", part=_VISION),
        *stack,
    )
    flops = encoder_flops(stack, count, layers=layers, attention_width=width)
    flops += linear_flops(embedding) * count
    part = Part.PROJECTOR
    keyed = linear("resampler_input", part, output, width)
    attention = (
        *linear("resampler_qkv", part, 3 * output, output, bias=True),
        *linear("resampler_output", part, output, output, bias=True, row_parallel=True),
    )
    weights += (
        *table("queries", part, queries, output),
        *table("query_positions", part, queries, output),
        *keyed,
        *attention,
        *norm("projector_norm", output, kind="layer", copies=3, part=part),
        *bare_matrix("projector", part, output, output),
    )
    # Keys and values of every patch (two thirds of the fused projection); query, output and projection of the queries.
    flops += linear_flops(keyed) * count + 4.0 * output**2 * count
    flops += 6.0 * output**2 * queries + 4.0 * output * queries * count
    return (Tower("openclip", "image", weights, queries, flops),)


def kimi_k3(keys: Keys) -> tuple[Tower, ...]:
    """Kimi K3: MoonViT without biases, attention wider than the stream, four patches merged by a two-layer projector.

    Which norms the projector has isn't documented; one of the language model's width fits the published total best.
    """
    vision = keys.section("vision_config")
    width = vision.integer("vt_hidden_size")
    layers = vision.integer("vt_num_hidden_layers")
    wide = vision.integer("vt_intermediate_size")
    inner = vision.integer("qkv_hidden_size", default=width)
    patch = vision.integer("patch_size", default=14)
    rows = vision.integer("init_pos_emb_height", default=64)
    columns = vision.integer("init_pos_emb_width", default=64)
    merge = vision.integers("merge_kernel_size", length=2, minimum=1) or (2, 2)
    kind = "rms" if vision.text("norm_type", default="rmsnorm") == "rmsnorm" else "layer"
    merged, hidden = width * merge[0] * merge[1], text_width(keys, 7168)
    weights = (
        *patches(
            _VISION, width, 3 * patch**2, bias=vision.flag("patch_embed_proj_bias", default=False)
        ),
        *table("positions", _VISION, rows * columns, width),
        *encoder_layers(
            _VISION,
            layers,
            width,
            wide,
            attention_width=inner,
            attention_bias=vision.flag("attn_bias", default=False),
            mlp_bias=vision.flag("linear_bias", default=False),
            norm_kind=kind,
        ),
        *norm("final_norm", width, kind=kind, part=_VISION),
        *projector(merged, merged, hidden, bias=vision.flag("linear_bias", default=False)),
        *norm("projector_norm", hidden, part=Part.PROJECTOR),
    )
    return (Tower("moonvit", "image", weights, tokens_note=square(patch * merge[0])),)
