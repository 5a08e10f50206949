"""A stand-in for the driver's library: GPUs that say what a test wants them to, or nothing."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

NOT_SUPPORTED, LOST = 3, 15
MIB = 2**20


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"code {value}")
        self.value = value


def gpu(
    name: str,
    total_mib: int,
    capability: tuple[int, int],
    *,
    mig: tuple[int, ...] | None = None,
    **answers: Any,
) -> dict[str, Any]:
    """What one GPU answers, by function; what it doesn't answer isn't supported.

    Args:
        mig: sizes of its instances (MiB), where it is divided; None where it can't be.
    """
    total = total_mib * MIB
    said: dict[str, Any] = {
        "nvmlDeviceGetName": name,
        "nvmlDeviceGetUUID": f"GPU-{name}",
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(
            total=total, used=600 * MIB, free=total - 600 * MIB
        ),
        "nvmlDeviceGetCudaComputeCapability": capability,
    }
    if mig is not None:
        said["nvmlDeviceGetMigMode"] = (1, 1)
        said["nvmlDeviceGetMaxMigDeviceCount"] = 7
        said["parts"] = mig
    return said | answers


def library(gpus: list[dict[str, Any]], *, init_error: int | None = None) -> ModuleType:
    """The module `pynvml` with these GPUs; `init_error` is raised where the driver is first asked."""
    module: Any = ModuleType("pynvml")
    module.NVMLError = NVMLError
    module.NVML_ERROR_LIBRARY_NOT_FOUND = 12
    module.NVML_ERROR_DRIVER_NOT_LOADED = 9
    module.NVML_ERROR_NO_PERMISSION = 4
    module.NVML_ERROR_GPU_IS_LOST = LOST
    module.NVML_ERROR_RESET_REQUIRED = 16
    module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM, module.NVML_TEMPERATURE_GPU = 1, 2, 0
    module.nvmlClocksThrottleReasonSwPowerCap = 4
    module.nvmlClocksThrottleReasonHwThermalSlowdown = 64

    def init() -> None:
        if init_error is not None:
            raise NVMLError(init_error)

    def by_uuid(uuid: str) -> dict[str, Any]:
        found = next((one for one in gpus if one["nvmlDeviceGetUUID"] == uuid), None)
        if found is None:
            raise NVMLError(6)
        return found

    def part(handle: dict[str, Any], index: int) -> dict[str, Any]:
        if index >= len(handle["parts"]):
            raise NVMLError(6)
        return gpu("part", handle["parts"][index], (9, 0))

    module.nvmlInit = init
    module.nvmlShutdown = lambda: None
    module.nvmlSystemGetDriverVersion = lambda: "575.57.08"
    module.nvmlSystemGetCudaDriverVersion_v2 = lambda: 12090
    module.nvmlDeviceGetCount = lambda: len(gpus)
    module.nvmlDeviceGetHandleByIndex = lambda index: gpus[index]
    module.nvmlDeviceGetHandleByUUID = by_uuid
    module.nvmlDeviceGetMigDeviceHandleByIndex = part

    def answering(name: str) -> Any:
        def answer(handle: dict[str, Any], *arguments: Any) -> Any:
            if name not in handle:
                raise NVMLError(NOT_SUPPORTED)
            found = handle[name]
            found = found(*arguments) if callable(found) else found
            if isinstance(found, NVMLError):
                raise found
            return found

        return answer

    for name in (
        "Name", "UUID", "MemoryInfo", "CudaComputeCapability", "MigMode", "MaxMigDeviceCount", "ClockInfo",
        "MaxClockInfo", "PowerUsage", "EnforcedPowerLimit", "Temperature", "UtilizationRates", "EccMode",
        "CurrentClocksEventReasons", "CurrPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkGeneration",
        "MaxPcieLinkWidth", "NvLinkState", "ComputeRunningProcesses", "GraphicsRunningProcesses",
    ):  # fmt: skip
        setattr(module, f"nvmlDeviceGet{name}", answering(f"nvmlDeviceGet{name}"))
    return module


def h200(**changes: Any) -> dict[str, Any]:
    """An H200 in full: busy, held down by its power limit, with a program of somebody's on it."""
    return gpu(
        "NVIDIA H200",
        143_771,
        (9, 0),
        **{
            "nvmlDeviceGetClockInfo": lambda which: {1: 1830, 2: 3201}[which],
            "nvmlDeviceGetMaxClockInfo": lambda which: {1: 1980, 2: 3201}[which],
            "nvmlDeviceGetPowerUsage": 691_000,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87, memory=40),
            "nvmlDeviceGetEccMode": (1, 1),
            "nvmlDeviceGetCurrentClocksEventReasons": 4,
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetNvLinkState": lambda _: 1,
            "nvmlDeviceGetMigMode": (0, 0),
            "nvmlDeviceGetComputeRunningProcesses": [
                SimpleNamespace(pid=999_999_999, usedGpuMemory=500 * MIB)
            ],
            **changes,
        },
    )
