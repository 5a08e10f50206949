"""From a configuration, or a catalogue id, to an Architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from planner.architecture.adapters import ADAPTERS, WRAPPERS, Wrapper, adapter_for
from planner.architecture.adapters.text_defaults import TEXT_DEFAULTS
from planner.architecture.keys import Keys
from planner.architecture.rotary import rotary_tables
from planner.architecture.speaking import speaking_parameters
from planner.architecture.spec import Architecture, Tower
from planner.architecture.towers import towers_of
from planner.catalog.models import ModelProfile, model_profile
from planner.errors import UnsupportedArchitecture

_SPEAKING = frozenset({"qwen3_omni_moe"})
# What a language model's section leaves to the level above it.
_INHERITED = ("dtype", "torch_dtype", "quantization_config", "compression_config")


def architecture_from_config(config: Mapping[str, Any]) -> Architecture:
    """The architecture that a config.json describes.

    A multimodal wrapper is described by the adapter of its language model's section, with the wrapper's towers.

    Raises:
        InvalidConfig: naming the key that is missing, of the wrong type, out of range or contradictory.
        UnsupportedArchitecture: for a model type that no adapter describes, with close names in `nearest`.
    """
    keys = Keys(config)
    model_type = keys.text("model_type")
    wrapper = WRAPPERS.get(model_type)
    if wrapper is not None:
        return _wrapped(keys, model_type, wrapper)
    adapter = adapter_for(model_type)
    if adapter is None:
        raise _unsupported(model_type)
    return replace(adapter(keys), rotary_tables=rotary_tables(keys.config))


def supported_model_types() -> tuple[str, ...]:
    """Every model type that can be described, sorted."""
    return tuple(sorted({*ADAPTERS, *WRAPPERS}))


def _wrapped(keys: Keys, model_type: str, wrapper: Wrapper) -> Architecture:
    section = keys
    for name in wrapper.sections:
        section = section.optional_section(name) or section
    text = dict(section.config)
    if section is keys:
        text["model_type"] = wrapper.text_type
    else:
        text["model_type"] = section.text("model_type", default=wrapper.text_type)
        # Nested sections are saved as a difference from their class, top levels in full.
        text = {**TEXT_DEFAULTS.get(text["model_type"], {}), **text}
    for name in _INHERITED:
        if text.get(name) is None and keys.has(name):
            text[name] = keys.config[name]
    # The wrapper says whether there's a head; its section may name a base class.
    text["architectures"] = keys.config.get("architectures")
    said_by = (keys,) if wrapper.outer_ties else (keys, section)
    levels = [level for level in said_by if level.has("tie_word_embeddings")]
    # Saved on either level, by version; tied where one says so.
    text["tie_word_embeddings"] = (
        any(level.flag("tie_word_embeddings") for level in levels) if levels else wrapper.tied
    )
    text_keys = Keys(text, section.prefix)
    text_type = text_keys.text("model_type")
    adapter = adapter_for(text_type)
    if adapter is None:
        raise _unsupported(text_type)
    towers = towers_of(keys.config)
    described = adapter(text_keys)
    return replace(
        described,
        model_type=model_type,
        towers=towers,
        rotary_tables=rotary_tables(text),
        modality=wrapper.modality or _modality(towers),
        speaking_parameters=speaking_parameters(keys.config) if model_type in _SPEAKING else 0,
    )


def _modality(towers: tuple[Tower, ...]) -> str:
    kinds = {tower.modality for tower in towers}
    if len(kinds) > 1:
        return "omni"
    return {"image": "vision-text", "audio": "audio-text"}[kinds.pop()] if kinds else "text"


def _unsupported(model_type: str) -> UnsupportedArchitecture:
    known = [name for name in supported_model_types() if name != model_type]  # known, but not there
    nearest = get_close_matches(model_type, known, n=3, cutoff=0.6)
    return UnsupportedArchitecture(
        "unsupported_architecture",
        field="model",
        model_type=model_type,
        nearest=tuple(nearest),
    )


@lru_cache(maxsize=1024)
def _architecture_of_id(model_id: str) -> Architecture:
    return architecture_from_config(model_profile(model_id).config)


def architecture_of(model: str | ModelProfile) -> Architecture:
    """The architecture of a catalogue model, by id, alias or profile; built once per model.

    Raises:
        UnknownItem: where the catalogue has no such model.
    """
    return _architecture_of_id(model_profile(model).id if isinstance(model, str) else model.id)
