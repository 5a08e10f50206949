"""Start-up logs of llama.cpp, builds from about b2000 on, also inside those of programs that are built on it.

What a line is called by has changed (llm_load_tensors and load_tensors, llama_new_context_with_model and
llama_context), what it says hasn't: each buffer with its device, the cache's size, its cells and sequences.
"""

from __future__ import annotations

import re

from planner.catalog.formats import weight_format
from planner.errors import UnknownItem
from planner.measure.readers.log_reading import FigureName, LogParts, LogReading
from planner.measure.readers.untrusted import (
    lines_of,
    name_in,
    number_after,
    size_after,
)

KNOWN = ("b2000", "b11400")
MARKERS = (
    "llama_model_loader:",
    "print_info:",
    "llm_load_print_meta:",
    "load_tensors:",
    "llama_context:",
    "llama_kv_cache",
    "llama_new_context_with_model:",
    "model buffer size",
)
FILE_SIZES = {"Small": "S", "Medium": "M", "Large": "L"}
# AMX: a processor's units for matrices, whose layout of weights has a buffer of its own.
HOST = re.compile(r"(?:CPU|Host|BLAS|AMX)")
# "build: 6500 (12ab34cd)", "main: build = 2999 (…)" before b3500, "build_info: b8247-aaa18bb49" of the server,
# "common_params_print_info: build 10145 (…)" since, "version: 0.5.0 (build 10900, commit …)" of releases.
BUILD = re.compile(
    r"(?:build|version) ?[:=]? ?b?(\d{3,6}) ?\(|build_info: b(\d{3,6})-|\(build (\d{3,6}), commit "
)
TYPE = {part: re.compile(rf" {part} \((\w{{1,12}})\)") for part in ("K", "V")}
DEVICES = ("  Device 0: ", "using device CUDA0 (", "using device ROCm0 (", "using device Vulkan0 (")
SETTINGS = ("n_ctx", "n_seq_max", "n_ubatch", "no_alloc", "flash_attn", "kv_unified")
ON_HOST = ""
LEAST_VERBOSITY = 4  # from which on the server prints memory lines, since b9181
BUFFER: dict[str, FigureName] = {
    "model buffer size =": "weights_bytes_per_gpu",
    "compute buffer size =": "activation_bytes_per_gpu",
}


def read_llama_cpp_log(text: str) -> LogReading:
    """The reading of a log of llama.cpp's."""
    parts = LogParts("llama.cpp")
    context: dict[str, int] = {}
    devices: set[str] = set()
    computes: set[str] = set()
    seen: set[str] = set()
    others = False  # what is tried out before, or comes after: a draft's context, the next test of llama-bench
    for number, line in lines_of(text):
        _header(parts, number, line)
        setting = _without_spaces(line)
        if (trial := number_after(setting, "print_info: no_alloc = ")) is not None:
            others = trial > 0.0 or bool(seen)
        if others:
            continue
        if seen and ": n_seq_max = " in setting:
            others = True
            continue
        for key in ("n_ctx", "n_seq_max", "n_ubatch"):
            value = number_after(setting, f": {key} = ")
            if value is not None and key not in context and value >= 1.0:
                context[key] = int(value)
        if ": flash_attn = disabled" in setting:
            parts.note("log_flash_attention_off")
        parts.shares_cells = parts.shares_cells or ": kv_unified = true" in setting
        _buffers(parts, number, line, devices, computes)
        _cache(parts, number, line, seen)
    parts.on_cpu = computes == {ON_HOST} and not devices
    sequences = context.get("n_seq_max", 1)
    if "n_ctx" in context:
        parts.state("max_model_len", context["n_ctx"])
        parts.state("concurrency", sequences)
        parts.state("max_num_seqs", sequences)
    parts.state("max_num_batched_tokens", context.get("n_ubatch"))
    if context:  # the weights are loaded, and no further device follows
        parts.state("pp", len(devices) or None)
    return parts.reading(KNOWN)


def _without_spaces(line: str) -> str:
    """Runs of spaces as one, of a whole line with a setting: columns are padded."""
    named = any(name in line for name in SETTINGS)
    return " ".join(line.split()) if named and line.endswith("\n") else ""


