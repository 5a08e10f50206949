"""Reports of GuideLLM, 0.2 to 0.8: one JSON document with a benchmark for each load.

Its "inter_token_latency_ms" is a request's mean time per token after the first, our TPOT; its
"time_per_output_token_ms" counts the first token in, and is left out. Latencies of requests are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import Note
from planner.measure.readers.results import (
    Load,
    ResultRow,
    ResultsReading,
    Stat,
    capped,
    differ,
    numbered,
    serving_rows,
    stat,
)
from planner.measure.readers.untrusted import (
    finite,
    inside,
    known_model,
    name_in,
    positive,
    version_between,
    whole,
)
from planner.measure.record import RecordQuantity

KNOWN = ("0.2", "0.8")
KNOWN_REPORTS = (1, 2)  # versions of the report's form
MS = 1e-3
TIMES: dict[RecordQuantity, tuple[str, float]] = {
    "tpot_s": ("inter_token_latency_ms", MS),
    "ttft_s": ("time_to_first_token_ms", MS),
    "e2e_s": ("request_latency", 1.0),
}
RATES: dict[RecordQuantity, str] = {
    "output_tokens_per_s": "output_tokens_per_second",
    "total_tokens_per_s": "tokens_per_second",
}
MODEL_PLACES = (
    ("config", "spec", "backend", "model"),
    ("args", "model"),
    ("args", "backend_kwargs", "model"),
    ("args", "processor"),
)
OWN_MODEL_PLACES = (("config", "backend", "model"), ("worker", "backend_model"))


def is_guidellm(data: Mapping[str, Any]) -> bool:
    """A report of GuideLLM's."""
    benchmarks = data.get("benchmarks")
    return (
        isinstance(benchmarks, list)
        and bool(benchmarks)
        and any(isinstance(inside(one, "metrics"), Mapping) for one in benchmarks)
    )


def read_guidellm(data: Mapping[str, Any]) -> ResultsReading:
    """The reading of a report."""
    printed = next(filter(None, (name_in(inside(data, *at)) for at in MODEL_PLACES)), "")
    for one in data["benchmarks"]:
        for at in OWN_MODEL_PLACES:
            printed = printed or name_in(inside(one, *at)) or ""
    runs = [_rows(one) for one in data["benchmarks"]]
    notes = []
    if empty := sum(not rows for rows in runs):
        notes.append(Note("results_runs_empty", {"left": empty}))
    form = inside(data, "metadata", "version")
    version = name_in(inside(data, "metadata", "guidellm_version"))
    if (form is not None and form not in KNOWN_REPORTS) or not version_between(version, KNOWN):
        given = f"{version or '–'} ({str(form)[:20]})"
        notes.append(Note("results_version_unread", {"tool": "GuideLLM", "given": given}))
    model = known_model(printed)
    return ResultsReading(
        tool="guidellm",
        version=version,
        rows=capped(numbered(runs)),
        known={} if model is None else {"model": model},
        printed_model=printed,
        notes=tuple(notes),
    )


def _rows(benchmark: Any) -> list[ResultRow]:
    metrics = inside(benchmark, "metrics")
    totals = inside(metrics, "request_totals")
    completed = whole(positive(inside(totals, "successful")))
    completed = completed or whole(positive(_of(metrics, "request_latency", "count")))
    if completed is None:
        return []
    measured: dict[RecordQuantity, Stat] = {}
    for quantity, (name, scale) in TIMES.items():
        found = stat(
            repeats=completed,
            scale=scale,
            median=_of(metrics, name, "median"),
            mean=_of(metrics, name, "mean"),
            deviation=_of(metrics, name, "std_dev"),
            p10=_of(metrics, name, "percentiles", "p10"),
            p90=_of(metrics, name, "percentiles", "p90"),
        )
        if found is not None:
            measured[quantity] = found
    for quantity, name in RATES.items():
        # The distribution is over moments of the run; its mean is tokens over time.
        found = stat(repeats=1, total=_of(metrics, name, "mean"))
        if found is not None:
            measured[quantity] = found
    sides = ("prompt_token_count", "output_token_count")
    spreads = [positive(_of(metrics, name, "std_dev")) for name in sides]
    kind, in_flight, rate = _strategy(benchmark)
    failed = finite(inside(totals, "errored"))
    load = Load(
        completed=completed,
        failed=int(failed) if failed is not None and failed > 0 else 0,
        sent=completed,
        in_flight=None if kind == "throughput" else in_flight,
        poisson_rate_per_s=rate if kind == "poisson" else None,
        open_loop=kind not in ("concurrent", "synchronous", "throughput"),
        input_tokens=_tokens(metrics, "prompt_token_count", "input"),
        output_tokens=_tokens(metrics, "output_token_count", "output"),
        request_throughput_per_s=positive(_of(metrics, "requests_per_second", "mean")),
        e2e_s=positive(_of(metrics, "request_latency", "mean")),
        varied=differ(positive(_of(metrics, sides[1], "mean")), spreads[1]),
    )
    return serving_rows(load, measured, ("imported_mean_lengths",) if any(spreads) else ())


def _strategy(benchmark: Any) -> tuple[str, int | None, float | None]:
    """How requests were sent, how many at once and how many a second, from where each version says it."""
    for place in ("config", "args"):
        strategy = inside(benchmark, place, "strategy")
        kind = name_in(inside(strategy, "type_")) or name_in(inside(strategy, "kind"))
        if kind is not None:
            streams = whole(positive(inside(strategy, "streams")))
            streams = streams or whole(positive(inside(strategy, "max_concurrency")))
            rate = positive(inside(strategy, "rate"))
            return kind, 1 if kind == "synchronous" else streams, rate
    return "", None, None


def _tokens(metrics: Any, name: str, side: str) -> int | None:
    """Mean tokens of successful requests; 0.6 and later keep them by modality."""
    mean = positive(_of(metrics, name, "mean"))
    mean = mean or positive(inside(metrics, "text", "tokens", side, "successful", "mean"))
    return whole(mean)


def _of(metrics: Any, name: str, *keys: str) -> Any:
    return inside(metrics, name, "successful", *keys)
