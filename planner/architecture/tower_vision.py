"""Vision towers with one fixed input size, or one per tile: SigLIP, CLIP, Mllama, Llama 4, InternViT, Step and others.

Each function takes the keys of the whole configuration and returns the tower with its projector. A key that a section
leaves out has the default of the published configuration class, which is what a saved file leaves out.

References:
    The published modelling code of each family (transformers 5.24, or the model's own repository).
"""

from __future__ import annotations

from planner.architecture.blocks import Weights, linear, norm, plain_mlp, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Tower, Weight
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

PER_TILE = "per_tile"
"""`tokens_note` where `tokens_per_item` is one tile's, and larger images take several and a thumbnail."""

_VISION = Part.VISION


def siglip_encoder(vision: Keys) -> Encoder:
    """SigLIP: patches with bias, a position table, pre-norm layers, a final norm; a pooling head where it's stored.

    The head isn't run: language models read the positions.
    """
    width = vision.integer("hidden_size", default=768)
    layers = vision.integer("num_hidden_layers", default=12)
    wide = vision.integer("intermediate_size", default=3072)
    patch = vision.integer("patch_size", default=16)
    channels = vision.integer("num_channels", default=3)
    count = patch_grid(vision, patch, 224) ** 2
    embedding = patches(_VISION, width, channels * patch**2, bias=True)
    stack = encoder_layers(_VISION, layers, width, wide)
    weights = (
        *embedding,
        *table("positions", _VISION, count, width),
        *stack,
        *norm("final_norm", width, kind="layer", part=_VISION),
    )
    if vision.flag("vision_use_head", default=True):
        weights += pooling_head(width, wide)
    flops = encoder_flops(stack, count, layers=layers, attention_width=width)
    return Encoder(weights, width, count, flops + linear_flops(embedding) * count)


def pooling_head(width: int, wide: int) -> Weights:
    """Attention of one learned query over all positions, whose input projections are one bare parameter."""
    return (
        *vector("pooling_query", _VISION, width),
        *bare_matrix("pooling_projections", _VISION, 3 * width, width),
        *vector("pooling_projections_bias", _VISION, 3 * width),
        *linear("pooling_output", _VISION, width, width, bias=True, row_parallel=True),
        *norm("pooling_norm", width, kind="layer", part=_VISION),
        *plain_mlp(width, wide, bias=True, part=_VISION),
    )


def clip_encoder(
    vision: Keys,
    *,
    layers: int | None = None,
    final_norm: bool = True,
    linear_patches: bool = False,
) -> Encoder:
    """CLIP: a class token before the patches, a position table, a norm before the layers and one after."""
    width = vision.integer("hidden_size", default=1024)
    given = vision.integer("num_hidden_layers", default=24)
    layers = given if layers is None else layers
    wide = vision.integer("intermediate_size", default=4096)
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("num_channels", default=3)
    count = patch_grid(vision, patch, 336) ** 2
    embedding = patches(_VISION, width, channels * patch**2, bias=False)
    if linear_patches:
        embedding = linear("patch_embedding", _VISION, width, channels * patch**2)
    stack = encoder_layers(_VISION, layers, width, wide)
    weights = (
        *vector("class_token", _VISION, width),
        *embedding,
        *table("positions", _VISION, count + 1, width),
        *stack,
        *norm("outer_norm", width, kind="layer", copies=1 + final_norm, part=_VISION),
    )
    flops = encoder_flops(stack, count + 1, layers=layers, attention_width=width)
    return Encoder(weights, width, count, flops + linear_flops(embedding) * count)


def gemma3(keys: Keys) -> tuple[Tower, ...]:
    """Gemma 3: SigLIP at 896², averaged to 256 tokens, normed and multiplied into the language model's width."""
    vision = keys.section("vision_config")
    encoder = siglip_encoder(vision)
    hidden = text_width(keys, 2304)
    tokens = keys.integer("mm_tokens_per_image", default=256)
    connector = (
        *bare_matrix("projector", Part.PROJECTOR, encoder.width, hidden),
        *norm("projector_norm", encoder.width, part=Part.PROJECTOR),
    )
    return (fixed_tower("siglip", encoder, connector, tokens),)


def paligemma(keys: Keys) -> tuple[Tower, ...]:
    """PaliGemma: SigLIP and one linear layer; one token per patch."""
    encoder = siglip_encoder(keys.section("vision_config"))
    hidden = text_width(keys, 2048)
    connector = projector(encoder.width, hidden, bias=True)
    return (fixed_tower("siglip", encoder, connector, encoder.positions or 0),)


def llava(keys: Keys) -> tuple[Tower, ...]:
    """LLaVA 1.5: CLIP (or SigLIP) and a two-layer projector; one token per patch."""
    vision = keys.section("vision_config")
    siglip = vision.text("model_type", default="clip_vision_model").startswith("siglip")
    encoder = siglip_encoder(vision) if siglip else clip_encoder(vision)
    hidden = text_width(keys, 4096)
    features = keys.sequence("vision_feature_layer") if _is_list(keys) else None
    inputs = encoder.width * (len(features) if features else 1)
    biased = keys.flag("multimodal_projector_bias", default=True)
    connector = projector(inputs, hidden, hidden, bias=biased)
    return (
        fixed_tower("siglip" if siglip else "clip", encoder, connector, encoder.positions or 0),
    )


