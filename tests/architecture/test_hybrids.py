"""Recurrent and hybrid models: parameters, cache, state and the work of their recurrences."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.architecture.cache import CacheLayout, cache_bytes, cache_layout
from planner.architecture.mixers import Attention, Composite, Recurrence
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.spec import Architecture, LayerKind, Part
from planner.architecture.totals import (
    active_parameters,
    layer_linear_flops_per_token,
    linear_flops,
    parameters,
    parameters_by_part,
    score_flops,
)
from planner.catalog.accelerators import accelerator
from planner.catalog.engine_profiles import COMPUTE, StateRule, engine
from planner.catalog.engines import engine_settings
from planner.catalog.models import model_ids, model_profile
from planner.deployment import resolve
from planner.errors import InvalidConfig
from planner.quantity import KIB, MIB
from planner.scenario import Scenario

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "models_other.json").read_text())
VARIANTS: dict[str, dict[str, Any]] = GOLDEN["hybrid_variants"]
WHOLE: dict[str, dict[str, Any]] = GOLDEN["caches"]
FAMILIES = (
    "bamba",
    "falcon_h1",
    "granitemoehybrid",
    "kimi_linear",
    "lfm2",
    "lfm2_moe",
    "lfm2_vl",
    "mamba",
    "mamba2",
    "minimax_m1",
    "minimax_text_01",
    "nemotron_h",
    "qwen3_5",
    "qwen3_5_moe",
    "qwen3_5_moe_text",
    "qwen3_5_text",
    "qwen3_next",
    "zamba2",
)


def elements(architecture: Architecture) -> CacheLayout:
    """transformers' cache, one byte an element of key, value and convolution state, four of each recurrent one."""
    return cache_layout(
        architecture, 1.0, 1.0, 1.0, states=engine("transformers").ranges[-1].states
    )


def recurrences(architecture: Architecture) -> list[Recurrence]:
    """Every recurrent mixer, in order of layers."""
    return [
        mixer
        for index in architecture.layer_order
        for mixer in architecture.layer_kinds[index].mixers
        if isinstance(mixer, Recurrence)
    ]


# --- Against transformers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", sorted(VARIANTS))
def test_small_configurations_have_the_parameters_that_transformers_builds(key: str) -> None:
    architecture = architecture_from_config(VARIANTS[key]["config"])
    assert parameters(architecture, buffers=False) == VARIANTS[key]["parameters"]


@pytest.mark.parametrize("key", sorted(key for key in VARIANTS if "recurrent_gemma" not in key))
def test_small_configurations_have_the_cache_and_state_that_transformers_keeps(key: str) -> None:
    architecture = architecture_from_config(VARIANTS[key]["config"])
    layout = elements(architecture)
    for tokens, kept in VARIANTS[key]["cache"].items():
        assert cache_bytes(layout, float(tokens)) - layout.constant_bytes == kept["kv"]
        assert layout.state_bytes == 4 * kept["recurrent"] + kept["convolution"]


@pytest.mark.parametrize("key", sorted(key for key in VARIANTS if "recurrent_gemma" in key))
def test_griffin_keeps_a_window_of_keys_and_one_state_per_channel(key: str) -> None:
    config = VARIANTS[key]["config"]
    architecture = architecture_from_config(config)
    layout = elements(architecture)
    kept = VARIANTS[key]["cache"]
    assert cache_bytes(layout, 8.0) - layout.constant_bytes == kept["8"]["kv"]
    # Beyond the window transformers keeps one position less than the window.
    window = config["attention_window_size"]
    beyond = cache_bytes(layout, 100.0) - layout.constant_bytes
    assert beyond == kept["100"]["kv"] * window / (window - 1)
    # Its state lives in the layers, not in the cache: a float32 and k − 1 inputs per channel.
    width = config.get("lru_width", config["hidden_size"])
    each = width * (4 + config.get("conv1d_width", 4) - 1)
    assert layout.state_bytes == len(recurrences(architecture)) * each


@pytest.mark.parametrize("model", sorted(WHOLE))
def test_models_have_the_cache_and_state_that_transformers_keeps(model: str) -> None:
    architecture = architecture_of(model)
    layout = elements(architecture)
    for tokens, kept in WHOLE[model]["tokens"].items():
        assert cache_bytes(layout, float(tokens)) - layout.constant_bytes == kept["kv"]
        assert layout.state_bytes == 4 * kept["recurrent"] + kept["convolution"]
    dtypes = {
        state.dtype
        for mixer in recurrences(architecture)
        for state in mixer.states
        if state.dtype is not None
    }
    assert sorted(dtypes) == WHOLE[model]["recurrent_dtypes"]


