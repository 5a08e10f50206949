"""docs/nomenclature.md names every quantity that goes in or comes out, in its unit, and none that is gone."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from planner import Evaluation, Scenario, evaluate, published
from planner.answers import DeploymentAnswer, MemoryAnswer, ModelAnswer, SpeedAnswer
from planner.batch import COLUMNS
from planner.cli import build_parser
from planner.quantity import GIB, Estimate
from planner.scenario import DATA_FIELDS
from tests.docs.documents import ROOT, read, tables

DOCUMENT = "docs/nomenclature.md"
NAME = re.compile(r"`([a-z][a-z0-9_]*)`")
AHEAD = "Agreed, not used yet"
# Parameters that take any quantity, whatever its unit.
ANY_UNIT = {"figure", "first", "second", "values"}
# What JSON says about a figure, a note or the answer itself; names of settings and of a step's parts are data.
AROUND = {"low", "mid", "high", "basis", "code", "values", "message", "schema_version", "ranges"}
CONTAINERS = {
    "model",
    "deployment",
    "memory",
    "speed",
    "warnings",
    "assumptions",
    "bounds",
    "parts",
}
HOLDS_DATA = {"settings", "values", "decode_ms", "prefill_ms", "defaults"}


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a table: the names it explains, their unit, and the names they leave under ("" in rooms)."""

    heading: str
    names: tuple[str, ...]
    unit: str
    published: str


@lru_cache(maxsize=1)
def rows() -> list[Row]:
    found = []
    for heading, columns, lines in tables(read(DOCUMENT)):
        assert columns[0].startswith("name"), heading
        assert columns[2] == "unit", heading
        for line in lines:
            assert len(line) == len(columns), line
            names = tuple(NAME.findall(line[0]))
            assert names, line
            assert all(line[1:3]), line
            found.append(Row(heading, names, line[2], line[3] if len(line) > 3 else ""))
    return found


def names_under(*headings: str) -> list[str]:
    return [name for row in rows() if row.heading in headings for name in row.names]


def row_of(name: str, heading: str) -> Row:
    return next(row for row in rows() if row.heading == heading and name in row.names)


def evaluation() -> Evaluation:
    return evaluate(Scenario(model="google/gemma-3-12b-it", gpu="t4", weights="nf4"))


ANSWERS = {
    "The model": ModelAnswer,
    "The deployment, resolved": DeploymentAnswer,
    "Memory": MemoryAnswer,
    "Speed": SpeedAnswer,
}
# A deployment repeats some of the scenario's own names.
SHARED = {"The deployment, resolved": "A scenario", "Memory": "The model"}


# --- What goes in and comes out -------------------------------------------------------------------------------------


def test_a_scenario_s_fields_are_the_first_table() -> None:
    assert names_under("A scenario") == list(Scenario.model_fields)


def test_a_scenario_s_names_are_flags_and_columns() -> None:
    fields = set(Scenario.model_fields) - set(DATA_FIELDS)
    flags = build_parser().parse_args(["estimate", "--model", "m", "--gpu", "g"])
    assert fields <= vars(flags).keys()
    assert fields == set(COLUMNS)


@pytest.mark.parametrize("heading", ANSWERS)
def test_an_answer_s_attributes_are_its_table(heading: str) -> None:
    told = names_under(heading)
    attributes = [field.name for field in dataclasses.fields(ANSWERS[heading])]
    elsewhere = set(names_under(SHARED[heading])) if heading in SHARED else set()
    assert [name for name in attributes if name not in elsewhere | set(told)] == []
    assert [name for name in told if name not in [*attributes, "fits"]] == []


@pytest.mark.parametrize("heading", ANSWERS)
def test_an_estimate_has_the_unit_of_its_row(heading: str) -> None:
    answered = evaluation()
    parts = (answered.model, answered.deployment, answered.memory, answered.speed)
    answer = next(part for part in parts if isinstance(part, ANSWERS[heading]))
    units = {}
    for field in dataclasses.fields(ANSWERS[heading]):
        value = getattr(answer, field.name)
        if isinstance(value, Estimate):
            table = heading if field.name in names_under(heading) else SHARED[heading]
            units[field.name] = (value.unit, row_of(field.name, table).unit)
    assert {name: pair for name, pair in units.items() if pair[0] != pair[1]} == {}


