"""Which model type each GGUF architecture was converted from, and what its configuration says beside the common keys.

References:
    llama.cpp (2026-10): conversion/*.py (what is written), src/models/*.cpp, `load_arch_hparams` (what is read).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.architecture.checkpoint.gguf_values import GgufValues
from planner.errors import InvalidInput

Config = dict[str, Any]
_HEADS = frozenset({"attention.head_count_kv"})
_HEADS_AND_WIDTHS = _HEADS | {"feed_forward_length"}
FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
LINEAR, CONVOLUTION = "linear_attention", "conv"
LLAMA4_CHUNK = 8192  # fixed in llama.cpp, whatever the file says


@dataclass(frozen=True, slots=True)
class Family:
    """A GGUF architecture.

    Attributes:
        model_type: as in config.json, for the adapter.
        period: every how many layers one attends to everything while the others slide; 0: no windows in llama.cpp.
        refine: completes the configuration where the family differs from the common one.
        by_layer: metadata that may differ between layers and that `refine` reads.
    """

    model_type: str
    period: int = 0
    refine: Callable[[GgufValues, Config], None] | None = None
    by_layer: frozenset[str] = frozenset()


def _llama(values: GgufValues, config: Config) -> None:
    """Mixtral's files bear Llama's name."""
    if values.given("expert_count"):
        config["model_type"] = "mixtral"


def _olmo2(values: GgufValues, config: Config) -> None:
    """OLMo 3's files bear OLMo 2's name, and have windows."""
    if config["sliding_window"]:
        config["model_type"] = "olmo3"


def _granite_experts(values: GgufValues, config: Config) -> None:
    if config.get("shared_intermediate_size"):
        config["model_type"] = "granitemoeshared"


def _ernie_experts(values: GgufValues, config: Config) -> None:
    config["moe_num_experts"] = config["num_experts"]
    config["moe_k"] = config["num_experts_per_tok"]
    config["moe_num_shared_experts"] = config["n_shared_experts"]
    config["moe_layer_start_index"] = config["first_k_dense_replace"]
    config["moe_layer_interval"] = values.integer("interleave_moe_layer_step", default=1)
    config["use_bias"] = False


def _hunyuan_experts(values: GgufValues, config: Config) -> None:
    config["moe_topk"] = config["num_experts_per_tok"]


def _llama4(values: GgufValues, config: Config) -> None:
    """Chunks instead of windows; experts on every n-th layer."""
    config["intermediate_size_mlp"] = config["intermediate_size"]
    config["intermediate_size"] = config.get("moe_intermediate_size", config["intermediate_size"])
    config["moe_layers"] = [index for index, routed in enumerate(values.sparse_layers()) if routed]
    chunk = values.integer("attention.sliding_window", default=LLAMA4_CHUNK, minimum=0)
    config["attention_chunk_size"] = LLAMA4_CHUNK
    config["layer_types"] = [CHUNKED if slides and chunk else FULL for slides in values.sliding(4)]


def _gemma3n(values: GgufValues, config: Config) -> None:
    """llama.cpp keeps a cache for the first 20 layers."""
    config["num_kv_shared_layers"] = max(0, values.layers - 20)
    config["altup_num_inputs"] = values.integer("altup.num_inputs", default=4, maximum=64)
    config["laurel_rank"] = values.width("laurel_l.weight") or 64
    config["hidden_size_per_layer_input"] = values.integer("embedding_length_per_layer_input")
    config["vocab_size_per_layer_input"] = (
        values.rows("per_layer_token_embd.weight") or config["vocab_size"]
    )


def _gemma4(values: GgufValues, config: Config) -> None:
    """Keys and values of another size on layers that attend to everything, which may make values from keys."""
    slides = values.sliding(6)
    config["sliding_window"] = values.integer("attention.sliding_window")
    config["layer_types"] = [SLIDING if sliding else FULL for sliding in slides]
    config["num_kv_shared_layers"] = values.integer(
        "attention.shared_kv_layers", default=0, minimum=0, maximum=values.layers
    )
    config["global_head_dim"] = values.integer("attention.key_length")
    config["head_dim"] = values.integer("attention.key_length_swa")
    heads = values.per_layer("attention.head_count_kv", minimum=1)
    sliding_heads = {count for count, sliding in zip(heads, slides, strict=True) if sliding}
    full_heads = {count for count, sliding in zip(heads, slides, strict=True) if not sliding}
    if len(sliding_heads) > 1 or len(full_heads) > 1:
        raise values.contradiction("attention.head_count_kv", "differs_by_layer")
    config["num_key_value_heads"] = (sliding_heads or full_heads).pop()
    full_layers = [layer for layer, sliding in enumerate(slides) if not sliding]
    config["attention_k_eq_v"] = any(
        values.has(f"blk.{layer}.attn_k.weight") and not values.has(f"blk.{layer}.attn_v.weight")
        for layer in full_layers
    )
    config["num_global_key_value_heads"] = full_heads.pop() if full_heads else None
    config["hidden_size_per_layer_input"] = values.integer(
        "embedding_length_per_layer_input", default=0, minimum=0
    )
    config["vocab_size_per_layer_input"] = (
        values.rows("per_layer_token_embd.weight") or config["vocab_size"]
    )
    widths = values.per_layer("feed_forward_length", minimum=1)
    config["intermediate_size"] = widths[0]
    config["use_double_wide_mlp"] = max(widths) > widths[0]
    if values.given("expert_count"):
        config["enable_moe_block"] = True
        config["top_k_experts"] = config["num_experts_per_tok"]


def _latent(values: GgufValues, config: Config) -> None:
    """Multi-head latent attention, kept as one latent per token."""
    if not values.given("attention.key_length_mla"):
        # llama.cpp caches whole keys and values for such files, dozens of times as much.
        raise InvalidInput("gguf_latent_unabsorbed", field="model", key="attention.key_length_mla")
    rope = values.integer("rope.dimension_count")
    key = values.integer("attention.key_length_mla")
    if key <= rope:
        raise values.contradiction(
            "attention.key_length_mla", "key_below_rope", given=key, expected=rope
        )
    config["q_lora_rank"] = (
        values.integer("attention.q_lora_rank") if values.given("attention.q_lora_rank") else None
    )
    config["kv_lora_rank"] = values.integer("attention.kv_lora_rank")
    config["qk_rope_head_dim"] = rope
    config["qk_nope_head_dim"] = key - rope
    config["v_head_dim"] = values.integer("attention.value_length_mla")
    config["num_key_value_heads"] = config["num_attention_heads"]


def _deepseek2(values: GgufValues, config: Config) -> None:
    _latent(values, config)
    if not values.given("expert_count"):
        config["model_type"] = "youtu"
    elif values.in_layers("exp_probs_b.bias"):
        config["model_type"] = "deepseek_v3"


def _qwen_hybrid(values: GgufValues, config: Config) -> None:
    """Gated delta nets between layers of attention."""
    value_heads = values.integer("ssm.time_step_rank", maximum=100_000)
    inner = values.integer("ssm.inner_size")
    if inner % value_heads:
        raise values.contradiction(
            "ssm.inner_size", "not_divisible", given=inner, divisor=value_heads
        )
    config["linear_conv_kernel_dim"] = values.integer("ssm.conv_kernel", maximum=1000)
    config["linear_key_head_dim"] = values.integer("ssm.state_size", maximum=100_000)
    config["linear_num_key_heads"] = values.integer("ssm.group_count", maximum=100_000)
    config["linear_num_value_heads"] = value_heads
    config["linear_value_head_dim"] = inner // value_heads
    recurrent = [values.has(f"blk.{layer}.ssm_conv1d.weight") for layer in range(values.layers)]
    config["layer_types"] = [LINEAR if one else FULL for one in recurrent]
    config["mtp_num_hidden_layers"] = values.nextn


def _lfm2(values: GgufValues, config: Config) -> None:
    """Short convolutions where a layer has no keys."""
    heads = values.per_layer("attention.head_count_kv")
    attends = {count for count in heads if count}
    if len(attends) != 1:
        raise values.contradiction("attention.head_count_kv", "differs_by_layer")
    config["num_key_value_heads"] = attends.pop()
    config["conv_L_cache"] = values.integer("shortconv.l_cache", maximum=1000)
    config["conv_bias"] = values.in_layers("shortconv.conv.bias")
    config["layer_types"] = [FULL if count else CONVOLUTION for count in heads]
    config["block_auto_adjust_ff_dim"] = False
    config["use_expert_bias"] = values.in_layers("exp_probs_b.bias")


FAMILIES: dict[str, Family] = {
    "llama": Family("llama", refine=_llama),
    "llama4": Family("llama4_text", refine=_llama4),
    "mistral3": Family("ministral3"),
    "mistral4": Family("mistral4", refine=_latent),
    "qwen2": Family("qwen2"),
    "qwen2moe": Family("qwen2_moe"),
    "qwen2vl": Family("qwen2_vl_text"),
    "qwen3": Family("qwen3"),
    "qwen3moe": Family("qwen3_moe"),
    "qwen3vl": Family("qwen3_vl_text"),
    "qwen3vlmoe": Family("qwen3_vl_moe_text"),
    "qwen3next": Family("qwen3_next", refine=_qwen_hybrid),
    "qwen35": Family("qwen3_5_text", refine=_qwen_hybrid),
    "qwen35moe": Family("qwen3_5_moe_text", refine=_qwen_hybrid),
    "gemma": Family("gemma"),
    "gemma2": Family("gemma2", 2),
    "gemma3": Family("gemma3_text", 6),
    "gemma3n": Family("gemma3n_text", 5, _gemma3n),
    "gemma4": Family("gemma4_text", 6, _gemma4, _HEADS_AND_WIDTHS),
    "phi2": Family("phi"),
    "phi3": Family("phi3"),  # llama.cpp doesn't use its window
    "phimoe": Family("phimoe"),
    "deepseek": Family("deepseek"),
    "deepseek2": Family("deepseek_v2", refine=_deepseek2),
    "glm4": Family("glm4"),
    "glm4moe": Family("glm4_moe"),
    "gpt-oss": Family("gpt_oss", 2),
    "command-r": Family("cohere"),
    "cohere2": Family("cohere2", 4),
    "granite": Family("granite"),
    "granitemoe": Family("granitemoe", refine=_granite_experts),
    "olmo": Family("olmo"),
    "olmo2": Family("olmo2", 4, _olmo2),
    "olmoe": Family("olmoe"),
    "stablelm": Family("stablelm"),
    "starcoder2": Family("starcoder2"),
    "internlm2": Family("internlm2"),
    "exaone": Family("exaone"),
    "exaone4": Family("exaone4", 4),
    "smollm3": Family("smollm3"),
    "seed_oss": Family("seed_oss"),
    "ernie4_5": Family("ernie4_5"),
    "ernie4_5-moe": Family("ernie4_5_moe", refine=_ernie_experts),
    "hunyuan-dense": Family("hunyuan_v1_dense"),
    "hunyuan-moe": Family("hunyuan_v1_moe", refine=_hunyuan_experts),
    "dots1": Family("dots1"),
    "nemotron": Family("nemotron"),
    "minimax-m2": Family("minimax_m2"),
    "arcee": Family("arcee"),
    "apertus": Family("apertus"),
    "lfm2": Family("lfm2", refine=_lfm2, by_layer=_HEADS),
    "lfm2moe": Family("lfm2_moe", refine=_lfm2, by_layer=_HEADS),
}
