"""How far a measurement is, told as it goes: a line of JSON each, or to a person."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TextIO

Listener = Callable[[dict[str, Any]], None]


class Teller:
    """Tells each step to a listener, with the time since the start and what is left.

    Attributes:
        start_s: on time.monotonic's clock.
    """

    def __init__(self, listener: Listener | None, start_s: float | None = None) -> None:
        self.listener = listener
        self.start_s = time.monotonic() if start_s is None else start_s

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.start_s

    def say(
        self,
        phase: str,
        done: int = 0,
        total: int = 0,
        *,
        left_s: float | None = None,
        note: str | None = None,
        values: dict[str, str | float] | None = None,
    ) -> None:
        """One step.

        Args:
            phase: "probe", "rates", "load", "visits", "warmup", "requests", "fit", "done", "cancelled" or "failed";
                done, total: steps of it.
            left_s: of the whole run, as far as is known (s).
            note: code of something to know; values: what was found.
        """
        if self.listener is None:
            return
        self.listener(
            {
                "phase": phase,
                "done": done,
                "total": total,
                "elapsed_s": round(self.elapsed_s, 2),
                "left_s": None if left_s is None else round(max(left_s, 0.0), 1),
                "note": note,
                "values": values or {},
            }
        )


def json_lines(stream: TextIO) -> Listener:
    """A listener that writes each step as a line of JSON at once."""

    def tell(step: dict[str, Any]) -> None:
        stream.write(json.dumps(step) + "\n")
        stream.flush()

    return tell