def llava_next(keys: Keys) -> tuple[Tower, ...]:
    """LLaVA 1.6: LLaVA's tower over tiles, with one learned separator."""
    (tower,) = llava(keys)
    hidden = text_width(keys, 4096)
    weights = tower.weights + vector("separator", Part.PROJECTOR, hidden)
    return (
        Tower(
            tower.name,
            "image",
            weights,
            tower.tokens_per_item,
            tower.flops_per_item,
            tokens_note=PER_TILE,
        ),
    )


def mllama(keys: Keys) -> tuple[Tower, ...]:
    """Llama 3.2 Vision: 32 local and 8 gated global layers over up to four tiles; read by cross-attention.

    An image takes one token in the language model; its 1,601 positions a tile are the cross-attention layers' keys.
    The table of aspect ratios is by far the largest tensor beside the layers.
    """
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1280)
    wide = vision.integer("intermediate_size", default=5120)
    local = vision.integer("num_hidden_layers", default=32)
    whole = vision.integer("num_global_layers", default=8)
    patch = vision.integer("patch_size", default=14)
    positions = patch_grid(vision, patch, 448) ** 2 + 1
    tiles = vision.integer("max_num_tiles", default=4)
    ratios = vision.sequence("supported_aspect_ratios")
    kinds = 1 + (
        len(ratios) if ratios is not None else sum(tiles // n for n in range(1, tiles + 1))
    )
    output = vision.integer("vision_output_dim", default=7680)
    hidden = text_width(keys, 4096)
    channels = vision.integer("num_channels", default=3)
    stack = encoder_layers(_VISION, local + whole, width, wide, attention_bias=False)
    embedding = patches(_VISION, width, channels * patch**2, bias=False)
    weights = (
        *vector("class_token", _VISION, width),
        *embedding,
        *table("positions", _VISION, positions, width),
        *table("tile_positions", _VISION, kinds, tiles * positions * width),
        *table("tile_embedding", _VISION, kinds, tiles * width, copies=2),
        *vector("gates", _VISION, 1, copies=3 + 2 * whole),
        *stack,
        *norm("outer_norm", width, kind="layer", copies=2, part=_VISION),
        *linear("projector", Part.PROJECTOR, hidden, output, bias=True),
    )
    flops = encoder_flops(stack, positions, layers=local + whole, attention_width=width)
    flops += linear_flops(embedding) * positions + 2.0 * hidden * output * positions
    return (Tower("mllama", "image", weights, 1, flops, tokens_note="cross_attention"),)


def llama4(keys: Keys) -> tuple[Tower, ...]:
    """Llama 4: a ViT at 336² a tile, four positions shuffled into one, a two-layer adapter, one projection."""
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=768)
    layers = vision.integer("num_hidden_layers", default=34)
    wide = vision.integer("intermediate_size", default=5632)
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("num_channels", default=3)
    count = patch_grid(vision, patch, 448) ** 2
    inner = vision.integer("projector_input_dim", default=4096)
    outer = vision.integer("projector_output_dim", default=4096)
    output = vision.integer("vision_output_dim", default=7680)
    ratio = vision.number("pixel_shuffle_ratio", default=0.5, minimum=0.05, maximum=1.0)
    hidden = text_width(keys, 5120)
    tokens = int(count * ratio**2)
    embedding = linear("patch_embedding", _VISION, width, channels * patch**2)
    stack = encoder_layers(_VISION, layers, width, wide)
    weights = (
        *vector("class_token", _VISION, width),
        *embedding,
        *table("positions", _VISION, count + 1, width),
        *stack,
        *norm("outer_norm", width, kind="layer", copies=2, part=_VISION),
    )
    flops = encoder_flops(stack, count + 1, layers=layers, attention_width=width)
    encoder = Encoder(weights, width, count, flops + linear_flops(embedding) * count)
    connector = (
        *linear("adapter_1", Part.PROJECTOR, inner, wide),
        *linear("adapter_2", Part.PROJECTOR, outer, outer, row_parallel=True),
        *linear("projector", Part.PROJECTOR, hidden, output),
    )
    return (fixed_tower("llama4", encoder, connector, tokens, note=PER_TILE),)


