"""Stands in for `python -m planner measure`: writes progress and a record as that does, and behaves as it is told.

Run as `fake_run.py BEHAVIOUR … --progress -o FILE`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

SPREAD = {"median": 0.1, "low": 0.09, "high": 0.12, "repeats": 5}


def tell(phase: str, done: int = 0, total: int = 0, **more: object) -> None:
    said = {"phase": phase, "done": done, "total": total, "elapsed_s": 1.0, "left_s": 2.0}
    print(json.dumps(said | more), flush=True)


def write(path: Path, rows: int, notes: list[str]) -> None:
    record = {
        "format": "headroom-measurement",
        "schema_version": 1,
        "name": "fake",
        "date": "2026-11-30T12:00:00+00:00",
        "origin": "device",
        "accelerator": "t4",
        "conditions": {"noisy": False},
        "notes": notes,
        "rows": [
            {
                "id": f"row-{number}",
                "scenario": {"model": "Qwen/Qwen2.5-0.5B", "engine": "transformers"},
                "arrivals": "together",
                "measured": {"tpot_s": SPREAD},
            }
            for number in range(rows)
        ],
    }
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(record))
    partial.replace(path)


def main() -> int:
    behaviour, path = sys.argv[1], Path(sys.argv[sys.argv.index("-o") + 1])
    print("a library's banner, not progress")
    tell("probe", 1, 1)
    if behaviour == "refuses":
        print("Measuring needs torch.", file=sys.stderr)
        return 1
    tell("rates", 1, 3)
    write(path, 1, [])
    if behaviour == "done":
        tell("rates", 3, 3, values={"ttft_s": 0.5})
        write(path, 3, [])
        tell("done", 1, 1)
        return 0
    if behaviour == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour == "polite":

        def stop(*_: object) -> None:
            write(path, 2, ["cancelled"])
            tell("cancelled")
            raise SystemExit(1)

        signal.signal(signal.SIGTERM, stop)
    if behaviour == "gated":
        folder = Path(os.environ["FAKE_RUN_FOLDER"])
        tell("visits", 1, 3, elapsed_s=40.0, left_s=20.0)
        while not (folder / "go").exists():
            time.sleep(0.02)
        (folder / "found.json").replace(path)
        tell("done", 1, 1)
        return 0
    if behaviour == "family":
        # A child that holds an open port, which tells whoever asks that it lives.
        with socket.create_server(("127.0.0.1", 0)) as held:
            sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
            subprocess.Popen(sleep, pass_fds=[held.fileno()])
            tell("load", 0, 1, values={"port": float(held.getsockname()[1])})
    if behaviour == "chatty":
        for number in range(20_000):
            print("x" * 100, number, file=sys.stderr)
        print("y" * 1_000_000, flush=True)
        tell("done", 1, 1)
        return 0
    tell("visits", 1, 9)
    time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main())
