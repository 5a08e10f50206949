"""Does a workload fit: a verdict with its reason, and what would change it.

Two facts are kept apart: whether the engine comes up, and whether it holds all requested sequences at once. An engine
that allocates its cache at start runs with fewer, and the others wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

from planner.architecture.cache import CacheLayout
from planner.architecture.spec import Architecture
from planner.errors import Note
from planner.memory.budget import (
    MemoryBudget,
    max_concurrency,
    max_context,
    pool_too_small,
    requested_sequences,
    running_sequences,
    workload_bytes,
)
from planner.memory.pool import pool_layout, sequence_bytes, sequences_bytes
from planner.memory.state_slots import sequences_with_state, slot_count
from planner.quantity import Quantity, maximum

# Above this share of what an engine may use, a fit is called tight. The pool of an engine or card that the figures
# weren't read off is known to 8 %, so a smaller reserve may turn out to be none.
TIGHT_FRACTION = 0.92
# Largest share of a card that a remedy asks an engine to take.
LARGEST_UTILIZATION = 0.98


class Verdict(StrEnum):
    """Whether a workload fits into an engine's memory."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does_not_fit"


VERDICTS = (Verdict.FITS, Verdict.TIGHT, Verdict.DOES_NOT_FIT)


@dataclass(frozen=True, slots=True)
class Fit:
    """The verdict on a workload.

    Attributes:
        starts: the engine comes up with these settings, whether or not it holds the whole workload at once.
        reason: why, with the figures that decided it.
        needed_bytes: weights, activations, overhead and the workload's cache on the heaviest rank.
        used_fraction: share of what the engine may use that the workload needs.
        held_sequences: sequences of this length that the cache holds at once, over all groups.
        running_sequences: of the requested ones, those that run at once; the others wait.
        notes: what holds besides the reason.
    """

    verdict: Verdict
    starts: bool
    reason: Note
    needed_bytes: float
    used_fraction: float
    held_sequences: float
    running_sequences: float
    notes: tuple[Note, ...]


def needed_bytes(budget: MemoryBudget, concurrency: Quantity, tokens: Quantity) -> Quantity:
    """Weights, activations, overhead and the workload's cache on the heaviest rank (bytes).

    Args:
        concurrency: sequences that are to be held at once, whether or not the engine runs so many in one step.
        tokens: of one sequence at its end.
    """
    inside = budget.graphs_bytes if budget.settings.graphs_inside_budget else 0.0
    cache = workload_bytes(budget, requested_sequences(concurrency, budget.replicas), tokens)
    return budget.weights_bytes + budget.activation_bytes + budget.runtime_bytes + inside + cache


def used_fraction(budget: MemoryBudget, concurrency: Quantity, tokens: Quantity) -> Quantity:
    """Share of what the engine may use that weights, fixed parts and the workload's cache take."""
    cache = workload_bytes(budget, requested_sequences(concurrency, budget.replicas), tokens)
    return (budget.fixed_bytes + cache) / maximum(budget.allowed_bytes, 1.0)


def fit_level(budget: MemoryBudget, concurrency: Quantity, tokens: Quantity) -> Quantity:
    """0 fits, 1 tight, 2 doesn't fit (an index into VERDICTS): the memory side of the verdict, for arrays too.

    Tight: above TIGHT_FRACTION, or beyond the low end of the pool's range, or with less left outside the engine's
    fraction than its graphs and context take. Where not even switching graphs off would help, it doesn't fit.
    """
    share = requested_sequences(concurrency, budget.replicas)
    cache = workload_bytes(budget, share, tokens)
    short = (
        pool_too_small(budget, share, tokens, budget.kv_pool.mid)
        | (budget.fixed_bytes >= budget.allowed_bytes)
        | (budget.room_outside_bytes + budget.graphs_bytes < 0.0)
    )
    used = (budget.fixed_bytes + cache) / maximum(budget.allowed_bytes, 1.0)
    tight = (
        short
        | (used > TIGHT_FRACTION)
        | pool_too_small(budget, share, tokens, budget.kv_pool.low)
        | (budget.room_outside_bytes < 0.0)
    )
    return cast("Quantity", 1.0 * tight + 1.0 * short)