def internvl(keys: Keys) -> tuple[Tower, ...]:
    """InternVL: InternViT at 448² a tile with layer scales, four positions shuffled into one, a two-layer projector.

    Reads both the transformers layout and the original one (`internvl_chat`), whose keys differ in name.
    """
    vision = keys.section("vision_config")
    width = vision.integer("hidden_size", default=1024)
    layers = vision.integer("num_hidden_layers", default=24)
    wide = vision.integer("intermediate_size", default=4096)
    patch = _side(vision, "patch_size", 14)
    count = patch_grid(vision, patch, 448) ** 2
    channels = vision.integer("num_channels", default=3)
    biased = vision.flag("attention_bias", "qkv_bias", default=False)
    normed = vision.flag("use_qk_norm", "qk_normalization", default=False)
    kind = _norm_kind(vision)
    ratio = keys.number("downsample_ratio", default=0.5, minimum=0.05, maximum=1.0)
    embedding = patches(_VISION, width, channels * patch**2, bias=True)
    stack = encoder_layers(
        _VISION, layers, width, wide, attention_bias=biased, output_bias=True, norm_kind=kind
    )
    weights = (
        *vector("class_token", _VISION, width),
        *embedding,
        *table("positions", _VISION, count + 1, width),
        *stack,
        *vector("layer_scale", _VISION, width, copies=2 * layers),
        *norm("head_norm", width, copies=2 * layers * normed, part=_VISION),
    )
    flops = encoder_flops(stack, count + 1, layers=layers, attention_width=width)
    encoder = Encoder(weights, width, count, flops + linear_flops(embedding) * count)
    merged, hidden = int(width / ratio**2), text_width(keys, 4096)
    connector = projector(merged, hidden, hidden, bias=True)
    extra = norm("projector_norm", merged, kind="layer", part=Part.PROJECTOR)
    return (
        fixed_tower("internvit", encoder, connector, int(count * ratio**2), extra, note=PER_TILE),
    )


def step3p7(keys: Keys) -> tuple[Tower, ...]:
    """Step 3.7: a ViT at 728² with layer scales, two strided convolutions, one projection.

    Its one published tower has the class's sizes, so a configuration without the section has it all the same.
    """
    vision = keys.optional_section("vision_config") or Keys({})
    width = vision.integer("hidden_size", default=1536)
    layers = vision.integer("num_hidden_layers", default=47)
    ratio = vision.number("mlp_ratio", default=8960 / 1536, minimum=0.1, maximum=100.0)
    wide = int(width * ratio)
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("num_channels", default=3)
    side = patch_grid(vision, patch, 728)
    hidden = text_width(keys, 4096)
    embedding = patches(_VISION, width, channels * patch**2, bias=False)
    stack = encoder_layers(_VISION, layers, width, wide)
    halved, quartered = (side + 1) // 2, ((side + 1) // 2 + 1) // 2
    first = patches(_VISION, 2 * width, 9 * width, bias=True, name="downsample_1")
    second = patches(_VISION, 4 * width, 18 * width, bias=True, name="downsample_2")
    weights = (
        *embedding,
        *table("positions", _VISION, side**2, width),
        *norm("outer_norm", width, kind="layer", part=_VISION),
        *stack,
        *vector("layer_scale", _VISION, width, copies=2 * layers),
        *first,
        *second,
    )
    flops = encoder_flops(stack, side**2, layers=layers, attention_width=width)
    flops += linear_flops(embedding) * side**2
    flops += linear_flops(first) * halved**2 + linear_flops(second) * quartered**2
    encoder = Encoder(weights, width, side**2, flops)
    biased = keys.flag("projector_bias", default=False)
    connector = linear("projector", Part.PROJECTOR, hidden, 4 * width, bias=biased)
    return (fixed_tower("step_vit", encoder, connector, quartered**2, note=PER_TILE),)


def fixed_tower(
    name: str,
    encoder: Encoder,
    connector: Weights,
    tokens: int,
    extra: tuple[Weight, ...] = (),
    note: str = "",
) -> Tower:
    """A tower whose projector runs once for each of its `tokens` output tokens."""
    flops = (encoder.flops or 0.0) + linear_flops(connector) * tokens
    weights = encoder.weights + connector + extra
    return Tower(name, "image", weights, tokens, flops, tokens_note=note)


def _is_list(keys: Keys) -> bool:
    return isinstance(keys.config.get("vision_feature_layer"), (list, tuple))


def _norm_kind(vision: Keys) -> str:
    kinds = {"rms_norm": "rms", "layer_norm": "layer"}
    given = vision.text("norm_type", default="layer_norm")
    if given not in kinds:
        raise vision.contradiction("norm_type", "unknown_norm", given=given)
    return kinds[given]


def patch_grid(vision: Keys, patch: int, default: int) -> int:
    """Patches on one side of the tower's input image.

    Raises:
        InvalidConfig: where the image is smaller than one patch.
    """
    side = _side(vision, "image_size", default)
    if side < patch:
        raise vision.contradiction("image_size", "smaller_than_patch", given=side, expected=patch)
    return side // patch


def _side(keys: Keys, name: str, default: int) -> int:
    """A side length given as a number or as [height, width]."""
    if isinstance(keys.config.get(name), (list, tuple)):
        sides = keys.integers(name, length=2, minimum=1)
        return default if sides is None else sides[0]
    return keys.integer(name, default=default)
