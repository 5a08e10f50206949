"""The accuracy record as the page shows it: worked out once for all visitors, its groups, and a run in words.

Speed and memory have records of their own, of different quantities and with different causes; here they are told apart
only where that shows.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import streamlit as st

from planner.catalog.calibration_constants import accelerator_class
from planner.catalog.measurements import Measurement, measurement_sources
from planner.deployment import Deployment
from planner.errors import Note
from planner.measure.accuracy import Point, Summary, against_targets, by, points, summary
from planner.measure.memory_accuracy import (
    MEMORY_TARGETS,
    MemoryPoint,
    MemorySummary,
    memory_families,
    memory_points,
    memory_summary,
)
from planner.ui.locale import text
from planner.ui.locale.numbers import format_value

Compared = Point | MemoryPoint
Errors = Summary | MemorySummary
FEW = 8  # figures below which a family's errors say little
MOST_CARDS = 2  # that a class of accelerators is called by
# How a quantity is written, by the end of its name; the first that matches.
KINDS = {"_per_s": "rate", "_s": "time", "_bytes": "bytes", "_tokens": "count"}


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """Every measured figure with the planner's own.

    Attributes:
        speed, memory: errors of their families by name, in the order of the report.
        overall, overall_memory: of all figures of speed, and of memory.
        runs: measured runs that the figures are of.
    """

    points: tuple[Compared, ...]
    refused: tuple[Note, ...]
    speed: Mapping[str, Summary]
    memory: Mapping[str, MemorySummary]
    overall: Summary
    overall_memory: MemorySummary
    runs: int

    @property
    def families(self) -> dict[str, Errors]:
        """Errors of every family by name: first those of speed."""
        return {**self.speed, **self.memory}


@st.cache_resource(show_spinner=False, max_entries=1)
def record() -> Record:
    """The shipped measurements predicted with the shipped constants: public, and the same for everyone."""
    found, refused = points()
    logged, refused_memory = memory_points()
    together: tuple[Compared, ...] = (*found, *logged)
    return Record(
        together,
        (*refused, *refused_memory),
        by(found, lambda one: one.family),
        memory_families(),
        summary(found),
        memory_summary(logged),
        len({(row_of(one).family, row_of(one).id) for one in together}),
    )


def row_of(one: Compared) -> Measurement:
    """The measured run that a figure is of."""
    return one.run.measurement if isinstance(one, Point) else one.row


def deployment_of(one: Compared) -> Deployment:
    return one.run.deployment if isinstance(one, Point) else one.deployment


@lru_cache(maxsize=512)
def errors_of(group: tuple[Compared, ...]) -> Errors:
    """Errors of some figures, all of speed or all of memory; raises ValueError where there are none."""
    if isinstance(group[0], Point):
        return summary([one for one in group if isinstance(one, Point)])
    return memory_summary([one for one in group if isinstance(one, MemoryPoint)])


@lru_cache(maxsize=256)
def errors_by_family(group: tuple[Compared, ...]) -> Mapping[str, Errors]:
    """Errors of some figures by family, in the order of the report."""
    groups: dict[str, list[Compared]] = {}
    for one in group:
        groups.setdefault(one.family, []).append(one)
    return {name: errors_of(tuple(groups[name])) for name in record().families if name in groups}


def targets_of(family: str) -> list[tuple[str, float, float]]:
    """Median errors that a target was set for: of what ("in_sample", "held_out"), the error, the target."""
    found = record()
    if family in found.speed:
        return against_targets(family, found.speed[family])
    if family not in MEMORY_TARGETS:
        return []
    return [("in_sample", found.memory[family].median, MEMORY_TARGETS[family])]


def held_of(family: str) -> dict[str, float]:
    """Median errors where something was left out of what the constants rest on, by what it was."""
    one = record().families[family]
    if isinstance(one, Summary):
        return dict(one.held)
    return {} if one.held is None else {"model": one.held}


# --- Groups ----------------------------------------------------------------------------------------------------------


def engine_of(one: Compared) -> str:
    return deployment_of(one).engine.id


def class_of(one: Compared) -> str:
    """Name of the accelerator's class, by which constants are shared."""
    return accelerator_class(deployment_of(one).accelerator).name


@lru_cache(maxsize=1)
def engines() -> dict[str, str]:
    """Names of the engines that were measured by id, the one with most figures first."""
    counted = Counter(engine_of(one) for one in record().points)
    names = {engine_of(one): deployment_of(one).engine.name for one in record().points}
    return {id_: names[id_] for id_, _ in counted.most_common()}


