"""Pinned accelerators side by side: figures, differences in words, and the offers behind their prices."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from planner.catalog.prices import Offer
from planner.compare.differences import differences
from planner.compare.objectives import Met, Objectives, judged, verdict_on
from planner.compare.placements import OWN_CARD_FIELDS
from planner.compare.table import Row
from planner.quantity import Estimate
from planner.ui import state
from planner.ui.compare_grid import unpin
from planner.ui.compare_table import say_plain
from planner.ui.state import plain
from planner.ui.widgets import (
    MET_MARKS,
    VERDICT_MARKS,
    badge,
    draw,
    h,
    note_html,
    range_text,
    shown,
    t,
    table_html,
)

WORDS = "margin:.2rem 0 0;padding-left:1.1rem;font-size:.9375rem"
ONE_COLUMN = "grid-template-columns:1fr"
OFFER_COLUMNS = ("card", "price", "provider", "date", "source", "instance", "gpus", "region")
# What may miss is a doubt, no warning.
MET_TONES = {Met.MEETS: "hr-fits", Met.MAY_MISS: "hr-info", Met.MISSES: "hr-does_not_fit"}
TAKEN_OVER = ("gpu", "gpus", "tp", "pp", "ep", "dp", *OWN_CARD_FIELDS)


def row_name(row: Row) -> str:
    """How many of which, as plain text."""
    return _deployment(row).words()


def _deployment(row: Row) -> state.Sentence:
    return state.Sentence("compare.deployment", {"gpus": row.gpus, "card": row.accelerator.name})


def side_by_side(
    rows: Sequence[Row],
    pinned: Sequence[str],
    current: Row,
    enough: int | None,
    objectives: Objectives,
) -> None:
    """The pinned rows in columns; the second and later ones against the first.

    Args:
        rows: those to show.
        pinned: ids of all pinned ones.
        current: the scenario as it is.
        enough: how many GPUs of its kind would hold it, where they do.
        objectives: each card says how it meets them.
    """
    if not rows:
        draw(f'<p class="hr-about">{h("compare.no_pins")}</p>')
        return
    for column, row in zip(st.columns(max(len(rows), 2), gap="small"), rows, strict=False):
        id_ = row.accelerator.id
        with column, st.container(key=f"figure-pin-{id_.replace('@', '-')}", height="stretch"):
            draw(_card_html(row, rows[0], current, enough, objectives))
            with st.container(horizontal=True, gap="small"):
                if row is not current:
                    st.button(
                        t("compare.use"), key=f"compare-use-{id_}", on_click=_use, args=(row,)
                    )
                st.button(
                    t("compare.unpin"),
                    key=f"compare-unpin-{id_}",
                    type="tertiary",
                    on_click=unpin,
                    args=(id_, pinned),
                )


def _use(row: Row) -> None:
    state.apply({name: getattr(row.scenario, name) for name in TAKEN_OVER}, _deployment(row))


def _card_html(
    row: Row, first: Row, current: Row, enough: int | None, objectives: Objectives
) -> str:
    title = html.escape(row_name(row))
    fewer = ""
    if row is current:
        title += f' <span class="hr-badge"><i>◆</i>{h("compare.chart_here")}</span>'
        if enough is not None and enough < row.gpus:
            fewer = f'<p class="hr-about">{h("compare.fewer", gpus=enough)}</p>'
    words = ""
    if row is not first:
        against = h("compare.against", card=row_name(first))
        said = "".join(f"<li>{note_html(note)}</li>" for note in differences(row, first))
        words = f'<p class="hr-about" style="margin-top:.6rem">{against}</p><ul style="{WORDS}">{said}</ul>'
    met = _objectives_html(row, objectives)
    return f'<p class="hr-card-title">{title}</p>{_verdict_html(row)}{met}{fewer}{_figures_html(row)}{words}'


def _figures_html(row: Row) -> str:
    """The figures, one under another; speeds and prices of tokens only where the engine comes up."""
    speed = row.speed if row.starts else None
    lines = [
        _line("room", row.room, "count"),
        _line("hour_price", row.usd_per_hour, "usd"),
    ]
    if speed is not None:
        lines[:0] = [
            _line("ttft", speed.ttft_s, "time"),
            _line("each", speed.decode_tokens_per_s, "rate"),
            _line("together", speed.total_tokens_per_s, "rate"),
        ]
        lines += [
            _line("output_price", row.usd_per_million_output_tokens, "usd"),
            _line("token_price", row.usd_per_million_tokens, "usd"),
        ]
    basis = badge(speed.ttft_s.basis) if speed else ""
    return (
        f'<div class="hr-legend" style="{ONE_COLUMN};margin:.4rem 0">{"".join(lines)}</div>{basis}'
    )


def _verdict_html(row: Row) -> str:
    why = (
        f'<p class="hr-about">{html.escape(say_plain(row.obstacle, state.language()))}</p>'
        if row.obstacle
        else ""
    )
    if row.verdict is None:
        return f"<p><b>{h('compare.no_answer')}</b></p>{why}"
    said = h(f"verdict.{row.verdict}")
    mark = VERDICT_MARKS[row.verdict]
    return (
        f'<p class="hr-{row.verdict}" style="color:var(--tone);font-weight:600">{mark} {said}</p>'
        f"{why}"
    )


def _objectives_html(row: Row, objectives: Objectives) -> str:
    """How the objectives are met, and which of them isn't for sure; nothing where no speed could."""
    verdict = verdict_on(row, objectives)
    if verdict is None or row.speed is None or not row.starts:
        return ""
    which = [
        plain(f"compare.judged_{name}")
        for name, met in judged(row, objectives).items()
        if met is verdict
    ]
    said = h(f"compare.objectives_{verdict}", which=which)
    return f'<p class="{MET_TONES[verdict]} hr-tone">{MET_MARKS[verdict]} {said}</p>'


