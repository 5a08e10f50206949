"""Numbers as people read them: three significant figures, the language's separators, a unit beside each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

SEPARATORS = {"en": (",", "."), "es": (".", ",")}
THIN_SPACE = "\u202f"
NEGLIGIBLE = 1e-9  # below this, a number is all zeros to a reader


def _localised(plain: str, language: str) -> str:
    thousands, decimal = SEPARATORS[language]
    return plain.translate({ord(","): thousands, ord("."): decimal})


def significant(value: float, language: str, digits: int = 3) -> str:
    """At most `digits` significant figures, no exponent, thousands separated: 1234.5 → 1,230; 0.01234 → 0.0123."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if abs(value) < NEGLIGIBLE:
        return "≈ 0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    shown = f"{rounded:,.{max(places, 0)}f}"
    if "." in shown:
        shown = shown.rstrip("0").rstrip(".")
    return _localised(shown.replace("-", "−"), language)


def count(value: float, language: str) -> str:
    """A whole number with every digit: 33,400."""
    if math.isinf(value) or math.isnan(value):
        return significant(value, language)
    return _localised(f"{math.floor(value + 1e-9):,}", language)


def _scaled(value: float, language: str, steps: tuple[tuple[float, str], ...]) -> str:
    for size, unit in steps:
        if abs(value) >= size * 0.9995:
            return f"{significant(value / size, language)} {unit}"
    size, unit = steps[-1]
    return f"{significant(value / size, language)} {unit}"


BYTES = (
    (2.0**50, "PiB"),
    (2.0**40, "TiB"),
    (2.0**30, "GiB"),
    (2.0**20, "MiB"),
    (2.0**10, "KiB"),
    (1.0, "B"),
)
MOST_GIB = 10_000.0  # from here on a memory is written in larger units
SECONDS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
LARGE = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (1.0, ""))
LARGE_ES = (
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
)  # a Spanish billón is 1e12: millions can't be misread
FLOPS = ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"))
FLOP = ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"))
BANDWIDTH = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"))


def _duration(value: float, language: str) -> str:
    """Whole units as on a clock: 45 s, 1 min 15 s, 2 h 5 min."""
    if not math.isfinite(value):
        return significant(value, language)
    minutes, seconds = divmod(max(round(value), 0), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (0 if hours else seconds, "s"))
    return " ".join(f"{size} {unit}" for size, unit in parts if size) or "0 s"


def _gib(value: float, language: str) -> str:
    """GiB, whatever the size, so that the parts of a card compare at a glance; larger units beyond any card."""
    if abs(value) >= MOST_GIB * 2.0**30 and math.isfinite(value):
        return _scaled(value, language, BYTES)
    return f"{significant(value / 2.0**30, language)} GiB"


def _large(value: float, language: str) -> str:
    return _scaled(value, language, LARGE_ES if language == "es" else LARGE).strip()


def _usd(value: float, language: str) -> str:
    return f"${significant(value, language)}"


FORMATS: dict[str, Callable[[float, str], str]] = {
    "": significant,
    "number": significant,
    "count": count,
    "gib": _gib,
    "bytes": lambda value, language: _scaled(value, language, BYTES),
    "time": lambda value, language: _scaled(value, language, SECONDS),
    "duration": _duration,
    "large": _large,
    "percent": lambda value, language: (
        f"{significant(value * 100, language, 2 if abs(value) < 1 else 3)} %"
    ),
    "flops": lambda value, language: _scaled(value, language, FLOPS),
    "flop": lambda value, language: _scaled(value, language, FLOP),
    "bandwidth": lambda value, language: _scaled(value, language, BANDWIDTH),
    "rate": lambda value, language: f"{significant(value, language)} tok/s",
    "usd": _usd,
}


BITS = "bits"  # of a placeholder that is a kind of weights, or several
WIDTHS = {"en": r"\1-bit", "es": r"\1 bits"}
ONE = "one "  # of a placeholder that is a word: "{people:one person|people}"


def word_for(value: float, kind: str) -> str:
    """The word that goes with a count: the first of two for what is written as 1, else the second."""
    one, _, several = kind.removeprefix(ONE).partition("|")
    return one if math.isfinite(value) and math.floor(value + 1e-9) == 1 else several


def bit_width(kind: str, language: str) -> str:
    """A kind of weights that goes by its width, as a person says it: 16-bit, 16 bits; any other as it is."""
    return re.sub(r"^(\d+)bit$", WIDTHS[language], kind)


def format_value(value: Any, kind: str, language: str) -> str:
    """A value as text in the format that a placeholder names; text and lists pass as they are.

    Raises:
        ValueError: for a format that isn't one of FORMATS.
    """
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(format_value(item, kind, language) for item in value) or "–"
    if isinstance(value, int) and kind == "":
        return count(value, language)  # a count of things isn't rounded
    if isinstance(value, (int, float)) or hasattr(value, "__float__"):
        if kind.startswith(ONE):
            return word_for(float(value), kind)
        if kind not in FORMATS:
            raise ValueError(f"unknown number format {kind!r}")
        return FORMATS[kind](float(value), language)
    return bit_width(str(value), language) if kind == BITS else str(value)
