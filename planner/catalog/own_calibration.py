"""A calibration of somebody's own: constants fitted to runs on one device, laid over those that are shipped.

It holds for the device, the engine and the kinds of weights that were measured, and for nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from planner.catalog.accelerators import Accelerator
from planner.catalog.accelerators import accelerator as catalogue_accelerator
from planner.catalog.calibration_constants import Shelf, calibration_data, weights_kind
from planner.catalog.calibrations import Calibration, Fit, build_calibration, calibration_for
from planner.catalog.devices import Day, Name, Plain, Strict, entry_error
from planner.catalog.engine_profiles import engine_ids
from planner.errors import InvalidInput, Note, UnknownItem, brief
from planner.quantity import Basis

MAX_CONSTANTS = 200
MAX_FILES = 8
# Runs of one or two shapes say little about how far other shapes lie from the model's form; few leave more open.
LEAST_BAND = 0.15
FEW = 3.0  # runs: so many leave the least range twice as wide
EFFICIENCY, SECONDS, TIMES = (0.001, 1.0), (1e-9, 0.1), (1e-3, 50.0)
"""Physical ranges of constants: parts of a rate, host times, and multiples of something else."""
RANGES = {
    **dict.fromkeys(
        (
            "weights",
            "expert_weights",
            "cache",
            "compute",
            "prefill",
            "attention",
            "prefill_attention",
        ),
        EFFICIENCY,
    ),
    **dict.fromkeys(("experts", "prefill_experts"), EFFICIENCY),
    **dict.fromkeys(
        ("step_s", "layer_s", "sequence_s", "latent_layer_s", "indexed_layer_s"), SECONDS
    ),
    **dict.fromkeys(("expert_layer_s", "host_layer_s", "prefill_layer_s"), SECONDS),
    **dict.fromkeys(("prefill_sequence_s", "prefill_mixer_layer_s"), SECONDS),
    **dict.fromkeys(("cache_traffic", "cache_repeats", "prefill_steps"), TIMES),
    **dict.fromkeys(("prefill_interference", "prefill_wave"), TIMES),
}
Fraction = Field(ge=0, allow_inf_nan=False)


def _known(given: str, known: Collection[str]) -> str:
    """What is given, where it's one of those that are known; else a refusal that says which are."""
    if given in known:
        return given
    shown = {"given": brief(given), "allowed": tuple(sorted(known))}
    raise PydanticCustomError("entry_not_listed", "one of a list", shown)


def _an_engine(given: str) -> str:
    return _known(given, engine_ids())


def _a_kind(given: str) -> str:
    return _known(given, set(calibration_data("index")["formats"].values()))


class OwnConstant(Strict):
    """A fitted constant, in the unit that its key ends with.

    Attributes:
        deviation: standard deviation of its logarithm.
        identified_fraction: how much narrower the runs made it than what is shipped alone, 0 to 1.
        at_bound: it lies at the end of its physical range, so that the runs don't identify it.
    """

    value: float = Field(gt=0, le=1e6, allow_inf_nan=False)
    deviation: float = Fraction
    identified_fraction: float = Field(ge=0, le=1, allow_inf_nan=False)
    at_bound: bool


class OwnWorse(Strict):
    """A group of runs that the fit predicts clearly worse than what is shipped.

    Attributes:
        by: the field of their scenarios that makes them a group; low, high: its smallest and largest value there.
        rows: runs; before_fraction, after_fraction: as in OwnError.
    """

    by: Literal["concurrency", "input_tokens"]
    low: int = Field(ge=1)
    high: int = Field(ge=1)
    rows: int = Field(ge=1, le=100_000)
    before_fraction: float = Fraction
    after_fraction: float = Fraction


class OwnError(Strict):
    """How far predictions of one figure lay from what was measured, before and after the fit.

    Attributes:
        rows: runs.
        before_fraction, after_fraction: median absolute relative error with the shipped constants and with these.
        low_fraction, high_fraction: 80 % range of measured / predicted − 1 on runs that the fit hadn't seen.
        worse: groups among these runs that got worse, whatever the medians say.
    """

    rows: int = Field(ge=2, le=100_000)
    before_fraction: float = Fraction
    after_fraction: float = Fraction
    low_fraction: float = Field(gt=-1, le=0, allow_inf_nan=False)
    high_fraction: float = Field(ge=0, le=100, allow_inf_nan=False)
    worse: list[OwnWorse] = Field(default_factory=list, max_length=2)


