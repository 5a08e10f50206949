"""Curves and maps around one scenario, each a single call over arrays: what the charts draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.architecture.cache import cache_bytes, cache_layout
from planner.architecture.totals import attended_positions
from planner.deployment import resolve
from planner.evaluation import Evaluation
from planner.memory.fit import fit_level
from planner.memory_limits import budget_at, budget_of, most_users, split_length
from planner.quantity import Estimate, FloatArray, worst
from planner.scenario import Scenario
from planner.speed.bounds import tpot_bound
from planner.speed.carried import few_together
from planner.speed.step import decode_step
from planner.speed_answer import Middles, first_token_bound, point_of, ranges, rates_basis, widened


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure with its range along one axis; `bound` is the physical limit, or None where there is none."""

    x: FloatArray
    estimate: Estimate
    bound: FloatArray | None


@dataclass(frozen=True, slots=True)
class CacheCurve:
    """Cache of one sequence, whole model (bytes): as kept, as if windows were ignored, and the constant state in it."""

    tokens: FloatArray
    windowed_bytes: FloatArray
    naive_bytes: FloatArray
    state_bytes: float


@dataclass(frozen=True, slots=True)
class FitMap:
    """Verdicts over context length and users.

    Attributes:
        verdict: 0 fits, 1 tight, 2 does not fit; users along the first axis, contexts along the second.
        limit_users: most users per context that the cache holds.
    """

    contexts: FloatArray
    users: FloatArray
    verdict: NDArray[np.int8]
    limit_users: FloatArray


@dataclass(frozen=True, slots=True)
class BatchCurve:
    """Speed against users in flight (tokens/s).

    Attributes:
        user_rate: what each sees after the first token; system_rate: output of the whole deployment.
        batch_limit: sequences that engine and cache let run at once; more only wait.
        critical_batch: where compute takes as long as reading the weights.
    """

    batch: FloatArray
    user_rate: Estimate
    system_rate: Estimate
    batch_limit: float
    critical_batch: float


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """Work per byte moved (FLOP/byte) and the rate reached (FLOP/s), low to high."""

    intensity_flop_per_byte: float
    low_flops_per_s: float
    mid_flops_per_s: float
    high_flops_per_s: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """One GPU's roof, and where the phases of this scenario lie under it."""

    peak_flops_per_s: float
    bandwidth_bytes_per_s: float
    ridge_flop_per_byte: float
    points: dict[str, RooflinePoint]


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """Shares of what the card has that this scenario uses.

    Attributes:
        memory_fraction: of usable memory, needed; compute_fraction: of the peak, during prefill; bandwidth_fraction: of
            the bandwidth, during decode.
        first: which runs out first as users are added: "memory", "compute" or "bandwidth".
    """

    memory_fraction: float
    compute_fraction: float
    bandwidth_fraction: float
    first: str


def _array(values: Any) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def ttft_curve(scenario: Scenario, input_tokens: FloatArray) -> Curve:
    """Time to first token against prompt length, at the scenario's number of users, waiting included (s)."""
    return _over_prompts(scenario, input_tokens)[0]


def decode_rate_curve(scenario: Scenario, input_tokens: FloatArray) -> Curve:
    """Output rate of each user against prompt length, at the scenario's number of users (tokens/s).

    The bound is the most there can be.

    Raises:
        ValueError: for a model that makes no tokens one by one.
    """
    rate = _over_prompts(scenario, input_tokens)[1]
    if rate is None:
        raise ValueError("the model doesn't generate")
    return rate


