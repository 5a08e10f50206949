"""What was taken from transformers against transformers: defaults in the adapters, and the committed witnesses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.architecture.adapters import WRAPPERS, expert_families, latent, llama_like
from planner.architecture.adapters.decoder import Traits
from planner.architecture.adapters.text_defaults import TEXT_DEFAULTS

pytestmark = [pytest.mark.measure, pytest.mark.slow]

GOLDENS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "models_attention.json").read_text()
)
TRAITS: dict[str, Traits] = {**llama_like.FAMILIES, **expert_families.FAMILIES}
# Their configuration ships with the checkpoint, not with transformers.
REMOTE = {"mimo", "deepseek", "phi-msft", "kimi_k2"}


def configuration_class(model_type: str) -> Any:
    """The class of a model type, that of a wrapper's section included."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if model_type in CONFIG_MAPPING:
        return CONFIG_MAPPING[model_type]
    for name in WRAPPERS:
        if name in CONFIG_MAPPING:
            section = getattr(CONFIG_MAPPING[name](), "text_config", None)
            if section is not None and section.model_type == model_type:
                return type(section)
    raise KeyError(model_type)


@pytest.mark.parametrize("model_type", TEXT_DEFAULTS)
def test_sizes_of_nested_sections(model_type: str) -> None:
    defaults = configuration_class(model_type)
    stated = TEXT_DEFAULTS[model_type]
    assert {key: getattr(defaults, key) for key in stated} == stated


@pytest.mark.parametrize("model_type", sorted(set(TRAITS) - REMOTE))
def test_traits(model_type: str) -> None:
    traits, defaults = TRAITS[model_type], configuration_class(model_type)
    assert traits.max_positions == defaults.max_position_embeddings
    assert traits.kv_heads == getattr(defaults, "num_key_value_heads", None)
    if traits.reads_head_dim:
        assert traits.head_dim == getattr(defaults, "head_dim", None)
    # A language model's section leaves tying to its wrapper.
    if not model_type.endswith("_text"):
        assert traits.tied is defaults.tie_word_embeddings
    for value in (traits.qkv_bias, traits.output_bias, traits.mlp_bias, traits.head_bias):
        if isinstance(value, tuple):
            name = defaults.attribute_map.get(value[0], value[0])
            assert getattr(defaults, name) is value[1]


@pytest.mark.parametrize("model_type", sorted(set(latent.FAMILIES) - REMOTE))
def test_latent_traits(model_type: str) -> None:
    traits, defaults = latent.FAMILIES[model_type], configuration_class(model_type)
    assert traits.query_rank == defaults.q_lora_rank
    assert traits.max_positions in (None, defaults.max_position_embeddings)
    assert traits.tied is defaults.tie_word_embeddings


def test_witnesses_were_made_with_the_pinned_versions() -> None:
    pinned = (Path(__file__).parents[2] / "requirements-measure.txt").read_text()
    for name, version in GOLDENS["versions"].items():
        assert f"{name}=={version}" in pinned


@pytest.mark.parametrize("name", list(GOLDENS["variants"])[::5])
def test_a_fifth_of_the_variants_comes_out_the_same_again(name: str) -> None:
    from tests.golden import cases_attention, generate

    again = generate.variant(cases_attention.VARIANTS[name], cases_attention.VARIANT_TOKENS)
    assert json.loads(json.dumps(again)) == GOLDENS["variants"][name]
