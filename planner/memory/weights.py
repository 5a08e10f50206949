"""Bytes of a model's weights by format: whole, per part, per rank, and what one decode step reads of them.

Pure arithmetic on the architecture: each weight's elements under its encoding, divided as tensor, pipeline and expert
parallelism divide them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from planner.architecture.module_paths import original_part
from planner.architecture.quantization import (
    CheckpointScheme,
    WeightEncodings,
    assign,
    checkpoint_scheme,
)
from planner.architecture.spec import Architecture, Part, Shape, Weight
from planner.architecture.totals import head_flops_per_token
from planner.catalog.encodings import COMPUTE, Encoding
from planner.catalog.formats import WeightFormat, weight_format
from planner.errors import Note, Unsupported
from planner.memory.encoding import MXFP4_PADDING, mxfp4_padding_bytes, weight_bytes
from planner.memory.gguf import gguf_encodings
from planner.memory.offload import Offload
from planner.memory.placement import Placed, Sums, placed_weights, sharing_ranks, summed
from planner.scenario import Parallelism

# Checkpoints that llama.cpp's converter can't unpack.
_NOT_TO_GGUF = frozenset({"awq", "bitsandbytes"})


@dataclass(frozen=True, slots=True)
class ExpertGroup:
    """Routed experts of the layers that route alike, with their pipeline stages taken together.

    Attributes:
        layers: how many layers.
        experts, experts_per_token: per layer.
        rank_bytes: what the tp · dp ranks of a stage hold each, over all layers.
        total_bytes: of all experts of all layers.
        dequantised_elements: per rank, over all layers and experts: weights that a separate pass writes out before use.
    """

    layers: int
    experts: int
    experts_per_token: int
    rank_bytes: float
    total_bytes: float
    dequantised_elements: float


@dataclass(frozen=True, slots=True, eq=False)
class HostWeights:
    """The part of a model's weights that lies in host memory; the names of StoredWeights.

    Attributes:
        offload: which part that is.
        total_bytes: the token embedding included, of which a step reads next to nothing.
        head_bytes: of the output head, where the host has it, else 0.
        staged_bytes: largest single tensor besides the head: what the GPU needs room for when it is lent one.
    """

    offload: Offload
    total_bytes: float
    head_bytes: float
    staged_bytes: float
    read_bytes_per_token_step: float
    experts: tuple[ExpertGroup, ...]
    flops: dict[str, float]
    expert_flops: dict[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class StoredWeights:
    """A model's weights in one format under one division.

    Attributes:
        format_id: as asked for; label: what it turned out to be ("bf16", "fp8-block", "mxfp4 experts").
        formats: catalogue formats whose kernels the engine needs (ask `supported` for each).
        total_bytes: the whole model, towers included (not in a GGUF), MTP layers where asked for.
        by_part: the same by part (bytes).
        stage_bytes: one rank of each pipeline stage (bytes); rank_bytes: the heaviest of them.
        read_bytes_per_token_step: what one decode step reads on one rank, over all stages (bytes): everything but table
            look-ups, towers, encoder layers, MTP and routed experts; the head's matrix, tied or not, included.
        experts: routed experts.
        flops: matrix products per token by the peak they use ("compute", "fp8", "int8", "fp4"), routed experts only, of
            the whole model (FLOP); head and towers apart. expert_flops: the routed experts' share of it.
        encoder_flops, encoder_read_bytes: of layers that only the input passes: FLOP per input token, and what a pass
            reads on one rank (bytes).
        head_flops: per token that needs logits; head_compute: its peak.
        dequantised_elements_per_step: weights outside experts that a separate pass writes out each step, per rank.
        kv_scheme: the cache format that the checkpoint was made for, or None.
        padding_rank_bytes: what kernels add to MXFP4 experts on one rank when they load them, by kernel (bytes).
        host: what of all that lies in host memory; None where the engine keeps none there. Only `stage_bytes` and
            `rank_bytes` are without it.
        notes: what to know about the figures.
    """

    format_id: str
    label: str
    formats: tuple[str, ...]
    total_bytes: float
    by_part: dict[Part, float]
    rank_bytes: float
    stage_bytes: tuple[float, ...]
    read_bytes_per_token_step: float
    experts: tuple[ExpertGroup, ...]
    flops: dict[str, float]
    expert_flops: dict[str, float]
    encoder_flops: dict[str, float]
    encoder_read_bytes: float
    head_flops: float
    head_compute: str
    dequantised_elements_per_step: float
    kv_scheme: str | None
    padding_rank_bytes: dict[str, float] = field(default_factory=dict)
    host: HostWeights | None = None
    notes: tuple[Note, ...] = ()


@lru_cache(maxsize=4096)
def stored_weights(
    architecture: Architecture,
    format_id: str,
    parallelism: Parallelism,
    compute_dtype: str,
    *,
    include_mtp: bool = False,
    offload: Offload | None = None,
) -> StoredWeights:
    """The weights' bytes and work under a format.

    Args:
        format_id: as `weight_format` takes it; "native" is the checkpoint's own storage.
        compute_dtype: "fp16", "bf16" or "fp32": what engines hold unquantised weights in.
        offload: what lies in host memory; None where the engine keeps everything on the GPU.

    Raises:
        UnknownItem: for another format.
        Unsupported: for a format on top of a checkpoint that is quantised otherwise, or stored by an unknown method.
        InvalidInput: for more pipeline stages than layers.
    """
    format_ = weight_format(format_id)
    scheme = checkpoint_scheme(architecture)
    if _is_own(format_, scheme):
        format_ = weight_format("native")
    if scheme is not None and format_.kind == "native":
        encodings = scheme.encodings
        # A scheme whose ignore list means every module quantises none.
        label, formats = scheme.label or compute_dtype, scheme.formats or (compute_dtype,)
        dtype, kv_scheme = compute_dtype, scheme.kv_scheme
    else:
        _refuse_requantising(format_, scheme)
        dtype = format_.id if format_.kind == "dtype" else compute_dtype
        encodings, kv_scheme = _encodings(architecture, format_), None
        label = dtype if format_.kind in ("native", "dtype") else format_.id
        formats = (label,)
    gguf = format_.kind == "gguf"
    placed = list(
        placed_weights(architecture, encodings, parallelism.pp, gguf, include_mtp, offload)
    )
    sums = summed(placed, parallelism, dtype)
    head = _head(architecture, placed)
    head_bytes = 0.0
    if head is not None:
        ranks = sharing_ranks(head.weight, parallelism)
        head_bytes = weight_bytes(head.weight, head.encoding, dtype) / ranks
    stages = list(sums.stages)
    host = None
    if offload is not None:
        host = _on_host(architecture, placed, offload, head_bytes, dtype)
        stages = _without_host(sums, placed, parallelism, dtype)
    if architecture.tied:
        # The embedding is also the head: read as a matrix, and held again by the last stage.
        sums.read_bytes += head_bytes
        if offload is not None:
            stages[-1] += 0.0 if offload.head_on_host else head_bytes
        elif parallelism.pp > 1:
            stages[-1] += head_bytes
    return StoredWeights(
        format_id=format_id,
        label=label,
        formats=formats,
        total_bytes=sum(sums.by_part.values()),
        by_part=sums.by_part,
        rank_bytes=max(stages),
        stage_bytes=tuple(stages),
        read_bytes_per_token_step=sums.read_bytes,
        experts=_expert_groups(architecture, sums, architecture.layers),
        flops=sums.flops,
        expert_flops=sums.expert_flops,
        encoder_flops=sums.encoder_flops,
        encoder_read_bytes=sums.encoder_read_bytes,
        head_flops=head_flops_per_token(architecture),
        head_compute=head.encoding.compute if head and head.encoding else COMPUTE,
        dequantised_elements_per_step=sums.dequantised_elements,
        kv_scheme=kv_scheme,
        padding_rank_bytes={
            kernel: _mxfp4_padding(architecture, encodings, kernel) / parallelism.gpus
            for kernel in MXFP4_PADDING
            if "mxfp4" in formats
        },
        host=host,
        notes=_notes(architecture, format_, scheme, encodings, dtype, include_mtp),
    )


def _is_own(format_: WeightFormat, scheme: CheckpointScheme | None) -> bool:
    """Whether a format is the one that the checkpoint is already in."""
    if scheme is None:
        return False
    return format_.id in scheme.formats or (format_.id == "fp8" and "fp8-block" in scheme.formats)


def _refuse_requantising(format_: WeightFormat, scheme: CheckpointScheme | None) -> None:
    """A quantised checkpoint can be unpacked to a plain type or converted to GGUF, not quantised anew."""
    if scheme is None or format_.kind == "dtype":
        return
    if format_.kind == "gguf" and scheme.method not in _NOT_TO_GGUF:
        return
    raise Unsupported(
        "format_on_quantised_checkpoint",
        field="weights",
        format=format_.id,
        checkpoint=scheme.label,
        nearest=("native",),
    )


def _encodings(architecture: Architecture, format_: WeightFormat) -> WeightEncodings:
    if format_.kind == "gguf":
        return gguf_encodings(architecture, format_.gguf_type)
    encoding, parts = format_.encoding, format_.quantised_parts

    def choose(weight: Weight, layer: int | None, layers: int, beside: bool) -> Encoding | None:
        del layer, layers, beside
        linear = weight.shape is Shape.LINEAR and weight.dtype is None
        quantised = linear and original_part(weight) in parts and weight.name != "joint_projection"
        return encoding if quantised else None

    return assign(architecture, choose, lambda layer: None)


def _head(architecture: Architecture, placed: list[Placed]) -> Placed | None:
    """The matrix that gives logits: the head's own, or the embedding table where it's tied."""
    if not architecture.has_head:
        return None
    part, name = (Part.EMBEDDING, "embedding") if architecture.tied else (Part.HEAD, "head")
    found = [one for one in placed if one.weight.part is part and one.kind is None]
    return next((one for one in found if one.weight.name == name), found[0] if found else None)


def _on_host(
    architecture: Architecture,
    placed: list[Placed],
    offload: Offload,
    head_bytes: float,
    dtype: str,
) -> HostWeights:
    """What lies in host memory, which no rank shares with another."""
    held = [one for one in placed if one.on_host]
    sums = summed(held, Parallelism(), dtype)
    head = head_bytes if offload.head_on_host else 0.0
    layers = [one for one in held if one.kind is not None]
    return HostWeights(
        offload=offload,
        total_bytes=sum(sums.stages),
        head_bytes=head,
        staged_bytes=max(
            (weight_bytes(one.weight, one.encoding, dtype) for one in layers), default=0.0
        ),
        read_bytes_per_token_step=sums.read_bytes + (head if architecture.tied else 0.0),
        experts=_expert_groups(architecture, sums, offload.first_layers),
        flops=sums.flops,
        expert_flops=sums.expert_flops,
    )


def _without_host(
    sums: Sums, placed: list[Placed], parallelism: Parallelism, dtype: str
) -> list[float]:
    """Bytes on each stage's GPU."""
    host = [0.0] * parallelism.pp
    for one in placed:
        if one.on_host:
            size = one.count * weight_bytes(one.weight, one.encoding, dtype)
            host[one.stage] += size / sharing_ranks(one.weight, parallelism)
    return [max(whole - part, 0.0) for whole, part in zip(sums.stages, host, strict=True)]


