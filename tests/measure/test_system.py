"""What is asked of the operating system for measuring to be the same from one process to another."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

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
