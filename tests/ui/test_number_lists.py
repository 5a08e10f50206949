"""Lists of numbers as typed: a decimal comma is never taken for two numbers, nor two numbers for one."""

from __future__ import annotations

import pytest

from planner.errors import InvalidInput
from planner.ui.number_lists import decimals, whole_numbers


@pytest.mark.parametrize(
    ("given", "means"),
    [
        ("", ""), ("2", "2"), ("0.5, 2", "0.5,2"), ("0.5,2", "0.5,2"), ("1; 5", "1,5"), ("1 5", "1,5"),
        ("1, 5", "1,5"), ("1,4,16", "1,4,16"), ("0,5", "0.5"), ("1,05", "1.05"), ("1,5; 2", "1.5,2"),
        ("1,5;2,5", "1.5,2.5"), ("1,5, 2", "1.5,2"), ("0,5 2", "0.5,2"), ("2;", "2"), ("x", "x"),
    ],
)  # fmt: skip
def test_rates(given: str, means: str) -> None:
    assert decimals(given, "rate") == means


@pytest.mark.parametrize(
    "given", ["1,5", "1,5 2", "1,5 2,5", "1.000,5", "1,000.5", "1.5;2,5", "1,5,2 3", "1,5;"]
)
def test_what_may_be_one_number_or_two_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        decimals(given, "rate")
    assert refused.value.code == "ambiguous_list"


@pytest.mark.parametrize(
    ("given", "means"), [("1,4,16", "1,4,16"), ("1; 4 16", "1,4,16"), ("1.5", "1.5"), ("0", "0")]
)
def test_whole_numbers(given: str, means: str) -> None:
    assert whole_numbers(given, "concurrency") == means


def test_thousands_are_not_two_loads() -> None:
    with pytest.raises(InvalidInput):
        whole_numbers("1,024", "concurrency")
