"""Which models an engine serves: what its lists say, and what becomes of the rest."""

from __future__ import annotations

import pytest

from planner import Scenario, evaluate
from planner.architecture.resolve import architecture_of, supported_model_types
from planner.catalog.accelerators import accelerator
from planner.catalog.engines import default_engine, engine_ids, runs_on
from planner.catalog.models import model_ids
from planner.catalog.served import Service, may_serve, served_by
from planner.errors import Unsupported
from planner.ui.choices import engine_choices, model_type_of


@pytest.mark.parametrize("engine_id", engine_ids())
def test_lists_are_of_types_that_are_known_and_contradict_nothing(engine_id: str) -> None:
    served = served_by(engine_id)
    until = {name for name, _ in served.until}
    assert not served.listed & served.lacking
    assert not until & (served.listed | served.lacking)
    assert served.listed | served.lacking | until <= set(supported_model_types())


@pytest.mark.parametrize(
    ("engine_id", "version", "model_type", "expected"),
    [
        ("vllm", "0.19", "llama", Service.LISTED),
        ("vllm", "0.19", "t5", Service.LACKING),
        ("vllm", "0.19", "rwkv5", Service.LACKING),
        ("vllm", "0.19", "whisper", Service.LISTED),
        ("vllm", "0.10.2", "mllama", Service.LISTED),
        ("vllm", "0.11", "mllama", Service.LACKING),
        ("vllm", "0.19", "brand_new", Service.UNLISTED),
        ("sglang", "0.5.9", "mllama", Service.LISTED),
        ("sglang", "0.5.9", "zamba2", Service.LACKING),
        ("tensorrt-llm", "1.4", "t5", Service.LISTED),
        ("tensorrt-llm", "1.4", "rwkv", Service.LACKING),
        ("llama.cpp", "b9000", "t5", Service.LISTED),
        ("llama.cpp", "b9000", "mllama", Service.LACKING),
        ("transformers", "5.24", "brand_new", Service.LISTED),
    ],
)
def test_what_the_lists_say(
    engine_id: str, version: str, model_type: str, expected: Service
) -> None:
    assert served_by(engine_id).of(model_type, version) is expected


def test_every_catalogue_model_has_an_engine_by_default_that_serves_it() -> None:
    card = accelerator("h100-sxm-80gb")
    for model_id in model_ids():
        model_type = architecture_of(model_id).model_type
        assert may_serve(default_engine("native", card, model_type), model_type), model_id


def test_an_engine_that_does_not_serve_a_model_is_refused_with_those_that_do() -> None:
    scenario = Scenario(model="google-t5/t5-base", gpu="h100", engine="vllm")
    with pytest.raises(Unsupported) as refusal:
        evaluate(scenario)
    assert (refusal.value.code, refusal.value.field) == ("model_not_served", "engine")
    assert refusal.value.values["model_type"] == "t5"
    nearest = refusal.value.values["nearest"]
    assert {"llama.cpp", "tensorrt-llm", "transformers"} == set(nearest)
    for name in nearest:
        assert runs_on(name, accelerator("h100"))
        evaluate(scenario.replace(engine=name))


def test_engines_that_list_a_model_are_named_before_those_that_may_run_it() -> None:
    scenario = Scenario(
        model="meta-llama/Llama-3.2-11B-Vision-Instruct", gpu="h100", engine="llama.cpp"
    )
    with pytest.raises(Unsupported) as refusal:
        evaluate(scenario)
    said = [served_by(name).of("mllama", "9") for name in refusal.value.values["nearest"]]
    assert said == sorted(said, key=lambda one: one is Service.UNLISTED)


def test_a_model_that_no_list_names_is_answered_with_a_note() -> None:
    evaluation = evaluate(Scenario(model="allenai/OLMo-7B-hf", gpu="h100", engine="tensorrt-llm"))
    note = next(note for note in evaluation.assumptions if note.code == "model_unlisted_otherwise")
    assert note.values["model_type"] == "olmo"
    listed = evaluate(Scenario(model="allenai/OLMo-7B-hf", gpu="h100", engine="vllm"))
    assert not any(note.code.startswith("model_unlisted") for note in listed.assumptions)


def test_the_sidebar_marks_engines_that_do_not_serve_the_model() -> None:
    values = {"model": "google-t5/t5-base", "config": None}
    offered = engine_choices(accelerator("h100"), model_type_of(values))
    assert {choice.id for choice in offered if not choice.runs} == {"vllm", "sglang"}
    assert [choice.runs for choice in offered] == sorted(
        (choice.runs for choice in offered), reverse=True
    )
    assert model_type_of({"model": "no such model", "config": None}) == ""
