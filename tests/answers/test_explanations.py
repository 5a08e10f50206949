"""Explanations of memory figures: what is printed, worked out, gives what is printed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from planner.evaluation import Evaluation, evaluate
from planner.explain import explain
from planner.explain.cache import CACHE
from planner.explain.memory import MEMORY
from planner.explain.speed import SPEED
from planner.scenario import Scenario
from planner.text_report import estimate_text
from planner.ui.locale import LANGUAGES, fill, say_note
from planner.ui.locale.numbers import format_value
from tests.answers.equations import holds, relations

GEMMA = {"model": "google/gemma-3-12b-it", "gpu": "t4", "weights": "nf4", "input_tokens": 2048}
HYBRID = {"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "gpu": "h200-sxm-141gb", "gpus": 2}
LLAMA = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "h100-sxm-80gb"}
DEEPSEEK = {"model": "deepseek-ai/DeepSeek-V3", "gpu": "h200-sxm-141gb", "gpus": 8}
CASES: tuple[dict[str, Any], ...] = (
    *({**GEMMA, "engine": "transformers", "concurrency": users} for users in (1, 8, 16)),
    {**GEMMA, "engine": "transformers", "weights": "native"},
    {**GEMMA, "engine": "vllm", "weights": "awq-int4", "concurrency": 3},
    {**GEMMA, "engine": "llama.cpp", "weights": "gguf:Q4_K_M", "concurrency": 3},
    {**GEMMA, "engine": "llama.cpp", "weights": "gguf:Q8_0", "gpu_layers": 20, "host_memory_gib": 9.0},
    {**GEMMA, "engine": "llama.cpp", "weights": "gguf:Q4_K_M", "max_model_len": 8192},
    *({**LLAMA, "engine": name, "concurrency": 5} for name in ("vllm", "sglang", "tensorrt-llm", "transformers")),
    {**LLAMA, "engine": "vllm", "gpus": 4, "tp": 2, "dp": 2, "concurrency": 50},
    {**LLAMA, "engine": "vllm", "gpus": 2, "pp": 2, "concurrency": 5_000},
    *({**HYBRID, "engine": name, "concurrency": 9} for name in ("vllm", "sglang", "llama.cpp", "transformers")),
    *({**DEEPSEEK, "engine": name, "concurrency": 40} for name in ("vllm", "sglang", "tensorrt-llm")),
    {"model": "deepseek-ai/DeepSeek-V3.2", "gpu": "h200-sxm-141gb", "gpus": 8, "engine": "vllm"},
    {"model": "openai/gpt-oss-20b", "gpu": "rtx-4090", "engine": "llama.cpp", "cpu_expert_layers": 12},
    {"model": "BAAI/bge-m3", "gpu": "l4"},
)  # fmt: skip
FIGURES = MEMORY | CACHE
PROCESSOR = {
    "name": "Some EPYC", "kind": "cpu", "memory_usable_bytes": 25.2e9, "bandwidth_bytes_per_s": 2e10,
    "peaks": {"bf16": 2e11, "fp32": 1e11}, "measured_on": "2026-11-30",
}  # fmt: skip


def answers() -> list[Evaluation]:
    return [evaluate(Scenario.parse(case)) for case in CASES]


def shown(answer: Evaluation, figure: str) -> str:
    found = explain(answer, figure)
    return fill(found.filled, "en", **found.values)


@pytest.mark.parametrize("figure", FIGURES)
def test_what_an_explanation_prints_is_true_of_its_own_numbers(figure: str) -> None:
    tried = 0
    for answer in answers():
        if getattr(answer.memory, figure) is None:
            continue
        found = explain(answer, figure)
        printed = fill(found.filled, "en", **found.values)
        said = relations(printed)
        # Without an equation only a fact may be printed, one of the terms.
        assert said or found.formula in {"0", *(term.symbol for term in found.terms)}, printed
        for relation in said:
            assert holds(*relation), (answer.deployment.engine, printed)
            tried += 1
    facts = {"usable_bytes_per_gpu", "state_bytes_per_sequence", "host_weights_bytes"}
    assert tried > 0 or figure in facts


KINDS = {"max_concurrency": "count", "kv_pool_tokens": "count", "kv_bytes_per_sequence": "bytes"}


@pytest.mark.parametrize("figure", sorted(set(FIGURES) - {"max_context_tokens", "needed_bytes_per_gpu"}))  # fmt: skip
def test_an_explanation_ends_in_the_figure(figure: str) -> None:
    for answer in answers():
        estimate = getattr(answer.memory, figure)
        if estimate is None:
            continue
        kind = "bytes" if figure in {"kv_bytes_per_token", "state_bytes_per_sequence"} else "gib"
        wanted = format_value(float(estimate.mid), KINDS.get(figure, kind), "en")
        assert shown(answer, figure).endswith(wanted), (answer.deployment.engine, figure)


def test_every_symbol_of_an_equation_is_a_term() -> None:
    for answer in answers():
        for figure in FIGURES:
            if getattr(answer.memory, figure) is None:
                continue
            found = explain(answer, figure)
            rest = re.sub(r"\{\w+:\w+\}", "", found.filled)
            assert set(re.findall(r"[A-Za-z_]\w*", rest)) <= {"min", "max", "K", "S"}, found.filled


def test_as_many_as_fit_with_what_they_compute_with() -> None:
    """Eight prompts on a T4: the cache alone would hold twelve, but each is computed with as well."""
    answer = evaluate(Scenario.parse({**GEMMA, "engine": "transformers"}))
    terms = {term.symbol: term.value for term in explain(answer, "max_concurrency").terms}
    room = terms["M"] - terms["W"] - terms["R"]
    assert room // (terms["f"] * terms["K_1"]) > 8
    assert (
        room // (terms["A_1"] + terms["f"] * terms["K_1"]) == answer.memory.max_concurrency.mid == 8
    )
    held = answer.memory.kv_pool_tokens
    assert held is not None
    assert 8 * 2304 <= held.mid < 9 * 2304


def test_what_is_held_does_not_depend_on_how_many_come() -> None:
    one, many = (
        evaluate(Scenario.parse({**GEMMA, "engine": "transformers", "concurrency": users})).memory
        for users in (1, 16)
    )
    assert one.max_concurrency == many.max_concurrency
    assert one.kv_pool_tokens is not None
    assert many.kv_pool_tokens is not None
    assert one.kv_pool_tokens.mid == many.kv_pool_tokens.mid
    assert many.reason.code == "fit_pool_below_workload"
    assert many.reason.values["held"] == many.max_concurrency.mid


def test_the_sentence_on_a_full_card_names_all_that_fills_it() -> None:
    """Weights and activations alone would leave room: what the run time takes is what fills the memory."""
    own = {"gpu": "own-some-epyc", "device": PROCESSOR, "weights": "native"}
    answer = evaluate(Scenario.parse({**GEMMA, **own, "engine": "transformers"}))
    memory = answer.memory
    assert memory.reason.code == "fit_activations_exceed"
    parts = [
        memory.reason.values[f"{name}_bytes"] for name in ("weights", "activation", "overhead")
    ]
    allowed = memory.reason.values["allowed_bytes"]
    assert sum(parts[:2]) < allowed <= sum(parts)
    # Shorter prompts are computed with less, and leave room: said, and true.
    (shorter,) = [note for note in memory.remedies if note.code == "remedy_shorter_context"]
    tokens = int(shorter.values["tokens"])
    assert tokens == memory.max_context_tokens.mid
    changed = answer.scenario.replace(input_tokens=tokens - answer.scenario.output_tokens)
    assert evaluate(changed).memory.verdict != "does_not_fit"


def test_an_engine_without_a_share_is_not_told_to_lower_it() -> None:
    many = evaluate(Scenario.parse({**GEMMA, "engine": "transformers", "concurrency": 16}))
    assert many.memory.reason.code != "fit_no_room_outside"


@pytest.mark.parametrize(
    ("gpu", "engine"), [("t4", "transformers"), ("v100-sxm2-32gb", "transformers")]
)
def test_a_fit_that_may_be_no_use_says_so_beside_its_verdict(gpu: str, engine: str) -> None:
    answer = evaluate(Scenario.parse({**GEMMA, "engine": engine, "gpu": gpu}))
    assert answer.memory.verdict == "fits"
    assert answer.caveat is not None
    safe = evaluate(answer.scenario.replace(dtype="fp32"))
    assert answer.caveat.values["fp32_ttft_s"] == safe.speed.ttft_unloaded_s.mid
    assert safe.caveat is None
    for language in LANGUAGES:
        said = estimate_text(answer, language).splitlines()
        assert said[1] == say_note(answer.caveat, language)


def test_places_of_the_engine_and_of_the_memory_are_both_in_the_headline() -> None:
    answer = evaluate(
        Scenario.parse(
            {"model": "Qwen/Qwen3-4B", "gpu": "l4", "engine": "llama.cpp", "max_num_seqs": 4}
        )
    )
    assert answer.headline.code == "headline_fits_served"
    assert answer.headline.values["held"] == answer.memory.max_concurrency.mid > 4
    assert answer.headline.values["people"] == 4


def test_times_are_the_sum_of_their_parts_and_rates_follow_from_them() -> None:
    for answer in answers():
        for figure in SPEED:
            if getattr(answer.speed, figure) is None or figure.endswith("bound_s"):
                continue
            said = relations(shown(answer, figure))
            assert said
            for relation in said:
                assert holds(*relation), (answer.deployment.engine, figure, relation)


def test_a_rate_is_explained_down_to_the_parts_of_a_step() -> None:
    answer = evaluate(Scenario.parse({**GEMMA, "engine": "transformers"}))
    found = explain(answer, "decode_tokens_per_s")
    parts = {term.note_key: term.value for term in found.terms if term.note_key.startswith("time.")}
    assert {"time.host", "time.layers", "time.linear", "time.cache"} <= set(parts)
    assert sum(parts.values()) == pytest.approx(float(answer.speed.tpot_s.mid))
