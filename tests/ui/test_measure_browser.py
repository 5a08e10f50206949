"""Measuring in a real browser: from the button to calibrated figures, with the tab closed in between."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from planner.measure.store import Store
from tests.running_app import running_app

ROOT = Path(__file__).resolve().parents[2]
MEASURING = (sys.executable, "-m", "streamlit", "run", "tests/ui/measuring_app.py")
WIDTHS = (390, 1280, 2560)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """Address of an app that measures a machine which isn't there, and the folder that it works in."""
    monkeypatch.setenv("MEASURING_APP_FOLDER", str(tmp_path))
    monkeypatch.setenv("HEADROOM_MEASURE", "")
    with running_app(MEASURING, ROOT, tmp_path) as url:
        yield url, tmp_path


def test_measure_close_the_tab_come_back_and_use_it(
    browser_page: Page, browser: Browser, machine: tuple[str, Path]
) -> None:
    url, folder = machine
    browser_page.goto(f"{url}/measure")
    start = browser_page.locator(".st-key-measure-start button")
    expect(start).to_be_enabled(timeout=60_000)
    start.click()
    phases = browser_page.locator(".hr-phases")
    expect(phases).to_contain_text("1 / 3", timeout=60_000)
    browser_page.close()

    context = browser.new_context(locale="es-ES", viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(f"{url}/measure")
        expect(page.locator(".hr-phases")).to_contain_text("decode", timeout=60_000)
        (folder / "go").touch()
        # Nothing is clicked: the page finds out by itself.
        expect(page.locator(".st-key-measure-ended")).to_be_visible(timeout=60_000)
        expect(page.locator(".hr-verdict")).to_contain_text("made up")
        expect(page.locator(".st-key-box-measured .main-svg").first).to_be_visible(timeout=30_000)
        page.locator(".st-key-measure-use button").click()
        used = page.locator(".st-key-calibration-in-use")
        expect(used).to_contain_text("made up", timeout=30_000)
        page.wait_for_url(re.compile("calibration="))
        page.get_by_role("link", name="Velocidad").click()
        figure = page.locator(".st-key-figure-ttft_s")
        expect(figure.locator(".hr-badge")).to_contain_text("calibrado", timeout=30_000)
        expect(used).to_contain_text("made up")
        page.locator(".st-key-drop-calibration button").click()
        expect(used).to_have_count(0, timeout=30_000)
        expect(figure.locator(".hr-badge")).not_to_contain_text("calibrado", timeout=30_000)
    finally:
        context.close()
    assert [one.name for one in Store(folder / "home").kept()] == ["made up"]
    assert not [name for name in os.listdir(folder / "home" / "running") if name.endswith(".json")]


def test_cancelling_in_the_browser(browser_page: Page, machine: tuple[str, Path]) -> None:
    url, folder = machine
    browser_page.goto(f"{url}/measure")
    browser_page.locator(".st-key-measure-start button").click(timeout=60_000)
    expect(browser_page.locator(".hr-phases")).to_contain_text("1 / 3", timeout=60_000)
    browser_page.locator(".st-key-measure-cancel button").click()
    ended = browser_page.locator(".st-key-measure-ended")
    expect(ended).to_contain_text("cancelled", timeout=60_000)
    expect(ended).to_contain_text("kept: 1")
    expect(browser_page.locator(".st-key-measure-start button")).to_be_enabled()
    assert len(Store(folder / "home").kept()) == 1


def test_the_open_tab_stays_open_and_a_file_goes_before_what_was_pasted(
    browser_page: Page, machine: tuple[str, Path]
) -> None:
    url, folder = machine
    from tests.ui.machine import measured

    Store(folder / "home").save(measured())
    logs = ROOT / "tests" / "measure" / "readers" / "fixtures"
    browser_page.goto(f"{url}/measure?lang=en")
    browser_page.get_by_role("tab", name="Start-up log").click(timeout=60_000)
    tab = browser_page.locator('[role="tab"][aria-selected="true"]')
    expect(tab).to_have_text("Start-up log")
    pasted = browser_page.locator(".st-key-measure_log_text textarea")
    expect(pasted).to_be_enabled(timeout=30_000)
    upload = browser_page.locator(".st-key-measure_log_file input[type=file]")
    upload.set_input_files(str(logs / "llama-cpp-b6500.log"))
    expect(pasted).to_be_disabled(timeout=30_000)
    browser_page.locator(".st-key-measure-use button").click()
    expect(browser_page.locator(".st-key-calibration-in-use")).to_be_visible(timeout=30_000)
    expect(tab).to_have_text("Start-up log")
    browser_page.get_by_text("Español", exact=True).first.click()
    expect(tab).to_have_text("Registro de arranque", timeout=30_000)


def test_nothing_is_wider_than_the_window(browser: Browser, machine: tuple[str, Path]) -> None:
    url, folder = machine
    from tests.ui.machine import measured

    Store(folder / "home").save(measured())
    for width in WIDTHS:
        context = browser.new_context(viewport={"width": width, "height": 900}, locale="es-ES")
        try:
            page = context.new_page()
            page.goto(f"{url}/measure")
            expect(page.locator(".hr-verdict")).to_be_visible(timeout=60_000)
            expect(page.locator(".st-key-box-measured .main-svg").first).to_be_visible(
                timeout=30_000
            )
            main = page.locator('[data-testid="stMainBlockContainer"]')
            wide = main.evaluate("element => element.scrollWidth - element.clientWidth")
            assert wide <= 1, width
        finally:
            context.close()
