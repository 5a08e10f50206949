"""The speed part of an answer: times and rates with their ranges, held above the physical bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.answers import SpeedAnswer
from planner.deployment import Deployment
from planner.memory.budget import MemoryBudget
from planner.memory.pool import held_sequences
from planner.memory_limits import GROWING, most_users
from planner.quantity import Basis, Estimate, Quantity, maximum, worst
from planner.scenario import Scenario
from planner.speed.bounds import Bound, tpot_bound, ttft_bound
from planner.speed.carried import FEWEST_TOGETHER, few_together
from planner.speed.kernels import as_factor
from planner.speed.serving_point import ServingPoint, running_sequences, serving_point

WAIT_FACTOR = 2.0  # of queueing models against simulation and logs


def rates_basis(deployment: Deployment) -> Basis:
    """How well the card's rates, and its host's, are known: an assumed bandwidth or peak makes every time assumed.

    Constants fitted on the very card are parts of whatever its rates are, so that the times are those measured.
    """
    if deployment.calibration.own:
        return deployment.machine_basis
    figures = deployment.accelerator.figures
    keys = ("bandwidth_bytes_per_s", f"peak_{deployment.dtype}_flops_per_s")
    known = (figures[key].basis for key in keys if key in figures)
    return worst(*known, deployment.machine_basis, Basis.EXACT)


def most_running(
    deployment: Deployment,
    budget: MemoryBudget,
    *,
    input_tokens: Quantity,
    output_tokens: Quantity,
    concurrency: Quantity,
    max_model_len: int | None,
) -> Quantity:
    """Sequences that run at once over the deployment: in flight, allowed by the engine, and held halfway through."""
    groups = deployment.parallelism.dp
    halfway = input_tokens + output_tokens / 2.0
    held = groups * held_sequences(budget.pool, budget.kv_pool.mid, halfway)
    if deployment.settings.policy in GROWING and np.any(held < concurrency):
        # The batch is made smaller until it fits, activations included.
        held = most_users(deployment, input_tokens, output_tokens / 2.0, max_model_len)
    limit = float(groups * deployment.settings.max_num_seqs)
    return running_sequences(concurrency, limit, held)


def point_of(
    deployment: Deployment,
    budget: MemoryBudget,
    *,
    input_tokens: Quantity,
    output_tokens: Quantity,
    concurrency: Quantity,
    max_model_len: int | None,
) -> ServingPoint:
    """The closed loop of a deployment at a workload; floats or arrays."""
    return serving_point(
        deployment.work,
        deployment.hardware,
        deployment.calibration,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        concurrency=concurrency,
        max_running=most_running(
            deployment,
            budget,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            concurrency=concurrency,
            max_model_len=max_model_len,
        ),
        max_num_batched_tokens=float(deployment.settings.max_num_batched_tokens),
    )


def step_tokens(deployment: Deployment) -> float:
    """Tokens that a step takes at most where a person stated it; infinite where nobody did, or nothing is chunked."""
    chunked = deployment.calibration.kind == "continuous" and deployment.work.generates
    stated = "max_num_batched_tokens" not in deployment.settings.defaults
    return float(deployment.settings.max_num_batched_tokens) if chunked and stated else float("inf")


def first_token_bound(deployment: Deployment, input_tokens: Quantity) -> Bound:
    """Floor of the time to the first token: `ttft_bound` with the steps that a stated token budget makes needed."""
    return ttft_bound(
        deployment.work, deployment.hardware, input_tokens, chunk_tokens=step_tokens(deployment)
    )


@dataclass(frozen=True, slots=True)
class Middles:
    """A serving point and its floors, numbers or arrays (s; `running` in sequences over the deployment).

    Attributes:
        ttft_host_fraction, tpot_host_fraction: share of the time that goes to what lies in host memory.
    """

    ttft_s: Quantity
    ttft_unloaded_s: Quantity
    tpot_s: Quantity
    queue_wait_s: Quantity
    running: Quantity
    ttft_floor_s: Quantity
    tpot_floor_s: Quantity
    ttft_host_fraction: Quantity = 0.0
    tpot_host_fraction: Quantity = 0.0


def widened(
    deployment: Deployment, band: tuple[float, float], host_fraction: Quantity
) -> tuple[Quantity, Quantity]:
    """A calibration's relative range of a time, of which the host's part has a wider one of its own.

    Args:
        host_fraction: share of the time that goes to what lies in host memory.
    """
    if deployment.machine is None:
        return band
    known = deployment.machine_basis < Basis.ASSUMED
    low, high = deployment.machine.stated_band if known else deployment.machine.assumed_band
    return (
        band[0] + host_fraction * (min(low, band[0]) - band[0]),
        band[1] + host_fraction * (max(high, band[1]) - band[1]),
    )


@dataclass(frozen=True, slots=True)
class Ranges:
    """Times and rates with their ranges, as in SpeedAnswer."""

    ttft_s: Estimate
    ttft_unloaded_s: Estimate
    tpot_s: Estimate | None
    e2e_s: Estimate
    decode_tokens_per_s: Estimate | None
    output_tokens_per_s: Estimate | None
    total_tokens_per_s: Estimate


def ranges(
    deployment: Deployment,
    scenario: Scenario,
    point: Middles,
    *,
    input_tokens: Quantity | None = None,
) -> Ranges:
    """Bands around the middles, held above the floors; of a first token wider where few requests run.

    A wait for a place is known to a factor of WAIT_FACTOR either way: it multiplies the error of the pool's size and of
    the times of everyone ahead.

    Args:
        input_tokens: prompt length where it isn't the scenario's, in the shape of `point`.
    """
    inputs = float(scenario.input_tokens) if input_tokens is None else input_tokens
    outputs = float(scenario.output_tokens)
    calibration = deployment.calibration
    lonely = few_together(calibration, experts=bool(deployment.work.experts))
    rates = rates_basis(deployment)
    basis = worst(calibration.basis, rates)
    host_part = point.ttft_host_fraction
    lonely_band = widened(deployment, lonely.ttft_band, host_part)
    lonely_basis = worst(lonely.ttft_basis, rates)
    first_band, first_basis = lonely_band, lonely_basis
    if np.any(np.asarray(point.running) >= FEWEST_TOGETHER):
        usual = widened(deployment, calibration.ttft_band, host_part)
        few = as_factor(point.running < FEWEST_TOGETHER)
        first_band = (
            usual[0] + few * (lonely_band[0] - usual[0]),
            usual[1] + few * (lonely_band[1] - usual[1]),
        )
        first_basis = worst(calibration.ttft_basis, rates)
    token_band = widened(deployment, calibration.tpot_band, point.tpot_host_fraction)
    floor = point.ttft_floor_s
    unloaded = Estimate.banded(point.ttft_unloaded_s, lonely_band, "s", lonely_basis, floor=floor)
    own = point.ttft_s - point.queue_wait_s
    first = Estimate.banded(own, first_band, "s", first_basis, floor=floor)
    if not deployment.work.generates:
        requests = first.inverse(point.running, "1/s")
        return Ranges(
            first, unloaded, None, first, None, None, _times(requests, inputs, "tokens/s")
        )
    tpot = Estimate.banded(point.tpot_s, token_band, "s", basis, floor=point.tpot_floor_s)
    service = _plus(first, _times(tpot, outputs - 1.0, "s"))
    requests = service.inverse(point.running, "1/s")
    rounds = point.queue_wait_s / service.mid  # others' whole times that a request waits for
    wait = Estimate(
        service.low * rounds / WAIT_FACTOR,
        service.mid * rounds,
        service.high * rounds * WAIT_FACTOR,
        "s",
        basis,
    )
    return Ranges(
        ttft_s=_plus(first, wait),
        ttft_unloaded_s=unloaded,
        tpot_s=tpot,
        e2e_s=_plus(service, wait),
        decode_tokens_per_s=tpot.inverse(1.0, "tokens/s"),
        output_tokens_per_s=_times(requests, outputs, "tokens/s"),
        total_tokens_per_s=_times(requests, inputs + outputs, "tokens/s"),
    )


def speed_answer(deployment: Deployment, scenario: Scenario, budget: MemoryBudget) -> SpeedAnswer:
    """Times and rates of the scenario; what doesn't fit is timed as if one sequence ran.

    Raises:
        MissingFigure: where the card's profile lacks a rate that the work needs.
    """
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    point = point_of(
        deployment,
        budget,
        input_tokens=inputs,
        output_tokens=outputs,
        concurrency=float(scenario.concurrency),
        max_model_len=scenario.max_model_len,
    )
    work, hardware = deployment.work, deployment.hardware
    running = float(point.running_batch) * deployment.parallelism.dp
    first = first_token_bound(deployment, inputs)
    token = tpot_bound(work, hardware, running, inputs + outputs / 2.0)
    generates = work.generates
    found = ranges(
        deployment,
        scenario,
        Middles(
            ttft_s=float(point.ttft_s),
            ttft_unloaded_s=float(point.ttft_unloaded_s),
            tpot_s=float(point.tpot_s),
            queue_wait_s=float(point.queue_wait_s),
            running=running,
            ttft_floor_s=float(first.seconds),
            tpot_floor_s=float(token.seconds),
            ttft_host_fraction=point.prefill.offloaded_fraction,
            tpot_host_fraction=point.decode.offloaded_fraction,
        ),
    )
    return SpeedAnswer(
        ttft_s=found.ttft_s,
        ttft_unloaded_s=found.ttft_unloaded_s,
        tpot_s=found.tpot_s,
        e2e_s=found.e2e_s,
        prefill_tokens_per_s=found.ttft_unloaded_s.inverse(inputs, "tokens/s"),
        decode_tokens_per_s=found.decode_tokens_per_s,
        output_tokens_per_s=found.output_tokens_per_s,
        total_tokens_per_s=found.total_tokens_per_s,
        running_batch=float(point.running_batch),
        queue_wait_s=float(point.queue_wait_s),
        bound_by=str(point.bound_by if generates else point.prefill_bound_by),
        prefill_bound_by=str(point.prefill_bound_by),
        ttft_bound_s=_shown(first),
        tpot_bound_s=_shown(token) if generates else None,
        decode_parts=_parts(point.decode.parts()) if generates else {},
        prefill_parts=_parts(point.prefill.parts()),
        critical_batch=float(maximum(point.critical_batch, 1.0)) if generates else None,
        calibration=deployment.calibration.id,
    )


def _shown(bound: Bound) -> float | None:
    """The floor in seconds; None where the card's own cache holds all that is read, so that memory sets none."""
    return float(bound.seconds) if bound.from_memory else None


def _parts(parts: dict[str, Quantity]) -> dict[str, float]:
    return {name: float(seconds) for name, seconds in parts.items() if seconds > 0.0}


def _times(estimate: Estimate, factor: Quantity, unit: str) -> Estimate:
    return Estimate(
        estimate.low * factor, estimate.mid * factor, estimate.high * factor, unit, estimate.basis
    )


def _plus(a: Estimate, b: Estimate) -> Estimate:
    return Estimate(a.low + b.low, a.mid + b.mid, a.high + b.high, a.unit, worst(a.basis, b.basis))
