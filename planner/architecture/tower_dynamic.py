"""Vision towers that keep an image's own resolution: Pixtral, the Qwen-VL line, MoonViT, Gemma 4 and others.

How many tokens an image takes depends on its size, so most of these state a rule instead of a number: `tokens_note`
is "square:N", one token for each N × N pixels of the resized image, or "square_rows:N", one more for each row.

References:
    The published modelling code of each family (transformers 5.24).
"""

from __future__ import annotations

from planner.architecture.blocks import Weights, linear, norm, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Tower
from planner.architecture.totals import linear_flops
from planner.architecture.tower_blocks import (
    encoder_flops,
    encoder_layers,
    patches,
    projector,
    table,
    text_width,
)
from planner.architecture.tower_vision import PER_TILE, pooling_head

_VISION = Part.VISION


def square(pixels: int, *, rows: bool = False) -> str:
    """The note that one token stands for a square of this side (pixels), with one more token a row or not."""
    return f"{'square_rows' if rows else 'square'}:{pixels}"


def pixtral_encoder(vision: Keys) -> Weights:
    """Pixtral: bias-free gated layers with RMS norms and rotary positions, one norm before them."""
    width = vision.integer("hidden_size", default=1024)
    layers = vision.integer("num_hidden_layers", default=24)
    wide = vision.integer("intermediate_size", default=4096)
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("num_channels", default=3)
    return (
        *patches(_VISION, width, channels * patch**2, bias=False),
        *norm("outer_norm", width, part=_VISION),
        *encoder_layers(
            _VISION,
            layers,
            width,
            wide,
            attention_bias=False,
            gated=True,
            mlp_bias=False,
            norm_kind="rms",
        ),
    )


def mistral3(keys: Keys) -> tuple[Tower, ...]:
    """Mistral 3: Pixtral, merged patches, a two-layer projector; a break token ends each row."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1024)
    merge = keys.integer("spatial_merge_size", default=2)
    hidden = text_width(keys, 5120)
    biased = keys.flag("multimodal_projector_bias", default=False)
    weights = (
        *pixtral_encoder(vision),
        *norm("projector_norm", width, part=Part.PROJECTOR),
        *linear("merger", Part.PROJECTOR, width, width * merge**2),
        *projector(width, hidden, hidden, bias=biased),
    )
    side = vision.integer("patch_size", default=14) * merge
    return (Tower("pixtral", "image", weights, tokens_note=square(side, rows=True)),)


def pixtral_llava(keys: Keys) -> tuple[Tower, ...]:
    """Pixtral in LLaVA's layout: no merging, a two-layer projector."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1024)
    hidden = text_width(keys, 5120)
    biased = keys.flag("multimodal_projector_bias", default=True)
    weights = pixtral_encoder(vision) + projector(width, hidden, hidden, bias=biased)
    side = vision.integer("patch_size", default=16)
    return (Tower("pixtral", "image", weights, tokens_note=square(side, rows=True)),)


def qwen2_vl(keys: Keys) -> tuple[Tower, ...]:
    """Qwen2-VL: two frames a patch, layer norms, biased layers; four patches merged by a two-layer projector."""
    vision = keys.section("vision_config")
    width = vision.integer("embed_dim", default=1280)
    layers = vision.integer("depth", default=32)
    wide = int(width * vision.number("mlp_ratio", default=4.0, minimum=0.1, maximum=100.0))
    output = vision.integer("hidden_size", default=3584)
    merge = vision.integer("spatial_merge_size", default=2)
    merged = width * merge**2
    weights = (
        *_qwen_patches(vision, width, bias=False),
        *encoder_layers(_VISION, layers, width, wide),
        *norm("projector_norm", width, kind="layer", part=Part.PROJECTOR),
        *projector(merged, merged, output, bias=True),
    )
    return (_qwen_tower(vision, "qwen2_vit", weights, merge, 14),)


