"""Published models that the catalogue doesn't hold, pasted as their config.json: a right answer without a network."""

from __future__ import annotations

from typing import Any

import pytest

from planner.architecture.cache import cache_bytes, cache_layout
from planner.architecture.config_folder import read_witnesses
from planner.architecture.coverage import coverage
from planner.architecture.resolve import architecture_from_config
from planner.architecture.totals import active_parameters, parameters
from planner.catalog.models import model_ids
from planner.evaluation import evaluate
from planner.scenario import Scenario

# LGAI-EXAONE/K-EXAONE-236B-A23B.
K_EXAONE: dict[str, Any] = {
    "architectures": ["ExaoneMoEForCausalLM"],
    "dtype": "bfloat16",
    "first_last_k_dense_replace": 1,
    "head_dim": 128,
    "hidden_size": 6144,
    "intermediate_size": 18432,
    "is_moe_layer": [False] + [True] * 47,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 12,
    "max_position_embeddings": 262144,
    "model_type": "exaone_moe",
    "moe_intermediate_size": 2048,
    "num_attention_heads": 64,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 8,
    "num_shared_experts": 1,
    "sliding_window": 128,
    "sliding_window_pattern": "LLLG",
    "tie_word_embeddings": False,
    "vocab_size": 153600,
}
# tencent/Hy3-preview.
HY3: dict[str, Any] = {
    "architectures": ["HYV3ForCausalLM"],
    "dtype": "bfloat16",
    "expert_hidden_dim": 1536,
    "first_k_dense_replace": 1,
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 13312,
    "max_position_embeddings": 262144,
    "model_type": "hy_v3",
    "moe_intermediate_size": 1536,
    "num_attention_heads": 64,
    "num_experts": 192,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "num_nextn_predict_layers": 1,
    "num_shared_experts": 1,
    "qk_norm": True,
    "tie_word_embeddings": False,
    "vocab_size": 120832,
}
# meituan-longcat/LongCat-Flash-Chat: two attentions and two dense networks a layer, experts that do nothing.
LONGCAT: dict[str, Any] = {
    "architectures": ["LongcatFlashForCausalLM"],
    "attention_method": "MLA",
    "expert_ffn_hidden_size": 2048,
    "ffn_hidden_size": 12288,
    "hidden_size": 6144,
    "kv_lora_rank": 512,
    "max_position_embeddings": 131072,
    "model_type": "longcat_flash",
    "moe_topk": 12,
    "n_routed_experts": 512,
    "num_attention_heads": 64,
    "num_layers": 28,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
    "vocab_size": 131072,
    "zero_expert_num": 256,
    "zero_expert_type": "identity",
}


def test_the_catalogue_holds_neither() -> None:
    assert not [model for model in model_ids() if "K-EXAONE" in model or "LongCat" in model]


def test_k_exaone_has_transformers_count_and_the_vendors_figures() -> None:
    model = architecture_from_config(K_EXAONE)
    # transformers 5.24 on the meta device.
    assert parameters(model, buffers=False) == 236_571_150_336
    # "236B-A23B", a token's share with its embedding row.
    assert active_parameters(model) == pytest.approx(23e9, rel=0.03)


def test_k_exaones_predicting_layer_is_dense_and_counted_apart() -> None:
    """The model card says 0.52 billion; vLLM's and SGLang's code builds a dense layer, a projection and three norms."""
    model = architecture_from_config({**K_EXAONE, "num_nextn_predict_layers": 1})
    attention = 2 * 6144 * 64 * 128 + 2 * 6144 * 8 * 128 + 2 * 128
    layer = attention + 3 * 6144 * 18432 + 2 * 6144
    added = parameters(model, mtp=True) - parameters(model)
    assert added == layer + 2 * 6144 * 6144 + 3 * 6144
    assert added == pytest.approx(0.52e9, rel=0.02)
    assert parameters(model) == parameters(architecture_from_config(K_EXAONE))


def test_k_exaone_keeps_three_of_four_layers_to_their_window() -> None:
    layout = cache_layout(architecture_from_config(K_EXAONE), 2.0, 2.0, 2.0)
    each = 2 * 8 * 128 * 2
    assert cache_bytes(layout, 100_000) == each * (12 * 100_000 + 36 * 128)


def test_k_exaones_pattern_says_the_same_as_its_list_of_layers() -> None:
    unlisted = {key: value for key, value in K_EXAONE.items() if key != "layer_types"}
    stated, derived = architecture_from_config(K_EXAONE), architecture_from_config(unlisted)
    for one in ("layer_kinds", "layer_order"):
        assert getattr(derived, one) == getattr(stated, one)


def test_longcat_has_its_published_size() -> None:
    model = architecture_from_config(LONGCAT)
    hidden, latent = 6144, 512
    attention = hidden * 1536 + 1536 + 1536 * 64 * 192
    attention += hidden * (latent + 64) + latent + latent * 64 * 256 + 64 * 128 * hidden
    block = 2 * attention + 2 * 3 * hidden * 12288 + 4 * hidden
    experts = 512 * 3 * hidden * 2048 + 768 * hidden
    assert parameters(model, buffers=False) == (
        28 * (block + experts) + 2 * 131072 * hidden + hidden
    )
    # arXiv 2509.01322: 560 billion, and 18.6 to 31.3 billion a token, 27 on average.
    assert parameters(model) == pytest.approx(560e9, rel=0.002)
    assert active_parameters(model) == pytest.approx(27e9, rel=0.04)


def test_hy3_has_its_published_sizes() -> None:
    """295 billion, 21 of them for a token, and 3.8 in a next-token-prediction layer with experts."""
    model = architecture_from_config(HY3)
    assert parameters(model) == pytest.approx(295e9, rel=0.001)
    assert active_parameters(model) == pytest.approx(21e9, rel=0.02)
    assert parameters(model, mtp=True) - parameters(model) == pytest.approx(3.8e9, rel=0.02)


def test_pasted_it_is_evaluated_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a network was asked")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    values = {"model": "K-EXAONE", "config": K_EXAONE, "gpu": "h200-sxm", "gpus": 8}
    answer = evaluate(Scenario.parse({**values, "input_tokens": 8000, "concurrency": 4}))
    assert answer.memory.weights_bytes.mid == pytest.approx(2 * 236_571_150_336, rel=1e-4)
    each = 2 * 8 * 128 * 2
    tokens = 8000 + answer.scenario.output_tokens
    assert answer.memory.kv_bytes_per_sequence.mid == each * (12 * tokens + 36 * 128)
    assert answer.memory.verdict == "fits"


WITNESSES = read_witnesses()
DESCRIBED = [
    (task, row.model_type)
    for row in coverage(WITNESSES)
    for task in (row.task,)
    if row.parameters.equal is not None and row.parameters.reason != "unsupported_architecture"
]


@pytest.mark.parametrize(("task", "model_type"), DESCRIBED)
def test_every_model_type_has_an_estimate(task: str, model_type: str) -> None:
    config = WITNESSES[task][model_type]["config"]
    answer = evaluate(
        Scenario.parse({"model": model_type, "config": config, "gpu": "b200", "dtype": "bf16"})
    )
    own = 2 * parameters(architecture_from_config(config))
    # Routers' corrections and norms of some types are in FP32.
    assert answer.memory.weights_bytes.mid == pytest.approx(own, rel=0.02)
    first = answer.speed.ttft_s
    assert 0 < first.low <= first.mid <= first.high
