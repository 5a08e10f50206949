"""One engine iteration: the joint fit's golden values, its parts, and what must hold whatever the constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import MissingFigure
from planner.speed.bounds import tpot_bound
from planner.speed.step import decode_step, sequences_in_step
from tests.speed.conditions import setting
from tests.speed.models import (
    DEEPSEEK_LIKE,
    GEMMA3_12B,
    LLAMA_8B,
    LLAMA_70B,
    MATRICES,
    QWEN3_30B_A3B,
    work_of,
)

GPUS = ("h100-sxm-80gb", "b200-sxm-180gb", "a100-sxm4-80gb", "l4", "t4", "rtx-4090", "mi300x-192gb")
WORKS = (
    lambda: work_of(LLAMA_8B),
    lambda: work_of(LLAMA_70B, weight_bytes=1.0, compute="fp8", tp=4),
    lambda: work_of(QWEN3_30B_A3B),
    lambda: work_of(QWEN3_30B_A3B, tp=2, dp=2, ep=4),
    lambda: work_of(GEMMA3_12B, weight_bytes=0.56, dequantised=True, head_bytes=2.0),
    lambda: work_of(DEEPSEEK_LIKE),
    lambda: work_of(LLAMA_70B, pp=4),
)


@pytest.mark.parametrize(
    ("batch", "milliseconds"), [(1, 7.593), (8, 8.042), (32, 9.607), (128, 16.197), (256, 25.643)]
)
def test_joint_fit_of_an_8b_in_bf16(batch, milliseconds):
    hardware, constants = setting()
    step = decode_step(work_of(LLAMA_8B), hardware, constants, float(batch), 1024.0)
    assert step.total_s * 1e3 == pytest.approx(milliseconds, abs=0.0011)


def test_parts_of_the_joint_fit():
    hardware, constants = setting()
    step = decode_step(work_of(LLAMA_8B), hardware, constants, 1.0, 1024.0)
    milliseconds = {name: seconds * 1e3 for name, seconds in step.parts().items() if seconds}
    assert milliseconds == {
        "host": pytest.approx(0.290, abs=5e-4),
        "layers": pytest.approx(1.494, abs=5e-4),
        "sequences": pytest.approx(0.024, abs=5e-4),
        "linear": pytest.approx(5.744, abs=5e-4),
        "cache": pytest.approx(0.040, abs=5e-4),
    }
    assert step.compute_s * 1e3 == pytest.approx(0.019, abs=5e-4)
    assert step.weights_s * 1e3 == pytest.approx(5.744, abs=5e-4)


@pytest.mark.parametrize(
    ("batch", "milliseconds"), [(1, 11.374), (8, 11.815), (32, 13.409), (128, 20.858)]
)
def test_joint_fit_of_a_70b_in_fp8_over_four_gpus(batch, milliseconds):
    hardware, constants = setting(weights="fp8")
    work = work_of(LLAMA_70B, weight_bytes=1.0, compute="fp8", tp=4)
    step = decode_step(work, hardware, constants, float(batch), 1024.0)
    assert step.total_s * 1e3 == pytest.approx(milliseconds, abs=0.0011)


@given(
    work=st.sampled_from(WORKS),
    gpu=st.sampled_from(GPUS),
    engine=st.sampled_from(["vllm", "transformers", "llama.cpp"]),
    batch=st.integers(1, 300),
    more=st.integers(1, 300),
    context=st.integers(1, 100_000),
    longer=st.integers(1, 100_000),
)
@settings(max_examples=150, deadline=None)
def test_time_grows_with_batch_and_context_and_stays_above_the_bound(
    work, gpu, engine, batch, more, context, longer
):
    work = work()
    hardware, constants = setting(gpu, engine, "fp16")

    def seconds(b: int, s: int) -> float:
        return decode_step(work, hardware, constants, float(b), float(s)).total_s

    tight = 1 - 1e-9
    base = seconds(batch, context)
    assert base * tight <= seconds(batch + more, context)
    assert base * tight <= seconds(batch, context + longer)
    assert tpot_bound(work, hardware, float(batch), float(context)).seconds * tight <= base


@given(work=st.sampled_from(WORKS), batch=st.integers(1, 256), context=st.integers(1, 50_000))
@settings(max_examples=60, deadline=None)
def test_slower_hardware_never_helps(work, batch, context):
    hardware, constants = setting()
    halved = [
        replace(hardware, bandwidth_bytes_per_s=hardware.bandwidth_bytes_per_s / 2),
        replace(hardware, peaks={dtype: rate / 2 for dtype, rate in hardware.peaks.items()}),
        replace(hardware, link_bytes_per_s=hardware.link_bytes_per_s / 2),
    ]
    args = (constants, float(batch), float(context), 64.0, 1024.0)
    base = decode_step(work(), hardware, *args).total_s
    for slower in halved:
        assert decode_step(work(), slower, *args).total_s >= base


@pytest.mark.parametrize("make", WORKS)
@pytest.mark.parametrize("engine", ["vllm", "transformers", "llama.cpp"])
def test_parts_sum_to_the_whole(make, engine):
    hardware, constants = setting(engine=engine, weights="fp16")
    step = decode_step(make(), hardware, constants, 16.0, 2048.0, 200.0, 1024.0)
    assert sum(step.parts().values()) == pytest.approx(step.total_s)
    assert max(step.weights_s, step.compute_s) <= step.linear_s
    assert all(seconds >= 0 for seconds in step.parts().values())


@pytest.mark.parametrize("make", WORKS)
def test_arrays_equal_scalars(make):
    hardware, constants = setting()
    batches = np.array([1.0, 3.0, 40.0, 256.0])
    contexts = np.array([[64.0], [4096.0], [100_000.0]])
    prompts = batches * 5.0
    together = decode_step(make(), hardware, constants, batches, contexts, prompts, 700.0)
    assert together.total_s.shape == (3, 4)
    for i, context in enumerate(contexts[:, 0]):
        for j, batch in enumerate(batches):
            one = decode_step(
                make(), hardware, constants, float(batch), float(context), prompts[j], 700.0
            )
            assert together.total_s[i, j] == pytest.approx(one.total_s)
            assert together.bound_by()[i, j] == one.bound_by()


def test_scalars_stay_plain_floats():
    hardware, constants = setting()
    step = decode_step(work_of(QWEN3_30B_A3B), hardware, constants, 8.0, 1024.0, 64.0, 512.0)
    assert {type(seconds) for seconds in step.parts().values()} == {float}


def test_prompts_in_a_step_cost_arithmetic_and_attention():
    hardware, constants = setting()
    work = work_of(LLAMA_8B)
    alone = decode_step(work, hardware, constants, 32.0, 1024.0)
    mixed = decode_step(work, hardware, constants, 32.0, 1024.0, 512.0, 4096.0)
    # 512 tokens through 7.505e9 parameters at 0.81 of 989 TFLOP/s.
    assert mixed.compute_s - alone.compute_s == pytest.approx(
        2 * MATRICES * 512 / (0.81 * 989e12), rel=1e-6
    )
    # On average each attends to half of 4,096: 4·H·d·2048 FLOP a layer at half of the peak.
    pairs = 512 * 4097 / 2
    assert mixed.attention_s == pytest.approx(4 * 32 * 128 * 32 * pairs / (0.5 * 9.894e14))
    cached = decode_step(work, hardware, constants, 32.0, 1024.0, 512.0, 4096.0, 1000.0)
    assert cached.attention_s > mixed.attention_s


def test_windows_cap_what_decode_reads():
    hardware, constants = setting()
    work = work_of(GEMMA3_12B)
    short, long = (
        decode_step(work, hardware, constants, 1.0, float(tokens)).cache_s
        for tokens in (1024, 8192)
    )
    # 40 of 48 layers keep 1,024 tokens; eight grow eightfold.
    assert long / short == pytest.approx((40 + 8 * 8) / 48)


def test_latent_attention_is_bound_by_arithmetic_where_reading_is_cheap():
    hardware, constants = setting()
    work = work_of(DEEPSEEK_LIKE)
    step = decode_step(work, hardware, constants, 128.0, 4096.0)
    read = 128 * 4096 * 576 * 2 * 4 / (constants.cache * hardware.bandwidth_bytes_per_s)
    absorbed = 128 * 4097 * 278_528 * 4 / (constants.attention * hardware.peak("bf16"))
    assert step.cache_s == pytest.approx(read)
    assert step.attention_s == pytest.approx(absorbed - read)


def test_experts_are_read_for_the_decoded_tokens_not_for_an_average_of_prompts():
    hardware, constants = setting(experts=True)
    work = work_of(QWEN3_30B_A3B)
    alone = decode_step(work, hardware, constants, 4.0, 1024.0)
    # Eight prompt tokens a step on average: one chunk of 4,096 in 512 steps, which reads all experts.
    mixed = decode_step(work, hardware, constants, 4.0, 1024.0, 8.0, 4096.0)
    everything = work.experts[0].bytes / (constants.expert_weights * hardware.bandwidth_bytes_per_s)
    assert 0 < mixed.weights_s - alone.weights_s < everything / 512
    drop_by_drop = decode_step(work, hardware, constants, 12.0, 1024.0)
    assert mixed.weights_s < drop_by_drop.weights_s


def test_a_pipeline_passes_every_stage_with_its_share_of_the_batch():
    hardware, constants = setting()
    staged, whole = work_of(LLAMA_70B, pp=4), work_of(LLAMA_70B)
    assert sequences_in_step(staged, constants, 32.0) == 8.0
    one = decode_step(staged, hardware, constants, 1.0, 1024.0)
    # One sequence gains nothing from stages and pays three hops.
    assert one.total_s - one.communication_s == pytest.approx(
        decode_step(whole, hardware, constants, 1.0, 1024.0).total_s
    )
    assert one.pipeline_s == 0.0
    many = decode_step(staged, hardware, constants, 32.0, 1024.0)
    assert many.pipeline_s == pytest.approx((many.total_s - many.pipeline_s) / 3)


def test_data_parallel_groups_share_sequences_and_meet_at_the_experts():
    hardware, constants = setting(experts=True)
    split = work_of(QWEN3_30B_A3B, dp=4, ep=4)
    alone = work_of(QWEN3_30B_A3B)
    step = decode_step(split, hardware, constants, 64.0, 4096.0)
    assert step.cache_s == pytest.approx(
        decode_step(alone, hardware, constants, 16.0, 4096.0).cache_s
    )
    assert step.communication_s > 48 * (constants.dispatch_latency_s + constants.combine_latency_s)
    assert step.weights_s < decode_step(alone, hardware, constants, 16.0, 4096.0).weights_s


def test_a_missing_rate_is_named():
    hardware, constants = setting("apple-m2-ultra", "llama.cpp", "fp16")
    with pytest.raises(MissingFigure, match="link"):
        decode_step(work_of(LLAMA_8B, tp=2), hardware, constants, 1.0, 1024.0)
    without = replace(hardware, peaks={})
    with pytest.raises(MissingFigure, match="peak_bf16_flops_per_s"):
        decode_step(work_of(LLAMA_8B), without, constants, 1.0, 1024.0)


def test_a_model_that_fills_the_link_is_bound_by_communication():
    hardware, constants = setting("l40s")
    step = decode_step(work_of(LLAMA_8B, tp=8), hardware, constants, 256.0, 128.0)
    assert step.bound_by() == "communication"
    assert decode_step(work_of(LLAMA_8B), hardware, constants, 1.0, 128.0).bound_by() == "bandwidth"
    assert decode_step(work_of(LLAMA_8B), hardware, constants, 2048.0, 16.0).bound_by() == "compute"
