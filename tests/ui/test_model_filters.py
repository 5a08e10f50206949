"""Filters beside the model's select: what they leave, and that they lose nothing."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from planner.architecture.resolve import architecture_of
from planner.architecture.totals import parameters
from planner.catalog.models import model_ids, model_profile
from planner.catalog.search import read_index
from planner.ui.locale import LANGUAGES, text
from planner.ui.model_filters import SIZES, WantedModels, matching, size_class
from tests.ui.driver import clean, go, named, open_app, words

OPENING = "google/gemma-3-12b-it"


def offered(app: AppTest) -> list[str]:
    return list(named(app.selectbox, "model").options)


# --- What they leave --------------------------------------------------------------------------------------------------


def test_without_filters_everything_is_left() -> None:
    assert matching(WantedModels()) == set(model_ids())


def test_each_filter_asks_the_profile() -> None:
    profiles = {id_: model_profile(id_) for id_ in model_ids()}
    gemmas = {id_ for id_, profile in profiles.items() if profile.family == "gemma"}
    assert matching(WantedModels(families=frozenset({"gemma"}))) == gemmas
    mit = {id_ for id_, profile in profiles.items() if profile.licence == "mit"}
    assert matching(WantedModels(licences=frozenset({"mit"}))) == mit
    newest = {id_ for id_, profile in profiles.items() if str(profile.released)[:4] == "2026"}
    assert matching(WantedModels(years=frozenset({"2026"}))) == newest
    both = {id_ for id_, profile in profiles.items() if profile.modality in ("omni", "audio-text")}
    assert matching(WantedModels(modalities=frozenset({"omni", "audio-text"}))) == both
    long = {
        id_
        for id_, profile in profiles.items()
        if profile.context_tokens is None or profile.context_tokens >= 262144
    }
    assert matching(WantedModels(min_context_tokens=262144)) == long
    assert all((gemmas, mit, newest, both, long))


def test_what_is_uncertain_can_be_asked_for() -> None:
    nobody_knows = matching(WantedModels(licences=frozenset({""})))
    assert nobody_knows == {id_ for id_ in model_ids() if model_profile(id_).licence is None}
    plain = matching(WantedModels(quantisations=frozenset({""})))
    assert "deepseek-ai/DeepSeek-V3" not in plain
    assert OPENING in plain
    assert "deepseek-ai/DeepSeek-V3" in matching(WantedModels(quantisations=frozenset({"fp8"})))


def test_sizes_are_those_of_the_models_themselves() -> None:
    """The four without a stated size among them; a stated one may lie some percent beside the count."""
    classes = [matching(WantedModels(sizes=frozenset({index}))) for index in range(len(SIZES) + 1)]
    assert sorted(id_ for found in classes for id_ in found) == sorted(model_ids())
    near = 0
    for index, found in enumerate(classes):
        for id_ in found:
            counted = parameters(architecture_of(id_))
            if any(abs(counted / size - 1.0) < 0.1 for size in SIZES):
                near += 1
                continue
            assert size_class(counted) == index, id_
    assert near < 30


def test_filters_are_all_to_be_met() -> None:
    wanted = WantedModels(families=frozenset({"qwen"}), years=frozenset({"2025"}))
    qwen, year = (
        WantedModels(families=wanted.families),
        WantedModels(years=wanted.years),
    )
    assert matching(wanted) == matching(qwen) & matching(year)


# --- On the page ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_filter_shortens_the_list_and_keeps_the_model(language: str) -> None:
    app = open_app(locale=language)
    assert len(offered(app)) == len(read_index("model"))
    named(app.multiselect, "models-family").set_value(["deepseek"]).run()
    clean(app)
    left = len(matching(WantedModels(families=frozenset({"deepseek"}))))
    assert len(offered(app)) == left + 1  # and the one in use
    assert named(app.selectbox, "model").value == OPENING
    told = text("filter.left", language, left=left, total=len(read_index("model")))
    assert told in words(app)
    assert any(
        box.label == text("filter.title_left", language, left=left, total=len(read_index("model")))
        for box in app.expander
    )


def test_nothing_left_still_offers_the_model_in_use() -> None:
    app = open_app()
    named(app.multiselect, "models-family").set_value(["deepseek"]).run()
    named(app.selectbox, "models-context").set_value(1_000_000).run()
    named(app.multiselect, "models-licence").set_value(["gemma"]).run()
    clean(app)
    assert len(offered(app)) == 1
    assert named(app.selectbox, "model").value == OPENING


def test_filters_stay_on_another_page_and_can_be_cleared() -> None:
    app = open_app()
    named(app.multiselect, "models-family").set_value(["llama"]).run()
    shorter = offered(app)
    go(app, "speed")
    clean(app)
    assert offered(app) == shorter
    named(app.button, "models-clear").click().run()
    assert len(offered(app)) == len(read_index("model"))
    assert named(app.multiselect, "models-family").value == []
    assert not [button for button in app.button if button.key == "models-clear"]


def test_a_model_chosen_within_a_filter_is_taken() -> None:
    app = open_app()
    named(app.multiselect, "models-family").set_value(["llama"]).run()
    named(app.selectbox, "model").set_value("meta-llama/Llama-3.1-8B-Instruct").run()
    clean(app)
    assert app.query_params["model"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert "Llama 3.1 8B" in words(app)


def test_every_option_has_a_name() -> None:
    for language in LANGUAGES:
        app = open_app(locale=language)
        for name in ("size", "year", "modality"):
            options = named(app.get("button_group"), f"models-{name}").options
            said = [str(getattr(option, "content", option)) for option in options]
            assert len(said) == len(set(said)) > 3
            assert not [word for word in said if re.fullmatch(r"\s*|[a-z]+-[a-z]+", word)]
