"""Exports of AIPerf and of GenAI-Perf before it, as JSON and as CSV.

"Inter token latency" is a request's mean time per token after the first, our TPOT. A CSV holds a table of statistics
and one of totals, whose names carry the unit in parentheses, and neither the model nor the load. AIPerf's summary of
several loads has the JSON's figures of each, with the load, and not the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.errors import Note
from planner.measure.readers.results import (
    MOST_FAILED,
    NORMAL_P90,
    RATE_UNKNOWN,
    Load,
    ResultRow,
    ResultsReading,
    Role,
    Stat,
    capped,
    differ,
    numbered,
    serving_rows,
    stat,
)
from planner.measure.readers.untrusted import (
    csv_rows,
    finite,
    inside,
    known_model,
    name_in,
    number_in,
    positive,
    request_rate,
    whole,
)
from planner.measure.record import RecordQuantity

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
TIMES: dict[RecordQuantity, str] = {
    "tpot_s": "inter_token_latency",
    "ttft_s": "time_to_first_token",
    "e2e_s": "request_latency",
}
RATES: dict[RecordQuantity, str] = {
    "output_tokens_per_s": "output_token_throughput",
    "total_tokens_per_s": "total_token_throughput",
}
SIDES = ("input", "output")
KNOWN_FORM = "1"  # of AIPerf's schema_version, before the dot
RANDOM_KEYS = ("arrival_pattern", "request_rate_mode")  # how gaps between arrivals are drawn
CSV_START = "Metric,"
RECOUNTED = "imported_tokens_recounted"
RECOUNT_FRACTION = 0.05  # between the tool's own count of an answer's tokens and the server's

Table = Mapping[str, Mapping[str, Any]]


def is_perf_export(data: Mapping[str, Any]) -> bool:
    """An export of AIPerf or GenAI-Perf."""
    return isinstance(inside(data, "request_latency"), Mapping) and "input_config" in data


def is_perf_sweep(data: Mapping[str, Any]) -> bool:
    """AIPerf's summary of several loads, each run once; of loads run more often it has no percentiles."""
    return any(
        isinstance(inside(one, "metrics", "request_latency"), Mapping) for one in _loads(data)
    )


def _loads(data: Mapping[str, Any]) -> list[Any]:
    loads = data.get("per_combination_metrics")
    return loads if isinstance(loads, list) else []


def read_perf_json(data: Mapping[str, Any]) -> ResultsReading:
    """The reading of a JSON export."""
    config = data.get("input_config")
    version, form = name_in(data.get("aiperf_version")), name_in(data.get("schema_version"))
    notes = []
    if form is not None and form.partition(".")[0] != KNOWN_FORM:
        given = f"{version or '–'} ({form[:20]})"
        notes.append(Note("results_version_unread", {"tool": "AIPerf", "given": given}))
    ours = version is not None or isinstance(inside(config, "loadgen"), Mapping)
    table: dict[str, Mapping[str, Any]] = {
        name: value for name, value in data.items() if isinstance(value, Mapping)
    }
    printed = _model(config)
    model = known_model(printed)
    in_flight, open_loop, poisson_rate, unread = _load(config)
    codes = [RATE_UNKNOWN] if unread else []
    rows = _rows(table, in_flight, codes, open_loop=open_loop, poisson_rate=poisson_rate)
    if data.get("was_cancelled") is True or data.get("is_complete") is False:
        rows = [replace(row, noisy=True, notes=(*row.notes, "imported_cancelled")) for row in rows]
    return ResultsReading(
        tool="aiperf" if ours else "genai-perf",
        version=version,
        rows=capped(rows),
        known={} if model is None else {"model": model},
        printed_model=printed,
        date=name_in(data.get("end_time")),
        notes=tuple(notes),
    )


