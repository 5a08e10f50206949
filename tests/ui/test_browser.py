"""The pages in a real browser: what only a browser shows."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.conftest import is_this_computer

CHART = ".js-plotly-plot"
PROMPT = '[class*="st-key-input_tokens_slider"] input[type="range"]'
READY = ".hr-verdict"


def visit(page: Page, url: str) -> Page:
    page.goto(url)
    expect(page.locator(READY).first).to_be_visible(timeout=60_000)
    expect(page.locator(f"{CHART} .main-svg").first).to_be_visible(timeout=30_000)
    return page


def asked(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def line(page: Page, key: str) -> str | None:
    """Where the chart's marked point is drawn."""
    return page.locator(f".st-key-box-{key} .scatterlayer .trace path.point").last.get_attribute(
        "transform"
    )


def step(slider: Locator, times: int = 1) -> None:
    slider.focus()
    for _ in range(times):
        slider.press("ArrowRight")


def test_a_moved_slider_moves_the_chart_and_the_address(browser_page: Page, app_url: str) -> None:
    page = visit(browser_page, f"{app_url}/speed")
    before = line(page, "ttft")
    assert before
    step(page.locator(PROMPT))
    expect(page.locator(".st-key-figure-ttft_s .hr-says")).to_contain_text("3,072", timeout=15_000)
    page.wait_for_function(
        "before => { const points = document.querySelectorAll('.st-key-box-ttft .scatterlayer .trace path.point');"
        " return points.length && points[points.length - 1].getAttribute('transform') !== before }",
        arg=before,
        timeout=15_000,
    )
    page.wait_for_url(re.compile("input_tokens=3072"))
    assert asked(page)["v"] == "1"
    assert urlsplit(page.url).path == "/speed"


def test_a_link_brings_the_scenario_back_elsewhere(
    browser_page: Page, browser: Browser, app_url: str
) -> None:
    page = visit(browser_page, app_url)
    step(page.locator(PROMPT), 2)
    page.wait_for_url(re.compile("input_tokens=4096"))
    link = page.locator(".st-key-link code").inner_text()
    assert {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()} == asked(
        page
    )
    elsewhere = browser.new_context(locale="es-ES", viewport={"width": 1280, "height": 900})
    try:
        other = visit(elsewhere.new_page(), link)
        expect(other.locator(".st-key-exact-input_tokens input")).to_have_value(
            "4096", timeout=15_000
        )
        expect(other.locator(READY)).to_contain_text(
            "4.096"
        )  # the same scenario, in the reader's language
    finally:
        elsewhere.close()


def test_quick_steps_are_all_counted(browser_page: Page, app_url: str) -> None:
    """The second step is sent before the browser has heard what the first one changed."""
    page = visit(browser_page, app_url)
    for pause_ms in (0, 60, 120, 250):
        before = page.locator(PROMPT).input_value()
        slider = page.locator(PROMPT)
        slider.focus()
        slider.press("ArrowRight")
        page.wait_for_timeout(pause_ms)
        slider.press("ArrowRight")
        page.wait_for_timeout(2500)
        expect(page.locator(PROMPT)).to_have_value(str(int(before) + 2))
        shown = page.locator(PROMPT).get_attribute("aria-valuetext") or ""
        page.wait_for_url(re.compile(f"input_tokens={shown.replace(',', '')}&"))


def test_back_undoes_and_pages_keep_the_scenario(browser_page: Page, app_url: str) -> None:
    page = visit(browser_page, app_url)
    page.get_by_text("Llama 3.1 8B chat on an L4").click()
    page.wait_for_url(re.compile("gpu=l4"))
    page.get_by_role("link", name="Speed").click()
    expect(page.locator(".st-key-figure-ttft_s")).to_be_visible(timeout=15_000)
    assert urlsplit(page.url).path == "/speed"
    assert asked(page)["gpu"] == "l4"
    page.go_back()
    expect(page.locator(".st-key-figure-needed_bytes_per_gpu")).to_be_visible(timeout=15_000)
    assert asked(page)["gpu"] == "l4"
    page.go_back()
    expect(page.locator(READY)).to_contain_text("Gemma 3 12B", timeout=15_000)
    expect(page.locator(READY)).to_contain_text("T4")


def test_an_explanation_opens_in_place(browser_page: Page, app_url: str) -> None:
    page = visit(browser_page, app_url)
    page.locator(".st-key-figure-weights_bytes_per_gpu button").click()
    panel = page.locator('[data-testid="stPopoverBody"]')
    expect(panel.locator(".hr-formula").first).to_be_visible(timeout=15_000)
    assert panel.locator(".hr-sources a").count() >= 1


def test_the_numbers_of_a_chart_are_behind_a_toggle(browser_page: Page, app_url: str) -> None:
    page = visit(browser_page, f"{app_url}/speed")
    box = page.locator(".st-key-box-ttft")
    assert box.locator("table").count() == 0
    box.get_by_text("Show the numbers").click()
    expect(box.locator("table tbody tr").first).to_be_visible(timeout=15_000)
    expect(box.locator("table")).to_contain_text("2,048")


