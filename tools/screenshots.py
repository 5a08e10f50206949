"""Takes the pictures of the pages for the documents: `make screenshots`, or `python -m tools.screenshots fit-en-light`.

Starts the app as a person would, opens each page in Chromium, waits until every chart is drawn, and writes
`docs/images/<page>-<language>-<theme>.png`, and one of a telephone's width.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from planner.ui.pages import PAGES
from tests.conftest import CHROMIUM_ARGS, find_chromium, no_chromium
from tests.running_app import running_app

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images"
LOCALES = {"en": "en-GB", "es": "es-ES"}
WIDTH, HEIGHT = 1280, 1120
PHONE_WIDTH, PHONE_HEIGHT = 390, 844
DRAWN = ".js-plotly-plot .main-svg, .hr-device"  # a chart, or what there is to measure
SETTLED_MS = 1200  # fonts and plotly's last layout


@dataclass(frozen=True, slots=True)
class Picture:
    """A page in a language and a theme at a width (CSS pixels)."""

    page: str
    language: str
    theme: str
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def name(self) -> str:
        tail = "-phone" if self.width == PHONE_WIDTH else ""
        return f"{self.page}-{self.language}-{self.theme}{tail}"


def pictures() -> Iterator[Picture]:
    """Every page in English on a light page and in Spanish on a dark one, and the first on a telephone."""
    for entry in PAGES:
        yield Picture(entry.path, "en", "light")
        yield Picture(entry.path, "es", "dark")
    yield Picture(PAGES[0].path, "en", "light", PHONE_WIDTH, PHONE_HEIGHT)


def take(browser: Browser, url: str, picture: Picture) -> Path:
    """Takes one picture and returns its file."""
    first = picture.page == PAGES[0].path
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        device_scale_factor=1.5,
        color_scheme="dark" if picture.theme == "dark" else "light",
        locale=LOCALES[picture.language],
        reduced_motion="reduce",
    )
    try:
        page = context.new_page()
        page.goto(url if first else f"{url}/{picture.page}")
        expect(page.locator(DRAWN).first).to_be_attached(timeout=60_000)
        expect(page.locator('[data-testid="stSkeleton"]')).to_have_count(0, timeout=30_000)
        page.wait_for_timeout(SETTLED_MS)
        file = FOLDER / f"{picture.name}.png"
        page.screenshot(path=file)
        return file
    finally:
        context.close()


def main(arguments: list[str] | None = None) -> int:
    """Takes the named pictures, or all."""
    known = {picture.name: picture for picture in pictures()}
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    wanted = parser.parse_args(arguments).names or list(known)
    if unknown := set(wanted) - known.keys():
        parser.error(f"no picture of the name {', '.join(sorted(unknown))}")
    chromium = find_chromium()
    if chromium is None:
        print(no_chromium(), file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_app(command, ROOT, Path(scratch)) as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_ARGS))
        for name in wanted:
            file = take(browser, url, known[name])
            print(f"{file.relative_to(ROOT)}  {file.stat().st_size / 1e3:.0f} kB")
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