@pytest.mark.measure
@pytest.mark.slow
def test_the_file_holds_what_transformers_says_today() -> None:
    from tests.golden import generate_other

    assert json.loads(json.dumps(generate_other.figures())) == GOLDEN


# --- Against published figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [model for model in model_ids() if model_profile(model).config["model_type"] in FAMILIES],
)
def test_catalogue_models_have_their_stated_parameters(model: str) -> None:
    figures = model_profile(model).figures
    architecture = architecture_of(model)
    counted = {parameters(architecture), parameters(architecture, buffers=False)}
    stated = figures.get("parameters")
    assert stated is None or stated.value in counted


@pytest.mark.parametrize(
    ("model", "published"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 81_324_862_720),
        ("Qwen/Qwen3.5-9B", 9_653_104_368),
        ("Qwen/Qwen3.5-27B", 27_781_427_952),
        ("Qwen/Qwen3.5-397B-A17B", 403_397_928_944),
        ("Qwen/Qwen3.8-2.4T-A95B", 2_446_182_725_504),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 123_611_012_096),
        ("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 560_524_578_816),
    ],
)
def test_checkpoints_with_prediction_layers_have_their_published_total(
    model: str, published: int
) -> None:
    assert parameters(architecture_of(model), mtp=True, buffers=False) == published


@pytest.mark.parametrize(
    ("model", "stated"),
    [
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 12e9),
        ("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 55e9),
        ("ibm-granite/granite-4.0-h-small", 9e9),
        ("Qwen/Qwen3.5-397B-A17B", 17e9),
        ("MiniMaxAI/MiniMax-Text-01", 45.9e9),
        ("LiquidAI/LFM2-8B-A1B", 1.5e9),
    ],
)
def test_active_parameters_agree_with_what_vendors_state(model: str, stated: float) -> None:
    """Vendors round, and leave the embedding tables out or in: the figure lies between the two counts."""
    architecture = architecture_of(model)
    active = active_parameters(architecture)
    tables = architecture.vocabulary_size * architecture.hidden_size * (2 - architecture.tied)
    assert 0.98 * (active - tables) <= stated <= 1.03 * active


def test_qwen3_next_caches_24_kib_a_token_and_a_constant_state() -> None:
    architecture = architecture_of("Qwen/Qwen3-Next-80B-A3B-Instruct")
    layout = cache_layout(architecture, 2.0, 2.0, 2.0)
    assert cache_bytes(layout, 1.0) - layout.constant_bytes == 24 * KIB
    assert layout.state_bytes / MIB == pytest.approx(73.7, abs=0.05)
    halved = cache_layout(architecture, 2.0, 2.0, 2.0, states=StateRule(COMPUTE))
    assert halved.state_bytes / MIB == pytest.approx(37.7, abs=0.05)


@pytest.mark.parametrize(
    ("engine_id", "mib"), [("transformers", 74.25), ("vllm", 37.6875), ("llama.cpp", 75.375)]
)
def test_qwen3_nexts_state_as_each_engine_keeps_it(engine_id: str, mib: float) -> None:
    """36 layers of 32 heads of 128 × 128, and of 8,192 channels the last three inputs, or four with transformers."""
    scenario = Scenario.parse(
        {
            "model": "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "gpu": "h200-sxm-141gb",
            "gpus": 2,
            "engine": engine_id,
            "weights": "gguf:Q4_K_M" if engine_id == "llama.cpp" else "native",
        }
    )
    assert resolve(scenario).model_layout.state_bytes == mib * MIB


@pytest.mark.parametrize(
    ("engine_id", "bytes_each"), [("vllm", 4), ("transformers", 6), ("llama.cpp", 8)]
)
def test_lfm2_keeps_nothing_but_inputs_of_convolutions(engine_id: str, bytes_each: int) -> None:
    """Two of three inputs in 16 bits, all three with transformers, two in 32 with llama.cpp: ten layers of 2,048."""
    scenario = Scenario.parse(
        {
            "model": "LiquidAI/LFM2-1.2B",
            "gpu": "l4",
            "engine": engine_id,
            "weights": "gguf:Q4_K_M" if engine_id == "llama.cpp" else "native",
        }
    )
    assert resolve(scenario).model_layout.state_bytes == 10 * 2048 * bytes_each


