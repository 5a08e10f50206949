"""Which models an engine serves: the model types that its own documents list, and those that it can't run.

An engine's list is as old as its source, and most engines can run further models through transformers' own code or a
general converter. A type that is on neither list is answered for, and the answer says that nobody vouches for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from planner.catalog.engine_profiles import engine, parse_version, profile_data
from planner.catalog.loader import read_sources
from planner.errors import BadProfile


class Service(StrEnum):
    """What an engine's documents say of a model type."""

    LISTED = "listed"
    UNLISTED = "unlisted"
    LACKING = "lacking"


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """An engine's model types.

    Attributes:
        everything: any model that the catalogue's architectures describe.
        listed: types on its list; lacking: types that it can't run.
        until: types that it could run, by the last version that did.
        otherwise: what it runs unlisted models through, or "".
    """

    everything: bool = False
    listed: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()
    until: tuple[tuple[str, str], ...] = ()
    otherwise: str = ""

    def of(self, model_type: str, version: str) -> Service:
        """What the lists say of a model type in a version."""
        if self.everything or model_type in self.listed:
            return Service.LISTED
        last = dict(self.until).get(model_type)
        if last is not None:
            newest = parse_version(last)
            held = parse_version(version)[: len(newest)] <= newest
            return Service.LISTED if held else Service.LACKING
        return Service.LACKING if model_type in self.lacking else Service.UNLISTED


@lru_cache(maxsize=32)
def served_by(engine_id: str) -> Served:
    """An engine's model types.

    Raises:
        BadProfile: where its profile has no lists, or one without a source.
    """
    file, data = profile_data(engine_id)
    lists = data.get("serves")
    if lists == "everything":
        return Served(everything=True)
    if not isinstance(lists, dict):
        raise BadProfile("profile_bad_engine", file=file)
    sources = read_sources(data, file)
    for key in ("listed", "lacking", "until", "otherwise"):
        if key in lists and lists[key].get("source") not in sources:
            raise BadProfile("profile_figure_without_source", file=file, key=f"serves.{key}")

    def types(key: str) -> Any:
        return lists.get(key, {}).get("types", ())

    return Served(
        listed=frozenset(types("listed")),
        lacking=frozenset(types("lacking")),
        until=tuple(dict(types("until")).items()),
        otherwise=lists.get("otherwise", {}).get("name", ""),
    )


def may_serve(engine_id: str, model_type: str, version: str | None = None) -> bool:
    """Whether the engine (in a version, else its newest) may serve models of this type."""
    return (
        served_by(engine_id).of(model_type, version or engine(engine_id).newest)
        is not Service.LACKING
    )
