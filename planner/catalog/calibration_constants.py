"""Where the constants of a calibration are found: a fit's own file, accelerator classes, the fit it builds on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from planner.catalog.accelerators import Accelerator
from planner.catalog.loader import Figure, Source, read_figures, read_yaml
from planner.errors import BadProfile, MissingFigure
from planner.quantity import Basis

FOLDER = "calibrations"
INDEX = "index"  # the file that says which file serves, and how far its times are known
BURSTS = "bursts"  # the file for requests that all come at once
ENOUGH_ROWS = 10  # on an accelerator, for an estimate on it to count as calibrated
WIDTHS = {
    "fp32": "32bit",
    "bf16": "16bit",
    "fp16": "16bit",
    "fp8": "8bit",
    "int8": "8bit",
    "fp4": "4bit",
}
"""Compute dtypes by the group that efficiencies are stated for."""


@dataclass(frozen=True, slots=True)
class AcceleratorClass:
    """An accelerator class: how its members are found, and what it is worth.

    `as_fitted`: a card of it that no fit covers takes what the fit found on others, in parts of its own rates.
    `is_host`: what computes is the host itself, which can't prepare the next kernel while it runs one.
    """

    name: str
    basis: Basis
    host: str
    as_fitted: bool
    is_host: bool


@lru_cache(maxsize=64)
def calibration_figures(file: str) -> dict[str, Figure]:
    """The figures of one file under profiles/calibrations, each with its source; raises BadProfile."""
    path = f"{FOLDER}/{file}.yaml"
    return read_figures(read_yaml(path), path)


def calibration_data(file: str) -> dict[str, Any]:
    """One file under profiles/calibrations as plain data; raises BadProfile."""
    return read_yaml(f"{FOLDER}/{file}.yaml")


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """The calibration files that constants are looked up in: those shipped, or a fit's trial values laid over them.

    Attributes:
        values: values that replace or add to a file's figures, by file and key.
        uncovered: accelerators that no file's fit counts as covering, as if it had never seen them.
        emptied: files whose shipped figures don't count, so that nothing hides what they build on.
    """

    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    uncovered: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()

    def figures(self, file: str) -> Mapping[str, Figure]:
        """A file's figures, with trial values in place; raises BadProfile."""
        shipped = {} if file in self.emptied else calibration_figures(file)
        trial = self.values.get(file)
        if not trial:
            return shipped
        laid = dict(shipped)
        for key, value in trial.items():
            known = shipped.get(key)
            laid[key] = replace(known, value=value) if known else Figure(value, TRIAL)
        return laid

    def covered(self, file: str, accelerator_id: str) -> Mapping[str, Any] | None:
        """The rates that a file's fit used on an accelerator, or None where it doesn't cover it."""
        plain_id = accelerator_id.partition("@")[0]
        if plain_id in self.uncovered:
            return None
        covered = calibration_data(file).get("fitted_on", {}).get("accelerators", {})
        entry: Mapping[str, Any] | None = covered.get(plain_id)
        return entry


TRIAL = Source("trial", "A fit's trial value", "", "", "derived")
SHIPPED = Shelf()


@lru_cache(maxsize=1024)
def accelerator_class(accelerator: Accelerator) -> AcceleratorClass:
    """The class whose figures stand in where no fit covers the accelerator: by id, else the first that matches."""
    classes = calibration_data("accelerator-classes")["classes"]
    plain_id = accelerator.id.partition("@")[0]
    chosen = next(
        (name for name, rule in classes.items() if plain_id in rule.get("accelerators", ())), None
    )
    if chosen is None:
        chosen = next(name for name, rule in classes.items() if _matches(rule, accelerator))
    rule = classes[chosen]
    return AcceleratorClass(
        chosen,
        Basis[rule["basis"].upper()],
        rule["host"],
        as_fitted=bool(rule.get("as_fitted", False)),
        is_host=bool(rule.get("is_host", False)),
    )


def _matches(rule: Mapping[str, Any], accelerator: Accelerator) -> bool:
    stated = {"vendor", "architectures", "classes"} & rule.keys()
    if not stated:
        return "accelerators" not in rule
    architectures = tuple(rule.get("architectures", ("",)))
    return (
        rule.get("vendor", accelerator.vendor) == accelerator.vendor
        and accelerator.architecture.startswith(architectures)
        and accelerator.accelerator_class in rule.get("classes", (accelerator.accelerator_class,))
    )


def _before(version: str, limit: str) -> bool:
    """Whether a version lies below a limit; a rule without a limit takes any version, one with a limit no unknown."""
    if not limit:
        return True
    numbers = [tuple(int(n) for n in re.findall(r"\d+", text)[:3]) for text in (version, limit)]
    return bool(numbers[0]) and numbers[0] < numbers[1]


def weights_kind(weights_format: str) -> str:
    """The kind of weights that a format's kernels belong to ("16bit", "fp8", "int4", "nf4", "gguf").

    Args:
        weights_format: a format id of profiles/formats, with or without a GGUF type after a colon.

    Raises:
        BadProfile: for a format that the calibrations' index doesn't know.
    """
    kind = calibration_data("index")["formats"].get(weights_format.partition(":")[0])
    if kind is None:
        raise BadProfile("calibration_unknown_format", file="index", key=weights_format)
    return str(kind)


