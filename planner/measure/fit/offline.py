"""Constants for runs that start with all their requests: engines of 2024, and submissions set up by hand for one load.

Each version range has a file of its own over its engine's: overheads shared by all cards, rates by class of accelerator
around what the class is expected to reach. Hand-made set-ups share one file over that of all engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.catalog.calibration_constants import (
    Shelf,
    accelerator_class,
    kinds_of,
    weights_kind,
)
from planner.catalog.calibrations import Calibration
from planner.measure.fit.constants import FEWEST, OVERHEAD
from planner.measure.fit.problem import Observation, calibration_on
from planner.measure.fit.solve import Parameter

OLD = {
    "vllm-0.6": "vllm",
    "sglang-0.4": "sglang",
    "tensorrt-llm-0.12": "tensorrt-llm",
    "llama.cpp-b3999": "llama-cpp",
}
"""Files of earlier versions by the newer one's that they build on."""

TUNED = "tuned"
RATE = (0.02, 0.98)
WIDTH = {"16bit": "16bit", "fp8": "8bit", "fp4": "4bit", "mxfp4": "4bit"}


@dataclass(frozen=True, slots=True)
class Shared:
    """A constant of a whole file: its range, where it is expected and how far from there it may be.

    Attributes:
        others: keys that share its value.
    """

    key: str
    low: float
    high: float
    of: Callable[[Calibration], float]
    spread: float
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ByClass:
    """The same for each class of accelerator; `kinds`: of weights that it is for, all where empty."""

    key: str
    low: float
    high: float
    of: Callable[[Calibration], float]
    spread: float
    kinds: tuple[str, ...] = ()


def _number(value: object) -> float:
    return float(value)  # type: ignore[arg-type]


OLD_SHARED = (
    Shared("step_s", 1e-5, 5e-2, lambda c: _number(c.step_s), 1.0),
    Shared("layer_s", 1e-6, 1e-3, lambda c: _number(c.layer_s), 0.5),
    Shared("sequence_s", 1e-7, 2e-3, lambda c: _number(c.sequence_s), 1.0),
    Shared("prefill_sequence_s", 1e-6, 2e-2, lambda c: _number(c.prefill_sequence_s), 1.0),
)
OLD_BY_CLASS = (
    ByClass("compute.16bit", *RATE, lambda c: _number(c.compute["16bit"]), 0.8),
    ByClass("prefill.16bit", *RATE, lambda c: _number(c.prefill["16bit"]), 0.5),
    ByClass("cache", *RATE, lambda c: _number(c.cache), 0.5),
    ByClass("weights.16bit", *RATE, lambda c: _number(c.weights), 0.4, ("16bit",)),
    ByClass("weights.fp8", *RATE, lambda c: _number(c.weights), 0.4, ("fp8",)),
    ByClass("weights.int4", *RATE, lambda c: _number(c.weights), 0.4, ("int4",)),
)
OLD_SLOTS = (
    ByClass("weights.gguf", *RATE, lambda c: _number(c.weights), 0.4),
    ByClass("layer_s", 1e-6, 2e-3, lambda c: _number(c.layer_s), 0.5),
    ByClass("prefill.16bit", *RATE, lambda c: _number(c.prefill["16bit"]), 0.5),
)
# A class's own overheads around the file's, once its rates are known.
OLD_OVERHEADS = (
    ByClass("layer_s", 1e-6, 1e-3, lambda c: _number(c.layer_s), 0.5),
    ByClass("sequence_s", 1e-7, 2e-3, lambda c: _number(c.sequence_s), 0.7),
    ByClass("compute.16bit", *RATE, lambda c: _number(c.compute["16bit"]), 0.3),
)
TUNED_SHARED = (
    Shared("step_s", 1e-6, 5e-3, lambda c: _number(c.step_s), 0.7),
    Shared("layer_s", 1e-6, 2e-4, lambda c: _number(c.layer_s), 0.5),
    Shared("sequence_s", *OVERHEAD, lambda c: _number(c.sequence_s), 1.0),
    Shared("prefill_sequence_s", 1e-6, 2e-2, lambda c: _number(c.prefill_sequence_s), 3.0),
)
TUNED_EXPERTS = Shared(
    "experts.fp4", 0.05, 0.98, lambda c: _number(c.experts), 0.5, ("experts.mxfp4",)
)
TUNED_BY_KIND = (
    ByClass("experts.fp4", 0.05, 0.98, lambda c: _number(c.experts), 0.3, ("fp4",)),
    ByClass("experts.mxfp4", 0.05, 0.98, lambda c: _number(c.experts), 0.3, ("mxfp4",)),
)
TUNED_BY_CLASS = (
    ByClass("compute.8bit", 0.05, 0.98, lambda c: _number(c.compute["8bit"]), 0.4, ("fp8",)),
    ByClass(
        "compute.4bit", 0.05, 0.98, lambda c: _number(c.compute["4bit"]), 0.4, ("fp4", "mxfp4")
    ),
    ByClass("cache", 0.05, 0.98, lambda c: _number(c.cache), 0.2),
)


