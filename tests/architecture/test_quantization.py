"""A checkpoint's own quantisation: which weights its lists mean, exact element counts of published files, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import Any

import pytest

from planner.architecture.module_paths import ModulePatterns, module_paths
from planner.architecture.quantization import checkpoint_scheme
from planner.architecture.resolve import architecture_of
from planner.architecture.spec import Architecture, Part, Shard, Weight
from planner.catalog.encodings import Encoding
from planner.errors import InvalidConfig, Unsupported


def pairs(architecture: Architecture, *, mtp: bool) -> Iterator[tuple[Weight, Encoding | None]]:
    """Every weight of a checkpoint with its encoding."""
    scheme = checkpoint_scheme(architecture)
    assert scheme is not None
    for index, chosen in zip(architecture.layer_order, scheme.encodings.layers, strict=True):
        yield from zip(architecture.layer_kinds[index].weights, chosen, strict=True)
    yield from zip(architecture.outer, scheme.encodings.outer, strict=True)
    for tower, chosen in zip(architecture.towers, scheme.encodings.towers, strict=True):
        yield from zip(tower.weights, chosen, strict=True)
    if mtp:
        yield from zip(architecture.mtp, scheme.encodings.mtp, strict=True)


def with_config(model: str, config: dict[str, Any]) -> Architecture:
    return replace(architecture_of(model), quantization=config)


# The Hub's totals count the tensors of the published safetensors files element by element. What is left out or packed
# differs by method, and is said here. Source: https://huggingface.co/<model>, as listed by llmfit 1.1.17.
@pytest.mark.parametrize(
    ("model", "mtp", "total"),
    [
        ("deepseek-ai/DeepSeek-V3", True, 684_531_386_000),
        ("zai-org/GLM-5-FP8", True, 753_910_024_032),
        ("MiniMaxAI/MiniMax-M2.5", False, 228_703_644_928),
        ("Qwen/Qwen3-235B-A22B-FP8", False, 235_107_904_512),
        ("Qwen/Qwen3-32B-FP8", False, 32_764_027_904),
    ],
)
def test_fp8_blocks_count_one_scale_per_128_by_128(model: str, mtp: bool, total: int) -> None:
    count = 0
    for weight, encoding in pairs(architecture_of(model), mtp=mtp):
        count += weight.elements
        if encoding is not None:
            count += weight.copies * ceil(weight.rows / 128) * ceil(weight.columns / 128)
    assert count == total


@pytest.mark.parametrize(
    ("model", "total"),
    [
        # One scale per output channel.
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", 70_560_423_936),
        # The same, with the vision tower, attention, routers and the head on the ignore list.
        ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", 108_659_340_800),
    ],
)
def test_fp8_channels_count_one_scale_per_output(model: str, total: int) -> None:
    count = sum(
        weight.elements + (weight.copies * weight.rows if encoding else 0)
        for weight, encoding in pairs(architecture_of(model), mtp=False)
    )
    assert count == total


def test_static_fp8_counts_a_weight_and_an_input_scale_per_matrix() -> None:
    # The vision tower and the projector stay in BF16.
    model = architecture_of("mistralai/Devstral-Small-2-24B-Instruct-2512")
    count = sum(
        weight.elements + (2 * weight.copies if encoding else 0)
        for weight, encoding in pairs(model, mtp=False)
    )
    assert count == 24_011_361_840


@pytest.mark.parametrize(
    ("model", "mtp", "buffers", "total"),
    [
        # Packed two to a byte; scales aren't in these totals. Lists by layer, by wildcard and by mixed algorithms.
        ("nvidia/GLM-5.3-NVFP4", True, True, 390_942_074_880),
        ("nvidia/MiniMax-M3-NVFP4", False, True, 220_479_056_768),
        ("nvidia/Qwen3.6-27B-NVFP4", False, True, 18_164_649_200),
        ("nvidia/Qwen3.6-35B-A3B-NVFP4", False, True, 18_683_860_336),
        ("nvidia/Qwen3.5-122B-A10B-NVFP4", False, True, 64_580_759_280),
        # Gemma's scalars per layer and its vision tower's standardisation aren't among these totals' tensors.
        ("nvidia/Gemma-4-31B-IT-NVFP4", False, False, 20_868_591_152),
        ("nvidia/Gemma-4-26B-A4B-NVFP4", False, False, 14_386_941_232),
    ],
)
def test_nvfp4_packs_what_its_lists_leave(model: str, mtp: bool, buffers: bool, total: int) -> None:
    count = 0.0
    for weight, encoding in pairs(architecture_of(model), mtp=mtp):
        packed = encoding is not None and encoding.format_id == "nvfp4"
        if buffers or not weight.buffer:
            count += weight.elements / 2 if packed else weight.elements
    assert count == total


def test_double_quantised_nf4_counts_what_bitsandbytes_writes() -> None:
    # Bytes count twice in the Hub's total: payload and 8-bit absmax. FP32 beside them: nested absmax per 256, and two
    # maps of 16 and 256 values. The rest are descriptions of some 173 bytes per matrix, which count twice too.
    model = architecture_of("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit")
    count, matrices = 0.0, 0
    for weight, encoding in pairs(model, mtp=False):
        count += weight.elements
        if encoding is not None:
            blocks = weight.elements / 64
            count += 2 * blocks + blocks / 256 + 16 + 256
            matrices += 1
    assert matrices == 7 * 32
    assert 150 < (8_248_929_342 - count) / (2 * matrices) < 200


def test_mxfp4_is_for_experts_alone() -> None:
    scheme = checkpoint_scheme(architecture_of("openai/gpt-oss-120b"))
    assert scheme is not None
    assert scheme.label == "mxfp4 experts"
    for weight, encoding in pairs(architecture_of("openai/gpt-oss-120b"), mtp=False):
        expert_matrix = weight.part is Part.EXPERTS and weight.columns > 1
        assert (encoding is not None) is expert_matrix


@pytest.mark.parametrize(
    ("model", "method", "label", "kv"),
    [
        ("deepseek-ai/DeepSeek-V3", "fp8", "fp8-block", None),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "awq", "awq-int4", None),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "gptq", "gptq-int8", None),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "bitsandbytes", "nf4-dq", None),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "compressed-tensors", "int8", None),
        (
            "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16",
            "compressed-tensors",
            "w4a16",
            None,
        ),
        ("moonshotai/Kimi-K2.5", "compressed-tensors", "w4a16", None),
        ("nvidia/Gemma-4-31B-IT-NVFP4", "modelopt", "nvfp4", "fp8"),
        ("nvidia/Qwen3.6-27B-NVFP4", "modelopt", "fp8 + nvfp4", "fp8"),
        ("poolside/Laguna-S-2.1-FP8", "compressed-tensors", "fp8-block", "fp8"),
    ],
)
def test_schemes_are_named(model: str, method: str, label: str, kv: str | None) -> None:
    scheme = checkpoint_scheme(architecture_of(model))
    assert scheme is not None
    assert (scheme.method, scheme.label, scheme.kv_scheme) == (method, label, kv)
    # A format keeps its profile's name whatever its width.
    assert scheme.formats == tuple(label.replace("gptq-int8", "gptq-int4").split(" + "))


def test_a_plain_checkpoint_has_no_scheme() -> None:
    assert checkpoint_scheme(architecture_of("meta-llama/Llama-3.1-8B")) is None


def test_group_sizes_and_bits_come_from_the_file() -> None:
    def first(config: dict[str, Any]) -> Encoding:
        found = [one for _, one in pairs(with_config("Qwen/Qwen2.5-7B", config), mtp=False) if one]
        return found[0]

    awq = first({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True})
    assert awq.bits_per_weight == 4 + 20 / 64
    gptq = first({"quant_method": "gptq", "bits": 3, "group_size": -1})
    assert (gptq.bits, gptq.zero_bits, gptq.group_columns) == (3, 3, 0)
    fp8 = first({"quant_method": "fp8", "weight_block_size": [64, 256]})
    assert (fp8.group_rows, fp8.group_columns) == (64, 256)
    assert fp8.compute == "fp8"
    nested = first({"producer": {}, "quantization": {"quant_algo": "NVFP4", "group_size": 32}})
    assert (nested.format_id, nested.group_columns) == ("nvfp4", 32)
    group = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}
    weight_only = first({"quant_method": "compressed-tensors", "config_groups": {"a": group}})
    assert (weight_only.format_id, weight_only.compute) == ("nvfp4", "compute")
    both = {**group, "input_activations": {"num_bits": 4, "type": "float"}}
    activations = first({"quant_method": "compressed-tensors", "config_groups": {"a": both}})
    assert activations.compute == "fp4"


def test_four_bit_experts_beside_fp8() -> None:
    config = {"quant_method": "fp8", "weight_block_size": [128, 128], "expert_dtype": "fp4"}
    for weight, encoding in pairs(with_config("deepseek-ai/DeepSeek-V3", config), mtp=False):
        if encoding is not None:
            expected = "mxfp4" if weight.part is Part.EXPERTS else "fp8-block"
            assert encoding.format_id == expected


def test_gptq_can_name_what_it_quantises_or_skips() -> None:
    only = {"quant_method": "gptq", "modules_in_block_to_quantize": [["self_attn.q_proj"]]}
    named = {w.name for w, one in pairs(with_config("Qwen/Qwen2.5-7B", only), mtp=False) if one}
    assert named == {"query"}
    skips = {"quant_method": "gptq", "dynamic": {"-:.*down_proj": {}}, "lm_head": True}
    found = {w.name for w, one in pairs(with_config("Qwen/Qwen2.5-7B", skips), mtp=False) if one}
    assert found == {"query", "key", "value", "output", "gate", "up", "head"}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"quant_method": "quanto", "weights": "int4"}, "quanto"),
        ({"quant_method": "aqlm"}, "aqlm"),
        ({"quant_method": "hqq"}, "hqq"),
        ({"bits": 4}, "none"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_MYSTERY"}, "modelopt W4A8_MYSTERY"),
        ({"quant_method": "compressed-tensors"}, "compressed-tensors without config_groups"),
        ({"quant_method": "gptq", "dynamic": {"+:.*": {"bits": 8}}}, "gptq dynamic"),
        (
            {
                "quant_method": "compressed-tensors",
                "sparsity_config": {"format": "sparse-24-bitmask"},
                "config_groups": {},
            },
            "sparsity sparse-24-bitmask",
        ),
        (
            {"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 2, "type": "int"}},
            "KV cache int2",
        ),
    ],
)
def test_an_unknown_method_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        checkpoint_scheme(with_config("Qwen/Qwen2.5-7B", config))
    assert refusal.value.values["method"] == named


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "awq", "bits": "four"},
        {"quant_method": "awq", "bits": 4000},
        {"quant_method": "gptq", "group_size": -2},
        {"quant_method": "gptq", "group_size": 0},
        {"quant_method": "awq", "group_size": 0},
        {"quant_algo": "NVFP4", "quant_method": "modelopt", "group_size": 0},
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"a": {"weights": {"strategy": "group", "group_size": 0}}},
        },
        {"quant_method": "fp8", "weight_block_size": [128]},
        {"quant_method": "fp8", "weight_block_size": [128, 0]},
        {"quant_method": "fp8", "weight_block_size": [128, 1.5]},
        {"quant_method": "compressed-tensors", "config_groups": [1, 2]},
        {"quant_method": "modelopt", "quantized_layers": {"lm_head": "NVFP4"}},
        {"quant_method": "awq", "modules_to_not_convert": 7},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": [4]}}},
    ],
)
def test_a_malformed_configuration_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig):
        checkpoint_scheme(with_config("Qwen/Qwen2.5-7B", config))


@pytest.mark.parametrize("pattern", ["(a+)+$", "[", ".*.*.*.*.*x", "a" * 300])
def test_a_regular_expression_that_could_take_long_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidConfig):
        ModulePatterns([f"re:{pattern}"])


QUERY = Weight("query", Part.ATTENTION, 8, 8)
GATE = Weight("gate", Part.FEED_FORWARD, 8, 8)
EXPERT = Weight("gate", Part.EXPERTS, 8, 8, copies=4, shard=Shard.EXPERTS)
SHARED = Weight("up", Part.SHARED_EXPERTS, 8, 8)
ROUTER = Weight("router", Part.ROUTER, 4, 8)
HEAD = Weight("head", Part.HEAD, 8, 8)


@pytest.mark.parametrize(
    ("pattern", "means", "leaves"),
    [
        ("lm_head", [HEAD], [QUERY, GATE]),
        ("language_model.lm_head", [HEAD], [QUERY]),
        ("gate", [ROUTER], [GATE, EXPERT]),
        ("mlp.gate", [ROUTER], [GATE, EXPERT]),
        ("*.mlp.gate", [ROUTER], [GATE, EXPERT]),
        ("re:.*\\.mlp\\.gate$", [ROUTER], [GATE, EXPERT]),
        ("model.layers.3.self_attn", [QUERY], [GATE, ROUTER]),
        ("model.language_model.layers.3.self_attn*", [QUERY], [GATE]),
        ("backbone.layers.3.mixer.q_proj", [QUERY], [GATE]),
        ("model.layers.13.self_attn", [], [QUERY]),
        ("model.layers.*.self_attn", [QUERY], [GATE]),
        ("model.layers.3.*", [QUERY, GATE, EXPERT, SHARED, ROUTER], [HEAD]),
        ("model.layers.3*", [QUERY, GATE, EXPERT, SHARED, ROUTER], [HEAD]),
        ("*.mlp.shared_expert.*", [SHARED], [GATE, EXPERT]),
        ("re:.*shared_experts.*", [SHARED], [EXPERT, GATE]),
        ("re:.*self_attn.*", [QUERY], [GATE]),
        # Kimi's list: dense feed-forwards, not experts.
        ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", [GATE], [EXPERT, SHARED, ROUTER]),
        ("model.layers.3.block_sparse_moe.gate", [ROUTER], [EXPERT]),
        ("model.layers.3.input_layernorm", [], [QUERY, GATE, EXPERT, ROUTER]),
        ("layers.3.ffn.experts", [EXPERT], [SHARED, ROUTER]),
    ],
)
def test_patterns_mean_modules(pattern: str, means: list[Weight], leaves: list[Weight]) -> None:
    patterns = ModulePatterns([pattern])

    def matched(weight: Weight) -> bool:
        paths = module_paths(weight, None if weight is HEAD else 3, 8)
        return patterns.match_in_layer(paths) or patterns.match_anywhere(paths)

    assert [weight for weight in (*means, *leaves) if matched(weight)] == means


def test_experts_beside_a_dense_feed_forward_lie_outside_it() -> None:
    patterns = ModulePatterns(["model.layers.3.mlp*"])
    assert patterns.match_in_layer(module_paths(EXPERT, 3, 8))
    assert not patterns.match_in_layer(module_paths(EXPERT, 3, 8, dense_beside=True))
    assert patterns.match_in_layer(module_paths(GATE, 3, 8, dense_beside=True))


def test_mtp_layers_answer_to_both_numberings() -> None:
    mtp = replace(EXPERT, part=Part.MTP)
    for pattern in ("mtp*", "mtp.layers.0*", "model.layers.8.*", "model.layers.8.mlp.experts"):
        patterns = ModulePatterns([pattern])
        paths = module_paths(mtp, None, 8)
        assert patterns.match_in_layer(paths) or patterns.match_anywhere(paths), pattern


def test_a_list_of_a_towers_modules_means_the_tower() -> None:
    vision = Weight("query", Part.VISION, 8, 8)
    patterns = ModulePatterns(["vision_model.model.layers.0.self_attn.q_proj"])
    assert patterns.match_tower(module_paths(vision, None, 8))
    assert not ModulePatterns(["lm_head"]).match_tower(module_paths(vision, None, 8))
