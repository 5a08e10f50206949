"""Eager execution: the longer of host and device, and weights that are unpacked before use."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from planner.catalog.calibrations import calibration_for
from planner.catalog.devices import device_from
from planner.speed.bounds import tpot_bound, ttft_bound
from planner.speed.prefill import prefill
from planner.speed.serving_point import serving_point
from planner.speed.step import decode_step
from tests.speed.conditions import setting
from tests.speed.models import GEMMA3_12B, LLAMA_8B, LLAMA_70B, QWEN25_3B, work_of

NF4_BYTES = 0.5 + 4 / 64


def four_bit(model, dtype="fp16"):
    return work_of(model, weight_bytes=NF4_BYTES, dequantised=True, head_bytes=2.0, dtype=dtype)


def gemma_on_t4(context):
    hardware, constants = setting("t4", "transformers", "nf4", "gemma3_text")
    return decode_step(four_bit(GEMMA3_12B), hardware, constants, 1.0, float(context))


def test_gemma_3_12b_in_4_bits_on_a_t4_is_held_up_by_its_host():
    rates = [1.0 / gemma_on_t4(context).total_s for context in (128, 512, 1024, 2048, 4096)]
    assert all(8.0 <= rate <= 14.0 for rate in rates)
    assert max(rates) / min(rates) < 1.10
    assert gemma_on_t4(2048).bound_by() == "host"
    hardware, constants = setting("t4", "transformers", "nf4")
    # 48 layers at the host's time of each.
    assert gemma_on_t4(128).total_s == pytest.approx(48 * constants.host_layer_s)
    bound = tpot_bound(four_bit(GEMMA3_12B), hardware, 1.0, 128.0)
    assert 37.0 <= 1.0 / bound.seconds <= 42.0


def test_its_first_token_grows_nearly_in_proportion_to_the_prompt():
    hardware, constants = setting("t4", "transformers", "nf4", "gemma3_text")
    work = four_bit(GEMMA3_12B)
    tokens = np.array([512.0, 1024.0, 2048.0, 4096.0, 8192.0])
    seconds = np.array([prefill(work, hardware, constants, float(n)).total_s for n in tokens])
    slope, start = np.polyfit(tokens, seconds, 1)
    assert np.abs(slope * tokens + start - seconds).max() < 0.06 * seconds.min() + 0.02
    assert prefill(work, hardware, constants, 2048.0).total_s >= 0.68
    floors = [ttft_bound(work, hardware, float(n)).seconds for n in tokens]
    assert floors[2] == pytest.approx(0.698, abs=0.01)
    assert (seconds > floors).all()


def test_host_and_device_overlap():
    hardware, constants = setting("t4", "transformers", "fp16")
    work = work_of(QWEN25_3B, dtype="fp16")
    waiting = decode_step(work, hardware, constants, 1.0, 256.0)
    assert waiting.total_s == pytest.approx(36 * constants.host_layer_s)
    # With a fast host the device's own time remains.
    quick = replace(constants, host_layer_s=1e-5)
    alone = decode_step(work, hardware, quick, 1.0, 256.0)
    assert alone.host_s == 0.0
    assert alone.total_s == pytest.approx(waiting.device_s)
    assert alone.bound_by() == "bandwidth"


def test_a_processor_issues_kernels_between_running_them():
    hardware, constants = setting("t4", "transformers", "fp16")
    work = work_of(QWEN25_3B, dtype="fp16")
    alone = replace(constants, host_overlap_fraction=0.0)
    for beside, between in (
        (decode_step(work, hardware, c, 1.0, 256.0) for c in (constants, alone)),
        (prefill(work, hardware, c, 256.0) for c in (constants, alone)),
    ):
        host_s = 36 * constants.host_layer_s
        assert between.total_s == pytest.approx(between.device_s + host_s)
        assert beside.total_s == pytest.approx(max(beside.device_s, host_s))
        assert beside.device_s == pytest.approx(between.device_s)
    # It decides where it takes longest, and not whenever it takes any time.
    quick = replace(alone, host_layer_s=1e-5)
    assert decode_step(work, hardware, alone, 1.0, 256.0).bound_by() == "host"
    assert decode_step(work, hardware, quick, 1.0, 256.0).bound_by() == "bandwidth"


def test_only_a_processor_is_its_own_host():
    values = {
        "name": "A processor",
        "kind": "cpu",
        "memory_usable_bytes": 16e9,
        "measured_on": "2026-11-30",
    }
    rates = {"bandwidth_bytes_per_s": 40e9, "peaks": {"fp32": 2e11, "bf16": 1e12}}
    for kind, expected in (("cpu", 0.0), ("cuda", 1.0)):
        device = device_from(json.dumps(values | rates | {"kind": kind}))
        found = calibration_for("transformers", device, "bf16")
        assert found.host_overlap_fraction == expected


@pytest.mark.parametrize(
    ("gpu", "model", "weights", "batch", "tokens_per_s"),
    [
        # bitsandbytes' own benchmark: tokens per second over the batch; prompt lengths aren't stated.
        ("t4", QWEN25_3B, "fp16", 1, 25.66),
        ("t4", QWEN25_3B, "nf4", 1, 16.45),
        ("t4", QWEN25_3B, "nf4", 8, 83.37),
        ("t4", QWEN25_3B, "nf4-dq", 1, 13.58),
        ("h100-sxm-80gb", LLAMA_8B, "fp16", 1, 40.99),
        ("h100-sxm-80gb", LLAMA_8B, "fp16", 32, 1227.96),
        ("h100-sxm-80gb", LLAMA_8B, "nf4", 1, 30.14),
        ("h100-sxm-80gb", LLAMA_8B, "nf4", 8, 168.05),
        ("h100-sxm-80gb", LLAMA_70B, "nf4", 1, 12.0),
        ("h100-sxm-80gb", LLAMA_70B, "nf4", 8, 34.07),
        ("h100-sxm-80gb", LLAMA_70B, "nf4", 32, 128.46),
        ("rtx-4090", LLAMA_8B, "fp16", 1, 47.46),
    ],
)
def test_measured_eager_decode(gpu, model, weights, batch, tokens_per_s):
    hardware, constants = setting(gpu, "transformers", weights)
    work = work_of(model, dtype="fp16") if weights == "fp16" else four_bit(model)
    step = decode_step(work, hardware, constants, float(batch), 256.0)
    assert batch / step.total_s == pytest.approx(tokens_per_s, rel=0.15)


def test_unpacking_starts_with_the_second_token():
    hardware, constants = setting("h100-sxm-80gb", "transformers", "nf4")
    work = four_bit(LLAMA_70B)
    one, two = (decode_step(work, hardware, constants, b, 256.0) for b in (1.0, 2.0))
    assert one.dequantisation_s == 0.0
    # 68.5e9 elements: written by arithmetic-bound kernels, read back at the bandwidth that weights reach.
    elements = work.dequantised_elements
    rate = constants.weights * hardware.bandwidth_bytes_per_s
    arithmetic = constants.dequantise_flops / hardware.peak("fp32")
    assert arithmetic > 2 / rate
    expected = elements * (arithmetic + 2 / rate)
    assert two.dequantisation_s == pytest.approx(expected)


def test_static_batches_follow_each_other():
    hardware, constants = setting("h100-sxm-80gb", "transformers", "fp16")
    work = work_of(LLAMA_8B, dtype="fp16")
    load = {"input_tokens": 512.0, "output_tokens": 128.0}
    alone = serving_point(work, hardware, constants, concurrency=1.0, **load)
    batch = serving_point(work, hardware, constants, concurrency=8.0, **load)
    queued = serving_point(work, hardware, constants, concurrency=24.0, max_running=8.0, **load)
    assert batch.ttft_s == pytest.approx(
        prefill(work, hardware, constants, 512.0, batch=8.0).total_s
    )
    assert batch.ttft_s > alone.ttft_s == batch.ttft_unloaded_s
    # Prompts of others are never mixed into the steps.
    assert batch.tpot_s == decode_step(work, hardware, constants, 8.0, 576.0).total_s
    assert queued.queue_wait_s == pytest.approx(2 * batch.e2e_s)
    assert queued.output_tokens_per_s == pytest.approx(batch.output_tokens_per_s)
