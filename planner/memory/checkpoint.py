"""A model's weights as its own files hold them, in place of the formula's bytes.

Files know things that no configuration says: padding, scales, layers left out, a type per tensor. Where a checkpoint's
headers were read, its bytes replace the formula's group by group (embedding, layers, experts, …), and a note states
both. How they are divided over GPUs, and the work, stay the formula's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from planner.architecture.checkpoint.sizes import CheckpointBytes, Group, group_of_part
from planner.architecture.quantization import checkpoint_scheme
from planner.architecture.spec import Architecture, Part
from planner.catalog.formats import GGUF_PREFIX, weight_format, weight_format_ids
from planner.errors import Note, Unsupported
from planner.memory.encoding import DTYPE_BYTES
from planner.memory.offload import Offload
from planner.memory.weights import (
    ExpertGroup,
    HostWeights,
    StoredWeights,
    stored_weights,
)
from planner.scenario import Parallelism

FAR_FRACTION = 0.05  # beyond it, file and formula can't mean the same model
_FLOATS = {"F64": 8.0, "F32": 4.0, "F16": 2.0, "BF16": 2.0}
_HALVES = frozenset({"F16", "BF16"})
_PLAIN = frozenset({"F32", "F16", "BF16"})


def own_format(checkpoint: CheckpointBytes | None, format_id: str) -> str:
    """The weight format that is meant: for a GGUF's "native", the file's own type.

    Raises:
        Unsupported: for a file type that the catalogue doesn't have, and for a format that can't be made from it.
    """
    if checkpoint is None or checkpoint.kind != "gguf":
        return format_id
    own = GGUF_PREFIX + checkpoint.file_type
    if own not in weight_format_ids():
        raise Unsupported(
            "gguf_file_type",
            field="model",
            type=checkpoint.file_type,
            nearest=tuple(name for name in weight_format_ids() if name.startswith(GGUF_PREFIX)),
        )
    if format_id in ("native", own):
        return own
    if checkpoint.file_type in _PLAIN or weight_format(format_id).kind == "dtype":
        return format_id
    raise Unsupported(
        "format_on_quantised_checkpoint",
        field="weights",
        format=format_id,
        checkpoint=own,
        nearest=("native",),
    )


@lru_cache(maxsize=1024)
def weights_by_checkpoint(
    architecture: Architecture,
    checkpoint: CheckpointBytes | None,
    format_id: str,
    parallelism: Parallelism,
    compute_dtype: str,
    *,
    include_mtp: bool = False,
    offload: Offload | None = None,
) -> StoredWeights:
    """`stored_weights`, with the files' bytes where they are known and the format is the files' own.

    Args:
        format_id: from `own_format`.

    Raises:
        As `stored_weights`.
    """
    stored = stored_weights(
        architecture,
        format_id,
        parallelism,
        compute_dtype,
        include_mtp=include_mtp,
        offload=offload,
    )
    if checkpoint is None or not _speaks_of(checkpoint, format_id, architecture):
        return stored
    kind = weight_format(format_id).kind
    dtype = format_id if kind == "dtype" else compute_dtype
    formula = _by_group(stored)
    loaded = _loaded(checkpoint, architecture, dtype, formula, include_mtp=include_mtp)
    total = sum(loaded.values()) or _total(
        checkpoint, architecture, format_id, dtype, stored, include_mtp=include_mtp
    )
    return _scaled(stored, checkpoint, formula, loaded, total, tied=architecture.tied)


def _speaks_of(checkpoint: CheckpointBytes, format_id: str, architecture: Architecture) -> bool:
    """Whether a format is the one that the files are in, a cast to another plain type included."""
    if checkpoint.kind == "gguf":
        return format_id == GGUF_PREFIX + checkpoint.file_type
    kind = weight_format(format_id).kind
    return kind == "native" or (kind == "dtype" and checkpoint_scheme(architecture) is None)


def _by_group(stored: StoredWeights) -> dict[Group, float]:
    sums: dict[Group, float] = {}
    for part, size in stored.by_part.items():
        group = group_of_part(part)
        sums[group] = sums.get(group, 0.0) + size
    return sums


def _loaded(
    checkpoint: CheckpointBytes,
    architecture: Architecture,
    dtype: str,
    formula: dict[Group, float],
    *,
    include_mtp: bool,
) -> dict[Group, float]:
    """Bytes by group as an engine holds them: unquantised tensors in the compute dtype, unused ones left out.

    Empty where only the checkpoint's total is known.
    """
    quantised = checkpoint_scheme(architecture) is not None
    main = _main_float(checkpoint)
    sums: dict[Group, float] = {}
    for share in checkpoint.shares:
        size = float(share.bytes)
        cast = share.dtype in _HALVES if quantised else share.dtype == main
        if cast and checkpoint.kind == "safetensors":
            size = share.elements * DTYPE_BYTES[dtype]
        sums[share.group] = sums.get(share.group, 0.0) + size
    if not include_mtp:
        sums.pop(Group.MTP, None)
    # Of a tied head some files hold a copy, which nothing loads.
    head = sums.get(Group.HEAD, 0.0)
    if head and (architecture.tied or not architecture.has_head):
        sums[Group.HEAD] = min(head, formula.get(Group.HEAD, 0.0))
    return sums


def _main_float(checkpoint: CheckpointBytes) -> str:
    """The unquantised type that most elements have: what an engine casts to its compute dtype."""
    counts: dict[str, int] = {}
    for share in checkpoint.shares:
        if share.dtype in _FLOATS:
            counts[share.dtype] = counts.get(share.dtype, 0) + share.elements
    return max(counts, key=lambda name: counts[name]) if counts else ""


def _total(
    checkpoint: CheckpointBytes,
    architecture: Architecture,
    format_id: str,
    dtype: str,
    stored: StoredWeights,
    *,
    include_mtp: bool,
) -> float:
    """The same of files of which only the total is known: cast, and without MTP layers where it holds any."""
    total = float(checkpoint.total_bytes)
    if checkpoint_scheme(architecture) is None:
        total *= DTYPE_BYTES[dtype] / DTYPE_BYTES[architecture.dtype]
    if architecture.mtp and not include_mtp:
        whole = stored_weights(architecture, format_id, Parallelism(), dtype, include_mtp=True)
        mtp = whole.by_part[Part.MTP]
        if total - stored.total_bytes > 0.5 * mtp:
            total -= mtp
    return total


def _scaled(
    stored: StoredWeights,
    checkpoint: CheckpointBytes,
    formula: dict[Group, float],
    loaded: dict[Group, float],
    total: float,
    *,
    tied: bool,
) -> StoredWeights:
    overall = total / stored.total_bytes
    ratios = dict.fromkeys(Group, overall)
    extra = 0.0
    if loaded and _names_are_understood(formula, loaded):
        ratios |= {group: loaded.get(group, 0.0) / size for group, size in formula.items() if size}
        extra = sum(size for group, size in loaded.items() if not formula.get(group))
    by_part = {part: size * ratios[group_of_part(part)] for part, size in stored.by_part.items()}
    if extra:
        by_part[Part.VISION] = by_part.get(Part.VISION, 0.0) + extra
    head = Group.EMBEDDING if tied else Group.HEAD
    read_formula = formula.get(Group.LAYERS, 0.0) + formula.get(head, 0.0)
    read_file = sum(formula.get(group, 0.0) * ratios[group] for group in (Group.LAYERS, head))
    difference = overall - 1.0
    code = "checkpoint_bytes_far" if abs(difference) > FAR_FRACTION else "checkpoint_bytes"
    note = Note(
        code,
        {
            "source": checkpoint.source,
            "file_bytes": checkpoint.total_bytes,
            "loaded_bytes": total,
            "formula_bytes": stored.total_bytes,
            "difference_fraction": difference,
        },
    )
    experts = ratios[Group.EXPERTS]
    return replace(
        stored,
        total_bytes=total,
        by_part=by_part,
        stage_bytes=tuple(size * overall for size in stored.stage_bytes),
        rank_bytes=stored.rank_bytes * overall,
        read_bytes_per_token_step=stored.read_bytes_per_token_step
        * (read_file / read_formula if read_formula else overall),
        encoder_read_bytes=stored.encoder_read_bytes * ratios[Group.LAYERS],
        experts=_scaled_experts(stored.experts, experts),
        host=_scaled_host(stored.host, overall, ratios, head),
        notes=(note, *stored.notes),
    )


def _scaled_experts(groups: tuple[ExpertGroup, ...], ratio: float) -> tuple[ExpertGroup, ...]:
    return tuple(
        replace(one, rank_bytes=one.rank_bytes * ratio, total_bytes=one.total_bytes * ratio)
        for one in groups
    )


def _scaled_host(
    host: HostWeights | None, overall: float, ratios: dict[Group, float], head: Group
) -> HostWeights | None:
    if host is None:
        return None
    layers = host.read_bytes_per_token_step - host.head_bytes
    experts = ratios[Group.EXPERTS]
    head_bytes = host.head_bytes * ratios[head]
    return replace(
        host,
        total_bytes=host.total_bytes * overall,
        head_bytes=head_bytes,
        staged_bytes=host.staged_bytes * (experts if host.experts else ratios[Group.LAYERS]),
        read_bytes_per_token_step=layers * ratios[Group.LAYERS] + head_bytes,
        experts=_scaled_experts(host.experts, experts),
    )


def _names_are_understood(formula: dict[Group, float], loaded: dict[Group, float]) -> bool:
    """Whether the files hold what they must by their tensors' names: else only their total is taken."""
    needed = {Group.EMBEDDING, Group.LAYERS, Group.EXPERTS, Group.HEAD}
    return all(bool(formula.get(group)) == bool(loaded.get(group)) for group in needed)
