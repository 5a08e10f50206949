"""The comparison with transformers as a table: counts, one row for each model type, and what the reasons mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from planner.architecture.coverage import (
    HELD,
    MIXES_STREAMS,
    PROMPT_TOKENS,
    RUNS_ALL_EXPERTS,
    TASKS,
    Compared,
    Coverage,
    Held,
)

FIGURES = ("parameters", "cache", "flops")
REASONS = {
    "class_defaults_incomplete": "transformers can't build its class from its own defaults",
    "depends_on_values": "which experts or languages are computed depends on values, and there are none",
    "differs": "not equal, and no rule explains it",
    "experts_without_weights": "transformers allocates gate and up projections of experts that only pass tokens on",
    "head_of_another_width": "its head multiplies a state that isn't as wide as the hidden one",
    "its_encoder_reads_them": "its encoder reads the tokens, and its decoder one",
    "keeps_no_cache": "transformers computes everything anew for each token",
    "keeps_what_it_never_reads": "no decoder by default, and transformers fills a cache all the same",
    "needs_an_image": "transformers doesn't run it without an image",
    "needs_decoder_tokens": "transformers doesn't run it without tokens for its decoder",
    "needs_the_model_it_drafts_for": "it reads the cache of the model that it drafts for",
    "needs_timm": "its tower is in the library timm",
    "not_in_bfloat16": "transformers fails with it in bfloat16",
    "positions_before_the_first": "convolutions and delayed values also compute a position before the text",
    "predicts_several_tokens": "transformers computes its streams for later tokens too",
    "recurrence_in_chunks": "transformers computes its recurrence in chunks, which costs more than token by token",
    "transformers_fails": "transformers fails with its own defaults",
    "unsupported_architecture": "no adapter describes it: it's refused by name",
    "unused_projections_and_mixed_streams": "projections that aren't used are passed over, and streams are mixed by a "
    "matrix product",
}
INTRODUCTION = """\
# Model types against transformers

The default configuration of every model type in transformers' lists of causal language models and of models that read
images and text, built on PyTorch's meta device, against this calculator. `python -m planner models --coverage` prints
this page; `python -m planner models --coverage > docs/coverage.md` writes it, and a test compares it with what that
prints. The witnesses lie in `tests/golden/defaults.json`, with each configuration and a hash of it; `make golden` makes
them anew.

- Parameters: elements of all parameters, towers included, buffers apart.
- Cache: bytes of keys and values, of recurrent and of convolution state that a prefill of 16, 128 and 4,096 tokens and
  of one token less, as many and one more than the window leaves behind, in bfloat16. Put right: a sliding layer of
  transformers keeps one token less than its window, and an indexer's keys are in the compute dtype.
- FLOP: of a forward pass over 128 and 256 tokens, as PyTorch's counter sees it: every token attends to all, an
  indexer's sum over its heads counts, convolutions may compute what lies before the text.

"none" stands for a type that keeps nothing. Where a class's defaults can't be built, what its published checkpoints
state is filled in (`tests/golden/defaults_cases.py`).

"""


@dataclass(slots=True)
class Counts:
    """How many types of a task there are and how many agree; of caches, also those where anything is kept."""

    types: int = 0
    parameters: int = 0
    cache: int = 0
    cache_kept: int = 0
    flops: int = 0


def counts(rows: Iterable[Coverage]) -> dict[str, Counts]:
    """By task."""
    found = {task: Counts() for task in TASKS}
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
                name: {"equal": getattr(row, name).equal, "reason": getattr(row, name).reason}
                for name in FIGURES
            },
        }
        for row in rows
    ]


def coverage_markdown(rows: Iterable[Coverage]) -> str:
    """The whole page: counts, what isn't equal and why, then one table row for each model type."""
    rows = list(rows)
    lines = ["| | Types | Parameters equal | Cache equal | of those that keep one | FLOP equal |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for task, one in counts(rows).items():
        lines.append(
            f"| {TASKS[task].capitalize()} | {one.types} | {one.parameters} | {one.cache} | {one.cache_kept} "
            f"| {one.flops} |"
        )
    lines += ["", "## Rules of single types", "", *_rules()]
    lines += ["", "## What isn't equal, and why", ""]
    for task, title in TASKS.items():
        named = ", ".join(
            f"{row.model_type} ({row.parameters.reason})"
            for row in rows
            if row.task == task and not row.parameters.equal
        )
        lines += [*wrap(f"Parameters, {title}: {named}.", 118, break_on_hyphens=False), ""]
    used = {getattr(row, name).reason for row in rows for name in FIGURES} - {""}
    lines += ["| Reason | Meaning |", "| --- | --- |"]
    lines += [f"| {reason} | {REASONS[reason]} |" for reason in sorted(used)]
    for task, title in TASKS.items():
        lines += ["", f"## {title.capitalize()}", "", "| Model type | Parameters | Cache | FLOP |"]
        lines.append("| --- | --- | --- | --- |")
        lines += [
            f"| {row.model_type} | {_said(row.parameters)} | {_said(row.cache, row.keeps_cache)} "
            f"| {_said(row.flops)} |"
            for row in rows
            if row.task == task
        ]
    return INTRODUCTION + "\n".join(lines) + "\n"


def _rules() -> list[str]:
    lines = []
    for name, how in HELD.items():
        said = [text for text, applies in _MEANINGS if applies(how)]
        lines.append(f"- {name}: {'; '.join(said)}.")
    lines += [
        f"- {name}: computes every expert for every token." for name in sorted(RUNS_ALL_EXPERTS)
    ]
    lines += [
        f"- {name}: mixes {n} residual streams by matrix products."
        for name, n in MIXES_STREAMS.items()
    ]
    lines += [f"- {name}: puts {n} tokens before the text." for name, n in PROMPT_TOKENS.items()]
    return lines


_MEANINGS: tuple[tuple[str, Callable[[Held], bool]], ...] = (
    ("an indexer's keys are in FP32", lambda how: how.indexer != 1.0),
    ("recurrent state is in the compute dtype", lambda how: how.recurrent != 1.0),
    ("convolution state is in FP32", lambda how: how.convolution != 1.0),
    ("recurrent and convolution state count together", lambda how: how.together),
    (
        "constant state isn't in the cache: kept elsewhere, or only once it's needed",
        lambda how: how.only_cache,
    ),
)


def _said(one: Compared, keeps: bool = True) -> str:
    if one.equal:
        return "equal" if keeps else "none"
    return one.reason
