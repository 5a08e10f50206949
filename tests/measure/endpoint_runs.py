"""Benchmarks of a fake server, as tests start them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from planner.measure.endpoint.benchmark import measure_endpoint
from planner.measure.endpoint.options import parse_options
from planner.measure.record import Record
from tests.measure.fake_openai import Fake

SHORT = {"input_tokens": 40, "output_tokens": 5}


def bench(fake: Fake, run: dict[str, Any] | None = None, **options: Any) -> Record:
    """Runs it in a thread of its own: another test's event loop may be on this one.

    Args:
        run: what `measure_endpoint` takes beside the options.
    """
    values: dict[str, Any] = {
        "url": fake.url,
        "lengths": [SHORT],
        "levels": [{"concurrency": 2, "requests": 6}],
        "timeout_s": 10.0,
        **options,
    }
    parsed = parse_options(values)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(measure_endpoint, parsed, **{"key": "", **(run or {})}).result()
