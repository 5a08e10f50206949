"""A measurement as a file: what ran where, under which conditions, what came of it, and the calibration it gave.

One JSON document, written by `measure`, by the readers of other tools' results and by the endpoint benchmark, and read
by the page, the store and `calibrate`. It comes from outside as often as not, so that it is checked as such.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from planner.architecture.read_config import holds_half_a_pair, parse_config
from planner.catalog.devices import DeviceEntry, FileName, Moment, Name, Plain, Strict, entry_error
from planner.catalog.measurements import (
    OF_REASONS,
    POISSON,
    QUANTITIES,
    RATE,
    Measurement,
    require_in_range,
    sane_range,
)
from planner.catalog.own_calibration import OwnCalibration, parse_own_calibration
from planner.errors import InvalidInput, brief
from planner.scenario import Scenario

MAX_BYTES = 8_000_000
MAX_ROWS = 5_000
ROUNDING = 1e-9  # of a median or its ends
DRIFT = "drift"  # the reason of a machine that changed by itself
FEWEST = 2  # runs of a figure, for constants to be fitted to it
MOST_DIGITS = 20  # of a whole number that is read as one
# Of arrivals at random fewer don't reach a steady state, nor does a server that finishes a smaller share of what comes:
# its queue grew.
LEAST_ARRIVALS, KEPT_UP = 30, 0.7
# What a calibration alone is told by.
ALONE = ("accelerator", "engine", "kinds", "constants")
RecordQuantity = Literal[
    "tpot_s",
    "ttft_s",
    "itl_s",
    "e2e_s",
    "prefill_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "weights_bytes",
    "peak_bytes",
    "cache_bytes_per_token",
]
Arrivals = Literal["loop", "together", "burst", "offline", "poisson"]
Origin = Literal["device", "endpoint", "imported"]
Outcome = Literal["measured", "out_of_memory", "failed", "not_run"]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Spread(Strict):
    """A figure measured several times, in the unit of its name: the median, and where 80 % of further ones would lie.

    Of requests to an endpoint, and in results of other tools: the middle 80 % of them.
    """

    median: float = Field(gt=0, allow_inf_nan=False)
    low: float = Field(gt=0, allow_inf_nan=False)
    high: float = Field(gt=0, allow_inf_nan=False)
    repeats: int = Field(ge=1, le=10_000_000)

    @property
    def variation_fraction(self) -> float:
        """Half of the spread against the median."""
        return (self.high - self.low) / (2.0 * self.median)


class Percentiles(Strict):
    """Of requests: the value that this part of them doesn't exceed, in the unit of the figure's name."""

    p50: float = Field(ge=0, allow_inf_nan=False)
    p90: float = Field(ge=0, allow_inf_nan=False)
    p95: float = Field(ge=0, allow_inf_nan=False)
    p99: float = Field(ge=0, allow_inf_nan=False)


class Figure(Strict):
    """One number of a micro-benchmark: bandwidth, matmul rate, launch overhead, transfer rate.

    Attributes:
        name: what was measured ("read_bandwidth", "copy_bandwidth", "matmul", "launch", "host_to_device").
        dtype, size: of the operands where that matters.
        unit: "B/s", "FLOP/s" or "s".
        stated: what the data sheet says, in the same unit; None where it says nothing.
    """

    name: str = Field(max_length=60)
    dtype: str = Field(default="", max_length=20)
    size: int | None = Field(default=None, ge=1)
    unit: Literal["B/s", "FLOP/s", "s"]
    value: Spread
    stated: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class Row(Strict):
    """One run: fields of its scenario, and what was measured.

    Attributes:
        scenario: fields of Scenario without config, device and calibration, which the record holds once for all rows.
        arrivals, varied: as in profiles/measurements.
        request_rate_per_s: at which requests came, for "poisson" alone; `concurrency` is then the mean in flight.
            Of a record it lies in its `sane_range`.
        role: "fit" counts in the calibration; "check" is held back to test it; "other" says something else.
        percentiles: of requests, where the figure is one of each request.
        counts: how many requests ended in which way ("done", "http_429", "timeout").
        noisy: it varied too much to count (but see `counting`).
        notes: codes of what to know about it.
    """

    id: Plain = Field(min_length=1, max_length=120)
    scenario: dict[str, str | int | Finite | bool]
    arrivals: Arrivals
    request_rate_per_s: float | None = None
    varied: bool = False
    role: Literal["fit", "check", "other"] = "fit"
    outcome: Outcome = "measured"
    measured: dict[RecordQuantity, Spread] = Field(default_factory=dict)
    percentiles: dict[RecordQuantity, Percentiles] = Field(default_factory=dict)
    counts: dict[str, int] = Field(default_factory=dict, max_length=40)
    noisy: bool = False
    notes: list[str] = Field(default_factory=list, max_length=20)

    @model_validator(mode="after")
    def _a_rate_of_arrivals(self) -> Row:
        stated = self.request_rate_per_s is not None
        if (self.arrivals == POISSON) != stated:
            least, most = sane_range(RATE)
            code = "entry_rate_spare" if stated else "entry_rate_missing"
            raise PydanticCustomError(code, "rate", {"least": least, "most": most})
        return self


class Conditions(Strict):
    """What the machine was doing: whether figures taken there can be compared with others.

    Attributes:
        noisy: something disturbed the measurement; `reasons` says what, as codes with values.
        load_before, load_after: of the processors, as a share of all cores beside the measurement's own.
    """

    noisy: bool
    reasons: list[dict[str, str | int | float]] = Field(default_factory=list, max_length=50)
    load_before_fraction: float | None = Field(default=None, ge=0)
    load_after_fraction: float | None = Field(default=None, ge=0)
    sm_clock_mhz: float | None = Field(default=None, ge=0)
    memory_clock_mhz: float | None = Field(default=None, ge=0)
    power_w: float | None = Field(default=None, ge=0)
    throttle_reasons: list[str] = Field(default_factory=list, max_length=20)

    @property
    def only_unsteady(self) -> bool:
        """The machine changed by itself, and nobody else was seen on it: a host that others use too, most likely."""
        return self.noisy and {one.get("code") for one in self.reasons} == {DRIFT}

    @property
    def others_seen(self) -> bool:
        """It was disturbed by something that can be ended: other programs, heat, a limit."""
        return self.noisy and not self.only_unsteady


class Record(Strict):
    """A measurement.

    Attributes:
        name: given by a person, or made from device and date; date: when it ended, ISO 8601 with time zone.
        accelerator: id in the catalogue, or of `device`.
        device: the device described, where the catalogue doesn't have it.
        software: versions by name ("torch", "transformers", "driver", "cuda", "python", "engine").
        configs: config.json by model name, for rows whose model isn't in the catalogue.
        calibration: fitted to the rows that count; None where they don't tell anything.
        lengths_file: name of the file that the requests' lengths were taken from; None where it was none.
    """

    format: Literal["headroom-measurement"]
    schema_version: Literal[1]
    name: Name
    date: Moment
    origin: Origin
    accelerator: Plain = Field(max_length=160)
    device: DeviceEntry | None = None
    software: dict[Plain, Plain] = Field(default_factory=dict, max_length=40)
    conditions: Conditions
    figures: list[Figure] = Field(default_factory=list, max_length=500)
    rows: list[Row] = Field(max_length=MAX_ROWS)
    configs: dict[str, dict[str, Any]] = Field(default_factory=dict, max_length=50)
    calibration: OwnCalibration | None = None
    lengths_file: FileName = None
    notes: list[str] = Field(default_factory=list, max_length=50)


def is_measurement(content: bytes | str) -> bool:
    """Whether a file is meant as a measurement of ours, whole or not."""
    mark = '"headroom-measurement"'
    return mark in content if isinstance(content, str) else mark.encode() in content


def parse_record(text: str | bytes, field: str = "measurement") -> Record:
    """A record from an untrusted file.

    Raises:
        InvalidInput: where it is too big, not JSON, not a record (naming the first key that is wrong) or of a newer
            version, or where a row's figure or rate lies outside its `sane_range`.
        InvalidConfig: where a configuration in it isn't one (`parse_config`).
    """
    if len(text) > MAX_BYTES:
        raise InvalidInput("measurement_too_big", field=field, limit_bytes=MAX_BYTES)
    data = json_of(text, field)
    if not isinstance(data, dict) or data.get("format") != "headroom-measurement":
        raise InvalidInput("measurement_foreign", field=field)
    if data.get("schema_version") != 1:
        given = str(data.get("schema_version"))[:20]
        raise InvalidInput("measurement_version_unknown", field=field, given=given, known=1)
    try:
        record = Record.model_validate(data)
    except ValidationError as error:
        raise entry_error(error, "measurement_bad_entry", field) from None
    require_sane(record, field)
    configs = {name: _config(config, field) for name, config in record.configs.items()}
    return record.model_copy(update={"configs": configs})


def json_of(text: str | bytes, field: str) -> Any:
    """A JSON document, a whole number that nothing counts to as the float it is nearest to.

    Raises:
        InvalidInput: where it isn't one, or holds letters that can't be written.
    """

    def whole(digits: str) -> int | float:
        return int(digits) if len(digits) <= MOST_DIGITS else float(digits)

    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text))
        data = json.loads(text, parse_int=whole)
        if not holds_half_a_pair(text, data):
            return data
    except (ValueError, RecursionError):
        pass
    raise InvalidInput("measurement_not_json", field=field)


def _config(config: dict[str, Any], field: str) -> dict[str, Any]:
    """A configuration as one that is pasted is read, within the same bounds."""
    try:
        return parse_config(json.dumps(config))
    except RecursionError:
        raise InvalidInput("measurement_not_json", field=field) from None


def require_sane(record: Record, field: str = "measurement") -> None:
    """Refuses a record with a figure that nobody can have measured, or whose ends lie on the wrong sides of it.

    Raises:
        InvalidInput: naming the row and the figure.
    """
    for row_id, name, value in _stated(record):
        require_in_range(row_id, name, value, field)
    for row_id, name, one in _spreads(record):
        if not one.low <= one.median * (1.0 + ROUNDING) <= one.high * (1.0 + ROUNDING) ** 2:
            ends = {"low": brief(one.low), "median": brief(one.median), "high": brief(one.high)}
            raise InvalidInput(
                "measurement_row_disordered", field=field, row=row_id, figure=name, **ends
            )


def _stated(record: Record) -> Iterator[tuple[str, str, float]]:
    """Every number that has a range, with its row and its name; a reason has no row but its code."""
    for row in record.rows:
        for name, one in row.measured.items():
            yield from ((row.id, name, value) for value in (one.low, one.median, one.high))
        if row.request_rate_per_s is not None:
            yield row.id, RATE, row.request_rate_per_s
    for said in record.conditions.reasons:
        numbers = ((name, value) for name, value in said.items() if not isinstance(value, str))
        code = str(said.get("code", "?"))[:60]
        yield from ((code, name, value) for name, value in numbers if name in OF_REASONS)


def _spreads(record: Record) -> Iterator[tuple[str, str, Spread]]:
    """Every figure of a record with its row and its name; a rate of the device has no row but itself."""
    for row in record.rows:
        yield from ((row.id, name, one) for name, one in row.measured.items())
    for figure in record.figures:
        yield f"{figure.name} {figure.dtype}".strip(), figure.name, figure.value


def calibration_record(content: bytes) -> Record | None:
    """A measurement without runs, of a calibration alone, as `calibrate` writes from a table; None for other content.

    Raises:
        InvalidInput: where it is one, with a key that is wrong.
    """
    if len(content) > MAX_BYTES or not all(f'"{key}"'.encode() in content for key in ALONE):
        return None
    try:
        data = json_of(content, "measurement")
    except InvalidInput:
        return None
    if not isinstance(data, dict) or not all(key in data for key in ALONE):
        return None
    own = parse_own_calibration(data)
    return Record(
        format="headroom-measurement",
        schema_version=1,
        name=own.name,
        date=own.date,
        origin="imported",
        accelerator=own.accelerator,
        software={"engine": own.engine_version},
        conditions=Conditions(noisy=False),
        rows=[],
        calibration=own,
        notes=["calibration_alone"],
    )


def record_text(record: Record) -> str:
    """The record as its file holds it."""
    return json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


def scenario_values(record: Record, row: Row) -> dict[str, Any]:
    """What `Scenario.parse` takes for a row, with the record's configuration and device."""
    values: dict[str, Any] = dict(row.scenario)
    config = record.configs.get(str(values.get("model", "")))
    if config is not None:
        values["config"] = config
    if record.device is not None:
        values["device"] = record.device.model_dump(mode="json")
    values.setdefault("gpu", record.accelerator)
    return values


