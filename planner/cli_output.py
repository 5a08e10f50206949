"""What the command line prints as data."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(data: Any) -> None:
    """Data on standard output; a terminal or file that can't show every letter gets them as escapes."""
    ascii_only = (sys.stdout.encoding or "ascii").lower().replace("-", "") not in {"utf8", "utf16"}
    print(json.dumps(data, indent=2, ensure_ascii=ascii_only, default=str))
