"""Fit: does it fit, what is left, and what would change that."""

from __future__ import annotations

import html
import re

import streamlit as st

from planner.deployment import resolve
from planner.evaluation import Evaluation
from planner.sweeps import resource_use
from planner.ui import memory_bar, state
from planner.ui.charts.base import draw_chart
from planner.ui.charts.fit import cache_chart, map_chart
from planner.ui.what_if import WhatIf, nearest_changes
from planner.ui.widgets import (
    VERDICT_MARKS,
    cards,
    draw,
    figure,
    h,
    note_html,
    notes,
    side_by_side,
    t,
)

LEADING_BOLD = re.compile(r"^<b>[^<]*</b>\s*")


def draw_page(evaluation: Evaluation) -> None:
    headline(evaluation)
    figures(evaluation)
    st.subheader(t("fit.bar_title"), anchor="card")
    memory_bar.draw_bar(evaluation)
    st.subheader(t("fit.dials_title"), anchor="dials")
    dials(evaluation)
    st.subheader(t("fit.charts_title"), anchor="charts")
    with side_by_side():
        draw_chart(map_chart(evaluation))
        draw_chart(cache_chart(evaluation))
    st.subheader(t("fit.whatif_title"), anchor="what-if")
    what_ifs(evaluation)
    compatibility(evaluation)


def headline(evaluation: Evaluation) -> None:
    """The verdict first, then one sentence; where it isn't good, what would change it."""
    memory = evaluation.memory
    verdict = memory.verdict
    sentence = note_html(evaluation.headline)
    said = h(f"verdict.{verdict}")
    # The sentence begins with the verdict in bold; it stands beside it here, large.
    lead = LEADING_BOLD.sub("", sentence)
    more = (
        "".join(f"<br>{note_html(note)}" for note in (memory.reason, *memory.remedies))
        if verdict != "fits"
        else ""
    )
    if evaluation.caveat:
        more = f"<br>⚠ {note_html(evaluation.caveat)}{more}"
    more = f'<div class="hr-more">{more.removeprefix("<br>")}</div>' if more else ""
    draw(
        f'<div class="hr-verdict hr-{verdict}" role="status"><span class="hr-chip">'
        f'<span aria-hidden="true">{VERDICT_MARKS[verdict]}</span> {said}</span>'
        f'<span class="hr-lead">{lead}{feel(evaluation)}</span>{more}</div>'
    )


def feel(evaluation: Evaluation) -> str:
    """How it will feel, in one sentence with its ranges; nothing where it doesn't come up."""
    speed = evaluation.speed
    if not evaluation.memory.starts or speed.decode_tokens_per_s is None:
        return ""
    first, rate = speed.ttft_s, speed.decode_tokens_per_s
    return "<br>" + h(
        "fit.feel",
        people=evaluation.scenario.concurrency,
        first=float(first.mid),
        first_low=float(first.low),
        first_high=float(first.high),
        rate=float(rate.mid),
        rate_low=float(rate.low),
        rate_high=float(rate.high),
    )


def figures(evaluation: Evaluation) -> None:
    """The four figures that people ask for first."""
    memory, scenario = evaluation.memory, evaluation.scenario
    tokens = scenario.input_tokens + scenario.output_tokens
    several = evaluation.deployment.gpus > 1
    served = resolve(scenario).served_sequences
    people = "people_served" if served < float(memory.max_concurrency.mid) else "people_says"
    with cards():
        figure(
            "needed_bytes_per_gpu",
            memory.needed_bytes_per_gpu,
            "gib",
            evaluation,
            label=h("fit.needed_each" if several else "fit.needed"),
            says=h("fit.needed_of", usable=float(memory.usable_bytes_per_gpu.mid)),
        )
        figure(
            "weights_bytes_per_gpu",
            memory.weights_bytes_per_gpu,
            "gib",
            evaluation,
            label=h("fit.weights_each" if several else "fit.weights"),
            says=h("fit.weights_says", stored=evaluation.deployment.weights_label),
        )
        figure(
            "max_concurrency",
            memory.max_concurrency,
            "count",
            evaluation,
            label=h("fit.people"),
            says=h(f"fit.{people}", tokens=tokens, served=served),
        )
        figure(
            "max_context_tokens",
            memory.max_context_tokens,
            "count",
            evaluation,
            label=h("fit.longest"),
            says=h("fit.longest_says", users=scenario.concurrency),
        )


