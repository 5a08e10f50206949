"""The pieces that pages are made of: sentences, figures with range and basis, notes, cards for refusals.

Sentences of the catalogues are ours; names and values in them may be a stranger's. `t` makes Markdown, `h` makes HTML,
and both escape what is filled in.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from planner.catalog.engine_profiles import engine_ids
from planner.errors import Note, PlannerError
from planner.evaluation import Evaluation
from planner.quantity import Basis, Estimate
from planner.ui import explain_panel, state
from planner.ui.choices import accelerator_names, engine_name, model_names
from planner.ui.device_words import note_for
from planner.ui.locale import catalogue, say_error, say_note, text
from planner.ui.locale.numbers import format_value

ADDRESS = re.compile(r"https://[A-Za-z0-9./_#%?=&;+-]+[A-Za-z0-9/]")
NO_BREAK_SPACE = "\u00a0"
BEFORE_UNIT = re.compile(
    r"(?<=\d) (?=%|(?:[KMGT]iB|B|ms|s|min|h|µs|tok/s|[GTP]FLOP(?:/s)?|[MGT]B/s|[kMT])\b)"
)
BOLD = re.compile(r"\*\*(.+?)\*\*")
MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|$~:&])")
# From a full circle (certain) to an empty one (a guess): the basis can be told without reading and without colour.
BASIS_MARKS = {
    Basis.EXACT: "=",
    Basis.MEASURED: "●",
    Basis.CALIBRATED: "◕",
    Basis.TRANSFERRED: "◑",
    Basis.PHYSICS: "◔",
    Basis.ASSUMED: "○",
}
VERDICT_MARKS = {"fits": "✓", "tight": "!", "does_not_fit": "✕"}
MET_MARKS = {"meets": "✓", "may_miss": "?", "misses": "✕"}


# --- Sentences -------------------------------------------------------------------------------------------------------


def escape_markdown(given: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return MARKDOWN.sub(r"\\\1", " ".join(given.split()))


def _each(escape: Callable[[str], str], values: dict[str, Any]) -> dict[str, Any]:
    def safe(value: Any) -> Any:
        if isinstance(value, str):
            return escape(value)
        return [safe(item) for item in value] if isinstance(value, (list, tuple)) else value

    return {name: safe(value) for name, value in values.items()}


def t(key: str, /, **values: Any) -> str:
    """The sentence under `key` as Markdown."""
    return text(state.spoken(key), state.language(), **_each(escape_markdown, values))


def h(key: str, /, **values: Any) -> str:
    """The sentence under `key` as HTML; our own sentences may hold **bold** words and <br>."""
    return _own_markup(text(state.spoken(key), state.language(), **_each(html.escape, values)))


def _own_markup(sentence: str) -> str:
    """Bold words, and numbers that stay on one line with their units."""
    return BEFORE_UNIT.sub(NO_BREAK_SPACE, BOLD.sub(r"<b>\1</b>", sentence))


def note_html(note: Note) -> str:
    """A note as HTML, with verdicts in it in the visitor's language, and addresses as links."""
    note = note_for(note, state.device(), state.language())
    values = _each(html.escape, _with_engine_name(note.values))
    if note.values.get("verdict") in VERDICT_MARKS:
        values["verdict"] = h(f"verdict.{note.values['verdict']}")
    sentence = _own_markup(say_note(Note(note.code, values), state.language()))
    return ADDRESS.sub(
        r'<a href="\g<0>" target="_blank" rel="noopener noreferrer">\g<0></a>', sentence
    )


