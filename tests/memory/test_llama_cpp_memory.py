"""Cache and model sizes against what llama.cpp and its fork print when they load a model, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.architecture.cache import cache_layout
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.totals import parameters
from planner.catalog.measurements import Measurement, measured_shapes, measurements
from planner.deployment import resolve
from planner.measure.memory_accuracy import memory_scenario, predicted_memory
from planner.memory.activations import compute_buffer_bytes
from planner.memory.pool import pool_layout, sequence_bytes
from planner.memory_limits import budget_of
from planner.quantity import MIB
from tests.memory.budgets import L4, settings_of

ROWS = measurements("llama-cpp-memory")
CACHES = [row for row in ROWS if "kv_bytes" in row.measured]
SIZES = [row for row in ROWS if "weights_bytes" in row.measured]
# Files that hold another mixture than their file type's name says.
OTHER_MIXTURES = {"lw05", "lw19", "lw20"}


def predicted(row: Measurement, quantity: str) -> float:
    scenario = memory_scenario(row)
    deployment = resolve(scenario)
    budget = budget_of(deployment, scenario)
    return predicted_memory(row, scenario, deployment, budget, quantity)[1]


@pytest.mark.parametrize("row", CACHES, ids=[row.id for row in CACHES])
def test_the_cache_is_what_the_engine_prints(row: Measurement) -> None:
    # The engine prints hundredths of a MiB.
    printed = row.measured["kv_bytes"] / MIB
    assert round(predicted(row, "kv_bytes") / MIB, 2) == pytest.approx(printed, abs=0.0101)


@pytest.mark.parametrize("row", SIZES, ids=[row.id for row in SIZES])
def test_the_model_is_within_a_hundredth_of_its_size(row: Measurement) -> None:
    size = predicted(row, "weights_bytes")
    if row.id in OTHER_MIXTURES:
        assert size < row.measured["weights_bytes"]
    else:
        assert size == pytest.approx(row.measured["weights_bytes"], rel=0.01)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("zai-org/GLM-Z1-32B-0414", 32.566),
        ("microsoft/bitnet-b1.58-2B-4T", 2.413),
        ("microsoft/bitnet-b1.58-2B-4T (own head)", 2.741),
        ("ibm-granite/granite-3.1-2b-instruct", 2.534),
    ],
)
def test_models_of_no_catalogue_have_the_parameters_that_their_logs_print(
    name: str, billions: float
) -> None:
    model = architecture_from_config(dict(measured_shapes()[name]))
    assert parameters(model) / 1e9 == pytest.approx(billions, abs=1e-3)


def test_without_windows_every_layer_keeps_the_whole_context() -> None:
    model, tokens = architecture_of("openai/gpt-oss-120b"), 131072.0
    settings = settings_of("llama.cpp", "b8000", 79.19)
    whole = cache_layout(model, 2.0, 2.0, 2.0, ignore_windows=True)
    # 36 layers of 8 heads of 64: twice the 18 layers without a window.
    held = sequence_bytes(pool_layout(model, whole, settings), tokens)
    assert held == 9216 * MIB


def a_config(model_type: str, **keys: object) -> dict[str, object]:
    common = {
        "model_type": model_type,
        "num_hidden_layers": 4,
        "vocab_size": 1024,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    return common | keys


LATENT = {"q_lora_rank": 256, "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32}


# As llama.cpp 0.5.0-dev prints them of random weights in these shapes, with one slot of 2,048 cells.
@pytest.mark.parametrize(
    ("config", "printed_mib", "within"),
    [
        (
            a_config(
                "llama",
                hidden_size=256,
                intermediate_size=4096,
                num_attention_heads=4,
                num_key_value_heads=2,
            ),
            28.01,
            0.001,
        ),
        (
            a_config(
                "llama",
                hidden_size=256,
                intermediate_size=512,
                num_attention_heads=32,
                num_key_value_heads=8,
                head_dim=64,
            ),
            14.51,
            0.001,
        ),
        (
            a_config(
                "qwen3_moe",
                hidden_size=512,
                intermediate_size=1024,
                num_attention_heads=8,
                num_key_value_heads=2,
                head_dim=64,
                num_experts=16,
                num_experts_per_tok=4,
                moe_intermediate_size=384,
                decoder_sparse_step=1,
            ),
            15.01,
            0.001,
        ),
        (
            a_config(
                "deepseek_v2",
                hidden_size=512,
                intermediate_size=512,
                num_attention_heads=32,
                num_key_value_heads=32,
                v_head_dim=64,
                first_k_dense_replace=4,
                n_routed_experts=8,
                num_experts_per_tok=2,
                moe_intermediate_size=64,
                n_shared_experts=1,
                **LATENT,
            ),
            48.01,
            0.05,
        ),
    ],
    ids=["feed-forward", "attention", "experts", "latent"],
)
def test_a_server_s_compute_buffer_holds_the_widest_layer(
    config: dict[str, object], printed_mib: float, within: float
) -> None:
    settings = replace(settings_of("llama.cpp", "b10300", 22.03, L4), max_num_seqs=1)
    buffer = compute_buffer_bytes(architecture_from_config(config), settings, 2048.0)
    assert buffer / MIB == pytest.approx(printed_mib, rel=within)


def test_qwen3_4b_s_logged_compute_buffer() -> None:
    model = architecture_of("Qwen/Qwen3-4B")
    before, since = (settings_of("llama.cpp", build, 22.03, L4) for build in ("b9463", "b9464"))
    assert compute_buffer_bytes(model, since, 8192.0) / MIB == pytest.approx(85.01, rel=0.001)
    assert compute_buffer_bytes(model, before, 8192.0) / MIB == pytest.approx(301.75)
