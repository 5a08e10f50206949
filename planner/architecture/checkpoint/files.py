"""The only part of the readers that touches files: what a folder holds, and parts of a file. Nothing is read whole."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from planner.errors import InvalidInput

MAX_FOLDER_ENTRIES = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class FileSource:
    """An open file; see `tensors.ByteSource`."""

    name: str
    size: int
    stream: BinaryIO

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`.

        Raises:
            InvalidInput: `checkpoint_unreadable`.
        """
        try:
            self.stream.seek(min(offset, self.size))
            return self.stream.read(length)
        except OSError as error:
            raise _unreadable(self.name, error) from None


def _unreadable(name: str, error: OSError | ValueError) -> InvalidInput:
    reason = error.strerror if isinstance(error, OSError) else None
    return InvalidInput(
        "checkpoint_unreadable", field="model", file=name[-200:], reason=reason or "no_file"
    )


@contextmanager
def opened(path: Path) -> Iterator[FileSource]:
    """A file open for reading parts of it; a device or a pipe is none.

    Raises:
        InvalidInput: `checkpoint_unreadable`.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidInput(
                "checkpoint_unreadable", field="model", file=path.name, reason="no_file"
            )
        stream = path.open("rb")
    except (OSError, ValueError) as error:
        raise _unreadable(path.name, error) from None
    with stream:
        yield FileSource(path.name, path.stat().st_size, stream)


def is_folder(path: Path) -> bool:
    """Whether there's a folder of that name; False for what can't be a name at all."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    """Whether there's a regular file of that name; False for what can't be a name at all."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def names_in(folder: Path) -> tuple[str, ...]:
    """Names of what lies in a folder, sorted.

    Raises:
        InvalidInput: `checkpoint_unreadable`, or `checkpoint_folder_too_large`.
    """
    names = []
    try:
        for entry in folder.iterdir():
            names.append(entry.name)
            if len(names) > MAX_FOLDER_ENTRIES:
                raise InvalidInput(
                    "checkpoint_folder_too_large",
                    field="model",
                    file=folder.name,
                    maximum=MAX_FOLDER_ENTRIES,
                )
    except OSError as error:
        raise _unreadable(str(folder), error) from None
    return tuple(sorted(names))
