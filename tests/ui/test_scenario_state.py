"""The scenario between address, widgets and buttons: one visitor's, never lost, never wrong in silence."""

from __future__ import annotations

import json
import re

import pytest
from streamlit.testing.v1 import AppTest

from planner.ui import state
from planner.ui.locale import LANGUAGES, text
from planner.ui.permalink import DEFAULTS, from_query, to_query
from planner.ui.presets import OPENING, PRESETS, WORKLOADS
from tests.ui.driver import charts, clean, named, open_app, words


def address(app: AppTest) -> dict[str, str]:
    return {
        name: value[0] if isinstance(value, list) else value
        for name, value in app.query_params.items()
    }


def button(app: AppTest, key: str):
    return next(found for found in app.button if found.key == key)


# --- Widgets and the address ------------------------------------------------------------------------------------------


def test_an_untouched_visit_has_a_bare_address() -> None:
    assert address(open_app()) == {}


def test_a_change_is_in_the_address_at_once_with_every_value() -> None:
    app = open_app()
    named(app.select_slider, "input_tokens_slider").set_value(4096).run()
    clean(app)
    assert address(app) == to_query({**DEFAULTS, **OPENING, "input_tokens": 4096})


def test_slider_and_exact_field_are_one() -> None:
    app = open_app()
    named(app.select_slider, "input_tokens_slider").set_value(8192).run()
    assert named(app.number_input, "input_tokens").value == 8192
    named(app.number_input, "input_tokens").set_value(5000).run()
    assert named(app.select_slider, "input_tokens_slider").value == 5000
    assert address(app)["input_tokens"] == "5000"
    clean(app)


def test_a_moved_slider_moves_the_numbers_and_the_chart() -> None:
    app = open_app("speed")
    before, drawn = words(app), [chart.spec for chart in charts(app)]
    named(app.select_slider, "input_tokens_slider").set_value(16384).run()
    assert words(app) != before
    assert charts(app)[0].spec != drawn[0]


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("model", "openai/gpt-oss-20b", "model"),
        ("gpu", "l4", "gpu"),
        ("engine", "vllm", "engine"),
        ("weights", "awq-int4", "weights"),
        ("kv", "fp32", "kv"),
        ("dtype", "fp32", "dtype"),
    ],
)
def test_selects_write_the_catalogues_ids(key: str, value: str, field: str) -> None:
    app = open_app()
    named(app.selectbox, key).set_value(value).run()
    assert not app.exception
    assert address(app)[field] == value


@pytest.mark.parametrize(
    "field", ["gpus", "tp", "max_model_len", "max_num_seqs", "block_size", "gpu_memory_gib"]
)
def test_a_number_can_be_set_and_left_to_the_engine_again(field: str) -> None:
    app = open_app(**to_query({**DEFAULTS, **PRESETS[1].values}))
    named(app.number_input, field).set_value(1).run()
    assert address(app)[field] in {"1", "1.0"}
    named(app.number_input, field).set_value(None).run()
    assert field not in address(app)
    assert not app.exception


def test_a_default_engine_can_be_chosen_and_left_to_us() -> None:
    app = open_app()
    named(app.selectbox, "engine").set_value("").run()
    assert "engine" not in address(app)
    clean(app)


def test_shared_memory_has_a_size_of_its_own() -> None:
    app = open_app(gpu="apple-m4-max-40c", engine="llama.cpp", weights="gguf:Q4_K_M")
    clean(app)
    named(app.selectbox, "gpu_size").set_value(64).run()
    assert address(app)["gpu"] == "apple-m4-max-40c@64"
    assert named(app.selectbox, "gpu").value == "apple-m4-max-40c"
    clean(app)


def test_the_link_to_copy_restores_everything() -> None:
    app = open_app(lang="es", gpu="l4", concurrency="3")
    link = app.code[0].value
    assert link.startswith("http://localhost:8501/?v=1&")
    query = dict(part.split("=", 1) for part in link.partition("?")[2].split("&"))
    assert from_query(query).values == {**DEFAULTS, **OPENING, "gpu": "l4", "concurrency": 3}
    assert "lang" not in query  # whoever opens it reads it in their own language


def test_an_address_is_followed() -> None:
    values = {**DEFAULTS, **PRESETS[3].values, "max_num_seqs": 100, "input_tokens": 5001}
    app = open_app(**to_query(values))
    clean(app)
    assert named(app.selectbox, "model").value == values["model"]
    assert named(app.number_input, "gpus").value == 8
    assert named(app.number_input, "max_num_seqs").value == 100
    assert named(app.select_slider, "input_tokens_slider").value == 5001
    assert address(app) == to_query(values)


