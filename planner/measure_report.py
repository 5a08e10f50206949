"""What `measure` found, as text: the probe."""

from __future__ import annotations

from planner.measure.nvml import Gpu, Nvidia
from planner.measure.probe import Probe, Target
from planner.ui.locale import text


def probe_text(found: Probe, language: str) -> str:
    """What there is to measure here: the devices, then what is missing."""
    lines = [text("measure.cli.devices", language)]
    lines += [f"  {_target(one, language)}" for one in found.targets]
    for gpu in found.nvidia.gpus:
        lines += ["", *_gpu(gpu, language)]
    if found.nvidia.gpus:
        lines.append(_driver(found.nvidia, language))
    else:
        lines += ["", text(f"measure.cli.no_nvidia.{found.nvidia.missing}", language)]
    cpu = found.processor
    lines += [
        "",
        text(
            "measure.cli.processor", language, name=cpu.name, cores=cpu.cores, threads=cpu.threads
        ),
    ]
    if cpu.quota_cores is not None:
        lines.append("  " + text("measure.cli.quota", language, cores=cpu.quota_cores))
    lines.append(
        "  "
        + text(
            "measure.cli.memory",
            language,
            total=cpu.memory_total_bytes,
            free=cpu.memory_free_bytes or 0.0,
        )
    )
    if cpu.cache_bytes is not None:
        lines.append("  " + text("measure.cli.cache", language, size=cpu.cache_bytes))
    key = "measure.cli.software" if found.torch and found.transformers else "measure.cli.no_torch"
    lines += [
        "",
        text(key, language, torch=found.torch or "–", transformers=found.transformers or "–"),
    ]
    return "\n".join(lines)


def _target(one: Target, language: str) -> str:
    shown = f"{one.device:<8} {one.name}"
    if one.is_cpu:
        return f"{shown} ({text('measure.cli.is_cpu', language)})"
    if one.accelerator is None:
        return f"{shown} ({text('measure.cli.not_in_catalogue', language)})"
    return f"{shown} ({one.accelerator})"


def _gpu(gpu: Gpu, language: str) -> list[str]:
    state = gpu.state

    def say(key: str, **values: float | int | str | None) -> str | None:
        if any(value is None for value in values.values()):
            return None
        return "  " + text(f"measure.cli.gpu.{key}", language, **values)

    lines = [
        f"GPU {gpu.index}: {gpu.name}",
        say("memory", total=gpu.memory_total_bytes, used=state.memory_used_bytes),
        say(
            "clocks",
            sm=state.sm_clock_mhz,
            sm_max=gpu.sm_clock_max_mhz,
            memory=state.memory_clock_mhz,
        ),
        say("power", now=state.power_w, limit=gpu.power_limit_w),
        say("temperature", degrees=state.temperature_c),
        say("pcie", generation=gpu.pcie_generation, lanes=gpu.pcie_lanes),
        say("nvlink", links=gpu.nvlinks),
    ]
    if gpu.ecc is not None:
        lines.append(say("ecc_on" if gpu.ecc else "ecc_off"))
    if gpu.mig:
        lines.append(say("mig", parts=len(gpu.slices)))
    lines += [f"  {text(f'measure.throttle.{one}', language)}" for one in state.throttle_reasons]
    for one in state.processes:
        used = one.memory_used_bytes
        lines.append(
            say(
                "process",
                pid=str(one.pid),
                name=one.name or "?",
                used=used if used is not None else 0.0,
            )
        )
    return [line for line in lines if line is not None]


def _driver(found: Nvidia, language: str) -> str:
    return text("measure.cli.driver", language, driver=found.driver or "–", cuda=found.cuda or "–")
