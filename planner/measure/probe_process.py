"""The probe in a process of its own, for programs that must load neither torch nor a driver's library."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from planner.errors import PlannerError
from planner.measure.job import ROOT
from planner.measure.nvml import Gpu, GpuProcess, GpuState, Nvidia
from planner.measure.probe import Probe, Target
from planner.measure.system import Processor

DEADLINE_S = 60.0


def probe_command() -> list[str]:
    """The command line's own verb, under this Python."""
    return [sys.executable, "-m", "planner", "measure", "--probe", "--json"]


def probed(command: Sequence[str] | None = None, *, deadline_s: float = DEADLINE_S) -> Probe:
    """What there is to measure here, asked of another process.

    Args:
        command: what prints the probe as JSON; the command line's own where None.

    Raises:
        PlannerError: what it refused with; or that it took too long, failed, or said something else (`probe_failed`).
    """
    try:
        done = subprocess.run(
            list(command or probe_command()),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=deadline_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PlannerError("probe_failed", reason="timeout") from None
    except OSError as error:
        raise PlannerError("probe_failed", reason=error.strerror or "?") from None
    if done.returncode:
        raise _refusal(done.stdout, done.stderr)
    try:
        return probe_from(json.loads(done.stdout))
    except (ValueError, KeyError, TypeError):
        raise PlannerError("probe_failed", reason="JSON") from None


def _refusal(printed: str, said: str) -> PlannerError:
    """The refusal that the other process printed, to be said in the language here; else its last line."""
    try:
        error = json.loads(printed)["error"]
        return PlannerError(error["code"], **error["values"])
    except (ValueError, KeyError, TypeError):
        lines = said.strip().splitlines()
        return PlannerError("probe_failed", reason=lines[-1][:300] if lines else "?")


def probe_from(data: Mapping[str, Any]) -> Probe:
    """The probe that `probe_json` made this of; raises KeyError or TypeError where it didn't."""
    software = data["software"]
    return Probe(
        targets=tuple(Target(**one) for one in data["targets"]),
        nvidia=Nvidia(**{**data["nvidia"], "gpus": tuple(map(_gpu, data["nvidia"]["gpus"]))}),
        processor=Processor(**data["processor"]),
        torch=software["torch"],
        transformers=software["transformers"],
        asked_torch=data["asked_torch"],
        python=software["python"],
        system=software["system"],
    )


def _gpu(data: Mapping[str, Any]) -> Gpu:
    state = dict(data["state"])
    state["processes"] = tuple(GpuProcess(**one) for one in state["processes"])
    state["throttle_reasons"] = tuple(state["throttle_reasons"])
    return Gpu(**{**data, "slices": tuple(data["slices"]), "state": GpuState(**state)})
