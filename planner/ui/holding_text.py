"""Which GPUs hold a model, as a table for the command line."""

from __future__ import annotations

from collections.abc import Sequence

from planner.compare.holding import HoldingOption
from planner.quantity import GIB
from planner.ui.locale import say_error, say_note, text
from planner.ui.locale.numbers import format_value

COLUMNS = ("gpu", "gpus", "weights", "engine", "verdict", "memory", "room")


def holding_text(options: Sequence[HoldingOption], language: str) -> str:
    """A line for each option; under one that doesn't hold the model, why."""
    if not options:
        return text("holding.nothing", language)
    lines = [tuple(text(f"holding.{name}", language) for name in COLUMNS)]
    lines += [_line(option, language) for option in options]
    widths = [max(len(line[index]) for line in lines) for index in range(len(COLUMNS))]
    shown = [_padded(line, widths) for line in lines]
    for index in reversed(range(len(options))):
        if why := _why_not(options[index], language):
            shown.insert(index + 2, f"    {why}")
    return "\n".join([*shown, text("holding.listed", language, number=len(options))])


def _padded(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
    return "  ".join(cells).rstrip()


def _line(option: HoldingOption, language: str) -> tuple[str, ...]:
    memory = room = verdict = "–"
    if option.verdict is not None and option.max_concurrency is not None:
        needed = format_value(option.needed_bytes / GIB, "number", language)
        usable = format_value(option.usable_bytes, "gib", language)
        memory = f"{needed} / {usable}"
        room = format_value(option.max_concurrency.mid, "count", language)
        verdict = text(f"verdict.{option.verdict}", language)
    return (
        option.accelerator.name,
        format_value(option.gpus, "count", language),
        option.weights_label or option.weights,
        option.engine or "–",
        verdict,
        memory,
        room,
    )


def _why_not(option: HoldingOption, language: str) -> str:
    if option.holds:
        return ""
    if option.error is not None:
        return say_error(option.error, language)
    return say_note(option.reason, language) if option.reason else ""
