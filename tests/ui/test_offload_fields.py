"""Layers and experts in host memory on the pages: fields for the engine that has them, the bar, and the way out."""

from __future__ import annotations

import re

import pytest

from planner.catalog.accelerators import accelerator
from planner.catalog.hosts import host_of
from planner.quantity import GB
from planner.ui.locale import text
from planner.ui.locale.numbers import format_value
from tests.ui.driver import clean, named, open_app, words

LARGE = {
    "model": "meta-llama/Llama-3.3-70B-Instruct",
    "gpu": "rtx-4090",
    "engine": "llama.cpp",
    "weights": "gguf:Q4_K_M",
}
MIXTURE = {**LARGE, "model": "openai/gpt-oss-120b", "weights": "gguf:MXFP4"}
FIELDS = ("gpu_layers", "cpu_expert_layers", "host_memory_gib", "host_bandwidth_gb_per_s")


def shown(app: object, name: str) -> bool:
    keys = [found.key or "" for found in app.number_input]  # type: ignore[attr-defined]
    return any(key.partition("~")[0] == name for key in keys)


@pytest.mark.parametrize(
    ("values", "there"),
    [
        (LARGE, True),
        ({**LARGE, "engine": "vllm", "weights": "native"}, False),
        ({**LARGE, "gpu": "apple-m4-max-40c"}, False),
    ],
)
def test_fields_are_there_for_an_engine_and_a_card_that_use_them(
    values: dict[str, str], there: bool
) -> None:
    app = open_app(**values)
    clean(app)
    assert [shown(app, field) for field in FIELDS] == [there] * len(FIELDS)


@pytest.mark.parametrize(
    ("locale", "layers", "host"),
    [
        ("en", "layers on the GPU, the others in host memory", "In host memory:"),
        ("es", "capas en la GPU y las demás en la memoria del equipo", "En la memoria del equipo:"),
    ],
)
def test_what_does_not_fit_is_offered_with_fewer_layers_and_then_fits(
    locale: str, layers: str, host: str
) -> None:
    app = open_app(locale=locale, **LARGE)
    assert layers in words(app)
    app.button("apply-gpu_layers").click().run()
    clean(app)
    chosen = named(app.number_input, "gpu_layers").value
    assert 20 < chosen < 80
    assert app.query_params["gpu_layers"] == str(chosen)
    said = words(app)
    assert host in said
    assert "KV cache." in said


def test_a_mixture_is_offered_with_its_experts_in_host_memory() -> None:
    app = open_app(**MIXTURE)
    app.button("apply-cpu_expert_layers").click().run()
    clean(app)
    assert 10 < named(app.number_input, "cpu_expert_layers").value < 36


@pytest.mark.parametrize(
    ("locale", "part"),
    [("en", "Weights in host memory"), ("es", "Pesos en la memoria del equipo")],
)
def test_no_layer_at_all_on_the_gpu_can_be_asked_for(locale: str, part: str) -> None:
    app = open_app("speed", locale=locale, **LARGE, gpu_layers="0")
    clean(app)
    assert named(app.number_input, "gpu_layers").value == 0
    assert app.query_params["gpu_layers"] == "0"
    assert part in words(app)


@pytest.mark.parametrize("locale", ["en", "es"])
def test_a_card_that_shares_the_host_s_memory_says_so_and_keeps_the_fields(locale: str) -> None:
    app = open_app(locale=locale, **{**LARGE, "gpu": "apple-m4-max-40c", "gpu_layers": "3"})
    clean(app)
    assert ("one memory" if locale == "en" else "una sola memoria") in words(app)
    assert shown(app, "gpu_layers")


@pytest.mark.parametrize("locale", ["en", "es"])
def test_the_host_s_usual_bandwidth_is_shown_and_the_steps_of_a_prompt_are_explained(
    locale: str,
) -> None:
    values = {**LARGE, "gpu_layers": "30"}
    app = open_app("speed", locale=locale, **values)
    clean(app)
    usual = host_of(accelerator("rtx-4090")).bandwidth_bytes_per_s / GB
    expected = text("sidebar.default", locale, value=format_value(usual, "number", locale))
    assert named(app.number_input, "host_bandwidth_gb_per_s").placeholder == expected
    steps = text("speed.ttft_steps", locale, tokens=512)
    assert steps in words(app)
    del values["gpu_layers"]
    small = {**values, "model": "meta-llama/Llama-3.1-8B-Instruct"}
    assert steps not in words(open_app("speed", locale=locale, **small))


@pytest.mark.parametrize(
    ("locale", "said"),
    [
        ("en", "keeps in host memory needs 25.2 GiB there for 1 at once"),
        ("es", "deja en la memoria del equipo necesita allí 25,2 GiB para 1 a la vez"),
    ],
)
def test_a_host_that_is_too_small_is_named_first_with_what_it_would_need(
    locale: str, said: str
) -> None:
    app = open_app(locale=locale, **LARGE, gpu_layers="30", host_memory_gib="2")
    clean(app)
    told = words(app)
    assert re.search(said, told), told[:2000]
    assert "2 GiB" in told
