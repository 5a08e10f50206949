"""Configurations of one shape: what a kept copy lacks beside the catalogue's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.architecture.resolve import architecture_of
from planner.architecture.spec import Architecture
from planner.catalog.models import model_profile
from planner.catalog.search import read_index

_SECTIONS = ("vision_config", "audio_config")


def completions(architecture: Architecture, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The configuration with the keys that it lacks, by each catalogue model of its type, width and depth.

    Tools keep copies that leave keys out. Where the catalogue's model states another tower, that comes next.

    Args:
        config: the configuration that the architecture was made from.
    """
    for entry in read_index("model"):
        if entry.fields.get("model_type") != architecture.model_type:
            continue
        other = architecture_of(entry.id)
        if (other.hidden_size, other.layers) != (architecture.hidden_size, architecture.layers):
            continue
        known = model_profile(entry.id).config
        filled = _filled(config, known)
        yield filled
        towers = {name: known[name] for name in _SECTIONS if name in known and name in config}
        if towers:
            yield {**filled, **towers}


def _filled(config: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """All keys of both, at every level; the configuration's own values first."""
    filled = {**known, **config}
    for name, value in config.items():
        if isinstance(value, Mapping) and isinstance(known.get(name), Mapping):
            filled[name] = _filled(value, known[name])
    return filled
