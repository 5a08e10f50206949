"""The accuracy record as the page shows it: worked out once for all visitors, its groups, and a run in words."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import streamlit as st

from planner.catalog.calibration_constants import accelerator_class
from planner.catalog.measurements import measurement_sources
from planner.errors import Note
from planner.measure.accuracy import Point, Summary, by, points
from planner.ui.locale import text
from planner.ui.locale.numbers import format_value

MOST_CARDS = 2  # that a class of accelerators is called by
# How a quantity is written, by the end of its name; the first that matches.
KINDS = {"_per_s": "rate", "_s": "time", "_bytes": "bytes", "_tokens": "count"}


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """Every measured figure with the planner's own.

    Attributes:
        families: their errors by name, in the order of the report.
        overall: of all figures together.
        runs: measured runs that the figures are of.
    """

    points: tuple[Point, ...]
    refused: tuple[Note, ...]
    families: Mapping[str, Summary]
    overall: Summary
    runs: int


@st.cache_resource(show_spinner=False, max_entries=1)
def record() -> Record:
    """The shipped measurements predicted with the shipped constants: public, and the same for everyone."""
    found, refused = points()
    return Record(
        tuple(found),
        tuple(refused),
        by(found, lambda one: one.family),
        by(found, lambda _: "")[""],
        len({(one.run.measurement.family, one.run.measurement.id) for one in found}),
    )


# --- Groups ----------------------------------------------------------------------------------------------------------


def engine_of(one: Point) -> str:
    return one.run.deployment.engine.id


def class_of(one: Point) -> str:
    """Name of the accelerator's class, by which constants are shared."""
    return accelerator_class(one.card).name


@lru_cache(maxsize=1)
def engines() -> dict[str, str]:
    """Names of the engines that were measured by id, the one with most figures first."""
    counted = Counter(engine_of(one) for one in record().points)
    names = {engine_of(one): one.run.deployment.engine.name for one in record().points}
    return {id_: names[id_] for id_, _ in counted.most_common()}


@lru_cache(maxsize=1)
def class_cards() -> dict[str, tuple[str, ...]]:
    """The cards that were measured by class, the class and the card with most figures first."""
    counted: dict[str, Counter[str]] = {}
    for one in record().points:
        counted.setdefault(class_of(one), Counter())[one.card.name] += 1
    order = sorted(counted, key=lambda name: -counted[name].total())
    return {name: tuple(card for card, _ in counted[name].most_common()) for name in order}


def class_name(name: str, language: str) -> str:
    """A class of accelerators, called by the cards of it that were measured most."""
    cards = class_cards()[name]
    shown, more = ", ".join(cards[:MOST_CARDS]), len(cards) - MOST_CARDS
    if more > 0:
        return text("accuracy.class_and_more", language, cards=shown, number=more)
    return shown


def selected(engine: str, group: str) -> list[Point]:
    """The figures of an engine and of a class of accelerators; "" takes any."""
    return [
        one
        for one in record().points
        if engine in ("", engine_of(one)) and group in ("", class_of(one))
    ]


def quantities(family: str) -> list[str]:
    """What was measured in a family, most figures first."""
    counted = Counter(one.quantity for one in record().points if one.family == family)
    return [name for name, _ in counted.most_common()]


@lru_cache(maxsize=64)
def points_of(family: str, quantity: str) -> tuple[Point, ...]:
    """The figures of one quantity in a family."""
    return tuple(
        one for one in record().points if one.family == family and one.quantity == quantity
    )


# --- In words --------------------------------------------------------------------------------------------------------


def kind_of(quantity: str) -> str:
    """The format in which a quantity's values are written."""
    return next((kind for end, kind in KINDS.items() if quantity.endswith(end)), "number")


def quantity_name(quantity: str, language: str) -> str:
    return text(f"accuracy.quantity.{quantity}", language)


def off_words(one: Point, language: str) -> str:
    """How far and to which side a figure is off: "6 % too slow"."""
    timed = kind_of(one.quantity) in ("time", "rate")
    side = ("slow" if timed else "high") if one.error > 0 else ("fast" if timed else "low")
    return text(f"accuracy.too_{side}", language, error=abs(one.error))


def run_words(one: Point, language: str) -> tuple[str, str, str]:
    """What ran, on what, and under which load; plain text."""
    stated, deployment, scenario = (
        one.run.measurement.scenario,
        one.run.deployment,
        one.run.scenario,
    )
    version = stated.get("engine_version", "")
    gpus = deployment.parallelism.gpus * one.run.measurement.replicas
    load = text(
        "accuracy.load",
        language,
        input=scenario.input_tokens,
        output=scenario.output_tokens,
        users=scenario.concurrency,
    )
    return (
        f"{deployment.engine.name} {version}".strip() + f" · {deployment.model.id}",
        f"{gpus} × {one.card.name} · {stated.get('weights', 'native')}",
        load,
    )


def source_of(one: Point) -> tuple[str, str]:
    """Title and address of where a run was published; the address is "" where there is none."""
    key = one.run.measurement.source
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


def _hover(one: Point, language: str) -> str:
    kind = kind_of(one.quantity)
    measured, low, mid, high = (
        format_value(value, kind, language) for value in (one.measured, one.low, one.mid, one.high)
    )
    what, where, load = run_words(one, language)
    values = text("accuracy.hover", language, measured=measured, predicted=mid, low=low, high=high)
    lines = (where, load, values, off_words(one, language), source_of(one)[0])
    return "<br>".join([f"<b>{html.escape(what)}</b>", *map(html.escape, lines)])
