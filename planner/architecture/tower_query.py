"""Towers that ask an image a fixed number of questions: Q-Formers, perceivers, Kosmos' latent queries.

References:
    The published modelling code of each family (transformers 5.24); BLIP-2, arXiv 2301.12597.
"""

from __future__ import annotations

from dataclasses import replace

from planner.architecture.blocks import Weights, gated_mlp, linear, norm, plain_mlp, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Shape, Tower, Weight
from planner.architecture.tower_blocks import (
    Encoder,
    encoder_flops,
    encoder_layers,
    patches,
    table,
    text_width,
)
from planner.architecture.tower_llava import Towers, headless_siglip
from planner.architecture.tower_vision import PER_TILE, clip_encoder, patch_grid, siglip_encoder

_VISION, _PROJECTOR = Part.VISION, Part.PROJECTOR


def blip_encoder(
    vision: Keys, width: int, layers: int, wide: int, side: int, patch: int
) -> Encoder:
    """EVA's ViT as BLIP has it: biased patches and layers, a class token, a norm after them; sizes are defaults."""
    width = vision.integer("hidden_size", default=width)
    layers = vision.integer("num_hidden_layers", default=layers)
    wide = vision.integer("intermediate_size", default=wide)
    patch = vision.integer("patch_size", default=patch)
    count = patch_grid(vision, patch, side) ** 2
    bias = vision.flag("qkv_bias", default=True)
    stack = encoder_layers(_VISION, layers, width, wide, attention_bias=bias, output_bias=True)
    weights = (
        *vector("class_token", _VISION, width),
        *patches(_VISION, width, 3 * patch**2, bias=True),
        *table("positions", _VISION, count + 1, width),
        *stack,
        *norm("final_norm", width, kind="layer", part=_VISION),
    )
    flops = encoder_flops(weights, count + 1, layers=layers, attention_width=width)
    return Encoder(weights, width, count + 1, flops)


def blip(keys: Keys) -> Towers:
    """BLIP: a ViT at 384² that the text decoder attends to; it takes no tokens of the text's own."""
    encoder = blip_encoder(keys.section("vision_config"), 768, 12, 3072, 384, 16)
    return (Tower("blip_vit", "image", encoder.weights, 1, encoder.flops, "cross_attention"),)


def blip_2(keys: Keys) -> Towers:
    """BLIP-2: EVA's ViT, 32 queries that attend to it in every other layer of a small BERT, one linear layer."""
    return _blip_2(keys, text=False)


def instructblip(keys: Keys) -> Towers:
    """InstructBLIP: BLIP-2 whose queries also read the instruction, with BERT's own embedding and feed-forward."""
    return _blip_2(keys, text=True)


def _blip_2(keys: Keys, *, text: bool) -> Towers:
    encoder = blip_encoder(keys.section("vision_config"), 1408, 39, 6144, 224, 14)
    section = keys.optional_section("qformer_config") or Keys({}, "qformer_config.")
    queries = keys.integer("num_query_tokens", default=32)
    width = section.integer("hidden_size", default=768)
    weights = (
        *encoder.weights,
        *table("queries", _PROJECTOR, queries, width),
        *q_former(section, width, encoder.width, text=text),
        *linear("projector", _PROJECTOR, text_width(keys, 768), width, bias=True),
    )
    if keys.flag("use_qformer_text_input", default=False):
        raise keys.contradiction("use_qformer_text_input", "not_described")
    return (Tower("blip_2", "image", weights, queries),)