def test_qwen35_9b_is_what_llama_cpp_prints() -> None:
    """llama-cpp-python issue 78: R (f32) 2.25 MiB and S (f32) 48 MiB for one sequence."""
    states = engine("llama.cpp").ranges[-1].states
    model = architecture_of("Qwen/Qwen3.5-9B")
    assert cache_layout(model, 2.0, 2.0, 2.0, states=states).state_bytes == 50.25 * MIB


def test_nemotron_3_super_carries_a_million_elements_a_layer() -> None:
    mixers = recurrences(architecture_of("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"))
    assert len(mixers) == 40
    for mixer in mixers:
        assert mixer.states[0].elements == 1_048_576
        assert sum(state.elements for state in mixer.states[1:]) == 3 * (8192 + 2 * 8 * 128)


def test_layers_stand_in_their_published_order() -> None:
    nano = architecture_of("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    pattern = model_profile("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16").config[
        "hybrid_override_pattern"
    ]
    read = "".join(_letter(nano.layer_kinds[index]) for index in nano.layer_order)
    assert read == pattern
    text = architecture_of("MiniMaxAI/MiniMax-Text-01")
    full = [
        index
        for index, kind in enumerate(text.layer_order)
        if isinstance(text.layer_kinds[kind].mixers[0], Attention)
    ]
    assert full == list(range(7, 80, 8))


def _letter(kind: LayerKind) -> str:
    if kind.mixers:
        return "M" if isinstance(kind.mixers[0], Recurrence) else "*"
    return "E" if kind.experts else "-"


# --- Blocks that several layers share -------------------------------------------------------------------------------


def test_a_shared_block_is_stored_once_and_computed_at_each_use() -> None:
    architecture = architecture_of("Zyphra/Zamba2-7B-Instruct")
    stored = [
        index
        for index in architecture.layer_order
        if any(weight.name == "block_norm" for weight in architecture.layer_kinds[index].weights)
    ]
    assert len(stored) == 2
    block = tuple(
        weight
        for weight in architecture.layer_kinds[stored[0]].weights
        if weight.name in ("query", "key", "value", "gate", "up", "down")
        or (weight.name == "output" and weight.part is Part.ATTENTION)
    )
    hidden, wide = 3584, 14336
    assert linear_flops(block) == 2 * (3 * (2 * hidden) ** 2 + 2 * hidden**2 + 3 * hidden * wide)
    again = [
        mixer.recurrent_flops
        for index in architecture.layer_order
        for mixer in architecture.layer_kinds[index].mixers
        if isinstance(mixer, Composite)
    ]
    assert again == [linear_flops(block)] * 11


# --- Work and sharding ----------------------------------------------------------------------------------------------


def test_work_of_recurrences_is_linear_in_tokens_and_in_the_total() -> None:
    architecture = architecture_of("state-spaces/mamba-130m-hf")
    each = sum(mixer.recurrent_flops for mixer in recurrences(architecture))
    assert score_flops(architecture, 7.0, 0.0, phase="prefill") == 7 * each
    assert score_flops(architecture, 1.0, 5000.0, phase="decode") == each
    # A small part of the matrix products: 16 state elements for each of 1,536 channels.
    assert 0 < each < 0.05 * layer_linear_flops_per_token(architecture)


