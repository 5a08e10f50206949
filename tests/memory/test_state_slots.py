"""Slots of recurrent state: SGLang's division of a hybrid's memory, checked against what its logs print."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.engine_profiles import engine
from planner.deployment import Deployment, resolve
from planner.evaluation import evaluate
from planner.memory.budget import (
    engine_printed_kv_tokens,
    max_concurrency,
    max_context,
    pool_tokens,
)
from planner.memory.fit import VERDICTS, Verdict, fit_level
from planner.memory.pool import (
    PoolLayout,
    engine_printed_tokens,
    held_sequences,
    longest_sequence,
    pool_layout,
    sequence_bytes,
    sequence_room,
    sequences_bytes,
)
from planner.memory.state_slots import (
    StateSlots,
    cache_part_bytes,
    pool_for,
    sequences_with_state,
    slot_count,
    state_part_bytes,
)
from planner.memory_limits import budget_at, budget_of
from planner.quantity import GIB, MIB
from planner.scenario import Scenario
from planner.sweeps import fit_map
from tests.memory.budgets import settings_of

HYBRIDS = {
    "next": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "gated": "Qwen/Qwen3.5-27B",
}


def scenario(model: str, version: str, **more: object) -> Scenario:
    values = {"model": model, "engine": "sglang", "engine_version": version, "gpu": "h100-sxm-80gb"}
    return Scenario.parse({**values, **more})


def pool_of(model: str, version: str, **more: object) -> tuple[PoolLayout, Deployment]:
    deployment = resolve(scenario(model, version, **more))
    found = pool_layout(
        deployment.architecture,
        deployment.rank_layout,
        deployment.settings,
        pp=deployment.parallelism.pp,
        dp=deployment.parallelism.dp,
    )
    return found, deployment


def test_the_slot_of_a_model_is_its_state_in_the_engine_s_types() -> None:
    # 36 layers of 32 heads: 128·128 float32 each, and 3 positions of 8,192 channels in 16 bits: 73.7 MiB a slot, as an
    # independent account of its logs has it.
    alone, _ = pool_of(HYBRIDS["next"], "0.5.5", tp=1)
    assert alone.slots is not None
    assert alone.slots.slot_bytes == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert alone.slots.slot_bytes / MIB == pytest.approx(73.7, abs=0.05)
    halved, _ = pool_of(HYBRIDS["next"], "0.5.5", tp=2)
    assert halved.slots is not None
    assert halved.slots.slot_bytes == alone.slots.slot_bytes / 2


def test_a_log_of_a_gated_hybrid_on_one_card() -> None:
    """SGLang 0.5.18, Qwen3.8-27B (of Qwen3.5-27B's shape) in FP8 on an H100 at 0.85: 124 slots, 330,323 tokens."""
    pool, deployment = pool_of(HYBRIDS["gated"], "0.5.18", weights="fp8")
    slots = pool.slots
    assert slots is not None
    # 48 layers of 48 heads; the pool allocates 125 slots: 17.58 GiB of state and 0.34 of convolution.
    recurrent = 48 * 48 * 128 * 128 * 4
    assert 125 * recurrent / GIB == pytest.approx(17.58, abs=0.005)
    assert 125 * slots.slot_bytes / GIB == pytest.approx(17.58 + 0.34, abs=0.01)
    printed = 125 * slots.slot_bytes + 330_323 * 64 * 1024
    assert (slot_count(slots, printed), slots.per_sequence) == (124, 5)
    assert sequences_with_state(slots, printed) == 24  # "capped to 24 by the mamba state cache"
    assert engine_printed_tokens(pool, printed, deployment.settings, 262_144) == 330_323
    # One slot of padding is within the share for state: without it there would be 125.
    assert slot_count(replace(slots, spare=0), printed - slots.slot_bytes) == 125


def test_a_log_s_budget_is_predicted() -> None:
    """The same log from the card's size on, no figure taken from it."""
    told = scenario(
        HYBRIDS["gated"], "0.5.18", weights="fp8", gpu_memory_utilization=0.85, max_num_seqs=32
    )
    memory = evaluate(told).memory
    state, tokens = memory.state_pool_bytes_per_gpu, memory.engine_printed_kv_tokens
    assert state is not None
    assert tokens is not None
    assert float(state.mid) / GIB == pytest.approx(17.92, rel=0.02)
    assert float(tokens.mid) == pytest.approx(330_323, rel=0.02)
    assert tokens.low <= 330_323 <= tokens.high
    assert memory.max_concurrency.low <= 24 <= memory.max_concurrency.high


def test_a_log_of_two_ranks() -> None:
    """Qwen3.5-9B over two cards: 186 slots (0.10 + 4.38 GiB), 327,310 tokens (2.50 + 2.50 GiB)."""
    # 24 layers of 32 heads and 8,192 channels, half of each on a rank; 8 layers of 2 heads of 256 on a rank.
    slots = pool_of("Qwen/Qwen3.5-9B", "0.5.10", tp=2)[0].slots
    assert slots == StateSlots(24 * (32 * 128 * 128 * 4 + 3 * 8192 * 2) / 2, 3, 0.9)
    cache = 327_310 * 8 * 2 * 256 * 2 * 2
    recurrent = 24 * 16 * 128 * 128 * 4
    assert 187 * recurrent / GIB == pytest.approx(4.38, abs=0.005)
    assert cache / GIB == pytest.approx(5.00, abs=0.01)
    printed = 186 * slots.slot_bytes + cache
    assert slot_count(slots, printed) == 186
    assert cache_part_bytes(slots, printed) == cache
    assert sequences_with_state(slots, printed) == 62


def test_a_log_of_a_mamba_2_hybrid() -> None:
    """Granite 4.0 H Micro on one card: 38 slots (0.03 + 2.74 GiB), 399,740 tokens (1.52 + 1.52 GiB)."""
    # 36 layers of 64 heads of 64 with 128 states, 4,352 channels; 4 layers of 8 heads of 64.
    recurrent, convolution = 36 * 64 * 64 * 128 * 4, 36 * 3 * 4352 * 2
    assert 39 * recurrent / GIB == pytest.approx(2.74, abs=0.005)
    assert 39 * convolution / GIB == pytest.approx(0.03, abs=0.005)
    slots = pool_of("ibm-granite/granite-4.0-h-micro", "0.5.9")[0].slots
    assert slots == StateSlots(recurrent + convolution, 3, 0.9)
    cache = 399_740 * 4 * 8 * 64 * 2 * 2
    assert cache / GIB == pytest.approx(1.52 + 1.52, abs=0.015)
    assert slot_count(slots, 38 * slots.slot_bytes + cache) == 38


def test_a_log_that_names_its_cap() -> None:
    """0.5.19, Qwen3.5-27B's shape on a card of 48 GB: 47 slots, five a request, capped to 9."""
    slots = pool_of(HYBRIDS["gated"], "0.5.19")[0].slots
    assert slots == StateSlots(48 * (48 * 128 * 128 * 4 + 3 * 10240 * 2), 5, 0.9, spare=1)
    pool = 48.5 * slots.slot_bytes / slots.state_fraction
    assert (slot_count(slots, pool), sequences_with_state(slots, pool)) == (47, 9)


@pytest.mark.parametrize(
    ("version", "model_type", "each", "fixed", "spare"),
    [
        ("0.5.2", "qwen3_next", 1, 512, 0),
        ("0.5.3", "falcon_h1", 1, 512, 0),
        ("0.5.4", "qwen3_next", 3, 0, 0),
        ("0.5.5", "nemotron_h", 1, 512, 0),
        ("0.5.6", "kimi_linear", 1, 512, 0),
        ("0.5.7", "qwen3_next", 5, 0, 0),
        ("0.5.8", "nemotron_h", 3, 0, 0),
        ("0.5.8", "kimi_linear", 1, 512, 0),
        ("0.5.9", "kimi_linear", 1, 0, 0),
        ("0.5.10", "qwen3_5_moe", 3, 0, 0),
        ("0.5.13", "bailing_hybrid", 3, 0, 0),
        ("0.5.14", "kimi_linear", 3, 0, 0),
        ("0.5.14", "qwen3_5", 5, 0, 0),
        ("0.5.16", "lfm2", 3, 0, 0),
        ("0.5.19", "kimi_linear", 5, 0, 1),
    ],
)
def test_the_rule_of_each_version(
    version: str, model_type: str, each: int, fixed: int, spare: int
) -> None:
    settings = settings_of("sglang", version, 79.19)
    rule = settings.state_pool
    assert rule.ratio == 0.9
    assert rule.slots_of(model_type) == each
    assert (rule.fixed_slots if each == 1 else 0, rule.spare_slots) == (fixed, spare)


def test_types_of_state_by_version() -> None:
    # Up to 0.5.8 float32 whatever the configuration states; from then on what it states.
    assert not settings_of("sglang", "0.5.8", 79.19).states.stated
    assert settings_of("sglang", "0.5.9", 79.19).states.stated


def test_a_log_of_a_pool_that_has_no_room() -> None:
    """0.5.17: −7.96 GiB are left by a small fraction, and 146.81 MiB are a slot: "max_mamba_cache_size=-28"."""
    slots = pool_of(HYBRIDS["gated"], "0.5.17")[0].slots
    assert slots is not None
    assert slots.slot_bytes / MIB == pytest.approx(146.81, abs=0.005)
    left = -7.96 * GIB
    assert slots.state_fraction * left // slots.slot_bytes - slots.spare == -28
    assert (slot_count(slots, left), cache_part_bytes(slots, left)) == (0, 0)


def test_without_prefix_caching_the_most_sequences_are_the_slots() -> None:
    stated, _ = pool_of(HYBRIDS["next"], "0.5.3", tp=4, max_num_seqs=64)
    unstated, _ = pool_of(HYBRIDS["next"], "0.5.3", tp=4)
    grouped, _ = pool_of(HYBRIDS["next"], "0.5.3", tp=2, dp=4)
    for pool, count in ((stated, 64), (unstated, 512), (grouped, 128)):
        assert pool.slots is not None
        assert slot_count(pool.slots, 20.0 * GIB) == count


def test_other_engines_set_nothing_apart() -> None:
    for name in ("vllm", "tensorrt-llm", "transformers", "llama.cpp"):
        assert all(not one.state_pool.ratio for one in engine(name).ranges), name


RATIOS = st.builds(
    StateSlots,
    st.floats(MIB, 200 * MIB),
    st.sampled_from([1, 3, 5]),
    st.floats(0.05, 9.0),
    st.sampled_from([0, 0, 64, 512]),
    st.sampled_from([0, 1]),
)


@given(RATIOS, st.floats(0.0, 200.0))
def test_the_parts_sum_to_the_pool(slots: StateSlots, pool_gib: float) -> None:
    pool = pool_gib * GIB
    state, cache = state_part_bytes(slots, pool), cache_part_bytes(slots, pool)
    assert state >= 0.0
    assert cache >= 0.0
    assert state + cache == pytest.approx(pool)
    if not slots.fixed:
        assert state <= slots.state_fraction * pool * (1 + 1e-12) + slots.spare * slots.slot_bytes


@given(RATIOS, st.integers(1, 2000), st.floats(0.0, 100.0))
def test_the_smallest_pool_holds_what_it_is_for(
    slots: StateSlots, sequences: int, cache_gib: float
) -> None:
    cache = cache_gib * GIB
    pool = pool_for(slots, float(sequences), cache) * (1 + 1e-9) + 1.0
    assert cache_part_bytes(slots, pool) >= cache * (1 - 1e-6)
    if not slots.fixed:
        assert sequences_with_state(slots, pool) >= sequences


POOLS = [pool_of(HYBRIDS["next"], version, tp=4)[0] for version in ("0.5.3", "0.5.5", "0.5.18")] + [
    pool_of(HYBRIDS["gated"], "0.5.18")[0]
]


@given(st.sampled_from(POOLS), st.floats(0.0, 60.0), st.integers(1, 300), st.integers(0, 300))
def test_more_requests_never_have_more_tokens(
    pool: PoolLayout, pool_gib: float, users: int, more: int
) -> None:
    size = pool_gib * GIB
    few = longest_sequence(pool, sequence_room(pool, size, float(users)))
    many = longest_sequence(pool, sequence_room(pool, size, float(users + more)))
    assert many <= few
    if few:
        assert held_sequences(pool, size, float(few)) >= users


@given(st.sampled_from(POOLS), st.floats(0.0, 60.0), st.integers(1, 20_000), st.integers(0, 9000))
def test_longer_requests_are_never_more(
    pool: PoolLayout, pool_gib: float, tokens: int, more: int
) -> None:
    size = pool_gib * GIB
    held = held_sequences(pool, size, float(tokens))
    assert held_sequences(pool, size, float(tokens + more)) <= held
    assert pool.slots is not None
    assert held <= sequences_with_state(pool.slots, size)
    assert held * sequence_bytes(pool, float(tokens)) <= cache_part_bytes(pool.slots, size) + 1.0


@given(st.sampled_from(POOLS), st.lists(st.floats(0.0, 60.0), min_size=1, max_size=4))
def test_arrays_give_what_numbers_give(pool: PoolLayout, sizes_gib: list[float]) -> None:
    sizes = np.array(sizes_gib) * GIB
    users = np.arange(1.0, len(sizes) + 1.0)
    rooms, held = sequence_room(pool, sizes, users), held_sequences(pool, sizes, 900.0 * users)
    needed = sequences_bytes(pool, users, 900.0)
    assert isinstance(rooms, np.ndarray)
    assert isinstance(held, np.ndarray)
    assert isinstance(needed, np.ndarray)
    for index, size in enumerate(sizes.tolist()):
        own = float(users[index])
        assert rooms[index] == sequence_room(pool, size, own)
        assert held[index] == held_sequences(pool, size, 900.0 * own)
        assert needed[index] == sequences_bytes(pool, own, 900.0)


@pytest.mark.parametrize("version", ["0.5.3", "0.5.5", "0.5.18"])
def test_the_verdict_the_number_held_and_the_longest_context_agree(version: str) -> None:
    told = scenario(HYBRIDS["next"], version, tp=4)
    deployment = resolve(told)
    for users in (1.0, 40.0, 150.0, 236.0, 237.0, 400.0, 512.0, 600.0):
        for tokens in (500.0, 4000.0, 60_000.0):
            budget = budget_at(
                deployment,
                input_tokens=tokens - 100.0,
                output_tokens=100.0,
                concurrency=users,
                max_model_len=None,
            )
            holds = max_concurrency(budget, tokens) >= users
            assert (fit_level(budget, users, tokens) < 2) == holds, (users, tokens)
            assert (max_context(budget, users, 262_144.0) >= tokens) == holds, (users, tokens)


@pytest.mark.parametrize("version", ["0.5.3", "0.5.5", "0.5.18"])
def test_the_map_has_the_verdicts_of_single_answers(version: str) -> None:
    told = scenario(HYBRIDS["next"], version, tp=4)
    contexts, users = (
        np.array([2000.0, 60_000.0]),
        np.array([1.0, 20.0, 142.0, 236.0, 237.0, 513.0]),
    )
    found = fit_map(told, contexts, users)
    for column, context in enumerate(contexts.tolist()):
        for row, count in enumerate(users.tolist()):
            one = told.replace(input_tokens=int(context) - 256, concurrency=int(count))
            verdict = VERDICTS[int(found.verdict[row, column])]
            assert evaluate(one).memory.verdict == verdict, (context, count)


def test_what_runs_out_first_is_said() -> None:
    short = evaluate(scenario(HYBRIDS["next"], "0.5.5", tp=4, concurrency=300)).memory
    assert short.reason.code == "fit_state_below_workload"
    held, slots = short.reason.values["held"], short.reason.values["slots"]
    assert (short.reason.values["each"], held) == (3, float(short.max_concurrency.mid))
    assert held == float(str(slots)) // 3
    told = scenario(HYBRIDS["next"], "0.5.5", tp=4, concurrency=200, input_tokens=60_000)
    assert evaluate(told).memory.reason.code == "fit_pool_below_workload"


def test_too_little_for_the_slots_does_not_start() -> None:
    # 512 slots of 18.4 MiB leave nothing of a small pool: the engine stops at start.
    answer = evaluate(scenario(HYBRIDS["next"], "0.5.3", tp=4, gpu_memory_utilization=0.55)).memory
    assert (answer.verdict, answer.starts) == (Verdict.DOES_NOT_FIT, False)
    state = answer.state_pool_bytes_per_gpu
    assert state is not None
    assert float(state.mid) == float(answer.kv_pool_bytes_per_gpu.mid)
    assert answer.engine_printed_kv_tokens is not None
    assert float(answer.engine_printed_kv_tokens.mid) == 0.0


def test_all_figures_of_the_answer_follow_the_division() -> None:
    told = scenario(HYBRIDS["next"], "0.5.5", tp=4, concurrency=16)
    deployment, memory = resolve(told), evaluate(told).memory
    budget = budget_of(deployment, told)
    state = memory.state_pool_bytes_per_gpu
    assert state is not None
    cache = float(memory.kv_pool_bytes_per_gpu.mid) - float(state.mid)
    # 12 layers of one head of 256 on each of four ranks.
    each = 12 * 2 * 256 * 2
    assert float(engine_printed_kv_tokens(budget, 262_144)) == cache // each
    slot = 36 * (8 * 128 * 128 * 4 + 3 * 2048 * 2)
    with_state, with_cache = float(state.mid) // slot // 3, cache // (1280 * each)
    assert float(memory.max_concurrency.mid) == with_state == min(with_state, with_cache)
    assert float(pool_tokens(budget, 60_000.0)) == pytest.approx(cache / each, rel=1e-9)
    assert float(memory.max_context_tokens.mid) == cache / 16 // each
