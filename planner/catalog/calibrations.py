"""Calibrations: what engines reach on accelerators, with where each constant comes from and how far it holds.

A calibration's efficiencies are parts of the catalogue's own peaks and bandwidths: where a fit used other ones (B200 at
7.7 TB/s), its constants are converted on loading, so that the rates come out as fitted. Class figures stand in for GPUs
that no fit covers, and say so by their basis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from planner.catalog.accelerators import Accelerator
from planner.catalog.calibration_constants import (
    SHIPPED,
    WIDTHS,
    Constants,
    Shelf,
    calibration_data,
    calibration_figures,
    weights_kind,
)
from planner.catalog.loader import require
from planner.errors import MissingFigure
from planner.quantity import Basis, Quantity, worst

DIRECT = ("step_s", "sequence_s", "imbalance", "pipeline")
PREFILL = ("prefill_sequence_s", "prefill_steps", "prefill_interference")
EAGER = (
    "prefill_wave", "cache_traffic", "cache_repeats", "latent_layer_s", "indexed_layer_s", "dequantise_flops",
    "host_dequantise", "host_expert_layer_s", "host_expert_s",
)  # fmt: skip
NEUTRAL = {"cache_traffic": 1.0, "dequantise_flops": 165.0, "host_dequantise": 1.0}


@dataclass(frozen=True, slots=True)
class Fit:
    """How well the constants match what they were fitted to; None where no fit was made.

    Attributes:
        rows: measurements behind the constants.
        median_error_fraction: median absolute relative error of the time per output token, in sample.
        held_out_error_fraction: the same on models that the fit hadn't seen.
        first_token_rows, first_token_error_fraction: the same for the time to first token.
    """

    rows: int
    median_error_fraction: float | None
    held_out_error_fraction: float | None
    first_token_rows: int
    first_token_error_fraction: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Constants of one engine on one accelerator for one kind of weights, or arrays of them over accelerators.

    Attributes:
        id: what it is called: the file it comes from, or the name of somebody's own; file: the shipped file under it.
        kind: "continuous" (batching by step), "slots" (llama.cpp) or "static" (eager, one batch at a time).
        basis, ttft_basis: what a time per token, or a first token, made with it is worth at best.
        own: somebody's own runs on this device moved it, so that the device's rates add no doubt of theirs.
        tpot_band, ttft_band: range around the middle of the time per output token and to the first one.
        fit: rows and errors.
        head_every_token: the fit charges the output head to prompt tokens that share a step with decoding.
        order: p of the norm that joins compute and weight-reading time.
        step_s, layer_s, sequence_s: fixed time of a step, of each layer in it, of each sequence in it (s);
            expert_layer_s comes on top in layers with routed experts, latent_layer_s in those with latent attention,
            indexed_layer_s in those with an indexer beside it.
        compute, prefill: parts of the peak in a step and over a whole prompt, by dtype group of WIDTHS.
        weights, expert_weights, cache: parts of the bandwidth for weights, those of routed experts, and the cache.
        attention, prefill_attention: parts of the peak for attention in a step and over a whole prompt.
        experts, prefill_experts: what kernels of routed experts reach of `compute` and of `prefill`.
        imbalance: fullest rank against the mean.
        pipeline: part of the time that stages of a pipeline are busy.
        reduce_latency_s, reduce_fraction: of an all-reduce over 2, 4 and 8 ranks; fraction of the link's rate.
        dispatch_latency_s, combine_latency_s, dispatch_fraction: of expert parallelism's all-to-all.
        pipeline_latency_s, pipeline_fraction: of sending activations to the next stage.
        prefill_layer_s, prefill_sequence_s, prefill_steps, prefill_interference: host time to the first token per
            layer, per running sequence, in decode steps, and per other prompt in flight; prefill_mixer_layer_s comes on
            top in layers whose attention is latent or a recurrence, which take many more kernels. prefill_wave: of the
            other running sequences' prompts, how many are read first on average because requests start together.
        host_layer_s: eager execution: host time per layer (0 where graphs hide it); host_dequantise multiplies it
            when weights are unpacked first; host_expert_layer_s comes on top of it in layers with experts, and
            host_expert_s for each of their experts where a version loops over them. host_overlap_fraction: part of the
            device's time during which the host prepares what comes next.
        cache_traffic: bytes moved for each byte of cache read; cache_repeats: more of them for each query head that
            shares a key-value head, where keys and values are repeated before they are read.
        dequantise_flops: fp32 operations' worth of time to unpack an element.
        burst_time: what the steps of a server take that all its requests reach at once, against those constants.
    """

    id: str
    file: str
    kind: str
    basis: Basis
    ttft_basis: Basis
    own: bool
    tpot_band: tuple[float, float]
    ttft_band: tuple[float, float]
    fit: Fit
    head_every_token: bool
    order: float
    step_s: Quantity
    layer_s: Quantity
    expert_layer_s: Quantity
    latent_layer_s: Quantity
    indexed_layer_s: Quantity
    sequence_s: Quantity
    compute: Mapping[str, Quantity]
    prefill: Mapping[str, Quantity]
    weights: Quantity
    expert_weights: Quantity
    cache: Quantity
    attention: Quantity
    prefill_attention: Quantity
    experts: Quantity
    prefill_experts: Quantity
    imbalance: Quantity
    pipeline: Quantity
    reduce_latency_s: tuple[Quantity, Quantity, Quantity]
    reduce_fraction: tuple[Quantity, Quantity, Quantity]
    dispatch_latency_s: Quantity
    combine_latency_s: Quantity
    dispatch_fraction: Quantity
    pipeline_latency_s: Quantity
    pipeline_fraction: Quantity
    prefill_layer_s: Quantity
    prefill_mixer_layer_s: Quantity
    prefill_sequence_s: Quantity
    prefill_steps: Quantity
    prefill_interference: Quantity
    prefill_wave: Quantity
    host_overlap_fraction: Quantity
    host_layer_s: Quantity
    host_dequantise: Quantity
    host_expert_layer_s: Quantity
    host_expert_s: Quantity
    cache_traffic: Quantity
    cache_repeats: Quantity
    dequantise_flops: Quantity
    burst_time: Quantity

    def efficiency(self, dtype: str, *, prefill: bool = False) -> Quantity:
        """Part of the dense peak that matrix products in `dtype` reach.

        Raises:
            MissingFigure: where nothing is stated for the dtype.
        """
        table = self.prefill if prefill else self.compute
        value = table.get(WIDTHS[dtype])
        if value is None:
            raise MissingFigure(self.id, f"{'prefill' if prefill else 'compute'}.{WIDTHS[dtype]}")
        return value