def fit(
    budget: MemoryBudget,
    architecture: Architecture,
    *,
    input_tokens: int,
    output_tokens: int,
    concurrency: int,
    max_model_len: int | None = None,
    most: float | None = None,
) -> Fit:
    """The verdict on `concurrency` sequences of `input_tokens` + `output_tokens` tokens; `budget` holds numbers.

    Args:
        max_model_len: longest sequence that the engine is started for; None: as long as this workload needs.
        most: sequences held at once, where what they compute with takes its share too; None: what the pool holds.
    """
    tokens = float(input_tokens + output_tokens)
    held = float(max_concurrency(budget, tokens)) if most is None else most
    share = float(running_sequences(concurrency, budget.replicas, budget.settings))
    running = min(float(concurrency), share * budget.replicas, held)
    level = int(fit_level(budget, concurrency, tokens))
    starts = _starts(budget, tokens, share, max_model_len)
    reason = _reason(budget, architecture, concurrency, tokens, held, level, max_model_len)
    if level < 2 and max_model_len is not None and not starts:
        room = float(max_context(budget, budget.replicas, float(max_model_len)))
        reason = Note("fit_max_model_len_too_long", {"max_model_len": max_model_len, "room": room})
    if reason.code.startswith(("fit_context", "fit_max_model_len")):
        level = 2
    return Fit(
        verdict=VERDICTS[level],
        starts=starts,
        reason=reason,
        needed_bytes=float(needed_bytes(budget, concurrency, tokens)),
        used_fraction=float(used_fraction(budget, concurrency, tokens)),
        held_sequences=held,
        running_sequences=running,
        notes=_notes(budget, architecture, concurrency, share, running, max_model_len),
    )


def _starts(budget: MemoryBudget, tokens: float, share: float, max_model_len: int | None) -> bool:
    """Whether the engine comes up: vLLM wants room for one longest sequence, llama.cpp for all its slots."""
    policy, room = budget.settings.policy, float(budget.kv_pool_bytes)
    longest = tokens if max_model_len is None else float(max_model_len)
    if policy == "grow":
        return bool(budget.weights_bytes + budget.runtime_bytes <= budget.allowed_bytes)
    if budget.fixed_bytes >= budget.allowed_bytes:
        return False
    if policy == "context":
        return bool(sequences_bytes(budget.pool, share, longest) <= room)
    if policy == "of_total":
        return bool(sequence_bytes(budget.pool, longest) <= room)
    if budget.pool.slots is not None:
        return not pool_too_small(budget, 1.0, 1.0, room)
    return room > 0.0 or budget.pool.empty


def _reason(
    budget: MemoryBudget,
    architecture: Architecture,
    concurrency: int,
    tokens: float,
    held: float,
    level: int,
    max_model_len: int | None,
) -> Note:
    """What decided the verdict, the first obstacle first."""
    allowed = float(budget.allowed_bytes)
    longest = max(tokens, float(max_model_len or 0))
    if longest > architecture.max_context_tokens:
        values: dict[str, object] = {"tokens": longest, "maximum": architecture.max_context_tokens}
        return Note("fit_context_above_model", values)
    if max_model_len is not None and tokens > max_model_len:
        return Note("fit_context_above_setting", {"tokens": tokens, "maximum": max_model_len})
    if budget.weights_bytes >= allowed:
        values = {"weights_bytes": budget.weights_bytes, "allowed_bytes": allowed}
        return Note("fit_weights_exceed", values)
    if budget.fixed_bytes >= allowed:
        beside = budget.fixed_bytes - budget.weights_bytes
        values = {"weights_bytes": budget.weights_bytes, "allowed_bytes": allowed}
        if budget.settings.policy == "static_fraction":  # activations live outside that share
            return Note("fit_overhead_exceeds", values | {"overhead_bytes": beside})
        activation = {"activation_bytes": budget.activation_bytes}
        overhead = {"overhead_bytes": beside - budget.activation_bytes}
        return Note("fit_activations_exceed", values | activation | overhead)
    policy = budget.settings.policy
    allocates = policy not in {"grow", "context"}
    if allocates and float(budget.room_outside_bytes + budget.graphs_bytes) < 0.0:
        values = {
            "short_bytes": -float(budget.room_outside_bytes),
            "outside_bytes": float(budget.outside_bytes),
        }
        return Note("fit_no_room_outside", values)
    pool = float(budget.kv_pool_bytes)
    if level == 2 and held < budget.replicas:
        slot = longest if policy == "context" else tokens
        each = float(sequences_bytes(budget.pool, 1.0, slot))
        return Note("fit_pool_below_one", {"pool_bytes": pool, "sequence_bytes": each})
    slots = budget.pool.slots
    if level == 2 and slots is not None:
        with_state = float(sequences_with_state(slots, pool)) * budget.replicas
        if with_state < concurrency and held == with_state:
            values = {
                "held": held,
                "concurrency": concurrency,
                "slots": float(slot_count(slots, pool)) * budget.replicas,
                "each": slots.per_sequence,
            }
            return Note("fit_state_below_workload", values)
    if level == 2:
        return Note("fit_pool_below_workload", {"held": held, "concurrency": concurrency})
    used = float(used_fraction(budget, concurrency, tokens))
    if level == 1:
        return Note("fit_tight", {"used_fraction": used, "held": held, "allowed_bytes": allowed})
    return Note("fit_room", {"used_fraction": used, "held": held, "allowed_bytes": allowed})


