"""A scenario as the query of an address, and back.

A link that this module writes carries every value and the schema version `v`; what it leaves out is the engine's
default. A link without `v` was typed by a person: it changes some values of the opening scenario. A pasted
architecture travels along, compressed, as long as it's short.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.architecture.read_config import parse_config
from planner.errors import InvalidInput, PlannerError
from planner.scenario import DATA_FIELDS, SCHEMA_VERSION, Scenario
from planner.ui.presets import OPENING

VERSION_KEY = "v"
CONFIG_KEY = "config"
MAX_CONFIG_CHARACTERS = 4096  # of a link; longer ones get cut by chat programs and proxies
MAX_UNPACKED_BYTES = 1_000_000
MAX_VALUE_CHARACTERS = 400

FIELDS = tuple(name for name in Scenario.model_fields if name not in DATA_FIELDS)
DEFAULTS: dict[str, Any] = {
    name: None if field.is_required() else field.get_default()
    for name, field in Scenario.model_fields.items()
}


@dataclass(frozen=True, slots=True)
class Incoming:
    """What an address asks for.

    Attributes:
        values: a whole scenario's fields, each valid by itself.
        problems: what was wrong with the address, by field; the field then has its default in `values`.
    """

    values: dict[str, Any]
    problems: dict[str, PlannerError]


def pack_config(config: Mapping[str, Any]) -> str | None:
    """A configuration, device or calibration as URL-safe text, or None where it's too long for a link."""
    plain = json.dumps(config, separators=(",", ":"), ensure_ascii=False).encode()
    packed = base64.urlsafe_b64encode(zlib.compress(plain, 9)).decode().rstrip("=")
    return packed if len(packed) <= MAX_CONFIG_CHARACTERS else None


def unpack_config(packed: str, field: str = CONFIG_KEY) -> dict[str, Any]:
    """The configuration, device or calibration in a link.

    Raises:
        InvalidConfig: where the text isn't one, or unpacks to more than a configuration may hold.
    """
    try:
        if len(packed) > MAX_CONFIG_CHARACTERS:
            raise ValueError("too long")
        padded = packed + "=" * (-len(packed) % 4)
        unpacker = zlib.decompressobj()
        data = base64.b64decode(padded, altchars=b"-_", validate=True)
        plain = unpacker.decompress(data, MAX_UNPACKED_BYTES)
        if not unpacker.eof:
            raise ValueError("cut off, or a great deal longer than it looks")
    except (ValueError, binascii.Error, zlib.error) as error:
        raise InvalidInput("link_config_unreadable", field=field) from error
    return parse_config(plain)


def to_query(values: Mapping[str, Any]) -> dict[str, str]:
    """Every value that isn't an engine's default, as text, with the schema version first.

    A configuration that is too long is left out; `carries_config` says so beforehand.
    """
    query = {VERSION_KEY: str(SCHEMA_VERSION)}
    for name in FIELDS:
        value = values.get(name)
        if value is not None and value is not False and value != "":
            query[name] = "true" if value is True else f"{value}"
    for name in DATA_FIELDS:
        if values.get(name) and (packed := pack_config(values[name])):
            query[name] = packed
    return query


def carries_config(values: Mapping[str, Any]) -> bool:
    """True where a link restores the scenario in full: nothing pasted or measured, or short enough."""
    return all(
        not values.get(name) or pack_config(values[name]) is not None for name in DATA_FIELDS
    )


def from_query(query: Mapping[str, str]) -> Incoming:
    """The scenario that an untrusted address asks for; what isn't a field of one is ignored.

    Every value is checked by itself, so that one that is wrong costs none of the others.
    """
    problems: dict[str, PlannerError] = {}
    complete = VERSION_KEY in query
    values = {**DEFAULTS, **OPENING} if not complete else {**DEFAULTS}
    if complete and query[VERSION_KEY] != str(SCHEMA_VERSION):
        given = query[VERSION_KEY][:MAX_VALUE_CHARACTERS]
        problems[VERSION_KEY] = InvalidInput(
            "link_version_unknown", field=VERSION_KEY, given=given, known=SCHEMA_VERSION
        )
        # What another version means by its names isn't known.
        return Incoming({**DEFAULTS, **OPENING}, problems)
    for name in FIELDS:
        if name in query:
            try:
                # The name of a pasted configuration or device is the sender's own word.
                pasted = {"model": CONFIG_KEY, "gpu": "device"}.get(name)
                named = pasted is None or pasted not in query
                values[name] = _checked(name, query[name], named=named)
            except PlannerError as error:
                problems[name] = error
    for name in DATA_FIELDS:
        if name in query:
            try:
                unpacked = unpack_config(query[name], name)
                _check_data(name, unpacked)
                values[name] = unpacked
            except PlannerError as error:
                problems[name] = error
    if "device" in problems:  # the name belonged to it
        values["gpu"] = OPENING["gpu"]
    for name in ("gpu", "model"):
        if not values[name] and not (name == "model" and values[CONFIG_KEY]):
            values[name] = OPENING[name]
    return Incoming(values, problems)


def _check_data(name: str, data: dict[str, Any]) -> None:
    """Refuses what isn't a device or a calibration; a configuration is read, or refused, with the model.

    Raises:
        InvalidInput: naming the first key that is wrong.
    """
    if name == "device":
        from planner.catalog.devices import parse_device

        parse_device(data)
    if name == "calibration":
        from planner.catalog.own_calibration import parse_own_calibration

        parse_own_calibration(data)


def _checked(name: str, given: str, *, named: bool) -> Any:
    """One field's value, typed, and as the catalogue spells it where it names something there.

    Raises:
        PlannerError: naming the field.
    """
    if len(given) > MAX_VALUE_CHARACTERS:
        raise InvalidInput(
            "scenario_string_too_long",
            field=name,
            given=given[:80],
            max_length=MAX_VALUE_CHARACTERS,
        )
    value = getattr(Scenario.parse({"gpu": OPENING["gpu"], name: given}), name)
    return canonical(name, value) if named and value else value


def canonical(name: str, value: Any) -> Any:
    """The catalogue's own id for what a person calls a model, an accelerator, an engine or a weight format.

    Raises:
        UnknownItem: naming close ids.
    """
    # The catalogue is opened here, not at import, and only for what the link names.
    if name == "model":
        from planner.catalog.models import model_profile

        profile = model_profile(value)
        # A name that only a stand-in answers for is kept: the answer says so.
        return value if profile.stand_in_for else profile.id
    if name == "gpu":
        from planner.catalog.accelerators import accelerator

        return accelerator(value).id
    if name == "engine":
        from planner.catalog.engines import engine

        return engine(value).id
    if name == "weights":
        from planner.catalog.formats import weight_format

        return weight_format(value).id
    if name == "kv":
        from planner.catalog.formats import kv_format

        kv_format(value, "fp16")
        return value.strip().lower()
    if name == "dtype":
        from planner.catalog.dtypes import dtype_id

        return dtype_id(value)
    return value
