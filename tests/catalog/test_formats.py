"""Formats: bits and scales against the published layouts, names, kernels by hardware, and the compute dtype."""

from __future__ import annotations

from typing import Any

import pytest

from planner.catalog.accelerators import accelerator
from planner.catalog.dtypes import resolve_dtype
from planner.catalog.encodings import Encoding, read_rules
from planner.catalog.formats import (
    gguf_block_elements,
    gguf_encoding,
    kv_format,
    kv_format_ids,
    supported,
    weight_format,
    weight_format_ids,
)
from planner.errors import BadProfile, InvalidInput, MissingFigure, UnknownItem, Unsupported

ENGINES = ("vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp")
CARDS = {
    "P100": "tesla-p100-pcie-16gb",
    "V100": "v100-sxm2-32gb",
    "T4": "t4",
    "A100": "a100-sxm4-80gb",
    "L4": "l4",
    "H100": "h100-sxm-80gb",
    "B200": "b200-sxm-180gb",
    "5090": "rtx-5090",
    "MI250": "mi250-128gb",
    "MI300X": "mi300x-192gb",
    "MI355X": "mi355x-288gb",
    "M4": "apple-m4",
    "Gaudi3": "gaudi3",
}


def card(name: str) -> Any:
    return accelerator(CARDS[name])


@pytest.mark.parametrize(
    ("id_", "bits"),
    [
        # Payload and what each group of weights adds, written out: (scale + zero point) / group.
        ("bf16", 16),
        ("fp32", 32),
        ("fp8", 8),
        ("fp8-block", 8 + 32 / (128 * 128)),
        ("mxfp8", 8 + 8 / 32),
        ("awq-int4", 4 + (16 + 4) / 128),
        ("gptq-int4", 4 + (16 + 4) / 128),
        ("w4a16", 4 + 16 / 128),
        ("nf4", 4 + 32 / 64),
        ("nf4-dq", 4 + 8 / 64 + 32 / (64 * 256)),
        ("nvfp4", 4 + 8 / 16),
        ("mxfp4", 4 + 8 / 32),
        ("gguf:Q8_0", 8.5),
        ("gguf:Q4_0", 4.5),
        # Bits per weight that llama.cpp's own comments and its quantize tool print for the tensor types.
        ("gguf:Q2_K", 2.625),
        ("gguf:Q3_K_M", 3.4375),
        ("gguf:Q4_K_M", 4.5),
        ("gguf:Q5_K_M", 5.5),
        ("gguf:Q6_K", 6.5625),
        ("gguf:IQ1_S", 1.5625),
        ("gguf:IQ1_M", 1.75),
        ("gguf:IQ2_XXS", 2.0625),
        ("gguf:IQ2_XS", 2.3125),
        ("gguf:IQ2_M", 2.5625),
        ("gguf:IQ3_XXS", 3.0625),
        ("gguf:IQ3_S", 3.4375),
        ("gguf:IQ4_NL", 4.5),
        ("gguf:IQ4_XS", 4.25),
        ("gguf:TQ1_0", 1.6875),
        ("gguf:TQ2_0", 2.0625),
        ("gguf:MXFP4", 4.25),
    ],
)
def test_bits_per_weight_follow_from_the_layout(id_: str, bits: float) -> None:
    assert weight_format(id_).bits_per_weight == pytest.approx(bits, rel=1e-12)


def test_nf4_with_double_quantisation_is_the_papers_4_127_bits() -> None:
    assert round(weight_format("nf4-dq").bits_per_weight or 0, 3) == 4.127


def test_every_format_loads_and_has_rules_for_known_engines_only() -> None:
    assert len(weight_format_ids()) == len(set(weight_format_ids()))
    for id_ in weight_format_ids():
        format_ = weight_format(id_)
        assert format_.id == id_
        assert set(format_.support) <= set(ENGINES)
        if id_ != "native":
            assert format_.encoding is not None
            assert format_.encoding.compute in {"compute", "fp8", "int8", "fp4"}