def _over_prompts(scenario: Scenario, input_tokens: FloatArray) -> tuple[Curve, Curve | None]:
    """Both curves: the figures of `speed_answer` at each prompt length."""
    deployment, lengths = resolve(scenario), _array(input_tokens)
    outputs, users = float(scenario.output_tokens), float(scenario.concurrency)
    budget = budget_at(
        deployment,
        input_tokens=lengths,
        output_tokens=outputs,
        concurrency=users,
        max_model_len=scenario.max_model_len,
    )
    point = point_of(
        deployment,
        budget,
        input_tokens=lengths,
        output_tokens=outputs,
        concurrency=users,
        max_model_len=scenario.max_model_len,
    )
    work, hardware = deployment.work, deployment.hardware
    running = point.running_batch * deployment.parallelism.dp
    first = first_token_bound(deployment, lengths)
    token = tpot_bound(work, hardware, running, lengths + outputs / 2.0)
    shape = 0.0 * lengths
    found = ranges(
        deployment,
        scenario,
        Middles(
            ttft_s=point.ttft_s + shape,
            ttft_unloaded_s=point.ttft_unloaded_s + shape,
            tpot_s=point.tpot_s + shape,
            queue_wait_s=point.queue_wait_s + shape,
            running=running + shape,
            ttft_floor_s=first.seconds + shape,
            tpot_floor_s=token.seconds + shape,
            ttft_host_fraction=point.prefill.offloaded_fraction + shape,
            tpot_host_fraction=point.decode.offloaded_fraction + shape,
        ),
        input_tokens=lengths,
    )
    prompts = Curve(lengths, found.ttft_s, _array(first.seconds + shape))
    if found.decode_tokens_per_s is None:
        return prompts, None
    limit = 1.0 / _array(token.seconds + shape) if np.all(token.from_memory) else None
    return prompts, Curve(lengths, found.decode_tokens_per_s, limit)


def cache_curve(scenario: Scenario, tokens: FloatArray) -> CacheCurve:
    """Cache of one sequence against its length, and what it would be if every layer kept everything."""
    deployment, lengths = resolve(scenario), _array(tokens)
    naive = cache_layout(
        deployment.architecture,
        deployment.kv.key_bytes,
        deployment.kv.value_bytes,
        deployment.compute_bytes,
        ignore_windows=True,
        states=deployment.settings.states,
    )
    layout = deployment.model_layout
    return CacheCurve(
        lengths,
        _array(cache_bytes(layout, lengths) + 0.0 * lengths),
        _array(cache_bytes(naive, lengths) + 0.0 * lengths),
        layout.constant_bytes,
    )


def fit_map(scenario: Scenario, contexts: FloatArray, users: FloatArray) -> FitMap:
    """Verdicts for every pair of total length (tokens) and users; the answer keeps its length."""
    deployment = resolve(scenario)
    lengths, people = _array(contexts), _array(users)
    answer = float(scenario.output_tokens)
    grid_lengths, grid_people = np.meshgrid(lengths, people)
    grid_prompts, grid_answers = split_length(grid_lengths, answer)
    budget = budget_at(
        deployment,
        input_tokens=grid_prompts,
        output_tokens=grid_answers,
        concurrency=grid_people,
        max_model_len=scenario.max_model_len,
    )
    level = np.broadcast_to(fit_level(budget, grid_people, grid_lengths), grid_lengths.shape)
    limit = float(deployment.architecture.max_context_tokens)
    if scenario.max_model_len is not None:
        limit = min(limit, float(scenario.max_model_len))
    verdict = np.where(grid_lengths > limit, 2, level).astype(np.int8)
    held = np.broadcast_to(
        _array(most_users(deployment, *split_length(lengths, answer), scenario.max_model_len)),
        lengths.shape,
    )
    return FitMap(lengths, people, verdict, np.where(lengths > limit, 0.0, held))


def batch_curve(scenario: Scenario, batches: FloatArray) -> BatchCurve:
    """Per-user and whole output rate against users in flight, closed loop.

    Raises:
        ValueError: for a model that makes no tokens one by one.
    """
    deployment, people = resolve(scenario), _array(batches)
    if not deployment.work.generates:
        raise ValueError("the model doesn't generate")
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    budget = budget_at(
        deployment,
        input_tokens=inputs,
        output_tokens=outputs,
        concurrency=people,
        max_model_len=scenario.max_model_len,
    )
    point = point_of(
        deployment,
        budget,
        input_tokens=inputs,
        output_tokens=outputs,
        concurrency=people,
        max_model_len=scenario.max_model_len,
    )
    held = most_users(deployment, inputs, outputs / 2.0, scenario.max_model_len)
    calibration = deployment.calibration
    basis = worst(calibration.basis, rates_basis(deployment))
    groups = deployment.parallelism.dp
    bound = tpot_bound(
        deployment.work, deployment.hardware, point.running_batch * groups, inputs + outputs / 2.0
    )
    band = widened(deployment, calibration.tpot_band, point.decode.offloaded_fraction)
    seconds = Estimate.banded(point.tpot_s + 0.0 * people, band, "s", basis, floor=bound.seconds)
    system = point.output_tokens_per_s + 0.0 * people
    return BatchCurve(
        people,
        seconds.inverse(1.0, "tokens/s"),
        Estimate(
            system * seconds.mid / seconds.high,
            system,
            system * seconds.mid / seconds.low,
            "tokens/s",
            basis,
        ),
        max(min(float(held), float(groups * deployment.settings.max_num_seqs)), 1.0),
        float(point.critical_batch),
    )


