"""Engine profiles as they are read: what an engine is, and its figures by version.

A profile's figures hold for every version unless a version range states another; each range states what changed since
the one before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from planner.catalog.files import profile_ids
from planner.catalog.loader import Figure, read_figures, read_sources, read_yaml
from planner.errors import BadProfile, InvalidInput, UnknownItem
from planner.quantity import Basis

POLICIES = frozenset({"of_total", "static_fraction", "of_free", "grow", "context"})
COMPUTE = "compute"
VERSION = re.compile(
    r"(?:v|b|build\s*)?(\d+)(?:\.(\d+|x))?(?:\.(\d+|x))?(?:\.\d+)*(?:\.?[+\-_a-z]\S*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RunsOn:
    """A vendor's devices that an engine runs on: all, or some architectures by the start of their name."""

    vendor: str
    architectures: tuple[str, ...]
    except_architectures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tier:
    """Defaults from a size of memory on (GiB, usable), but not on devices whose name holds one of `except_names`."""

    min_usable_gib: float
    except_names: tuple[str, ...]
    figures: dict[str, Figure]


@dataclass(frozen=True, slots=True)
class StateRule:
    """How an engine keeps recurrent state, and the last inputs that convolutions and token shifts need.

    Attributes:
        dtype: "float32", COMPUTE for the compute dtype, or None: as the model's own code has it.
        stated: a type that the configuration states comes first.
        float32: recurrences, and model types, whose state is kept in float32 whatever `dtype` is.
        inputs: type of the last inputs, as `dtype`; None: the compute dtype.
        all_inputs: recurrences whose convolution of k taps keeps k inputs; others keep the k − 1 that are needed.
    """

    dtype: str | None = None
    stated: bool = False
    float32: frozenset[str] = frozenset()
    inputs: str | None = None
    all_inputs: frozenset[str] = frozenset()

    def of(self, recurrence: str, model_type: str, stated: str | None) -> str | None:
        """The type of one recurrence's state, as `dtype`.

        Args:
            stated: what the model's configuration states, or None.
        """
        if recurrence in self.float32:
            return "float32"
        if stated is not None and self.stated:
            return stated
        return "float32" if model_type in self.float32 else self.dtype


@dataclass(frozen=True, slots=True)
class StatePoolRule:
    """How an engine sets memory apart for recurrent state when it starts, in slots of one sequence's state.

    Attributes:
        ratio: bytes of state for each byte of cache; 0: state comes out of the cache's own pool.
        slots: of a running sequence: its own state, and what prefix caching and overlapped scheduling hold beside it.
        slots_by_type: the same for model types that differ. Who holds 1 has no prefix caching, and is given as many
            slots as may run at once, where that number is stated.
        fixed_slots: given to those where it isn't stated; 0: by the ratio.
        spare_slots: allocated beside those that are counted, within the ratio's share.
    """

    ratio: float = 0.0
    slots: int = 1
    slots_by_type: tuple[tuple[str, int], ...] = ()
    fixed_slots: int = 0
    spare_slots: int = 0

    def slots_of(self, model_type: str) -> int:
        """Slots that a running sequence of this type of model holds."""
        return dict(self.slots_by_type).get(model_type, self.slots)


@dataclass(frozen=True, slots=True, eq=False)
class VersionRange:
    """Figures that hold from one version to another, both included, at the precision in which they are written.

    Attributes:
        basis: how far the engine's memory rules are checked in these versions.
        stated: False where the range itself is doubtful.
    """

    first: str
    last: str
    basis: Basis
    stated: bool
    figures: dict[str, Figure]
    flags: dict[str, bool]
    tiers: tuple[Tier, ...]
    states: StateRule
    state_pool: StatePoolRule


