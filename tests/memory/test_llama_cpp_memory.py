"""Cache and model sizes against what llama.cpp and its fork print when they load a model, row by row."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

import pytest

from planner.architecture.cache import CacheGroup, CacheLayout, cache_layout
from planner.architecture.mixers import LatentAttention
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.spec import Architecture
from planner.architecture.totals import parameters
from planner.catalog.files import profile_lines
from planner.catalog.formats import kv_format
from planner.errors import UnknownItem
from planner.memory.pool import pool_layout, sequence_bytes
from planner.memory.weights import stored_weights
from planner.quantity import GIB
from planner.scenario import Parallelism
from tests.memory.budgets import settings_of

MIB = 2.0**20
ROWS = list(csv.DictReader(profile_lines("measurements/llama-cpp-memory.csv")))
# Models that the catalogue doesn't hold.
CONFIGS: dict[str, dict[str, Any]] = {
    "zai-org/GLM-Z1-32B-0414": {
        "model_type": "glm4",
        "hidden_size": 6144,
        "intermediate_size": 23040,
        "num_hidden_layers": 61,
        "num_attention_heads": 48,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "vocab_size": 151552,
        "tie_word_embeddings": False,
    },
    "microsoft/bitnet-b1.58-2B-4T": {
        "model_type": "bitnet",
        "hidden_size": 2560,
        "intermediate_size": 6912,
        "num_hidden_layers": 30,
        "num_attention_heads": 20,
        "num_key_value_heads": 5,
        "vocab_size": 128256,
        "tie_word_embeddings": True,
    },
}


def model_of(row: Mapping[str, str]) -> Architecture:
    try:
        return architecture_of(row["model"])
    except UnknownItem:
        return architecture_from_config(CONFIGS[row["model"]])


def layout_of(row: Mapping[str, str], model: Architecture) -> CacheLayout:
    """The row's cache; for latent attention the engine of the rows has three ways to keep one."""
    kv = kv_format(row["kv"], "fp16")
    layout = cache_layout(model, kv.key_bytes, kv.value_bytes, 2.0)
    if row["cache"] in ("keys and values", "latent"):
        return layout
    (mixer,) = {mixer for kind in model.layer_kinds for mixer in kind.mixers}
    assert isinstance(mixer, LatentAttention)
    elements = mixer.heads * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim)
    if row["cache"] == "latent and transposed":
        elements = 2 * mixer.latent_dim + mixer.rope_dim
    each = elements * kv.key_bytes * model.layers
    return CacheLayout((CacheGroup(each, None, 1, None, model.layers),), 0.0, 0.0)


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_the_cache_is_what_the_engine_prints(row: dict[str, str]) -> None:
    model = model_of(row)
    settings = settings_of(
        "llama.cpp", "b8000", 79.19, max_num_batched_tokens=int(row["ubatch_tokens"])
    )
    pool = pool_layout(model, layout_of(row, model), settings)
    held = int(row["sequences"]) * float(sequence_bytes(pool, float(row["context_tokens"])))
    # The engine prints hundredths of a MiB.
    assert round(held / MIB, 2) == pytest.approx(float(row["kv_mib"]), abs=0.0101)


SIZES = [row for row in ROWS if row["file_type"]]


@pytest.mark.parametrize("row", SIZES, ids=[row["id"] for row in SIZES])
def test_the_model_is_within_a_hundredth_of_its_size(row: dict[str, str]) -> None:
    stored = stored_weights(model_of(row), f"gguf:{row['file_type']}", Parallelism(), "fp16")
    assert stored.total_bytes / GIB == pytest.approx(float(row["weights_gib"]), rel=0.01)


def test_models_of_no_catalogue_have_the_parameters_that_the_engine_prints() -> None:
    glm, bitnet = (architecture_from_config(config) for config in CONFIGS.values())
    assert parameters(glm) / 1e9 == pytest.approx(32.566, abs=1e-3)
    assert parameters(bitnet) / 1e9 == pytest.approx(2.413, abs=1e-3)
    own_head = architecture_from_config(
        CONFIGS["microsoft/bitnet-b1.58-2B-4T"] | {"tie_word_embeddings": False}
    )
    assert parameters(own_head) / 1e9 == pytest.approx(2.741, abs=1e-3)


def test_without_windows_every_layer_keeps_the_whole_context() -> None:
    row = next(row for row in ROWS if row["model"] == "openai/gpt-oss-120b")
    model, tokens = model_of(row), 131072.0
    settings = settings_of("llama.cpp", "b8000", 79.19)
    whole = cache_layout(model, 2.0, 2.0, 2.0, ignore_windows=True)
    # 36 layers of 8 heads of 64: twice the 18 layers without a window.
    held = sequence_bytes(pool_layout(model, whole, settings), tokens)
    assert held == 9216 * MIB


def test_rows_state_where_they_were_read() -> None:
    assert len({row["id"] for row in ROWS}) == len(ROWS) >= 29
    assert all(row["source"].startswith("https://") for row in ROWS)