def qwen2_5_vl(keys: Keys) -> tuple[Tower, ...]:
    """Qwen2.5-VL: RMS norms, gated biased layers, windows of 112 pixels in most of them."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=3584)
    layers = vision.integer("depth", default=32)
    wide = vision.integer("intermediate_size", default=3420)
    output = vision.integer("out_hidden_size", default=3584)
    merge = vision.integer("spatial_merge_size", default=2)
    merged = width * merge**2
    weights = (
        *_qwen_patches(vision, width, bias=False),
        *encoder_layers(_VISION, layers, width, wide, gated=True, norm_kind="rms"),
        *norm("projector_norm", width, part=Part.PROJECTOR),
        *projector(merged, merged, output, bias=True),
    )
    return (_qwen_tower(vision, "qwen2_5_vit", weights, merge, 14),)


def qwen3_vl(keys: Keys) -> tuple[Tower, ...]:
    """Qwen3-VL and Qwen3.5: a position table, layer norms, one merger and one more for each deep-stack level."""
    return (qwen3_vision(keys.section("vision_config"), levels=3, output=3584),)


def qwen3_5(keys: Keys) -> tuple[Tower, ...]:
    """Qwen3.5: Qwen3-VL's tower without deep-stack levels."""
    return (qwen3_vision(keys.section("vision_config"), levels=0, output=3584),)


def qwen3_vision(vision: Keys, *, levels: int, output: int) -> Tower:
    """The tower of Qwen3-VL; `levels` and `output` where the section doesn't say."""
    width = vision.integer("hidden_size", default=1152)
    layers = vision.integer("depth", default=27)
    wide = vision.integer("intermediate_size", default=4304)
    output = vision.integer("out_hidden_size", default=output)
    merge = vision.integer("spatial_merge_size", default=2)
    count = vision.integer("num_position_embeddings", default=2304)
    deep = vision.sequence("deepstack_visual_indexes")
    levels = len(deep) if deep is not None else levels
    merged = width * merge**2
    part = Part.PROJECTOR
    weights = (
        *_qwen_patches(vision, width, bias=True),
        *table("positions", _VISION, count, width),
        *encoder_layers(_VISION, layers, width, wide),
        *norm("projector_norm", width, kind="layer", part=part),
        *projector(merged, merged, output, bias=True),
    )
    if levels:
        weights += norm("deepstack_norm", merged, kind="layer", copies=levels, part=part)
        weights += linear("deepstack_1", part, merged, merged, bias=True, copies=levels)
        weights += linear(
            "deepstack_2", part, output, merged, bias=True, copies=levels, row_parallel=True
        )
    return _qwen_tower(vision, "qwen3_vit", weights, merge, 16)


def _qwen_patches(vision: Keys, width: int, *, bias: bool) -> Weights:
    patch = vision.integer("patch_size", default=16 if bias else 14)
    frames = vision.integer("temporal_patch_size", default=2)
    channels = vision.integer("in_channels", "in_chans", default=3)
    return patches(_VISION, width, channels * frames * patch**2, bias=bias)


def _qwen_tower(vision: Keys, name: str, weights: Weights, merge: int, patch: int) -> Tower:
    side = vision.integer("patch_size", default=patch) * merge
    return Tower(name, "image", weights, tokens_note=square(side))


def kimi_k25(keys: Keys) -> tuple[Tower, ...]:
    """Kimi K2.5: MoonViT with a 64 × 64 position table, four patches merged by a two-layer projector."""
    vision = keys.section("vision_config")
    width = vision.integer("vt_hidden_size", "hidden_size", default=1152)
    layers = vision.integer("vt_num_hidden_layers", "num_hidden_layers", default=27)
    wide = vision.integer("vt_intermediate_size", "intermediate_size", default=4304)
    patch = vision.integer("patch_size", default=14)
    rows = vision.integer("init_pos_emb_height", "pos_emb_height", default=64)
    columns = vision.integer("init_pos_emb_width", "pos_emb_width", default=64)
    merge = vision.integers("merge_kernel_size", length=2, minimum=1) or (2, 2)
    projected = width * merge[0] * merge[1]
    weights = (
        *patches(_VISION, width, 3 * patch**2, bias=True),
        *table("positions", _VISION, rows * columns, width),
        *encoder_layers(_VISION, layers, width, wide),
        *norm("final_norm", width, kind="layer", part=_VISION),
        *norm("projector_norm", width, kind="layer", part=Part.PROJECTOR),
        *projector(projected, projected, text_width(keys, 7168), bias=True),
    )
    return (Tower("moonvit", "image", weights, tokens_note=square(patch * merge[0])),)


