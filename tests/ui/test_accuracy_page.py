"""The accuracy page in both languages: the same figures as the report, what it says plainly, and where it starts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from plotly.graph_objects import Figure
from streamlit.testing.v1 import AppTest

from planner.accuracy_report import accuracy_json
from planner.measure.accuracy import TARGETS, Point, cause
from planner.ui.accuracy_data import (
    FEW,
    class_cards,
    engine_of,
    engines,
    errors_of,
    family_name,
    hovers,
    kind_of,
    points_of,
    quantities,
    record,
    selected,
    targets_of,
)
from planner.ui.charts.accuracy import COLOURS, scatter_chart
from planner.ui.charts.accuracy_families import FLOOR, families_chart
from planner.ui.locale import LANGUAGES, catalogue, text
from planner.ui.locale.numbers import format_value
from planner.ui.pages.accuracy import best_known, by_question, too_narrow, weakest
from tests.ui.driver import charts, clean, markup, open_app, words

H100 = {
    "v": "1",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "h100-sxm-80gb",
    "engine": "vllm",
}
FAMILIES = tuple(record().families)
MOST_LETTERS = 57  # of a family's name: a telephone's chart has no room for more on a line


def table(app: AppTest, title: str) -> list[list[str]]:
    """The cells of the table under a title, row by row, as text."""
    body = re.search(rf"<caption>{re.escape(title)}</caption>(.*?)</table>", markup(app), re.DOTALL)
    assert body, title
    rows = re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL)
    return [
        [re.sub(r"<[^>]+>", " ", cell).strip() for cell in re.findall(r"<td.*?>(.*?)</td>", row)]
        for row in rows[1:]
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_of_families_have_room_in_a_telephones_chart(language: str) -> None:
    assert max(len(family_name(family, language)) for family in FAMILIES) <= MOST_LETTERS


def widget(app: AppTest, kind: str, start: str) -> Any:
    return next(found for found in app.get(kind) if (found.key or "").startswith(start))


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return accuracy_json()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_shows_the_figures_of_the_report(language: str, report: dict[str, Any]) -> None:
    app = open_app("accuracy", locale=language)
    clean(app)
    shown = {row[0]: row for row in table(app, text("accuracy.families_title", language))}
    assert len(shown) == len(report["families"])
    for name, one in report["families"].items():
        row = shown[text(f"accuracy.family.{name}", language)]
        figures = (one["median_error_fraction"], one["p90_error_fraction"])
        assert row[1] == format_value(one["rows"], "count", language)
        assert row[2:4] == [format_value(value, "percent", language) for value in figures]
        bias = format_value(one["bias_fraction"], "percent", language)
        assert row[4].removeprefix("+") == bias
        assert row[5] == format_value(one["coverage_fraction"], "percent", language)
        held = one["held_out_coverage_fraction"]
        assert row[7] == ("–" if held is None else format_value(held, "percent", language))
        if target := one["target_fraction"]:
            missed = one["median_error_fraction"] > target[0]
            assert ("✕" if missed else "✓") in row[8]
        else:
            assert row[8:] == ["–", "–"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_shows_the_sizes_of_the_report(language: str, report: dict[str, Any]) -> None:
    app = open_app("accuracy", locale=language)
    shown = {row[0]: row for row in table(app, text("memory_accuracy.title", language))}
    assert len(shown) == len(report["memory"]["families"])
    for name, one in report["memory"]["families"].items():
        row = shown[text(f"memory_accuracy.family.{name}", language)]
        for place, key in ((1, "rows"), (2, "models")):
            assert row[place] == format_value(one[key], "count", language)
        for place, key in ((3, "median_error"), (4, "p90_error"), (6, "coverage")):
            assert row[place] == format_value(one[f"{key}_fraction"], "percent", language)
        held, target = one["held_out_median_error_fraction"], one["target_fraction"]
        assert row[7] == ("–" if held is None else format_value(held, "percent", language))
        if target is None:
            assert row[8] == "–"
        else:
            assert ("✕" if one["median_error_fraction"] > target else "✓") in row[8]


@pytest.mark.parametrize("part", ["speed", "memory"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_worst_rows_are_those_of_the_report(
    language: str, part: str, report: dict[str, Any]
) -> None:
    app = open_app("accuracy", locale=language)
    key = "accuracy" if part == "speed" else "memory_accuracy"
    rows = table(app, text(f"{key}.worst_title", language))
    worst = report["worst"] if part == "speed" else report["memory"]["worst"]
    assert len(rows) == len(worst) == (20 if part == "speed" else 10)
    for row, one in zip(rows, worst, strict=True):
        kind = kind_of(one["quantity"])
        assert one.get("model", "") in row[0]
        assert row[1:3] == [
            format_value(one[side], kind, language) for side in ("measured", "predicted")
        ]
        if part == "speed":
            assert text(f"accuracy.cause.{one['cause']}", language) in row[4]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_line_says_how_far_off_and_then_where_we_are_weak(language: str) -> None:
    app = open_app("accuracy", locale=language)
    top = markup(app).partition(family_name(best_known(record()) or "", language))[0]
    verdict = [markup(app)[top.rindex('<div class="hr-verdict') :].partition("</div></div>")[0]]
    assert verdict
    for one in (record().overall, record().overall_memory):
        for value, kind in (
            (one.rows, "count"),
            (one.median, "percent"),
            (one.coverage, "percent"),
        ):
            assert format_value(value, kind, language) in verdict[0]
    assert family_name(weakest(record())[0], language) in verdict[0]


def test_a_missed_target_makes_a_family_weak_and_so_does_a_large_error_without_one() -> None:
    families = record().families
    weak = weakest(record())
    for name, one in families.items():
        if one.rows < FEW:
            assert name not in weak
        elif targets_of(name):
            missed = any(got > target for _, got, target in targets_of(name))
            assert (name in weak) == missed
        else:
            assert (name in weak) == (one.median > 0.25)
    medians = [families[name].median for name in weak]
    assert medians == sorted(medians, reverse=True)
    assert all(families[name].coverage < 0.7 for name in too_narrow(record()))


def test_the_best_known_family_rests_on_many_figures() -> None:
    best = best_known(record())
    assert best is not None
    families = record().speed
    assert families[best].rows >= 40
    assert families[best].median == min(one.median for one in families.values() if one.rows >= 40)


def test_every_family_quantity_and_cause_has_a_name() -> None:
    for language in LANGUAGES:
        known = catalogue(language)
        for one in record().points:
            assert family_name(one.family, language)
            assert f"accuracy.quantity.{one.quantity}" in known
            assert not isinstance(one, Point) or f"accuracy.cause.{cause(one)}" in known
            assert kind_of(one.quantity) != "number"
        for one in record().speed.values():
            assert {f"accuracy.left_out.{fold}" for fold in one.held} <= known.keys()
        assert {f"accuracy.why.{name}" for name in TARGETS} <= known.keys()


# --- The scenario's own engine and card ------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_begins_with_the_scenarios_engine_and_card(language: str) -> None:
    app = open_app("accuracy", lang=language, **H100)
    assert widget(app, "selectbox", "accuracy-engine").value == "vllm"
    assert widget(app, "selectbox", "accuracy-class").value == "hopper"
    mine = selected("vllm", "hopper")
    rows = table(app, text("accuracy.yours_title", language))
    counts = [int(re.sub(r"\D", "", row[1])) for row in rows]
    assert sum(counts) == len(mine) > 100
    groups = by_question(mine)
    assert list(groups) == ["token", "first", "memory"]
    said = markup(app).replace("<b>", "").replace("</b>", "")
    for name, some in groups.items():
        one = errors_of(some)
        values = {"figures": one.rows, "median": one.median}
        line = text(f"accuracy.yours_{name}", language, **values).replace("**", "")
        assert line in said


@pytest.mark.parametrize(
    ("model", "family"),
    [("Qwen/Qwen3-8B", "serving.tpot.dense"), ("Qwen/Qwen3-30B-A3B", "serving.tpot.experts")],
)
def test_it_begins_with_the_family_of_the_scenarios_kind_of_model(model: str, family: str) -> None:
    app = open_app("accuracy", lang="en", **H100 | {"model": model})
    clean(app)
    assert widget(app, "selectbox", "accuracy-family").value == family


def test_where_only_rates_of_everyone_were_measured_those_are_said() -> None:
    rates = tuple(one for one in record().points if one.quantity == "output_tokens_per_s")
    assert list(by_question(rates)) == ["rate"]


def test_a_card_that_was_not_measured_with_the_engine_is_said_to_be_unknown() -> None:
    card, engine = "gaudi-2", "vllm"
    app = open_app(
        "accuracy", v="1", model="meta-llama/Llama-3.1-8B-Instruct", gpu=card, engine=engine
    )
    clean(app)
    assert widget(app, "selectbox", "accuracy-class").value == ""
    assert "carried over from other cards" in words(app)


def test_choosing_any_engine_and_any_card_takes_everything() -> None:
    app = open_app("accuracy", **H100)
    widget(app, "selectbox", "accuracy-engine").set_value("")
    widget(app, "selectbox", "accuracy-class").set_value("").run()
    clean(app)
    rows = table(app, text("accuracy.yours_title", "en"))
    assert len(rows) == len(record().families)


def test_a_scenario_without_an_answer_leaves_the_record_standing() -> None:
    for query in (
        {"v": "1", "gpu": "no-such-card"},
        {"v": "1", "model": "gpt2", "gpu": "apple-m2", "engine": "tensorrt-llm"},
    ):
        app = open_app("accuracy", **query)
        clean(app)
        assert table(app, text("accuracy.families_title", "en"))
        assert widget(app, "selectbox", "accuracy-engine").value == ""


# --- Charts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_scatter_holds_every_figure_of_a_family_once(family: str, colour: str) -> None:
    for quantity in quantities(family):
        found = points_of(family, quantity)
        chart = scatter_chart(family, quantity, colour, None)
        assert Figure(chart.figure).data  # plotly's own check, which the page leaves out
        drawn = [trace for trace in chart.figure["data"] if trace["mode"] == "markers"]
        places = {(x, y) for trace in drawn for x, y in zip(trace["x"], trace["y"], strict=True)}
        assert places == {(one.measured, one.mid) for one in found}
        assert sum(len(trace["x"]) for trace in drawn) == len(found)
        looks = [(trace["marker"]["symbol"], trace["marker"]["color"]) for trace in drawn]
        assert len({symbol for symbol, _ in looks}) == len({hue for _, hue in looks}) == len(looks)
        x, y = (chart.figure["layout"][name]["range"] for name in ("xaxis", "yaxis"))
        assert x == y
        assert len(list(chart.rows())) == len(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_half_of_the_points_lie_in_the_band(family: str) -> None:
    """The band is drawn from the median error: at the edge of the chart it may be cut off."""
    (quantity, *_) = quantities(family)
    found = points_of(family, quantity)
    band = scatter_chart(family, quantity, "engine", None).figure["data"][0]
    (x0, x1, *_), (y0, *_) = band["x"], band["y"]
    above = max(y0 / x0, band["y"][1] / x1)
    below = min(band["y"][3] / band["x"][3], band["y"][4] / band["x"][4])
    inside = sum(
        below * (1 - 1e-9) <= one.mid / one.measured <= above * (1 + 1e-9) for one in found
    )
    assert inside >= len(found) / 2 - 1


def test_points_of_other_engines_fade() -> None:
    mine = [one for one in selected("vllm", "") if one.family == "serving.tpot.dense"]
    chart = scatter_chart("serving.tpot.dense", "tpot_s", "engine", mine)
    drawn = [trace for trace in chart.figure["data"] if trace["mode"] == "markers"]
    full = sum(value > 0.5 for trace in drawn for value in trace["marker"]["opacity"])
    assert full == len(mine) < len(points_of("serving.tpot.dense", "tpot_s"))


@pytest.mark.parametrize("part", ["speed", "memory"])
def test_the_dots_are_the_errors_in_sample_and_held_out(part: str, report: dict[str, Any]) -> None:
    families = report["families"] if part == "speed" else report["memory"]["families"]
    chart = families_chart(list(families), next(iter(families)))
    assert Figure(chart.figure).data
    rows = {row[0]: row[1:] for row in chart.rows()}
    drawn = [
        x
        for trace in chart.figure["data"]
        if "color" in trace.get("marker", {})
        for x in trace["x"]
    ]
    low, high = (10**end for end in chart.figure["layout"]["xaxis"]["range"])
    assert all(low < x < high for x in drawn)
    for name, one in families.items():
        held = one["held_out_median_error_fraction"]
        if not isinstance(held, dict):
            held = {} if held is None else {"model": held}
        said = dict(zip(chart.head[1:], rows[family_name(name, "en")], strict=True))
        for fold, value in {"in_sample": one["median_error_fraction"], **held}.items():
            assert said[text(f"accuracy.left_out.{fold}", "en")] == format_value(
                value, "percent", "en"
            )
            assert max(value, FLOOR) in drawn
        assert sum(cell != "–" for cell in said.values()) == 1 + len(held)


def test_each_kind_of_family_has_a_finding() -> None:
    names = list(record().speed)
    findings = {families_chart(names, name).finding for name in names}
    assert len(findings) == len(names)
    assert any("nothing to leave out" in said for said in findings)
    memory = list(record().memory)
    assert "counted" in families_chart(memory, "llama-cpp.kv").finding
    assert "left out" in families_chart(memory, "vllm.pool.baseline").finding


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_point_says_its_run_its_figures_and_its_source(language: str) -> None:
    for said in hovers("serving.tpot.dense", "tpot_s", language):
        lines = said.split("<br>")
        assert len(lines) == 6
        assert " · " in lines[0]
        assert re.search(r"\d", lines[3])
        assert lines[5]


@pytest.mark.parametrize("language", LANGUAGES)
def test_charts_can_be_heard_and_their_numbers_opened(language: str) -> None:
    app = open_app("accuracy", locale=language, theme="dark")
    drawn = charts(app)
    assert len(drawn) == 2
    assert all(len(chart.alt) > 15 and "<" not in chart.alt for chart in drawn)
    tables = [box for box in app.expander if box.label == text("chart.table", language)]
    assert len(tables) == 2
    for chart in drawn:
        layout = json.loads(chart.spec)["layout"]
        assert layout["xaxis"]["title"]["text"]


def test_the_select_of_classes_names_cards_that_were_measured() -> None:
    for cards in class_cards().values():
        assert cards
    assert set(engines()) == {engine_of(one) for one in record().points}


def test_links_lead_to_public_addresses() -> None:
    found = re.findall(r'href="([^"]+)"', markup(open_app("accuracy")))
    assert len(found) > 20
    assert all(address.startswith("https://") for address in found)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_speed_page_leads_here(language: str) -> None:
    app = open_app("speed", locale=language)
    labels = [link.proto.label for link in app.get("page_link")]
    assert text("accuracy.link", language) in labels


def test_a_chosen_point_tells_its_source(browser_page: Page, app_url: str) -> None:
    browser_page.goto(f"{app_url}/accuracy")
    box = browser_page.locator('[class*="st-key-box-scatter"]')
    point = box.locator(".scatterlayer .points path").last
    expect(point).to_be_attached(timeout=60_000)
    assert box.locator(".hr-chosen").count() == 0
    point.scroll_into_view_if_needed()
    place = point.bounding_box()
    assert place is not None
    browser_page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    expect(box.locator(".hr-chosen a")).to_have_attribute(
        "href", re.compile("^https://"), timeout=15_000
    )
