"""Codes of a measurement's file as sentences: a file may be of a later version, or lack what a sentence needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.measure.noise import drift_factor
from planner.ui.locale import catalogue, text

Said = Mapping[str, str | int | float]


def coded(key: str, said: Said, language: str, say: Callable[..., str] | None = None) -> str | None:
    """A code with values as its sentence; None where there is none, or where values of it are missing or wrong.

    Args:
        say: what writes a sentence from its key and values; None for plain text.
    """

    def plainly(key: str, /, **values: str | int | float) -> str:
        return text(key, language, **values)

    if key not in catalogue(language):
        return None
    try:
        return (say or plainly)(key, **{name: one for name, one in said.items() if name != "code"})
    except (KeyError, TypeError, ValueError):
        return None


def reason_values(said: Said, language: str) -> dict[str, str | int | float]:
    """What the sentence of a reason of noise takes: what held down clocks in words, and a drift as a factor."""
    values = dict(said)
    if why := coded(f"measure.throttle.{said.get('why')}", {}, language):
        values["why"] = why
    drift = said.get("drift_fraction")
    if isinstance(drift, int | float):
        values["factor"] = drift_factor(drift)
    return values
