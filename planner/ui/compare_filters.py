"""The chips over the comparison: which accelerators are wanted."""

from __future__ import annotations

import streamlit as st

from planner.catalog.search import read_index
from planner.compare.filters import Wanted
from planner.compare.objectives import ANYTHING, Objectives
from planner.ui import state
from planner.ui.state import plain
from planner.ui.widgets import shown, t

SHOW_ONLY = ("can_rent", "holds", "objectives")
TTFT_STOPS_S = (0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 30.0, 60.0)
RATE_STOPS = (2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0)
DEFAULT_TTFT_S, DEFAULT_RATE = 2.0, 10.0
PRICE_STOPS_USD = (1.0, 3.0, 10.0, 30.0)


def filters() -> Wanted:
    """Draws the chips; what they say stays when the visitor looks at another page."""
    with st.container(horizontal=True, gap="medium", key="compare-chips"):
        chosen = st.pills(
            t("compare.show_only"),
            SHOW_ONLY,
            selection_mode="multi",
            format_func=lambda name: plain(f"compare.only_{name}"),
            key="compare-only",
            persist_state="session",
        )
        price = st.pills(
            t("compare.price_filter"),
            PRICE_STOPS_USD,
            format_func=lambda usd: plain("compare.price_up_to", usd=usd),
            key="compare-price",
            persist_state="session",
        )
    objectives = _objectives() if "objectives" in chosen else ANYTHING
    with st.expander(t("compare.kinds"), type="compact", key="compare-kinds"):
        classes = st.pills(
            t("compare.class_filter"),
            _classes(),
            selection_mode="multi",
            format_func=lambda name: plain(f"compare.class_{name}"),
            key="compare-class",
            persist_state="session",
        )
        vendors = st.pills(
            t("compare.vendor_filter"),
            _vendors(),
            selection_mode="multi",
            key="compare-vendor",
            persist_state="session",
        )
    return Wanted(
        can_rent="can_rent" in chosen,
        holds="holds" in chosen,
        objectives=objectives,
        vendors=frozenset(vendors),
        classes=frozenset(classes),
        max_usd_per_hour=price,
    )


def _objectives() -> Objectives:
    """How soon the first token must come, and how fast the others."""
    left, right = st.columns(2, gap="large")
    with left:
        ttft_s = st.select_slider(
            t("compare.objective_ttft"),
            TTFT_STOPS_S,
            format_func=lambda seconds: shown(seconds, "time"),
            key=state.keeping("compare-ttft", DEFAULT_TTFT_S),
            persist_state="session",
        )
    with right:
        rate = st.select_slider(
            t("compare.objective_rate"),
            RATE_STOPS,
            format_func=lambda each: shown(each, "rate"),
            key=state.keeping("compare-rate", DEFAULT_RATE),
            persist_state="session",
        )
    return Objectives(ttft_s, rate)


def _classes() -> list[str]:
    order = ("datacenter", "cloud", "workstation", "consumer", "unified", "edge")
    return sorted({entry.fields["class"] for entry in read_index("accelerator")}, key=order.index)


def _vendors() -> list[str]:
    """Makers, the one with most accelerators first."""
    makers = [entry.fields["vendor"] for entry in read_index("accelerator")]
    return sorted(set(makers), key=lambda maker: (-makers.count(maker), maker))
