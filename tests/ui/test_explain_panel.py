"""Explanations as the pages show them: formula, formula with numbers, terms, sources, in both languages, escaped."""

from __future__ import annotations

import html
import re

import pytest

from planner.catalog.loader import Source
from planner.evaluation import evaluate
from planner.explain import Explanation, Term, explain
from planner.scenario import Scenario
from planner.ui.explain_panel import explanation_html
from planner.ui.locale import LANGUAGES
from planner.ui.permalink import DEFAULTS
from planner.ui.presets import PRESETS

FIGURES = (
    "needed_bytes_per_gpu", "weights_bytes_per_gpu", "max_concurrency", "max_context_tokens", "ttft_s",
    "decode_tokens_per_s",
)  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_of_the_pages_is_explained(figure: str, language: str) -> None:
    for preset in PRESETS:
        answer = evaluate(Scenario.parse({**DEFAULTS, **preset.values}))
        shown = explanation_html(explain(answer, figure), language)
        formula, filled = re.findall(r'<div class="hr-formula">(.*?)</div>', shown, re.DOTALL)
        assert formula
        assert re.search(r"\d", filled)
        assert not re.search(r"\{\w+(:\w*)?\}", html.unescape(filled))
        assert shown.count("<tr>") >= 1
        assert shown.count("<li>") >= 1


def test_sources_are_links_and_nothing_in_them_is_markup() -> None:
    source = Source("s", "A <b>title</b>", "https://example.org/a?b=1&c=2", "2026", "paper")
    unsafe = Source("u", "Elsewhere", "javascript:alert(1)", "2026", "derived")
    terms = (Term("<i>", "term.peak", 1.0, "number"),)
    made = Explanation(
        "figure.ttft_s", "a < b", "{x:number} < 2", {"x": 1.5}, terms, (source, unsafe)
    )
    shown = explanation_html(made, "en")
    assert 'href="https://example.org/a?b=1&amp;c=2"' in shown
    assert "javascript" not in shown
    assert "<b>" not in shown
    assert "<i>" not in shown
    assert "a &lt; b" in shown
    assert "1.5 &lt; 2" in shown
