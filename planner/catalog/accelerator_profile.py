"""What an accelerator's YAML file may hold; anything else, or a figure that isn't a number, doesn't load."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from planner.errors import BadProfile

FigureKey = Literal[
    "memory_sold_bytes",
    "memory_driver_bytes",
    "memory_usable_bytes",
    "bandwidth_bytes_per_s",
    "peak_fp32_flops_per_s",
    "peak_tf32_flops_per_s",
    "peak_fp16_flops_per_s",
    "peak_fp16_fp16acc_flops_per_s",
    "peak_bf16_flops_per_s",
    "peak_fp8_flops_per_s",
    "peak_fp8_fp16acc_flops_per_s",
    "peak_int8_ops_per_s",
    "peak_fp4_flops_per_s",
    "peak_int4_ops_per_s",
    "tdp_w",
    "l2_bytes",
    "sm_count",
    "link_bidirectional_bytes_per_s",
    "pcie_gen",
    "pcie_lanes",
]
AcceleratorClass = Literal["datacenter", "workstation", "consumer", "unified", "edge", "cloud"]
BasisName = Literal["exact", "measured", "transferred", "assumed"]
REQUIRED = ("memory_sold_bytes", "bandwidth_bytes_per_s")


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class FigureEntry(Strict):
    """A figure that differs from the file's default in source or basis."""

    value: float = Field(gt=0, allow_inf_nan=False)
    source: str | None = None
    basis: BasisName = "exact"
    note: str = ""


class SourceEntry(Strict):
    id: str
    title: str
    url: str
    date: str
    kind: str


class MemoryOptionEntry(Strict):
    """One size that a part with shared memory is sold with, and the share of it that the system lets a GPU take."""

    memory_bytes: float = Field(gt=0)
    gpu_limit_fraction: float = Field(gt=0, le=1)
    source: str
    basis: BasisName


class UnifiedMemoryEntry(Strict):
    source: str
    options: list[MemoryOptionEntry] = Field(min_length=1)
    note: str


class AcceleratorProfile(Strict):
    """One file under profiles/accelerators."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    name: str
    vendor: str
    aliases: list[str]
    architecture: str
    compute_capability: str | None = Field(pattern=r"^\d+\.\d$")
    year: int = Field(ge=2000, le=2100)
    accelerator_class: AcceleratorClass = Field(alias="class")
    form_factor: str
    memory_type: str
    ecc: bool
    interconnect: str
    fp16_accumulate: Literal["fp16", "fp32"] | None
    unified_memory: UnifiedMemoryEntry | None
    confidence: Literal["high", "medium", "low"]
    source: str
    figures: dict[FigureKey, FigureEntry | float]
    unverified: list[FigureKey]
    disagreeing: dict[FigureKey, str]
    notes: str
    sources: list[SourceEntry] = Field(min_length=1)

    @model_validator(mode="after")
    def _figures_and_sources_fit(self) -> AcceleratorProfile:
        known = {source.id for source in self.sources}
        if self.source not in known:
            raise ValueError(f"no source {self.source}")
        for key in REQUIRED:
            if key not in self.figures:
                raise ValueError(f"no {key}")
        for key, figure in self.figures.items():
            if isinstance(figure, float) and not 0 < figure < float("inf"):
                raise ValueError(f"{key} is not above zero")
        if missing := set(self.unverified) - set(self.figures):
            raise ValueError(f"unverified but not stated: {missing}")
        if self.unified_memory:
            used = {self.unified_memory.source, *(o.source for o in self.unified_memory.options)}
            if missing_sources := used - known:
                raise ValueError(f"no source {missing_sources}")
        return self


def parse_profile(data: dict[str, Any], file: str) -> AcceleratorProfile:
    """The profile checked against the schema.

    Raises:
        BadProfile: naming the file, the first key that is wrong, and why.
    """
    try:
        profile = AcceleratorProfile.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadProfile("profile_bad_schema", file=file, key=key, reason=first["msg"]) from error
    if file.rpartition("/")[2] != f"{profile.id}.yaml":
        raise BadProfile("profile_bad_schema", file=file, key="id", reason="not the file's name")
    return profile
