"""Measured runs as residuals of calibration constants: what each trial of values predicts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import log

import numpy as np

from planner.catalog.calibration_constants import Shelf
from planner.catalog.calibrations import Calibration, build_calibration
from planner.errors import PlannerError
from planner.measure.fit.solve import Parameter, Solution, solve
from planner.measure.predict import Run, burst_times, predicted
from planner.quantity import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """One measured quantity of one run."""

    run: Run
    quantity: str

    @property
    def value(self) -> float:
        return self.run.measurement.measured[self.quantity]


def observations(runs: Sequence[Run], quantities: Sequence[str]) -> list[Observation]:
    """The named quantities that each run measured."""
    return [
        Observation(run, q) for run in runs for q in quantities if q in run.measurement.measured
    ]


def shelf_of(
    parameters: Sequence[Parameter],
    values: Sequence[float],
    under: Shelf | None = None,
) -> Shelf:
    """Calibration files with the parameters' values in them, over those of another shelf."""
    laid: dict[str, dict[str, float]] = {}
    if under:
        laid = {file: dict(entries) for file, entries in under.values.items()}
    for parameter, value in zip(parameters, values, strict=True):
        for key in parameter.keys:
            laid.setdefault(parameter.file, {})[key] = value
    return replace(under or Shelf(), values=laid)


def calibration_on(shelf: Shelf, run: Run) -> Calibration:
    """The constants of a run as a shelf has them."""
    return build_calibration(*run.calibration_key, shelf)


class Residuals:
    """log(predicted / measured) of observations, as a function of the parameters' logarithms.

    A parameter that reaches none of an observation's constants leaves it alone: such residuals aren't computed again.
    """

    def __init__(
        self, seen: Sequence[Observation], parameters: Sequence[Parameter], under: Shelf
    ) -> None:
        self.seen = seen
        self.parameters = parameters
        self.under = under
        self.keys = [o.run.calibration_key for o in seen]
        self.last: FloatArray = np.zeros(len(seen))
        self.touched: dict[int, list[int]] = {}

    def __call__(self, x: FloatArray, changed: int | None) -> FloatArray:
        shelf = shelf_of(self.parameters, [float(v) for v in np.exp(x)], self.under)
        known = self.touched.get(changed) if changed is not None else None
        rows = range(len(self.seen)) if known is None else known
        found = self.last.copy()
        built = {key: build_calibration(*key, shelf) for key in {self.keys[i] for i in rows}}
        found[list(rows)] = _log_ratios(
            [self.seen[i] for i in rows], [built[self.keys[i]] for i in rows]
        )
        if changed is None:
            self.last = found
        elif known is None:
            self.touched[changed] = [i for i in rows if abs(found[i] - self.last[i]) > 1e-12]
        return found


def fit(
    seen: Sequence[Observation],
    parameters: Sequence[Parameter],
    under: Shelf,
    *,
    weights: FloatArray | None = None,
    start: Sequence[float] | None = None,
    noise: float = 0.1,
) -> tuple[Shelf, Solution]:
    """The parameters fitted to observations, and a shelf that holds them; `start` and `noise` as in `solve`.

    Raises:
        PlannerError: where a run lacks a constant or a rate.
    """
    solution = solve(
        parameters, Residuals(seen, parameters, under), weights=weights, start=start, noise=noise
    )
    return shelf_of(parameters, solution.values, under), solution


def errors(seen: Sequence[Observation], shelf: Shelf) -> FloatArray:
    """log(predicted / measured) with a shelf's constants; NaN where a constant is missing."""
    keys = [one.run.calibration_key for one in seen]
    built: dict[object, Calibration] = {}
    for key in dict.fromkeys(keys):
        with suppress(PlannerError):
            built[key] = build_calibration(*key, shelf)
    known = [i for i, key in enumerate(keys) if key in built]
    found = np.full(len(seen), np.nan)
    found[known] = _log_ratios([seen[i] for i in known], [built[keys[i]] for i in known])
    return found


def _log_ratios(seen: Sequence[Observation], constants: Sequence[Calibration]) -> list[float]:
    """log(predicted / measured) of each observation with its constants."""
    times = burst_times([(one.run, its) for one, its in zip(seen, constants, strict=True)])
    return [
        log(predicted(one.run, its, (one.quantity,), burst_s)[one.quantity] / one.value)
        for one, its, burst_s in zip(seen, constants, times, strict=True)
    ]


def median_error(residuals: FloatArray) -> float:
    """Median absolute relative error (fraction) of log(predicted / measured); NaN for none."""
    return float(np.nanmedian(np.abs(np.expm1(residuals)))) if len(residuals) else float("nan")


def balanced(groups: Sequence[object], power: float = 0.5) -> FloatArray:
    """Weights that let a group of n rows count as n^(1 − power), mean 1: no campaign outvotes the others."""
    counts: dict[object, int] = {}
    for group in groups:
        counts[group] = counts.get(group, 0) + 1
    raw = np.array([counts[group] ** -power for group in groups])
    return np.asarray(raw / raw.mean())