# --- What an address may get wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_wrong_value_gets_a_card_with_a_way_out(language: str) -> None:
    app = open_app(
        locale=language,
        v="1",
        model="google/gemma-3-12b-it",
        gpu="t4",
        input_tokens="-7",
        concurrency="3",
    )
    assert not app.exception
    said = words(app)
    assert text("refusal.title", language) in said
    assert text("field.input_tokens", language) in said.replace("\\", "")
    assert charts(app) == []
    assert address(app)["input_tokens"] == "-7"  # nothing is lost by reloading
    button(app, "reset-input_tokens").click().run()
    clean(app)
    assert charts(app)
    assert named(app.number_input, "concurrency").value == 3
    assert address(app)["input_tokens"] == str(DEFAULTS["input_tokens"])


def test_an_unknown_card_offers_close_ones() -> None:
    app = open_app(gpu="t44", concurrency="3")
    button(app, "use-gpu-t4").click().run()
    clean(app)
    assert address(app)["gpu"] == "t4"
    assert address(app)["concurrency"] == "3"


def test_setting_the_field_itself_settles_it_too() -> None:
    app = open_app(input_tokens="many")
    named(app.number_input, "input_tokens").set_value(300).run()
    clean(app)
    assert charts(app)


def test_several_wrong_values_get_a_card_each() -> None:
    app = open_app(gpu="t44", input_tokens="x", tp="0")
    assert {"reset-gpu", "reset-input_tokens", "reset-tp"} <= {found.key for found in app.button}


def test_a_refused_combination_gets_a_card_and_keeps_the_sidebar() -> None:
    app = open_app(
        v="1",
        model="google/gemma-3-12b-it",
        gpu="t4",
        engine="vllm",
        weights="gguf:Q4_K_M",
        kv="fp8",
    )
    assert not app.exception
    assert text("refusal.title", "en") in words(app)
    assert named(app.selectbox, "kv").value == "fp8"
    button(app, "reset-page").click().run()
    assert not app.exception


def test_a_format_without_a_kernel_is_marked_and_explained() -> None:
    app = open_app(v="1", model="google/gemma-3-12b-it", gpu="t4", engine="vllm", weights="mxfp8")
    options = named(app.selectbox, "weights").options
    assert any(option.endswith("✕") for option in options)
    assert not options[0].endswith("✕")
    assert re.search(r"can't run .*MXFP8", words(app))


# Markup that no backslash keeps from being markup.
MARKUP = re.compile(r"(?<!\\)(<img|\*\*bold|\[link\]\(|`code)")
MALICE = "<img src=x onerror=alert(1)>**bold** [link](http://evil.example) {model} `code`"


@pytest.mark.parametrize("path", ["fit", "speed"])
def test_a_strangers_words_stay_words(path: str) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 2048,
              "torch_dtype": "float16"}  # fmt: skip
    values = {**DEFAULTS, "gpu": "t4", "model": MALICE, "config": config, "input_tokens": 100}
    app = open_app(path, **to_query(values))
    clean(app)
    everything = "\n".join(block.proto.body for block in app.get("html"))
    assert "<img" not in everything
    assert "&lt;img" in everything or path == "speed"
    assert not re.search(MARKUP, " ".join(block.value for block in (*app.markdown, *app.caption)))
    for chart in charts(app):
        assert "<img" not in chart.spec


@pytest.mark.parametrize(
    "field", ["gpu", "model", "engine", "weights", "kv", "dtype", "input_tokens"]
)
def test_a_strangers_address_stays_words(field: str) -> None:
    app = open_app(**{field: MALICE})
    assert not app.exception
    assert not re.search(MARKUP, " ".join(block.value for block in (*app.markdown, *app.caption)))


# --- Presets, what-ifs, undo ------------------------------------------------------------------------------------------


def test_a_preset_is_one_click_and_one_undo() -> None:
    app = open_app(gpu="l4", concurrency="3")
    before = address(app)
    named(app.pills, "preset").set_value("gptoss_h100").run()
    clean(app)
    assert address(app) == to_query({**DEFAULTS, **PRESETS[4].values})
    button(app, "undo-button").click().run()
    clean(app)
    assert address(app) == before
    assert "undo-button" not in {found.key for found in app.button}


def test_a_later_change_ends_the_offer_to_undo() -> None:
    app = open_app()
    named(app.pills, "preset").set_value("gptoss_h100").run()
    app.run()  # a mere rerun doesn't
    assert "undo-button" in {found.key for found in app.button}
    named(app.selectbox, "gpu").set_value("l4").run()
    assert "undo-button" not in {found.key for found in app.button}
    assert address(app)["gpu"] == "l4"
    assert address(app)["model"] == "openai/gpt-oss-120b"


def test_what_was_applied_is_said_in_the_language_of_now() -> None:
    app = open_app()
    named(app.pills, "preset").set_value("gptoss_h100").run()
    named(app.button_group, "language").set_value("es").run()
    assert text("frame.applied", "es", what=text("preset.gptoss_h100", "es")) in words(app).replace(
        "\\", ""
    )
    app.session_state["undo"]["what"] = state.Sentence(
        "undo.calibration_changes", {"name": "mine"}, ("gpu", "kv")
    )
    app.run()
    assert text("field.kv", "es") in words(app)
    assert text("field.kv", "en") not in next(
        block.value for block in app.markdown if "mine" in block.value
    )


