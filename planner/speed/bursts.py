"""Many bursts at once: their courses followed side by side, and their steps timed end to end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.catalog.calibrations import Calibration
from planner.quantity import FloatArray
from planner.speed.burst import (
    HALF,
    KNOWN,
    LONGEST,
    ROUNDING,
    Course,
    course,
    followed,
    period_steps,
    stretch_seconds,
)
from planner.speed.work import Hardware, Work

IntArray = NDArray[np.int64]
SIDE_BY_SIDE = 256  # bursts that are followed together
TIMED_AT_ONCE = 5_000  # stretches: more leave a processor's cache
LAID_OUT = 1_024  # bursts: more take memory and no less time
MORE = 1_024  # stretches by which what is followed gets longer


@dataclass(frozen=True, slots=True)
class Burst:
    """Requests that all come at once, and what they find.

    Attributes:
        requests: over the deployment, at least 1; places: sequences that may run at once over it.
        input_tokens, output_tokens: of each request, or their means; varied: lengths differ.
        max_num_batched_tokens: token budget of one step in each data-parallel group.
    """

    requests: float
    places: float
    input_tokens: float
    output_tokens: float
    max_num_batched_tokens: float
    varied: bool = False


class Asked(NamedTuple):
    """What `course` takes."""

    requests: float
    places: float
    input_tokens: float
    output_tokens: float
    budget_tokens: float
    varied: bool


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Courses end to end, so many as are timed at once.

    Attributes:
        course: theirs; its steps count as often as they come in their burst.
        input_tokens, max_num_batched_tokens: of each stretch's burst.
        starts: the first stretch of each course; bursts: which burst it is of, by its place.
    """

    course: Course
    input_tokens: FloatArray
    max_num_batched_tokens: FloatArray
    starts: IntArray
    bursts: IntArray


def bursts_seconds(
    work: Work, hardware: Hardware, calibration: Calibration, bursts: Sequence[Burst]
) -> list[float]:
    """From the first request to the last answer's end of each, all its requests there from the start (s).

    The sum of the steps of `course`. The host's time for each request comes on top, as in a closed loop. Of very many
    requests, so many are followed as tell how long more of them take.

    Raises:
        MissingFigure: where the accelerator lacks a rate that is needed.
    """
    groups = float(work.parallelism.dp)
    found: list[float] = []
    for at in range(0, len(bursts), LAID_OUT):
        some = tuple(bursts[at : at + LAID_OUT])
        # Many are asked for once, few again for every constant of a fit.
        lay = laid_out if len(bursts) <= KNOWN else laid_out.__wrapped__
        whole = np.array([one.requests for one in some]) / groups * calibration.prefill_sequence_s
        for piece in lay(some, groups):
            seconds = stretch_seconds(
                work,
                hardware,
                calibration,
                piece.course,
                piece.input_tokens,
                piece.max_num_batched_tokens,
            )
            sums = np.add.reduceat(piece.course.steps * seconds, piece.starts)
            np.add.at(whole, piece.bursts, sums)
        found += whole.tolist()
    return found


@lru_cache(maxsize=8)  # a fit's runs, and those that each of its constants touches
def laid_out(bursts: tuple[Burst, ...], groups: float) -> tuple[Piece, ...]:
    """All that doesn't depend on constants: the courses of bursts in pieces of about TIMED_AT_ONCE stretches."""
    parts = [
        (number, times, how)
        for number, one in enumerate(bursts)
        for times, how in _parts(one, groups)
    ]
    found = courses([how for _, _, how in parts])
    pieces = []
    for first, last in _ends([len(one.steps) for one in found]):
        some, own = found[first:last], parts[first:last]
        lengths = [len(one.steps) for one in some]
        budgets = [bursts[number].max_num_batched_tokens for number, _, _ in own]
        steps = [one.steps * times for one, (_, times, _) in zip(some, own, strict=True)]
        whole = Course(
            np.concatenate(steps),
            np.concatenate([one.running for one in some]),
            np.concatenate([one.prompt_tokens for one in some]),
            np.concatenate([one.context_tokens for one in some]),
        )
        pieces.append(
            Piece(
                whole,
                np.repeat([how.input_tokens for _, _, how in own], lengths),
                np.repeat(budgets, lengths),
                np.cumsum([0, *lengths[:-1]]),
                np.array([number for number, _, _ in own]),
            )
        )
    return tuple(pieces)


