"""Models and small configurations that stand for recurrent and hybrid decoders, and encoders."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

# Hybrids of the catalogue whose cache and state are counted at full size.
WHOLE_MODELS = (
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen3.8-2.4T-A95B",
    "LiquidAI/LFM2-8B-A1B",
    "Zyphra/Zamba2-7B-Instruct",
    "ibm-ai-platform/Bamba-9B-v1",
    "ibm-granite/granite-4.0-h-small",
    "mistralai/Mamba-Codestral-7B-v0.1",
    "moonshotai/Kimi-Linear-48B-A3B-Instruct",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    "state-spaces/mamba-130m-hf",
    "tiiuae/Falcon-H1-34B-Instruct",
)
WHOLE_MODEL_TOKENS = (64, 256)

_DECODER: Config = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
# Entries of the table that the classes index, whatever the vocabulary.
_TOKENS: Config = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def _each(model_type: str, common: Config, *variants: Config) -> dict[str, Config]:
    """Numbered variants of one family, the first as plain as it can be."""
    return {
        f"{model_type}-{number}": {"model_type": model_type, **_TOKENS, **common, **variant}
        for number, variant in enumerate(({}, *variants))
    }


_MAMBA_2: Config = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 12,
    "mamba_n_groups": 2,
    "mamba_d_conv": 3,
}
_DELTA: Config = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 20,
    "linear_conv_kernel_dim": 3,
    "head_dim": 24,
}
_EXPERTS: Config = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
_MIXED = ["linear_attention", "full_attention", "linear_attention"] * 2
_BIASED: Config = {"attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True}

HYBRIDS: dict[str, Config] = {
    **_each(
        "mamba",
        {"vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 3, "state_size": 8},
        {"use_bias": True, "use_conv_bias": False, "expand": 3, "conv_kernel": 3},
        {"time_step_rank": 7, "tie_word_embeddings": False},
    ),
    **_each(
        "falcon_mamba",
        {"vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 3, "state_size": 8},
    ),
    **_each(
        "mamba2",
        {
            "vocab_size": 160,
            "hidden_size": 64,
            "num_hidden_layers": 3,
            "num_heads": 8,
            "head_dim": 16,
            "state_size": 12,
            "n_groups": 2,
        },
        {"use_bias": True, "use_conv_bias": False, "n_groups": 4, "tie_word_embeddings": True},
    ),
    **_each(
        "falcon_h1",
        {**_DECODER, **_MAMBA_2, "mamba_d_ssm": 128},
        {"mamba_rms_norm": True, "mamba_d_ssm": 96, "mamba_d_head": 12, **_BIASED},
        {"projectors_bias": True, "mamba_conv_bias": False, "head_dim": 24},
    ),
    **_each(
        "bamba",
        {**_DECODER, **_MAMBA_2, "attn_layer_indices": [1, 4]},
        {"mamba_d_head": "auto", "mamba_conv_bias": False, **_BIASED},
        {"attn_layer_indices": [5], "tie_word_embeddings": True},
    ),
    **_each(
        "granitemoehybrid",
        {
            **_DECODER,
            **_MAMBA_2,
            "layer_types": _MIXED,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 80,
        },
        {"num_local_experts": 0, "num_experts_per_tok": 0, "tie_word_embeddings": True},
        {"layer_types": ["mamba", "attention", "mamba"] * 2, "attention_bias": True},
    ),
    **_each(
        "jamba",
        {
            **_DECODER,
            "num_hidden_layers": 8,
            "attn_layer_period": 4,
            "attn_layer_offset": 1,
            "expert_layer_period": 3,
            "num_experts": 4,
            "mamba_d_state": 8,
        },
        {"num_experts": 1, "mamba_proj_bias": True, "mamba_dt_rank": 5},
        {"attn_layer_period": 2, "mamba_conv_bias": False, "mamba_expand": 3},
    ),
    **_each(
        "zamba2",
        {
            **_DECODER,
            "num_key_value_heads": 4,
            "num_hidden_layers": 6,
            "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "mamba", "hybrid"],
            "n_mamba_heads": 8,
            "mamba_d_state": 12,
            "adapter_rank": 6,
        },
        {"num_mem_blocks": 2, "use_shared_attention_adapter": True, "mamba_ngroups": 2},
        {"add_bias_linear": True, "intermediate_size": 80},
    ),
    **_each(
        "nemotron_h",
        {
            **_DECODER,
            "hybrid_override_pattern": "M-M*ME",
            "mamba_num_heads": 8,
            "mamba_head_dim": 16,
            "ssm_state_size": 12,
            "n_groups": 2,
            "head_dim": 24,
            "n_routed_experts": 8,
            "moe_intermediate_size": 48,
            "moe_shared_expert_intermediate_size": 80,
        },
        {"moe_latent_size": 20, "use_bias": True, "mlp_bias": True},
        {"layers_block_type": ["mamba", "moe", "attention", "moe", "mlp", "mamba"]},
    ),
    **_each(
        "qwen3_next",
        {**_DECODER, **_DELTA, **_EXPERTS, "shared_expert_intermediate_size": 40},
        {"layer_types": _MIXED, "attention_bias": True, "tie_word_embeddings": True},
        {"decoder_sparse_step": 2, "mlp_only_layers": [3]},
    ),
    **_each("qwen3_5_text", {**_DECODER, **_DELTA}, {"layer_types": _MIXED}),
    **_each(
        "qwen3_5_moe_text",
        {**_DECODER, **_DELTA, **_EXPERTS, "shared_expert_intermediate_size": 40},
        {"layer_types": _MIXED, "tie_word_embeddings": True},
    ),
    **_each(
        "olmo_hybrid",
        {**_DECODER, **{key: value for key, value in _DELTA.items() if key != "head_dim"}},
        {"layer_types": _MIXED, "attention_bias": True, "tie_word_embeddings": True},
    ),
    **_each(
        "lfm2",
        {**_DECODER, "layer_types": ["conv", "full_attention", "conv"] * 2},
        {"conv_L_cache": 5, "conv_bias": True, "block_multiple_of": 16},
        {"block_auto_adjust_ff_dim": False, "tie_word_embeddings": False},
        {"block_ffn_dim_multiplier": 1.3, "block_multiple_of": 8, "block_ff_dim": 120},
    ),
    **_each(
        "lfm2_moe",
        {**_DECODER, **_EXPERTS, "layer_types": ["conv", "full_attention", "conv"] * 2},
        {"num_dense_layers": 0, "conv_L_cache": 4, "use_expert_bias": False},
    ),
    **_each(
        "minimax",
        {**_DECODER, "num_local_experts": 8, "num_experts_per_tok": 2},
        {"layer_types": _MIXED, "head_dim": 24, "tie_word_embeddings": True},
    ),
    **_each(
        "kimi_linear",
        {
            **_DECODER,
            "num_key_value_heads": 4,
            "num_hidden_layers": 9,
            "moe_intermediate_size": 48,
            "num_experts": 8,
            "num_experts_per_token": 2,
            "kv_lora_rank": 32,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 16,
            "v_head_dim": 12,
            "linear_num_heads": 4,
            "linear_head_dim": 20,
        },
        {"q_lora_rank": 24, "num_shared_experts": 2, "first_k_dense_replace": 3},
        {
            "linear_attn_config": {
                "full_attn_layers": [2, 9],
                "kda_layers": [1, 3, 4, 5, 6, 7, 8],
                "head_dim": 12,
                "num_heads": 6,
                "short_conv_kernel_size": 3,
            }
        },
    ),
    **_each(
        "recurrent_gemma",
        {
            "vocab_size": 160,
            "hidden_size": 64,
            "intermediate_size": 192,
            "num_hidden_layers": 6,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "attention_window_size": 32,
        },
        {"lru_width": 96, "attention_bias": True, "tie_word_embeddings": False},
        {"block_types": ["recurrent", "attention"], "conv1d_width": 3},
    ),
}
HYBRID_TOKENS = (8, 40, 100)

_BERT: Config = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 130,
}
ENCODERS: dict[str, Config] = {
    **_each("bert", _BERT, {"type_vocab_size": 4}),
    **_each("roberta", _BERT, {"type_vocab_size": 1}),
    **_each("xlm-roberta", _BERT),
    **_each("camembert", _BERT),
    **_each("nomic_bert", _BERT),
    **_each(
        "distilbert",
        {
            "vocab_size": 160,
            "dim": 64,
            "hidden_dim": 96,
            "n_layers": 3,
            "n_heads": 4,
            "max_position_embeddings": 130,
        },
    ),
    **_each(
        "modernbert",
        {**_BERT, "num_hidden_layers": 5, "local_attention": 64},
        {"attention_bias": True, "mlp_bias": True, "norm_bias": True},
        {"global_attn_every_n_layers": 2},
    ),
}
ENCODER_TOKENS = (16, 48)

_SEQUENCES: Config = {
    "vocab_size": 160,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 80,
    "decoder_start_token_id": 1,
}
ENCODER_DECODERS: dict[str, Config] = {
    **_each(
        "t5",
        {
            "vocab_size": 160,
            "d_model": 64,
            "d_kv": 12,
            "d_ff": 96,
            "num_layers": 2,
            "num_decoder_layers": 3,
            "num_heads": 4,
            "decoder_start_token_id": 0,
        },
        {"feed_forward_proj": "gated-gelu"},
        {"num_decoder_layers": 2, "relative_attention_num_buckets": 16},
    ),
    **_each("bart", {**_SEQUENCES, "max_position_embeddings": 64}),
    **_each("mbart", {**_SEQUENCES, "max_position_embeddings": 64}),
    **_each(
        "whisper",
        {**_SEQUENCES, "num_mel_bins": 20, "max_source_positions": 40, "max_target_positions": 32},
    ),
}
# Positions of the encoder (Whisper's are fixed: two frames each) and of the decoder.
SEQUENCE_TOKENS = ((40, 8), (40, 24))
