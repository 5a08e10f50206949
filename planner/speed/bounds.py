"""What no implementation can beat: bytes at full bandwidth, FLOP at full peak, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from planner.architecture.cache import read_bytes
from planner.architecture.totals import attended_positions
from planner.quantity import Quantity, maximum
from planner.speed.chunks import steps_of
from planner.speed.host import host_floor
from planner.speed.kernels import as_factor
from planner.speed.work import Hardware, HostShare, Work


@dataclass(frozen=True, slots=True)
class Bound:
    """A physical floor.

    Attributes:
        seconds: the floor.
        from_memory: False (per element of an array) where everything that a step reads fits into the device's cache,
            so that device memory sets no floor.
    """

    seconds: Quantity
    from_memory: Any


def tpot_bound(work: Work, hardware: Hardware, batch: Quantity, context_tokens: Quantity) -> Bound:
    """Floor of the time per output token with `batch` sequences decoded at once.

    max(bytes / W, Σ FLOP / P): a mixture of experts reads k experts a layer, not the expected number; each dtype at its
    own dense peak; weights divided by tp, stages one after another. What lies in host memory is read at its full rate
    meanwhile: it may be fetched ahead while the GPU works.

    Args:
        batch: over the whole deployment, at least 1 (sequences).
        context_tokens: tokens cached per sequence (tokens).

    Raises:
        MissingFigure: where one accelerator lacks a rate that the step needs; arrays give NaN.
    """
    parallelism, share, hardware = work.parallelism, work.host, hardware.at_best()
    if share is not None:
        work = share.resident
    sequences = maximum(batch / (parallelism.dp * parallelism.pp), 1.0)
    spread = maximum(batch / parallelism.pp, 1.0) / parallelism.dp
    compute = _product_floor(work, hardware, sequences, spread)
    compute = compute + sequences * work.head_flops / hardware.product_peak(
        work.head_dtype, work.dtype
    )
    flops = work.recurrent_flops * sequences
    for score in work.scores:
        flops = flops + sequences * score.decode_flops * attended_positions(
            score, 1.0, context_tokens
        )
    compute = compute + flops / hardware.peak(work.dtype)
    moved = work.least_weight_bytes + sequences * read_bytes(work.layout, context_tokens)
    bound = _larger(work, hardware, moved, compute)
    return (
        bound if share is None else _beside_host(bound, share, hardware, sequences, context_tokens)
    )


def ttft_bound(
    work: Work,
    hardware: Hardware,
    input_tokens: Quantity,
    cached_tokens: Quantity = 0.0,
    chunk_tokens: Quantity = float("inf"),
) -> Bound:
    """Floor of the time to the first token of one prompt: its FLOP at full peak, or reading the weights each step.

    Only the last token gets logits, so that only the last step reads the output head; latent attention is computed
    whichever way takes fewer FLOP.

    Args:
        chunk_tokens: most prompt tokens that one step takes; the whole prompt where no budget is stated (tokens).

    Raises:
        MissingFigure: where one accelerator lacks a rate that the prompt needs; arrays give NaN.
    """
    share, hardware = work.host, hardware.at_best()
    if share is not None:
        work = share.resident
    new_tokens = maximum(input_tokens - cached_tokens, 1.0)
    tokens = work.decoder_tokens(new_tokens)
    encoded = new_tokens if work.encoder_tokens is None else work.encoder_tokens
    compute = _product_floor(work, hardware, tokens, tokens / work.parallelism.dp)
    compute = compute + work.head_flops / hardware.product_peak(work.head_dtype, work.dtype)
    flops = work.recurrent_flops * tokens
    for score in work.scores:
        each = min(score.prefill_flops, score.decode_flops)
        flops = flops + each * attended_positions(score, tokens, cached_tokens)
    for dtype, each in work.encoder_flops:
        compute = compute + encoded * each / hardware.product_peak(dtype, work.dtype)
    for score in work.encoder_scores:
        flops = flops + score.prefill_flops * attended_positions(score, encoded, 0.0)
    compute = compute + flops / hardware.peak(work.dtype)
    # Stages may work on successive chunks of a prompt at once, after the first has read every stage's weights.
    compute = compute / work.parallelism.pp
    # An encoder takes its whole input at once, and the decoder then starts with one token.
    steps = 1.0 if work.encoder_layers else steps_of(tokens, chunk_tokens)
    bound = _larger(work, hardware, work.least_weight_bytes + work.encoder_bytes, compute)
    again = (steps - 1.0) * chunk_bytes(work) / work.parallelism.pp
    reread = (work.least_weight_bytes + again) / hardware.bandwidth_bytes_per_s
    bound = replace(bound, seconds=maximum(bound.seconds, reread * as_factor(bound.from_memory)))
    return bound if share is None else _beside_host(bound, share, hardware, 0.0, 0.0)


def chunk_bytes(work: Work) -> float:
    """Bytes of weights that a step without logits reads at least on one rank: all but the output head's."""
    return max(work.least_weight_bytes - work.head_flops / 2.0 * work.activation_bytes, 0.0)


def _beside_host(
    bound: Bound,
    share: HostShare,
    hardware: Hardware,
    sequences: Quantity,
    context_tokens: Quantity,
) -> Bound:
    """The floor with the host's part: its memory and the GPU can be busy at once, so that the slower one bounds."""
    floor = host_floor(share, hardware.host_rates(), sequences, context_tokens)
    return Bound(maximum(bound.seconds, floor), bound.from_memory | (floor > 0.0))


def _product_floor(
    work: Work, hardware: Hardware, tokens: Quantity, expert_tokens: Quantity
) -> Quantity:
    total: Quantity = 0.0
    for dtype, flops in work.linear_flops:
        total = total + tokens * flops / hardware.product_peak(dtype, work.dtype)
    for dtype, flops in work.expert_flops:
        total = total + expert_tokens * flops / hardware.product_peak(dtype, work.dtype)
    return total


def _larger(work: Work, hardware: Hardware, moved: Quantity, compute: Quantity) -> Bound:
    from_memory = moved / work.parallelism.pp > hardware.l2_bytes
    memory = moved / hardware.bandwidth_bytes_per_s * as_factor(from_memory)
    return Bound(maximum(memory, compute), from_memory)
