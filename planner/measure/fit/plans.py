"""Which constants are fitted to which rows, in which order, within which physical range.

Pooled first, then by engine or by class of accelerator with the pooled value as the expectation: a group with few rows
keeps close to the pool, one with many goes where its rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.catalog.calibration_constants import (
    BURSTS,
    Shelf,
    accelerator_class,
    calibration_figures,
    kinds_of,
    weights_kind,
)
from planner.catalog.measurements import DECODED, RATES
from planner.measure.fit.constants import (
    BY_GENERATION,
    EFFICIENCY,
    FEWEST,
    FIRST_TOKEN,
    GENERATIONS,
    HOST_FACTOR,
    HOST_LAYER,
    POOLED_NAME,
    SLOT_DECODE,
    SLOT_PREFILL,
    STEP,
    Constant,
)
from planner.measure.fit.offline import OLD, TUNED, emptied, parameters, parts
from planner.measure.fit.problem import (
    Observation,
    balanced,
    calibration_on,
    errors,
    fit,
    observations,
    shelf_of,
)
from planner.measure.fit.solve import Parameter, Solution, solve
from planner.measure.predict import Run
from planner.quantity import FloatArray

OFFLINE = ("batch", "mlperf")
APART = (*OFFLINE, "serving-throughput")  # with a plan of their own, whatever the engine
ENGINES = ("vllm", "sglang", "tensorrt-llm")
SLOTS, EAGER, POOL = "llama-cpp", "transformers", "joint"
EAGER_LOOPS = "transformers-4"  # its versions visit experts one by one
BURST_TIME = (0.3, 5.0)
SHARED_SPREAD = 0.3  # of constants that engines share, around what is shipped


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One solve: what it fitted, to how many rows, and what came of it."""

    file: str
    quantity: str
    rows: int
    parameters: tuple[Parameter, ...]
    solution: Solution


Hints = Mapping[tuple[str, str, str], float]
"""Values of an earlier run by file, quantity and key, to start from."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A family's way from rows to a shelf of constants.

    Attributes:
        over: the family whose constants its own build on, fold by fold; "" for none.
    """

    family: str
    quantities: tuple[str, ...]
    run: Callable[[Sequence[Observation], Shelf, Hints], tuple[Shelf, list[Stage]]]
    over: str = ""


def campaign(one: Observation) -> tuple[str, str, str, str]:
    """What rows are balanced over: engine, model, card and format."""
    deployment = one.run.deployment
    return (
        deployment.engine.id,
        deployment.model.id,
        deployment.accelerator.id,
        deployment.stored.format_id,
    )


def _weights(seen: Sequence[Observation]) -> FloatArray:
    return balanced([campaign(one) for one in seen])


def _value(shelf: Shelf, file: str, key: str, otherwise: float) -> float:
    figure = shelf.figures(file).get(key)
    return figure.value if figure else otherwise


def _pooled(constants: Sequence[Constant], file: str) -> list[Parameter]:
    return [Parameter(file, (c.key,), c.low, c.high, c.centre, c.spread) for c in constants]


def _solve(
    stages: list[Stage],
    file: str,
    quantity: str,
    seen: Sequence[Observation],
    parameters: Sequence[Parameter],
    shelf: Shelf,
    hints: Hints,
) -> Shelf:
    stage = f"{quantity} {len(parameters)}"
    start = [hints.get((file, stage, p.keys[0]), p.centre) for p in parameters]
    laid, solution = fit(seen, parameters, shelf, weights=_weights(seen), start=start)
    stages.append(Stage(file, quantity, len(seen), tuple(parameters), solution))
    return laid


def serving_plan(
    seen: Sequence[Observation], shelf: Shelf, hints: Hints
) -> tuple[Shelf, list[Stage]]:
    """Continuous batching: the step pooled, then by engine; the first token likewise."""
    stages: list[Stage] = []
    # The engines' own figures would hide the pool's while it is fitted.
    shelf = replace(shelf, emptied=frozenset(ENGINES))
    for quantity, constants in (("tpot_s", STEP), ("ttft_s", FIRST_TOKEN)):
        rows = [one for one in seen if one.quantity == quantity]
        if not rows:
            continue
        shelf = _solve(stages, POOL, quantity, rows, _pooled(constants, POOL), shelf, hints)
        for engine in ENGINES:
            mine = [one for one in rows if one.run.deployment.engine.id == engine]
            if len(mine) >= FEWEST:
                own = _of_engine(engine, constants, shelf)
                shelf = _solve(stages, engine, quantity, mine, own, shelf, hints)
    return shelf, stages


def _of_engine(engine: str, constants: Sequence[Constant], shelf: Shelf) -> list[Parameter]:
    """An engine's constants around the pool's; those that go with kernels and hosts by generation of GPU."""
    found = []
    for c in constants:
        if c.own is None:
            continue
        centre = _value(shelf, POOL, c.key, c.centre)
        keys = [c.key]
        if c.key.startswith(BY_GENERATION):
            keys = [f"{generation}.{c.key}" for generation in GENERATIONS]
        found += [Parameter(engine, (key,), c.low, c.high, centre, c.own) for key in keys]
    return found


