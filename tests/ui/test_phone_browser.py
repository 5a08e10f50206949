"""The pages on a telephone, in a real browser: no move sideways, folded tables whole, a way to the scenario."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from planner.measure.store import Store
from planner.ui.accuracy_data import family_name, record
from planner.ui.locale import LANGUAGES, catalogue
from planner.ui.pages import PAGES
from tests.running_app import running_app
from tests.ui.machine import measured
from tests.ui.test_browser import CHART, MEETINGS
from tests.ui.test_measure_browser import MEASURING, ROOT

PHONE = {"width": 390, "height": 844}
DRAWN = f"{CHART} .main-svg, .hr-device"
# Words of our own that end beyond the window, and aren't in a table that moves within itself.
BEYOND = """() => [...document.querySelectorAll('[data-testid=stMain] .hr *')]
  .filter(n => n.offsetParent && !n.closest('.hr-scroll:not(:has(> .hr-folds))'))
  .filter(n => n.getBoundingClientRect().right > innerWidth + 1)
  .map(n => n.textContent.trim().slice(0, 60))"""
# Cells of a folded table that are empty, cut off, or without the name of their column.
NOT_WHOLE = """table => {
  const heads = [...table.querySelectorAll('th')].map(n => n.textContent);
  const edge = table.getBoundingClientRect().right + 1;
  return [...table.querySelectorAll('tbody tr')].flatMap(row => [...row.children].filter((cell, at) => {
    const box = cell.getBoundingClientRect();
    const head = at ? getComputedStyle(cell, '::before').content : `"${heads[0]}"`;
    return !cell.textContent.trim() || box.width < 20 || box.height < 10 || box.right > edge
      || cell.scrollWidth > cell.clientWidth + 1 || head !== `"${heads[at]}"`;
  }).map(cell => row.children[0].textContent + ' / ' + cell.dataset.head));
}"""

ON_DOTS = """chart => {
  const dots = [...chart.querySelectorAll('.points path')].map(n => n.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return [...chart.querySelectorAll('.annotation-text')]
    .filter(n => dots.some(dot => meet(n.getBoundingClientRect(), dot))).map(n => n.textContent);
}"""


def on_a_phone(page: Page, url: str) -> Page:
    """The page at a telephone's width, when it is drawn."""
    page.set_viewport_size(PHONE)
    page.goto(url)
    expect(page.locator(DRAWN).first).to_be_attached(timeout=60_000)
    expect(page.locator('[data-testid="stSkeleton"]')).to_have_count(0, timeout=30_000)
    return page


def whole(tables: Locator) -> None:
    """Holds folded tables to showing every value, each under the name of its column."""
    for table in tables.all():
        assert table.locator("tbody tr").count() > 0
        assert table.evaluate(NOT_WHOLE) == []
        around = table.locator("..")
        assert around.evaluate("n => n.scrollWidth - n.clientWidth") <= 0


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", [entry.path for entry in PAGES])
def test_no_page_moves_sideways(browser_page: Page, app_url: str, path: str, language: str) -> None:
    first = path == PAGES[0].path
    page = on_a_phone(browser_page, f"{app_url}/{'' if first else path}?lang={language}")
    page.wait_for_timeout(500)
    main = page.locator('[data-testid="stMain"]')
    assert main.evaluate("n => n.scrollWidth - n.clientWidth") <= 0
    assert page.evaluate(BEYOND) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_folded_tables_of_the_record_are_whole(
    browser_page: Page, app_url: str, language: str
) -> None:
    page = on_a_phone(browser_page, f"{app_url}/accuracy?lang={language}")
    tables = page.locator(".hr-folds")
    expect(tables).to_have_count(4, timeout=30_000)
    whole(tables)
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(tables.first.locator("th").last).to_be_visible()


@pytest.mark.parametrize("language", LANGUAGES)
def test_folded_tables_of_a_measurement_are_whole(
    browser_page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setenv("MEASURING_APP_FOLDER", str(tmp_path))
    Store(tmp_path / "home").save(measured())
    with running_app(MEASURING, ROOT, tmp_path) as url:
        page = on_a_phone(browser_page, f"{url}/measure?lang={language}")
        every_run = page.locator("summary", has_text=catalogue(language)["measure.rows_title"])
        every_run.click(timeout=30_000)
        tables = page.locator(".hr-folds:visible")
        expect(tables.first).to_be_visible(timeout=30_000)
        whole(tables)
        assert page.evaluate(BEYOND) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_way_to_the_scenario_and_back_has_a_name(
    browser_page: Page, app_url: str, language: str
) -> None:
    known = catalogue(language)
    page = on_a_phone(browser_page, f"{app_url}/?lang={language}")
    way_in = page.get_by_test_id("stExpandSidebarButton")
    said = "n => getComputedStyle(n, '::after').content"
    assert way_in.evaluate(said) == f'"{known["frame.open_sidebar"]}"'
    page.get_by_test_id("stMain").evaluate("n => n.scrollTo(0, 1500)")
    expect(way_in).to_be_in_viewport()
    way_in.click()
    scenario = page.locator(".st-key-group-model")
    expect(scenario).to_be_in_viewport(timeout=10_000)
    way_out = page.get_by_test_id("stSidebarCollapseButton").locator("button")
    assert way_out.evaluate(said) == f'"{known["frame.close_sidebar"]}"'
    way_out.click()
    expect(scenario).not_to_be_in_viewport(timeout=10_000)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("part", ["speed", "memory"])
def test_names_of_families_stand_whole_between_the_dots(
    browser_page: Page, app_url: str, width: int, language: str, part: str
) -> None:
    browser_page.set_viewport_size({"width": width, "height": 3000})
    browser_page.goto(f"{app_url}/accuracy?lang={language}")
    chart = browser_page.locator(f".st-key-box-families {CHART}")
    expect(chart.locator(".annotation-text").first).to_be_attached(timeout=60_000)
    names = [family_name(name, language) for name in getattr(record(), part)]
    choice = browser_page.locator('[class*="st-key-accuracy-family"] input')
    choice.fill(names[0])
    choice.press("Enter")
    words = chart.locator(".annotation-text")
    expect(words.first).to_have_text(names[0], timeout=15_000)
    browser_page.wait_for_timeout(500)
    assert words.all_text_contents() == names
    assert chart.evaluate(MEETINGS) == []
    assert chart.evaluate(ON_DOTS) == []
