"""What the documents point at exists: files, headings, make targets, rooms."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.documents import HEADING, ROOT, blocks, documents, read, tables

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FOLDERS = ("planner", "profiles", "tests", "docs", "tools", ".ci", ".streamlit")
PATH = re.compile(rf"({'|'.join(map(re.escape, FOLDERS))})/[\w./-]*")


def anchors(document: str) -> set[str]:
    """Names under which a document's headings can be linked to."""
    titles = [title[1].lower() for title in HEADING.finditer(prose(document))]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def prose(document: str) -> str:
    """A document without its fenced blocks."""
    text = read(document)
    for block in reversed(blocks(text)):
        end = block.output.end if block.output else block.end
        text = text[: block.start] + text[end:]
    return text


@pytest.mark.parametrize("document", documents())
def test_links_lead_somewhere(document: str) -> None:
    lost = []
    for target in LINK.findall(prose(document)):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        path = (ROOT / document).parent / file if file else ROOT / document
        if not path.exists() or (
            anchor and anchor not in anchors(str(path.resolve().relative_to(ROOT)))
        ):
            lost.append(target)
    assert lost == []


@pytest.mark.parametrize("document", documents())
def test_paths_exist(document: str) -> None:
    named = [code for code in CODE.findall(prose(document)) if PATH.fullmatch(code)]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("document", documents())
def test_make_targets_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    used = re.findall(r"(?:^|`)make ([a-z-]+)", read(document), re.MULTILINE)
    assert set(used) <= targets


@pytest.mark.parametrize("document", documents())
def test_a_document_has_one_title_and_readable_lines(document: str) -> None:
    text = prose(document)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    long = [
        line for line in text.splitlines() if len(line) > 120 and not line.startswith(("|", "!"))
    ]
    assert long == []


def test_every_room_is_in_the_table_of_rooms() -> None:
    heading, _, rows = next(tables(read("docs/design.md")))
    assert heading == "Rooms"
    told = {path for row in rows for path in CODE.findall(row[1])}
    rooms = {
        f"planner/{path.name}{'/' if path.is_dir() else ''}"
        for path in (ROOT / "planner").iterdir()
        if path.name not in {"__init__.py", "__main__.py", "__pycache__"}
    }
    assert sorted(rooms - told) == []


def test_the_direction_is_the_one_that_is_checked() -> None:
    settings = tomllib.loads(read("pyproject.toml"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one for one in contracts if one["id"] == "rooms")["layers"]
    there = {path.stem for path in Path(ROOT / "planner").iterdir()}
    checked = [set(re.findall(r"\w+", layer)) & there for layer in reversed(layers)]
    told = [
        set(re.findall(r"\w+", step))
        for block in blocks(read("docs/design.md"))
        if block.heading == "Direction"
        for step in block.content.split("→")
    ]
    assert told == [layer for layer in checked if layer - {"__main__"}]
