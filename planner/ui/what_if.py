"""The nearest changes that would alter the verdict: each tried, none guessed.

For a workload that doesn't fit: what makes it fit. For one that does: what it would take until it doesn't.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from planner.catalog.accelerators import accelerator
from planner.catalog.devices import CLASS_OF_CPU
from planner.catalog.engines import engine, runs_on
from planner.catalog.formats import supported, weight_format
from planner.catalog.search import IndexEntry, read_index
from planner.compare.placements import OWN_CARD_FIELDS
from planner.deployment import resolve
from planner.errors import PlannerError
from planner.evaluation import Evaluation
from planner.memory_answer import GGUF_STEPS, llama_cpp_changes, verdict_of
from planner.memory_limits import budget_of
from planner.quantity import GB
from planner.scenario import Scenario
from planner.ui import choices

MOST_SHOWN = 4
STEADY = frozenset(
    {"users", "prompt"}
)  # kinds in which a longer step never undoes what a shorter one does
LEVELS = ("fits", "tight", "does_not_fit")
# Formats to try, from the largest weights to the smallest.
WEIGHT_STEPS = ("bf16", "fp16", "fp8", "int8", "awq-int4", "nf4", *GGUF_STEPS)
KV_STEPS = ("fp8", "q8_0")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A change and what comes of it.

    Attributes:
        kind: what is changed: "users", "prompt", "weights", "kv", "share", "gpus", "card", "gpu_layers",
            "cpu_expert_layers", "llama_cpp" (engine and weights) or "llama_cpp_host" (layers in host memory as well).
        changes: the scenario's fields that change; scenario: with them changed.
        distance: how large the change is, in doublings, a little more where it costs money or quality.
        needed_bytes, usable_bytes: of the fullest card.
        gpus, card: how many of which, by name.
    """

    kind: str
    changes: dict[str, Any]
    distance: float
    scenario: Scenario
    verdict: str
    needed_bytes: float
    usable_bytes: float
    gpus: int
    card: str


def nearest_changes(evaluation: Evaluation, *, most: int = MOST_SHOWN) -> list[WhatIf]:
    """The nearest changes that alter the verdict, one of each kind, nearest first."""
    easier = evaluation.memory.verdict != "fits"
    found = []
    for kind, candidates in _kinds(evaluation.scenario, evaluation, easier=easier):
        change = _first_that_alters(kind, list(candidates), evaluation)
        if change:
            found.append(change)
    found.sort(key=lambda change: change.distance)
    return found[:most]


def _first_that_alters(
    kind: str, candidates: list[tuple[float, dict[str, Any]]], evaluation: Evaluation
) -> WhatIf | None:
    """The nearest of candidates that go ever further; many are halved, few are tried one after another."""
    before = LEVELS.index(evaluation.memory.verdict)
    first, last = 0, len(candidates) - 1
    nearest = None
    while first <= last:
        at = (first + last) // 2 if kind in STEADY else first
        tried = _try(kind, *candidates[at], evaluation.scenario)
        if tried and _alters(before, LEVELS.index(tried.verdict)):
            nearest, last = tried, at - 1
            if kind not in STEADY:
                break
        else:
            first = at + 1
    return nearest


def _try(kind: str, distance: float, changes: dict[str, Any], start: Scenario) -> WhatIf | None:
    """What comes of a change for the memory; None where it can't run."""
    scenario = start.replace(**changes)
    try:
        deployment = resolve(scenario)
        fit = verdict_of(deployment, scenario, budget_of(deployment, scenario))
    except PlannerError:
        return None
    return WhatIf(
        kind,
        changes,
        distance,
        scenario,
        str(fit.verdict),
        fit.needed_bytes,
        float(deployment.usable_bytes),
        deployment.parallelism.gpus,
        deployment.accelerator.name,
    )


def _alters(before: int, after: int) -> bool:
    """Better than before where something is wrong; else worse."""
    return after < before if before else after > before


Candidates = Iterator[tuple[float, dict[str, Any]]]


def _kinds(
    start: Scenario, evaluation: Evaluation, *, easier: bool
) -> Iterator[tuple[str, Candidates]]:
    """For each kind of change its candidates, nearest first; `easier` on memory, or harder."""
    held = int(evaluation.memory.max_concurrency.mid)
    users = (*choices.USER_STOPS, held) if easier else choices.USER_STOPS
    yield "users", _steps("concurrency", start.concurrency, sorted({*users} - {0}), easier)
    longest = evaluation.model.max_context_tokens or 2**20
    prompts = [stop for stop in choices.TOKEN_STOPS if stop + start.output_tokens <= longest]
    yield "prompt", _steps("input_tokens", start.input_tokens, prompts, easier)
    yield "weights", _weights(start, evaluation, easier)
    if easier:
        yield "kv", _caches(start, evaluation)
        yield "share", _shares(evaluation)
        for field in ("gpu_layers", "cpu_expert_layers"):
            yield field, _offloads(evaluation, field)
        for code in ("llama_cpp", "llama_cpp_host"):
            yield code, _other_engine(evaluation, code)
    yield "gpus", _counts(start, evaluation, easier)
    yield "card", _cards(start, evaluation, easier)


