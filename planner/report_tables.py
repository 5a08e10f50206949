"""What reports in plain text and in Markdown are made of: figures, tables, paragraphs."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

WIDTH = 118  # of lines of prose


def percent(value: float | None, *, signed: bool = False) -> str:
    """A fraction in per cent; – for none."""
    if value is None:
        return "–"
    shown = (
        f"{value * 100:+.0f} %"
        if signed
        else f"{value * 100:.1f} %"
        if value < 0.1
        else f"{value * 100:.0f} %"
    )
    return shown.replace("-", "−")


def fine_percent(value: float | None, *, signed: bool = False) -> str:
    """The same with hundredths below one per cent: for what is known nearly exactly."""
    if value is None or abs(value) >= 0.01:
        return percent(value, signed=signed)
    return f"{value * 100:{'+' if signed else ''}.2f} %".replace("-", "−")


def left_table(lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table for a terminal, with every column to the left; the first line is the header."""
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table for a terminal; numbers to the right of the first column."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return lines


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table; numbers to the right of the first column."""
    align = ["---", *("---:" for _ in header[1:])]
    return [
        "| " + " | ".join(header) + " |",
        "| " + " | ".join(align) + " |",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def wrapped(sentence: str) -> str:
    """A paragraph or list item in lines of Markdown."""
    indent = "  " if sentence.startswith("- ") else ""
    return fill(
        sentence, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
