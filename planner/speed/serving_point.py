"""One deployment under a closed loop of users: what each of them sees, and what the whole delivers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from planner.catalog.calibrations import Calibration
from planner.quantity import Quantity, maximum, minimum
from planner.speed.chunks import chunk_overhead, joined
from planner.speed.host import host_flops
from planner.speed.prefill import prefill
from planner.speed.step import StepTime, decode_step, product_seconds, reading_seconds
from planner.speed.work import Hardware, Work


@dataclass(frozen=True, slots=True)
class ServingPoint:
    """A steady closed loop: `concurrency` requests in flight, each followed by the next.

    Attributes:
        ttft_s: time to the first token, waiting for a place included.
        ttft_unloaded_s: the same for one request alone.
        tpot_s: mean time per output token after the first, prompts of other users mixed in.
        tpot_unloaded_s: the same for one request alone.
        e2e_s: the whole request.
        running_batch: sequences that hold a place at once, per data-parallel group.
        queue_wait_s: mean wait for a place.
        prefill_time_s: processing one prompt (with static batching: the batch's prompts).
        request_rate_per_s, output_tokens_per_s, total_tokens_per_s: of the whole deployment.
        decode: components of one step at the running batch.
        prefill: components of `ttft_unloaded_s`.
        bound_by, prefill_bound_by: as `StepTime.bound_by`.
        critical_batch: running batch per data-parallel group at which products take as long as reading the weights,
            all experts touched; NaN for a model that doesn't generate.
    """

    ttft_s: Quantity
    ttft_unloaded_s: Quantity
    tpot_s: Quantity
    tpot_unloaded_s: Quantity
    e2e_s: Quantity
    running_batch: Quantity
    queue_wait_s: Quantity
    prefill_time_s: Quantity
    request_rate_per_s: Quantity
    output_tokens_per_s: Quantity
    total_tokens_per_s: Quantity
    decode: StepTime
    prefill: StepTime
    bound_by: Any
    prefill_bound_by: Any
    critical_batch: Quantity


@dataclass(frozen=True, slots=True)
class _Load:
    """Requests of one length in a closed loop, and how many of them run."""

    input_tokens: Quantity
    output_tokens: Quantity
    cached_tokens: Quantity
    concurrency: Quantity
    running: Quantity
    waiting_steps: Quantity
    in_waves: bool

    @property
    def context_tokens(self) -> Quantity:
        return self.input_tokens + self.output_tokens / 2.0


def running_sequences(
    concurrency: Quantity, max_num_seqs: Quantity, pool_sequences: Quantity
) -> Quantity:
    """Sequences that hold a place at once: in flight, allowed by the engine, held by the pool; at least 1.

    Args:
        max_num_seqs: the engine's limit over the whole deployment.
        pool_sequences: sequences of input + output / 2 tokens that the cache pool holds, over the whole deployment.
    """
    held = minimum(minimum(concurrency, max_num_seqs), pool_sequences // 1.0)
    return maximum(held, 1.0)


def critical_batch(work: Work, hardware: Hardware, calibration: Calibration) -> Quantity:
    """Tokens in a step at which matrix products take as long as reading all weights (tokens per group).

    n* = bytes / (e_m·W) ÷ FLOP per token / (e_c·P), with every expert read: the ridge of the roofline as calibrated.
    """
    on_gpu = work if work.host is None else work.host.resident
    reading = reading_seconds(on_gpu, hardware, calibration, float("inf"))
    arithmetic = product_seconds(on_gpu, hardware, calibration, 1.0, 1.0, prefill=False)
    if work.host is not None:
        held, rates = work.host.held, hardware.host_rates()
        moved = held.read_bytes + held.expert_bytes(float("inf"))
        reading = reading + moved / rates.read_bytes_per_s
        arithmetic = arithmetic + host_flops(held, 1.0, 1.0) / rates.flops_per_s
    return reading / arithmetic


def serving_point(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    *,
    input_tokens: Quantity,
    output_tokens: Quantity,
    concurrency: Quantity,
    max_running: Quantity = float("inf"),
    max_num_batched_tokens: Quantity = float("inf"),
    cached_tokens: Quantity = 0.0,
    waiting_steps: Quantity = 0.0,
    in_waves: bool = False,
) -> ServingPoint:
    """What users see and what the deployment delivers at a fixed number of requests in flight.

    Continuous batching: every step decodes the running sequences at input + output / 2 tokens and carries the prompts
    of the others, spread evenly: (b − 1)·input / output tokens. The token budget limits how many can decode while the
    rest are read in. Time to first token: host time per layer and per sequence, own prefill (in more steps where the
    budget is below the engines' defaults), prefills of others in flight, and one to two steps. Static batching: all
    prompts of a batch are read together, then decoded together. Requests beyond the running ones wait: in a closed loop
    (c / b − 1) times a request's own time, by Little's law.
    A model without a head reads inputs together and takes no step: its times per token are 0.

    Args:
        input_tokens, output_tokens: per request, at least 1 (tokens).
        concurrency: requests in flight over the whole deployment, at least 1.
        max_running: sequences that may run at once over the whole deployment (engine's limit and pool), at least 1.
        max_num_batched_tokens: token budget of one step in each data-parallel group (continuous batching only).
        cached_tokens: of each prompt, how many a prefix cache holds (tokens).
        waiting_steps: decode steps that settings of the engine let a new prompt wait on average (continuous batching
            only).
        in_waves: requests start and end together, and every prompt is read before any is decoded on, so that each
            waits for half of the others (continuous batching only).

    Raises:
        MissingFigure: where one accelerator lacks a rate that is needed; arrays give NaN.
    """
    running = minimum(concurrency, max_running)
    load = _Load(
        input_tokens, output_tokens, cached_tokens, concurrency, running, waiting_steps, in_waves
    )
    if not work.generates:
        return _reading(work, hardware, calibration, load, max_num_batched_tokens)
    if calibration.kind == "static":
        return _static(work, hardware, calibration, load)
    return _batched(work, hardware, calibration, load, max_num_batched_tokens)


def mixed_step(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    *,
    input_tokens: Quantity,
    output_tokens: Quantity,
    batch: Quantity,
    max_num_batched_tokens: Quantity = float("inf"),
    cached_tokens: Quantity = 0.0,
) -> tuple[Quantity, StepTime]:
    """The mean step of a closed loop with continuous batching or slots, prompts of others mixed in.

    Args:
        batch: sequences that hold a place over the whole deployment, at least 1; the others as in `serving_point`.

    Returns:
        How many of them decode while the rest are read in, and the step's components.

    Raises:
        MissingFigure: where one accelerator lacks a rate that is needed; arrays give NaN.
    """
    groups = work.parallelism.dp
    new_tokens = maximum(input_tokens - cached_tokens, 1.0)
    per_output = new_tokens / output_tokens
    decoding = batch
    if calibration.kind == "continuous":
        budget = max_num_batched_tokens * groups
        decoding = maximum(minimum(batch, budget / (1.0 + per_output)), 1.0)
    step = decode_step(
        work,
        hardware,
        calibration,
        decoding,
        input_tokens + output_tokens / 2.0,
        prefill_tokens=(decoding - 1.0) * per_output,
        prompt_tokens=new_tokens,
        prompt_cached_tokens=cached_tokens,
        chunk_tokens=max_num_batched_tokens - decoding / groups,
    )
    return decoding, step


def _batched(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    load: _Load,
    max_num_batched_tokens: Quantity,
) -> ServingPoint:
    """Continuous batching and llama.cpp's slots."""
    groups = work.parallelism.dp
    output_tokens, running = load.output_tokens, load.running
    decoding, decode = mixed_step(
        work,
        hardware,
        calibration,
        input_tokens=load.input_tokens,
        output_tokens=output_tokens,
        batch=running,
        max_num_batched_tokens=max_num_batched_tokens,
        cached_tokens=load.cached_tokens,
    )
    alone = decode_step(work, hardware, calibration, 1.0, load.context_tokens)
    whole = prefill(work, hardware, calibration, load.input_tokens, load.cached_tokens)

    def in_chunks(beside: Quantity) -> StepTime:
        more = chunk_overhead(
            work,
            hardware,
            calibration,
            input_tokens=load.input_tokens,
            cached_tokens=load.cached_tokens,
            max_num_batched_tokens=max_num_batched_tokens,
            batch=beside,
            context_tokens=load.context_tokens,
        )
        return joined(whole, more)

    prompt_s, tpot, tpot_alone = in_chunks(decoding).total_s, decode.total_s, alone.total_s
    # The host's dispatch is paid once, whoever else is served; what the steps of chunks take is the device's.
    device = prompt_s - whole.layers_s
    per_group = maximum(running / groups, 1.0)
    others = per_group - 1.0
    in_flight = minimum(others * device / (output_tokens * tpot), others)
    before = calibration.prefill_interference * in_flight + calibration.prefill_wave * others
    if load.in_waves:
        before = others / 2.0
    ttft = (
        prompt_s
        + before * device
        + (calibration.prefill_steps + load.waiting_steps) * tpot
        + calibration.prefill_sequence_s * per_group
    )
    # Those that hold a place without decoding are being read in; by Little's law that takes at least this long.
    ttft = maximum(ttft, tpot * (output_tokens * (running / decoding - 1.0) + 1.0))
    waiting = calibration.prefill_steps * tpot_alone + calibration.prefill_sequence_s
    unloaded = in_chunks(1.0)
    first = replace(unloaded, host_s=unloaded.host_s + waiting)
    return _point(work, hardware, calibration, load, ttft, prompt_s, decode, alone, first)


def _static(work: Work, hardware: Hardware, calibration: Calibration, load: _Load) -> ServingPoint:
    """One batch after another: prompts together, then decode together."""
    together = maximum(load.running / work.parallelism.dp, 1.0)
    lengths = (load.input_tokens, load.cached_tokens)
    batch_s = prefill(work, hardware, calibration, *lengths, together).total_s
    first = prefill(work, hardware, calibration, *lengths)
    decode = decode_step(work, hardware, calibration, load.running, load.context_tokens)
    alone = decode_step(work, hardware, calibration, 1.0, load.context_tokens)
    return _point(work, hardware, calibration, load, batch_s, batch_s, decode, alone, first)


def _reading(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    load: _Load,
    max_num_batched_tokens: Quantity,
) -> ServingPoint:
    """A model that only reads its input: inputs together up to the token budget, and no step after that."""
    together = load.running
    if calibration.kind == "continuous":
        groups = work.parallelism.dp
        together = minimum(together, max_num_batched_tokens * groups / load.input_tokens)
    together = maximum(together, 1.0)
    load = replace(load, output_tokens=1.0, running=together)
    lengths = (load.input_tokens, load.cached_tokens)
    per_group = maximum(together / work.parallelism.dp, 1.0)
    batch_s = prefill(work, hardware, calibration, *lengths, per_group).total_s
    first = prefill(work, hardware, calibration, *lengths)
    nothing = first.scaled(0.0)
    return _point(work, hardware, calibration, load, batch_s, batch_s, nothing, nothing, first)


def _point(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    load: _Load,
    ttft: Quantity,
    prefill_time_s: Quantity,
    decode: StepTime,
    alone: StepTime,
    first: StepTime,
) -> ServingPoint:
    """The closed loop around a request that holds a place: `ttft` and the steps after it."""
    tpot = decode.total_s
    service = ttft + (load.output_tokens - 1.0) * tpot
    wait = (load.concurrency / load.running - 1.0) * service
    rate = load.running / service
    return ServingPoint(
        ttft_s=wait + ttft,
        ttft_unloaded_s=first.total_s,
        tpot_s=tpot,
        tpot_unloaded_s=alone.total_s,
        e2e_s=wait + service,
        running_batch=maximum(load.running / work.parallelism.dp, 1.0),
        queue_wait_s=wait,
        prefill_time_s=prefill_time_s,
        request_rate_per_s=rate,
        output_tokens_per_s=rate * load.output_tokens,
        total_tokens_per_s=rate * (load.input_tokens + load.output_tokens),
        decode=decode,
        prefill=first,
        bound_by=decode.bound_by(),
        prefill_bound_by=first.bound_by(),
        critical_batch=critical_batch(work, hardware, calibration)
        if work.generates
        else float("nan"),
    )
