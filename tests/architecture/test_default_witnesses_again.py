"""The committed witnesses of default configurations, made once more: all parameters, some caches and FLOP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.architecture.config_folder import read_witnesses

pytestmark = [pytest.mark.measure, pytest.mark.slow]

FIGURES: dict[str, Any] = read_witnesses()
TYPES = [(task, name) for task in ("causal", "image") for name in FIGURES[task]]
# One of each kind of cache: plain, windowed, latent with an indexer, compressed, recurrent, mixed, encoder's.
WHOLE = [
    ("causal", "llama"),
    ("causal", "gpt_oss"),
    ("causal", "gemma3_text"),
    ("causal", "deepseek_v32"),
    ("causal", "mamba2"),
    ("causal", "qwen3_next"),
    ("causal", "bart"),
    ("image", "qwen2_vl"),
]


@pytest.mark.parametrize(("task", "model_type"), TYPES)
def test_parameters_come_out_the_same_again(task: str, model_type: str) -> None:
    from tests.golden import defaults_cases as cases
    from tests.golden import generate_defaults as again
    from tests.golden import witness

    committed = FIGURES[task][model_type]
    try:
        name, configuration = again.default_configuration(task, model_type)
        stated = json.loads(json.dumps(cases.kept(configuration.to_dict()), default=str))
        model = again.build(name, configuration)
    except again.FAILURES:
        assert "not_built" in committed
        return
    assert again.config_hash({**stated, "architectures": [name]}) == committed["sha256"]
    assert witness.parameters(model) == committed["parameters"]


@pytest.mark.parametrize(("task", "model_type"), WHOLE)
def test_caches_and_flops_come_out_the_same_again(task: str, model_type: str) -> None:
    from tests.golden import generate_defaults as again

    made = json.loads(json.dumps(again.figures(task, model_type)))
    assert made == FIGURES[task][model_type]


def test_the_lists_are_transformers_own() -> None:
    from tests.golden import generate_defaults as again

    assert {task: sorted(types) for task, types in again.type_lists().items()} == {
        task: sorted(FIGURES[task]) for task in ("causal", "image")
    }
    assert FIGURES["versions"] == again.witness.versions()


def test_what_a_cache_holds_is_known_by_name() -> None:
    from tests.golden import generate_defaults as again
    from tests.golden import witness_cache

    for task, model_type in WHOLE:
        name, configuration = again.default_configuration(task, model_type)
        assert witness_cache.unknown_names(again.build(name, configuration)) == set()
