"""Time of processing prompts."""

from __future__ import annotations

from dataclasses import replace

from planner.architecture.cache import read_bytes
from planner.architecture.mixers import Score
from planner.architecture.totals import attended_positions
from planner.catalog.calibrations import Calibration
from planner.quantity import Quantity, maximum, minimum
from planner.speed.host import PASS_TOKENS, prefill_host_seconds
from planner.speed.kernels import p_norm
from planner.speed.step import (
    StepTime,
    communication_seconds,
    dequantisation_seconds,
    host_seconds,
    layer_seconds,
    product_rate,
    product_seconds,
    reading_seconds,
    with_eager_host,
)
from planner.speed.work import Hardware, Work


def attention_flops(
    scores: tuple[Score, ...], new_tokens: Quantity, cached_tokens: Quantity
) -> Quantity:
    """FLOP of attention over one prompt's new tokens on one rank."""
    total: Quantity = 0.0
    for score in scores:
        total = total + score.prefill_flops * attended_positions(score, new_tokens, cached_tokens)
    return total


def prefill(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    input_tokens: Quantity,
    cached_tokens: Quantity = 0.0,
    batch: Quantity = 1.0,
) -> StepTime:
    """Time of processing `batch` prompts together, from their first token to their logits.

    p-norm of products (efficiency of whole prompts) and of reading the weights once, attention, collectives, and the
    host's time per layer. Splitting a prompt into chunks re-reads earlier keys, under 5 % for chunks of 512 and more,
    and is left out; `planner.speed.chunks` has what smaller ones add. An encoder processes the input where there is
    one, and the decoder then its first token.

    What lies in host memory is lent to the GPU, which computes everything, or computed by the host where the prompt is
    short.

    Args:
        input_tokens: length of each prompt (tokens).
        cached_tokens: of those, how many a prefix cache holds; at least one token is computed (tokens).
        batch: prompts processed at once (sequences).

    Returns:
        Components (s); `layers_s` is the host's dispatch per layer, or kernel floors with eager execution.

    Raises:
        MissingFigure: where one accelerator lacks a rate that the prompt needs; arrays give NaN.
    """
    new_tokens = maximum(input_tokens - cached_tokens, 1.0)
    decoder_tokens = work.decoder_tokens(new_tokens)
    tokens = batch * decoder_tokens
    logits = tokens if calibration.head_every_token else batch
    compute_s = product_seconds(work, hardware, calibration, tokens, logits, prefill=True)
    peak = calibration.prefill_attention * hardware.peak(work.dtype)
    flops = batch * (
        attention_flops(work.scores, decoder_tokens, cached_tokens)
        + work.recurrent_flops * decoder_tokens
        + work.expansion_flops * cached_tokens
    )
    if work.encoder_layers:
        encoded = new_tokens if work.encoder_tokens is None else work.encoder_tokens
        for dtype, each in work.encoder_flops:
            rate = product_rate(work, hardware, calibration, dtype, prefill=True)
            compute_s = compute_s + batch * encoded * each / rate
        flops = flops + batch * attention_flops(work.encoder_scores, encoded, 0.0)
    bandwidth = hardware.bandwidth_bytes_per_s
    on_gpu = work if work.host is None else work.host.resident
    weights_s = reading_seconds(on_gpu, hardware, calibration, tokens)
    weights_s = weights_s + work.encoder_bytes / (calibration.weights * bandwidth)
    cached = isinstance(cached_tokens, (int, float)) and cached_tokens == 0.0
    moved = 0.0 if cached else batch * read_bytes(work.layout, cached_tokens)
    layers = work.layers + work.encoder_layers
    eager = calibration.kind == "static"
    floor = layers * calibration.prefill_layer_s
    floor = floor + (work.latent_layers + work.recurrent_layers) * calibration.prefill_mixer_layer_s
    if eager:
        floor = layer_seconds(work, calibration) + work.encoder_layers * calibration.layer_s
    parts = StepTime(
        host_s=0.0,
        layers_s=floor,
        sequences_s=0.0,
        linear_s=p_norm(compute_s, weights_s, calibration.order),
        weights_s=weights_s,
        compute_s=compute_s,
        cache_s=moved / (calibration.cache * bandwidth),
        attention_s=flops / peak,
        dequantisation_s=dequantisation_seconds(work, hardware, calibration, tokens)
        if work.dequantises
        else 0.0,
        communication_s=communication_seconds(work, hardware, calibration, tokens),
        pipeline_s=0.0,
    )
    own: Quantity = 0.0
    link: Quantity = 0.0
    if work.host is not None:
        own, link = prefill_host_seconds(
            work.host, hardware.host_rates(), tokens, batch, cached_tokens, batch
        )
    if calibration.kind == "slots" and work.parallelism.pp > 1:
        # Stages work on successive chunks of a prompt at once; the first and the last fill and drain.
        stages = float(work.parallelism.pp)
        chunks = maximum(tokens / PASS_TOKENS, 1.0)
        filled = (chunks + stages - 1.0) / (chunks * stages * calibration.pipeline)
        parts = parts.scaled(minimum(filled, 1.0))
    parts = replace(parts, host_weights_s=own, transfer_s=link)
    if not eager:
        return parts
    host = host_seconds(work, calibration, maximum(tokens, 2.0), layers)
    return with_eager_host(parts, calibration, host)
