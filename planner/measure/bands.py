"""The ranges that a refit ships, each from residuals of the hold-out that matches what it is for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.catalog.calibration_constants import BURSTS, accelerator_class
from planner.catalog.measurements import DECODED, READ
from planner.measure.fit.constants import FEWEST
from planner.measure.fit.plans import EAGER, OFFLINE, SLOTS
from planner.measure.refit import Outcome, model_fold
from planner.measure.spread import spread_of, spread_unseen
from planner.quantity import FloatArray

SEEN_INSIDE = 0.84  # of the rows fitted: 80 % of other rows of the same models and cards, checked on 1,600 left out
FEWEST_MODELS = 3  # whose offsets say how far another model's may be
KINDS = {"serving": "continuous", SLOTS: "slots", EAGER: "static"}
"""The kind of engine that a family's constants are for; runs that start with all their requests have several."""

# Which hold-out a basis takes its range from, and how much wider it is where less than that is known: the cards left
# out are of two generations, those carried to are of many.
WIDTHS = {
    "continuous": {
        "other-model": ("model", 1.0),
        "transferred": ("accelerator", 1.5),
        "physics": ("accelerator", 2.0),
        "assumed": ("accelerator", 2.5),
    },
    "slots": {"transferred": ("accelerator", 1.0), "assumed": ("accelerator", 1.5)},
    "static": {
        "transferred": ("model", 1.0),
        "physics": ("model", 1.0),
        "assumed": ("accelerator", 1.0),
    },
}


def named_by(outcome: Outcome) -> list[str]:
    """What the names of a family's ranges begin with."""
    kind = KINDS.get(outcome.family)
    return [kind] if kind else sorted({stage.file for stage in outcome.stages})


def bands(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """Ranges by kind of engine, basis, kind of model and what is estimated, from residuals of the matching hold-out.

    Continuous batching: a model of a family that the fit has seen gets the range in sample; another one that of folds
    without its model; a card that no fit covers that of folds without the card. Other kinds as in WIDTHS.
    """
    if outcome.family in OFFLINE:
        return _by_file(outcome)
    kind = KINDS.get(outcome.family)
    if kind is None:
        return _by_arrival(outcome)
    found: dict[str, tuple[float, float]] = {}
    for what, quantities in (
        ("tpot", DECODED),
        ("ttft", READ),
    ):
        for model, experts in (("dense", False), ("experts", True)):
            rows = [
                i
                for i, one in enumerate(outcome.seen)
                if one.quantity in quantities and one.run.mixture is experts
            ]
            if len(rows) < 20:
                continue
            if kind == "continuous":
                seen = _as_times(outcome, outcome.fitted)[rows]
                found[f"{kind}.calibrated.{model}.{what}"] = spread_of(seen, SEEN_INSIDE)
            for group, (fold, wider) in WIDTHS[kind].items():
                low, high = _unseen(outcome, rows, fold)
                low = 1.0 / (1.0 + (1.0 / (1.0 + low) - 1.0) * wider) - 1.0
                found[f"{kind}.{group}.{model}.{what}"] = (low, high * wider)
    return found


def _by_file(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """By file and class of accelerator; no narrower than what the whole file says where few models tell of a class."""
    whole: dict[str, list[int]] = {}
    by_class: dict[tuple[str, str], list[int]] = {}
    for i, (one, file) in enumerate(zip(outcome.seen, outcome.files, strict=True)):
        name = accelerator_class(one.run.deployment.accelerator).name
        whole.setdefault(file, []).append(i)
        by_class.setdefault((file, name), []).append(i)
    found = {}
    for (file, name), rows in sorted(by_class.items()):
        if len(rows) < FEWEST:
            continue
        low, high = _unseen(outcome, rows, "model")
        if len({model_fold(outcome.seen[i]) for i in rows}) < FEWEST_MODELS:
            least = _unseen(outcome, whole[file], "model")
            low, high = min(low, least[0]), max(high, least[1])
        found[f"{file}.{name}.tpot"] = (low, high)
    return found


def _by_arrival(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """Of requests that all come at once: by how they reach the engine."""
    groups: dict[str, list[int]] = {}
    for i, one in enumerate(outcome.seen):
        groups.setdefault(f"{BURSTS}.{one.run.measurement.arrivals}", []).append(i)
    return {name: _unseen(outcome, rows, "model") for name, rows in sorted(groups.items())}


def _unseen(outcome: Outcome, rows: Sequence[int], fold: str) -> tuple[float, float]:
    """The range of another model's, or card's, times, from fits that hadn't seen each row's."""
    names = [
        model_fold(one) if fold == "model" else one.run.deployment.accelerator.id
        for one in (outcome.seen[i] for i in rows)
    ]
    return spread_unseen(_as_times(outcome, outcome.held[fold])[rows], names)


def _as_times(outcome: Outcome, residuals: FloatArray) -> FloatArray:
    """log(predicted / measured) of the times, where those of rates are given."""
    rate = np.array([one.quantity.endswith("_per_s") for one in outcome.seen])
    return np.where(rate, -residuals, residuals)
