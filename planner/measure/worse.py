"""Groups of runs that a calibration predicts worse than what is shipped, although it predicts most of them better."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2
from typing import Literal

from planner.catalog.own_calibration import OwnWorse
from planner.measure.fit.problem import Observation, median_error
from planner.quantity import FloatArray

By = Literal["concurrency", "input_tokens"]
GROUPED_BY: tuple[By, ...] = ("concurrency", "input_tokens")
CLEARLY = 0.1  # so much more error (of the measured figure), for a group to be called worse
LEAST_SHARE = 0.05  # of all runs; one among many is no group


def worse_groups(
    seen: Sequence[Observation], before: FloatArray, after: FloatArray
) -> list[OwnWorse]:
    """The group by users and the one by prompt length that lost most, where one lost clearly.

    Runs between two powers of two are a group; all runs together are none.

    Args:
        seen: runs of one figure.
        before, after: log(predicted / measured) of each with the shipped constants and with the fitted ones.
    """
    found: dict[tuple[int, ...], OwnWorse] = {}
    for by in GROUPED_BY:
        values = [int(getattr(one.run.scenario, by)) for one in seen]
        groups: dict[int, list[int]] = {}
        for i, value in enumerate(values):
            groups.setdefault(floor(log2(value)), []).append(i)
        lost = {
            tuple(group): (median_error(before[group]), median_error(after[group]))
            for group in groups.values()
            if LEAST_SHARE * len(seen) <= len(group) < len(seen)
        }
        most = max(lost, key=lambda group: lost[group][1] - lost[group][0], default=())
        # The same runs by another name say nothing new.
        if most and lost[most][1] - lost[most][0] >= CLEARLY and most not in found:
            found[most] = OwnWorse(
                by=by,
                low=min(values[i] for i in most),
                high=max(values[i] for i in most),
                rows=len(most),
                before_fraction=lost[most][0],
                after_fraction=lost[most][1],
            )
    return list(found.values())