def test_every_chart_has_a_name_for_those_who_dont_see_it(browser_page: Page, app_url: str) -> None:
    page = visit(browser_page, f"{app_url}/speed")
    expect(page.locator(CHART)).to_have_count(6, timeout=30_000)
    named = page.locator('[data-testid="stPlotlyChart"]').evaluate_all(
        "nodes => nodes.map(n => [n, ...n.querySelectorAll('[aria-label]')]"
        ".map(e => e.getAttribute('aria-label')).filter(Boolean).join(' '))"
    )
    assert len(named) == 6
    assert all(len(name) > 15 for name in named), named


@pytest.mark.parametrize("path", ["", "/speed", "/accuracy"])
@pytest.mark.parametrize("width", [390, 2560])
def test_nothing_sticks_out(browser_page: Page, app_url: str, path: str, width: int) -> None:
    browser_page.set_viewport_size({"width": width, "height": 900})
    page = visit(browser_page, f"{app_url}{path}")
    page.wait_for_timeout(500)
    beyond = page.locator('[data-testid="stMain"]').evaluate("n => n.scrollWidth - n.clientWidth")
    assert beyond <= 1
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.hr, .js-plotly-plot, [data-testid=stButton]')]"
        ".filter(n => n.offsetParent && n.closest('[data-testid=stMain]')).map(n => n.getBoundingClientRect().right))"
    )
    assert right <= width + 1


def test_choices_side_by_side_wrap_on_a_telephone(browser_page: Page, app_url: str) -> None:
    browser_page.set_viewport_size({"width": 390, "height": 900})
    page = visit(browser_page, f"{app_url}/accuracy?lang=es")
    groups = page.locator('.st-key-accuracy-choices [role="radiogroup"]')
    expect(groups).to_have_count(2, timeout=30_000)
    assert [one.evaluate("n => n.scrollWidth - n.clientWidth") for one in groups.all()] == [0, 0]


MEETINGS = """chart => {
  const svg = chart.querySelector('.main-svg').getBoundingClientRect();
  const words = [...chart.querySelectorAll('.annotation-text, .xtitle')];
  const boxes = words.map(n => [n.textContent, n.getBoundingClientRect()]);
  const outside = boxes.filter(([, b]) => b.left < svg.left - 1 || b.right > svg.right + 1 || b.top < svg.top - 1);
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const later = (a, i) => boxes.slice(i + 1).filter(([, b]) => meet(a, b));
  const pairs = boxes.flatMap(([t, a], i) => later(a, i).map(([u]) => t + ' × ' + u));
  return [...outside.map(([t]) => t + ' outside'), ...pairs];
}"""


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize(
    "query",
    [
        "gpu=t4&model=google/gemma-3-12b-it&weights=nf4",
        "gpu=t4&model=google/gemma-3-12b-it&weights=nf4&input_tokens=65536",
        "gpu=l4&model=meta-llama/Llama-3.1-8B-Instruct&engine=vllm&input_tokens=256&concurrency=24",
    ],
)
def test_words_in_charts_never_meet_on_a_telephone(
    browser_page: Page, app_url: str, query: str, language: str
) -> None:
    browser_page.set_viewport_size({"width": 390, "height": 4600})
    page = visit(browser_page, f"{app_url}/speed?{query}&lang={language}")
    expect(page.locator(CHART)).to_have_count(6, timeout=30_000)
    page.wait_for_timeout(1000)
    assert page.locator(".st-key-box-ttft .annotation-text").count() == 2
    for chart in page.locator(CHART).all():
        assert chart.evaluate(MEETINGS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_and_our_shapes_follow_the_theme(
    browser: Browser, app_url: str, scheme: str
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})  # type: ignore[arg-type]
    try:
        page = visit(context.new_page(), app_url)
        page.wait_for_timeout(500)
        accent = page.evaluate(
            "getComputedStyle(document.documentElement).getPropertyValue('--hr-s1').trim()"
        )
        drawn = page.locator(".st-key-box-cache .scatterlayer path.js-line").last.evaluate(
            "n => getComputedStyle(n).stroke"
        )
        red, green, blue = (int(accent[at : at + 2], 16) for at in (1, 3, 5))
        assert drawn == f"rgb({red}, {green}, {blue})"
        assert accent == {"light": "#0b6fa4", "dark": "#58b4e5"}[scheme]
    finally:
        context.close()


def test_nothing_is_asked_of_the_internet(
    browser_page: Page, app_url: str, outside_requests: list[str]
) -> None:
    visit(browser_page, app_url)
    assert outside_requests == []
    assert is_this_computer("127.0.0.1")


def test_a_wrong_address_is_answered_calmly(browser_page: Page, app_url: str) -> None:
    browser_page.goto(f"{app_url}/?gpu=t44&input_tokens=99999999999999&concurrency=3")
    card = browser_page.locator(".st-key-refusal-gpu")
    expect(card).to_be_visible(timeout=60_000)
    expect(card).to_contain_text("t44")
    card.get_by_role("button", name=re.compile("Tesla T4")).click()
    browser_page.locator(".st-key-refusal-input_tokens button").first.click()
    expect(browser_page.locator(READY)).to_be_visible(timeout=15_000)
    expect(browser_page.locator(".st-key-exact-concurrency input")).to_have_value("3")
