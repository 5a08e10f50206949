"""What is asked of the operating system for measuring to be the same from one process to another."""

from __future__ import annotations

import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from planner.measure import system

FAULTS = """
import ctypes, resource
from planner.measure.system import keep_freed_memory
kept = KEPT and keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
SIZE = 48 * 2**20  # more than the C library ever keeps of its own accord
def passes(number):
    begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(number):
        block = libc.malloc(SIZE)
        ctypes.memset(block, 1, SIZE)
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begin
passes(1)
print(bool(kept), passes(5))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_memory_that_is_freed_stays_with_the_process() -> None:
    """Pages that are asked for again in each pass take a quarter of a long prompt's time on a processor."""
    found = {}
    for kept in ("True", "False"):
        done = subprocess.run(
            [sys.executable, "-c", FAULTS.replace("KEPT", kept)],
            capture_output=True,
            text=True,
            check=True,
        )
        said, faults = done.stdout.split()
        assert said == kept
        found[kept] = int(faults)
    assert found["True"] < 100
    assert found["False"] > 5 * 48 * 2**20 / 2**21  # at least one for each huge page


@pytest.mark.parametrize(
    ("most", "trims", "kept", "asked"),
    [
        (2**31, True, True, [2**29]),
        (2**25, True, True, [2**29, 2**25]),  # as glibc before 2.35
        (0, True, False, [2**29, 2**25]),
        (2**31, False, False, [2**29]),
    ],
)
def test_an_older_library_is_told_as_much_as_it_takes(
    most: int, trims: bool, kept: bool, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[int, list[int]] = {}

    def mallopt(option: int, size: int) -> int:
        told.setdefault(option, []).append(size)
        return int(size <= most if option == system.M_MMAP_THRESHOLD else trims)

    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr(system.ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    assert system.keep_freed_memory() is kept
    assert told == {system.M_MMAP_THRESHOLD: asked, system.M_TRIM_THRESHOLD: [2**31 - 1]}


@pytest.mark.parametrize("name", ["jemalloc.so.2", "tcmalloc_minimal.so.4", "mimalloc.so"])
def test_another_allocator_is_not_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers to the same name, and keeps what it likes."""
    found = SimpleNamespace(mallopt=lambda *_: 1)
    monkeypatch.setattr(system.ctypes, "CDLL", lambda _: found)
    monkeypatch.setenv("LD_PRELOAD", f"/usr/lib/lib{name}")
    assert system.keep_freed_memory() is False
