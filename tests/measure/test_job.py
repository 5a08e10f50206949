"""A measurement in a process of its own: however it ends, the state says so and what was measured is kept."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import Busy, PlannerError
from planner.measure import job as jobs_module
from planner.measure import store as stores
from planner.measure.job import ROOT, Job, Jobs, JobView, measure_command, read_progress
from planner.measure.lock import machine_lock
from planner.measure.store import Store

FAKE = Path(__file__).with_name("fake_run.py")
LONG_S = 60.0  # never waited for where all is well


def fake(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, str(FAKE), *arguments]


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = Jobs(Store(tmp_path / "home"), fake, grace_s=LONG_S)
    yield found
    view = found.view()
    if found._job is not None and view is not None and not view.ended:
        os.killpg(found._job.pid, signal.SIGKILL)
        found._job.wait(LONG_S)


def start(jobs: Jobs, behaviour: str) -> Job:
    return jobs.start([behaviour], owner="me", about={"device": "cpu"})


def until(job: Job, holds: Callable[[JobView], bool]) -> JobView:
    deadline = time.monotonic() + LONG_S
    while not holds(job.view()):
        assert time.monotonic() < deadline, job.view()
        time.sleep(0.01)
    return job.view()


def decoding(view: JobView) -> bool:
    return view.latest is not None and view.latest.phase == "visits"


def alive(port: int) -> bool:
    """Whether the program that listens there still does: a dead one's sockets are closed, reaped or not."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5.0).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_run_to_the_end(jobs: Jobs) -> None:
    assert jobs.view() is None
    view = start(jobs, "done").wait(LONG_S)
    assert (view.state, view.exit_code, view.kept_refusal) == ("done", 0, None)
    assert [one.phase for one in view.phases] == ["probe", "rates", "done"]
    assert (view.phases[1].done, view.phases[1].total) == (3, 3)
    assert dict(view.phases[1].values) == {"ttft_s": 0.5}
    assert (view.owner, view.about) == ("me", {"device": "cpu"})
    assert view.key is not None
    assert view.record is not None
    assert jobs.store.load(view.key) == view.record
    assert len(view.record.rows) == 3
    assert jobs.store.left_behind() == []
    assert jobs.view() == view
    jobs.put_away()
    assert jobs.view() is None
    assert [one.key for one in jobs.store.kept()] == [view.key]


def test_a_killed_process_fails_and_keeps_what_was_measured(jobs: Jobs) -> None:
    view = start(jobs, "killed").wait(LONG_S)
    assert (view.state, view.exit_code) == ("failed", -signal.SIGKILL)
    assert view.record is not None
    assert [row.id for row in view.record.rows] == ["row-0"]
    assert view.key is not None
    assert jobs.store.load(view.key) == view.record


def test_killed_from_outside_while_it_decodes(jobs: Jobs) -> None:
    job = start(jobs, "sleeps")
    until(job, decoding)
    os.kill(job.pid, signal.SIGKILL)
    view = job.wait(LONG_S)
    assert view.state == "failed"
    assert view.record is not None


def test_a_refusal_is_passed_on_and_nothing_is_kept(jobs: Jobs) -> None:
    view = start(jobs, "refuses").wait(LONG_S)
    assert (view.state, view.exit_code, view.said) == ("failed", 1, "Measuring needs torch.")
    assert (view.key, view.record) == (None, None)
    assert jobs.store.kept() == []


def test_cancelling_keeps_what_it_writes_last(jobs: Jobs) -> None:
    job = start(jobs, "polite")
    until(job, decoding)
    assert job.view().state == "running"
    jobs.cancel()
    jobs.cancel()
    view = job.wait(LONG_S)
    assert view.state == "cancelled"
    assert view.record is not None
    assert view.record.notes == ["cancelled"]
    assert len(view.record.rows) == 2


