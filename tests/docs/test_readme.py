"""The README's examples run and print what it says, and its first screen says what there is to do first."""

from __future__ import annotations

import re

import pytest

from planner.catalog.calibration_constants import calibration_data
from planner.cli import VERBS
from planner.quantity import Basis
from tests.docs.documents import ROOT, blocks, read, results, tables

DOCUMENT = "README.md"
FIRST_SCREEN = 40  # lines


def commands() -> list[str]:
    """Every command line of the README, in order."""
    found: list[str] = []
    for block in blocks(read(DOCUMENT)):
        if block.language == "sh":
            found += [line for line in block.content.splitlines() if line and line[0] != "#"]
    return found


def test_the_first_two_commands_are_run_and_test() -> None:
    assert commands()[:2] == ["make run", "make test"]


def test_the_main_job_is_on_the_first_screen() -> None:
    first_screen = "\n".join(read(DOCUMENT).splitlines()[:FIRST_SCREEN])
    main_job = next(command for command in commands() if command.startswith("python -m planner"))
    assert main_job.startswith("python -m planner estimate --model google/gemma-3-12b-it --gpu t4")
    assert main_job in first_screen
    picture = re.search(r"!\[([^\]]+)\]\((docs/images/[\w-]+\.png)\)", first_screen)
    assert picture
    assert (ROOT / picture[2]).stat().st_size > 10_000


def test_examples_print_what_the_readme_says() -> None:
    """After a change that is meant: `python -m tests.docs.documents`, and read the difference."""
    for block, printed in results(DOCUMENT):
        assert block.output, f"the README doesn't say what this prints:\n{block.content}"
        assert printed == block.output.content, block.content


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_command(verb: str) -> None:
    assert [command for command in commands() if command.startswith(f"python -m planner {verb} ")]


def test_accuracy_is_quoted_as_the_calibration_states_it() -> None:
    data = calibration_data("joint")
    fit, first = data["fit"], data["first_token_fit"]
    text = " ".join(read(DOCUMENT).split())
    assert (
        f"median error of {100 * fit['median_error_fraction']:g} % on the {fit['rows']:,} runs"
    ) in text
    left_out = (
        100 * fit["held_out_accelerator_median_error_fraction"],
        100 * fit["held_out_model_median_error_fraction"],
    )
    assert "{:g} % on a GPU and {:g} % on a model left out".format(*left_out) in text
    assert f"time to first token {100 * first['median_error_fraction']:g} %" in text


def test_every_basis_is_explained_in_order() -> None:
    told = next(rows for _, columns, rows in tables(read(DOCUMENT)) if columns[0] == "basis")
    assert [row[0] for row in told] == [basis.label for basis in Basis]