@pytest.mark.parametrize(
    ("given", "id_"),
    [
        ("FP8", "fp8"),
        (" awq ", "awq-int4"),
        ("bfloat16", "bf16"),
        ("bnb-4bit", "nf4"),
        ("W8A8", "int8"),
        ("gguf:q4_k_m", "gguf:Q4_K_M"),
        ("Q4_K_M", "gguf:Q4_K_M"),
        ("gguf:Q4_K", "gguf:Q4_K_M"),
        ("gguf:MXFP4_MOE", "gguf:MXFP4"),
        ("mxfp4", "mxfp4"),  # not the GGUF file type
        ("native", "native"),
    ],
)
def test_a_format_answers_to_its_other_names(given: str, id_: str) -> None:
    assert weight_format(given).id == id_


@pytest.mark.parametrize("given", ["fp7", "gguf:Q4_K_XL", "gguf:", "", "int3", "kv", "gguf"])
def test_an_unknown_format_is_refused_with_close_ids(given: str) -> None:
    with pytest.raises(UnknownItem) as refusal:
        weight_format(given)
    assert refusal.value.field == "weights"
    assert set(refusal.value.values["nearest"]) <= set(weight_format_ids())


def test_an_unknown_tensor_type_has_no_size() -> None:
    with pytest.raises(MissingFigure):
        gguf_encoding("Q9_K")
    assert (gguf_block_elements("Q4_K"), gguf_block_elements("Q8_0")) == (256, 32)


def test_a_support_rule_needs_a_source() -> None:
    rule = {"vendor": "NVIDIA", "kernel": "marlin", "source": "nobody"}
    with pytest.raises(BadProfile):
        read_rules([rule], {}, "compute", "formats/x.yaml")


def test_a_whole_row_and_a_whole_matrix_add_nothing_per_weight() -> None:
    assert Encoding("x", 8, scale_bits=32).bits_per_weight == 8
    assert Encoding("x", 8, group_rows=1, scale_bits=16).bits_per_weight == 8


# --- the cache ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "scheme", "key", "value"),
    [
        ("auto", None, 2.0, 2.0),
        ("auto", "fp8", 1.0, 1.0),
        ("fp16", "fp8", 2.0, 2.0),
        ("fp8_e4m3", None, 1.0, 1.0),
        ("q8_0", None, 34 / 32, 34 / 32),
        ("q4_0", None, 18 / 32, 18 / 32),
        ("q5_0", None, 22 / 32, 22 / 32),
        ("q5_1", None, 24 / 32, 24 / 32),
        ("q4_1", None, 20 / 32, 20 / 32),
        ("iq4_nl", None, 18 / 32, 18 / 32),
        ("q8_0/q4_0", None, 34 / 32, 18 / 32),
        ("auto/q8_0", None, 2.0, 34 / 32),
    ],
)
def test_cache_formats_count_their_scales(
    given: str, scheme: str | None, key: float, value: float
) -> None:
    format_ = kv_format(given, "bf16", scheme)
    assert (format_.key_bytes, format_.value_bytes) == (key, value)


def test_auto_is_the_compute_dtype_by_name() -> None:
    assert kv_format("auto", "fp32").id == "fp32"
    assert kv_format("auto", "fp32").key_bytes == 4.0
    assert kv_format("q8_0/q8_0", "fp16").id == "q8_0"
    assert kv_format_ids()[0] == "auto"


@pytest.mark.parametrize("given", ["fp3", "q8_0/q4_0/q4_0", "/", "q8_0/"])
def test_an_unknown_cache_format_is_refused(given: str) -> None:
    with pytest.raises(UnknownItem) as refusal:
        kv_format(given, "bf16")
    assert refusal.value.field == "kv"


@pytest.mark.parametrize(
    ("given", "engine", "on", "note"),
    [
        ("fp8", "vllm", "H100", ""),
        ("fp8", "vllm", "A100", "kv_converted_in_software"),
        ("fp8", "vllm", "T4", None),
        ("fp8", "vllm", "MI300X", ""),
        ("fp8", "vllm", "MI250", None),
        ("fp8", "tensorrt-llm", "A100", ""),
        ("fp8", "transformers", "H100", None),
        ("bf16", "vllm", "T4", None),
        ("fp16", "vllm", "T4", ""),
        ("q8_0", "vllm", "H100", None),
        ("q8_0", "llama.cpp", "M4", "quantised_v_needs_flash_attention"),
        ("q8_0/q4_0", "llama.cpp", "T4", "mixed_kv_needs_build_option"),
        ("fp8/fp16", "vllm", "H100", None),
    ],
)
def test_cache_formats_by_engine_and_hardware(
    given: str, engine: str, on: str, note: str | None
) -> None:
    answer = supported(kv_format(given, "fp16"), engine, card(on))
    assert answer.ok is (note is not None)
    if note is not None:
        assert answer.note == note
    else:
        assert answer.nearest_format is not None
        assert supported(kv_format(answer.nearest_format, "fp16"), engine, card(on)).ok


