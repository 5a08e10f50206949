"""Results of another tool as a measurement's record, with what their file doesn't say asked of whoever imports them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from planner.architecture.spec import Architecture
from planner.catalog.accelerators import accelerator
from planner.catalog.devices import MAX_NAME, DeviceEntry, parse_device
from planner.catalog.engine_profiles import engine, parse_version
from planner.catalog.formats import weight_format
from planner.deployment import resolve_model
from planner.errors import InvalidInput
from planner.measure.readers.recognise import recognise
from planner.measure.readers.results import ResultRow, ResultsReading, Stat
from planner.measure.readers.untrusted import name_in
from planner.measure.record import Conditions, Record, Row, require_sane
from planner.scenario import DATA_FIELDS, GivenConfig, Scenario

DEPLOYMENT = ("model", "gpu", "engine", "engine_version", "weights")
WORKLOAD = ("input_tokens", "output_tokens", "concurrency")
DEGREES = ("gpus", "tp", "pp", "dp")  # one of them says over how many GPUs
OWN = ("name", "date", *DATA_FIELDS)  # given, and not a field of each row's scenario


def missing_fields(reading: ResultsReading, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Fields that neither the file nor `given` states and without which its runs can't be compared."""
    have = {**reading.known, **_said(given)}
    if "config" in have:
        have.setdefault("model", reading.printed_model or "config")
    if "device" in have:
        have.setdefault("gpu", "device")
    found = [name for name in DEPLOYMENT if name not in have]
    if not any(name in have for name in DEGREES):
        found.append("gpus")
    found += [
        name
        for name in WORKLOAD
        if name not in have and any(name not in row.workload for row in reading.rows)
    ]
    return tuple(found)


def complete(reading: ResultsReading, given: Mapping[str, Any], name: str = "") -> Record:
    """The record of a reading.

    Args:
        given: fields of Scenario, over those that the file states; `device` for a GPU that isn't in the catalogue;
            `date` (ISO 8601) and `name` of the measurement.
        name: of the file, for want of another.

    Raises:
        InvalidInput: `reading_incomplete` or `reading_names_unknown`, naming what is missing; else for a value that
            can't be meant, or a figure that nobody can have measured.
        UnknownItem: for a model, GPU, engine or format that the catalogue doesn't have.
    """
    said = _said(given)
    missing = missing_fields(reading, said)
    if missing:
        printed = {"model": reading.printed_model, "gpu": reading.printed_gpu}
        unknown = ", ".join(printed[one] for one in missing if printed.get(one))
        if unknown:
            raise InvalidInput(
                "reading_names_unknown", field=missing[0], missing=missing, printed=unknown
            )
        raise InvalidInput("reading_incomplete", field=missing[0], missing=missing)
    stated = dict(reading.known)
    if any(one in said for one in DEGREES):
        stated = {key: value for key, value in stated.items() if key not in DEGREES}
    common = {**stated, **{k: v for k, v in said.items() if k not in (*OWN, *WORKLOAD)}}
    device = _device(said)
    config = said.get("config")
    common["engine"] = engine(str(common["engine"])).id
    parse_version(str(common["engine_version"]))
    common["weights"] = weight_format(str(common["weights"])).id
    common["gpu"] = device.id if device is not None else accelerator(str(common["gpu"])).id
    common.setdefault("model", reading.printed_model or "config")
    model = resolve_model(str(common["model"]), GivenConfig.of(config))
    if config is None:
        common["model"] = model.id
    layers = common.get("gpu_layers")
    if layers is not None and int(layers) > model.architecture.layers:
        del common["gpu_layers"]  # "all" as a large number
    if "cpu_expert_layers" in stated and "cpu_expert_layers" not in said:
        _bound_expert_layers(common, model.architecture)
    taken: dict[str, int] = {}
    rows = [_row(one, common, said, taken, device) for one in reading.rows]
    date = _date(said["date"], "date") if "date" in said else _stated(reading.date)
    record = Record(
        format="headroom-measurement",
        schema_version=1,
        name=(name_in(said.get("name")) or _stem(name) or reading.tool)[:MAX_NAME],
        date=date or _now(),
        origin="imported",
        accelerator=common["gpu"],
        device=device,
        software=_software(reading, common),
        conditions=Conditions(noisy=False),
        rows=rows,
        configs={} if config is None else {str(common["model"]): dict(config)},
        notes=["imported_in_part"] if reading.notes else ["imported"],
    )
    require_sane(record, "file")
    return record


