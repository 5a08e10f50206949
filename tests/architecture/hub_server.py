"""A small server on this computer that speaks the part of the Hub's API that is needed, well or badly."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REVISION = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Repository:
    """A model on the server.

    Attributes:
        files: content by name.
        behave: called with a handler and what is asked for ("info" or a file's name); True where it has answered.
        info: what the API says besides.
    """

    files: dict[str, bytes]
    behave: Callable[[Handler, str], bool] = lambda handler, what: False
    info: dict[str, Any] = field(default_factory=dict)


class Handler(BaseHTTPRequestHandler):
    """Answers GET for a model's info and for its files, ranges included."""

    server: Server
    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))
        found = re.fullmatch(r"/api/models/([^/]+/[^/?]+)", self.path)
        if found:
            self._answer(found[1], "info")
            return
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)
        if found:
            self._answer(found[1], found[3])
            return
        self.say(404)

    def _answer(self, model_id: str, what: str) -> None:
        repository = self.server.models.get(model_id)
        if repository is None:
            # As the Hub does: who isn't logged in isn't told which it is.
            self.say(
                401, {"x-error-code": "RepoNotFound", "x-error-message": "Repository not found"}
            )
            return
        if repository.behave(self, what):
            return
        if what == "info":
            siblings = [{"rfilename": name} for name in repository.files]
            info = {"id": model_id, "sha": REVISION, "siblings": siblings} | repository.info
            self.say(200, body=json.dumps(info).encode())
        elif what in repository.files:
            self.file(repository.files[what])
        else:
            self.say(404, {"x-error-code": "EntryNotFound"})

    def file(self, content: bytes) -> None:
        """A file, or the range of it that was asked for."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        if not found:
            self.say(200, body=content)
            return
        first, last = int(found[1]), min(int(found[2]), len(content) - 1)
        part = content[first : last + 1]
        self.say(206, {"content-range": f"bytes {first}-{last}/{len(content)}"}, part)

    def say(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        """A whole response."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """The server.

    Attributes:
        models: repositories by id; requests: paths and headers of what was asked, in order.
        leaving: set when it's about to close, for handlers that wait.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.models: dict[str, Repository] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.leaving = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is nothing to report."""


@contextmanager
def hub_server() -> Iterator[Server]:
    """A running server."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.leaving.set()
            server.shutdown()
            thread.join()
