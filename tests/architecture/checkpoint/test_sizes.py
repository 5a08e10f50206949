"""What a checkpoint holds, inside a configuration and out again; and what a tensor's name tells."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.architecture.checkpoint.names import group_by_gguf_name, group_by_name
from planner.architecture.checkpoint.sizes import (
    CHECKPOINT_KEY,
    CheckpointBytes,
    Group,
    Share,
    Tally,
    checkpoint_of,
    with_checkpoint,
)
from planner.architecture.checkpoint.tensors import Tensor
from planner.errors import InvalidConfig

SHARES = (Share(Group.EMBEDDING, "BF16", 10, 20), Share(Group.LAYERS, "F8_E4M3", 30, 30))
CHECKPOINT = CheckpointBytes("safetensors", "org/name", 5, 50, SHARES)


def test_sums() -> None:
    tally = Tally()
    for number in range(3):
        tally.add(Tensor(f"{number}", "F32", (2, 3), 24), Group.LAYERS)
    tally.add(Tensor("e", "BF16", (4,), 8), Group.EMBEDDING)
    result = tally.result("gguf", "f.gguf", "Q4_K_M")
    assert result.total_bytes == 80
    assert result.elements == 22
    assert result.by_dtype == {"F32": 72, "BF16": 8}
    assert result.by_group == {Group.LAYERS: 72, Group.EMBEDDING: 8}


shares = st.lists(
    st.builds(
        Share, st.sampled_from(Group), st.sampled_from(["BF16", "Q4_K"]), st.integers(0, 10**12),
        st.integers(1, 10**12),
    ),
    min_size=1,
    max_size=8,
).map(tuple)  # fmt: skip


@given(st.sampled_from(["safetensors", "gguf"]), st.text(min_size=1, max_size=50), shares)
def test_a_checkpoint_survives_its_configuration(
    kind: str, source: str, held: tuple[Share, ...]
) -> None:
    checkpoint = CheckpointBytes(
        kind, source, 3, sum(share.bytes for share in held), held, "Q4_K_M"
    )
    config = json.loads(json.dumps(with_checkpoint({"model_type": "llama"}, checkpoint)))
    assert checkpoint_of(config) == checkpoint
    assert with_checkpoint(config, None) == {"model_type": "llama"}


def test_a_total_alone_survives_too() -> None:
    checkpoint = CheckpointBytes("safetensors", "index", 0, 50)
    assert checkpoint_of(with_checkpoint({}, checkpoint)) == checkpoint
    assert checkpoint.elements is None
    assert checkpoint_of({}) is None


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"kind": "pickle"}, "kind"),
        ({"kind": None}, "kind"),
        ({"source": ""}, "source"),
        ({"source": "x" * 1000}, "source"),
        ({"tensors": -1}, "tensors"),
        ({"total_bytes": 49}, "total_bytes"),
        ({"total_bytes": 0}, "total_bytes"),
        ({"total_bytes": 10**17}, "total_bytes"),
        ({"total_bytes": "50"}, "total_bytes"),
        ({"shares": "all"}, "shares"),
        ({"shares": [["embedding", "BF16", 10]]}, "shares[0]"),
        ({"shares": [["brain", "BF16", 10, 50]]}, "shares[0]"),
        ({"shares": [[["embedding"], "BF16", 10, 50]]}, "shares[0]"),
        ({"shares": [["embedding", "BF16", 10, 51.0]]}, "shares[0]"),
        ({"shares": [["embedding", "BF16", -10, 50]]}, "shares[0]"),
        ({"shares": [["embedding", "x" * 30, 10, 50]]}, "shares[0]"),
        ({"file_type": 15}, "file_type"),
    ],
)
def test_a_forged_checkpoint_is_refused_by_its_key(change: dict[str, Any], key: str) -> None:
    config = with_checkpoint({}, CHECKPOINT)
    config[CHECKPOINT_KEY] |= change
    with pytest.raises(InvalidConfig) as refusal:
        checkpoint_of(config)
    assert refusal.value.values["key"] == f"{CHECKPOINT_KEY}.{key}"


@pytest.mark.parametrize("value", [1, "x", [1]])
def test_something_else_in_its_place_is_refused(value: Any) -> None:
    with pytest.raises(InvalidConfig):
        checkpoint_of({CHECKPOINT_KEY: value})


# Names as they stand in published checkpoints of these models.
NAMES = {
    "model.embed_tokens.weight": Group.EMBEDDING,  # Llama
    "language_model.model.embed_tokens.weight": Group.EMBEDDING,  # Gemma 3
    "transformer.wte.weight": Group.EMBEDDING,  # GPT-2
    "transformer.word_embeddings.weight": Group.EMBEDDING,  # Falcon
    "gpt_neox.embed_in.weight": Group.EMBEDDING,
    "shared.weight": Group.EMBEDDING,  # T5
    "embeddings.word_embeddings.weight": Group.EMBEDDING,  # BERT
    "lm_head.weight": Group.HEAD,
    "language_model.lm_head.weight": Group.HEAD,
    "output.weight": Group.HEAD,  # InternLM 2
    "embed_out.weight": Group.HEAD,  # GPT-NeoX
    "transformer.output_layer.weight": Group.HEAD,  # ChatGLM
    "model.norm.weight": Group.LAYERS,
    "model.layers.3.self_attn.q_proj.weight": Group.LAYERS,
    "model.layers.3.self_attn.q_proj.weight_scale_inv": Group.LAYERS,
    "model.layers.3.mlp.gate.e_score_correction_bias": Group.LAYERS,
    "model.layers.3.mlp.shared_experts.up_proj.weight": Group.LAYERS,
    "model.layers.3.mlp.experts.255.up_proj.weight": Group.EXPERTS,
    "model.layers.3.mlp.experts.gate_up_proj_blocks": Group.EXPERTS,  # gpt-oss
    "model.layers.3.block_sparse_moe.experts.7.w1.weight": Group.EXPERTS,  # Mixtral
    "model.layers.61.self_attn.o_proj.weight": Group.MTP,  # DeepSeek-V3
    "model.layers.61.eh_proj.weight": Group.MTP,
    "mtp.layers.0.mlp.experts.3.up_proj.weight": Group.MTP,  # Qwen3-Next
    "model.visual.blocks.3.attn.qkv.weight": Group.TOWER,  # Qwen2.5-VL
    "vision_tower.vision_model.encoder.layers.3.mlp.fc1.weight": Group.TOWER,
    "multi_modal_projector.linear_1.weight": Group.TOWER,
    "model.audio_tower.conformer.3.lconv1d.weight": Group.TOWER,
    "vision_model.embeddings.patch_embedding.weight": Group.TOWER,
}
GGUF_NAMES = {
    "token_embd.weight": Group.EMBEDDING,
    "per_layer_token_embd.weight": Group.EMBEDDING,
    "position_embd.weight": Group.EMBEDDING,
    "output.weight": Group.HEAD,
    "output_norm.weight": Group.LAYERS,
    "rope_freqs.weight": Group.LAYERS,
    "blk.3.attn_q.weight": Group.LAYERS,
    "blk.3.ffn_up_shexp.weight": Group.LAYERS,
    "blk.3.ffn_gate_inp.weight": Group.LAYERS,
    "blk.3.ffn_up_exps.weight": Group.EXPERTS,
    "blk.61.ffn_up_exps.weight": Group.MTP,
    "blk.3.nextn.eh_proj.weight": Group.MTP,
    "v.blk.0.attn_q.weight": Group.TOWER,
    "mm.0.weight": Group.TOWER,
}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_name_tells(name: str) -> None:
    assert group_by_name(name, 61) is NAMES[name]


@pytest.mark.parametrize("name", GGUF_NAMES)
def test_what_a_gguf_name_tells(name: str) -> None:
    assert group_by_gguf_name(name, 61) is GGUF_NAMES[name]
