"""What NVIDIA's management library says of its GPUs: memory, clocks, power, links, and who else is on them.

A GPU or a driver that can't say something leaves it None. One that falls off its bus is refused as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from planner.errors import PlannerError
from planner.measure.system import process_name

SLOWED = {
    "SwPowerCap": "power_cap",
    "HwSlowdown": "hardware_slowdown",
    "HwThermalSlowdown": "hardware_thermal",
    "SwThermalSlowdown": "software_thermal",
    "HwPowerBrakeSlowdown": "power_brake",
    "ApplicationsClocksSetting": "set_clocks",
    "SyncBoost": "sync_boost",
}
MOST_LINKS = 18


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """Somebody's program on a GPU; its memory is None where the driver doesn't tell (bytes)."""

    pid: int
    name: str | None
    memory_used_bytes: float | None


@dataclass(frozen=True, slots=True)
class GpuState:
    """What a GPU is doing now; None where it doesn't say.

    Attributes:
        throttle_reasons: why its clocks are below what they could be, as codes of SLOWED.
        memory_free_bytes: (bytes); power_w: (W); clocks in MHz; temperature_c: (°C).
    """

    memory_used_bytes: float | None = None
    memory_free_bytes: float | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    utilisation_fraction: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as its driver lists it; None where it doesn't say.

    Attributes:
        index: of the driver, which isn't always torch's; uuid: tells it apart for good.
        memory_total_bytes: as the driver lists it, more than a program can take (bytes).
        slices: a GPU divided into instances (MIG): each one's memory (bytes); empty where it isn't.
        nvlinks: links to other GPUs that are up.
    """

    index: int
    name: str
    uuid: str
    memory_total_bytes: float | None
    compute_capability: str | None
    sm_clock_max_mhz: float | None
    memory_clock_max_mhz: float | None
    power_limit_w: float | None
    pcie_generation: int | None
    pcie_lanes: int | None
    pcie_generation_max: int | None
    pcie_lanes_max: int | None
    nvlinks: int | None
    ecc: bool | None
    mig: bool | None
    slices: tuple[float, ...]
    state: GpuState


@dataclass(frozen=True, slots=True)
class Nvidia:
    """What the driver says; `gpus` is empty where there is none, and `missing` says why.

    Attributes:
        missing: code: "no_module", "no_library", "no_driver", "no_permission", "no_gpu" or "failed"; None with a GPU.
    """

    missing: str | None = None
    driver: str | None = None
    cuda: str | None = None
    gpus: tuple[Gpu, ...] = field(default=())


