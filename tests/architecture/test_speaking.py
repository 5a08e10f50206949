"""Parts that speak: their size, and which engine holds them."""

from __future__ import annotations

from typing import Any

import pytest

from planner import Scenario, evaluate
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.speaking import speaking_parameters
from planner.architecture.stored_elements import explain
from planner.architecture.totals import parameters
from planner.catalog.models import model_profile
from planner.errors import InvalidConfig

OMNI = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
# transformers 5.24 on the meta device: the talker with its code predictor, the vocoder.
TALKER, VOCODER = 3_324_596_480, 216_016_577


def _config() -> dict[str, Any]:
    return dict(model_profile(OMNI).config)


def test_each_part_has_as_many_parameters_as_transformers_builds() -> None:
    config = _config()
    assert speaking_parameters(config) == TALKER + VOCODER
    del config["code2wav_config"]
    assert speaking_parameters(config) == TALKER
    assert speaking_parameters({"model_type": "qwen3_omni_moe"}) == 0


def test_a_model_that_was_told_not_to_speak_has_none() -> None:
    assert speaking_parameters({**_config(), "enable_audio_output": False}) == 0


def test_they_are_no_part_of_the_count_and_named_beside_a_total() -> None:
    model = architecture_of(OMNI)
    own = parameters(model)
    found = explain(model, model_profile(OMNI).config, own + TALKER + VOCODER)
    assert [(cause.code, cause.elements) for cause in found.causes] == [
        ("speaking_parts", TALKER + VOCODER)
    ]


def test_only_transformers_holds_them() -> None:
    codes = {}
    needed = {}
    for config in (_config(), {**_config(), "enable_audio_output": False}):
        for engine in ("transformers", "vllm"):
            values = {"model": "omni", "config": config, "gpu": "h200-sxm", "engine": engine}
            answer = evaluate(Scenario.parse(values))
            speaks = config["enable_audio_output"]
            needed[engine, speaks] = answer.memory.needed_bytes_per_gpu.mid
            codes[engine, speaks] = {
                note.code for note in answer.assumptions if note.code.startswith("speech_parts")
            }
    more = needed["transformers", True] - needed["transformers", False]
    assert more == pytest.approx(2.0 * (TALKER + VOCODER), rel=1e-9)
    assert needed["vllm", True] == needed["vllm", False]
    assert codes == {
        ("transformers", True): {"speech_parts_loaded"},
        ("vllm", True): {"speech_parts_left_out"},
        ("transformers", False): set(),
        ("vllm", False): set(),
    }


def test_a_broken_section_is_refused_by_key() -> None:
    config = _config()
    config["talker_config"] = {**config["talker_config"], "text_config": {"hidden_size": -1}}
    with pytest.raises(InvalidConfig) as refusal:
        architecture_from_config(config)
    assert refusal.value.values["key"] == "talker_config.text_config.hidden_size"
