"""The endpoint on the page: what is asked reaches the command line, no value poses as a flag, the key stays secret."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.cli_endpoint import _options
from planner.cli_parser import build_parser
from planner.measure import job as jobs_module
from planner.measure.job import Jobs
from planner.measure.record import parse_record
from planner.measure.store import Store
from planner.ui.locale import LANGUAGES, text
from planner.ui.measure_endpoint import arguments
from planner.ui.measure_shelf import jobs
from tests.ui.driver import clean, named, open_app
from tests.ui.machine import fake_command
from tests.ui.test_measure_page import has, opened, press, saying

URL = "http://127.0.0.1:9/v1"
PERCENTILES = {"p50": 0.1, "p90": 0.2, "p95": 0.25, "p99": 0.4}
SPREAD = {"median": 0.1, "low": 0.05, "high": 0.2, "repeats": 30}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What a run was asked for."""
    found: list[list[str]] = []
    command = fake_command("done", tmp_path)

    def listens(given: Sequence[str]) -> Any:
        found.append(list(given))
        return command(given)

    monkeypatch.setattr(jobs_module, "measure_command", listens)
    jobs.clear()
    return found


def filled(app: AppTest, **values: str) -> AppTest:
    for name, value in values.items():
        named(app.text_input, name).set_value(value)
    app.run()
    clean(app)
    return app


def finished() -> None:
    job = jobs()._job
    assert job is not None
    assert job.wait(60.0).ended


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_button_waits_for_an_address(language: str) -> None:
    app = opened(language)
    assert named(app.button, "endpoint-start").disabled
    for wrong in ("127.0.0.1:8000", "ftp://x", "--help", "http://", "file:///etc/passwd"):
        assert named(filled(app, endpoint_url=wrong).button, "endpoint-start").disabled, wrong
    assert not named(filled(app, endpoint_url=URL).button, "endpoint-start").disabled


def test_what_is_asked_reaches_the_command_line(asked: list[list[str]]) -> None:
    app = opened("en", gpu="l4", engine="vllm", weights="fp8", model="Qwen/Qwen3-8B")
    assert not named(app.toggle, "endpoint_same").value
    named(app.toggle, "endpoint_same").set_value(True).run()
    filled(app, endpoint_url=URL, endpoint_model="--output=/etc/x", endpoint_loads="1,2")
    press(app, "endpoint-start")
    finished()
    (given,) = asked
    mine = given[: given.index("--progress")]
    parsed = build_parser().parse_args(["measure", *mine])
    assert (parsed.measure_verb, parsed.url) == ("endpoint", URL)
    assert parsed.model == "--output=/etc/x"
    assert parsed.output is None
    assert parsed.concurrency == "1,2"
    assert (parsed.gpu, parsed.engine, parsed.weights) == ("l4", "vllm", "fp8")
    assert parsed.catalogue_model == "Qwen/Qwen3-8B"
    assert (parsed.input_tokens, parsed.output_tokens, parsed.max_seconds) == (512, 128, 120.0)


def test_without_the_scenario_nothing_is_said_of_what_runs_there(asked: list[list[str]]) -> None:
    app = opened()
    press(filled(app, endpoint_url=URL), "endpoint-start")
    finished()
    assert not [word for word in asked[0] if word.startswith(("--gpu", "--catalogue-model"))]


def with_trace(app: AppTest, content: bytes) -> AppTest:
    named(app.file_uploader, "endpoint_trace").set_value(("trace.csv", content, "text/csv"))
    app.run()
    clean(app)
    return app


