"""The verdict: levels, the first obstacle, whether the engine starts, and remedies that do what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.architecture.cache import cache_layout
from planner.memory.budget import MemoryBudget, max_concurrency
from planner.memory.fit import (
    TIGHT_FRACTION,
    VERDICTS,
    Verdict,
    fit,
    fit_level,
    needed_bytes,
    remedies,
    used_fraction,
)
from planner.quantity import GIB
from tests.memory.budgets import L4, T4, budget_of, dense, settings_of

MODEL = dense()  # Llama 3.1 8B's shape
WEIGHTS_GIB = 14.96


def on_l4(version: str = "0.19", **workload: float) -> MemoryBudget:
    return budget_of(MODEL, settings_of("vllm", version, 22.03, L4), 22.03, WEIGHTS_GIB, **workload)


def test_a_workload_with_room_fits() -> None:
    settings = settings_of("vllm", "0.19", 79.19)
    budget = budget_of(MODEL, settings, 79.19, WEIGHTS_GIB)
    answer = fit(budget, MODEL, input_tokens=1024, output_tokens=256, concurrency=16)
    assert answer.verdict is Verdict.FITS
    assert answer.starts
    assert answer.reason.code == "fit_room"
    assert answer.running_sequences == 16
    expected = WEIGHTS_GIB + 1.885 + 0.25 + 32 / 1024 + 16 * 1280 * 131072 / GIB
    assert answer.needed_bytes / GIB == pytest.approx(expected, abs=0.01)
    assert remedies(budget, MODEL, input_tokens=1024, output_tokens=256, concurrency=16) == ()


def test_weights_alone_too_large() -> None:
    settings = settings_of("vllm", "0.19", 14.56, T4)
    budget = budget_of(MODEL, settings, 14.56, WEIGHTS_GIB)
    answer = fit(budget, MODEL, input_tokens=100, output_tokens=100, concurrency=1)
    assert answer.verdict is Verdict.DOES_NOT_FIT
    assert not answer.starts
    assert answer.reason.code == "fit_weights_exceed"
    assert answer.reason.values["weights_bytes"] == pytest.approx(WEIGHTS_GIB * GIB)
    assert answer.held_sequences == answer.running_sequences == 0
    assert answer.notes == ()


def test_activations_too_large() -> None:
    settings = settings_of("vllm", "0.16", 19.0, L4, max_num_seqs=1024)
    budget = budget_of(MODEL, settings, 19.0, WEIGHTS_GIB)
    answer = fit(budget, MODEL, input_tokens=100, output_tokens=100, concurrency=1)
    assert answer.reason.code == "fit_activations_exceed"
    assert not answer.starts


def test_one_sequence_too_long_for_the_pool() -> None:
    answer = fit(on_l4(), MODEL, input_tokens=40_000, output_tokens=1000, concurrency=1)
    assert answer.verdict is Verdict.DOES_NOT_FIT
    assert answer.reason.code == "fit_pool_below_one"
    assert not answer.starts


def test_too_many_users_run_by_turns() -> None:
    answer = fit(on_l4(), MODEL, input_tokens=8000, output_tokens=2000, concurrency=8)
    assert answer.verdict is Verdict.DOES_NOT_FIT
    assert answer.starts
    assert answer.reason.code == "fit_pool_below_workload"
    assert answer.reason.values == {"held": 3.0, "concurrency": 8}
    assert answer.running_sequences == 3


def test_nearly_full_is_tight() -> None:
    answer = fit(on_l4(), MODEL, input_tokens=8000, output_tokens=2000, concurrency=3)
    assert answer.verdict is Verdict.TIGHT
    assert answer.starts
    assert TIGHT_FRACTION < answer.used_fraction <= 1.0
    assert answer.reason.code == "fit_tight"


@pytest.mark.parametrize(
    ("tokens", "setting", "code"),
    [
        (131073, None, "fit_context_above_model"),
        (4097, 4096, "fit_context_above_setting"),
    ],
)
def test_longer_than_allowed(tokens: int, setting: int | None, code: str) -> None:
    budget = budget_of(MODEL, settings_of("vllm", "0.19", 79.19), 79.19, WEIGHTS_GIB)
    answer = fit(
        budget,
        MODEL,
        input_tokens=tokens - 1,
        output_tokens=1,
        concurrency=1,
        max_model_len=setting,
    )
    assert answer.verdict is Verdict.DOES_NOT_FIT
    assert answer.reason.code == code
    assert answer.starts


def test_vllm_needs_a_shorter_max_model_len_than_the_models() -> None:
    # 33,400 tokens of room, 131,072 wanted by default: without a setting, vLLM wouldn't come up.
    answer = fit(on_l4(), MODEL, input_tokens=1000, output_tokens=200, concurrency=1)
    (note,) = [note for note in answer.notes if note.code == "fit_needs_max_model_len"]
    assert note.values["model_maximum"] == 131072
    assert 30_000 < note.values["max_model_len"] < 34_000
    started = fit(
        on_l4(),
        MODEL,
        input_tokens=1000,
        output_tokens=200,
        concurrency=1,
        max_model_len=131072,
    )
    assert not started.starts
    assert started.verdict is Verdict.DOES_NOT_FIT
    assert started.reason.code == "fit_max_model_len_too_long"


def test_users_beyond_the_slots_wait_but_the_verdict_is_on_all_of_them() -> None:
    settings = settings_of("vllm", "0.19", 79.19, max_num_seqs=8)
    budget = budget_of(MODEL, settings, 79.19, WEIGHTS_GIB)
    many = fit(budget, MODEL, input_tokens=1000, output_tokens=200, concurrency=100)
    few = fit(budget, MODEL, input_tokens=1000, output_tokens=200, concurrency=8)
    assert many.needed_bytes > few.needed_bytes
    assert many.running_sequences == 8
    held = int(many.held_sequences)
    for users, fits in ((held, True), (held + 1, False)):
        answer = fit(budget, MODEL, input_tokens=1000, output_tokens=200, concurrency=users)
        assert (answer.verdict is not Verdict.DOES_NOT_FIT) is fits
    assert [note.code for note in many.notes if "slots" in note.code] == ["fit_waits_for_slots"]


def test_graphs_outside_the_budget_need_room() -> None:
    settings = settings_of("vllm", "0.19", 22.03, L4, gpu_memory_utilization=0.98)
    budget = budget_of(MODEL, settings, 22.03, WEIGHTS_GIB)
    answer = fit(budget, MODEL, input_tokens=100, output_tokens=100, concurrency=1)
    assert answer.verdict is Verdict.TIGHT
    assert "fit_no_room_outside" in [note.code for note in answer.notes]


def test_llama_cpp_starts_where_every_slot_has_room() -> None:
    settings = settings_of("llama.cpp", "b8000", 22.03, L4)
    fits = budget_of(MODEL, settings, 22.03, 4.6, concurrency=4.0, max_model_len=8192)
    answer = fit(
        fits, MODEL, input_tokens=4000, output_tokens=96, concurrency=4, max_model_len=8192
    )
    assert answer.starts
    over = budget_of(MODEL, settings, 22.03, 4.6, concurrency=4.0, max_model_len=65536)
    answer = fit(
        over, MODEL, input_tokens=4000, output_tokens=96, concurrency=4, max_model_len=65536
    )
    assert not answer.starts


def test_transformers_starts_before_it_runs_out() -> None:
    settings = settings_of("transformers", "5.24", 22.03, L4)
    budget = budget_of(MODEL, settings, 22.03, WEIGHTS_GIB, input_tokens=60_000.0)
    answer = fit(budget, MODEL, input_tokens=60_000, output_tokens=100, concurrency=1)
    assert answer.verdict is Verdict.DOES_NOT_FIT
    assert answer.starts


def test_fewer_users_is_a_remedy_that_works() -> None:
    budget = on_l4()
    notes = remedies(budget, MODEL, input_tokens=8000, output_tokens=2000, concurrency=8)
    by_code = {note.code: note.values for note in notes}
    users = by_code["remedy_fewer_users"]["concurrency"]
    assert fit_level(budget, users, 10_000.0) < 2
    assert fit_level(budget, users + 1, 10_000.0) == 2
    tokens = by_code["remedy_shorter_context"]["tokens"]
    assert fit_level(budget, 8, tokens) < 2
    assert fit_level(budget, 8, tokens + 16) == 2


def test_an_8_bit_cache_is_a_remedy_where_it_helps() -> None:
    layouts = [("fp8", cache_layout(MODEL, 1.0, 1.0, 2.0))]
    budget = on_l4()
    helped = remedies(
        budget,
        MODEL,
        input_tokens=8000,
        output_tokens=2000,
        concurrency=6,
        kv_alternatives=layouts,
    )
    (note,) = [note for note in helped if note.code == "remedy_kv_format"]
    assert note.values["format"] == "fp8"
    assert note.values["held"] == 6
    assert note.values["verdict"] == "tight"
    useless = remedies(
        budget,
        MODEL,
        input_tokens=8000,
        output_tokens=2000,
        concurrency=60,
        kv_alternatives=layouts,
    )
    assert "remedy_kv_format" not in [note.code for note in useless]


def test_a_larger_share_of_the_card_is_a_remedy_that_works() -> None:
    settings = settings_of("vllm", "0.22", 79.19, gpu_memory_utilization=0.5)
    budget = budget_of(MODEL, settings, 79.19, WEIGHTS_GIB)
    workload = {"input_tokens": 8000, "output_tokens": 2000, "concurrency": 30}
    (note,) = [
        note for note in remedies(budget, MODEL, **workload) if note.code == "remedy_utilization"
    ]
    share = note.values["gpu_memory_utilization"]
    better = budget_of(MODEL, replace(settings, gpu_memory_utilization=share), 79.19, WEIGHTS_GIB)
    assert fit(better, MODEL, **workload).verdict is Verdict.FITS


def test_smaller_weights_are_a_remedy_that_works() -> None:
    model = dense(layers=80, hidden=8192, width=28672, heads=64)
    settings = settings_of("vllm", "0.19", 79.19)
    workload = {"input_tokens": 2000, "output_tokens": 500, "concurrency": 4}
    budget = budget_of(model, settings, 79.19, 131.4)
    notes = {note.code: note.values for note in remedies(budget, model, **workload)}
    room = notes["remedy_smaller_weights"]["weights_bytes"] / GIB
    assert (
        fit(budget_of(model, settings, 79.19, room * 0.999), model, **workload).verdict
        is not Verdict.DOES_NOT_FIT
    )
    assert notes["remedy_more_gpus"]["times"] == 2


@given(st.integers(1, 200), st.integers(1, 60_000))
def test_levels_agree_with_the_figures(users: int, tokens: int) -> None:
    budget = on_l4()
    level = int(fit_level(budget, users, float(tokens)))
    used = used_fraction(budget, users, float(tokens))
    held = max_concurrency(budget, float(tokens))
    running = min(users, budget.settings.max_num_seqs)
    assert (level == 2) == (held < running)
    if level == 0:
        assert used <= TIGHT_FRACTION
    if used > TIGHT_FRACTION:
        assert level >= 1


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 40_000), st.integers(0, 10_000))
def test_more_work_never_fits_better(users: int, more: int, tokens: int, longer: int) -> None:
    budget = on_l4()
    level = fit_level(budget, users, float(tokens))
    assert fit_level(budget, users + more, float(tokens)) >= level
    assert fit_level(budget, users, float(tokens + longer)) >= level
    assert needed_bytes(budget, users, float(tokens + longer)) >= needed_bytes(
        budget, users, float(tokens)
    )


@given(st.lists(st.floats(10.0, 100.0), min_size=1, max_size=6), st.integers(1, 300))
def test_levels_of_many_cards_at_once(sizes: list[float], users: int) -> None:
    settings = settings_of("vllm", "0.19", 79.19)
    many = fit_level(budget_of(MODEL, settings, np.array(sizes), WEIGHTS_GIB), users, 2048.0)
    for index, size in enumerate(sizes):
        one = fit_level(budget_of(MODEL, settings, size, WEIGHTS_GIB), users, 2048.0)
        assert many[index] == one


def test_verdicts_in_order() -> None:
    assert [verdict.value for verdict in VERDICTS] == ["fits", "tight", "does_not_fit"]
