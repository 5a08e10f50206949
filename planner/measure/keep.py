"""A file replaced as a whole: whoever reads it, whenever the program ends or the disk is full, finds a whole one."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from planner.errors import InvalidInput
from planner.measure.record import Record, record_text


def keep(path: Path, record: Record) -> None:
    """Writes a record in place of what was there; raises as `write_whole`."""
    write_whole(path, record_text(record))


class Keeper:
    """Writes a measurement's file as the measurement grows; where that fails, measuring goes on.

    Attributes:
        written: something of this measurement is in the file.
        behind: the file lacks what was measured since.
    """

    def __init__(self, path: Path | None, warn: Callable[[InvalidInput], None]) -> None:
        """Prepares it.

        Args:
            path: None for no file.
            warn: is told once why the file can't be written.
        """
        self.path, self.warn = path, warn
        self.written = self.behind = self._warned = False

    def __call__(self, record: Record) -> None:
        """Writes it, or warns."""
        try:
            self._write(record)
        except InvalidInput as refusal:
            self.behind = True
            if not self._warned:
                self._warned = True
                self.warn(refusal)

    def finish(self, record: Record) -> None:
        """Tries once more where the file is behind; raises as `write_whole`."""
        if self.behind:
            self._write(record)

    def _write(self, record: Record) -> None:
        if self.path is not None:
            keep(self.path, record)
            self.written, self.behind = True, False


def write_whole(path: Path, content: str) -> None:
    """Writes a text in place of what was there, which stays as it was where that fails.

    A link stays one: the file that it means is written. A device or a pipe is written to as it is. A new file is its
    owner's alone, as it may tell of servers and machines; one that was there stays open to whom it was.

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
            with open(beside, "w", encoding="utf-8", opener=_private) as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            if place.exists():
                shutil.copymode(place, beside)
            os.replace(beside, place)
        except BaseException:  # a signal's among them
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


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name}.{os.getpid()}.tmp")


def _refused(path: Path, error: OSError) -> InvalidInput:
    reason = error.strerror or str(error)
    return InvalidInput("file_cannot_be_written", field="output", file=str(path), reason=reason)
