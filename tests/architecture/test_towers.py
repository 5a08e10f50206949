"""Vision and audio towers: parameters, what formats may quantise in them, tokens and work per item."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.spec import Part, Shape, Tower
from planner.architecture.totals import parameters, parameters_by_part
from planner.architecture.towers import towers_of
from planner.catalog.models import model_ids, model_profile
from planner.errors import InvalidConfig

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "models_other.json").read_text())
VARIANTS: dict[str, dict[str, Any]] = GOLDEN["tower_variants"]
WHOLE: dict[str, dict[str, Any]] = GOLDEN["towers"]
WITH_TOWERS = tuple(model for model in model_ids() if architecture_of(model).towers)


def elements(towers: tuple[Tower, ...], *, linear: bool = False, buffers: bool = False) -> int:
    """Elements of the towers' weights, or of their linear layers."""
    return sum(
        weight.elements
        for tower in towers
        for weight in tower.weights
        if (buffers or not weight.buffer) and (not linear or weight.shape is Shape.LINEAR)
    )


@pytest.mark.parametrize("key", sorted(VARIANTS))
def test_small_towers_have_the_parameters_and_linear_layers_of_transformers(key: str) -> None:
    towers = towers_of(VARIANTS[key]["config"])
    assert elements(towers) == VARIANTS[key]["parameters"]
    assert elements(towers, linear=True) == VARIANTS[key]["linear"]


@pytest.mark.parametrize("model", sorted(WHOLE))
def test_catalogue_towers_have_the_parameters_and_linear_layers_of_transformers(
    model: str,
) -> None:
    towers = architecture_of(model).towers
    assert elements(towers) == WHOLE[model]["parameters"]
    assert elements(towers, linear=True) == WHOLE[model]["linear"]


@pytest.mark.parametrize("model", sorted(model for model in WHOLE if "flops" in WHOLE[model]))
def test_work_per_item_is_what_transformers_does(model: str) -> None:
    (tower,) = architecture_of(model).towers
    assert tower.flops_per_item == WHOLE[model]["flops"]


@pytest.mark.parametrize(
    ("model", "published"),
    [
        ("google/gemma-3-4b-it", 4_300_079_472),
        ("google/gemma-3-12b-it", 12_187_325_040),
        ("google/gemma-3-27b-it", 27_432_406_640),
        ("google/gemma-3n-E2B-it", 5_439_438_272),
        ("google/gemma-3n-E4B-it", 7_849_978_192),
        ("google/gemma-4-E4B-it", 7_996_156_490),
        ("google/gemma-4-12B-it", 11_959_730_224),
        ("google/gemma-4-31B-it", 31_273_088_876),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", 10_670_220_835),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 401_583_781_376),
        ("microsoft/Phi-3.5-vision-instruct", 4_146_621_440),
        ("reubzdubz/Molmo7B_D_NF4Quant", 8_021_025_280),
        ("moonshotai/Kimi-K2.5", 1_026_879_376_368),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 8_292_166_656),
        ("Qwen/Qwen3-VL-235B-A22B-Instruct", 235_670_022_896),
        ("LiquidAI/LFM2.5-VL-1.6B", 1_596_625_904),
        ("llava-hf/llava-1.5-7b-hf", 7_063_427_072),
    ],
)
def test_a_model_with_its_towers_has_its_published_total(model: str, published: int) -> None:
    assert parameters(architecture_of(model)) == published


def test_kimi_k3_falls_short_of_its_published_total_by_a_few_vectors() -> None:
    missing = 2_779_931_837_184 - parameters(architecture_of("moonshotai/Kimi-K3"))
    assert 0 <= missing <= 2208


def test_qwen_vl_is_its_decoder_its_vision_transformer_and_its_resampler() -> None:
    model = architecture_of("Qwen/Qwen-VL-Chat-Int4")
    (tower,) = model.towers
    assert model.modality == "vision-text"
    assert parameters(model) - elements(model.towers) == 7_721_324_544
    width, wide = 1664, 8192
    layer = 4 * width**2 + 4 * width + 2 * width * wide + wide + width + 4 * width
    vision = 48 * layer + 588 * width + 256 * width + 2 * width
    out = 4096
    resampler = 2 * 256 * out + out * width + 4 * out**2 + 4 * out + 6 * out + out**2
    assert elements((tower,)) == vision + resampler


def test_gemma_3n_sees_with_mobilenet_and_hears_with_a_conformer() -> None:
    sight, sound = architecture_of("google/gemma-3n-E4B-it").towers
    assert (sight.modality, sight.tokens_per_item) == ("image", 256)
    assert (sound.modality, sound.tokens_per_item) == ("audio", 188)
    # Published total less the language model and the unused projections of its 15 layers that share a cache.
    shared = 2 * 512 * 2048 + 256
    assert elements((sight, sound)) == 7_849_978_192 - 6_835_235_568 - 15 * shared


