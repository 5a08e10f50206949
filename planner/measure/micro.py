"""How fast the device is at the two things a model does: moving bytes and multiplying matrices.

Each figure is the median of repeats, made in several rounds of all figures, so that they are of the same minute.
Bandwidth: (bytes read + written) / time, over operands well above the last-level cache. Matrix products: 2·n³ / time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from planner.catalog.accelerators import Accelerator
from planner.errors import MissingFigure
from planner.measure.clock import OutOfMemory, Timer, spread
from planner.measure.record import Figure

GIB = 2**30
DTYPES = ("bf16", "fp32", "fp16", "tf32", "int8", "fp8")
SIZES = {"cpu": (256, 512, 1024, 2048), "gpu": (1024, 2048, 4096, 8192)}
SLOWEST_S = 0.5  # a size that is expected to take longer is left out
CALLS = 200  # small kernels in a row, for launch overhead
TORCH_NAMES = {
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "int8": "int8",
    "fp8": "float8_e4m3fn",
}


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the micro-benchmarks run, and how long they may take.

    Attributes:
        item: the catalogue's accelerator, whose data sheet the figures are put beside; None where there is none.
        memory_free_bytes: what may be taken (bytes); cache_bytes: last-level cache (bytes).
        budget_s: for one figure in one round (s).
    """

    timer: Timer
    item: Accelerator | None
    memory_free_bytes: float
    cache_bytes: float | None
    budget_s: float

    @property
    def on_cpu(self) -> bool:
        return self.timer.kind == "cpu"

    @property
    def array_bytes(self) -> int:
        """Size of an operand: eight times the last-level cache, 256 MiB (a GPU: 1 GiB) or more, as memory allows."""
        wanted = max(8.0 * (self.cache_bytes or 0.0), 0.25 * GIB if self.on_cpu else 1.0 * GIB)
        return int(min(wanted, 2.0 * GIB, self.memory_free_bytes / 6.0)) // 4096 * 4096


@dataclass(frozen=True, slots=True)
class Sample:
    """Repeats of one figure in one round.

    Attributes:
        name, dtype, size, unit, stated: as in Figure; values: the repeats, in the unit.
    """

    name: str
    unit: Literal["B/s", "FLOP/s", "s"]
    values: tuple[float, ...]
    dtype: str = ""
    size: int | None = None
    stated: float | None = None


def gathered(samples: Iterable[Sample]) -> list[Figure]:
    """The figures that samples of several rounds give, in the order in which they first came."""
    same: dict[tuple[str, str, int | None], list[Sample]] = {}
    for one in samples:
        same.setdefault((one.name, one.dtype, one.size), []).append(one)
    return [
        Figure(
            name=group[0].name,
            dtype=group[0].dtype,
            size=group[0].size,
            unit=group[0].unit,
            value=spread(*(one.values for one in group)),
            stated=group[0].stated,
        )
        for group in same.values()
    ]


def reached(samples: Iterable[Sample]) -> dict[tuple[str, str], float]:
    """The best rate by name and dtype, of any size: what nine of ten repeats stayed below, in the sample's unit."""
    same: dict[tuple[str, str, int | None], list[float]] = {}
    for one in samples:
        same.setdefault((one.name, one.dtype, one.size), []).extend(one.values)
    found: dict[tuple[str, str], float] = {}
    for (name, dtype, _), values in same.items():
        best = float(np.quantile(np.asarray(values), 0.9))
        found[(name, dtype)] = max(found.get((name, dtype), 0.0), best)
    return found


def rates(work: float, seconds: list[float]) -> tuple[float, ...]:
    """Work per second from times (1/s)."""
    return tuple(work / one for one in seconds)


def _stated(item: Accelerator | None, name: str, dtype: str = "") -> float | None:
    if item is None:
        return None
    try:
        if name.endswith("_bandwidth"):
            return item.bandwidth_bytes_per_s
        if name == "matmul":
            return item.peaks.get(dtype)
        return item.pcie_bytes_per_s
    except MissingFigure:
        return None


