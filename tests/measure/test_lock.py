"""One measurement at a time: between threads, between processes, and after a process that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from planner.errors import Busy, Unsupported
from planner.measure.lock import default_path, holder, machine_lock

HOLDS = """
import sys, time
from pathlib import Path
from planner.measure.lock import machine_lock
with machine_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def holding(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_it_is_free_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(2):
        assert holder(path) is None
        with machine_lock(path):
            found = holder(path)
            assert found is not None
            assert found.pid == str(os.getpid())
            assert datetime.fromisoformat(found.since).tzinfo is not None
    assert holder(path) is None


def test_a_second_one_in_the_same_process_is_turned_away(tmp_path: Path) -> None:
    with (
        machine_lock(tmp_path / "lock"),
        pytest.raises(Busy) as caught,
        machine_lock(tmp_path / "lock"),
    ):
        pass
    assert caught.value.code == "measuring_already"
    assert caught.value.values["pid"] == str(os.getpid())


def test_it_is_released_by_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), machine_lock(tmp_path / "lock"):
        raise ZeroDivisionError
    with machine_lock(tmp_path / "lock"):
        pass


def test_another_process_keeps_it_and_a_killed_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = holding(path)
    try:
        with pytest.raises(Busy) as caught, machine_lock(path):
            pass
        assert caught.value.values["pid"] == str(process.pid)
        found = holder(path)
        assert found is not None
        assert found.pid == str(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        # The file still says that it's held; the lock doesn't.
        assert str(process.pid) in path.read_text()
        assert holder(path) is None
        with machine_lock(path):
            assert str(os.getpid()) in path.read_text()
    finally:
        process.kill()
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.parametrize("said", ["", "{", "[1]", '{"pid": "x", "since": 3}', "\x00" * 5000])
def test_a_file_that_says_nothing_readable_still_locks(tmp_path: Path, said: str) -> None:
    path = tmp_path / "lock"
    with machine_lock(path):
        path.write_text(said)
        found = holder(path)
        assert found is not None
        assert (found.pid, found.since) == ("?", "?")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(Unsupported) as caught, machine_lock(tmp_path / "lock"):
        pass
    assert caught.value.code == "measuring_lock_unusable"
    assert (tmp_path / "victim").read_text() == "mine"


def test_it_lies_where_every_program_of_the_machine_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/somewhere")
    assert default_path() == Path("/somewhere/headroom-measure.lock")