def _header(parts: LogParts, number: int, line: str) -> None:
    if parts.version is None and (found := BUILD.search(line[:400])) is not None:
        parts.version = f"b{found[1] or found[2] or found[3]}"
    verbosity = number_after(line, "verbosity = ", " (adjust with")
    if verbosity is not None and verbosity < LEAST_VERBOSITY:
        parts.note("log_verbosity", given=int(verbosity), least=LEAST_VERBOSITY)
    if not line.endswith("\n"):
        return  # what follows reaches to the end of its line
    if not parts.model:
        _, found_kv, rest = line.partition("general.name ")
        name = rest.partition("=")[2].strip() if found_kv else ""
        parts.model = name_in(name) or ""
    for marker in ("file type ", "model ftype "):
        at = line.find(marker)
        if at >= 0 and ("print_info:" in line or "print_meta:" in line):
            _format(parts, line[at:].partition("=")[2].strip())
    if "print_info:" in line or "print_meta:" in line:
        for marker in ("file size   = ", "model size       = "):
            parts.add("weights_bytes", size_after(line, marker), number, line)
    if not parts.gpu:
        for marker in DEVICES:
            _, found_card, rest = line.partition(marker)
            if found_card:
                parts.gpu = name_in(rest.partition(", ")[0].partition(")")[0]) or ""
        _, found_card, rest = line.partition("picking default device: ")
        if found_card:
            parts.gpu = name_in(rest) or ""
    layers = number_after(line, "offloaded ", "/")
    if layers is not None:
        every = number_after(line.partition("offloaded ")[2], "/", " layers")
        if every is not None and layers < every:
            parts.state("gpu_layers", int(layers))


def _format(parts: LogParts, printed: str) -> None:
    """The weights' format from a file type: "Q4_K - Medium" is Q4_K_M."""
    name, _, rest = printed.partition(" - ")
    size = FILE_SIZES.get(rest.split(" ")[0], "")
    name = name.removeprefix("all ").removeprefix("mostly ").split(" ")[0]
    try:
        parts.state("weights", weight_format(f"gguf:{name}{'_' + size if size else ''}").id)
    except UnknownItem:
        parts.note("log_weights_method", method=name_in(printed[:60]) or "")


def _buffers(
    parts: LogParts, number: int, line: str, devices: set[str], computes: set[str]
) -> None:
    """Buffers of devices; what the host holds isn't on the card.

    Args:
        devices: that hold weights, added to; computes: that hold a compute buffer, ON_HOST for the host.
    """
    for marker, name in BUFFER.items():
        before, found, _ = line.partition(marker)
        if not found:
            continue
        # A device of another machine has its address behind it: "RPC0[10.0.0.2:50052]".
        device = before[-200:].rstrip().rpartition(" ")[2].partition("[")[0]
        size = size_after(line, marker)
        if size is None:
            continue
        if HOST.search(device):
            if name == "weights_bytes_per_gpu":
                parts.note("log_weights_on_host", bytes=size.bytes)
            elif "_Host" not in device:
                computes.add(ON_HOST)
            continue
        parts.add(name, size, number, line)
        if name == "activation_bytes_per_gpu":
            computes.add(device)
        if name == "weights_bytes_per_gpu":
            devices.add(device[:40].partition("-")[0])


def _cache(parts: LogParts, number: int, line: str, seen: set[str]) -> None:
    """The cache whole: full and windowed layers have one each, and a context made anew prints them again."""
    size = size_after(line, "KV self size  =")
    if size is None and ("llama_kv_cache" in line or "llama_memory_recurrent" in line):
        size = size_after(line, ": size =")
    said = line.partition("size ")[2]
    if size is None or said in seen:
        return
    seen.add(said)
    recurrent = "llama_memory_recurrent" in line
    parts.add("state_bytes" if recurrent else "cache_bytes", size, number, line)
    keys, values = (TYPE[part].search(line) for part in ("K", "V"))
    if keys and values and not recurrent:
        parts.state("kv", keys[1] if keys[1] == values[1] else f"{keys[1]}/{values[1]}")
