"""Time of one engine iteration, as the sum of named components."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from planner.architecture.cache import read_bytes
from planner.architecture.totals import attended_positions
from planner.catalog.calibrations import Calibration
from planner.quantity import Quantity, maximum, minimum
from planner.speed.collectives import all_reduce_time, all_to_all_time, at_ranks
from planner.speed.host import decode_host_seconds, lent
from planner.speed.kernels import as_factor, p_norm
from planner.speed.work import Hardware, Work

REDUCES_PER_LAYER = 2.0  # after the attention's output and after the feed-forward


@dataclass(frozen=True, slots=True)
class StepTime:
    """Components of one engine iteration or of one prompt's prefill, in seconds; they sum to `total_s`.

    Attributes:
        host_s: time per step on the host that the device waits for; with eager execution, what the host needs
            beyond the device's own time.
        layers_s: time per layer that doesn't depend on the batch: kernel floors, dispatch.
        sequences_s: host time per running sequence.
        linear_s: matrix products, from `weights_s` (reading weights) and `compute_s` by their norm; those two alone
            are not part of the sum.
        cache_s: reading caches and states.
        attention_s: attention's own arithmetic, where it isn't hidden behind reading the cache.
        dequantisation_s: unpacking weights into the compute dtype.
        communication_s: collectives.
        pipeline_s: waiting of pipeline stages for each other.
        host_weights_s: the host's own share: weights and caches that its processor reads from host memory, or its
            arithmetic where that takes longer.
        transfer_s: hidden states that go between host and GPU, and weights in host memory that are lent to the GPU.
        overlap_fraction: 1 where any `host_s` means that the host decides, which runs beside the device; else 0.
    """

    host_s: Quantity
    layers_s: Quantity
    sequences_s: Quantity
    linear_s: Quantity
    weights_s: Quantity
    compute_s: Quantity
    cache_s: Quantity
    attention_s: Quantity
    dequantisation_s: Quantity
    communication_s: Quantity
    pipeline_s: Quantity
    host_weights_s: Quantity = 0.0
    transfer_s: Quantity = 0.0
    overlap_fraction: Quantity = 0.0

    @property
    def total_s(self) -> Quantity:
        """The whole time."""
        return (
            self.host_s
            + self.layers_s
            + self.sequences_s
            + self.linear_s
            + self.cache_s
            + self.attention_s
            + self.dequantisation_s
            + self.communication_s
            + self.pipeline_s
            + self.offloaded_s
        )

    @property
    def offloaded_s(self) -> Quantity:
        """The time for what lies in host memory."""
        return self.host_weights_s + self.transfer_s

    @property
    def offloaded_fraction(self) -> Quantity:
        """Share of the whole time that goes to what lies in host memory."""
        total = self.total_s
        return self.offloaded_s / (total + as_factor(total <= 0.0))

    @property
    def device_s(self) -> Quantity:
        """The time without waiting for the host."""
        return self.total_s - self.host_s

    def scaled(self, factor: Quantity) -> StepTime:
        """Every component times `factor`."""
        numbers = {
            field.name: getattr(self, field.name) * factor
            for field in fields(self)
            if field.name != "overlap_fraction"
        }
        return replace(self, **numbers)

    def parts(self) -> dict[str, Quantity]:
        """The components that sum to the total, by name without unit."""
        return {
            "host": self.host_s,
            "layers": self.layers_s,
            "sequences": self.sequences_s,
            "linear": self.linear_s,
            "cache": self.cache_s,
            "attention": self.attention_s,
            "dequantisation": self.dequantisation_s,
            "communication": self.communication_s,
            "pipeline": self.pipeline_s,
            "host_weights": self.host_weights_s,
            "transfer": self.transfer_s,
        }

    def bound_by(self) -> str | NDArray[np.str_]:
        """What the time is limited by; names in an array.

        "bandwidth", "compute", "host", "communication", or of what lies in host memory "host_memory" or "transfer".
        """
        reads = as_factor(self.weights_s >= self.compute_s)
        bandwidth = self.cache_s + self.linear_s * reads
        compute = self.attention_s + self.dequantisation_s + self.linear_s * (1.0 - reads)
        host = self.host_s + self.layers_s + self.sequences_s
        host = host + self.overlap_fraction * (as_factor(self.host_s > 0.0) * self.total_s - host)
        communication = self.communication_s + self.pipeline_s
        names = ("bandwidth", "compute", "host", "communication", "host_memory", "transfer")
        offloaded = (self.host_weights_s, self.transfer_s)
        values = (bandwidth, compute, host, communication, *offloaded)
        if not isinstance(self.total_s, np.ndarray):
            return names[values.index(max(values))]
        largest = np.argmax(np.stack(np.broadcast_arrays(*values)), axis=0)
        return np.asarray(np.array(names)[largest])


def sequences_in_step(work: Work, calibration: Calibration, batch: Quantity) -> Quantity:
    """Sequences that one rank decodes in one pass over the layers, at least 1.

    Data-parallel groups share the running sequences; a pipeline with continuous batching splits each group's into one
    micro-batch per stage.
    """
    parallelism = work.parallelism
    shares = parallelism.dp * (parallelism.pp if calibration.kind == "continuous" else 1)
    return batch if shares == 1 else maximum(batch / shares, 1.0)


def decode_step(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    batch: Quantity,
    context_tokens: Quantity,
    prefill_tokens: Quantity = 0.0,
    prompt_tokens: Quantity = 1.0,
    prompt_cached_tokens: Quantity = 0.0,
    chunk_tokens: Quantity = float("inf"),
) -> StepTime:
    """Mean time of the iterations that decode `batch` sequences and process prompts beside them.

    T = t_step + L·t_layer + b·t_seq + p-norm(FLOP·n / (e_c·P), bytes(n) / (e_m·W)) + b·cache(S) / (e_kv·W) + attention
    of prompt tokens + collectives, per rank. Eager execution takes the longer of host and device. With stages, the time
    is that of a token's way through all of them.

    Args:
        batch: sequences decoded in this iteration over the whole deployment, at least 1 (sequences).
        context_tokens: tokens cached per sequence (tokens).
        prefill_tokens: prompt tokens per iteration over the whole deployment, on average (tokens).
        prompt_tokens: new tokens of each prompt they belong to, at least 1 (tokens); prompt_cached_tokens: those that a
            prefix cache holds before them.
        chunk_tokens: most prompt tokens that one iteration of a data-parallel group takes. Prompts come in such chunks,
            not drop by drop, so that most iterations touch the experts of the decoded tokens only.

    Returns:
        Components in the common shape of the arguments and of arrays in `hardware` and `calibration` (s).

    Raises:
        MissingFigure: where one accelerator lacks a rate that the step needs; arrays give NaN.
    """
    parallelism, share = work.parallelism, work.host
    if share is not None:
        work = share.resident
    sequences = sequences_in_step(work, calibration, batch)
    with_prompts = not (isinstance(prefill_tokens, (int, float)) and prefill_tokens == 0.0)
    prompts = prefill_tokens * (sequences / batch) if with_prompts else 0.0
    tokens = sequences + prompts
    logits = tokens if calibration.head_every_token else sequences
    compute_s = product_seconds(work, hardware, calibration, tokens, logits, prefill=False)
    own: Quantity = 0.0
    link: Quantity = 0.0
    if share is not None:
        own, link = decode_host_seconds(
            share, hardware.host_rates(), sequences, context_tokens, prompts, prompt_tokens
        )
        by_gpu = sequences * lent(sequences) + prompts * lent(prompt_tokens)
        compute_s = compute_s + product_seconds(
            share.held, hardware, calibration, by_gpu, 0.0, prefill=False
        )
    weights_s = reading_seconds(work, hardware, calibration, sequences)
    if with_prompts and work.experts:
        chunk = minimum(prompt_tokens, maximum(chunk_tokens, 1.0))
        crowded = reading_seconds(work, hardware, calibration, sequences + chunk)
        weights_s = weights_s + minimum(prompts / chunk, 1.0) * (crowded - weights_s)
    peak = calibration.attention * hardware.peak(work.dtype)
    traffic = calibration.cache_traffic + calibration.cache_repeats * work.query_groups
    moved = sequences * read_bytes(work.layout, context_tokens) * traffic
    cache_s = moved / (calibration.cache * hardware.bandwidth_bytes_per_s)
    flops = work.recurrent_flops * tokens
    for score in work.scores:
        flops = flops + sequences * score.decode_flops * attended_positions(
            score, 1.0, context_tokens
        )
    attention_s = maximum(flops / peak - cache_s, 0.0)
    if with_prompts:
        for score in work.scores:
            pairs = attended_positions(score, prompt_tokens, prompt_cached_tokens)
            each = score.prefill_flops * pairs / prompt_tokens
            attention_s = attention_s + prompts * each / peak
    dequantisation_s: Quantity = 0.0
    if work.dequantises:
        unpacking = dequantisation_seconds(work, hardware, calibration, tokens)
        dequantisation_s = unpacking * as_factor(tokens > 1.0)
    step = StepTime(
        host_s=calibration.step_s,
        layers_s=layer_seconds(work, calibration),
        sequences_s=sequences * calibration.sequence_s,
        linear_s=p_norm(compute_s, weights_s, calibration.order),
        weights_s=weights_s,
        compute_s=compute_s,
        cache_s=cache_s,
        attention_s=attention_s,
        dequantisation_s=dequantisation_s,
        communication_s=communication_seconds(work, hardware, calibration, tokens),
        pipeline_s=0.0,
        host_weights_s=own,
        transfer_s=link,
    )
    if calibration.kind == "static":
        host = host_seconds(work, calibration, tokens, work.layers)
        return with_eager_host(step, calibration, host)
    if parallelism.pp > 1 and calibration.kind == "continuous":
        # One sequence keeps one stage busy at a time, which no imbalance can slow down.
        filled = (batch / parallelism.dp - 1.0) / (parallelism.pp - 1)
        busy = 1.0 - (1.0 - calibration.pipeline) * minimum(maximum(filled, 0.0), 1.0)
        return replace(step, pipeline_s=step.total_s * (1.0 / busy - 1.0))
    return step


def with_eager_host(parts: StepTime, calibration: Calibration, host_s: Quantity) -> StepTime:
    """A pass with the time by which issuing kernels takes longer than running them.

    A GPU runs kernels while the host issues the next; a processor issues them between running them.
    """
    overlap = calibration.host_overlap_fraction
    beyond = maximum(host_s - overlap * parts.device_s, 0.0)
    return replace(parts, host_s=beyond, overlap_fraction=overlap)


def host_seconds(work: Work, calibration: Calibration, tokens: Quantity, layers: int) -> Quantity:
    """Host time of one eager pass over the layers: independent of the batch, more where weights are unpacked first.

    Versions that loop over experts in Python visit each of a layer's in turn, whether tokens are routed to it or not.
    """
    host: Quantity = layers * calibration.host_layer_s
    if work.dequantises:
        host = host * (1.0 + (calibration.host_dequantise - 1.0) * as_factor(tokens > 1.0))
    looped = sum(group.layers * group.experts for group in work.experts)
    return (
        host
        + work.expert_layers * calibration.host_expert_layer_s
        + looped * calibration.host_expert_s
    )


def layer_seconds(work: Work, calibration: Calibration) -> Quantity:
    """Kernel floors of one pass over the layers (s)."""
    floor: Quantity = work.layers * calibration.layer_s
    if work.expert_layers:
        floor = floor + work.expert_layers * calibration.expert_layer_s
    if work.latent_layers:
        floor = floor + work.latent_layers * calibration.latent_layer_s
        floor = floor + work.indexed_layers * calibration.indexed_layer_s
    return floor


def reading_seconds(
    work: Work, hardware: Hardware, calibration: Calibration, tokens: Quantity
) -> Quantity:
    """Reading all weights that `tokens` tokens of a data-parallel group need, on one rank (s)."""
    seconds = work.read_bytes / (calibration.weights * hardware.bandwidth_bytes_per_s)
    if not work.experts:
        return seconds
    rate = calibration.expert_weights * hardware.bandwidth_bytes_per_s
    return seconds + work.expert_bytes(tokens * work.parallelism.dp) / rate


def product_seconds(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    tokens: Quantity,
    logits: Quantity,
    *,
    prefill: bool,
) -> Quantity:
    """Arithmetic of all matrix products on one rank (s).

    Args:
        tokens: tokens of one data-parallel group.
        logits: of those, how many get an output distribution.
        prefill: with the efficiencies of whole prompts instead of those of a step.
    """
    per_token: Quantity = 0.0
    for dtype, flops in work.linear_flops:
        rate = product_rate(work, hardware, calibration, dtype, prefill=prefill)
        per_token = per_token + flops / rate
    for dtype, flops in work.expert_flops:
        rate = product_rate(work, hardware, calibration, dtype, prefill=prefill)
        spread = calibration.imbalance if work.parallelism.ep > 1 else 1.0
        experts = calibration.prefill_experts if prefill else calibration.experts
        per_token = per_token + flops * spread / (rate * experts)
    seconds = tokens * per_token
    if work.head_flops:
        rate = product_rate(work, hardware, calibration, work.head_dtype, prefill=prefill)
        seconds = seconds + logits * work.head_flops / rate
    return seconds


def product_rate(
    work: Work, hardware: Hardware, calibration: Calibration, dtype: str, *, prefill: bool
) -> Quantity:
    """Rate that matrix products stored for `dtype` reach (FLOP/s).

    Hardware without units for a narrow dtype unpacks the weights and multiplies in the compute dtype.
    """
    own = hardware.peaks.get(dtype)
    if own is None:
        dtype, own = work.dtype, hardware.peak(work.dtype)
    rate = calibration.efficiency(dtype, prefill=prefill) * own
    if isinstance(own, np.ndarray) and dtype != work.dtype and np.isnan(own).any():
        wide = product_rate(work, hardware, calibration, work.dtype, prefill=prefill)
        rate = np.where(np.isnan(own), wide, rate)
    return rate


def dequantisation_seconds(
    work: Work, hardware: Hardware, calibration: Calibration, tokens: Quantity
) -> Quantity:
    """Unpacking every quantised matrix that `tokens` tokens need: write in the compute dtype and read it back (s).

    Writing is bound by the kernel's arithmetic or by bandwidth; the packed weights' own bytes are counted elsewhere.
    """
    bandwidth = calibration.weights * hardware.bandwidth_bytes_per_s
    once = work.activation_bytes / bandwidth
    arithmetic = calibration.dequantise_flops / hardware.peak("fp32")
    elements = work.unpacked_elements(tokens * work.parallelism.dp)
    return elements * (maximum(once, arithmetic) + once)


def communication_seconds(
    work: Work, hardware: Hardware, calibration: Calibration, tokens: Quantity
) -> Quantity:
    """Collectives of one pass over the layers with `tokens` tokens in each data-parallel group (s).

    Tensor parallelism: two all-reduces a layer. Data-parallel attention: experts' dispatch and combine over all ranks
    of a stage. With expert but no data parallelism every rank has all tokens, and the all-reduce does the combining.
    """
    parallelism = work.parallelism
    total: Quantity = 0.0 * tokens
    if parallelism.gpus == 1:
        return total
    volume = tokens * (work.hidden_size * work.activation_bytes)
    if parallelism.tp > 1:
        latency = at_ranks(calibration.reduce_latency_s, parallelism.tp)
        rate = at_ranks(calibration.reduce_fraction, parallelism.tp) * hardware.link()
        each = all_reduce_time(volume, parallelism.tp, latency, rate)
        total = total + REDUCES_PER_LAYER * work.layers * each
    ranks = parallelism.tp * parallelism.dp
    if parallelism.dp > 1 and work.experts:
        rate = calibration.dispatch_fraction * hardware.link()
        share = tokens / parallelism.tp
        for group in work.experts:
            for element, latency in (
                (work.dispatch_bytes, calibration.dispatch_latency_s),
                (work.activation_bytes, calibration.combine_latency_s),
            ):
                each = all_to_all_time(
                    share,
                    group.experts_per_token,
                    element,
                    work.hidden_size,
                    ranks,
                    latency,
                    rate,
                )
                total = total + group.layers * each
    if parallelism.pp > 1:
        rate = calibration.pipeline_fraction * hardware.link()
        hop = calibration.pipeline_latency_s + volume / rate
        total = total + (parallelism.pp - 1) * hop
    return total
