"""Which adapter describes which model type. An adapter is `function(keys: Keys) -> Architecture`.

`ADAPTERS` names each as "module:function" inside this package, so that reading one model imports one family only.
`WRAPPERS` are model types whose language model is a section of its own (`text_config`), described by the adapter of
that section's own model type; their towers come from `planner.architecture.towers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pkgutil import resolve_name

from planner.architecture.keys import Keys
from planner.architecture.spec import Architecture

Adapter = Callable[[Keys], Architecture]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A model type that wraps a language model.

    Attributes:
        text_type: model type of the language model where its section doesn't say.
        modality: as in Architecture; None: by the modalities of its towers.
        sections: path to the section; where it's absent, the keys lie at the top.
        tied: whether the head reuses the embedding where neither level says.
    """

    text_type: str
    modality: str | None = None
    sections: tuple[str, ...] = ("text_config",)
    tied: bool = False


_DENSE = (
    "apertus", "arcee", "bitnet", "cohere", "cohere2", "cwm", "ernie4_5", "exaone", "exaone4", "gemma",
    "gemma2", "gemma3_text", "glm", "glm4", "granite", "granite_swa", "helium", "hunyuan_v1_dense",
    "hyperclovax", "internlm3", "iquestcoder", "jais2", "llama", "mimo", "ministral", "ministral3", "mistral",
    "muse_glimmer_text", "nanochat", "nemotron", "olmo", "olmo2", "olmo3", "persimmon", "phi", "phi-msft",
    "phi3", "qwen2", "qwen2_5_vl_text", "qwen2_vl_text", "qwen3", "qwen3_vl_text", "seed_oss", "smollm3",
    "stablelm", "starcoder2", "vaultgemma",
)  # fmt: skip
_EXPERTS = (
    "afmoe", "deepseek", "dots1", "ernie4_5_moe", "exaone_moe", "flex_olmo", "flint", "glm4_moe", "gpt_oss",
    "granitemoe", "granitemoe_swa", "granitemoeshared", "hy_v3", "kolibri1", "mellum",
    "minimax_m2", "mixtral", "olmoe", "phimoe", "qwen2_moe", "qwen3_moe", "qwen3_vl_moe_text", "sarvam_moe",
    "solar_open",
)  # fmt: skip

_LATENT = (
    "axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "kimi_k2",
    "minicpm3", "mistral4", "sarvam_mla", "youtu",
)  # fmt: skip

