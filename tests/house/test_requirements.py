"""What is imported is required, what is required is pinned, and what is pinned is what is installed."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ("requirements.txt", "requirements-dev.txt", "requirements-measure.txt")
HEAVY = {"torch", "transformers"}
SERVING = {
    "accelerate",
    "fastapi",
    "openai",
    "tokenizers",
}  # of transformers, for the endpoint benchmark's test
OURS = {"app", "planner", "tests", "tools", "conftest"}


def key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in (ROOT / file).read_text().splitlines()]
    found = {}
    for line in filter(None, lines):
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][0-9A-Za-z.]*)", line)
        assert match, f"{file}: {line!r} is not pinned with =="
        found[key(match[1])] = match[2]
    return found


def imported(folder: str) -> dict[str, set[str]]:
    """Top-level names that the Python files under `folder` import, each with the files that do."""
    paths = [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py"))
    names: dict[str, set[str]] = {}
    for path in filter(Path.exists, paths):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            else:
                continue
            for module in modules:
                names.setdefault(module.partition(".")[0], set()).add(str(path.relative_to(ROOT)))
    return {
        name: files for name, files in names.items() if name not in sys.stdlib_module_names | OURS
    }


OPTIONAL = {"bitsandbytes"}  # imported where it's installed, and missing by name where it isn't


def test_everything_is_pinned_once() -> None:
    names = [name for file in FILES for name in pins(file)]
    assert sorted(names) == sorted(set(names))


def test_torch_is_only_for_measuring() -> None:
    assert pins("requirements-measure.txt").keys() == HEAVY | SERVING


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_what_is_installed_is_what_is_pinned(file: str) -> None:
    assert {name: version(name) for name in pins(file)} == pins(file)


@pytest.mark.parametrize(
    ("folder", "files"),
    [
        ("app.py", FILES[:1]),
        ("planner", (FILES[0], FILES[2])),
        ("tests", FILES),
        ("tools", FILES),
    ],
)
def test_what_is_imported_is_required(folder: str, files: tuple[str, ...]) -> None:
    required = {name for file in files for name in pins(file)}
    providers = packages_distributions()
    undeclared = {
        module: sorted(users)
        for module, users in imported(folder).items()
        if module not in OPTIONAL and required.isdisjoint(map(key, providers.get(module, [module])))
    }
    assert not undeclared
