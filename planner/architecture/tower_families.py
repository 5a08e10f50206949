"""Which function describes the towers of which model type, for the families beyond the common ones in `towers`.

Each is named as "module:function" inside `planner.architecture`, so that reading one model imports one family only,
beside the section without which a configuration describes the language model alone ("" where the towers are fixed by
the model type).
"""

from __future__ import annotations

VISION = "vision_config"

FAMILIES: dict[str, tuple[str, str]] = {
    # in front of a small projector
    "aria": ("tower_llava:aria", VISION),
    "aya_vision": ("tower_shuffle:aya_vision", VISION),
    "cohere2_vision": ("tower_shuffle:cohere2_vision", VISION),
    "deepseek_vl": ("tower_llava:deepseek_vl", VISION),
    "fuyu": ("tower_llava:fuyu", ""),
    "git": ("tower_llava:git", ""),
    "granite_docling": ("tower_shuffle:granite_docling", VISION),
    "idefics3": ("tower_shuffle:idefics3", VISION),
    "llava_next_video": ("tower_vision:llava_next", VISION),
    "llava_onevision": ("tower_llava:llava_onevision", VISION),
    "minicpm_ocr": ("tower_shuffle:minicpm", VISION),
    "minicpmv4_6": ("tower_shuffle:minicpm", VISION),
    "minicpmv4_7": ("tower_shuffle:minicpm", VISION),
    "molmo2": ("tower_llava:molmo2", VISION),
    "nemotron_h_omni": ("tower_llava:nemotron_h_omni", VISION),
    "ovis2": ("tower_llava:ovis2", VISION),
    "qianfan_ocr": ("tower_llava:qianfan_ocr", VISION),
    "shieldgemma2": ("tower_vision:gemma3", VISION),
    "smolvlm": ("tower_shuffle:idefics3", VISION),
    "video_llava": ("tower_llava:video_llava", VISION),
    "vipllava": ("tower_llava:vipllava", VISION),
    "vision-encoder-decoder": ("tower_llava:vision_encoder_decoder", "encoder"),
    # asking an image a fixed number of questions, or attended to
    "blip": ("tower_query:blip", VISION),
    "blip-2": ("tower_query:blip_2", VISION),
    "florence2": ("tower_query:florence2", VISION),
    "granite4_vision": ("tower_query:granite4_vision", VISION),
    "idefics": ("tower_query:idefics", ""),
    "idefics2": ("tower_query:idefics2", VISION),
    "instructblip": ("tower_query:instructblip", VISION),
    "instructblipvideo": ("tower_query:instructblip", VISION),
    "kosmos-2": ("tower_query:kosmos_2", VISION),
    "kosmos-2.5": ("tower_query:kosmos_2_5", VISION),
    "pix2struct": ("tower_query:pix2struct", VISION),
    # keeping the resolution, merging neighbours
    "cohere_compass": ("tower_dynamic:qwen3_vl", VISION),
    "cosmos3_edge": ("tower_merging:cosmos3_edge", VISION),
    "cosmos3_omni": ("tower_dynamic:qwen3_vl", VISION),
    "ernie4_5_vl_moe": ("tower_merging:ernie_vl", VISION),
    "exaone4_5": ("tower_merging:exaone4_5", VISION),
    "glm46v": ("tower_merging:glm4v", VISION),
    "glm4v": ("tower_merging:glm4v", VISION),
    "glm4v_moe": ("tower_merging:glm4v", VISION),
    "glm5_next": ("tower_merging:glm_ocr", VISION),
    "glm_ocr": ("tower_merging:glm_ocr", VISION),
    "glmga": ("tower_merging:glm4v", VISION),
    "hunyuan_vl": ("tower_merging:hunyuan_vl", VISION),
    "hy_v4_vl": ("tower_merging:hy_v4_vl", VISION),
    "hyperclovax_vision_v2": ("tower_merging:hyperclovax", VISION),
    "lfm3_vl": ("tower_merging:lfm3_vl", VISION),
    "lighton_ocr": ("tower_merging:lighton_ocr", VISION),
    "mistral_large4": ("tower_merging:mistral_large4", VISION),
    "paddleocr_vl": ("tower_merging:paddleocr_vl", VISION),
    "video_llama_3": ("tower_merging:video_llama_3", VISION),
    # SAM
    "deepseek_ocr2": ("tower_sam:deepseek_ocr2", VISION),
    "deepseek_vl_hybrid": ("tower_sam:deepseek_vl_hybrid", VISION),
    "got_ocr2": ("tower_sam:got_ocr2", VISION),
    "pp_chart2table": ("tower_sam:got_ocr2", VISION),
    "pp_formulanet": ("tower_sam:pp_formulanet", VISION),
    "unlimited_ocr": ("tower_sam:unlimited_ocr", VISION),
    # with sound
    "dots3_note": ("tower_speech:dots3_note", ""),
    "moss_transcribe_diarize": ("tower_speech:moss", "audio_config"),
    "muse_spark": ("tower_speech:muse_spark", ""),
    "phi4_multimodal": ("tower_speech:phi4_multimodal", ""),
    "qwen2_5_omni_thinker": ("tower_speech:qwen2_5_omni", ""),
    "qwen3_omni_moe_thinker": ("tower_speech:qwen3_omni_thinker", ""),
}
