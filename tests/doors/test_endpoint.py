"""`measure endpoint` as a person runs it: in a process of its own, against a fake server on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from planner.cli import main
from planner.measure.lock import machine_lock
from planner.measure.record import parse_record
from planner.ui.locale import LANGUAGES, text
from tests.measure.fake_openai import Fake, running, wait_until

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-headroom-cli-9876543210"
SMALL = ["--input-tokens", "30", "--output-tokens", "4", "--requests", "4", "--concurrency", "1,2"]
ONE_BY_ONE = ["--concurrency", "1,1"]
KNOWN = ["--catalogue-model", "Qwen/Qwen2.5-0.5B-Instruct", "--gpu", "l4", "--engine", "vllm"]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The lock's folder is the test's own: other tests measure too."""
    return os.environ | {"TMPDIR": str(folder), "LC_ALL": "C.UTF-8"} | more


@contextmanager
def started(
    folder: Path, fake: Fake, *more: str, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "measure", "endpoint", fake.url, *more],
        cwd=ROOT,
        env=environment(folder, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ran(folder: Path, fake: Fake, *more: str, **variables: str) -> tuple[int, str, str]:
    with started(folder, fake, *more, **variables) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_says_what_was_measured_and_what_was_predicted(language: str, tmp_path: Path) -> None:
    with running() as fake:
        code, out, err = ran(tmp_path, fake, *SMALL, *KNOWN, "--lang", language)
    assert code == 0, err
    assert text("endpoint.load_closed", language, load=2.0) in out
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s", "output_tokens_per_s"):
        assert text(f"measure.quantity.{name}", language) in out
    assert text("measure.column.before_error", language) in out
    assert out.count(text("measure.note.ttft_from_sending", language)) == 1
    assert text("endpoint.step.requests", language) in err


def test_json_and_the_file_hold_the_same_measurement(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    with running() as fake:
        code, out, _ = ran(tmp_path, fake, *SMALL, *KNOWN, "--json", "-o", str(file))
    assert code == 0
    said = json.loads(out)
    record = parse_record(file.read_bytes())
    assert said["measurement"] == record.model_dump(mode="json")
    assert record.accelerator == "l4"
    assert {(one["row"], one["quantity"]) for one in said["comparison"]} >= {
        ("endpoint-1-c1", "tpot_s"),
        ("endpoint-2-c2", "ttft_s"),
    }


def test_where_nobody_says_what_it_runs_on_nothing_is_compared(tmp_path: Path) -> None:
    with running() as fake:
        code, out, _ = ran(tmp_path, fake, *SMALL)
        assert text("endpoint.not_compared", "en") in out
        assert json.loads(ran(tmp_path, fake, *SMALL, "--json")[1])["comparison"] is None
    assert code == 0


def test_progress_is_lines_of_json_and_nothing_else(tmp_path: Path) -> None:
    with running() as fake:
        code, out, err = ran(tmp_path, fake, *SMALL, "--progress")
    steps = [json.loads(line) for line in out.splitlines()]
    assert (code, err, steps[-1]["phase"]) == (0, "", "done")
    assert [step["done"] for step in steps if step["phase"] == "requests"] == list(range(1, 9))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_was_measured(number: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    said = (*SMALL, *ONE_BY_ONE, "--progress", "-o", str(file))
    with (
        running(fault="hang", healthy=2 + 2 + 4 + 1) as fake,
        started(tmp_path, fake, *said) as process,
    ):
        wait_until(lambda: len(fake.asked) == 2 + 2 + 4 + 2)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert json.loads(out.splitlines()[-1])["phase"] == "cancelled"
    record = parse_record(file.read_bytes())
    assert record.notes == ["cancelled"]
    assert [row.counts for row in record.rows] == [{"done": 4}, {"done": 1, "cut_off": 1}]


def test_killed_it_leaves_the_loads_before(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    said = (*SMALL, *ONE_BY_ONE, "-o", str(file))
    with (
        running(fault="hang", healthy=2 + 2 + 4) as fake,
        started(tmp_path, fake, *said) as process,
    ):
        wait_until(lambda: len(fake.asked) == 2 + 2 + 4 + 1)
        process.kill()
        process.communicate(timeout=60)
    assert [row.id for row in parse_record(file.read_bytes()).rows] == ["endpoint-1-c1"]


def test_everything_failed_is_said_and_is_no_success(tmp_path: Path) -> None:
    with running(fault="429", healthy=2 + 2) as fake:
        code, out, _ = ran(tmp_path, fake, *SMALL)
    assert code == 1
    assert "HTTP 429: 4" in out


# --- The key ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["", "429"])
@pytest.mark.parametrize("form", ["--json", "--progress", "--lang=es"])
def test_the_key_is_in_no_output(fault: str, form: str, tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    with running(key=KEY, fault=fault, healthy=2 + 2) as fake:
        code, out, err = ran(
            tmp_path, fake, *SMALL, form, "-o", str(file), HEADROOM_ENDPOINT_KEY=KEY
        )
    assert code == (1 if fault else 0), err
    assert KEY not in out + err + file.read_text()


@pytest.mark.parametrize("models", [(f"tiny-{KEY}",), ("a", KEY)])
@pytest.mark.parametrize("form", ["--json", "--progress", "--lang=es"])
def test_a_key_that_the_server_sends_back_is_in_no_output(
    form: str, models: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "measured.json"
    with running(key=KEY, models=models, owner=f"by {KEY}", software=KEY) as fake:
        code, out, err = ran(
            tmp_path, fake, *SMALL, form, "-o", str(file), HEADROOM_ENDPOINT_KEY=KEY
        )
    assert code == len(models) - 1, err
    assert "***" in (file.read_text() if len(models) == 1 else out + err)
    assert KEY not in out + err + (file.read_text() if file.exists() else "")


def test_a_wrong_key_is_told_of_and_not_shown(tmp_path: Path) -> None:
    with running(key="another") as fake:
        code, out, err = ran(tmp_path, fake, *SMALL, "--json", HEADROOM_ENDPOINT_KEY=KEY)
    assert code == 1
    assert "HEADROOM_ENDPOINT_KEY" in err
    assert json.loads(out)["error"]["code"] == "endpoint_key_refused"
    assert KEY not in out + err
    assert "Traceback" not in err


# --- Refusals, before anything is sent --------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["measure", "endpoint", *arguments, "--json"]) == 1
    said = capsys.readouterr()
    assert said.err.strip()
    error: dict[str, Any] = json.loads(said.out)["error"]
    return error


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--concurrency", "1,x"], "endpoint_bad_list"),
        (["--rate", "fast"], "endpoint_bad_list"),
        (["--rate", "nan"], "endpoint_out_of_range"),
        (["--concurrency", "0"], "endpoint_out_of_range"),
        (["--requests", "5000"], "endpoint_out_of_range"),
        (["--trace", "/nowhere/trace.csv"], "file_unreadable"),
        (
            ["--catalogue-model", "Qwen/Qwen2.5-0.5B", "--gpu", "no-such-card"],
            "unknown_accelerator",
        ),
        (["--catalogue-model", "no/such-model", "--gpu", "l4"], "unknown_model"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(
    arguments: list[str],
    code: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with running() as fake:
        assert refused(capsys, fake.url, *arguments)["code"] == code
        assert fake.seen == []


def test_two_at_once_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with running() as fake, machine_lock():
        assert refused(capsys, fake.url)["code"] == "measuring_already"
        assert fake.seen == []


def test_a_trace_sets_the_lengths(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("prompt,answer\n20,2\n40,3\n")
    with running() as fake:
        code, printed, err = ran(
            tmp_path, fake, "--trace", str(trace), "--concurrency", "1", "--requests=4"
        )
        assert [body["max_tokens"] for body in fake.asked[-4:]] == [2, 3, 2, 3]
    assert code == 0, err
    assert "Lengths of the requests: trace.csv." in printed
    assert str(tmp_path) not in printed
