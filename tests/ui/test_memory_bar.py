"""The bar of one card: its parts are the answer's, and they sum to the card."""

from __future__ import annotations

from typing import Any

import pytest

from planner.evaluation import Evaluation, evaluate
from planner.scenario import Scenario
from planner.ui.locale import LANGUAGES, catalogue, text
from planner.ui.memory_bar import COLOURS, filling
from planner.ui.permalink import DEFAULTS
from planner.ui.presets import PRESETS
from tests.ui.driver import clean, open_app, words

LLAMA = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "l40s", "weights": "native"}
CASES: dict[str, dict[str, Any]] = {
    **{preset.id: preset.values for preset in PRESETS},
    **{
        engine: {**LLAMA, "engine": engine}
        for engine in ("vllm", "sglang", "tensorrt-llm", "transformers")
    },
    "llama.cpp": {**LLAMA, "engine": "llama.cpp", "weights": "gguf:Q4_K_M"},
}


def answer(values: dict[str, Any]) -> Evaluation:
    return evaluate(Scenario.parse({**DEFAULTS, **values}))


@pytest.mark.parametrize("case", CASES)
def test_the_parts_are_the_card(case: str) -> None:
    evaluation = answer(CASES[case])
    full = filling(evaluation)
    sizes = {part.name: part.size_bytes for part in full.components}
    assert evaluation.memory.verdict != "does_not_fit"
    assert full.over_bytes == pytest.approx(0.0, abs=1.0)
    assert sum(sizes.values()) == pytest.approx(full.usable_bytes, rel=0.02)
    assert sizes["weights"] == float(evaluation.memory.weights_bytes_per_gpu.mid)
    needed = sum(sizes.get(name, 0.0) for name in ("weights", "activations", "runtime", "cache"))
    assert needed == pytest.approx(float(evaluation.memory.needed_bytes_per_gpu.mid), rel=1e-6)
    assert 0.0 < full.limit_bytes <= full.usable_bytes * (1 + 1e-9)


def test_what_is_too_much_is_told() -> None:
    full = filling(answer({**LLAMA, "engine": "vllm", "concurrency": 400}))
    taken = sum(part.size_bytes for part in full.components if part.name not in {"outside", "free"})
    assert full.over_bytes == pytest.approx(taken - full.limit_bytes)
    assert full.over_bytes > 0.0


def test_a_parallel_deployment_shows_one_card() -> None:
    four = answer(PRESETS[2].values)
    assert four.deployment.gpus == 4
    full = filling(four)
    assert full.usable_bytes == float(four.memory.usable_bytes_per_gpu.mid)
    assert full.components[0].size_bytes < 0.3 * float(four.memory.weights_bytes.mid)


def test_every_part_but_the_free_one_has_a_colour() -> None:
    names = {part.name for case in CASES.values() for part in filling(answer(case)).components}
    assert names - {"free"} <= COLOURS.keys()


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_engine_adds_to_the_models_own_cache_is_said(language: str) -> None:
    app = open_app(lang=language)  # Gemma 3 under transformers: 464 MiB, and 6 % for the allocator
    clean(app)
    size = 464 * 2.0**20
    told = text("bar.cache_more", language, own=size, users=1, more=0.06 * size)
    assert told in words(app)
    exact = open_app(
        lang=language, v="1", **{key: f"{value}" for key, value in CASES["llama_l4"].items()}
    )
    start = catalogue(language)["bar.cache_more"].partition("{")[0]
    assert start not in words(exact)