class OwnCalibration(Strict):
    """What a fit to somebody's own runs found.

    Attributes:
        name, date: what its figures are called by; date as YYYY-MM-DD.
        accelerator: id that it holds for: the catalogue's, or a described device's.
        engine, engine_version: that ran.
        kinds: kinds of weights that ran (`weights_kind`); experts: a mixture of experts was among the models.
        constants: by calibration file and key.
        tpot, ttft: errors; None where the figure wasn't measured.
        disturbed: something else was at work on the machine meanwhile.
    """

    schema_version: Literal[1]
    name: Name
    date: Day
    accelerator: Plain = Field(min_length=1, max_length=160)
    engine: Annotated[str, AfterValidator(_an_engine)]
    engine_version: Plain = Field(max_length=40)
    kinds: list[Annotated[str, AfterValidator(_a_kind)]] = Field(min_length=1, max_length=20)
    experts: bool
    constants: dict[str, dict[str, OwnConstant]] = Field(max_length=MAX_FILES)
    tpot: OwnError | None
    ttft: OwnError | None
    disturbed: bool = False

    @model_validator(mode="after")
    def _says_something(self) -> OwnCalibration:
        if self.tpot is None and self.ttft is None:
            raise ValueError("neither tpot nor ttft was measured")
        count = sum(len(entries) for entries in self.constants.values())
        if not 0 < count <= MAX_CONSTANTS:
            raise ValueError(f"{count} constants, not 1 to {MAX_CONSTANTS}")
        for file, entries in self.constants.items():
            if file not in _files():
                raise ValueError(f"no calibration file {file[:40]}")
            for key, constant in entries.items():
                _require_possible(key, constant.value)
        return self


def _files() -> frozenset[str]:
    """The files that constants can be laid over."""
    rules = calibration_data("index")["rules"]
    return frozenset({"joint", "accelerator-classes", *(str(rule["use"]) for rule in rules)})


def _require_possible(key: str, value: float) -> None:
    """Raises ValueError for a constant that no fit produces: of no class, of no known name, or out of its range."""
    _, _, name = key.partition(".")
    low, high = RANGES.get(name.partition(".")[0], (1.0, 0.0))
    if low > high:
        raise ValueError(f"no constant {key[:60]}")
    if not low <= value <= high:
        raise ValueError(f"{key[:60]} is outside {low:g} to {high:g}")


def least_band(rows: int) -> float:
    """The narrowest that a range either side may be after so many runs (fraction)."""
    return LEAST_BAND * (1.0 + FEW / rows)


def parse_own_calibration(data: Mapping[str, Any], field: str = "calibration") -> OwnCalibration:
    """A calibration from untrusted data.

    Raises:
        InvalidInput: naming the first key that is wrong, and why.
    """
    try:
        return OwnCalibration.model_validate(data)
    except ValidationError as error:
        raise entry_error(error, "calibration_bad_entry", field) from None


@lru_cache(maxsize=64)
def own_calibration_from(text: str) -> OwnCalibration:
    """The calibration of a canonical JSON text; raises InvalidInput."""
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise InvalidInput("calibration_bad_entry", field="calibration", key="-", reason="JSON")
    return parse_own_calibration(data)


def holds_for(own: OwnCalibration, accelerator_id: str, engine: str, weights_format: str) -> bool:
    """Whether the calibration was made on this device, with this engine and this kind of weights."""
    same_card = own.accelerator.partition("@")[0] == accelerator_id.partition("@")[0]
    return same_card and own.engine == engine and weights_kind(weights_format) in own.kinds


def is_another_version(own: OwnCalibration, version: str) -> bool:
    """Whether the engine that ran is another release than the one asked for; an unknown one counts as the same."""
    ran, asked = (re.findall(r"\d+", text)[:2] for text in (own.engine_version, version))
    return bool(ran and asked) and ran != asked


@lru_cache(maxsize=512)
def _shelf(text: str) -> Shelf:
    own = own_calibration_from(text)
    return Shelf(
        values={
            file: {key: constant.value for key, constant in entries.items()}
            for file, entries in own.constants.items()
        }
    )


