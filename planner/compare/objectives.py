"""How soon and how fast it should be, and how sure it is that a deployment is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.compare.table import Row


class Met(StrEnum):
    """Whether an objective is met, the best first.

    MEETS: even at the slow end of the range. MAY_MISS: in the middle of the estimate, and not at its slow end. MISSES:
    not in the middle, whatever the fast end says.
    """

    MEETS = "meets"
    MAY_MISS = "may_miss"
    MISSES = "misses"


JUDGED = TTFT, EACH = "ttft", "each"  # the first token, and the pace of one user
WORST_FIRST = tuple(reversed(Met))


@dataclass(frozen=True, slots=True)
class Objectives:
    """What a deployment should reach; None: anything will do.

    Attributes:
        max_ttft_s: longest time to first token that is accepted (s).
        min_tokens_per_s: slowest pace for one user that is accepted (tokens/s); not asked of a model that generates
            nothing.
    """

    max_ttft_s: float | None = None
    min_tokens_per_s: float | None = None

    def __bool__(self) -> bool:
        return self.max_ttft_s is not None or self.min_tokens_per_s is not None


ANYTHING = Objectives()


def judged(row: Row, objectives: Objectives) -> dict[str, Met]:
    """How each objective is met, by its name in `JUDGED`; both are missed by a row that has no speed."""
    speed = row.speed if row.starts else None
    found: dict[str, Met] = {}
    if (most_s := objectives.max_ttft_s) is not None:
        found[TTFT] = (
            _met(float(speed.ttft_s.mid), float(speed.ttft_s.high), most_s) if speed else Met.MISSES
        )
    if (least := objectives.min_tokens_per_s) is not None:
        pace = speed.decode_tokens_per_s if speed else None
        if pace:
            # The slower, the more: so that both objectives are at most something.
            found[EACH] = _met(-float(pace.mid), -float(pace.low), -least)
        elif not speed:
            found[EACH] = Met.MISSES
    return found


def _met(middle: float, slow_end: float, most: float) -> Met:
    if middle > most:
        return Met.MISSES
    return Met.MEETS if slow_end <= most else Met.MAY_MISS


def verdict_on(row: Row, objectives: Objectives) -> Met | None:
    """The worst that `judged` says of the row; None where nothing is asked of it."""
    found = judged(row, objectives).values()
    return next((one for one in WORST_FIRST if one in found), None)


def meets(row: Row, objectives: Objectives) -> bool:
    """Whether the row isn't known to miss: the middle of the estimates decides, so that what may miss passes.

    Filters, the number of GPUs that stands in a comparison, and with them the cheapest and the fastest go by this.
    """
    return verdict_on(row, objectives) is not Met.MISSES
