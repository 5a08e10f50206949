"""A file replaced as a whole: whoever reads it, whenever the program ends or the disk is full, finds a whole one."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from planner.errors import InvalidInput
from planner.measure.record import Record, record_text


def keep(path: Path, record: Record) -> None:
    """Writes a record in place of what was there; raises as `write_whole`."""
    write_whole(path, record_text(record))


def write_whole(path: Path, content: str) -> None:
    """Writes a text in place of what was there, which stays as it was where that fails.

    A link stays one: the file that it means is written. A device or a pipe is written to as it is.

    Raises:
        InvalidInput: where the file can't be written (`file_cannot_be_written`).
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(content, encoding="utf-8")
            return
        place = path.resolve()
        beside = _beside(place)
        try:
            with beside.open("w", encoding="utf-8") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside, place)
        except OSError:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _refused(path, error) from error


def require_writable(path: Path) -> None:
    """Says before the work is done that its result couldn't be kept; what is there stays as it is.

    Raises:
        InvalidInput: as `write_whole`.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not path.exists() or path.is_file():
            beside = _beside(path.resolve())
            beside.touch()
            beside.unlink()
    except OSError as error:
        raise _refused(path, error) from error


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name}.{os.getpid()}.tmp")


def _refused(path: Path, error: OSError) -> InvalidInput:
    reason = error.strerror or str(error)
    return InvalidInput("file_cannot_be_written", field="output", file=str(path), reason=reason)
