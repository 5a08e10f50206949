"""Ready-made scenarios: the one that the app opens on, the ones for first-time visitors, and usual workloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPENING: dict[str, Any] = {
    "model": "google/gemma-3-12b-it",
    "gpu": "t4",
    "gpus": 1,
    "weights": "nf4",
    "engine": "transformers",
    "input_tokens": 2048,
    "output_tokens": 256,
    "concurrency": 1,
}


@dataclass(frozen=True, slots=True)
class Preset:
    """A scenario under a name (`preset.<id>` in the catalogues); what `values` leaves out has its default."""

    id: str
    values: dict[str, Any]


PRESETS = (
    Preset("gemma_t4", OPENING),
    Preset(
        "llama_l4",
        {
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "gpu": "l4",
            "gpus": 1,
            "engine": "vllm",
            "input_tokens": 1024,
            "output_tokens": 256,
            "concurrency": 8,
        },
    ),
    Preset(
        "llama_h100",
        {
            "model": "meta-llama/Llama-3.3-70B-Instruct",
            "gpu": "h100-sxm-80gb",
            "gpus": 4,
            "engine": "vllm",
            "input_tokens": 2048,
            "output_tokens": 512,
            "concurrency": 32,
        },
    ),
    Preset(
        "deepseek_h200",
        {
            "model": "deepseek-ai/DeepSeek-V3",
            "gpu": "h200-sxm-141gb",
            "gpus": 8,
            "engine": "vllm",
            "input_tokens": 4096,
            "output_tokens": 512,
            "concurrency": 32,
        },
    ),
    Preset(
        "gptoss_h100",
        {
            "model": "openai/gpt-oss-120b",
            "gpu": "h100-sxm-80gb",
            "gpus": 1,
            "engine": "vllm",
            "input_tokens": 2048,
            "output_tokens": 512,
            "concurrency": 16,
        },
    ),
)

# Prompt, answer and users of usual work; starting points, not measurements.
WORKLOADS: dict[str, dict[str, int]] = {
    "chat": {"input_tokens": 1024, "output_tokens": 256, "concurrency": 8},
    "rag": {"input_tokens": 8192, "output_tokens": 512, "concurrency": 8},
    "code": {"input_tokens": 2048, "output_tokens": 256, "concurrency": 16},
    "summary": {"input_tokens": 16384, "output_tokens": 512, "concurrency": 4},
    "agent": {"input_tokens": 32768, "output_tokens": 1024, "concurrency": 4},
    "single": {"input_tokens": 2048, "output_tokens": 256, "concurrency": 1},
}
WORKLOAD_FIELDS = ("input_tokens", "output_tokens", "concurrency")


def preset_of(values: dict[str, Any], defaults: dict[str, Any]) -> str | None:
    """Id of the preset that these values are, or None."""
    for preset in PRESETS:
        if values == {**defaults, **preset.values}:
            return preset.id
    return None


def workload_of(values: dict[str, Any]) -> str | None:
    """Name of the usual workload that these values are, or None."""
    shape = {name: values[name] for name in WORKLOAD_FIELDS}
    return next((name for name, usual in WORKLOADS.items() if usual == shape), None)
