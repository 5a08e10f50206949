"""A measured device by its name; how many cores a processor has is said in the reader's language."""

from __future__ import annotations

import re

from planner.ui.locale import text

CORES = re.compile(r", (\d{1,4}) cores?(?=,|$)")


def device_words(name: str, language: str) -> str:
    """A device's name, or a record's that begins with it, such as “Xeon, 2 cores”, with its cores in this language."""
    return CORES.sub(
        lambda found: ", " + text("measure.device_cores", language, cores=int(found[1])), name
    )


def without_device(name: str, device: str, date: str) -> str:
    """What a record's name says beside its device; the date where it says nothing else."""
    return name.removeprefix(device[:50]).lstrip(", ") or date
