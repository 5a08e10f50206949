"""Results of llama-bench, builds from about b2000 on: JSON, JSON lines, CSV and Markdown.

A test reads a prompt of n tokens (pp), decodes n tokens one by one (tg), or both; since b5150 also behind a cache of d
tokens. `avg_ns` is the time of the whole test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planner.catalog.formats import weight_format
from planner.catalog.search import resolve
from planner.errors import Note, UnknownItem
from planner.measure.readers.results import (
    ResultRow,
    ResultsReading,
    Stat,
    alike,
    capped,
    numbered,
    stat,
)
from planner.measure.readers.untrusted import (
    csv_rows,
    finite,
    known_model,
    name_in,
    number_in,
    positive,
    version_between,
    whole,
)
from planner.measure.record import RecordQuantity

KNOWN = ("b2000", "b11400")
NS = 1e-9
TEST = re.compile(r"(?:pp ?(\d{1,9}))?\+?(?:tg ?(\d{1,9}))?(?: @ d ?(\d{1,9}))?")
RATE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ± (\d{1,12}(?:\.\d{1,6})?)")
BUILD = re.compile(r"build: \w{4,40} \((\d{1,6})\)")
FILE_SIZES = {"Small": "S", "Medium": "M", "Large": "L"}
# What Markdown calls a column of the other forms.
COLUMNS = {
    "ngl": "n_gpu_layers",
    "fa": "flash_attn",
    "model": "model_type",
    "threads": "n_threads",
    "sm": "split_mode",
    "nkvo": "no_kv_offload",
    "dev": "devices",
    "ts": "tensor_split",
    "ot": "tensor_buft_overrides",
}
# What a test may vary from one run to the next, besides its tokens, and on which its speed depends.
SET_UP = (
    "model_type",
    "model_filename",
    "n_gpu_layers",
    "n_cpu_moe",
    "type_k",
    "type_v",
    "n_batch",
    "n_ubatch",
    "n_threads",
    "flash_attn",
    "split_mode",
    "devices",
    "tensor_split",
    "tensor_buft_overrides",
    "no_kv_offload",
)
FIRST_BUILD = 100  # a source without its history counts itself as build 0 or 1


def is_llama_bench(data: Mapping[str, Any]) -> bool:
    """One test of llama-bench."""
    return {"n_prompt", "n_gen", "model_type"} <= data.keys()


def read_llama_bench(tests: Sequence[Mapping[str, Any]]) -> ResultsReading:
    """The reading of tests, each with the fields of JSON or CSV; all of one model on one device."""
    mine, others = alike(tests, _what)
    first, notes = mine[0], [*others]
    runs = [_rows(one) for one in mine]
    if deep := sum(not rows for rows in runs):
        notes.append(Note("results_tests_left_out", {"left": deep}))
    file = name_in(first.get("model_filename")) or ""
    stem = re.split(r"[/\\]", file)[-1].removesuffix(".gguf")
    model = known_model(stem) or known_model(_without_format(stem))
    card, cards = _card(first)
    known: dict[str, Any] = {"engine": "llama.cpp", **_settings(first)}
    if model is not None:
        known["model"] = model
    if resolve("accelerator", card) is not None:
        known |= {"gpu": resolve("accelerator", card), "pp": cards}
    build = number_in(first.get("build_number"))
    if build is not None and build >= FIRST_BUILD:
        known["engine_version"] = f"b{int(build)}"
        if not version_between(known["engine_version"], KNOWN):
            values = {"tool": "llama-bench", "given": known["engine_version"]}
            notes.append(Note("results_version_unread", values))
    return ResultsReading(
        tool="llama-bench",
        version=known.get("engine_version"),
        rows=capped(numbered(runs)),
        known=known,
        printed_model=stem or str(first.get("model_type") or "")[:100],
        printed_gpu=card,
        date=name_in(first.get("test_time")),
        notes=tuple(notes),
    )


def tests_of_csv(text: str) -> list[dict[str, Any]]:
    """The rows of CSV as tests; one that isn't whole is left out."""
    lines = csv_rows(text)
    header = next(lines, [])
    whole_rows = [cells for cells in lines if len(cells) == len(header)]
    if whole_rows and not text.endswith(("\n", '"')):
        whole_rows.pop()  # its last cell may have been cut
    return [_with_numbers(dict(zip(header, cells, strict=True))) for cells in whole_rows]


def tests_of_markdown(text: str) -> list[dict[str, Any]]:
    """The rows of a table in Markdown as tests."""
    tests: list[dict[str, Any]] = []
    header: list[str] = []
    build = BUILD.search(text)
    for line in text.splitlines():
        bare = line.strip()
        if not (bare.startswith("|") and bare.endswith("|") and len(bare) > 1):
            continue
        cells = [cell.strip() for cell in bare[1:-1].split("|")]
        if "test" in cells and "t/s" in cells:
            header = [COLUMNS.get(name, name) for name in cells]
            continue
        if len(cells) != len(header) or set(bare) <= set("|-: "):
            continue
        found = _markdown_test(dict(zip(header, cells, strict=True)))
        if found is not None:
            if build is not None:
                found["build_number"] = float(build[1])
            tests.append(found)
    return tests


