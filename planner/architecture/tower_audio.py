"""Audio towers: Whisper's encoder, Gemma's conformers, Qwen3-Omni's encoder. One item is a clip of 30 seconds.

Mel frames come at 100 a second; convolutions and strides thin them out before the layers.

References:
    The published modelling code of each family (transformers 5.24); Whisper, arXiv 2212.04356.
"""

from __future__ import annotations

from planner.architecture.blocks import Weights, linear, norm, plain_mlp, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Shape, Tower, Weight
from planner.architecture.totals import linear_flops
from planner.architecture.tower_blocks import (
    encoder_flops,
    encoder_layers,
    patches,
    projector,
    table,
    text_width,
)

CLIP_FRAMES = 3000
"""Mel frames of a 30-second clip."""

_AUDIO = Part.AUDIO


def whisper_front(width: int, mel_bins: int, positions: int) -> Weights:
    """The two convolutions of three frames before Whisper's layers, the second with stride 2, and its positions."""
    return (
        *patches(_AUDIO, width, 3 * mel_bins, bias=True, name="convolution_1"),
        *patches(_AUDIO, width, 3 * width, bias=True, name="convolution_2"),
        *table("positions", _AUDIO, positions, width),
    )


def voxtral(keys: Keys) -> tuple[Tower, ...]:
    """Voxtral: Whisper's encoder, four positions side by side, a two-layer projector: 375 tokens a clip."""
    audio = keys.section("audio_config")
    width = audio.integer("hidden_size", default=1280)
    layers = audio.integer("num_hidden_layers", default=32)
    wide = audio.integer("intermediate_size", default=5120)
    positions = audio.integer("max_source_positions", default=1500)
    mel_bins = audio.integer("num_mel_bins", default=128)
    hidden = text_width(keys, 3072)
    tokens = positions * width // wide
    front = whisper_front(width, mel_bins, positions)
    stack = encoder_layers(_AUDIO, layers, width, wide, key_bias=False)
    connector = projector(wide, hidden, hidden, bias=False)
    weights = (
        *front,
        *stack,
        *norm("final_norm", width, kind="layer", part=_AUDIO),
        *connector,
    )
    flops = 2.0 * 3 * width * (mel_bins * 2 * positions + width * positions)
    flops += encoder_flops(stack, positions, layers=layers, attention_width=width)
    flops += linear_flops(connector) * tokens
    return (Tower("whisper", "audio", weights, tokens, flops),)


