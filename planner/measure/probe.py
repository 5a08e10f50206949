"""What there is to measure here: NVIDIA's GPUs, those that torch reaches otherwise, and the processor.

The processor is always there to be measured, and is always called what it is.
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

from planner.catalog.accelerators import Accelerator, accelerator
from planner.catalog.devices import DeviceKind
from planner.errors import InvalidInput, PlannerError, UnknownItem
from planner.measure.nvml import Gpu, Nvidia, nvidia
from planner.measure.system import Processor, processor

SAME_MEMORY_FRACTION = (
    0.08  # totals of one card differ by driver, ECC and what the firmware holds back
)
GIB = 2.0**30
SETUP = "make measure-setup"
REPAIR = "make clean measure-setup"  # pip takes what is there for whole, and leaves it
# What a package of which parts are missing, or of another version, fails with.
DAMAGE = (
    ImportError, OSError, RuntimeError, SyntaxError, AttributeError, NameError, TypeError, ValueError, KeyError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """Something that can be measured.

    Attributes:
        device: what torch calls it ("cuda:0", "cpu"); kind: how torch reaches it.
        name: the driver's or the system's.
        memory_total_bytes, memory_free_bytes: of the device, as the driver or the system says it (bytes).
        accelerator: id in the catalogue where name and memory are an item's, else None.
        uuid: the driver's, of an NVIDIA GPU.
        is_cpu: figures from it are a processor's, not a GPU's.
    """

    device: str
    kind: DeviceKind
    name: str
    memory_total_bytes: float | None
    memory_free_bytes: float | None
    accelerator: str | None = None
    uuid: str | None = None

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found.

    Attributes:
        targets: what can be measured, the best first, the processor last.
        torch: its version, or None where it isn't installed: then nothing can be measured yet.
        asked_torch: GPUs other than NVIDIA's were looked for.
    """

    targets: tuple[Target, ...]
    nvidia: Nvidia
    processor: Processor
    torch: str | None
    transformers: str | None
    asked_torch: bool
    python: str
    system: str


def require_torch() -> None:
    """Raises PlannerError where torch or transformers isn't installed (`torch_missing`) or can't be loaded
    (`torch_damaged`)."""
    missing = [name for name in ("torch", "transformers") if not _installed(name)]
    if missing:
        raise PlannerError("torch_missing", packages=missing, command=SETUP)
    for name in ("torch", "transformers"):
        _load(name)


@contextmanager
def _damage_of(name: str) -> Iterator[None]:
    """Raises PlannerError `torch_damaged` where what is done with a package fails, as where a library is missing."""
    try:
        yield
    except DAMAGE as error:
        lines = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {lines[0][:200] if lines else '-'}"
        raise PlannerError("torch_damaged", package=name, reason=reason, command=REPAIR) from error


def _load(name: str) -> ModuleType:
    """A package, imported; raises PlannerError `torch_damaged`, also for a folder of its name that holds nothing."""
    with _damage_of(name):
        found = importlib.import_module(name)
        str(found.__version__)  # which a folder lacks
    return found


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _version(name: str) -> str | None:
    """A package's version as its installer noted it, else as it says itself; None where it isn't installed.

    Raises:
        PlannerError: `torch_damaged`, where neither is there.
    """
    if not _installed(name):
        return None
    noted: str | None = None
    with suppress(PackageNotFoundError, KeyError):
        noted = version(name)
    return noted or str(_load(name).__version__)


def catalogue_item(name: str, memory_total_bytes: float | None) -> Accelerator | None:
    """The catalogue's accelerator with this name and this memory, or None: another size is another card.

    Args:
        memory_total_bytes: as the driver lists it (bytes).
    """
    if memory_total_bytes is None or "MIG" in name.split():
        return None
    size = round(memory_total_bytes / GIB)
    for wanted in (name, f"{name} {size}GB"):
        try:
            found = accelerator(wanted)
        except UnknownItem:
            continue
        stated = found.figures.get("memory_driver_bytes")
        # A size on the box counts GiB, though it says GB, up to the 141 GB that are 141e9 bytes.
        sizes = (
            (stated.value,)
            if stated
            else (found.memory_sold_bytes, found.memory_sold_bytes / 1e9 * GIB)
        )
        if any(abs(memory_total_bytes / one - 1.0) <= SAME_MEMORY_FRACTION for one in sizes):
            return found
    return None


