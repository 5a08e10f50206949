"""Starts the app as a person would, waits until it answers, and ends it with everything that it started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    """A loopback port that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers_ok(url: str) -> bool:
    """True where Streamlit's health check says `ok`; the status isn't enough, it's 200 for any path."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{url}/_stcore/health", timeout=2) as answer:
            return bool(answer.read().strip() == b"ok")
    except OSError:
        return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that leads its own group, and the group with it."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def running_app(
    command: Sequence[str],
    cwd: Path,
    scratch: Path,
    *,
    wait_s: float = 60,
    arguments: str = "{}",
    keep_home: bool = False,
) -> Iterator[str]:
    """The app's address (`http://127.0.0.1:<port>`, without a slash) while it runs.

    Args:
        command: starts the app; its last word will be Streamlit's port option, in the form that `arguments` gives.
        scratch: an empty folder for the log, and for HOME: a user's Streamlit settings don't decide what a test sees.
        wait_s: how long the app may take until it answers (s).
        keep_home: leaves HOME as it is, where the command needs the user's settings for pip.

    Raises:
        RuntimeError: the app ended or didn't answer in time; carries the end of its log.
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith("STREAMLIT_")}
    if not keep_home:
        env["HOME"] = str(scratch)
    log = scratch / "app.log"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, arguments.format(f"--server.port={port}")],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + wait_s
        while not answers_ok(url):
            if process.poll() is not None or time.monotonic() > deadline:
                text = log.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"the app didn't start:\n{text}")
            time.sleep(0.1)
        yield url
    finally:
        stop(process)
