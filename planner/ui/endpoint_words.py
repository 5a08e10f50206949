"""A server's loads and what became of their requests, in words; for the page and the command line."""

from __future__ import annotations

from planner.measure.endpoint.record import FAILURES, load_of
from planner.measure.record import Row
from planner.ui.locale import text


def load_words(row: Row, language: str) -> str:
    """A load by what it asks of the server; a row of something else by its id."""
    load = load_of(row)
    return row.id if load is None else text(f"endpoint.load_{load[0]}", language, load=load[1])


def failure_words(row: Row, language: str) -> str:
    """How many requests ended badly in which way; "" where none did."""
    return "; ".join(
        f"{_kind(kind, language)}: {number}"
        for kind, number in row.counts.items()
        if kind != "done"
    )


def _kind(kind: str, language: str) -> str:
    if kind in FAILURES:
        return text(f"word.{kind}", language)
    return kind.replace("http_", "HTTP ")
