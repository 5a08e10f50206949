"""What a streaming server sends, read as data: lines of server-sent events, and what each says of an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_LINE_BYTES = 1_000_000
MAX_STREAM_BYTES = 64_000_000
DONE = "[DONE]"
SHORTEST_SECRET = 6


class StreamBroken(Exception):
    """The stream isn't what it should be; `kind` says how: "bad_json", "too_long" or "server_error"."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Piece:
    """One event of an answer.

    Attributes:
        text: it brings some of the answer (also of what the model thinks).
        blank: it brings a part of the answer without text, such as a special token's, which isn't shown.
        finished: the server says that the answer is complete.
        prompt_tokens, completion_tokens: of the whole request, where the event states them.
        done: the stream's own end mark.
    """

    text: bool
    blank: bool
    finished: bool
    prompt_tokens: int | None
    completion_tokens: int | None
    done: bool


class EventStream:
    """Splits bytes into events' data, whatever way they were cut; holds back no more than one line."""

    def __init__(self) -> None:
        self._rest = b""
        self._total = 0

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces that are complete with these bytes.

        Raises:
            StreamBroken: for a line or a stream that is too long, or data that isn't what the API sends.
        """
        self._total += len(data)
        if self._total > MAX_STREAM_BYTES:
            raise StreamBroken("too_long")
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MAX_LINE_BYTES:
            raise StreamBroken("too_long")
        found = []
        for line in lines:
            if len(line) > MAX_LINE_BYTES:
                raise StreamBroken("too_long")
            if line.startswith(b"data:"):
                found.append(read_piece(line[5:].decode("utf-8", "replace").strip()))
        return found


def read_piece(said: str) -> Piece:
    """One event's data.

    Raises:
        StreamBroken: where it isn't JSON, or reports an error.
    """
    if said == DONE:
        return Piece(False, False, False, None, None, True)
    try:
        data = json.loads(said)
    except (ValueError, RecursionError):
        raise StreamBroken("bad_json") from None
    if not isinstance(data, dict):
        raise StreamBroken("bad_json")
    if data.get("error") or data.get("object") == "error":
        raise StreamBroken("server_error")
    choices = data.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    if not isinstance(first, dict):
        raise StreamBroken("bad_json")
    usage = data.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    text = _says_something(first)
    return Piece(
        text,
        not text and _is_part(first),
        first.get("finish_reason") is not None,
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        False,
    )


def _says_something(choice: dict[str, Any]) -> bool:
    if isinstance(choice.get("text"), str) and choice["text"]:
        return True
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    keys = ("content", "reasoning_content", "reasoning")
    return any(isinstance(delta.get(key), str) and delta[key] for key in keys)


def _is_part(choice: dict[str, Any]) -> bool:
    """It has a place for text; one that names a role may come before anything was computed."""
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return "content" in delta and not delta.get("role")
    return isinstance(choice.get("text"), str)


def _count(value: Any) -> int | None:
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9
    return value if usable else None


def without(secret: str) -> Callable[[str], str]:
    """Takes the key out of what a server says: it knows it, and may send it back.

    A word of fewer than SHORTEST_SECRET characters protects nothing, and may well be part of a model's name.
    """
    if len(secret) < SHORTEST_SECRET:
        return lambda said: said
    return lambda said: said.replace(secret, "***")


def read_models(data: bytes, hide: Callable[[str], str]) -> list[tuple[str, str]]:
    """The models that a server lists, each with its owner ("" where none is said); nothing where it isn't a list.

    Args:
        hide: what takes the key out.
    """
    try:
        listed = json.loads(data)["data"]
        return [
            (tidy(one["id"], hide)[:200], tidy(one.get("owned_by") or "", hide)[:60])
            for one in listed[:1_000]
            if isinstance(one, dict) and one.get("id")
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def read_version(data: bytes, hide: Callable[[str], str]) -> str | None:
    """What vLLM answers at /version, without the key; None where it isn't that."""
    try:
        said = json.loads(data)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return tidy(said, hide)[:60] if isinstance(said, str) else None


def tidy(value: Any, hide: Callable[[str], str]) -> str:
    """Text that a file can hold and a terminal can show, without the key."""
    return hide("".join(c if c.isprintable() else "?" for c in str(value)))