def _conformer(
    layers: int, width: int, kernel: int, heads: int, channels: tuple[int, ...], bands: int
) -> tuple[Weights, Weights]:
    """Gemma's conformer: strided convolutions in front, then layers of two half feed-forwards, local attention and a
    gated short convolution, as (front, layers). `bands` are the frequency bands left after the convolutions."""
    first, second = channels
    front = (
        *patches(_AUDIO, first, 9, bias=False, name="convolution_1"),
        *vector("convolution_norm_1", _AUDIO, first),
        *patches(_AUDIO, second, 9 * first, bias=False, name="convolution_2"),
        *vector("convolution_norm_2", _AUDIO, second),
        *linear("input_projection", _AUDIO, width, second * bands),
    )
    stack: Weights = ()
    for half in ("first", "second"):
        stack += plain_mlp(width, 4 * width, part=_AUDIO, copies=layers)
        stack += norm(f"{half}_half_norm", width, copies=2 * layers, part=_AUDIO)
    for name in ("query", "key", "value", "output"):
        stack += linear(name, _AUDIO, width, width, copies=layers, row_parallel=name == "output")
    return front, (
        *stack,
        *linear("relative_key", _AUDIO, width, width, copies=layers),
        *vector("per_dim_scale", _AUDIO, width // heads, copies=layers),
        *linear("convolution_in", _AUDIO, 2 * width, width, copies=layers),
        Weight("short_convolution", _AUDIO, width, kernel, layers, shape=Shape.CONVOLUTION),
        *linear("convolution_out", _AUDIO, width, width, copies=layers, row_parallel=True),
        # Around attention two, in the convolution two, one at the end.
        *norm("norm", width, copies=5 * layers, part=_AUDIO),
    )


def _conformer_flops(front: Weights, stack: Weights, layers: int, width: int, span: int) -> float:
    """Work of a conformer on a clip: 750 positions after the front, each attending `span` of them at most."""
    steps = CLIP_FRAMES // 4
    first, second = (weight for weight in front if weight.shape is Shape.CONVOLUTION)
    rest = tuple(weight for weight in front if weight.shape is Shape.LINEAR)
    # Feature maps of 64 and 32 mel bins, at half and at a quarter of the frames.
    flops = 2.0 * first.elements * 2 * steps * 64 + 2.0 * second.elements * steps * 32
    flops += linear_flops(rest) * steps
    layered = tuple(weight for weight in stack if weight.name != "relative_key")
    return flops + encoder_flops(
        layered, steps, layers=layers, attention_width=width, attended=span
    )


def gemma4_audio(keys: Keys) -> Tower | None:
    """Gemma 4's conformer where the configuration has one: 25 tokens a second, 750 a clip."""
    audio = keys.optional_section("audio_config")
    if audio is None:
        return None
    width = audio.integer("hidden_size", default=1024)
    layers = audio.integer("num_hidden_layers", default=12)
    heads = audio.integer("num_attention_heads", default=8)
    kernel = audio.integer("conv_kernel_size", default=5)
    channels = audio.integers("subsampling_conv_channels", length=2, minimum=4) or (128, 32)
    output = audio.integer("output_proj_dims", default=1536)
    span = audio.integer("attention_chunk_size", default=12) + audio.integer(
        "attention_context_left", default=13
    )
    front, stack = _conformer(layers, width, kernel, heads, channels, channels[0] // 4)
    tail = (
        *linear("output_projection", _AUDIO, output, width, bias=True),
        *linear("projector", Part.PROJECTOR, text_width(keys, 2304), output),
    )
    tokens = CLIP_FRAMES // 4
    flops = _conformer_flops(front, stack, layers, width, span) + linear_flops(tail) * tokens
    return Tower("gemma4_conformer", "audio", front + stack + tail, tokens, flops)


# Totals of the published network (timm 1.0.31, mobilenetv5_300m_enc): elements of its convolutions and of its norms and
# scales, and its work on one 768² image. Its layers are fixed by name, so no key of a configuration changes them.
_MOBILENET_CONVOLUTIONS = 293_841_472
_MOBILENET_VECTORS = 285_440
_MOBILENET_FLOPS = 871_482_949_632.0


def gemma3n(keys: Keys) -> tuple[Tower, ...]:
    """Gemma 3n: MobileNet-v5-300M for images (256 tokens) and a conformer for audio (188 tokens a clip).

    Each has a small embedding table of its own beside its projection.
    """
    hidden = text_width(keys, 2048)
    vision = keys.optional_section("vision_config") or Keys({})
    audio = keys.optional_section("audio_config") or Keys({})
    seen = vision.integer("hidden_size", default=2048)
    images = keys.integer("vision_soft_tokens_per_image", default=256)
    entries = vision.integer("vocab_size", default=128)
    convolutions = Weight(
        "convolutions", Part.VISION, _MOBILENET_CONVOLUTIONS, shape=Shape.CONVOLUTION
    )
    embedder = _soft_embedder(entries, seen, hidden)
    sight = Tower(
        "mobilenet_v5",
        "image",
        (convolutions, *vector("norms", Part.VISION, _MOBILENET_VECTORS), *embedder),
        images,
        _MOBILENET_FLOPS + linear_flops(embedder) * images,
    )
    width = audio.integer("hidden_size", default=1536)
    layers = audio.integer("conf_num_hidden_layers", default=12)
    heads = audio.integer("conf_num_attention_heads", default=8)
    kernel = audio.integer("conf_conv_kernel_size", default=5)
    channels = audio.integers("sscp_conv_channel_size", length=2, minimum=1) or (128, 32)
    mel_bins = audio.integer("input_feat_size", default=128, minimum=4)
    span = audio.integer("conf_attention_chunk_size", default=12) + audio.integer(
        "conf_attention_context_left", default=13
    )
    clips = keys.integer("audio_soft_tokens_per_image", default=188)
    front, stack = _conformer(layers, width, kernel, heads, channels, mel_bins // 4)
    embedder = _soft_embedder(audio.integer("vocab_size", default=128), width, hidden)
    flops = _conformer_flops(front, stack, layers, width, span) + linear_flops(embedder) * clips
    sound = Tower("gemma3n_conformer", "audio", front + stack + embedder, clips, flops)
    return sight, sound


def _soft_embedder(entries: int, width: int, hidden: int) -> Weights:
    part = Part.PROJECTOR
    return (
        *table("soft_tokens", part, entries, width),
        *norm("soft_norm", width, copies=2, part=part),
        *linear("projector", part, hidden, width),
    )


def qwen3_omni_audio(audio: Keys) -> Tower:
    """Qwen3-Omni's encoder: three strided convolutions, Whisper-like layers in windows, 13 tokens a second."""
    width = audio.integer("d_model", default=1280)
    layers = audio.integer("encoder_layers", default=32)
    wide = audio.integer("encoder_ffn_dim", default=5120)
    channels = audio.integer("downsample_hidden_size", default=480)
    mel_bins = audio.integer("num_mel_bins", default=128)
    output = audio.integer("output_dim", default=3584)
    chunk = 2 * audio.integer("n_window", default=50)
    window = audio.integer("n_window_infer", default=800) // chunk
    thinned = mel_bins
    for _ in range(3):
        thinned = (thinned + 1) // 2
    front = patches(_AUDIO, channels, 9, bias=True, name="convolution_1")
    for index in (2, 3):
        front += patches(_AUDIO, channels, 9 * channels, bias=True, name=f"convolution_{index}")
    entry = linear("input_projection", _AUDIO, width, channels * thinned)
    stack = encoder_layers(_AUDIO, layers, width, wide)
    connector = projector(width, width, output, bias=True)
    weights = (
        *front,
        *entry,
        *stack,
        *norm("final_norm", width, kind="layer", part=_AUDIO),
        *connector,
    )
    steps = chunk
    for _ in range(3):
        steps = (steps + 1) // 2
    tokens = CLIP_FRAMES // chunk * steps
    # Each convolution halves both sides of the map of mel bins by frames.
    flops = 0.0
    for index, weight in enumerate(item for item in front if item.shape is Shape.CONVOLUTION):
        flops += 2.0 * weight.elements * (mel_bins * CLIP_FRAMES / 4 ** (index + 1))
    flops += encoder_flops(
        stack, tokens, layers=layers, attention_width=width, attended=min(tokens, window * steps)
    )
    flops += linear_flops(entry + connector) * tokens
    return Tower("qwen3_omni_audio", "audio", weights, tokens, flops)
