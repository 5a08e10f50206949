"""Requests that all come at once: what their steps hold, and what the whole burst takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planner.speed.burst import course
from planner.speed.bursts import Burst, bursts_seconds, laid_out
from planner.speed.step import decode_step
from tests.speed.conditions import setting
from tests.speed.models import LLAMA_8B, work_of


@given(
    requests=st.integers(1, 3000),
    places=st.integers(1, 2000),
    inputs=st.integers(1, 20_000),
    outputs=st.integers(1, 4000),
    budget=st.integers(512, 65_536),
    varied=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_prompt_is_read_and_every_answer_written_in_the_places_there_are(
    requests, places, inputs, outputs, budget, varied
):
    taken = float(min(places, requests))
    found = course(float(requests), taken, float(inputs), float(outputs), float(budget), varied)
    assert found.steps @ found.prompt_tokens == pytest.approx(requests * inputs)
    assert np.all(found.running <= taken * (1 + 1e-9))
    assert np.all(found.prompt_tokens <= budget * (1 + 1e-9))
    # Each answer takes a step a token, to a stretch of steps; of varied lengths the last half of one is cut off.
    stretch = found.steps[0]
    written = found.steps @ found.running
    assert 0.98 * requests * outputs <= written + requests * stretch + 0.5 * outputs * varied
    assert written <= requests * (outputs + 1.5 * stretch)


def test_answers_of_one_length_end_together_and_of_varied_lengths_one_by_one():
    same = course(100.0, 100.0, 128.0, 200.0, 1e6, False)
    assert same.steps.sum() == pytest.approx(200.0, rel=0.05)
    assert set(np.round(same.running[1:])) == {100.0}
    varied = course(100.0, 100.0, 128.0, 200.0, 1e6, True)
    # The last half of a sequence is left when e^(−t / 200) of a hundred are: after 200 · ln 200 steps.
    assert varied.steps.sum() == pytest.approx(200.0 * np.log(200.0), rel=0.05)
    assert np.all(np.diff(varied.running[1:]) < 0.0)
    assert np.all(np.diff(varied.context_tokens[1:]) > 0.0)


def seconds(requests, *, dp=1, constants=None, **changes):
    hardware, usual = setting()
    case = {
        "requests": float(requests),
        "places": 64.0 * dp,
        "input_tokens": 512.0,
        "output_tokens": 256.0,
        "max_num_batched_tokens": 8192.0,
    }
    model = work_of(LLAMA_8B)
    model = replace(model, parallelism=replace(model.parallelism, dp=dp))
    laid_out.cache_clear()
    return bursts_seconds(model, hardware, constants or usual, [Burst(**(case | changes))])[0]


def test_one_request_takes_its_prompt_and_its_steps():
    hardware, constants = setting()
    step = decode_step(work_of(LLAMA_8B), hardware, constants, 1.0, 512.0 + 128.0).total_s
    assert seconds(1) == pytest.approx(256.0 * step, rel=0.06)
    assert seconds(1) > 250.0 * step


def test_very_many_requests_come_to_the_steady_rate():
    """Where prompts run at the rates of steps, as a step has them that always decodes 64 and reads what follows."""
    hardware, usual = setting()
    constants = replace(
        usual, prefill=usual.compute, prefill_experts=usual.experts, prefill_sequence_s=0.0
    )
    # Of sequences whose lengths vary, those found running have as much behind them on average as a whole one has.
    step = decode_step(
        work_of(LLAMA_8B),
        hardware,
        constants,
        64.0,
        512.0 + 256.0,
        prefill_tokens=64.0 * 512.0 / 256.0,
        prompt_tokens=512.0,
    )
    steady = 400 * 256.0 * float(step.total_s)
    assert seconds(64 * 400, constants=constants, varied=True) == pytest.approx(steady, rel=0.03)


def test_groups_that_share_nothing_take_as_long_as_one_with_its_part():
    assert seconds(2 * 320, dp=2) == pytest.approx(seconds(320), rel=1e-6)
    assert seconds(8, dp=8, places=512.0) == pytest.approx(seconds(1), rel=1e-6)


def test_more_requests_fewer_places_and_uneven_lengths_take_longer():
    few = seconds(64)
    assert seconds(128) > few
    assert seconds(64, places=16.0) > few
    assert seconds(64, varied=True) > 1.5 * few  # the places empty one by one
    assert seconds(64, input_tokens=4096.0) > few
    _, constants = setting()
    slower = replace(constants, prefill_sequence_s=constants.prefill_sequence_s + 0.01)
    assert seconds(64, constants=slower) == pytest.approx(few + 64 * 0.01)


@pytest.mark.parametrize(
    "asked",
    [
        {"places": 1.0, "input_tokens": 100.0, "output_tokens": 1.0},
        {"input_tokens": 1e5, "output_tokens": 1.0},
        {"places": 1e5, "input_tokens": 1e5, "output_tokens": 1e5},
        {"places": 1.0, "input_tokens": 1e5, "output_tokens": 1e5},
    ],
)
def test_a_burst_without_end_is_answered_from_its_beginning(asked, monkeypatch):
    followed = []

    def watched(*arguments):
        found = course(*arguments)
        followed.append(len(found.steps))
        return found

    monkeypatch.setattr("planner.speed.bursts.course", watched)
    million, two = seconds(1e6, varied=True, **asked), seconds(2e6, varied=True, **asked)
    assert two == pytest.approx(2.0 * million, rel=0.01)
    assert max(followed) < 10_000


@given(
    requests=st.integers(1, 1_000_000),
    places=st.integers(1, 100_000),
    inputs=st.integers(1, 1_000_000),
    outputs=st.integers(1, 1_000_000),
    budget=st.integers(1, 100_000),
    varied=st.booleans(),
)
@example(requests=4, places=4, inputs=1_000_000, outputs=1, budget=1, varied=False)
@example(requests=1000, places=1000, inputs=40_000, outputs=48, budget=1, varied=True)
@example(requests=5000, places=999, inputs=1000, outputs=1000, budget=1000, varied=False)
@settings(max_examples=60, deadline=None)
def test_no_burst_is_followed_in_more_than_ten_thousand_stretches(
    requests, places, inputs, outputs, budget, varied
):
    longest = []

    def watched(*arguments):
        found = course(*arguments)
        longest.append(len(found.steps))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.speed.bursts.course", watched)
        asked = {"places": float(places), "input_tokens": float(inputs), "varied": varied}
        asked |= {"output_tokens": float(outputs), "max_num_batched_tokens": float(budget)}
        assert 0.0 < seconds(requests, **asked) < float("inf")
    assert max(longest) < 10_000


def test_a_prompt_of_very_many_steps_takes_as_long_in_stretches_as_in_steps(monkeypatch):
    asked = {"input_tokens": 1e4, "output_tokens": 1.0, "max_num_batched_tokens": 1.0}
    in_stretches = seconds(1, **asked)
    monkeypatch.setattr("planner.speed.burst.PERIODS", 1e4)
    course.cache_clear()
    assert in_stretches == pytest.approx(seconds(1, **asked), rel=0.03)
    course.cache_clear()


def test_what_is_followed_and_what_is_carried_on_agree(monkeypatch):
    carried = seconds(64 * 40, varied=True)
    monkeypatch.setattr("planner.speed.burst.MOST_TURNS", 100.0)
    assert carried == pytest.approx(seconds(64 * 40, varied=True), rel=0.01)
