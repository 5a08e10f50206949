"""Lists of numbers as people type them: commas, semicolons or blanks in between; a decimal comma where it is one."""

from __future__ import annotations

import re

from planner.errors import InvalidInput

SHOWN = 60  # characters of what was given that a refusal repeats
COMMA_WITHIN = re.compile(r"\d,\d")
THOUSANDS = re.compile(r"[1-9]\d{0,2}[.,]\d{3}[.,]\d")  # 1.000,5 and 1,000.5
BETWEEN = re.compile(r"[;\s]+|,(?!\d)")
ANYTHING = re.compile(r"[,;\s]+")


def whole_numbers(given: str, field: str) -> str:
    """The list with commas in between, as the command line takes it; what isn't a number is left for it to refuse.

    Raises:
        InvalidInput: where a comma may have been meant for thousands, as in 1,024.
    """
    cells = _cells(ANYTHING, given)
    if any(len(cell) > 1 and cell.startswith("0") for cell in cells):
        raise _ambiguous(given, field)
    return ",".join(cells)


def decimals(given: str, field: str) -> str:
    """As `whole_numbers`, of positive numbers that may have decimals; each with a point.

    A comma between two digits parts numbers where a point is written, or where several commas stand in a row; it is a
    decimal comma where something else parts the numbers, or where one of its sides couldn't be a number (0,5).

    Raises:
        InvalidInput: where a comma may be either, as in 1,5.
    """
    if THOUSANDS.search(given):
        raise _ambiguous(given, field)
    within = COMMA_WITHIN.search(given)
    if within and "." in given and ";" in given:
        raise _ambiguous(given, field)
    if not within or "." in given:
        return ",".join(_cells(ANYTHING, given))
    cells = _cells(BETWEEN, given)
    if any(cell.count(",") > 1 for cell in cells):
        if len(cells) > 1:
            raise _ambiguous(given, field)
        return ",".join(_cells(ANYTHING, given))
    parted = re.search(r";|,(?!\d)", given.strip().rstrip(",;"))
    if not parted and any("," in cell and not _only_decimal(cell) for cell in cells):
        raise _ambiguous(given, field)
    return ",".join(cell.replace(",", ".") for cell in cells)


def _cells(between: re.Pattern[str], given: str) -> list[str]:
    return [cell for cell in between.split(given.strip()) if cell]


def _only_decimal(cell: str) -> bool:
    """Whether a comma can be nothing else: no list of positive numbers has 0 or 05 in it."""
    before, _, after = cell.partition(",")
    return before == "0" or after.startswith("0")


def _ambiguous(given: str, field: str) -> InvalidInput:
    return InvalidInput("ambiguous_list", field=field, given=given[:SHOWN])
