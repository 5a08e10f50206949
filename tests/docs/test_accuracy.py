"""docs/accuracy.md is what `python -m planner accuracy --markdown` prints, and keeps what the issue asks it to say."""

from __future__ import annotations

from planner.accuracy_report import accuracy_markdown
from planner.measure.accuracy import TARGETS, by, fold_of, points
from planner.ui.locale import text
from tests.docs.documents import read

DOCUMENT = "docs/accuracy.md"


def test_the_document_is_up_to_date():
    """`python -m planner accuracy --markdown --lang en > docs/accuracy.md` writes it."""
    assert read(DOCUMENT) == accuracy_markdown("en")


def test_it_names_every_missed_target():
    document = read(DOCUMENT)
    missed = document.partition(f"## {text('accuracy.missed_title', 'en')}")[2].partition("\n## ")[
        0
    ]
    for name, one in by(points()[0], lambda point: point.family).items():
        target = TARGETS.get(name)
        if not target:
            continue
        held = one.held.get(fold_of(name))
        over = one.median > target[0] or (held and target[1] and held > target[1])
        assert (text(f"accuracy.family.{name}", "en") in missed) == bool(over), name


def test_it_lists_sources_and_what_was_left_out():
    document = read(DOCUMENT)
    assert "Apache-2.0" in document
    assert "speculative decoding" in document
    assert document.count("| srv-") + document.count("| lib") + document.count("| hf0") > 0
