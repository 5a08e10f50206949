"""From a GGUF's header to the model: the same cache and weights as from the config.json that it was converted from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.architecture.checkpoint.gguf_families import FAMILIES
from planner.architecture.checkpoint.local import read_model_path
from planner.architecture.checkpoint.sizes import Group, checkpoint_of
from planner.architecture.resolve import architecture_from_config, supported_model_types
from planner.architecture.spec import Architecture
from planner.architecture.totals import parameters
from planner.catalog.models import model_profile
from planner.errors import InvalidConfig, InvalidInput, UnsupportedArchitecture
from tests.architecture.checkpoint import gguf_models as m
from tests.architecture.checkpoint.sentences import assert_said
from tests.architecture.checkpoint.writers import GGML, write_gguf

Q4, Q8 = "Q4_K", "Q8_0"
Case = tuple[dict[str, Any], list[tuple[str, str, tuple[int, ...]]]]


def config_of(model_id: str) -> dict[str, Any]:
    """The language model's part of a catalogue model's configuration, with nothing but plain keys."""
    config = model_profile(model_id).config
    return {**config, **config.get("text_config", {})}


def dense(
    model_id: str,
    arch: str,
    *names: str,
    bias: bool = False,
    qk_norms: bool = False,
    pad: dict[str, Any] | None = None,
    **further: Any,
) -> Callable[[], Case]:
    """A dense decoder; `names` are its norms of the hidden size, `pad` what its configuration leaves to defaults."""

    def case() -> Case:
        c = config_of(model_id) | (pad or {})
        tied = c.get("tie_word_embeddings", arch.startswith("gemma"))
        layer = [
            *m.attention(c, matrix=Q4, bias=bias, norms=qk_norms),
            *m.norms(c["hidden_size"], *names),
            *m.feed_forward(c["hidden_size"], c["intermediate_size"], matrix=Q4),
        ]
        tensors = [*m.outer(c, tied=tied, matrix=Q4), *m.layers(c["num_hidden_layers"], layer)]
        return m.metadata_of(arch, c, **further), tensors

    return case


def mixture(
    model_id: str, arch: str, width_key: str, experts_key: str, *, qk_norms: bool = False
) -> Callable[[], Case]:
    """A decoder with experts in every layer."""

    def case() -> Case:
        c = config_of(model_id)
        hidden, count = c["hidden_size"], c[experts_key]
        layer = [
            *m.attention(c, matrix=Q4, norms=qk_norms),
            *m.norms(hidden, "attn_norm", "ffn_norm"),
            *m.experts(hidden, c[width_key], count, matrix=Q4),
        ]
        tensors = [*m.outer(c, tied=False, matrix=Q4), *m.layers(c["num_hidden_layers"], layer)]
        further = {"expert_count": count, "expert_used_count": c["num_experts_per_tok"]}
        return m.metadata_of(arch, c, **further), tensors

    return case


def gpt_oss() -> Case:
    c = config_of("openai/gpt-oss-20b")
    hidden, heads, size, count = c["hidden_size"], c["num_attention_heads"], c["head_dim"], 32
    layer = [
        *m.attention(c, matrix=Q8, bias=True),
        ("attn_output.bias", "F32", (hidden,)),
        ("attn_sinks.weight", "F32", (heads,)),
        *m.norms(hidden, "attn_norm", "post_attention_norm"),
        *m.experts(hidden, c["intermediate_size"], count, matrix="MXFP4", biases=True),
    ]
    assert size == 64
    tensors = [*m.outer(c, tied=False, matrix=Q8), *m.layers(c["num_hidden_layers"], layer)]
    metadata = m.metadata_of(
        "gpt-oss",
        c,
        expert_count=count,
        expert_used_count=4,
        attention__sliding_window=c["sliding_window"],
        expert_feed_forward_length=c["intermediate_size"],
    )
    return metadata | {"general.file_type": 1}, tensors


def phi3() -> Case:
    c = config_of("microsoft/Phi-3-mini-4k-instruct")
    hidden, width, heads = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
    layer = [
        ("attn_qkv.weight", Q4, (hidden, 3 * hidden)),
        ("attn_output.weight", Q4, (hidden, hidden)),
        ("ffn_up.weight", Q4, (hidden, 2 * width)),
        ("ffn_down.weight", Q4, (width, hidden)),
        *m.norms(hidden, "attn_norm", "ffn_norm"),
    ]
    assert heads == c["num_key_value_heads"]
    tensors = [*m.outer(c, tied=False, matrix=Q4), *m.layers(c["num_hidden_layers"], layer)]
    return m.metadata_of("phi3", c, attention__sliding_window=c["sliding_window"]), tensors


def deepseek(model_id: str, *, correction: bool) -> Callable[[], Case]:
    def case() -> Case:
        c = config_of(model_id)
        hidden, count, width = c["hidden_size"], c["n_routed_experts"], c["moe_intermediate_size"]
        dense_layers = c["first_k_dense_replace"]
        common = [*m.latent(c, matrix=Q8), *m.norms(hidden, "attn_norm", "ffn_norm")]
        sparse = [
            *m.experts(hidden, width, count, matrix=Q8),
            *m.feed_forward(hidden, width * c["n_shared_experts"], matrix=Q8, suffix="_shexp"),
        ]
        if correction:
            sparse.append(("exp_probs_b.bias", "F32", (count,)))
        plain = list(m.feed_forward(hidden, c["intermediate_size"], matrix=Q8))
        tensors = [
            *m.outer(c, tied=False, matrix=Q8),
            *m.layers(dense_layers, common, plain),
            *m.layers(c["num_hidden_layers"] - dense_layers, common, sparse, first=dense_layers),
        ]
        rank, rope = c["kv_lora_rank"], c["qk_rope_head_dim"]
        further = {
            "leading_dense_block_count": dense_layers,
            "expert_count": count,
            "expert_used_count": c["num_experts_per_tok"],
            "expert_shared_count": c["n_shared_experts"],
            "expert_feed_forward_length": width,
            "attention.kv_lora_rank": rank,
            "attention.key_length": rank + rope,
            "attention.value_length": rank,
            "attention.key_length_mla": c["qk_nope_head_dim"] + rope,
            "attention.value_length_mla": c["v_head_dim"],
            "attention.head_count_kv": 1,
            "rope.dimension_count": rope,
        }
        if c.get("q_lora_rank"):
            further["attention.q_lora_rank"] = c["q_lora_rank"]
        return m.metadata_of("deepseek2", c, **further), tensors

    return case


def glm() -> Case:
    """GLM-4.5-Air: its file counts the next-token-prediction layer as a block."""
    c = config_of("zai-org/GLM-4.5-Air")
    hidden, count, width = c["hidden_size"], c["n_routed_experts"], c["moe_intermediate_size"]
    common = [
        *m.attention(c, matrix=Q8, bias=True),
        *m.norms(hidden, "attn_norm", "post_attention_norm"),
    ]
    plain = list(m.feed_forward(hidden, c["intermediate_size"], matrix=Q8))
    sparse = [
        *m.experts(hidden, width, count, matrix=Q8),
        *m.feed_forward(hidden, width * c["n_shared_experts"], matrix=Q8, suffix="_shexp"),
        ("exp_probs_b.bias", "F32", (count,)),
    ]
    nextn = [
        ("nextn.eh_proj.weight", Q8, (2 * hidden, hidden)),
        *m.norms(hidden, "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm"),
    ]
    dense_layers, all_layers = c["first_k_dense_replace"], c["num_hidden_layers"]
    tensors = [
        *m.outer(c, tied=False, matrix=Q8),
        *m.layers(dense_layers, common, plain),
        *m.layers(all_layers - dense_layers, common, sparse, first=dense_layers),
        *m.layers(1, common, sparse, nextn, first=all_layers),
    ]
    metadata = m.metadata_of(
        "glm4moe",
        c,
        block_count=all_layers + 1,
        nextn_predict_layers=1,
        leading_dense_block_count=dense_layers,
        expert_count=count,
        expert_used_count=c["num_experts_per_tok"],
        expert_shared_count=c["n_shared_experts"],
        expert_feed_forward_length=width,
    )
    return metadata, tensors


GEMMA = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
PLAIN = ("attn_norm", "ffn_norm")
GEMMA3 = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "max_position_embeddings": 131072,
          "vocab_size": 262208}  # fmt: skip
CASES: dict[str, tuple[str, Callable[[], Case]]] = {
    "llama": ("meta-llama/Llama-3.1-8B", dense("meta-llama/Llama-3.1-8B", "llama", *PLAIN)),
    "qwen2": ("Qwen/Qwen2.5-7B", dense("Qwen/Qwen2.5-7B", "qwen2", *PLAIN, bias=True)),
    "qwen3": ("Qwen/Qwen3-8B", dense("Qwen/Qwen3-8B", "qwen3", *PLAIN, qk_norms=True)),
    "gemma2": (
        "google/gemma-2-9b",
        dense("google/gemma-2-9b", "gemma2", *GEMMA, attention__sliding_window=4096),
    ),
    "gemma3": (
        "google/gemma-3-12b-it",
        dense(
            "google/gemma-3-12b-it",
            "gemma3",
            *GEMMA,
            qk_norms=True,
            pad=GEMMA3,
            attention__sliding_window=1024,
        ),
    ),
    "mixtral": (
        "mistralai/Mixtral-8x7B-v0.1",
        mixture("mistralai/Mixtral-8x7B-v0.1", "llama", "intermediate_size", "num_local_experts"),
    ),
    "qwen3moe": (
        "Qwen/Qwen3-30B-A3B",
        mixture(
            "Qwen/Qwen3-30B-A3B", "qwen3moe", "moe_intermediate_size", "num_experts", qk_norms=True
        ),
    ),
    "gpt-oss": ("openai/gpt-oss-20b", gpt_oss),
    "deepseek-v2": (
        "deepseek-ai/DeepSeek-V2-Lite",
        deepseek("deepseek-ai/DeepSeek-V2-Lite", correction=False),
    ),
    "deepseek-v3": (
        "deepseek-ai/DeepSeek-V3",
        deepseek("deepseek-ai/DeepSeek-V3", correction=True),
    ),
    "glm4moe": ("zai-org/GLM-4.5-Air", glm),
}


def geometry(architecture: Architecture) -> list[object]:
    """What each layer caches and computes, in order."""
    return [
        [
            (mixer.kind, mixer.streams, mixer.states)
            for mixer in architecture.layer_kinds[index].mixers
        ]
        for index in architecture.layer_order
    ]


def data_bytes(tensors: list[tuple[str, str, tuple[int, ...]]], *, layers: int) -> int:
    """Bytes of the model's own tensors: blocks times block size, by hand."""
    total = 0
    for name, dtype, shape in tensors:
        if name.startswith("blk.") and int(name.split(".")[1]) >= layers:
            continue
        elements = 1
        for size in shape:
            elements *= size
        _, block, size = GGML[dtype]
        total += elements // block * size
    return total


