"""Accuracy: how far predictions lie from published measurements, where we are weak, and what that rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import streamlit as st

from planner.catalog.accelerators import Accelerator
from planner.catalog.calibration_constants import accelerator_class
from planner.deployment import resolve
from planner.evaluation import Evaluation
from planner.measure.accuracy import TARGETS, TOO_FEW, UNSURE
from planner.ui import state
from planner.ui.accuracy_data import (
    FEW,
    Compared,
    Record,
    class_cards,
    class_name,
    engine_of,
    engines,
    errors_by_family,
    errors_of,
    family_name,
    quantities,
    record,
    selected,
    targets_of,
)
from planner.ui.accuracy_tables import Tables, own_table, tables
from planner.ui.charts.accuracy import COLOURS, chosen_words, scatter_chart
from planner.ui.charts.accuracy_families import families_chart
from planner.ui.charts.base import draw_chart, draw_choosable_chart
from planner.ui.state import language, plain
from planner.ui.widgets import draw, h, notes_html, shown, side_by_side, t

MOST_NAMED = 3  # families that the first lines name
INTENDED = 0.80  # part of the measurements that ranges are meant to hold
ENOUGH = 40  # figures from which one may be called the best known
ANY = ""  # of a select: no restriction
# What a visitor asks that a figure answers; all others are of memory.
QUESTIONS = {
    "tpot_s": "token",
    "ttft_s": "first",
    "prefill_s": "first",
    "output_tokens_per_s": "rate",
    "total_tokens_per_s": "rate",
}


def draw_page(evaluation: Evaluation) -> None:
    deployment = resolve(evaluation.scenario)
    draw_record(deployment.engine.id, deployment.accelerator, mixture=bool(deployment.work.experts))


def draw_without() -> None:
    """The page where the scenario has no answer: the record doesn't depend on it."""
    draw_record(ANY, None)


def draw_record(engine: str, card: Accelerator | None, *, mixture: bool = False) -> None:
    with st.spinner(plain("accuracy.working")):
        found, fixed = record(), tables(language())
    st.subheader(t("accuracy.yours_title"), anchor="yours")
    chosen = yours(engine, card)
    st.subheader(t("accuracy.overall_title"), anchor="overall")
    headline(found)
    st.subheader(t("accuracy.scatter_title"), anchor="scatter")
    charts(found, chosen, mixture=mixture)
    st.subheader(t("accuracy.families_title"), anchor="families")
    families(found, fixed)
    st.subheader(t("accuracy.worst_title"), anchor="worst")
    stack(h("accuracy.worst_about"), fixed.worst)
    st.subheader(t("memory_accuracy.worst_title"), anchor="worst-memory")
    stack(h("accuracy.worst_memory_about"), fixed.worst_memory)
    st.subheader(t("accuracy.more_title"), anchor="more")
    with st.expander(t("accuracy.left_out_title"), key="accuracy-left-out"):
        stack(h("accuracy.left_out_about"), fixed.left_out)
    with st.expander(t("accuracy.sources_title"), key="accuracy-sources"):
        stack(h("accuracy.sources_about"), fixed.sources)


def stack(about: str, *parts: str, whole: bool = False) -> None:
    """How to read something, and under it the thing itself (HTML); `whole` shows a table at its full height."""
    more = " hr-whole" if whole else ""
    draw(f'<div class="hr-stack{more}"><p class="hr-about">{about}</p>{"".join(parts)}</div>')


# --- In words --------------------------------------------------------------------------------------------------------


def headline(found: Record) -> None:
    """How far predictions are from measurements, and where they are worst."""
    one, memory = found.overall, found.overall_memory
    best = best_known(found)
    lead = h(
        "accuracy.lead",
        figures=one.rows,
        median=one.median,
        sizes=memory.rows,
        median_size=memory.median,
        coverage=one.coverage,
        coverage_sizes=memory.coverage,
        intended=INTENDED,
    )
    says = [h("accuracy.best", families=_named(found, [best], "median"))] if best else []
    if weak := weakest(found):
        says.append(h("accuracy.weakest", families=_named(found, weak, "median")))
    if narrow := too_narrow(found):
        says.append(h("accuracy.too_narrow", families=_named(found, narrow, "coverage"), few=FEW))
    says.append(h("accuracy.runs", runs=found.runs))
    draw(
        '<div class="hr-verdict hr-plain hr-single" role="status">'
        f'<span class="hr-lead">{lead}</span><div class="hr-more">{"<br>".join(says)}</div></div>'
    )


