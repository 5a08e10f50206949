"""What engines hold beside a checkpoint's tensors: rotary tables, copies for latent attention, unsplit blocks."""

from __future__ import annotations

import pytest

from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.rotary import rotary_tables
from planner.deployment import resolve
from planner.memory.activations import rotary_bytes
from planner.memory.loading import loading_bytes
from planner.quantity import GIB, MIB
from planner.scenario import Parallelism, Scenario


def beside(model: str, tp: int = 1, **changes: bool) -> float:
    options = {"plain": True, "absorbed_copies": False} | changes
    return loading_bytes(architecture_of(model), Parallelism(tp=tp), 2.0, **options) / MIB


@pytest.mark.parametrize(("tp", "measured_mib"), [(1, 58), (2, 20), (4, 0)])
def test_blocks_of_qwen_on_one_two_and_four_cards(tp: int, measured_mib: float) -> None:
    # 14.25, 7.12 and 3.55 GiB loaded in the llm-d-planner accuracy report, less tensors and rotary table.
    assert beside("Qwen/Qwen2.5-7B-Instruct", tp) == pytest.approx(measured_mib, abs=6)


def test_even_matrices_leave_nothing_over() -> None:
    # 48, 32, 224 and 112 MiB a layer, 1,002 MiB for each table.
    assert beside("meta-llama/Llama-3.1-8B") == 0.0


def test_a_block_keeps_up_to_a_mebibyte() -> None:
    model = architecture_from_config(
        {
            "model_type": "llama",
            "hidden_size": 1024,
            "intermediate_size": 5376,
            "num_hidden_layers": 3,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
            "vocab_size": 1024,
            "tie_word_embeddings": True,
        }
    )
    # gate and up: 21 MiB in 22, 1 over, kept. down: 10.5 MiB in 12, 1.5 over, split off. The rest is below 10 MiB.
    kept = loading_bytes(model, Parallelism(), 2.0, plain=True, absorbed_copies=False)
    assert kept == 3 * MIB
    # On two cards gate and up are 10.5 MiB as well.
    assert loading_bytes(model, Parallelism(tp=2), 2.0, plain=True, absorbed_copies=False) == 0.0


def test_latent_attention_is_held_twice_where_it_is_decoded_on_its_latent() -> None:
    model = "deepseek-ai/DeepSeek-V3"
    # 61 layers of 128 heads · 512 · (128 + 128) in 16 bits: 1.91 GiB, over tp.
    copies = 61 * 128 * 512 * 256 * 2.0 / MIB
    assert beside(model, plain=False, absorbed_copies=True) == copies
    assert beside(model, 8, plain=False, absorbed_copies=True) == copies / 8
    assert beside(model, plain=False) == 0.0


@pytest.mark.parametrize(
    ("model", "loaded_gib"),
    [
        ("google/gemma-3-4b-it", 8.58),
        ("google/gemma-3-12b-it", 23.31),
        ("google/gemma-3-27b-it", 51.45),
        ("deepseek-ai/DeepSeek-V2-Lite", 29.43),
        ("microsoft/phi-4", 27.39),
    ],
)
def test_loaded_sizes_of_the_accuracy_report(model: str, loaded_gib: float) -> None:
    one = resolve(Scenario(model=model, gpu="h100-sxm-80gb", engine="vllm", engine_version="0.19"))
    rotary = rotary_bytes(one.architecture, one.compute_bytes)
    loaded = one.stored.rank_bytes + rotary + one.padding_bytes
    assert loaded / GIB == pytest.approx(loaded_gib, rel=0.001)


@pytest.mark.parametrize(
    ("config", "tables"),
    [
        ({}, 1.0),
        ({"rope_scaling": None}, 1.0),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 1.0),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 2.0),
        ({"rope_scaling": {"rope_type": "linear", "factor": 8}, "rope_local_base_freq": 1e4}, 9.0),
        ({"rope_parameters": {"rope_type": "linear", "factor": 4.0}}, 4.0),
        ({"rope_parameters": {"a": {"rope_type": "default"}, "b": {"rope_type": "linear"}}}, 2.0),
        ({"rope_scaling": {"rope_type": "linear", "factor": float("inf")}}, 1.0),
        ({"rope_scaling": {"rope_type": "linear", "factor": True}}, 1.0),
        ({"rope_scaling": {"rope_type": ["linear"], "factor": 8.0}}, 1.0),
        ({"rope_scaling": "linear", "rope_local_base_freq": "yes"}, 1.0),
    ],
)
def test_tables_of_a_configuration(config: dict[str, object], tables: float) -> None:
    assert rotary_tables(config) == tables
