"""The Compare page in a real browser: its table's ticks and its width."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from planner.ui.compare_grid import NARROW_ROW
from planner.ui.compare_table import ordered
from planner.ui.locale import LANGUAGES, catalogue
from tests.ui.test_compare_page import EMBEDDING, LLAMA, TOO_LARGE, rows_of

HEAD = 35  # pixels of a table's head, and of a row on a wide screen
BEYOND = "n => n.scrollWidth - n.clientWidth"


@pytest.mark.parametrize(
    ("width", "name", "row"),
    [(1280, "wide", HEAD), (390, "narrow", NARROW_ROW)],
    ids=["desk", "telephone"],
)
def test_a_ticked_row_stands_side_by_side(
    app_url: str, browser_page: Page, width: int, name: str, row: int
) -> None:
    browser_page.set_viewport_size({"width": width, "height": 3600})
    query = "&".join(f"{name}={value}" for name, value in LLAMA.items())
    browser_page.goto(f"{app_url}/compare?{query}&lang=en")
    grid = browser_page.locator(f'.st-key-compare-{name} [data-testid="stDataFrame"]')
    expect(grid).to_be_visible(timeout=30_000)
    cards = browser_page.locator(".hr-card-title")
    expect(cards.first).to_be_visible(timeout=30_000)
    before = cards.count()
    box = grid.bounding_box()
    assert box is not None
    rows = ordered(rows_of(LLAMA))
    names = " ".join(cards.all_inner_texts())
    unticked = next(n for n in range(5) if rows[n].accelerator.name not in names)
    # The tick is at the left of a row, in its middle.
    browser_page.mouse.click(box["x"] + 18, box["y"] + HEAD + row * (unticked + 0.5))
    expect(cards).to_have_count(before + 1, timeout=15_000)
    expect(cards.last).to_contain_text(rows[unticked].accelerator.name)
    browser_page.get_by_text("Take away").last.click()
    expect(cards).to_have_count(before, timeout=15_000)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("query", [LLAMA, EMBEDDING, TOO_LARGE], ids=["chat", "embedding", "large"])
def test_the_table_fits_a_page_of_1280_until_all_columns_are_asked_for(
    app_url: str, browser_page: Page, query: dict[str, str], language: str
) -> None:
    browser_page.set_viewport_size({"width": 1280, "height": 2600})
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    browser_page.goto(f"{app_url}/compare?{asked}&lang={language}")
    grid = browser_page.locator(".st-key-compare-wide .dvn-scroller")
    expect(grid).to_be_visible(timeout=30_000)
    assert grid.evaluate(BEYOND) <= 0
    label = catalogue(language)["compare.all_columns"]
    expect(browser_page.locator(".st-key-compare-narrow .dvn-scroller")).to_be_hidden()
    browser_page.locator('[data-testid="stCheckbox"]').filter(has_text=label).click()
    browser_page.wait_for_function(
        "() => { const n = document.querySelector('.dvn-scroller'); return n.scrollWidth > n.clientWidth + 200 }",
        timeout=15_000,
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("query", [LLAMA, EMBEDDING, TOO_LARGE], ids=["chat", "embedding", "large"])
@pytest.mark.parametrize("width", [360, 390])
def test_a_telephone_shows_speed_and_cost_without_a_move_sideways(
    app_url: str, browser_page: Page, query: dict[str, str], language: str, width: int
) -> None:
    browser_page.set_viewport_size({"width": width, "height": 2600})
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    browser_page.goto(f"{app_url}/compare?{asked}&lang={language}")
    grid = browser_page.locator(".st-key-compare-narrow .dvn-scroller")
    expect(grid).to_be_visible(timeout=30_000)
    expect(browser_page.locator(".st-key-compare-wide .dvn-scroller")).to_be_hidden()
    assert grid.evaluate(BEYOND) <= 0


def test_all_columns_are_there_for_a_telephone_too(app_url: str, browser_page: Page) -> None:
    browser_page.set_viewport_size({"width": 390, "height": 2600})
    browser_page.goto(f"{app_url}/compare?lang=en")
    wide = browser_page.locator(".st-key-compare-wide .dvn-scroller")
    expect(wide).to_be_hidden(timeout=30_000)
    label = catalogue("en")["compare.all_columns"]
    browser_page.locator('[data-testid="stCheckbox"]').filter(has_text=label).click()
    expect(wide).to_be_visible(timeout=15_000)
    expect(browser_page.locator(".st-key-compare-narrow")).to_have_count(0)
    assert wide.evaluate(BEYOND) > 200
