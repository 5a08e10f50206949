"""Every model type's default configuration against the committed witnesses: transformers on the meta device."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from planner.architecture.adapters import WRAPPERS
from planner.architecture.adapters.text_defaults import TEXT_DEFAULTS
from planner.architecture.config_folder import WITNESSES, read_witnesses
from planner.architecture.coverage import Coverage, agreeing, compare, coverage, held_bytes
from planner.architecture.coverage_report import counts, coverage_json
from planner.architecture.resolve import architecture_from_config
from planner.architecture.totals import parameters
from planner.cli import main
from planner.errors import UnsupportedArchitecture
from tests.golden import defaults_cases as cases

FIGURES: dict[str, Any] = read_witnesses()
ROWS: list[Coverage] = coverage(FIGURES)

# Each type that isn't equal; anything else must be.
OTHER_PARAMETERS = {
    "causal": {
        "blt",
        "gemma3n",
        "inkling2_loop_text",
        "inkling2_text",
        "longcat_flash",
        "qwen4_exp",
        "qwen4_exp_text",
        "reformer",
    },
    "image": {
        "apertus1p5",
        "chameleon",
        "diffusion_gemma",
        "emu3",
        "evolla",
        "fast_vlm",
        "gemma3n",
        "inkling2",
        "inkling2_loop",
        "inkling_mm_model",
        "janus",
        "perception_lm",
        "pi0",
        "qwen4_exp",
    },
}
OTHER_CACHE = {"florence2", "openai-gpt", "xmod"}
OTHER_FLOPS = {
    "electra",
    "florence2",
    "gemma3n_text",
    "prophetnet",
    "rembert",
    "zaya",
}


def described() -> Iterator[tuple[str, str]]:
    for row in ROWS:
        if row.parameters.equal is not None and row.parameters.reason != "unsupported_architecture":
            yield row.task, row.model_type


def row_of(task: str, model_type: str) -> Coverage:
    return compare(task, model_type, FIGURES[task][model_type])


@pytest.mark.parametrize(("task", "model_type"), list(described()))
def test_a_types_default_is_what_transformers_makes_of_it(task: str, model_type: str) -> None:
    row = row_of(task, model_type)
    assert (row.parameters.equal is not True) == (model_type in OTHER_PARAMETERS[task])
    assert (row.cache.equal is False) == (model_type in OTHER_CACHE)
    assert (row.flops.equal is False) == (model_type in OTHER_FLOPS)


def test_enough_types_are_equal() -> None:
    assert len(agreeing(ROWS, "parameters", "causal")) >= 188
    assert len(agreeing(ROWS, "parameters", "image")) >= 86
    kept = [row for row in ROWS if row.keeps_cache]
    assert len(agreeing(kept, "cache")) >= 200
    assert len(agreeing(kept, "cache", "causal")) >= 160
    assert len(agreeing(ROWS, "flops")) >= 200


def test_every_type_that_is_not_equal_is_listed() -> None:
    for task, listed in OTHER_PARAMETERS.items():
        types = set(FIGURES[task])
        assert types - agreeing(ROWS, "parameters", task) == listed


def test_a_type_without_an_adapter_is_refused_by_name() -> None:
    refused = [row for row in ROWS if row.parameters.reason == "unsupported_architecture"]
    assert refused
    for row in refused:
        with pytest.raises(UnsupportedArchitecture) as refusal:
            architecture_from_config(FIGURES[row.task][row.model_type]["config"])
        assert row.model_type.split("_")[0] in str(refusal.value.values)


def test_the_configurations_are_those_that_were_hashed() -> None:
    assert WITNESSES.stat().st_size < 2_000_000
    for task in cases.TASKS:
        for model_type, figures in FIGURES[task].items():
            if "config" in figures:
                text = json.dumps(figures["config"], sort_keys=True, separators=(",", ":"))
                assert figures["sha256"] == hashlib.sha256(text.encode()).hexdigest(), model_type


def test_caches_were_asked_at_the_edges_of_their_windows() -> None:
    edges = 0
    for row in ROWS:
        figures = FIGURES[row.task][row.model_type]
        tokens = {int(count) for count in figures.get("cache", ())}
        assert not tokens or {16, 128} <= tokens
        section = figures.get("config", {}).get("text_config") or figures.get("config", {})
        window = section.get("sliding_window")
        if tokens and isinstance(window, int) and 16 < window <= 4096 and max(tokens) > 128:
            assert {window - 1, window, window + 1} <= tokens
            edges += 1
    assert edges >= 20


def test_a_window_is_seen_in_what_is_held() -> None:
    figures = FIGURES["causal"]["gpt_oss"]
    model = architecture_from_config(figures["config"])
    window = figures["config"]["sliding_window"]
    each = 2 * 2 * figures["config"]["num_key_value_heads"] * figures["config"]["head_dim"]
    layers = figures["config"]["num_hidden_layers"]
    for tokens in (window - 1, window, window + 1):
        sliding = min(tokens, window - 1)
        expected = each * layers // 2 * (tokens + sliding)
        assert figures["cache"][str(tokens)]["kv"] == expected
        assert held_bytes(model, tokens) == (expected, 0, 0)


# Wrappers whose own default for the text differs from that of the text's class.
OWN_TEXT = {
    "got_ocr2",
    "lighton_ocr",
    "mistral3",
    "paligemma",
    "pp_chart2table",
    "pp_formulanet",
}


def _leaving_text_out() -> Iterator[str]:
    for model_type, wrapper in WRAPPERS.items():
        config = FIGURES["image"].get(model_type, {}).get("config", {})
        section = config.get("text_config")
        if wrapper.text_type in TEXT_DEFAULTS and section and model_type not in OWN_TEXT:
            yield model_type


@pytest.mark.parametrize("model_type", list(_leaving_text_out()))
def test_a_text_section_that_only_names_its_type_means_its_defaults(model_type: str) -> None:
    figures = FIGURES["image"][model_type]
    config = {**figures["config"]}
    section = config["text_config"]
    filled = cases.FILLED_IN.get(model_type, {}).get("text_config", {})
    named = {*filled, "model_type", "max_position_embeddings"} & set(section)
    kept = {key: section[key] for key in named}
    config["text_config"] = kept
    assert parameters(architecture_from_config(config), buffers=False) == figures["parameters"]


def test_the_command_prints_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--coverage", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == coverage_json(ROWS)


def test_counts_add_up() -> None:
    for task, one in counts(ROWS).items():
        assert one.types == len(FIGURES[task])
        assert one.parameters == len(agreeing(ROWS, "parameters", task))
        assert one.cache_kept <= one.cache == len(agreeing(ROWS, "cache", task))
        assert one.flops == len(agreeing(ROWS, "flops", task))


@pytest.mark.parametrize(
    ("changes", "figure"),
    [
        ({"parameters": 1}, "parameters"),
        ({"cache": {"16": {"kv": 1, "recurrent": 0, "convolution": 0}}}, "cache"),
        ({"flops": {"128": 1}}, "flops"),
    ],
)
def test_a_wrong_figure_is_found(changes: dict[str, Any], figure: str) -> None:
    row = compare("causal", "llama", {**FIGURES["causal"]["llama"], **changes})
    assert getattr(row, figure).equal is False
    assert getattr(row, figure).reason == "differs"
