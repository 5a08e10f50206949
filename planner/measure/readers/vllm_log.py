"""Start-up logs of vLLM, 0.4 to 0.32.

Both engines' memory lines: the older one's sentence ("model weights take …", to 0.9) and table ("Memory profiling
results", to 0.6), the newer one's single lines ("Available KV cache memory", "GPU KV cache size", from 0.8), and the
settings, which are printed once as arguments and once with what the engine made of them. "GB" means 2^30 bytes.
"""

from __future__ import annotations

from planner.catalog.models import model_profile
from planner.measure.readers.log_reading import LogParts, LogReading, dtype_of
from planner.measure.readers.untrusted import (
    known_model,
    lines_of,
    name_in,
    number_after,
    number_in,
    setting_in,
    size_after,
    whole,
    whole_setting,
)
from planner.quantity import GIB

KNOWN = ("0.4", "0.32")
MARKERS = (
    "vLLM API server version",
    "vLLM server version ",
    "LLM engine (v",
    " KV cache size: ",
    "Available KV cache memory:",
    "Model loading took",
    "Loading model weights took",
    "model weights take",
    "# GPU blocks:",
    "# CUDA blocks:",
)
# Each with what ends it; the last is beside the logo.
VERSIONS = (
    ("LLM engine (v", ")"),
    ("vLLM API server version ", "\n"),
    ("vLLM server version ", ","),
    ("█  version ", "\n"),
)
ARGUMENTS = ("non-default args:", "args: Namespace(")
DEGREES = {
    "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp",
    "data_parallel_size": "dp",
}
LIMITS = ("max_num_seqs", "max_num_batched_tokens", "block_size")
# Methods that a checkpoint can't have without its configuration saying so.
OWN_METHODS = ("compressed-tensors", "modelopt", "mxfp4", "quark", "fbgemm_fp8")
NO_MODEL = "model=None"
ON_LOADING = {"fp8": "fp8", "awq": "awq-int4", "awq_marlin": "awq-int4"}
# What was taken before the model was loaded, other programs' memory included; printed at the level of debugging.
SNAPSHOT = "memory snapshot: "
DEFAULT_BLOCK_TOKENS = 16  # of all versions that print blocks


def read_vllm_log(text: str) -> LogReading:
    """The reading of a log of vLLM's."""
    parts = LogParts("vllm")
    blocks: list[tuple[float, int, str]] = []
    for number, line in lines_of(text):
        _versions(parts, line)
        if "with config:" in line and "LLM engine (v" in line:
            _engine_config(parts, line.partition("with config:")[2])
        for marker in ARGUMENTS:
            if marker in line:
                _arguments(parts, line.partition(marker)[2])
        batched = number_after(line, "Chunked prefill is enabled with max_num_batched_tokens=", ".")
        parts.state("max_num_batched_tokens", whole(batched))
        _memory(parts, number, line)
        for marker in ("# GPU blocks: ", "# CUDA blocks: "):
            count = number_after(line, marker, ",") or number_after(line, marker, "\n")
            if count is not None:
                blocks.append((count, number, line))
        if line.lstrip().startswith("GPU 0: ") and line.endswith("\n"):
            parts.gpu = parts.gpu or _card(line)
    _from_blocks(parts, blocks)
    _weights(parts)
    return parts.reading(KNOWN)


def _versions(parts: LogParts, line: str) -> None:
    if parts.version is not None:
        return
    for marker, end in VERSIONS:
        version, whole_one, _ = line.partition(marker)[2].partition(end)
        if whole_one:
            parts.version = name_in(version[:60])


