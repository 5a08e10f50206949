"""How one matrix is stored, and one line of a table that says which engine has a kernel for it on which hardware."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from planner.catalog.loader import Source
from planner.errors import BadProfile

COMPUTE = "compute"  # products at the compute dtype's peak, whichever that is


class Hardware(Protocol):
    """What support is decided by; `planner.catalog.accelerators.Accelerator` has it."""

    @property
    def vendor(self) -> str: ...
    @property
    def architecture(self) -> str: ...
    @property
    def compute_capability(self) -> tuple[int, int] | None: ...
    def has_peak(self, dtype: str) -> bool:
        """Whether the hardware has units for a dtype."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one matrix of `rows` outputs and `columns` inputs is stored.

    Attributes:
        format_id: the format that this is, or is a variant of.
        bits: per weight, scales apart.
        group_rows, group_columns: block of weights that shares a scale; 0 spans the whole dimension.
        flat_group: weights of the flattened matrix that share a scale, where blocks run on over rows; else 0.
        scale_bits, zero_bits: per block.
        second_group, second_scale_bits: scales that share a scale of their own, and its size; 0 for none.
        column_bits: per input feature; tensor_bits: per matrix.
        compute: whose peak its products use: "compute" (the compute dtype), "fp8", "int8" or "fp4".
        separate_dequantisation: a step of several tokens first writes the matrix out in the compute dtype.
    """

    format_id: str
    bits: float
    group_rows: int = 0
    group_columns: int = 0
    flat_group: int = 0
    scale_bits: float = 0.0
    zero_bits: float = 0.0
    second_group: int = 0
    second_scale_bits: float = 0.0
    column_bits: float = 0.0
    tensor_bits: float = 0.0
    compute: str = COMPUTE
    separate_dequantisation: bool = False

    @property
    def bits_per_weight(self) -> float:
        """Bits per weight of a large matrix: payload, scales and zero points."""
        block = self.flat_group or self.group_rows * self.group_columns
        if not block:
            return self.bits
        second = self.second_scale_bits / self.second_group if self.second_group else 0.0
        return self.bits + (self.scale_bits + second + self.zero_bits) / block


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a support table; the first that matches the hardware decides."""

    vendor: str
    kernel: str
    compute: str
    note: str
    refused: bool
    capability: tuple[int, int] | None
    architectures: tuple[str, ...]
    peak: str

    def matches(self, hardware: Hardware) -> bool:
        """Whether this line speaks of the hardware; an unstated compute capability is newer than any."""
        if self.vendor not in ("any", hardware.vendor):
            return False
        known = hardware.compute_capability
        if self.capability and known is not None and known < self.capability:
            return False
        if self.architectures and not hardware.architecture.startswith(self.architectures):
            return False
        return not self.peak or hardware.has_peak(self.peak)


def read_rules(
    entries: Iterable[dict[str, Any]], sources: dict[str, Source], compute: str, file: str
) -> tuple[Rule, ...]:
    """Lines of a profile's support table, in order.

    Args:
        compute: peak that products use where a line doesn't say.

    Raises:
        BadProfile: for a line that no source covers.
    """
    rules = []
    for entry in entries:
        if entry.get("source") not in sources:
            raise BadProfile("profile_figure_without_source", file=file, key="support")
        capability = entry.get("capability")
        rules.append(
            Rule(
                vendor=str(entry["vendor"]),
                kernel=str(entry["kernel"]),
                compute=str(entry.get("compute", compute)),
                note=str(entry.get("note", "")),
                refused=bool(entry.get("refused", False)),
                capability=divmod(round(capability * 10), 10) if capability else None,
                architectures=tuple(entry.get("architectures", ())),
                peak=str(entry.get("peak", "")),
            )
        )
    return tuple(rules)


def first_rule(rules: Iterable[Rule], hardware: Hardware) -> Rule | None:
    """The line that decides for the hardware; None where none does or it says no."""
    rule = next((rule for rule in rules if rule.matches(hardware)), None)
    return None if rule is None or rule.refused else rule