def _parts(burst: Burst, groups: float) -> list[tuple[float, Asked]]:
    """The courses that tell how long a burst takes, and how often each counts."""
    budget = burst.max_num_batched_tokens * groups
    shape = (burst.input_tokens, burst.output_tokens, budget)

    def asked(requests: float) -> Asked:
        taken = max(min(burst.places, requests), 1.0)
        return Asked(requests, taken, *shape, burst.varied and requests > 1.0)

    many = followed(burst.requests, burst.places, *shape)
    if burst.requests <= many:
        return [(1.0, asked(burst.requests))]
    # What the second half took is what as many more take each time.
    more = 2.0 * (burst.requests / many - 1.0)
    return [(1.0 + more, asked(many)), (-more, asked(many / 2.0))]


def _ends(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ends of runs of courses that together are about TIMED_AT_ONCE stretches, one at least."""
    first = stretches = 0
    for at, length in enumerate(lengths):
        if at > first and stretches + length > TIMED_AT_ONCE:
            yield first, at
            first, stretches = at, 0
        stretches += length
    if lengths:
        yield first, len(lengths)


def courses(asked: Sequence[Asked]) -> list[Course]:
    """`course` of each; so few that they are remembered one by one, more side by side."""
    if len(asked) <= KNOWN:
        return [course(*one) for one in asked]
    # Those that take about as long together, so that none waits for another.
    order = sorted(range(len(asked)), key=lambda i: _about(asked[i]))
    found: dict[int, Course] = {}
    for at in range(0, len(order), SIDE_BY_SIDE):
        some = order[at : at + SIDE_BY_SIDE]
        found.update(zip(some, side_by_side([asked[i] for i in some]), strict=True))
    return [found[i] for i in range(len(asked))]


def _about(one: Asked) -> float:
    """About how many stretches a course has."""
    period = period_steps(one.input_tokens, one.output_tokens, one.budget_tokens)
    reading = one.requests * one.input_tokens / max(one.budget_tokens - one.places, 1.0)
    last = LONGEST if one.varied else 1.0
    return (max(one.requests / one.places, last) * one.output_tokens + reading) / period


def side_by_side(asked: Sequence[Asked]) -> list[Course]:
    """`course` of each, by the same arithmetic on arrays; one that has ended stands still."""
    requests, places, inputs, _, budget = np.array([one[:5] for one in asked]).T
    periods = [period_steps(*one[2:5]) for one in asked]
    reach = [LONGEST if one.varied else 1.0 for one in asked]
    looked = [
        math.ceil(one.output_tokens * far / p)
        for one, far, p in zip(asked, reach, periods, strict=True)
    ]
    stays = [
        math.exp(-p / one.output_tokens) if one.varied else 1.0
        for one, p in zip(asked, periods, strict=True)
    ]
    gone = np.array([stay**far for stay, far in zip(stays, looked, strict=True)])
    period, longest, staying = np.array(periods), np.array(looked), np.array(stays)
    across, least = np.arange(len(asked)), ROUNDING * requests
    waiting, running, run_for = requests, np.zeros(len(asked)), np.zeros(len(asked))
    lengths = np.zeros(len(asked), dtype=int)
    # Running, read and run for, stretch by stretch.
    kept = np.empty((3, 0, len(asked)))
    number = 0
    while (going := (waiting > 0.0) | (running >= HALF)).any():
        if number == kept.shape[1]:
            kept = np.concatenate((kept, np.empty((3, MORE, len(asked)))), axis=1)
        lengths += going
        room = period * np.maximum(budget - running, 1.0) / inputs
        read = np.maximum(np.minimum(np.minimum(waiting, places - running), room), 0.0)
        kept[0, number], kept[1, number], kept[2, number] = running, read, run_for
        left = waiting - read
        waiting = np.where(left > least, left, 0.0)
        back = number - longest
        came = kept[1, np.maximum(back, 0), across]
        ending = np.where(back >= 0, came * gone, 0.0)
        run_for = staying * (run_for + period * running) - ending * longest * period
        running = staying * running + read - ending
        number += 1
    return [
        Course.of(np.maximum(kept[:, :length, i], 0.0), periods[i], one.input_tokens, least[i])
        for i, (one, length) in enumerate(zip(asked, lengths, strict=True))
    ]
