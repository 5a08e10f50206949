"""What the operating system says of the processors and the memory, and of what else is running.

Linux says all of it, in /proc and /sys, and limits of a container count; elsewhere what isn't said is None.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SYS = Path("/sys")
MOST_BYTES = 4_000_000  # of a file of the system's
# Options of glibc's mallopt, and what they are set to: blocks that a process keeps when they are freed, together too.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 2**29, 2**25  # the first that is taken: an older glibc takes no more than 32 MiB
KEPT_TOP_BYTES = 2**31 - 1
OTHER_ALLOCATORS = re.compile("jemalloc|tcmalloc|mimalloc")


@dataclass(frozen=True, slots=True)
class Processor:
    """The processors and the memory that this program may use.

    Attributes:
        name: model, as the system has it.
        cores, threads: physical cores and hardware threads that the program may run on.
        quota_cores: share of processor time that a container allows, in cores; None without a limit.
        memory_total_bytes: installed, or what the container allows; memory_free_bytes: of it, what could be taken now.
        cache_bytes: last-level cache of those cores, all of its parts together; None where the system doesn't say.
    """

    name: str
    cores: int
    threads: int
    quota_cores: float | None
    memory_total_bytes: float
    memory_free_bytes: float | None
    cache_bytes: float | None


@dataclass(frozen=True, slots=True)
class Ticks:
    """Processor time since the start, in seconds: of everything on the threads that count, and of this program."""

    busy_s: float
    own_s: float
    wall_s: float


def _text(path: Path) -> str | None:
    try:
        with path.open("r", encoding="utf-8", errors="replace") as stream:
            return stream.read(MOST_BYTES)
    except OSError:
        return None


def _number(path: Path) -> float | None:
    found = (_text(path) or "").strip()
    return float(found) if found.isdigit() else None


def allowed_threads() -> tuple[int, ...]:
    """Numbers of the hardware threads that the program may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _described() -> list[dict[str, str]]:
    """/proc/cpuinfo: a mapping for each hardware thread."""
    found = []
    for block in (_text(PROC / "cpuinfo") or "").split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
        entry = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in entry:
            found.append(entry)
    return found


def _name(described: list[dict[str, str]]) -> str:
    for key in ("model name", "Model", "cpu model", "Hardware"):
        for entry in described:
            if entry.get(key):
                return re.sub(r"\s+", " ", entry[key])
    return platform.processor() or platform.machine() or "CPU"


def _cores(described: list[dict[str, str]], threads: tuple[int, ...]) -> int:
    """Physical cores among the threads; as many as threads where the system doesn't tell them apart."""
    mine = {str(one) for one in threads}
    pairs = {
        (entry.get("physical id", "0"), entry["core id"])
        for entry in described
        if entry["processor"] in mine and "core id" in entry
    }
    return len(pairs) or len(threads)


def _cache_bytes(threads: tuple[int, ...]) -> float | None:
    """Last-level cache: the parts that the threads share, each counted once."""
    parts: dict[int, dict[str, float]] = {}
    for thread in threads:
        folder = SYS / "devices/system/cpu" / f"cpu{thread}" / "cache"
        for index in range(8):
            entry = folder / f"index{index}"
            level, size = _number(entry / "level"), (_text(entry / "size") or "").strip()
            if level is None or not re.fullmatch(r"\d+[KMG]?", size):
                continue
            scale = {"K": 2**10, "M": 2**20, "G": 2**30}.get(size[-1], 1)
            shared = (_text(entry / "shared_cpu_list") or str(thread)).strip()
            parts.setdefault(int(level), {})[shared] = float(size.rstrip("KMG")) * scale
    return sum(parts[max(parts)].values()) if parts else None