def bandwidths(bench: Bench) -> Iterator[Sample]:
    """Read and copy bandwidth of the device's memory (B/s).

    Reading is a sum or a product with a vector, whichever is faster: decoding is the latter.
    """
    import torch

    size = bench.array_bytes
    columns = 4096
    rows = size // (4 * columns)
    matrix = torch.ones((rows, columns), dtype=torch.float32, device=bench.timer.device)
    vector = torch.ones(columns, dtype=torch.float32, device=bench.timer.device)
    read_bytes = float(rows * columns * 4)
    ways: tuple[Callable[[], Any], ...] = (matrix.sum, lambda: torch.mv(matrix, vector))
    best = min(
        (bench.timer.repeats(way, budget_s=bench.budget_s / 2.0, least=2) for way in ways),
        key=lambda found: sorted(found)[len(found) // 2],
    )
    yield _bandwidth("read_bandwidth", rows * columns * 4, rates(read_bytes, best), bench.item)
    target = torch.empty_like(matrix)
    times = bench.timer.repeats(lambda: target.copy_(matrix), budget_s=bench.budget_s, least=2)
    copied = rates(2.0 * read_bytes, times)
    yield _bandwidth("copy_bandwidth", rows * columns * 4, copied, bench.item)


def _bandwidth(name: str, size: int, values: tuple[float, ...], item: Accelerator | None) -> Sample:
    return Sample(name=name, size=size, unit="B/s", values=values, stated=_stated(item, name))


def _product(dtype: str, size: int, device: str) -> Callable[[], Any]:
    """A product of two square matrices of a type; raises RuntimeError or AttributeError where torch has none."""
    import torch

    kind = getattr(torch, TORCH_NAMES[dtype])
    if dtype == "int8":
        left = torch.randint(-8, 8, (size, size), dtype=kind, device=device)
        right = torch.randint(-8, 8, (size, size), dtype=kind, device=device)
        return lambda: torch._int_mm(left, right)
    if dtype == "fp8":
        left = torch.randn((size, size), device=device).to(kind)
        right = torch.randn((size, size), device=device).to(kind).t()
        scale = torch.ones((), device=device)
        return lambda: torch._scaled_mm(
            left, right, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16
        )
    left = torch.randn((size, size), device=device).to(kind)
    right = torch.randn((size, size), device=device).to(kind)
    return lambda: torch.mm(left, right)


def _dtypes(bench: Bench) -> tuple[str, ...]:
    """Types worth trying: TF32 only where it isn't fp32 under another name, low precision only on GPUs."""
    if bench.on_cpu:
        return ("fp32", "bf16", "fp16", "int8")
    if bench.timer.kind in ("cuda", "rocm"):
        return DTYPES
    return ("fp32", "bf16", "fp16")


def matmuls(bench: Bench) -> Iterator[Sample]:
    """Rate of square matrix products, by dtype and size (FLOP/s; operations/s for integers).

    What torch can't do on this device is left out. A type whose next size would take too long ends there.
    """
    import torch

    sizes = SIZES["cpu" if bench.on_cpu else "gpu"]
    for dtype in _dtypes(bench):
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
        last = 0.0
        try:
            for at, size in enumerate(sizes):
                if at and last * (size / sizes[at - 1]) ** 3 > SLOWEST_S:
                    break
                try:
                    work = _product(dtype, size, bench.timer.device)
                    times = bench.timer.repeats(work, budget_s=bench.budget_s / len(sizes), least=2)
                except (RuntimeError, AttributeError, OutOfMemory):
                    break
                last = min(times)
                yield Sample(
                    name="matmul",
                    dtype=dtype,
                    size=size,
                    unit="FLOP/s",
                    values=rates(2.0 * float(size) ** 3, times),
                    stated=_stated(bench.item, "matmul", dtype),
                )
        finally:
            torch.set_float32_matmul_precision(precision)


def launch(bench: Bench) -> Iterator[Sample]:
    """Time that the host takes to start one small operation (s): what eager execution pays for each kernel."""
    import torch

    small = torch.ones(16, device=bench.timer.device)

    def many() -> None:
        for _ in range(CALLS):
            small.add_(1.0)

    found: list[float] = []
    begin = time.perf_counter()
    many()
    bench.timer.synchronise()
    while len(found) < 5 or (time.perf_counter() - begin < bench.budget_s / 4 and len(found) < 50):
        start = time.perf_counter()
        many()  # the host's time, not the device's: it isn't waited for
        found.append((time.perf_counter() - start) / CALLS)
        bench.timer.synchronise()
    yield Sample(name="launch", unit="s", values=tuple(found))


def transfer(bench: Bench) -> Iterator[Sample]:
    """Rate from pinned host memory to a GPU (B/s); nothing on a processor."""
    import torch

    if bench.timer.kind not in ("cuda", "rocm"):
        return
    size = 256 * 2**20
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(size, dtype=torch.uint8, device=bench.timer.device)
    times = bench.timer.repeats(
        lambda: device.copy_(host, non_blocking=True), budget_s=bench.budget_s, least=2
    )
    yield Sample(
        name="host_to_device",
        size=size,
        unit="B/s",
        values=rates(float(size), times),
        stated=_stated(bench.item, "host_to_device"),
    )


BENCHMARKS: tuple[Callable[[Bench], Iterator[Sample]], ...] = (
    bandwidths,
    matmuls,
    launch,
    transfer,
)


def best_rates(figures: list[Figure]) -> dict[str, float]:
    """Best matrix-product rate by dtype (FLOP/s)."""
    found: dict[str, float] = {}
    for one in figures:
        if one.name == "matmul":
            found[one.dtype] = max(found.get(one.dtype, 0.0), one.value.median)
    return found


def best_bandwidth(figures: list[Figure]) -> float | None:
    """Best rate at which memory was read (B/s), or None where it wasn't measured."""
    found = [
        one.value.median for one in figures if one.name in ("read_bandwidth", "copy_bandwidth")
    ]
    return max(found) if found else None