@dataclass(frozen=True, slots=True, eq=False)
class EngineProfile:
    """An engine.

    Attributes:
        policy: how it takes memory: "of_total" (a fraction of the card), "static_fraction" (weights and cache within a
            fraction), "of_free" (cache within a fraction of what is left), "grow" (as sequences come), "context"
            (every slot's context at start).
        prefill: "chunked" or "whole".
        batching: "continuous", "static" or "slots".
        split: how several cards share a model by default: "tensor" or "layers".
        parallelism: the kinds that it offers: "tensor", "pipeline", "expert", "data".
        ranges: figures by version, oldest first.
        renumbered: numbers that begin below the first of these were counted anew after the version that is the second;
            () where an engine never counted anew.
    """

    id: str
    name: str
    aliases: tuple[str, ...]
    policy: str
    prefill: str
    batching: str
    cuda_graphs: bool
    split: str
    parallelism: frozenset[str]
    runs_on: tuple[RunsOn, ...]
    ranges: tuple[VersionRange, ...]
    renumbered: tuple[int, ...] = ()

    @property
    def newest(self) -> str:
        """The newest version that the profile documents."""
        return self.ranges[-1].last


def engine_ids() -> tuple[str, ...]:
    """Ids of all engines in the catalogue."""
    return profile_ids("engines")


def engine(given: str) -> EngineProfile:
    """The engine with this id or alias, in any case.

    Raises:
        UnknownItem: naming close ids.
    """
    found = _names().get(given.strip().lower())
    if found is None:
        close = get_close_matches(given.strip().lower(), _names(), n=3, cutoff=0.5)
        raise UnknownItem("engine", given, tuple(dict.fromkeys(_names()[name] for name in close)))
    return _profile(found)


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    names = {}
    for identifier in engine_ids():
        profile = _profile(identifier)
        for name in (identifier, profile.name, *profile.aliases):
            names[name.lower()] = identifier
    return names


def profile_data(identifier: str) -> tuple[str, dict[str, Any]]:
    """An engine profile's file name and content, as read."""
    file = f"engines/{identifier}.yaml"
    return file, read_yaml(file)


@lru_cache(maxsize=32)
def _profile(identifier: str) -> EngineProfile:
    file, data = profile_data(identifier)
    sources = read_sources(data, file)
    if data.get("policy") not in POLICIES or not data.get("versions"):
        raise BadProfile("profile_bad_engine", file=file)
    rules = []
    for rule in data["runs_on"]:
        if rule.get("source") not in sources:
            raise BadProfile("profile_figure_without_source", file=file, key="runs_on")
        rules.append(
            RunsOn(
                rule["vendor"],
                tuple(rule.get("architectures", ())),
                tuple(rule.get("except_architectures", ())),
            )
        )
    return EngineProfile(
        id=data["id"],
        name=data["name"],
        aliases=tuple(data.get("aliases", ())),
        policy=data["policy"],
        prefill=data["prefill"],
        batching=data["batching"],
        cuda_graphs=data["cuda_graphs"],
        split=data["split"],
        parallelism=frozenset(data["parallelism"]),
        runs_on=tuple(rules),
        ranges=_ranges(data, file),
        renumbered=_renumbered(data, file),
    )


def _renumbered(data: dict[str, Any], file: str) -> tuple[int, ...]:
    entry = data.get("renumbered")
    if entry is None:
        return ()
    if entry.get("source") not in read_sources(data, file):
        raise BadProfile("profile_figure_without_source", file=file, key="renumbered")
    return (int(entry["below"]), *parse_version(entry["after"]))


def _ranges(data: dict[str, Any], file: str) -> tuple[VersionRange, ...]:
    """The version ranges, each with everything that the ones before it and the profile itself state."""
    figures, flags = read_figures(data, file), dict[str, bool]()
    tiers: tuple[Tier, ...] = ()
    states, state_pool = StateRule(), StatePoolRule()
    ranges = []
    for entry in data["versions"]:
        figures = {**figures, **_figures(data, entry, file)}
        flags = {**flags, **_flags(data, entry, file)}
        if "tiers" in entry:
            tiers = tuple(
                Tier(
                    float(tier.get("min_usable_gib", 0.0)),
                    tuple(tier.get("except_names", ())),
                    _figures(data, tier, file),
                )
                for tier in entry["tiers"]
            )
        if "recurrent_state" in entry:
            states = _state_rule(data, entry["recurrent_state"], file)
        if "state_pool" in entry:
            state_pool = _state_pool_rule(data, entry["state_pool"], file)
        basis = Basis[entry.get("basis", data["basis"]).upper()]
        stated = "basis" not in entry
        ranges.append(
            VersionRange(
                entry["from"],
                entry["to"],
                basis,
                stated,
                figures,
                flags,
                tiers,
                states,
                state_pool,
            )
        )
    return tuple(ranges)


