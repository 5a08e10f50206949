"""Measured memory, as engines logged it, against the budget: per engine and kind of model, each with its source."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

import pytest

from planner.architecture.cache import cache_bytes, cache_layout
from planner.architecture.resolve import architecture_of
from planner.architecture.totals import parameters
from planner.memory.activations import compute_buffer_bytes, profiled_activation_bytes
from planner.memory.budget import engine_printed_kv_tokens
from planner.memory.pool import engine_concurrency, engine_printed_tokens, pool_layout
from planner.quantity import GIB, MIB
from planner.scenario import Parallelism
from tests.memory.budgets import Card, budget_of, dense, settings_of

REPORT = (
    "https://github.com/llm-d-incubation/llm-d-planner/blob/"
    "875a4fd609eef0d70810ac27174ca9b42156d13a/accuracy/accuracy_report.md"
)
PROFILES_0_11 = "vLLM 0.11 memory profiles on H100, quoted in llm-d-planner's documentation"


@dataclass(frozen=True)
class Activation:
    """A profile run on an H100: torch's peak above the weights, as vLLM logged it (GiB)."""

    model: str
    tp: int
    measured_gib: float
    version: str = "0.19"
    source: str = REPORT


DENSE = (
    Activation("codellama/CodeLlama-7b-hf", 1, 0.77),
    Activation("google/gemma-2-2b", 1, 3.62),
    Activation("google/gemma-2-9b", 1, 3.65),
    Activation("google/gemma-2-27b", 1, 3.66),
    Activation("google/gemma-7b", 1, 3.63),
    Activation("ibm-granite/granite-3.1-8b-instruct", 1, 0.85),
    Activation("meta-llama/Llama-3.1-8B", 1, 1.89),
    Activation("meta-llama/Llama-3.1-8B", 4, 1.89),
    Activation("microsoft/phi-2", 1, 0.79),
    Activation("microsoft/phi-4", 1, 1.52),
    Activation("Qwen/Qwen2.5-7B-Instruct", 1, 2.21),
    Activation("Qwen/Qwen2.5-72B-Instruct", 2, 2.29),
    Activation("Qwen/Qwen3-8B", 1, 2.21),
    Activation("openai/gpt-oss-20b", 2, 2.87),
)
MIXTURES = (
    Activation("deepseek-ai/DeepSeek-V2-Lite", 1, 1.93),
    Activation("mistralai/Mixtral-8x7B-Instruct-v0.1", 2, 1.21),
    Activation("Qwen/Qwen3-30B-A3B", 1, 2.68),
    Activation("Qwen/Qwen1.5-MoE-A2.7B", 1, 2.47),
    Activation("meta-llama/Llama-4-Scout-17B-16E-Instruct", 4, 3.19),
)
VISION = (
    Activation("google/gemma-3-4b-it", 1, 3.89),
    Activation("google/gemma-3-12b-it", 1, 3.94),
    Activation("google/gemma-3-27b-it", 1, 3.99),
)
EARLIER = (
    Activation("Qwen/Qwen3-14B", 1, 5.64, "0.16"),
    Activation("openai/gpt-oss-120b", 1, 7.38, "0.11", PROFILES_0_11),
    Activation("meta-llama/Llama-3.1-8B", 1, 4.76, "0.11", PROFILES_0_11),
    Activation("Qwen/Qwen3-0.6B", 1, 5.56, "0.11", PROFILES_0_11),
    Activation("Qwen/Qwen3-32B", 2, 5.64, "0.11", PROFILES_0_11),
)


@pytest.mark.parametrize(
    ("family", "each", "mean"),
    [(DENSE, 0.05, 0.025), (MIXTURES, 0.05, 0.03), (VISION, 0.05, 0.02), (EARLIER, 0.03, 0.02)],
    ids=["dense", "mixtures", "vision", "before 0.17"],
)
def test_activations_by_family(family: tuple[Activation, ...], each: float, mean: float) -> None:
    errors = {}
    for row in family:
        settings = settings_of("vllm", row.version, 79.19)
        predicted = profiled_activation_bytes(
            architecture_of(row.model), settings, Parallelism(tp=row.tp), 8192.0, 2.0
        )
        errors[row.model, row.tp] = float(predicted) / GIB / row.measured_gib - 1.0
    assert max(map(abs, errors.values())) < each, errors
    assert statistics.mean(map(abs, errors.values())) < mean, errors


