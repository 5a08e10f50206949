"""Prices: every offer loads and names a known accelerator; the range counts what it says it counts."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from planner.catalog.accelerators import accelerator_ids
from planner.catalog.loader import read_yaml
from planner.catalog.prices import (
    Offer,
    all_offers,
    can_rent,
    hourly_price,
    offers,
    offers_from,
)
from planner.errors import BadProfile, MissingFigure
from planner.quantity import Basis

LAMBDA = "prices/lambda.yaml"


def test_every_offer_is_of_a_known_accelerator_dated_and_sourced() -> None:
    known = set(accelerator_ids())
    assert len(all_offers()) > 200
    for offer in all_offers():
        assert offer.accelerator in known
        assert offer.date[:2] == "20"
        assert offer.source.title
        assert offer.usd_per_gpu_hour is None or 0 <= offer.usd_per_gpu_hour < 40


def test_an_offer_is_told_apart_from_every_other() -> None:
    seen = [
        (o.provider, o.instance, o.accelerator, o.gpus, o.region, o.terms, o.date)
        for o in all_offers()
    ]
    assert len(seen) == len(set(seen))


def test_offers_come_newest_first() -> None:
    dates = [offer.date for offer in offers("h100-sxm-80gb")]
    assert dates == sorted(dates, reverse=True)
    assert offers("apple-m4-max-40c") == ()


def test_free_offers_are_shown_and_not_counted() -> None:
    free = [offer for offer in offers("t4") if offer.terms == "free"]
    assert {offer.provider for offer in free} == {"colab", "kaggle"}
    assert all(offer.usd_per_hour == 0 for offer in free)
    assert hourly_price("t4").usd_per_gpu_hour.low > 0.1


def test_slices_are_shown_and_not_counted() -> None:
    assert any(offer.gpu_fraction < 1 for offer in offers("l4"))
    assert all(offer.gpu_fraction == 1 for offer in hourly_price("l4").offers)


def test_a_range_is_in_order_and_says_what_it_counts() -> None:
    counted = 0
    for id_ in accelerator_ids():
        try:
            price = hourly_price(id_)
        except MissingFigure:
            continue
        counted += 1
        assert can_rent(id_)
        assert price.oldest <= price.newest
        assert price.usd_per_gpu_hour.basis is Basis.TRANSFERRED
        rates = [offer.usd_per_gpu_hour for offer in price.offers]
        assert rates[0] == price.usd_per_gpu_hour.low
        assert rates[-1] == price.usd_per_gpu_hour.high
        assert {offer.terms for offer in price.offers} == {"on-demand"}
        assert len({offer.provider for offer in price.offers}) == len(price.offers)
    assert counted >= 30


def test_one_gpu_of_an_instance_costs_its_share() -> None:
    aws = next(o for o in hourly_price("h100-sxm-80gb", 8).offers if o.provider == "aws")
    assert (aws.instance, aws.gpus) == ("p5.48xlarge", 8)
    assert aws.usd_per_gpu_hour == pytest.approx(55.04 / 8)


def test_an_instance_must_hold_the_replica() -> None:
    assert all(offer.gpus >= 4 for offer in hourly_price("l4", 4).offers)
    assert hourly_price("l4", 4).usd_per_gpu_hour.low > hourly_price("l4").usd_per_gpu_hour.low
    largest = max(o.gpus for o in offers("l4") if o.terms == "on-demand" and o.usd_per_hour)
    assert {offer.gpus for offer in hourly_price("l4", 1000).offers} == {largest}


def test_what_cannot_be_rented_has_no_price() -> None:
    assert not can_rent("apple-m4-max-40c")
    with pytest.raises(MissingFigure) as missing:
        hourly_price("apple-m4-max-40c")
    assert missing.value.values == {"profile": "apple-m4-max-40c", "key": "usd_per_hour"}


def test_rented_at_a_price_that_is_not_on_demand() -> None:
    assert can_rent("rtx-3090")
    with pytest.raises(MissingFigure):
        hourly_price("rtx-3090")


# --- What counts, and what does not load -----------------------------------------------------------------------------


@pytest.fixture
def lambda_data() -> dict[str, Any]:
    return copy.deepcopy(read_yaml(LAMBDA))


def test_a_provider_counts_with_the_cheapest_of_its_newest_month() -> None:
    price = hourly_price("h100-sxm-80gb")
    by_provider: dict[str, Offer] = {offer.provider: offer for offer in price.offers}
    assert by_provider["runpod"].instance == "community"
    assert by_provider["lambda"].date == "2026-09-20"
    assert "azure" in by_provider


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"usd_per_hour": "1.2"}, "profile_bad_schema"),
        ({"usd_per_hour": 0}, "profile_bad_schema"),
        ({"terms": "whenever"}, "profile_bad_schema"),
        ({"date": "yesterday"}, "profile_bad_schema"),
        ({"gpu_fraction": 1.5}, "profile_bad_schema"),
        ({"euro": 1}, "profile_bad_schema"),
        ({"source": "nobody"}, "profile_figure_without_source"),
    ],
)
def test_a_broken_offer_does_not_load(
    lambda_data: dict[str, Any], change: dict[str, Any], code: str
) -> None:
    lambda_data["offers"][0] |= change
    with pytest.raises(BadProfile) as bad:
        offers_from(lambda_data, LAMBDA)
    assert bad.value.code == code
