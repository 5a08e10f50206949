"""The shape of the repository: nothing private in it, no file that is really two, licences in place."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.house.repository import ROOT, files

# Hosts of package registries, and paths that exist on one computer only. In brackets so as not to find themselves.
PRIVATE = re.compile(
    r"py[p]i\.org|python[h]osted|npm[j]s\.org|download\.py[t]orch|/wor[k]/|/roo[t]/|(?<![\w.])/home/[a-z]|/User[s]/"
)


def test_nothing_names_a_registry_or_somebodys_computer() -> None:
    found = []
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines = enumerate(text.splitlines(), 1)
        found += [
            f"{path.relative_to(ROOT)}:{n}: {line.strip()[:100]}"
            for n, line in lines
            if PRIVATE.search(line)
        ]
    assert not found


@pytest.mark.parametrize(("pattern", "most"), [("planner/**/*.py", 420), ("app.py", 60)])
def test_a_long_file_is_two_files(pattern: str, most: int) -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in ROOT.glob(pattern)
    }
    assert {path: length for path, length in lengths.items() if length > most} == {}


def test_no_large_file_slips_in() -> None:
    megabyte = 1024 * 1024
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in files()}
    assert {path: size for path, size in sizes.items() if size > 2 * megabyte} == {}


def test_licence_and_attribution_are_there() -> None:
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    notice = (ROOT / "NOTICE").read_text()
    assert all(
        name in notice
        for name in ("Headroom", "aiconfigurator", "InferenceX", "Apache License, Version 2.0")
    )


def test_ci_script_is_sound() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111, "not executable"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    text = script.read_text()
    assert "set -euo pipefail" in text
    assert [text.index(step) for step in ("make test\n", "make test-slow", "make check")] == sorted(
        text.index(step) for step in ("make test\n", "make test-slow", "make check")
    )