def slots_plan(
    seen: Sequence[Observation], shelf: Shelf, hints: Hints
) -> tuple[Shelf, list[Stage]]:
    """llama.cpp: decode, then prompts; all classes of accelerator pooled, then each around the pool."""
    stages: list[Stage] = []
    for quantity, constants in (("tpot_s", SLOT_DECODE), ("prefill_s", SLOT_PREFILL)):
        mine = [one for one in seen if one.quantity == quantity]
        if not mine:
            continue
        stated = calibration_figures(SLOTS)
        of_class = {
            c.key: [key for key in stated if key.count(".") and key.partition(".")[2] == c.key]
            for c in constants
            if c.own
        }
        # A class's own key would hide the pool's: in the pooled solve both move together.
        pooled = [
            Parameter(
                SLOTS,
                (POOLED_NAME.get(c.key, c.key), *of_class.get(c.key, ())),
                c.low,
                c.high,
                c.centre,
                c.spread,
            )
            for c in constants
        ]
        shelf = _solve(stages, SLOTS, quantity, mine, pooled, shelf, hints)
        classes = {accelerator_class(one.run.deployment.accelerator).name for one in mine}
        around = [
            Parameter(
                SLOTS,
                (key,),
                c.low,
                c.high,
                _value(shelf, SLOTS, POOLED_NAME.get(c.key, c.key), c.centre),
                c.own,
            )
            for c in constants
            if c.own
            for key in of_class[c.key]
            if key.partition(".")[0] in classes
        ]
        shelf = _solve(stages, SLOTS, quantity, mine, around, shelf, hints)
    return shelf, stages


def eager_plan(
    seen: Sequence[Observation], shelf: Shelf, hints: Hints
) -> tuple[Shelf, list[Stage]]:
    """transformers: host time per layer by host and kind of weights, and what attention moves of its cache.

    Then, of versions that loop over experts, the host's time for each.
    """
    stages: list[Stage] = []
    shelf = emptied(shelf, (EAGER_LOOPS,))
    mine = [one for one in seen if one.quantity != "prefill_s" and not one.run.mixture]
    kinds: set[tuple[str, str]] = set()
    for one in mine:
        deployment = one.run.deployment
        host = accelerator_class(deployment.accelerator).host
        if _kind(one) in HOST_LAYER:
            kinds.add((host, _kind(one)))
    parameters = [
        Parameter(EAGER, ("cache_traffic",), 1.0, 12.0, 3.0, 0.5),
        Parameter(EAGER, ("cache_repeats",), 0.1, 12.0, 2.0, 0.5),
        Parameter(EAGER, ("layer_s",), 1e-5, 4e-4, 1.5e-4, 0.5),
        Parameter(EAGER, ("dequantise_flops",), 20.0, 600.0, 165.0, 0.4),
        Parameter(EAGER, ("host_dequantise",), 1.0, 3.0, 1.43, 0.2),
    ]
    for host, kind in sorted(kinds):
        centre = HOST_LAYER[kind] * HOST_FACTOR[host]
        parameters.append(
            Parameter(EAGER, (f"host_layer_s.{host}.{kind}",), 1e-4, 2e-2, centre, 0.5)
        )
    for kind in sorted({kind for _, kind in kinds if kind != "16bit"}):
        key = f"weights.{kind}"
        parameters.append(Parameter(EAGER, (key,), *EFFICIENCY, 0.7, 0.3))
    shelf = _solve(stages, EAGER, "tpot_s", mine, parameters, shelf, hints)
    looped = [
        one for one in seen if one.run.mixture and calibration_on(shelf, one.run).id == EAGER_LOOPS
    ]
    if looped:
        found = sorted({_kind(one) for one in looped})
        each = [
            Parameter(EAGER_LOOPS, (f"host_expert_s.{kind}",), 1e-6, 2e-3, 1e-4, 1.0)
            for kind in found
        ]
        shelf = _solve(stages, EAGER_LOOPS, "tpot_s", looped, each, shelf, hints)
    return shelf, stages


