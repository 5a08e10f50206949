"""A refit of all constants: every plan run on its rows, its hold-outs, and the ranges that these give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.catalog.calibration_constants import BURSTS, Shelf, accelerator_class
from planner.catalog.measurements import Measurement
from planner.errors import InvalidInput, Note, PlannerError
from planner.measure.fit.plans import (
    APART,
    EAGER,
    EAGER_LOOPS,
    PLANS,
    Plan,
    Stage,
    held_out,
    hints_of,
    seen_of,
)
from planner.measure.fit.problem import Observation, calibration_on, errors, median_error
from planner.measure.predict import Run, run_of
from planner.quantity import FloatArray

GPU_FOLDS = 5
CHECKS = ("unloaded", "llama-cpp-offload")  # tables that no fit of these plans may see


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One family refitted.

    Attributes:
        seen: what was fitted; fitted: log(predicted / measured) of it in sample.
        held: the same by folds that left out models, accelerators or engines, by the name of what was left out.
        files: the calibration file that serves each observation.
        folds: the constants of each of those fits, by what was left out and its name.
    """

    family: str
    seen: tuple[Observation, ...]
    stages: tuple[Stage, ...]
    fitted: FloatArray
    held: Mapping[str, FloatArray]
    files: tuple[str, ...]
    folds: Mapping[str, Mapping[str, Shelf]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Refit:
    """All families refitted: the values, and what came of them; `refused`: rows that the planner can't answer."""

    shelf: Shelf
    outcomes: tuple[Outcome, ...]
    refused: tuple[Note, ...]


def resolved(rows: Sequence[Measurement]) -> tuple[list[Run], list[Note]]:
    """The rows that the planner can answer, and why it can't answer the others."""
    runs, refused = [], []
    for row in rows:
        try:
            runs.append(run_of(row))
        except PlannerError as error:
            refused.append(Note(error.code, {"row": row.id, "family": row.family, **error.values}))
    return runs, refused


def model_fold(one: Observation) -> str:
    """What is left out as one model: an architecture and its depth, whatever the checkpoint and the format."""
    architecture = one.run.deployment.architecture
    return f"{architecture.model_type}-{architecture.layers}"


def engine_fold(one: Observation) -> str:
    """The engine, to be left out as a whole."""
    return one.run.deployment.engine.id


def accelerator_fold(seen: Sequence[Observation]) -> Callable[[Observation], str]:
    """Folds of accelerators: one each where there are few, else several, never two of one class together."""
    by_class: dict[str, list[str]] = {}
    for one in seen:
        card = one.run.deployment.accelerator
        members = by_class.setdefault(accelerator_class(card).name, [])
        if card.id not in members:
            members.append(card.id)
    every = sorted(card for members in by_class.values() for card in members)
    if len(every) <= 2 * GPU_FOLDS:
        return lambda one: one.run.deployment.accelerator.id
    place = {
        card: sorted(members).index(card) % GPU_FOLDS
        for members in by_class.values()
        for card in members
    }
    return lambda one: str(place[one.run.deployment.accelerator.id])


def refit_family(
    plan: Plan,
    runs: Sequence[Run],
    shelf: Shelf,
    *,
    hold_out: bool = True,
    under: Mapping[str, Mapping[str, Shelf]] | None = None,
) -> tuple[Shelf, Outcome]:
    """One family fitted over a shelf, with its hold-outs.

    Args:
        under: of the family that the plan builds on, the constants of its folds.

    Raises:
        PlannerError: where a run lacks a constant or a rate that it needs.
    """
    seen = seen_of(runs, plan)
    laid, stages = plan.run(seen, shelf, {})
    hints = hints_of(stages)
    held: dict[str, FloatArray] = {}
    shelves: dict[str, Mapping[str, Shelf]] = {}
    if hold_out:
        folds = {"model": model_fold, "accelerator": accelerator_fold(seen)}
        if len({engine_fold(one) for one in seen}) > 1:
            folds["engine"] = engine_fold
        for kind, fold in folds.items():
            held[kind], shelves[kind] = held_out(
                plan,
                seen,
                fold,
                shelf,
                cards=kind == "accelerator",
                hints=hints,
                under=(under or {}).get(kind),
            )
    return laid, Outcome(
        plan.family,
        tuple(seen),
        tuple(stages),
        errors(seen, laid),
        held,
        _serving_files(seen, stages, laid),
        shelves,
    )


def _serving_files(
    seen: Sequence[Observation], stages: Sequence[Stage], shelf: Shelf
) -> tuple[str, ...]:
    """The file that answers each observation; what a version's file leaves alone is that of the one it builds on."""
    dense = {stage.file for stage in stages if stage.file != EAGER_LOOPS}
    if dense == {BURSTS}:
        return (BURSTS,) * len(seen)
    files = []
    for one in seen:
        file = calibration_on(shelf, one.run).id
        loops = file == EAGER_LOOPS and not one.run.mixture and EAGER in dense
        files.append(EAGER if loops else file)
    return tuple(files)


def refit(families: Mapping[str, Sequence[Measurement]]) -> Refit:
    """All families that there is a plan for, fitted one after another, with hold-outs of each kind.

    Args:
        families: rows by family; those without a plan are left aside.
    """
    shelf = Shelf()
    outcomes: dict[str, Outcome] = {}
    refused: list[Note] = []
    for family, plan in PLANS.items():
        rows = families.get(family)
        if not rows:
            continue
        runs, notes = resolved(rows)
        refused += notes
        if not runs:
            continue
        below = outcomes.get(plan.over)
        shelf, outcomes[family] = refit_family(
            plan, runs, shelf, under=below.folds if below else None
        )
    return Refit(shelf, tuple(outcomes.values()), tuple(refused))


def by_plan(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """Rows by the plan that fits their engine's kind of constants; an engine without one of its own batches by step.

    Raises:
        InvalidInput: where no row has a quantity that its plan fits.
    """
    own = {"llama.cpp": "llama-cpp", "transformers": "transformers"}
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        if row.family in CHECKS:
            continue
        family = own.get(row.scenario.get("engine", ""), "serving")
        if row.family in APART:
            family = row.family
        if any(quantity in row.measured for quantity in PLANS[family].quantities):
            found.setdefault(family, []).append(row)
    if not found:
        raise InvalidInput("measurements_empty", field="measurements")
    return found


def outcome_json(found: Refit) -> list[dict[str, object]]:
    """Each family's constants with how far rows identify them, and its errors, as data."""
    return [
        {
            "family": outcome.family,
            "rows": len(outcome.seen),
            "median_error_fraction": median_error(outcome.fitted),
            "held_out_median_error_fraction": {
                name: median_error(values) for name, values in outcome.held.items()
            },
            "constants": [
                {
                    "file": stage.file,
                    "key": parameter.keys[0],
                    "value": stage.solution.values[i],
                    "identified_fraction": stage.solution.gain[i],
                    "at_bound": stage.solution.at_bound[i],
                }
                for stage in outcome.stages
                for i, parameter in enumerate(stage.parameters)
            ],
        }
        for outcome in found.outcomes
    ]


def refitted_notes(found: Refit) -> list[Note]:
    """One sentence a family."""
    return [
        Note(
            "refitted",
            {
                "family": outcome.family,
                "rows": len(outcome.seen),
                "error": median_error(outcome.fitted),
            },
        )
        for outcome in found.outcomes
    ]
