"""Results of the engines' own benchmarks: `vllm bench serve`, `latency` and `throughput`, SGLang's `bench_serving`.

Of both, "tpot" is a request's mean time per token after the first and "itl" one gap between tokens; times are in
milliseconds, in the lists of a detailed file in seconds. vLLM 0.6 to 0.32 (one JSON object, or one a line where results
were appended); SGLang 0.3 to 0.5 (one JSON object a line).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from planner.errors import Note
from planner.measure.readers.results import (
    RATE_UNKNOWN,
    Load,
    ResultRow,
    ResultsReading,
    Stat,
    alike,
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
    number_in,
    positive,
    request_rate,
    whole,
)
from planner.measure.record import RecordQuantity

MS = 1e-3
TRACE = "trace"  # in place of a rate: requests came as a recorded trace has them
TIMES: dict[RecordQuantity, tuple[str, ...]] = {
    "tpot_s": ("tpot_ms",),
    "ttft_s": ("ttft_ms",),
    "itl_s": ("itl_ms",),
    "e2e_s": ("e2el_ms", "e2e_latency_ms"),
}
# What is there of speculative decoding: of SGLang's, of vLLM's.
DRAFTED = ("accept_length", "spec_decode_num_drafts", "spec_decode_draft_tokens")
ENGINES = {
    "vllm": "vllm",
    "vllm-chat": "vllm",
    "sglang": "sglang",
    "sglang-native": "sglang",
    "sglang-oai": "sglang",
    "sglang-oai-chat": "sglang",
    "tensorrt-llm": "tensorrt-llm",
    "trt": "tensorrt-llm",
    "llama.cpp": "llama.cpp",
}


def is_vllm_serve(data: Mapping[str, Any]) -> bool:
    """A result of `vllm bench serve`."""
    return "model_id" in data and "request_throughput" in data and "output_throughput" in data


def is_sglang_serve(data: Mapping[str, Any]) -> bool:
    """A line of SGLang's bench_serving."""
    return "random_input_len" in data and "output_throughput" in data and "model_id" not in data


def is_vllm_latency(data: Mapping[str, Any]) -> bool:
    """A result of `vllm bench latency`."""
    return "avg_latency" in data and "percentiles" in data


def is_vllm_throughput(data: Mapping[str, Any]) -> bool:
    """A result of `vllm bench throughput`."""
    return {"elapsed_time", "num_requests", "tokens_per_second"} <= data.keys()


def read_vllm_serve(documents: Sequence[Mapping[str, Any]]) -> ResultsReading:
    """The reading of results of `vllm bench serve`, a document each; all of the first one's model."""

    def server(data: Mapping[str, Any]) -> tuple[str, Any, Any]:
        backend = data.get("backend") or data.get("endpoint_type")
        return name_in(data.get("model_id")) or "", backend, data.get("tensor_parallel_size")

    mine, notes = alike(documents, server)
    printed, backend, ranks = server(mine[0])
    # Whatever was named with --metadata stands beside the figures, as text.
    known = {"engine": _engine(backend), "tp": whole(number_in(ranks))}
    return ResultsReading(
        tool="vllm-bench-serve",
        version=None,
        rows=capped(numbered(map(_serve_rows, mine))),
        known=_with_model(known, printed),
        printed_model=printed,
        date=_date(mine[0].get("date")),
        notes=notes,
    )


