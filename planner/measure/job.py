"""A measurement in a process of its own: started, watched, cancelled, and what it found kept however it ends.

The process leads its own group, so that ending it ends whatever it started. Threads read what it says; whoever asks
gets a view, which doesn't change any more.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from planner.errors import Busy, PlannerError
from planner.measure.lock import holder
from planner.measure.record import Record
from planner.measure.store import Store

State = Literal["running", "cancelling", "done", "cancelled", "failed"]
ENDED = frozenset({"done", "cancelled", "failed"})
PHASES = (
    "probe", "rates", "load", "visits", "warmup", "requests", "fit", "done", "cancelled", "failed",
)  # fmt: skip
GRACE_S = 20.0  # to write what there is and leave; a row in progress may be long
LONGEST_LINE = 20_000
KEPT_ERROR_CHARACTERS = 4_000
MAX_VALUES = 20
LEFT_BEHIND_S = 120.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is in one of its phases.

    Attributes:
        done, total: steps of the phase; total 0 where nobody knows.
        elapsed_s, left_s: of the whole run; None where it didn't say.
        note: code of something to know, or None; values: what was found, by name.
    """

    phase: str
    done: int
    total: int
    elapsed_s: float | None = None
    left_s: float | None = None
    note: str | None = None
    values: Mapping[str, str | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobView:
    """A run as it stands.

    Attributes:
        owner: token of whoever started it; about: what they asked for, to show it.
        phases: the latest of each phase that has begun, in order.
        exit_code: of the process, negative for a signal; None while it runs.
        said: the end of what it wrote to standard error.
        key, record: what was kept of it in the store, or None where nothing was measured; kept_refusal: why it couldn't
            be kept, where it couldn't.
    """

    state: State
    owner: str
    about: Mapping[str, str]
    started_at: float
    phases: tuple[Progress, ...] = ()
    exit_code: int | None = None
    said: str = ""
    key: str | None = None
    record: Record | None = None
    kept_refusal: PlannerError | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def latest(self) -> Progress | None:
        """The phase that it is in."""
        return self.phases[-1] if self.phases else None


def read_progress(line: str) -> Progress | None:
    """A line of the process as progress; None for anything else that a library may have printed."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("phase") not in PHASES:
        return None
    values = said.get("values")
    kept = {
        str(name)[:60]: value[:200] if isinstance(value, str) else float(value)
        for name, value in (list(values.items())[:MAX_VALUES] if isinstance(values, dict) else ())
        if isinstance(value, str) or _number(value) is not None
    }
    note = said.get("note")
    return Progress(
        phase=said["phase"],
        done=int(_number(said.get("done")) or 0),
        total=int(_number(said.get("total")) or 0),
        elapsed_s=_number(said.get("elapsed_s")),
        left_s=_number(said.get("left_s")),
        note=note[:60] if isinstance(note, str) else None,
        values=kept,
    )


def _number(value: Any) -> float | None:
    """A plain number that isn't negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    with suppress(OverflowError):
        if 0.0 <= float(value) < math.inf:
            return float(value)
    return None


def measure_command(arguments: Sequence[str]) -> list[str]:
    """The command line's own verb, under this Python."""
    return [sys.executable, "-m", "planner", "measure", *arguments]


def with_calibration(record: Record) -> Record:
    """The record with the calibration that its rows give, where it has none yet: a run that was ended had no time."""
    if record.calibration is not None:
        return record
    from planner.measure.own_fit import calibrated  # here: fitting isn't on the import path

    try:
        return calibrated(record)
    except PlannerError:  # rows that the planner has no answer for
        return record


class Job:
    """One run."""

    def __init__(
        self,
        command: Sequence[str],
        written_to: Path,
        keep: Callable[[Path], tuple[str, Record] | None],
        *,
        owner: str,
        about: Mapping[str, str],
        given: bytes = b"",
        grace_s: float = GRACE_S,
    ) -> None:
        """Starts it.

        Args:
            command: what writes progress to standard output, and its record to `written_to`.
            keep: takes the record's file once the process has ended, whichever way.
            given: what the process reads from its standard input.

        Raises:
            PlannerError: the process can't be started (`measuring_not_started`).
        """
        self._keep, self._written_to, self._grace_s = keep, written_to, grace_s
        self._owner, self._about, self._started_at = owner, dict(about), time.time()
        self._lock = threading.Lock()
        self._phases: dict[str, Progress] = {}
        self._said: deque[str] = deque(maxlen=60)
        self._cancelling = False
        self._end: JobView | None = None
        group: dict[str, Any] = (
            {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
            if sys.platform == "win32"
            else {"start_new_session": True}
        )
        try:
            # A file without a name: a pipe would keep whoever starts the process until it has read everything.
            with tempfile.TemporaryFile() as standard_input:
                standard_input.write(given)
                standard_input.seek(0)
                self._process = subprocess.Popen(
                    list(command),
                    cwd=ROOT,
                    stdin=standard_input,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    **group,
                )
        except OSError as error:
            raise PlannerError("measuring_not_started", reason=error.strerror or "?") from None
        self._readers = [
            threading.Thread(
                target=self._read, args=(self._process.stdout, self._take), daemon=True
            ),
            threading.Thread(
                target=self._read, args=(self._process.stderr, self._hear), daemon=True
            ),
        ]
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        for thread in (*self._readers, self._watcher):
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def view(self) -> JobView:
        """How it stands now."""
        with self._lock:
            return self._end or self._view("cancelling" if self._cancelling else "running")

    def cancel(self) -> None:
        """Asks it to stop with what it has, and ends it where it doesn't listen; returns at once."""
        with self._lock:
            if self._cancelling or self._end:
                return
            self._cancelling = True
        self._signal("SIGTERM")
        threading.Thread(target=self._insist, daemon=True).start()

    def wait(self, timeout_s: float) -> JobView:
        """The view once it has ended, or after `timeout_s`."""
        self._watcher.join(timeout_s)
        return self.view()

    # --- Threads -----------------------------------------------------------------------------------------------------

    def _read(self, stream: IO[str], take: Callable[[str], None]) -> None:
        with stream:
            while line := stream.readline(LONGEST_LINE):
                take(line)

    def _take(self, line: str) -> None:
        progress = read_progress(line)
        if progress is None:
            return
        with self._lock:
            # A phase that is told again, as building after visits, is the latest again.
            self._phases.pop(progress.phase, None)
            self._phases[progress.phase] = progress

    def _hear(self, line: str) -> None:
        with self._lock:
            self._said.append(line)

    def _insist(self) -> None:
        try:
            self._process.wait(self._grace_s)
        except subprocess.TimeoutExpired:
            self._signal("SIGKILL")

    def _watch(self) -> None:
        """Waits for the end, ends what is left of the group, keeps what was measured, and says how it ended."""
        code = self._process.wait()
        self._signal("SIGKILL")
        for thread in self._readers:
            thread.join(self._grace_s)
        key, record, refusal = None, None, None
        try:
            if found := self._keep(self._written_to):
                key, record = found
        except PlannerError as error:
            refusal = error
        with self._lock:
            last = next(reversed(self._phases), "")
            if code == 0 and last not in ("cancelled", "failed"):
                state: State = "done"
            elif self._cancelling or last == "cancelled":
                state = "cancelled"
            else:
                state = "failed"
            self._end = self._view(state, code, key, record, refusal)

    def _view(
        self,
        state: State,
        code: int | None = None,
        key: str | None = None,
        record: Record | None = None,
        refusal: PlannerError | None = None,
    ) -> JobView:
        return JobView(
            state=state,
            owner=self._owner,
            about=self._about,
            started_at=self._started_at,
            phases=tuple(self._phases.values()),
            exit_code=code,
            said="".join(self._said)[-KEPT_ERROR_CHARACTERS:].strip(),
            key=key,
            record=record,
            kept_refusal=refusal,
        )

    def _signal(self, name: str) -> None:
        """Sends a signal to the group; where there are no groups, ends the process."""
        if sys.platform == "win32":
            with suppress(OSError):
                self._process.terminate()
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, getattr(signal, name))


class Jobs:
    """The machine's one run, and what came of the last."""

    def __init__(
        self,
        store: Store | None = None,
        command: Callable[[Sequence[str]], Sequence[str]] | None = None,
        *,
        grace_s: float = GRACE_S,
    ) -> None:
        self.store = store or Store()
        self._command, self._grace_s = command or measure_command, grace_s
        self._starting = threading.Lock()
        self._job: Job | None = None

    def start(
        self, arguments: Sequence[str], *, owner: str, about: Mapping[str, str], given: bytes = b""
    ) -> Job:
        """Starts a measurement.

        Args:
            arguments: of the verb `measure`; where it writes and that it tells its progress are added.
            owner: token of whoever starts it.
            about: what was asked for, to show it.
            given: what it reads from its standard input.

        Raises:
            Busy: something is being measured on this machine already.
            PlannerError: the process or its folder can't be made.
        """
        with self._starting:
            if self._job is not None and not self._job.view().ended:
                since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self._job.view().started_at))
                raise Busy("measuring_already", pid=str(self._job.pid), since=since)
            if found := holder():
                raise Busy("measuring_already", pid=found.pid, since=found.since)
            place = self.store.place_for_run()
            self._job = Job(
                self._command([*arguments, "--progress", "-o", str(place)]),
                place,
                self._keep,
                owner=owner,
                about=about,
                given=given,
                grace_s=self._grace_s,
            )
            return self._job

    def view(self) -> JobView | None:
        """The run that is on, or the last one; None before the first, and after it was put away."""
        job = self._job
        return job.view() if job else None

    def cancel(self) -> None:
        """Cancels the run that is on."""
        if job := self._job:
            job.cancel()

    def put_away(self) -> None:
        """Forgets a run that has ended; what was kept of it stays in the store."""
        with self._starting:
            if self._job is not None and self._job.view().ended:
                self._job = None

    def collect_left_behind(self) -> int:
        """Keeps what runs wrote whose server was ended before them; returns how many there were."""
        view = self.view()
        if (view and not view.ended) or holder():
            return 0
        found = 0
        for path in self.store.left_behind():
            with suppress(OSError, PlannerError):
                if time.time() - path.stat().st_mtime > LEFT_BEHIND_S:
                    found += self._keep(path) is not None
        return found

    def _keep(self, path: Path) -> tuple[str, Record] | None:
        return self.store.collect(path, with_calibration)
