"""A device described by whoever has it, in place of a catalogue's accelerator: what was probed and measured there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from planner.catalog.accelerators import PEAK_KEYS, Accelerator
from planner.catalog.loader import Figure, Source
from planner.errors import InvalidInput, brief
from planner.quantity import Basis

DeviceKind = Literal["cuda", "rocm", "mps", "xpu", "cpu"]
PeakDtype = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4", "int4"]
CLASS_OF_CPU = "cpu"
VENDOR_OF_CPU = "CPU"  # what engines' rules call any processor, whoever made it


class Strict(BaseModel):
    """What a file from outside may hold: nothing unknown, nothing of another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def plain(text: object) -> object:
    """A text without letters that a terminal or a page would act on."""
    if not isinstance(text, str):
        return text
    return "".join(letter for letter in text if letter.isprintable())


def tidied(name: object) -> object:
    """A name as `plain` has it, without spaces at its ends, as long as one may be."""
    shown = plain(name)
    return shown.strip()[:MAX_NAME] if isinstance(shown, str) else shown


MAX_NAME = 80
Name = Annotated[str, BeforeValidator(tidied), Field(min_length=1, max_length=MAX_NAME)]
"""What a person calls a measurement or a calibration."""


def without_folders(path: object) -> object:
    """The last part of a file's path, whichever system wrote it, tidied; None where nothing is left."""
    if not isinstance(path, str):
        return path
    return tidied(path.replace("\\", "/").rpartition("/")[2]) or None


FileName = Annotated[str | None, BeforeValidator(without_folders)]
"""A file's name, never where it lies; None for none."""


def _day(text: str) -> str:
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise PydanticCustomError("entry_no_day", "date", {"given": brief(text)})


def _moment(text: str) -> str:
    """A day, or one with a time; of the ways in which ISO 8601 writes a day only the usual one."""
    try:
        if datetime.fromisoformat(text).date().isoformat() == text[:10]:
            return text
    except ValueError:
        pass
    raise PydanticCustomError("entry_no_moment", "date", {"given": brief(text)})


Plain = Annotated[str, BeforeValidator(plain)]
"""A text that can be shown as it is."""
Day = Annotated[str, AfterValidator(_day)]
"""YYYY-MM-DD."""
Moment = Annotated[str, AfterValidator(_moment)]
"""YYYY-MM-DD, or with a time as ISO 8601 has it."""


