"""Compare: the scenario on every accelerator, the best side by side, and what they cost against how fast they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import streamlit as st

from planner.catalog.own_calibration import parse_own_calibration
from planner.compare.export import comparison_csv
from planner.compare.filters import wanted_rows
from planner.compare.objectives import Met, Objectives, meets, verdict_on
from planner.compare.table import Comparison, Row, compare
from planner.evaluation import Evaluation
from planner.scenario import Scenario
from planner.ui import state
from planner.ui.charts.base import draw_chart
from planner.ui.charts.compare import MERITS, Merit, as_cheap, cheapest, cost_chart, cost_of
from planner.ui.compare_cards import prices, row_name, side_by_side, sources
from planner.ui.compare_filters import filters
from planner.ui.compare_grid import draw_table, pins
from planner.ui.compare_table import ordered, say_plain
from planner.ui.state import plain
from planner.ui.widgets import MET_MARKS, draw, h, notes_html, t

# Refusals that are counted under their own names.
OBSTACLES = frozenset(
    {
        "engine_not_on_accelerator",
        "no_engine_for_accelerator",
        "model_not_served",
        "format_unsupported",
        "kv_format_unsupported",
        "dtype_unsupported",
        "missing_figure",
    }
)
MEMORY_KEY = "compare_last"
EVERY_COLUMN_KEY = "compare-all-columns"
MANY = 5  # accelerators that the host limits, from which on it is said


def draw_page(evaluation: Evaluation) -> None:
    top = st.container()
    wanted = filters()
    objectives = wanted.objectives
    comparison = comparison_of(evaluation.scenario, objectives)
    everything = all_rows(comparison)
    rows = ordered(wanted_rows(everything, wanted))
    with top:
        headline(comparison, rows, objectives)
        if evaluation.scenario.calibration is not None:
            draw(notes_html([_own_words(evaluation)], "info"))
    pinned = pins(first_pins(comparison, rows))
    table(rows, pinned, len(everything), objectives)
    st.subheader(t("compare.pins_title"), anchor="side-by-side")
    # What the chips leave; the scenario's own card is always among them.
    current, by_id = comparison.current, {row.accelerator.id: row for row in rows}
    own = next(row for row in everything if row.accelerator.id == current.accelerator.id)
    # The scenario's own card stands there with its own number of GPUs.
    by_id[current.accelerator.id] = current
    chosen = [by_id[id_] for id_ in pinned if id_ in by_id]
    side_by_side(chosen, pinned, current, own.gpus if own.holds else None, objectives)
    hidden = [
        row.accelerator.name for row in everything if row.accelerator.id in {*pinned} - {*by_id}
    ]
    if hidden:
        draw(f'<p class="hr-about">{h("compare.pins_hidden", cards=hidden)}</p>')
    st.subheader(t("compare.chart_title"), anchor="cost")
    chart(comparison, rows, objectives)
    prices(everything, utilization=comparison.utilization)
    sources(chosen)


def _own_words(evaluation: Evaluation) -> str:
    """That a calibration of somebody's own counts for the card that it was measured on, as HTML."""
    own = parse_own_calibration(evaluation.scenario.calibration or {})
    return h("compare.own_calibration", name=own.name)


def comparison_of(scenario: Scenario, objectives: Objectives) -> Comparison:
    """The comparison, kept in the visitor's own session until the scenario or the objectives change.

    With objectives, each accelerator stands there with as many GPUs as meet them in the middle of the estimates.
    """
    asked = scenario, objectives
    last: tuple[object, Comparison] | None = st.session_state.get(MEMORY_KEY)
    if last is None or last[0] != asked:
        wanted = partial(meets, objectives=objectives) if objectives else None
        last = asked, compare(scenario, meets=wanted)
        st.session_state[MEMORY_KEY] = last
    return last[1]


def all_rows(comparison: Comparison) -> list[Row]:
    """The catalogue's accelerators, and the scenario's own where it is of another size than the listed one."""
    own = comparison.current
    listed = {row.accelerator.id for row in comparison.rows}
    return [*comparison.rows, *([] if own.accelerator.id in listed else [own])]


def headline(comparison: Comparison, rows: Sequence[Row], objectives: Objectives) -> None:
    """How many hold it, which of those wanted is cheapest and which fastest, and how sure it is of the objectives."""
    holding = [row for row in comparison.rows if row.holds]
    values = {"total": len(comparison.rows), "most": comparison.counts[-1], "holding": len(holding)}
    if not holding:
        sentence = h("compare.headline_none", **values)
    else:
        rented = [row for row in holding if row.can_rent]
        sentence = h("compare.headline", rented=len(rented), **values)
        best, fastest = cheapest(rows), merit_of(comparison).fastest(rows)
        listed = {row.accelerator.id for row in rows}
        if listed < {row.accelerator.id for row in all_rows(comparison)} and (best or fastest):
            sentence += " " + h("compare.headline_shown", shown=len(rows))
        if best is not None:
            cost, near = cost_of(best), as_cheap(best, rows)
            output = best.usd_per_million_output_tokens is not None
            sentence += " " + h(
                "compare.headline_cheapest" if output else "compare.headline_cheapest_input",
                card=row_name(best),
                cost=float(cost.mid) if cost else 0.0,
            )
            if near:
                sentence += " " + h("compare.headline_near", near=near)
        if fastest is not None:
            sentence += " " + _fastest(fastest)
        sentence += _sureness(rows, best, objectives) + _host_limits(rows)
    draw(
        '<div class="hr-verdict hr-plain" style="grid-template-columns:1fr">'
        f'<span class="hr-lead">{sentence}</span></div>'
    )


