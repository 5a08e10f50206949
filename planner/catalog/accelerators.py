"""Accelerators as typed facts: memory, bandwidth, peaks and links, one profile each, and all of them as arrays.

"Sold" is the size on the box in decimal bytes, "driver" what the driver lists, "usable" what CUDA or an engine sees and
multiplies by its utilisation. Peaks are dense; fp16's is the rate with the accumulation that engines use.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import numpy as np

from planner.catalog.accelerator_profile import FigureKey, UnifiedMemoryEntry, parse_profile
from planner.catalog.files import profile_ids
from planner.catalog.loader import (
    Figure,
    Source,
    read_figures,
    read_sources,
    read_yaml,
    require,
)
from planner.catalog.search import nearest, read_index, resolve
from planner.catalog.usable_memory import derive_usable
from planner.errors import MissingFigure, UnknownItem
from planner.quantity import GB, GIB, Basis, FloatArray

FIGURE_KEYS: tuple[str, ...] = get_args(FigureKey)
PEAK_KEYS = {
    "fp32": "peak_fp32_flops_per_s",
    "tf32": "peak_tf32_flops_per_s",
    "fp16": "peak_fp16_flops_per_s",
    "fp16_fp16acc": "peak_fp16_fp16acc_flops_per_s",
    "bf16": "peak_bf16_flops_per_s",
    "fp8": "peak_fp8_flops_per_s",
    "fp8_fp16acc": "peak_fp8_fp16acc_flops_per_s",
    "int8": "peak_int8_ops_per_s",
    "fp4": "peak_fp4_flops_per_s",
    "int4": "peak_int4_ops_per_s",
}
# One direction, after line coding: 128b/130b up to generation 5, 242 of 256 bytes per FLIT in 6.
PCIE_BYTES_PER_S_PER_LANE = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
SIZE_AT_END = re.compile(r"(?P<base>.+?)[\s_-]*(?:@\s*)?(?P<size>\d+)\s*(?:gi?b)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MemoryOption:
    """A size of shared memory that a part is sold with.

    Attributes:
        memory_bytes: all of it, shared with the processor (bytes).
        gpu_limit_fraction: share that the system lets the GPU take.
        source, basis: of the fraction.
    """

    memory_bytes: float
    gpu_limit_fraction: float
    source: Source
    basis: Basis

    @property
    def size_gib(self) -> int:
        """The number on the box, which counts GiB."""
        return round(self.memory_bytes / GIB)

    @property
    def usable(self) -> Figure:
        """What the system lets the GPU take (bytes)."""
        value = self.memory_bytes * self.gpu_limit_fraction
        return Figure(value, self.source, self.basis, "unified_limit")


@dataclass(frozen=True, slots=True)
class UnifiedMemory:
    """Memory shared with the processor: the sizes there are, largest last, and what holds for the limit.

    Attributes:
        source: of the list of sizes.
    """

    options: tuple[MemoryOption, ...]
    source: Source
    note: str


@dataclass(frozen=True, slots=True, eq=False)
class Accelerator:
    """One accelerator; where a board shows as several devices, its notes say so.

    Attributes:
        accelerator_class: datacenter, workstation, consumer, unified, edge or cloud.
        compute_capability: CUDA's, (major, minor), or None.
        fp16_accumulate: type that `peak_fp16_flops_per_s` accumulates in; None where fp16 isn't native.
        interconnect: "none", "pcie", or the link to its peers ("nvlink4", "nvlink3-bridge", "xgmi").
        confidence: how well the profile as a whole is sourced: high, medium or low.
        unified: set where the memory is the system's.
        figures: every figure of the profile by key, usable memory included.
        unverified: keys that no second source confirmed.
        disagreeing: by key, what another source says.
        memory_sold_bytes, memory_usable_bytes: (bytes); bandwidth_bytes_per_s: device memory (B/s).
        peaks: dense peak by dtype ("bf16"), FLOP/s or operations/s.
        tdp_w, l2_bytes, sm_count, link_bidirectional_bytes_per_s: None where the profile doesn't state it; the link's
            rate is per device, both directions together.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    compute_capability: tuple[int, int] | None
    year: int
    accelerator_class: str
    form_factor: str
    memory_type: str
    ecc: bool
    interconnect: str
    fp16_accumulate: str | None
    confidence: str
    unified: UnifiedMemory | None
    figures: dict[str, Figure]
    unverified: frozenset[str]
    disagreeing: dict[str, str]
    aliases: tuple[str, ...]
    notes: str
    memory_sold_bytes: float
    memory_usable_bytes: float
    bandwidth_bytes_per_s: float
    peaks: dict[str, float]
    tdp_w: float | None
    l2_bytes: float | None
    sm_count: float | None
    link_bidirectional_bytes_per_s: float | None

    def figure(self, key: str) -> Figure:
        """The figure under `key` (FIGURE_KEYS), with source and basis.

        Raises:
            MissingFigure: where the profile doesn't state it.
        """
        return require(self.figures, key, self.id)

    def value(self, key: str) -> float:
        """The figure's number, in the unit that `key` ends with; raises MissingFigure."""
        return self.figure(key).value

    def has(self, key: str) -> bool:
        """True where the profile states the figure."""
        return key in self.figures

    @property
    def memory_usable(self) -> Figure:
        """Usable memory with its basis: measured, or `transferred` where a rule gives it (usable_memory)."""
        return self.figures["memory_usable_bytes"]

    def peak_flops_per_s(self, dtype: str) -> float:
        """Dense peak for a dtype of PEAK_KEYS (FLOP/s; operations/s for int8 and int4).

        Raises:
            MissingFigure: where the hardware has no such unit, or no source gives its rate.
        """
        peak = self.peaks.get(dtype)
        if peak is None:
            raise MissingFigure(self.id, PEAK_KEYS.get(dtype, f"peak_{dtype}_flops_per_s"))
        return peak

    def has_peak(self, dtype: str) -> bool:
        """True where `peak_flops_per_s` answers."""
        return dtype in self.peaks

    @property
    def link_bytes_per_s(self) -> float:
        """Rate to its peers in one direction (B/s): half of the link's, else PCIe's after line coding.

        Raises:
            MissingFigure: where there is neither.
        """
        if self.link_bidirectional_bytes_per_s is not None:
            return self.link_bidirectional_bytes_per_s / 2.0
        return self.pcie_bytes_per_s

    @property
    def pcie_bytes_per_s(self) -> float:
        """PCIe's rate to the host in one direction, after line coding (B/s); raises MissingFigure."""
        generation = int(self.value("pcie_gen"))
        return PCIE_BYTES_PER_S_PER_LANE[generation] * self.value("pcie_lanes")

    @property
    def shared_sizes_gib(self) -> tuple[int, ...]:
        """Sizes to choose from where memory is shared (`id@64` chooses one), else empty."""
        return tuple(option.size_gib for option in self.unified.options) if self.unified else ()