class DeviceEntry(Strict):
    """A device as a measurement found it. The limits are far from any that computes, however disturbed it was.

    Attributes:
        name: as the driver or the system has it; kind: how torch reaches it.
        vendor, architecture, compute_capability: of a GPU, where known.
        memory_usable_bytes: what a program can take of it (bytes).
        bandwidth_bytes_per_s: device memory, read rate reached (B/s).
        cache_bytes: last-level cache, where known (bytes).
        peaks: best matrix-product rate reached by dtype (FLOP/s; operations/s for integers).
        measured_on: date of the probe, YYYY-MM-DD.
    """

    name: Plain = Field(min_length=1, max_length=120)
    kind: DeviceKind
    vendor: Plain = Field(default="", max_length=40)
    architecture: Plain = Field(default="", max_length=80)
    compute_capability: str | None = Field(default=None, pattern=r"^\d{1,2}\.\d$")
    memory_usable_bytes: float = Field(ge=1e6, le=1e15, allow_inf_nan=False)
    bandwidth_bytes_per_s: float = Field(ge=1e7, le=1e15, allow_inf_nan=False)
    cache_bytes: float | None = Field(default=None, ge=1e3, le=1e12, allow_inf_nan=False)
    peaks: dict[PeakDtype, Annotated[float, Field(ge=1e6, le=1e18, allow_inf_nan=False)]] = Field(
        min_length=1
    )
    measured_on: Day

    @property
    def id(self) -> str:
        """The name as an id, which a calibration for the device goes by."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        return f"own-{slug}"


def parse_device(data: Mapping[str, Any], field: str = "device") -> DeviceEntry:
    """A device from untrusted data.

    Raises:
        InvalidInput: naming the first key that is wrong, and why.
    """
    try:
        return DeviceEntry.model_validate(data)
    except ValidationError as error:
        raise entry_error(error, "device_bad_entry", field) from None


# What pydantic finds wrong, by the word that says it in each language.
WRONG = {
    "entry_missing": ("missing",),
    "entry_unknown": ("extra_forbidden",),
    "entry_above": ("greater_than",),
    "entry_at_least": ("greater_than_equal",),
    "entry_below": ("less_than",),
    "entry_at_most": ("less_than_equal",),
    "entry_not_finite": ("finite_number",),
    "entry_longer": ("too_long", "string_too_long"),
    "entry_shorter": ("too_short", "string_too_short"),
    "entry_pattern": ("string_pattern_mismatch",),
    "entry_not_listed": ("literal_error",),
}
OWN = "entry_"  # what a validator here finds wrong, by its word
KINDS = ("int_", "float_", "string_", "bool_", "list_", "dict_", "model_")
LIMITS = ("gt", "ge", "lt", "le", "min_length", "max_length")
QUOTED = re.compile(r"'([^']*)'")


def entry_error(error: ValidationError, code: str, field: str) -> InvalidInput:
    """The first thing that is wrong in a file from outside, as a refusal: what was given, and what may be.

    What was given isn't among it where a validator here says what is wrong: an address may hold a secret.
    """
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"] if part != "[key]")[:120]
    kind, context = str(first["type"]), first.get("ctx", {})
    if kind.startswith(OWN):
        values = {"reason": kind, **context}
        return InvalidInput(code, field=field, key=key or "-", **values)
    word = next((word for word, kinds in WRONG.items() if kind in kinds), None)
    word = word or ("entry_kind" if kind.startswith(KINDS) else None)
    if word is None:
        reason = str(first["msg"]).removeprefix("Value error, ")[:200]
        return InvalidInput(code, field=field, key=key or "-", reason=reason)
    expected = str(context.get("expected", ""))
    of_length = kind.endswith(("_long", "_short"))
    return InvalidInput(
        code,
        field=field,
        key=key or "-",
        reason=word,
        given="" if of_length else brief(first.get("input")),
        allowed=tuple(QUOTED.findall(expected)) or (expected,),
        limit=next((context[name] for name in LIMITS if name in context), None),
    )


@lru_cache(maxsize=64)
def device_from(text: str) -> Accelerator:
    """The accelerator that a device's data, as canonical JSON text, describes; one object for one text.

    Its rates are those that were reached, so that an efficiency counts as a part of them.

    Raises:
        InvalidInput: as `parse_device`.
    """
    entry = parse_device(json.loads(text))
    source = Source("own-probe", entry.name, "", entry.measured_on, "measured")

    def measured(value: float) -> Figure:
        return Figure(value, source, Basis.MEASURED)

    figures = {
        "memory_sold_bytes": measured(entry.memory_usable_bytes),
        "memory_usable_bytes": measured(entry.memory_usable_bytes),
        "bandwidth_bytes_per_s": measured(entry.bandwidth_bytes_per_s),
        **{PEAK_KEYS[dtype]: measured(rate) for dtype, rate in entry.peaks.items()},
    }
    if entry.cache_bytes is not None:
        figures["l2_bytes"] = measured(entry.cache_bytes)
    capability = entry.compute_capability
    on_cpu = entry.kind == "cpu"
    return Accelerator(
        id=entry.id,
        name=entry.name,
        vendor=VENDOR_OF_CPU if on_cpu else entry.vendor,
        architecture=entry.architecture,
        compute_capability=(int(capability[:-2]), int(capability[-1])) if capability else None,
        year=int(entry.measured_on[:4]),
        accelerator_class=CLASS_OF_CPU if on_cpu else "own",
        form_factor="",
        memory_type="",
        ecc=False,
        interconnect="none",
        fp16_accumulate="fp32" if "fp16" in entry.peaks else None,
        confidence="high",
        unified=None,
        figures=figures,
        unverified=frozenset(),
        disagreeing={},
        aliases=(),
        notes="",
        memory_sold_bytes=entry.memory_usable_bytes,
        memory_usable_bytes=entry.memory_usable_bytes,
        bandwidth_bytes_per_s=entry.bandwidth_bytes_per_s,
        peaks={str(dtype): rate for dtype, rate in entry.peaks.items()},
        tdp_w=None,
        l2_bytes=entry.cache_bytes,
        sm_count=None,
        link_bidirectional_bytes_per_s=None,
    )
