"""Times carried beyond what constants were fitted to: newer releases, more ranks, smaller steps."""

from __future__ import annotations

from planner.catalog.calibrations import Calibration, as_transferred
from planner.catalog.engine_profiles import EngineProfile, newer_than_documented
from planner.catalog.engines import EngineSettings
from planner.errors import Note
from planner.scenario import Parallelism
from planner.speed.chunks import FITTED_BUDGET_TOKENS
from planner.speed.collectives import MEASURED_RANKS

FEWEST_TOGETHER = 4
"""Requests at once from which on fits have seen first tokens: 1 in 75 of their rows has fewer, and those kept apart for
a check are off by more."""


def few_together(calibration: Calibration, *, experts: bool) -> Calibration:
    """The constants as they are worth where fewer than FEWEST_TOGETHER requests run: first tokens are transferred."""
    if calibration.own or calibration.kind != "continuous":
        return calibration
    return as_transferred(calibration, experts=experts, first_only=True)


def carried(
    calibration: Calibration,
    engine: EngineProfile,
    settings: EngineSettings,
    parallelism: Parallelism,
    *,
    experts: bool,
    generates: bool,
) -> tuple[Calibration, tuple[Note, ...]]:
    """The constants with the basis and the ranges that they are worth in this deployment, and notes that say why.

    A release after the last one documented, collectives over more ranks than were measured, and a token budget below
    the engines' defaults make times `transferred` at best, the last one only those to the first token. Somebody's own
    constants were fitted to the release and the settings that they ran with.

    Args:
        experts: a mixture of experts; generates: the model makes tokens one by one.
    """
    if calibration.own:
        return calibration, ()
    notes = []
    if newer_than_documented(engine, settings.version):
        values: dict[str, object] = {"engine": engine.name, "given": settings.version}
        notes.append(Note("times_version_transferred", values))
    together = parallelism.dp > 1 and experts
    ranks = parallelism.tp * parallelism.dp if together else parallelism.tp
    if ranks > MEASURED_RANKS[-1]:
        values = {"ranks": ranks, "measured": MEASURED_RANKS[-1]}
        notes.append(Note("times_ranks_transferred", values))
    if notes:
        calibration = as_transferred(calibration, experts=experts)
    budget = settings.max_num_batched_tokens
    if calibration.kind == "continuous" and generates and budget < FITTED_BUDGET_TOKENS:
        values = {"budget": budget, "measured": FITTED_BUDGET_TOKENS}
        notes.append(Note("times_chunks_transferred", values))
        calibration = as_transferred(calibration, experts=experts, first_only=True)
    return calibration, tuple(notes)