def _band(found: Constants, group: str, what: str, *, experts: bool) -> tuple[float, float]:
    """The range that held-out rows of this kind of engine, model and group gave, or the nearest that is stated.

    Groups are the labels of a basis, and "other-model": on hardware that the fit covers, a family that it hasn't seen.
    A file may state ranges of its own for classes of accelerators.
    """
    figures = calibration_figures("index")
    model, kind = "experts" if experts else "dense", found.kind
    names = (
        f"{found.file}.{found.group.name}.{what}",
        f"{kind}.{group}.{model}.{what}",
        f"{kind}.{group}.{what}",
        f"{group}.{what}",
    )
    name = next(name for name in names if f"{name}.low" in figures)
    return figures[f"{name}.low"].value, figures[f"{name}.high"].value


def as_transferred(
    calibration: Calibration, *, experts: bool, first_only: bool = False
) -> Calibration:
    """The constants where they are carried beyond what they were fitted to: a basis no better, ranges no narrower.

    Args:
        experts: a mixture of experts.
        first_only: only for the time to the first token.
    """
    figures = calibration_figures("index")
    model, group = "experts" if experts else "dense", Basis.TRANSFERRED.label

    def wider(band: tuple[float, float], what: str) -> tuple[float, float]:
        names = (f"{calibration.kind}.{group}.{model}.{what}", f"{group}.{what}")
        name = next(name for name in names if f"{name}.low" in figures)
        low, high = figures[f"{name}.low"].value, figures[f"{name}.high"].value
        return min(band[0], low), max(band[1], high)

    changed = replace(
        calibration,
        ttft_basis=worst(calibration.ttft_basis, Basis.TRANSFERRED),
        ttft_band=wider(calibration.ttft_band, "ttft"),
    )
    if first_only:
        return changed
    return replace(
        changed,
        basis=worst(calibration.basis, Basis.TRANSFERRED),
        tpot_band=wider(calibration.tpot_band, "tpot"),
    )


def _fit(file: str, base: str) -> Fit:
    own = calibration_data(file).get("fit", {})
    first = calibration_data(file).get("first_token_fit") or (
        calibration_data(base).get("first_token_fit", {})
        if calibration_data(file)["kind"] == "continuous"
        else {}
    )
    return Fit(
        rows=int(own.get("rows", 0)),
        median_error_fraction=own.get("median_error_fraction"),
        held_out_error_fraction=own.get("held_out_model_median_error_fraction"),
        first_token_rows=int(first.get("rows", 0)),
        first_token_error_fraction=first.get("median_error_fraction"),
    )


@lru_cache(maxsize=8192)
def calibration_for(
    engine: str,
    accelerator: Accelerator,
    weights_format: str,
    *,
    model_type: str = "",
    experts: bool = False,
    version: str = "",
) -> Calibration:
    """The constants of an engine on an accelerator for a format of weights.

    An engine without a file of its own takes those of continuous batching over all engines.

    Args:
        engine: engine id ("vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp").
        weights_format: format id as stored ("bf16", "fp8", "nf4", "gguf:Q4_K_M").
        model_type: as in config.json; a family that the fit hasn't seen is at best transferred, with the range of folds
            that left a model out.
        experts: a mixture of experts.
        version: of the engine; "" for the newest.

    Raises:
        BadProfile: for a format without a kind of weights.
        MissingFigure: where a constant that applies is stated nowhere.
    """
    return build_calibration(
        engine, accelerator, weights_format, model_type, experts, version, SHIPPED
    )


