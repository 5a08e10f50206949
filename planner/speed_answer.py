"""The speed part of an answer: times and rates with their ranges, held above the physical bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.answers import SpeedAnswer
from planner.deployment import Deployment
from planner.memory.budget import MemoryBudget
from planner.memory.pool import held_sequences
from planner.memory_limits import GROWING, most_users
from planner.quantity import Basis, Estimate, Quantity, maximum, worst
from planner.scenario import Scenario
from planner.speed.bounds import Bound, tpot_bound, ttft_bound
from planner.speed.serving_point import ServingPoint, running_sequences, serving_point


def rates_basis(deployment: Deployment) -> Basis:
    """How well the card's own rates are known: an assumed bandwidth or peak makes every time assumed."""
    figures = deployment.accelerator.figures
    keys = ("bandwidth_bytes_per_s", f"peak_{deployment.dtype}_flops_per_s")
    return worst(*(figures[key].basis for key in keys if key in figures), Basis.EXACT)


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


def speed_answer(deployment: Deployment, scenario: Scenario, budget: MemoryBudget) -> SpeedAnswer:
    """Times and rates of the scenario; what doesn't fit is timed as if one sequence ran."""
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    point = point_of(
        deployment,
        budget,
        input_tokens=inputs,
        output_tokens=outputs,
        concurrency=float(scenario.concurrency),
        max_model_len=scenario.max_model_len,
    )
    work, hardware, calibration = deployment.work, deployment.hardware, deployment.calibration
    basis = worst(calibration.basis, rates_basis(deployment))
    running = float(point.running_batch) * deployment.parallelism.dp
    floor_first = ttft_bound(work, hardware, inputs)
    first_s = float(floor_first.seconds)
    wait = float(point.queue_wait_s)
    unloaded = Estimate.banded(
        point.ttft_unloaded_s, calibration.ttft_band, "s", basis, floor=first_s
    )
    first = Estimate.banded(point.ttft_s - wait, calibration.ttft_band, "s", basis, floor=first_s)
    common: dict[str, Any] = {
        "ttft_unloaded_s": unloaded,
        "prefill_tokens_per_s": unloaded.inverse(inputs, "tokens/s"),
        "running_batch": float(point.running_batch),
        "queue_wait_s": wait,
        "prefill_bound_by": str(point.prefill_bound_by),
        "ttft_bound_s": _shown(floor_first),
        "prefill_parts": _parts(point.prefill.parts()),
        "calibration": calibration.id,
    }
    if not work.generates:
        requests = first.inverse(running, "1/s")
        return SpeedAnswer(
            ttft_s=first,
            tpot_s=None,
            e2e_s=first,
            decode_tokens_per_s=None,
            output_tokens_per_s=None,
            total_tokens_per_s=_times(requests, inputs, "tokens/s"),
            bound_by=str(point.prefill_bound_by),
            tpot_bound_s=None,
            decode_parts={},
            critical_batch=None,
            **common,
        )
    floor_token = tpot_bound(work, hardware, running, inputs + outputs / 2.0)
    tpot = Estimate.banded(
        point.tpot_s, calibration.tpot_band, "s", basis, floor=float(floor_token.seconds)
    )
    service = Estimate(
        first.low + (outputs - 1.0) * tpot.low,
        first.mid + (outputs - 1.0) * tpot.mid,
        first.high + (outputs - 1.0) * tpot.high,
        "s",
        basis,
    )
    requests = service.inverse(running, "1/s")
    rounds = wait / float(service.mid)  # a request waits for this many others' whole time
    return SpeedAnswer(
        ttft_s=_plus(first, _times(service, rounds, "s")),
        tpot_s=tpot,
        e2e_s=_times(service, 1.0 + rounds, "s"),
        decode_tokens_per_s=tpot.inverse(1.0, "tokens/s"),
        output_tokens_per_s=_times(requests, outputs, "tokens/s"),
        total_tokens_per_s=_times(requests, inputs + outputs, "tokens/s"),
        bound_by=str(point.bound_by),
        tpot_bound_s=_shown(floor_token),
        decode_parts=_parts(point.decode.parts()),
        critical_batch=float(maximum(point.critical_batch, 1.0)),
        **common,
    )


def _shown(bound: Bound) -> float | None:
    """The floor in seconds; None where the card's own cache holds all that is read, so that memory sets none."""
    return float(bound.seconds) if bound.from_memory else None


def _parts(parts: dict[str, Quantity]) -> dict[str, float]:
    return {name: float(seconds) for name, seconds in parts.items() if seconds > 0.0}


def _times(estimate: Estimate, factor: float, unit: str) -> Estimate:
    return Estimate(
        estimate.low * factor, estimate.mid * factor, estimate.high * factor, unit, estimate.basis
    )


def _plus(a: Estimate, b: Estimate) -> Estimate:
    return Estimate(a.low + b.low, a.mid + b.mid, a.high + b.high, a.unit, worst(a.basis, b.basis))
