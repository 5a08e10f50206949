"""Measurements kept in files of this computer: one each, found by name, none lost by an update or overwritten unasked.

A name from a person never becomes a path: the file is called by what is harmless of it and a hash of all of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
import time
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from planner.catalog.devices import MAX_NAME
from planner.errors import InvalidInput, PlannerError
from planner.measure.record import MAX_BYTES, Record, parse_record, record_text

HOME = "HEADROOM_HOME"
MAX_KEPT = 500
MAX_TOTAL_BYTES = 200_000_000
MAX_TRASH = 50
TRASH_S = 14 * 24 * 3600.0
KEY = re.compile(r"[a-z0-9-]{1,80}")
# One process changes one folder at a time; between processes the file system's own rules hold.
_CHANGING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Kept:
    """A measurement in the list, without its rows.

    Attributes:
        key: what the store knows it by.
        engine: that ran; "" where no row says.
        errors: median error of "ttft" and "tpot" without and with its calibration, of those that it was fitted to.
        refusal: why it can't be read, for a damaged file; the other fields then say what little is known.
    """

    key: str
    name: str
    date: str = ""
    accelerator: str = ""
    engine: str = ""
    errors: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    refusal: PlannerError | None = None


def default_home(environment: Mapping[str, str] = os.environ) -> Path:
    """HEADROOM_HOME, else `.headroom` in the user's folder."""
    given = environment.get(HOME, "").strip()
    return Path(given) if given else Path.home() / ".headroom"


def renamed(record: Record, name: str) -> Record:
    """The record, and the calibration in it, under another name.

    Raises:
        InvalidInput: for a name of nothing, or of more than 80 characters.
    """
    tidy = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    if not tidy or len(tidy) > MAX_NAME:
        raise InvalidInput("measurement_bad_name", field="name", limit=MAX_NAME)
    calibration = record.calibration
    if calibration is not None:
        calibration = calibration.model_copy(update={"name": tidy})
    return record.model_copy(update={"name": tidy, "calibration": calibration})


def summary(record: Record, key: str) -> Kept:
    """A record's line in the list."""
    calibration = record.calibration
    engine = next(
        (str(row.scenario["engine"]) for row in record.rows if "engine" in row.scenario), ""
    )
    fitted = {"ttft": calibration.ttft, "tpot": calibration.tpot} if calibration else {}
    return Kept(
        key=key,
        name=record.name,
        date=record.date,
        accelerator=record.device.name if record.device else record.accelerator,
        engine=engine,
        errors={
            name: (error.before_fraction, error.after_fraction)
            for name, error in fitted.items()
            if error is not None
        },
    )


