"""What is fetched of a repository on the Hub, and in what order; in threads, so that a deadline is one.

Knows no network: it asks whatever `Repository` it's given.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Protocol

from planner.architecture.checkpoint.local import CONFIG, INDEX, SINGLE, model_layers
from planner.architecture.checkpoint.names import group_by_name
from planner.architecture.checkpoint.safetensors import (
    MAX_INDEX_BYTES,
    Index,
    parse_index,
    read_header,
)
from planner.architecture.checkpoint.sizes import CheckpointBytes, Tally, with_checkpoint
from planner.architecture.read_config import MAX_BYTES, parse_config
from planner.errors import InvalidConfig, Unreachable

MAX_INFO_BYTES = 5_000_000
MAX_HEADERS = 400
THREADS = 8
FIRST_BYTES = 128 * 1024  # of a file: holds most headers whole
_REVISION = re.compile(r"[0-9a-f]{40}")

Progress = Callable[[str, int, int], None]
"""Called in the caller's own thread with the step ("info", "config", "index", "headers"), how many are done, of all."""


class Repository(Protocol):
    """A model's repository, until a deadline; everything raises Unreachable."""

    @property
    def model_id(self) -> str: ...
    def remaining(self) -> float:
        """Seconds until the deadline."""
        ...

    def info(self, limit: int) -> bytes:
        """What is said of it, as JSON text."""
        ...

    def read(self, revision: str, name: str, limit: int) -> bytes:
        """A small file, whole."""
        ...

    def read_range(self, revision: str, name: str, offset: int, length: int) -> tuple[bytes, int]:
        """A part of a file, and the size of the whole."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FetchedModel:
    """A model as the Hub has it.

    Attributes:
        config: its config.json.
        checkpoint: what its safetensors files hold; None where it has none.
        revision: the commit that was read.
        from_cache: nothing was fetched now.
        headers_missing: it has safetensors files whose headers didn't come, or not in time; the checkpoint is then
            what an index says in total, or None.
    """

    id: str
    config: dict[str, Any]
    checkpoint: CheckpointBytes | None
    revision: str
    fetched_at: datetime
    from_cache: bool = False
    headers_missing: bool = False

    def configuration(self) -> dict[str, Any]:
        """The configuration, carrying what the checkpoint holds, as a scenario takes it."""
        return with_checkpoint(self.config, self.checkpoint)


def fetch_in_time(
    repository: Repository, deadline_s: float, progress: Progress | None
) -> FetchedModel:
    """The model, or what has come of it by the deadline.

    The fetching runs in a thread that this one listens to. It can't be stopped, but every request of it ends by itself,
    and it doesn't keep the program alive.

    Raises:
        As `planner.architecture.hub.fetch_model`.
    """
    end = monotonic() + deadline_s
    late = Unreachable(
        "hub_timeout", field="model", model=repository.model_id, deadline_s=deadline_s
    )
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    worker = threading.Thread(
        target=_work, args=(repository, messages.put), name="hub", daemon=True
    )
    worker.start()
    partial: FetchedModel | None = None
    while True:
        try:
            message = messages.get(timeout=max(0.0, end - monotonic()))
        except queue.Empty:
            if partial is not None:
                return partial
            raise late from None
        match message:
            case Unreachable() if partial is not None:
                return partial
            case Unreachable(code="hub_timeout"):
                raise late
            case BaseException():
                raise message
            case FetchedModel(headers_missing=True):
                partial = message
            case FetchedModel():
                return message
            case (str() as step, int() as done, int() as total) if progress is not None:
                progress(step, done, total)


def _work(repository: Repository, say: Callable[[Any], None]) -> None:
    """The whole fetch, in the worker; everything it has to say, errors included, goes through `say`."""
    try:
        _fetch(repository, say)
    except BaseException as error:  # noqa: BLE001 — handed to the caller's thread, which raises it
        say(error)


def _fetch(repository: Repository, say: Callable[[Any], None]) -> None:
    model_id = repository.model_id
    say(("info", 0, 1))
    files, revision = _info(repository)
    say(("config", 0, 1))
    if CONFIG not in files:
        raise InvalidConfig("hub_no_config", field="model", model=model_id)
    config = parse_config(repository.read(revision, CONFIG, MAX_BYTES))
    # What a repository's own configuration says about its files isn't taken at its word.
    config = with_checkpoint(config, None)
    fetched = FetchedModel(model_id, config, None, revision, datetime.now(UTC))
    index: Index | None = None
    names: tuple[str, ...] = ()
    if INDEX in files:
        say(("index", 0, 1))
        index = parse_index(repository.read(revision, INDEX, MAX_INDEX_BYTES), INDEX)
        names = index.files
    elif SINGLE in files:
        names = (SINGLE,)
    if index is not None and index.total_bytes is not None:
        total = CheckpointBytes("safetensors", model_id, index.tensors, index.total_bytes)
        fetched = replace(fetched, checkpoint=total)
    if not names or len(names) > MAX_HEADERS:
        say(fetched)
        return
    say(replace(fetched, headers_missing=True))
    tally = _headers(repository, revision, names, model_layers(config), say)
    say(replace(fetched, checkpoint=tally.result("safetensors", model_id)))


def _info(repository: Repository) -> tuple[frozenset[str], str]:
    """Names of the repository's files, and the commit that they are of."""
    content = repository.info(MAX_INFO_BYTES)
    try:
        info = json.loads(content)
        files = frozenset(str(entry["rfilename"]) for entry in info["siblings"])
        revision = info["sha"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Unreachable("hub_broken_answer", field="model", model=repository.model_id) from None
    if not isinstance(revision, str) or not _REVISION.fullmatch(revision):
        raise Unreachable("hub_broken_answer", field="model", model=repository.model_id)
    return files, revision


def _headers(
    repository: Repository,
    revision: str,
    names: tuple[str, ...],
    layers: int | None,
    say: Callable[[Any], None],
) -> Tally:
    """The headers of all files, several at a time."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        try:
            while True:
                file = RemoteFile(repository, revision, waiting.get_nowait())
                done.put(read_header(file))
        except queue.Empty:
            return
        except BaseException as error:  # noqa: BLE001 — handed on
            done.put(error)

    for _ in range(min(THREADS, len(names))):
        threading.Thread(target=read, name="hub-header", daemon=True).start()
    tally = Tally()
    for number in range(len(names)):
        say(("headers", number, len(names)))
        try:
            result = done.get(timeout=repository.remaining())
        except queue.Empty:
            raise Unreachable("hub_timeout", field="model", model=repository.model_id) from None
        if isinstance(result, BaseException):
            raise result
        for tensor in result:
            tally.add(tensor, group_by_name(tensor.name, layers))
    return tally


@dataclass(slots=True, eq=False)
class RemoteFile:
    """A file on the Hub of which parts are read; see `checkpoint.tensors.ByteSource`."""

    repository: Repository
    revision: str
    name: str
    _size: int = -1
    _start: bytes = b""

    @property
    def size(self) -> int:
        self._begin()
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`.

        Raises:
            Unreachable: where they don't come.
        """
        self._begin()
        length = max(0, min(length, self._size - offset))
        if offset + length <= len(self._start):
            return self._start[offset : offset + length]
        content, _ = self.repository.read_range(self.revision, self.name, offset, length)
        return content

    def _begin(self) -> None:
        if self._size < 0:
            self._start, self._size = self.repository.read_range(
                self.revision, self.name, 0, FIRST_BYTES
            )