@pytest.mark.parametrize("name", CASES)
def test_a_gguf_is_the_model_it_was_converted_from(name: str, tmp_path: Path) -> None:
    model_id, case = CASES[name]
    metadata, tensors = case()
    write_gguf(tmp_path / "model.gguf", metadata, tensors)
    config = read_model_path(tmp_path / "model.gguf")
    found = architecture_from_config(config)
    original = architecture_from_config(model_profile(model_id).config)
    assert geometry(found) == geometry(original)
    assert found.vocabulary_size == original.vocabulary_size
    assert found.max_context_tokens == original.max_context_tokens
    assert found.tied == original.tied
    towers = sum(weight.elements for tower in original.towers for weight in tower.weights)
    assert parameters(found) == parameters(original) - towers
    checkpoint = checkpoint_of(config)
    assert checkpoint is not None
    own = sum(share.bytes for share in checkpoint.shares if share.group is not Group.MTP)
    assert own == data_bytes(tensors, layers=found.layers)
    elements = sum(share.elements for share in checkpoint.shares if share.group is not Group.MTP)
    assert elements == parameters(found)


def test_phi_is_read_without_its_window_as_llama_cpp_reads_it(tmp_path: Path) -> None:
    metadata, tensors = phi3()
    write_gguf(tmp_path / "model.gguf", metadata, tensors)
    found = architecture_from_config(read_model_path(tmp_path / "model.gguf"))
    original = architecture_from_config(
        model_profile("microsoft/Phi-3-mini-4k-instruct").config | {"sliding_window": None}
    )
    assert geometry(found) == geometry(original)
    assert parameters(found) == parameters(original)


