"""The most memory that tensors take at once: what is alive together, whatever the allocator holds beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.deployment import resolve
from planner.measure import bench_model
from planner.measure.build import Built, build
from planner.measure.clock import Timer
from planner.measure.comparison import _tensors
from planner.measure.peak import Peak
from planner.memory_answer import memory_answer, verdict_of
from planner.memory_limits import budget_of
from planner.scenario import Scenario
from tests.measure.tiny import LLAMA

ROOT = Path(__file__).resolve().parents[2]
# Wide enough for activations to outweigh what every operation allocates besides.
WIDE = LLAMA | {"hidden_size": 512, "intermediate_size": 2048, "vocab_size": 4000}
pytestmark = pytest.mark.measure


def on_cpu(weights_bytes: float = 0.0) -> Built:
    return Built(None, Timer("cpu", "cpu"), 1, 1, "", weights_bytes)


def test_tensors_count_while_they_are_alive() -> None:
    import torch

    peak = Peak(on_cpu(1000.0))
    assert peak.bytes() is None
    with peak.recording():
        first = torch.empty(3_000_000, dtype=torch.uint8)
        del first
        both = torch.empty(2_000_000, dtype=torch.uint8), torch.empty(2_500_000, dtype=torch.uint8)
        del both
        last = torch.empty(4_000_000, dtype=torch.uint8)
        del last
    assert peak.bytes() == pytest.approx(1000.0 + 4_500_000, rel=1e-3)


def test_only_the_first_pass_is_recorded() -> None:
    import torch

    peak = Peak(on_cpu())
    for size in (1_000_000, 9_000_000):
        with peak.recording():
            torch.empty(size, dtype=torch.uint8)
    assert peak.bytes() == pytest.approx(1_000_000, rel=1e-3)


def test_a_pass_is_not_recorded_where_nobody_asks() -> None:
    built = build(LLAMA, "bf16", "native", Timer("cpu", "cpu"))
    assert bench_model.prefill(built, 16, 1, budget_s=0.0, memory=False).peak_bytes is None
    assert bench_model.decode(built, 16, 1, steps=3, budget_s=0.0, memory=False).peak_bytes is None


def test_a_gpu_counts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    resets: list[Any] = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", resets.append)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 7_000)
    timer: Any = SimpleNamespace(kind="cuda", device="cuda:0")
    peak = Peak(Built(None, timer, 1, 1, "", 5_000.0))
    with peak.recording():
        torch.empty(1_000_000, dtype=torch.uint8)
    assert (resets, peak.bytes()) == (["cuda:0"], 7_000.0)


@pytest.mark.parametrize(("kind", "tokens", "batch"), [("prefill", 512, 1), ("decode", 256, 2)])
def test_a_model_takes_what_the_planner_says(kind: str, tokens: int, batch: int) -> None:
    """Weights apart, whose size both know: the cache and the widest layer's activations, which a pass allocates."""
    import torch

    built = build(WIDE, "bf16", "native", Timer(torch.device("cpu"), "cpu"))
    bench_model.warm(built)
    if kind == "prefill":
        found = bench_model.prefill(built, tokens, batch, budget_s=0.0)
    else:
        found = bench_model.decode(built, tokens, batch, steps=3, budget_s=0.0)
    scenario = Scenario.parse(
        {
            "config": WIDE,
            "gpu": "h100-sxm-80gb",
            "engine": "transformers",
            "weights": "bf16",
            "input_tokens": tokens,
            "output_tokens": 1,
            "concurrency": batch,
        }
    )
    deployment = resolve(scenario)
    budget = budget_of(deployment, scenario)
    verdict = verdict_of(deployment, scenario, budget)
    predicted = _tensors(memory_answer(deployment, scenario, budget, verdict)).mid
    assert found.peak_bytes is not None
    beyond = found.peak_bytes - built.weights_bytes
    assert predicted - built.weights_bytes == pytest.approx(beyond, rel=0.15)


def test_what_ran_before_does_not_count() -> None:
    import torch

    timer = Timer(torch.device("cpu"), "cpu")
    built = build(WIDE, "bf16", "native", timer)
    before = bench_model.prefill(built, 64, 1, budget_s=0.0).peak_bytes
    bench_model.prefill(built, 1024, 2, budget_s=0.0)
    assert bench_model.prefill(built, 64, 1, budget_s=0.0).peak_bytes == before


def test_recording_says_nothing_of_its_own() -> None:
    script = (
        "from tests.measure.test_peak import on_cpu, Peak\n"
        "with Peak(on_cpu()).recording():\n    import torch; torch.empty(10)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
