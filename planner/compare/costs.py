"""What a deployment costs an hour, and a million tokens of its output, at dated list prices."""

from __future__ import annotations

from functools import lru_cache

from planner.catalog.prices import PriceRange, hourly_price
from planner.errors import MissingFigure
from planner.quantity import Estimate, worst

SECONDS_PER_HOUR = 3600.0
MILLION = 1e6


@lru_cache(maxsize=4096)
def price_of(accelerator_id: str, gpus: int) -> PriceRange | None:
    """On-demand price of one GPU-hour in an instance of `gpus`, or None where none is known."""
    try:
        return hourly_price(accelerator_id, gpus)
    except MissingFigure:
        return None


def usd_per_hour(price: PriceRange) -> Estimate:
    """Price of the whole deployment (USD/h): its GPUs at the lowest, median and highest provider's."""
    each, gpus = price.usd_per_gpu_hour, price.gpus
    return Estimate(each.low * gpus, each.mid * gpus, each.high * gpus, "USD/h", each.basis)


def usd_per_million_tokens(hourly: Estimate, tokens_per_s: Estimate) -> Estimate:
    """Cost of a million tokens (USD): 10⁶ · price / (3600 · tokens/s), with the deployment busy all the time.

    The cheapest provider and the fastest rate give the low end, the dearest and the slowest the high one. A pool that
    is busy for a share of the time costs as many times more.

    Args:
        hourly: of the deployment (USD/h).
        tokens_per_s: what it delivers; output tokens, or input and output.
    """
    per_hour = tokens_per_s.inverse(MILLION / SECONDS_PER_HOUR, "h")
    return Estimate(
        hourly.low * per_hour.low,
        hourly.mid * per_hour.mid,
        hourly.high * per_hour.high,
        "USD",
        worst(hourly.basis, tokens_per_s.basis),
    )
