"""Rates of accelerators as the speed formulas see them."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog.accelerators import accelerator, accelerator_ids
from planner.errors import MissingFigure
from planner.speed.hardware import hardware_of, stack_hardware


def test_rates_are_the_catalogues():
    hardware = hardware_of(accelerator("h100-sxm-80gb"))
    assert hardware.bandwidth_bytes_per_s == 3.352e12
    assert hardware.peak("bf16") == 9.894e14
    assert hardware.link() == 4.5e11


def test_sixteen_bits_run_in_thirty_two_where_that_is_faster():
    p40 = accelerator("tesla-p40")
    assert p40.peaks["fp16"] < p40.peaks["fp32"]
    assert hardware_of(p40).peak("fp16") == p40.peaks["fp32"]
    # No unit for bf16: emulated.
    assert "bf16" not in accelerator("t4").peaks
    assert hardware_of(accelerator("t4")).peak("bf16") == accelerator("t4").peaks["fp32"]


def test_narrow_products_run_in_the_compute_dtype_without_units_of_their_own():
    a100 = hardware_of(accelerator("a100-sxm4-80gb"))
    with pytest.raises(MissingFigure, match="peak_fp8_flops_per_s"):
        a100.peak("fp8")
    assert a100.product_peak("fp8", "bf16") == a100.peak("bf16")
    h100 = hardware_of(accelerator("h100-sxm-80gb"))
    assert h100.product_peak("fp8", "bf16") == h100.peak("fp8")


def test_no_link_is_missing_not_slow():
    with pytest.raises(MissingFigure, match="link"):
        hardware_of(accelerator("apple-m2-ultra")).link()


def test_stacking_keeps_order_and_marks_gaps():
    parts = [hardware_of(accelerator(id_)) for id_ in ("a100-sxm4-80gb", "h100-sxm-80gb", "t4")]
    together = stack_hardware(parts)
    assert together.bandwidth_bytes_per_s.tolist() == [2.039e12, 3.352e12, 3.2e11]
    assert np.isnan(together.peak("fp8")).tolist() == [True, False, True]
    mixed = together.product_peak("fp8", "fp16")
    assert mixed.tolist() == [
        parts[0].peak("fp16"),
        parts[1].peak("fp8"),
        parts[2].peak("fp16"),
    ]


def test_every_accelerator_has_a_bandwidth_and_a_sixteen_bit_rate():
    for id_ in accelerator_ids():
        hardware = hardware_of(accelerator(id_))
        assert hardware.bandwidth_bytes_per_s > 0
        assert {"fp16", "bf16"} & hardware.peaks.keys(), id_


def test_the_best_rate_of_fp16_is_that_of_an_engine_which_sums_up_in_it():
    card, plain = accelerator("rtx-4080"), hardware_of(accelerator("rtx-4080"))
    narrow = hardware_of(card, sums_in_fp16=True)
    assert narrow.peaks == plain.peaks  # what efficiencies are parts of
    assert plain.at_best() is plain
    assert narrow.at_best().peak("fp16") == card.peaks["fp16_fp16acc"] > 1.9 * plain.peak("fp16")
    assert narrow.at_best().peak("bf16") == plain.peak("bf16")
    # Cards for servers sum up in fp32 as fast.
    assert hardware_of(accelerator("h100-sxm-80gb"), sums_in_fp16=True).best_peaks is None
    together = stack_hardware([plain, narrow])
    assert together.at_best().peak("fp16").tolist() == [9.75e13, 1.949e14]
    assert together.peak("fp16").tolist() == [9.75e13, 9.75e13]