def _engine_config(parts: LogParts, config: str) -> None:
    """What the engine made of its arguments."""
    parts.model = parts.model or setting_in(config, "model") or ""
    for key, field in DEGREES.items():
        parts.state(field, whole_setting(config, key))
    parts.state("max_model_len", whole_setting(config, "max_seq_len"))
    parts.state("dtype", dtype_of(setting_in(config, "dtype")))
    cache = setting_in(config, "kv_cache_dtype")
    if cache is not None:
        parts.state("kv", dtype_of(cache) or cache)
    method = setting_in(config, "quantization")
    if method is not None:
        parts.state("weights", method)  # by the engine's name here, by ours once the model is known
    parts.on_cpu = parts.on_cpu or setting_in(config, "device_config") == "cpu"
    if setting_in(config, "enforce_eager") == "True":
        parts.note("log_eager")
    drafts, _, _ = config.partition("speculative_config=")[2].partition(")")
    # Drafts may be looked up in the prompt, without a model of their own.
    if (setting_in(config, "speculative_config") or "None") != "None" and NO_MODEL not in drafts:
        parts.note("log_speculative")


def _arguments(parts: LogParts, arguments: str) -> None:
    parts.model = parts.model or setting_in(arguments, "model") or ""
    share = number_in(setting_in(arguments, "gpu_memory_utilization") or "")
    if share is not None and 0.0 < share <= 1.0:
        parts.state("gpu_memory_utilization", share)
    for key in LIMITS:
        parts.state(key, whole_setting(arguments, key))


def _memory(parts: LogParts, number: int, line: str) -> None:
    for marker in ("Loading model weights took ", "Model loading took ", "model weights take "):
        parts.add("weights_bytes_per_gpu", size_after(line, marker), number, line)
    activation = size_after(line, "PyTorch activation peak memory takes ")
    parts.add("activation_bytes_per_gpu", activation, number, line)
    if SNAPSHOT not in line:
        for marker in ("non_torch_memory takes ", "non_torch_memory="):
            parts.add("overhead_bytes_per_gpu", size_after(line, marker), number, line)
    for marker in (
        "the rest of the memory reserved for KV Cache is ",
        "Available KV cache memory: ",
        "kv_cache_size=",
    ):
        parts.add("kv_pool_bytes_per_gpu", size_after(line, marker), number, line)
    if "Graph capturing finished" in line:
        parts.add("graphs_bytes_per_gpu", size_after(line, " took "), number, line)
    # Before it stands the kind of device, which was "GPU" for all of them once.
    tokens = number_after(line, " KV cache size: ", " tokens")
    parts.add_count("engine_printed_kv_tokens", tokens, 1.0, number, line)
    _, found, rest = line.partition("Maximum concurrency for ")
    if found:
        parts.state("max_model_len", whole(number_after(found + rest, found, " tokens")))
        held = number_after(rest, " tokens per request: ", "x")
        parts.add_count("max_concurrency", held, 0.01, number, line)
    for marker in ("total_gpu_memory (", "total_gpu_memory="):
        total = size_after(line, marker)
        if total is not None and total.bytes > 0.0:
            parts.state("gpu_memory_gib", total.bytes / GIB)
    share = number_after(line, "gpu_memory_utilization (", ")")
    if share is not None and 0.0 < share <= 1.0:
        parts.state("gpu_memory_utilization", share)


def _from_blocks(parts: LogParts, blocks: list[tuple[float, int, str]]) -> None:
    """Blocks of the versions that print no tokens."""
    if any(one.name == "engine_printed_kv_tokens" for one in parts.figures):
        return
    size = parts.scenario.get("block_size", DEFAULT_BLOCK_TOKENS)
    for count, number, line in blocks:
        parts.add_count("engine_printed_kv_tokens", count * size, size, number, line)
        parts.note("log_tokens_from_blocks", tokens=size)


def _weights(parts: LogParts) -> None:
    """The format of the weights, where the method that is printed leaves no doubt."""
    method = str(parts.scenario.pop("weights", ""))
    model = known_model(parts.model)
    own = model is not None and "quantization_config" in model_profile(model).config
    if method == "None" or method.startswith(OWN_METHODS) or (method and own):
        parts.scenario["weights"] = "native"
    elif method in ON_LOADING:
        parts.scenario["weights"] = ON_LOADING[method]
    elif method:
        parts.note("log_weights_method", method=method)


def _card(line: str) -> str:
    """The name in "GPU 0: NVIDIA H100 80GB HBM3 (UUID: …)"."""
    return name_in(line.partition("GPU 0: ")[2].partition(" (UUID")[0]) or ""
