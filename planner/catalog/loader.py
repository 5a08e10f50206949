"""Reading profile files: YAML by safe load, each figure with its source.

A profile's figures are plain numbers covered by the file's default `source`, or
`{value, source, note, basis}` where one figure comes from elsewhere. A figure that no source covers doesn't load.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.errors import BadProfile, MissingFigure
from planner.quantity import Basis

SOURCE_KINDS = frozenset({"vendor", "paper", "measured", "database", "derived", "assumed"})


@dataclass(frozen=True, slots=True)
class Source:
    """Where a figure comes from: title, address, date of the source or of its reading, and what kind it is."""

    id: str
    title: str
    url: str
    date: str
    kind: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a profile with its source; `basis` says how far it can be trusted."""

    value: float
    source: Source
    basis: Basis = Basis.EXACT
    note: str = ""


def profiles_folder() -> Path:
    """The folder of facts beside the package, or HEADROOM_PROFILES where an operator keeps another."""
    override = os.environ.get("HEADROOM_PROFILES")
    return Path(override) if override else Path(__file__).resolve().parents[2] / "profiles"


@lru_cache(maxsize=1024)
def read_yaml(relative: str) -> dict[str, Any]:
    """One profile file as plain data, read once.

    Args:
        relative: path inside the profiles folder, with forward slashes.

    Raises:
        BadProfile: where the file is missing, isn't YAML, or isn't a mapping.
    """
    import yaml  # here: reading YAML is not on the import path

    path = profiles_folder() / relative
    try:
        with path.open("rb") as stream:
            data = yaml.load(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise BadProfile(
            "profile_unreadable", file=relative, reason=error.strerror or str(error)
        ) from error
    except yaml.YAMLError as error:
        raise BadProfile("profile_not_yaml", file=relative, reason=str(error)) from error
    if not isinstance(data, dict):
        raise BadProfile("profile_not_mapping", file=relative)
    return data


def read_sources(data: dict[str, Any], file: str) -> dict[str, Source]:
    """The `sources` list at the foot of a profile, by id.

    Raises:
        BadProfile: for an entry that lacks a title or has an unknown kind.
    """
    sources: dict[str, Source] = {}
    for entry in data.get("sources", ()):
        kind = entry.get("kind")
        if kind not in SOURCE_KINDS or not entry.get("title") or not entry.get("id"):
            raise BadProfile("profile_bad_source", file=file, source=str(entry.get("id")))
        sources[entry["id"]] = Source(
            entry["id"],
            entry["title"],
            str(entry.get("url", "")),
            str(entry.get("date", "")),
            kind,
        )
    return sources


def read_figures(data: dict[str, Any], file: str) -> dict[str, Figure]:
    """The `figures` mapping of a profile, each with its source resolved.

    Raises:
        BadProfile: for a figure that isn't a number or that no source covers.
    """
    sources = read_sources(data, file)
    default = data.get("source")
    figures: dict[str, Figure] = {}
    for key, entry in data.get("figures", {}).items():
        stated = entry if isinstance(entry, dict) else {"value": entry}
        value, source = stated.get("value"), sources.get(str(stated.get("source", default)))
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BadProfile("profile_figure_not_number", file=file, key=key)
        if source is None:
            raise BadProfile("profile_figure_without_source", file=file, key=key)
        basis = Basis[stated.get("basis", "exact").upper()]
        figures[key] = Figure(float(value), source, basis, str(stated.get("note", "")))
    return figures


def require(figures: dict[str, Figure], key: str, profile: str) -> Figure:
    """The figure under `key`.

    Raises:
        MissingFigure: where the profile doesn't state it.
    """
    figure = figures.get(key)
    if figure is None:
        raise MissingFigure(profile, key)
    return figure