def read_perf_sweep(data: Mapping[str, Any]) -> ResultsReading:
    """The reading of a summary of several loads."""
    runs: list[list[ResultRow]] = []
    for one in _loads(data):
        table = inside(one, "metrics")
        if not isinstance(inside(table, "request_latency"), Mapping):
            runs.append([])
            continue
        given = {str(key).rpartition(".")[2]: value for key, value in _items(one, "parameters")}
        in_flight = whole(positive(given.get("concurrency")))
        open_loop = any(key in given for key in ("request_rate", "rate"))
        if in_flight is None and not open_loop:
            runs.append([_unloaded(table)])
        else:
            runs.append(_rows(table, in_flight, [], open_loop=open_loop))
    empty = sum(not rows for rows in runs)
    notes = (Note("results_runs_empty", {"left": empty}),) if empty else ()
    return ResultsReading("aiperf", None, capped(numbered(runs)), notes=notes)


def _items(data: Any, key: str) -> list[tuple[Any, Any]]:
    found = inside(data, key)
    return list(found.items()) if isinstance(found, Mapping) else []


def read_perf_csv(text: str) -> ResultsReading:
    """The reading of a CSV export; a last line that doesn't end may have been cut, and isn't read."""
    table: dict[str, dict[str, Any]] = {}
    header: list[str] = []
    for cells in csv_rows(text[: text.rfind("\n") + 1]):
        if not cells:
            continue
        if cells[0] == "Metric":
            header = cells
            continue
        if not header or header[:1] != ["Metric"] or "GPU" in header or len(cells) < 2:
            header = []  # the GPU's own tables, whose figures aren't a request's
            continue
        name, _, unit = cells[0].rpartition(" (")
        key = (name or cells[0]).lower().replace(" ", "_")
        values = dict(zip(header[1:], map(number_in, cells[1:]), strict=False))
        if "Value" in values:
            values["avg"] = values.pop("Value")
        table.setdefault(key, {**values, "unit": unit.removesuffix(")")})
    tool = "aiperf" if "std" in text.partition("\n")[0] else "genai-perf"
    return ResultsReading(tool, None, capped([_unloaded(table)]))


def _unloaded(table: Table) -> ResultRow:
    """The row of a run of whose load nothing is said."""
    sides = (("input_tokens", "input"), ("output_tokens", "output"))
    lengths = {name: _mean_tokens(table, side) for name, side in sides}
    workload = {name: tokens for name, tokens in lengths.items() if tokens is not None}
    failed = _failed(table)
    codes = [*_codes(table), *(["imported_failed_requests"] if failed else [])]
    noisy = failed > MOST_FAILED * ((_requests(table) or 0) + failed)
    role: Role = "other" if RECOUNTED in codes else "fit"
    return ResultRow(workload, "loop", role, _figures(table), tuple(codes), noisy)


def _rows(
    table: Table,
    in_flight: int | None,
    codes: list[str],
    *,
    open_loop: bool,
    poisson_rate: float | None = None,
) -> list[ResultRow]:
    """The rows of a run whose load is stated."""
    latency, requests = table.get("request_latency", {}), _requests(table) or 0
    mean, scale = positive(latency.get("avg")), SECONDS.get(str(latency.get("unit") or "ms"))
    load = Load(
        completed=requests,
        failed=_failed(table),
        sent=requests,
        in_flight=in_flight,
        open_loop=open_loop,
        poisson_rate_per_s=poisson_rate,
        input_tokens=_mean_tokens(table, "input"),
        output_tokens=_mean_tokens(table, "output"),
        request_throughput_per_s=positive(inside(table, "request_throughput", "avg")),
        e2e_s=None if mean is None or scale is None else mean * scale,
        varied=differ(
            positive(inside(table, "output_sequence_length", "avg")), _deviation(table, "output")
        ),
    )
    codes = [*_codes(table), *codes]
    rows = serving_rows(load, _figures(table), codes)
    return [replace(row, role="other") for row in rows] if RECOUNTED in codes else rows


def _codes(table: Table) -> list[str]:
    """What to know of a run's lengths: that they are means, and that the server counted its tokens otherwise."""
    codes = ["imported_mean_lengths"] if _vary(table) else []
    counted, told = (
        positive(inside(table, name, "avg"))
        for name in ("output_sequence_length", "usage_completion_tokens")
    )
    if counted is not None and told is not None and abs(counted - told) > RECOUNT_FRACTION * told:
        codes.append(RECOUNTED)
    return codes


