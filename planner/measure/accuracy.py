"""How far the planner's figures are from measured ones: every shipped row predicted, family by family.

In sample: with the shipped constants. Held out: by fits that never saw the row's model, card or engine, as the last
refit stored them. Coverage: how often what was measured lies in the range around the prediction.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log

import numpy as np

from planner.catalog.accelerators import Accelerator
from planner.catalog.calibration_constants import accelerator_class
from planner.catalog.files import profile_lines
from planner.catalog.measurements import RATES, SPEED_FAMILIES, measurements
from planner.errors import BadProfile, Note, PlannerError
from planner.measure.predict import Run, predicted, run_of
from planner.measure.run_bands import band_of
from planner.measure.spread import spread_unseen
from planner.quantity import FloatArray
from planner.speed.bounds import tpot_bound

NAMES = {
    ("serving", "tpot_s"): "serving.tpot",
    ("serving", "ttft_s"): "serving.ttft",
    ("unloaded", "ttft_s"): "serving.ttft.unloaded",
    ("llama-cpp", "tpot_s"): "llama-cpp.decode",
    ("llama-cpp", "prefill_s"): "llama-cpp.prefill",
    ("llama-cpp-offload", "tpot_s"): "llama-cpp-offload.decode",
    ("llama-cpp-offload", "prefill_s"): "llama-cpp-offload.prefill",
    ("transformers", "tpot_s"): "transformers.decode",
    ("transformers", "output_tokens_per_s"): "transformers.decode",
    ("transformers", "prefill_s"): "transformers.prefill",
}
# Most that the median error may be, in sample and held out, where a target was set.
TARGETS: dict[str, tuple[float, float]] = {
    "serving.tpot.dense": (0.08, 0.12),
    "serving.tpot.experts": (0.15, 0.20),
    "serving.ttft.dense": (0.20, 0.25),
    "serving.ttft.experts": (0.20, 0.25),
    "llama-cpp.decode": (0.10, 0.18),
    "llama-cpp.prefill": (0.20, 0.30),
    "transformers.decode": (0.15, 0.20),
    "batch": (0.15, 0.20),
    "mlperf": (0.20, 0.20),
}
UNSURE = 0.25  # median error from which what has no target counts as weak
TOO_FEW = 0.70  # part of the measurements in their ranges below which ranges plainly don't hold
LOADS = {"few": 16, "some": 64}  # most requests at once of a class; "many" beyond
# Which hold-out a family's target is about.
FOLD = {"llama-cpp.decode": "accelerator", "llama-cpp.prefill": "accelerator"}


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One measured quantity and the planner's figure for it, both in the quantity's unit.

    Attributes:
        family: what it is counted under ("serving.tpot.dense").
        low, high: the 80 % range around `mid`.
        held: measured / predicted by folds that left its model, accelerator or engine out, by that name.
    """

    family: str
    run: Run
    quantity: str
    measured: float
    low: float
    mid: float
    high: float
    held: Mapping[str, float]

    @property
    def error(self) -> float:
        """predicted / measured − 1 of the time; of a rate, the same of its inverse."""
        ratio = self.mid / self.measured
        return (1.0 / ratio if self.quantity in RATES else ratio) - 1.0

    @property
    def covered(self) -> bool:
        """What was measured lies in the range."""
        return self.low <= self.measured <= self.high

    @property
    def card(self) -> Accelerator:
        return self.run.deployment.accelerator


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors of a group of points.

    Attributes:
        median, p90: of the absolute relative error; bias: the median of the signed one (predicted / measured − 1).
        coverage: part inside their ranges.
        held: median absolute error where the named thing was left out.
        held_coverage: part of those folds' rows inside a range taken from the other folds' rows; held_groups: how many
            models, or cards, were left out for it.
    """

    rows: int
    median: float
    p90: float
    bias: float
    coverage: float
    held: Mapping[str, float]
    held_coverage: float | None
    held_groups: int


@lru_cache(maxsize=8)
def held_out(family: str) -> Mapping[tuple[str, str], Mapping[str, float]]:
    """measured / predicted by row and quantity, for each thing that a fold left out; empty where no fit was made."""
    try:
        lines = profile_lines(f"calibrations/held-out-{family}.csv")
    except BadProfile:
        return {}
    found = {}
    for row in csv.DictReader(lines):
        key = (row["id"], row["quantity"])
        found[key] = {
            name: float(text)
            for name, text in row.items()
            if text and name not in ("id", "quantity", "in_sample")
        }
    return found


def family_name(run: Run, quantity: str) -> str:
    """What a measured quantity of a run is counted under."""
    family = run.measurement.family
    name = NAMES.get((family, quantity), family)
    if name.startswith("serving") and family == "serving":
        return f"{name}.{'experts' if run.mixture else 'dense'}"
    if family == "serving-throughput":
        return f"{family}.{run.measurement.arrivals}"
    if name.startswith("transformers") and run.mixture:
        return "transformers.experts"
    return name


def points(families: Sequence[str] = SPEED_FAMILIES) -> tuple[list[Point], list[Note]]:
    """Every measured quantity of the families predicted, and the rows that the planner refuses, with the reason."""
    found: list[Point] = []
    refused: list[Note] = []
    for family in families:
        stored = held_out(family)
        for row in measurements(family):
            try:
                run = run_of(row)
                values = predicted(run)
            except PlannerError as error:
                refused.append(Note(error.code, {"row": row.id, "family": family, **error.values}))
                continue
            for quantity, mid in values.items():
                low, high = _range(run, quantity, mid)
                found.append(
                    Point(
                        family_name(run, quantity),
                        run,
                        quantity,
                        row.measured[quantity],
                        low,
                        mid,
                        high,
                        stored.get((row.id, quantity), {}),
                    )
                )
    return found, refused


def _range(run: Run, quantity: str, mid: float) -> tuple[float, float]:
    calibration = run.calibration
    low, high = band_of(run, quantity, calibration)
    if quantity in RATES:
        return mid / (1.0 + high), mid / (1.0 + low)
    down, up = mid * (1.0 + low), mid * (1.0 + high)
    if quantity == "tpot_s":
        deployment, scenario = run.deployment, run.scenario
        floor = tpot_bound(
            deployment.work,
            deployment.hardware,
            1.0,
            scenario.input_tokens + scenario.output_tokens / 2.0,
        )
        down = max(down, float(floor.seconds))
    return down, max(up, down)


def summary(group: Sequence[Point]) -> Summary:
    """Errors and coverage of a group; raises ValueError where it is empty."""
    if not group:
        raise ValueError("no points")
    error = np.array([one.error for one in group])
    fold = fold_of(group[0].family)
    held = {}
    for name in sorted({name for one in group for name in one.held}):
        values = np.array([_as_time(one, name) for one in group if name in one.held])
        held[name] = float(np.median(np.abs(np.expm1(values))))
    return Summary(
        len(group),
        float(np.median(np.abs(error))),
        float(np.quantile(np.abs(error), 0.9)),
        float(np.median(error)),
        float(np.mean([one.covered for one in group])),
        held,
        held_coverage(group),
        len({_left_out(one, fold) for one in group if fold in one.held}),
    )


def _as_time(one: Point, fold: str) -> float:
    """log(predicted / measured) of the time by the fold that left something out."""
    residual = -log(one.held[fold])
    return -residual if one.quantity in RATES else residual


def fold_of(family: str) -> str:
    """What is left out where a family's held-out error is spoken of: the model, or for llama.cpp the card."""
    return FOLD.get(family, "model")