def _words(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class _Driver:
    """NVML, opened: every question may go unanswered."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml

    def ask(self, name: str, *arguments: Any) -> Any:
        """The answer of one of NVML's functions, or None where there is none.

        Raises:
            PlannerError: `gpu_lost`, where the GPU no longer answers at all.
        """
        call: Callable[..., Any] | None = getattr(self.nvml, name, None)
        if call is None:
            return None
        try:
            return call(*arguments)
        except self.nvml.NVMLError as error:
            gone = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED")
            if getattr(error, "value", None) in {getattr(self.nvml, one, object()) for one in gone}:
                raise PlannerError("gpu_lost", reason=str(error)) from error
            return None

    def number(self, name: str, *arguments: Any, scale: float = 1.0) -> float | None:
        found = self.ask(name, *arguments)
        return float(found) * scale if isinstance(found, (int, float)) else None

    def whole(self, name: str, *arguments: Any) -> int | None:
        found = self.number(name, *arguments)
        return None if found is None else int(found)

    def constant(self, name: str) -> Any:
        return getattr(self.nvml, name, None)

    def processes(self, handle: Any) -> tuple[GpuProcess, ...]:
        found: dict[int, GpuProcess] = {}
        for kind in ("Compute", "Graphics"):
            for one in self.ask(f"nvmlDeviceGet{kind}RunningProcesses", handle) or ():
                used = one.usedGpuMemory
                found[one.pid] = GpuProcess(
                    one.pid, process_name(one.pid), None if used is None else float(used)
                )
        return tuple(found.values())

    def throttle_reasons(self, handle: Any) -> tuple[str, ...]:
        bits = self.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if bits is None:
            bits = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        found = []
        for name, code in SLOWED.items():
            bit = self.constant(f"nvmlClocksThrottleReason{name}")
            if isinstance(bits, int) and isinstance(bit, int) and bits & bit:
                found.append(code)
        return tuple(found)

    def state(self, handle: Any) -> GpuState:
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle)
        use = self.ask("nvmlDeviceGetUtilizationRates", handle)
        return GpuState(
            memory_used_bytes=None if memory is None else float(memory.used),
            memory_free_bytes=None if memory is None else float(memory.free),
            sm_clock_mhz=self.number(
                "nvmlDeviceGetClockInfo", handle, self.constant("NVML_CLOCK_SM")
            ),
            memory_clock_mhz=self.number(
                "nvmlDeviceGetClockInfo", handle, self.constant("NVML_CLOCK_MEM")
            ),
            power_w=self.number("nvmlDeviceGetPowerUsage", handle, scale=1e-3),
            temperature_c=self.number(
                "nvmlDeviceGetTemperature", handle, self.constant("NVML_TEMPERATURE_GPU")
            ),
            utilisation_fraction=None if use is None else float(use.gpu) / 100.0,
            throttle_reasons=self.throttle_reasons(handle),
            processes=self.processes(handle),
        )

    def slices(self, handle: Any) -> tuple[float, ...]:
        found = []
        for index in range(self.whole("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            part = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            memory = None if part is None else self.ask("nvmlDeviceGetMemoryInfo", part)
            if memory is not None:
                found.append(float(memory.total))
        return tuple(found)

    def gpu(self, index: int, handle: Any) -> Gpu:
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle)
        capability = self.ask("nvmlDeviceGetCudaComputeCapability", handle)
        links = [self.ask("nvmlDeviceGetNvLinkState", handle, one) for one in range(MOST_LINKS)]
        modes = self.ask("nvmlDeviceGetEccMode", handle)
        mig = self.ask("nvmlDeviceGetMigMode", handle)
        top = "nvmlDeviceGetMaxClockInfo"
        return Gpu(
            index=index,
            name=_words(self.ask("nvmlDeviceGetName", handle) or "NVIDIA GPU"),
            uuid=_words(self.ask("nvmlDeviceGetUUID", handle) or ""),
            memory_total_bytes=None if memory is None else float(memory.total),
            compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
            sm_clock_max_mhz=self.number(top, handle, self.constant("NVML_CLOCK_SM")),
            memory_clock_max_mhz=self.number(top, handle, self.constant("NVML_CLOCK_MEM")),
            power_limit_w=self.number("nvmlDeviceGetEnforcedPowerLimit", handle, scale=1e-3),
            pcie_generation=self.whole("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            pcie_lanes=self.whole("nvmlDeviceGetCurrPcieLinkWidth", handle),
            pcie_generation_max=self.whole("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            pcie_lanes_max=self.whole("nvmlDeviceGetMaxPcieLinkWidth", handle),
            nvlinks=sum(one == 1 for one in links) if any(x is not None for x in links) else None,
            ecc=None if modes is None else bool(modes[0]),
            mig=None if mig is None else bool(mig[0]),
            slices=self.slices(handle) if mig is not None and mig[0] else (),
            state=self.state(handle),
        )


@contextmanager
def _opened() -> Iterator[_Driver | str]:
    """The library, or the code of why there is none."""
    try:
        import pynvml
    except ImportError:
        yield "no_module"
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        codes = {
            pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no_library",
            pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "no_driver",
            pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
        }
        yield codes.get(getattr(error, "value", None), "failed")
        return
    driver = _Driver(pynvml)
    try:
        yield driver
    finally:
        driver.ask("nvmlShutdown")


def nvidia() -> Nvidia:
    """The driver and its GPUs; never an error where there is none.

    Raises:
        PlannerError: `gpu_lost`, where one has fallen off its bus.
    """
    with _opened() as driver:
        if isinstance(driver, str):
            return Nvidia(missing=driver)
        number = driver.ask("nvmlSystemGetCudaDriverVersion_v2")
        version = driver.ask("nvmlSystemGetDriverVersion")
        gpus = []
        for index in range(driver.whole("nvmlDeviceGetCount") or 0):
            handle = driver.ask("nvmlDeviceGetHandleByIndex", index)
            if handle is not None:
                gpus.append(driver.gpu(index, handle))
        return Nvidia(
            missing=None if gpus else "no_gpu",
            driver=_words(version) if version else None,
            cuda=f"{number // 1000}.{number % 1000 // 10}" if isinstance(number, int) else None,
            gpus=tuple(gpus),
        )


def gpu_state(uuid: str) -> GpuState | None:
    """What the GPU with that uuid is doing now, or None where the driver doesn't say.

    Raises:
        PlannerError: `gpu_lost`, where it has fallen off its bus.
    """
    with _opened() as driver:
        if isinstance(driver, str):
            return None
        handle = driver.ask("nvmlDeviceGetHandleByUUID", uuid)
        return None if handle is None else driver.state(handle)
