"""Ready-made scenarios: each is answered, and recognised again."""

from __future__ import annotations

import pytest

from planner.evaluation import evaluate
from planner.scenario import Scenario
from planner.ui.permalink import DEFAULTS
from planner.ui.presets import (
    OPENING,
    PRESETS,
    WORKLOAD_FIELDS,
    WORKLOADS,
    Preset,
    preset_of,
    workload_of,
)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.id)
def test_a_preset_can_be_answered_and_fits(preset: Preset) -> None:
    answer = evaluate(Scenario.parse({**DEFAULTS, **preset.values}))
    assert answer.memory.verdict != "does_not_fit"
    assert answer.speed.decode_tokens_per_s is not None


def test_the_app_opens_on_the_experiment() -> None:
    assert PRESETS[0].values is OPENING
    answer = evaluate(Scenario.parse({**DEFAULTS, **OPENING}))
    assert answer.model.name.startswith("Gemma 3 12B")
    assert answer.deployment.accelerator == "t4"
    assert answer.deployment.weights_format == "nf4"
    # The note that the project began with saw about half of the T4's memory taken after loading.
    share = float(answer.memory.weights_bytes_per_gpu.mid) / float(
        answer.memory.usable_bytes_per_gpu.mid
    )
    assert 0.45 < share < 0.6


def test_presets_are_recognised() -> None:
    for preset in PRESETS:
        values = {**DEFAULTS, **preset.values}
        assert preset_of(values, DEFAULTS) == preset.id
        assert preset_of({**values, "input_tokens": 777}, DEFAULTS) is None


def test_workloads_are_recognised_and_differ() -> None:
    assert len({tuple(shape.items()) for shape in WORKLOADS.values()}) == len(WORKLOADS)
    for name, shape in WORKLOADS.items():
        assert set(shape) == set(WORKLOAD_FIELDS)
        assert workload_of({**DEFAULTS, **OPENING, **shape}) == name
    assert workload_of({**DEFAULTS, **OPENING, "input_tokens": 777}) is None