@dataclass(frozen=True)
class Pool:
    """What vLLM kept for the cache (GiB per card), given the weights that it logged as loaded."""

    model: str
    version: str
    usable_gib: float
    utilization: float
    loaded_gib: float
    measured_gib: float
    tp: int = 1
    source: str = REPORT


RTX_3090 = "https://github.com/vllm-project/vllm/issues/10517"
POOLS = (
    Pool("meta-llama/Llama-3.1-8B", "0.19", 79.19, 0.95, 14.99, 58.11),
    Pool("Qwen/Qwen2.5-7B-Instruct", "0.19", 79.19, 0.95, 14.25, 58.53),
    Pool("Qwen/Qwen3-14B", "0.16", 79.19, 0.95, 27.52, 41.94),
    Pool("Qwen/Qwen3-14B", "0.17", 79.19, 0.95, 27.52, 45.34),
    Pool("Qwen/Qwen3-14B", "0.18", 79.19, 0.95, 27.52, 45.23),
    Pool("openai/gpt-oss-20b", "0.11", 79.18, 0.90, 13.47, 50.28, 1, PROFILES_0_11),
    Pool("Qwen/Qwen3-32B", "0.11", 79.18, 0.90, 61.03, 4.45, 1, PROFILES_0_11),
    Pool("Qwen/Qwen3-32B", "0.11", 79.18, 0.90, 30.59, 34.49, 2, PROFILES_0_11),
    Pool("meta-llama/Llama-3.3-70B-Instruct", "0.11", 79.18, 0.90, 33.88, 32.0, 2, PROFILES_0_11),
    Pool("Qwen/Qwen3-0.6B", "0.11", 79.18, 0.90, 1.12, 64.45, 1, PROFILES_0_11),
    Pool("meta-llama/Llama-3.1-8B", "0.6.4", 23.58, 0.90, 14.9888, 3.81, 1, RTX_3090),
)


def test_pools_of_vllm() -> None:
    errors = {}
    for row in POOLS:
        model = architecture_of(row.model)
        settings = settings_of(
            "vllm", row.version, row.usable_gib, gpu_memory_utilization=row.utilization
        )
        # The loaded size holds the rotary table already.
        budget = budget_of(
            model,
            settings,
            row.usable_gib,
            row.loaded_gib,
            parallelism=Parallelism(tp=row.tp),
            max_model_len=20_000,
        )
        errors[row] = float(budget.kv_pool_bytes) / GIB / row.measured_gib - 1.0
        assert budget.kv_pool.low <= row.measured_gib * GIB <= budget.kv_pool.high, row
    assert statistics.median(map(abs, errors.values())) < 0.005, errors
    assert max(map(abs, errors.values())) < 0.03, errors


@dataclass(frozen=True)
class Printed:
    """Tokens that vLLM printed for a pool of a size that it printed too."""

    model: str
    version: str
    pool_gib: float
    max_model_len: int
    tokens: int
    tp: int = 1
    kv_bytes: float = 2.0
    block: int = 16
    tolerance: float = 0.001  # the pool is printed with two decimals
    source: str = ""