def _line(name: str, estimate: Estimate | None, kind: str) -> str:
    """A figure in one line with its range; nothing for one that there isn't."""
    if estimate is None:
        return ""
    span = html.escape(range_text(estimate, kind)) if name != "room" else ""
    spread = f'<br><span class="hr-badge">{span}</span>' if span else ""
    return (
        f'<div style="grid-template-columns:1fr auto"><span>{h(f"compare.column_{name}")}</span>'
        f'<span style="text-align:right"><span class="hr-num">{html.escape(shown(float(estimate.mid), kind))}</span>'
        f"{spread}</span></div>"
    )


# --- Prices ----------------------------------------------------------------------------------------------------------


def prices(rows: Sequence[Row], *, utilization: float) -> None:
    """What the prices are, and the offers behind those of the pinned accelerators with their sources."""
    dates = [date for row in rows if row.price for date in (row.price.oldest, row.price.newest)]
    if dates:
        draw(
            f'<p class="hr-about">'
            f"{h('compare.prices_about', oldest=min(dates), newest=max(dates), share=utilization)}</p>"
        )


def sources(rows: Sequence[Row]) -> None:
    """Every offer that counts for the pinned accelerators, each with its date and source."""
    offers = [(row, offer) for row in rows if row.price for offer in row.price.offers]
    unpriced = [row.accelerator.name for row in rows if not row.price]
    with st.expander(t("compare.sources", number=len(offers)), key="compare-sources"):
        if unpriced:
            draw(f'<p class="hr-about">{h("compare.unpriced", cards=unpriced)}</p>')
        if offers:
            head = [h(f"compare.offer_{name}") for name in OFFER_COLUMNS]
            draw(table_html(h("compare.offers_caption"), head, [_offer(*pair) for pair in offers]))


def _offer(row: Row, offer: Offer) -> tuple[str, ...]:
    source = html.escape(offer.source.title)
    if offer.source.url.startswith(("https://", "http://")):
        address = html.escape(offer.source.url)
        source = f'<a href="{address}" target="_blank" rel="noopener noreferrer">{source}</a>'
    return (
        html.escape(row.accelerator.name),
        shown(offer.usd_per_gpu_hour or 0.0, "usd"),
        html.escape(offer.provider_name),
        html.escape(offer.date),
        source,
        html.escape(offer.instance),
        shown(offer.gpus, "count"),
        html.escape(offer.region or "–"),
    )
