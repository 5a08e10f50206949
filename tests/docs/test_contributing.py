"""The steps of CONTRIBUTING.md lead where they say: its examples are put in place, and what they add is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import (
    ROOT,
    Block,
    blocks,
    headings,
    put_in_place,
    read,
    results,
    tables,
)

DOCUMENT = "CONTRIBUTING.md"
STEPS = [
    "Add a model",
    "Add an accelerator",
    "Add an engine version",
    "Add a calibration",
    "Add a weight format",
    "Add a sentence or a language",
]
# What each part has to go through, so that its Python block asks the catalogue and not something else.
DOORS = [
    "model_profile(",
    "accelerator(",
    "engine_settings(",
    "calibration_for(",
    "weight_format(",
    "say_error(",
]


def test_there_are_steps_for_all_that_is_added() -> None:
    assert headings(DOCUMENT) == STEPS
    for heading, door in zip(STEPS, DOORS, strict=True):
        part = [block for block in blocks(read(DOCUMENT)) if block.heading == heading]
        assert any(block.language == "yaml" for block in part), heading
        asking = [block for block in part if block.language == "python" and door in block.content]
        assert asking, heading
        assert asking[-1].output, heading


@pytest.mark.parametrize("heading", STEPS)
def test_the_steps_lead_to_what_they_say(heading: str) -> None:
    for block, printed in results(DOCUMENT, heading):
        assert printed == (block.output.content if block.output else ""), block.content


def test_every_make_target_is_told_and_no_other() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", read("Makefile"), re.MULTILINE)
    told = [
        target
        for heading, _, rows in tables(read(DOCUMENT))
        if heading == "Daily commands"
        for row in rows
        for target in re.findall(r"`make ([a-z-]+)[^`]*`", " ".join(row))
    ]
    assert set(told) == set(targets) - {"help"}


# --- Putting an example in place ------------------------------------------------------------------------------------


def example(content: str) -> Block:
    return Block("yaml", content, "", "", 0, 0)


@pytest.mark.parametrize(
    ("place", "after"),
    [
        (', at the top of "a"', "a:\n  new: 1\n  x: 1\n\n# of b\nb:\n  y: 2\n"),
        (', at the end of "a"', "a:\n  x: 1\n  new: 1\n\n# of b\nb:\n  y: 2\n"),
        (', at the end of "b"', "a:\n  x: 1\n\n# of b\nb:\n  y: 2\n  new: 1\n"),
        (", at the end", "a:\n  x: 1\n\n# of b\nb:\n  y: 2\n  new: 1\n"),
    ],
)
def test_lines_land_where_the_example_says(tmp_path: Path, place: str, after: str) -> None:
    (tmp_path / "profiles").mkdir()
    path = tmp_path / "profiles" / "f.yaml"
    path.write_text("a:\n  x: 1\n\n# of b\nb:\n  y: 2\n")
    put_in_place(example(f"# profiles/f.yaml{place}\n  new: 1\n"), tmp_path)
    assert path.read_text() == after


def test_a_new_file_takes_no_other_s_place(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    put_in_place(example("# profiles/f.yaml\nid: f\n"), tmp_path)
    assert (tmp_path / "profiles" / "f.yaml").read_text() == "id: f\n"
    with pytest.raises(AssertionError, match="there already"):
        put_in_place(example("# profiles/f.yaml\nid: f\n"), tmp_path)


def test_the_examples_are_not_in_the_catalogue() -> None:
    for block in blocks(read(DOCUMENT)):
        first = block.content.splitlines()[0]
        if block.language == "yaml" and ", at the" not in first:
            assert not (ROOT / first.removeprefix("# ")).exists()