def test_the_preset_in_use_is_marked() -> None:
    app = open_app()
    assert named(app.pills, "preset").value == "gemma_t4"
    named(app.select_slider, "input_tokens_slider").set_value(4096).run()
    assert named(app.pills, "preset").value is None


def test_a_what_if_can_be_applied_and_undone() -> None:
    app = open_app()
    applied = next(found for found in app.button if (found.key or "").startswith("apply-"))
    applied.click().run()
    clean(app)
    assert address(app) != {}
    button(app, "undo-button").click().run()
    assert from_query(address(app)).values == {**DEFAULTS, **OPENING}


def test_a_usual_workload_sets_three_fields() -> None:
    app = open_app()
    named(app.selectbox, "workload").set_value("rag").run()
    clean(app)
    for field, value in WORKLOADS["rag"].items():
        assert named(app.number_input, field).value == value
    named(app.number_input, "input_tokens").set_value(777).run()
    assert named(app.selectbox, "workload").value == "custom"


# --- A model from its configuration -----------------------------------------------------------------------------------

SMALL = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
    "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16", "_name_or_path": "someone/a-model", "tie_word_embeddings": False,
}  # fmt: skip


def test_a_pasted_configuration_becomes_the_model() -> None:
    app = open_app()
    app.text_area(key="config_text").set_value(json.dumps(SMALL)).run()
    next(found for found in app.button if found.label == "Use it").click().run()
    clean(app)
    assert "someone/a-model" in words(app)
    assert from_query(address(app)).values["config"] == SMALL
    button(app, "undo-button").click().run()
    assert named(app.selectbox, "model").value == OPENING["model"]


def test_a_bad_paste_is_refused_beside_the_paste() -> None:
    app = open_app()
    app.text_area(key="config_text").set_value('{"model_type": ').run()
    next(found for found in app.button if found.label == "Use it").click().run()
    clean(app)
    assert charts(app)  # the scenario that was there still stands
    assert any("JSON" in block.value for block in app.markdown)
    assert address(app) == {}


def test_a_configuration_that_no_adapter_knows_is_refused_by_name() -> None:
    app = open_app(
        **to_query(
            {**DEFAULTS, "gpu": "t4", "model": "x", "config": {**SMALL, "model_type": "zebra9"}}
        )
    )
    assert not app.exception
    assert "zebra9" in words(app)


def test_a_long_configuration_isnt_in_the_link_and_the_page_says_so() -> None:
    app = open_app()
    noise = {**SMALL, **{f"note_{number}": hash((number, "y")) for number in range(2000)}}
    app.text_area(key="config_text").set_value(json.dumps(noise)).run()
    next(found for found in app.button if found.label == "Use it").click().run()
    clean(app)
    assert "config" not in address(app)
    assert text("sidebar.link_without_config", "en") in words(app)


# --- Language ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("locale", "lang", "spoken"), [
    ("es-MX", None, "es"), ("en-US", None, "en"), ("de-DE", None, "en"), ("en-US", "es", "es"), ("es-ES", "en", "en"),
    ("es-ES", "xx", "es"),
])  # fmt: skip
def test_the_language_is_the_addresss_else_the_browsers(
    locale: str, lang: str | None, spoken: str
) -> None:
    app = open_app(locale=locale, **({"lang": lang} if lang else {}))
    clean(app)
    assert text("fit.people", spoken) in words(app)


def test_switching_the_language_keeps_the_scenario() -> None:
    app = open_app(gpu="l4")
    named(app.button_group, "language").set_value("es").run()
    clean(app)
    assert text("fit.people", "es") in words(app)
    assert address(app)["lang"] == "es"
    assert address(app)["gpu"] == "l4"


# --- Visitors are apart -----------------------------------------------------------------------------------------------


def test_two_visitors_dont_meet() -> None:
    one, other = open_app(gpu="l4"), open_app()
    named(one.select_slider, "input_tokens_slider").set_value(8192).run()
    other.run()
    assert named(other.selectbox, "gpu").value == "t4"
    assert named(other.number_input, "input_tokens").value == OPENING["input_tokens"]


def test_a_fault_of_ours_is_said_calmly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret path")

    monkeypatch.setattr("planner.ui.pages.fit.headline", broken)
    app = open_app()
    assert not app.exception
    assert text("error.unexpected", "en") in words(app)
    assert "secret" not in words(app)
    assert "a secret path" in caplog.text
    assert named(app.selectbox, "gpu").value == "t4"


def test_what_may_be_reset_is_every_field() -> None:
    assert set(DEFAULTS) < set(state.RESETTABLE)


def test_a_value_that_is_none_gets_a_card_in_the_sidebar_too() -> None:
    app = open_app()
    app.session_state["values"] = {**app.session_state["values"], "kv": "As the compute dtype"}
    app.run()
    assert not app.exception
    button(app, "reset-sidebar").click().run()
    clean(app)
    assert named(app.selectbox, "kv").value == "auto"
