"""Requests that arrive at random, whatever became of those before them: how many are in flight, and what each sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.catalog.calibrations import Calibration
from planner.quantity import FloatArray
from planner.speed.serving_point import serving_point
from planner.speed.work import Hardware, Work

MOST_STATES = 1024  # requests in flight, beyond which a deployment is taken to deliver no more


@dataclass(frozen=True, slots=True)
class OpenLoopPoint:
    """What arrivals at a steady rate come to; a queue that grows without end makes the waits infinite.

    Attributes:
        ttft_s: mean time to the first token, waiting for a place included; ttft_median_s: half of the requests wait
            less, which is no wait at all where most find a place.
        tpot_s: mean time per output token after the first.
        e2e_s: the whole request.
        in_flight: requests in the system, on average.
        request_rate_per_s: that is served: what arrives, or the most that the deployment delivers.
    """

    ttft_s: float
    ttft_median_s: float
    tpot_s: float
    e2e_s: float
    in_flight: float
    request_rate_per_s: float


def open_loop_point(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    *,
    input_tokens: float,
    output_tokens: float,
    request_rate_per_s: float,
    max_running: float,
    max_num_batched_tokens: float = float("inf"),
) -> OpenLoopPoint:
    """Poisson arrivals at a deployment that serves n requests as fast as a closed loop of n does.

    A birth–death chain: p(n) ∝ Π λ / X(i), with X(n) the closed loop's requests per second at n in flight and X(b) with
    every place taken; beyond that p falls by λ / X(b) with each further one in the queue. An arrival finds n − 1 others
    with probability p(n − 1) = p(n)·X(n) / λ and then sees what one of n sees. Up to b it's a shared processor, for
    which only the mean of the service matters; the queue takes services to be exponential, which for requests of one
    length makes waits up to twice too long.

    Args:
        request_rate_per_s: λ, arrivals at the whole deployment, above 0.
        max_running: b, sequences that may run at once over the whole deployment, at least 1.
        The others as in `serving_point`.

    Raises:
        MissingFigure: where the hardware lacks a rate that is needed.

    References:
        Little's law for every mean. The chain with a rate that depends on the state: L. Kleinrock, Queueing Systems,
        volume 1, chapter 3.
    """
    places = max(int(min(max_running, MOST_STATES)), 1)
    states: FloatArray = np.arange(1.0, places + 1.0)
    loop = serving_point(
        work,
        hardware,
        calibration,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        concurrency=states,
        max_running=float(places),
        max_num_batched_tokens=max_num_batched_tokens,
    )
    served, first, each = (
        np.broadcast_to(np.asarray(value, dtype=float), states.shape)
        for value in (loop.request_rate_per_s, loop.ttft_s, loop.tpot_s)
    )
    most = float(served[-1])
    ratio = request_rate_per_s / most
    if ratio >= 1.0:
        infinite = float("inf")
        return OpenLoopPoint(infinite, infinite, float(each[-1]), infinite, infinite, most)
    logs = np.cumsum(np.log(request_rate_per_s / served))
    # What an arrival sees: p(n)·X(n). The last state goes on as a queue, each longer one less likely by the ratio.
    sees = np.exp(logs - logs.max()) * served
    queued = float(sees[-1]) * ratio / (1.0 - ratio)
    whole = float(sees.sum()) + queued
    place_s = 1.0 / most  # until the next place is free
    mean_first = float(sees @ first) + queued * (float(first[-1]) + place_s / (1.0 - ratio))
    tpot = (float(sees @ each) + queued * float(each[-1])) / whole
    ttft = mean_first / whole
    e2e = ttft + (output_tokens - 1.0) * tpot
    return OpenLoopPoint(
        ttft_s=ttft,
        ttft_median_s=_median(first, sees / whole, ratio, place_s),
        tpot_s=tpot,
        e2e_s=e2e,
        in_flight=request_rate_per_s * e2e,
        request_rate_per_s=request_rate_per_s,
    )


def _median(first: FloatArray, share: FloatArray, ratio: float, place_s: float) -> float:
    """The first token that half of the arrivals see sooner.

    Args:
        first: with so many in flight (s); share: of the arrivals that see it, the rest find every place taken.
    """
    below = np.cumsum(share)
    if below[-1] >= 0.5:
        return float(np.interp(0.5, below - share / 2.0, first))
    further = np.log(0.5 / (1.0 - below[-1])) / np.log(ratio)
    return float(first[-1] + further * place_s)
