"""Printed equations, read back and worked out: every number stands for all that would be printed as it is."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

UNITS = {
    "B": 1.0,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
    "PiB": 2.0**50,
    "%": 0.01,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "tok/s": 1.0,
}
NUMBER = re.compile(
    r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)(?:[ \u202f]("
    + "|".join(map(re.escape, UNITS))
    + r")(?![\w/]))?"
)
DIGITS = 3  # significant figures of a measured quantity


@dataclass(frozen=True)
class Interval:
    """A number known to lie between two."""

    low: float
    high: float

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: Interval) -> Interval:
        assert other.low > 0.0, "divided by what may be nothing"
        return self * Interval(1.0 / other.high, 1.0 / other.low)

    def meets(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high


def _least(*all_of: Interval) -> Interval:
    return Interval(min(each.low for each in all_of), min(each.high for each in all_of))


def _most(*all_of: Interval) -> Interval:
    return Interval(max(each.low for each in all_of), max(each.high for each in all_of))


def _floor(inside: Interval) -> Interval:
    return Interval(math.floor(inside.low), math.floor(inside.high))


def printed(digits: str, unit: str = "") -> Interval:
    """What a printed number may have been: a whole number without unit itself, else up to half its last digit away."""
    value = float(digits.replace(",", ""))
    if value == 0.0:
        return Interval(0.0, 0.0)
    exact = not unit and "." not in digits
    if exact:
        return Interval(value, value)
    place = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    size = UNITS.get(unit, 1.0)
    return Interval((value - 0.5 * place) * size, (value + 0.5 * place) * size)


def worked_out(expression: str) -> Interval:
    """The value of a printed expression."""
    plain = NUMBER.sub(lambda found: f"printed({found[1]!r},{found[2] or ''!r})", expression)
    plain = plain.replace("·", "*").replace("−", "-").replace("⌊", "floor(").replace("⌋", ")")
    names = {"printed": printed, "floor": _floor, "min": _least, "max": _most}
    found = eval(plain, {"__builtins__": {}}, names)
    assert isinstance(found, Interval)
    return found


def relations(filled: str) -> list[tuple[str, str, str]]:
    """Left side, sign and right side of every relation in a filled formula; what only names a value is left out."""
    found = []
    for clause in filled.split(";"):
        for stretch in clause.split("→")[:1]:
            pieces = re.split(r" (=|≤|>) ", stretch.strip())
            for left, sign, right in zip(pieces[::2], pieces[1::2], pieces[2::2], strict=False):
                if not re.fullmatch(r"[A-Za-z]\w*", left.strip()):
                    found.append((left, sign, right))
    return found


def holds(left: str, sign: str, right: str) -> bool:
    """Whether a relation is true for some of the values that its numbers stand for."""
    a, b = worked_out(left), worked_out(right)
    if sign == "=":
        # A result that is counted is written rounded down.
        whole = re.fullmatch(r"[\d,]+", right.strip())
        return a.meets(Interval(b.low, b.high + 1.0) if whole else b)
    return a.low <= b.high if sign == "≤" else a.high > b.low
