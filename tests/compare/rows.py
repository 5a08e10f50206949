"""Rows for tests: a comparison's own, with some of it changed."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from planner import Scenario
from planner.compare.speeds import Speed
from planner.compare.table import Row, compare
from planner.quantity import Basis, Estimate


@lru_cache(maxsize=2)
def rows(size: str = "8B") -> dict[str, Row]:
    """Llama 3.1 of a size for eight users on every accelerator, by id."""
    scenario = Scenario(model=f"meta-llama/Llama-3.1-{size}-Instruct", gpu="l4", concurrency=8)
    return {row.accelerator.id: row for row in compare(scenario).rows}


def estimate(mid: float, unit: str = "s", spread: float = 0.1) -> Estimate:
    return Estimate(mid * (1 - spread), mid, mid * (1 + spread), unit, Basis.CALIBRATED)


def changed(
    row: Row, *, ttft_s: float | None = None, rate: float | None = None, **more: Any
) -> Row:
    """The row with another first token (s), another pace for one user (tokens/s), or other attributes."""
    speed = row.speed
    assert isinstance(speed, Speed)
    if ttft_s is not None:
        speed = replace(speed, ttft_s=estimate(ttft_s))
    if rate is not None:
        speed = replace(speed, decode_tokens_per_s=estimate(rate, "tokens/s"))
    return replace(row, **{"speed": speed, **more})