def _markdown_test(cells: dict[str, str]) -> dict[str, Any] | None:
    test, rate = TEST.fullmatch(cells["test"]), RATE.fullmatch(cells["t/s"])
    if test is None or rate is None or not float(rate[1]):
        return None
    prompt, generated, depth = (int(part or 0) for part in test.groups())
    if not prompt + generated:
        return None
    average, deviation = float(rate[1]), float(rate[2])
    time_ns = (prompt + generated) / average / NS
    return {
        **_with_numbers(cells),
        "n_prompt": float(prompt),
        "n_gen": float(generated),
        "n_depth": float(depth),
        "avg_ns": time_ns,
        "stddev_ns": time_ns * deviation / average,
    }


def _with_numbers(cells: Mapping[str, Any]) -> dict[str, Any]:
    texts = ("build_commit", "model_type", "model_filename", "gpu_info", "type_k", "type_v")
    return {
        key: value if key in texts or number_in(value) is None else number_in(value)
        for key, value in cells.items()
    }


def _what(test: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(str(test.get(key)) for key in SET_UP)


def _rows(test: Mapping[str, Any]) -> list[ResultRow]:
    """A test's row; none where it is none of ours: a prompt behind a cache, or nothing measured."""
    prompt, generated = _tokens(test, "n_prompt"), _tokens(test, "n_gen")
    depth = _tokens(test, "n_depth")
    samples = test.get("samples_ns")
    runs = [value for value in samples if positive(value)] if isinstance(samples, list) else []
    time = stat(
        repeats=len(runs) or 1,
        scale=NS,
        mean=test.get("avg_ns"),
        deviation=test.get("stddev_ns"),
    )
    if time is None or not prompt + generated or (depth and prompt):
        return []
    measured: dict[RecordQuantity, Stat]
    if prompt and generated:
        measured = {"e2e_s": time}
        shape = {"input_tokens": prompt, "output_tokens": generated}
    elif prompt:
        measured = {"prefill_s": time}
        shape = {"input_tokens": prompt, "output_tokens": 1}
    else:
        measured = {"tpot_s": _per_token(time, generated)}
        shape = {"input_tokens": max(depth, 1), "output_tokens": generated}
    codes = () if runs else ("imported_repeats_unknown",)
    return [ResultRow({**shape, "concurrency": 1}, "together", "fit", measured, codes)]


def _per_token(time: Stat, tokens: int) -> Stat:
    spread = time.spread
    ends = {name: getattr(spread, name) / tokens for name in ("median", "low", "high")}
    return Stat(spread.model_copy(update=ends), time.statistic, time.ends)


def _tokens(test: Mapping[str, Any], key: str) -> int:
    return whole(finite(test.get(key))) or 0


def _settings(test: Mapping[str, Any]) -> dict[str, Any]:
    """Format of the weights and the cache, batch, and layers on the GPU."""
    found: dict[str, Any] = {}
    weights = _format(str(test.get("model_type") or ""))
    if weights is not None:
        found["weights"] = weights
    keys, values = name_in(test.get("type_k")), name_in(test.get("type_v"))
    if keys and values:
        found["kv"] = keys if keys == values else f"{keys}/{values}"
    batch = whole(positive(test.get("n_ubatch")))
    if batch is not None:
        found["max_num_batched_tokens"] = batch
    layers = finite(test.get("n_gpu_layers"))
    if layers is not None and layers >= 0.0:
        found["gpu_layers"] = int(layers)  # more than there are means all
    experts = whole(positive(test.get("n_cpu_moe")))
    if experts is not None:
        found["cpu_expert_layers"] = experts
    return found


def _format(model_type: str) -> str | None:
    """The weights' format at the end of "qwen2 7B Q4_K - Medium" or "llama 7B mostly Q4_0"."""
    name, _, rest = model_type.partition(" - ")
    size = FILE_SIZES.get(rest.split(" ")[0], "")
    words = name.removesuffix(" MoE").split(" ")
    try:
        return weight_format(f"gguf:{words[-1]}{'_' + size if size else ''}").id
    except UnknownItem:
        return None


def _without_format(stem: str) -> str:
    """A file's name without the format at its end: "Qwen2.5-7B-Instruct-Q4_K_M"."""
    for mark in ("-", "."):
        name, _, last = stem.rpartition(mark)
        try:
            weight_format(f"gguf:{last}")
        except UnknownItem:
            continue
        return name
    return stem


def _card(test: Mapping[str, Any]) -> tuple[str, int]:
    """The GPU's name, and how many of it a test used: all that are listed, unless it says otherwise."""
    names = [one.strip() for one in (name_in(test.get("gpu_info")) or "").split(",")]
    same: Iterable[str] = set(names)
    used = name_in(test.get("devices")) or "auto"
    if used == "none":
        return "", 1
    if len(set(same)) != 1:
        return ", ".join(names), 1
    count = len(names) if used == "auto" else len(used.split("/"))
    return names[0], 1 if test.get("split_mode") == "none" else min(count, len(names))