def read_sglang_serve(documents: Sequence[Mapping[str, Any]]) -> ResultsReading:
    """The reading of SGLang's bench_serving, a line each; all of the first one's server."""
    keys = ("model_path", "version", "tp_size", "pp_size", "ep_size", "dp_size")

    def server(data: Mapping[str, Any]) -> tuple[Any, ...]:
        return (data.get("backend"), *(str(inside(data, "server_info", key)) for key in keys))

    mine, notes = alike(documents, server)
    info = mine[0].get("server_info")
    printed, version = (name_in(inside(info, key)) or "" for key in keys[:2])
    ranks, stages, experts, groups = (whole(positive(inside(info, key))) for key in keys[2:])
    known = {
        "engine": _engine(mine[0].get("backend")),
        "engine_version": version or None,
        "tp": ranks,
        "pp": stages,
        "ep": experts,
    }
    copies = groups or 1
    if copies > 1 and inside(info, "enable_dp_attention") is True and (ranks or 1) % copies == 0:
        known |= {"tp": (ranks or copies) // copies, "dp": copies}
        copies = 1
    rows = numbered(map(_serve_rows, mine))
    if (
        copies > 1
    ):  # several copies of the model behind one address: the planner's deployment is one
        rows = [replace(row, role="other", notes=(*row.notes, "imported_copies")) for row in rows]
    return ResultsReading(
        tool="sglang-bench-serving",
        version=version or None,
        rows=capped(rows),
        known=_with_model(known, printed),
        printed_model=printed,
        notes=notes,
    )


def read_vllm_latency(documents: Sequence[Mapping[str, Any]]) -> ResultsReading:
    """The reading of `vllm bench latency`: one batch from start to end; its shape isn't in the file."""
    mine, printed, notes = _of_one_model(documents)
    rows = []
    for data in mine:
        runs = [value for value in _numbers(data.get("latencies")) if value > 0.0]
        shares = data.get("percentiles")
        found = stat(
            repeats=len(runs) or 1,
            median=inside(shares, "50"),
            mean=data.get("avg_latency"),
            p10=inside(shares, "10"),
            p90=inside(shares, "90"),
        )
        if found is not None:
            rows.append(ResultRow({}, "together", "fit", {"e2e_s": found}))
    known = _with_model({"engine": "vllm"}, printed)
    return ResultsReading("vllm-bench-latency", None, capped(rows), known, printed, notes=notes)


def read_vllm_throughput(documents: Sequence[Mapping[str, Any]]) -> ResultsReading:
    """The reading of `vllm bench throughput`: all requests at once; their lengths aren't in the file."""
    mine, printed, notes = _of_one_model(documents)
    rows = []
    for data in mine:
        found = stat(repeats=1, total=data.get("tokens_per_second"))
        sent = whole(positive(data.get("num_requests")))
        if found is None or sent is None:
            continue
        rate: Mapping[RecordQuantity, Stat] = {"total_tokens_per_s": found}
        codes = ("imported_all_at_once",)
        rows.append(ResultRow({"concurrency": sent}, "offline", "fit", rate, codes))
    known = _with_model({"engine": "vllm"}, printed)
    return ResultsReading("vllm-bench-throughput", None, capped(rows), known, printed, notes=notes)


def _of_one_model(
    documents: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], str, tuple[Note, ...]]:
    """The documents of the first one's model, its name as printed ("" where none is), and what was left out."""

    def model(data: Mapping[str, Any]) -> str:
        return name_in(data.get("model_id")) or ""

    mine, notes = alike(documents, model)
    return mine, model(mine[0]), notes


def _serve_rows(data: Mapping[str, Any]) -> list[ResultRow]:
    completed = whole(positive(data.get("completed")))
    if completed is None:
        return []
    measured = _figures(data, completed)
    e2e = measured.get("e2e_s")
    outputs = _mean_tokens(data.get("total_output_tokens"), completed)
    latency = None if e2e is None else e2e.spread.median
    if latency is None and {"ttft_s", "tpot_s"} <= measured.keys() and outputs is not None:
        first, each = (measured[name].spread.median for name in ("ttft_s", "tpot_s"))
        latency = first + each * (outputs - 1)
    drafted = any(positive(data.get(name)) for name in DRAFTED)
    notes = ["imported_speculative"] if drafted else []
    speculative = bool(notes)
    totals = [finite(data.get(f"total_{side}_tokens")) for side in ("input", "output")]
    if any(total is not None and total % completed for total in totals):
        notes.append("imported_mean_lengths")
    rate = request_rate(data.get("request_rate"))
    if math.isnan(rate) and data.get("request_rate") != TRACE:
        notes.append(RATE_UNKNOWN)
    # SGLang states no number of requests, but a detailed file has an error, or none, for each.
    errors = data.get("errors")
    listed = len(errors) if isinstance(errors, list) else 0
    sent = whole(positive(data.get("num_prompts"))) or max(listed, completed)
    failed = finite(data.get("failed"))
    load = Load(
        completed=completed,
        failed=int(failed) if failed is not None and failed > 0 else max(sent - completed, 0),
        sent=sent,
        in_flight=whole(positive(data.get("max_concurrency"))),
        # Whatever isn't "inf": a rate, or as a trace has them.
        open_loop=not math.isinf(rate) or bool(data.get("ramp_up_strategy")),
        poisson_rate_per_s=_poisson_rate(data),
        input_tokens=_mean_tokens(data.get("total_input_tokens"), completed),
        output_tokens=outputs,
        request_throughput_per_s=positive(data.get("request_throughput")),
        e2e_s=latency,
        varied=_varied(data, totals[1], completed),
    )
    rows = serving_rows(load, measured, notes)
    if not speculative:
        return rows
    # A draft model's tokens come several at a time: not what the planner's step is.
    return [replace(row, role="other") for row in rows]


def _varied(data: Mapping[str, Any], total: float | None, completed: int) -> bool:
    """Whether answers differ in length: by each one's, where a detailed file lists them, else by their sum."""
    lengths = _numbers(data.get("output_lens"))
    if lengths:
        return differ(float(np.mean(lengths)), float(np.std(lengths)))
    return bool(total is not None and total % completed)


