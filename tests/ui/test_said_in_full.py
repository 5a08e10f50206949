"""What a figure is of is said beside it: how many people, which tokens, which accelerators."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.measure.fit.own_plan import TABLES
from planner.measure.store import Store
from planner.ui.device_words import device_words, without_device
from planner.ui.locale import LANGUAGES, catalogue, text
from planner.ui.locale.numbers import format_value
from planner.ui.measure_words import filled_table, row_words
from tests.ui.driver import markup, open_app, words
from tests.ui.machine import measured

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
    narrow = text("compare.narrow", language)
    assert narrow in markup(app)
    assert sideways not in markup(app)
    app.toggle(key="compare-all-columns").set_value(True).run()
    assert narrow not in markup(app)
    assert sideways in markup(app)
    app.pills(key="compare-vendor").set_value(["AMD"]).run()
    assert among in words(app)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_constant_that_an_own_fit_can_find_has_a_name(language: str) -> None:
    keys = {one.key for tables in TABLES.values() for table in tables for one in table}
    assert keys
    known = catalogue(language)
    assert not [key for key in keys if f"measure.constant.{key.partition('.')[0]}" not in known]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (45, "45 s"),
        (60, "1 min"),
        (75, "1 min 15 s"),
        (3600, "1 h"),
        (7530, "2 h 5 min"),
    ],
)
def test_time_left_is_told_as_on_a_clock(seconds: float, said: str) -> None:
    for language in LANGUAGES:
        assert format_value(float(seconds), "duration", language) == said
        assert said in text("measure.left", language, left=float(seconds))
        assert said in text("endpoint.step.left", language, left=float(seconds))


def test_a_processor_s_cores_are_said_in_the_reader_s_language() -> None:
    assert device_words("Xeon, 2 cores", "es") == "Xeon, 2 núcleos"
    assert device_words("Xeon, 1 core", "es") == "Xeon, 1 núcleo"
    assert device_words("Xeon, 2 cores", "en") == "Xeon, 2 cores"
    assert device_words("NVIDIA L4", "es") == "NVIDIA L4"
    assert device_words("Xeon, 2 cores, 2026-11-30", "es") == "Xeon, 2 núcleos, 2026-11-30"
    assert without_device("Xeon, 2 cores, 2026-11-30", "Xeon, 2 cores", "d") == "2026-11-30"
    assert without_device("Xeon", "Xeon", "2026-11-30") == "2026-11-30"
    assert without_device("mine", "Xeon", "2026-11-30") == "mine"


def test_what_a_run_doesn_t_say_is_left_out() -> None:
    row = measured().rows[0]
    bare = {k: v for k, v in row.scenario.items() if k not in ("dtype", "weights")}
    said = row_words(row.model_copy(update={"scenario": bare}))
    assert str(row.scenario["model"]).rpartition("/")[2] in said
    assert "?" not in said


def test_figures_fold_on_a_phone() -> None:
    assert "hr-folds" in filled_table("figures", ("a", "b"), [("x", "1")])


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_calibration_put_to_use_names_every_field_that_it_changes(
    language: str, own_machine: Path
) -> None:
    Store(own_machine).save(measured())
    app = open_app("measure", locale=language, weights="nf4", model="Qwen/Qwen3-8B", gpu="l4")
    app.button(key="measure-use").click().run()
    lead = text("undo.calibration_changes", language, name=measured().name, fields=())
    told = " ".join(words(app).replace("\\", "").partition(lead.rstrip("–"))[2].split())[:120]
    for field in ("gpu", "device", "weights"):
        assert text(f"field.{field}", language) in told
    assert text("field.engine", language) not in told.partition(text("field.weights", language))[0]
