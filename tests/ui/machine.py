"""A machine that only seems to be one, for the pages: what its probe says, what measuring on it does and finds."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.measure.own_fit import calibrated
from planner.measure.probe import Probe
from planner.measure.probe_process import probe_from
from planner.measure.record import Record, record_text
from tests.measure.test_own_fit import grid, made

FAKE_RUN = Path(__file__).resolve().parents[1] / "measure" / "fake_run.py"
CPU_TARGET = {
    "device": "cpu", "kind": "cpu", "name": "Some EPYC, 2 cores", "memory_total_bytes": 16e9,
    "memory_free_bytes": 12e9, "accelerator": None, "uuid": None,
}  # fmt: skip
CPU: dict[str, Any] = {
    "targets": [CPU_TARGET],
    "nvidia": {"missing": "no_library", "driver": None, "cuda": None, "gpus": []},
    "processor": {
        "name": "Some EPYC", "cores": 2, "threads": 4, "quota_cores": 1.5, "memory_total_bytes": 16e9,
        "memory_free_bytes": 12e9, "cache_bytes": 32e6,
    },
    "software": {"torch": "2.13.0", "transformers": "5.24.0", "python": "3.11.7", "system": "Linux"},
    "asked_torch": True,
}  # fmt: skip
GPU: dict[str, Any] = {
    **CPU,
    "targets": [
        {
            "device": "cuda:0", "kind": "cuda", "name": "NVIDIA L4", "memory_total_bytes": 24e9,
            "memory_free_bytes": 20e9, "accelerator": "l4", "uuid": "GPU-1",
        },
        CPU_TARGET,
    ],
    "nvidia": {
        "missing": None, "driver": "580.1", "cuda": "13.0",
        "gpus": [
            {
                "index": 0, "name": "NVIDIA L4", "uuid": "GPU-1", "memory_total_bytes": 24e9,
                "compute_capability": "8.9", "sm_clock_max_mhz": 2040.0, "memory_clock_max_mhz": 6251.0,
                "power_limit_w": 72.0, "pcie_generation": 4, "pcie_lanes": 16, "pcie_generation_max": 4,
                "pcie_lanes_max": 16, "nvlinks": None, "ecc": True, "mig": False, "slices": [],
                "state": {
                    "memory_used_bytes": 4e9, "memory_free_bytes": 20e9, "sm_clock_mhz": 300.0,
                    "memory_clock_mhz": 405.0, "power_w": 14.0, "temperature_c": 41.0,
                    "utilisation_fraction": 0.0, "throttle_reasons": ["power_cap"],
                    "processes": [{"pid": 4711, "name": "somebody-elses.bin", "memory_used_bytes": 3e9}],
                },
            }
        ],
    },
}  # fmt: skip


def probe_of(data: dict[str, Any]) -> Probe:
    return probe_from(data)


@lru_cache(maxsize=1)
def measured() -> Record:
    """What a quick run on the processor finds: a fit's rows and a check's, and the calibration they give."""
    rows = [*grid(), *grid(role="check", model="HuggingFaceTB/SmolLM2-360M-Instruct")[:3]]
    return calibrated(made("cpu", rows))


def fake_command(behaviour: str, folder: Path) -> Any:
    """In place of `measure_command`: a run that behaves as told, and finds what `measured` says.

    `gated` waits, in the middle, until the file `go` is in the folder.
    """
    (folder / "found.json").write_text(record_text(measured()))
    os.environ["FAKE_RUN_FOLDER"] = str(folder)

    def command(arguments: Sequence[str]) -> list[str]:
        return [sys.executable, str(FAKE_RUN), behaviour, *arguments]

    return command
