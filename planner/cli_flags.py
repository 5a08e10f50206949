"""The scenario on the command line: its flags, and what they mean, for every verb that takes one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from planner.cli_output import show
from planner.errors import InvalidConfig, Note
from planner.ui.locale import say_note

INTEGERS = (
    "gpus", "tp", "pp", "ep", "dp", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size",
    "input_tokens", "output_tokens", "concurrency", "gpu_layers", "cpu_expert_layers",
)  # fmt: skip


REALS = (
    "gpu_memory_gib",
    "gpu_memory_utilization",
    "host_memory_gib",
    "host_bandwidth_gb_per_s",
)


TEXTS = ("engine", "engine_version", "weights", "kv", "dtype")


HELP = {
    "model": "catalogue id or alias; path to a config.json, a GGUF, a safetensors file or index, or a folder holding "
    "one; or - for JSON on standard input",
    "hub": "fetch the model from the Hugging Face Hub: its config.json and its files' headers, nothing else",
    "gpu": "accelerator id or alias (python -m planner gpus)",
    "calibration": "file of a measurement or calibration of your own, which counts where it was made",
    "gpus": "how many GPUs (default 1)",
    "tp": "tensor-parallel degree (default gpus / (pp · dp))",
    "pp": "pipeline-parallel degree (default 1)",
    "ep": "expert-parallel degree (default 1)",
    "dp": "data-parallel attention degree (default 1)",
    "engine": "vllm, sglang, tensorrt-llm, transformers or llama.cpp",
    "engine_version": "engine version (default: the newest profile)",
    "weights": "native, fp32, bf16, fp16, fp8, int8, awq-int4, gptq-int4, nf4, nf4-dq, llm-int8, nvfp4, mxfp4, "
    "gguf:TYPE",
    "kv": "auto, fp16, bf16, fp8, int8, q8_0, q4_0, or K/V such as q8_0/q4_0",
    "dtype": "compute dtype: auto, fp16, bf16 or fp32",
    "gpu_memory_gib": "usable memory per GPU in GiB, where it isn't the catalogue's",
    "gpu_layers": "layers kept on the GPU, the output layer counted (llama.cpp's -ngl; default all)",
    "cpu_expert_layers": "first layers whose experts stay in host memory (llama.cpp's --n-cpu-moe; default none)",
    "host_memory_gib": "memory of the host in GiB (default: enough)",
    "host_bandwidth_gb_per_s": "bandwidth of the host's memory in GB/s (default: of a usual host for the GPU)",
    "gpu_memory_utilization": "share of the GPU's memory that the engine may take, 0 to 1",
    "max_model_len": "longest sequence the engine accepts (tokens)",
    "max_num_seqs": "most sequences in one step",
    "max_num_batched_tokens": "most tokens in one step",
    "block_size": "tokens per cache block",
    "input_tokens": "prompt length (tokens, default 1024)",
    "output_tokens": "generated length (tokens, default 256)",
    "concurrency": "requests in flight (default 1)",
}


def add_scenario_flags(
    parser: argparse.ArgumentParser,
    *,
    gpu: bool = True,
    calibration: bool = False,
    required: bool = True,
) -> None:
    """A flag for each field of a scenario.

    Args:
        gpu: the GPU's; calibration: a file with somebody's own.
        required: the model has to be named.
    """
    parser.add_argument("--model", required=required, help=HELP["model"])
    parser.add_argument("--hub", action="store_true", help=HELP["hub"])
    if gpu:
        parser.add_argument("--gpu", default=None, help=HELP["gpu"])
    if calibration:
        parser.add_argument("--calibration", metavar="FILE", default=None, help=HELP["calibration"])
    for name in (*INTEGERS, *REALS, *TEXTS):
        kind = int if name in INTEGERS else float if name in REALS else str
        flag = "--" + name.replace("_", "-")
        parser.add_argument(
            flag, type=kind, default=None, help=HELP[name], metavar=kind.__name__.upper()
        )
    parser.add_argument(
        "--include-mtp", action="store_true", help="count next-token-prediction layers as loaded"
    )


def scenario_values(arguments: argparse.Namespace) -> dict[str, Any]:
    """The scenario's fields that were given on the command line, without the model."""
    names = (*INTEGERS, *REALS, *TEXTS)
    values = {
        name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None
    }
    if arguments.include_mtp:
        values["include_mtp"] = True
    return values


def model_reference(
    text: str, *, hub: bool = False, tell: Callable[[Note], None] | None = None
) -> dict[str, Any]:
    """What `--model` means: `-` is JSON on standard input, a path is a model on this computer, the rest an id.

    Args:
        hub: the id is one of the Hugging Face Hub's, to be fetched from there.
        tell: told what to know about what was fetched.

    Returns:
        `{"model": …}` for a catalogue id, with `"config"` beside it for a configuration, which carries what the
        model's files hold where their headers were read.

    Raises:
        InvalidConfig, InvalidInput: where the input isn't a model.
        Unreachable: where the Hub doesn't give it.
    """
    from planner.architecture.checkpoint.local import is_model_path, read_model_path
    from planner.architecture.read_config import MAX_BYTES, parse_config

    if text == "-":
        if sys.stdin is None:
            raise InvalidConfig("config_unreadable", path="-")
        return {
            "model": "stdin",
            "config": parse_config(sys.stdin.buffer.read(MAX_BYTES + 1)),
        }
    if hub:
        from planner.architecture.hub import fetch_model

        fetched = fetch_model(text)
        if tell is not None:
            if fetched.from_cache:
                told: dict[str, object] = {"model": text, "date": f"{fetched.fetched_at:%Y-%m-%d}"}
                tell(Note("hub_from_cache", told))
            if fetched.headers_missing:
                tell(Note("hub_headers_unread", {"model": text}))
        return {"model": text, "config": fetched.configuration()}
    if is_model_path(text):
        return {"model": text, "config": read_model_path(text)}
    return {"model": text}


def given_model(arguments: argparse.Namespace, language: str) -> dict[str, Any]:
    """The model that `--model` names, as fields of a scenario; what there is to know of a fetched one is said."""

    def tell(note: Note) -> None:
        show(say_note(note, language), file=sys.stderr)

    # argparse turns a lone "--" into a list.
    text = arguments.model if isinstance(arguments.model, str) else "--"
    return model_reference(text, hub=arguments.hub, tell=tell)
