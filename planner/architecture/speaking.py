"""The parts of a model that speak: what turns its hidden states into codes of sound, and codes into a wave.

They run after the language model and beside it, so that only their size is told: engines for text leave them out.

References:
    Qwen3-Omni's published modelling code (transformers 5.24).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.architecture.keys import MAX_EXPERTS, Keys

_CODECS = 15  # code groups beyond the first, each with a table and a head


def speaking_parameters(config: Mapping[str, Any]) -> int:
    """Parameters of Qwen3-Omni's talker, code predictor and vocoder (count); 0 where the configuration has none.

    Raises:
        InvalidConfig: naming the key that is missing, of the wrong type or out of range.
    """
    keys = Keys(config)
    talker = keys.optional_section("talker_config")
    vocoder = keys.optional_section("code2wav_config")
    if not keys.flag("enable_audio_output", default=True):
        return 0
    return (_talker(talker) if talker else 0) + (_vocoder(vocoder) if vocoder else 0)


def _attention(keys: Keys, hidden: int, *, normed: bool) -> int:
    heads = keys.integer("num_attention_heads", default=16, maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=heads, maximum=100_000)
    size = keys.integer("head_dim", default=hidden // heads, maximum=100_000)
    return 2 * hidden * (heads + kv_heads) * size + (2 * size if normed else 0)


def _talker(keys: Keys) -> int:
    text = keys.section("text_config")
    hidden = text.integer("hidden_size", default=1024)
    layers = text.integer("num_hidden_layers", default=20, maximum=10_000)
    experts = text.integer("num_local_experts", "num_experts", default=128, maximum=MAX_EXPERTS)
    width = text.integer("moe_intermediate_size", default=384)
    shared = text.integer("shared_expert_intermediate_size", default=768)
    layer = _attention(text, hidden, normed=True) + 2 * hidden
    layer += experts * (3 * hidden * width + hidden) + 3 * hidden * shared + hidden
    tables = 2 * text.integer("vocab_size", default=3072) * hidden
    outer = keys.integer("thinker_hidden_size", default=2048)
    inner = text.integer("intermediate_size", default=2048)
    projection = outer * inner + inner + inner * hidden + hidden
    return layers * layer + hidden + tables + 2 * projection + _predictor(keys)


def _predictor(keys: Keys) -> int:
    codes = keys.section("code_predictor_config")
    hidden = codes.integer("hidden_size", default=1024)
    layers = codes.integer("num_hidden_layers", default=5, maximum=10_000)
    width = codes.integer("intermediate_size", default=3072)
    groups = codes.integer("num_code_groups", default=_CODECS + 1, maximum=1000) - 1
    layer = _attention(codes, hidden, normed=True) + 3 * hidden * width + 2 * hidden
    table = codes.integer("vocab_size", default=2048) * hidden
    return layers * layer + hidden + 2 * groups * table


def _vocoder(keys: Keys) -> int:
    hidden = keys.integer("hidden_size", default=1024)
    layers = keys.integer("num_hidden_layers", default=8, maximum=10_000)
    width = keys.integer("intermediate_size", default=3072)
    # Norms and the scale of each branch.
    layer = _attention(keys, hidden, normed=False) + 3 * hidden * width + 4 * hidden
    codes = keys.integer("codebook_size", default=2048)
    quantizers = keys.integer("num_quantizers", default=16, maximum=1000)
    total = layers * layer + hidden + codes * quantizers * hidden
    for ratio in keys.integers("upsampling_ratios", minimum=1, maximum=1000) or ():
        # A transposed convolution, then a ConvNeXt block of four times the width.
        total += hidden * hidden * ratio + hidden
        total += hidden * (7 + 1) + 2 * hidden + 2 * 4 * hidden * hidden + 4 * hidden + 2 * hidden
    channels = keys.integer("decoder_dim", default=1536)
    total += channels * hidden * 7 + channels
    for rate in keys.integers("upsample_rates", minimum=1, maximum=1000) or ():
        half = channels // 2
        residual = 4 * half + half * half * (7 + 1) + 2 * half
        total += 2 * channels + channels * half * 2 * rate + half + 3 * residual
        channels = half
    return total + 2 * channels + channels * 7 + 1