def scenario_of(record: Record, row: Row, *, calibrated: bool = False) -> Scenario:
    """A row's scenario, with the record's own calibration or without.

    Raises:
        InvalidInput: naming the field that is wrong.
    """
    values = scenario_values(record, row)
    if calibrated and record.calibration is not None:
        values["calibration"] = record.calibration.model_dump(mode="json")
    return Scenario.parse(values)


def measurement_of(record: Record, row: Row) -> Measurement:
    """A row as the fit takes it, with those of its figures that are times or rates."""
    measured: dict[str, float] = {
        name: spread.median for name, spread in row.measured.items() if name in QUANTITIES
    }
    values = scenario_values(record, row)
    rate = row.request_rate_per_s or 0.0
    return Measurement(
        row.id,
        record.name,
        "own",
        values,
        row.arrivals,
        1,
        measured,
        "",
        request_rate_per_s=rate,
        varied=row.varied,
    )


def counting(record: Record, role: str = "fit") -> list[Row]:
    """The rows of a role that a fit, or its test, goes by: those measured in quiet.

    A host that others use too won't be quieter later: where it was only unsteady, and too few runs of a figure were
    quiet, every row counts, and says what such a machine does over all of its moments.
    """
    measured = [row for row in record.rows if row.role == role and row.outcome == "measured"]
    quiet = [row for row in measured if not row.noisy]
    if not record.conditions.only_unsteady:
        return quiet
    wanted, found = (
        Counter(name for row in rows for name in row.measured if name in QUANTITIES)
        for rows in (measured, quiet)
    )
    is_enough = all(found[name] >= min(FEWEST, count) for name, count in wanted.items())
    return quiet if is_enough else measured


def measurements_of(record: Record, role: str = "fit") -> list[Measurement]:
    """The rows of a role that count and have times or rates."""
    rows = [measurement_of(record, row) for row in counting(record, role)]
    return [one for one in rows if one.measured]