def build_calibration(
    engine: str,
    accelerator: Accelerator,
    weights_format: str,
    model_type: str,
    experts: bool,
    version: str,
    shelf: Shelf,
) -> Calibration:
    """`calibration_for` with the constants of any shelf; a fit tries its values this way."""
    found = Constants(engine, accelerator, weights_kind(weights_format), shelf, version)
    basis = found.basis()
    families = calibration_data(found.file).get("fitted_on", {}).get("model_types", ())
    group = basis.label
    if basis is Basis.CALIBRATED and model_type not in families:
        basis, group = Basis.TRANSFERRED, "other-model"
    latencies, parts = found.reduce()
    table = calibration_figures("collectives")
    host = 0.0
    if found.kind == "static":
        host = found.value(f"host_layer_s.{found.group.host}.{found.host_kind}")
    mixer_dispatch = 0.0
    if found.kind == "continuous":
        mixer_dispatch = found.optional("prefill_mixer_layer_s", 0.0)
    convention = (
        calibration_data(found.file).get("convention") or calibration_data(found.base)["convention"]
    )
    return Calibration(
        id=found.file,
        file=found.file,
        kind=found.kind,
        basis=basis,
        ttft_basis=basis,
        own=False,
        tpot_band=_band(found, group, "tpot", experts=experts),
        ttft_band=_band(found, group, "ttft", experts=experts),
        fit=_fit(found.file, found.base),
        head_every_token=convention["head"] == "every_token",
        order=found.optional("norm", float(convention["norm"])),
        compute=found.efficiencies("prefill" if found.kind == "slots" else "compute"),
        prefill=found.efficiencies("prefill"),
        weights=found.weights().value,
        expert_weights=found.expert_weights(),
        cache=found.cache(),
        attention=found.value("attention"),
        prefill_attention=found.prefill_attention(),
        experts=found.by_kind("experts"),
        prefill_experts=found.prefill_experts(),
        layer_s=found.value("layer_s"),
        expert_layer_s=found.optional(found.key_by_kind("expert_layer_s"), 0.0),
        prefill_layer_s=found.value("prefill_layer_s"),
        prefill_mixer_layer_s=mixer_dispatch,
        reduce_latency_s=(latencies[0], latencies[1], latencies[2]),
        reduce_fraction=(parts[0], parts[1], parts[2]),
        dispatch_latency_s=table["dispatch_latency_s"].value,
        combine_latency_s=table["combine_latency_s"].value,
        dispatch_fraction=table["dispatch_fraction"].value,
        pipeline_latency_s=table["pipeline_latency_s"].value,
        pipeline_fraction=table["pipeline_fraction"].value,
        host_layer_s=host,
        host_overlap_fraction=0.0 if found.group.is_host else 1.0,
        burst_time=found.burst_time(),
        **{key: found.value(key) for key in (*DIRECT, *PREFILL)},
        **{key: found.optional_by_kind(key, NEUTRAL.get(key, 0.0)) for key in EAGER},
    )


def stack_calibrations(calibrations: Sequence[Calibration]) -> Calibration:
    """One calibration with arrays over several, for a sweep of accelerators; NaN where a dtype isn't stated.

    They must be of one kind, head convention and order; id, bands, fit and basis are the first one's.

    Raises:
        ValueError: where kinds or conventions differ.
    """
    first = calibrations[0]
    for key in ("kind", "head_every_token", "order"):
        if any(getattr(one, key) != getattr(first, key) for one in calibrations):
            raise ValueError(f"calibrations differ in {key}")
    changes: dict[str, Any] = {}
    for field in fields(Calibration):
        sample = getattr(first, field.name)
        columns = [getattr(one, field.name) for one in calibrations]
        if field.name in ("compute", "prefill"):
            keys = {key for column in columns for key in column}
            changes[field.name] = {
                key: np.array([column.get(key, np.nan) for column in columns]) for key in keys
            }
        elif field.name in ("reduce_latency_s", "reduce_fraction"):
            changes[field.name] = tuple(np.array(column) for column in zip(*columns, strict=True))
        elif isinstance(sample, float) and field.name != "order":
            changes[field.name] = np.array(columns)
    return replace(first, **changes)


@dataclass(frozen=True, slots=True)
class GemmConstants:
    """What one GPU's matrix products in one dtype were fitted to.

    Attributes:
        floor_s: time of an empty product (s).
        compute_efficiency, weights_efficiency: parts of the peak and of the bandwidth that large products reach.
        order: p of the norm that joins compute and memory time.
        peak_flops_per_s, bandwidth_bytes_per_s: the rates that the fit used.
    """

    floor_s: float
    compute_efficiency: float
    weights_efficiency: float
    order: float
    peak_flops_per_s: float
    bandwidth_bytes_per_s: float


def gemm_constants(accelerator_id: str, dtype: str) -> GemmConstants:
    """What matrix products in `dtype` were fitted to on an accelerator.

    Raises:
        MissingFigure: where no kernel table covers them.
    """
    figures = calibration_figures("kernels")
    prefix = f"{accelerator_id}.{dtype}"
    return GemmConstants(
        **{
            field.name: require(figures, f"{prefix}.{field.name}", "kernels").value
            for field in fields(GemmConstants)
        }
    )