def best_known(found: Record) -> str | None:
    """The family of speed with the smallest median error, of those with enough figures to speak of; None for none."""
    enough = [name for name, one in found.speed.items() if one.rows >= ENOUGH]
    return min(enough, key=lambda name: found.speed[name].median, default=None)


def weakest(found: Record) -> list[str]:
    """Families that miss a target, or without one are far off, the worst first."""
    weak = []
    for name, one in found.families.items():
        against = targets_of(name)
        missed = any(got > target for _, got, target in against)
        if one.rows >= FEW and (missed or (not against and one.median > UNSURE)):
            weak.append(name)
    return sorted(weak, key=lambda name: -found.families[name].median)


def too_narrow(found: Record) -> list[str]:
    """Families whose ranges hold far fewer measurements than they are meant to, the worst first."""
    all_of_them = found.families
    narrow = [
        name for name, one in all_of_them.items() if one.coverage < TOO_FEW and one.rows >= FEW
    ]
    return sorted(narrow, key=lambda name: all_of_them[name].coverage)


def _named(found: Record, names: list[str], figure: str) -> str:
    """The first of some families, each with its figure."""
    all_of_them, spoken = found.families, language()
    return "; ".join(
        f"{family_name(name, spoken)} ({shown(getattr(all_of_them[name], figure), 'percent')})"
        for name in names[:MOST_NAMED]
    )


# --- What is known of the scenario's engine and card -----------------------------------------------------------------


def yours(engine: str, card: Accelerator | None) -> tuple[Compared, ...]:
    """An engine and a class of accelerators to look at, the scenario's at first, and the errors there.

    Returns:
        Their figures; all where nothing was chosen.
    """
    spoken = language()
    group = accelerator_class(card).name if card else ANY
    own_engine = engine if engine in engines() else ANY
    own_group = group if group in class_cards() else ANY
    met = bool(selected(own_engine, own_group))
    if not met:
        own_group = ANY
    start = f"{engine}-{group}"  # another scenario begins with its own again
    with side_by_side():
        chosen_engine = st.selectbox(
            t("accuracy.engine"),
            [ANY, *engines()],
            format_func=lambda id_: engines()[id_] if id_ else plain("accuracy.any_engine"),
            key=state.keeping(f"accuracy-engine-{start}", own_engine),
            persist_state="session",
        )
        chosen_group = st.selectbox(
            t("accuracy.card"),
            [ANY, *class_cards()],
            format_func=lambda id_: class_name(id_, spoken) if id_ else plain("accuracy.any_card"),
            key=state.keeping(f"accuracy-class-{start}", own_group),
            help=t("accuracy.card_help"),
            persist_state="session",
        )
    chosen = selected(chosen_engine, chosen_group)
    where = {
        "engine": engines()[chosen_engine] if chosen_engine else plain("accuracy.any_engine"),
        "card": class_name(chosen_group, spoken) if chosen_group else plain("accuracy.any_card"),
    }
    if card and chosen_group == group:
        where["card"] = plain("accuracy.cards_like", card=card.name)
    says = []
    if card and not (engine in engines() and group in class_cards() and selected(engine, group)):
        says.append(h("accuracy.yours_unmet", card=card.name))
    if not chosen:
        says.append(h("accuracy.yours_none", **where))
        draw(f"<p>{' '.join(says)}</p>")
        return record().points
    says.append(h("accuracy.yours", **where))
    for kind, some in by_question(chosen).items():
        one = errors_of(some)
        says.append(h(f"accuracy.yours_{kind}", figures=one.rows, median=one.median))
    draw(
        '<div class="hr-verdict hr-plain hr-single" role="status">'
        f'<span class="hr-lead">{"<br>".join(says)}</span></div>'
    )
    draw(
        f'<div class="hr-stack hr-whole">{own_table(chosen)}'
        f'<p class="hr-about">{h("accuracy.terms")}</p></div>'
    )
    return chosen


