"""A browser sends back the words that its widgets showed: whatever the language, the scenario stays what it was."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from planner.ui.locale import LANGUAGES, text
from planner.ui.pages import PAGES
from tests.ui.test_browser import PROMPT, READY, visit

PATIENT_MS = 20_000  # on a machine that does much else
OTHER = {"en": "es", "es": "en"}
BUTTON = {"en": "English", "es": "Español"}


def scenario(page: Page) -> dict[str, str]:
    """The scenario that the address holds, without the language."""
    found = parse_qs(urlsplit(page.url).query)
    return {name: values[0] for name, values in found.items() if name != "lang"}


def settle(page: Page) -> None:
    """Waits until the run that has just been asked for is over, and none that it asked for follows."""
    for _ in range(2):
        page.wait_for_timeout(500)
        expect(page.locator('[data-testid="stApp"]')).to_have_attribute(
            "data-test-script-state", "notRunning", timeout=60_000
        )


def speak(page: Page, language: str) -> None:
    page.locator(".st-key-speak").get_by_text(BUTTON[language]).click()
    group = page.get_by_text(text("sidebar.model", language), exact=True)
    expect(group.first).to_be_visible(timeout=30_000)
    settle(page)


def turn_to(page: Page, path: str, language: str) -> None:
    page.locator(".st-key-nav").get_by_role("link", name=text(f"nav.{path}", language)).click()
    page.wait_for_url(lambda url: urlsplit(url).path == ("/" if path == "fit" else f"/{path}"))
    settle(page)


def step(page: Page, slider: Locator) -> None:
    before = slider.get_attribute("aria-valuetext") or ""
    slider.focus()
    slider.press("ArrowRight")
    expect(slider).not_to_have_attribute("aria-valuetext", before, timeout=PATIENT_MS)
    settle(page)


def choose(page: Page, widget: str, words: str) -> None:
    """Picks the option of a select that a part of its words finds; once more where a run closed the list meanwhile."""
    field = page.locator(f'[class*="st-key-{widget}"] input').first
    for last in (False, False, True):
        settle(page)
        field.click()
        field.fill(words)
        try:
            page.get_by_role("option").filter(has_text=words).first.click(timeout=5_000)
            break
        except PlaywrightTimeout:
            if last:
                raise
            page.keyboard.press("Escape")
    expect(field).to_have_value(re.compile(re.escape(words)), timeout=PATIENT_MS)
    settle(page)


def calm(page: Page) -> None:
    expect(page.locator('[data-testid="stException"]')).to_have_count(0)
    expect(page.locator('[class*="st-key-refusal-"]')).to_have_count(0)


def test_another_language_and_another_page_keep_the_scenario(
    browser_page: Page, app_url: str
) -> None:
    page, language = visit(browser_page, app_url), "en"
    for entry in PAGES[1:]:
        language = OTHER[language]
        speak(page, language)
        turn_to(page, entry.path, language)
        calm(page)
        assert scenario(page) == {}, entry.path
    step(page, page.locator(PROMPT))
    page.wait_for_url(re.compile("input_tokens=3072"))
    changed = scenario(page)
    assert changed["gpu"] == "t4"
    for entry in PAGES:
        language = OTHER[language]
        speak(page, language)
        turn_to(page, entry.path, language)
        calm(page)
        assert scenario(page) == changed, entry.path


def test_filters_keep_what_they_say_in_another_language(browser_page: Page, app_url: str) -> None:
    page = visit(browser_page, f"{app_url}/compare")
    page.get_by_text(text("compare.only_objectives", "en")).click()
    settle(page)
    soon = '[class*="st-key-compare-ttft"] input[type="range"]'
    step(page, page.locator(soon))
    expect(page.locator(soon)).to_have_attribute("aria-valuetext", "3 s", timeout=PATIENT_MS)
    page.get_by_text(text("filter.title", "en")).click()
    choose(page, "models-context", "262")
    said = page.locator('[class*="st-key-models-context"] input').first
    speak(page, "es")
    step(page, page.locator(PROMPT))
    expect(page.locator(soon)).to_have_attribute("aria-valuetext", "3 s", timeout=PATIENT_MS)
    expect(said).to_have_value(text("filter.at_least", "es", tokens=262144), timeout=PATIENT_MS)
    calm(page)
    turn_to(page, "fit", "es")
    speak(page, "en")
    turn_to(page, "compare", "en")
    step(page, page.locator(PROMPT))
    expect(page.locator(soon)).to_have_attribute("aria-valuetext", "3 s", timeout=PATIENT_MS)
    expect(said).to_have_value(text("filter.at_least", "en", tokens=262144), timeout=PATIENT_MS)


def test_a_default_stays_one_when_another_is_meant(browser_page: Page, app_url: str) -> None:
    given = {"v": "1", "model": "google/gemma-3-12b-it", "gpu": "t4", "weights": "nf4"}
    page = visit(browser_page, f"{app_url}/?{urlencode(given)}")
    choose(page, "weights", "Q4_K_M")
    page.wait_for_url(re.compile("weights=gguf"))
    step(page, page.locator(PROMPT))
    calm(page)
    assert "engine" not in scenario(page)


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_in_an_address_are_refused_and_the_rest_is_kept(
    browser_page: Page, app_url: str, language: str
) -> None:
    given = {"v": "1", "model": "google/gemma-3-12b-it", "gpu": "t4", "weights": "As in the checkpoint",
             "kv": "As the compute dtype", "dtype": "As the model", "concurrency": "3", "lang": language}  # fmt: skip
    page = browser_page
    page.goto(f"{app_url}/speed?{urlencode(given)}")
    for field in ("weights", "kv", "dtype"):
        card = page.locator(f".st-key-refusal-{field}")
        expect(card).to_contain_text(given[field][:12], timeout=60_000)
    speak(page, OTHER[language])
    for field in ("weights", "kv", "dtype"):
        reset = page.locator(f'[class*="st-key-reset-{field}"] button')
        expect(reset).to_have_count(1, timeout=15_000)  # not while one is replaced by the next
        reset.click()
        expect(page.locator(f".st-key-refusal-{field}")).to_have_count(0, timeout=15_000)
    expect(page.locator(READY).first).to_be_visible(timeout=15_000)
    settle(page)
    calm(page)
    assert scenario(page)["concurrency"] == "3"
