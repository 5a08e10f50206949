"""The host's part of a step: weights and caches in its memory, which it reads itself or lends to the GPU over PCIe.

With few tokens the processor computes the layers that the host holds, bound by its memory. From LENT_FROM_TOKENS on
their weights are copied to the GPU, which computes, and the link binds.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from planner.architecture.cache import CacheLayout, read_bytes
from planner.architecture.spec import Architecture
from planner.catalog.accelerators import Accelerator
from planner.catalog.hosts import Host
from planner.memory.weights import HostWeights, StoredWeights
from planner.quantity import Quantity, maximum, minimum
from planner.speed.hardware import HostRates
from planner.speed.kernels import as_factor
from planner.speed.work import (
    ExpertReads,
    HostShare,
    Work,
    expert_reads,
    peak_used,
    recurrent_flops,
    scores_of,
)

# llama.cpp, ggml-cuda.cu, ggml_backend_cuda_device_offload_op: min_batch_size.
LENT_FROM_TOKENS = 32.0
HIDDEN_STATE_BYTES = 4.0  # per element that crosses between host and GPU
PASS_TOKENS = 512.0  # llama.cpp's physical batch by default: weights are lent anew for each


def host_rates(host: Host, card: Accelerator, bandwidth_bytes_per_s: float | None) -> HostRates:
    """What a class of machines does for a card in it.

    Args:
        bandwidth_bytes_per_s: of the host's memory where it is known; None: the class's.

    Raises:
        MissingFigure: where the card's profile doesn't state its PCIe link.
    """
    bandwidth = bandwidth_bytes_per_s or host.bandwidth_bytes_per_s
    read = host.read_fraction * bandwidth
    return HostRates(
        bandwidth_bytes_per_s=bandwidth,
        most_bandwidth_bytes_per_s=bandwidth_bytes_per_s or host.most_bandwidth_bytes_per_s,
        read_bytes_per_s=read,
        flops_per_s=host.flops_per_s,
        link_bytes_per_s=min(host.link_fraction * card.pcie_bytes_per_s, read),
        crossing_s=host.crossing_s,
    )


def with_host(
    whole: Work,
    architecture: Architecture,
    stored: StoredWeights,
    resident_layout: CacheLayout,
    host_layout: CacheLayout,
    products: tuple[tuple[str, str], ...] = (),
) -> Work:
    """A model's work with the part that the host does set apart; unchanged where it does none.

    Args:
        resident_layout, host_layout: the cache of one sequence on the GPUs and in host memory.
        products: as for `work`.
    """
    host = stored.host
    if host is None or not host.offload.computes:
        return whole
    held = _held(whole, architecture, host, host_layout, products)
    resident = replace(
        whole,
        layers=whole.layers - held.layers,
        expert_layers=max(whole.expert_layers - held.expert_layers, 0),
        read_bytes=max(whole.read_bytes - held.read_bytes, 0.0),
        experts=_less_experts(whole.experts, held.experts),
        linear_flops=_less(whole.linear_flops, held.linear_flops),
        expert_flops=_less(whole.expert_flops, held.expert_flops),
        head_flops=whole.head_flops - held.head_flops,
        scores=scores_of(_layers(architecture, host.offload.host_layers, None)),
        recurrent_flops=max(whole.recurrent_flops - held.recurrent_flops, 0.0),
        layout=resident_layout,
    )
    # Experts alone in host memory: there and back for each such layer; whole layers: once; the output layer behind the
    # GPU's: once more.
    apart = sum(
        1
        for layer in range(host.offload.host_layers, host.offload.expert_layers)
        if architecture.layer_kinds[architecture.layer_order[layer]].experts
    )
    crossings = 2.0 * apart + (1.0 if host.offload.host_layers else 0.0)
    if host.offload.head_on_host and host.offload.host_layers < architecture.layers:
        crossings += 1.0
    return replace(whole, host=HostShare(resident, held, crossings))


def _layers(architecture: Architecture, first: int, last: int | None) -> Architecture:
    return replace(architecture, layer_order=architecture.layer_order[first:last])


def _held(
    whole: Work,
    architecture: Architecture,
    host: HostWeights,
    layout: CacheLayout,
    products: tuple[tuple[str, str], ...],
) -> Work:
    """The host's part as work of its own."""
    offload = host.offload
    first = _layers(architecture, 0, offload.host_layers)
    linear: dict[str, float] = {}
    experts: dict[str, float] = {}
    for stated, value in host.flops.items():
        dtype, routed = peak_used(stated, whole.dtype, products), host.expert_flops.get(stated, 0.0)
        linear[dtype] = linear.get(dtype, 0.0) + value - routed
        experts[dtype] = experts.get(dtype, 0.0) + routed
    return replace(
        whole,
        layers=offload.host_layers,
        expert_layers=sum(group.layers for group in host.experts),
        latent_layers=0,
        indexed_layers=0,
        recurrent_layers=0,
        read_bytes=host.read_bytes_per_token_step,
        experts=expert_reads(host.experts),
        linear_flops=tuple(linear.items()),
        expert_flops=tuple((dtype, value) for dtype, value in experts.items() if value),
        head_flops=whole.head_flops if offload.head_on_host else 0.0,
        scores=scores_of(first),
        recurrent_flops=recurrent_flops(first),
        layout=layout,
    )


