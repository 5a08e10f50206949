"""A described device and a calibration of one's own on the pages: shown by name, everywhere, and dropped at a click."""

from __future__ import annotations

import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.evaluation import evaluate
from planner.explain import explain
from planner.scenario import Scenario
from planner.text_report import estimate_text
from planner.ui.device_words import device_words
from planner.ui.locale import LANGUAGES, text
from planner.ui.pages import PAGES
from planner.ui.permalink import DEFAULTS, to_query
from tests.ui.driver import clean, named, open_app, words

DEVICE = {
    "name": "Some EPYC, 2 cores", "kind": "cpu", "memory_usable_bytes": 20e9, "bandwidth_bytes_per_s": 2e10,
    "peaks": {"bf16": 2e11, "fp32": 1e11}, "measured_on": "2026-11-30",
}  # fmt: skip
ERROR = {
    "rows": 4, "before_fraction": 0.4, "after_fraction": 0.1, "low_fraction": -0.1, "high_fraction": 0.2,
}  # fmt: skip
ID = "own-some-epyc-2-cores"
CONSTANTS = {
    "transformers": {
        "cpu.weights.16bit": {"value": 0.5, "deviation": 0.1, "identified_fraction": 0.9, "at_bound": False}
    }
}  # fmt: skip
CALIBRATION = {
    "schema_version": 1, "name": "my box", "date": "2026-11-30", "accelerator": ID, "engine": "transformers",
    "engine_version": "5.24", "kinds": ["16bit"], "experts": False, "constants": CONSTANTS,
    "tpot": ERROR, "ttft": ERROR,
}  # fmt: skip
SCENARIO = {
    "model": "Qwen/Qwen2.5-0.5B", "gpu": ID, "device": DEVICE, "engine": "transformers", "calibration": CALIBRATION,
    "input_tokens": 256, "output_tokens": 32, "concurrency": 1,
}  # fmt: skip


def opened(language: str, path: str = "fit", **changes: Any) -> AppTest:
    return open_app(path, locale=language, **to_query({**DEFAULTS, **SCENARIO, **changes}))


@pytest.mark.parametrize("path", [entry.path for entry in PAGES])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_stands_with_a_device_of_one_s_own(path: str, language: str) -> None:
    app = opened(language, path)
    clean(app)
    assert not app.error
    assert named(app.selectbox, "gpu_own").value == ID
    said = words(app)
    assert device_words(DEVICE["name"], language) in said
    assert text("refusal.title", language) not in said


@pytest.mark.parametrize("path", [entry.path for entry in PAGES])
def test_every_page_stands_with_a_gpu_that_the_catalogue_lacks(path: str) -> None:
    gpu = DEVICE | {
        "name": "NVIDIA Something", "kind": "cuda", "vendor": "NVIDIA", "architecture": "Ada Lovelace",
        "compute_capability": "8.9", "bandwidth_bytes_per_s": 4e11, "peaks": {"fp16": 9e13, "bf16": 9e13},
    }  # fmt: skip
    app = opened("es", path, device=gpu, gpu="own-nvidia-something", engine="vllm")
    clean(app)
    assert "NVIDIA Something" in words(app)
    assert text("refusal.title", "es") not in words(app)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_calibration_in_use_is_named_and_can_be_dropped(language: str) -> None:
    app = opened(language)
    used = text("note.own_calibration", language, name="my box", date="2026-11-30")
    assert used in words(app)
    named(app.button, "drop-calibration").click().run()
    clean(app)
    assert used not in words(app)
    assert "calibration" not in app.query_params
    named(app.button, "undo-button").click().run()
    assert used in words(app)


def test_figures_say_that_they_are_calibrated() -> None:
    with_it, without = opened("en", "speed"), opened("en", "speed", calibration=None)
    mark = text("basis.calibrated", "en")
    assert words(with_it).count(mark) > words(without).count(mark)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_calibration_for_something_else_says_that_it_does_not_count(language: str) -> None:
    app = opened(language, calibration=CALIBRATION | {"kinds": ["nf4"]})
    clean(app)
    told = {
        "name": "my box",
        "date": "2026-11-30",
        "accelerator": device_words(DEVICE["name"], language),
        "engine": "Hugging Face transformers",
    }
    wanted = text("note.own_calibration_elsewhere", language, kinds=("nf4",), **told)
    assert wanted in words(app)


def test_the_calibration_is_the_source_of_its_figures() -> None:
    found = evaluate(Scenario.parse(SCENARIO))
    sources = explain(found, "tpot_s").sources
    own = next(one for one in sources if one.id == "own-calibration")
    assert ("my box" in own.title, own.date) == (True, CALIBRATION["date"])
    assert not any(one.url.endswith(".csv") for one in sources)


@pytest.mark.parametrize("language", LANGUAGES)
def test_compare_says_which_card_it_counts_for(language: str) -> None:
    said = text("compare.own_calibration", language, name="my box")
    assert said in words(opened(language, "compare"))
    assert said not in words(opened(language, "compare", calibration=None))


def test_another_accelerator_takes_the_device_s_place() -> None:
    app = opened("en")
    named(app.selectbox, "gpu_own").set_value("l4").run()
    clean(app)
    assert named(app.selectbox, "gpu").value == "l4"
    assert "device" not in app.query_params


@pytest.mark.parametrize("field", ["device", "calibration"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_one_that_is_none_is_refused_by_name_and_reset(field: str, language: str) -> None:
    app = opened(language, **{field: {"name": 3}})
    clean(app)
    assert text("refusal.title", language) in words(app)
    named(app.button, f"reset-{field}").click().run()
    clean(app)
    assert text("refusal.title", language) not in words(app)


@pytest.mark.parametrize("path", ["fit", "speed"])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-0.5B", "google/gemma-3-12b-it"])
def test_a_processor_is_no_card(path: str, language: str, model: str) -> None:
    app = opened(language, path, model=model)
    clean(app)
    said = words(app)
    names = device_words(DEVICE["name"], language)
    assert names in said
    assert not re.search(r"\bGPUs?\b|VRAM|\bcard\b|\bcards\b|tarjeta|cores's", said)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_processor_is_no_card_in_the_shell(language: str) -> None:
    said = estimate_text(evaluate(Scenario.parse(SCENARIO)), language)
    assert device_words(DEVICE["name"], language) in said
    assert not re.search(r"\bGPUs?\b|VRAM|\bcard\b|tarjeta|cores's", said)
