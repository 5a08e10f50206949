"""Which files make up the repository."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Folders that tools make; only consulted where git can't tell.
MADE_BY_TOOLS = {".git", ".venv", "__pycache__", ".hypothesis", "build", "dist", "test-results"}


def files() -> Iterator[Path]:
    """Every file that is, or would be, in the repository."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if listed.returncode == 0:
            yield from (
                path
                for name in listed.stdout.split("\0")
                if name and (path := ROOT / name).is_file()
            )
            return
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if path.is_file() and not any(
            part in MADE_BY_TOOLS or part.endswith("_cache") for part in parts
        ):
            yield path