# --- What leaves ----------------------------------------------------------------------------------------------------


def published_names() -> dict[str, set[str]]:
    """By published name, the names inside that leave under it."""
    found: dict[str, set[str]] = {}
    for row in rows():
        outside = set(NAME.findall(row.published))
        if row.published.startswith("same"):
            outside |= set(row.names)
        for name in outside:
            found.setdefault(name, set()).update(row.names)
    return found


@pytest.mark.parametrize("figure", [*published.MEMORY, *published.SPEED], ids=lambda f: f.name)
def test_a_figure_leaves_under_the_name_in_its_row(figure: published.Published) -> None:
    assert figure.attribute in published_names()[figure.name]
    unit = next(row.unit for row in rows() if figure.attribute in row.names)
    scale = 1 / GIB if "_gib" in figure.name else 1e3 if figure.name.endswith("_ms") else 1.0
    assert figure.scale == scale
    assert unit == "bytes" or "_gib" not in figure.name
    assert unit == "s" or not figure.name.endswith("_ms")


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key not in HOLDS_DATA:
                yield from keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


def test_every_key_and_column_that_leaves_is_told_and_no_other() -> None:
    answer = published.evaluation_json(evaluation(), lambda note: note.code)
    columns = {re.sub(r"_(low|high)$", "", column) for column in published.FLAT_COLUMNS}
    left = {*keys(answer), *columns} - AROUND - CONTAINERS - {"error"}
    told = set(published_names()) - CONTAINERS
    assert sorted(left - told) == []
    assert sorted(told - left) == []


# --- What is used inside --------------------------------------------------------------------------------------------


def syntax_trees(folder: str) -> Iterator[ast.Module]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield ast.parse(path.read_text(encoding="utf-8"))


def is_number(annotation: ast.expr | None) -> bool:
    return (
        annotation is not None
        and re.fullmatch(r"(Quantity|float)( \| None)?", ast.unparse(annotation)) is not None
    )


def quantities(tree: ast.Module) -> Iterator[str]:
    """Names of a module's public quantities: attributes and properties of its classes, arguments that may be arrays."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and is_number(item.annotation):
                    yield ast.unparse(item.target)
                if isinstance(item, ast.FunctionDef) and is_number(item.returns):
                    yield item.name
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            for argument in (*node.args.args, *node.args.kwonlyargs):
                if argument.annotation and "Quantity" in ast.unparse(argument.annotation):
                    yield argument.arg


@pytest.mark.parametrize("room", ["memory", "speed"])
def test_every_quantity_of_a_room_is_told(room: str) -> None:
    told = {name for row in rows() for name in row.names}
    used = {name for tree in syntax_trees(f"planner/{room}") for name in quantities(tree)}
    # A letter is a formula's own symbol, explained where it stands.
    assert sorted(n for n in used - told - ANY_UNIT - {"low", "mid", "high"} if len(n) > 1) == []


@lru_cache(maxsize=8)
def identifiers(folder: str) -> set[str]:
    """Every name that the modules of a folder bind: attributes, arguments, functions."""
    found = set()
    for tree in syntax_trees(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
    return found


@pytest.mark.parametrize("room", ["memory", "speed"])
def test_no_room_s_name_is_told_that_is_gone(room: str) -> None:
    told = set(names_under(f"Inside `planner/{room}`"))
    assert told
    assert sorted(told - identifiers(f"planner/{room}")) == []


def test_names_agreed_ahead_are_not_in_use() -> None:
    assert sorted(set(names_under(AHEAD)) & identifiers("planner")) == [], (
        "move them to a table of their own"
    )


def test_a_quantity_is_seen() -> None:
    code = """
class A:
    size_bytes: float
    label: str
    rate_per_s: Quantity | None
    @property
    def total_s(self) -> Quantity: ...
class _Hidden:
    other_s: float
def time(volume_bytes: Quantity, name: str, ranks: int) -> Quantity: ...
def _helper(inner_bytes: Quantity) -> Quantity: ...
"""
    found = ["size_bytes", "rate_per_s", "total_s", "volume_bytes"]
    assert list(quantities(ast.parse(code))) == found
