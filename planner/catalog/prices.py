"""What renting an accelerator costs: dated offers with their source, and a price range over them.

Prices are list prices in US dollars an hour for a whole instance, of the date and region stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from planner.catalog.files import profile_ids
from planner.catalog.loader import Source, read_sources, read_yaml
from planner.errors import BadProfile, MissingFigure
from planner.quantity import Basis, Estimate

Terms = Literal["on-demand", "spot", "flex", "reserved", "serverless", "free"]
OLDEST_YEARS = 1


@dataclass(frozen=True, slots=True)
class Offer:
    """One instance that a provider rents.

    Attributes:
        provider, provider_name: id ("aws") and name.
        accelerator: id in the catalogue; gpus: how many of it the instance has.
        gpu_fraction: share of each that one gets: 1, or less for a slice.
        vcpus, host_memory_bytes: of the instance, None where the source doesn't state it.
        usd_per_hour: for the whole instance; None where the shape is known and the price isn't.
        terms: "on-demand"; "spot" may be taken away; "flex" waits for capacity; "reserved" is bought ahead;
            "serverless" is billed by the second while it runs; "free" comes with a quota and no promise.
        date: of the price: year, month or day.
    """

    provider: str
    provider_name: str
    instance: str
    accelerator: str
    gpus: int
    gpu_fraction: float
    vcpus: int | None
    host_memory_bytes: float | None
    usd_per_hour: float | None
    region: str | None
    terms: Terms
    date: str
    source: Source
    note: str

    @property
    def usd_per_gpu_hour(self) -> float | None:
        """The price for one whole GPU (USD/h), or None where there is no price."""
        if self.usd_per_hour is None:
            return None
        return self.usd_per_hour / (self.gpus * self.gpu_fraction)


@dataclass(frozen=True, slots=True)
class PriceRange:
    """What one GPU-hour costs on demand, over providers.

    Attributes:
        usd_per_gpu_hour: lowest, median and highest of the providers' cheapest offers (USD/h). `transferred`: the list
            prices of those dates, taken for another date and region.
        oldest, newest: dates of the offers counted.
        offers: those counted, one a provider, cheapest first.
    """

    accelerator: str
    gpus: int
    usd_per_gpu_hour: Estimate
    oldest: str
    newest: str
    offers: tuple[Offer, ...]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _OfferEntry(_Strict):
    instance: str
    accelerator: str
    gpus: int = Field(ge=1)
    gpu_fraction: float = Field(default=1.0, gt=0, le=1)
    vcpus: int | None = Field(default=None, ge=1)
    host_memory_bytes: float | None = Field(default=None, gt=0)
    usd_per_hour: float | None = Field(default=None, ge=0)
    region: str | None = None
    terms: Terms
    date: str = Field(pattern=r"^\d{4}(-\d\d){0,2}$")
    source: str
    note: str = ""

    @model_validator(mode="after")
    def _free_costs_nothing(self) -> _OfferEntry:
        if (self.terms == "free") != (self.usd_per_hour == 0):
            raise ValueError("free and a price of zero go together")
        return self


class _ProviderProfile(_Strict):
    id: str
    name: str
    offers: list[_OfferEntry]
    sources: list[dict[str, str]]


def offers_from(data: dict[str, Any], file: str) -> tuple[Offer, ...]:
    """A provider's offers from its profile's data.

    Raises:
        BadProfile: where the data breaks the schema, or an offer has no source.
    """
    try:
        profile = _ProviderProfile.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadProfile("profile_bad_schema", file=file, key=key, reason=first["msg"]) from error
    sources = read_sources(data, file)
    offers = []
    for entry in profile.offers:
        if entry.source not in sources:
            raise BadProfile("profile_figure_without_source", file=file, key=entry.instance)
        stated = entry.model_dump() | {"source": sources[entry.source]}
        offers.append(Offer(provider=profile.id, provider_name=profile.name, **stated))
    return tuple(offers)


@lru_cache(maxsize=1)
def all_offers() -> tuple[Offer, ...]:
    """Every offer of every provider, read once; raises BadProfile."""
    files = [f"prices/{provider}.yaml" for provider in profile_ids("prices")]
    return tuple(offer for file in files for offer in offers_from(read_yaml(file), file))


@lru_cache(maxsize=512)
def offers(accelerator_id: str) -> tuple[Offer, ...]:
    """All offers of an accelerator, whatever their terms, newest first; empty where nobody is known to rent it out."""
    found = [offer for offer in all_offers() if offer.accelerator == accelerator_id]
    return tuple(sorted(found, key=lambda offer: offer.date, reverse=True))


def can_rent(accelerator_id: str) -> bool:
    """True where it is rented out for money, whether the price is known or not."""
    return any(offer.terms != "free" for offer in offers(accelerator_id))


@lru_cache(maxsize=1024)
def hourly_price(accelerator_id: str, gpus: int = 1) -> PriceRange:
    """On-demand price of one GPU-hour in an instance that holds `gpus` of them.

    An instance counts with its price divided by its GPUs, so that several replicas may share it. Where no instance is
    so large, the largest count. Of each provider the cheapest of its newest month counts, unless it is more than a
    calendar year older than the newest of all. Slices of a GPU, other terms and free offers don't count.

    Args:
        gpus: GPUs that must be in one instance (one replica's).

    Raises:
        MissingFigure: where there is no on-demand price.
    """
    priced = [
        offer
        for offer in offers(accelerator_id)
        if offer.terms == "on-demand" and offer.usd_per_hour and offer.gpu_fraction == 1.0
    ]
    if not priced:
        raise MissingFigure(accelerator_id, "usd_per_hour")
    enough = min(gpus, max(offer.gpus for offer in priced))
    large = [offer for offer in priced if offer.gpus >= enough]
    first_year = int(large[0].date[:4]) - OLDEST_YEARS
    by_provider: dict[str, list[Offer]] = {}
    for offer in large:  # newest first, so a provider's first is its newest
        newest = by_provider.setdefault(offer.provider, [offer])
        if offer is not newest[0] and offer.date[:7] == newest[0].date[:7]:
            newest.append(offer)
    cheapest = [
        min(same, key=_rate) for same in by_provider.values() if int(same[0].date[:4]) >= first_year
    ]
    cheapest.sort(key=_rate)
    rates = [_rate(offer) for offer in cheapest]
    dates = sorted(offer.date for offer in cheapest)
    price = Estimate(rates[0], median(rates), rates[-1], "USD/h", Basis.TRANSFERRED)
    return PriceRange(accelerator_id, gpus, price, dates[0], dates[-1], tuple(cheapest))


def _rate(offer: Offer) -> float:
    return offer.usd_per_gpu_hour or 0.0
