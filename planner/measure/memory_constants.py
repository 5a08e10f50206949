"""The memory constants that were fitted to logs, fitted again without each model: bytes per logit, libraries.

vLLM's profile run holds `max_num_seqs · vocabulary` logits in several copies; how many bytes each takes was read off
logs of dense models, and so were the libraries' sizes. Leaving a model's rows out shows what its figures owe to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.catalog.measurements import Measurement
from planner.deployment import Deployment
from planner.memory.activations import activation_shape, profiled_activation_bytes

Shift = dict[tuple[str, str], float]
Seen = list[tuple[str, float]]


def held_out_shifts(rows: Sequence[tuple[Measurement, Deployment]]) -> Shift:
    """By how much a figure moves when its model's rows are left out of the fit (bytes), by row and quantity."""
    profiled = [(row, one) for row, one in rows if one.settings.policy == "of_total"]
    logits: dict[float, Seen] = {}
    libraries: dict[tuple[float, bool], Seen] = {}
    for row, deployment in profiled:
        name = _model(deployment)
        size = logit_bytes_of(row, deployment)
        if size is not None:
            logits.setdefault(deployment.settings.logit_bytes, []).append((name, size))
        library = row.measured.get("runtime_bytes")
        if library is not None:
            libraries.setdefault(_library_key(deployment), []).append((name, library))
    shifts: Shift = {}
    for row, deployment in profiled:
        name = _model(deployment)
        moved = 0.0
        each = _of_others(logits.get(deployment.settings.logit_bytes, []), name)
        if each is not None:
            moved = _activation(deployment, each) - _activation(
                deployment, deployment.settings.logit_bytes
            )
            shifts[row.id, "activation_bytes"] = moved
        library = _of_others(libraries.get(_library_key(deployment), []), name)
        more = 0.0
        if library is not None:
            more = library - _library_key(deployment)[0]
            shifts[row.id, "runtime_bytes"] = more
        if each is not None or library is not None:
            shifts[row.id, "kv_pool_bytes"] = -moved - more
    return shifts


def logit_bytes_of(row: Measurement, deployment: Deployment) -> float | None:
    """Bytes per sampled logit by one log; None unless a dense model without towers whose logits decide the peak."""
    measured = row.measured.get("activation_bytes")
    shape, settings = activation_shape(deployment.architecture), deployment.settings
    if measured is None or shape.experts or shape.towers or not shape.vocabulary:
        return None
    if _activation(deployment, 0.9 * settings.logit_bytes) >= _activation(
        deployment, settings.logit_bytes
    ):
        return None  # the step decides, not the logits
    sampled = settings.max_num_seqs * shape.vocabulary
    return (measured - settings.activation_constant_bytes) / sampled - (
        deployment.compute_bytes - 2.0
    )


def _activation(deployment: Deployment, logit_bytes: float) -> float:
    settings = replace(deployment.settings, logit_bytes=logit_bytes)
    return float(
        profiled_activation_bytes(
            deployment.architecture,
            settings,
            deployment.parallelism,
            float(settings.max_num_batched_tokens),
            deployment.compute_bytes,
        )
    )


def _of_others(seen: Seen, name: str) -> float | None:
    """Median over the other models, each counted once."""
    by_model: dict[str, list[float]] = {}
    for model, value in seen:
        if model != name:
            by_model.setdefault(model, []).append(value)
    if not by_model:
        return None
    return float(np.median([np.median(values) for values in by_model.values()]))


def _library_key(deployment: Deployment) -> tuple[float, bool]:
    settings, many = deployment.settings, deployment.parallelism.gpus > 1
    size = settings.runtime_library_bytes_tensor if many else settings.runtime_library_bytes
    return size, many


def _model(deployment: Deployment) -> str:
    """Models of one shape count as one."""
    architecture = deployment.architecture
    return f"{architecture.model_type}-{architecture.layers}-{architecture.hidden_size}"
