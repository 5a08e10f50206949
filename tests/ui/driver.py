"""The app without a browser: opens a page in a language, reads what it says, and finds its widgets."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

ROOT = Path(__file__).resolve().parents[2]
LOCALES = {"en": "en-GB", "es": "es-ES"}
TAG = re.compile(r"<style.*?</style>|<[^>]+>", re.DOTALL)


def open_app(
    path: str = "fit", *, locale: str = "en", theme: str = "light", **query: str
) -> AppTest:
    """The app on one of its pages, run once.

    Args:
        path: of the page, as in the address.
        locale: language of the browser; `lang` in `query` is the address's.
    """
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.context = {
        "locale": LOCALES.get(locale, locale),
        "theme": theme,
        "url": "http://localhost:8501",
    }
    for name, value in query.items():
        app.query_params[name] = value
    return go(app, path) if path != "fit" else app.run()


def go(app: AppTest, path: str) -> AppTest:
    """The same visitor on another page."""
    # A page drawn by a function has no file for `switch_page`; its identity is the hash of its path.
    app._page_hash = calc_hash("" if path == "fit" else path)
    return app.run()


def words(app: AppTest) -> str:
    """All that the page says, sidebar included, as one text without markup."""
    parts = [block.proto.body for block in app.get("html")]
    parts += [block.value for kind in (app.markdown, app.caption, app.subheader) for block in kind]
    parts += [button.label for button in app.button]
    return _plain(" ".join(html.unescape(TAG.sub(" ", part)) for part in parts))


def markup(app: AppTest) -> str:
    """All markup that we wrote ourselves."""
    return _plain("\n".join(block.proto.body for block in app.get("html")))


def _plain(shown: str) -> str:
    """With the no-break spaces before units as common ones."""
    return shown.replace("\u00a0", " ")


def charts(app: AppTest) -> list[Any]:
    """The charts' messages to the browser."""
    return [element.proto for element in app.get("plotly_chart")]


def clean(app: AppTest) -> None:
    """Fails where the page shows an exception, or apologises."""
    assert not app.exception, [error.message for error in app.exception]
    assert not re.search(r"Something went wrong|Algo ha fallado|Algo falló", words(app)), words(app)


def named(widgets: Any, name: str) -> Any:
    """The widget of that name; its key changes each time that the program sets its value."""
    return next(found for found in widgets if re.fullmatch(rf"{name}(~\d+)?", found.key or ""))
