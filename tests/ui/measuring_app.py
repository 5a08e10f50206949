"""The app, on a machine that only seems to be one: `streamlit run tests/ui/measuring_app.py`.

The folder in MEASURING_APP_FOLDER holds its measurements, its lock and the file that lets a run end.
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from planner.measure import job  # noqa: E402
from planner.ui import measure_device  # noqa: E402
from tests.ui.machine import CPU, fake_command, probe_of  # noqa: E402

folder = Path(os.environ["MEASURING_APP_FOLDER"])
tempfile.tempdir = str(folder)
os.environ["HEADROOM_HOME"] = str(folder / "home")
if not (folder / "found.json").exists():
    job.measure_command = fake_command("gated", folder)
measure_device.probed = lambda: probe_of(CPU)
runpy.run_path(str(ROOT / "app.py"), run_name="__main__")
