"""Where a figure comes from: formula, the formula filled in, its terms with their basis, and the sources.

Worked out only when someone opens it.
"""

from __future__ import annotations

import html

import streamlit as st

from planner.catalog.loader import Source
from planner.errors import PlannerError
from planner.evaluation import Evaluation
from planner.explain import Explanation, Term, explain
from planner.ui import state
from planner.ui.guard import guarded
from planner.ui.locale import fill, say_error, text
from planner.ui.locale.numbers import format_value


def button(evaluation: Evaluation, figure: str, key: str) -> None:
    """A small "explain" that opens on the figure's explanation; `key` is unique on the page."""
    _panel(evaluation, figure, key, state.language())


@st.fragment
def _panel(evaluation: Evaluation, figure: str, key: str, language: str) -> None:
    label = text("explain.open", language)
    with st.popover(label, key=f"explain-{key}", type="tertiary", on_change="rerun") as panel:
        if panel.open:
            with guarded(f"explain-{key}"):
                _explanation(evaluation, figure, language)


def _explanation(evaluation: Evaluation, figure: str, language: str) -> None:
    try:
        markup = explanation_html(explain(evaluation, figure), language)
    except PlannerError as refusal:
        markup = f'<p class="hr">{html.escape(say_error(refusal, language))}</p>'
    st.html(markup)


def explanation_html(explanation: Explanation, language: str) -> str:
    """The whole explanation as markup; everything in it is escaped."""

    def say(key: str) -> str:
        return html.escape(text(state.spoken(key), language))

    parts = [
        f'<p style="font-weight:600">{say(explanation.title_key)}</p>',
        f'<div class="hr-formula">{html.escape(explanation.formula)}</div>',
        f'<div class="hr-formula">{html.escape(fill(explanation.filled, language, **explanation.values))}</div>',
    ]
    rows = "".join(_term_row(term, language) for term in explanation.terms)
    if rows:
        parts.append(
            f'<div class="hr-scroll"><table class="hr-table"><tbody>{rows}</tbody></table></div>'
        )
    if explanation.sources:
        entries = "".join(_source(source, language) for source in explanation.sources)
        heading = f'<p class="hr-about">{say("explain.sources")}</p>'
        parts.append(f'{heading}<ul class="hr-sources">{entries}</ul>')
    return f'<div class="hr" style="display:grid;gap:.6rem;max-width:34rem">{"".join(parts)}</div>'


def _term_row(term: Term, language: str) -> str:
    value = html.escape(format_value(term.value, term.kind, language))
    note = html.escape(text(state.spoken(term.note_key), language))
    return f"<tr><td>{html.escape(term.symbol)}</td><td>{value}</td><td class='hr-wrap'>{note}</td></tr>"


def _source(source: Source, language: str) -> str:
    kind = html.escape(text(f"source.{source.kind}", language))
    return f"<li>{_link(source.title, source.url)}, {html.escape(source.date)} ({kind})</li>"


def _link(title: str, url: str) -> str:
    """A link to a source; an address that isn't one stays text."""
    if not url.startswith(("https://", "http://")):
        return html.escape(title)
    return f'<a href="{html.escape(url)}" target="_blank" rel="noopener noreferrer">{html.escape(title)}</a>'