def by_question(chosen: Iterable[Compared]) -> dict[str, tuple[Compared, ...]]:
    """The figures by what a visitor asks: each token, the first one, memory; everyone's rate where neither is known."""
    groups: dict[str, list[Compared]] = {"token": [], "first": [], "rate": [], "memory": []}
    for one in chosen:
        groups[QUESTIONS.get(one.quantity, "memory")].append(one)
    if groups["token"] or groups["first"]:
        del groups["rate"]  # of bursts and batches, which few ask about
    return {name: tuple(some) for name, some in groups.items() if some}


# --- Charts ----------------------------------------------------------------------------------------------------------


def charts(found: Record, chosen: tuple[Compared, ...], *, mixture: bool) -> None:
    """Predicted against measured for one family, and what it costs that something was never measured.

    Args:
        mixture: the scenario's model has experts, so that it begins with their family where there is one.
    """
    some = len(chosen) < len(found.points)
    counted = errors_by_family(chosen)
    own_kind, other = ("experts", "dense") if mixture else ("dense", "experts")

    def nearness(name: str) -> tuple[bool, bool, bool, int]:
        kind = name.rpartition(".")[2]
        return name in found.speed, kind != other, kind == own_kind, counted[name].rows

    largest = max(counted, key=nearness)
    names = list(found.families)
    with st.container(key="accuracy-choices", horizontal=True, vertical_alignment="bottom"):
        family = st.selectbox(
            t("accuracy.column.family"),
            names,
            format_func=lambda name: family_name(name, language()),
            key=state.keeping(f"accuracy-family-{largest}", largest),
            width=420,
            persist_state="session",
        )
        several = len({engine_of(one) for one in found.points if one.family == family}) > 1
        colour = _choice("colour", COLOURS, COLOURS[0 if several else 1], f"{several}")
        measured = quantities(family)
        own = Counter(one.quantity for one in chosen if one.family == family)
        first = max(measured, key=lambda name: own[name])
        quantity = (
            _choice("quantity", measured, first, f"{family}-{first}") if measured[1:] else first
        )
    marked = [one for one in chosen if one.family == family and one.quantity == quantity]
    with side_by_side():
        scatter = scatter_chart(family, quantity, colour, marked if some and marked else None)
        draw_choosable_chart(scatter, partial(chosen_words, family, quantity))
        alike = found.speed if family in found.speed else found.memory
        draw_chart(families_chart(list(alike), family))


def _choice(name: str, options: Sequence[str], first: str, start: str) -> str:
    """One of a few, side by side; where `start` differs, it begins with `first` again."""
    chosen = st.segmented_control(
        t(f"accuracy.{name}"),
        options,
        format_func=lambda option: plain(f"accuracy.{name}.{option}"),
        default=first,
        required=True,
        key=f"accuracy-{name}-{start}",
        persist_state="session",
    )
    return str(chosen)


# --- Families --------------------------------------------------------------------------------------------------------


def families(found: Record, fixed: Tables) -> None:
    """The errors of every family, and why a target is missed where one is."""
    stack(h("accuracy.how_to_read"), fixed.speed, _missed(found.speed), whole=True)
    st.subheader(t("memory_accuracy.title"), anchor="memory")
    about = f"{h('memory_accuracy.introduction')} {h('memory_accuracy.how_to_read')}"
    stack(about, fixed.memory, _missed(found.memory), whole=True)
    draw(f'<p class="hr-about">{h("memory_accuracy.missing")}</p>')


def _missed(names: Iterable[str]) -> str:
    """Which targets are missed, and the likely cause where one is known."""
    items = []
    for name in names:
        why = h(f"accuracy.why.{name}") if name in TARGETS else ""
        for what, got, target in targets_of(name):
            if got > target:
                sentence = h(
                    "accuracy.missed",
                    family=family_name(name, language()),
                    what=plain(f"accuracy.missed_{what}"),
                    error=shown(got, "percent"),
                    target=shown(target, "percent"),
                )
                items.append(f"{sentence} {why}")
    if not items:
        return f"<p>{h('accuracy.all_met')}</p>"
    return f"<b>{h('accuracy.missed_title')}</b>{notes_html(items, 'warn')}"