def _notes(
    budget: MemoryBudget,
    architecture: Architecture,
    concurrency: int,
    share: float,
    running: float,
    max_model_len: int | None,
) -> tuple[Note, ...]:
    notes = []
    settings = budget.settings
    if share * budget.replicas < concurrency:
        values: dict[str, object] = {"max_num_seqs": settings.max_num_seqs, "running": running}
        notes.append(Note("fit_waits_for_slots", values))
    longest = float(architecture.max_context_tokens)
    if (
        settings.policy == "of_total"
        and max_model_len is None
        and budget.fixed_bytes < budget.allowed_bytes
        and sequence_bytes(budget.pool, longest) > budget.kv_pool_bytes
    ):
        # Left alone, vLLM starts for the model's own maximum, and refuses where that has no room.
        room = float(max_context(budget, budget.replicas, longest))
        values = {"model_maximum": longest, "max_model_len": room}
        notes.append(Note("fit_needs_max_model_len", values))
    if budget.room_outside_bytes < 0.0 and settings.policy not in {"grow", "context"}:
        values = {
            "short_bytes": -float(budget.room_outside_bytes),
            "outside_bytes": float(budget.outside_bytes),
        }
        notes.append(Note("fit_no_room_outside", values))
    return tuple(notes)


def remedies(
    budget: MemoryBudget,
    architecture: Architecture,
    *,
    input_tokens: int,
    output_tokens: int,
    concurrency: int,
    pp: int = 1,
    kv_alternatives: Iterable[tuple[str, CacheLayout]] = (),
    most: float | None = None,
    longest: float | None = None,
) -> tuple[Note, ...]:
    """Changes that would alter the verdict, each checked; empty where the workload fits.

    Args:
        kv_alternatives: (format id, layout of one rank) of smaller cache formats to try.
        most: sequences held at once, and longest: tokens that all of them can have, where activations change with
            either; None: what the pool holds.

    Returns:
        Notes `remedy_fewer_users` (concurrency), `remedy_shorter_context` (tokens in all), `remedy_kv_format` (format,
        held, verdict), `remedy_utilization` (gpu_memory_utilization), `remedy_smaller_weights` (most bytes per rank)
        and `remedy_more_gpus` (cards that the weights need).
    """
    tokens = float(input_tokens + output_tokens)
    level = int(fit_level(budget, concurrency, tokens))
    if level == 0:
        return ()
    found: list[Note] = []
    held = float(max_concurrency(budget, tokens)) if most is None else most
    if level == 2 and 1 <= held < concurrency:
        found.append(Note("remedy_fewer_users", {"concurrency": held}))
    if longest is None:
        longest = float(max_context(budget, concurrency, float(architecture.max_context_tokens)))
    if level == 2 and 0 < longest < tokens:
        found.append(Note("remedy_shorter_context", {"tokens": longest}))
    for name, layout in kv_alternatives:
        smaller = pool_layout(architecture, layout, budget.settings, pp=pp, dp=budget.replicas)
        changed = replace(budget, pool=smaller)
        better = int(fit_level(changed, concurrency, tokens))
        if better < level:
            values: dict[str, object] = {
                "format": name,
                "held": float(max_concurrency(changed, tokens)),
                "verdict": VERDICTS[better].value,
            }
            found.append(Note("remedy_kv_format", values))
    found.extend(_larger_share(budget, concurrency, tokens))
    if level == 2:
        found.extend(_smaller_weights(budget, concurrency, tokens))
    return tuple(found)


def _larger_share(budget: MemoryBudget, concurrency: int, tokens: float) -> Iterable[Note]:
    """A larger fraction of the card for an engine that takes one, where that is enough."""
    if budget.settings.policy != "of_total":
        return
    requested = requested_sequences(concurrency, budget.replicas)
    wanted = float(budget.fixed_bytes + workload_bytes(budget, requested, tokens))
    usable = float(budget.usable_bytes)
    share = math.ceil(100.0 * wanted / (TIGHT_FRACTION * usable)) / 100.0
    most = min(LARGEST_UTILIZATION, 1.0 - float(budget.outside_bytes) / usable)
    if budget.settings.gpu_memory_utilization < share <= most:
        yield Note("remedy_utilization", {"gpu_memory_utilization": share})


def _smaller_weights(budget: MemoryBudget, concurrency: int, tokens: float) -> Iterable[Note]:
    """How small the weights of a rank must be, and how many times as many cards would make them so."""
    requested = requested_sequences(concurrency, budget.replicas)
    others = budget.fixed_bytes - budget.weights_bytes
    cache = workload_bytes(budget, requested, tokens)
    room = float(budget.allowed_bytes - others - cache)
    if 0.0 < room < budget.weights_bytes:
        yield Note("remedy_smaller_weights", {"weights_bytes": room})
    # More cards share weights and cache; what each needs for itself stays.
    alone = float(budget.allowed_bytes - others)
    if alone > 0.0:
        times = math.ceil(float(budget.weights_bytes + cache) / alone)
        yield Note("remedy_more_gpus", {"times": 2 ** math.ceil(math.log2(max(times, 2)))})