def dials(evaluation: Evaluation) -> None:
    """VRAM, compute, bandwidth: how much of each is used, and which runs out first."""
    use = resource_use(evaluation)
    shares = {
        "memory": use.memory_fraction,
        "compute": use.compute_fraction,
        "bandwidth": use.bandwidth_fraction,
    }
    short = evaluation.memory.verdict == "does_not_fit"
    rows = "".join(
        _dial(name, share, first=name == use.first, full=short and name == "memory")
        for name, share in shares.items()
    )
    draw(f'<div class="hr-dials">{rows}</div>')


def _dial(resource: str, share: float, *, first: bool, full: bool) -> str:
    width = 100.0 * min(max(share, 0.0), 1.0)
    name = h(f"dial.{resource}")
    tone = " hr-full" if full else ""
    runs_out = f' <span class="hr-first">{h("dial.first")}</span>' if first else ""
    return (
        f'<div class="hr-dial"><span class="hr-name">{name}{runs_out}</span>'
        f'<div class="hr-meter{tone}" role="meter" aria-label="{name}" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{width:.0f}"><div style="width:{width:.1f}%"></div></div>'
        f'<span class="hr-sentence">{h(f"dial.{resource}_says", share=share)}</span></div>'
    )


def what_ifs(evaluation: Evaluation) -> None:
    """The nearest changes that alter the verdict; each can be applied, and undone."""
    changes = nearest_changes(evaluation)
    if not changes:
        draw(f'<p class="hr-about">{h("whatif.none")}</p>')
        return
    with cards():
        for change in changes:
            with st.container(key=f"whatif-{change.kind}", height="stretch"):
                _what_if_card(change)


def _what_if_card(change: WhatIf) -> None:
    what = what_if_words(change)
    verdict = f"{VERDICT_MARKS[change.verdict]} {h(f'verdict.{change.verdict}')}"
    memory = h("whatif.memory", needed=change.needed_bytes, usable=change.usable_bytes)
    draw(
        f'<p class="hr-card-title">{html.escape(what.words())}</p>'
        f'<p class="hr-tone hr-{change.verdict}">{verdict}</p><p class="hr-about">{memory}</p>'
    )
    st.button(
        t("whatif.apply"),
        key=f"apply-{change.kind}",
        on_click=state.apply,
        args=(change.changes, what),
    )


def what_if_words(change: WhatIf) -> state.Sentence:
    """The change in a few words."""
    scenario = change.scenario
    values: dict[str, object] = {
        "users": scenario.concurrency,
        "tokens": scenario.input_tokens,
        "format": (scenario.kv if change.kind == "kv" else scenario.weights)
        .upper()
        .replace(":", " "),
        "share": scenario.gpu_memory_utilization,
        "gpu_layers": scenario.gpu_layers,
        "cpu_expert_layers": scenario.cpu_expert_layers,
        "gpus": change.gpus,
        "card": change.card,
    }
    one = change.kind == "card" and change.gpus == 1
    return state.Sentence("whatif.card_one" if one else f"whatif.{change.kind}", values)


def compatibility(evaluation: Evaluation) -> None:
    """What the card lacks and what was assumed, before anything surprising happens."""
    # What only the times of the Speed page are read with is said there.
    warnings = [note for note in evaluation.warnings if note.code != "speed_if_it_fitted"]
    if warnings:
        st.subheader(t("notes.title"), anchor="notes")
        notes(warnings, "warn")
    if evaluation.assumptions:
        with st.expander(
            t("fit.assumptions", number=len(evaluation.assumptions)), key="assumptions"
        ):
            notes(evaluation.assumptions, "info")