@lru_cache(maxsize=1)
def class_cards() -> dict[str, tuple[str, ...]]:
    """The cards that were measured by class, the class and the card with most figures first."""
    counted: dict[str, Counter[str]] = {}
    for one in record().points:
        counted.setdefault(class_of(one), Counter())[deployment_of(one).accelerator.name] += 1
    order = sorted(counted, key=lambda name: -counted[name].total())
    return {name: tuple(card for card, _ in counted[name].most_common()) for name in order}


def class_name(name: str, language: str) -> str:
    """A class of accelerators, called by the cards of it that were measured most."""
    cards = class_cards()[name]
    shown, more = ", ".join(cards[:MOST_CARDS]), len(cards) - MOST_CARDS
    if more > 0:
        return text("accuracy.class_and_more", language, cards=shown, number=more)
    return shown


@lru_cache(maxsize=256)
def selected(engine: str, group: str) -> tuple[Compared, ...]:
    """The figures of an engine and of a class of accelerators; "" takes any."""
    return tuple(
        one
        for one in record().points
        if engine in ("", engine_of(one)) and group in ("", class_of(one))
    )


@lru_cache(maxsize=128)
def quantities(family: str) -> list[str]:
    """What was measured in a family, most figures first."""
    counted = Counter(one.quantity for one in record().points if one.family == family)
    return [name for name, _ in counted.most_common()]


@lru_cache(maxsize=64)
def points_of(family: str, quantity: str) -> tuple[Compared, ...]:
    """The figures of one quantity in a family."""
    return tuple(
        one for one in record().points if one.family == family and one.quantity == quantity
    )


# --- In words --------------------------------------------------------------------------------------------------------


def family_name(family: str, language: str) -> str:
    """What a family is called."""
    if family in record().speed:
        return text(f"accuracy.family.{family}", language)
    return text(f"memory_accuracy.family.{family}", language)


def kind_of(quantity: str) -> str:
    """The format in which a quantity's values are written."""
    return next((kind for end, kind in KINDS.items() if quantity.endswith(end)), "number")


def quantity_name(quantity: str, language: str) -> str:
    return text(f"accuracy.quantity.{quantity}", language)


def off_words(one: Compared, language: str) -> str:
    """How far and to which side a figure is off: "6 % too slow"."""
    timed = kind_of(one.quantity) in ("time", "rate")
    side = ("slow" if timed else "high") if one.error > 0 else ("fast" if timed else "low")
    return text(f"accuracy.too_{side}", language, error=abs(one.error))


def run_words(one: Compared, language: str) -> tuple[str, str, str]:
    """What ran, on what, and under which load; plain text."""
    row, deployment = row_of(one), deployment_of(one)
    version = row.scenario.get("engine_version", "")
    gpus = deployment.parallelism.gpus * row.replicas
    weights = row.scenario.get("weights", "native")
    return (
        f"{deployment.engine.name} {version}".strip() + f" · {row.scenario['model']}",
        f"{gpus} × {deployment.accelerator.name} · {weights}",
        _load(one, language),
    )


def _load(one: Compared, language: str) -> str:
    """Lengths and requests at once; of a log of an engine's start, the context that it was started with."""
    if isinstance(one, Point):
        scenario = one.run.scenario
        return text(
            "accuracy.load",
            language,
            input=scenario.input_tokens,
            output=scenario.output_tokens,
            users=scenario.concurrency,
        )
    context = one.row.scenario.get("max_model_len")
    if context is None:
        return text("accuracy.load_default", language)
    return text("accuracy.load_context", language, tokens=int(context))


def source_of(one: Compared) -> tuple[str, str]:
    """Title and address of where a run was published; the address is "" where there is none."""
    key = row_of(one).source
    found = measurement_sources().get(key, {})
    address = found.get("url", key)
    return found.get("title", key), address if address.startswith("https://") else ""


def link_html(title: str, address: str) -> str:
    """A link to a source that opens beside the page, or its title alone."""
    if not address:
        return html.escape(title)
    return (
        f'<a href="{html.escape(address, quote=True)}" target="_blank" rel="noopener noreferrer">'
        f"{html.escape(title)}</a>"
    )


@lru_cache(maxsize=64)
def hovers(family: str, quantity: str, language: str) -> tuple[str, ...]:
    """One point of the chart each: run, measured, predicted with its range, how far off, and the source (HTML)."""
    return tuple(_hover(one, language) for one in points_of(family, quantity))


def _hover(one: Compared, language: str) -> str:
    kind = kind_of(one.quantity)
    measured, low, mid, high = (
        format_value(value, kind, language) for value in (one.measured, one.low, one.mid, one.high)
    )
    what, where, load = run_words(one, language)
    values = text("accuracy.hover", language, measured=measured, predicted=mid, low=low, high=high)
    lines = (where, load, values, off_words(one, language), source_of(one)[0])
    return "<br>".join([f"<b>{html.escape(what)}</b>", *map(html.escape, lines)])
