"""A calibration fitted to a record's own runs: what they move, how far they identify it, and what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from math import log
from typing import Any

import numpy as np
from pydantic import ValidationError

from planner.catalog.calibration_constants import SHIPPED, Shelf, weights_kind
from planner.catalog.measurements import DECODED, POISSON, RATES, READ, Measurement
from planner.catalog.own_calibration import OwnCalibration, OwnConstant, OwnError, least_band
from planner.deployment import calibration_key
from planner.errors import PlannerError
from planner.measure.fit.own_plan import NOISE, own_stages
from planner.measure.fit.plans import Stage
from planner.measure.fit.problem import Observation, errors, median_error, observations
from planner.measure.impossible import is_impossible, without_the_impossible
from planner.measure.predict import Run, resolve_run
from planner.measure.record import FEWEST, Record, Row, counting, measurements_of
from planner.measure.spread import NORMAL90
from planner.measure.worse import worse_groups
from planner.quantity import FloatArray
from planner.scenario import canonical_text

FOLDS = 6
KNOWN_FROM = 0.05  # a constant that the runs narrowed by less keeps its shipped value
MOST = (
    240  # runs that are fitted, evenly spread over those there are: more bring time, not knowledge
)
# A fit that leaves more than this, or more than what is shipped leaves, isn't one.
MOST_LEFT, LITTLE = 0.5, 0.15
MOST_TAKEN = 0.5  # of the places, by what was in flight on average
# What repeats of one run may differ in; the scenario is compared as text.
APART = ("id", "family", "source", "scenario", "measured", "note", "settings")
REJECTED = "fit_not_trusted"
INSIDE = 0.8
LEAST_LOW, MOST_HIGH = -0.95, 100.0  # that a range may be stated by
PREFERRED = ("prefill_s", "ttft_s", "tpot_s", *RATES)


def calibrated(record: Record) -> Record:
    """The record with the calibration that its rows give, or with none where they don't tell anything.

    Rows that don't count (`counting`) or are faster than possible tell nothing; those of several engines don't either,
    but for the engine with most rows. Repeats of one run count once. Constants that the rows don't identify keep what
    is shipped, and a fit that leaves most of the error is thrown away, which a note says.
    """
    record = without_the_impossible(record)
    groups = _groups(measurements_of(record, "fit"))
    found = None
    notes = [code for code in record.notes if code != REJECTED]
    if groups:
        runs = max(groups.values(), key=len)
        checks = _groups(measurements_of(record, "check")).get(_place(runs[0]), [])
        noise = _noise(counting(record)) if record.conditions.noisy else None
        found = _fitted(record.name, record.date[:10], runs, checks, noise)
        if found is not None and record.conditions.noisy:
            found = _disturbed(found, counting(record))
        notes += [REJECTED] if _is_rejected(found, runs) else []
    return record.model_copy(update={"calibration": found, "notes": notes})


def _is_rejected(found: OwnCalibration | None, runs: Sequence[Run]) -> bool:
    """Whether there were enough runs of a figure for a fit, and none of it was kept."""
    if found is None:
        return len(runs) >= FEWEST
    groups = {group for one in _seen(runs) for group in (DECODED, READ) if one.quantity in group}
    return any(error is None and group in groups for group, error in _errors_of(found))


def _errors_of(own: OwnCalibration) -> tuple[tuple[tuple[str, ...], OwnError | None], ...]:
    return (DECODED, own.tpot), (READ, own.ttft)


def _noise(rows: Sequence[Row]) -> float:
    """What the figures' logarithms deviate by, by the ranges of a usual row of a machine that wasn't quiet."""
    wide = [
        log(value.high / value.low) / (2.0 * NORMAL90)
        for row in rows
        for name, value in row.measured.items()
        if name in PREFERRED
    ]
    return max(NOISE, float(np.median(wide))) if wide else NOISE


def _disturbed(own: OwnCalibration, rows: Sequence[Row]) -> OwnCalibration:
    """The calibration of a machine that wasn't quiet: its ranges hold what a usual one of its rows saw."""
    changes: dict[str, Any] = {"disturbed": True}
    for what, group, error in (("tpot", DECODED, own.tpot), ("ttft", READ, own.ttft)):
        seen = [value for row in rows for name, value in row.measured.items() if name in group]
        if error is None or not seen:
            continue
        low = float(np.median([one.low / one.median for one in seen])) - 1.0
        high = float(np.median([one.high / one.median for one in seen])) - 1.0
        changes[what] = error.model_copy(
            update={
                "low_fraction": min(error.low_fraction, max(low, LEAST_LOW)),
                "high_fraction": max(error.high_fraction, min(high, MOST_HIGH)),
            }
        )
    return own.model_copy(update=changes)