def key_of(name: str) -> str:
    """What the store calls a measurement of that name; two names that differ at all have two keys."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:48] or "measurement"
    return f"{slug}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"


class Store:
    """The measurements in one folder."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or default_home()
        self.folder = self.home / "measurements"
        self.trash = self.folder / "trash"
        self.running = self.home / "running"

    # --- Reading -----------------------------------------------------------------------------------------------------

    def kept(self) -> list[Kept]:
        """All measurements, the newest first; damaged files come last, and say so."""
        found = []
        for path in self._files():
            with suppress(OSError):  # another program may take one away meanwhile
                about = path.stat()
                found.append(_line(path, about.st_mtime_ns, about.st_size))
        found.sort(key=lambda one: (one.refusal is None, one.date), reverse=True)
        return found

    def load(self, key: str) -> Record:
        """One measurement.

        Raises:
            InvalidInput: it isn't there (`measurement_gone`), or isn't a measurement any more.
        """
        return _read(self._path(key))

    # --- Changing ----------------------------------------------------------------------------------------------------

    def save(self, record: Record, *, replace: bool = False) -> str:
        """Keeps a measurement under its name, and returns its key.

        Args:
            replace: takes the place of another of that name, which goes to the trash.

        Raises:
            InvalidInput: the name is taken by another measurement (`measurement_name_taken`), or there are too many
                (`measurements_full`).
            PlannerError: the folder can't be written (`file_cannot_be_written`).
        """
        content = record_text(record).encode(errors="replace")
        if len(content) > MAX_BYTES:
            raise InvalidInput("measurement_too_big", field="measurement", limit_bytes=MAX_BYTES)
        key = key_of(record.name)
        path = self._path(key)
        with _CHANGING:
            if path.exists():
                with suppress(PlannerError):
                    if _read(path) == record:
                        return key
                if not replace:
                    raise InvalidInput("measurement_name_taken", field="name", name=record.name)
            self._check_room(len(content))
            if path.exists():
                self._to_trash(path)
            try:
                _write(path, content)
            except FileExistsError:  # another process was quicker
                raise InvalidInput(
                    "measurement_name_taken", field="name", name=record.name
                ) from None
        return key

    def save_new(self, record: Record) -> tuple[str, Record]:
        """Keeps a measurement under its name, or under the name with a number where that is taken.

        Returns:
            Its key, and the record as it was kept.

        Raises:
            PlannerError: as `save`, but for the name.
        """
        wanted, candidate = record.name, record
        for number in range(2, MAX_KEPT + 3):
            try:
                return self.save(candidate), candidate
            except InvalidInput as refusal:
                if refusal.code != "measurement_name_taken":
                    raise
            ending = f" ({number})"
            candidate = renamed(record, wanted[: MAX_NAME - len(ending)] + ending)
        raise InvalidInput("measurements_full", field="measurement", limit=MAX_KEPT)

    def rename(self, key: str, name: str) -> str:
        """Gives a measurement another name, and returns its new key.

        Raises:
            PlannerError: as `load` and `save`.
        """
        record = renamed(self.load(key), name)
        new = key_of(record.name)
        if new != key:
            if self._path(new).exists():
                raise InvalidInput("measurement_name_taken", field="name", name=record.name)
            # Written before the old one goes: whatever happens between, there is one too many rather than none.
            self.save(record)
            self._path(key).unlink(missing_ok=True)
        return new

    def delete(self, key: str) -> str:
        """Moves a measurement, a damaged one too, to the trash.

        Returns:
            What `restore` brings it back by.

        Raises:
            InvalidInput: it isn't there.
        """
        with _CHANGING:
            path = self._path(key)
            if not path.exists():
                raise InvalidInput("measurement_gone", field="measurement")
            token = self._to_trash(path)
            self._empty_trash()
        return token

    def restore(self, token: str) -> str:
        """Brings back what `delete` moved away, and returns its key.

        Raises:
            InvalidInput: it isn't in the trash any more, or another one has its name.
        """
        key, _, mark = token.partition("~")
        path = self._path(key)
        if not re.fullmatch(r"[0-9a-f]{32}", mark):
            raise InvalidInput("measurement_gone", field="measurement")
        moved = self.trash / f"{token}.json"
        with _CHANGING:
            if not moved.exists():
                raise InvalidInput("measurement_gone", field="measurement")
            if path.exists():
                raise InvalidInput("measurement_name_taken", field="name", name=key)
            try:
                moved.replace(path)
            except OSError as error:
                raise _cannot_write(path, error) from None
        return key

    # --- What a run writes -------------------------------------------------------------------------------------------

    def place_for_run(self) -> Path:
        """A file of its own for a run to write to, in a folder that is there.

        Raises:
            PlannerError: the folder can't be made.
        """
        _make(self.running)
        return self.running / f"{uuid4().hex}.json"

    def left_behind(self) -> list[Path]:
        """Files of runs that nobody came to collect: of a server that was ended while one ran."""
        try:
            return sorted(self.running.glob("*.json"))
        except OSError:
            return []

    def collect(
        self, path: Path, finish: Callable[[Record], Record] = lambda record: record
    ) -> tuple[str, Record] | None:
        """Keeps what a run wrote and clears its file away; None where it wrote nothing that can be kept.

        Args:
            finish: what is done with the record before it's kept.

        Raises:
            PlannerError: as `save_new`; the file then stays where it is.
        """
        for partial in path.parent.glob(
            f".{path.name}.*.tmp"
        ):  # of a run that was ended while it wrote
            partial.unlink(missing_ok=True)
        try:
            record = _read(path)
        except PlannerError:
            return None
        found = self.save_new(finish(record)) if record.rows or record.figures else None
        path.unlink(missing_ok=True)
        return found

    # --- Inside ------------------------------------------------------------------------------------------------------

    def _files(self) -> list[Path]:
        try:
            found = (path for path in self.folder.glob("*.json") if KEY.fullmatch(path.stem))
            return sorted(path for path in found if path.is_file())  # never a pipe or a device
        except OSError:
            return []

    def _path(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise InvalidInput("measurement_gone", field="measurement")
        return self.folder / f"{key}.json"

    def _check_room(self, more_bytes: int) -> None:
        files = self._files()
        total = more_bytes
        for path in files:
            with suppress(OSError):
                total += path.stat().st_size
        if len(files) >= MAX_KEPT or total > MAX_TOTAL_BYTES:
            raise InvalidInput("measurements_full", field="measurement", limit=MAX_KEPT)

    def _to_trash(self, path: Path) -> str:
        _make(self.trash)
        token = f"{path.stem}~{uuid4().hex}"
        moved = self.trash / f"{token}.json"
        try:
            path.replace(moved)
            os.utime(moved)  # when it came here, not when it was written
        except OSError as error:
            raise _cannot_write(path, error) from None
        return token

    def _empty_trash(self) -> None:
        """Drops for good what has lain there for two weeks, and the oldest of too many."""
        with suppress(OSError):
            lying = sorted(
                ((p.stat().st_mtime, p) for p in self.trash.glob("*.json")), reverse=True
            )
            now = time.time()
            for number, (moved_at, path) in enumerate(lying, start=1):
                if number > MAX_TRASH or now - moved_at > TRASH_S:
                    path.unlink(missing_ok=True)


@lru_cache(maxsize=2 * MAX_KEPT)
def _line(path: Path, _mtime_ns: int, _size: int) -> Kept:
    """A file's line in the list, read once for each state of the file."""
    try:
        return summary(_read(path), path.stem)
    except PlannerError as refusal:
        return Kept(key=path.stem, name=path.name, refusal=refusal.with_traceback(None))


def _read(path: Path) -> Record:
    try:
        # A pipe would wait for whoever writes to it, a device might never end.
        with open(path, "rb", opener=_at_once) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise InvalidInput("measurement_gone", field="measurement")
            content = stream.read(MAX_BYTES + 1)
    except OSError:
        raise InvalidInput("measurement_gone", field="measurement") from None
    return parse_record(content)


def _at_once(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _cannot_write(folder, error) from None


def _write(path: Path, content: bytes) -> None:
    """The whole file or none of it.

    Raises:
        FileExistsError: there is one.
        PlannerError: it can't be written.
    """
    _make(path.parent)
    partial = path.with_name(f"{path.stem}.{uuid4().hex}.part")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.chmod(0o600)
        try:
            os.link(partial, path)  # unlike a rename, never over another file
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            partial.replace(path)
    except FileExistsError:
        raise
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _cannot_write(path: Path, error: OSError) -> PlannerError:
    return PlannerError("file_cannot_be_written", file=str(path), reason=error.strerror or "?")
