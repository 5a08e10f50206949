"""Every page test has a machine and a folder of measurements of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.ui import measure_device, measure_shelf, measure_switch
from tests.ui.machine import CPU, probe_of

# What a browser at this computer sends; a session without a browser has none.
AT_HOME = {"Host": "localhost:8501", "Origin": "http://localhost:8501"}
AWAY = {"Host": "headroom.example.org", "Origin": "https://headroom.example.org"}


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens the page sits elsewhere."""
    monkeypatch.setattr(measure_switch, "visitor_headers", lambda: AWAY)


@pytest.fixture(autouse=True)
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No test looks at the real machine, waits for its lock, or writes into the user's folder.

    Returns:
        The folder that stands for HEADROOM_HOME.
    """
    home = tmp_path / "home"
    monkeypatch.setenv("HEADROOM_HOME", str(home))
    for name in (
        "MEASURE",
        "MEASURE_ENDPOINT",
        "SHARED_MEASUREMENTS",
        "ENDPOINT_KEY",
        "ENDPOINT_URL",
    ):
        monkeypatch.delenv(f"HEADROOM_{name}", raising=False)
    monkeypatch.setattr(measure_switch, "visitor_headers", lambda: AT_HOME)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(measure_device, "probed", lambda: probe_of(CPU))
    measure_shelf.jobs.clear()
    measure_device._probe.clear()
    yield home
    jobs = measure_shelf.jobs()
    jobs.cancel()
    if jobs._job is not None:
        jobs._job.wait(60.0)
    measure_shelf.jobs.clear()
    measure_device._probe.clear()
