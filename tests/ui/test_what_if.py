"""What would change the verdict: each change found does, and none that is nearer does."""

from __future__ import annotations

import pytest

from planner.evaluation import Evaluation, evaluate
from planner.scenario import Scenario
from planner.ui import choices
from planner.ui.permalink import DEFAULTS
from planner.ui.presets import OPENING
from planner.ui.what_if import LEVELS, MOST_SHOWN, nearest_changes

CASES = {
    "fits": {},
    "users": {"concurrency": 64},
    "weights": {"weights": "bf16"},
    "large": {"model": "meta-llama/Llama-3.3-70B-Instruct", "weights": "native", "engine": "vllm"},
    "several": {
        "model": "deepseek-ai/DeepSeek-V3",
        "gpu": "h200-sxm-141gb",
        "gpus": 8,
        "weights": "native",
        "engine": "vllm",
        "concurrency": 16,
    },
    "under_transformers": {
        "model": "meta-llama/Llama-3.3-70B-Instruct",
        "gpu": "rtx-4090",
        "weights": "bf16",
    },
    "tight": {
        "model": "openai/gpt-oss-120b",
        "gpu": "h100-sxm-80gb",
        "weights": "native",
        "engine": "vllm",
    },
}


def answer(changes: dict[str, object]) -> Evaluation:
    return evaluate(Scenario.parse({**DEFAULTS, **OPENING, **changes}))


@pytest.mark.parametrize("case", CASES)
def test_each_change_alters_the_verdict_as_it_says(case: str) -> None:
    start = answer(CASES[case])
    before = LEVELS.index(start.memory.verdict)
    found = nearest_changes(start)
    assert 1 <= len(found) <= MOST_SHOWN
    for change in found:
        after = evaluate(start.scenario.replace(**change.changes))
        assert after.memory.verdict == change.verdict
        assert float(after.memory.needed_bytes_per_gpu.mid) == pytest.approx(change.needed_bytes)
        assert (LEVELS.index(change.verdict) < before) if before else change.verdict != "fits"


@pytest.mark.parametrize("case", CASES)
def test_nearest_comes_first_and_each_kind_once(case: str) -> None:
    found = nearest_changes(answer(CASES[case]), most=20)
    distances = [change.distance for change in found]
    assert distances == sorted(distances)
    assert len({change.kind for change in found}) == len(found)


@pytest.mark.parametrize(("field", "kind", "stops"), [
    ("input_tokens", "prompt", choices.TOKEN_STOPS),
    ("concurrency", "users", choices.USER_STOPS),
])  # fmt: skip
def test_no_nearer_step_would_do(field: str, kind: str, stops: tuple[int, ...]) -> None:
    start = answer({})
    change = next(found for found in nearest_changes(start, most=20) if found.kind == kind)
    reached = change.changes[field]
    current = getattr(start.scenario, field)
    between = [stop for stop in stops if current < stop < reached]
    for stop in between:
        assert evaluate(start.scenario.replace(**{field: stop})).memory.verdict == "fits"


def test_a_workload_that_is_too_large_is_told_how_many_people_fit() -> None:
    start = answer({"concurrency": 64})
    assert start.memory.verdict == "does_not_fit"
    change = next(found for found in nearest_changes(start, most=20) if found.kind == "users")
    assert change.changes["concurrency"] <= int(start.memory.max_concurrency.mid)


def test_a_change_keeps_everything_else() -> None:
    start = answer({"weights": "bf16", "concurrency": 3, "output_tokens": 77})
    for change in nearest_changes(start):
        kept = {
            name: value
            for name, value in start.scenario.model_dump().items()
            if name not in change.changes
        }
        assert {name: getattr(change.scenario, name) for name in kept} == kept


def test_another_card_is_asked_to_hold_the_whole_model() -> None:
    start = answer(
        {"gpu": "rtx-4090", "engine": "llama.cpp", "weights": "gguf:Q4_K_M", "gpu_layers": 5}
    )
    for change in nearest_changes(start, most=20):
        if change.kind == "card":
            assert change.scenario.gpu_layers is None
            break
    else:
        pytest.fail("no other card")


def test_who_has_one_card_is_offered_what_runs_on_it() -> None:
    start = answer(CASES["under_transformers"])
    found = {change.kind: change for change in nearest_changes(start)}
    assert {"llama_cpp", "llama_cpp_host"} <= set(found)
    assert found["llama_cpp"].gpus == found["llama_cpp_host"].gpus == 1
    layers = found["llama_cpp_host"].changes["gpu_layers"]
    # One layer more on the GPU wouldn't fit.
    more = start.scenario.replace(**{**found["llama_cpp_host"].changes, "gpu_layers": layers + 1})
    assert evaluate(more).memory.verdict == "does_not_fit"


def test_nobody_is_told_to_add_a_processor() -> None:
    own = {
        "name": "AMD EPYC, 2 cores", "kind": "cpu", "memory_usable_bytes": 25.2e9, "bandwidth_bytes_per_s": 2e10,
        "peaks": {"bf16": 2e11, "fp32": 1e11}, "measured_on": "2026-11-30",
    }  # fmt: skip
    start = answer({"gpu": "own-amd-epyc-2-cores", "device": own, "weights": "native"})
    assert start.memory.verdict == "does_not_fit"
    kinds = {change.kind for change in nearest_changes(start, most=20)}
    assert kinds
    assert not kinds & {"gpus", "card"}
    assert "remedy_more_gpus" not in {note.code for note in start.memory.remedies}