@lru_cache(maxsize=512)
def _called(id_: str, current: Accelerator) -> str:
    """What people call the accelerator of an id; of a described device that isn't the current one, its id's words."""
    if id_.partition("@")[0] == current.id.partition("@")[0]:
        return current.name
    try:
        return catalogue_accelerator(id_).name
    except UnknownItem:
        return id_.removeprefix("own-").replace("-", " ")


def own_calibration_for(
    text: str,
    engine: str,
    accelerator: Accelerator,
    weights_format: str,
    *,
    model_type: str = "",
    experts: bool = False,
    version: str = "",
) -> Calibration:
    """The shipped constants with somebody's own over them, and the ranges that their own runs justify.

    A figure that wasn't measured keeps its shipped basis and range; a mixture of experts where only dense models ran,
    or another version of the engine, is `transferred` at best, with a range twice as wide.

    Args:
        text: the calibration as canonical JSON text; the other arguments as in `calibration_for`.

    Raises:
        InvalidInput: where the text isn't a calibration.
        BadProfile, MissingFigure: as `calibration_for`.
    """
    own = own_calibration_from(text)
    shipped = build_calibration(
        engine, accelerator, weights_format, model_type, experts, version, _shelf(text)
    )
    carried = (experts and not own.experts) or is_another_version(own, version)
    basis = Basis.TRANSFERRED if carried else Basis.CALIBRATED
    width = 2.0 if carried else 1.0

    def band(error: OwnError) -> tuple[float, float]:
        least = least_band(error.rows)
        low, high = min(error.low_fraction, -least), max(error.high_fraction, least)
        return max(low * width, -0.95), high * width

    changes: dict[str, Any] = {}
    if own.tpot is not None:
        changes |= {"basis": basis, "tpot_band": band(own.tpot)}
    if own.ttft is not None:
        changes |= {"ttft_basis": basis, "ttft_band": band(own.ttft)}
    return replace(
        shipped,
        id=own.name,
        own=True,
        fit=Fit(
            rows=own.tpot.rows if own.tpot else 0,
            median_error_fraction=own.tpot.after_fraction if own.tpot else None,
            held_out_error_fraction=None,
            first_token_rows=own.ttft.rows if own.ttft else 0,
            first_token_error_fraction=own.ttft.after_fraction if own.ttft else None,
        ),
        **changes,
    )


def chosen_calibration(
    text: str | None,
    engine: str,
    accelerator: Accelerator,
    weights_format: str,
    *,
    model_type: str,
    experts: bool,
    version: str,
) -> tuple[Calibration, tuple[Note, ...]]:
    """The shipped constants, or somebody's own where they were measured on this; and a note that says which.

    Args:
        text: somebody's calibration as canonical JSON text, or None; the other arguments as in `calibration_for`.

    Raises:
        InvalidInput: where the text isn't a calibration.
        BadProfile, MissingFigure: as `calibration_for`.
    """
    notes: tuple[Note, ...] = ()
    if text is not None:
        own = own_calibration_from(text)
        values: dict[str, object] = {"name": own.name, "date": own.date}
        if holds_for(own, accelerator.id, engine, weights_format):
            found = own_calibration_for(
                text,
                engine,
                accelerator,
                weights_format,
                model_type=model_type,
                experts=experts,
                version=version,
            )
            said = [Note("own_calibration", values)]
            if own.tpot is None or own.ttft is None:
                code = "own_calibration_no_tpot" if own.tpot is None else "own_calibration_no_ttft"
                said.append(Note(code))
            if own.disturbed:
                said.append(Note("own_calibration_disturbed"))
            if is_another_version(own, version):
                versions = {"measured": own.engine_version, "version": version}
                said.append(Note("own_calibration_other_version", {**values, **versions}))
            return found, tuple(said)
        where: dict[str, object] = {
            "accelerator": _called(own.accelerator, accelerator),
            "engine": own.engine,
            "kinds": tuple(own.kinds),
        }
        notes = (Note("own_calibration_elsewhere", values | where),)
    shipped = calibration_for(
        engine,
        accelerator,
        weights_format,
        model_type=model_type,
        experts=experts,
        version=version,
    )
    return shipped, notes
