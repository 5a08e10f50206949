"""Models and small configurations that stand for the vision and audio towers."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

# Models of the catalogue whose towers are counted at full size.
TOWER_MODELS = (
    "LiquidAI/LFM2.5-VL-1.6B",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/Qwen3-VL-30B-A3B-Instruct",
    "Qwen/Qwen3.5-9B",
    "google/gemma-3-12b-it",
    "google/gemma-4-12B-it",
    "google/gemma-4-26B-A4B-it",
    "google/gemma-4-E4B-it",
    "llava-hf/llava-1.5-7b-hf",
    "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "meta-models/Muse-Glimmer-30B",
    "mistralai/Devstral-Small-2-24B-Instruct-2512",
    "mistralai/Voxtral-Mini-3B-2507",
    "moonshotai/Kimi-K2.5",
    "nvidia/MiniMax-M3-NVFP4",
)
# Those of them whose work on one default item is counted as well, with the input's shape.
TOWER_INPUTS = {
    "google/gemma-3-12b-it": (1, 3, 896, 896),
    "llava-hf/llava-1.5-7b-hf": (1, 3, 336, 336),
    "mistralai/Voxtral-Mini-3B-2507": (1, 128, 3000),
}

_TEXT: Config = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    # Entries of the table that the classes index, whatever the vocabulary.
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_VISION: Config = {
    "hidden_size": 48,
    "intermediate_size": 72,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
}
_QWEN: Config = {"depth": 3, "num_heads": 4, "out_hidden_size": 64}


def _wrapper(model_type: str, text_type: str, vision: Config, **keys: Any) -> Config:
    return {
        "model_type": model_type,
        "text_config": {"model_type": text_type, **_TEXT},
        "vision_config": vision,
        **keys,
    }


TOWERS: dict[str, Config] = {
    "gemma3": _wrapper("gemma3", "gemma3_text", {**_VISION, "vision_use_head": False}),
    "paligemma": _wrapper(
        "paligemma", "gemma", {**_VISION, "model_type": "siglip_vision_model"}, projection_dim=64
    ),
    "llava-clip": _wrapper(
        "llava",
        "llama",
        {**_VISION, "model_type": "clip_vision_model"},
        multimodal_projector_bias=False,
    ),
    "llava-clip-two-layers": _wrapper(
        "llava",
        "llama",
        {**_VISION, "model_type": "clip_vision_model"},
        vision_feature_layer=[-2, -1],
    ),
    "llava-pixtral": _wrapper(
        "llava",
        "mistral",
        {**_VISION, "model_type": "pixtral", "head_dim": 12},
        vision_feature_layer=-1,
    ),
    "llava_next": _wrapper("llava_next", "llama", {**_VISION, "model_type": "clip_vision_model"}),
    "mistral3": _wrapper(
        "mistral3",
        "mistral",
        {**_VISION, "model_type": "pixtral", "head_dim": 12},
        spatial_merge_size=3,
        multimodal_projector_bias=True,
    ),
    "mllama": _wrapper(
        "mllama",
        "mllama_text_model",
        {
            "hidden_size": 48,
            "intermediate_size": 72,
            "num_hidden_layers": 3,
            "num_global_layers": 2,
            "attention_heads": 4,
            "image_size": 56,
            "max_num_tiles": 3,
            "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [2, 1], [3, 1]],
            "intermediate_layers_indices": [0, 2],
            "vision_output_dim": 144,
        },
    ),
    "llama4": _wrapper(
        "llama4",
        "llama4_text",
        {
            **_VISION,
            "projector_input_dim": 80,
            "projector_output_dim": 56,
            "vision_output_dim": 56,
        },
    ),
    "internvl": _wrapper(
        "internvl",
        "qwen2",
        {
            **_VISION,
            "image_size": [56, 56],
            "patch_size": [14, 14],
            "attention_bias": True,
            "use_qk_norm": True,
            "norm_type": "rms_norm",
        },
    ),
    "qwen2_vl": _wrapper(
        "qwen2_vl", "qwen2_vl_text", {**_QWEN, "embed_dim": 48, "hidden_size": 64, "mlp_ratio": 3}
    ),
    "qwen2_5_vl": _wrapper(
        "qwen2_5_vl", "qwen2_5_vl_text", {**_QWEN, "hidden_size": 48, "intermediate_size": 72}
    ),
    "qwen3_vl": _wrapper(
        "qwen3_vl",
        "qwen3_vl_text",
        {
            **_QWEN,
            "hidden_size": 48,
            "intermediate_size": 72,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
    ),
    "qwen3_5": _wrapper(
        "qwen3_5", "qwen3_5_text", {**_QWEN, "hidden_size": 48, "intermediate_size": 72}
    ),
    "kimi_k25": _wrapper(
        "kimi_k25",
        "deepseek_v3",
        {
            "hidden_size": 48,
            "intermediate_size": 72,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "pos_emb_height": 8,
            "pos_emb_width": 6,
        },
        projection_hidden_size=48,
    ),
    "minimax_m3_vl": _wrapper(
        "minimax_m3_vl",
        "minimax_m3_vl_text",
        {**_VISION, "temporal_patch_size": 2, "spatial_merge_size": 2},
        projector_hidden_size=80,
    ),
    "step3p7": _wrapper(
        "step3p7", "step3p5", {**_VISION, "image_size": 112, "mlp_ratio": 1.5}, pad_token_id=0
    ),
    "muse_glimmer": _wrapper(
        "muse_glimmer",
        "muse_glimmer_text",
        {
            "hidden_size": 48,
            "intermediate_size": 72,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "pos_emb_height": 8,
            "pos_emb_width": 6,
            "layer_types": ["full_attention"] * 3,
        },
        out_hidden_size=192,
        projector_hidden_size=80,
    ),
    "lfm2_vl": _wrapper(
        "lfm2_vl",
        "lfm2",
        {
            "model_type": "siglip2_vision_model",
            "hidden_size": 48,
            "intermediate_size": 72,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_patches": 64,
            "vision_use_head": False,
        },
        projector_hidden_size=80,
        projector_use_layernorm=True,
    ),
    "gemma4": {
        **_wrapper(
            "gemma4",
            "gemma4_text",
            {
                "hidden_size": 48,
                "intermediate_size": 72,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "head_dim": 16,
                "position_embedding_size": 64,
            },
        ),
        "audio_config": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "output_proj_dims": 40,
            "subsampling_conv_channels": [16, 8],
        },
    },
    "voxtral": {
        "model_type": "voxtral",
        "text_config": {"model_type": "llama", **_TEXT},
        "audio_config": {
            "hidden_size": 48,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_mel_bins": 20,
            "max_source_positions": 60,
        },
    },
}
