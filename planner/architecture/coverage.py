"""Each model type's default configuration against transformers on the meta device: parameters, cache, work.

Pure comparison: the witnesses' figures come from tests/golden/defaults.json, where transformers and torch made them
once. What transformers keeps or computes otherwise than engines do is put right by the rules stated here, each where
it applies; a type that no rule makes equal is listed with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.architecture.cache import DTYPE_BYTES
from planner.architecture.resolve import architecture_from_config
from planner.architecture.spec import (
    Architecture,
    CacheStream,
    CrossAttention,
    LayerKind,
    Shape,
)
from planner.architecture.totals import head_flops_per_token, linear_flops, parameters
from planner.errors import PlannerError

TASKS = {"causal": "causal language models", "image": "image and text"}
ELEMENT_BYTES = 2.0
"""The witnesses are built in bfloat16."""

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure against its witness: equal, different, or None where there's nothing to compare; and why."""

    equal: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """One model type in one of transformers' lists.

    Attributes:
        keeps_cache: transformers keeps something for it, so that the cache's agreement says something.
    """

    task: str
    model_type: str
    parameters: Compared
    cache: Compared
    flops: Compared
    keeps_cache: bool = False


def coverage(witnesses: Figures) -> list[Coverage]:
    """Every model type of the witnesses, in order."""
    return [
        compare(task, model_type, figures)
        for task in TASKS
        for model_type, figures in sorted(witnesses[task].items())
    ]


def compare(task: str, model_type: str, figures: Figures) -> Coverage:
    """One model type against its figures."""
    if "not_built" in figures:
        nothing = Compared(None, _not_built(figures["not_built"]))
        return Coverage(task, model_type, nothing, nothing, nothing)
    try:
        architecture = architecture_from_config(figures["config"])
    except PlannerError as refusal:
        refused = Compared(False, refusal.code)
        return Coverage(task, model_type, refused, refused, refused)
    held = figures.get("cache") or {}
    return Coverage(
        task,
        model_type,
        compare_parameters(architecture, figures, model_type),
        compare_cache(architecture, figures, model_type),
        compare_flops(architecture, figures, model_type),
        keeps_cache=any(sum(kinds.values()) for kinds in held.values()),
    )


def _not_built(reason: str) -> str:
    if "timm" in reason:
        return "needs_timm"
    return "class_defaults_incomplete"


# --- parameters

# What transformers allocates and no checkpoint holds.
PARAMETERS_OTHERWISE = {
    "longcat_flash": "gate_and_up_of_experts_without_weights",
}


def compare_parameters(architecture: Architecture, figures: Figures, model_type: str) -> Compared:
    """Parameters, buffers apart."""
    if parameters(architecture, buffers=False) == figures["parameters"]:
        return Compared(True)
    return Compared(False, PARAMETERS_OTHERWISE.get(model_type, "differs"))


# --- cache

CACHE_OTHERWISE = {
    "openai-gpt": "transformers_recomputes",
}
# Falcon's new architecture, and JetMoE for its experts, repeat keys and values before they keep them.
REPEATED = {"falcon": "new_decoder_architecture"}


def compare_cache(architecture: Architecture, figures: Figures, model_type: str) -> Compared:
    """Bytes held after a prefill, at every number of tokens, by the rules of `held_bytes`."""
    if "cache" not in figures:
        return Compared(None, _not_run(figures.get("cache_not_run", "")))
    for tokens, kinds in figures["cache"].items():
        ours = held_bytes(architecture, int(tokens))
        theirs = (kinds["kv"], kinds["recurrent"], kinds["convolution"])
        if ours != theirs:
            return Compared(False, CACHE_OTHERWISE.get(model_type, "differs"))
    return Compared(True)


def _not_run(reason: str) -> str:
    for part, code in (
        ("meta tensor", "depends_on_values"),
        ("register_meta", "depends_on_values"),
        ("shared_kv_states", "needs_the_model_it_drafts_for"),
        ("pixel_values", "needs_an_image"),
        ("encoder", "needs_an_encoder"),
    ):
        if part in reason:
            return code
    return "not_run"


def held_bytes(architecture: Architecture, tokens: int) -> tuple[int, int, int]:
    """Bytes that transformers holds for one sequence after a prefill: keys and values, recurrent, convolution state.

    As `planner.architecture.cache`, in bfloat16, except that in transformers a sliding layer keeps one token less than
    its window (the next one completes it), an indexer's keys are in the compute dtype, and a convolution of k taps
    keeps k inputs where k − 1 are needed.
    """
    kv = recurrent = convolution = 0.0
    for index in architecture.layer_order:
        kind = architecture.layer_kinds[index]
        for mixer in kind.mixers:
            kv += sum(_stream_bytes(stream, tokens) for stream in mixer.streams)
            if isinstance(mixer, CrossAttention):
                continue
            for state in mixer.states:
                if not state.recurrent:
                    kv += state.elements * ELEMENT_BYTES
                elif state.dtype is not None:
                    recurrent += state.elements * DTYPE_BYTES[state.dtype]
                else:
                    convolution += state.elements * ELEMENT_BYTES * _taps_kept(kind)
    return round(kv), round(recurrent), round(convolution)


