"""A scenario from Python: what can't be meant is refused by field, with what may be, in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from planner import Scenario, evaluate
from planner.errors import InvalidInput, PlannerError, brief
from planner.ui.locale import LANGUAGES, catalogue, say_error

GOOD: dict[str, Any] = {"model": "gpt2", "gpu": "t4"}
WRONG: list[tuple[dict[str, Any], str, tuple[str, ...]]] = [
    ({"gpu": 4}, "gpu", ("text",)),
    ({"gpu": None}, "gpu", ("text",)),
    ({"gpu": "x" * 101}, "gpu", ("100",)),
    ({"gpu": "\ud800"}, "gpu", ("UTF-8",)),
    ({"gpus": "2"}, "gpus", ("whole number", "“2”")),
    ({"gpus": 2.5}, "gpus", ("whole number", "2.5")),
    ({"gpus": 0}, "gpus", ("0", "the least is 1")),
    ({"gpus": 10**9000}, "gpus", ("2^29897", "the most is 4,096")),
    ({"concurrency": True}, "concurrency", ("whole number", "True")),
    ({"concurrency": [1, 2]}, "concurrency", ("whole number", "list")),
    ({"gpu_memory_gib": "16"}, "gpu_memory_gib", ("number", "“16”")),
    ({"gpu_memory_gib": float("nan")}, "gpu_memory_gib", ("finite", "nan")),
    ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization", ("1.5", "the most is 1")),
    ({"gpu_memory_utilization": 0}, "gpu_memory_utilization", ("0", "above 0")),
    ({"include_mtp": 1}, "include_mtp", ("true or false",)),
    ({"config": "{}"}, "config", ("JSON object",)),
    ({"users": 4}, "users", ("no field",)),
]


@pytest.mark.parametrize(("changes", "field", "said"), WRONG)
def test_wrong_values_are_refused_by_field(
    changes: dict[str, Any], field: str, said: tuple[str, ...]
) -> None:
    def replaced(**values: Any) -> Scenario:
        return Scenario(**GOOD).replace(**values)

    for make in (Scenario, replaced):
        with pytest.raises(PlannerError) as refusal:
            make(**GOOD | changes)
        assert isinstance(refusal.value, InvalidInput)
        assert refusal.value.field == field
        for language in LANGUAGES:
            assert f"error.{refusal.value.code}" in catalogue(language)
        sentence = say_error(refusal.value, "en")
        assert all(part in sentence for part in (field, *said)), sentence


def test_a_field_that_is_needed_is_named() -> None:
    with pytest.raises(InvalidInput) as refusal:
        Scenario(model="gpt2")  # type: ignore[call-arg]
    assert (refusal.value.code, refusal.value.field) == ("scenario_missing", "gpu")


def test_what_can_be_meant_is_answered_as_it_was_given() -> None:
    scenario = Scenario(**GOOD, gpu_memory_gib=15)
    assert Scenario.parse({**GOOD, "gpu_memory_gib": "15"}) == scenario
    assert Scenario.model_validate(scenario.model_dump()) == scenario
    assert evaluate(scenario.replace(gpu_memory_gib=None)).scenario == Scenario(**GOOD)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 61, "x" * 60),
        (1.5, "1.5"),
        (None, "None"),
        (-7, "-7"),
        (-(2**300), "-2^300"),
        ([1] * 1000, "list"),
        ({}, "dict"),
    ],
)
def test_a_value_is_shown_in_brief(value: object, shown: str) -> None:
    assert brief(value) == shown
