"""Cache and model sizes against what llama.cpp and its fork print when they load a model, row by row."""

from __future__ import annotations

import pytest

from planner.architecture.cache import cache_layout
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.totals import parameters
from planner.catalog.measurements import Measurement, measured_shapes, measurements
from planner.deployment import resolve
from planner.measure.memory_accuracy import memory_scenario, predicted_memory
from planner.memory.pool import pool_layout, sequence_bytes
from planner.memory_limits import budget_of
from planner.quantity import MIB
from tests.memory.budgets import settings_of

ROWS = measurements("llama-cpp-memory")
CACHES = [row for row in ROWS if "kv_bytes" in row.measured]
SIZES = [row for row in ROWS if "weights_bytes" in row.measured]
# Files that hold another mixture than their file type's name says.
OTHER_MIXTURES = {"lw05", "lw19", "lw20"}


def predicted(row: Measurement, quantity: str) -> float:
    scenario = memory_scenario(row)
    deployment = resolve(scenario)
    budget = budget_of(deployment, scenario)
    return predicted_memory(row, scenario, deployment, budget, quantity)[1]


@pytest.mark.parametrize("row", CACHES, ids=[row.id for row in CACHES])
def test_the_cache_is_what_the_engine_prints(row: Measurement) -> None:
    # The engine prints hundredths of a MiB.
    printed = row.measured["kv_bytes"] / MIB
    assert round(predicted(row, "kv_bytes") / MIB, 2) == pytest.approx(printed, abs=0.0101)


@pytest.mark.parametrize("row", SIZES, ids=[row.id for row in SIZES])
def test_the_model_is_within_a_hundredth_of_its_size(row: Measurement) -> None:
    size = predicted(row, "weights_bytes")
    if row.id in OTHER_MIXTURES:
        assert size < row.measured["weights_bytes"]
    else:
        assert size == pytest.approx(row.measured["weights_bytes"], rel=0.01)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("zai-org/GLM-Z1-32B-0414", 32.566),
        ("microsoft/bitnet-b1.58-2B-4T", 2.413),
        ("microsoft/bitnet-b1.58-2B-4T (own head)", 2.741),
        ("ibm-granite/granite-3.1-2b-instruct", 2.534),
    ],
)
def test_models_of_no_catalogue_have_the_parameters_that_their_logs_print(
    name: str, billions: float
) -> None:
    model = architecture_from_config(dict(measured_shapes()[name]))
    assert parameters(model) / 1e9 == pytest.approx(billions, abs=1e-3)


def test_without_windows_every_layer_keeps_the_whole_context() -> None:
    model, tokens = architecture_of("openai/gpt-oss-120b"), 131072.0
    settings = settings_of("llama.cpp", "b8000", 79.19)
    whole = cache_layout(model, 2.0, 2.0, 2.0, ignore_windows=True)
    # 36 layers of 8 heads of 64: twice the 18 layers without a window.
    held = sequence_bytes(pool_layout(model, whole, settings), tokens)
    assert held == 9216 * MIB