def burst_plan(
    seen: Sequence[Observation], shelf: Shelf, hints: Hints
) -> tuple[Shelf, list[Stage]]:
    """Servers that all requests reach at once: what their steps take against the loops', pooled, then by engine.

    What an engine is handed by the program that it runs in has nothing of its own to fit.
    """
    stages: list[Stage] = []
    mine = [one for one in seen if one.run.measurement.arrivals == "burst"]
    names = [one.run.deployment.engine.id for one in mine]
    keys = ["burst_time", *(f"{engine}.burst_time" for engine in ENGINES)]
    plain = [Parameter(BURSTS, (key,), *BURST_TIME, 1.0, 1.0) for key in keys]
    # The time is proportional to it, so that one look at the rows is enough.
    base = errors(mine, shelf_of(plain, [1.0] * len(plain), shelf))
    found: list[float] = []
    for key, engine in zip(keys, ("", *ENGINES), strict=True):
        own = np.array([engine in ("", name) for name in names])
        centre, spread = (found[0], 0.4) if found else (1.0, 1.0)
        if own.sum() < FEWEST and found:
            found.append(centre)
            continue
        parameter = Parameter(BURSTS, (key,), *BURST_TIME, centre, spread)
        rows = [one for one, counts in zip(mine, own, strict=True) if counts]
        solution = solve(
            [parameter],
            lambda x, _, off=base[own]: np.asarray(off - x[0]),  # type: ignore[misc]
            weights=_weights(rows),
        )
        stages.append(Stage(BURSTS, "rate", len(rows), (parameter,), solution))
        found.append(solution.values[0])
    return shelf_of(plain, found, shelf), stages


def batch_plan(
    seen: Sequence[Observation], shelf: Shelf, hints: Hints
) -> tuple[Shelf, list[Stage]]:
    """Batches from start to end: engines of 2024, each over what its newer versions were fitted to."""
    return _offline(seen, emptied(shelf, tuple(OLD)), hints, tuned=False)


def tuned_plan(
    seen: Sequence[Observation], shelf: Shelf, hints: Hints
) -> tuple[Shelf, list[Stage]]:
    """Submissions set up by hand for one load: one set of constants over that of all engines."""
    return _offline(seen, emptied(shelf, (TUNED,)), hints, tuned=True)


def _offline(
    seen: Sequence[Observation], shelf: Shelf, hints: Hints, *, tuned: bool
) -> tuple[Shelf, list[Stage]]:
    stages: list[Stage] = []
    for file, mine, rounds in parts(seen, shelf, tuned=tuned):
        for constants in rounds:
            made = parameters(file, mine, constants, shelf)
            shelf = _solve(stages, file, "rate", mine, made, shelf, hints)
    return shelf, stages


def _kind(one: Observation) -> str:
    """The kind of weights whose figures a run is predicted with."""
    return kinds_of(weights_kind(one.run.calibration_key[2]))[-1]


PLANS = {
    "serving": Plan("serving", ("tpot_s", "ttft_s"), serving_plan),
    "serving-throughput": Plan(
        "serving-throughput", ("output_tokens_per_s",), burst_plan, over="serving"
    ),
    "llama-cpp": Plan("llama-cpp", ("tpot_s", "prefill_s"), slots_plan),
    "transformers": Plan("transformers", DECODED, eager_plan),
    "batch": Plan("batch", RATES, batch_plan, over="serving"),
    "mlperf": Plan("mlperf", ("output_tokens_per_s",), tuned_plan, over="serving"),
}


def hints_of(stages: Sequence[Stage]) -> Hints:
    """The values of a run's stages, for the next to start from."""
    return {
        (stage.file, f"{stage.quantity} {len(stage.parameters)}", parameter.keys[0]): value
        for stage in stages
        for parameter, value in zip(stage.parameters, stage.solution.values, strict=True)
    }


def laid_over(shelf: Shelf, upper: Shelf) -> Shelf:
    """A shelf with another's values in place of its own."""
    files = {**shelf.values, **upper.values}
    return replace(
        shelf,
        values={
            file: {**shelf.values.get(file, {}), **upper.values.get(file, {})} for file in files
        },
    )


def seen_of(runs: Sequence[Run], plan: Plan) -> list[Observation]:
    """What a plan fits of the runs."""
    return observations(runs, plan.quantities)


def held_out(
    plan: Plan,
    seen: Sequence[Observation],
    fold: Callable[[Observation], str],
    shelf: Shelf,
    *,
    cards: bool = False,
    hints: Hints | None = None,
    under: Mapping[str, Shelf] | None = None,
) -> tuple[FloatArray, dict[str, Shelf]]:
    """log(predicted / measured) of every observation by a fit that never saw its fold, and each fold's constants.

    Args:
        cards: the folds are of accelerators, which then count as covered by no fit.
        hints: values of the fit to all rows, to start from.
        under: values in place of `shelf`'s that haven't seen a fold either, by its name.
    """
    found = np.full(len(seen), np.nan)
    laid: dict[str, Shelf] = {}
    folds = [fold(one) for one in seen]
    for name in sorted(set(folds)):
        rest = [one for one, of in zip(seen, folds, strict=True) if of != name]
        out = [i for i, of in enumerate(folds) if of == name]
        unseen = {seen[i].run.deployment.accelerator.id for i in out} if cards else set()
        if not rest:
            continue
        below = (under or {}).get(name)
        base = replace(laid_over(shelf, below) if below else shelf, uncovered=frozenset(unseen))
        laid[name], _ = plan.run(rest, base, hints or {})
        found[out] = errors([seen[i] for i in out], laid[name])
    return found, laid
