"""Chips over the table: each leaves what it says, and together they leave the intersection."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.compare.filters import Wanted, passes, wanted_rows
from planner.compare.objectives import Objectives
from planner.compare.table import Row
from tests.compare.rows import rows

ALL = Wanted()
CHIPS: dict[str, tuple[Wanted, Callable[[Row], bool]]] = {
    "can rent": (Wanted(can_rent=True), lambda row: row.can_rent),
    "fits": (Wanted(holds=True), lambda row: row.verdict is not None and row.verdict != "does_not_fit"),
    "vendor": (Wanted(vendors=frozenset({"AMD"})), lambda row: row.accelerator.vendor == "AMD"),
    "class": (
        Wanted(classes=frozenset({"consumer", "edge"})),
        lambda row: row.accelerator.accelerator_class in ("consumer", "edge"),
    ),
    "price": (
        Wanted(max_usd_per_hour=5.0),
        lambda row: row.usd_per_hour is not None and row.usd_per_hour.mid <= 5.0,
    ),
    "first token": (
        Wanted(objectives=Objectives(max_ttft_s=0.5)),
        lambda row: row.speed is not None and row.starts and row.speed.ttft_s.mid <= 0.5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_leaves_what_it_says(name: str) -> None:
    wanted, check = CHIPS[name]
    everything = rows("70B").values()
    kept = wanted_rows(everything, wanted)
    assert kept == tuple(row for row in everything if check(row))
    assert 0 < len(kept) < len(everything)


def test_chips_add_up() -> None:
    both = Wanted(can_rent=True, holds=True, max_usd_per_hour=5.0)
    parts = (Wanted(can_rent=True), Wanted(holds=True), Wanted(max_usd_per_hour=5.0))
    for row in rows("70B").values():
        assert passes(row, both) == all(passes(row, part) for part in parts)
        assert passes(row, ALL)
