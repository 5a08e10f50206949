"""What the command line prints as data, and what it says of a file that it can't write yet."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from planner.errors import PlannerError
from planner.ui.locale import say_error, text


def print_json(data: Any) -> None:
    """Data on standard output; a terminal or file that can't show every letter gets them as escapes."""
    ascii_only = (sys.stdout.encoding or "ascii").lower().replace("-", "") not in {"utf8", "utf16"}
    print(json.dumps(data, indent=2, ensure_ascii=ascii_only, default=str))


def warn_unwritten(language: str) -> Callable[[PlannerError], None]:
    """What says on standard error that a file can't be written now, and is tried again."""

    def warn(refusal: PlannerError) -> None:
        said = f"{say_error(refusal, language)} {text('measure.cli.tried_again', language)}"
        print(said, file=sys.stderr, flush=True)

    return warn
