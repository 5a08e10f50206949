"""Which of several options nothing else beats in both of two respects."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pareto_front(
    costs: Sequence[float], merits: Sequence[float], *, more_is_better: bool
) -> tuple[int, ...]:
    """Indices of the options that no other is at least as good as in both respects and better than in one.

    Args:
        costs: less is better; NaN: unknown, never on the front.
        merits: of the same length; a speed (`more_is_better`) or a time.
        more_is_better: the direction of `merits`.

    Returns:
        Ascending in cost. Options that are equal in both respects are all on the front.
    """
    sign = -1.0 if more_is_better else 1.0
    known = [
        (cost, sign * merit, index)
        for index, (cost, merit) in enumerate(zip(costs, merits, strict=True))
        if not (math.isnan(cost) or math.isnan(merit))
    ]
    front: list[int] = []
    best = math.inf
    last = (math.nan, math.nan)
    for cost, merit, index in sorted(known):
        if merit < best or (cost, merit) == last:
            front.append(index)
            best, last = merit, (cost, merit)
    return tuple(front)