PRINTED = (
    Printed(
        "meta-llama/Llama-3.1-8B",
        "0.10.2",
        85.79,
        131072,
        702800,
        source="start-up log in a public repository, 2025-09",
    ),
    Printed(
        "zai-org/GLM-5-FP8",
        "0.19.1",
        32.11,
        202752,
        344192,
        tp=8,
        block=64,
        tolerance=0.004,
        source="start-up log of GLM-5.1-FP8 in a public repository, 2026",
    ),
    Printed(
        "Qwen/Qwen3-0.6B",
        "0.12",
        37.42,
        16000,
        350304,
        source="start-up log in a public repository, 2026-03",
    ),
    Printed(
        "meta-llama/Llama-3.1-70B-Instruct",
        "0.14.0rc2",
        38.71,
        131072,
        126832,
        source="start-up log in a public repository, 2026",
    ),
    Printed(
        "Qwen/Qwen3.6-35B-A3B",
        "0.24",
        5.98,
        131072,
        567978,
        kv_bytes=1.0,
        source="https://github.com/noonghunna/club-3090/issues/612",
    ),
    Printed(
        "Qwen/Qwen3.6-35B-A3B",
        "0.24",
        6.01,
        131072,
        569878,
        kv_bytes=1.0,
        source="https://github.com/noonghunna/club-3090/issues/652",
    ),
    Printed(
        "Qwen/Qwen3.5-27B",
        "0.24",
        4.99,
        131072,
        302921,
        tp=2,
        kv_bytes=1.0,
        source="https://github.com/mitchross/talos-argocd-proxmox/pull/1995 (Qwen3.8, same shape)",
    ),
)


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: f"{row.model} {row.version}")
def test_printed_tokens(row: Printed) -> None:
    model = architecture_of(row.model)
    settings = settings_of("vllm", row.version, 79.19, block_size=row.block)
    layout = cache_layout(model, row.kv_bytes, row.kv_bytes, 2.0, tp=row.tp, states=settings.states)
    pool = pool_layout(model, layout, settings)
    printed = engine_printed_tokens(pool, row.pool_gib * GIB, settings, row.max_model_len)
    assert printed == pytest.approx(row.tokens, rel=row.tolerance)


def test_a_hybrid_before_prefix_caching_of_states() -> None:
    # Qwen3-Next-80B-A3B on two H200, vLLM 0.11.1rc: 47,878,721,024 bytes in 7,162 blocks of 544 tokens and
    # four groups; 973,760 tokens and 14.77 sequences of 262,144 printed.
    model = architecture_of("Qwen/Qwen3-Next-80B-A3B-Instruct")
    settings = settings_of("vllm", "0.11.1rc", 139.81, tp=2)
    layout = cache_layout(model, 2.0, 2.0, 2.0, tp=2, states=settings.states)
    pool = pool_layout(model, layout, settings)
    assert pool.groups[0].block_tokens == 544
    assert 47_878_721_024 // pool.page_bytes == 7162
    assert engine_printed_tokens(pool, 47_878_721_024.0, settings, 262144) == 973_760
    held = engine_concurrency(pool, 47_878_721_024.0, settings, 262144)
    assert held == pytest.approx(14.77, abs=0.005)


def test_state_of_a_quantised_hybrid() -> None:
    # Qwen3.5-122B-A10B on a Jetson Thor, vLLM 0.18 to 0.19, 8-bit cache: 467,712 tokens and 11.79 sequences printed.
    model = architecture_of("Qwen/Qwen3.5-122B-A10B")
    settings = settings_of("vllm", "0.19", 70.0)
    pool = pool_layout(model, cache_layout(model, 1.0, 1.0, 2.0, states=settings.states), settings)
    assert engine_printed_tokens(pool, 21.43 * GIB, settings, 131072) == 467_712
    held = engine_concurrency(pool, 21.43 * GIB, settings, 131072)
    assert held == pytest.approx(11.79, abs=0.005)


def test_tokens_of_a_whole_card() -> None:
    # Llama-3.1-8B on an L40S, vLLM 0.8: 158,656 tokens (pull request 17122).
    card = Card("L40S", architecture="Ada Lovelace", compute_capability=(8, 9))
    settings = settings_of("vllm", "0.8.4", 44.39, card)
    model = architecture_of("meta-llama/Llama-3.1-8B")
    budget = budget_of(model, settings, 44.39, 2 * parameters(model) / GIB, max_model_len=32768)
    assert engine_printed_kv_tokens(budget, 32768) == pytest.approx(158_656, rel=0.05)