def test_a_file_of_lengths_reaches_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], bytes]] = []

    def start(_jobs: Jobs, arguments: Sequence[str], *, given: bytes, **_: Any) -> None:
        started.append((list(arguments), given))

    monkeypatch.setattr(Jobs, "start", start)
    app = with_trace(filled(opened("en"), endpoint_url=URL), b"prompt,answer\n300;20\n\n7 9\n")
    assert "trace.csv, 2 requests in the file" in saying(app)
    assert named(app.number_input, "endpoint_input").disabled
    press(app, "endpoint-start")
    ((arguments_given, content),) = started
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content)))
    options, _ = _options(build_parser().parse_args(["measure", *arguments_given]))
    assert [(one.input_tokens, one.output_tokens) for one in options.lengths] == [(300, 20), (7, 9)]
    assert options.lengths_file == "trace.csv"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_file_of_lengths_stays_until_it_is_taken_away(
    language: str, asked: list[list[str]]
) -> None:
    app = with_trace(filled(opened(language), endpoint_url=URL), b"300,20\n7,9\n5,5\n")
    kept = text("measure.endpoint_trace_read", language, file="trace.csv", rows=3)
    press(app, "endpoint-start")
    finished()
    app.run()
    assert text("measure.lengths_from", language, file="trace.csv", rows=3) in saying(app)
    # As a browser has it after a run: the uploader was away meanwhile, and has forgotten its file.
    del app.session_state["endpoint_trace"]
    app.run()
    assert kept in saying(app)
    press(app, "endpoint-start")
    finished()
    assert all("--trace=-" in given for given in asked)
    app.run()
    press(app, "endpoint-trace-drop")
    assert kept not in saying(app)
    assert not named(app.number_input, "endpoint_input").disabled


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_decimal_comma_is_no_second_load(language: str, asked: list[list[str]]) -> None:
    app = filled(opened(language), endpoint_url=URL, endpoint_rates="1,5")
    assert text("error.ambiguous_list", language, given="1,5") in saying(app).replace("\\", "")
    assert named(app.button, "endpoint-start").disabled
    press(filled(app, endpoint_rates="1,5; 2"), "endpoint-start")
    finished()
    assert "--rate=1.5,2" in asked[0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_file_that_is_no_trace_says_which_line_and_what_to_do(language: str) -> None:
    app = with_trace(filled(opened(language), endpoint_url=URL), b"300,20\n300,twenty\n")
    values = {"line": 2, "given": "300,twenty"}
    said = saying(app).replace("\\", "")
    assert text("error.trace_bad_line", language, **values) in said
    assert "512,128" in said
    assert named(app.button, "endpoint-start").disabled


def test_no_value_can_pose_as_a_flag() -> None:
    found = arguments(URL, "-x", {"api": "chat", "concurrency": "-o/etc/x"}, {"gpu": "--weights"})
    assert found[:2] == ["endpoint", URL]
    assert all(word.startswith("--") and "=" in word for word in found[2:])


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_key_is_never_shown_and_where_it_goes_is_said(
    language: str, monkeypatch: pytest.MonkeyPatch, asked: list[list[str]]
) -> None:
    names = {"variable": "HEADROOM_ENDPOINT_KEY", "address_variable": "HEADROOM_ENDPOINT_URL"}
    unset = text("measure.endpoint_key_unset", language, **names)
    assert unset in saying(opened(language))
    monkeypatch.setenv("HEADROOM_ENDPOINT_KEY", "sk-very-secret")
    app = filled(opened(language), endpoint_url=URL)
    assert unset in saying(app)
    press(app, "endpoint-start")
    finished()
    assert "--no-key" in asked[-1]
    monkeypatch.setenv("HEADROOM_ENDPOINT_URL", "http://other.example/v1")
    app = filled(opened(language), endpoint_url=URL)
    elsewhere = text(
        "measure.endpoint_key_elsewhere", language, address="http://other.example/v1", **names
    )
    assert elsewhere in saying(app)
    press(app, "endpoint-start")
    finished()
    assert "--no-key" in asked[-1]
    monkeypatch.setenv("HEADROOM_ENDPOINT_URL", URL + "/")
    app = filled(opened(language), endpoint_url=URL)
    sent = text("measure.endpoint_key_set", language, variable=names["variable"], address=URL)
    assert sent in saying(app)
    assert "sk-very-secret" not in saying(app)
    press(app, "endpoint-start")
    finished()
    assert "--no-key" not in asked[-1]


def test_a_public_server_asks_nobody(public: None) -> None:
    app = open_app("measure")
    clean(app)
    assert not has(app, "endpoint-start")


@pytest.mark.parametrize("accelerator", ["", "l4"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_percentiles_and_failures_of_each_load(
    language: str, accelerator: str, own_machine: Path
) -> None:
    scenario = {
        "model": "Qwen/Qwen3-8B",
        "input_tokens": 500,
        "output_tokens": 120,
        "concurrency": 4,
    }
    if accelerator:
        scenario |= {"gpu": "l4", "engine": "vllm", "weights": "fp8"}
    record = {
        "format": "headroom-measurement", "schema_version": 1, "name": "server", "origin": "endpoint",
        "date": "2026-11-30T12:00:00+00:00", "accelerator": accelerator, "conditions": {"noisy": False},
        "notes": ["out_of_time"], "lengths_file": "trace.csv",
        "rows": [
            {
                "id": "endpoint-1-c4", "scenario": scenario, "arrivals": "loop", "role": "other",
                "measured": {"ttft_s": SPREAD, "tpot_s": SPREAD}, "percentiles": {"ttft_s": PERCENTILES},
                "counts": {"done": 30, "http_429": 2, "timeout": 1}, "notes": ["ttft_from_sending"],
            }
        ],
    }  # fmt: skip
    Store(own_machine).save(parse_record(json.dumps(record)))
    app = opened(language)
    said = saying(app)
    assert text("endpoint.load_closed", language, load=4.0) in said
    assert text("endpoint.answered", language, done=30, all=33) in said
    assert "HTTP 429: 2" in said
    assert text("endpoint.lengths_file", language, file="trace.csv") in said
    assert text("word.timeout", language) in said
    assert text("measure.note.out_of_time", language) in said
    assert text("measure.note.ttft_from_sending", language) in said
    assert "400 ms" in said
    assert (text("measure.unknown_device", language) in said) is not bool(accelerator)