def test_experts_in_mxfp4_are_told_from_a_header_that_says_f16(tmp_path: Path) -> None:
    metadata, tensors = gpt_oss()
    write_gguf(tmp_path / "model.gguf", metadata, tensors)
    checkpoint = checkpoint_of(read_model_path(tmp_path / "model.gguf"))
    assert checkpoint is not None
    assert checkpoint.file_type == "MXFP4"
    assert checkpoint.by_group[Group.EXPERTS] > 0.8 * checkpoint.total_bytes


def test_a_next_token_prediction_layer_is_counted_apart(tmp_path: Path) -> None:
    metadata, tensors = glm()
    write_gguf(tmp_path / "model.gguf", metadata, tensors)
    config = read_model_path(tmp_path / "model.gguf")
    checkpoint = checkpoint_of(config)
    assert checkpoint is not None
    assert config["num_hidden_layers"] == 46
    assert checkpoint.by_group[Group.MTP] > 0


def test_windows_follow_the_files_own_pattern(tmp_path: Path) -> None:
    metadata, tensors = CASES["gemma2"][1]()
    layers = metadata["gemma2.block_count"]
    pattern = [layer % 3 == 0 for layer in range(layers)]
    metadata["gemma2.attention.sliding_window_pattern"] = pattern
    write_gguf(tmp_path / "model.gguf", metadata, tensors)
    types = read_model_path(tmp_path / "model.gguf")["layer_types"]
    assert types == ["sliding_attention" if slides else "full_attention" for slides in pattern]
    metadata["gemma2.attention.sliding_window_pattern"] = 4
    write_gguf(tmp_path / "model.gguf", metadata, tensors)
    types = read_model_path(tmp_path / "model.gguf")["layer_types"]
    assert types[:8] == (["sliding_attention"] * 3 + ["full_attention"]) * 2


