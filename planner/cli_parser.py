"""The verbs and flags of the command line, as argparse reads them."""

from __future__ import annotations

import argparse

from planner.cli_measure import add_measure
from planner.ui.locale import LANGUAGES

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


def _add_scenario_flags(parser: argparse.ArgumentParser, *, gpu: bool) -> None:
    parser.add_argument("--model", required=True, help=HELP["model"])
    parser.add_argument("--hub", action="store_true", help=HELP["hub"])
    if gpu:
        parser.add_argument("--gpu", default=None, help=HELP["gpu"])
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


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def build_parser() -> argparse.ArgumentParser:
    """The argument parser, one subparser per verb."""
    parser = argparse.ArgumentParser(
        prog="python -m planner",
        description="LLM inference what-if calculator: does it fit, and how fast is it?",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, summary: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=summary, description=summary)
        sub.add_argument("--json", action="store_true", help="print JSON")
        sub.add_argument(
            "--lang",
            choices=LANGUAGES,
            default=None,
            help="language of sentences (default: the locale's)",
        )
        return sub

    estimate = verb("estimate", "Memory and speed of one scenario, with range and basis.")
    _add_scenario_flags(estimate, gpu=True)
    batch = verb("batch", "Answer every row of a CSV file; a bad row carries its error.")
    batch.add_argument(
        "cases", help="CSV file with columns model, gpu and any of the estimate flags"
    )
    batch.add_argument("-o", "--output", required=True, help="CSV file to write")
    fit = verb("fit", "Which catalogue GPUs, counts and formats hold this model at this context.")
    _add_scenario_flags(fit, gpu=False)
    fit.add_argument(
        "--gpu", action="append", default=None, help="only these accelerators (may be repeated)"
    )
    fit.add_argument("--formats", default=None, help="weight formats to try, separated by commas")
    fit.add_argument(
        "--max-gpus", type=int, default=8, help="largest number of GPUs to try (default 8)"
    )
    fit.add_argument(
        "--all", action="store_true", help="also list what does not fit, with the reason"
    )
    accuracy = verb("accuracy", "How far the planner's figures are from measured ones.")
    accuracy.add_argument("--markdown", action="store_true", help="print the whole report")
    calibrate = verb(
        "calibrate", "Fit constants to measured runs of your own, or refit what is shipped."
    )
    calibrate.add_argument(
        "measurements",
        nargs="+",
        help="measurements (JSON), or CSV files as in profiles/measurements",
    )
    calibrate.add_argument(
        "-o", "--output", default=None, help="file for the measurement with its calibration"
    )
    calibrate.add_argument(
        "--write",
        action="store_true",
        help="refit all that is shipped to these rows, with hold-outs, and replace profiles/calibrations (slow)",
    )
    add_measure(verb("measure", "Measure this machine, and compare with what is predicted."))
    for name, summary in (
        ("models", "Catalogue models, searched."),
        ("gpus", "Catalogue accelerators, searched."),
    ):
        listing = verb(name, summary)
        listing.add_argument("query", nargs="?", default="", help="words to search for")
        listing.add_argument(
            "--limit", type=_at_least_one, default=None, help="most entries to list"
        )
        if name == "models":
            _add_checks(listing)
    return parser


def _add_checks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check", metavar="FOLDER", help="describe every config.json in a folder, and count it"
    )
    parser.add_argument(
        "--facts",
        metavar="CSV",
        help="with --check: totals to compare with, by file or model_id (default: ../model_facts.csv)",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="how each model type's default configuration compares to transformers",
    )