def test_sglang_holds_twice_as_much_at_a_larger_fraction() -> None:
    # Qwen3-235B-A22B-FP8 on four H100 at 0.93: 16.46 GiB and 367,404 tokens (vLLM issue 21348). 8-bit weights with
    # the embeddings in 16 bits are about 55.3 GiB a card.
    model = architecture_of("Qwen/Qwen3-235B-A22B")
    settings = settings_of("sglang", "0.4.9", 79.18, tp=4, gpu_memory_utilization=0.93)
    budget = budget_of(model, settings, 79.18, 55.3, parallelism=Parallelism(tp=4))
    assert budget.kv_pool_bytes / GIB == pytest.approx(16.46, rel=0.08)
    assert engine_printed_kv_tokens(budget, 40960) == pytest.approx(367_404, rel=0.08)
    assert budget.kv_pool.low <= 16.46 * GIB <= budget.kv_pool.high


# Vocabulary, hidden size, heads, context, ubatch, flash attention, MiB logged, source.
COMPUTE_BUFFERS = (
    (151936, 2048, 32, 4096, 512, False, 304.75, "ik_llama.cpp issue 380, Qwen3-30B-A3B"),
    (151936, 2048, 32, 4096, 512, True, 300.75, "ik_llama.cpp issue 380, Qwen3-30B-A3B"),
    (128256, 2560, 20, 4096, 512, False, 255.50, "ik_llama.cpp issue 387, BitNet 2B"),
    (151552, 6144, 48, 32768, 512, True, 308.00, "ik_llama.cpp pull request 370, GLM Z1 32B"),
    (151936, 4096, 64, 65536, 4096, True, 2432.02, "ik_llama.cpp issue 530, Qwen3-235B-A22B"),
    (163840, 7168, 64, 512, 512, False, 334.00, "ik_llama.cpp pull request 616, Kimi-K2"),
    (201088, 2880, 64, 262144, 1024, True, 796.0, "ollama issue 16416, gpt-oss-120b"),
    (248320, 5120, 24, 150000, 4096, True, 3976.0, "llama.cpp issue 23527, Qwen3.5-27B"),
)


@pytest.mark.parametrize("row", COMPUTE_BUFFERS, ids=lambda row: row[-1])
def test_compute_buffers_of_llama_cpp(
    row: tuple[int, int, int, int, int, bool, float, str],
) -> None:
    vocabulary, hidden, heads, context, batch, flash, measured, _ = row
    model = dense(hidden=hidden, vocabulary=vocabulary, heads=heads)
    settings = settings_of("llama.cpp", "b8000", 80.0, max_num_batched_tokens=batch)
    settings = replace(settings, flash_attention=flash)
    buffer = float(compute_buffer_bytes(model, settings, float(context))) / MIB
    assert buffer == pytest.approx(measured, rel=0.015)


# Qwen's own table for transformers on an H20: memory after 2,048 generated tokens (MiB).
QWEN_TABLE = "https://github.com/QwenLM/Qwen3/blob/7a2f61ffc7a20d47efcd2bf97f6f2bf52729042e/docs/source/getting_started/speed_benchmark.md"
TRANSFORMERS = (
    ("Qwen/Qwen3-0.6B", 1, 1394),
    ("Qwen/Qwen3-0.6B", 6144, 2066),
    ("Qwen/Qwen3-0.6B", 14336, 2963),
    ("Qwen/Qwen3-0.6B", 30720, 4755),
    ("Qwen/Qwen3-4B", 1, 7973),
    ("Qwen/Qwen3-4B", 30720, 12317),
    ("Qwen/Qwen3-32B", 1, 62751),
    ("Qwen/Qwen3-32B", 6144, 64583),
    ("Qwen/Qwen3-32B", 14336, 66632),
    ("Qwen/Qwen3-32B", 30720, 70728),
)


@pytest.mark.parametrize(("model_id", "input_tokens", "measured_mib"), TRANSFORMERS)
def test_weights_and_cache_of_transformers(
    model_id: str, input_tokens: int, measured_mib: int
) -> None:
    model = architecture_of(model_id)
    cache = cache_bytes(cache_layout(model, 2.0, 2.0, 2.0), float(input_tokens + 2048))
    predicted = (2 * parameters(model) + cache) / MIB
    assert predicted == pytest.approx(measured_mib, rel=0.025), QWEN_TABLE
