"""The pool: blocks, windows, padded groups, pages of state; inverse and array forms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.architecture.cache import CacheLayout, cache_bytes, cache_layout
from planner.architecture.resolve import architecture_of
from planner.memory.pool import (
    PoolLayout,
    engine_concurrency,
    engine_printed_tokens,
    held_sequences,
    kv_pool_tokens,
    longest_sequence,
    pool_layout,
    sequence_bytes,
    sequence_room,
    sequences_bytes,
    state_layers,
)
from planner.quantity import GIB, MIB
from planner.scenario import MAX_CONCURRENCY, MAX_TOKENS
from tests.memory.budgets import dense, layout_of, settings_of

VLLM = settings_of("vllm", "0.19", 79.19)
NEW_VLLM = settings_of("vllm", "0.24", 79.19)
SGLANG = settings_of("sglang", "0.5.0", 79.19)
LLAMA_CPP = settings_of("llama.cpp", "b8000", 79.19)
PLAIN = settings_of("transformers", "5.24", 79.19)
ENGINES = {"vllm": VLLM, "new": NEW_VLLM, "sglang": SGLANG, "llama.cpp": LLAMA_CPP, "hf": PLAIN}
MODELS = {
    "dense": dense(),
    "windows": dense(layers=48, windows=(1024,) * 5 + (None,), kv_heads=8, head_dim=256),
    "uneven": dense(layers=62, windows=(1024,) * 5 + (None,), kv_heads=16),
    "small window": dense(layers=24, windows=(128, None), kv_heads=8, head_dim=64),
    "all windows": dense(windows=(4096,)),
    "recurrent": dense(layers=10, kv_heads=2, head_dim=256, recurrent_layers=30),
    "only recurrent": dense(layers=0, recurrent_layers=24),
}


def pools() -> list[tuple[str, PoolLayout, CacheLayout]]:
    found = []
    for model_name, model in MODELS.items():
        for engine_name, settings in ENGINES.items():
            layout = cache_layout(model, 2.0, 2.0, 2.0, states=settings.states)
            pool = pool_layout(model, layout, settings)
            found.append((f"{model_name} {engine_name}", pool, layout))
    return found


POOLS = pools()


@pytest.mark.parametrize(("name", "pool", "layout"), POOLS, ids=[name for name, *_ in POOLS])
def test_a_pool_never_holds_a_sequence_in_less_than_its_cache(
    name: str, pool: PoolLayout, layout: CacheLayout
) -> None:
    for tokens in (1.0, 15.0, 16.0, 17.0, 128.0, 1000.0, 1024.0, 1025.0, 5000.0, 100_000.0):
        held = sequences_bytes(pool, 1.0, tokens)
        assert held >= cache_bytes(layout, tokens) * (1 - 1e-12), tokens


@given(st.sampled_from(POOLS), st.integers(1, 200_000), st.integers(0, 5_000))
def test_a_longer_sequence_never_holds_less(
    case: tuple[str, PoolLayout, CacheLayout], tokens: int, more: int
) -> None:
    pool = case[1]
    assert sequence_bytes(pool, float(tokens + more)) >= sequence_bytes(pool, float(tokens))


@given(st.sampled_from(POOLS), st.floats(0.0, 100.0))
def test_the_longest_sequence_fits_and_one_block_more_does_not(
    case: tuple[str, PoolLayout, CacheLayout], room_gib: float
) -> None:
    pool, room = case[1], room_gib * GIB
    longest = float(longest_sequence(pool, room))
    assert 0.0 <= longest <= MAX_TOKENS
    if longest:
        assert sequence_bytes(pool, longest) <= room * (1 + 1e-12)
    if longest < MAX_TOKENS:
        block = max((group.block_tokens for group in pool.groups), default=1.0)
        assert sequence_bytes(pool, longest + block + 1.0) > room


@given(st.sampled_from(POOLS), st.lists(st.floats(0.0, 80.0), min_size=1, max_size=5))
def test_arrays_give_what_numbers_give(
    case: tuple[str, PoolLayout, CacheLayout], rooms_gib: list[float]
) -> None:
    pool, rooms = case[1], np.array(rooms_gib) * GIB
    lengths = np.array([17.0 * (index + 1) for index in range(len(rooms_gib))])
    longest, held = longest_sequence(pool, rooms), held_sequences(pool, rooms, lengths)
    assert isinstance(longest, np.ndarray)
    for index, room in enumerate(rooms.tolist()):
        assert longest[index] == longest_sequence(pool, room)
        assert held[index] == held_sequences(pool, room, float(lengths[index]))


@given(st.floats(0.0, 4.0), st.sampled_from([100.0, 5_000.0, 90_000.0]), st.integers(1, 12))
def test_what_a_pool_of_allocated_states_holds_is_the_most_that_fits(
    room_gib: float, tokens: float, slots: int
) -> None:
    settings, room = replace(LLAMA_CPP, max_num_seqs=slots), room_gib * GIB
    for name in ("recurrent", "only recurrent"):
        model = MODELS[name]
        layout = cache_layout(model, 2.0, 2.0, 2.0, states=settings.states)
        pool = pool_layout(model, layout, settings)
        held = float(held_sequences(pool, room, tokens))
        if held >= 1.0:
            assert sequences_bytes(pool, held // 1.0, tokens) <= room * (1 + 1e-12)
        if held < MAX_CONCURRENCY:
            assert sequences_bytes(pool, held // 1.0 + 1.0, tokens) > room * (1 - 1e-12)
        users = 3.0
        longest = float(longest_sequence(pool, sequence_room(pool, room, users)))
        if 0.0 < longest < MAX_TOKENS:
            assert sequences_bytes(pool, users, longest) <= room * (1 + 1e-12)


def test_llama_cpp_allocates_the_state_of_every_slot_at_start() -> None:
    """A log of Qwen3.5-9B with four slots: R (f32) 9 MiB and S (f32) 192 MiB, whoever comes."""
    model = architecture_of("Qwen/Qwen3.5-9B")
    layout = cache_layout(model, 2.0, 2.0, 2.0, states=LLAMA_CPP.states)
    pool = pool_layout(model, layout, LLAMA_CPP)
    cells = 4096 * 32 * 1024
    assert LLAMA_CPP.max_num_seqs == 4
    for users in (1.0, 3.0, 4.0):
        assert sequences_bytes(pool, users, 4096.0) == users * cells + (9 + 192) * MIB
    assert sequences_bytes(pool, 5.0, 4096.0) == 5 * (cells + 50.25 * MIB)
    # Builds with one slot, and -np 1.
    single = settings_of("llama.cpp", "b6000", 79.19)
    for settings in (single, replace(LLAMA_CPP, max_num_seqs=1)):
        one = pool_layout(model, layout, settings)
        assert sequences_bytes(one, 1.0, 4096.0) == cells + 50.25 * MIB


def test_a_uniform_pool_is_bytes_over_bytes_per_token() -> None:
    pool = pool_layout(MODELS["dense"], layout_of((131072.0, None, 32)), VLLM)
    assert sequence_bytes(pool, 1600.0) == 1600 * 131072
    assert sequence_bytes(pool, 1601.0) == 1616 * 131072
    assert engine_printed_tokens(pool, 58.11 * GIB, VLLM, 8192) == 476_032
    assert kv_pool_tokens(pool, 131072.0 * 32_000, 1600.0) == 32_000


def test_layers_are_padded_to_groups_of_equal_size() -> None:
    # Gemma 3 27B: 10 full layers and 52 windowed ones make 1 + 6 groups of 10, which is 70 layers for 62.
    model, page = MODELS["uneven"], 16 * 16 * 2 * 128 * 2.0
    pool = pool_layout(model, cache_layout(model, 2.0, 2.0, 2.0), VLLM)
    assert (pool.page_bytes, pool.page_groups) == (10 * page, 7)
    # One sequence of 8,192 tokens: 512 blocks in the full group, 65 in each windowed one.
    assert sequence_bytes(pool, 8192.0) == (512 + 6 * 65) * 10 * page
    # In its log vLLM grants a window a whole step's tokens: 8,192 of 8,192, and a block.
    blocks = 20 * GIB // (10 * page)
    logged = engine_concurrency(pool, 20 * GIB, VLLM, 8192)
    assert logged == pytest.approx(blocks / (512 + 6 * 513))


def test_a_page_grows_until_it_holds_a_layers_state() -> None:
    # Qwen3.6-35B-A3B with an 8-bit cache: 10 attention layers, 30 with 2 MiB and 48 KiB of state.
    model = MODELS["recurrent"]
    assert state_layers(model) == 30
    layout = cache_layout(model, 1.0, 1.0, 2.0)
    pool = pool_layout(model, layout, NEW_VLLM)
    (group,) = pool.groups
    assert group.block_tokens == 2096
    assert pool.page_bytes == 10 * 2096 * 1024
    assert pool.state_bytes == 3 * 2 * pool.page_bytes


def test_equal_pages_by_longer_blocks_of_smaller_layers() -> None:
    layout = layout_of((4096.0 * 10, None, 10), (2048.0 * 10, 512, 10))
    pool = pool_layout(MODELS["dense"], layout, VLLM)
    assert [group.block_tokens for group in pool.groups] == [16.0, 32.0]
    assert len({group.block_bytes for group in pool.groups}) == 1


def test_sizes_without_a_common_page_count_by_themselves() -> None:
    layout = layout_of((3000.0 * 10, None, 10), (2048.0 * 10, 512, 10))
    pool = pool_layout(MODELS["dense"], layout, VLLM)
    assert pool.page_bytes == 0.0
    assert sequence_bytes(pool, 160.0) == 160 * 3000 * 10 + 160 * 2048 * 10


def test_sglang_splits_its_pool_once() -> None:
    # MiMo-V2-Flash: 300,288 tokens in windowed layers for 375,360 in full ones.
    layout = layout_of((1000.0, None, 4), (3000.0, 128, 12))
    pool = pool_layout(MODELS["dense"], layout, SGLANG)
    each = 1000 + 0.8 * 3000
    assert sequence_bytes(pool, 10_000.0) == pytest.approx(10_000 * each)
    assert sequence_bytes(pool, 100.0) == pytest.approx(100 / 0.8 * each)
    assert sequence_bytes(pool, 140.0) == pytest.approx(128 / 0.8 * each)


def test_llama_cpp_keeps_a_batch_beside_the_window() -> None:
    # gpt-oss-120b, ubatch 1,024: two slots of 131,072 cells are 9,216 MiB full and 90 MiB windowed.
    settings = settings_of("llama.cpp", "b8000", 79.19, max_num_batched_tokens=1024)
    model = dense(layers=36, windows=(128, None), kv_heads=8, head_dim=64)
    pool = pool_layout(model, cache_layout(model, 2.0, 2.0, 2.0), settings)
    assert 2 * sequence_bytes(pool, 131072.0) == (9216 + 90) * 2.0**20


def test_an_encoder_holds_as_many_as_asked() -> None:
    pool = pool_layout(MODELS["dense"], layout_of(), VLLM)
    assert pool.empty
    assert held_sequences(pool, 0.0, 512.0) == MAX_CONCURRENCY
    assert longest_sequence(pool, GIB) == MAX_TOKENS


@pytest.mark.parametrize("model_id", ["google/gemma-3-12b-it", "openai/gpt-oss-20b"])
def test_a_window_stops_growing(model_id: str) -> None:
    model = architecture_of(model_id)
    pool = pool_layout(model, cache_layout(model, 2.0, 2.0, 2.0), VLLM)
    full = sum(group.block_bytes for group in pool.groups if group.most_blocks is None)
    grown = sequence_bytes(pool, 64_000.0) - sequence_bytes(pool, 32_000.0)
    assert grown == pytest.approx(full * 2000)
    assert math.isfinite(float(grown))