def _unified(entry: UnifiedMemoryEntry | None, sources: dict[str, Source]) -> UnifiedMemory | None:
    if entry is None:
        return None
    options = [
        MemoryOption(
            one.memory_bytes,
            one.gpu_limit_fraction,
            sources[one.source],
            Basis[one.basis.upper()],
        )
        for one in entry.options
    ]
    options.sort(key=lambda one: one.memory_bytes)
    return UnifiedMemory(tuple(options), sources[entry.source], entry.note)


def accelerator_from(data: dict[str, Any], file: str) -> Accelerator:
    """An accelerator from a profile's data; of a part with shared memory the one with the largest size.

    Raises:
        BadProfile: where the data breaks the schema, or a figure has no source.
    """
    profile = parse_profile(data, file)
    figures = read_figures(data, file)
    unified = _unified(profile.unified_memory, read_sources(data, file))
    if "memory_usable_bytes" not in figures:
        figures["memory_usable_bytes"] = (
            unified.options[-1].usable if unified else derive_usable(profile.vendor, figures)
        )
    values = {key: figure.value for key, figure in figures.items()}
    capability = profile.compute_capability
    return Accelerator(
        id=profile.id,
        name=profile.name,
        vendor=profile.vendor,
        architecture=profile.architecture,
        compute_capability=(int(capability[:-2]), int(capability[-1])) if capability else None,
        year=profile.year,
        accelerator_class=profile.accelerator_class,
        form_factor=profile.form_factor,
        memory_type=profile.memory_type,
        ecc=profile.ecc,
        interconnect=profile.interconnect,
        fp16_accumulate=profile.fp16_accumulate,
        confidence=profile.confidence,
        unified=unified,
        figures=figures,
        unverified=frozenset(profile.unverified),
        disagreeing={str(key): text for key, text in profile.disagreeing.items()},
        aliases=tuple(profile.aliases),
        notes=profile.notes,
        memory_sold_bytes=values["memory_sold_bytes"],
        memory_usable_bytes=values["memory_usable_bytes"],
        bandwidth_bytes_per_s=values["bandwidth_bytes_per_s"],
        peaks={dtype: values[key] for dtype, key in PEAK_KEYS.items() if key in values},
        tdp_w=values.get("tdp_w"),
        l2_bytes=values.get("l2_bytes"),
        sm_count=values.get("sm_count"),
        link_bidirectional_bytes_per_s=values.get("link_bidirectional_bytes_per_s"),
    )