def test_one_that_does_not_listen_is_ended(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs._grace_s = 0.2
    job = start(jobs, "deaf")
    until(job, decoding)
    job.cancel()
    assert job.view().state == "cancelling"
    view = job.wait(LONG_S)
    assert (view.state, view.exit_code) == ("cancelled", -signal.SIGKILL)
    assert view.record is not None


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_what_it_started_ends_with_it(jobs: Jobs, how: str) -> None:
    job = start(jobs, "family")
    view = until(job, lambda seen: any("port" in one.values for one in seen.phases))
    port = next(int(one.values["port"]) for one in view.phases if "port" in one.values)
    assert alive(port)
    if how == "cancel":
        job.cancel()
    else:
        os.kill(job.pid, signal.SIGKILL)
    view = job.wait(LONG_S)
    assert view.state == ("cancelled" if how == "cancel" else "failed")
    deadline = time.monotonic() + LONG_S
    while alive(port):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_starting_twice_is_refused_and_harms_nothing(jobs: Jobs) -> None:
    job = start(jobs, "sleeps")
    with pytest.raises(Busy) as caught:
        start(jobs, "done")
    assert caught.value.code == "measuring_already"
    assert caught.value.values["pid"] == str(job.pid)
    assert job.view().state == "running"
    job.cancel()
    assert job.wait(LONG_S).state == "cancelled"
    assert start(jobs, "done").wait(LONG_S).state == "done"


def test_another_program_s_measurement_is_respected(jobs: Jobs) -> None:
    with machine_lock(), pytest.raises(Busy) as caught:
        start(jobs, "done")
    assert caught.value.values["pid"] == str(os.getpid())
    assert jobs.view() is None


def test_much_noise_is_no_harm(jobs: Jobs) -> None:
    view = start(jobs, "chatty").wait(LONG_S)
    assert view.state == "done"
    assert len(view.said) <= jobs_module.KEPT_ERROR_CHARACTERS
    assert view.said.endswith("19999")


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    jobs = Jobs(Store(tmp_path / "home"), lambda _: [str(tmp_path / "nothing")])
    with pytest.raises(PlannerError) as caught:
        start(jobs, "done")
    assert caught.value.code == "measuring_not_started"
    assert jobs.view() is None


def test_what_cannot_be_kept_says_so(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MAX_KEPT", 0)
    view = start(jobs, "done").wait(LONG_S)
    assert view.state == "done"
    assert view.kept_refusal is not None
    assert view.kept_refusal.code == "measurements_full"
    assert len(jobs.store.left_behind()) == 1


def test_what_a_run_of_an_ended_server_left_is_kept(jobs: Jobs) -> None:
    path = jobs.store.place_for_run()
    start(jobs, "done").wait(LONG_S)
    (record,) = [jobs.store.load(one.key) for one in jobs.store.kept()]
    path.write_text(record.model_dump_json())
    assert jobs.collect_left_behind() == 0  # so new that its run may still be on
    os.utime(path, (0, 0))
    with machine_lock():
        assert jobs.collect_left_behind() == 0
    assert jobs.collect_left_behind() == 1
    assert [one.name for one in jobs.store.kept()] == ["fake"]


def test_it_runs_the_command_line_of_this_python() -> None:
    command = measure_command(["--quick"])
    assert command == [sys.executable, "-m", "planner", "measure", "--quick"]
    assert (ROOT / "planner" / "__main__.py").exists()


@pytest.mark.parametrize(
    "line",
    ["", "x", "[1]", "1", '"visits"', '{"phase": "other"}', '{"phase": 3}', "[" * 50_000, "{" * 9],
)
def test_what_is_not_progress_is_passed_over(line: str) -> None:
    assert read_progress(line) is None


@given(
    st.fixed_dictionaries(
        {"phase": st.just("visits")},
        optional={
            name: st.recursive(
                st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=300),
                lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
                max_leaves=5,
            )
            for name in ("done", "total", "elapsed_s", "left_s", "note", "values")
        },
    )
)
def test_whatever_it_says_becomes_numbers_and_short_texts(said: dict[str, object]) -> None:
    found = read_progress(json.dumps(said))
    assert found is not None
    assert found.done >= 0
    assert found.total >= 0
    assert found.note is None or len(found.note) <= 60
    assert all(isinstance(one, (str, float)) for one in found.values.values())


@pytest.mark.slow
@pytest.mark.measure
@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_the_command_line_s_own_run_is_ended_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # its lock isn't the machine's
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    jobs = Jobs(Store(tmp_path / "home"))
    arguments = ["--device", "cpu", "--quick", "--no-check"]
    job = jobs.start(arguments, owner="me", about={"device": "cpu"})
    deadline = time.monotonic() + 300.0
    while not any(one.phase == "visits" and one.done > 0 for one in job.view().phases):
        assert not job.view().ended, job.view()
        assert time.monotonic() < deadline, job.view()
        time.sleep(0.1)
    if how == "cancel":
        job.cancel()
    else:
        os.kill(job.pid, signal.SIGKILL)
    view = job.wait(300.0)
    assert view.state == ("cancelled" if how == "cancel" else "failed")
    assert view.record is not None
    assert any(row.outcome == "measured" for row in view.record.rows)
    assert ("cancelled" in view.record.notes) is (how == "cancel")
    assert view.key is not None
    assert jobs.store.load(view.key) == view.record
    assert list(jobs.store.running.iterdir()) == []
