"""Measured end-to-end figures, by engine and family: time per output token under a closed loop.

AIConfigurator's public table (Apache-2.0, commit 095f58a) unless noted; within 25 % each, with a bound on the bias.
"""

from __future__ import annotations

from statistics import median

import pytest

from planner.speed.serving_point import serving_point
from planner.speed.step import decode_step
from tests.speed.conditions import setting
from tests.speed.models import LLAMA2_7B, LLAMA_8B, QWEN3_32B, Dimensions, work_of

QWEN3_8B = Dimensions(36, 4096, 32, 8, 128, 12288, 151936)
GGUF_Q4_0 = 18 / 32
GGUF_Q8_0 = 34 / 32


def serve(model, engine, *, inputs, outputs, users, model_type, budget=8192.0):
    hardware, constants = setting("h100-sxm-80gb", engine, "bf16", model_type)
    return serving_point(
        model,
        hardware,
        constants,
        input_tokens=float(inputs),
        output_tokens=float(outputs),
        concurrency=float(users),
        max_num_batched_tokens=budget,
    )


@pytest.mark.parametrize(
    ("tp", "inputs", "milliseconds"),
    [
        (2, 1024, {8: 15.90, 16: 17.38, 32: 20.06, 64: 26.09, 128: 37.84}),
        (2, 4096, {8: 17.87, 16: 21.88, 32: 29.33, 64: 52.57}),
        (4, 1024, {8: 10.60, 16: 11.57, 32: 13.69, 64: 17.31, 128: 25.63}),
        (8, 1024, {8: 7.96, 16: 8.93, 32: 10.45, 64: 13.28, 128: 19.28}),
    ],
)
def test_qwen3_32b_with_vllm(tp, inputs, milliseconds):
    errors = []
    for users, measured in milliseconds.items():
        point = serve(
            work_of(QWEN3_32B, tp=tp),
            "vllm",
            inputs=inputs,
            outputs=1024,
            users=users,
            model_type="qwen3",
        )
        errors.append(point.tpot_s * 1e3 / measured - 1)
        assert abs(errors[-1]) < 0.25, (users, point.tpot_s)
    assert abs(median(errors)) < 0.15


@pytest.mark.parametrize(
    ("inputs", "milliseconds"),
    [
        (1024, {8: 7.42, 16: 8.35, 32: 9.88, 64: 13.10, 128: 19.26}),
        (4096, {8: 9.65, 16: 12.40, 32: 18.15, 64: 30.09}),
    ],
)
def test_llama_8b_with_tensorrt_llm(inputs, milliseconds):
    errors = []
    for users, measured in milliseconds.items():
        point = serve(
            work_of(LLAMA_8B),
            "tensorrt-llm",
            inputs=inputs,
            outputs=512,
            users=users,
            model_type="llama",
        )
        errors.append(point.tpot_s * 1e3 / measured - 1)
        assert abs(errors[-1]) < 0.15, (users, point.tpot_s)
    assert abs(median(errors)) < 0.08


@pytest.mark.parametrize(
    ("engine", "users", "tpot_ms"),
    [("vllm", 1, 7.22), ("vllm", 4, 7.40), ("vllm", 8, 7.67), ("tensorrt-llm", 4, 7.58)],
)
def test_qwen3_8b_on_an_independent_machine(engine, users, tpot_ms):
    # gpustack performance lab, one H100, ShareGPT: 233 prompt and 221 output tokens. No fit has seen the model.
    point = serve(
        work_of(QWEN3_8B), engine, inputs=233, outputs=221, users=users, model_type="qwen3"
    )
    assert point.tpot_s * 1e3 == pytest.approx(tpot_ms, rel=0.10)


@pytest.mark.parametrize(
    ("model", "milliseconds"),
    [(LLAMA2_7B, 23.48), (LLAMA_8B, 18.45)],
)
def test_a_gpu_that_no_step_was_fitted_on(model, milliseconds):
    # LLM-Inference-Bench: vLLM, A100 40 GB, 16 sequences of 1,024 prompt and 1,024 output tokens decoded together.
    hardware, constants = setting("a100-sxm4-40gb", "vllm", "fp16")
    step = decode_step(work_of(model, dtype="fp16"), hardware, constants, 16.0, 1536.0)
    assert step.total_s * 1e3 == pytest.approx(milliseconds, rel=0.12)


@pytest.mark.parametrize(
    ("gpu", "weights", "size", "tokens_per_s"),
    [
        # llama-bench, 128 tokens from an empty context, Llama 2 7B; sizes as in the GGUF.
        ("rtx-4090-d", "Q4_0", GGUF_Q4_0, 189.3),
        ("rtx-4080", "Q4_0", GGUF_Q4_0, 142.5),
        ("rtx-5090", "Q4_0", GGUF_Q4_0, 290.0),
        ("rtx-a5000", "Q4_0", GGUF_Q4_0, 130.1),
        ("rtx-2080-ti", "Q4_0", GGUF_Q4_0, 107.5),
        ("mi210-64gb", "Q4_0", GGUF_Q4_0, 124.5),
        ("apple-m2-ultra", "Q4_0", GGUF_Q4_0, 94.3),
        ("apple-m2-ultra", "Q8_0", GGUF_Q8_0, 66.6),
        ("apple-m2-ultra", "F16", 2.0, 41.0),
        ("apple-m4-max-40c", "Q8_0", GGUF_Q8_0, 54.1),
    ],
)
def test_llama_cpp_decode(gpu, weights, size, tokens_per_s):
    hardware, constants = setting(gpu, "llama.cpp", f"gguf:{weights}")
    model = work_of(LLAMA2_7B, weight_bytes=size, dtype="fp16")
    step = decode_step(model, hardware, constants, 1.0, 64.0)
    assert 1.0 / step.total_s == pytest.approx(tokens_per_s, rel=0.20)