def _expert_groups(
    architecture: Architecture, sums: Sums, first_layers: int
) -> tuple[ExpertGroup, ...]:
    kinds = [architecture.layer_kinds[index] for index in architecture.layer_order[:first_layers]]
    return tuple(
        ExpertGroup(
            layers=sum((kind.experts, kind.experts_per_token) == routing for kind in kinds),
            experts=routing[0],
            experts_per_token=routing[1],
            rank_bytes=rank,
            total_bytes=total,
            dequantised_elements=unpacked,
        )
        for routing, (total, rank, unpacked) in sums.experts.items()
    )


def _notes(
    architecture: Architecture,
    format_: WeightFormat,
    scheme: CheckpointScheme | None,
    encodings: WeightEncodings,
    dtype: str,
    include_mtp: bool,
) -> tuple[Note, ...]:
    notes = []
    if scheme is not None and format_.kind == "dtype":
        notes.append(Note("checkpoint_unpacked", {"checkpoint": scheme.label}))
    if architecture.mtp and not include_mtp:
        pairs = zip(architecture.mtp, encodings.mtp, strict=True)
        size = sum(weight_bytes(weight, encoding, dtype) for weight, encoding in pairs)
        notes.append(Note("mtp_left_out", {"bytes": size}))
    if format_.kind == "gguf" and architecture.towers:
        size = sum(
            weight_bytes(weight, None, "fp16")
            for tower in architecture.towers
            for weight in tower.weights
        )
        notes.append(Note("gguf_without_towers", {"bytes": size}))
    routed = any(kind.experts for kind in architecture.layer_kinds)
    if format_.id in ("nf4", "nf4-dq", "llm-int8") and routed:
        # Transformers 5 keeps experts in one parameter, which bitsandbytes doesn't quantise; vLLM does.
        notes.append(Note("bitsandbytes_experts"))
    return tuple(notes)


def _mxfp4_padding(architecture: Architecture, encodings: WeightEncodings, kernel: str) -> float:
    """What a kernel's padding adds to MXFP4 experts in memory, over all layers (bytes)."""
    return sum(
        mxfp4_padding_bytes(weight, encoding, kernel)
        for index, chosen in zip(architecture.layer_order, encodings.layers, strict=True)
        for weight, encoding in zip(architecture.layer_kinds[index].weights, chosen, strict=True)
        if encoding is not None and encoding.format_id == "mxfp4" and weight.part is Part.EXPERTS
    )
