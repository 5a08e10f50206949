"""Objectives are met even at the slow end of the range, in its middle alone, or not; the middle decides what passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner import Scenario
from planner.compare.objectives import ANYTHING, Met, Objectives, judged, meets, verdict_on
from planner.compare.table import compare
from tests.compare.rows import changed, estimate, rows

# Estimates of these tests reach 10 % to either side.
ROW = changed(rows()["l4"], ttft_s=0.5, rate=20.0)


@pytest.mark.parametrize(
    ("max_ttft_s", "verdict"),
    [
        (0.56, Met.MEETS),
        (ROW.speed.ttft_s.high if ROW.speed else 0.0, Met.MEETS),
        (0.54, Met.MAY_MISS),
        (0.5, Met.MAY_MISS),
        (0.499, Met.MISSES),
        (0.44, Met.MISSES),
    ],
)
def test_a_first_token_is_judged_at_the_middle_and_the_slow_end(
    max_ttft_s: float, verdict: Met
) -> None:
    assert verdict_on(ROW, Objectives(max_ttft_s=max_ttft_s)) is verdict


@pytest.mark.parametrize(
    ("min_tokens_per_s", "verdict"),
    [
        (17.9, Met.MEETS),
        (18.1, Met.MAY_MISS),
        (20.0, Met.MAY_MISS),
        (20.1, Met.MISSES),
        (21.9, Met.MISSES),
    ],
)
def test_the_slow_end_of_a_pace_is_its_low_one(min_tokens_per_s: float, verdict: Met) -> None:
    assert verdict_on(ROW, Objectives(min_tokens_per_s=min_tokens_per_s)) is verdict


def test_the_worst_objective_is_the_row_s_verdict() -> None:
    assert judged(ROW, Objectives(0.6, 19.0)) == {"ttft": Met.MEETS, "each": Met.MAY_MISS}
    assert verdict_on(ROW, Objectives(0.6, 19.0)) is Met.MAY_MISS
    assert verdict_on(ROW, Objectives(0.4, 19.0)) is Met.MISSES
    assert verdict_on(ROW, Objectives(0.6, 10.0)) is Met.MEETS


def test_what_may_miss_passes_and_what_misses_does_not() -> None:
    for objectives in (Objectives(0.5, 20.0), Objectives(0.499), Objectives(None, 20.1), ANYTHING):
        assert meets(ROW, objectives) is (verdict_on(ROW, objectives) is not Met.MISSES)
    assert meets(ROW, Objectives(0.5, 20.0))
    assert not meets(ROW, Objectives(0.5, 20.1))


def test_nothing_asked_is_no_verdict_and_no_speed_meets_nothing() -> None:
    assert verdict_on(ROW, ANYTHING) is None
    assert meets(changed(ROW, speed=None), ANYTHING)
    for silent in (changed(ROW, starts=False), changed(ROW, speed=None)):
        assert judged(silent, Objectives(60.0, 1.0)) == {"ttft": Met.MISSES, "each": Met.MISSES}


def test_a_model_that_generates_nothing_isn_t_held_to_a_pace() -> None:
    scenario = Scenario(
        model="Snowflake/snowflake-arctic-embed-m", gpu="l4", input_tokens=400, output_tokens=1
    )
    row = compare(scenario).current
    assert judged(row, Objectives(5.0, 1000.0)) == {"ttft": Met.MEETS}
    assert not meets(row, Objectives(1e-9, 1000.0))
    assert verdict_on(row, Objectives(min_tokens_per_s=1000.0)) is None


def test_a_wider_range_makes_it_less_sure_and_changes_no_filter() -> None:
    assert ROW.speed is not None
    wide = replace(ROW, speed=replace(ROW.speed, ttft_s=estimate(0.5, spread=0.5)))
    asked = Objectives(max_ttft_s=0.6)
    assert (verdict_on(ROW, asked), verdict_on(wide, asked)) == (Met.MEETS, Met.MAY_MISS)
    assert meets(ROW, asked)
    assert meets(wide, asked)
