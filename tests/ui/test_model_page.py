"""The page on what a model is made of: its sentences, its charts against the totals, both languages."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest
from plotly.graph_objects import Figure

from planner.architecture.anatomy import (
    active_by_part,
    group_cache_bytes,
    group_layouts,
    layer_groups,
    segments,
    shortest_description,
)
from planner.architecture.cache import cache_bytes
from planner.architecture.resolve import architecture_of
from planner.architecture.totals import active_parameters, parameters_by_part
from planner.catalog.models import model_ids
from planner.catalog.served import may_serve
from planner.deployment import resolve
from planner.evaluation import evaluate
from planner.scenario import Scenario
from planner.ui.locale import LANGUAGES, catalogue, text
from planner.ui.locale.numbers import format_value
from planner.ui.permalink import DEFAULTS
from planner.ui.presets import OPENING
from tests.ui.driver import charts, clean, markup, open_app, words

ROOT = Path(__file__).resolve().parents[2]
# One of each: all alike, windows, experts after dense layers, recurrent with attention, shared caches, compressed
# caches, no regular order, an encoder with a decoder, an encoder alone, one without any cache that grows.
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "google/gemma-3-1b-it",
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "google/gemma-3n-E4B-it",
    "deepseek-ai/DeepSeek-V4-Flash",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    "openai/whisper-tiny",
    "BAAI/bge-m3",
    "RWKV/rwkv-5-world-3b",
)


def page(model: str, language: str = "en", **query: str):  # type: ignore[no-untyped-def]
    return open_app("model", locale=language, v="1", model=model, gpu="h200-sxm-141gb", **query)


# --- Layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "described"),
    [
        ("a", "a"),
        ("aaaa", "4a"),
        ("aaabaaabaaab", "3×(3a b)"),
        ("aaabaaabaa", "2×(3a b) 2a"),
        ("aabcdcdcd", "2a b 3×(c d)"),
        ("abab", "2×(a b)"),
        ("abc", "a b c"),
    ],
)
def test_layers_are_described_in_few_words(order: str, described: str) -> None:
    found = shortest_description([ord(letter) for letter in order])
    said = []
    for segment in found:
        runs = " ".join(
            f"{count if count > 1 else ''}{chr(value)}" for value, count in segment.runs
        )
        said.append(runs if segment.times == 1 else f"{segment.times}×({runs})")
    assert " ".join(said) == described


@pytest.mark.parametrize("model", model_ids())
def test_groups_and_segments_hold_every_layer_once(model: str) -> None:
    architecture = architecture_of(model)
    groups = layer_groups(architecture)
    assert sorted(place for group in groups for place in group.layers) == list(
        range(architecture.layers)
    )
    written_out = [
        index
        for segment in segments(architecture)
        for _ in range(segment.times)
        for index, count in segment.runs
        for _ in range(count)
    ]
    group_of = {place: index for index, group in enumerate(groups) for place in group.layers}
    assert written_out == [group_of[place] for place in range(architecture.layers)]


@pytest.mark.parametrize("model", model_ids())
def test_active_parameters_of_the_parts_sum_to_those_of_the_model(model: str) -> None:
    architecture = architecture_of(model)
    active, totals = active_by_part(architecture), parameters_by_part(architecture)
    assert sum(active.values()) == pytest.approx(active_parameters(architecture), rel=1e-12)
    assert all(-0.5 <= count <= totals[part] for part, count in active.items())


@pytest.mark.parametrize("model", [*MODELS, "openai/gpt-oss-20b"])
@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_caches_of_the_groups_sum_to_the_models(model: str, engine: str) -> None:
    if not may_serve(engine, architecture_of(model).model_type):
        engine = "transformers"
    scenario = Scenario(model=model, gpu="h200-sxm-141gb", engine=engine)
    deployment = resolve(scenario)
    tokens = np.array([0.0, 1.0, 127.0, 128.0, 129.0, 5000.0, 300_000.0])
    total = 0.0 * tokens
    for group in layer_groups(deployment.architecture):
        layouts = group_layouts(
            deployment.architecture,
            group,
            deployment.kv.key_bytes,
            deployment.kv.value_bytes,
            deployment.compute_bytes,
            ignore_windows=not deployment.settings.windowed_cache,
            states=deployment.settings.states,
        )
        total = total + group_cache_bytes(layouts, tokens)
    np.testing.assert_allclose(total, cache_bytes(deployment.model_layout, tokens), rtol=1e-12)


def test_every_mixer_has_a_name() -> None:
    """Those of the catalogue's models, and those that any adapter makes."""
    kinds = {
        name
        for model in model_ids()
        for group in layer_groups(architecture_of(model))
        for name in group.mixers
    }
    for path in sorted((ROOT / "planner" / "architecture").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            made = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {
                "Recurrence",
                "Composite",
            }
            if made and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
                kinds.add(str(node.args[0].value))  # type: ignore[attr-defined]
    assert len(kinds) > 20
    for language in LANGUAGES:
        assert {f"mixer.{kind}" for kind in kinds} - catalogue(language).keys() == set()


def test_the_sentence_names_the_pattern() -> None:
    said = {language: words(page("google/gemma-3-12b-it", language)) for language in LANGUAGES}
    assert "48 layers: 5 with sliding window, 1 with full attention, repeated 8 times" in said["en"]
    assert (
        "48 capas: 5 con ventana deslizante, 1 con atención completa, repetido 8 veces"
        in said["es"]
    )


def test_patterns_one_after_another_are_told_apart() -> None:
    said = {language: words(page("google/gemma-3-1b-it", language)) for language in LANGUAGES}
    assert "repeated 4 times; then 2 with sliding window" in said["en"]
    assert "repetido 4 veces; después 2 con ventana deslizante" in said["es"]


def test_a_model_without_a_head_has_none() -> None:
    shown = " ".join(words(page("BAAI/bge-m3")).split())
    assert f"{text('model.head', 'en')} {text('model.head_none', 'en')}" in shown


# --- The page ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("model", MODELS)
def test_every_kind_of_model_is_drawn(model: str, language: str) -> None:
    app = page(model, language)
    clean(app)
    found = charts(app)
    cached = evaluate(Scenario(model=model, gpu="h200-sxm-141gb")).memory
    keeps = float(cached.kv_bytes_per_sequence.mid) + float(cached.state_bytes_per_sequence.mid) > 0
    assert len(found) == (3 if keeps else 2)
    assert (text("model.no_cache", language) in words(app)) is not keeps
    for chart in found:
        assert len(chart.alt) > 15
        assert "<" not in chart.alt
        spec = json.loads(chart.spec)
        spec["layout"].pop("template", None)
        assert Figure(spec).data  # plotly's own check, which the pages skip
    findings = re.findall(r'<p class="hr-finding">(.+?)</p>', markup(app))
    assert all(re.search(r"\d", finding) for finding in findings)
    assert len(findings) == len(found)
    tables = [box for box in app.expander if box.label == text("chart.table", language)]
    assert len(tables) == len(found)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_says_sizes_files_and_sources(language: str) -> None:
    app = open_app("model", locale=language)
    said = words(app)
    answer = evaluate(Scenario.parse({**DEFAULTS, **OPENING}))
    assert format_value(answer.memory.weights_bytes.mid, "gib", language) in said
    assert format_value(answer.model.parameters.mid, "large", language) in said
    # The files hold 16 bits a weight, whatever format the scenario asks for.
    in_16_bits = 2.0 * float(answer.model.parameters.mid)
    assert f"{text('model.stored_size', language)} {format_value(in_16_bits, 'gib', language)}" in (
        re.sub(r"\s+", " ", said)
    )
    assert "262.208" in said if language == "es" else "262,208" in said
    assert re.search(r'<ul class="hr-sources"[^>]*><li><a href="https://', markup(app))


def test_every_figure_can_be_explained() -> None:
    app = page("Qwen/Qwen3-Next-80B-A3B-Instruct")
    figures = re.findall(r'<div class="hr-fig">', markup(app))
    explanations = [box for box in app.get("popover") if box.proto.popover.label == "Explain"]
    assert len(figures) == len(explanations) == 4


def test_no_word_of_the_other_language() -> None:
    for language, other in (("en", "es"), ("es", "en")):
        said = words(page("google/gemma-3n-E4B-it", language))
        for key in ("model.layers_title", "model.origin_title", "mixer.shared", "model.state"):
            assert text(key, language) in said
            assert text(key, other) not in said


def test_blocks_are_the_layers() -> None:
    """Each layer has one block, and layers that keep less are lower."""
    app = page("google/gemma-3-1b-it")
    traces = json.loads(charts(app)[0].spec)["data"]
    numbers = sorted(number for trace in traces for number in trace["x"])
    assert numbers == list(range(1, 27))
    height = {trace["name"]: set(trace["y"]) for trace in traces}
    assert all(len(heights) == 1 for heights in height.values())
    assert max(height["sliding window"]) < min(height["full attention"])
