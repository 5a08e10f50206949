"""docs/coverage.md is what `python -m planner models --coverage` prints, and lists every type that isn't equal."""

from __future__ import annotations

import re

from planner.architecture.config_folder import read_witnesses
from planner.architecture.coverage import coverage
from planner.architecture.coverage_report import FIGURES, REASONS, coverage_markdown
from tests.docs.documents import read

DOCUMENT = "docs/coverage.md"


def test_the_document_is_up_to_date() -> None:
    """`python -m planner models --coverage > docs/coverage.md` writes it."""
    assert read(DOCUMENT) == coverage_markdown(coverage(read_witnesses()))


def test_every_type_has_its_row_and_every_reason_its_meaning() -> None:
    document = read(DOCUMENT)
    rows = coverage(read_witnesses())
    for row in rows:
        found = re.findall(rf"^\| {re.escape(row.model_type)} \|", document, re.MULTILINE)
        assert len(found) == sum(other.model_type == row.model_type for other in rows)
    used = {getattr(row, name).reason for row in rows for name in FIGURES} - {""}
    assert used <= set(REASONS)
    for reason in used:
        assert f"| {reason} | {REASONS[reason]} |" in document


def test_no_reason_is_stated_that_no_type_has() -> None:
    rows = coverage(read_witnesses())
    used = {getattr(row, name).reason for row in rows for name in FIGURES}
    assert set(REASONS) - used <= {"differs"}
