"""The device as it is here: what torch and the system say of it, and what its own measurement makes of it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import cast, get_args

from planner.catalog.devices import DeviceEntry, PeakDtype
from planner.errors import PlannerError
from planner.measure.clock import Timer
from planner.measure.probe import Probe, Target
from planner.measure.system import keep_freed_memory, processor


def prepare(found: Probe, target: Target) -> list[str]:
    """The GPU that events are recorded on, and no more threads than a container allows: more wait for each other.

    On a processor, memory that a pass gives back stays with the process, as it does on a GPU. Whether the C library
    returns it to the system depends on what lies above it: prompts of 1,024 tokens took a quarter longer in some
    processes than in others, for the 200,000 pages that each pass asked for again.

    Returns:
        Codes of what to know about a measurement there.
    """
    import torch

    if target.kind in ("cuda", "rocm"):
        torch.cuda.set_device(target.device)
    quota = found.processor.quota_cores
    if quota is not None and quota < torch.get_num_threads():
        torch.set_num_threads(max(int(quota), 1))
    if not target.is_cpu:
        return []
    return ["cpu", "memory_kept"] if keep_freed_memory() else ["cpu"]


def software(found: Probe) -> dict[str, str]:
    """Versions of what took part, by name, those that are known; threads that torch uses on the processor."""
    import torch

    versions = {
        "python": found.python,
        "system": found.system,
        "torch": torch.__version__,
        "transformers": found.transformers or "",
        "driver": found.nvidia.driver or "",
        "cuda": str(torch.version.cuda or ""),
        "hip": str(getattr(torch.version, "hip", None) or ""),
        "threads": str(torch.get_num_threads()),
        "machine": platform.machine(),
    }
    return {name: text[:200] for name, text in versions.items() if text}


def free_bytes(target: Target, timer: Timer) -> float:
    """What may be taken of the device's memory now (bytes)."""
    import torch

    if timer.kind in ("cuda", "rocm"):
        return float(torch.cuda.mem_get_info(timer.device)[0])
    if target.is_cpu:
        now = processor()
        return now.memory_free_bytes or now.memory_total_bytes
    return target.memory_free_bytes or target.memory_total_bytes or 4e9


def usable_bytes(target: Target) -> float:
    """What programs can take of the device's memory, all of them together (bytes)."""
    import torch

    if target.kind in ("cuda", "rocm"):
        return float(torch.cuda.get_device_properties(target.device).total_memory)
    return target.memory_total_bytes or free_bytes(target, Timer(target.device, target.kind))


def _capability(target: Target) -> str | None:
    """CUDA's compute capability, or None for anything that isn't NVIDIA's."""
    import torch

    if target.kind != "cuda":
        return None
    return "{}.{}".format(*torch.cuda.get_device_capability(target.device))


def cache_bytes(target: Target, found: Probe) -> float | None:
    """Last-level cache of the device (bytes), or None where it isn't known."""
    import torch

    if target.is_cpu:
        return found.processor.cache_bytes
    if target.kind in ("cuda", "rocm"):
        size = getattr(torch.cuda.get_device_properties(target.device), "L2_cache_size", None)
        return float(size) if size else None
    return None


def chosen_dtype(rates: Mapping[str, float], target: Target) -> str:
    """The type to compute in: bf16 where it is as fast as any, fp16 on a GPU without it, else fp32."""
    brain, half, single = (rates.get(one, 0.0) for one in ("bf16", "fp16", "fp32"))
    if target.is_cpu:
        return "bf16" if brain > single else "fp32"
    if brain >= half / 2.0 and brain > single:
        return "bf16"
    return "fp16" if half > single else "fp32"


def described(
    target: Target, found: Probe, reached: Mapping[tuple[str, str], float]
) -> DeviceEntry:
    """The device by what was measured.

    Args:
        reached: the best of each rate, by name and dtype.

    Raises:
        PlannerError: `device_not_described`, where neither its bandwidth nor a product could be measured.
    """
    bandwidth = [
        reached[key] for key in (("read_bandwidth", ""), ("copy_bandwidth", "")) if key in reached
    ]
    peaks: dict[PeakDtype, float] = {
        cast(PeakDtype, dtype): rate
        for (name, dtype), rate in reached.items()
        if name == "matmul" and dtype in get_args(PeakDtype)
    }
    if not bandwidth or not peaks:
        raise PlannerError("device_not_described", device=target.device)
    vendors = {"cuda": "NVIDIA", "rocm": "AMD", "xpu": "Intel", "mps": "Apple", "cpu": "CPU"}
    return DeviceEntry(
        name=target.name[:120],
        kind=target.kind,
        vendor=vendors[target.kind],
        compute_capability=_capability(target),
        memory_usable_bytes=usable_bytes(target),
        bandwidth_bytes_per_s=max(bandwidth),
        cache_bytes=cache_bytes(target, found),
        peaks=peaks,
        measured_on=f"{datetime.now(UTC):%Y-%m-%d}",
    )