def _figures(data: Mapping[str, Any], completed: int) -> dict[RecordQuantity, Stat]:
    measured: dict[RecordQuantity, Stat] = {}
    detailed = _detailed(data, completed)
    for quantity, names in TIMES.items():
        for name in names:
            p10, p90 = detailed.get(quantity, (None, None))
            found = stat(
                repeats=completed,
                scale=MS,
                median=data.get(f"median_{name}"),
                mean=data.get(f"mean_{name}"),
                deviation=data.get(f"std_{name}"),
                p10=data.get(f"p10_{name}") or p10,
                p90=data.get(f"p90_{name}") or p90,
            )
            if found is not None:
                measured.setdefault(quantity, found)
    took = _latencies(data, completed)
    if took and "e2e_s" not in measured:
        p10, p50, p90 = (float(value) for value in np.quantile(took, (0.1, 0.5, 0.9)))
        whole_time = stat(repeats=completed, median=p50, p10=p10, p90=p90)
        if whole_time is not None:
            measured["e2e_s"] = whole_time
    rates: tuple[tuple[RecordQuantity, tuple[str, ...]], ...] = (
        ("output_tokens_per_s", ("output_throughput",)),
        ("total_tokens_per_s", ("total_token_throughput", "total_throughput")),
    )
    for quantity, names in rates:
        for name in names:
            rate = stat(repeats=1, total=data.get(name))
            if rate is not None:
                measured.setdefault(quantity, rate)
    return measured


def _latencies(data: Mapping[str, Any], completed: int) -> list[float]:
    """Whole requests' times (s), as vLLM 0.32 lists them in every file, with nought for those that failed."""
    took = [value for value in _numbers(data.get("latencies")) if value > 0.0]
    return took if len(took) == completed else []


def _detailed(data: Mapping[str, Any], completed: int) -> dict[RecordQuantity, tuple[float, float]]:
    """10th and 90th percentile (ms) from a file's lists, which hold seconds."""
    found: dict[RecordQuantity, tuple[float, float]] = {}
    firsts = [value for value in _numbers(data.get("ttfts")) if value > 0.0]
    gaps = data.get("itls")
    lengths = _numbers(data.get("output_lens"))
    lists: dict[RecordQuantity, list[float]] = {"ttft_s": firsts, "tpot_s": [], "itl_s": []}
    lists["e2e_s"] = _latencies(data, completed)
    if isinstance(gaps, list) and len(gaps) == len(lengths):
        for one, tokens in zip(gaps, lengths, strict=True):
            own = _numbers(one)
            if tokens > 1.0 and own:
                lists["tpot_s"].append(sum(own) / (tokens - 1.0))
                lists["itl_s"] += own
    for quantity, values in lists.items():
        if len(values) >= 2:
            low, high = np.quantile(values, (0.1, 0.9))
            found[quantity] = (float(low) / MS, float(high) / MS)
    return found


def _poisson_rate(data: Mapping[str, Any]) -> float | None:
    """The rate of arrivals at random; None where they came in bursts, evenly or at a rate that rose.

    References:
        Both tools draw the gaps from an exponential distribution; vLLM's is a gamma distribution whose shape, the
        burstiness, is 1 unless it is set (vllm/benchmarks/serve.py).
    """
    burstiness = data.get("burstiness")
    if data.get("ramp_up_strategy") or (burstiness is not None and number_in(burstiness) != 1.0):
        return None
    rate = request_rate(data.get("request_rate"))
    return rate if math.isfinite(rate) else None


def _numbers(values: Any) -> list[float]:
    if not isinstance(values, list):
        return []
    return [number for value in values if (number := finite(value)) is not None]


def _mean_tokens(total: Any, requests: int) -> int | None:
    number = positive(total)
    return None if number is None else whole(number / requests)


def _engine(backend: Any) -> str | None:
    return ENGINES.get(backend) if isinstance(backend, str) else None


def _with_model(known: Mapping[str, Any], printed: str) -> dict[str, Any]:
    """What is known, with the model where the catalogue has it."""
    found = {**known, "model": known_model(printed)}
    return {key: value for key, value in found.items() if value is not None}


def _date(text: Any) -> str | None:
    """The date of "20251130-141500"; None for anything else."""
    if not isinstance(text, str) or len(text) != 15 or text[8] != "-":
        return None
    digits = text[:8] + text[9:]
    if not (digits.isascii() and digits.isdigit()):
        return None
    day, time = f"{text[:4]}-{text[4:6]}-{text[6:8]}", f"{text[9:11]}:{text[11:13]}:{text[13:]}"
    return f"{day}T{time}"
