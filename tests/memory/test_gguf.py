"""GGUF sizes against llama.cpp's published table and the sizes it prints for published files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.architecture.quantization import WeightEncodings
from planner.architecture.resolve import architecture_of
from planner.architecture.spec import Architecture, Part
from planner.architecture.totals import parameters
from planner.catalog.formats import weight_format_ids
from planner.errors import UnknownItem
from planner.memory.gguf import fitting_type, geometry, gguf_encodings
from planner.memory.weights import stored_weights
from planner.quantity import GIB
from planner.scenario import Parallelism

ALONE = Parallelism()


def size(model: Architecture, file_type: str) -> float:
    return stored_weights(model, f"gguf:{file_type}", ALONE, "fp16").total_bytes


# Bits per weight of Llama-3.1-8B, llama.cpp tools/quantize/README.md at 311c2c9. Its weights include 64 rope factors.
README = {
    "IQ1_S": 2.0042,
    "IQ1_M": 2.1460,
    "IQ2_XXS": 2.3824,
    "IQ2_XS": 2.5882,
    "IQ2_S": 2.7403,
    "IQ2_M": 2.9294,
    "IQ3_XXS": 3.2548,
    "IQ3_XS": 3.4977,
    "IQ3_S": 3.6606,
    "IQ3_M": 3.7628,
    "IQ4_XS": 4.4597,
    "IQ4_NL": 4.6818,
    "Q2_K_S": 2.9697,
    "Q2_K": 3.1593,
    "Q3_K_S": 3.6429,
    "Q3_K_L": 4.2979,
    "Q4_K_S": 4.6672,
    "Q4_K_M": 4.8944,
    "Q5_K_S": 5.5704,
    "Q5_K_M": 5.7036,
    "Q6_K": 6.5633,
    "Q8_0": 8.5008,
    "F16": 16.0005,
}


@pytest.mark.parametrize(("file_type", "bits"), README.items())
def test_llama_8b_is_llama_cpps_own_table(file_type: str, bits: float) -> None:
    model = architecture_of("meta-llama/Llama-3.1-8B")
    assert size(model, file_type) * 8 / parameters(model) == pytest.approx(bits, abs=1e-4)


@pytest.mark.parametrize(
    ("model", "file_type", "size_gib"),
    [
        # "model size" that llama.cpp prints; public benchmark reports and issues.
        ("meta-llama/Llama-2-7b-hf", "F16", 12.55),  # XiongjieDai/GPU-Benchmarks-on-LLM-Inference
        ("meta-llama/Llama-2-7b-hf", "Q4_0", 3.562),  # llama.cpp discussion 4167
        ("meta-llama/Llama-2-7b-hf", "Q4_1", 3.95),
        ("meta-llama/Llama-2-7b-hf", "Q4_K_S", 3.59),
        ("meta-llama/Llama-2-7b-hf", "Q4_K_M", 3.80),
        ("meta-llama/Llama-2-13b-hf", "Q8_0", 12.881),
        # 80 layers with grouped queries: values get five bits.
        ("meta-llama/Llama-3.1-70B-Instruct", "Q4_K_M", 39.593),
        ("meta-llama/Llama-3.1-70B-Instruct", "F16", 131.42),
        ("Qwen/Qwen3-32B", "Q8_0", 32.421),
        ("Qwen/Qwen3-30B-A3B", "Q8_0", 30.25),
        ("Qwen/Qwen3-30B-A3B", "Q5_K_M", 20.228),  # ikawrakow/ik_llama.cpp discussion 357
        ("Qwen/Qwen3-235B-A22B", "Q4_K_M", 132.386),
        ("Qwen/Qwen3-235B-A22B", "Q6_K", 179.754),
        # Latent attention: the key half of one projection has rows of 128.
        ("moonshotai/Kimi-K2-Instruct", "Q8_0", 1016.623),
        # Gated delta net: its fused projection counts as a value.
        ("Qwen/Qwen3.5-27B", "Q4_K_M", 15.40),
        # MXFP4 experts: the rest in Q8_0, or as the checkpoint has it.
        ("openai/gpt-oss-120b", "MXFP4", 59.02),
        ("openai/gpt-oss-120b", "F16", 60.868),
    ],
)
def test_published_files(model: str, file_type: str, size_gib: float) -> None:
    assert size(architecture_of(model), file_type) / GIB == pytest.approx(size_gib, rel=2e-3)


@pytest.mark.parametrize(
    ("file_type", "size_gb"),
    [
        ("Q5_K_M", 99.96),
        ("Q5_K_S", 96.97),
        ("Q4_K_M", 85.58),
        ("Q4_K_S", 80.47),
        ("IQ4_NL", 80.47),
        ("IQ4_XS", 76.35),
        ("Q3_K_L", 72.57),
        ("Q3_K_M", 67.78),
        ("IQ3_M", 64.49),
        ("IQ3_S", 61.49),
        ("Q3_K_S", 61.49),
        ("IQ3_XS", 58.22),
        ("Q2_K", 52.10),
    ],
)
def test_eight_experts_have_rules_of_their_own(file_type: str, size_gb: float) -> None:
    # Decimal GB on huggingface.co/bartowski/Mixtral-8x22B-v0.1-GGUF (llama.cpp b2636).
    model = architecture_of("mistralai/Mixtral-8x22B-v0.1")
    assert size(model, file_type) / 1e9 == pytest.approx(size_gb, rel=3e-4)


def test_a_file_is_its_tensors_and_some_megabytes_of_vocabulary() -> None:
    # Llama-3.2-3B-Instruct-Q4_K_M.gguf: 2,019,377,696 bytes (geerlingguy/ai-benchmarks issue 53).
    header = 2_019_377_696 - size(architecture_of("meta-llama/Llama-3.2-3B"), "Q4_K_M")
    assert 7e6 < header < 8e6


@pytest.mark.parametrize(
    ("wanted", "columns", "got"),
    [
        ("Q4_K", 4096, "Q4_K"),
        ("Q4_K", 2880, "Q5_0"),
        ("Q5_K", 2880, "Q5_1"),
        ("Q6_K", 128, "Q8_0"),
        ("Q3_K", 2880, "Q4_0"),
        ("IQ2_XS", 2880, "IQ4_NL"),
        ("Q8_0", 2880, "Q8_0"),
        ("Q4_0", 100, "F16"),
        ("Q4_K", 100, "F16"),
        ("F16", 7, "F16"),
    ],
)
def test_rows_that_do_not_divide_into_blocks_fall_back(wanted: str, columns: int, got: str) -> None:
    assert fitting_type(wanted, columns) == got


def types(
    encodings: WeightEncodings, model: Architecture, layer: int
) -> dict[tuple[Part, str], str]:
    kind = model.layer_kinds[model.layer_order[layer]]
    return {
        (weight.part, weight.name): encoding.format_id.removeprefix("gguf:")
        for weight, encoding in zip(kind.weights, encodings.layers[layer], strict=True)
        if encoding is not None
    }


def test_first_and_last_eighth_and_every_third_layer_get_more_bits() -> None:
    model = architecture_of("meta-llama/Llama-3.1-8B")
    encodings = gguf_encodings(model, "Q4_K_M")
    six = [
        layer
        for layer in range(32)
        if types(encodings, model, layer)[Part.FEED_FORWARD, "down"] == "Q6_K"
    ]
    assert six == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]
    first = types(encodings, model, 0)
    assert first[Part.ATTENTION, "value"] == "Q6_K"
    assert first[Part.ATTENTION, "query"] == "Q4_K"
    outer = dict(zip([weight.name for weight in model.outer], encodings.outer, strict=True))
    assert outer["head"] is not None
    assert outer["head"].format_id == "gguf:Q6_K"
    assert outer["embedding"] is not None
    assert outer["embedding"].format_id == "gguf:Q4_K"


def test_a_tied_table_is_stored_as_an_output() -> None:
    model = architecture_of("google/gemma-3-12b-it")
    (table,) = (
        encoding
        for weight, encoding in zip(model.outer, gguf_encodings(model, "Q4_K_M").outer, strict=True)
        if weight.part is Part.EMBEDDING
    )
    assert table is not None
    assert table.format_id == "gguf:Q6_K"


def test_norms_and_routers_stay_in_fp32() -> None:
    model = architecture_of("Qwen/Qwen3-30B-A3B")
    found = types(gguf_encodings(model, "Q4_K_M"), model, 5)
    assert found[Part.ROUTER, "router"] == "F32"
    assert {kind for (part, _), kind in found.items() if part is Part.NORM} == {"F32"}


def test_mxfp4_experts_stay_whatever_the_file_type() -> None:
    model = architecture_of("openai/gpt-oss-20b")
    for file_type in ("Q4_K_M", "F16", "MXFP4"):
        found = types(gguf_encodings(model, file_type), model, 0)
        assert found[Part.EXPERTS, "down"] == "MXFP4"


def test_towers_are_a_file_of_their_own() -> None:
    model = architecture_of("google/gemma-3-12b-it")
    stored = stored_weights(model, "gguf:Q4_K_M", ALONE, "fp16")
    assert Part.VISION not in stored.by_part
    (note,) = stored.notes
    assert note.code == "gguf_without_towers"
    tower = sum(weight.elements for tower in model.towers for weight in tower.weights)
    assert note.values["bytes"] == 2 * tower
    blind = stored_weights(replace(model, towers=()), "gguf:Q4_K_M", ALONE, "fp16")
    assert blind.total_bytes == stored.total_bytes
    assert blind.notes == ()


def test_geometry_is_read_off_the_architecture() -> None:
    large = geometry(architecture_of("meta-llama/Llama-3.1-70B-Instruct"))
    assert (large.group, large.large, large.experts) == (8, True, 0)
    mixtral = geometry(architecture_of("mistralai/Mixtral-8x7B-v0.1"))
    assert (mixtral.experts, mixtral.large) == (8, False)
    # Every layer has a value or a fused projection.
    hybrid = geometry(architecture_of("Qwen/Qwen3.5-27B"))
    assert hybrid.values == hybrid.layers


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"])
def test_a_family_grows_with_its_bits(model: str) -> None:
    architecture = architecture_of(model)
    for family in (
        ("Q2_K_S", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M"),
        ("Q5_K_M", "Q6_K", "Q8_0", "F16", "F32"),
        ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS", "IQ3_S"),
        ("IQ3_S", "IQ3_M", "IQ4_XS", "IQ4_NL"),
        ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
        ("TQ1_0", "TQ2_0"),
    ):
        sizes = [size(architecture, file_type) for file_type in family]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    "model",
    ["deepseek-ai/DeepSeek-V3", "Qwen/Qwen3.5-27B", "tiiuae/falcon-7b", "openai/gpt-oss-20b"],
)
def test_every_file_type_has_a_size_for_every_kind_of_model(model: str) -> None:
    architecture = architecture_of(model)
    for id_ in weight_format_ids():
        if id_.startswith("gguf:"):
            total = size(architecture, id_.removeprefix("gguf:")) * 8 / parameters(architecture)
            assert 1.5 < total < 32.1


def test_an_unknown_file_type_is_refused() -> None:
    with pytest.raises(UnknownItem):
        gguf_encodings(architecture_of("meta-llama/Llama-3.1-8B"), "Q4_K_XL")
