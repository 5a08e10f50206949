"""Reports of GuideLLM, 0.2 to 0.8: one JSON document with a benchmark for each load.

Its "inter_token_latency_ms" is a request's mean time per token after the first, our TPOT; its
"time_per_output_token_ms" counts the first token in, and is left out. Latencies of requests are in seconds.
"""

from __future__ import annotations

import datetime
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
# The form from which rates hold the tokens of requests that were cut short as well, as GuideLLM's own tables do: all
# that the server put out. Before, those come with times that make nonsense of them.
WHOLE_RATES_FROM = 2
MOST_OFF = 0.25  # share by which a stated rate may be off
LATEST_S = 1e11  # a second of the year 5138
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
    form = inside(data, "metadata", "version")
    counted_among = "total" if (finite(form) or 0.0) >= WHOLE_RATES_FROM else "successful"
    runs = [_rows(one, counted_among) for one in data["benchmarks"]]
    notes = []
    if empty := sum(not rows for rows in runs):
        notes.append(Note("results_runs_empty", {"left": empty}))
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
        date=_date(data["benchmarks"]),
        notes=tuple(notes),
    )


def _rows(benchmark: Any, counted_among: str) -> list[ResultRow]:
    """The rows of one run.

    Args:
        counted_among: of which requests the rates are taken.
    """
    metrics = inside(benchmark, "metrics")
    # Up to 0.3 they are the benchmark's, from 0.4 on the metrics'.
    totals = inside(metrics, "request_totals") or inside(benchmark, "request_totals")
    completed = _count(totals, "successful")
    completed = completed or whole(positive(_of(metrics, "request_latency", "count"))) or 0
    if not completed:
        return []
    failed, unfinished = _count(totals, "errored"), _count(totals, "incomplete")
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
    sides = ("prompt_token_count", "output_token_count")
    lengths = [positive(_of(metrics, name, "mean")) for name in sides]
    spreads = [positive(_of(metrics, name, "std_dev")) for name in sides]
    served = positive(_of(metrics, "requests_per_second", "mean"))
    tokens = {"output_tokens_per_s": lengths[1], "total_tokens_per_s": _sum(lengths)}
    for quantity, name in RATES.items():
        stated = inside(metrics, name, counted_among, "mean")
        if counted_among == "successful":
            stated = _checked(stated, served, tokens[quantity])
        found = stat(repeats=1, total=stated)
        if found is not None:
            measured[quantity] = found
    kind, in_flight, rate = _strategy(benchmark)
    sent = completed + failed + unfinished
    open_loop = kind not in ("concurrent", "synchronous", "throughput")
    if open_loop and not _reached(metrics, in_flight, sent):
        in_flight = None
    load = Load(
        completed=completed,
        failed=failed,
        sent=sent,
        in_flight=in_flight,
        poisson_rate_per_s=rate if kind == "poisson" else None,
        open_loop=open_loop,
        cut=unfinished > 0,
        input_tokens=_tokens(metrics, "prompt_token_count", "input"),
        output_tokens=_tokens(metrics, "output_token_count", "output"),
        request_throughput_per_s=served,
        e2e_s=positive(_of(metrics, "request_latency", "mean")),
        varied=differ(positive(_of(metrics, sides[1], "mean")), spreads[1]),
    )
    return serving_rows(load, measured, ("imported_mean_lengths",) if any(spreads) else ())


def _count(totals: Any, status: str) -> int:
    """Requests that ended in one way."""
    return whole(positive(inside(totals, status))) or 0


def _sum(lengths: list[float | None]) -> float | None:
    known = [length for length in lengths if length is not None]
    return sum(known) if len(known) == len(lengths) else None


def _checked(stated: Any, served_per_s: float | None, tokens: float | None) -> float | None:
    """Tokens a second as stated, where that is about the finished requests' rate times their tokens, else the latter.

    The stated one is a mean over moments of the run. Up to 0.6 these leave out that nothing ran, and in 0.3 they reach
    from 1970 where a request was cut short before its first token.
    """
    rate = positive(stated)
    if rate is None or served_per_s is None or tokens is None:
        return rate
    counted = served_per_s * tokens
    return rate if abs(rate - counted) < MOST_OFF * counted else counted


def _reached(metrics: Any, limit: int | None, sent: int) -> bool:
    """Whether as many requests ran at once as were let: from 0.4 on arrivals at a rate have a limit, a high one."""
    if limit is None or sent <= limit:
        return False
    peak = positive(inside(metrics, "request_concurrency", "total", "max"))
    return peak is None or peak >= limit


def _date(benchmarks: list[Any]) -> str | None:
    """When the first run began, as ISO 8601."""
    for one in benchmarks:
        start_s = finite(inside(one, "start_time"))
        if start_s is not None and 0.0 < start_s < LATEST_S:
            return datetime.datetime.fromtimestamp(start_s, datetime.UTC).isoformat()
    return None


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