# --- kernels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format_id", "engine", "on", "kernel"),
    [
        # FP8 units from compute capability 8.9; weight-only through Marlin below (vLLM documentation).
        ("fp8", "vllm", "L4", "cutlass_fp8"),
        ("fp8", "vllm", "A100", "marlin"),
        ("fp8", "vllm", "T4", "marlin"),
        ("fp8", "vllm", "V100", None),
        ("fp8", "vllm", "MI300X", "aiter"),
        ("fp8", "vllm", "MI250", None),
        ("fp8", "tensorrt-llm", "A100", None),
        ("fp8", "transformers", "A100", None),
        ("fp8", "llama.cpp", "H100", None),
        # INT8: Turing to Hopper, not Blackwell (vLLM documentation).
        ("int8", "vllm", "T4", "cutlass_int8"),
        ("int8", "vllm", "H100", "cutlass_int8"),
        ("int8", "vllm", "B200", None),
        ("int8", "vllm", "5090", None),
        ("awq-int4", "vllm", "A100", "marlin"),
        ("awq-int4", "vllm", "T4", "marlin"),
        ("awq-int4", "vllm", "V100", None),
        ("awq-int4", "tensorrt-llm", "B200", None),
        ("gptq-int4", "vllm", "V100", "exllama"),
        ("nf4", "transformers", "T4", "bitsandbytes"),
        ("nf4", "transformers", "P100", "bitsandbytes"),
        ("nf4", "tensorrt-llm", "H100", None),
        ("llm-int8", "transformers", "T4", "bitsandbytes"),
        ("llm-int8", "transformers", "V100", None),
        ("nvfp4", "vllm", "B200", "cutlass_fp4"),
        ("nvfp4", "vllm", "5090", "cutlass_fp4"),
        ("nvfp4", "vllm", "H100", "marlin"),
        ("nvfp4", "tensorrt-llm", "H100", None),
        ("mxfp4", "vllm", "B200", "flashinfer_mxfp4"),
        ("mxfp4", "vllm", "H100", "triton"),
        ("mxfp4", "vllm", "A100", "marlin"),
        ("mxfp4", "vllm", "T4", None),
        ("mxfp4", "vllm", "MI355X", "aiter"),
        ("gguf:Q4_K_M", "llama.cpp", "T4", "mmq"),
        ("gguf:Q4_K_M", "llama.cpp", "M4", "metal"),
        ("gguf:Q4_K_M", "transformers", "T4", None),
        ("bf16", "vllm", "T4", None),
        ("bf16", "vllm", "Gaudi3", "onednn"),
        ("fp16", "tensorrt-llm", "T4", None),
        ("bf16", "vllm", "M4", None),
    ],
)
def test_kernels_by_engine_and_hardware(
    format_id: str, engine: str, on: str, kernel: str | None
) -> None:
    answer = supported(weight_format(format_id), engine, card(on))
    assert (answer.kernel if answer.ok else None) == kernel


@pytest.mark.parametrize(
    ("format_id", "engine", "on", "compute"),
    [
        ("fp8", "vllm", "H100", "fp8"),
        ("fp8", "vllm", "A100", "compute"),
        ("nvfp4", "vllm", "B200", "fp4"),
        ("nvfp4", "vllm", "H100", "compute"),
        ("awq-int4", "vllm", "H100", "compute"),
        ("gguf:Q4_K_M", "llama.cpp", "T4", "int8"),
        ("gguf:Q4_K_M", "llama.cpp", "V100", "compute"),
        ("gguf:F16", "llama.cpp", "T4", "compute"),
        ("gguf:Q4_K_M", "llama.cpp", "M4", "compute"),
    ],
)
def test_a_kernel_says_whose_peak_its_products_use(
    format_id: str, engine: str, on: str, compute: str
) -> None:
    assert supported(weight_format(format_id), engine, card(on)).compute == compute


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("on", sorted(CARDS))
def test_the_way_out_works_where_there_is_one(engine: str, on: str) -> None:
    hardware = card(on)
    answers = {
        id_: supported(weight_format(id_), engine, hardware)
        for id_ in weight_format_ids()
        if id_ != "native"
    }
    anything = any(answer.ok for answer in answers.values())
    for answer in answers.values():
        if answer.ok:
            assert answer.kernel
        else:
            assert (answer.nearest_format is not None) is anything
            assert answer.nearest_format is None or answers[answer.nearest_format].ok