def read_results(data: bytes | str, name: str, given: Mapping[str, Any]) -> Record:
    """The record of another tool's results: `recognise` and `complete` in one.

    Raises:
        InvalidInput, UnknownItem: as these.
    """
    return complete(recognise(data), given, name)


def _bound_expert_layers(common: dict[str, Any], architecture: Architecture) -> None:
    """The file's layers with experts on the host, as far as the model has some: llama.cpp takes any number."""
    if any(kind.experts for kind in architecture.layer_kinds):
        common["cpu_expert_layers"] = min(common["cpu_expert_layers"], architecture.layers)
    else:
        del common["cpu_expert_layers"]


def _row(
    one: ResultRow,
    common: Mapping[str, Any],
    said: Mapping[str, Any],
    taken: dict[str, int],
    device: DeviceEntry | None,
) -> Row:
    workload = {key: said[key] for key in WORKLOAD if key in said} | dict(one.workload)
    values = {**common, **workload}
    # Numbers may come as text from a form; a wrong one is refused by name.
    typed = Scenario.parse(
        {**values, **({} if device is None else {"device": device.model_dump()})}
    )
    scenario = {key: getattr(typed, key) for key in values}
    measured = dict(one.measured)
    whole = measured.get("e2e_s")
    if one.arrivals == "together" and whole is not None and "output_tokens_per_s" not in measured:
        # One batch from start to end: its tokens over its time.
        tokens = scenario["concurrency"] * scenario["output_tokens"]
        measured["output_tokens_per_s"] = _rate(whole, tokens)
    stem = "{}x{}-c{}".format(*(scenario[key] for key in WORKLOAD))
    taken[stem] = taken.get(stem, 0) + 1
    notes = [*one.notes]
    for quantity, figure in measured.items():
        notes += figure.notes(quantity)
    return Row(
        id=stem if taken[stem] == 1 else f"{stem}-{taken[stem]}",
        scenario=scenario,
        arrivals=one.arrivals,
        request_rate_per_s=one.request_rate_per_s,
        varied=one.varied,
        role=one.role,
        measured={quantity: figure.spread for quantity, figure in measured.items()},
        noisy=one.noisy,
        notes=notes,
    )


def _rate(time: Stat, tokens: float) -> Stat:
    spread = time.spread
    turned = {
        "median": tokens / spread.median,
        "low": tokens / spread.high,
        "high": tokens / spread.low,
    }
    return Stat(spread.model_copy(update=turned), time.statistic, time.ends)


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None and value != ""}


def _device(said: Mapping[str, Any]) -> DeviceEntry | None:
    given = said.get("device")
    return None if given is None else parse_device(given)


def _software(reading: ResultsReading, common: Mapping[str, Any]) -> dict[str, str]:
    versions = {"engine": str(common["engine_version"])}
    if reading.version is not None:
        versions[reading.tool] = reading.version
    return versions


def _stem(name: str) -> str:
    """A file's name without folders and ending."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return name_in(last.rpartition(".")[0] or last) or ""


def _date(text: Any, field: str) -> str:
    """A date as ISO 8601 has it, with or without a time.

    Raises:
        InvalidInput: where it isn't one.
    """
    try:
        return datetime.datetime.fromisoformat(str(text)[:40]).isoformat(timespec="seconds")
    except ValueError:
        raise InvalidInput("results_date_unreadable", field=field, given=str(text)[:40]) from None


def _stated(text: str | None) -> str | None:
    try:
        return None if text is None else _date(text, "date")
    except InvalidInput:
        return None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
