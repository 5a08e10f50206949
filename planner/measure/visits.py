"""What came of a point's visits: it is looked at once a round, so that its repeats are spread over the whole run.

A machine that is shared changes within seconds. Repeats made one after another all see one of its states, and agree
with each other better than with those of a minute later.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from planner.measure.bench_model import Timing
from planner.measure.noise import Song, is_noisy

MOST_WIDE = 1.5  # times, between the ends of a range that counts
LEAST_STEADY = 2  # visits at a quiet moment, for the others to be left aside


@dataclass(frozen=True, slots=True)
class Visit:
    """One look at a point.

    Attributes:
        timing: its repeats; song: the canary's, the slower of those before and after it.
    """

    timing: Timing
    song: Song


@dataclass(frozen=True, slots=True)
class Counted:
    """Those of a point's visits that count.

    Attributes:
        repeats: times of each (s); peak_bytes: most memory of any visit that knows, None where none does.
        song: the canary's meanwhile, the median of each work.
        steady: they were made at quiet moments; varies: they differ among each other by too much.
    """

    repeats: tuple[tuple[float, ...], ...]
    peak_bytes: float | None
    song: Song
    steady: bool
    varies: bool

    @property
    def why_noisy(self) -> str | None:
        """Code of why its repeats don't count; None where they do, and where only the moments were disturbed."""
        if not self.varies:
            return None
        return "varies" if sum(map(len, self.repeats)) > 1 else "measured_once"


def counted(visits: Sequence[Visit], is_steady: Callable[[Song], bool]) -> Counted:
    """The visits at quiet moments where there are enough of them, else all; `visits` has at least one.

    What is chosen by is the canary, never the times themselves.
    """
    quiet = [one for one in visits if is_steady(one.song)]
    steady = len(quiet) >= min(LEAST_STEADY, len(visits))
    chosen = quiet if steady else visits
    repeats = tuple(one.timing.seconds for one in chosen)
    compared = [statistics.median(one) for one in repeats] if len(repeats) > 1 else [*repeats[0]]
    peaks = [one.timing.peak_bytes for one in visits if one.timing.peak_bytes is not None]
    return Counted(
        repeats=repeats,
        peak_bytes=max(peaks, default=None),
        song=tuple(map(statistics.median, zip(*(one.song for one in chosen), strict=True))),
        steady=steady,
        varies=is_noisy(compared) or _is_wide(repeats),
    )


def _is_wide(repeats: Sequence[Sequence[float]]) -> bool:
    """Whether the middle 80 % of all repeats differ by so much that their median says little."""
    low, high = np.quantile(np.concatenate([np.asarray(one) for one in repeats]), (0.1, 0.9))
    return bool(high > MOST_WIDE * low)