@lru_cache(maxsize=512)
def _whole(id_: str) -> Accelerator:
    """The accelerator of exactly this id, with its largest size of memory."""
    file = f"accelerators/{id_}.yaml"
    return accelerator_from(read_yaml(file), file)


@lru_cache(maxsize=512)
def _with_size(id_: str, size_gib: int) -> Accelerator | None:
    """The same part with another size of shared memory, or None where it isn't sold with that."""
    part = _whole(id_)
    if part.unified is None:
        return part if size_gib == round(part.memory_sold_bytes / GB) else None
    for option in part.unified.options:
        if option.size_gib == size_gib:
            sold = Figure(size_gib * GB, part.unified.source)
            memory = {"memory_sold_bytes": sold, "memory_usable_bytes": option.usable}
            return dataclasses.replace(
                part,
                id=f"{id_}@{size_gib}",
                figures=part.figures | memory,
                memory_sold_bytes=sold.value,
                memory_usable_bytes=option.usable.value,
            )
    return None


@lru_cache(maxsize=2048)
def accelerator(id_or_alias: str) -> Accelerator:
    """The accelerator of that id or name, whatever its case and punctuation.

    A part with shared memory has its largest size; "apple-m4-max-40c@64" or "m4 max 64gb" chooses another.

    Raises:
        UnknownItem: where the name is unknown or could mean several; `values['nearest']` lists close ids.
        BadProfile: where its profile doesn't load.
    """
    if id_ := resolve("accelerator", id_or_alias):
        return _whole(id_)
    close: tuple[str, ...] = ()
    sized = SIZE_AT_END.fullmatch(id_or_alias.strip())
    if sized and (id_ := resolve("accelerator", sized["base"])):
        if part := _with_size(id_, int(sized["size"])):
            return part
        if sizes := _whole(id_).shared_sizes_gib:
            close = tuple(f"{id_}@{size}" for size in sizes)
    raise UnknownItem(
        "accelerator", id_or_alias, close or nearest("accelerator", id_or_alias), field="gpu"
    )


def accelerator_ids() -> tuple[str, ...]:
    """All ids, from the index: no profile is read."""
    return tuple(entry.id for entry in read_index("accelerator"))


@dataclass(frozen=True, slots=True, eq=False)
class AcceleratorTable:
    """All accelerators as arrays for a sweep; NaN where a profile doesn't state a figure.

    Attributes:
        ids, accelerators: in the arrays' order.
        figures: by key of FIGURE_KEYS, an array of the accelerators' length, in the key's unit.
    """

    ids: tuple[str, ...]
    accelerators: tuple[Accelerator, ...]
    figures: dict[str, FloatArray]

    @property
    def memory_usable_bytes(self) -> FloatArray:
        """Usable memory, stated or derived (bytes); never NaN."""
        return self.figures["memory_usable_bytes"]

    @property
    def bandwidth_bytes_per_s(self) -> FloatArray:
        """Device memory's bandwidth (B/s); never NaN."""
        return self.figures["bandwidth_bytes_per_s"]

    def peak_flops_per_s(self, dtype: str) -> FloatArray:
        """Dense peaks for a dtype of PEAK_KEYS (FLOP/s or operations/s), NaN where there is none."""
        return self.figures[PEAK_KEYS[dtype]]


@lru_cache(maxsize=1)
def accelerator_table() -> AcceleratorTable:
    """Every accelerator of the catalogue, read once."""
    ids = accelerator_ids()
    parts = tuple(accelerator(id_) for id_ in ids)
    figures: dict[str, FloatArray] = {}
    for key in FIGURE_KEYS:
        column = [part.figures[key].value if key in part.figures else np.nan for part in parts]
        figures[key] = np.array(column, dtype=np.float64)
        figures[key].setflags(write=False)
    return AcceleratorTable(ids, parts, figures)


def index_entries() -> list[dict[str, Any]]:
    """What the generated index holds of each accelerator: id, name, aliases and what lists and filters show.

    Raises:
        BadProfile: for the first profile that doesn't load.
    """
    entries = []
    for id_ in profile_ids("accelerators"):
        part = _whole(id_)
        entries.append(
            {
                "id": part.id,
                "name": part.name,
                "aliases": list(part.aliases),
                "vendor": part.vendor,
                "architecture": part.architecture,
                "class": part.accelerator_class,
                "year": part.year,
                "memory_sold_bytes": part.memory_sold_bytes,
                "shared_sizes_gib": list(part.shared_sizes_gib),
                "bandwidth_bytes_per_s": part.bandwidth_bytes_per_s,
            }
        )
    return entries