def minimax_m3(keys: Keys) -> tuple[Tower, ...]:
    """MiniMax M3: a CLIP-like ViT with rotary positions; patches projected, then merged and projected again."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1280)
    layers = vision.integer("num_hidden_layers", default=32)
    wide = vision.integer("intermediate_size", default=5120)
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("num_channels", default=3)
    merging = vision.optional_section("img_token_compression_config") or vision
    frames = merging.integer("temporal_patch_size", default=2)
    merge = merging.integer("spatial_merge_size", default=2)
    hidden = text_width(keys, 6144)
    inner = keys.integer("projector_hidden_size", default=hidden)
    biased = keys.flag("multimodal_projector_bias", default=True)
    merged = hidden * merge**2
    weights = (
        *patches(_VISION, width, channels * frames * patch**2, bias=False),
        *norm("outer_norm", width, kind="layer", part=_VISION),
        *encoder_layers(_VISION, layers, width, wide),
        *projector(width, inner, hidden, bias=biased),
        *projector(merged, inner, hidden, bias=biased),
    )
    return (Tower("minimax_vit", "image", weights, tokens_note=square(patch * merge)),)


def muse_glimmer(keys: Keys) -> tuple[Tower, ...]:
    """Muse Glimmer: two frames a patch by a linear layer, a position table, a bias-free adapter and a projection."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1536)
    layers = vision.integer("num_hidden_layers", default=50)
    wide = vision.integer("intermediate_size", default=8960)
    patch = vision.integer("patch_size", default=14)
    frames = vision.integer("patch_temporal", default=2)
    merge = vision.integer("merge_size", default=2)
    count = vision.integer("pos_emb_height", default=32) * vision.integer(
        "pos_emb_width", default=32
    )
    inner = keys.integer("projector_hidden_size", default=4096)
    merged = keys.integer("out_hidden_size", default=width * merge**2)
    weights = (
        *linear("patch_embedding", _VISION, width, 3 * frames * patch**2),
        *table("positions", _VISION, count, width),
        *encoder_layers(_VISION, layers, width, wide),
        *norm("outer_norm", width, kind="layer", copies=2, part=_VISION),
        *projector(merged, inner, inner, text_width(keys, 6656), bias=False),
    )
    return (Tower("muse_vit", "image", weights, tokens_note=square(patch * merge)),)