def fitted_to(rows: Sequence[Measurement], name: str, date: str) -> list[OwnCalibration]:
    """A calibration for each accelerator and engine that the rows tell something of, those with most rows first.

    Args:
        name, date: what the calibrations are called by; date as YYYY-MM-DD.
    """
    groups = sorted(_groups(rows).values(), key=len, reverse=True)
    several = len(groups) > 1
    found = []
    for runs in groups:
        accelerator, engine = _place(runs[0])
        called = f"{name} {accelerator} {engine}"[:80] if several else name
        found.append(_fitted(called, date, runs, []))
    return [one for one in found if one is not None]


def _place(run: Run) -> tuple[str, str]:
    return run.deployment.accelerator.id, run.deployment.engine.id


def _groups(rows: Sequence[Measurement]) -> dict[tuple[str, str], list[Run]]:
    """The rows that the planner can answer, resolved, by accelerator and engine: possible ones, each run once."""
    found: dict[tuple[str, str], list[Run]] = {}
    for row in _distinct(rows):
        try:
            run = resolve_run(row)
        except PlannerError:
            continue
        if not is_impossible(run) and not _may_have_queued(run):
            found.setdefault(_place(run), []).append(run)
    return {place: _spread_out(runs) for place, runs in found.items()}


def _may_have_queued(run: Run) -> bool:
    """Arrivals at a rate that filled half of the places: how many ran together then follows from the queue's model."""
    crowded = run.scenario.concurrency > MOST_TAKEN * run.max_running
    return run.measurement.arrivals == POISSON and crowded


def _distinct(rows: Sequence[Measurement]) -> list[Measurement]:
    """The rows with repeats of one scenario joined to their medians: a repeat tells of noise, not of another run."""
    same: dict[tuple[Any, ...], list[Measurement]] = {}
    for row in rows:
        how = tuple(getattr(row, one.name) for one in fields(row) if one.name not in APART)
        same.setdefault((*how, canonical_text(dict(row.scenario))), []).append(row)
    return [_joined(group) for group in same.values()]


def _joined(group: Sequence[Measurement]) -> Measurement:
    if len(group) == 1:
        return group[0]
    names = dict.fromkeys(name for row in group for name in row.measured)
    return replace(
        group[0],
        measured={
            name: float(np.median([row.measured[name] for row in group if name in row.measured]))
            for name in names
        },
    )


def _spread_out(runs: list[Run]) -> list[Run]:
    if len(runs) <= MOST:
        return runs
    return [runs[int(i)] for i in np.linspace(0, len(runs) - 1, MOST)]


def _fitted(
    name: str, date: str, runs: Sequence[Run], checks: Sequence[Run], noise: float | None = None
) -> OwnCalibration | None:
    """The calibration of the runs; of one figure alone where a fit to the other isn't to be trusted.

    Args:
        noise: standard deviation of the figures' logarithms, on a machine that wasn't quiet; None on one that was.
    """
    seen = _seen(runs)
    while seen:
        try:
            _, stages = own_stages(seen, SHIPPED, noise=noise or NOISE)
            unseen = _held_out(seen, stages, noise or NOISE)
            found = _calibration(name, date, seen, stages, unseen, _seen(checks), noise)
        except (PlannerError, ValidationError):  # a fit that lies beyond what a calibration holds
            return None
        if found is None:
            return None
        wrong = [
            group
            for group, error in ((DECODED, found.tpot), (READ, found.ttft))
            if error is not None and not _trusted(error)
        ]
        if not wrong:
            return found
        seen = [one for one in seen if one.quantity not in wrong[0]]  # the other builds on it
    return None


def _trusted(error: OwnError) -> bool:
    """Whether a fit left little error, or at least less than there was."""
    if error.after_fraction > MOST_LEFT:
        return False
    return error.after_fraction <= max(error.before_fraction, LITTLE)