def q_former(section: Keys, width: int, source: int, *, text: bool) -> Weights:
    """A small BERT over queries, which attend to a `source` wide encoder in every `cross_attention_frequency`-th layer.

    Args:
        text: with an embedding and a feed-forward for text tokens beside the queries'.
    """
    layers = section.integer("num_hidden_layers", default=12, maximum=1000)
    wide = section.integer("intermediate_size", default=3072)
    source = section.integer("encoder_hidden_size", default=source)
    every = section.integer("cross_attention_frequency", default=2, maximum=1000)
    crossing = -(-layers // every)
    part = _PROJECTOR
    weights = (
        *norm("query_norm", width, kind="layer", part=part),
        *_stack(part, layers, width, width),
        *_stack(part, crossing, width, source, prefix="cross_"),
        *plain_mlp(width, wide, bias=True, part=part, copies=layers),
        *norm("norm", width, kind="layer", copies=layers, part=part),
    )
    if not text:
        return weights
    return (
        *weights,
        *table("text_embedding", part, section.integer("vocab_size", default=30522), width),
        *table(
            "text_positions", part, section.integer("max_position_embeddings", default=512), width
        ),
        *plain_mlp(width, wide, bias=True, part=part, copies=layers),
        *norm("text_norm", width, kind="layer", copies=layers, part=part),
    )


def _stack(part: Part, layers: int, width: int, source: int, *, prefix: str = "") -> Weights:
    """Biased attention of `layers` layers with the norm after it, reading a `source` wide state."""
    return (
        *linear(f"{prefix}query", part, width, width, bias=True, copies=layers),
        *linear(f"{prefix}key", part, width, source, bias=True, copies=layers),
        *linear(f"{prefix}value", part, width, source, bias=True, copies=layers),
        *linear(f"{prefix}output", part, width, width, bias=True, copies=layers, row_parallel=True),
        *norm(f"{prefix}norm", width, kind="layer", copies=layers, part=part),
    )


def granite4_vision(keys: Keys) -> Towers:
    """Granite 4 Vision: SigLIP (or CLIP) over tiles; a windowed Q-Former for each deep-stack level and each corner."""
    vision = keys.section("vision_config")
    siglip = vision.text("model_type", default="siglip_vision_model").startswith("siglip")
    encoder = siglip_encoder(vision) if siglip else clip_encoder(vision)
    rate = keys.text("downsample_rate", default="4/8").split("/")
    if len(rate) != 2 or not all(item.isdecimal() and int(item) for item in rate):
        raise keys.contradiction("downsample_rate", "not_a_ratio")
    query, window = int(rate[0]), int(rate[1])
    levels = keys.sequence("deepstack_layer_map") or ()
    former = keys.optional_section("qformer_config") or Keys({}, "qformer_config.")
    width, hidden = encoder.width, text_width(keys, 4096)
    part = _PROJECTOR
    one = (
        *q_former(former, former.integer("hidden_size", default=width), width, text=False),
        *norm("projector_norm", width, kind="layer", part=part),
        *table("queries", part, query**2, width),
        *table("window_positions", part, window**2, width),
        *linear("projector", part, hidden, width, bias=True),
    )
    copies = len(levels) + 4
    weights = tuple(replace(weight, copies=weight.copies * copies) for weight in one)
    separator = vector("separator", part, hidden)
    count = encoder.positions or 0
    tokens = count * query**2 // window**2
    return (
        Tower(
            "siglip", "image", encoder.weights + weights + separator, tokens, tokens_note=PER_TILE
        ),
    )


def kosmos_2(keys: Keys) -> Towers:
    """Kosmos-2: CLIP at 224², 64 latent queries that attend to it."""
    vision = keys.section("vision_config")
    encoder = clip_encoder(Keys({"image_size": 224, **vision.config}, vision.prefix))
    queries = keys.integer("latent_query_num", default=64)
    weights = encoder.weights + _latent_queries(keys, encoder.width, queries, 2048)
    return (Tower("clip", "image", weights, queries),)


def kosmos_2_5(keys: Keys) -> Towers:
    """Kosmos-2.5: Pix2Struct's encoder over up to 4,096 patches, 2,048 latent queries that attend to it."""
    vision = keys.section("vision_config")
    encoder = pix2struct_encoder(vision, "intermediate_size", 3968, 1536, 18, 24, 4096)
    queries = keys.integer("latent_query_num", default=2048)
    weights = encoder.weights + _latent_queries(keys, encoder.width, queries, 1536)
    return (Tower("pix2struct", "image", weights, queries),)


def _latent_queries(keys: Keys, width: int, queries: int, default: int) -> Weights:
    text = keys.optional_section("text_config") or Keys({}, "text_config.")
    hidden = text.integer("embed_dim", default=default)
    part = _PROJECTOR
    weights = (
        *table("queries", part, queries, hidden),
        *linear("projector", part, hidden, width, bias=True),
    )
    for name in ("query", "key", "value", "output"):
        weights += linear(f"projector_{name}", part, hidden, hidden, bias=True)
    return weights


def pix2struct_encoder(
    vision: Keys, wide_name: str, wide: int, width: int, layers: int, heads: int, rows: int
) -> Encoder:
    """Pix2Struct: patches of variable grids with a table of rows and one of columns, bias-free gated layers."""
    width = vision.integer("hidden_size", default=width)
    layers = vision.integer("num_hidden_layers", default=layers)
    wide = vision.integer(wide_name, default=wide)
    elements = vision.integer("patch_embed_hidden_size", default=768)
    rows = vision.integer("seq_len", "max_num_patches", default=rows)
    heads = vision.integer("num_attention_heads", default=heads, maximum=100_000)
    size = vision.integer("d_kv", "head_dim", default=64, maximum=100_000)
    stack = encoder_layers(
        _VISION,
        layers,
        width,
        wide,
        attention_width=heads * size,
        attention_bias=False,
        gated=True,
        mlp_bias=False,
        norm_kind="rms",
    )
    weights = (
        *linear("patch_embedding", _VISION, width, elements, bias=True),
        *table("row_positions", _VISION, rows, width, copies=2),
        *stack,
        *norm("final_norm", width, part=_VISION),
    )
    return Encoder(weights, width)


def pix2struct(keys: Keys) -> Towers:
    """Pix2Struct: its encoder, which the text decoder attends to."""
    vision = keys.section("vision_config")
    encoder = pix2struct_encoder(vision, "d_ff", 2048, 768, 12, 12, 4096)
    return (Tower("pix2struct", "image", encoder.weights, 1, tokens_note="cross_attention"),)


def idefics2(keys: Keys) -> Towers:
    """Idefics 2: SigLIP, a gated projection, 64 latents of a three-layer perceiver."""
    vision = keys.section("vision_config")
    encoder = headless_siglip(Keys({"patch_size": 32, **vision.config}, vision.prefix))
    text = keys.optional_section("text_config") or Keys({}, "text_config.")
    hidden = text.integer("hidden_size", default=4096)
    wide = text.integer("intermediate_size", default=14336)
    section = keys.optional_section("perceiver_config") or Keys({}, "perceiver_config.")
    width = section.integer("hidden_size", default=4096)
    latents = section.integer("resampler_n_latents", default=64)
    layers = section.integer("resampler_depth", default=3, maximum=1000)
    heads = section.integer("resampler_n_heads", default=16, maximum=100_000)
    kv_heads = section.integer("num_key_value_heads", default=4, maximum=100_000)
    size = section.integer("resampler_head_dim", default=96, maximum=100_000)
    part = _PROJECTOR
    weights = (
        *linear("gate", part, wide, encoder.width),
        *linear("up", part, wide, encoder.width),
        *linear("down", part, hidden, wide, row_parallel=True),
        *table("latents", part, latents, width),
        *linear("query", part, heads * size, width, copies=layers),
        *linear("key", part, kv_heads * size, width, copies=layers),
        *linear("value", part, kv_heads * size, width, copies=layers),
        *linear("output", part, width, heads * size, copies=layers, row_parallel=True),
        *gated_mlp(width, 4 * width, part=part, copies=layers),
        *norm("norm", width, copies=3 * layers + 1, part=part),
    )
    return (Tower("siglip", "image", encoder.weights + weights, latents, tokens_note=PER_TILE),)


def idefics(keys: Keys) -> Towers:
    """Idefics: CLIP at 224², a perceiver where `use_resampler` says so; the text attends to it in layers of its own."""
    vision = keys.optional_section("vision_config") or Keys({}, "vision_config.")
    width = vision.integer("embed_dim", "hidden_size", default=768)
    sized = {"num_hidden_layers": 32, "intermediate_size": 5120, "image_size": 224}
    section = Keys({**sized, **vision.config, "hidden_size": width}, vision.prefix)
    encoder = clip_encoder(section)
    weights = encoder.weights
    if keys.flag("use_resampler", default=False):
        weights += _perceiver(
            keys.optional_section("perceiver_config") or Keys({}, "perceiver_config."), width
        )
    return (Tower("clip", "image", weights, 1, encoder.flops, "cross_attention"),)


def _perceiver(section: Keys, width: int) -> Weights:
    latents = section.integer("resampler_n_latents", default=64)
    layers = section.integer("resampler_depth", default=6, maximum=1000)
    heads = section.integer("resampler_n_heads", default=16, maximum=100_000)
    size = section.integer("resampler_head_dim", default=96, maximum=100_000)
    part = _PROJECTOR
    weights = table("latents", part, latents, width)
    for name in ("query", "key", "value"):
        weights += linear(name, part, heads * size, width, copies=layers)
    weights += linear("output", part, width, heads * size, copies=layers, row_parallel=True)
    weights += plain_mlp(width, 4 * width, part=part, copies=layers)
    weights += norm("norm", width, kind="layer", copies=3 * layers + 1, part=part)
    if section.flag("qk_layer_norms_perceiver", default=False):
        weights += norm("head_norm", size, kind="layer", copies=2 * layers, part=part)
    return weights


def florence2(keys: Keys) -> Towers:
    """Florence-2: DaViT (attention over windows and over channels in turn, four ever wider stages), one projection."""
    vision = keys.section("vision_config")
    widths = vision.integers("embed_dim", "dim_embed", minimum=1) or (128, 256, 512, 1024)
    stages = len(widths)
    depths = vision.integers("depths", length=stages, minimum=0) or (1, 1, 9, 1)[:stages]
    sides = vision.integers("patch_size", length=stages, minimum=1) or (7, 3, 3, 3)[:stages]
    before = vision.sequence("patch_prenorm", length=stages) or (False, True, True, True)[:stages]
    ratio = vision.number("mlp_ratio", default=4.0, minimum=0.1, maximum=100.0)
    biased = vision.flag("qkv_bias", default=True)
    channels = vision.integer("in_channels", default=3)
    output = vision.integer("projection_dim", default=1024)
    weights: Weights = ()
    for width, depth, side, first in zip(widths, depths, sides, before, strict=True):
        weights += patches(_VISION, width, channels * side**2, bias=True)
        weights += norm("patch_norm", channels if first else width, kind="layer", part=_VISION)
        blocks = 2 * depth
        if blocks:
            # Two depth-wise convolutions give each block its positions.
            weights += encoder_layers(
                _VISION,
                blocks,
                width,
                int(width * ratio),
                attention_bias=biased,
                output_bias=True,
            )
            weights += (Weight("depthwise", _VISION, width, 9, 2 * blocks, Shape.CONVOLUTION),)
            weights += vector("depthwise_bias", _VISION, width, copies=2 * blocks)
        channels = width
    rows = vision.integer("max_position_embeddings", default=50)
    weights += table("row_positions", _PROJECTOR, rows, channels // 2)
    weights += table("column_positions", _PROJECTOR, rows, channels - channels // 2)
    weights += linear("projector", _PROJECTOR, output, channels)
    weights += norm("projector_norm", output, kind="layer", part=_PROJECTOR)
    return (Tower("davit", "image", weights, tokens_note="encoder_input"),)
