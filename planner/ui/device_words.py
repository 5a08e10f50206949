"""A device as its reader knows it: its name with cores in their language, a processor not called a card or a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.errors import Note
from planner.ui.locale import catalogue, text

OF_PROCESSOR = (
    ".cpu"  # the ending of a sentence's key where a processor needs other words than a card
)
CORES = re.compile(r", (\d{1,4}) cores?(?=,|$)")


def device_words(name: str, language: str) -> str:
    """A device's name, or a record's that begins with it, such as “Xeon, 2 cores”, with its cores in this language."""
    return CORES.sub(
        lambda found: ", " + text("measure.device_cores", language, cores=int(found[1])), name
    )


def without_device(name: str, device: str, date: str) -> str:
    """What a record's name says beside its device; the date where it says nothing else."""
    return name.removeprefix(device[:50]).lstrip(", ") or date


def key_for(key: str, device: Mapping[str, Any] | None, language: str) -> str:
    """The key of a sentence, or of the one that says it of a processor, where the scenario's own device is one."""
    own = key + OF_PROCESSOR
    on_cpu = device is not None and device.get("kind") == "cpu"
    return own if on_cpu and own in catalogue(language) else key


def note_for(note: Note, device: Mapping[str, Any] | None, language: str) -> Note:
    """A note with the same choice made, its device named in this language."""
    code = key_for(f"note.{note.code}", device, language).removeprefix("note.")
    name = note.values.get("accelerator")
    if not isinstance(name, str):
        return replace(note, code=code)
    return Note(code, {**note.values, "accelerator": device_words(name, language)})