ADAPTERS: dict[str, str] = {
    # attention and experts
    **dict.fromkeys(_DENSE, "llama_like:architecture"),
    **dict.fromkeys(_EXPERTS, "expert_families:architecture"),
    "bloom": "classic:bloom",
    "codegen": "classic:gptj",
    "dbrx": "classic:dbrx",
    "falcon": "classic:falcon",
    "gpt2": "classic:gpt2",
    "gpt_bigcode": "classic:gpt_bigcode",
    "gpt_neo": "classic:gpt_neo",
    "gpt_neox": "classic:gpt_neox",
    "gptj": "classic:gptj",
    "mpt": "classic:mpt",
    "opt": "classic:opt",
    "xglm": "classic:xglm",
    **dict.fromkeys(_LATENT, "latent:architecture"),
    "deepseek_ref": "compressed:architecture",
    "deepseek_v4": "compressed:architecture",
    "gemma3n_text": "gemma:gemma3n",
    "gemma4_text": "gemma:gemma4",
    "hunyuan_v1_moe": "expert_families:hunyuan",
    "laguna": "varied:laguna",
    "llama4_text": "varied:llama4",
    "mimo_v2_flash": "varied:mimo_v2_flash",
    "minimax_m3": "block_sparse:architecture",
    "minimax_m3_vl_text": "block_sparse:architecture",
    "mllama_text_model": "mllama:architecture",
    "step3p5": "varied:step3p7",
    # recurrent and hybrid
    "bamba": "hybrid_mamba:bamba",
    "falcon_h1": "hybrid_mamba:falcon_h1",
    "falcon_mamba": "hybrid_mamba:mamba",
    "granitemoehybrid": "hybrid_mamba:granite_hybrid",
    "jamba": "hybrid_mamba:jamba",
    "kimi_linear": "hybrid_kimi:kimi_linear",
    "lfm2": "hybrid_lfm2:lfm2",
    "lfm2_moe": "hybrid_lfm2:lfm2_moe",
    "mamba": "hybrid_mamba:mamba",
    "mamba2": "hybrid_mamba:mamba2",
    "minimax": "hybrid_lightning:minimax",
    "minimax_m1": "hybrid_lightning:minimax",
    "minimax_text_01": "hybrid_lightning:minimax",
    "nemotron_h": "hybrid_nemotron:nemotron_h",
    "olmo_hybrid": "hybrid_delta:olmo_hybrid",
    "qwen3_5_moe_text": "hybrid_delta:qwen3_5_moe",
    "qwen3_5_text": "hybrid_delta:qwen3_5",
    "qwen3_next": "hybrid_delta:qwen3_next",
    "recurrent_gemma": "recurrent_models:recurrent_gemma",
    "rwkv5": "recurrent_models:rwkv5",
    "zamba2": "hybrid_shared:zamba2",
    # encoders and encoder-decoders
    "bart": "encoder_decoder:bart",
    "bert": "encoder:bert",
    "camembert": "encoder:bert",
    "distilbert": "encoder:bert",
    "mbart": "encoder_decoder:bart",
    "modernbert": "encoder:modernbert",
    "nomic_bert": "encoder:bert",
    "roberta": "encoder:bert",
    "t5": "encoder_decoder:t5",
    "whisper": "encoder_decoder:whisper",
    "xlm-roberta": "encoder:bert",
    # remote code
    "baichuan": "remote:architecture",
    "chatglm": "remote:chatglm",
    "gemma4_unified_text": "remote:alias",
    "internlm": "remote:architecture",
    "internlm2": "remote:architecture",
    "minicpm": "remote:minicpm",
    "molmo_text": "remote:molmo",
    "nemotron-nas": "remote_nas:nemotron_nas",
    "orion": "remote:architecture",
    "qwen": "remote:qwen",
    "qwen3_omni_moe_text": "remote:alias",
}

WRAPPERS: dict[str, Wrapper] = {
    # attention and experts
    "gemma3": Wrapper("gemma3_text", tied=True),
    "gemma3n": Wrapper("gemma3n_text", "omni", tied=True),
    "gemma4": Wrapper("gemma4_text", tied=True),
    "kimi_k25": Wrapper("deepseek_v3"),
    "llama4": Wrapper("llama4_text"),
    "llava": Wrapper("llama"),
    "llava_next": Wrapper("llama"),
    "minimax_m3_vl": Wrapper("minimax_m3_vl_text"),
    "mistral3": Wrapper("mistral"),
    "mllama": Wrapper("mllama_text_model"),
    "muse_glimmer": Wrapper("muse_glimmer_text"),
    "paligemma": Wrapper("gemma", tied=True),
    "qwen2_5_vl": Wrapper("qwen2_5_vl_text"),
    "qwen2_vl": Wrapper("qwen2_vl_text"),
    "qwen3_vl": Wrapper("qwen3_vl_text"),
    "qwen3_vl_moe": Wrapper("qwen3_vl_moe_text"),
    "step3p7": Wrapper("step3p5"),
    "voxtral": Wrapper("llama", "audio-text"),
    # hybrid, omni and remote code
    "gemma4_unified": Wrapper("gemma4_unified_text", "omni", tied=True),
    "internvl": Wrapper("qwen2", tied=True),
    "internvl_chat": Wrapper("internlm2", sections=("llm_config",)),
    "kimi_k3": Wrapper("kimi_linear"),
    "lfm2_vl": Wrapper("lfm2", tied=True),
    "molmo": Wrapper("molmo_text", sections=()),
    "phi3_v": Wrapper("phi3", sections=()),
    "qwen3_5": Wrapper("qwen3_5_text"),
    "qwen3_5_moe": Wrapper("qwen3_5_moe_text"),
    "qwen3_omni_moe": Wrapper(
        "qwen3_omni_moe_text", "omni", sections=("thinker_config", "text_config")
    ),
}


@lru_cache(maxsize=256)
def adapter_for(model_type: str) -> Adapter | None:
    """The adapter of a model type, imported on first use; None where no family describes it."""
    target = ADAPTERS.get(model_type)
    if target is None:
        return None
    adapter: Adapter = resolve_name(f"{__name__}.{target}")
    return adapter