def merit_of(comparison: Comparison) -> Merit:
    """By what an accelerator is fast for one person: tokens, or the input where nothing is generated."""
    return MERITS["each" if _generates(comparison) else "ttft"]


def _generates(comparison: Comparison) -> bool:
    """Whether tokens come after the first; taken so where nothing has a speed."""
    speeds = [row.speed for row in (comparison.current, *comparison.rows) if row.speed]
    return not speeds or speeds[0].tpot_s is not None


def _fastest(row: Row) -> str:
    kind = "fastest" if cost_of(row) else "fastest_unpriced"
    if row.speed and row.speed.decode_tokens_per_s:
        rate = float(row.speed.decode_tokens_per_s.mid)
        return h(f"compare.headline_{kind}", card=row_name(row), rate=rate)
    first = float(row.speed.ttft_s.mid) if row.speed else 0.0
    return h("compare.headline_fastest_input", card=row_name(row), first=first)


def _sureness(rows: Sequence[Row], best: Row | None, objectives: Objectives) -> str:
    """How many meet the objectives whatever the range, and the cheapest of them where `best` may miss."""
    if not rows or not objectives:
        return ""
    sure = [row for row in rows if verdict_on(row, objectives) is Met.MEETS]
    said = " " + h("compare.headline_sure", sure=len(sure), shown=len(rows))
    cheap = cheapest(sure)
    if best is None or cheap is None or cheap is best or best in sure:
        return said
    cost = cost_of(cheap)
    return f"{said} " + h(
        "compare.headline_cheapest_sure",
        card=row_name(best),
        sure=row_name(cheap),
        cost=float(cost.mid) if cost else 0.0,
    )


def _host_limits(rows: Sequence[Row]) -> str:
    """Where many accelerators are about as fast because the host limits them, that it does."""
    timed = [row for row in rows if row.holds and row.speed]
    limited = sum(row.speed.bound_by == "host" for row in timed if row.speed)
    if limited < MANY:
        return ""
    return " " + h("compare.headline_host", number=limited, total=len(timed))


def first_pins(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    """What stands side by side before anyone has chosen: the current one, the cheapest and the fastest of `rows`."""
    best = comparison.current, cheapest(rows), merit_of(comparison).fastest(rows)
    return list(dict.fromkeys(row.accelerator.id for row in best if row))


def table(rows: Sequence[Row], pinned: Sequence[str], total: int, objectives: Objectives) -> None:
    """How many are shown, the table, why some don't hold the scenario, and all of it as a file."""
    key = "compare.count_objectives" if objectives else "compare.count"
    count = h(key, number=len(rows), total=total)
    if any(verdict_on(row, objectives) is Met.MAY_MISS for row in rows):
        count += " " + h("compare.may_miss_mark", mark=MET_MARKS[Met.MAY_MISS])
    more = f'<span class="hr-phone">{h("compare.narrow")}</span>' if rows else ""
    if rows and st.session_state.get(EVERY_COLUMN_KEY):
        more = h("compare.sideways")
    draw(f'<p class="hr-about">{count} {more}</p>')
    if not rows:
        draw(f'<p class="hr-about">{h("compare.nothing")}</p>')
        return
    every_column = st.toggle(
        t("compare.all_columns"),
        value=False,
        key=EVERY_COLUMN_KEY,
        help=t("compare.all_columns_help"),
        persist_state="session",
    )
    draw_table(rows, pinned, objectives, every_column=every_column)
    obstacles = Counter(obstacle_kind(row) for row in rows if row.obstacle)
    if obstacles:
        found = [h(f"compare.why_{kind}", number=n) for kind, n in obstacles.most_common()]
        draw(f'<p class="hr-about">{h("compare.why")} {" · ".join(found)}</p>')
    language = state.language()  # the file is written outside a run
    st.download_button(
        t("compare.csv"),
        data=lambda: comparison_csv(rows, lambda reason: say_plain(reason, language), objectives),
        file_name=f"headroom-{datetime.now(tz=UTC):%Y-%m-%d}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key="compare-csv",
    )


def obstacle_kind(row: Row) -> str:
    """Memory, or what the refusal is about, in so few words that it can be counted."""
    if row.error is None or row.obstacle is not row.error:
        return "memory"
    return row.error.code if row.error.code in OBSTACLES else "other"


def chart(comparison: Comparison, rows: Sequence[Row], objectives: Objectives) -> None:
    """Cost against a speed that the visitor chooses; that some points may miss the objectives is said."""
    generates = _generates(comparison)
    choices = list(MERITS) if generates else [name for name in MERITS if name != "each"]
    merit = st.segmented_control(
        t("compare.merit"),
        choices,
        format_func=lambda name: plain(f"compare.merit_{name}"),
        default=choices[0],
        required=True,
        key="compare-merit" if generates else "compare-merit-input",
        persist_state="session",
    )
    drawn = cost_chart(comparison, rows, MERITS[str(merit)])
    if drawn is None:
        draw(f'<p class="hr-about">{h("compare.chart_none")}</p>')
    else:
        draw_chart(
            replace(drawn, about=drawn.about + _may_miss(rows, MERITS[str(merit)], objectives))
        )


def _may_miss(rows: Sequence[Row], merit: Merit, objectives: Objectives) -> str:
    """How many of the circles may miss the objectives, as HTML; nothing where none may."""
    drawn = [row for row in rows if row.holds and merit.drawable(row)]
    number = sum(verdict_on(row, objectives) is Met.MAY_MISS for row in drawn)
    return " " + h("compare.chart_may_miss", number=number) if number else ""
