"""The front holds what nothing beats, and nothing else."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from planner.compare.pareto import pareto_front

# Few distinct values, so that ties happen.
VALUES = st.one_of(st.integers(0, 6).map(float), st.just(math.nan))


def beaten(mine: tuple[float, float], other: tuple[float, float]) -> bool:
    return other[0] <= mine[0] and other[1] <= mine[1] and other != mine


@given(st.lists(st.tuples(VALUES, VALUES), max_size=12), st.booleans())
def test_the_front_is_what_no_other_beats(
    points: list[tuple[float, float]], more_is_better: bool
) -> None:
    signed = [(cost, -merit if more_is_better else merit) for cost, merit in points]
    known = [p for p in signed if not any(map(math.isnan, p))]
    wanted = {
        index
        for index, point in enumerate(signed)
        if point in known and not any(beaten(point, other) for other in known)
    }
    costs, merits = [p[0] for p in points], [p[1] for p in points]
    front = pareto_front(costs, merits, more_is_better=more_is_better)
    assert set(front) == wanted
    assert len(front) == len(wanted)
    assert [costs[index] for index in front] == sorted(costs[index] for index in front)


def test_by_hand() -> None:
    #       cheap and slow, beaten, dear and fast, unknown price
    costs, rates = [1.0, 2.0, 3.0, math.nan], [10.0, 5.0, 30.0, 99.0]
    assert pareto_front(costs, rates, more_is_better=True) == (0, 2)
    assert pareto_front(costs, rates, more_is_better=False) == (0, 1)