def as_asked(point: Point) -> Point:
    """A point as a scenario asks for it: with the engine's own waits for prompts, and requests that don't run in waves.

    A scenario has no fields for these settings of a row. What folds predicted moves as the prediction does.
    """
    row = point.run.measurement
    if (row.poll_steps, row.hold_steps) == (1.0, 0.0) and row.arrivals != "waves":
        return point
    arrivals = "loop" if row.arrivals == "waves" else row.arrivals
    plain = replace(row, poll_steps=1.0, hold_steps=0.0, arrivals=arrivals)
    run = replace(point.run, measurement=plain)
    mid = predicted(run, quantities=[point.quantity])[point.quantity]
    low, high = _range(run, point.quantity, mid)
    held = {name: ratio * point.mid / mid for name, ratio in point.held.items()}
    return replace(point, run=run, low=low, mid=mid, high=high, held=held)


def load_of(point: Point) -> str:
    """Requests at once, in three classes, as a code."""
    many = point.run.scenario.concurrency / point.run.measurement.replicas
    return next((name for name, most in LOADS.items() if many <= most), "many")


def is_weak(one: Summary) -> bool:
    """Whether figures like these are to be taken with care, whatever target their family meets as a whole."""
    return one.median > UNSURE or one.coverage < TOO_FEW


