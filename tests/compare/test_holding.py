"""Which GPUs hold a model: the smallest count per format, as the verdict of a single evaluation has it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from planner import Scenario, evaluate
from planner.compare.holding import (
    DEFAULT_FORMATS,
    HoldingOption,
    holding_json,
    holding_options,
)
from planner.errors import InvalidInput, MissingFigure, UnknownItem
from planner.quantity import GIB

LLAMA = {"model": "meta-llama/Llama-3.3-70B-Instruct", "input_tokens": 8192, "concurrency": 2}
CARDS = ["l40s", "h100", "rtx-4090", "t4", "mi300x"]


def options(**more: Any) -> list[HoldingOption]:
    return holding_options(LLAMA, accelerators=CARDS, include_failing=True, **more)


def test_every_card_with_every_format_the_smallest_count() -> None:
    found = options()
    assert [(o.accelerator.id, o.weights) for o in found] == list(
        itertools.product(
            ["l40s", "h100-sxm-80gb", "rtx-4090", "t4", "mi300x-192gb"], DEFAULT_FORMATS
        )
    )
    for option in found:
        if option.error:
            continue
        smaller = [g for g in (1, 2, 4, 8) if g < option.gpus]
        for gpus in (*smaller, option.gpus):
            scenario = Scenario(
                gpu=option.accelerator.id, gpus=gpus, weights=option.weights, **LLAMA
            )
            try:
                memory = evaluate(scenario).memory
            except MissingFigure:  # of its speed; the memory is known
                continue
            if gpus < option.gpus:
                assert memory.verdict == "does_not_fit"
            else:
                assert memory.verdict == option.verdict
                assert memory.needed_bytes_per_gpu.mid == pytest.approx(option.needed_bytes)
                assert option.max_concurrency is not None
                assert memory.max_concurrency.mid == option.max_concurrency.mid
    assert {o.gpus for o in found if o.holds} == {1, 2, 4, 8}


def test_failing_ones_are_left_out_unless_asked_for() -> None:
    everything = options(max_gpus=1)
    holding = holding_options(LLAMA, accelerators=CARDS, max_gpus=1)
    assert [(o.accelerator.id, o.weights) for o in holding] == [
        (o.accelerator.id, o.weights) for o in everything if o.holds
    ]
    assert 0 < len(holding) < len(everything)
    failing = [o for o in everything if not o.holds]
    assert all(o.error or o.reason for o in failing)


def test_formats_that_the_checkpoint_is_or_cannot_become_are_left_out() -> None:
    deepseek = holding_options(
        {"model": "deepseek-ai/DeepSeek-V3"}, accelerators=["h200"], include_failing=True
    )
    assert [o.weights for o in deepseek] == ["native", "gguf:Q8_0", "gguf:Q4_K_M"]
    assert deepseek[0].weights_label == "fp8-block"
    awq = holding_options(
        {"model": "Qwen/Qwen2.5-7B-Instruct-AWQ"}, accelerators=["h200"], include_failing=True
    )
    assert [o.weights for o in awq] == ["native"]


def test_formats_that_are_asked_for() -> None:
    asked = options(formats=["AWQ", "gguf:q4_k_m"])
    assert {o.weights for o in asked} == {"awq-int4", "gguf:Q4_K_M"}
    in_values = holding_options({**LLAMA, "weights": "fp8"}, accelerators=CARDS)
    assert {o.weights for o in in_values} == {"fp8"}


@pytest.mark.parametrize(
    ("most", "tried"), [(1, {1}), (3, {1, 2, 3}), (6, {1, 2, 4, 6}), (8, {1, 2, 4, 8})]
)
def test_counts_that_are_tried(most: int, tried: set[int]) -> None:
    found = holding_options(
        {**LLAMA, "weights": "gguf:Q4_K_M"}, accelerators=None, max_gpus=most, include_failing=True
    )
    counts = {o.gpus for o in found if o.verdict}
    assert counts <= tried
    assert most in counts


def test_a_count_or_degrees_that_are_asked_for_are_the_only_ones() -> None:
    for asked in ({"gpus": 4}, {"tp": 2, "pp": 2}):
        found = holding_options({**LLAMA, **asked}, accelerators=["h100"], formats=["native"])
        assert [(o.gpus, o.verdict) for o in found] == [(4, "fits")]


def test_a_memory_that_is_given_holds_for_the_cards_that_are_named() -> None:
    values = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu_memory_gib": 90.0}
    found = holding_options(values, accelerators=["t4", "l4"], formats=["native"])
    assert [o.usable_bytes for o in found] == [90.0 * GIB, 90.0 * GIB]
    with pytest.raises(InvalidInput) as refused:
        holding_options(values)
    assert refused.value.field == "gpu"


@pytest.mark.parametrize("most", [0, -1, 10_000])
def test_impossible_numbers_of_gpus_are_refused(most: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        holding_options(LLAMA, max_gpus=most)
    assert refused.value.field == "max_gpus"


@pytest.mark.parametrize(
    "given",
    [
        {"values": LLAMA | {"model": "nobody/nothing"}},
        {"values": LLAMA, "accelerators": ["z9"]},
        {"values": LLAMA, "formats": ["fp3"]},
    ],
)
def test_names_that_are_not_known_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UnknownItem):
        holding_options(**given)


def test_json_in_the_published_names_and_units() -> None:
    found = options(formats=["native"])
    data = holding_json(found, lambda note: f"<{note.code}>")
    assert json.loads(json.dumps(data)) == data
    by_gpu = {entry["gpu"]: entry for entry in data}
    h100 = by_gpu["h100-sxm-80gb"]
    assert (h100["gpus"], h100["weights_stored_as"], h100["fits"]) == (4, "bf16", True)
    # A quarter of 70.55e9 two-byte parameters, and some for the cache, activations and libraries.
    assert 0.0 < h100["needed_gib_per_gpu"] - 70.55e9 / 2 / GIB < 7.0
    assert h100["usable_gib_per_gpu"] == 79.19
    assert h100["reason"]["message"] == f"<{h100['reason']['code']}>"
    assert by_gpu["rtx-4090"]["fits"] is True
    t4 = by_gpu["t4"]
    assert (t4["fits"], t4["gpus"], t4["error"]) == (False, 8, None)
    refused = holding_json(options(formats=["nvfp4"]), lambda note: note.code)
    v = next(entry for entry in refused if entry["gpu"] == "mi300x-192gb")
    assert v["verdict"] is v["needed_gib_per_gpu"] is v["max_concurrency"] is None
    assert v["error"]["code"] == "format_unsupported"
