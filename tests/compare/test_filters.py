"""Chips over the table: each leaves what it says, and together they leave the intersection."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner import Scenario
from planner.compare.filters import Wanted, meets_objectives, passes, wanted_rows
from planner.compare.table import Row, compare
from tests.compare.rows import changed, rows

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
        Wanted(max_ttft_s=0.5),
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


def test_objectives_are_met_at_the_limit() -> None:
    row = changed(rows()["l4"], ttft_s=0.5, rate=20.0)
    assert meets_objectives(row, 0.5, 20.0)
    assert not meets_objectives(row, 0.499, 20.0)
    assert not meets_objectives(row, 0.5, 20.1)
    assert not meets_objectives(changed(row, starts=False), 0.5, 20.0)
    assert not meets_objectives(changed(row, speed=None), 0.5)


def test_a_model_that_generates_nothing_isn_t_held_to_a_pace() -> None:
    scenario = Scenario(
        model="Snowflake/snowflake-arctic-embed-m", gpu="l4", input_tokens=400, output_tokens=1
    )
    row = compare(scenario).current
    assert meets_objectives(row, 5.0, 1000.0)
    assert not meets_objectives(row, 1e-9, 1000.0)
