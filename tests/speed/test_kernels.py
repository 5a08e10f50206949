"""Distinct experts, the norm, and matrix products against the published fits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.calibrations import gemm_constants
from planner.errors import MissingFigure
from planner.speed.kernels import as_factor, expected_distinct_experts, gemm_time, p_norm


@pytest.mark.parametrize(
    ("experts", "per_token", "tokens", "expected"),
    [
        (128, 8, 1, 8.0),
        (128, 8, 4, 29.1),
        (128, 8, 8, 51.6),
        (128, 8, 16, 82.4),
        (128, 8, 32, 111.8),
        (128, 8, 64, 125.9),
        (256, 8, 8, 57.4),
        (256, 8, 32, 163.3),
        (256, 8, 64, 222.4),
        (256, 8, 128, 251.6),
        (128, 4, 8, 28.7),
        (128, 4, 32, 81.7),
        (64, 6, 8, 34.9),
        (64, 6, 32, 61.3),
        (8, 2, 4, 5.5),
        (8, 2, 8, 7.2),
    ],
)
def test_expected_distinct_experts(experts, per_token, tokens, expected):
    # The published values are rounded to a tenth.
    found = expected_distinct_experts(float(experts), float(per_token), float(tokens))
    assert found == pytest.approx(expected, abs=0.051)


def test_expected_distinct_experts_against_counting():
    # Four experts, two per token: tokens choose one of six pairs. Two tokens leave an expert out with (1/2)².
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    counted = np.mean([len({*first, *second}) for first in pairs for second in pairs])
    assert expected_distinct_experts(4.0, 2.0, 2.0) == pytest.approx(counted)


@given(
    experts=st.integers(2, 512),
    share=st.floats(0.01, 1.0),
    tokens=st.integers(1, 100_000),
)
def test_distinct_experts_lie_between_one_tokens_and_all(experts, share, tokens):
    per_token = max(1, int(share * experts))
    found = expected_distinct_experts(float(experts), float(per_token), float(tokens))
    assert per_token * (1 - 1e-9) <= found <= min(experts, per_token * tokens) * (1 + 1e-9)


SECONDS = st.just(0.0) | st.floats(1e-9, 1e3)


@given(
    a=SECONDS,
    b=SECONDS,
    order=st.sampled_from([1.0, 1.3, 2.0, 3.1]),
)
def test_norm_lies_between_maximum_and_sum(a, b, order):
    assert max(a, b) * (1 - 1e-9) <= p_norm(a, b, order) <= (a + b) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("accelerator", "m", "square_us", "wide_us"),
    [
        ("h100-sxm-80gb", 1, 15.4, 84.5),
        ("h100-sxm-80gb", 256, 18.8, 105.3),
        ("h100-sxm-80gb", 1024, 47.6, 307.7),
        ("h100-sxm-80gb", 8192, 347.5, 2406.6),
        ("a100-sxm4-80gb", 1, 27.5, 155.8),
        ("a100-sxm4-80gb", 256, 49.2, 302.7),
        ("a100-sxm4-80gb", 1024, 143.2, 954.1),
        ("a100-sxm4-80gb", 8192, 1056.9, 7311.5),
    ],
)
def test_gemm_time_reproduces_the_fit(accelerator, m, square_us, wide_us):
    constants = gemm_constants(accelerator, "bf16")
    assert gemm_time(m, 4096, 4096, constants) * 1e6 == pytest.approx(square_us, abs=0.06)
    assert gemm_time(m, 28672, 4096, constants) * 1e6 == pytest.approx(wide_us, abs=0.06)


def test_gemm_time_takes_arrays():
    constants = gemm_constants("h100-sxm-80gb", "fp8")
    tokens = np.array([1.0, 64.0, 4096.0])
    together = gemm_time(tokens, 4096, 4096, constants, input_bytes=1, weight_bytes=1)
    apart = [gemm_time(m, 4096, 4096, constants, input_bytes=1, weight_bytes=1) for m in tokens]
    assert together == pytest.approx(apart)


def test_gemm_constants_are_never_borrowed():
    with pytest.raises(MissingFigure):
        gemm_constants("t4", "bf16")
    with pytest.raises(MissingFigure):
        gemm_constants("a100-sxm4-80gb", "fp8")


def test_as_factor_switches_terms():
    assert as_factor(True) == 1.0
    assert as_factor(False) == 0.0
    assert as_factor(np.array([1.0, 3.0]) > 2.0).tolist() == [0.0, 1.0]
