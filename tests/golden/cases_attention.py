"""Models and small configurations that stand for the attention, experts and latent-attention families."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

# One per family and layout, whose cache is counted at full size; parameters are counted for the whole catalogue.
WHOLE_MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Meta-Llama-3.1-70B",
    "mistralai/Mistral-7B-v0.1",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen2.5-7B-Instruct",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "zai-org/GLM-5.2",
    "google/gemma-2-27b",
    "google/gemma-3-12b-it",
    "google/gemma-4-26B-A4B-it",
    "openai/gpt-oss-120b",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "microsoft/Phi-3-mini-4k-instruct",
    "XiaomiMiMo/MiMo-V2-Flash",
    "poolside/Laguna-S-2.1-FP8",
    "nvidia/MiniMax-M3-NVFP4",
    "openai-community/gpt2",
)
# Model types that transformers counts otherwise than checkpoints are.
NOT_COUNTED = {
    "qwen3_omni_moe": "the class builds the speech generator too",
    "step3p7": "sizes are read from a nested section, and the catalogue's lie at the top",
    "t5": "the head is tied even where a checkpoint stores its own",
}
WHOLE_MODEL_TOKENS = (16, 128, 4096)


def _small(model_type: str, **keys: Any) -> Config:
    base: Config = {
        "model_type": model_type,
        "vocab_size": 160,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
    }
    base.update(keys)
    return {key: value for key, value in base.items() if value is not ...}


def _each(model_type: str, *variants: Config, **common: Any) -> dict[str, Config]:
    """Numbered variants of one family, the first as plain as it can be."""
    return {
        f"{model_type}-{number}": _small(model_type, **{**common, **variant})
        for number, variant in enumerate(({}, *variants))
    }


BIASED = {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}
WIDE_HEADS = {"head_dim": 24, "num_key_value_heads": 4}
WINDOW = {"sliding_window": 32}
MIXED = {
    "layer_types": ["full_attention", "sliding_attention"] * 3,
    "sliding_window": 24,
}
GPT = {"n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 256}
GPT_KEYS = dict.fromkeys(
    (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "max_position_embeddings",
    ),
    ...,
)
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
LOCAL = {"num_local_experts": 8, "num_experts_per_tok": 2}
ROUTED = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "n_shared_experts": 2,
    "n_group": 1,
    "topk_group": 1,
}
LATENT = {
    "q_lora_rank": 40,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "num_key_value_heads": 4,
}
INDEXER = {"index_topk": 16, "index_head_dim": 16, "index_n_heads": 2}

DENSE: dict[str, Config] = {
    **_each("llama", BIASED, WIDE_HEADS, {"num_key_value_heads": ...}),
    **_each("mistral", WINDOW, {"sliding_window": None}, WIDE_HEADS),
    **_each("ministral", WINDOW, MIXED, head_dim=16),
    **_each("ministral3", WINDOW, {"head_dim": 24}),
    **_each(
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 2},
        {"use_sliding_window": True, **MIXED},
        {"tie_word_embeddings": True},
    ),
    **_each(
        "qwen3",
        {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 4},
        {"attention_bias": True, "head_dim": 24},
    ),
    **_each("gemma", {"attention_bias": True}, {"tie_word_embeddings": False}),
    **_each("gemma2", WINDOW, MIXED),
    **_each("gemma3_text", WINDOW, {"sliding_window": 32, "sliding_window_pattern": 3}, MIXED),
    **_each("vaultgemma", WINDOW),
    **_each("phi", {"qk_layernorm": True}, {"num_key_value_heads": ...}),
    **_each("phi3", WINDOW, {"tie_word_embeddings": True}),
    **_each("persimmon", {"qk_layernorm": False}, num_key_value_heads=...),
    **_each(
        "stablelm", {"use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True}
    ),
    **_each("starcoder2", {"use_bias": False}, {**WINDOW, "tie_word_embeddings": False}),
    **_each("cohere", {"use_qk_norm": True}, {"attention_bias": True}),
    **_each("cohere2", WINDOW, {"sliding_window": 32, "sliding_window_pattern": 2}, MIXED),
    **_each("olmo", {"attention_bias": True}),
    **_each("olmo2", {"attention_bias": True}),
    **_each("olmo3", WINDOW, MIXED),
    **_each("granite", BIASED),
    **_each("granite_swa", {**WINDOW, "mlp_bias": True}),
    **_each("glm", {"attention_bias": False}, head_dim=16),
    **_each("glm4", {"attention_bias": False}, head_dim=16),
    **_each("exaone4", WINDOW, {"sliding_window": 32, "sliding_window_pattern": 3}, MIXED),
    **_each("ernie4_5", {"use_bias": True, "tie_word_embeddings": False}),
    **_each("smollm3", BIASED, {"use_sliding_window": True, "sliding_window": 32}),
    **_each("arcee", BIASED),
    **_each("apertus", {"attention_bias": True}),
    **_each("bitnet", {"attention_bias": True}),
    **_each("cwm", WINDOW, {**MIXED, "mlp_bias": True}),
    **_each("seed_oss", {**BIASED, "attention_out_bias": True}, {"attention_bias": False}),
    **_each("helium", {"attention_bias": True}, head_dim=16),
    **_each("hunyuan_v1_dense", {"attention_bias": True}, head_dim=16),
    **_each("hyperclovax", {"use_post_norm": False, **BIASED}),
    **_each("jais2", {"attention_bias": False, "mlp_bias": False}),
    **_each("nanochat", {"attention_bias": True}),
    **_each("nemotron", BIASED),
    **_each("internlm3", {"qkv_bias": True, "bias": True}),
    **_each("exaone", BIASED, {"num_hidden_layers": ..., "num_layers": 3}),
}
CLASSIC: dict[str, Config] = {
    **_each("gpt2", {"n_inner": 80}, **GPT, **GPT_KEYS),
    **_each("gpt_bigcode", {"multi_query": False}, **GPT, **GPT_KEYS),
    **_each("gptj", {"n_inner": 80, "tie_word_embeddings": False}, rotary_dim=8, **GPT, **GPT_KEYS),
    **_each("codegen", rotary_dim=8, **GPT, **GPT_KEYS),
    **_each(
        "gpt_neo",
        {"intermediate_size": 80},
        **{
            **GPT_KEYS,
            "hidden_size": 64,
            "num_layers": 6,
            "num_heads": 4,
            "max_position_embeddings": 256,
            "window_size": 32,
            "attention_types": [[["global", "local"], 3]],
        },
    ),
    **_each("gpt_neox", {"attention_bias": False}, {"tie_word_embeddings": True}),
    **_each(
        "opt",
        {"word_embed_proj_dim": 32},
        {"do_layer_norm_before": False, "enable_bias": False},
        {"layer_norm_elementwise_affine": False},
        ffn_dim=96,
        intermediate_size=...,
    ),
    **_each("bloom", {"hidden_size": 32}, **{**GPT_KEYS, "hidden_size": 64}, n_layer=4, n_head=4),
    **_each("mpt", **GPT_KEYS, d_model=64, n_heads=4, n_layers=4, max_seq_len=256),
    **_each(
        "falcon",
        {"multi_query": False, "bias": True, "alibi": True},
        {"parallel_attn": False},
        {"ffn_hidden_size": 80, "num_kv_heads": 2},
    ),
    "falcon-new": _small("falcon", new_decoder_architecture=True, num_kv_heads=2),
    "falcon-new-one-norm": _small(
        "falcon", new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1
    ),
    **_each("xglm", **GPT_KEYS, d_model=64, attention_heads=4, num_layers=4, ffn_dim=80),
}
MIXTURES: dict[str, Config] = {
    **_each("mixtral", WINDOW, {"tie_word_embeddings": True}, **LOCAL),
    **_each("phimoe", {"attention_bias": True, "lm_head_bias": True}, WINDOW, **LOCAL),
    **_each(
        "qwen2_moe",
        {"decoder_sparse_step": 2, "qkv_bias": False},
        {"mlp_only_layers": [0, 3]},
        {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 3},
        shared_expert_intermediate_size=80,
        **EXPERTS,
    ),
    **_each(
        "qwen3_moe",
        {"decoder_sparse_step": 2, "mlp_only_layers": [1]},
        {"use_sliding_window": True, "sliding_window": 32, "attention_bias": True},
        **EXPERTS,
    ),
    **_each("granitemoe", {"attention_bias": True, "tie_word_embeddings": True}, **LOCAL),
    **_each("granitemoeshared", {"shared_intermediate_size": 40}, **LOCAL),
    **_each("granitemoe_swa", {"shared_intermediate_size": 40, **WINDOW}, **LOCAL),
    **_each("olmoe", {"attention_bias": True}, **EXPERTS),
    **_each("flex_olmo", **EXPERTS),
    **_each("gpt_oss", WINDOW, MIXED, {"attention_bias": False}, head_dim=16, **LOCAL),
    **_each("minimax_m2", head_dim=24, **LOCAL),
    **_each(
        "ernie4_5_moe",
        {"moe_layer_interval": 2, "moe_layer_end_index": 4, "use_bias": True},
        moe_num_experts=8,
        moe_k=2,
        moe_intermediate_size=48,
    ),
    **_each(
        "glm4_moe", {"use_qk_norm": True, "attention_bias": True}, first_k_dense_replace=2, **ROUTED
    ),
    **_each("sarvam_moe", head_dim=16, **ROUTED),
    **_each(
        "dots1",
        {"sliding_window": 32, "max_window_layers": 3, "first_k_dense_replace": 2},
        **ROUTED,
    ),
    **_each("solar_open", {"attention_bias": True}, head_dim=16, **ROUTED),
    **_each(
        "exaone_moe", {"first_k_dense_replace": 2, **WINDOW}, n_group=1, topk_group=1, **EXPERTS
    ),
    **_each("afmoe", {"num_dense_layers": 3, **WINDOW}, head_dim=16, **EXPERTS),
    **_each("hunyuan_v1_moe", num_experts=8, moe_topk=2, head_dim=16),
    **_each("hy_v3", BIASED, head_dim=16, **EXPERTS),
    **_each(
        "mellum", {**MIXED, "mlp_layer_types": ["dense", "sparse"] * 3}, head_dim=16, **EXPERTS
    ),
    **_each("flint", {"mlp_only_layers": [5]}, sliding_window=33, head_dim=16, **EXPERTS),
    **_each("kolibri1", sliding_window=33, head_dim=16, **EXPERTS),
    "dbrx-0": {
        "model_type": "dbrx",
        "d_model": 64,
        "n_heads": 4,
        "n_layers": 3,
        "max_seq_len": 256,
        "vocab_size": 160,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 8, "moe_top_k": 2},
    },
}
LATENTS: dict[str, Config] = {
    **_each(
        "deepseek_v2",
        {"q_lora_rank": None, "first_k_dense_replace": 1, "mlp_bias": True},
        **LATENT,
        **ROUTED,
    ),
    **_each("deepseek_v3", {"attention_bias": True, "q_lora_rank": None}, **LATENT, **ROUTED),
    **_each("deepseek_v32", {"first_k_dense_replace": 1}, **LATENT, **ROUTED, **INDEXER),
    **_each(
        "glm_moe_dsa",
        {"index_topk_freq": 3},
        {"index_topk_pattern": "FFSSFS"},
        {"mlp_layer_types": ["dense", "sparse"] * 3},
        **LATENT,
        **ROUTED,
        **INDEXER,
    ),
    **_each("glm4_moe_lite", **LATENT, **ROUTED),
    **_each("axk1", {"first_k_dense_replace": 2, "moe_layer_freq": 2}, **LATENT, **ROUTED),
    **_each("sarvam_mla", **{**LATENT, "q_lora_rank": None}, **ROUTED),
    **_each(
        "mistral4",
        {"first_k_dense_replace": 2, "q_lora_rank": None, "attention_bias": True},
        **LATENT,
        **ROUTED,
    ),
    **_each("minicpm3", {"v_head_dim": ..., **BIASED}, **LATENT),
    **_each("youtu", {"q_lora_rank": None, "tie_word_embeddings": False}, **LATENT),
}
_V4 = {
    "hidden_size": 64,
    "intermediate_size": ...,
    "head_dim": 32,
    "num_key_value_heads": 1,
    "q_lora_rank": 24,
    "o_lora_rank": 16,
    "o_groups": 2,
    "qk_rope_head_dim": 8,
    "moe_intermediate_size": 48,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": 16,
    "hc_mult": 3,
    **INDEXER,
}
VARIED: dict[str, Config] = {
    **_each(
        "deepseek_v4",
        {"compress_ratios": [0, 4, 128, 0, 4, 4, 0], "num_hash_layers": 1},
        {"compress_rates": {"compressed_sparse_attention": 8, "heavily_compressed_attention": 32}},
        **_V4,
    ),
    **_each(
        "gemma3n_text",
        {"num_kv_shared_layers": 0, "laurel_rank": 8, "altup_num_inputs": 2},
        {"intermediate_size": [64, 64, 96, 96, 128, 128], "layer_types": MIXED["layer_types"]},
        head_dim=16,
        num_kv_shared_layers=1,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=144,
        sliding_window=32,
    ),
    **_each(
        "gemma4_text",
        {"attention_k_eq_v": True, "num_global_key_value_heads": 1},
        {"enable_moe_block": True, "top_k_experts": 2, "hidden_size_per_layer_input": 0, **EXPERTS},
        {
            "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True,
            "layer_types": MIXED["layer_types"],
            "attention_bias": True,
        },
        head_dim=16,
        global_head_dim=24,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=144,
        sliding_window=32,
    ),
    **_each(
        "llama4_text",
        {"interleave_moe_layer_step": 2, "attention_bias": True},
        {"no_rope_layers": [1, 0, 1, 1, 0, 0], "moe_layers": [1, 2]},
        intermediate_size_mlp=112,
        attention_chunk_size=32,
        head_dim=16,
        **LOCAL,
    ),
    **_each(
        "laguna",
        {"gating": "per-element", "num_attention_heads_per_layer": [4, 6, 6, 4, 6, 6], **MIXED},
        {"mlp_layer_types": ["sparse"] * 6},
        head_dim=16,
        shared_expert_intermediate_size=40,
        **EXPERTS,
    ),
    **_each(
        "mimo_v2_flash",
        {"mlp_layer_types": ["dense", "dense", "sparse"] * 2, "attention_bias": True, **MIXED},
        head_dim=24,
        v_head_dim=16,
        sliding_window=33,
        **{key: value for key, value in ROUTED.items() if key != "n_shared_experts"},
    ),
    **_each(
        "minimax_m3_vl_text",
        {
            "layer_types": ["full_attention", "minimax_m3_sparse"] * 3,
            "mlp_layer_types": ["dense", "sparse", "sparse"] * 2,
        },
        head_dim=16,
        dense_intermediate_size=112,
        shared_intermediate_size=40,
        rotary_dim=8,
        index_head_dim=16,
        index_n_heads=2,
        index_block_size=8,
        index_topk_blocks=2,
        **LOCAL,
    ),
}

VARIANTS: dict[str, Config] = {**DENSE, **CLASSIC, **MIXTURES, **LATENTS, **VARIED}
VARIANT_TOKENS = (8, 31, 32, 33, 100, 128)