def _figures(data: dict[str, Any], entry: dict[str, Any], file: str) -> dict[str, Figure]:
    part = {"sources": data["sources"], "source": data.get("source"), "figures": {}}
    return read_figures({**part, "figures": entry.get("figures", {})}, file)


def _flags(data: dict[str, Any], entry: dict[str, Any], file: str) -> dict[str, bool]:
    sources = read_sources(data, file)
    for key, flag in entry.get("flags", {}).items():
        if not isinstance(flag.get("value"), bool) or flag.get("source") not in sources:
            raise BadProfile("profile_figure_without_source", file=file, key=key)
    return {key: flag["value"] for key, flag in entry.get("flags", {}).items()}


def _state_rule(data: dict[str, Any], entry: dict[str, Any], file: str) -> StateRule:
    if entry.get("source") not in read_sources(data, file):
        raise BadProfile("profile_figure_without_source", file=file, key="recurrent_state")
    if any(entry.get(key) not in (None, COMPUTE, "float32") for key in ("dtype", "inputs")):
        raise BadProfile("profile_bad_engine", file=file)
    return StateRule(
        entry.get("dtype"),
        entry.get("stated", False),
        frozenset(entry.get("float32", ())),
        entry.get("inputs"),
        frozenset(entry.get("all_inputs", ())),
    )


def _state_pool_rule(data: dict[str, Any], entry: dict[str, Any], file: str) -> StatePoolRule:
    if entry.get("source") not in read_sources(data, file):
        raise BadProfile("profile_figure_without_source", file=file, key="state_pool")
    counts = [entry["slots"], *entry.get("slots_by_type", {}).values()]
    if entry["ratio"] <= 0.0 or min(counts) < 1:
        raise BadProfile("profile_bad_engine", file=file)
    return StatePoolRule(
        float(entry["ratio"]),
        entry["slots"],
        tuple(entry.get("slots_by_type", {}).items()),
        entry.get("fixed_slots", 0),
        entry.get("spare_slots", 0),
    )


@lru_cache(maxsize=1024)
def parse_version(given: str) -> tuple[int, ...]:
    """Numbers of a version as people write it: "0.19", "v0.19.1", "0.11.0rc2", "0.19.x", "b4567".

    Raises:
        InvalidInput: where it isn't one.
    """
    match = VERSION.fullmatch(given.strip())
    if match is None:
        raise InvalidInput("engine_version_unreadable", field="engine_version", given=given[:40])
    return tuple(int(part) for part in match.groups() if part and part.isdigit())


@lru_cache(maxsize=1024)
def range_for(profile: EngineProfile, version: tuple[int, ...]) -> tuple[VersionRange, bool]:
    """The range that holds a version, or the nearest one (of two equally near, the older), and whether it holds it."""
    version = _in_first_count(profile, version)
    latest_before = profile.ranges[0]
    for candidate in profile.ranges:
        first, last = parse_version(candidate.first), parse_version(candidate.last)
        if version[: len(first)] < first:
            return latest_before, False
        if version[: len(last)] <= last:
            return candidate, True
        latest_before = candidate
    return latest_before, False


def newer_than_documented(profile: EngineProfile, version: str) -> bool:
    """Whether a version comes after the last that is documented."""
    last = parse_version(profile.ranges[-1].last)
    return _in_first_count(profile, parse_version(version))[: len(last)] > last


def _in_first_count(profile: EngineProfile, version: tuple[int, ...]) -> tuple[int, ...]:
    """A version that was numbered anew as what follows the last that was counted as before."""
    if profile.renumbered and version < profile.renumbered[:1]:
        return (*profile.renumbered[1:], *version)
    return version
