"""Many bursts at once take what each takes alone, by the plainest way of working it out."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from planner.speed import bursts as room
from planner.speed.burst import course
from planner.speed.bursts import Asked, Burst, bursts_seconds, courses, laid_out, side_by_side
from planner.speed.kernels import p_norm
from planner.speed.step import decode_step, product_seconds
from tests.speed.conditions import setting
from tests.speed.models import GEMMA3_12B, LLAMA_8B, QWEN3_30B_A3B, Dimensions, work_of


def plain_course(
    requests: float, places: float, inputs: float, outputs: float, budget: float, varied: bool
) -> list[tuple[float, float, float, float]]:
    """Steps, sequences running, prompt tokens and context of each stretch, one after another."""
    period = max(1.0, outputs / 48.0, inputs / (48.0 * budget))
    longest = math.ceil(outputs * (8.0 if varied else 1.0) / period)
    staying = math.exp(-period / outputs) if varied else 1.0
    waiting, running, run_for = requests, 0.0, 0.0
    came: list[float] = []
    found = []
    while waiting > 0.0 or running >= 0.5:
        room_for = period * max(budget - running, 1.0) / inputs
        read = max(min(waiting, places - running, room_for), 0.0)
        now = max(running, 0.0)
        context = inputs + max(run_for, 0.0) / max(now, 1e-9 * requests)
        found.append((period, now + read / 2.0, read * inputs / period, context))
        waiting = waiting - read if waiting - read > 1e-9 * requests else 0.0
        came.append(read)
        ending = came[-longest - 1] * staying**longest if len(came) > longest else 0.0
        run_for = staying * (run_for + period * running) - ending * longest * period
        running = staying * running + read - ending
    return found


def plain_seconds(work: Any, hardware: Any, calibration: Any, one: Burst) -> float:
    """A burst's time, its steps timed as in `decode_step` with the products of whole prompts."""
    groups, stages = float(work.parallelism.dp), work.parallelism.pp
    budget = one.max_num_batched_tokens * groups

    def followed(requests: float) -> float:
        taken = max(min(one.places, requests), 1.0)
        period = max(1.0, one.output_tokens / 48.0, one.input_tokens / (48.0 * budget))
        each_period = period * max(budget - taken, 1.0) / one.input_tokens
        most = max(min(16.0 * taken, 5_000.0 * each_period), 1.0)
        if requests > most:
            whole, half = followed(most), followed(most / 2.0)
            return whole + (requests / most - 1.0) * 2.0 * (whole - half)
        shape = (one.input_tokens, one.output_tokens, budget)
        rows = plain_course(requests, taken, *shape, one.varied and requests > 1.0)
        steps, running, prompts, context = np.array(rows).T
        batch = np.maximum(running, groups * stages)
        alone = decode_step(work, hardware, calibration, batch, context)
        mixed = decode_step(
            work,
            hardware,
            calibration,
            batch,
            context,
            prefill_tokens=prompts,
            prompt_tokens=one.input_tokens,
            chunk_tokens=np.maximum(one.max_num_batched_tokens - running / groups, 1.0),
        )
        tokens = prompts / (groups * stages)
        reading = product_seconds(
            work, hardware, calibration, tokens, tokens / one.input_tokens, prefill=True
        )
        linear = p_norm(alone.compute_s + reading, mixed.weights_s, calibration.order)
        seconds = mixed.total_s - mixed.linear_s + linear
        return float(steps @ seconds + requests / groups * calibration.prefill_sequence_s)

    return followed(one.requests)


def some_bursts(number: int, seed: int) -> list[Burst]:
    chance = Random(seed)

    def about(low: float, high: float) -> float:
        return float(int(10 ** chance.uniform(low, high)))

    return [
        Burst(
            requests=about(0, 5),
            places=about(0, 3.2) + chance.choice((0.0, 0.5)),
            input_tokens=about(0, 4.5),
            output_tokens=about(0, 3.5),
            max_num_batched_tokens=float(chance.choice((64, 512, 8192, 16384))),
            varied=chance.random() < 0.5,
        )
        for _ in range(number)
    ]


@pytest.mark.parametrize("known", [512, 0])
@pytest.mark.parametrize(
    ("model", "degrees"),
    [
        (LLAMA_8B, {}),
        (LLAMA_8B, {"dp": 2}),
        (LLAMA_8B, {"pp": 2}),
        (QWEN3_30B_A3B, {"tp": 2}),
        (GEMMA3_12B, {}),
    ],
)
def test_many_take_what_each_takes_alone(
    model: Dimensions, degrees: dict[str, int], known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "KNOWN", known)
    hardware, calibration = setting()
    work = work_of(model, **degrees)
    bursts = some_bursts(80, 7)
    found = bursts_seconds(work, hardware, calibration, bursts)
    plain = [plain_seconds(work, hardware, calibration, one) for one in bursts]
    assert found == pytest.approx(plain, rel=1e-9)


def test_courses_side_by_side_are_those_one_by_one() -> None:
    asked = [
        Asked(one.requests, max(min(one.places, one.requests), 1.0), *shape, one.varied)
        for one in some_bursts(120, 8)
        if one.requests < 300.0
        for shape in [(one.input_tokens, one.output_tokens, one.max_num_batched_tokens)]
    ]
    for side, one in zip(side_by_side(asked), asked, strict=True):
        alone = course(*one)
        for name in ("steps", "running", "prompt_tokens", "context_tokens"):
            assert np.array_equal(getattr(side, name), getattr(alone, name)), (name, one)


def test_however_many_they_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    hardware, calibration = setting()
    work = work_of(LLAMA_8B)
    bursts = some_bursts(50, 9)
    one_by_one = [bursts_seconds(work, hardware, calibration, [one])[0] for one in bursts]
    for name, size in (("KNOWN", 0), ("SIDE_BY_SIDE", 7), ("LAID_OUT", 11), ("TIMED_AT_ONCE", 90)):
        monkeypatch.setattr(room, name, size)
    assert bursts_seconds(work, hardware, calibration, bursts) == pytest.approx(
        one_by_one, rel=1e-12
    )
    assert bursts_seconds(work, hardware, calibration, []) == []
    assert courses([]) == []


def test_what_is_laid_out_is_kept_for_the_next_constants() -> None:
    hardware, calibration = setting()
    bursts = some_bursts(20, 10)
    laid_out.cache_clear()
    for _ in range(3):
        bursts_seconds(work_of(LLAMA_8B), hardware, calibration, bursts)
    assert laid_out.cache_info().hits == 2
