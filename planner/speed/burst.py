"""Requests that all come at once: their prompts are read first, then the batch decodes and drains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from planner.catalog.calibrations import Calibration
from planner.quantity import FloatArray
from planner.speed.kernels import p_norm
from planner.speed.step import decode_step, product_seconds
from planner.speed.work import Hardware, Work

PERIODS = 48.0  # stretches of steps that one answer is followed in
MOST_PERIODS = 5_000.0  # that prompts are read in, and
MOST_TURNS = 16.0  # of all places, after which more of the same takes in proportion as long
LONGEST = 8.0  # mean answers after which one in three thousand goes on, where lengths vary
ROUNDING = 1e-9  # of all requests: fewer that still wait are what sums were rounded by


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What a burst's steps hold, stretch by stretch; arrays of one length.

    Attributes:
        steps: engine steps of the stretch.
        running: sequences that decode in each of them on average, over the deployment.
        prompt_tokens: tokens of prompts that each of them reads.
        context_tokens: mean length of the sequences that decode.
    """

    steps: FloatArray
    running: FloatArray
    prompt_tokens: FloatArray
    context_tokens: FloatArray


@lru_cache(maxsize=512)  # two of each run of a fit, which asks for them again for every constant
def course(
    requests: float,
    places: float,
    input_tokens: float,
    output_tokens: float,
    budget_tokens: float,
    varied: bool,
) -> Course:
    """How a burst goes in steps, whatever each of them takes.

    A request gets a place when one is free, and its prompt the tokens that the step's budget leaves beside those that
    decode; an answer takes a step a token. Answers of one length leave together as they came; where lengths vary, a
    part of those running leaves in every step, so that the last of a thousand are seven times as long as the mean. It
    ends when half a sequence is left: where the longest of so many ends on average.

    Args:
        places: sequences that may run at once over the deployment, at least 1; budget_tokens: of one step of it.
        input_tokens, output_tokens: of each request, or their means.
    """
    period = _period(input_tokens, output_tokens, budget_tokens)
    longest = math.ceil(output_tokens * (LONGEST if varied else 1.0) / period)  # periods
    staying = math.exp(-period / output_tokens) if varied else 1.0
    gone = staying**longest
    # Those that run, and the steps that they have run for, summed over them.
    waiting, running, run_for = requests, 0.0, 0.0
    came: list[float] = []
    rows = []
    while waiting > 0.0 or running >= 0.5:
        room = period * max(budget_tokens - running, 1.0) / input_tokens
        read = max(min(waiting, places - running, room), 0.0)
        rows.append((running, read, run_for))
        waiting = waiting - read if waiting - read > ROUNDING * requests else 0.0
        came.append(read)
        ending = came[-longest - 1] * gone if len(came) > longest else 0.0
        run_for = staying * (run_for + period * running) - ending * longest * period
        running = staying * running + read - ending
    was_running, reads, ran_for = np.maximum(np.array(rows).T, 0.0)
    return Course(
        steps=np.full_like(reads, period),
        # Those that come in take their places over the period, half of it on average.
        running=was_running + reads / 2.0,
        prompt_tokens=reads * input_tokens / period,
        context_tokens=input_tokens + ran_for / np.maximum(was_running, ROUNDING * requests),
    )


def _period(input_tokens: float, output_tokens: float, budget_tokens: float) -> float:
    """Steps of a stretch: so many that neither an answer nor the reading of a prompt is more than PERIODS of them."""
    return max(1.0, output_tokens / PERIODS, input_tokens / (PERIODS * budget_tokens))


def burst_seconds(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    *,
    requests: float,
    places: float,
    input_tokens: float,
    output_tokens: float,
    max_num_batched_tokens: float,
    varied: bool = False,
) -> float:
    """From the first request to the last answer's end, all requests there from the start (s).

    The sum of the steps of `course`, each as in `decode_step` but for the products of prompts: the prompts fill the
    steps that they are in, so that they run at the rates of whole prompts. The host's time for each request comes on
    top, as in a closed loop. Of very many requests, so many are followed as tell how long more of them take.

    Args:
        requests: over the deployment, at least 1; the others as in `course`.
        max_num_batched_tokens: token budget of one step in each data-parallel group.

    Raises:
        MissingFigure: where the accelerator lacks a rate that is needed.
    """
    groups = float(work.parallelism.dp)
    budget = max_num_batched_tokens * groups
    taken = max(min(places, requests), 1.0)
    stretch = _period(input_tokens, output_tokens, budget)
    each_period = stretch * max(budget - taken, 1.0) / input_tokens
    followed = max(min(MOST_TURNS * taken, MOST_PERIODS * each_period), 1.0)
    if requests > followed:
        whole, half = (
            burst_seconds(
                work,
                hardware,
                calibration,
                requests=many,
                places=places,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                max_num_batched_tokens=max_num_batched_tokens,
                varied=varied,
            )
            for many in (followed, followed / 2.0)
        )
        return whole + (requests / followed - 1.0) * 2.0 * (whole - half)
    found = course(requests, taken, input_tokens, output_tokens, budget, varied and requests > 1.0)
    batch = np.maximum(found.running, groups * work.parallelism.pp)
    alone = decode_step(work, hardware, calibration, batch, found.context_tokens)
    mixed = decode_step(
        work,
        hardware,
        calibration,
        batch,
        found.context_tokens,
        prefill_tokens=found.prompt_tokens,
        prompt_tokens=input_tokens,
        chunk_tokens=np.maximum(max_num_batched_tokens - found.running / groups, 1.0),
    )
    tokens = found.prompt_tokens / (groups * work.parallelism.pp)
    reading = product_seconds(
        work, hardware, calibration, tokens, tokens / input_tokens, prefill=True
    )
    linear = p_norm(alone.compute_s + reading, mixed.weights_s, calibration.order)
    seconds = mixed.total_s - mixed.linear_s + linear
    return float(found.steps @ seconds + requests / groups * calibration.prefill_sequence_s)
