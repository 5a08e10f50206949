"""Weight bytes: published file sizes and engine logs, the division over ranks by hand, and properties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.architecture.mixers import Attention
from planner.architecture.resolve import architecture_of
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Shard, Tower, Weight
from planner.architecture.totals import layer_linear_flops_per_token, parameters
from planner.catalog.encodings import Encoding
from planner.catalog.formats import weight_format, weight_format_ids
from planner.errors import InvalidInput, UnknownItem, Unsupported
from planner.memory.encoding import matrix_bytes, weight_bytes
from planner.memory.stages import pipeline_stages
from planner.memory.weights import stored_weights
from planner.quantity import GIB
from planner.scenario import Parallelism

ALONE = Parallelism()


def gib(model: str, format_id: str, dtype: str = "bf16", **options: Any) -> float:
    return (
        stored_weights(architecture_of(model), format_id, ALONE, dtype, **options).total_bytes / GIB
    )


# --- against what is published --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "dtype", "total_size"),
    [
        # `total_size` of each repository's model.safetensors.index.json.
        ("meta-llama/Llama-3.1-8B", "bf16", 16_060_522_496),
        ("meta-llama/Llama-3.1-70B-Instruct", "bf16", 141_107_412_992),
        ("mistralai/Mixtral-8x7B-v0.1", "bf16", 93_405_585_408),
        ("Qwen/Qwen2.5-7B", "bf16", 15_231_233_024),
        ("Qwen/Qwen3-30B-A3B", "bf16", 61_064_245_248),
        ("openai/gpt-oss-20b", "bf16", 13_761_264_768),
    ],
)
def test_native_bytes_are_the_files(model: str, dtype: str, total_size: int) -> None:
    stored = stored_weights(architecture_of(model), "native", ALONE, dtype)
    assert stored.total_bytes == total_size


def test_awq_in_groups_of_64_is_the_file_to_a_rounding_of_its_router_bias() -> None:
    # Index of an AWQ file of DeepSeek-V3 (github.com/kvcache-ai/sglang_awq): 364,589,799,936 bytes. It keeps the
    # router's score correction, 256 values in 58 layers, in FP16 where the original has FP32.
    config = {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True}
    model = replace(architecture_of("deepseek-ai/DeepSeek-V3"), quantization=config)
    stored = stored_weights(model, "native", ALONE, "bf16")
    assert stored.total_bytes - 2 * 256 * 58 == 364_589_799_936


@pytest.mark.parametrize(
    ("model", "format_id", "options", "expected", "tolerance"),
    [
        ("deepseek-ai/DeepSeek-V3", "native", {"include_mtp": True}, 641.3, 0.05),
        ("deepseek-ai/DeepSeek-V3", "native", {}, 626.9, 0.05),
        ("openai/gpt-oss-120b", "native", {}, 60.8, 0.05),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "native", {}, 67.7, 0.05),
        ("meta-llama/Llama-3.1-70B-Instruct", "fp8", {}, 67.7, 0.05),
        # vLLM logs 8.49 GiB for `--quantization fp8`, 32 MiB of it a rotary cache.
        ("meta-llama/Llama-3.1-8B", "fp8", {}, 8.49 - 1 / 32, 0.005),
        ("meta-llama/Llama-3.1-8B", "bf16", {}, 14.96, 0.005),
        ("meta-llama/Llama-3.1-8B", "fp32", {}, 2 * 14.96, 0.01),
    ],
)
def test_published_sizes(
    model: str, format_id: str, options: dict[str, Any], expected: float, tolerance: float
) -> None:
    assert gib(model, format_id, **options) == pytest.approx(expected, abs=tolerance)


def test_gemma_3_12b_in_nf4_depends_on_what_is_quantised() -> None:
    # bitsandbytes quantises the vision tower's linear layers too: 7.75 GiB; 7.26 with double quantisation. With the
    # tower in BF16, as most published files have it, 8.3 and 7.8.
    gemma = architecture_of("google/gemma-3-12b-it")
    nf4 = stored_weights(gemma, "nf4", ALONE, "fp16")
    assert nf4.total_bytes / GIB == pytest.approx(7.75, abs=0.01)
    assert gib("google/gemma-3-12b-it", "nf4-dq", "fp16") == pytest.approx(7.26, abs=0.01)
    config = {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "bnb_4bit_use_double_quant": True,
        "llm_int8_skip_modules": ["lm_head", "vision_tower", "multi_modal_projector"],
    }
    published = stored_weights(replace(gemma, quantization=config), "native", ALONE, "bf16")
    assert published.total_bytes / GIB == pytest.approx(7.81, rel=0.003)
    assert published.label == "nf4-dq"


def test_a_stage_of_llama_8b_in_four_is_what_vllm_logs() -> None:
    # 4.26 GiB on the first rank, 32 MiB of it a rotary cache; 3.75 would be a plain quarter.
    stored = stored_weights(
        architecture_of("meta-llama/Llama-3.1-8B"), "native", Parallelism(pp=4), "bf16"
    )
    assert stored.stage_bytes[0] / GIB == pytest.approx(4.26 - 1 / 32, abs=0.005)
    assert stored.stage_bytes[1] / GIB == pytest.approx(3.25, abs=0.005)


# --- bytes of a matrix, by hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format_id", "rows", "columns", "expected"),
    [
        ("fp8", 100, 200, 20_000 + 4),
        # ⌈130/128⌉ · ⌈200/128⌉ = 4 blocks.
        ("fp8-block", 130, 200, 26_000 + 4 * 4),
        ("int8", 100, 200, 20_000 + 100 * 2),
        ("llm-int8", 100, 200, 20_000 + 100 * 4),
        # Two groups a row: FP16 scale and 4-bit zero point.
        ("awq-int4", 96, 256, 96 * 256 / 2 + 192 * 2.5),
        ("gptq-int4", 96, 256, 96 * 256 / 2 + 192 * 2.5 + 256 * 4),
        ("w4a16", 96, 256, 96 * 256 / 2 + 192 * 2 + 16),
        # Groups run on over rows: 10 · 100 = 1,000 weights, 16 groups; a map of 16 FP32 values.
        ("nf4", 10, 100, 500 + 16 * 4 + 64),
        # 16 scales of one byte, one FP32 for them, two maps (16 and 256 values) and an offset.
        ("nf4-dq", 10, 100, 500 + 16 + 4 + 4 * (16 + 256 + 1)),
        ("nvfp4", 96, 256, 96 * 256 / 2 + 96 * 16 + 8),
        ("mxfp4", 96, 256, 96 * 256 / 2 + 96 * 8),
        ("bf16", 10, 10, 200),
        ("gguf:Q8_0", 4, 64, 4 * 2 * 34),
        ("gguf:Q4_K_M", 4, 512, 4 * 2 * 144),
    ],
)
def test_matrix_bytes(format_id: str, rows: int, columns: int, expected: float) -> None:
    encoding = weight_format(format_id).encoding
    assert encoding is not None
    assert matrix_bytes(encoding, rows, columns) == pytest.approx(expected, rel=1e-12)


def test_a_weight_with_a_type_of_its_own_keeps_it() -> None:
    bias = Weight("router_correction", Part.ROUTER, 8, shape=Shape.VECTOR, dtype="float32")
    assert weight_bytes(bias, None, "bf16") == 32
    assert weight_bytes(replace(bias, dtype=None), None, "bf16") == 16
    experts = Weight("up", Part.EXPERTS, 4, 8, copies=3)
    assert weight_bytes(experts, Encoding("x", 8, tensor_bits=32), "bf16") == 3 * (32 + 4)


# --- division over ranks, by hand -----------------------------------------------------------------------------------

_QUERY = Weight("query", Part.ATTENTION, 64, 16, shard=Shard.EVEN)
_KEY = Weight("key", Part.ATTENTION, 8, 16, shard=Shard.KV_HEADS, kv_heads=2)
_NORM = Weight("norm", Part.NORM, 16, shape=Shape.VECTOR)
_ROUTER = Weight("router", Part.ROUTER, 8, 16)
_EXPERTS = Weight("up", Part.EXPERTS, 32, 16, copies=8, shard=Shard.EXPERTS)
_MIXER = Attention(8, 2, 8, 8)
_DENSE = LayerKind((_MIXER,), (_QUERY, _KEY, _NORM))
_SPARSE = LayerKind((_MIXER,), (_QUERY, _KEY, _NORM, _ROUTER, _EXPERTS), 8, 2)
_TABLE = Weight("embedding", Part.EMBEDDING, 100, 16, shape=Shape.TABLE, shard=Shard.EVEN)
_FINAL = Weight("final_norm", Part.NORM, 16, shape=Shape.VECTOR)
_HEAD = Weight("head", Part.HEAD, 100, 16, shard=Shard.EVEN)
_VISION = Tower("siglip", "image", (Weight("query", Part.VISION, 10, 10),))


def small(**changes: Any) -> Architecture:
    values: dict[str, Any] = {
        "model_type": "small",
        "hidden_size": 16,
        "vocabulary_size": 100,
        "layer_kinds": (_DENSE, _SPARSE),
        "layer_order": (0, 1, 1, 1, 1),
        "outer": (_TABLE, _FINAL, _HEAD),
        "tied": False,
        "max_context_tokens": 64,
        "towers": (_VISION,),
    }
    return Architecture(**(values | changes))


QUERY, KEY, NORM, ROUTER, EXPERTS, TABLE, VISION = 2048, 256, 32, 256, 8192, 3200, 200


def test_the_whole_model_by_part() -> None:
    stored = stored_weights(small(), "native", ALONE, "bf16")
    assert stored.by_part == {
        Part.ATTENTION: 5 * (QUERY + KEY),
        Part.NORM: 6 * NORM,
        Part.ROUTER: 4 * ROUTER,
        Part.EXPERTS: 4 * EXPERTS,
        Part.EMBEDDING: TABLE,
        Part.HEAD: TABLE,
        Part.VISION: VISION,
    }
    assert stored.rank_bytes == stored.total_bytes == sum(stored.by_part.values())


def test_tensor_parallel_ranks_share_what_can_be_shared() -> None:
    # KV heads: two, so that four ranks hold half each; norms, routers and the tower whole on each.
    stored = stored_weights(small(), "native", Parallelism(tp=4), "bf16")
    whole = 6 * NORM + 4 * ROUTER + VISION
    assert stored.rank_bytes == whole + (5 * QUERY + 4 * EXPERTS + 2 * TABLE) / 4 + 5 * KEY / 2
    # Read each step: no table, no tower, no experts.
    assert stored.read_bytes_per_token_step == (
        6 * NORM + 4 * ROUTER + (5 * QUERY + TABLE) / 4 + 5 * KEY / 2
    )
    (group,) = stored.experts
    assert (group.layers, group.experts, group.experts_per_token) == (4, 8, 2)
    assert (group.total_bytes, group.rank_bytes) == (4 * EXPERTS, EXPERTS)


def test_data_parallel_attention_copies_all_but_experts() -> None:
    stored = stored_weights(small(), "native", Parallelism(tp=2, dp=2, ep=4), "bf16")
    whole = 6 * NORM + 4 * ROUTER + VISION
    shared = (5 * (QUERY + KEY) + 2 * TABLE) / 2 + 4 * EXPERTS / 4
    assert stored.rank_bytes == whole + shared


def test_pipeline_stages_hold_contiguous_layers() -> None:
    stored = stored_weights(small(), "native", Parallelism(pp=2), "bf16")
    dense, sparse = QUERY + KEY + NORM, QUERY + KEY + NORM + ROUTER + EXPERTS
    # Three layers, the table and the tower; two layers, the final norm and the head.
    assert stored.stage_bytes == (dense + 2 * sparse + TABLE + VISION, 2 * sparse + NORM + TABLE)
    assert stored.rank_bytes == max(stored.stage_bytes)
    assert sum(stored.stage_bytes) == stored.total_bytes


def test_a_tied_head_is_read_though_not_held_twice() -> None:
    tied = small(outer=(_TABLE, _FINAL), tied=True)
    stored = stored_weights(tied, "native", Parallelism(tp=2), "bf16")
    untied = stored_weights(small(), "native", Parallelism(tp=2), "bf16")
    assert stored.read_bytes_per_token_step == untied.read_bytes_per_token_step
    assert untied.total_bytes - stored.total_bytes == TABLE
    # In a pipeline the last stage needs a copy of its own.
    halves = stored_weights(tied, "native", Parallelism(pp=2), "bf16")
    assert sum(halves.stage_bytes) == stored.total_bytes + TABLE


def test_without_a_head_nothing_is_read_for_logits() -> None:
    stored = stored_weights(small(outer=(_TABLE,), has_head=False), "native", ALONE, "bf16")
    assert stored.head_flops == 0
    assert stored.read_bytes_per_token_step == 5 * (QUERY + KEY + NORM) + 4 * ROUTER


def test_an_encoder_is_read_by_its_input_only() -> None:
    encoder = replace(_DENSE, role="encoder")
    model = small(layer_kinds=(_DENSE, encoder), layer_order=(1, 1, 0), towers=())
    stored = stored_weights(model, "fp8", ALONE, "bf16")
    layer = (QUERY + KEY) / 2 + NORM + 2 * 4  # a scale per matrix
    assert stored.encoder_read_bytes == 2 * layer
    assert stored.encoder_flops == {"fp8": 2 * (QUERY + KEY)}
    assert stored.read_bytes_per_token_step == layer + NORM + TABLE


def test_mtp_layers_count_where_asked_for() -> None:
    mtp = small(mtp=(replace(_QUERY, part=Part.MTP),))
    left_out = stored_weights(mtp, "native", ALONE, "bf16")
    counted = stored_weights(mtp, "native", ALONE, "bf16", include_mtp=True)
    assert counted.total_bytes - left_out.total_bytes == QUERY
    assert counted.by_part[Part.MTP] == QUERY
    assert counted.read_bytes_per_token_step == left_out.read_bytes_per_token_step
    assert [(note.code, note.values) for note in left_out.notes] == [
        ("mtp_left_out", {"bytes": QUERY})
    ]
    assert counted.notes == ()


@pytest.mark.parametrize(
    ("layers", "pp", "sizes"),
    [
        (32, 1, [32]),
        (32, 4, [8, 8, 8, 8]),
        (61, 4, [15, 15, 16, 15]),
        (62, 4, [15, 16, 16, 15]),
        (3, 3, [1, 1, 1]),
    ],
)
def test_layers_that_do_not_divide_go_before_the_last_stage(
    layers: int, pp: int, sizes: list[int]
) -> None:
    stages = pipeline_stages(layers, pp)
    assert [last - first for first, last in stages] == sizes
    assert [first for first, _ in stages][1:] == [last for _, last in stages][:-1]


def test_more_stages_than_layers_are_refused() -> None:
    with pytest.raises(InvalidInput):
        stored_weights(small(), "native", Parallelism(pp=6), "bf16")


# --- work -----------------------------------------------------------------------------------------------------------


def test_work_is_split_by_the_peak_it_uses() -> None:
    stored = stored_weights(small(), "fp8", ALONE, "bf16")
    # Two of eight experts; routers stay in the compute dtype. One multiply-add is two FLOP: bytes in BF16.
    quantised = 5 * (QUERY + KEY) + 4 * EXPERTS / 4
    assert stored.flops == {"fp8": quantised, "compute": 4 * ROUTER}
    assert stored.expert_flops == {"fp8": 4 * EXPERTS / 4}
    assert (stored.head_flops, stored.head_compute) == (2 * 100 * 16, "compute")


def test_bitsandbytes_unpacks_in_a_pass_of_its_own() -> None:
    stored = stored_weights(small(), "nf4", Parallelism(tp=2), "fp16")
    # Elements, half of them on each rank; a router is a linear layer too, whole on each.
    assert stored.dequantised_elements_per_step == 5 * (1024 + 128) / 2 + 4 * 128
    assert stored.experts[0].dequantised_elements == 4 * 4096 / 2
    assert stored.by_part[Part.VISION] == 50 + 2 * 4 + 64  # the tower's linear layers too
    assert "bitsandbytes_experts" in {note.code for note in stored.notes}
    assert stored_weights(small(), "fp8", ALONE, "fp16").dequantised_elements_per_step == 0


def test_four_bit_experts_and_plain_attention_have_two_peaks() -> None:
    stored = stored_weights(architecture_of("openai/gpt-oss-120b"), "native", ALONE, "bf16")
    assert set(stored.flops) == {"compute", "fp4"}
    assert stored.formats == ("mxfp4",)
    assert stored.expert_flops == {"fp4": stored.flops["fp4"]}


# --- labels and refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "format_id", "label", "formats"),
    [
        ("meta-llama/Llama-3.1-8B", "native", "bf16", ("bf16",)),
        ("meta-llama/Llama-3.1-8B", "awq", "awq-int4", ("awq-int4",)),
        ("deepseek-ai/DeepSeek-V3", "native", "fp8-block", ("fp8-block",)),
        ("deepseek-ai/DeepSeek-V3", "fp8", "fp8-block", ("fp8-block",)),
        ("openai/gpt-oss-20b", "mxfp4", "mxfp4 experts", ("mxfp4",)),
        ("openai/gpt-oss-20b", "bf16", "bf16", ("bf16",)),
        ("deepseek-ai/DeepSeek-V3", "gguf:Q4_K_M", "gguf:Q4_K_M", ("gguf:Q4_K_M",)),
    ],
)
def test_labels_say_what_the_weights_are(
    model: str, format_id: str, label: str, formats: tuple[str, ...]
) -> None:
    stored = stored_weights(architecture_of(model), format_id, ALONE, "bf16")
    assert (stored.label, stored.formats, stored.format_id) == (label, formats, format_id)


@pytest.mark.parametrize(("kernel", "loaded_gib"), [("marlin", 65.97), ("triton", 64.4)])
def test_mxfp4_experts_take_more_memory_than_their_file(kernel: str, loaded_gib: float) -> None:
    # vLLM 0.10.1 (Marlin, issue 23278) and 0.19 (Triton) for gpt-oss-120b on an H100, rotary cache and biases included.
    stored = stored_weights(architecture_of("openai/gpt-oss-120b"), "native", ALONE, "bf16")
    added = stored.padding_rank_bytes[kernel]
    assert (stored.total_bytes + added) / GIB == pytest.approx(loaded_gib, abs=0.2)


def test_unpacking_a_checkpoint_is_said() -> None:
    stored = stored_weights(architecture_of("openai/gpt-oss-20b"), "bf16", ALONE, "bf16")
    model = architecture_of("openai/gpt-oss-20b")
    assert stored.total_bytes == 2 * parameters(model)
    assert [note.code for note in stored.notes] == ["checkpoint_unpacked"]


@pytest.mark.parametrize(
    ("model", "format_id"),
    [
        ("deepseek-ai/DeepSeek-V3", "nf4"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "gptq-int4"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "gguf:Q4_K_M"),
        ("openai/gpt-oss-20b", "awq-int4"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "fp8"),
    ],
)
def test_a_quantised_checkpoint_is_not_quantised_again(model: str, format_id: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        stored_weights(architecture_of(model), format_id, ALONE, "bf16")
    assert refusal.value.field == "weights"
    assert refusal.value.values["nearest"] == ("native",)


def test_an_unknown_method_is_refused_and_never_costs_nothing() -> None:
    model = small(quantization={"quant_method": "quanto"})
    for format_id in ("native", "bf16", "gguf:Q4_0"):
        with pytest.raises(Unsupported):
            stored_weights(model, format_id, ALONE, "bf16")
    with pytest.raises(UnknownItem):
        stored_weights(small(), "int3", ALONE, "bf16")


# --- properties -----------------------------------------------------------------------------------------------------

MODELS = (
    "meta-llama/Llama-3.1-8B",
    "google/gemma-3-12b-it",
    "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V3",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
)
degrees = st.sampled_from((1, 2, 4, 8))


@given(
    model=st.sampled_from(MODELS), tp=degrees, pp=st.integers(1, 6), dp=st.sampled_from((1, 2, 4))
)
def test_ranks_hold_the_model_between_them(model: str, tp: int, pp: int, dp: int) -> None:
    architecture = architecture_of(model)
    whole = stored_weights(architecture, "native", ALONE, "bf16")
    part = stored_weights(architecture, "native", Parallelism(tp, pp, 1, dp), "bf16")
    assert part.total_bytes == pytest.approx(whole.total_bytes, rel=1e-12)
    assert part.flops == pytest.approx(whole.flops)
    assert sum(part.stage_bytes) * tp * dp >= whole.total_bytes * (1 - 1e-12)
    assert part.rank_bytes == max(part.stage_bytes) <= whole.total_bytes * (1 + 1e-12)
    assert part.read_bytes_per_token_step <= whole.read_bytes_per_token_step * (1 + 1e-12)
    held = part.read_bytes_per_token_step + sum(group.rank_bytes for group in part.experts)
    tied = stored_weights(architecture, "native", Parallelism(tp), "bf16").by_part[Part.EMBEDDING]
    assert held <= sum(part.stage_bytes) * (1 + 1e-12) + (tied if architecture.tied else 0)


@given(model=st.sampled_from(MODELS), tp=st.sampled_from((1, 2, 4)), pp=st.integers(1, 4))
def test_more_ranks_never_hold_more_each(model: str, tp: int, pp: int) -> None:
    architecture = architecture_of(model)
    few = stored_weights(architecture, "native", Parallelism(tp, pp), "bf16")
    many = stored_weights(architecture, "native", Parallelism(2 * tp, pp), "bf16")
    assert many.rank_bytes <= few.rank_bytes


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("format_id", ["native", "bf16", "gguf:Q4_K_M"])
def test_work_sums_to_the_architectures(model: str, format_id: str) -> None:
    architecture = architecture_of(model)
    stored = stored_weights(architecture, format_id, ALONE, "bf16")
    outer = sum(
        2.0 * weight.elements
        for weight in architecture.outer
        if weight.shape is Shape.LINEAR and weight.part is not Part.HEAD
    )
    expected = layer_linear_flops_per_token(architecture) + outer
    assert sum(stored.flops.values()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("format_id", [id_ for id_ in weight_format_ids() if id_ != "native"])
def test_every_format_stores_a_model_within_its_bits(format_id: str) -> None:
    # Above the encoding's own bits on all weights, below FP16 on all (FP32 for FP32).
    model = architecture_of("meta-llama/Llama-3.1-8B")
    bits = weight_format(format_id).bits_per_weight
    assert bits is not None
    total = stored_weights(model, format_id, ALONE, "bf16").total_bytes * 8 / parameters(model)
    assert 0.99 * bits <= total <= max(16.01, bits)
