"""A server that speaks OpenAI's streaming API with known timings, or breaks in a wished way; it counts what it sees."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny"


@dataclass
class Fake:
    """How it behaves, and what it saw.

    Attributes:
        owner: of its models; version: what it says at /version, None for nothing.
        first_s, token_s: before the first token, and between tokens.
        fault: of each answer but the first `healthy` ones (see `_Handler._faulty`); "" for none.
        counts: it states tokens; refuses: fields that it answers with 400.
        key: that it asks for, or "".
        gate: so many requests have to be in flight before any of them is answered, the first `healthy` ones apart.
        text: of each token; stop_after: it ends each answer after so many tokens.
        says: counts of tokens that it states whatever was asked, by name.
        software: what it says in the header Server.
        drops_kept: it closes a connection on which it has answered once the next request comes on it.
        elsewhere: port that a redirect names.
        seen: each request's path, headers and body; in_flight, most_in_flight: of completions.
    """

    models: tuple[str, ...] = (MODEL,)
    owner: str = "fake"
    version: bytes | None = None
    first_s: float = 0.0
    token_s: float = 0.0
    fault: str = ""
    healthy: int = 0
    counts: bool = True
    refuses: tuple[str, ...] = ()
    key: str = ""
    gate: threading.Barrier | None = None
    text: str = "word "
    stop_after: int = 10**9
    overhead: int = 3
    tokens_per_word: int = 2
    says: dict[str, int] = field(default_factory=dict)
    software: str = "fake"
    drops_kept: bool = False
    port: int = 0
    elsewhere: int = 9
    seen: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    unplugged: threading.Event = field(default_factory=threading.Event)
    server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of all requests for an answer."""
        return [body for path, _, body in self.seen if path.endswith("completions")]

    def unplug(self) -> None:
        """Closes the listening socket, and drops what is in flight."""
        self.unplugged.set()
        assert self.server is not None
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    fake: Fake
    counted = False
    answered = False  # something, on this connection

    def version_string(self) -> str:
        return self.fake.software

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answered = True
        self._note({})
        if self._refused():
            return
        if self.fake.fault == "redirect_models":
            self._elsewhere()
            return
        if self.path == "/version":
            said = self.fake.version
            self._bytes(404 if said is None else 200, said or b"")
            return
        listed = {"data": [{"id": one, "owned_by": self.fake.owner} for one in self.fake.models]}
        self._plain(200, listed)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fake = self.fake
        if self.answered and fake.drops_kept:
            self.close_connection = True
            return
        self.answered = True
        number = self._note(body)
        self.counted = True
        try:
            if self._refused():
                return
            if fake.gate is not None and number > fake.healthy:
                fake.gate.wait(60.0)
            refused = [name for name in fake.refuses if name in body]
            if refused:
                self._plain(400, {"error": {"message": f"unknown field {refused[0]}"}})
            elif fake.fault and number > fake.healthy:
                self._faulty(body)
            else:
                self._stream(body)
        except (BrokenPipeError, ConnectionResetError, threading.BrokenBarrierError):
            self.close_connection = True
        finally:
            self._landed()

    def _note(self, body: dict[str, Any]) -> int:
        """Writes the request down; the number of requests for an answer by now."""
        fake = self.fake
        with fake.lock:
            fake.seen.append((self.path, dict(self.headers), body))
            if body:
                fake.in_flight += 1
                fake.most_in_flight = max(fake.most_in_flight, fake.in_flight)
            return len(fake.asked)

    def _landed(self) -> None:
        """The client hasn't seen the end yet, so that it can't have sent the next request."""
        with self.fake.lock:
            self.fake.in_flight -= self.counted
        self.counted = False

    def _elsewhere(self) -> None:
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.1:{self.fake.elsewhere}/v1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _refused(self) -> bool:
        wanted = self.fake.key
        if wanted and self.headers.get("Authorization") != f"Bearer {wanted}":
            given = self.headers.get("Authorization")
            self._plain(401, {"error": {"message": f"wrong key {given}"}})
            return True
        return False

    def _plain(self, status: int, said: dict[str, Any]) -> None:
        self._bytes(status, json.dumps(said).encode())

    def _bytes(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    # --- Answers -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _event(self, said: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(said).encode() + b"\n\n")

    def _wait(self, seconds: float) -> None:
        if self.fake.unplugged.wait(seconds) if seconds else self.fake.unplugged.is_set():
            self.close_connection = True
            raise ConnectionResetError

    def _token(self, number: int) -> dict[str, Any]:
        text = self.fake.text
        if "chat" in self.path:
            return {"choices": [{"delta": {"content": text}, "finish_reason": None}]}
        return {"choices": [{"text": text, "finish_reason": None}], "id": str(number)}

    def _stream(self, body: dict[str, Any]) -> None:
        tokens = min(int(body["max_tokens"]), self.fake.stop_after)
        self._begin()
        self._wait(self.fake.first_s)
        for number in range(tokens):
            if number:
                self._wait(self.fake.token_s)
            self._event(self._token(number))
        last = self._token(tokens)
        last["choices"] = [{"delta": {}, "text": "", "finish_reason": "length"}]
        self._event(last)
        if self.fake.counts and "stream_options" in body:
            prompt = body.get("prompt") or body["messages"][0]["content"]
            words = len(prompt.split())
            usage = {
                "prompt_tokens": words * self.fake.tokens_per_word + self.fake.overhead,
                "completion_tokens": tokens,
                **self.fake.says,
            }
            self._event({"choices": [], "usage": usage})
        self._landed()
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _faulty(self, body: dict[str, Any]) -> None:
        fault = self.fake.fault
        if fault.isdigit():
            self._plain(int(fault), {"error": {"message": "no"}})
            return
        if fault == "redirect":
            self._elsewhere()
            return
        if fault == "empty":
            self.fake.stop_after = 0
            self._stream(body)
            return
        self._begin()
        if fault == "closed":
            self._event(self._token(0))
            self.close_connection = True
            self.connection.shutdown(2)
        elif fault == "early_end":
            self._event(self._token(0))
            self._chunk(b"")
        elif fault == "bad_json":
            self._chunk(b"data: {not json\n\n")
            self._chunk(b"")
        elif fault == "html":
            self._chunk(b"<html>welcome</html>\n")
            self._chunk(b"")
        elif fault == "error_event":
            self._event({"error": {"message": "out of memory"}})
            self._chunk(b"")
        elif fault == "endless_line":
            while True:
                self._wait(0.0)
                self._chunk(b"data: " + b"x" * 60_000)
        elif fault == "endless_answer":
            while True:
                self._wait(0.0)
                self._event(self._token(0))
        elif fault == "hang":
            self._event(self._token(0))
            self._wait(60.0)
        elif fault == "drip":
            while True:
                self._wait(0.05)
                self._chunk(b": still here\n")
        else:
            raise AssertionError(fault)


@contextmanager
def running(**behaviour: Any) -> Iterator[Fake]:
    """A fake server on a port of its own."""
    fake = Fake(**behaviour)
    handler = type("Handler", (_Handler,), {"fake": fake})

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            pass

    fake.server = Server(("127.0.0.1", 0), handler)
    fake.port = fake.server.server_address[1]
    thread = threading.Thread(target=fake.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        if not fake.unplugged.is_set():
            fake.unplug()
        thread.join(5.0)


def wait_until(asked: Any, seconds: float = 20.0) -> None:
    """Waits for something to become true."""
    until = time.monotonic() + seconds
    while not asked():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)