def _figures(table: Table) -> dict[RecordQuantity, Stat]:
    requests = _requests(table) or 1
    measured: dict[RecordQuantity, Stat] = {}
    for quantity, name in TIMES.items():
        found = table.get(name, {})
        scale = SECONDS.get(str(found.get("unit") or "ms"))
        if scale is None:
            continue
        time = stat(
            repeats=requests,
            scale=scale,
            median=found.get("p50"),
            mean=found.get("avg"),
            deviation=found.get("std"),
            p10=found.get("p10"),
            p90=found.get("p90"),
        )
        if time is not None:
            measured[quantity] = time
    for quantity, name in RATES.items():
        rate = stat(repeats=1, total=inside(table, name, "avg"))
        if rate is not None:
            measured[quantity] = rate
    return measured


def _requests(table: Table) -> int | None:
    return whole(positive(inside(table, "request_count", "avg")))


def _mean_tokens(table: Table, side: str) -> int | None:
    return whole(positive(inside(table, f"{side}_sequence_length", "avg")))


def _vary(table: Table) -> bool:
    """Whether requests differ in length, so that the lengths that are kept are means."""
    lengths = [table.get(f"{side}_sequence_length", {}) for side in SIDES]
    return any(positive(one.get("std")) or one.get("min") != one.get("max") for one in lengths)


def _deviation(table: Table, side: str) -> float | None:
    """The standard deviation of lengths; that of a summary of several loads is one over runs, and nothing."""
    found = table.get(f"{side}_sequence_length", {})
    low, high = finite(found.get("p10")), finite(found.get("p90"))
    stated = positive(found.get("std"))
    return stated if low is None or high is None else stated or (high - low) / (2.0 * NORMAL_P90)


def _failed(table: Table) -> int:
    return whole(positive(inside(table, "error_request_count", "avg"))) or 0


def _model(config: Any) -> str:
    """The first model's name, from where each of the tools and versions keeps it."""
    places = (
        inside(config, "endpoint", "model_names"),
        inside(config, "model_names"),
        inside(config, "models", "items"),
        inside(config, "models"),
        inside(config, "model"),
    )
    for found in places:
        one = found[0] if isinstance(found, list) and found else found
        name = name_in(inside(one, "name")) or name_in(one)
        if name is not None:
            return name
    return ""


def _load(config: Any) -> tuple[int | None, bool, float | None, bool]:
    """Requests at once, whether they came at a rate, at which at random, and whether a rate is stated that is none."""
    in_flight, at_a_rate, poisson_rate, unread = None, False, None, False
    for place in (
        _phase(config),
        inside(config, "loadgen"),
        inside(config, "perf_analyzer", "stimulus"),
        config,
    ):
        given = inside(place, "concurrency")
        given = given[0] if isinstance(given, list) and given else given
        in_flight = in_flight or whole(positive(given))
        kind = name_in(inside(place, "type"))
        at_a_rate = at_a_rate or kind not in (None, "concurrency")
        rate = request_rate(inside(place, "request_rate"))
        unread = unread or math.isnan(rate)
        at_a_rate = at_a_rate or not math.isinf(rate)
        ways = (kind, *(name_in(inside(place, key)) for key in RANDOM_KEYS))
        if "poisson" in ways:
            stated = (rate, request_rate(inside(place, "rate")))
            poisson_rate = poisson_rate or next(filter(math.isfinite, stated), None)
    return in_flight, at_a_rate, poisson_rate, unread


def _phase(config: Any) -> Any:
    """The phase that was measured, of those that AIPerf ran from 0.6 on; the warm-up comes before it."""
    phases = inside(config, "phases")
    if not isinstance(phases, list):
        return None
    named = [one for one in phases if inside(one, "name") == "profiling"]
    return (named or phases[-1:] or [None])[0]
