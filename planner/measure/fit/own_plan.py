"""The plan for runs of somebody's own: constants of one device and engine, each around what is shipped for it.

Whatever the catalogue states for the device's class or the engine's fit is what is expected beforehand; the fitted
value is laid where the planner looks first, so that nothing hides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.catalog.calibration_constants import Constants, Shelf, weights_kind
from planner.catalog.measurements import DECODED, READ
from planner.deployment import calibration_key
from planner.measure.fit.constants import (
    EFFICIENCY,
    FIRST_TOKEN,
    SLOT_DECODE,
    SLOT_PREFILL,
    STEP,
    Constant,
)
from planner.measure.fit.plans import SHARED_SPREAD, Stage
from planner.measure.fit.problem import Observation, fit
from planner.measure.fit.solve import Parameter
from planner.quantity import Basis

CLASSES = "accelerator-classes"
# What an assumed figure may be off by, against one that was fitted to other cards of the kind.
WIDENED = {Basis.PHYSICS: 1.5, Basis.ASSUMED: 2.0}
NOISE = 0.04  # of one machine's repeats and of the model's form over one or two shapes
HOST = "host_layer_s"  # followed by the host and the kind of weights

EAGER_DECODE = [
    Constant("weights", *EFFICIENCY, 0.6, 0.3, None),
    Constant(HOST, 1e-6, 5e-2, 1e-3, 0.7, None),
    Constant("layer_s", 1e-7, 5e-3, 1.5e-4, 0.7, None),
    Constant("cache_traffic", 0.3, 30.0, 3.0, 0.7, None),
    Constant("cache_repeats", 0.05, 30.0, 2.0, 0.7, None),
    Constant("compute.16bit", 0.02, 0.98, 0.5, 0.4, None),
    Constant("compute.32bit", 0.02, 0.98, 0.5, 0.4, None),
]
EAGER_PREFILL = [
    Constant("prefill.16bit", 0.02, 0.98, 0.4, 0.5, None),
    Constant("prefill.32bit", 0.02, 0.98, 0.4, 0.5, None),
    Constant("attention", 0.005, 0.98, 0.2, 0.8, None),
]
TABLES = {
    "continuous": (STEP, FIRST_TOKEN),
    "slots": (SLOT_DECODE, SLOT_PREFILL),
    "static": (EAGER_DECODE, EAGER_PREFILL),
}


def own_stages(
    seen: Sequence[Observation],
    shelf: Shelf,
    start: Sequence[Stage] = (),
    *,
    noise: float = NOISE,
) -> tuple[Shelf, list[Stage]]:
    """The time per token, then the first token, fitted to runs on one device with one engine.

    Args:
        seen: what was measured, all of one accelerator and engine.
        shelf: what is shipped.
        start: stages of an earlier fit, whose values to begin at.
        noise: standard deviation of the figures' logarithms, of repeats and of the model's form.

    Raises:
        PlannerError: where a run lacks a constant or a rate.
    """
    stages: list[Stage] = []
    known = {
        one.name: value
        for stage in start
        for one, value in zip(stage.parameters, stage.solution.values, strict=True)
    }
    kind = seen[0].run.deployment.calibration.kind if seen else ""
    for number, quantities in enumerate((DECODED, READ)):
        mine = [one for one in seen if one.quantity in quantities]
        if not mine:
            continue
        parameters = _parameters(TABLES[kind][number], mine, shelf)
        begin = [known.get(one.name, one.centre) for one in parameters]
        shelf, solution = fit(mine, parameters, shelf, start=begin, noise=noise)
        name = quantities[0]
        file = parameters[0].file if parameters else ""
        stages.append(Stage(file, name, len(mine), tuple(parameters), solution))
    return shelf, stages


def _parameters(
    constants: Sequence[Constant], seen: Sequence[Observation], shelf: Shelf
) -> list[Parameter]:
    """A parameter for each constant that the runs' kinds of weights have, around its shipped value."""
    found: dict[str, Parameter] = {}
    for key in dict.fromkeys(calibration_key(one.run.deployment) for one in seen):
        engine, card, weights_format, _, experts, version = key
        place = Constants(engine, card, weights_kind(weights_format), shelf, version)
        for constant, name in _named(constants, place, experts=experts):
            entry = place.find(name)
            if entry is None:
                continue
            figure = entry[0]
            file, prefix = _first_place(place)
            if name == "attention":
                file = CLASSES  # a class's one figure serves whole prompts too
            spread = (constant.own or max(constant.spread, SHARED_SPREAD)) * WIDENED.get(
                figure.basis, 1.0
            )
            centre = min(max(figure.value, constant.low * 1.01), constant.high * 0.99)
            laid = Parameter(file, (prefix + name,), constant.low, constant.high, centre, spread)
            found.setdefault(laid.name, laid)
    return list(found.values())


def _named(
    constants: Sequence[Constant], place: Constants, *, experts: bool
) -> Iterator[tuple[Constant, str]]:
    """The constants that can reach runs of this kind of weights, under the keys they are stated by."""
    for constant in constants:
        name, _, of = constant.key.partition(".")
        if constant.key == HOST:
            yield constant, f"{HOST}.{place.group.host}.{place.host_kind}"
        elif name == "weights":
            if not of or of in place.kinds:
                yield constant, _weights_name(place)
        elif name in ("experts", "expert_weights", "expert_layer_s"):
            if experts and (not of or of in place.kinds):
                yield constant, constant.key
        elif of:
            yield constant, constant.key
        else:
            yield constant, place.key_by_kind(name)


def _weights_name(place: Constants) -> str:
    """The key that the efficiency of reading weights is stated by, where the planner looks first."""
    stated = ((level, place.weights_key(level)) for level in place.levels)
    names = (key for level, key in stated if level.prefix + key in level.figures)
    return next(names, f"weights.{place.weights_kind}")


def _first_place(place: Constants) -> tuple[str, str]:
    """File and prefix where the planner looks for a constant before it looks anywhere else."""
    prefix = f"{place.group.name}."
    if place.kind == "continuous" and not (place.fitted or place.group.as_fitted):
        return CLASSES, prefix
    return place.file, prefix
