"""Physical floors by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog.accelerators import accelerator
from planner.speed.bounds import tpot_bound, ttft_bound
from planner.speed.hardware import hardware_of, stack_hardware
from tests.speed.models import LLAMA_8B, LLAMA_70B, MATRICES, QWEN3_30B_A3B, Dimensions, work_of


def card(id_):
    return hardware_of(accelerator(id_))


def test_one_token_reads_everything_once():
    # 7.505e9 matrix elements in 16 bits and 131,072 bytes of cache a token, at 300 GB/s.
    bound = tpot_bound(work_of(LLAMA_8B), card("l4"), 1.0, 1000.0)
    assert bound.from_memory
    assert bound.seconds == pytest.approx((2 * MATRICES + 131_072 * 1000) / 300e9)


def test_large_batches_are_bound_by_arithmetic():
    bound = tpot_bound(work_of(LLAMA_8B), card("l4"), 4096.0, 16.0)
    scores = 4 * 32 * 128 * 32 * 17
    assert bound.seconds == pytest.approx(4096 * (2 * MATRICES + scores) / 121e12)


def test_tensor_ranks_share_and_replicate():
    one = tpot_bound(work_of(LLAMA_70B), card("h100-sxm-80gb"), 1.0, 0.0).seconds
    four = tpot_bound(work_of(LLAMA_70B, tp=4), card("h100-sxm-80gb"), 1.0, 0.0).seconds
    assert four == pytest.approx(one / 4)
    staged = tpot_bound(work_of(LLAMA_70B, pp=4), card("h100-sxm-80gb"), 1.0, 0.0).seconds
    assert staged == pytest.approx(one)


def test_a_mixture_of_experts_may_read_only_what_one_token_uses():
    model = work_of(QWEN3_30B_A3B)
    hardware = card("a100-sxm4-80gb")
    routed = model.experts[0].bytes * 8 / 128
    for batch in (1.0, 4.0):
        bound = tpot_bound(model, hardware, batch, 0.0)
        assert bound.seconds == pytest.approx((model.read_bytes + routed) / 2.039e12)


def test_each_dtype_has_its_own_peak():
    hardware = card("h100-sxm-80gb")
    wide = ttft_bound(work_of(LLAMA_8B), hardware, 8192.0).seconds
    narrow = ttft_bound(work_of(LLAMA_8B, weight_bytes=1.0, compute="fp8"), hardware, 8192.0)
    linear = 2 * (MATRICES - 128256 * 4096) * 8192
    assert wide - narrow.seconds == pytest.approx(
        linear / hardware.peak("bf16")
        - linear / hardware.peak("fp8")
        + 2 * 128256 * 4096 * (1 / hardware.peak("bf16") - 1 / hardware.peak("fp8"))
    )
    # Without fp8 units the weights are unpacked and the products run in bf16.
    ampere = card("a100-sxm4-80gb")
    assert ttft_bound(work_of(LLAMA_8B), ampere, 8192.0).seconds == pytest.approx(
        ttft_bound(work_of(LLAMA_8B, weight_bytes=1.0, compute="fp8"), ampere, 8192.0).seconds
    )


def test_memory_sets_no_floor_for_what_fits_into_the_cache():
    tiny = work_of(Dimensions(4, 256, 4, 4, 64, 512, 1000))
    hardware = card("b200-sxm-180gb")
    held = tpot_bound(tiny, hardware, 1.0, 16.0)
    assert not held.from_memory
    read = tpot_bound(tiny, card("t4"), 1.0, 16.0)
    assert tiny.read_bytes > accelerator("t4").l2_bytes
    assert read.from_memory
    assert held.seconds < tiny.read_bytes / hardware.bandwidth_bytes_per_s < read.seconds


def test_arrays_over_accelerators_batches_and_contexts():
    ids = ("h100-sxm-80gb", "a100-sxm4-80gb", "l4")
    together = stack_hardware([card(id_) for id_ in ids])
    model = work_of(LLAMA_8B, weight_bytes=1.0, compute="fp8")
    batches = np.array([[1.0], [64.0], [4096.0]])
    bounds = tpot_bound(model, together, batches, 512.0)
    first = ttft_bound(model, together, batches * 100)
    for i, batch in enumerate(batches[:, 0]):
        for j, id_ in enumerate(ids):
            one = tpot_bound(model, card(id_), float(batch), 512.0)
            assert bounds.seconds[i, j] == pytest.approx(one.seconds)
            assert bounds.from_memory[i, j] == one.from_memory
            alone = ttft_bound(model, card(id_), float(batch) * 100).seconds
            assert first.seconds[i, j] == pytest.approx(alone)


def test_a_missing_peak_is_nan_in_an_array():
    together = stack_hardware([card("h100-sxm-80gb"), card("tpu-v5e")])
    bound = tpot_bound(work_of(LLAMA_8B, dtype="fp16"), together, 1.0, 512.0)
    assert np.isnan(bound.seconds).tolist() == [False, True]
