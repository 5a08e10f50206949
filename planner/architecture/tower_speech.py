"""More audio towers, and the families that have one beside a vision tower. One item is a clip of 30 seconds.

References:
    The published modelling code of each family (transformers 5.24).
"""

from __future__ import annotations

from planner.architecture import tower_dynamic
from planner.architecture.blocks import Weights, convolution, linear, norm, plain_mlp, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Shape, Tower, Weight
from planner.architecture.tower_audio import CLIP_FRAMES, qwen3_omni_audio, whisper_front
from planner.architecture.tower_blocks import (
    encoder_layers,
    patches,
    projector,
    table,
    text_width,
)
from planner.architecture.tower_llava import Towers
from planner.architecture.tower_omni import dots3_vision, phi4_vision

_AUDIO, _PROJECTOR = Part.AUDIO, Part.PROJECTOR


def moss(keys: Keys) -> Towers:
    """MOSS Transcribe Diarize: Whisper's encoder, four positions side by side, a two-layer projector and a norm."""
    audio = keys.optional_section("audio_config") or Keys({}, "audio_config.")
    width = audio.integer("hidden_size", "d_model", default=1024)
    layers = audio.integer("num_hidden_layers", "encoder_layers", default=24)
    wide = audio.integer("intermediate_size", "encoder_ffn_dim", default=4096)
    rows = audio.integer("max_source_positions", default=1500)
    mel_bins = audio.integer("num_mel_bins", default=80)
    merge = keys.integer("audio_merge_size", default=4)
    hidden = text_width(keys, 1024)
    weights = (
        *whisper_front(width, mel_bins, rows),
        *encoder_layers(_AUDIO, layers, width, wide, key_bias=False),
        *norm("final_norm", width, kind="layer", part=_AUDIO),
        *projector(width * merge, hidden, hidden, bias=keys.flag("projector_bias", default=True)),
        *norm("projector_norm", hidden, kind="layer", part=_PROJECTOR),
    )
    return (Tower("whisper", "audio", weights, rows // merge),)


def qwen2_5_omni(keys: Keys) -> Towers:
    """Qwen2.5-Omni: Qwen2.5-VL's tower, and Whisper's layers in windows with fixed positions: 25 tokens a second."""
    audio = keys.optional_section("audio_config")
    towers: Towers = ()
    if keys.has("vision_config"):
        towers += tower_dynamic.qwen2_5_vl(keys)
    if audio is None:
        return towers
    width = audio.integer("d_model", default=1280)
    layers = audio.integer("encoder_layers", default=32)
    wide = audio.integer("encoder_ffn_dim", default=5120)
    mel_bins = audio.integer("num_mel_bins", default=128)
    output = audio.integer("output_dim", default=3584)
    weights = (
        *patches(_AUDIO, width, 3 * mel_bins, bias=True, name="convolution_1"),
        *patches(_AUDIO, width, 3 * width, bias=True, name="convolution_2"),
        *encoder_layers(_AUDIO, layers, width, wide, key_bias=False),
        *norm("final_norm", width, kind="layer", part=_AUDIO),
        *linear("projector", _PROJECTOR, output, width, bias=True),
        *table("marks", _PROJECTOR, 2, output),
    )
    return (*towers, Tower("whisper", "audio", weights, CLIP_FRAMES // 4))


def qwen3_omni_thinker(keys: Keys) -> Towers:
    """Qwen3-Omni's thinker: Qwen3-VL's tower and its own audio encoder."""
    towers: Towers = ()
    vision = keys.optional_section("vision_config")
    if vision is not None:
        towers += (tower_dynamic.qwen3_vision(vision, levels=3, output=3584),)
    audio = keys.optional_section("audio_config")
    return towers if audio is None else (*towers, qwen3_omni_audio(audio))


def muse_spark(keys: Keys) -> Towers:
    """Muse Spark: Muse Glimmer's tower, and causal convolution blocks over ever longer patches of sound."""
    towers = tower_dynamic.muse_glimmer(keys) if keys.has("vision_config") else ()
    audio = keys.optional_section("audio_config")
    if audio is None:
        return towers
    widths = audio.integers("hidden_sizes", minimum=1) or (256, 512, 1024, 2048)
    sides = audio.integers("patch_sizes", length=len(widths), minimum=1) or (16, 6, 5, 4)
    depths = audio.integers("depths", length=len(widths), minimum=0) or (2,) * len(widths)
    ratio = audio.number("mlp_ratio", default=4.0, minimum=0.1, maximum=100.0)
    kernel = audio.integer("conv_kernel_size", default=7, maximum=1000)
    output = audio.integer("out_hidden_size", default=8192)
    weights: Weights = ()
    channels = 1
    for width, side, depth in zip(widths, sides, depths, strict=True):
        weights += linear("patch_embedding", _AUDIO, width, channels * side, bias=True)
        weights += norm("patch_norm", width, part=_AUDIO)
        for _ in range(depth):
            weights += convolution("convolution", _AUDIO, width, kernel, bias=True)
            weights += norm("norm", width, part=_AUDIO)
            weights += plain_mlp(width, int(width * ratio), bias=True, part=_AUDIO)
        channels = width
    weights += norm("final_norm", channels, part=_AUDIO)
    weights += linear("projector", _PROJECTOR, output, channels, bias=True)
    weights += norm("projector_norm", output, part=_PROJECTOR)
    return (*towers, Tower("muse_convolutions", "audio", weights, None, tokens_note="audio_length"))


def dots3_note(keys: Keys) -> Towers:
    """Dots 3 Note: a ViT with experts, and an audio encoder with gated layers behind three strided convolutions."""
    towers: Towers = ()
    vision = keys.optional_section("vision_config")
    if vision is not None:
        towers += (dots3_vision(vision),)
    audio = keys.optional_section("audio_config")
    if audio is None:
        return towers
    section = audio.optional_section("whisper_config") or audio
    width = section.integer("hidden_size", "d_model", default=1280)
    layers = section.integer("num_hidden_layers", "encoder_layers", default=32)
    wide = section.integer("intermediate_size", "encoder_ffn_dim", default=5120)
    mel_bins = section.integer("feature_size", "num_mel_bins", default=128)
    channels = audio.integer("downsample_hidden_size", default=480)
    output = audio.integer("adapter_out_dim", "whisper_adapter_out_dim", default=5120)
    biased = audio.flag("attention_bias", default=True)
    front = patches(_AUDIO, channels, 9, bias=True, name="convolution_1")
    for index in (2, 3):
        front += patches(_AUDIO, channels, 9 * channels, bias=True, name=f"convolution_{index}")
    weights = (
        *front,
        *linear("input_projection", _AUDIO, width, channels * ((mel_bins + 7) // 8)),
        *encoder_layers(
            _AUDIO,
            layers,
            width,
            wide,
            attention_bias=biased,
            key_bias=False,
            gated=True,
            norm_kind="rms",
        ),
        *norm("final_norm", width, part=_AUDIO),
        *norm("projector_norm", width, kind="layer", part=_PROJECTOR),
        *projector(width, output, output, bias=True),
    )
    return (*towers, Tower("dots_audio", "audio", weights, CLIP_FRAMES // 8))


def phi4_multimodal(keys: Keys) -> Towers:
    """Phi-4 multimodal: SigLIP, and a conformer behind depth-wise strided convolutions with two projectors."""
    return phi4_vision(keys), _phi4_audio(keys)


def _phi4_audio(keys: Keys) -> Tower:
    audio = keys.optional_section("audio_config") or Keys({}, "audio_config.")
    width = audio.integer("hidden_size", default=1024)
    layers = audio.integer("num_blocks", default=24)
    heads = audio.integer("num_attention_heads", default=16, maximum=100_000)
    wide = audio.integer("intermediate_size", default=1536)
    kernel = audio.integer("kernel_size", default=3, maximum=1000)
    channels = audio.integer("nemo_conv_channels", default=1024)
    factor = audio.integer("time_reduction", default=8, minimum=2, maximum=1024)
    gated = audio.integer("ext_pw_out_channel", default=1024)
    depthwise = audio.integer("depthwise_separable_out_channel", default=1024)
    multiplier = audio.integer("depthwise_multiplier", default=1, maximum=1000)
    reach = audio.integer("bias_max_distance", default=1000)
    halvings = factor.bit_length() - 1
    thinned = audio.integer("input_size", default=80)
    for _ in range(halvings):
        thinned = (thinned + 1) // 2
    buckets = reach if audio.flag("bias_symmetric", default=False) else 2 * reach
    hidden = keys.integer("hidden_size", default=3072)
    weights: Weights = patches(_AUDIO, channels, 9, bias=True, name="convolution_1")
    for _ in range(halvings - 1):
        weights += patches(_AUDIO, channels, 9, bias=True, name="depthwise")
        weights += patches(_AUDIO, channels, channels, bias=True, name="pointwise")
    weights += (
        *linear("input_projection", _AUDIO, width, channels * thinned, bias=True),
        *table("relative_positions", _AUDIO, buckets, heads),
    )
    for half in ("first", "second"):
        weights += linear(f"{half}_gate_up", _AUDIO, 2 * wide, width, bias=True, copies=layers)
        weights += linear(f"{half}_down", _AUDIO, width, wide, bias=True, copies=layers)
    for name in ("query", "key", "value", "output"):
        weights += linear(name, _AUDIO, width, width, bias=True, copies=layers)
    inner = width * multiplier
    for name, rows, columns in (
        ("gated_convolution", 2 * gated, width),
        ("depthwise_convolution", inner, kernel),
        ("pointwise_convolution", depthwise, inner),
        ("convolution_out", gated, depthwise),
    ):
        weights += (Weight(name, _AUDIO, rows, columns, layers, shape=Shape.CONVOLUTION),)
        weights += vector(f"{name}_bias", _AUDIO, rows, copies=layers)
    weights += vector("gate_biases", _AUDIO, gated, copies=2 * layers)
    weights += norm("norm", width, kind="layer", copies=5 * layers, part=_AUDIO)
    # Speech alone, and speech beside images, have a projector each.
    weights += projector(width, hidden, hidden, bias=True) * 2
    weights += vector("feature_mean_and_deviation", _AUDIO, 80, copies=2, buffer=True)
    return Tower("phi4_conformer", "audio", weights, CLIP_FRAMES // factor)