def _steps(field: str, current: int, stops: list[int], easier: bool) -> Candidates:
    ordered = (
        [s for s in reversed(stops) if s < current] if easier else [s for s in stops if s > current]
    )
    for stop in ordered:
        yield abs(math.log2(stop / current)), {field: stop}


def _weights(start: Scenario, evaluation: Evaluation, easier: bool) -> Candidates:
    """Other formats that the engine runs on the card, by how much smaller (or larger) they make the weights."""
    now = 8.0 * float(evaluation.memory.weights_bytes.mid) / float(evaluation.model.parameters.mid)
    engine_id = evaluation.deployment.engine
    card = resolve(start).accelerator
    sized = []
    for id_ in WEIGHT_STEPS:
        format_ = weight_format(id_)
        bits = format_.bits_per_weight or 16.0
        if (
            (bits < 0.97 * now) == easier
            and abs(bits - now) > 0.03 * now
            and supported(format_, engine_id, card).ok
        ):
            sized.append((abs(math.log2(bits / now)) + (0.5 if easier else 0.0), {"weights": id_}))
    yield from sorted(sized, key=lambda pair: pair[0])


def _caches(start: Scenario, evaluation: Evaluation) -> Candidates:
    """Smaller formats of the cache that the engine runs on the card."""
    for choice in choices.kv_choices(
        evaluation.deployment.engine, resolve(start).accelerator, start.kv
    ):
        if choice.runs and choice.id in KV_STEPS and choice.id != evaluation.deployment.kv_format:
            yield 1.25, {"kv": choice.id}


def _shares(evaluation: Evaluation) -> Candidates:
    """The larger share of the card that the answer itself names as enough."""
    for note in evaluation.memory.remedies:
        if share := note.values.get("gpu_memory_utilization"):
            yield 0.5, {"gpu_memory_utilization": share}


def _offloads(evaluation: Evaluation, field: str) -> Candidates:
    """What the answer itself names as the least that has to lie in host memory."""
    for note in evaluation.memory.remedies:
        if (count := note.values.get(field)) is not None:
            yield 0.6, {field: count}


def _other_engine(evaluation: Evaluation, code: str) -> Candidates:
    """What the answer itself says that llama.cpp would make of it."""
    for note in evaluation.memory.remedies:
        if note.code == f"remedy_{code}":
            layers = note.values.get("gpu_layers")
            fewer = layers if isinstance(layers, int) else None
            yield 1.5, llama_cpp_changes(str(note.values["weights"]), fewer)


def _counts(start: Scenario, evaluation: Evaluation, easier: bool) -> Candidates:
    """Twice, four, eight times as many cards, or half as many; degrees that were chosen by hand fall back."""
    if resolve(start).accelerator.accelerator_class == CLASS_OF_CPU:
        return  # nobody adds another processor
    gpus = evaluation.deployment.gpus
    ratios = (2, 4, 8, 16) if easier else (2, 4)
    for ratio in ratios:
        count = gpus * ratio if easier else gpus // ratio
        if easier or (count >= 1 and count * ratio == gpus):
            yield (
                math.log2(ratio) + (1.0 if easier else 0.0),
                {"gpus": count, "tp": None, "pp": None, "ep": None, "dp": None},
            )


def _cards(start: Scenario, evaluation: Evaluation, easier: bool) -> Candidates:
    """Cards of the same maker that the engine runs on, by memory: the next larger ones, or the next smaller."""
    base = start.gpu.partition("@")[0]
    entries = {entry.id: entry for entry in read_index("accelerator")}
    if base not in entries:
        return
    now = entries[base]
    size = float(now.fields["memory_sold_bytes"])
    runs = engine(evaluation.deployment.engine).id

    def closeness(entry: IndexEntry) -> tuple[float, bool, int]:
        other = float(entry.fields["memory_sold_bytes"])
        another_class = entry.fields["class"] != now.fields["class"]
        return abs(math.log2(other / size)), another_class, -int(entry.fields["year"])

    tried: set[int] = (
        set()
    )  # sizes: of several cards of one size the nearest in kind stands for all
    for entry in sorted(entries.values(), key=closeness):
        other = float(entry.fields["memory_sold_bytes"])
        larger = other > 1.05 * size if easier else other < 0.95 * size
        gigabytes = round(other / GB)
        if not larger or gigabytes in tried or entry.fields["class"] == "edge":
            continue
        if entry.fields["vendor"] != now.fields["vendor"]:
            continue
        if runs_on(runs, accelerator(entry.id)):
            tried.add(gigabytes)
            cost = 0.75 if easier else 0.25
            changes = {"gpu": entry.id, "device": None, **dict.fromkeys(OWN_CARD_FIELDS)}
            yield closeness(entry)[0] + cost, changes