def _group_folders(controller: str) -> tuple[Path, ...]:
    """Folders of the control group that the program is in and of those above, for version 2 and version 1."""
    found: list[Path] = []
    for line in (_text(PROC / "self/cgroup") or "").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            root = SYS / "fs/cgroup"
        elif controller in controllers.split(","):
            root = SYS / "fs/cgroup" / controller
        else:
            continue
        here = root / path.strip("/")
        # In a container the path is often the host's, and the group is mounted at the root.
        found += [one for one in (here, *here.parents) if one == root or root in one.parents]
    return tuple(dict.fromkeys(found))


def _memory_limit() -> tuple[float | None, float]:
    """Smallest limit of memory on the program's control groups, and what is taken of it (bytes)."""
    limit, used = None, 0.0
    for folder in _group_folders("memory"):
        for top, now in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            found = _number(folder / top)
            if found is not None and (limit is None or found < limit):
                limit, used = found, _number(folder / now) or 0.0
    return limit, used


def _quota() -> float | None:
    """Smallest quota of processor time on the program's control groups, in cores."""
    found: list[float] = []
    for folder in _group_folders("cpu"):
        pair = (_text(folder / "cpu.max") or "").split()
        if len(pair) == 2 and pair[0].isdigit() and pair[1].isdigit():
            found.append(float(pair[0]) / float(pair[1]))
        quota, period = (_number(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota and period:
            found.append(quota / period)
    return min(found) if found else None


def _installed() -> tuple[float | None, float | None]:
    """Memory installed and memory that could be taken (bytes)."""
    lines = dict(line.partition(":")[::2] for line in (_text(PROC / "meminfo") or "").splitlines())
    found = [re.match(r"\s*(\d+) kB", lines.get(key, "")) for key in ("MemTotal", "MemAvailable")]
    total, free = (float(one[1]) * 1024.0 if one else None for one in found)
    if total is None and "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        total = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return total, free


def processor() -> Processor:
    """The processors and the memory that this program may use; a container's limits count."""
    threads, described = allowed_threads(), _described()
    total, free = _installed()
    limit, used = _memory_limit()
    if limit is not None and (total is None or limit < total):
        left = max(limit - used, 0.0)
        total, free = limit, left if free is None else min(left, free)
    return Processor(
        name=_name(described),
        cores=_cores(described, threads),
        threads=len(threads),
        quota_cores=_quota(),
        memory_total_bytes=total or 0.0,
        memory_free_bytes=free,
        cache_bytes=_cache_bytes(threads),
    )


def ticks(wall_s: float, threads: Collection[int]) -> Ticks | None:
    """Processor time spent so far by everything and by this program; None where the system doesn't say.

    Args:
        wall_s: now, on any clock that runs evenly (s).
        threads: hardware threads that count: of what runs on others the program feels nothing.
    """
    mine = {f"cpu{number}" for number in threads}
    lines = (line.split() for line in (_text(PROC / "stat") or "").splitlines())
    # user, nice, system, idle, waiting, interrupts, soft interrupts, and what a host takes from a virtual machine.
    spent = [[int(one) for one in line[1:9]] for line in lines if line and line[0] in mine]
    if not spent or min(map(len, spent)) < 4:
        return None
    busy = sum(sum(one) - sum(one[3:5]) for one in spent) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return Ticks(busy, own.user + own.system, wall_s)


def load_average() -> float | None:
    """Programs that want to run, averaged over a minute; None where the system doesn't say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def process_name(pid: int) -> str | None:
    """Name of a running program, or None where it isn't ours to see."""
    return (_text(PROC / str(pid) / "comm") or "").strip() or None


def keep_freed_memory() -> bool:
    """Has this process keep large blocks that are freed, for the next that are asked for.

    Returns:
        Whether the C library was told so: glibc can be, where no other allocator stands in for its own.
    """
    if OTHER_ALLOCATORS.search(os.environ.get("LD_PRELOAD", "")):
        return False  # it may answer, and does as it likes
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    kept = any(mallopt(M_MMAP_THRESHOLD, size) for size in KEPT_BYTES)
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_TOP_BYTES)) and kept