def test_every_translated_architecture_has_an_adapter() -> None:
    assert {family.model_type for family in FAMILIES.values()} <= set(supported_model_types())


def changed(tmp_path: Path, **changes: Any) -> Path:
    """Llama's file with other metadata; None removes a key."""
    metadata, tensors = CASES["llama"][1]()
    for key, value in changes.items():
        metadata[key.replace("__", ".")] = value
    kept = {key: value for key, value in metadata.items() if value is not None}
    write_gguf(tmp_path / "model.gguf", kept, tensors)
    return tmp_path / "model.gguf"


@pytest.mark.parametrize(
    ("changes", "code", "key"),
    [
        ({"llama__block_count": None}, "config_key_missing", "llama.block_count"),
        ({"llama__block_count": 0}, "config_key_range", "llama.block_count"),
        ({"llama__block_count": 10**9}, "config_key_range", "llama.block_count"),
        ({"llama__block_count": "32"}, "config_key_type", "llama.block_count"),
        ({"llama__block_count": 31}, "gguf_contradiction", "blk.31.attn_q.weight"),
        ({"llama__block_count": 33}, "gguf_parameters_differ", "general.architecture"),
        ({"llama__attention__head_count": -8}, "config_key_range", "llama.attention.head_count"),
        ({"llama__attention__head_count": 2.5}, "config_key_type", "llama.attention.head_count"),
        ({"llama__attention__head_count_kv": 64}, "config_key_range", "llama.attention.head_count_kv"),
        ({"llama__attention__head_count_kv": 4}, "gguf_contradiction", "blk.0.attn_k.weight"),
        ({"llama__attention__head_count_kv": [8] * 31 + [4]}, "gguf_varies_by_layer",
         "llama.attention.head_count_kv"),
        ({"llama__attention__head_count_kv": [8] * 3}, "config_contradiction",
         "llama.attention.head_count_kv"),
        ({"llama__context_length": None}, "config_key_missing", "llama.context_length"),
        ({"llama__nextn_predict_layers": 32}, "config_key_range", "llama.nextn_predict_layers"),
    ],
)  # fmt: skip
def test_metadata_that_cannot_be_meant_are_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], code: str, key: str
) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        read_model_path(changed(tmp_path, **changes))
    assert refusal.value.code == code
    assert_said(refusal.value)
    assert refusal.value.values["key"] == key


def test_equal_heads_stated_per_layer_are_one_number(tmp_path: Path) -> None:
    config = read_model_path(changed(tmp_path, llama__attention__head_count_kv=[8] * 32))
    assert config["num_key_value_heads"] == 8


def test_an_architecture_that_is_not_translated_is_refused_with_close_ones(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedArchitecture) as refusal:
        read_model_path(changed(tmp_path, general__architecture="llama5", llama5__block_count=32))
    assert_said(refusal.value)
    assert refusal.value.values["model_type"] == "llama5"
    assert "llama" in refusal.value.values["nearest"]


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(changed(tmp_path, general__type="mmproj"))
    assert refusal.value.code == "gguf_not_a_model"
    assert_said(refusal.value)


def test_a_latent_that_llama_cpp_would_not_keep_is_refused(tmp_path: Path) -> None:
    metadata, tensors = CASES["deepseek-v2"][1]()
    del metadata["deepseek2.attention.key_length_mla"]
    write_gguf(tmp_path / "model.gguf", metadata, tensors)
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(tmp_path / "model.gguf")
    assert refusal.value.code == "gguf_latent_unabsorbed"
    assert_said(refusal.value)


def test_a_vocabulary_alone_is_no_model(tmp_path: Path) -> None:
    metadata, _ = CASES["llama"][1]()
    write_gguf(tmp_path / "vocab.gguf", metadata, [])
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(tmp_path / "vocab.gguf")
    assert refusal.value.code == "gguf_no_weights"
    assert_said(refusal.value)
