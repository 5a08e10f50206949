"""What a figure is of is said beside it: how many people, which tokens, which accelerators."""

from __future__ import annotations

import pytest

from planner.ui.locale import LANGUAGES, text
from tests.ui.driver import markup, open_app, words

ONE = {"en": "1 person at once", "es": "1 persona a la vez"}
TWO = {"en": "2 people at once", "es": "2 personas a la vez"}
PER_MILLION = {"en": "per million output tokens", "es": "por millón de tokens de salida"}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("people", "said"), [("1", ONE), ("2", TWO)])
@pytest.mark.parametrize(("page", "times"), [("fit", 1), ("speed", 2)])
def test_for_how_many_people_the_times_are(
    language: str, people: str, said: dict[str, str], page: str, times: int
) -> None:
    app = open_app(page, locale=language, concurrency=people, model="Qwen/Qwen3-8B", gpu="l4")
    shown = markup(app) + words(app)
    assert shown.count(said[language]) >= times
    assert "tantas personas" not in shown
    assert "this many people" not in shown


@pytest.mark.parametrize("language", LANGUAGES)
def test_compare_says_which_tokens_cost_and_of_which_accelerators(language: str) -> None:
    app = open_app("compare", locale=language)
    assert PER_MILLION[language] in markup(app) + words(app)
    sideways = text("compare.sideways", language)
    among = text("compare.headline_shown", language, shown=2).partition("(")[0]
    assert among not in words(app)
    assert f'<span class="hr-phone">{sideways}' in markup(app)
    app.toggle(key="compare-all-columns").set_value(True).run()
    assert f'<span class="hr-phone">{sideways}' not in markup(app)
    assert sideways in markup(app)
    app.pills(key="compare-vendor").set_value(["AMD"]).run()
    assert among in words(app)
