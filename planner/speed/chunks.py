"""What a prompt costs more where one step takes fewer of its tokens than in the runs that constants were fitted to."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np

from planner.catalog.calibrations import Calibration
from planner.quantity import Quantity, maximum
from planner.speed.step import StepTime, decode_step, sequences_in_step
from planner.speed.work import Hardware, Work

FITTED_BUDGET_TOKENS = 2048.0
"""The smallest token budget of a step that an engine has by default, so that every fit saw at least this."""


COMPONENTS = tuple(field.name for field in fields(StepTime) if field.name != "overlap_fraction")


def steps_of(tokens: Quantity, chunk_tokens: Quantity) -> Quantity:
    """Steps that a prompt takes in chunks: whole ones, at least 1."""
    steps = tokens / maximum(chunk_tokens, 1.0)
    if isinstance(steps, np.ndarray):
        return np.maximum(np.ceil(steps), 1.0)
    return max(float(math.ceil(steps)), 1.0)


def chunk_overhead(
    work: Work,
    hardware: Hardware,
    calibration: Calibration,
    *,
    input_tokens: Quantity,
    cached_tokens: Quantity,
    max_num_batched_tokens: Quantity,
    batch: Quantity = 1.0,
    context_tokens: Quantity = 0.0,
) -> StepTime | None:
    """Time of one prompt's steps beyond that of the steps which the smallest default budget would take.

    ceil(new / (C − others)) steps, each with its fixed times, its weights, the cache of what was read before, and the
    sequences that decode beside it; less the same with C = FITTED_BUDGET_TOKENS, which the time of a whole prompt
    holds already. Component by component, none below 0.

    Args:
        max_num_batched_tokens: C, token budget of one step in each data-parallel group (tokens).
        batch: sequences in each step over the whole deployment, this prompt's own among them, at least 1.
        context_tokens: tokens that each of the others has cached (tokens).

    Returns:
        Components (s); None where no budget lies below the default ones, or nothing is split into chunks.

    Raises:
        MissingFigure: where one accelerator lacks a rate that the step needs; arrays give NaN.
    """
    if calibration.kind != "continuous" or work.encoder_layers or not work.generates:
        return None
    if not np.any(np.less(max_num_batched_tokens, FITTED_BUDGET_TOKENS)):
        return None
    new_tokens = work.decoder_tokens(maximum(input_tokens - cached_tokens, 1.0))
    present = sequences_in_step(work, calibration, batch)
    own = cached_tokens + new_tokens / 2.0
    context = ((present - 1.0) * context_tokens + own) / present

    def all_steps(budget: Quantity) -> StepTime:
        steps = steps_of(new_tokens, budget - (present - 1.0))
        step = decode_step(
            work,
            hardware,
            calibration,
            batch,
            context,
            prefill_tokens=(new_tokens / steps - 1.0) * (batch / present),
            prompt_tokens=new_tokens,
            prompt_cached_tokens=cached_tokens,
            chunk_tokens=new_tokens / steps,
        )
        return step.scaled(steps)

    fitted = all_steps(maximum(max_num_batched_tokens, FITTED_BUDGET_TOKENS))
    stated = all_steps(max_num_batched_tokens)
    more: dict[str, Any] = {
        name: maximum(getattr(stated, name) - getattr(fitted, name), 0.0) for name in COMPONENTS
    }
    return replace(stated, **more)


def joined(prompt: StepTime, more: StepTime | None) -> StepTime:
    """A prompt's time with what its chunks add, component by component."""
    if more is None:
        return prompt
    both: dict[str, Any] = {
        name: getattr(prompt, name) + getattr(more, name) for name in COMPONENTS
    }
    return replace(prompt, **both)
