"""Which rows of a comparison are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.compare.table import Row


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a row must satisfy; by default anything will do.

    Attributes:
        can_rent: somebody rents it out for money.
        holds: the workload has room at once.
        max_ttft_s: longest time to first token that is accepted (s).
        min_tokens_per_s: slowest pace for one user that is accepted (tokens/s); not asked of a model that generates
            nothing.
        vendors, classes: of the accelerator; empty: any.
        max_usd_per_hour: of the whole deployment, at the median price (USD/h); a row without a price doesn't pass.
    """

    can_rent: bool = False
    holds: bool = False
    max_ttft_s: float | None = None
    min_tokens_per_s: float | None = None
    vendors: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    max_usd_per_hour: float | None = None


def meets_objectives(
    row: Row, max_ttft_s: float | None = None, min_tokens_per_s: float | None = None
) -> bool:
    """Whether the middle of the estimates meets both objectives; a row without a speed meets none."""
    if max_ttft_s is None and min_tokens_per_s is None:
        return True
    speed = row.speed
    if speed is None or not row.starts:
        return False
    if max_ttft_s is not None and speed.ttft_s.mid > max_ttft_s:
        return False
    if min_tokens_per_s is None or speed.decode_tokens_per_s is None:
        return True
    return bool(speed.decode_tokens_per_s.mid >= min_tokens_per_s)


def passes(row: Row, wanted: Wanted) -> bool:
    """Whether the row is wanted."""
    if wanted.can_rent and not row.can_rent:
        return False
    if wanted.holds and not row.holds:
        return False
    if wanted.vendors and row.accelerator.vendor not in wanted.vendors:
        return False
    if wanted.classes and row.accelerator.accelerator_class not in wanted.classes:
        return False
    if wanted.max_usd_per_hour is not None and (
        row.usd_per_hour is None or row.usd_per_hour.mid > wanted.max_usd_per_hour
    ):
        return False
    return meets_objectives(row, wanted.max_ttft_s, wanted.min_tokens_per_s)


def wanted_rows(rows: Iterable[Row], wanted: Wanted) -> tuple[Row, ...]:
    """The rows that pass, in their order."""
    return tuple(row for row in rows if passes(row, wanted))