def against_targets(family: str, one: Summary) -> list[tuple[str, float, float]]:
    """Median errors that a target was set for, as what ("in_sample", "held_out"), error and target (fractions)."""
    target = TARGETS.get(family)
    if not target:
        return []
    found = [("in_sample", one.median, target[0])]
    held = one.held.get(fold_of(family))
    if held is not None:
        found.append(("held_out", held, target[1]))
    return found


def held_coverage(group: Sequence[Point]) -> float | None:
    """Part of held-out rows inside a range from the rows of other models (llama.cpp: of other cards).

    Neither the prediction nor the range has seen the row's model. None for fewer than 40 rows.
    """
    fold = fold_of(group[0].family)
    with_fold = [one for one in group if fold in one.held]
    if len(with_fold) < 40 or len({_left_out(one, fold) for one in with_fold}) < 2:
        return None
    residuals: FloatArray = np.array([_as_time(one, fold) for one in with_fold])
    names = np.array([_left_out(one, fold) for one in with_fold])
    inside = 0
    for name in set(names):
        low, high = spread_unseen(residuals[names != name], names[names != name])
        ratio = np.exp(-residuals[names == name])
        inside += int(np.sum((ratio >= 1.0 + low) & (ratio <= 1.0 + high)))
    return inside / len(with_fold)


def _left_out(one: Point, fold: str) -> str:
    if fold == "accelerator":
        return one.card.id
    return f"{one.run.deployment.architecture.model_type}-{one.run.deployment.architecture.layers}"


def by(found: Sequence[Point], key: Callable[[Point], str]) -> dict[str, Summary]:
    """Summaries of groups by name, in order."""
    groups: dict[str, list[Point]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return {name: summary(groups[name]) for name in sorted(groups)}


def corner(one: Point) -> str:
    """Engine, class of accelerator and kind of model."""
    kind = "experts" if one.run.mixture else "dense"
    return f"{one.run.deployment.engine.id} / {accelerator_class(one.card).name} / {kind}"


def worst(found: Sequence[Point], count: int = 20) -> list[Point]:
    """The points that are furthest off, by the ratio of predicted and measured."""
    return sorted(found, key=lambda one: -abs(log(one.mid / one.measured)))[:count]


def cause(one: Point) -> str:
    """A code for the likely cause of a large error, from what the model is known to leave out."""
    run = one.run
    engine, scenario = run.deployment.engine.id, run.scenario
    if run.measurement.family == "serving-throughput":
        return "stock_server" if run.measurement.arrivals == "burst" else "share_of_memory"
    if run.max_running < scenario.concurrency / run.measurement.replicas:
        return "cache_full"
    if one.quantity == "ttft_s" and one.measured > 10.0 * one.mid:
        return "queued"
    if run.measurement.family == "mlperf":
        return "tuned_and_assumed_lengths"
    if engine == "llama.cpp" and run.measurement.family == "batch":
        return "host_bound_build"
    if run.measurement.family == "batch":
        return "old_version"
    if run.measurement.family == "unloaded":
        return "host_to_first_token"
    if one.quantity in ("ttft_s", "prefill_s"):
        return "synchronised_prompts" if engine != "llama.cpp" else "build_of_kernels"
    return "scatter"
