"""Sizes that a wrapper's language-model section may leave out because they equal its configuration class's own.

Configurations are saved with every size at the top level, but as a difference from the class in nested sections. Values
are those of the configuration classes in transformers 5.24, which tests/golden/generate.py compares.
"""

from __future__ import annotations

_NAMES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)
_SIZES = {
    "aria_text": (32000, 4096, 4096, 32, 32),
    "blip_text_model": (30524, 768, 3072, 12, 8),
    "cohere2": (256000, 8192, 22528, 40, 64),
    "deepseek_v3": (129280, 7168, 18432, 61, 128),
    "ernie4_5_vl_moe_text": (103424, 2560, 12288, 28, 20),
    "exaone4": (102400, 4096, 16384, 32, 32),
    "gemma": (256000, 3072, 24576, 28, 16),
    "gemma2": (256000, 2304, 9216, 26, 8),
    "gemma3_text": (262208, 2304, 9216, 26, 8),
    "gemma3n_text": (262400, 2048, 16384, 35, 8),
    "gemma4_text": (262144, 2304, 9216, 30, 8),
    "gemma4_unified_text": (262144, 2304, 9216, 30, 8),
    "glm4v_moe_text": (151424, 4096, 10944, 46, 96),
    "glm4v_text": (151552, 4096, 13696, 40, 32),
    "glm_ocr_text": (59392, 1024, 4096, 16, 16),
    "hunyuan_vl_text": (290943, 4096, 11008, 32, 32),
    "kimi_linear": (163840, 2304, 9216, 27, 32),
    "lfm2": (65536, 2560, 12288, 32, 32),
    "llama": (32000, 4096, 11008, 32, 32),
    "llama4_text": (202048, 5120, 8192, 48, 40),
    "minimax_m3_vl_text": (200064, 6144, 3072, 60, 64),
    "ministral3": (131072, 4096, 14336, 34, 32),
    "mistral": (32000, 4096, 14336, 32, 32),
    "mllama_text_model": (128256, 4096, 14336, 40, 32),
    "muse_glimmer_text": (202048, 6656, 19968, 52, 32),
    "molmo2_text": (151936, 4096, 12288, 36, 32),
    "paddleocr_vl_text": (103424, 1024, 3072, 18, 16),
    "persimmon": (262144, 4096, 16384, 36, 64),
    "qwen2": (151936, 4096, 22016, 32, 32),
    "qwen2_5_vl_text": (152064, 8192, 29568, 80, 64),
    "qwen2_5_omni_text": (152064, 3584, 18944, 28, 28),
    "qwen2_vl_text": (152064, 8192, 29568, 80, 64),
    "qwen3": (151936, 4096, 22016, 32, 32),
    "qwen3_5_text": (248320, 4096, 12288, 32, 16),
    "qwen3_vl_moe_text": (151936, 2048, 5632, 24, 16),
    "qwen3_vl_text": (151936, 4096, 22016, 32, 32),
    "step3p5": (128815, 4096, 11264, 45, 64),
}
_OTHER = {
    "aria_text": {"moe_num_experts": 8, "moe_num_shared_experts": 2, "moe_topk": 2},
    "blip_text_model": {"max_position_embeddings": 512, "encoder_hidden_size": 768},
    "deepseek_v3": {
        "kv_lora_rank": 512,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    },
    "ernie4_5_vl_moe_text": {
        "moe_k": 6,
        "moe_num_experts": 64,
        "moe_num_shared_experts": 2,
    },
    "glm4v_moe_text": {
        "moe_intermediate_size": 1408,
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
    },
    "kosmos_2_5_text_model": {
        "vocab_size": 108481,
        "embed_dim": 1536,
        "ffn_dim": 6144,
        "layers": 24,
        "attention_heads": 16,
        "max_position_embeddings": 4096,
    },
    "kosmos_2_text_model": {
        "vocab_size": 65037,
        "embed_dim": 2048,
        "ffn_dim": 8192,
        "layers": 24,
        "attention_heads": 32,
        "max_position_embeddings": 2048,
    },
    "llama4_text": {
        "intermediate_size_mlp": 16384,
        "num_experts_per_tok": 1,
        "num_local_experts": 16,
    },
    "minimax_m3_vl_text": {"num_experts_per_tok": 4, "num_local_experts": 128},
    "mllama_text_model": {"max_position_embeddings": 131072},
    "opt": {
        "vocab_size": 50272,
        "hidden_size": 768,
        "ffn_dim": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "max_position_embeddings": 2048,
    },
    # No dense layers, so no width of one.
    "qwen3_5_moe_text": {
        "vocab_size": 248320,
        "hidden_size": 2048,
        "num_hidden_layers": 40,
        "num_attention_heads": 16,
    },
    "qwen3_vl_moe_text": {
        "moe_intermediate_size": 1408,
        "num_experts": 60,
        "num_experts_per_tok": 4,
    },
    "step3p5": {"moe_intermediate_size": 1280, "n_routed_experts": 288, "num_experts_per_tok": 8},
}

TEXT_DEFAULTS: dict[str, dict[str, int]] = {
    **{name: dict(zip(_NAMES, sizes, strict=True)) for name, sizes in _SIZES.items()},
    **{
        name: {**dict(zip(_NAMES, _SIZES.get(name, ()), strict=False)), **others}
        for name, others in _OTHER.items()
    },
}
