"""The solver: it finds known values, stays in range, and says what the rows don't tell."""

from __future__ import annotations

import numpy as np
import pytest

from planner.measure.fit.solve import Parameter, soft_weights, solve

SIZES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])


def parameter(key, low, high, centre, spread=3.0):
    return Parameter("file", (key,), low, high, centre, spread)


def line_residuals(measured, sizes=SIZES):
    """log(predicted / measured) of a fixed time and one per unit of size."""

    def residuals(x, changed):
        fixed, each = np.exp(x)
        return np.log((fixed + each * sizes) / measured)

    return residuals


def test_it_finds_the_values_that_made_the_rows():
    found = solve(
        [parameter("fixed", 1e-3, 1e3, 1.0), parameter("each", 1e-3, 1e3, 1.0)],
        line_residuals(5.0 + 0.25 * SIZES),
    )
    assert found.values == pytest.approx((5.0, 0.25), rel=0.01)
    assert not any(found.at_bound)
    assert min(found.gain) > 0.8


def test_where_it_starts_does_not_matter():
    parameters = [parameter("fixed", 1e-3, 1e3, 1.0), parameter("each", 1e-3, 1e3, 1.0)]
    residuals = line_residuals(5.0 + 0.25 * SIZES)
    near = solve(parameters, residuals, start=(4.9, 0.26))
    far = solve(parameters, residuals, start=(300.0, 100.0))
    assert near.values == pytest.approx(far.values, rel=0.02)


def test_one_wild_row_hardly_moves_it():
    measured = 5.0 + 0.25 * SIZES
    measured[3] *= 10.0
    found = solve(
        [parameter("fixed", 1e-3, 1e3, 1.0), parameter("each", 1e-3, 1e3, 1.0)],
        line_residuals(measured),
    )
    plain = np.exp(np.mean(np.log(measured / (5.0 + 0.25 * SIZES))))
    assert plain > 1.3
    assert found.values == pytest.approx((5.0, 0.25), rel=0.15)


def test_a_value_that_wants_out_of_its_range_is_said_to_be_at_the_bound():
    found = solve(
        [parameter("fixed", 1e-3, 2.0, 1.0), parameter("each", 1e-3, 1e3, 1.0)],
        line_residuals(5.0 + 0.25 * SIZES),
    )
    assert found.values[0] == pytest.approx(2.0)
    assert found.at_bound == (True, False)


def test_what_no_row_depends_on_keeps_its_centre_and_gains_nothing():
    def residuals(x, changed):
        return np.full(6, x[0] - np.log(3.0))

    found = solve([parameter("a", 0.1, 10, 1.0), parameter("idle", 0.1, 10, 2.0)], residuals)
    assert found.values == pytest.approx((3.0, 2.0), rel=0.01)
    assert found.gain[1] == pytest.approx(0.0, abs=1e-6)


def test_few_rows_keep_near_a_tight_expectation_and_many_leave_it():
    def of(rows):
        def residuals(x, changed):
            return np.full(rows, x[0] - np.log(2.0))

        return solve([parameter("a", 0.1, 10.0, 1.0, spread=0.1)], residuals).values[0]

    assert 1.0 < of(1) < of(4) < of(400) < 2.0
    assert of(400) == pytest.approx(2.0, rel=0.05)


def test_weights_of_residuals_fall_with_their_size():
    weights = soft_weights(np.array([0.0, 0.15, 1.5]), 0.15)
    assert weights[0] == 1.0
    assert weights[1] == pytest.approx(1 / np.sqrt(2))
    assert weights[2] == pytest.approx(0.1, rel=0.01)
