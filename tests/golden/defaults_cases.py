"""Which model types' default configurations are witnessed, and what their configuration classes leave open.

The types are transformers' own lists of causal language models and of models that read images and text.
"""

from __future__ import annotations

from typing import Any

TASKS = ("causal", "image")
CACHE_TOKENS = (16, 128, 4096)
FLOP_TOKENS = (128, 256)
POSITION_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len")
WINDOW_KEYS = (
    "sliding_window",
    "sliding_window_size",
    "attention_chunk_size",
    "local_attention",
    "window_size",
)

_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_GLM_V = {
    "rope_parameters": {
        **_ROPE,
        "partial_rotary_factor": 0.5,
        "mrope_section": [8, 12, 12],
    }
}
_COMPASS = {
    "model_type": "cohere_compass_text",
    "rope_parameters": {"full_attention": _ROPE, "sliding_attention": None},
}
# A class whose defaults can't be built (a count that's None, heads that don't divide) gets what its published
# checkpoints state, or the nearest that can.
FILLED_IN: dict[str, dict[str, Any]] = {
    "aya_vision": {
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": 1152,
            "patch_size": 14,
            "image_size": 364,
            "num_hidden_layers": 27,
            "intermediate_size": 4304,
            "num_attention_heads": 16,
            "vision_use_head": False,
        }
    },
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    "cohere_compass": {"text_config": _COMPASS},
    "cohere_compass_text": {"rope_parameters": _COMPASS["rope_parameters"]},
    "dbrx": {"attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500000.0}},
    "deepseek_ocr2": {
        "text_config": {
            "model_type": "deepseek_ocr2_text",
            "mlp_layer_types": ["dense"] + ["sparse"] * 31,
            "moe_intermediate_size": 896,
            "num_experts_per_tok": 6,
        }
    },
    "deepseek_v2": {"num_experts_per_tok": 6},
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6},
    "gemma4_assistant": {
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
            "num_kv_shared_layers": 30,
        }
    },
    "glm46v": {"text_config": {"model_type": "glm4v_text", **_GLM_V}},
    "glm4_moe": {"head_dim": 128},
    "glm4v": {"text_config": {"model_type": "glm4v_text", **_GLM_V}},
    "glm4v_moe": {"text_config": {"model_type": "glm4v_moe_text", "head_dim": 128, **_GLM_V}},
    "glmga": {"text_config": {"model_type": "glm4v_text", **_GLM_V}},
    "granitemoehybrid": {
        "layer_types": ["attention" if index in (5, 15, 25) else "mamba" for index in range(32)]
    },
    "granite4_vision": {"deepstack_layer_map": [[-5, 0], [-1, 1]], "downsample_rate": "4/8"},
    "hunyuan_vl": {
        "text_config": {
            "model_type": "hunyuan_vl_text",
            "rope_parameters": {**_ROPE, "mrope_section": [16, 16, 16, 16]},
        }
    },
    "lfm2_moe": {
        "layer_types": [
            "full_attention" if index in (2, 6, 10, 14, 18, 21) else "conv" for index in range(32)
        ]
    },
    "qwen3_omni_moe_thinker": {
        "text_config": {"model_type": "qwen3_omni_moe_text", "head_dim": 128}
    },
    "step3p7": {"text_config": {"model_type": "step3p5", "sliding_window": 512}},
    "xmod": {"default_language": "en_XX"},
}
# Keys that no size depends on, left out of what is kept with the figures.
NOT_KEPT = frozenset(
    {
        "_name_or_path", "activation_dropout", "activation_function", "architectures", "attention_dropout",
        "attention_probs_dropout_prob", "attn_pdrop", "begin_suppress_tokens", "chunk_size_feed_forward",
        "classifier_activation", "classifier_dropout", "decoder_layerdrop", "dropout", "embd_pdrop",
        "encoder_layerdrop", "hidden_act", "hidden_activation", "hidden_dropout", "hidden_dropout_prob",
        "id2label", "image_grid_pinpoints", "init_std", "initializer_factor", "initializer_range", "label2id",
        "layer_norm_eps", "layer_norm_epsilon", "layerdrop", "layer_rope_theta", "norm_eps", "output_attentions",
        "output_hidden_states", "output_router_logits", "problem_type", "projector_hidden_act", "resid_pdrop",
        "return_dict", "rms_norm_eps", "rope_parameters", "rope_scaling_layers", "rope_theta",
        "router_aux_loss_coef", "router_jitter_noise", "suppress_tokens", "transformers_version", "use_cache",
    }
)  # fmt: skip


def kept(value: Any) -> Any:
    """A configuration without the keys that no size depends on, runs of equal list items written as [item, count]."""
    if isinstance(value, dict):
        return {
            key: kept(item)
            for key, item in value.items()
            if key not in NOT_KEPT and not str(key).endswith(("_token_id", "_token_index"))
        }
    return value