def emptied(shelf: Shelf, files: Sequence[str]) -> Shelf:
    """A shelf on which the files' shipped figures don't count."""
    return replace(shelf, emptied=shelf.emptied | frozenset(files))


def parts(
    seen: Sequence[Observation], shelf: Shelf, *, tuned: bool
) -> list[tuple[str, list[Observation], list[list[object]]]]:
    """Each file with its rows and, one solve after another, the constants that are fitted to them.

    Files with fewer than ten rows are left as they are.
    """
    found: list[tuple[str, list[Observation], list[list[object]]]] = []
    by_file: dict[str, list[Observation]] = {}
    for one in seen:
        by_file.setdefault(calibration_on(shelf, one.run).id, []).append(one)
    for file in (TUNED,) if tuned else OLD:
        mine = by_file.get(file, [])
        if len(mine) < FEWEST:
            continue
        if tuned:
            # What hand-made kernels of experts gain is found over all kinds of weights before it is for each.
            rounds: list[list[object]] = [
                [*TUNED_SHARED, TUNED_EXPERTS, *TUNED_BY_CLASS],
                list(TUNED_BY_KIND),
            ]
        elif OLD[file] == "llama-cpp":
            rounds = [list(OLD_SLOTS)]
        else:
            rounds = [[*OLD_SHARED, *OLD_BY_CLASS], list(OLD_OVERHEADS)]
        found.append((file, mine, rounds))
    return found


def parameters(
    file: str, mine: Sequence[Observation], constants: Sequence[object], shelf: Shelf
) -> list[Parameter]:
    """The constants of one solve as parameters, centred on what the shelf says of the rows that need them."""
    made: list[Parameter] = []
    for constant in constants:
        if isinstance(constant, Shared):
            centre = constant.of(calibration_on(shelf, mine[0].run))
            made.append(_parameter(file, (constant.key, *constant.others), constant, centre))
        elif isinstance(constant, ByClass):
            made += _by_class(file, mine, constant, shelf)
    return made


def _by_class(
    file: str, mine: Sequence[Observation], constant: ByClass, shelf: Shelf
) -> list[Parameter]:
    made = {}
    for one in mine:
        kind = kinds_of(weights_kind(one.run.calibration_key[2]))[-1]
        if constant.kinds and kind not in constant.kinds:
            continue
        name = accelerator_class(one.run.deployment.accelerator).name
        key = constant.key if constant in TUNED_BY_KIND else f"{name}.{constant.key}"
        if constant in TUNED_BY_KIND and not one.run.mixture:
            continue
        if key not in made:
            centre = constant.of(calibration_on(shelf, one.run))
            made[key] = _parameter(file, (key,), constant, centre)
    return [made[key] for key in sorted(made)]


def _parameter(
    file: str, keys: tuple[str, ...], constant: Shared | ByClass, centre: float
) -> Parameter:
    centre = min(max(centre, constant.low * 1.02), constant.high * 0.98)
    return Parameter(file, keys, constant.low, constant.high, centre, constant.spread)
