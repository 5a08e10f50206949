"""Ranges from residuals: what they hold of rows like those that they are from, and of a group that none is of."""

from __future__ import annotations

import numpy as np
import pytest

from planner.measure.spread import LEAST, spread_of, spread_unseen, unseen_factor


def test_a_range_holds_eighty_percent_of_what_it_was_taken_from():
    residuals = np.random.default_rng(1).normal(0.1, 0.2, 2000)
    low, high = spread_of(residuals)
    ratio = np.exp(-residuals)
    assert np.mean((ratio >= 1 + low) & (ratio <= 1 + high)) == pytest.approx(0.8, abs=0.01)
    assert low < 0 < high


@pytest.mark.parametrize("sizes", [(40, 18, 12, 12, 8), (30, 5, 80), (12,) * 12])
@pytest.mark.parametrize("between", [0.0, 0.15, 0.3])
def test_a_range_holds_eighty_percent_of_another_groups_rows(sizes, between):
    """Groups with offsets of their own, drawn anew each time: what the range holds of one more such group."""
    draw = np.random.default_rng(7)
    names = np.repeat([f"g{i}" for i in range(len(sizes))], sizes)
    inside = []
    for _ in range(400):
        offsets = np.repeat(draw.normal(0.0, between, len(sizes)), sizes)
        low, high = spread_unseen(offsets + draw.normal(0.0, 0.1, len(names)), names)
        new = np.exp(-(draw.normal(0.0, between) + draw.normal(0.0, 0.1, 20)))
        inside.append(np.mean((new >= 1.0 + low) & (new <= 1.0 + high)))
    assert 0.75 <= np.mean(inside) <= 0.88
    plain = spread_of(offsets + draw.normal(0.0, 0.1, len(names)))
    assert between == 0.0 or high - low > 0.8 * (plain[1] - plain[0])


def test_few_groups_say_less_of_another():
    factors = [unseen_factor(groups) for groups in range(2, 60)]
    assert factors == sorted(factors, reverse=True)
    assert factors[0] == pytest.approx(3.078 * np.sqrt(1.5) / 1.2816)
    assert factors[-1] == pytest.approx(1.0, abs=0.03)
    # Where the table ends its expansion goes on: 12 groups, 11 degrees of freedom, 1.3634.
    assert unseen_factor(12) == pytest.approx(1.3634 * np.sqrt(13 / 12) / 1.2816, rel=5e-3)


def test_one_group_and_rows_without_a_residual():
    residuals = np.array([0.1, -0.1, np.nan, 0.05, -0.05])
    low, high = spread_unseen(residuals, ["a"] * 5)
    assert low < 0 < high
    assert spread_unseen(np.zeros(4), list("abcd")) == (-LEAST, LEAST)
    for nothing in (np.array([]), np.array([np.nan])):
        with pytest.raises(ValueError, match="no residuals"):
            spread_unseen(nothing, ["a"] * len(nothing))
        with pytest.raises(ValueError, match="no residuals"):
            spread_of(nothing)