def _nvidia_targets(gpu: Gpu, first: int) -> list[Target]:
    """A GPU as torch sees it: whole, or its instances one by one, which nobody's data sheet describes."""
    if gpu.mig:
        return [
            Target(f"cuda:{first + at}", "cuda", f"{gpu.name} MIG {size / GIB:.0f}GiB", size, None)
            for at, size in enumerate(gpu.slices)
        ]
    item = catalogue_item(gpu.name, gpu.memory_total_bytes)
    return [
        Target(
            f"cuda:{first}",
            "cuda",
            gpu.name,
            gpu.memory_total_bytes,
            gpu.state.memory_free_bytes,
            item.id if item else None,
            gpu.uuid or None,
        )
    ]


def _torch_targets() -> list[Target]:
    """GPUs of other makers, as torch finds them."""
    torch = _load("torch")
    with _damage_of("torch"):
        return list(_found_by(torch))


def _found_by(torch: Any) -> Iterator[Target]:
    if getattr(torch.version, "hip", None) and torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(index)
            free = float(torch.cuda.mem_get_info(index)[0])
            yield _of_another_maker(f"cuda:{index}", "rocm", about, free)
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        for index in range(xpu.device_count()):
            about = xpu.get_device_properties(index)
            yield _of_another_maker(f"xpu:{index}", "xpu", about, None)
    if torch.backends.mps.is_available():
        limit = float(torch.mps.recommended_max_memory())
        yield Target("mps", "mps", f"{platform.processor() or 'Apple'} GPU", limit, None)


def _of_another_maker(
    device: str, kind: DeviceKind, about: Any, memory_free_bytes: float | None
) -> Target:
    total = float(about.total_memory)
    item = catalogue_item(about.name, total)
    return Target(device, kind, about.name, total, memory_free_bytes, item.id if item else None)


def probe(*, ask_torch: bool = True) -> Probe:
    """What there is to measure on this machine.

    Args:
        ask_torch: where there is no NVIDIA GPU, also import torch, if it is there, to look for others (seconds).

    Raises:
        PlannerError: `gpu_lost`, where a GPU has fallen off its bus; `torch_damaged`, where torch or transformers is
            there and doesn't work, as far as it is asked.
    """
    found, cpu = nvidia(), processor()
    targets: list[Target] = []
    for gpu in found.gpus:
        targets += _nvidia_targets(gpu, len(targets))
    asked = ask_torch and not targets and _installed("torch")
    if asked:
        targets += _torch_targets()
    targets.append(
        Target(
            "cpu",
            "cpu",
            f"{cpu.name}, {cpu.cores} {'core' if cpu.cores == 1 else 'cores'}",
            cpu.memory_total_bytes,
            cpu.memory_free_bytes,
        )
    )
    return Probe(
        tuple(targets),
        found,
        cpu,
        _version("torch"),
        _version("transformers"),
        asked,
        platform.python_version(),
        f"{platform.system()} {platform.release()}",
    )


def chosen_target(found: Probe, device: str | None) -> Target:
    """The device that was asked for, else the first.

    Raises:
        InvalidInput: where it isn't there, naming those that are.
    """
    if device is None:
        return found.targets[0]
    wanted = f"{device}:0" if device in ("cuda", "xpu") else device
    for target in found.targets:
        if target.device == wanted:
            return target
    there = tuple(target.device for target in found.targets)
    raise InvalidInput("device_not_here", field="device", given=device, there=there)


def as_torch_has_it(found: Probe, target: Target) -> Target:
    """The NVIDIA GPU that torch means by the target's name, which counts only those that it may see.

    Raises:
        PlannerError: `torch_without_gpu`, where this torch can't use NVIDIA GPUs, or not so many.
    """
    if target.kind != "cuda":
        return target
    import torch

    number = int(target.device.partition(":")[2] or 0)
    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        raise PlannerError("torch_without_gpu", device=target.device, version=torch.__version__)
    about = torch.cuda.get_device_properties(number)
    uuid = f"GPU-{about.uuid}" if hasattr(about, "uuid") else target.uuid
    gpu = next((one for one in found.nvidia.gpus if one.uuid == uuid), None)
    if gpu is None or gpu.mig:
        return Target(target.device, "cuda", about.name, float(about.total_memory), None)
    return _nvidia_targets(gpu, number)[0]


def probe_json(found: Probe) -> dict[str, Any]:
    """The probe as plain data: SI units, the unit at the end of each name."""
    return {
        "targets": [asdict(target) for target in found.targets],
        "nvidia": asdict(found.nvidia),
        "processor": asdict(found.processor),
        "software": {
            "torch": found.torch,
            "transformers": found.transformers,
            "python": found.python,
            "system": found.system,
        },
        "asked_torch": found.asked_torch,
    }
