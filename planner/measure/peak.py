"""The most memory that tensors take at once while a model runs, the same figure on a GPU and on a processor.

It is what the model needs, not what the program holds: beside its tensors a program holds libraries, code that kernels
are compiled to for each shape, and what an allocator keeps of memory that was freed. On a processor the C library keeps
holes between blocks that are alive, more after one order of runs than after another: of a 0.5B model that reads 1,024
tokens the tensors took 48 MiB beyond the weights, and the program 112 MiB if it did that first, 154 MiB after shorter
prompts (glibc, PyTorch 2.13). The program's own peak isn't a figure of the model's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate

from planner.measure.build import Built

MEMORY_EVENT = "[memory]"  # the profiler's name for an allocation, and for one given back
LOG_LEVEL = "KINETO_LOG_LEVEL"
NO_LOG = "99"


class Peak:
    """Counts from its making on: on a GPU everything, on a processor the first pass made within `recording`."""

    def __init__(self, built: Built, *, records: bool = True) -> None:
        """Begins to count.

        Args:
            records: passes are recorded where nothing else counts; without, a processor's peak stays unknown.
        """
        import torch

        self.built, self.records = built, records
        self._beyond_bytes: float | None = None
        if self._counted:
            torch.cuda.reset_peak_memory_stats(built.timer.device)

    @property
    def _counted(self) -> bool:
        """Whether the device's allocator keeps count by itself."""
        return self.built.timer.kind in ("cuda", "rocm")

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Around a pass that isn't timed: recording every allocation takes time of its own.

        References:
            PyTorch, c10/core/CPUAllocator.cpp: every tensor on a processor is reported to the profiler as it is
            allocated and given back.
        """
        done = self._beyond_bytes is not None
        if self.built.timer.kind != "cpu" or done or not self.records:
            yield
            return
        os.environ.setdefault(LOG_LEVEL, NO_LOG)  # or it tells of each recording on standard error
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
            yield
        found = [
            one for one in record.profiler.kineto_results.events() if one.name() == MEMORY_EVENT
        ]
        found.sort(key=lambda one: one.start_ns())
        self._beyond_bytes = float(max(accumulate((one.nbytes() for one in found), initial=0)))

    def bytes(self) -> float | None:
        """The most that was taken, weights included; None where nobody counted."""
        import torch

        if self._counted:
            return float(torch.cuda.max_memory_allocated(self.built.timer.device))
        if self._beyond_bytes is None:
            return None
        return self.built.weights_bytes + self._beyond_bytes