def _with_engine_name(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a sentence with the engine called as people call it, where they name one by its id."""
    id_ = str(values.get("engine"))
    return {**values, "engine": engine_name(id_)} if id_ in engine_ids() else dict(values)


def refusal_text(error: PlannerError) -> str:
    """What a refusal says, as Markdown, with the field called as on the page."""
    field = state.plain(f"field.{error.field}") if error.field in state.RESETTABLE else error.field
    values = {key: value for key, value in error.values.items() if key != "field"}
    if isinstance(missing := values.get("missing"), (list, tuple)):
        values["missing"] = tuple(missing_label(str(name)) for name in missing)
    values = _with_engine_name(values)
    if (card := values.get("accelerator")) is not None:
        values["accelerator"] = accelerator_names().get(str(card).partition("@")[0], card)
    return escape_markdown(
        say_error(PlannerError(error.code, field=field, **values), state.language())
    )


def missing_label(field: str) -> str:
    """What a form calls a field that a file left open; some are too short without the sidebar around them."""
    known = catalogue(state.language())
    return state.plain(f"asked.{field}" if f"asked.{field}" in known else f"field.{field}")


def weights_label(id_: str) -> str:
    """What people call a weight format."""
    if id_.startswith("gguf:"):
        return f"GGUF {id_.removeprefix('gguf:')}"
    return state.plain(f"format.{id_}")


def shown(value: float, kind: str) -> str:
    """A number with its unit in the visitor's language."""
    return format_value(value, kind, state.language())


def draw(markup: str) -> None:
    """Our own markup: its parts are escaped where they're filled in."""
    st.html(f'<div class="hr">{markup}</div>')


def cards() -> Any:
    """Four cards in a row, two on a telephone; what is drawn inside becomes one each."""
    return st.grid(4, min_column_width=148, gap="small")


def side_by_side() -> Any:
    """Two charts beside each other where there is room, else one under another."""
    return st.grid(2, min_column_width=340, gap=("medium", "medium"))


# The pages of this run, by the last part of their address: each run has a context of its own.
_pages: ContextVar[Mapping[str, StreamlitPage]] = ContextVar("pages")


def know_pages(pages: Iterable[StreamlitPage]) -> None:
    """Tells `page_link` where it can lead to."""
    _pages.set({page.url_path: page for page in pages})


def page_link(path: str, label: str) -> None:
    """A link to another page that takes the scenario along; `label` is Markdown."""
    st.page_link(
        _pages.get()[path],
        label=label,
        icon=":material/arrow_forward:",
        query_params=state.query(),
    )


# --- Figures ---------------------------------------------------------------------------------------------------------


def badge(basis: Basis) -> str:
    """What a figure rests on: mark and word, with the explanation as a tooltip."""
    about = h(f"basis_about.{basis.label}")
    return f'<span class="hr-badge" title="{about}"><i>{BASIS_MARKS[basis]}</i>{h(f"basis.{basis.label}")}</span>'


def range_text(estimate: Estimate, kind: str) -> str:
    """Low to high with the unit once, or nothing where they're the same as shown."""
    low, high = shown(float(estimate.low), kind), shown(float(estimate.high), kind)
    if low == high:
        return ""
    number, _, unit = low.rpartition(" ")
    return f"{number} – {high}" if number and high.endswith(f" {unit}") else f"{low} – {high}"


def value_html(estimate: Estimate, kind: str) -> str:
    """The number large, its unit smaller."""
    number, _, unit = shown(float(estimate.mid), kind).rpartition(" ")
    if not number:
        number, unit = unit, ""
    return f'{html.escape(number)}<span class="hr-unit">{html.escape(unit)}</span>'


def figure_html(label: str, estimate: Estimate, kind: str, says: str = "") -> str:
    """Label, number, range and basis; `label` and `says` are HTML."""
    span = html.escape(range_text(estimate, kind))
    return (
        f'<div class="hr-fig"><div class="hr-label">{label}</div>'
        f'<div class="hr-value">{value_html(estimate, kind)}</div>'
        f'<div class="hr-range">{span or "&nbsp;"}</div>'
        f"{f'<div class=hr-says>{says}</div>' if says else ''}</div>"
    )


def figure(
    name: str,
    estimate: Estimate | None,
    kind: str,
    evaluation: Evaluation,
    *,
    label: str,
    says: str = "",
    key: str = "",
) -> None:
    """A card with one figure, and behind "explain" where it comes from.

    Args:
        name: of the figure, as `planner.explain` knows it.
        label, says: HTML; a sentence under the number.
        key: unique on the page, where `name` isn't.
    """
    with st.container(key=f"figure-{key or name}", height="stretch", gap="xsmall"):
        if estimate is None:
            draw(
                f'<div class="hr-fig"><div class="hr-label">{label}</div><div class="hr-value">–</div></div>'
            )
            return
        draw(figure_html(label, estimate, kind, says))
        with st.container(
            key=f"foot-{key or name}", horizontal=True, vertical_alignment="center", gap=None
        ):
            st.html(badge(estimate.basis), width="content")
            explain_panel.button(evaluation, name, key or name)


# --- Notes and lists -------------------------------------------------------------------------------------------------


def notes(found: Iterable[Note], kind: str) -> None:
    """Notes one under another: `kind` is "warn" or "info"."""
    draw(notes_html(map(note_html, found), kind))


def notes_html(sentences: Iterable[str], kind: str) -> str:
    """Sentences (HTML) one under another, each with the mark of its kind."""
    mark = {"warn": "!", "info": "·"}[kind]
    items = "".join(
        f'<div class="hr-note hr-{kind}"><b aria-hidden="true">{mark}</b><span>{sentence}</span></div>'
        for sentence in sentences
    )
    return f'<div class="hr-notes">{items}</div>'


def table_html(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    wrap: Collection[int] = (),
    *,
    folds: bool = False,
) -> str:
    """A table; cells are HTML, the first column names the row.

    Args:
        wrap: columns of prose, which may take several lines.
        folds: on a telephone a row is a block with its name on top and each figure under its head (plain text).
    """
    classes = [' class="hr-wrap"' if number in wrap else "" for number in range(len(head))]
    columns = "".join(
        f'<th scope="col"{given}>{cell}</th>' for given, cell in zip(classes, head, strict=True)
    )
    if folds:
        classes = [f'{given} data-head="{cell}"' for given, cell in zip(classes, head, strict=True)]
    body = "".join(
        f"<tr>{''.join(f'<td{given}>{cell}</td>' for given, cell in zip(classes, row, strict=True))}</tr>"
        for row in rows
    )
    kind = "hr-table hr-folds" if folds else "hr-table"
    return (
        f'<div class="hr-scroll" tabindex="0"><table class="{kind}"><caption>{caption}</caption>'
        f"<thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


# --- What went wrong -------------------------------------------------------------------------------------------------


def refusal(error: PlannerError, name: str = "page") -> None:
    """A card in place of an answer: what, why, what to do, and a way out that loses nothing else.

    Args:
        name: unique on the page.
    """
    with st.container(key=f"refusal-{name}"):
        st.markdown(f"**{t('refusal.title')}**")
        st.markdown(refusal_text(error))
        with st.container(horizontal=True):
            for near in _ways_out(error):
                st.button(
                    t("refusal.use", value=_called(error.field, near)),
                    key=f"use-{name}-{near}",
                    on_click=state.change,
                    kwargs={str(error.field): near},
                )
            if error.field in state.RESETTABLE:
                st.button(
                    t("refusal.reset", field=state.plain(f"field.{error.field}")),
                    key=f"reset-{name}",
                    icon=":material/restart_alt:",
                    on_click=state.reset,
                    args=(error.field,),
                )
        st.caption(t("refusal.kept"))


def _ways_out(error: PlannerError) -> list[str]:
    """Values that the refusal names as working in the field's place; at most three, so that they can be read."""
    nearest = error.values.get("nearest") or ()
    if isinstance(nearest, str):
        nearest = (nearest,)
    if error.field not in state.CHOICES or not isinstance(nearest, (list, tuple)):
        return []
    return [str(value) for value in nearest[:3]]


def _called(field: str | None, id_: str) -> str:
    """The name of a catalogue item, for people."""
    names = {"gpu": accelerator_names, "model": model_names}.get(field or "")
    return names().get(id_, id_) if names else id_
