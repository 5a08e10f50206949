"""Collectives against the published fits and by their properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.speed.collectives import all_reduce_time, all_to_all_time, at_ranks


@pytest.mark.parametrize(
    ("latency_us", "rate", "expected_us"),
    [
        (5.4, 296e9, {1: 5.50, 32: 8.50, 128: 17.80, 512: 54.99}),
        (6.7, 141e9, {1: 6.90, 32: 13.21, 128: 32.73, 512: 110.81}),
    ],
)
def test_all_reduce_over_eight_ranks(latency_us, rate, expected_us):
    # V = b·8192·2 bytes: one 16-bit activation of Llama 70B's width per token.
    for batch, expected in expected_us.items():
        seconds = all_reduce_time(batch * 8192 * 2.0, 8, latency_us * 1e-6, rate)
        assert seconds * 1e6 == pytest.approx(expected, abs=0.006)


def test_one_rank_has_nobody_to_talk_to():
    assert all_reduce_time(1e6, 1, 5e-6, 1e11) == 0.0
    assert all_to_all_time(128.0, 8, 2.0, 7168, 1, 1e-5, 1e11) == 0.0


def test_all_to_all_matches_the_low_latency_kernels():
    # H100, 8 ranks, h = 7168, top 8: dispatch 15.5 + 0.19·n, combine 12 + 0.47·n microseconds.
    dispatch = all_to_all_time(128.0, 8, 1.0, 7168, 8, 15.5e-6, 0.53 * 450e9)
    combine = all_to_all_time(128.0, 8, 2.0, 7168, 8, 12e-6, 0.53 * 450e9)
    assert dispatch * 1e6 == pytest.approx(15.5 + 0.19 * 128, rel=0.1)
    assert combine * 1e6 == pytest.approx(12 + 0.47 * 128, rel=0.1)


def test_between_measured_group_sizes():
    values = (1.0, 2.0, 4.0)
    assert [at_ranks(values, ranks) for ranks in (2, 4, 8)] == [1.0, 2.0, 4.0]
    assert 1.0 < at_ranks(values, 3) < 2.0 < at_ranks(values, 6) < 4.0
    assert at_ranks(values, 64) == 4.0


@given(
    volume=st.floats(1, 1e9),
    ranks=st.integers(2, 72),
    latency=st.floats(1e-6, 1e-4),
    rate=st.floats(1e9, 1e12),
)
def test_all_reduce_grows_with_the_message_and_never_beats_its_latency(
    volume, ranks, latency, rate
):
    small, large = (all_reduce_time(v, ranks, latency, rate) for v in (volume, 2 * volume))
    assert latency <= small <= large


def test_arrays_equal_scalars():
    volumes = np.array([1e3, 1e6, 1e8])
    together = all_reduce_time(volumes, 4, 5e-6, 1e11)
    assert together == pytest.approx([all_reduce_time(v, 4, 5e-6, 1e11) for v in volumes])
