"""Start-up logs of SGLang, 0.4 to 0.5.

"GB" means 2^30 bytes there. The server's arguments are printed once; its version isn't.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from planner.catalog.models import model_profile
from planner.measure.readers.log_reading import LogParts, LogReading, dtype_of
from planner.measure.readers.untrusted import (
    Size,
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

KNOWN = ("0.4", "0.5")
MARKERS = (
    "server_args=ServerArgs(",
    "Load weight end.",
    "KV Cache is allocated.",
    "Memory pool end. avail mem",
    "max_total_num_tokens=",
    "SWAKVPool mem usage:",
    "Mamba Cache is allocated.",
)
DEGREES = {"tp_size": "tp", "pp_size": "pp", "ep_size": "ep"}
CACHES = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bf16": "bf16", "auto": "auto"}
# Methods that leave no doubt about the format.
ON_LOADING = {"fp8": "fp8", "awq": "awq-int4", "awq_marlin": "awq-int4"}
# What divides a hybrid's memory between recurrent state and cache, with the values that the planner counts with.
STATE_SETTINGS = {
    "max_mamba_cache_size": ("None",),
    "mamba_full_memory_ratio": ("0.9",),
    "mamba_ssm_dtype": ("None", "float32"),
    "disable_radix_cache": ("False",),
}
MAMBA_PARTS = (
    "conv_state size: ",
    "ssm_state size: ",
    "intermediate_ssm_state_cache size: ",
    "intermediate_conv_window_cache size: ",
)


def read_sglang_log(text: str) -> LogReading:
    """The reading of a log of SGLang's."""
    parts = LogParts("sglang")
    types: set[str] = set()
    pools = Pools()
    for number, line in lines_of(text):
        _, found, arguments = line.partition("server_args=ServerArgs(")
        if found:
            _arguments(parts, arguments)
        version = line.partition("sglang version ")[2]
        if version.endswith("\n") and parts.version is None:
            parts.version = name_in(version.split()[0][:60]) if version.split() else None
        _memory(parts, number, line, types)
        pools.add(number, line)
    pools.tell(parts)
    return parts.reading(KNOWN)


@dataclass(slots=True)
class Pools:
    """The cache pools of a log: each rank's first, the later ones being a draft model's.

    With windowed layers a rank allocates two, and prints their sum under another name.
    """

    first: dict[str, tuple[Size, int, str]] = field(default_factory=dict)
    sums: dict[str, tuple[Size, int, str]] = field(default_factory=dict)

    def add(self, number: int, line: str) -> None:
        """The pool that a line prints, if it does."""
        rank = " ".join(line.partition("]")[0].split()[2:])
        total = size_after(line, "SWAKVPool mem usage: ")
        if total is not None:
            self.sums.setdefault(rank, (total, number, line))
        _, found, rest = line.partition("KV Cache is allocated.")
        if not found:
            return
        keys, values = size_after(rest, " K size: "), size_after(rest, " V size: ")
        both = None if keys is None or values is None else keys + values
        pool = both if both is not None else size_after(rest, "KV size: ")
        if pool is not None:
            self.first.setdefault(rank, (pool, number, line))

    def tell(self, parts: LogParts) -> None:
        """The pools as figures."""
        for size, number, line in (self.sums or self.first).values():
            parts.add("kv_pool_bytes_per_gpu", size, number, line)


def _arguments(parts: LogParts, arguments: str) -> None:
    parts.model = parts.model or setting_in(arguments, "model_path") or ""
    for key, name in DEGREES.items():
        parts.state(name, whole_setting(arguments, key))
    copies = whole_setting(arguments, "dp_size")
    if copies and setting_in(arguments, "enable_dp_attention") == "True":
        # Attention is data-parallel inside the tensor-parallel ranks: the planner's tp is what remains of them.
        ranks = parts.scenario.get("tp", copies)
        if ranks % copies == 0:
            parts.scenario |= {"tp": ranks // copies, "dp": copies}
    share = number_in(setting_in(arguments, "mem_fraction_static") or "")
    if share is not None and 0.0 < share <= 1.0:
        parts.state("gpu_memory_utilization", share)
    parts.state("max_model_len", whole_setting(arguments, "context_length"))
    parts.state("max_num_seqs", whole_setting(arguments, "max_running_requests"))
    parts.state("max_num_batched_tokens", whole_setting(arguments, "chunked_prefill_size"))
    parts.state("block_size", whole_setting(arguments, "page_size"))
    parts.state("dtype", dtype_of(setting_in(arguments, "dtype")))
    parts.on_cpu = setting_in(arguments, "device") == "cpu"
    for key, usual in STATE_SETTINGS.items():
        given = setting_in(arguments, key)
        if given is not None and given not in usual:
            parts.note("log_state_settings", setting=key, given=given)
    cache = setting_in(arguments, "kv_cache_dtype")
    parts.state("kv", CACHES.get(cache or "", cache))
    method = setting_in(arguments, "quantization")
    model = known_model(parts.model)
    own = model is not None and "quantization_config" in model_profile(model).config
    if method == "None" or (method and own):
        parts.state("weights", "native")
    elif method in ON_LOADING:
        parts.state("weights", ON_LOADING[method])
    elif method:
        parts.note("log_weights_method", method=method)
    if (setting_in(arguments, "speculative_algorithm") or "None") != "None":
        parts.note("log_speculative")


def _memory(parts: LogParts, number: int, line: str, types: set[str]) -> None:
    _, found, rest = line.partition("Load weight end.")
    if found:
        kind = rest.partition("type=")[2].partition(",")[0]
        types.add(kind[:100])
        parts.state("dtype", dtype_of(setting_in(rest, "dtype")))
        if len(types) > 1:  # a draft model, loaded after the first: what it takes isn't the model's
            parts.note("log_several_models")
        else:
            parts.add("weights_bytes_per_gpu", size_after(rest, "mem usage="), number, line)
    _, found, rest = line.partition("Mamba Cache is allocated.")
    if found:
        sizes = [size for mark in MAMBA_PARTS if (size := size_after(rest, mark)) is not None]
        state = reduce(Size.__add__, sizes) if len(sizes) > 1 else None
        parts.add("state_bytes", state, number, line)
    tokens = number_after(line, "max_total_num_tokens=", ",")
    parts.add_count("engine_printed_kv_tokens", tokens, 1.0, number, line)
    if tokens is not None:
        parts.state("max_num_seqs", whole(number_after(line, "max_running_requests=", ",")))
        parts.state("max_model_len", whole(number_after(line, "context_len=", ",")))
        prefill = number_after(line, "chunked_prefill_size=", ",")
        parts.state("max_num_batched_tokens", whole(prefill))
    if "cuda graph end." in line.lower():
        parts.add("graphs_bytes_per_gpu", size_after(line, "mem usage="), number, line)
