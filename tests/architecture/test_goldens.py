"""Architectures against independent counts: published totals, closed formulas, and transformers on the meta device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.architecture.cache import cache_bytes, cache_layout
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.totals import (
    active_parameters,
    head_flops_per_token,
    layer_linear_flops_per_token,
    parameters,
    parameters_by_part,
)
from planner.catalog.models import model_ids, model_profile
from planner.quantity import GIB, MIB
from tests.architecture.counting import cache_elements, multiplied_parameters
from tests.golden import cases_attention

GOLDENS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "models_attention.json").read_text()
)
VARIANTS: dict[str, Any] = GOLDENS["variants"]

# A sliding layer of transformers keeps one token less than its window: the next one completes it.
WINDOW_OFFSET = -1
# There it stores one more than the published window, which engines keep.
WIDENED_WINDOW = ("XiaomiMiMo/MiMo-V2-Flash",)
# Falcon's new architecture repeats its keys and values for every query head before it keeps them.
REPEATS_KEYS = ("falcon-new",)
# What their forward passes multiply isn't weights alone: streams are mixed, or every expert runs for every token.
MIXES_STREAMS = ("deepseek_v4", "gemma3n_text")
RUNS_ALL_EXPERTS = ("llama4_text",)
# Its head multiplies a narrower state than the hidden one.
NARROW_HEAD = ("opt-1",)

# PERF_MODEL §1.1 and the vendors' own model cards.
TOTALS = {
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "meta-llama/Llama-3.1-8B-Instruct": 8_030_261_248,
    "meta-llama/Meta-Llama-3.1-70B": 70_553_706_496,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "mistralai/Mixtral-8x7B-Instruct-v0.1": 46_702_792_704,
    "deepseek-ai/DeepSeek-V3": 671_026_419_200,
    "openai-community/gpt2": 124_439_808,
    "openai/gpt-oss-120b": 116_829_156_672,
    "google/gemma-3-12b-it": 12_187_325_040,
}
ACTIVE = {
    "Qwen/Qwen3-30B-A3B": 3_353_032_704,
    "mistralai/Mixtral-8x7B-Instruct-v0.1": 12_879_925_248,
    "deepseek-ai/DeepSeek-V3": 37_552_297_472,
}
# PERF_MODEL §1.3, 16-bit cache.
BYTES_PER_TOKEN = {
    "meta-llama/Llama-3.1-8B-Instruct": 131_072,
    "meta-llama/Meta-Llama-3.1-70B": 327_680,
    "Qwen/Qwen3-8B": 147_456,
    "Qwen/Qwen3-30B-A3B": 98_304,
    "mistralai/Mistral-Small-24B-Instruct-2501": 163_840,
    "deepseek-ai/DeepSeek-V3": 70_272,
}
# Totals on the Hub that count next-token-prediction layers, and no scales.
WITH_MTP = {
    "deepseek-ai/DeepSeek-R1": 684_489_845_504,
    "deepseek-ai/DeepSeek-V3.2": 685_355_329_792,
    "deepseek-ai/DeepSeek-V4-Flash": 290_944_616_402,
    "deepseek-ai/DeepSeek-V4-Pro": 1_598_839_674_782,
    "XiaomiMiMo/MiMo-7B-Base": 7_833_409_536,
    "zai-org/GLM-4.5": 358_337_791_296,
    "zai-org/GLM-5": 753_864_139_008,
    "zai-org/GLM-5.2": 753_329_940_480,
}
# Where the catalogue's figure isn't what its config describes.
OTHER_THAN_CONFIG = {
    "MiniMaxAI/MiniMax-M3": "the figure counts the vision tower, the config describes the language model alone",
    "Qwen/Qwen3-Embedding-8B": "the config names a language model, the checkpoint has no head",
    "moonshotai/Kimi-K3": "the figure counts 2,208 elements that no key of the config explains",
    "stepfun-ai/Step-3.7-Flash": "the figure was made with another vocabulary than the config states",
    "stepfun-ai/Step-3.7-Flash-FP8": "the figure was made with another vocabulary than the config states",
}


@pytest.mark.parametrize(("model", "total"), TOTALS.items())
def test_parameters_are_the_published_ones(model: str, total: int) -> None:
    assert parameters(architecture_of(model)) == total


def test_deepseek_v3_has_router_biases_that_frameworks_keep_as_buffers() -> None:
    deepseek = architecture_of("deepseek-ai/DeepSeek-V3")
    assert parameters(deepseek, buffers=False) == 671_026_404_352
    assert parameters(deepseek) - parameters(deepseek, buffers=False) == 58 * 256


@pytest.mark.parametrize(("model", "active"), ACTIVE.items())
def test_active_parameters_are_the_published_ones(model: str, active: int) -> None:
    assert active_parameters(architecture_of(model)) == active


@pytest.mark.parametrize(("model", "total"), WITH_MTP.items())
def test_next_token_prediction_layers_complete_the_hub_total(model: str, total: int) -> None:
    architecture = architecture_of(model)
    assert parameters(architecture, mtp=True) == total
    assert parameters(architecture) < total


def test_the_closed_formula_of_a_dense_layer() -> None:
    """h·H·d + 2·h·K·d + H·d·h + 3·h·I + 2·h per layer, V·h twice, one norm: PERF_MODEL §1.1."""
    layers, h, heads, kv, d, width, vocabulary = 32, 4096, 32, 8, 128, 14336, 128256
    layer = 2 * h * heads * d + 2 * h * kv * d + 3 * h * width + 2 * h
    expected = layers * layer + 2 * vocabulary * h + h
    assert parameters(architecture_of("meta-llama/Llama-3.1-8B-Instruct")) == expected


def test_the_closed_formula_of_latent_attention() -> None:
    """h·r_q + r_q + r_q·H·(d_n+d_r) + h·(r+d_r) + r + r·H·(d_n+d_v) + H·d_v·h: PERF_MODEL §1.1."""
    h, heads, r_q, r, d_r, d_n, d_v = 7168, 128, 1536, 512, 64, 128, 128
    expected = h * r_q + r_q + r_q * heads * (d_n + d_r) + h * (r + d_r) + r
    expected += r * heads * (d_n + d_v) + heads * d_v * h
    kind = architecture_of("deepseek-ai/DeepSeek-V3").layer_kinds[0]
    inner_norms = ("query_norm", "kv_norm")
    assert expected == sum(
        weight.elements
        for weight in kind.weights
        if weight.part == "attention" or weight.name in inner_norms
    )


@pytest.mark.parametrize("model", model_ids())
def test_catalogue_models_have_as_many_parameters_as_the_hub_counts(model: str) -> None:
    """The figure counts router biases as checkpoints do, or leaves them out as frameworks do."""
    figure = model_profile(model).figures.get("parameters")
    if figure is None:
        assert parameters(architecture_of(model)) > 0
        return
    counts = {parameters(architecture_of(model), buffers=flag) for flag in (True, False)}
    assert (int(figure.value) in counts) is (model not in OTHER_THAN_CONFIG)


@pytest.mark.parametrize(("model", "counted"), GOLDENS["parameters"].items())
def test_catalogue_models_have_as_many_parameters_as_transformers_builds(
    model: str, counted: int
) -> None:
    assert parameters(architecture_of(model), buffers=False) == counted


def test_nearly_every_catalogue_model_is_counted_by_transformers() -> None:
    """The rest needs remote code, another package, or is left out in tests/golden with its reason."""
    assert len(GOLDENS["parameters"]) > 0.85 * len(model_ids())


@pytest.mark.parametrize(("model", "each"), BYTES_PER_TOKEN.items())
def test_cache_bytes_per_token_are_the_published_ones(model: str, each: int) -> None:
    layout = cache_layout(architecture_of(model), 2.0, 2.0, 2.0)
    assert cache_bytes(layout, 1000.0) == 1000.0 * each
    assert layout.constant_bytes == 0.0


@pytest.mark.parametrize(
    ("tokens", "windowed", "everything"),
    [
        (2048, 448 * MIB, 768 * MIB),
        (32_768, 2368 * MIB, 12_288 * MIB),
        (131_072, 8.3125 * GIB, 48 * GIB),
    ],
)
def test_gemma_3_keeps_a_window_on_five_layers_of_six(
    tokens: float, windowed: float, everything: float
) -> None:
    gemma = architecture_of("google/gemma-3-12b-it")
    assert cache_bytes(cache_layout(gemma, 2.0, 2.0, 2.0), tokens) == windowed
    ignoring = cache_layout(gemma, 2.0, 2.0, 2.0, ignore_windows=True)
    assert cache_bytes(ignoring, tokens) == everything


@pytest.mark.parametrize(("model", "figures"), GOLDENS["caches"].items())
def test_whole_models_cache_what_transformers_caches(model: str, figures: dict[str, int]) -> None:
    architecture = architecture_of(model)
    offset = 0 if model in WIDENED_WINDOW else WINDOW_OFFSET
    ours = {
        tokens: cache_elements(architecture, int(tokens), window_offset=offset)
        for tokens in figures
    }
    assert ours == figures


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_have_as_many_parameters_as_transformers_builds(name: str) -> None:
    architecture = architecture_from_config(VARIANTS[name]["config"])
    assert parameters(architecture, buffers=False) == VARIANTS[name]["parameters"]


@pytest.mark.parametrize(
    "name", [name for name, figures in VARIANTS.items() if "cache_elements" in figures]
)
def test_variants_cache_what_transformers_caches(name: str) -> None:
    figures = VARIANTS[name]["cache_elements"]
    architecture = architecture_from_config(VARIANTS[name]["config"])
    config = VARIANTS[name]["config"]
    repeats = (
        config["num_attention_heads"] // config["num_kv_heads"]
        if name.startswith(REPEATS_KEYS)
        else 1
    )
    ours = {
        tokens: repeats * cache_elements(architecture, int(tokens), window_offset=WINDOW_OFFSET)
        for tokens in figures
    }
    assert ours == figures


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, figures in VARIANTS.items()
        if "flops" in figures and not name.startswith(MIXES_STREAMS) and name not in NARROW_HEAD
    ],
)
def test_variants_multiply_what_transformers_multiplies(name: str) -> None:
    """A forward pass over T tokens costs a·T + b·T², so two lengths give a: twice the multiplied parameters."""
    (short, at_short), (long, at_long) = (
        (int(tokens), flops) for tokens, flops in sorted(VARIANTS[name]["flops"].items())
    )
    assert long == 2 * short
    per_token = (4 * at_short - at_long) / long
    architecture = architecture_from_config(VARIANTS[name]["config"])
    all_experts = name.startswith(RUNS_ALL_EXPERTS)
    counted = multiplied_parameters(architecture, all_experts=all_experts)
    assert 2 * counted == pytest.approx(per_token, rel=1e-12)


@pytest.mark.parametrize(
    "model", ["Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b"]
)
def test_flops_per_token_are_twice_the_active_matrices(model: str) -> None:
    """2·N_mm,act: what's active less the embedding, norms, biases and other vectors."""
    architecture = architecture_of(model)
    flops = layer_linear_flops_per_token(architecture) + head_flops_per_token(architecture)
    parts = parameters_by_part(architecture)
    below = active_parameters(architecture) - parts["embedding"]
    assert 0.999 * 2 * below < flops < 2 * below
    assert flops == pytest.approx(2 * multiplied_parameters(architecture), rel=1e-12)


def test_every_case_has_its_figures() -> None:
    assert set(cases_attention.VARIANTS) == set(VARIANTS)
    assert set(cases_attention.WHOLE_MODELS) == set(GOLDENS["caches"])
