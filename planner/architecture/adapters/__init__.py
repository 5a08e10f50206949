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
        outer_ties: only the wrapper's own level says whether it does, whatever stands in its section.
    """

    text_type: str
    modality: str | None = None
    sections: tuple[str, ...] = ("text_config",)
    tied: bool = False
    outer_ties: bool = False


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

_SECTIONS = (
    "biogpt", "cohere_compass_text", "cosmos3_edge_text", "diffllama", "emu3_text_model", "glm4v_text",
    "glm_ocr_text", "granite4_vision_text", "granite_docling_text", "hunyuan_vl_text", "paddleocr_vl_text",
    "phi4_multimodal_text", "qwen2_5_omni_text",
)  # fmt: skip
_MASKED = (
    "bert", "bert-generation", "big_bird", "blip_text_model", "camembert", "data2vec-text", "electra", "ernie",
    "megatron-bert", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta",
    "xlm-roberta-xl", "xmod",
)  # fmt: skip
_SEQUENCE = (
    "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "marian", "mbart", "mvp", "pegasus", "plbart",
    "pp_formulanet_text", "whisper",
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
    **dict.fromkeys(_SECTIONS, "dense_families:architecture"),
    "apertus1p5_text": "dense_families:apertus",
    "kosmos_2_5_text_model": "dense_families:kosmos",
    "kosmos_2_text_model": "dense_families:kosmos",
    "molmo2_text": "dense_families:molmo2",
    "aria_text": "mixture_families:architecture",
    "beam": "mixture_families:beam",
    "cohere2_moe": "mixture_families:architecture",
    "deepseek_ocr2_text": "mixture_families:architecture",
    "doge": "unusual_mixtures:doge",
    "ernie4_5_vl_moe_text": "mixture_families:ernie_vl",
    "glm4v_moe_text": "mixture_families:glm4v_moe",
    "jetmoe": "unusual_mixtures:jetmoe",
    "muse_spark_text": "mixture_families:muse_spark",
    "unlimited_ocr_text": "mixture_families:architecture",
    "zaya": "unusual_mixtures:zaya",
    "axk2": "latent_families:axk2",
    "dots3_note_text": "dots:dots3_note",
    "hy_v4": "latent_families:hy_v4",
    "hy_v4_vl_text": "latent_families:hy_v4",
    "longcat_flash": "latent_families:longcat_flash",
    "mistral_large4_text": "latent_families:mistral_large4",
    "cpmant": "early_decoders:cpmant",
    "ctrl": "early_decoders:ctrl",
    "git_text": "early_decoders:git",
    "gpt_neox_japanese": "early_decoders:gpt_neox_japanese",
    "moshi": "early_decoders:moshi",
    "openai-gpt": "early_decoders:openai_gpt",
    "prophetnet": "early_decoders:prophetnet_decoder",
    "xlm": "early_decoders:xlm",
    "xlnet": "early_decoders:xlnet",
    "gemma4_assistant": "drafters:gemma4",
    "gemma4_unified_assistant": "drafters:gemma4",
    "idefics_text": "image_readers:idefics",
    "pix2struct_text_model": "image_readers:pix2struct",
    "t5gemma2": "image_readers:t5gemma2",
    "udop": "image_readers:udop",
    "dory": "looped:dory",
    "hrm_text": "looped:hrm_text",
    "modernbert-decoder": "masked:modernbert_decoder",
    # recurrent and hybrid
    "bailing_hybrid": "mixed_families:bailing_hybrid",
    "glm5_next_text": "mixed_families:glm5_next",
    "inkling_text": "inkling:inkling",
    "lara_mini": "mixed_families:lara_mini",
    "lfm3": "mixed_families:lfm3",
    "rwkv": "state_families:rwkv4",
    "xlstm": "state_families:xlstm",
    "zamba": "mixed_families:zamba",
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
    **dict.fromkeys(_MASKED, "masked:bert_like"),
    **dict.fromkeys(_SEQUENCE, "sequence_families:sequence"),
    "distilbert": "encoder:bert",
    "modernbert": "encoder:modernbert",
    "nomic_bert": "encoder:bert",
    "t5": "encoder_decoder:t5",
    "musicgen_decoder": "sequence_families:musicgen",
    "musicgen_melody_decoder": "sequence_families:musicgen",
    "trocr": "sequence_families:trocr",
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
    "qwen3_vl_moe": Wrapper("qwen3_vl_moe_text", outer_ties=True),
    "step3p7": Wrapper("step3p5"),
    "voxtral": Wrapper("llama", "audio-text"),
    "aria": Wrapper("aria_text"),
    "aya_vision": Wrapper("cohere2", tied=True),
    "blip": Wrapper("blip_text_model", tied=True),
    "blip-2": Wrapper("opt", tied=True),
    "cohere2_vision": Wrapper("cohere2", tied=True),
    "cohere_compass": Wrapper("cohere_compass_text", outer_ties=True),
    "cosmos3_edge": Wrapper("cosmos3_edge_text"),
    "cosmos3_omni": Wrapper("qwen3_vl_text"),
    "deepseek_ocr2": Wrapper("deepseek_ocr2_text"),
    "deepseek_vl": Wrapper("llama", tied=True),
    "deepseek_vl_hybrid": Wrapper("llama", tied=True),
    "dots3_note": Wrapper("dots3_note_text"),
    "ernie4_5_vl_moe": Wrapper("ernie4_5_vl_moe_text", tied=True),
    "exaone4_5": Wrapper("exaone4"),
    "florence2": Wrapper("bart", "encoder-decoder", tied=True),
    "fuyu": Wrapper("persimmon"),
    "git": Wrapper("git_text", sections=()),
    "glm46v": Wrapper("glm4v_text"),
    "glm4v": Wrapper("glm4v_text"),
    "glm4v_moe": Wrapper("glm4v_moe_text"),
    "glm5_next": Wrapper("glm5_next_text"),
    "glm_ocr": Wrapper("glm_ocr_text"),
    "glmga": Wrapper("glm4v_text"),
    "got_ocr2": Wrapper("qwen2", tied=True),
    "granite4_vision": Wrapper("granite4_vision_text"),
    "granite_docling": Wrapper("granite_docling_text", tied=True),
    "hunyuan_vl": Wrapper("hunyuan_vl_text", tied=True),
    "hy_v4_vl": Wrapper("hy_v4_vl_text"),
    "hyperclovax_vision_v2": Wrapper("hyperclovax", tied=True),
    "idefics": Wrapper("idefics_text", sections=()),
    "idefics2": Wrapper("mistral"),
    "idefics3": Wrapper("llama"),
    "instructblip": Wrapper("opt", tied=True),
    "instructblipvideo": Wrapper("opt", tied=True),
    "kosmos-2": Wrapper("kosmos_2_text_model", tied=True),
    "kosmos-2.5": Wrapper("kosmos_2_5_text_model", tied=True),
    "lfm3_vl": Wrapper("lfm3", tied=True),
    "lighton_ocr": Wrapper("qwen3", tied=True),
    "llava_next_video": Wrapper("llama"),
    "llava_onevision": Wrapper("qwen2"),
    "minicpm_ocr": Wrapper("qwen3_5_text", tied=True),
    "minicpmv4_6": Wrapper("qwen3_5_text"),
    "minicpmv4_7": Wrapper("qwen3_5_text"),
    "mistral_large4": Wrapper("mistral_large4_text"),
    "molmo2": Wrapper("molmo2_text"),
    "moss_transcribe_diarize": Wrapper("qwen3", "audio-text", tied=True),
    "muse_spark": Wrapper("muse_spark_text"),
    "ovis2": Wrapper("qwen2", tied=True),
    "paddleocr_vl": Wrapper("paddleocr_vl_text", tied=True),
    "phi4_multimodal": Wrapper("phi4_multimodal_text", "omni", sections=()),
    "pix2struct": Wrapper("pix2struct_text_model", "encoder-decoder"),
    "pp_chart2table": Wrapper("qwen2", tied=True),
    "pp_formulanet": Wrapper("pp_formulanet_text", "encoder-decoder"),
    "qianfan_ocr": Wrapper("qwen3"),
    "shieldgemma2": Wrapper("gemma3_text", tied=True),
    "smolvlm": Wrapper("llama"),
    "unlimited_ocr": Wrapper("unlimited_ocr_text"),
    "video_llama_3": Wrapper("qwen2"),
    "video_llava": Wrapper("llama"),
    "vipllava": Wrapper("llama"),
    "vision-encoder-decoder": Wrapper("bert", "encoder-decoder", sections=("decoder",)),
    # hybrid, omni and remote code
    "nemotron_h_omni": Wrapper("nemotron_h"),
    "qwen2_5_omni_thinker": Wrapper("qwen2_5_omni_text", "omni", outer_ties=True),
    "qwen3_omni_moe_thinker": Wrapper("qwen3_omni_moe_text", "omni", outer_ties=True),
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
