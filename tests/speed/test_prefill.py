"""Prompts: golden arithmetic, caching, encoders, bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.architecture.cache import cache_layout
from planner.architecture.resolve import architecture_of
from planner.memory.weights import stored_weights
from planner.scenario import Parallelism
from planner.speed.bounds import ttft_bound
from planner.speed.prefill import prefill
from planner.speed.work import work
from tests.speed.conditions import setting
from tests.speed.models import DEEPSEEK_LIKE, LLAMA_8B, MATRICES, QWEN3_30B_A3B, work_of
from tests.speed.test_step import GPUS, WORKS


def test_a_prompt_of_an_8b_by_hand():
    hardware, constants = setting()
    parts = prefill(work_of(LLAMA_8B), hardware, constants, 2048.0)
    compute = 2 * MATRICES * 2048 / (0.35 * 989e12)
    weights = 2 * MATRICES / (0.78 * 3.35e12)
    attention = 4 * 32 * 128 * 32 * (2048 * 2049 / 2) / (0.55 * 9.894e14)
    assert parts.compute_s == pytest.approx(compute)
    assert parts.weights_s == pytest.approx(weights)
    assert parts.linear_s == pytest.approx((compute**2 + weights**2) ** 0.5)
    assert parts.attention_s == pytest.approx(attention)
    assert parts.layers_s == pytest.approx(32 * 0.57e-3)
    assert sum(parts.parts().values()) == pytest.approx(parts.total_s)


def test_the_head_counts_once_where_the_fit_counts_it_once():
    work_8b = work_of(LLAMA_8B, dtype="fp16")
    hardware, last = setting("a100-sxm4-80gb", "transformers", "fp16")
    _, every = setting("a100-sxm4-80gb", "vllm", "fp16")
    assert not last.head_every_token
    assert every.head_every_token
    tokens = 1000.0
    rate = 0.45 * 312e12
    head = 2 * 128256 * 4096
    layers = 2 * (MATRICES - 128256 * 4096)
    assert prefill(work_8b, hardware, last, tokens).compute_s == pytest.approx(
        (tokens * layers + head) / rate
    )
    assert prefill(work_8b, hardware, every, tokens).compute_s == pytest.approx(
        tokens * (layers + head) / rate
    )


def test_cached_prefixes_save_products_and_attention():
    hardware, constants = setting()
    model = work_of(LLAMA_8B)
    whole = prefill(model, hardware, constants, 4096.0)
    half = prefill(model, hardware, constants, 4096.0, 2048.0)
    assert half.compute_s == pytest.approx(whole.compute_s / 2)
    # η = 1/2 saves η² of the attention, up to the diagonal.
    assert half.attention_s == pytest.approx(whole.attention_s * 0.75, rel=1e-3)
    assert half.cache_s > 0 == whole.cache_s
    # At least one token is computed.
    everything = prefill(model, hardware, constants, 4096.0, 4096.0)
    assert everything.compute_s == pytest.approx(whole.compute_s / 4096)


def test_latent_attention_expands_in_prefill_and_pays_for_cached_latents():
    hardware, constants = setting()
    model = work_of(DEEPSEEK_LIKE)
    rate = constants.prefill_attention * hardware.peak("bf16")
    fresh = prefill(model, hardware, constants, 1000.0)
    assert fresh.attention_s * rate == pytest.approx(81_920 * 4 * 1000 * 1001 / 2)
    cached = prefill(model, hardware, constants, 3000.0, 2000.0)
    pairs = 1000 * 2000 + 1000 * 1001 / 2
    expanded = 2 * 512 * 128 * (128 + 128) * 2000 * 4
    assert cached.attention_s * rate == pytest.approx(81_920 * 4 * pairs + expanded)


def test_latent_attention_and_recurrences_take_the_host_longer():
    hardware, constants = setting()
    latent = prefill(work_of(DEEPSEEK_LIKE), hardware, constants, 1000.0)
    assert latent.layers_s == pytest.approx(4 * (0.57e-3 + 1e-3))
    model = architecture_of(
        "Qwen/Qwen3-Next-80B-A3B-Instruct"
    )  # 36 gated delta nets, 12 of attention
    stored = stored_weights(model, "bf16", Parallelism(), "bf16")
    hybrid = work(model, stored, cache_layout(model, 2.0, 2.0, 2.0), Parallelism(), "bf16")
    hardware, constants = setting(experts=True)
    parts = prefill(hybrid, hardware, constants, 1000.0)
    assert parts.layers_s == pytest.approx(48 * 0.57e-3 + 36 * 1e-3)


def test_whisper_encodes_a_clip_of_fixed_length_and_t5_the_prompt():
    hardware, constants = setting()

    def of(name, tokens):
        model = architecture_of(name)
        stored = stored_weights(model, "bf16", Parallelism(), "bf16")
        layout = cache_layout(model, 2.0, 2.0, 2.0)
        made = work(model, stored, layout, Parallelism(), "bf16")
        return made, prefill(made, hardware, constants, tokens)

    whisper, short = of("openai/whisper-large-v3", 8.0)
    _, longer = of("openai/whisper-large-v3", 16.0)
    assert whisper.encoder_tokens == 1500.0
    rate = constants.efficiency("bf16", prefill=True) * hardware.peak("bf16")
    per_token = sum(flops for _, flops in whisper.encoder_flops)
    assert short.compute_s > 1500 * per_token / rate
    assert longer.compute_s - short.compute_s < 0.01 * short.compute_s
    t5, prompt = of("google-t5/t5-base", 512.0)
    assert t5.decoder_tokens(512.0) == 1.0
    encoder = sum(flops for _, flops in t5.encoder_flops)
    # 12 encoder layers of 4·768² + 2·768·3072 matrix elements, and keys and values for 12 cross-attentions.
    assert encoder == pytest.approx(2 * 12 * (6 * 768**2 + 2 * 768 * 3072))
    decoder = sum(flops for _, flops in t5.linear_flops)
    assert prompt.compute_s * rate == pytest.approx(512 * encoder + decoder + t5.head_flops)


@given(
    work_=st.sampled_from(WORKS),
    gpu=st.sampled_from(GPUS),
    engine=st.sampled_from(["vllm", "transformers", "llama.cpp"]),
    tokens=st.integers(1, 200_000),
    more=st.integers(1, 100_000),
    cached=st.floats(0, 1),
)
@settings(max_examples=150, deadline=None)
def test_time_grows_with_the_prompt_and_stays_above_the_bound(
    work_, gpu, engine, tokens, more, cached
):
    made = work_()
    hardware, constants = setting(gpu, engine, "fp16")
    tight = 1 - 1e-9
    seconds = prefill(made, hardware, constants, float(tokens)).total_s
    assert seconds * tight <= prefill(made, hardware, constants, float(tokens + more)).total_s
    assert ttft_bound(made, hardware, float(tokens)).seconds * tight <= seconds
    prefix = float(int(cached * tokens))
    shared = prefill(made, hardware, constants, float(tokens), prefix)
    assert ttft_bound(made, hardware, float(tokens), prefix).seconds * tight <= shared.total_s


@pytest.mark.parametrize("make", WORKS)
def test_arrays_equal_scalars(make):
    hardware, constants = setting()
    tokens = np.array([1.0, 17.0, 2048.0, 100_000.0])
    together = prefill(make(), hardware, constants, tokens, np.minimum(tokens, 16.0))
    for i, n in enumerate(tokens):
        one = prefill(make(), hardware, constants, float(n), min(float(n), 16.0))
        assert together.total_s[i] == pytest.approx(one.total_s)


def test_a_long_prompt_touches_every_expert():
    hardware, constants = setting(experts=True)
    model = work_of(QWEN3_30B_A3B)
    parts = prefill(model, hardware, constants, 8192.0)
    every = model.experts[0].bytes / (constants.expert_weights * hardware.bandwidth_bytes_per_s)
    rest = model.read_bytes / (constants.weights * hardware.bandwidth_bytes_per_s)
    assert parts.weights_s == pytest.approx(every + rest, rel=1e-6)
