"""Start-up logs of hybrid models against the pool, block by block; what else was logged is in profiles/measurements."""

from __future__ import annotations

import pytest

from planner.architecture.cache import cache_layout
from planner.architecture.resolve import architecture_of
from planner.memory.pool import engine_concurrency, engine_printed_tokens, pool_layout
from planner.quantity import GIB
from tests.memory.budgets import settings_of


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
