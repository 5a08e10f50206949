"""From a clone and a bare Python to a running app, with one command, and a second time without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT, files
from tests.running_app import running_app

pytestmark = pytest.mark.slow


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    target = tmp_path / "clone"
    for path in files():
        copy = target / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return target


def test_make_run_sets_itself_up(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("MAKE", "MFLAGS"))]:
        monkeypatch.delenv(name)
    # The Python that made this environment, not the environment itself.
    command = ["make", "run", f"PYTHON={Path(sys.base_prefix) / 'bin' / 'python3'}"]
    with running_app(command, clone, tmp_path, wait_s=1200, arguments="ARGS={}", keep_home=True):
        python = clone / ".venv" / "bin" / "python"
        listed = subprocess.run(
            [python, "-m", "pip", "list", "--format=freeze"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        installed = {line.partition("==")[0] for line in listed.splitlines()}
        assert "streamlit" in installed
        assert installed.isdisjoint({"torch", "transformers", "pytest", "playwright"})

    # No index, no wheels at hand: a second start that reached for pip would fail.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with running_app(command, clone, tmp_path, wait_s=60, arguments="ARGS={}"):
        pass
