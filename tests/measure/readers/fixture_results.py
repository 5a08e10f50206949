"""The result files that tests read, and what each of them leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"
RESULTS = sorted(path.name for path in FIXTURES.iterdir() if path.suffix != ".log")
H100 = {"gpu": "h100-sxm-80gb", "engine_version": "0.11.0", "weights": "native", "gpus": 1}
# What each file leaves open, and the user says.
GIVEN: dict[str, dict[str, Any]] = {
    "vllm-latency.json": {
        **H100,
        "model": "Qwen/Qwen3-8B",
        "input_tokens": 32,
        "output_tokens": 128,
        "concurrency": 8,
    },
    "vllm-throughput.json": {
        **H100,
        "model": "Qwen/Qwen3-8B",
        "input_tokens": 1024,
        "output_tokens": 256,
    },
    "vllm-0.32-latency.json": {**H100, "input_tokens": 32, "output_tokens": 128, "concurrency": 8},
    "vllm-0.32-throughput.json": {**H100, "input_tokens": 1024, "output_tokens": 256},
    "sglang-0.5.23-detailed.jsonl": {**H100, "model": "Qwen/Qwen3-8B"},
    "sglang-serving.jsonl": {"gpu": "h100", "weights": "native"},
    "llama-bench.md": {"gpu": "rtx-4090", "model": "Qwen/Qwen2.5-7B-Instruct", "gpus": 1},
    "aiperf.csv": {**H100, "model": "Qwen/Qwen3-8B", "engine": "vllm", "concurrency": 16},
    "genai-perf.csv": {**H100, "model": "Qwen/Qwen3-8B", "engine": "vllm", "concurrency": 16},
    "aiperf-0.13.csv": {**H100, "model": "Qwen/Qwen3-8B", "engine": "vllm", "concurrency": 2},
    "aiperf-0.13-sweep.json": {**H100, "model": "Qwen/Qwen3-8B", "engine": "vllm"},
    "aiperf.json": {**H100, "engine": "vllm"},
    "aiperf-0.13.json": {**H100, "engine": "vllm"},
    "genai-perf.json": {**H100, "engine": "vllm"},
    "guidellm-0.2.json": {**H100, "engine": "vllm"},
    "guidellm-0.3.json": {**H100, "engine": "vllm"},
    "guidellm-0.5.json": {**H100, "engine": "vllm"},
    "guidellm-0.8.json": {**H100, "engine": "vllm"},
    # A processor's, so that any GPU can be meant.
    "llama-bench-0.5.json": {"gpu": "t4", "gpus": 1, "model": "Qwen/Qwen3-0.6B"},
    "llama-bench-0.5.md": {"gpu": "t4", "gpus": 1, "model": "Qwen/Qwen3-0.6B"},
    "llama-bench.csv": {},
    "llama-bench.json": {},
    "llama-bench.jsonl": {},
}


def data(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def given_for(name: str) -> dict[str, Any]:
    return GIVEN.get(name, H100)
