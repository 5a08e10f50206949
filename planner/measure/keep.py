"""A record's file, replaced as a whole: whoever reads it, whenever the program is ended, finds a whole one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from planner.errors import InvalidInput
from planner.measure.record import Record, record_text


def keep(path: Path, record: Record) -> None:
    """Writes a record in place of what was there.

    Raises:
        InvalidInput: where the file can't be written (`file_cannot_be_written`).
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding="utf-8") as stream:
            stream.write(record_text(record))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise InvalidInput(
            "file_cannot_be_written", file=str(path), reason=error.strerror or str(error)
        ) from error
