"""Which rows of a comparison are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.compare.objectives import ANYTHING, Objectives, meets
from planner.compare.table import Row


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a row must satisfy; by default anything will do.

    Attributes:
        can_rent: somebody rents it out for money.
        holds: the workload has room at once.
        objectives: what it must not miss in the middle of the estimates.
        vendors, classes: of the accelerator; empty: any.
        max_usd_per_hour: of the whole deployment, at the median price (USD/h); a row without a price doesn't pass.
    """

    can_rent: bool = False
    holds: bool = False
    objectives: Objectives = ANYTHING
    vendors: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    max_usd_per_hour: float | None = None


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
    return meets(row, wanted.objectives)


def wanted_rows(rows: Iterable[Row], wanted: Wanted) -> tuple[Row, ...]:
    """The rows that pass, in their order."""
    return tuple(row for row in rows if passes(row, wanted))
