"""The generated index of the catalogue: ids, aliases and search fields, so that a search opens no profile.

`python -m planner.catalog.index` writes it and says what changed; with `--check` it only says so, and exits with 1
where the index isn't up to date.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from typing import Any

from planner.catalog import accelerators
from planner.catalog.files import index_text, write_index_file
from planner.catalog.search import IndexEntry, Kind, name_table
from planner.errors import BadProfile

Index = dict[str, list[dict[str, Any]]]


def build_index() -> Index:
    """Sections of the index, read from all profiles.

    Raises:
        BadProfile: where a profile doesn't load, an id occurs twice, or two items share an alias.
    """
    index = {"accelerators": accelerators.index_entries(), "models": _model_entries()}
    _check_names("accelerator", index["accelerators"])
    _check_names("model", index["models"])
    return index


def _model_entries() -> list[dict[str, Any]]:
    try:
        models = importlib.import_module("planner.catalog.models")
    except ModuleNotFoundError:
        return []
    entries: list[dict[str, Any]] = models.index_entries()
    return entries


def _check_names(kind: Kind, section: list[dict[str, Any]]) -> None:
    ids = [entry["id"] for entry in section]
    if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise BadProfile("index_id_twice", kind=kind, ids=tuple(twice))
    entries = tuple(
        IndexEntry(kind, entry["id"], entry["name"], tuple(entry.get("aliases", ())))
        for entry in section
    )
    for alias, owners in name_table(kind, entries).items():
        if len(owners) > 1 or not alias:
            raise BadProfile("index_alias_shared", alias=alias, ids=tuple(sorted(owners)))


def render(index: Index) -> str:
    """The index as JSON with one item a line, so that a change shows as the lines it touches."""
    sections = []
    for section, entries in index.items():
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        sections.append(f"{json.dumps(section)}: [\n{lines}\n]" if lines else f'"{section}": []')
    return "{" + ",\n".join(sections) + "}\n"


def changes(old: str, new: str) -> list[str]:
    """One line for each item that was added, removed or changed between two texts of the index."""
    before, after = _items(old), _items(new)
    lines = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            verb = "added" if key not in before else "removed" if key not in after else "changed"
            lines.append(f"{verb} {key}")
    return lines


def _items(text: str) -> dict[str, Any]:
    index: Index = json.loads(text) if text else {}
    return {f"{section}/{entry['id']}": entry for section in index for entry in index[section]}


def main(arguments: Sequence[str]) -> int:
    """Writes the index, or with `--check` only compares; prints what changed, gives the exit code."""
    check = list(arguments) == ["--check"]
    if arguments and not check:
        sys.stderr.write("usage: python -m planner.catalog.index [--check]\n")
        return 2
    try:
        old, new = index_text(), render(build_index())
    except BadProfile as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for line in changes(old, new):
        sys.stdout.write(f"{line}\n")
    if old != new and not check:
        write_index_file(new)
    return 1 if check and old != new else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
