"""Requests that all come at once: their prompts are read first, then the batch decodes and drains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from planner.catalog.calibrations import Calibration
from planner.quantity import FloatArray, Quantity
from planner.speed.host import lent
from planner.speed.kernels import p_norm
from planner.speed.step import decode_step, product_seconds, sequences_in_step
from planner.speed.work import Hardware, Work

PERIODS = 48.0  # stretches of steps that one answer is followed in
MOST_PERIODS = 5_000.0  # that prompts are read in, and
MOST_TURNS = 16.0  # of all places, after which more of the same takes in proportion as long
LONGEST = 8.0  # mean answers after which one in three thousand goes on, where lengths vary
ROUNDING = 1e-9  # of all requests: fewer that still wait are what sums were rounded by
HALF = 0.5  # of a sequence, after which a burst ends
KNOWN = 512  # courses: two of each run of a fit, which asks for them again for every constant


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

    @classmethod
    def of(
        cls, rows: FloatArray, period: float, input_tokens: float, least_running: float
    ) -> Course:
        """The course whose stretches begin with so many running, read so many prompts, and have run for so long.

        Args:
            rows: sequences, prompts of the whole stretch, and steps summed over those that run; 3 × stretches.
            period: steps of a stretch; least_running: of which something is the mean.
        """
        was_running, reads, ran_for = rows
        return cls(
            steps=np.full_like(reads, period),
            # Those that come in take their places over the period, half of it on average.
            running=was_running + reads / 2.0,
            prompt_tokens=reads * input_tokens / period,
            context_tokens=input_tokens + ran_for / np.maximum(was_running, least_running),
        )


@lru_cache(maxsize=KNOWN)
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
    period = period_steps(input_tokens, output_tokens, budget_tokens)
    longest = math.ceil(output_tokens * (LONGEST if varied else 1.0) / period)  # periods
    staying = math.exp(-period / output_tokens) if varied else 1.0
    gone = staying**longest
    # Those that run, and the steps that they have run for, summed over them.
    waiting, running, run_for = requests, 0.0, 0.0
    came: list[float] = []
    rows = []
    while waiting > 0.0 or running >= HALF:
        room = period * max(budget_tokens - running, 1.0) / input_tokens
        read = max(min(waiting, places - running, room), 0.0)
        rows.append((running, read, run_for))
        waiting = waiting - read if waiting - read > ROUNDING * requests else 0.0
        came.append(read)
        ending = came[-longest - 1] * gone if len(came) > longest else 0.0
        run_for = staying * (run_for + period * running) - ending * longest * period
        running = staying * running + read - ending
    return Course.of(np.maximum(np.array(rows).T, 0.0), period, input_tokens, ROUNDING * requests)


def followed(
    requests: float, places: float, input_tokens: float, output_tokens: float, budget_tokens: float
) -> float:
    """So many requests as tell how long more of them take, where they are very many."""
    taken = max(min(places, requests), 1.0)
    stretch = period_steps(input_tokens, output_tokens, budget_tokens)
    each_period = stretch * max(budget_tokens - taken, 1.0) / input_tokens
    return max(min(MOST_TURNS * taken, MOST_PERIODS * each_period), 1.0)


def period_steps(input_tokens: float, output_tokens: float, budget_tokens: float) -> float:
    """Steps of a stretch: so many that neither an answer nor the reading of a prompt is more than PERIODS of them."""
    return max(1.0, output_tokens / PERIODS, input_tokens / (PERIODS * budget_tokens))


def stretch_seconds(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    found: Course,
    input_tokens: Quantity,
    max_num_batched_tokens: Quantity,
) -> FloatArray:
    """A step of each stretch of a course, or of several end to end (s).

    Each as in `decode_step` but for the products of prompts: the prompts fill the steps that they are in, so that they
    run at the rates of whole prompts.

    Args:
        input_tokens: of each request; max_num_batched_tokens: token budget of a step in each data-parallel group; of
            one burst, or arrays of the course's length.

    Raises:
        MissingFigure: where the accelerator lacks a rate that is needed.
    """
    groups, stages = float(work.parallelism.dp), work.parallelism.pp
    batch = np.maximum(found.running, groups * stages)
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
    tokens = found.prompt_tokens / (groups * stages)
    reading = product_seconds(
        work, hardware, calibration, tokens, tokens / input_tokens, prefill=True
    )
    decoding = _decoding_products(work, hardware, calibration, batch)
    linear = p_norm(decoding + reading, mixed.weights_s, calibration.order)
    return np.asarray(mixed.total_s - mixed.linear_s + linear)


def _decoding_products(
    work: Work, hardware: Hardware, calibration: Calibration, batch: Quantity
) -> Quantity:
    """Products of the tokens that are decoded, as a step without prompts has them (s)."""
    share = work.host
    each = sequences_in_step(work, calibration, batch)
    resident = work if share is None else share.resident
    seconds = product_seconds(resident, hardware, calibration, each, each, prefill=False)
    if share is None:
        return seconds
    by_gpu = each * lent(each)
    held = product_seconds(share.held, hardware, calibration, by_gpu, 0.0, prefill=False)
    return seconds + held
