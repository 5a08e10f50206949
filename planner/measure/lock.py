"""One measurement at a time on a machine: two at once would measure each other.

The lock is the operating system's own on an open file, so that it goes with the process that holds it, however that
ends. What the file says (who, since when) is only for people.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from planner.errors import Busy, Unsupported

NAME = "headroom-measure.lock"
# A look at who holds it takes the lock for a moment, which must not turn somebody away.
ATTEMPTS, PAUSE_S = 5, 0.02
MAX_BYTES = 400


@dataclass(frozen=True, slots=True)
class Holder:
    """Who measures.

    Attributes:
        pid: process id, as text; "?" where the file doesn't say.
        since: ISO 8601 in UTC; "?" where the file doesn't say.
    """

    pid: str
    since: str


def default_path() -> Path:
    """The lock's file, the same for every program on the machine that agrees on the folder for temporary files."""
    return Path(tempfile.gettempdir()) / NAME


@contextmanager
def machine_lock(path: Path | None = None) -> Iterator[None]:
    """Holds the machine's lock while a measurement runs.

    Args:
        path: of the lock's file, for tests; the machine's where None.

    Raises:
        Busy: another process measures (`measuring_already`, with its pid and since when).
        Unsupported: the lock's file can't be opened (`measuring_lock_unusable`).
    """
    place = path or default_path()
    descriptor = _open(place)
    try:
        if not _take(descriptor):
            found = _told(descriptor)
            raise Busy("measuring_already", pid=found.pid, since=found.since)
        try:
            _say(descriptor)
            yield
        finally:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            _release(descriptor)
    finally:
        os.close(descriptor)


def holder(path: Path | None = None) -> Holder | None:
    """Who measures on this machine at the moment, or None."""
    place = path or default_path()
    if not place.exists():
        return None
    try:
        descriptor = _open(place)
    except Unsupported:
        return None
    try:
        if _try(descriptor):
            _release(descriptor)
            return None
        return _told(descriptor)
    finally:
        os.close(descriptor)


def _open(place: Path) -> int:
    """The lock's file, made where it isn't there yet, for every user of the machine, and never through a link."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    try:
        with suppress(FileNotFoundError):
            # Without O_CREAT: a shared folder may forbid that on another user's file.
            return os.open(place, flags)
        descriptor = os.open(place, flags | os.O_CREAT, 0o666)
        with suppress(OSError):
            os.chmod(place, 0o666)
    except OSError as error:
        reason = error.strerror or "?"
        raise Unsupported("measuring_lock_unusable", file=str(place), reason=reason) from None
    return descriptor


def _take(descriptor: int) -> bool:
    for attempt in range(ATTEMPTS):
        if _try(descriptor):
            return True
        if attempt + 1 < ATTEMPTS:
            time.sleep(PAUSE_S)
    return False


def _say(descriptor: int) -> None:
    text = json.dumps(
        {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
    )
    with suppress(OSError):  # a full disk doesn't keep anybody from measuring
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, text.encode())


def _told(descriptor: int) -> Holder:
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        said = json.loads(os.read(descriptor, MAX_BYTES))
        return Holder(str(int(said["pid"])), datetime.fromisoformat(said["since"]).isoformat())
    except (OSError, ValueError, KeyError, TypeError):
        return Holder("?", "?")


if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 20  # a locked byte can't be read there, so it isn't one of those that say who

    def _try(descriptor: int) -> bool:
        os.lseek(descriptor, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _release(descriptor: int) -> None:
        os.lseek(descriptor, FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _release(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
