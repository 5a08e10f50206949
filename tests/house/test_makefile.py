"""`make` sets itself up, says what it does, and calls pip only when a requirements file changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE).group(1).split()  # type: ignore[union-attr]
PROMISED = {"run", "test", "check", "bench", "golden", "screenshots", "help", "test-slow"}


def make(*args: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    # What an outer `make test` hands down must not steer the inner one.
    outer = {
        key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))
    }
    outer.pop("PYTHON", None)
    return subprocess.run(
        ["make", *args],
        cwd=cwd,
        env=outer | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the Makefile and the requirement files, set up long ago: every stamp is newer than every file."""
    for name in (
        "Makefile",
        "requirements.txt",
        "requirements-dev.txt",
        "requirements-measure.txt",
    ):
        shutil.copy(ROOT / name, tmp_path / name)
        os.utime(tmp_path / name, (1e9, 1e9))
    stamps = tmp_path / ".venv"
    stamps.mkdir()
    for age, name in enumerate((".python", ".app", ".dev", ".measure")):
        (stamps / name).touch()
        os.utime(stamps / name, (1.1e9 + age, 1.1e9 + age))
    return tmp_path


def pretended_python(folder: Path, script: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_help_lists_every_target() -> None:
    described = re.findall(r"^  make ([a-z-]+) +\S.*$", make("help").stdout, re.MULTILINE)
    assert sorted(described) == sorted(TARGETS)
    assert set(TARGETS) >= PROMISED


def test_no_target_is_both_listed_and_missing() -> None:
    for target in TARGETS:
        result = make("--dry-run", target)
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("target", ["run", "test", "check", "bench", "golden", "screenshots"])
def test_a_second_call_never_reaches_for_pip(tree: Path, target: str) -> None:
    assert "pip install" not in make("--dry-run", target, cwd=tree).stdout


@pytest.mark.parametrize(
    ("changed", "target", "installs"),
    [
        ("requirements.txt", "run", True),
        ("requirements.txt", "test", True),
        ("requirements-dev.txt", "test", True),
        ("requirements-dev.txt", "run", False),
        ("requirements-measure.txt", "golden", True),
        ("requirements-measure.txt", "test", False),
    ],
)
def test_a_changed_file_is_installed_where_it_matters(
    tree: Path, changed: str, target: str, installs: bool
) -> None:
    os.utime(tree / changed, (time.time(), time.time()))
    commands = make("--dry-run", target, cwd=tree).stdout
    assert (f"-r {changed}" in commands) is installs


@pytest.mark.parametrize("target", ["run", "test", "check"])
def test_torch_is_never_part_of_running_or_testing(tree: Path, target: str) -> None:
    shutil.rmtree(tree / ".venv")
    commands = make("--dry-run", target, cwd=tree).stdout
    assert "pip install" in commands
    assert "requirements-measure" not in commands
    assert ("requirements-dev" in commands) is (target != "run")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            'case "$1" in -V) echo Python 3.9.2;; *) exit 1;; esac',
            "3.11 or newer, and .* is Python 3.9.2",
        ),
        ('case "$2" in *ensurepip*) exit 1;; esac', "apt-get install python3-venv"),
    ],
    ids=["too old", "without venv"],
)
def test_a_python_that_will_not_do_is_refused_in_words(tree: Path, script: str, says: str) -> None:
    shutil.rmtree(tree / ".venv")
    result = make("setup", f"PYTHON={pretended_python(tree, script)}", cwd=tree)
    assert result.returncode != 0
    assert re.search(says, result.stderr), result.stderr
    assert not (tree / ".venv").exists()


def test_no_python_at_all_is_said(tree: Path) -> None:
    shutil.rmtree(tree / ".venv")
    result = make("setup", "PYTHON=no-such-python", cwd=tree)
    assert result.returncode != 0
    assert "there is no 'no-such-python'" in result.stderr
