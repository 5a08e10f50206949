"""What every test may use: a browser, the running app, and rules about skipping, networks and randomness.

`browser_page` gives a Playwright page, `app_url` the address of the running app. Tests marked `measure` need torch and
transformers, and import them inside the test. Where Chromium or torch is missing such tests are skipped and the end of
the run says so; in CI (`CI=true`) they fail instead, so that a green run there means that they ran.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import settings
from playwright.sync_api import BrowserContext, Page, Route

from tests.running_app import running_app

ROOT = Path(__file__).resolve().parents[1]
IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
# As root in a container there is no sandbox to be had; the rest keeps Chromium from calling home.
CHROMIUM_ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# The same examples in every run: a failure can be repeated, and a slow machine isn't a failure. Look for new ones with
# `make test ARGS=--hypothesis-profile=explore`.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("repeatable")


# --- What is there, and what happens where it isn't -----------------------------------------------------------------


def find_chromium() -> str | None:
    """Path of Chromium: what HEADROOM_CHROMIUM names, else the first known name on PATH, else None."""
    named = os.environ.get("HEADROOM_CHROMIUM")
    if named:
        return shutil.which(named)
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def no_chromium() -> str | None:
    """Why browser tests can't run here, or None where they can."""
    if find_chromium():
        return None
    named = os.environ.get("HEADROOM_CHROMIUM")
    where = f"at HEADROOM_CHROMIUM={named}" if named else "on PATH"
    return f"no Chromium {where}: install one, or name it in HEADROOM_CHROMIUM"


def no_torch() -> str | None:
    """Why measuring tests can't run here, or None where they can."""
    missing = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
    return f"{' and '.join(missing)} not installed: make measure-setup" if missing else None


NEEDS: dict[str, Callable[[], str | None]] = {"browser": no_chromium, "measure": no_torch}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the group marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lacking = {mark: why() for mark, why in NEEDS.items()}
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "page" in fixtures or "chromium_path" in fixtures:
            item.add_marker(pytest.mark.browser)
        if item.get_closest_marker("browser"):
            # One worker, hence one browser and one server, for all of them.
            item.add_marker(pytest.mark.xdist_group("browser"))
        if not IN_CI:
            for mark, why in lacking.items():
                if why and item.get_closest_marker(mark):
                    item.add_marker(pytest.mark.skip(reason=why))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark, why in NEEDS.items():
        if IN_CI and item.get_closest_marker(mark) and (reason := why()):
            pytest.fail(f"{reason} (in CI this is a failure)", pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    for mark, why in NEEDS.items():
        count = sum(mark in report.keywords for report in skipped)
        if count and (reason := why()):
            tests = f"{count} {mark} test{'s' if count > 1 else ''}"
            terminalreporter.write_line(f"NOT RUN: {tests}, {reason}", yellow=True)


# --- No network -----------------------------------------------------------------------------------------------------


def is_this_computer(host: Any) -> bool:
    """True for an address or name of the loopback interface, and for what isn't an internet address at all."""
    if isinstance(host, bytes):
        host = host.decode()
    if host in {None, "", "localhost"} or not isinstance(host, str):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """A test that reaches for the internet finds none: the same on a laptop, in a train and in CI."""
    patch = pytest.MonkeyPatch()
    connect, connect_ex, look_up = (
        socket.socket.connect,
        socket.socket.connect_ex,
        socket.getaddrinfo,
    )

    def check(address: Any) -> None:
        if isinstance(address, tuple) and not is_this_computer(address[0]):
            raise ConnectionRefusedError(f"tests have no network: {address}")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        check(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        check(address)
        return connect_ex(self, address)

    def guarded_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_this_computer(host):
            raise socket.gaierror(socket.EAI_NONAME, f"tests have no network: {host}")
        return look_up(host, *args, **kwargs)

    patch.setattr(socket.socket, "connect", guarded_connect)
    patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    patch.setattr(socket, "getaddrinfo", guarded_look_up)
    yield
    patch.undo()


# --- The app, running -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the running app, `http://127.0.0.1:<port>` without a slash; one server per worker."""
    folder = tmp_path_factory.mktemp("app")
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    with running_app(command, ROOT, folder) as url:
        yield url


# --- The browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Path of the installed Chromium."""
    path = find_chromium()
    assert path, no_chromium()
    return path


@pytest.fixture(scope="session")
def browser_type_launch_args(
    browser_type_launch_args: dict[str, Any], chromium_path: str
) -> dict[str, Any]:
    """pytest-playwright's launch options, for the installed Chromium; each launch has a new, empty profile."""
    return browser_type_launch_args | {
        "executable_path": chromium_path,
        "args": list(CHROMIUM_ARGS),
    }


@pytest.fixture(scope="session")
def base_url() -> None:
    """In place of pytest-playwright's own, which pytest deprecates and hence, here, refuses."""


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return browser_context_args | {
        "viewport": {"width": 1280, "height": 900},
        "locale": "en-US",
        "reduced_motion": "reduce",
    }


@pytest.fixture
def outside_requests() -> list[str]:
    """Addresses beyond this computer that the test's page asked for; each was refused."""
    return []


@pytest.fixture
def browser_page(
    context: BrowserContext, page: Page, outside_requests: list[str]
) -> Iterator[Page]:
    """A fresh page of 1280 × 900 in English, with no way out; an uncaught error in the page fails the test."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))

    def gate(route: Route) -> None:
        url = urlsplit(route.request.url)
        if url.scheme in {"http", "https"} and not is_this_computer(url.hostname):
            outside_requests.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    context.route("**/*", gate)
    yield page
    assert not errors, errors
