"""What a step has to do, against the architecture's totals and the stored weights."""

from __future__ import annotations

import pytest

from planner.architecture.cache import cache_layout
from planner.architecture.resolve import architecture_of
from planner.architecture.totals import (
    head_flops_per_token,
    layer_linear_flops_per_token,
    score_flops,
)
from planner.catalog.accelerators import accelerator
from planner.memory.weights import stored_weights
from planner.scenario import Parallelism
from planner.speed.prefill import attention_flops
from planner.speed.work import product_dtypes, work

MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "google/gemma-3-12b-it",
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "google/flan-t5-xl",
)


def made(name, parallelism=Parallelism(), format_id="native", products=()):  # noqa: B008
    model = architecture_of(name)
    stored = stored_weights(model, format_id, parallelism, "bf16")
    layout = cache_layout(model, 2.0, 2.0, 2.0, tp=parallelism.tp)
    return model, stored, work(model, stored, layout, parallelism, "bf16", products)


@pytest.mark.parametrize("name", MODELS)
def test_flops_are_the_architectures(name):
    model, stored, found = made(name)
    linear = sum(flops for _, flops in (*found.linear_flops, *found.expert_flops))
    assert linear == pytest.approx(layer_linear_flops_per_token(model))
    assert linear == pytest.approx(sum(stored.flops.values()))
    assert sum(flops for _, flops in found.encoder_flops) == pytest.approx(
        layer_linear_flops_per_token(model, "encoder")
    )
    assert found.head_flops == head_flops_per_token(model)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cached", [0.0, 700.0])
def test_scores_are_the_architectures(name, cached):
    model, _, found = made(name)
    whole = score_flops(model, 3000.0, cached, phase="prefill")
    grouped = attention_flops(found.scores, 3000.0, cached) + found.recurrent_flops * 3000.0
    assert grouped == pytest.approx(whole)


@pytest.mark.parametrize("name", MODELS[:5])
def test_tensor_ranks_share_the_work(name):
    _, _, one = made(name)
    _, _, four = made(name, Parallelism(tp=4))
    for apart, whole in zip(four.linear_flops, one.linear_flops, strict=True):
        assert apart == (whole[0], pytest.approx(whole[1] / 4))
    assert four.read_bytes < one.read_bytes
    assert four.read_bytes >= one.read_bytes / 4


def test_experts_take_the_narrow_products():
    _, _, found = made("openai/gpt-oss-120b")
    # 36 layers, 4 of 128 experts, 3 · 2,880 · 2,880 elements each, stored in MXFP4.
    assert dict(found.expert_flops) == {"fp4": pytest.approx(36 * 4 * 3 * 2 * 2880 * 2880)}
    assert dict(found.linear_flops)["fp4"] == pytest.approx(0.0, abs=1.0)
    assert found.expert_layers == 36


def test_experts_of_one_token_and_of_all():
    _, stored, found = made("deepseek-ai/DeepSeek-V3")
    group = stored.experts[0]
    assert found.expert_bytes(1.0) == pytest.approx(group.total_bytes * 8 / 256)
    assert found.expert_bytes(1e9) == pytest.approx(group.total_bytes)
    assert found.least_weight_bytes == pytest.approx(
        stored.read_bytes_per_token_step + group.total_bytes * 8 / 256
    )


def test_latents_that_a_prefix_cache_holds_are_expanded_anew():
    _, _, found = made("deepseek-ai/DeepSeek-V3")
    assert found.expansion_flops == 61 * 2 * 512 * 128 * (128 + 128)


def test_weight_only_kernels_multiply_in_the_compute_dtype():
    name = "openai/gpt-oss-120b"
    _, stored, _ = made(name)
    hopper = product_dtypes(stored, "vllm", accelerator("h100-sxm-80gb"))
    assert hopper == (("fp4", "compute"),)
    assert product_dtypes(stored, "vllm", accelerator("b200-sxm-180gb")) == ()
    _, _, found = made(name, products=hopper)
    assert {dtype for dtype, _ in (*found.linear_flops, *found.expert_flops)} == {"bf16"}
    llama = stored_weights(architecture_of(MODELS[0]), "fp8", Parallelism(), "bf16")
    assert product_dtypes(llama, "vllm", accelerator("a100-sxm4-80gb")) == (("fp8", "compute"),)
    assert product_dtypes(llama, "vllm", accelerator("l4")) == ()


def test_work_is_made_once():
    assert made(MODELS[0])[2] is made(MODELS[0])[2]
