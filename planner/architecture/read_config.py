"""config.json from untrusted text: limited in size, depth and number of items before anything is made of it."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

from planner.architecture.keys import shown
from planner.errors import InvalidConfig

MAX_BYTES = 5_000_000
MAX_DEPTH = 64
MAX_ITEMS = 500_000
MAX_DIGITS, MAX_PLACES = 30, 120  # of a whole number, and of any other
_MAY_BE_LONG = 10 ** (MAX_DIGITS - 1)

# In a text of this length only the first of a layer's experts is kept where each is listed (`_thinned`).
LONG_TEXT = 500_000
# Bounded everywhere, so that no text takes long.
_OTHER_EXPERT = re.compile(
    r'"[^"]{0,200}experts\.[1-9][^"]{0,200}"\s{0,99}:\s{0,99}\{[^{}]{0,400}\}\s{0,99},\s{0,99}'
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_NOT_SHAPE = bytes(sorted({*range(256)} - {*b'"{}[],:'}))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
# What matters to the shape of JSON, outside strings: brackets and commas. A string is skipped as a whole.
# An unterminated one runs to the end, so that no place in the text is looked at twice.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?$)|[\[\]{},]', re.DOTALL)


def parse_config(text: str | bytes) -> dict[str, Any]:
    """A configuration as plain data; Infinity, which JSON doesn't know, as the text "Infinity".

    From a long text, of the modules that are listed for each of a layer's experts only the first expert's.

    Args:
        text: JSON, as text or UTF-8 bytes, with or without a byte order mark.

    Raises:
        InvalidConfig: `config_too_large` (over 5 MB), `config_not_utf8`, `config_too_deep` (over 64 levels),
            `config_too_many_items` (over 500,000 brackets, commas and strings), `config_not_json` (with `line` and
            `column`), `config_number` (NaN), `config_number_large`, `config_duplicate_key` (with `key`),
            `config_not_object`.
    """
    if len(text) > MAX_BYTES:
        raise InvalidConfig("config_too_large", size_bytes=len(text), maximum_bytes=MAX_BYTES)
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidConfig("config_not_utf8", position=error.start) from None
    text = _thinned(text.removeprefix("\ufeff"))
    keys = _plain_shape(text)
    value = None if keys is None else _plain_value(text, keys)
    if value is None:
        value = _value(text)
    if holds_half_a_pair(text, value):
        raise InvalidConfig("config_not_utf8", position=0)
    if not isinstance(value, dict):
        raise InvalidConfig("config_not_object", given=shown(value))
    return value


def read_config_path(path: str | Path) -> dict[str, Any]:
    """The configuration in a file, or in the config.json of a folder.

    Raises:
        InvalidConfig: as `parse_config`, and `config_not_found` or `config_unreadable` with `path`.
    """
    place = Path(path)
    try:
        if place.is_dir():
            place = place / "config.json"
        if place.exists() and not place.is_file():  # a pipe would be waited for
            raise InvalidConfig("config_unreadable", path=str(place))
        # One byte more than allowed, so that a file of any size costs no more than the limit.
        with place.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidConfig("config_not_found", path=str(place)) from None
    except (OSError, ValueError):
        raise InvalidConfig("config_unreadable", path=str(place)) from None
    return parse_config(content)


def _thinned(text: str) -> str:
    """A long text without what it says of the second and later experts of each layer.

    Quantised checkpoints list how every expert of every layer is stored: 3 MB, of which nothing but the first expert's
    part is asked for (`module_paths`). To read it all would take longer than everything else.
    """
    if len(text) < LONG_TEXT or "\\" in text:
        return text
    return _OTHER_EXPERT.sub("", text)


def _plain_shape(text: str) -> int | None:
    """How many keys the text has, if it's so plain that counting letters shows its shape to be allowed; else None.

    Published files hold up to tens of thousands of short objects, and a look at each token of them would take longer
    than all that is done with them. Letters other than brackets, commas, colons and quotes go; then, level by level
    from the inside, pairs of quotes and of brackets. As quotes go by twos, no bracket inside a string meets one
    outside.
    """
    if "\\" in text:
        return None
    shape = text.encode("utf-8", "surrogatepass").translate(_ONE_KIND, _NOT_SHAPE)
    keys, commas, quotes = shape.count(b":"), shape.count(b","), shape.count(b'"')
    shape = shape.translate(None, b",:")
    if len(shape) + commas - quotes // 2 > MAX_ITEMS:
        return None
    for _ in range(MAX_DEPTH):
        shape = shape.replace(b'""', b"").replace(b"[]", b"")
        if not shape:
            return keys
    return None


def _plain_value(text: str, keys: int) -> Any:
    """The value, if it has as many keys as the text, none of them twice, and no number that may be too long.

    Where it isn't JSON, or isn't certain, None: the parser with a look at each pair then says what is wrong.
    """
    try:
        value = json.loads(text, parse_constant=_constant, parse_float=_float)
    except ValueError:
        return None
    level, found = [value], 0
    while level:
        kinds = set(map(type, level))
        objects = [item for item in level if type(item) is dict] if dict in kinds else []
        lists = [item for item in level if type(item) is list] if list in kinds else []
        numbers = [item for item in level if type(item) is int] if int in kinds else [0]
        if max(max(numbers), -min(numbers)) >= _MAY_BE_LONG:
            return None
        found += sum(map(len, objects))
        level = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(lists)]
    return value if found == keys else None


def _value(text: str) -> Any:
    """The value of any text, by a parser that looks at each pair and number."""
    _check_shape(text)
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_float,
        )
    except json.JSONDecodeError as error:
        raise InvalidConfig(
            "config_not_json", line=error.lineno, column=error.colno, reason=error.msg
        ) from None


def _check_shape(text: str) -> None:
    """Refuse what's nested too deep or has too many items; a scan, so that no parser meets it."""
    depth = 0
    for count, match in enumerate(_TOKEN.finditer(text)):
        if count > MAX_ITEMS:
            raise InvalidConfig("config_too_many_items", maximum=MAX_ITEMS)
        token = match[0]
        if token in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidConfig("config_too_deep", maximum=MAX_DEPTH)
        elif token in "]}":
            depth -= 1


def holds_half_a_pair(text: str, value: Any) -> bool:
    """Whether JSON, as its text and its value, holds half of a surrogate pair: nothing could show or store it."""
    if (text.isascii() and "\\" not in text) or not _SURROGATE.search(text):
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise InvalidConfig("config_duplicate_key", key=key[:100])
        result[key] = value
    return result


def _constant(name: str) -> str:
    """Infinity as text: published files state it for a limit that isn't one, and no size may be read from it."""
    if name == "NaN":
        raise InvalidConfig("config_number", given=name)
    return name


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _too_large(digits)
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if len(digits) > MAX_PLACES or value in (float("inf"), float("-inf")):
        raise _too_large(digits)
    return value


def _too_large(digits: str) -> InvalidConfig:
    given = digits if len(digits) <= 12 else f"{digits[:12]}…"
    return InvalidConfig("config_number_large", given=given, digits=MAX_DIGITS, places=MAX_PLACES)
