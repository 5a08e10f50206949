"""What was fetched from the Hub, kept in files of this computer: one per model, limited in size and number."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from planner.architecture.read_config import MAX_BYTES, parse_config
from planner.errors import InvalidConfig

SCHEMA = 1
MAX_FILE_BYTES = MAX_BYTES + 100_000  # a configuration and what its files hold
MAX_FILES = 500
MAX_TOTAL_BYTES = 100_000_000


def default_home() -> str:
    """HEADROOM_HOME, else a folder of ours among the platform's caches."""
    return os.environ.get("HEADROOM_HOME") or str(_platform_home())


def _platform_home() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "headroom" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "headroom"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headroom"


def _file(home: str, endpoint: str, model_id: str) -> Path:
    # Ids that differ in case only are one file on some systems, so the name also says which Hub and how it's written.
    digest = hashlib.sha256(f"{endpoint} {model_id}".encode()).hexdigest()[:12]
    return Path(home) / "hub" / f"{model_id.replace('/', '--')[:100]}-{digest}.json"


def read_entry(home: str, endpoint: str, model_id: str) -> dict[str, Any] | None:
    """What was kept of a model: `config`, `revision` and `fetched_at`; None where nothing is, or nothing readable.

    Args:
        home: folder, from `default_home`.
        endpoint: address of the Hub that it came from.
    """
    try:
        with _file(home, endpoint, model_id).open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            return None
        entry = parse_config(content[:MAX_BYTES])
        fetched_at = datetime.fromisoformat(str(entry.get("fetched_at")))
    except (OSError, InvalidConfig, ValueError):
        return None
    known = entry.get("schema") == SCHEMA and entry.get("id") == model_id
    whole = isinstance(entry.get("config"), dict) and isinstance(entry.get("revision"), str)
    if not known or not whole or fetched_at.tzinfo is None:
        return None
    return entry | {"fetched_at": fetched_at}


def write_entry(
    home: str,
    endpoint: str,
    model_id: str,
    config: dict[str, Any],
    revision: str,
    fetched_at: datetime,
) -> None:
    """Keeps a model for `read_entry`; without a word where the folder can't be written or the model is too large."""
    entry = {
        "schema": SCHEMA,
        "id": model_id,
        "revision": revision,
        "fetched_at": fetched_at.astimezone(UTC).isoformat(),
        "config": config,
    }
    content = json.dumps(entry).encode()
    if len(content) > MAX_BYTES:
        return
    path = _file(home, endpoint, model_id)
    partial = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial.write_bytes(content)
        partial.chmod(0o600)  # a gated model's configuration is its owner's to read
        partial.replace(path)
        _make_room(path.parent)
    except OSError:
        return


def _make_room(folder: Path) -> None:
    """Drops what was kept longest ago, until the rest is within the limits."""
    kept = sorted(
        ((file.stat().st_mtime, file.stat().st_size, file) for file in folder.glob("*.json")),
        reverse=True,
    )
    total = 0
    for number, (_, size, file) in enumerate(kept, start=1):
        total += size
        if number > MAX_FILES or total > MAX_TOTAL_BYTES:
            file.unlink(missing_ok=True)