def roofline(scenario: Scenario) -> Roofline:
    """Where one prompt's prefill and one step of the running batch lie under one GPU's roof.

    Rates count useful work on one rank over the whole time, overheads included; the ridge is at the dense peak of the
    dtype that most products run in.
    """
    deployment = resolve(scenario)
    work, hardware, calibration = deployment.work, deployment.hardware, deployment.calibration
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    context = inputs + outputs / 2.0
    budget = budget_of(deployment, scenario)
    point = point_of(
        deployment,
        budget,
        input_tokens=inputs,
        output_tokens=outputs,
        concurrency=float(scenario.concurrency),
        max_model_len=scenario.max_model_len,
    )
    flops = dict(work.linear_flops)
    for dtype, each in (*work.expert_flops, *work.encoder_flops):
        flops[dtype] = flops.get(dtype, 0.0) + each
    main = max(flops, key=lambda dtype: flops[dtype])
    peak, bandwidth = (
        float(hardware.product_peak(main, work.dtype)),
        float(hardware.bandwidth_bytes_per_s),
    )
    per_token = sum(flops.values()) + work.recurrent_flops
    prefill_flops = inputs * per_token + work.head_flops
    for score in (*work.scores, *work.encoder_scores):
        prefill_flops += score.prefill_flops * float(attended_positions(score, inputs, 0.0))
    prefill_bytes = float(work.read_bytes + work.expert_bytes(inputs)) + float(
        cache_bytes(work.layout, inputs)
    )
    alone = few_together(calibration, experts=bool(work.experts))
    points = {
        "prefill": _rate(
            prefill_flops, prefill_bytes, float(point.ttft_unloaded_s), alone.ttft_band
        )
    }
    if work.generates:
        batch = float(point.running_batch)
        decode_flops = batch * (per_token + work.head_flops)
        for score in work.scores:
            decode_flops += (
                batch * score.decode_flops * float(attended_positions(score, 1.0, context))
            )
        everyone = batch * work.parallelism.dp
        moved = float(work.read_bytes + work.expert_bytes(everyone)) + batch * float(
            cache_bytes(work.layout, context)
        )
        step = decode_step(work, hardware, calibration, everyone, context)
        points["decode"] = _rate(decode_flops, moved, float(step.total_s), calibration.tpot_band)
    ceiling = {
        name: min(peak, bandwidth * found.intensity_flop_per_byte) for name, found in points.items()
    }
    capped = {
        name: RooflinePoint(
            found.intensity_flop_per_byte,
            min(found.low_flops_per_s, ceiling[name]),
            min(found.mid_flops_per_s, ceiling[name]),
            min(found.high_flops_per_s, ceiling[name]),
        )
        for name, found in points.items()
    }
    return Roofline(peak, bandwidth, peak / bandwidth, capped)


def _rate(flops: float, moved: float, seconds: float, band: tuple[float, float]) -> RooflinePoint:
    return RooflinePoint(
        flops / moved,
        flops / (seconds * (1.0 + band[1])),
        flops / seconds,
        flops / (seconds * (1.0 + band[0])),
    )


def resource_use(evaluation: Evaluation) -> ResourceUse:
    """How much of memory, compute and bandwidth the scenario uses, and which limits first.

    Compute is the share of the peak during prefill, bandwidth that during decode: what is left above them is overhead
    or waiting. First is memory where the cache limits the number of users sooner than the critical batch does.
    """
    memory, speed = evaluation.memory, evaluation.speed
    roof = roofline(evaluation.scenario)
    needed = float(memory.needed_bytes_per_gpu.mid) / float(memory.usable_bytes_per_gpu.mid)
    prefill = roof.points["prefill"]
    compute = prefill.mid_flops_per_s / roof.peak_flops_per_s
    bandwidth = 0.0
    if "decode" in roof.points:
        decode = roof.points["decode"]
        moved_per_s = decode.mid_flops_per_s / decode.intensity_flop_per_byte
        bandwidth = moved_per_s / roof.bandwidth_bytes_per_s
    held = float(memory.max_concurrency.mid)
    critical = speed.critical_batch or float("inf")
    first = "memory" if held < critical else "compute"
    if speed.tpot_s is None:
        first = "compute"
    return ResourceUse(needed, compute, bandwidth, first)
