"""The vision and audio towers of a multimodal model, by its model type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from planner.architecture import (
    tower_audio,
    tower_dynamic,
    tower_families,
    tower_remote,
    tower_vision,
)
from planner.architecture.keys import Keys
from planner.architecture.spec import Tower

Towers = tuple[Tower, ...]


def _llava(keys: Keys) -> Towers:
    vision = keys.section("vision_config")
    if vision.text("model_type", default="clip_vision_model") == "pixtral":
        return tower_dynamic.pixtral_llava(keys)
    return tower_vision.llava(keys)


def _gemma4(keys: Keys) -> Towers:
    audio = tower_audio.gemma4_audio(keys)
    return tower_dynamic.gemma4(keys) + (() if audio is None else (audio,))


def _qwen3_omni(keys: Keys) -> Towers:
    thinker = keys.optional_section("thinker_config") or keys
    sections = thinker.optional_section("vision_config"), thinker.optional_section("audio_config")
    vision, audio = sections
    towers: Towers = ()
    if vision is not None:
        towers += (tower_dynamic.qwen3_vision(vision, levels=3, output=3584),)
    return towers if audio is None else (*towers, tower_audio.qwen3_omni_audio(audio))


# Model type to its towers, and the section without which the configuration describes the language model alone (""
# where the towers are fixed by the model type).
_FAMILIES: dict[str, tuple[Callable[[Keys], Towers], str]] = {
    "gemma3": (tower_vision.gemma3, "vision_config"),
    "gemma3n": (tower_audio.gemma3n, ""),
    "gemma4": (_gemma4, "vision_config"),
    "gemma4_unified": (tower_dynamic.gemma4_unified, "vision_config"),
    "internvl": (tower_vision.internvl, "vision_config"),
    "internvl_chat": (tower_vision.internvl, "vision_config"),
    "kimi_k25": (tower_dynamic.kimi_k25, "vision_config"),
    "kimi_k3": (tower_remote.kimi_k3, "vision_config"),
    "lfm2_vl": (tower_dynamic.lfm2_vl, "vision_config"),
    "llama4": (tower_vision.llama4, "vision_config"),
    "llava": (_llava, "vision_config"),
    "llava_next": (tower_vision.llava_next, "vision_config"),
    "minimax_m3_vl": (tower_dynamic.minimax_m3, "vision_config"),
    "mistral3": (tower_dynamic.mistral3, "vision_config"),
    "mllama": (tower_vision.mllama, "vision_config"),
    "molmo": (tower_remote.molmo, ""),
    "muse_glimmer": (tower_dynamic.muse_glimmer, "vision_config"),
    "paligemma": (tower_vision.paligemma, "vision_config"),
    "phi3_v": (tower_remote.phi3_v, ""),
    "qwen": (tower_remote.qwen_vl, "visual"),
    "qwen2_5_vl": (tower_dynamic.qwen2_5_vl, "vision_config"),
    "qwen2_vl": (tower_dynamic.qwen2_vl, "vision_config"),
    "qwen3_5": (tower_dynamic.qwen3_5, "vision_config"),
    "qwen3_5_moe": (tower_dynamic.qwen3_5, "vision_config"),
    "qwen3_omni_moe": (_qwen3_omni, ""),
    "qwen3_vl": (tower_dynamic.qwen3_vl, "vision_config"),
    "qwen3_vl_moe": (tower_dynamic.qwen3_vl, "vision_config"),
    "step3p7": (tower_vision.step3p7, ""),
    "voxtral": (tower_audio.voxtral, "audio_config"),
}


def towers_of(config: Mapping[str, Any]) -> Towers:
    """Vision and audio encoders of a multimodal model, each with its projector.

    Args:
        config: the whole configuration, wrapper included.

    Returns:
        Towers in order of image, audio; none for a model without, or whose section for it isn't given.

    Raises:
        InvalidConfig: where a key of a tower's section is missing or wrong.
    """
    keys = Keys(config)
    model_type = keys.text("model_type", default="none")
    if model_type in tower_families.FAMILIES:
        name, section = tower_families.FAMILIES[model_type]
        build: Callable[[Keys], Towers] = resolve_name(f"planner.architecture.{name}")
    elif model_type in _FAMILIES:
        build, section = _FAMILIES[model_type]
    else:
        return ()
    if section and keys.optional_section(section) is None:
        return ()
    return build(keys)
