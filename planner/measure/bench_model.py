"""Prefill and decode of a model, timed; its cache and its memory, counted.

The loop is eager transformers' own: one forward pass, the head for the last position only, the token picked and read
by the host, and fed back. That is `generate()` with greedy search, less what it does for sampling and stopping, which
is below a tenth of a millisecond a step. A step's time is what somebody who waits for the token sees.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from planner.measure.build import Built, quietly
from planner.measure.clock import Timer, understood
from planner.measure.peak import Peak
from planner.measure.record import Spread

WARM_UP = 3
WARM_S = 0.1  # passes beforehand are no longer needed then (s)
MOST_PASSES, LEAST_STEPS = 8, 3  # of one visit
MOST_DEEP = 6  # levels of objects that are searched for a cache's tensors


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one point, in seconds, and the most memory that was taken meanwhile (bytes; None where unknown)."""

    seconds: tuple[float, ...]
    peak_bytes: float | None


def _tokens(built: Built, batch: int, length: int) -> Any:
    import torch

    return torch.randint(0, built.vocabulary, (batch, length), device=built.timer.device)


def _forward(built: Built, tokens: Any, cache: Any) -> tuple[Any, Any]:
    """One pass: the next token of each sequence, and the cache."""
    words: dict[str, Any] = {"input_ids": tokens, "use_cache": True}
    if cache is not None:
        words[built.cache_word] = cache
    try:
        out = built.model(**words, logits_to_keep=1)
    except TypeError:  # a few models always give every position
        out = built.model(**words)
    cache = getattr(out, built.cache_word, None)
    if cache is None:
        cache = getattr(out, "past_key_values", None)
    chosen = out.logits[:, -1:].argmax(-1)
    chosen[0, 0].item()  # the host reads it: the step is over
    return chosen, cache


def _give_back(timer: Timer) -> None:
    """Frees what a failed point holds, so that the next one has it."""
    import gc

    import torch

    gc.collect()
    if timer.kind in ("cuda", "rocm"):
        torch.cuda.empty_cache()


@contextmanager
def _passes() -> Iterator[None]:
    """Around forward passes: no gradients, no warnings, and torch's failures as what they mean."""
    import torch

    try:
        with torch.inference_mode(), quietly():
            yield
    except (RuntimeError, MemoryError) as error:
        raise understood(error) from error


def warm(built: Built) -> None:
    """First passes, which pay for kernels to be loaded and chosen; raises as `prefill`."""
    with _passes():
        chosen, cache = _forward(built, _tokens(built, 1, 16), None)
        for _ in range(WARM_UP):
            chosen, cache = _forward(built, chosen, cache)


def prefill(
    built: Built,
    tokens: int,
    batch: int,
    *,
    budget_s: float,
    warm_up: int = WARM_UP,
    memory: bool = True,
) -> Timing:
    """Times of reading prompts, with an empty cache, up to the first token in the host's hands.

    Args:
        budget_s: for all passes; one that counts is made all the same.
        warm_up: passes beforehand that don't count, none once `WARM_S` is spent on them.
        memory: it is recorded too, which takes as long as a short pass.

    Raises:
        OutOfMemory: where there is no room for it.
        PlannerError: `gpu_lost`.
    """
    begin = time.perf_counter()
    found: list[float] = []
    try:
        with _passes():
            prompt = _tokens(built, batch, tokens)
            peak = Peak(built, records=memory)
            for _ in range(warm_up):
                with peak.recording():
                    _forward(built, prompt, None)
                if time.perf_counter() - begin > WARM_S:
                    break
            while len(found) < MOST_PASSES:
                built.timer.synchronise()
                start = time.perf_counter()
                _forward(built, prompt, None)
                now = time.perf_counter()
                found.append(now - start)
                if now - begin + found[-1] > budget_s:
                    break
            return Timing(tuple(found), peak.bytes())
    finally:
        _give_back(built.timer)


def decode(
    built: Built,
    context: int,
    batch: int,
    *,
    steps: int,
    budget_s: float,
    warm_up: int = WARM_UP,
    memory: bool = True,
) -> Timing:
    """Times of steps that give each sequence one more token, from a cache of `context` tokens.

    Args:
        steps: that count, at most; at least three.
        budget_s: for all of it, the prefill that fills the cache included.
        warm_up: steps beforehand that don't count.
        memory: as in `prefill`.

    Raises:
        OutOfMemory, PlannerError: as `prefill`.
    """
    found: list[float] = []
    chosen: Any = None
    cache: Any = None
    try:
        with _passes():
            peak = Peak(built, records=memory)
            begin = time.perf_counter()
            with peak.recording():  # of the prompt, which takes more than a step after it
                chosen, cache = _forward(built, _tokens(built, batch, context), None)
            for step in range(warm_up + steps):
                start = time.perf_counter()
                chosen, cache = _forward(built, chosen, cache)
                now = time.perf_counter()
                if step >= warm_up:
                    found.append(now - start)
                if len(found) >= LEAST_STEPS and now - begin > budget_s:
                    break
            return Timing(tuple(found), peak.bytes())
    finally:
        chosen = cache = None
        _give_back(built.timer)


def _tensors(thing: Any, seen: set[int], deep: int = 0) -> dict[int, Any]:
    import torch

    if deep > MOST_DEEP or id(thing) in seen:
        return {}
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        return {thing.data_ptr(): thing} if thing.numel() else {}
    parts: Sequence[Any] = ()
    if isinstance(thing, dict):
        parts = tuple(thing.values())
    elif isinstance(thing, (list, tuple)):
        parts = thing
    elif type(thing).__module__.startswith("transformers"):
        parts = tuple(vars(thing).values())
    found: dict[int, Any] = {}
    for part in parts:
        found |= _tensors(part, seen, deep + 1)
    return found


def cache_size(built: Built, tokens: int) -> float:
    """Bytes that the cache of one sequence takes after a prompt of so many tokens; raises as `prefill`."""
    with _passes():
        _, cache = _forward(built, _tokens(built, 1, tokens), None)
        found = _tensors(cache, set())
        return float(sum(one.numel() * one.element_size() for one in found.values()))


def cache_growth(built: Built, few: int = 16, many: int = 48) -> float:
    """Bytes by which the cache of a sequence grows with each token; 0 for a constant state; raises as `prefill`."""
    return (cache_size(built, many) - cache_size(built, few)) / (many - few)


def whole(values: Sequence[Spread], slices: Sequence[int], layers: int) -> Spread:
    """A figure of the whole model from itself, or from those of two slices.

    X(L) = X(n₁) + (L − n₁) · (X(n₂) − X(n₁)) / (n₂ − n₁). Its ends take the slices' ends against each other, so that
    what can't be told apart in the slices isn't in the whole either.

    Args:
        values: of each slice, in one unit; slices: their layers; layers: of the whole.
    """
    if len(values) == 1:
        return values[0]
    first, second = values
    factor = (layers - slices[0]) / (slices[1] - slices[0])

    def at(one: float, other: float) -> float:
        return max(one + factor * (other - one), other, 1e-12)

    found = at(first.median, second.median)
    return Spread(
        median=found,
        low=min(at(first.high, second.low), found),
        high=max(at(first.low, second.high), found),
        repeats=min(first.repeats, second.repeats),
    )
