"""Prompts read in steps of few tokens: each reads the weights, and no fitted figure moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.evaluation import evaluate
from planner.explain import explain
from planner.quantity import Basis
from planner.scenario import Scenario
from planner.speed.bounds import chunk_bytes, ttft_bound
from planner.speed.chunks import chunk_overhead, steps_of
from planner.speed.serving_point import serving_point
from planner.speed.step import decode_step
from planner.sweeps import ttft_curve
from tests.speed.conditions import setting
from tests.speed.models import LLAMA_8B, MATRICES, work_of

LONG = {"input_tokens": 8000.0, "output_tokens": 256.0}
LLAMA = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "h100", "engine": "vllm"}


def point(budget, users=1.0, model=None, **changes):
    hardware, constants = setting()
    work = model or work_of(LLAMA_8B)
    given_ = {**LONG, "concurrency": users, "max_num_batched_tokens": budget, **changes}
    return serving_point(work, hardware, constants, **given_)


def test_steps_are_whole_and_at_least_one():
    assert steps_of(8000.0, 16.0) == 500.0
    assert steps_of(8001.0, 16.0) == 501.0
    assert steps_of(8.0, 16.0) == steps_of(8.0, float("inf")) == 1.0
    assert list(steps_of(np.array([8.0, 33.0]), 16.0)) == [1.0, 3.0]
    assert steps_of(8.0, -3.0) == 8.0  # all places taken by others: a token a step


def test_every_step_reads_the_weights():
    hardware, constants = setting()
    model = work_of(LLAMA_8B)
    slow = point(16.0)
    step = decode_step(
        model, hardware, constants, 1.0, 4000.0, 15.0, prompt_tokens=8000.0, chunk_tokens=16.0
    ).total_s
    whole = decode_step(
        model, hardware, constants, 1.0, 4000.0, 1999.0, prompt_tokens=8000.0, chunk_tokens=2000.0
    ).total_s
    added = slow.ttft_unloaded_s - point(float("inf")).ttft_unloaded_s
    # No component counts below 0, so that it is at least the difference of the sums.
    assert added >= 500 * step - 4 * whole
    assert added == pytest.approx(500 * step - 4 * whole, rel=0.1)
    assert slow.ttft_s > 500 * 2 * MATRICES / hardware.bandwidth_bytes_per_s * 0.9
    assert sum(slow.prefill.parts().values()) == pytest.approx(slow.ttft_unloaded_s)
    assert slow.prefill_bound_by == "bandwidth"
    assert point(float("inf")).prefill_bound_by == "compute"


@pytest.mark.parametrize("users", [1.0, 64.0])
def test_default_budgets_leave_fitted_figures_as_they_are(users):
    for budget in (2048.0, 8192.0, 16384.0):
        assert chunk_overhead(
            work_of(LLAMA_8B), *setting(), input_tokens=8000.0, cached_tokens=0.0,
            max_num_batched_tokens=budget,
        ) is None  # fmt: skip
        assert point(budget).ttft_unloaded_s == point(float("inf")).ttft_unloaded_s
    together = point(np.array([512.0, 2048.0, 8192.0]), users)
    one = [point(budget, users) for budget in (512.0, 2048.0, 8192.0)]
    np.testing.assert_allclose(together.ttft_s, [float(p.ttft_s) for p in one], rtol=1e-12)
    np.testing.assert_allclose(
        together.ttft_unloaded_s, [float(p.ttft_unloaded_s) for p in one], rtol=1e-12
    )


def test_other_kinds_of_engine_are_left_alone():
    hardware, constants = setting()
    for kind in ("slots", "static"):
        other = replace(constants, kind=kind)
        assert chunk_overhead(
            work_of(LLAMA_8B), hardware, other, input_tokens=8000.0, cached_tokens=0.0,
            max_num_batched_tokens=16.0,
        ) is None  # fmt: skip


def test_the_cached_part_of_a_prompt_takes_no_steps():
    assert point(64.0, cached_tokens=7936.0).ttft_s < 0.1 * point(64.0).ttft_s


def test_decoding_sequences_leave_fewer_tokens_of_a_step():
    model = work_of(LLAMA_8B)
    alone, beside = (
        chunk_overhead(
            model, *setting(), input_tokens=8000.0, cached_tokens=0.0,
            max_num_batched_tokens=64.0, batch=batch, context_tokens=100.0,
        ).total_s
        for batch in (1.0, 33.0)
    )  # fmt: skip
    assert 1.8 * alone < beside < 2.6 * alone


@given(
    budget=st.integers(1, 4000),
    smaller=st.integers(1, 4000),
    inputs=st.integers(1, 100_000),
    users=st.integers(1, 300),
)
@settings(max_examples=150, deadline=None)
def test_no_budget_beats_the_floor_and_a_smaller_one_is_no_faster(budget, smaller, inputs, users):
    hardware, _ = setting()
    model = work_of(LLAMA_8B)
    inputs = float(inputs)
    tighter, wider = sorted((float(budget), float(smaller)))
    slow, fast = (point(b, input_tokens=inputs) for b in (tighter, wider))
    # A last step with few tokens makes equal counts of steps equal work; more steps are never faster.
    assert slow.ttft_unloaded_s >= fast.ttft_unloaded_s * (1 - 1e-9)
    for limit, found in ((tighter, slow), (wider, fast)):
        floor = ttft_bound(model, hardware, inputs, chunk_tokens=limit).seconds
        assert floor <= found.ttft_unloaded_s
    crowd = point(tighter, float(users), input_tokens=inputs)
    assert np.isfinite(crowd.ttft_s)
    assert crowd.ttft_s >= ttft_bound(model, hardware, inputs, chunk_tokens=tighter).seconds


def test_the_floor_counts_the_weights_of_each_step_but_the_head_once():
    hardware, _ = setting()
    model = work_of(LLAMA_8B)
    head = 2 * 128256 * 4096
    assert chunk_bytes(model) == pytest.approx(2 * MATRICES - head)
    floor = ttft_bound(model, hardware, 8000.0, chunk_tokens=16.0).seconds
    bytes_ = 2 * MATRICES + 499 * (2 * MATRICES - head)
    assert floor == pytest.approx(bytes_ / hardware.bandwidth_bytes_per_s)
    assert ttft_bound(model, hardware, 16.0, chunk_tokens=16.0) == ttft_bound(model, hardware, 16.0)
    lengths = np.array([16.0, 8000.0])
    both = ttft_bound(model, hardware, lengths, chunk_tokens=16.0).seconds
    assert both[1] == pytest.approx(floor)
    # Stages work on successive chunks at once.
    staged = ttft_bound(work_of(LLAMA_8B, pp=2), hardware, 8000.0, chunk_tokens=16.0).seconds
    assert 0.5 * floor < staged < 0.51 * floor


def test_answers_curves_and_explanations_agree_and_say_that_it_is_carried_over():
    scenario = Scenario.parse(
        {**LLAMA, "input_tokens": 8000, "max_num_batched_tokens": 16, "concurrency": 4}
    )
    answer = evaluate(scenario)
    speed = answer.speed
    assert speed.ttft_bound_s > 500 * 4e-3
    assert speed.ttft_s.low >= speed.ttft_bound_s
    assert speed.ttft_s.basis is Basis.TRANSFERRED
    assert speed.tpot_s.basis is Basis.CALIBRATED
    assert "times_chunks_transferred" in [note.code for note in answer.assumptions]
    curve = ttft_curve(scenario, np.array([1000.0, 8000.0]))
    assert curve.estimate.mid[1] == pytest.approx(speed.ttft_s.mid)
    assert curve.bound[1] == pytest.approx(speed.ttft_bound_s)
    said = explain(answer, "ttft_bound_s")
    known = {term.symbol: term.value for term in said.terms}
    assert known["steps"] == 500
    by_hand = (known["bytes"] + 499 * known["bytes_layers"]) / known["W"]
    assert by_hand == pytest.approx(speed.ttft_bound_s)
    wide = evaluate(scenario.replace(max_num_batched_tokens=2048))
    assert wide.speed.ttft_s.basis is Basis.CALIBRATED
    assert (
        wide.speed.ttft_s.mid
        == evaluate(scenario.replace(max_num_batched_tokens=8192)).speed.ttft_s.mid
    )