def _stream_bytes(stream: CacheStream, tokens: int) -> float:
    positions = tokens // stream.stride
    if stream.window is not None:
        positions = min(positions, stream.window - 1)
    return positions * (stream.key_elements + stream.value_elements) * ELEMENT_BYTES


def _taps_kept(kind: LayerKind) -> float:
    """k / (k − 1) of the layer's causal convolution."""
    taps = [
        weight.columns
        for weight in kind.weights
        if weight.shape is Shape.CONVOLUTION and weight.name.endswith("convolution")
    ]
    return taps[0] / (taps[0] - 1) if taps and taps[0] > 1 else 1.0


# --- work

FLOPS_OTHERWISE: dict[str, str] = {}


def compare_flops(architecture: Architecture, figures: Figures, model_type: str) -> Compared:
    """FLOP of a forward pass at every length."""
    if "flops" not in figures:
        return Compared(None, _not_run(figures.get("flops_not_run", "")))
    if any(mixer.recurrent_flops for kind in architecture.layer_kinds for mixer in kind.mixers):
        return Compared(None, "recurrence_in_chunks")
    for tokens, counted in figures["flops"].items():
        if round(uncaused_flops(architecture, int(tokens))) != counted:
            return Compared(False, FLOPS_OTHERWISE.get(model_type, "differs"))
    return Compared(True)


def uncaused_flops(architecture: Architecture, tokens: int) -> float:
    """FLOP of a forward pass over `tokens` tokens as an eager implementation does it: every token attends to all.

    Matrix products of all layers and the head for each token, and scores of every pair, windows and causality
    notwithstanding; without towers and what attends to another input.
    """
    total = tokens * head_flops_per_token(architecture)
    for kind, count in architecture.kind_counts:
        share = kind.experts_per_token / kind.experts if kind.experts else 1.0
        own = [weight for weight in kind.weights if not weight.name.startswith("cross_")]
        total += count * tokens * linear_flops(own, share)
        for mixer in kind.mixers:
            for score in mixer.scores:
                total += count * score.prefill_flops * tokens * (tokens // score.stride)
    outer = [weight for weight in architecture.outer if weight.name != "head"]
    return total + tokens * linear_flops(outer)


# --- the table


@dataclass(slots=True)
class _Counts:
    types: int = 0
    parameters: int = 0
    cache: int = 0
    cache_kept: int = 0
    flops: int = 0
    names: dict[str, list[str]] = field(default_factory=dict)


def counts(rows: Iterable[Coverage]) -> dict[str, _Counts]:
    """How many of each task agree; of caches, also those where anything is kept at all."""
    found = {task: _Counts() for task in TASKS}
    for row in rows:
        one = found[row.task]
        one.types += 1
        one.parameters += bool(row.parameters.equal)
        one.cache += bool(row.cache.equal)
        one.cache_kept += bool(row.cache.equal) and row.keeps_cache
        one.flops += bool(row.flops.equal)
    return found


def coverage_json(rows: Iterable[Coverage]) -> list[dict[str, Any]]:
    """Every row as plain data."""
    return [
        {
            "task": row.task,
            "model_type": row.model_type,
            "keeps_cache": row.keeps_cache,
            **{
                name: {"equal": one.equal, "reason": one.reason}
                for name, one in (
                    ("parameters", row.parameters),
                    ("cache", row.cache),
                    ("flops", row.flops),
                )
            },
        }
        for row in rows
    ]


def coverage_markdown(rows: Iterable[Coverage]) -> str:
    """Counts, then one table row for each model type."""
    rows = list(rows)
    lines = ["| | types | parameters equal | cache equal | of those that keep one | FLOP equal |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for task, one in counts(rows).items():
        lines.append(
            f"| {TASKS[task]} | {one.types} | {one.parameters} | {one.cache} | {one.cache_kept} "
            f"| {one.flops} |"
        )
    for task, title in TASKS.items():
        lines += ["", f"## {title.capitalize()}", "", "| model type | parameters | cache | FLOP |"]
        lines.append("|---|---|---|---|")
        lines += [
            f"| {row.model_type} | {_said(row.parameters)} | {_said(row.cache, row.keeps_cache)} "
            f"| {_said(row.flops)} |"
            for row in rows
            if row.task == task
        ]
    return "\n".join(lines) + "\n"


def _said(one: Compared, keeps: bool = True) -> str:
    if one.equal:
        return "equal" if keeps else "none"
    return one.reason
