"""What loads when: the app runs without torch, and the command line starts without anything that draws."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEASURING = ("torch", "transformers", "pynvml")
DRAWING = ("streamlit", "plotly", "pandas", "altair", "pydeck")

EVERY_MODULE = """
import importlib, pkgutil, planner
for module in pkgutil.walk_packages(planner.__path__, "planner."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
THE_APP = """
import os
from streamlit.testing.v1 import AppTest
app = AppTest.from_file(os.path.abspath("app.py"), default_timeout=60).run()
assert not app.exception, app.exception
"""


def run_without(
    libraries: tuple[str, ...], folder: Path, *command: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python where importing one of `libraries` is an error that no `except ImportError` swallows."""
    for name in libraries:
        (folder / f"{name}.py").write_text(f"raise SystemExit('imported {name}')\n")
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_trap_springs(tmp_path: Path) -> None:
    code = "try:\n    import torch\nexcept Exception:\n    pass"
    assert "imported torch" in run_without(MEASURING, tmp_path, "-c", code).stderr


@pytest.mark.parametrize("code", [EVERY_MODULE, THE_APP], ids=["every module", "the app"])
def test_nothing_imports_torch_by_being_imported(tmp_path: Path, code: str) -> None:
    result = run_without(MEASURING, tmp_path, "-W", "error::SyntaxWarning", "-c", code)
    assert result.returncode == 0, result.stderr[-4000:]


@pytest.mark.parametrize("arguments", [["--help"], ["estimate", "--help"]])
def test_the_command_line_starts_light(tmp_path: Path, arguments: list[str]) -> None:
    light = (*MEASURING, *DRAWING, "huggingface_hub")
    result = run_without(light, tmp_path, "-m", "planner", *arguments)
    assert result.returncode == 0, result.stderr[-4000:]
    assert "usage" in result.stdout.lower() or "uso" in result.stdout.lower()


def test_the_package_itself_loads_next_to_nothing(tmp_path: Path) -> None:
    result = run_without(
        (*MEASURING, *DRAWING, "numpy", "pydantic", "yaml"), tmp_path, "-c", "import planner"
    )
    assert result.returncode == 0, result.stderr[-4000:]