def _seen(runs: Sequence[Run]) -> list[Observation]:
    """What counts: each run's time per token and first token once, or else its rate.

    Where requests came at a rate only the time per token does: the throughput is theirs, and first tokens waited.
    """
    found = []
    for run in runs:
        arriving = run.measurement.arrivals == POISSON
        own = observations([run], ("tpot_s",) if arriving else PREFERRED)
        timed = [one for one in own if one.quantity.endswith("_s") and "per" not in one.quantity]
        found += timed or own[:1]
    few = [
        group for group in (DECODED, READ) if sum(one.quantity in group for one in found) < FEWEST
    ]
    return [one for one in found if not any(one.quantity in group for group in few)]


def _held_out(seen: Sequence[Observation], stages: Sequence[Stage], noise: float) -> FloatArray:
    """log(predicted / measured) of each run by a fit to the others."""
    found = np.full(len(seen), np.nan)
    folds = min(FOLDS, len(seen))
    for fold in range(folds):
        out = [i for i in range(len(seen)) if i % folds == fold]
        rest = [one for i, one in enumerate(seen) if i % folds != fold]
        if any(not any(one.quantity in group for one in rest) for group in _phases(seen)):
            continue
        shelf, _ = own_stages(rest, SHIPPED, stages, noise=noise)
        found[out] = errors([seen[i] for i in out], shelf)
    return found


def _phases(seen: Sequence[Observation]) -> list[tuple[str, ...]]:
    names = {one.quantity for one in seen}
    return [group for group in (DECODED, READ) if names & set(group)]


def _calibration(
    name: str,
    date: str,
    seen: Sequence[Observation],
    stages: Sequence[Stage],
    unseen: FloatArray,
    checks: Sequence[Observation],
    noise: float | None,
) -> OwnCalibration | None:
    constants: dict[str, dict[str, OwnConstant]] = {}
    for stage in stages:
        solution = stage.solution
        for i, parameter in enumerate(stage.parameters):
            if solution.gain[i] < KNOWN_FROM:
                continue
            constants.setdefault(parameter.file, {})[parameter.keys[0]] = OwnConstant(
                value=solution.values[i],
                deviation=solution.deviation[i],
                identified_fraction=solution.gain[i],
                at_bound=solution.at_bound[i],
            )
    if not constants:
        return None
    laid = Shelf(
        values={
            file: {key: constant.value for key, constant in entries.items()}
            for file, entries in constants.items()
        }
    )
    first = seen[0].run.deployment
    tpot = _error(DECODED, seen, laid, unseen, checks, noise)
    ttft = _error(READ, seen, laid, unseen, checks, noise)
    if tpot is None and ttft is None:
        return None
    kinds = {weights_kind(calibration_key(one.run.deployment)[2]) for one in seen}
    return OwnCalibration(
        schema_version=1,
        name=name,
        date=date,
        accelerator=first.accelerator.id,
        engine=first.engine.id,
        engine_version=first.settings.version,
        kinds=sorted(kinds),
        experts=any(one.run.mixture for one in seen),
        constants=constants,
        tpot=tpot,
        ttft=ttft,
    )


def _error(
    quantities: Sequence[str],
    seen: Sequence[Observation],
    laid: Shelf,
    unseen: FloatArray,
    checks: Sequence[Observation],
    noise: float | None,
) -> OwnError | None:
    mine = [i for i, one in enumerate(seen) if one.quantity in quantities]
    if len(mine) < FEWEST:
        return None
    own = [seen[i] for i in mine]
    apart = [one for one in checks if one.quantity in quantities]
    before, after = errors(own, SHIPPED), errors(own, laid)
    residuals = np.concatenate([unseen[mine], errors(apart, laid)])
    ratio = np.exp(-residuals[~np.isnan(residuals)])
    high = least_band(len(mine))
    low = -high
    if len(ratio):
        ends = np.quantile(ratio, (0.5 - INSIDE / 2.0, 0.5 + INSIDE / 2.0)) - 1.0
        low, high = min(low, float(ends[0])), max(high, float(ends[1]))
    if noise is not None:  # each run is of moments of its own: the range holds every one
        every = np.exp(-np.concatenate([after, errors(apart, laid)])) - 1.0
        low, high = min(low, float(np.nanmin(every))), max(high, float(np.nanmax(every)))
    return OwnError(
        rows=len(own),
        before_fraction=median_error(before),
        after_fraction=median_error(after),
        low_fraction=max(low, LEAST_LOW),
        high_fraction=min(high, MOST_HIGH),
        worse=worse_groups(own, before, after),
    )
