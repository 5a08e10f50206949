"""Text from outside, held inside bounds: how much is read of it, how deep, and numbers that are numbers."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.catalog.engine_profiles import parse_version
from planner.catalog.measurements import RATE, is_sane
from planner.catalog.search import resolve
from planner.errors import InvalidInput

MAX_BYTES = 8_000_000
OWN_MAX_BYTES = (
    128_000_000  # in one's own shell: GuideLLM keeps every request, at 4 kB and more each
)
MAX_LINES = 200_000
MAX_LINE = (
    65_536  # characters of a line that are looked at: an engine prints all of its settings on one
)
MAX_NAME = 200
MAX_MAGNITUDE = 1e18
MIN_MAGNITUDE = 1e-12
UNITS = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
# Engines that print "GB" or "MB" divide by powers of two all the same.
UNITS |= {"KB": UNITS["KiB"], "MB": UNITS["MiB"], "GB": UNITS["GiB"]}
NUMBER = re.compile(r"\s*(-?[0-9]{1,18}(?:,[0-9]{3}){0,5}(?:\.[0-9]{1,20})?)")
SIZE = re.compile(NUMBER.pattern + r" ?([KMG]i?B)\b")
WORD_BEFORE = re.compile(r"[A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Size:
    """A size as printed (bytes), and the step of its last digit, within half of which it is rounded (bytes)."""

    bytes: float
    step_bytes: float

    def __add__(self, other: Size) -> Size:
        return Size(self.bytes + other.bytes, self.step_bytes + other.step_bytes)


def text_of(data: bytes | str, field: str, limit_bytes: int = MAX_BYTES) -> str:
    """What was uploaded or pasted, as text; letters that aren't UTF-8 are replaced.

    Raises:
        InvalidInput: where it is larger than the limit, or nothing.
    """
    if len(data) > limit_bytes:
        raise InvalidInput("reading_too_big", field=field, limit_bytes=limit_bytes)
    if isinstance(data, bytes):
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        data = data.decode(encoding, errors="replace")
    text = data.removeprefix("\ufeff")
    if not text.strip():
        raise InvalidInput("reading_empty", field=field)
    return text


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line, at most MAX_LINES of at most MAX_LINE characters.

    A whole line ends with its line break; one without may have been cut.
    """
    start, number = 0, 0
    while start < len(text) and number < MAX_LINES:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        line = text[start : min(end + 1, start + MAX_LINE)]
        yield number, line.removesuffix("\r\n") + "\n" if line.endswith("\r\n") else line
        start = end + 1


def csv_rows(text: str) -> Iterator[list[str]]:
    """The rows of a table, each with its cells; one that can't be read is passed over."""
    rows = csv.reader(text.splitlines())
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error:
            continue


def finite(value: Any) -> float | None:
    """A number from data, or None for anything else: text, a truth value, NaN, an infinity, a huge integer."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -MAX_MAGNITUDE < value < MAX_MAGNITUDE:
        return None
    return float(value)


def positive(value: Any) -> float | None:
    """As `finite`, and above zero by more than a figure of ours can be."""
    number = finite(value)
    return number if number is not None and number > MIN_MAGNITUDE else None


def number_in(text: Any) -> float | None:
    """The number that a table's cell holds, with or without thousands separators; None for anything else."""
    if not isinstance(text, str):
        return finite(text)
    found = NUMBER.fullmatch(text.strip())
    return finite(float(found[1].replace(",", ""))) if found else None


def request_rate(given: Any) -> float:
    """A stated rate of requests (1/s): infinite where all come at once or none is stated, NaN for what is no rate."""
    if given is None or given == float("inf"):
        return float("inf")
    if isinstance(given, str) and given.strip().lower() in {"", "inf", "infinity"}:
        return float("inf")
    rate = number_in(given)
    return rate if rate is not None and is_sane(RATE, rate) else float("nan")


def whole(value: float | None) -> int | None:
    """A positive number as the nearest whole one, at least 1."""
    if value is None or value <= 0.0 or not math.isfinite(value):
        return None
    return max(int(value + 0.5), 1)


def name_in(value: Any) -> str | None:
    """A name from data: text of at most MAX_NAME printable characters, or None."""
    if not isinstance(value, str):
        return None
    shown = "".join(letter for letter in value[:MAX_NAME] if letter.isprintable()).strip()
    return shown or None


def number_after(text: str, marker: str, end: str = "") -> float | None:
    """The number right behind a marker, where `end` follows it: a number that was cut off is none."""
    at = text.find(marker)
    if at < 0:
        return None
    found = NUMBER.match(text, at + len(marker))
    if found is None or not text.startswith(end, found.end()):
        return None
    return finite(float(found[1].replace(",", "")))


def size_after(text: str, marker: str) -> Size | None:
    """The size right behind a marker; None without its unit."""
    at = text.find(marker)
    found = SIZE.match(text, at + len(marker)) if at >= 0 else None
    if found is None:
        return None
    unit = UNITS[found[2]]
    size = finite(float(found[1].replace(",", "")) * unit)
    return None if size is None else Size(size, unit * 10.0 ** -len(found[1].partition(".")[2]))


def setting_in(text: str, key: str) -> str | None:
    """The value of a setting as Python prints it (`key=value` or `'key': value`); None where it isn't whole."""
    for form, quote in ((f"{key}=", ""), (f"'{key}': ", "'")):
        at = text.find(form)
        while at >= 0 and not quote and at > 0 and WORD_BEFORE.match(text[at - 1]):
            at = text.find(form, at + 1)
        if at < 0:
            continue
        start = at + len(form)
        mark = text[start : start + 1]
        if mark in ("'", '"'):
            end = text.find(mark, start + 1)
            return name_in(text[start + 1 : end]) if end > 0 else None
        for end in range(start, min(start + MAX_NAME, len(text))):
            if text[end] in ",)} ":
                return name_in(text[start:end])
        return None
    return None


def whole_setting(text: str, key: str) -> int | None:
    """A setting that is a whole number of at least 1."""
    return whole(number_in(setting_in(text, key) or ""))


def json_of(text: str) -> Any:
    """A JSON document; raises ValueError for what isn't one, however deep it is."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("too deep") from None


def inside(data: Any, *keys: str) -> Any:
    """What lies under the keys, one inside the other; None where something is in the way."""
    for key in keys:
        if not isinstance(data, Mapping):
            return None
        data = data.get(key)
    return data


def version_between(version: str | None, known: tuple[str, str]) -> bool:
    """Whether a version lies between two, both included with all that follows their numbers; None counts as one."""
    if version is None:
        return True
    try:
        given = parse_version(version)
    except InvalidInput:
        return False
    first, last = (parse_version(one) for one in known)
    return first <= given[: len(first)] and given[: len(last)] <= last


def known_model(printed: str | None) -> str | None:
    """The catalogue's name of a model that a tool printed, from an id or from the last part of a path; else None."""
    if not printed:
        return None
    whole_name = resolve("model", printed)
    if whole_name is not None:
        return whole_name
    last = printed.replace("\\", "/").rstrip("/").rpartition("/")[2]
    cached = printed.partition("models--")[2].partition("/")[0].replace("--", "/")
    for name in (cached, last):
        found = resolve("model", name) if name else None
        if found is not None:
            return found
    return None
