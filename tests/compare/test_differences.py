"""Differences in words: the right direction, never more precise than the ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compare.differences import about_the_same, differences
from planner.memory.fit import Verdict
from planner.quantity import Basis, Estimate
from tests.compare.rows import changed, estimate, rows

BASE = "h100-sxm-80gb"


def codes(**by_name: float | None) -> dict[str, dict[str, object]]:
    """Notes by code of a row changed against the same row unchanged."""
    row = rows()[BASE]
    return {note.code: note.values for note in differences(changed(row, **by_name), row)}


def test_a_row_is_the_same_as_itself() -> None:
    found = {note.code for note in differences(rows()[BASE], rows()[BASE])}
    assert found == {
        "difference_ttft_same",
        "difference_user_speed_same",
        "difference_throughput_same",
        "difference_hour_same",
        "difference_output_price_same",
    }


def test_how_many_times_and_which_way() -> None:
    speed = rows()[BASE].speed
    assert speed is not None
    assert speed.decode_tokens_per_s is not None
    slower = codes(ttft_s=2.13 * speed.ttft_s.mid)
    assert slower["difference_ttft_more"]["times"] == 2.1
    faster = codes(ttft_s=speed.ttft_s.mid / 2.13, rate=speed.decode_tokens_per_s.mid * 14.2)
    assert faster["difference_ttft_less"]["times"] == 2.1
    assert faster["difference_user_speed_more"]["times"] == 14.0
    assert faster["difference_ttft_less"]["accelerator"] == "H100 SXM5 80GB"


@given(st.sampled_from(sorted(rows())), st.sampled_from(sorted(rows())))
def test_turning_the_pair_turns_the_words(one: str, other: str) -> None:
    turned = {"more": "less", "less": "more", "same": "same"}
    there = [n for n in differences(rows()[one], rows()[other]) if "times" in n.values]
    back = {
        n.code: n.values["times"]
        for n in differences(rows()[other], rows()[one])
        if "times" in n.values
    }
    for note in there:
        stem, _, word = note.code.rpartition("_")
        assert back[f"{stem}_{turned[word]}"] == note.values["times"]
        assert note.values["times"] >= 1.0  # type: ignore[operator]
    assert len(there) == len(back)


def test_an_a100_against_an_h100_in_words() -> None:
    found = {n.code: n.values for n in differences(rows()[BASE], rows()["a100-sxm4-80gb"])}
    assert found["difference_user_speed_more"]["other"] == "A100 SXM4 80GB"
    assert 1.3 <= found["difference_user_speed_more"]["times"] <= 2.2  # type: ignore[operator]


def test_counts_and_who_holds_it() -> None:
    row = rows()[BASE]
    more = {n.code: n.values for n in differences(changed(row, gpus=4), row)}
    assert (more["difference_gpus"]["gpus"], more["difference_gpus"]["other_gpus"]) == (4, 1)
    failing = changed(row, verdict=Verdict.DOES_NOT_FIT)
    assert differences(row, failing)[0].code == "difference_only_this_holds"
    assert differences(failing, row)[0].code == "difference_only_other_holds"


def test_what_one_of_them_lacks_is_not_compared() -> None:
    row = rows()[BASE]
    without = changed(row, usd_per_hour=None, usd_per_million_output_tokens=None,
                      usd_per_million_tokens=None)  # fmt: skip
    assert not {n.code for n in differences(without, row)} & {
        f"difference_{what}_{word}"
        for what in ("hour", "output_price", "token_price")
        for word in ("more", "less", "same")
    }


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (estimate(1.0, spread=0.3), estimate(1.25, spread=0.3), True),  # middles within ranges
        (estimate(1.0, spread=0.3), estimate(1.5, spread=0.3), False),
        (estimate(1.0, spread=0.0), estimate(1.04, spread=0.0), True),  # within 5 %
        (estimate(1.0, spread=0.0), estimate(1.06, spread=0.0), False),
        # A wide range over a narrow one isn't enough: the wide one's middle must be in the narrow one.
        (Estimate(0.5, 1.0, 2.0, "s", Basis.ASSUMED), estimate(1.3, spread=0.1), False),
    ],
)  # fmt: skip
def test_about_the_same(a: Estimate, b: Estimate, same: bool) -> None:
    assert about_the_same(a, b) is about_the_same(b, a) is same
