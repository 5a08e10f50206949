"""The catalogue's files other than single profiles: what a folder of profiles holds, and the generated index."""

from __future__ import annotations

import json
from typing import Any

from planner.catalog.loader import profiles_folder
from planner.errors import BadProfile

INDEX = "index.json"


def profile_ids(folder: str) -> tuple[str, ...]:
    """Ids of the items in a folder of profiles ("accelerators"), in order: file names without `.yaml`."""
    return tuple(sorted(path.stem for path in (profiles_folder() / folder).glob("*.yaml")))


def profile_lines(path: str) -> list[str]:
    """The lines of a text file of facts, its path relative to the profiles.

    Raises:
        BadProfile: where it can't be read.
    """
    try:
        text = (profiles_folder() / path).read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadProfile("profile_unreadable", file=path, reason=reason) from error
    return text.splitlines()


def write_profile(path: str, text: str) -> None:
    """Writes a file of facts, its path relative to the profiles."""
    (profiles_folder() / path).write_text(text, encoding="utf-8")


def remove_profile(path: str) -> None:
    """Removes a file of facts, where it is there."""
    (profiles_folder() / path).unlink(missing_ok=True)


def read_index_file() -> dict[str, list[dict[str, Any]]]:
    """Sections of the generated index ("accelerators", "models"), each a list of entries.

    Raises:
        BadProfile: where the index is missing or isn't a mapping of lists.
    """
    try:
        data = json.loads((profiles_folder() / INDEX).read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadProfile("profile_unreadable", file=INDEX, reason=reason) from error
    except ValueError as error:
        raise BadProfile("profile_not_json", file=INDEX, reason=str(error)) from error
    if not isinstance(data, dict) or not all(isinstance(part, list) for part in data.values()):
        raise BadProfile("profile_not_mapping", file=INDEX)
    return data


def index_text() -> str:
    """The index file as it is, or an empty text where there is none."""
    path = profiles_folder() / INDEX
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def write_index_file(text: str) -> None:
    """Replaces the index file."""
    (profiles_folder() / INDEX).write_text(text, encoding="utf-8")