def _less(
    whole: tuple[tuple[str, float], ...], part: tuple[tuple[str, float], ...]
) -> tuple[tuple[str, float], ...]:
    taken = dict(part)
    return tuple((dtype, max(value - taken.get(dtype, 0.0), 0.0)) for dtype, value in whole)


def _less_experts(
    whole: tuple[ExpertReads, ...], part: tuple[ExpertReads, ...]
) -> tuple[ExpertReads, ...]:
    taken = {(group.experts, group.experts_per_token): group for group in part}
    left = []
    for group in whole:
        other = taken.get((group.experts, group.experts_per_token))
        if other is None:
            left.append(group)
        elif other.layers < group.layers:
            left.append(
                replace(group, bytes=group.bytes - other.bytes, layers=group.layers - other.layers)
            )
    return tuple(left)


def host_flops(held: Work, tokens: Quantity, logits: Quantity) -> Quantity:
    """FLOP of the host's matrix products for `tokens` tokens, `logits` of which get an output distribution."""
    each = sum(value for _, value in (*held.linear_flops, *held.expert_flops))
    return tokens * each + logits * held.head_flops


def lent(tokens: Quantity) -> Quantity:
    """1 where a pass of so many tokens has its weights lent to the GPU, else 0."""
    return as_factor(tokens >= LENT_FROM_TOKENS)


def pass_seconds(
    share: HostShare,
    rates: HostRates,
    tokens: Quantity,
    logits: Quantity,
    cached_bytes: Quantity,
) -> tuple[Quantity, Quantity]:
    """One pass of `tokens` tokens over what the host holds: its own time, and that of the link (s).

    Args:
        cached_bytes: of the caches in host memory that the pass reads.
    """
    held = share.held
    moved = held.read_bytes + held.expert_bytes(tokens) + cached_bytes
    by_gpu = lent(tokens)
    own = maximum(
        moved / rates.read_bytes_per_s, host_flops(held, tokens, logits) / rates.flops_per_s
    )
    volume = tokens * (held.hidden_size * HIDDEN_STATE_BYTES)
    crossing = share.crossings * (rates.crossing_s + volume / rates.link_bytes_per_s)
    return own * (1.0 - by_gpu), moved / rates.link_bytes_per_s * by_gpu + crossing * (1.0 - by_gpu)


def decode_host_seconds(
    share: HostShare,
    rates: HostRates,
    sequences: Quantity,
    context_tokens: Quantity,
    prompts: Quantity,
    prompt_tokens: Quantity,
) -> tuple[Quantity, Quantity]:
    """The host's part of a mean iteration: its own time, and that of the link (s).

    Args:
        sequences: decoded in the iteration, with `context_tokens` tokens cached each.
        prompts: prompt tokens per iteration on average, of prompts of `prompt_tokens` tokens.
    """
    cached = sequences * read_bytes(share.held.layout, context_tokens)
    own, link = pass_seconds(share, rates, sequences, sequences, cached)
    if isinstance(prompts, (int, float)) and prompts == 0.0:
        return own, link
    chunk = minimum(prompt_tokens, PASS_TOKENS)
    others = read_bytes(share.held.layout, prompt_tokens / 2.0)
    own_prompt, link_prompt = pass_seconds(share, rates, chunk, 0.0, others)
    return own + prompts / chunk * own_prompt, link + prompts / chunk * link_prompt


def prefill_host_seconds(
    share: HostShare,
    rates: HostRates,
    tokens: Quantity,
    logits: Quantity,
    cached_tokens: Quantity,
    batch: Quantity,
) -> tuple[Quantity, Quantity]:
    """The host's part of reading prompts of `tokens` tokens in all: its own time, and that of the link (s)."""
    passes = _round_up(tokens / PASS_TOKENS)
    each = tokens / passes
    halfway = cached_tokens + tokens / batch / 2.0
    own, link = pass_seconds(
        share, rates, each, logits / passes, batch * read_bytes(share.held.layout, halfway)
    )
    return passes * own, passes * link


def _round_up(value: Quantity) -> Quantity:
    return np.ceil(value) if isinstance(value, np.ndarray) else float(math.ceil(value))


def host_floor(
    share: HostShare, rates: HostRates, sequences: Quantity, cached_tokens: Quantity
) -> Quantity:
    """Least time of one pass over what the host holds: its bytes at the full rate of its memory (s)."""
    moved = share.held.least_weight_bytes + sequences * read_bytes(share.held.layout, cached_tokens)
    return moved / rates.most_bandwidth_bytes_per_s
