"""Another tool's results on the page: what the file doesn't say is asked for, and the rest is a measurement."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.measure.store import Store
from planner.ui.locale import LANGUAGES, text
from tests.ui.driver import charts, clean, named, open_app, words

FIXTURES = Path(__file__).resolve().parents[1] / "measure" / "readers" / "fixtures"


def upload(language: str, name: str) -> AppTest:
    app = open_app("measure", locale=language)
    content = (FIXTURES / name).read_bytes()
    named(app.file_uploader, "measure_import_file").set_value((name, content, "text/plain"))
    app.run()
    clean(app)
    return app


def press(app: AppTest) -> AppTest:
    named(app.button, "measure-import").click().run()
    clean(app)
    return app


def fields(app: AppTest) -> dict[str, str]:
    every = (*app.text_input, *app.selectbox)
    return {
        one.key.removeprefix("measure_results_"): str(one.value)
        for one in every
        if (one.key or "").startswith("measure_results_")
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_file_does_not_say_is_asked_for(language: str, own_machine: Path) -> None:
    app = upload(language, "vllm-serve-sweep.jsonl")
    assert "vllm bench serve" in words(app)
    assert set(fields(app)) == {"gpu", "engine_version", "weights", "gpus"}
    press(app)
    assert Store(own_machine).kept() == []
    assert "gpus" in words(app)
    for name, said in (("engine_version", "0.11.0"), ("weights", "native"), ("gpus", "1")):
        app.text_input(key=f"measure_results_{name}").set_value(said)
    app.selectbox(key="measure_results_gpu").set_value("h100-sxm-80gb").run()
    press(app)
    (kept,) = Store(own_machine).kept()
    assert Store(own_machine).load(kept.key).calibration is not None
    assert len(charts(app)) == 1


def test_a_file_that_says_everything_asks_for_nothing(own_machine: Path) -> None:
    app = upload("en", "llama-bench.json")
    assert fields(app) == {}
    press(app)
    assert len(Store(own_machine).kept()) == 1


def test_a_name_that_the_catalogue_lacks_is_shown(own_machine: Path) -> None:
    app = upload("en", "llama-bench.md")
    assert {"model", "gpu", "gpus"} == set(fields(app))
    assert "qwen2 7B" in words(app)
    app.text_input(key="measure_results_model").set_value("nobody/nothing")
    app.text_input(key="measure_results_gpus").set_value("1").run()
    press(app)
    assert "nobody/nothing" in words(app).replace("\\", "")
    assert Store(own_machine).kept() == []
    assert text("error.reading_empty", "en") not in words(app)