def test_qwen3_omni_is_its_thinker_with_image_and_audio_towers() -> None:
    architecture = architecture_of("Qwen/Qwen3-Omni-30B-A3B-Instruct")
    assert [tower.modality for tower in architecture.towers] == ["image", "audio"]
    # As transformers counts its thinker; the parts that speak are models of their own.
    assert parameters(architecture, buffers=False) == 31_719_205_488
    assert architecture.towers[1].tokens_per_item == 30 * 13


@pytest.mark.parametrize(
    ("model", "tokens", "note"),
    [
        ("google/gemma-3-12b-it", 256, ""),
        ("google/gemma-4-26B-A4B-it", 280, ""),
        ("llava-hf/llava-1.5-7b-hf", 24 * 24, ""),
        ("microsoft/Phi-3.5-vision-instruct", 12 * 12, "per_tile"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 12 * 12, "per_tile"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", 1, "cross_attention"),
        ("LiquidAI/LFM2.5-VL-1.6B", 256, "per_tile"),
        ("Qwen/Qwen-VL-Chat-Int4", 256, ""),
        ("Qwen/Qwen2.5-VL-7B-Instruct", None, "square:28"),
        ("Qwen/Qwen3-VL-8B-Instruct", None, "square:32"),
        ("moonshotai/Kimi-K2.5", None, "square:28"),
        ("mistralai/Devstral-Small-2-24B-Instruct-2512", None, "square_rows:28"),
        ("stepfun-ai/Step-3.7-Flash", 13 * 13, "per_tile"),
        ("mistralai/Voxtral-Mini-3B-2507", 375, ""),
    ],
)
def test_an_item_takes_its_published_number_of_tokens(
    model: str, tokens: int | None, note: str
) -> None:
    (tower,) = architecture_of(model).towers
    assert (tower.tokens_per_item, tower.tokens_note) == (tokens, note)
    assert (tower.flops_per_item is None) == (tokens is None)


@pytest.mark.parametrize("model", WITH_TOWERS)
def test_towers_are_counted_apart_and_in_full(model: str) -> None:
    architecture = architecture_of(model)
    parts = parameters_by_part(architecture)
    outside = (Part.VISION, Part.AUDIO, Part.PROJECTOR)
    assert sum(parts.get(part, 0) for part in outside) == elements(
        architecture.towers, buffers=True
    )
    for tower in architecture.towers:
        assert {weight.part for weight in tower.weights} <= set(outside)
        assert tower.modality in ("image", "audio")
        assert any(weight.part is Part.PROJECTOR for weight in tower.weights) or (
            tower.name.startswith("muse")
        )
        if tower.flops_per_item is not None:
            # At least one multiply-add for each linear weight and token, so far as each sees every position.
            assert tower.flops_per_item > 0


def test_a_tower_works_more_than_its_projector_alone() -> None:
    (tower,) = architecture_of("google/gemma-3-12b-it").towers
    seen = (896 // 14) ** 2
    layers = sum(
        weight.elements
        for weight in tower.weights
        if weight.part is Part.VISION and weight.shape is Shape.LINEAR
    )
    attention = 4 * 27 * 1152 * seen**2
    assert tower.flops_per_item is not None
    assert 2 * layers * seen + attention < tower.flops_per_item
    assert tower.flops_per_item < 1.01 * (2 * layers * seen + attention)


# --- What a configuration leaves out --------------------------------------------------------------------------------


def test_a_language_model_alone_has_no_towers() -> None:
    assert towers_of(model_profile("Qwen/Qwen3-8B").config) == ()
    assert towers_of({"model_type": "unheard_of"}) == ()


@pytest.mark.parametrize(
    "key", sorted(key for key in VARIANTS if key not in ("voxtral", "step3p7"))
)
def test_without_its_section_a_tower_is_left_out(key: str) -> None:
    config = {
        name: value for name, value in VARIANTS[key]["config"].items() if name != "vision_config"
    }
    assert towers_of(config) == ()
    assert architecture_from_config(config).modality == "text"


def test_audio_alone_makes_an_audio_model() -> None:
    assert architecture_from_config(VARIANTS["voxtral"]["config"]).modality == "audio-text"
    assert architecture_from_config(VARIANTS["gemma4"]["config"]).modality == "omni"


@pytest.mark.parametrize(
    ("key", "change", "named"),
    [
        ("gemma3", {"image_size": 10}, "vision_config.image_size"),
        ("gemma3", {"hidden_size": "wide"}, "vision_config.hidden_size"),
        ("internvl", {"patch_size": [14]}, "vision_config.patch_size"),
        ("internvl", {"norm_type": "batch_norm"}, "vision_config.norm_type"),
        ("qwen2_vl", {"mlp_ratio": -1}, "vision_config.mlp_ratio"),
        ("kimi_k25", {"merge_kernel_size": [2]}, "vision_config.merge_kernel_size"),
        ("mllama", {"max_num_tiles": 0}, "vision_config.max_num_tiles"),
    ],
)
def test_a_wrong_key_of_a_tower_is_refused_by_its_path(
    key: str, change: dict[str, Any], named: str
) -> None:
    config = copy.deepcopy(VARIANTS[key]["config"])
    config["vision_config"].update(change)
    with pytest.raises(InvalidConfig) as refusal:
        towers_of(config)
    assert refusal.value.values["key"] == named
