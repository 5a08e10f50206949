"""What the command line prints: text, data, and what it says of a file that it can't write yet."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, TextIO

from planner.errors import PlannerError
from planner.ui.locale import say_error, text

# Letters that a terminal acts on, or that turn round how a line reads; line breaks and tabs apart.
ACTED_ON = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """A text, which may quote a file from outside, with escapes in place of what a terminal acts on."""
    return ACTED_ON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def show(text: str, *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Prints a text, on standard output where no file is named."""
    print(harmless(text), file=file, end=end, flush=flush)


def print_json(data: Any) -> None:
    """Data on standard output; a terminal or file that can't show every letter gets them as escapes."""
    ascii_only = (sys.stdout.encoding or "ascii").lower().replace("-", "") not in {"utf8", "utf16"}
    show(json.dumps(data, indent=2, ensure_ascii=ascii_only, default=str))


def warn_unwritten(language: str) -> Callable[[PlannerError], None]:
    """What says on standard error that a file can't be written now, and is tried again."""

    def warn(refusal: PlannerError) -> None:
        said = f"{say_error(refusal, language)} {text('measure.cli.tried_again', language)}"
        show(said, file=sys.stderr, flush=True)

    return warn
