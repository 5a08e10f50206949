"""Who may import what: the contracts in pyproject.toml hold, they bite, and what they can't see is checked here.

import-linter sees imports. It doesn't see `open(...)`, and of a package outside the project it sees only the first
name (`urllib`, not `urllib.request`); these are found in the syntax tree, under the same lists of modules.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = {contract["id"]: contract for contract in SETTINGS["tool"]["importlinter"]["contracts"]}
FILE_METHODS = {
    "glob",
    "iterdir",
    "open",
    "read_bytes",
    "read_text",
    "rglob",
    "write_bytes",
    "write_text",
}
DEVICE_LIBRARIES = set(CONTRACTS["devices"]["forbidden_modules"])

Trees = dict[str, ast.Module]


def module_trees() -> Trees:
    trees = {}
    for path in sorted((ROOT / "planner").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        trees[".".join(part for part in parts if part != "__init__")] = ast.parse(path.read_text())
    return trees


def listed(contract: str, module: str) -> bool:
    """True where the contract's one list of exceptions names the module."""
    patterns = [entry.split(" -> ")[0] for entry in CONTRACTS[contract]["ignore_imports"]]
    return any(fnmatch.fnmatchcase(module, pattern.replace("**", "*")) for pattern in patterns)


def names_imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def touches_network(tree: ast.Module) -> bool:
    return any(name.startswith("urllib.request") for name in names_imported(ast.walk(tree)))


def touches_files(tree: ast.Module) -> bool:
    if any(name.startswith("importlib.resources") for name in names_imported(ast.walk(tree))):
        return True
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "open":
            return True
        if not isinstance(called, ast.Attribute) or called.attr not in FILE_METHODS:
            continue
        # A Path's read_bytes takes nothing; a function of that name, of bytes read from memory, does.
        if called.attr != "read_bytes" or not node.args:
            return True
    return False


def run_at_import(nodes: list[ast.stmt]) -> Iterator[ast.AST]:
    """What runs when the module is imported: not the bodies of functions, nor what is there for type checkers."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from run_at_import(node.orelse)
            continue
        yield node
        for field in ("body", "orelse", "finalbody", "handlers"):
            yield from run_at_import(getattr(node, field, []))


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as c; c()",
        "--no-cache",
    ]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_contracts_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_only_the_listed_modules_touch_files() -> None:
    assert [
        name
        for name, tree in module_trees().items()
        if touches_files(tree) and not listed("files", name)
    ] == []


def test_only_the_listed_modules_touch_a_network() -> None:
    users = [name for name, tree in module_trees().items() if touches_network(tree)]
    assert [name for name in users if not listed("network", name)] == []


def test_the_lists_name_no_module_that_is_gone() -> None:
    modules = module_trees()
    named = {entry.split(" -> ")[0] for entry in CONTRACTS["files"]["ignore_imports"]}
    assert {
        pattern for pattern in named if not fnmatch.filter(modules, pattern.replace("**", "*"))
    } == set()


def test_device_libraries_are_imported_inside_functions() -> None:
    early = {
        name: sorted(found)
        for name, tree in module_trees().items()
        if (
            found := {n.partition(".")[0] for n in names_imported(run_at_import(tree.body))}
            & DEVICE_LIBRARIES
        )
    }
    assert early == {}


# --- The checks themselves: each finds what it's for ------------------------------------------------------------------

BREACHES = {
    "rooms": (
        "catalog/facts.py",
        "import planner.evaluation",
        "planner.catalog.facts -> planner.evaluation",
    ),
    "cycles": ("speed/prefill.py", "import planner.speed.decode", "speed"),
    "drawing": ("advise.py", "import pandas", "planner.advise -> pandas"),
    "command-line": ("cli.py", "import planner.ui.charts", "planner.cli -> planner.ui.charts"),
    "devices": ("memory/fit.py", "def f():\n    import torch", "planner.memory.fit -> torch"),
    "network": ("evaluation.py", "import httpx", "planner.evaluation -> httpx"),
    "files": ("quantity.py", "from pathlib import Path", "planner.quantity -> pathlib"),
}
ALLOWED = {
    "ui/charts.py": "import plotly.graph_objects, streamlit, pandas",
    "ui/locale/__init__.py": "import planner.errors",
    "cli.py": "import planner.ui.locale, planner.evaluation, json",
    "evaluation.py": "import planner.speed.decode, planner.catalog.loader",
    "speed/decode.py": "import planner.speed.prefill, numpy",
    "catalog/loader.py": "import os, pathlib",
    "architecture/hub.py": "import huggingface_hub",
    "measure/probe.py": "def f():\n    import pynvml, torch",
    "measure/endpoint/server.py": "import httpx2, urllib.request",
}


def build(folder: Path, sources: dict[str, list[str]]) -> Path:
    shutil.copy(ROOT / "pyproject.toml", folder / "pyproject.toml")
    for name, lines in sources.items():
        path = folder / "planner" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    for package in {path.parent for path in folder.rglob("planner/**/*.py")} | {folder / "planner"}:
        (package / "__init__.py").touch()
    return folder


def test_contracts_leave_the_intended_imports_alone(tmp_path: Path) -> None:
    sources = {name: [text] for name, text in ALLOWED.items()}
    sources |= {name: [""] for name, _, _ in BREACHES.values() if name not in sources}
    result = lint_imports(build(tmp_path, sources))
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_contract_finds_its_breach(tmp_path: Path) -> None:
    assert BREACHES.keys() == CONTRACTS.keys()
    sources = {name: [text] for name, text in ALLOWED.items()}
    for name, text, _ in BREACHES.values():
        sources.setdefault(name, []).append(text)
    sources["stray.py"] = [""]
    output = lint_imports(build(tmp_path, sources)).stdout
    kept = [
        c["name"]
        for c in CONTRACTS.values()
        if not re.search(re.escape(c["name"]) + r"\s+BROKEN", output)
    ]
    assert kept == [], output
    assert [found for _, _, found in BREACHES.values() if found not in output] == [], output
    assert "planner.stray" in output


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "with p.open('rb') as f: pass",
        "Path('x').read_text()",
        "(folder / 'x').read_bytes()",
        "from importlib import resources",
        "import importlib.resources as r",
    ],
)
def test_touching_a_file_is_seen(source: str) -> None:
    assert touches_files(ast.parse(source))


@pytest.mark.parametrize(
    "source", ["x.opened()", "from importlib import import_module", "cache.read_bytes(layout, 5)"]
)
def test_what_is_no_file_is_left_alone(source: str) -> None:
    assert not touches_files(ast.parse(source))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch", True),
        ("if True:\n    from torch.cuda import Event", True),
        ("try:\n    import pynvml\nexcept ImportError:\n    pass", True),
        ("class A:\n    import torch", True),
        ("def f():\n    import torch", False),
        ("if TYPE_CHECKING:\n    import torch", False),
    ],
)
def test_an_early_import_is_seen(source: str, found: bool) -> None:
    names = {
        name.partition(".")[0] for name in names_imported(run_at_import(ast.parse(source).body))
    }
    assert bool(names & DEVICE_LIBRARIES) is found


def test_urllib_request_is_seen() -> None:
    assert touches_network(ast.parse("from urllib import request"))
    assert touches_network(ast.parse("import urllib.request"))
    assert not touches_network(ast.parse("from urllib.parse import quote"))