def lfm2_vl(keys: Keys) -> tuple[Tower, ...]:
    """LFM2-VL: SigLIP 2 on tiles of 512², patches by a linear layer, four merged by a two-layer projector."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=768)
    layers = vision.integer("num_hidden_layers", default=12)
    wide = vision.integer("intermediate_size", default=3072)
    patch = vision.integer("patch_size", default=16)
    channels = vision.integer("num_channels", default=3)
    count = vision.integer("num_patches", default=256)
    factor = keys.integer("downsample_factor", default=2)
    inner = keys.integer("projector_hidden_size", default=2560)
    biased = keys.flag("projector_bias", default=True)
    merged = width * factor**2
    embedding = linear("patch_embedding", _VISION, width, channels * patch**2, bias=True)
    stack = encoder_layers(_VISION, layers, width, wide)
    connector = projector(merged, inner, text_width(keys, 2560), bias=biased)
    weights = (
        *embedding,
        *table("positions", _VISION, count, width),
        *stack,
        *norm("final_norm", width, kind="layer", part=_VISION),
        *connector,
    )
    if vision.flag("vision_use_head", default=False):
        weights += pooling_head(width, wide)
    if keys.flag("projector_use_layernorm", default=True):
        weights += norm("projector_norm", merged, kind="layer", part=Part.PROJECTOR)
    seen = (512 // patch) ** 2
    tokens = seen // factor**2
    flops = encoder_flops(stack, seen, layers=layers, attention_width=width)
    flops += linear_flops(embedding) * seen + linear_flops(connector) * tokens
    return (Tower("siglip2", "image", weights, tokens, flops, tokens_note=PER_TILE),)


def gemma4(keys: Keys) -> tuple[Tower, ...]:
    """Gemma 4: gated bias-free layers with four RMS norms and head norms, 3 × 3 patches averaged into a token.

    An image is resized so that it takes at most 280 tokens unless the request says otherwise.
    """
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=768)
    layers = vision.integer("num_hidden_layers", default=16)
    wide = vision.integer("intermediate_size", default=3072)
    heads = vision.integer("num_attention_heads", default=12)
    head = vision.integer("head_dim", default=64)
    patch = vision.integer("patch_size", default=16)
    pooled = vision.integer("pooling_kernel_size", default=3) ** 2
    count = vision.integer("position_embedding_size", default=10240)
    tokens = vision.integer("default_output_length", default=280)
    embedding = linear("patch_embedding", _VISION, width, 3 * patch**2)
    stack = encoder_layers(
        _VISION,
        layers,
        width,
        wide,
        attention_width=heads * head,
        attention_bias=False,
        gated=True,
        mlp_bias=False,
        norm_kind="rms",
        norms=4,
    )
    connector = linear("projector", Part.PROJECTOR, text_width(keys, 2304), width)
    weights = (
        *embedding,
        *table("positions", _VISION, 2 * count, width),
        *stack,
        *norm("head_norm", head, copies=2 * layers, part=_VISION),
        *connector,
    )
    if vision.flag("standardize", default=False):
        weights += vector("standardize", _VISION, width, copies=2, buffer=True)
    seen = tokens * pooled
    flops = encoder_flops(stack, seen, layers=layers, attention_width=heads * head)
    flops += linear_flops(embedding) * seen + linear_flops(connector) * tokens
    return (Tower("gemma4_vit", "image", weights, tokens, flops),)


def gemma4_unified(keys: Keys) -> tuple[Tower, ...]:
    """Gemma 4 without encoders: patches of 48² pixels and 640 audio samples enter through linear layers."""
    vision = keys.section("vision_config")
    hidden = text_width(keys, 2304)
    width = vision.integer("mm_embed_dim", default=hidden)
    side = vision.integer("patch_size", default=16) * vision.integer(
        "pooling_kernel_size", default=3
    )
    elements = 3 * side**2
    tokens = vision.integer("num_soft_tokens", default=280)
    dense = linear("patch_embedding", _VISION, width, elements, bias=True)
    connector = linear("projector", Part.PROJECTOR, hidden, width)
    weights = (
        *norm("patch_norm", elements, kind="layer", part=_VISION),
        *dense,
        *table("positions", _VISION, 2 * vision.integer("mm_posemb_size", default=1120), width),
        *norm("outer_norm", width, kind="layer", copies=2, part=_VISION),
        *connector,
    )
    sight = Tower(
        "gemma4_patches", "image", weights, tokens, linear_flops(dense + connector) * tokens
    )
    audio = keys.optional_section("audio_config")
    if audio is None:
        return (sight,)
    # 16,000 samples a second, 640 to a token.
    heard = 30 * 16_000 // audio.integer("audio_samples_per_token", default=640)
    connector = linear(
        "projector", Part.PROJECTOR, hidden, audio.integer("audio_embed_dim", default=640)
    )
    sound = Tower("gemma4_samples", "audio", connector, heard, linear_flops(connector) * heard)
    return sight, sound