@given(
    model=st.sampled_from(sorted(WHOLE)),
    tp=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_ranks_together_hold_at_least_the_whole_state(model: str, tp: int) -> None:
    architecture = architecture_of(model)
    whole = cache_layout(architecture, 2.0, 2.0, 2.0)
    rank = cache_layout(architecture, 2.0, 2.0, 2.0, tp=tp)
    assert whole.state_bytes / tp <= rank.state_bytes * (1 + 1e-12)
    assert rank.state_bytes <= whole.state_bytes


# --- What is refused, and what is noted -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "change", "named"),
    [
        ("nemotron_h-0", {"hybrid_override_pattern": "M-M*MX"}, "hybrid_override_pattern"),
        ("nemotron_h-0", {"num_hidden_layers": 7}, "num_hidden_layers"),
        ("nemotron_h-2", {"layers_block_type": ["mamba", "convolution"]}, "layers_block_type[1]"),
        ("nemotron_h-0", {"num_experts_per_tok": 9}, "num_experts_per_tok"),
        ("qwen3_next-1", {"layer_types": ["full_attention"]}, "layer_types"),
        ("falcon_h1-0", {"mamba_d_head": 5}, "mamba_d_head"),
        ("zamba2-0", {"n_mamba_heads": 7}, "n_mamba_heads"),
        ("kimi_linear-2", {"num_hidden_layers": 10}, "linear_attn_config.kda_layers"),
        ("lfm2-0", {"num_attention_heads": 3}, "num_key_value_heads"),
        ("recurrent_gemma-0", {"lru_width": 97}, "lru_width"),
        ("minimax-0", {"num_key_value_heads": 3}, "num_key_value_heads"),
        ("mamba-0", {"hidden_size": None}, "hidden_size"),
    ],
)
def test_a_contradiction_is_refused_by_its_key(
    key: str, change: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        architecture_from_config({**VARIANTS[key]["config"], **change})
    assert refusal.value.values["key"] == named


def test_a_model_without_positions_says_that_nothing_limits_its_context() -> None:
    assert "no_context_limit" in architecture_of("state-spaces/mamba-130m-hf").notes
    stated = {**VARIANTS["mamba-0"]["config"], "max_position_embeddings": 2048}
    architecture = architecture_from_config(stated)
    assert architecture.max_context_tokens == 2048
    assert "no_context_limit" not in architecture.notes


@cache
def _rwkv() -> Architecture:
    return architecture_of("RWKV/rwkv-5-world-3b")


def test_rwkv_has_no_cache_and_a_head_of_its_own() -> None:
    layout = cache_layout(_rwkv(), 2.0, 2.0, 2.0)
    assert layout.groups == ()
    # 40 heads of 64 × 64 in float32, and the last input of two blocks, in 32 layers.
    assert layout.state_bytes == 32 * (40 * 64 * 64 * 4 + 2 * 2560 * 2)
    assert parameters_by_part(_rwkv())[Part.HEAD] == 65_536 * 2560
    # Published as 3B: 2 · V·h + layers of 5·h² + 2·h·I + h² and their vectors.
    assert parameters(_rwkv()) == pytest.approx(3.06e9, rel=2e-3)


@pytest.mark.parametrize(
    ("engine", "version", "model", "each"),
    [
        ("vllm", "0.11", "Qwen/Qwen3-Next-80B-A3B-Instruct", 2),
        ("vllm", "0.31", "Qwen/Qwen3-Next-80B-A3B-Instruct", 2),
        ("vllm", "0.19", "Qwen/Qwen3.5-122B-A10B", 4),  # its configuration says so
        ("vllm", "0.19", "moonshotai/Kimi-Linear-48B-A3B-Instruct", 4),
        ("vllm", "0.19", "tiiuae/Falcon-H1-34B-Instruct", 2),
        ("vllm", "0.12", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 2),
        ("vllm", "0.13", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 4),
        ("vllm", "0.19", "nvidia/Nemotron-H-8B-Base-8K", 2),  # states nothing
        ("vllm", "0.22", "nvidia/Nemotron-H-8B-Base-8K", 4),
        (
            "vllm",
            "0.19",
            "deepseek-ai/DeepSeek-V4-Flash",
            4,
        ),  # no recurrence: what its compressor has pending
        ("sglang", "0.5.9", "Qwen/Qwen3-Next-80B-A3B-Instruct", 4),
        ("tensorrt-llm", "1.2", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 2),
        ("tensorrt-llm", "1.3", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 4),
        ("llama.cpp", "b8000", "Qwen/Qwen3-Next-80B-A3B-Instruct", 4),
        ("transformers", "5.24", "Qwen/Qwen3-Next-80B-A3B-Instruct", 4),
    ],
)
def test_recurrent_state_is_kept_in_the_engines_type(
    engine: str, version: str, model: str, each: int
) -> None:
    architecture = architecture_of(model)
    card = accelerator("h100-sxm-80gb")
    states = engine_settings(engine, version, 79.0, card).states
    layout = cache_layout(architecture, 2.0, 2.0, 2.0, states=states)
    tensors = [
        (tensor, count)
        for kind, count in architecture.kind_counts
        for mixer in kind.mixers
        for tensor in mixer.states
        if tensor.recurrent
    ]
    recurrent = sum(tensor.elements * count for tensor, count in tensors if tensor.dtype)
    past = sum(tensor.elements * count for tensor, count in tensors if not tensor.dtype)
    # Of four taps three inputs in 16 bits; transformers keeps all four, llama.cpp three in 32 bits.
    inputs = {"transformers": 2 * past * 4 / 3, "llama.cpp": 4 * past}.get(engine, 2 * past)
    assert layout.state_bytes == each * recurrent + inputs
