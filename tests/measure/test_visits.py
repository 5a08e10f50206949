"""Which of a point's visits count, and that their spread is the machine's and not a moment's."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from planner.measure.bench_model import Timing
from planner.measure.clock import spread, widened
from planner.measure.micro import Sample, gathered
from planner.measure.noise import Song
from planner.measure.visits import Visit, counted
from planner.ui.locale import LANGUAGES, catalogue


def quiet(song: Song) -> bool:
    return max(song) <= 1.15


def visit(*seconds: float, canary_s: float = 1.0, peak_bytes: float | None = 5.0) -> Visit:
    return Visit(Timing(seconds, peak_bytes), (1.0, canary_s))


def test_visits_at_disturbed_moments_are_left_aside_where_others_are_left() -> None:
    found = counted(
        [visit(1.0, 1.1), visit(2.0, 2.2, canary_s=1.5, peak_bytes=9.0), visit(1.05)], quiet
    )
    assert found.repeats == ((1.0, 1.1), (1.05,))
    assert (found.steady, found.varies, found.peak_bytes) == (True, False, 9.0)
    assert found.song == (1.0, 1.0)


def test_without_enough_quiet_ones_all_count_and_it_is_said() -> None:
    found = counted([visit(1.0), visit(2.0, canary_s=1.5), visit(1.9, canary_s=1.4)], quiet)
    assert found.repeats == ((1.0,), (2.0,), (1.9,))
    assert (found.steady, found.varies) == (False, True)


def test_one_visit_is_judged_by_its_repeats() -> None:
    assert not counted([visit(1.0, 1.01, 0.99)], quiet).varies
    assert counted([visit(1.0, 1.4, 0.9)], quiet).varies
    assert counted([visit(1.0)], quiet).varies
    assert counted([visit(1.0, canary_s=2.0)], quiet).steady is False


@pytest.mark.parametrize("language", LANGUAGES)
def test_why_repeats_do_not_count_is_said(language: str) -> None:
    found = {
        (1.0,): "measured_once",
        (1.0, 1.4, 0.9): "varies",
        (1.0, 1.01, 0.99): None,
    }
    for seconds, why in found.items():
        assert counted([visit(*seconds)], quiet).why_noisy == why
        assert why is None or f"measure.row_note.{why}" in catalogue(language)
    assert counted([visit(1.0), visit(2.0)], quiet).why_noisy == "varies"


def test_a_peak_is_of_the_visits_that_know() -> None:
    """Only the first visit of a point makes passes that aren't timed, in which memory is recorded."""
    assert counted([visit(1.0), visit(1.0, peak_bytes=None)], quiet).peak_bytes == 5.0
    assert counted([visit(1.0, peak_bytes=None)], quiet).peak_bytes is None


MOMENTS = np.random.default_rng(7)


def looked_at(rounds: int, repeats: int) -> list[list[float]]:
    """Times on a machine whose speed moves by 5 % from moment to moment, and little within one."""
    states = MOMENTS.normal(1.0, 0.05, rounds)
    return [[float(one) for one in state * MOMENTS.normal(1.0, 0.003, repeats)] for state in states]


@pytest.mark.parametrize("rounds", [2, 3, 6])
def test_a_further_round_lies_in_the_range_four_times_out_of_five(rounds: int) -> None:
    inside = 0
    for _ in range(1_000):
        found, (further,) = spread(*looked_at(rounds, 3)), looked_at(1, 3)
        inside += found.low <= statistics.median(further) <= found.high
    assert 0.76 <= inside / 1_000 <= 0.88


def test_two_runs_in_rounds_agree_within_their_ranges_where_runs_of_one_moment_do_not() -> None:
    def agree(rounds: int, repeats: int) -> float:
        pairs = [
            (spread(*looked_at(rounds, repeats)), spread(*looked_at(rounds, repeats)))
            for _ in range(400)
        ]
        return statistics.mean(a.low <= b.high and b.low <= a.high for a, b in pairs)

    assert agree(1, 18) < 0.3
    assert agree(6, 3) > 0.98


def test_a_figure_s_rounds_are_put_together() -> None:
    samples = [
        Sample("matmul", "FLOP/s", (1.0, 3.0), "fp32", 64),
        Sample("launch", "s", (0.5,)),
        Sample("matmul", "FLOP/s", (2.0,), "fp32", 64, 9.0),
        Sample("matmul", "FLOP/s", (8.0,), "fp32", 128),
    ]
    found = gathered(samples)
    assert [(one.name, one.size, one.value.median, one.value.repeats) for one in found] == [
        ("matmul", 64, 2.0, 3),
        ("launch", None, 0.5, 1),
        ("matmul", 128, 8.0, 1),
    ]
    # The rounds' medians are both 2: what is left is the middle 80 % of 1, 2 and 3.
    assert (found[0].value.low, found[0].value.high) == (pytest.approx(1.2), pytest.approx(2.8))


def test_a_range_ends_near_what_was_seen() -> None:
    """Two rounds that differ by much tell of no time that is a hundredth of the quickest."""
    found = spread([0.5, 0.6], [1.9, 2.0])
    assert found.low == pytest.approx(0.5 / 1.5)
    assert found.high == pytest.approx(2.0 * 1.5)
    assert widened(found, 0.01, 50.0).low == pytest.approx(found.low / 2)
    assert widened(found, 0.01, 50.0).high == pytest.approx(found.high * 2)


def test_repeats_that_are_far_apart_within_a_visit_do_not_count() -> None:
    apart = [visit(1.0, 1.0, 3.0), visit(1.0, 1.02, 2.9)]
    assert counted(apart, quiet).varies
    assert not counted([visit(1.0, 1.0, 1.1), visit(1.0, 1.02, 1.1)], quiet).varies
