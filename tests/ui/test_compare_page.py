"""The Compare page in both languages: what it lists, what chips leave, what stands side by side, and what it costs."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from planner import Scenario
from planner.catalog.accelerators import accelerator_ids
from planner.compare.differences import ASPECTS
from planner.compare.objectives import Met, Objectives, judged, meets, verdict_on
from planner.compare.table import Row, compare
from planner.ui.charts.compare import MERITS, cheapest, cost_chart, cost_of
from planner.ui.compare_table import COLUMNS, Cell, columns_for, frame_of, ordered, said_once
from planner.ui.locale import LANGUAGES, catalogue, text
from planner.ui.pages.compare import first_pins, merit_of
from tests.ui.driver import charts, clean, go, markup, open_app, words

LLAMA = {
    "v": "1",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "l4",
    "concurrency": "8",
}
EMBEDDING = {
    "v": "1",
    "model": "Snowflake/snowflake-arctic-embed-m",
    "gpu": "t4",
    "input_tokens": "400",
    "output_tokens": "1",
}
TOO_LARGE = {
    "v": "1",
    "model": "deepseek-ai/DeepSeek-V3",
    "gpu": "t4",
    "input_tokens": "32768",
    "concurrency": "4000",
}


def table(app: AppTest) -> pd.DataFrame:
    """The table as the page gives it to the browser for a wide page."""
    return app.dataframe[0].value


def shown(app: AppTest) -> list[str]:
    """Names of the columns that a wide page shows, in order."""
    return list(app.dataframe[0].proto.column_order)


def titles(app: AppTest) -> list[str]:
    """What stands side by side, in order."""
    return [name.strip() for name in re.findall(r'class="hr-card-title">([^<]+)', markup(app))]


def rows_of(values: dict[str, str]) -> tuple[Row, ...]:
    return compare(Scenario.parse({k: v for k, v in values.items() if k != "v"})).rows


# --- The table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("query", [LLAMA, EMBEDDING, TOO_LARGE], ids=["chat", "embedding", "large"])
def test_the_page_answers_in_both_languages(language: str, query: dict[str, str]) -> None:
    app = open_app("compare", lang=language, **query)
    clean(app)
    assert len(table(app)) == len(accelerator_ids())
    said = words(app)
    for key in ("compare.pins_title", "compare.chart_title"):
        assert catalogue(language)[key] in said
    assert not re.search(r"\bNone\b(?! of)|\bnan\b", said)
    assert "{" not in said


def test_the_best_come_first_and_what_fails_last() -> None:
    rows = ordered(rows_of(LLAMA | {"model": "meta-llama/Llama-3.1-70B-Instruct"}))
    kinds = [(row.holds, row.usd_per_million_tokens is not None) for row in rows]
    assert kinds == sorted(kinds, reverse=True)
    costs = [
        row.usd_per_million_tokens.mid for row in rows if row.holds and row.usd_per_million_tokens
    ]
    assert costs == sorted(costs)
    assert kinds[0] == (True, True)
    assert kinds[-1][0] is False


def test_cells_sort_as_numbers_and_read_as_text() -> None:
    rows = ordered(rows_of(LLAMA))
    english, spanish = frame_of(rows, "en"), frame_of(rows, "es")
    row = rows[0]
    assert row.speed is not None
    cell, other = english["ttft"][0], spanish["ttft"][0]
    assert isinstance(cell, Cell)
    assert cell == other == row.speed.ttft_s.mid
    assert re.fullmatch(r"[\d.,]+ m?s \([\d.,]+ (m?s )?– [\d.,]+ m?s\)", cell.text)
    rate, rate_es = english["each"][0].text, spanish["each"][0].text
    assert re.search(r"\d\.\d", rate)
    assert rate_es == rate.replace(",", "·").replace(".", ",").replace("·", ".")
    assert english["why_not"].tolist().count("") == sum(row.obstacle is None for row in rows)


def test_what_has_no_price_sorts_behind_the_prices() -> None:
    prices = frame_of(ordered(rows_of(LLAMA)), "en")["hour_price"]
    assert next(cell.text for cell in prices if math.isinf(cell)) == "–"
    assert prices.map(math.isinf).sum() == sum(row.usd_per_hour is None for row in rows_of(LLAMA))


def test_all_columns_are_shown_when_asked_for() -> None:
    app = open_app("compare", lang="en", **LLAMA)
    first = shown(app)
    assert first == ["accelerator", "verdict", "gpus", "each", "output_price", "ttft"]
    app.toggle(key="compare-all-columns").set_value(True).run()
    clean(app)
    assert shown(app) == list(table(app))
    assert shown(app)[: len(first)] == first


def test_a_column_without_content_is_left_out() -> None:
    assert "each" not in frame_of(rows_of(EMBEDDING), "en")
    assert "output_price" not in frame_of(rows_of(EMBEDDING), "en")
    holding = [row for row in rows_of(LLAMA) if row.obstacle is None]
    assert "why_not" not in frame_of(holding, "en")
    assert set(frame_of(rows_of(LLAMA), "en")) == {column.name for column in COLUMNS}


def test_what_all_rows_have_in_common_is_said_once() -> None:
    app = open_app("compare", lang="en", **LLAMA | {"engine": "vllm"})
    app.pills(key="compare-vendor").set_value(["NVIDIA"]).run()
    app.pills(key="compare-only").set_value(["holds", "can_rent"]).run()
    clean(app)
    assert set(table(app)["vendor"]) == {"NVIDIA"}
    said = re.sub(r"\s+", " ", words(app))
    for words_once in ("Engine: vLLM", "For rent: yes", "Maker: NVIDIA"):
        assert words_once in said
    app.toggle(key="compare-all-columns").set_value(True).run()
    assert not {"engine", "rent", "vendor"} & {*shown(app)}
    assert "ttft" in shown(app)


def test_a_reason_that_holds_for_all_is_said_once() -> None:
    too_long = {"model": "meta-llama/Llama-3.1-405B", "gpu": "t4", "input_tokens": "150000"}
    app = open_app("compare", lang="en", v="1", **too_long)
    once = re.sub(r"\s+", " ", words(app)).partition("In every row: ")[2]
    assert once.startswith("Verdict: ✕ Does not fit · GPUs: 1 · Why not: 150,256 tokens")
    assert not {"verdict", "gpus", "why_not"} & {*shown(app)}


def test_a_single_row_keeps_its_columns() -> None:
    row = rows_of(LLAMA)[0]
    assert said_once(frame_of([row], "en")) == {}
    assert len(said_once(frame_of([row, row], "en"))) == len(frame_of([row], "en").columns)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_telephone_gets_who_whether_how_fast_and_what_it_costs(language: str) -> None:
    model = {"model": "meta-llama/Llama-3.1-70B-Instruct"}
    app = open_app("compare", lang=language, **LLAMA | model)
    wide, narrow = app.dataframe
    assert list(narrow.proto.column_order)[:4] == ["accelerator", "verdict", "each", "output_price"]
    rows = ordered(rows_of(LLAMA | model))
    assert len({row.gpus for row in rows}) > 1
    # Without a column of numbers of GPUs, the name says it.
    assert narrow.value["accelerator"][0] == f"{rows[0].gpus} × {rows[0].accelerator.name}"
    assert wide.value["accelerator"][0] == rows[0].accelerator.name


def test_where_nothing_holds_it_why_not_comes_before_the_figures() -> None:
    app = open_app("compare", lang="en", **TOO_LARGE)
    columns = list(table(app))
    assert columns.index("why_not") == 3
    assert shown(app)[:4] == ["accelerator", "verdict", "gpus", "why_not"]
    assert list(app.dataframe[1].proto.column_order) == ["accelerator", "why_not"]
    assert columns.index("why_not") < columns.index("hour_price")
    assert f"“{catalogue('en')['compare.column_why_not']}” says why" in words(app)
    said = markup(app).replace("<b>", "").replace("</b>", "")
    assert f"None of {len(accelerator_ids())} accelerators" in said
    assert not charts(app)
    assert catalogue("en")["compare.chart_none"] in words(app)


def test_what_is_missing_is_counted_by_its_kind() -> None:
    app = open_app("compare", lang="en", **LLAMA | {"weights": "fp8", "engine": "vllm"})
    rows = rows_of(LLAMA | {"weights": "fp8", "engine": "vllm"})
    refused = [row for row in rows if row.error and row.error.code == "engine_not_on_accelerator"]
    assert len(refused) > 5
    assert f"{len(refused)} because the engine doesn't run there" in re.sub(r"\s+", " ", words(app))


# --- Chips -----------------------------------------------------------------------------------------------------------


def test_chips_leave_what_they_say() -> None:
    app = open_app("compare", lang="en", **LLAMA | {"model": "meta-llama/Llama-3.1-70B-Instruct"})
    app.pills(key="compare-only").set_value(["can_rent", "holds"]).run()
    rented = table(app)
    assert set(rented["rent"]) == {"yes"}
    assert not any(verdict.startswith("✕") for verdict in rented["verdict"])
    app.pills(key="compare-price").set_value(10.0).run()
    cheap = table(app)
    assert 0 < len(cheap) < len(rented)
    assert cheap["hour_price"].max() <= 10.0
    app.pills(key="compare-vendor").set_value(["AMD"]).run()
    assert set(table(app)["vendor"]) == {"AMD"}
    app.pills(key="compare-class").set_value(["edge"]).run()
    clean(app)
    assert not app.dataframe
    assert catalogue("en")["compare.nothing"] in words(app)


def test_objectives_are_sliders_that_come_with_their_chip() -> None:
    app = open_app("compare", lang="en", **LLAMA)
    keys = {slider.key for slider in app.select_slider}
    assert not keys & {"compare-ttft", "compare-rate"}
    app.pills(key="compare-only").set_value(["objectives"]).run()
    app.select_slider(key="compare-ttft").set_value(0.5).run()
    app.select_slider(key="compare-rate").set_value(30.0).run()
    kept = table(app)
    assert 0 < len(kept) < len(accelerator_ids())
    assert kept["ttft"].max() <= 0.5
    assert kept["each"].min() >= 30.0


@pytest.mark.parametrize("language", LANGUAGES)
def test_that_an_objective_may_be_missed_is_said_wherever_it_counts(language: str) -> None:
    assert "objectives" not in table(open_app("compare", lang=language, **LLAMA))
    app = open_app("fit", lang=language, **LLAMA)
    # Before the page is there: outside a run, labels of options are English ones.
    for key, value in (("only", ["objectives"]), ("ttft", 0.5), ("rate", 30.0)):
        app.session_state[f"compare-{key}"] = value
    go(app, "compare")
    clean(app)
    asked = Objectives(0.5, 30.0)
    scenario = Scenario.parse({k: v for k, v in LLAMA.items() if k != "v"})
    comparison = compare(scenario, meets=lambda row: meets(row, asked))
    kept = [row for row in comparison.rows if meets(row, asked)]
    verdicts = {row.accelerator.name: verdict_on(row, asked) for row in kept}
    assert set(verdicts.values()) == {Met.MEETS, Met.MAY_MISS}
    known = catalogue(language)
    said = re.sub(r"\s+", " ", words(app))
    assert {
        name: cell[2:] for name, cell in table(app).set_index("accelerator")["objectives"].items()
    } == {name: known[f"compare.met_{verdict}"] for name, verdict in verdicts.items()}
    # The figures that make it so carry the mark, and none loses its place.
    assert {"each", "output_price", "ttft"} < set(shown(app))
    frame = frame_of(kept, language, columns_for(asked))
    for index, row in enumerate(kept):
        for column, met in judged(row, asked).items():
            assert frame[column][index].text.startswith("? ") is (met is Met.MAY_MISS)
    assert known["compare.may_miss_mark"].format(mark="?") in said
    sure = [row for row in kept if verdict_on(row, asked) is Met.MEETS]
    assert re.search(
        rf"\b{len(kept)}\b[^.]*\b{len(sure)}\b", said.partition(known["compare.show_only"])[0]
    )
    # The own card stands there although it misses, and says so.
    assert not meets(comparison.current, asked)
    assert known["compare.objectives_misses"].partition("{")[0] in said
    best, surest = cheapest(kept), cheapest(sure)
    assert best is not surest
    assert surest is not None
    assert f"<b>{surest.gpus} × {surest.accelerator.name}</b>" in markup(app)


def test_chips_stay_when_the_visitor_comes_back() -> None:
    app = open_app("compare", lang="en", **LLAMA)
    app.pills(key="compare-only").set_value(["can_rent"]).run()
    count = len(table(app))
    go(go(app, "speed"), "compare")
    assert len(table(app)) == count < len(accelerator_ids())


# --- Side by side ----------------------------------------------------------------------------------------------------


def test_the_scenario_the_cheapest_and_the_fastest_stand_there_first() -> None:
    comparison = compare(Scenario.parse({k: v for k, v in LLAMA.items() if k != "v"}))
    pins = first_pins(comparison, comparison.rows)
    assert pins[0] == "l4"
    priced = [row for row in comparison.rows if row.holds and row.usd_per_million_output_tokens]
    best, fastest = cheapest(comparison.rows), merit_of(comparison).fastest(comparison.rows)
    assert best is not None
    assert fastest is not None
    assert best.usd_per_million_output_tokens is not None
    assert all(
        row.usd_per_million_output_tokens.mid >= best.usd_per_million_output_tokens.mid
        for row in priced
        if row.usd_per_million_output_tokens
    )
    assert set(pins) == {"l4", best.accelerator.id, fastest.accelerator.id}
    app = open_app("compare", lang="en", **LLAMA)
    # Those whose middle the cheapest one's range holds may be cheaper, and are counted.
    within = best.usd_per_million_output_tokens.high
    near = sum(cost_of(row).mid <= within for row in priced) - 1
    assert near > 1
    assert text("compare.headline_near", "en", near=near) in words(app)
    by_id = {row.accelerator.id: row.accelerator.name for row in comparison.rows}
    assert [title.partition("× ")[2] for title in titles(app)] == [by_id[id_] for id_ in pins]


def test_side_by_side_follows_the_chips() -> None:
    app = open_app("compare", lang="en", **LLAMA)
    app.pills(key="compare-vendor").set_value(["AMD"]).run()
    clean(app)
    names = set(table(app)["accelerator"])
    own, *others = (title.partition("× ")[2] for title in titles(app))
    assert own == "L4"
    assert others
    assert set(others) <= names


def test_taking_one_away_and_taking_one_over() -> None:
    app = open_app("compare", lang="en", **LLAMA)
    second = next(button for button in app.button if (button.key or "").startswith("compare-use-"))
    id_ = second.key.removeprefix("compare-use-")
    before = titles(app)
    app.button(key="compare-unpin-l4").click().run()
    assert titles(app) == before[1:]
    app.button(key=f"compare-use-{id_}").click().run()
    clean(app)
    assert app.session_state["values"]["gpu"] == id_
    assert app.session_state["values"]["gpus"] == 1
    app.button(key="undo-button").click().run()
    assert app.session_state["values"]["gpu"] == "l4"


def test_chips_hide_a_pin_and_taking_another_away_keeps_it() -> None:
    app = open_app("compare", lang="en", **LLAMA)
    app.session_state["compare_pins"] = ["l4", "h100-sxm-80gb", "mi300x-192gb"]
    app.run()
    before = titles(app)
    assert len(before) == 3
    app.pills(key="compare-vendor").set_value(["AMD"]).run()
    assert titles(app) == [before[0], before[2]]
    hidden = before[1].partition("× ")[2]
    assert f"Also pinned, and hidden by the chips: {hidden}." in words(app)
    app.button(key="compare-unpin-mi300x-192gb").click().run()
    app.pills(key="compare-vendor").set_value([]).run()
    clean(app)
    assert titles(app) == before[:2]
    assert "hidden by the chips" not in words(app)


def test_the_own_card_stands_there_with_its_own_number() -> None:
    app = open_app("compare", lang="en", **LLAMA | {"gpu": "h100-sxm-80gb", "gpus": "4"})
    assert titles(app)[0] == "4 × H100 SXM5 80GB"
    assert "1 of them would hold it too." in words(app)
    own = table(app).set_index("accelerator").loc["H100 SXM5 80GB"]
    assert own["gpus"] == 1


def test_a_size_that_the_catalogue_lists_under_another_is_there_too() -> None:
    app = open_app("compare", lang="en", **LLAMA | {"gpu": "apple-m4-max-40c@64"})
    clean(app)
    assert len(table(app)) == len(accelerator_ids()) + 1
    assert "M4 Max" in titles(app)[0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_difference_has_its_sentence(language: str) -> None:
    known = catalogue(language)
    for aspect in ASPECTS:
        for word in ("more", "less", "same"):
            sentence = known[f"note.difference_{aspect.code}_{word}"]
            assert ("{times:number}" in sentence) is (word != "same")


def test_differences_are_said_in_the_visitor_s_language() -> None:
    said = {language: words(open_app("compare", lang=language, **LLAMA)) for language in LANGUAGES}
    assert re.search(r"\d\s?×\s+(sooner|later|the price|cheaper|as many|slower)", said["en"])
    assert re.search(r"\d veces (más|menos)", said["es"])


# --- The chart, prices, the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("merit", MERITS)
def test_the_chart_marks_the_front_and_the_scenario_without_colour(merit: str) -> None:
    app = open_app("compare", lang="en", **LLAMA)
    app.segmented_control(key="compare-merit").set_value(merit).run()
    clean(app)
    figure = json.loads(charts(app)[0].spec)
    symbols = [trace.get("marker", {}).get("symbol", "circle") for trace in figure["data"]]
    assert symbols == ["circle-open", "circle", "circle", "diamond"]
    named = [text for text in figure["data"][2]["text"] if text]
    assert named
    assert figure["data"][3]["text"] == ["this scenario"]
    assert charts(app)[0].alt


def test_the_front_in_the_chart_is_the_best_of_what_is_drawn() -> None:
    rows = [row for row in rows_of(LLAMA) if row.holds and MERITS["each"].drawable(row)]
    points = [MERITS["each"].point(row) for row in rows]
    assert len(points) > 20
    app = open_app("compare", lang="en", **LLAMA)
    lowest = min(rows, key=lambda row: cost_of(row).mid)  # type: ignore[union-attr]
    most = max(float(f"{MERITS['each'].point(row)[1]:.2g}") for row in rows)
    as_fast = [row for row in rows if float(f"{MERITS['each'].point(row)[1]:.2g}") == most]
    fastest = min(as_fast, key=lambda row: cost_of(row).mid)  # type: ignore[union-attr]
    finding = markup(app)
    assert lowest.accelerator.name in finding
    # In the lines at the top and in the chart's title: one rule names both.
    name = f"{fastest.gpus} × {fastest.accelerator.name}"
    assert finding.count(f"<b>{name}</b>") >= 2


def test_a_scenario_that_does_not_fit_is_a_hollow_diamond() -> None:
    scenario = Scenario(model="meta-llama/Llama-3.1-8B-Instruct", gpu="l4", concurrency=900)
    comparison = compare(scenario)
    assert not comparison.current.holds
    drawn = cost_chart(comparison, comparison.rows, MERITS["each"])
    assert drawn is not None
    assert drawn.figure["data"][-1]["marker"]["symbol"] == "diamond-open"
    assert "hollow diamond" in drawn.about


def test_that_the_host_limits_many_is_said() -> None:
    small = LLAMA | {"model": "Qwen/Qwen2.5-0.5B-Instruct", "concurrency": "1"}
    rows = [row for row in rows_of(small) if row.holds and row.speed]
    limited = sum(row.speed.bound_by == "host" for row in rows if row.speed)
    assert limited > 5
    said = re.sub(r"\s+", " ", words(open_app("compare", lang="en", **small)))
    assert f"On {limited} of the {len(rows)} shown that hold it, the host" in said


def test_room_is_no_more_than_the_engine_serves() -> None:
    scenario = Scenario(
        model="meta-llama/Llama-3.1-8B-Instruct",
        gpu="h100",
        engine="llama.cpp",
        weights="gguf:Q4_K_M",
        max_num_seqs=4,
    )
    held = [row for row in compare(scenario).rows if row.max_concurrency]
    capped = [row for row in held if row.max_concurrency and row.max_concurrency.mid > 4]
    assert capped
    assert all(row.room is not None and row.room.mid == 4 for row in capped)


def test_an_embedding_model_is_compared_by_what_it_has() -> None:
    app = open_app("compare", lang="en", **EMBEDDING)
    control = app.segmented_control(key="compare-merit-input")
    assert len(control.options) == len(MERITS) - 1
    assert "per million of input" in words(app)


@pytest.mark.parametrize("language", LANGUAGES)
def test_prices_have_dates_and_sources(language: str) -> None:
    app = open_app("compare", lang=language, **LLAMA)
    page = markup(app)
    assert re.search(r"20\d\d(-\d\d){0,2}", page)
    offers = re.findall(
        r'<a href="(https?://[^"]+)" target="_blank" rel="noopener noreferrer">', page
    )
    assert offers
    assert catalogue(language)["compare.offer_source"] in page


def test_the_file_is_offered_in_the_visitor_s_language() -> None:
    app = open_app("compare", lang="es", **LLAMA)
    (button,) = app.get("download_button")
    assert button.proto.label == catalogue("es")["compare.csv"]


def test_a_visitor_s_comparison_is_not_another_s() -> None:
    first, second = (
        open_app("compare", lang="en", **LLAMA),
        open_app("compare", lang="en", **EMBEDDING),
    )
    first.pills(key="compare-only").set_value(["holds"]).run()
    first.button(key="compare-unpin-l4").click().run()
    second.run()
    assert second.pills(key="compare-only").value == []
    assert titles(second)[0].endswith("Tesla T4")
    kept: Any = second.session_state["compare_last"]
    (scenario, _), _ = kept
    assert scenario.model == EMBEDDING["model"]