def kinds_of(kind: str) -> tuple[str, ...]:
    """A kind of weights, and the one whose figures stand in where none are stated for it."""
    stand_in = calibration_data("index")["stand_ins"].get(kind)
    return (kind,) if stand_in is None else (kind, str(stand_in))


@dataclass(frozen=True, slots=True)
class Level:
    """One place where constants are looked up.

    Attributes:
        prefix: "" for a file's own constants, "<class>." for those of an accelerator class.
        covered: the rates that the file's fit used on this accelerator, where it covers it.
        per_kind: False where a class states one figure for every kind of weights.
    """

    figures: Mapping[str, Figure]
    prefix: str
    covered: Mapping[str, Any] | None
    per_kind: bool


class Constants:
    """The constants that apply, most specific first, in parts of the catalogue's own rates."""

    def __init__(
        self,
        engine: str,
        accelerator: Accelerator,
        kind: str,
        shelf: Shelf = SHIPPED,
        version: str = "",
    ) -> None:
        self.engine = engine
        self.accelerator = accelerator
        self.shelf = shelf
        self.group = accelerator_class(accelerator)
        self.weights_kind = kind
        self.kinds = kinds_of(kind)
        stated = {"engine": engine, "weights": kind, "version": version}
        rules = calibration_data("index")["rules"]
        rule = next(
            r
            for r in rules
            if all(r.get(key, of) == of for key, of in stated.items())
            and _before(version, str(r.get("before", "")))
        )
        self.file = str(rule["use"])
        self.kind = str(calibration_data(self.file)["kind"])
        chain = [self.file]
        while (base := str(calibration_data(chain[-1]).get("base", chain[-1]))) != chain[-1]:
            chain.append(base)
        self.base = chain[-1]
        prefix = f"{self.group.name}."
        plain = [Level(shelf.figures(file), "", self._covered(file), True) for file in chain]
        by_class = Level(shelf.figures("accelerator-classes"), prefix, None, False)
        self.levels: tuple[Level, ...]
        own_class = Level(plain[0].figures, prefix, None, True)
        if self.kind != "continuous":
            # Files of one kind build on each other; the fit of continuous batching comes after what a class reaches.
            own = [i for i, file in enumerate(chain) if calibration_data(file)["kind"] == self.kind]
            pairs = [(Level(plain[i].figures, prefix, None, True), plain[i]) for i in own]
            rest = plain[len(own) :]
            self.levels = (*(level for pair in pairs for level in pair), by_class, *rest)
        elif self.fitted or self.group.as_fitted:
            # A generation's other cards, and its kernels, are those of the fit.
            of_class = [Level(level.figures, prefix, level.covered, True) for level in plain]
            self.levels = tuple(x for pair in zip(of_class, plain, strict=True) for x in pair)
        else:
            # What a GPU reaches is its class's where no fit covers it; what an engine costs on the host is its own.
            self.levels = (own_class, by_class, *plain)

    def _covered(self, file: str) -> Mapping[str, Any] | None:
        return self.shelf.covered(file, self.accelerator.id)

    @property
    def fitted(self) -> bool:
        """The constants were fitted to this very accelerator."""
        return self.kind == "continuous" and self._covered(self.file) is not None

    def find(self, key: str) -> tuple[Figure, Level] | None:
        for level in self.levels:
            figure = level.figures.get(level.prefix + key)
            if figure is not None:
                return figure, level
        return None

    def value(self, key: str) -> float:
        found = self.find(key)
        if found is None:
            raise MissingFigure(self.file, key)
        return found[0].value

    def by_kind(self, key: str) -> float:
        """A constant stated for the kind of weights, or else for all kinds; raises MissingFigure."""
        return self.value(self.key_by_kind(key))

    def key_by_kind(self, key: str) -> str:
        """The key that a constant is stated by: for the kind of weights, for its stand-in, or for all kinds."""
        names = (f"{key}.{kind}" for kind in self.kinds)
        return next((name for name in names if self.find(name) is not None), key)

    def optional(self, key: str, otherwise: float) -> float:
        found = self.find(key)
        return otherwise if found is None else found[0].value

    def optional_by_kind(self, key: str, otherwise: float) -> float:
        """A constant stated for the kind of weights, else for all kinds, else `otherwise`."""
        return self.optional(self.key_by_kind(key), otherwise)

    def bandwidth_ratio(self, level: Level) -> float:
        if level.covered is None:
            return 1.0
        used: float = level.covered["bandwidth_bytes_per_s"]
        return used / self.accelerator.bandwidth_bytes_per_s

    def cache(self) -> float:
        found = self.find("cache")
        if found is None:
            raise MissingFigure(self.file, "cache")
        return min(1.0, found[0].value * self.bandwidth_ratio(found[1]))

    def weights(self) -> Figure:
        """Part of the bandwidth for the kind of weights; a class's one figure in the base fit's proportions."""
        for level in self.levels:
            key = self.weights_key(level)
            figure = level.figures.get(level.prefix + key)
            if figure is None:
                continue
            ratio = self.bandwidth_ratio(level)
            if not level.per_kind:
                base = self.shelf.figures(self.base)
                plain = base["weights.16bit"]
                stated = (base.get(f"weights.{kind}") for kind in self.kinds)
                own = next((one for one in stated if one is not None), plain)
                ratio = own.value / plain.value
            return replace(figure, value=min(1.0, figure.value * ratio))
        raise MissingFigure(self.file, f"weights.{self.weights_kind}")

    def weights_key(self, level: Level) -> str:
        """The key of the efficiency of reading weights at a level: for their kind, or a class's one for all kinds."""
        for kind in self.kinds:
            if f"{level.prefix}weights.{kind}" in level.figures:
                return f"weights.{kind}"
        return "weights"

    def expert_weights(self) -> float:
        """Part of the bandwidth for routed experts: what a class reaches with plain weights, or the fit's own."""
        for level in self.levels:
            plain = "weights" if level.prefix else "expert_weights"
            names = (*(f"expert_weights.{kind}" for kind in self.kinds), plain)
            stated = (level.figures.get(level.prefix + name) for name in names)
            figure = next((one for one in stated if one is not None), None)
            if figure is not None:
                return min(1.0, figure.value * self.bandwidth_ratio(level))
        raise MissingFigure(self.file, "expert_weights")

    def efficiencies(self, table: str) -> dict[str, float]:
        """Parts of the peak by dtype group, for those stated."""
        found: dict[str, float] = {}
        for width in ("32bit", "16bit", "8bit", "4bit"):
            entry = self.find(f"{table}.{width}")
            if entry is None:
                continue
            used = (entry[1].covered or {}).get("peaks", {}).get(width)
            own = next(
                (
                    self.accelerator.peaks[dtype]
                    for dtype, group in WIDTHS.items()
                    if group == width and dtype in self.accelerator.peaks
                ),
                None,
            )
            found[width] = min(1.0, entry[0].value * (used / own if used and own else 1.0))
        return found

    def prefill_attention(self) -> float:
        """Part of the peak for a whole prompt's attention: a class states one figure for both phases."""
        entry = self.find("attention")
        if entry is not None and not entry[1].per_kind:
            return entry[0].value
        return self.value("prefill_attention")

    def burst_time(self) -> float:
        """What the steps of a server take that all its requests reach at once, against the fit's: by engine."""
        if self.kind != "continuous":
            return 1.0
        figures = self.shelf.figures(BURSTS)
        return figures.get(f"{self.engine}.burst_time", figures["burst_time"]).value

    def prefill_experts(self) -> float:
        """What kernels of routed experts reach of `prefill`; but for continuous batching the same as in a step."""
        found = self.find("prefill_experts") if self.kind == "continuous" else None
        return found[0].value if found else self.by_kind("experts")

    def reduce(self) -> tuple[list[float], list[float]]:
        """Latencies and parts of the link's rate of an all-reduce over 2, 4 and 8 ranks."""
        family = _link_family(self.accelerator)
        table = self.shelf.figures("collectives")
        latencies = [table[f"{family}.latency_s.{ranks}"].value for ranks in (2, 4, 8)]
        parts = [table[f"{family}.fraction.{ranks}"].value for ranks in (2, 4, 8)]
        fit = self.shelf.figures(self.base)
        rate = fit.get(f"reduce_bytes_per_s.{family}")
        if rate is not None and self.accelerator.link_bidirectional_bytes_per_s:
            # The step was fitted with these, so that they belong to its other constants.
            latencies = [fit[f"reduce_latency_s.{family}.{ranks}"].value for ranks in (2, 4, 8)]
            parts = [rate.value / self.accelerator.link_bytes_per_s] * 3
        if self.kind == "static":
            latencies = [max(latency, table["eager_latency_s"].value) for latency in latencies]
        return latencies, parts

    def basis(self) -> Basis:
        if self.kind == "continuous":
            if not self.fitted:
                return self.group.basis
            entry = self.find(self.key_by_kind("weights"))
            stated = entry[0].basis if entry else Basis.ASSUMED
            rows = (self._covered(self.file) or {}).get("rows", ENOUGH_ROWS)
            basis = Basis.CALIBRATED if rows >= ENOUGH_ROWS else Basis.TRANSFERRED
            return max(basis, stated)
        if self.kind == "slots":
            return max(Basis.TRANSFERRED, self.weights().basis)
        host = self.find(f"host_layer_s.{self.group.host}.{self.host_kind}")
        stated = host[0].basis if host else Basis.ASSUMED
        return max(Basis.TRANSFERRED, self.group.basis, stated)

    @property
    def host_kind(self) -> str:
        return "16bit" if self.weights_kind == "gguf" else self.kinds[-1]


def _link_family(accelerator: Accelerator) -> str:
    links = calibration_data("collectives")["links"]
    name = accelerator.interconnect
    if name == "pcie" and accelerator.has("pcie_gen") and accelerator.value("pcie_gen") >= 5:
        return "pcie5"
    return next((family for family in links if name.startswith(family)), "other")