@pytest.mark.parametrize(
    ("format_id", "engine", "on", "nearest"),
    [
        ("fp8", "tensorrt-llm", "A100", "awq-int4"),
        ("mxfp4", "vllm", "T4", "awq-int4"),
        ("int8", "vllm", "B200", "fp8"),
        ("fp8", "transformers", "T4", "llm-int8"),
        ("awq-int4", "llama.cpp", "T4", "gguf:Q4_K_M"),
        ("fp8", "llama.cpp", "M4", "gguf:Q8_0"),
        ("bf16", "vllm", "T4", "fp16"),
    ],
)
def test_the_way_out_is_about_as_large(format_id: str, engine: str, on: str, nearest: str) -> None:
    assert supported(weight_format(format_id), engine, card(on)).nearest_format == nearest


def test_native_is_asked_by_its_own_formats() -> None:
    with pytest.raises(InvalidInput):
        supported(weight_format("native"), "vllm", card("T4"))


# --- the compute dtype ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trained", "engine", "on", "model_type", "dtype", "notes"),
    [
        ("bfloat16", "vllm", "H100", "llama", "bf16", []),
        ("float16", "vllm", "H100", "llama", "fp16", []),
        ("float32", "vllm", "H100", "granitemoe", "bf16", []),
        ("float32", "transformers", "H100", "granitemoe", "fp32", []),
        ("bfloat16", "vllm", "T4", "llama", "fp16", ["fp16_of_bf16_model"]),
        ("float16", "vllm", "T4", "llama", "fp16", []),
        ("bfloat16", "sglang", "T4", "llama", "fp16", ["fp16_of_bf16_model"]),
        ("bfloat16", "transformers", "T4", "llama", "fp16", ["fp16_of_bf16_model"]),
        ("bfloat16", "transformers", "T4", "gemma3", "fp16", ["fp16_overflows"]),
        ("bfloat16", "vllm", "T4", "gemma3", "fp32", ["fp32_forced"]),
        ("bfloat16", "vllm", "V100", "gemma2", "fp32", ["fp32_forced"]),
        ("bfloat16", "vllm", "L4", "gemma3", "bf16", []),
        ("bfloat16", "llama.cpp", "T4", "gemma3", "fp16", []),
    ],
)
def test_auto_dtype_follows_the_engine(
    trained: str, engine: str, on: str, model_type: str, dtype: str, notes: list[str]
) -> None:
    chosen, told = resolve_dtype("auto", trained, card(on), engine, model_type=model_type)
    assert (chosen, [note.code for note in told]) == (dtype, notes)


def test_a_dtype_that_is_asked_for_is_taken_or_refused() -> None:
    assert resolve_dtype("float16", "bfloat16", card("H100"), "vllm")[0] == "fp16"
    assert resolve_dtype("fp32", "bfloat16", card("H100"), "vllm") == ("fp32", ())
    chosen, notes = resolve_dtype("bf16", "bfloat16", card("T4"), "transformers")
    assert (chosen, notes[0].code) == ("bf16", "bf16_emulated")
    with pytest.raises(Unsupported) as refusal:
        resolve_dtype("bf16", "bfloat16", card("T4"), "vllm")
    assert refusal.value.values["nearest"] == ("fp16", "fp32")
    with pytest.raises(Unsupported) as refusal:
        resolve_dtype("fp16", "bfloat16", card("T4"), "vllm", model_type="gemma3")
    assert refusal.value.values["nearest"] == ("fp32",)
    with pytest.raises(UnknownItem):
        resolve_dtype("fp8", "bfloat16", card("H100"), "vllm")
