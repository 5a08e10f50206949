"""Towers of a fixed input size whose neighbouring positions are put side by side before the projector (pixel shuffle).

Each function takes the keys of the whole configuration and returns the tower with its projector. A key that a section
leaves out has the default of the published configuration class, which is what a saved file leaves out.

References:
    The published modelling code of each family (transformers 5.24).
"""

from __future__ import annotations

from planner.architecture.blocks import Weights, linear, norm
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Tower
from planner.architecture.tower_blocks import (
    Encoder,
    projector,
    text_width,
)
from planner.architecture.tower_llava import Towers, headless_siglip
from planner.architecture.tower_vision import (
    PER_TILE,
    fixed_tower,
    siglip_encoder,
)

_VISION, _PROJECTOR = Part.VISION, Part.PROJECTOR


def _merged(encoder: Encoder, factor: int) -> tuple[int, int]:
    """Width and number of positions once `factor` × `factor` of them are put side by side."""
    return encoder.width * factor**2, (encoder.positions or 0) // factor**2


def aya_vision(keys: Keys) -> Towers:
    """Aya Vision: SigLIP over tiles, 2 × 2 positions side by side, a norm, a gated two-layer projector."""
    vision = keys.section("vision_config")
    sized = {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304}
    sized |= {"patch_size": 14, "image_size": 384, "vision_use_head": False}
    return _shuffled(keys, siglip_encoder(Keys({**sized, **vision.config})), normed=True)


def cohere2_vision(keys: Keys) -> Towers:
    """Command A Vision: SigLIP over tiles, 2 × 2 positions side by side, a gated two-layer projector."""
    vision = keys.section("vision_config")
    sized = {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 3072}
    sized |= {"patch_size": 16, "image_size": 512}
    return _shuffled(keys, siglip_encoder(Keys({**sized, **vision.config})), normed=False)


def _shuffled(keys: Keys, encoder: Encoder, *, normed: bool) -> Towers:
    hidden = text_width(keys, 8192)
    merged, tokens = _merged(encoder, keys.integer("downsample_factor", default=2))
    inner = keys.integer(
        "alignment_intermediate_size", default=hidden if normed else 36864, minimum=2
    )
    connector = (
        *linear("projector_1", _PROJECTOR, inner, merged, bias=True),
        *linear("projector_2", _PROJECTOR, hidden, inner // 2, bias=True, row_parallel=True),
    )
    extra = norm("projector_norm", merged, kind="layer", part=_PROJECTOR) if normed else ()
    return (fixed_tower("siglip", encoder, connector, tokens, extra, PER_TILE),)


def idefics3(keys: Keys) -> Towers:
    """Idefics 3 and SmolVLM: SigLIP over tiles, positions side by side, one linear layer."""
    vision = keys.section("vision_config")
    sized = {"hidden_size": 1152, "patch_size": 32, **vision.config}
    encoder = headless_siglip(Keys(sized, vision.prefix))
    merged, tokens = _merged(encoder, keys.integer("scale_factor", default=2))
    connector = linear("projector", _PROJECTOR, text_width(keys, 4096), merged)
    return (fixed_tower("siglip", encoder, connector, tokens, (), PER_TILE),)


def granite_docling(keys: Keys) -> Towers:
    """Granite Docling: SigLIP over tiles, a coarse and a fine path of merged positions, deep-stack levels in each."""
    vision = keys.section("vision_config")
    encoder = headless_siglip(Keys({"image_size": 512, **vision.config}, vision.prefix))
    output = vision.integer("out_hidden_size", default=1024)
    factor = vision.integer("scale_factor", default=4, minimum=2)
    levels = vision.sequence("deepstack_visual_indexes")
    count = 3 if levels is None else len(levels)
    part = _PROJECTOR
    weights = (
        *norm("projector_input_norm", encoder.width, kind="layer", part=part),
        *norm("projector_norm", output, kind="layer", copies=2, part=part),
        *linear("projector_output", part, output, output),
    )
    paths = (factor, factor // 2) if vision.flag("use_fine_route", default=True) else (factor,)
    for step in paths:
        merged, _ = _merged(encoder, step)
        weights += linear("projector", part, output, merged)
        if count:
            weights += norm("deepstack_norm", merged, kind="layer", copies=count, part=part)
            weights += linear("deepstack_1", part, output, merged, bias=True, copies=count)
            weights += linear(
                "deepstack_2", part, output, output, bias=True, copies=count, row_parallel=True
            )
    _, tokens = _merged(encoder, factor)
    routing = keys.optional_integer("density_router_hidden_size")
    if routing:
        weights += linear("density_1", part, routing, encoder.width, bias=True)
        weights += linear("density_2", part, 1, routing, bias=True)
    return (Tower("siglip", "image", encoder.weights + weights, tokens, tokens_note=PER_TILE),)


def minicpm(keys: Keys) -> Towers:
    """MiniCPM-V 4.6 and later: SigLIP, windows of 2 × 2 merged inside it, merged once more by a two-layer projector."""
    vision = keys.section("vision_config")
    encoder = headless_siglip(vision)
    width = encoder.width
    wide = vision.integer("intermediate_size", default=3072)
    window = vision.integers("window_kernel_size", length=2, minimum=1) or (2, 2)
    inside = width * window[0] * window[1]
    part = _VISION
    weights: Weights = ()
    for name in ("query", "key", "value", "output"):
        weights += linear(f"merger_{name}", part, width, width, bias=True)
    weights += (
        *norm("merger_norm", width, kind="layer", part=part),
        *norm("merged_norm", inside, kind="layer", part=part),
        *linear("merger_1", part, wide * window[0] * window[1], inside, bias=True),
        *linear("merger_2", part, width, wide * window[0] * window[1], bias=True),
    )
    merge = keys.integers("merge_kernel_size", length=2, minimum=1) or (2, 2)
    merged = width * merge[0] * merge[1]
    times = keys.integer("merger_times", default=1, maximum=16)
    for output in (*(width,) * (times - 1), text_width(keys, 4096)):
        weights += norm("projector_norm", merged, kind="layer", part=_PROJECTOR)
        weights += projector(merged, merged, output, bias=True)
    coarse = keys.text("downsample_mode", default="16x") == "16x"
    tokens = (encoder.positions or 0) // (16 if coarse else 4)
    return (Tower("siglip", "image", encoder.weights + weights, tokens, tokens_note=PER_TILE),)
