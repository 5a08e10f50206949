"""The endpoint from the page to a fake server: run in a process of its own, shown and kept, and no key astray."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.measure import job as jobs_module
from planner.measure.job import JobView
from planner.measure.store import Store
from planner.ui import measure_endpoint, measure_switch
from planner.ui.locale import LANGUAGES, text
from planner.ui.measure_shelf import jobs
from tests.measure.fake_openai import running
from tests.ui.conftest import AT_HOME
from tests.ui.driver import clean, named, open_app, words

LONG_S = 120.0  # never waited for where all is well
KEY = "sk-headroom-page-1357902468"


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's own process looks for the lock in the test's folder too."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def opened(language: str = "en", **query: str) -> AppTest:
    app = open_app("measure", locale=language, **query)
    clean(app)
    return app


def saying(app: AppTest) -> str:
    return " ".join(words(app).replace("\\", "").split())


def fill(app: AppTest, **values: Any) -> AppTest:
    for name, value in values.items():
        kind = app.text_input if isinstance(value, str) else app.number_input
        named(kind, f"endpoint_{name}").set_value(value)
    app.run()
    clean(app)
    return app


def alone(app: AppTest) -> AppTest:
    """Nothing is said of what runs there."""
    named(app.toggle, "endpoint_same").set_value(False).run()
    return app


def start(app: AppTest) -> AppTest:
    named(app.button, "endpoint-start").click().run()
    clean(app)
    return app


def ended(app: AppTest) -> JobView:
    deadline = time.monotonic() + LONG_S
    while not ((view := jobs().view()) and view.ended):
        assert time.monotonic() < deadline, view
        time.sleep(0.02)
    app.run()
    clean(app)
    return view


SMALL: dict[str, Any] = {
    "input": 30, "output": 4, "loads": "1,2", "rates": "50", "requests": 6,
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_from_the_address_to_a_kept_measurement(language: str, own_machine: Path) -> None:
    with running() as fake:
        app = fill(alone(opened(language)), url=fake.url, **SMALL)
        view = ended(start(app))
    assert view.state == "done", view.said
    said = saying(app)
    assert text("measure.ended_done", language) in said
    assert text("endpoint.load_closed", language, load=2.0) in said
    assert text("endpoint.load_poisson", language, load=50.0) in said
    assert text("endpoint.answered", language, done=6, all=6) in said
    assert text("measure.quantity.itl_s", language) in said
    assert text("measure.note.ttft_from_sending", language) in said
    (kept,) = Store(own_machine).kept()
    record = Store(own_machine).load(kept.key)
    assert [row.counts for row in record.rows] == [{"done": 6}] * 3
    assert record.origin == "endpoint"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_server_of_this_scenario_is_set_against_its_prediction(
    language: str, own_machine: Path
) -> None:
    scenario = {"model": "Qwen/Qwen2.5-0.5B-Instruct", "gpu": "l4", "engine": "vllm"}
    with running() as fake:
        app = opened(language, **scenario)
        named(app.toggle, "endpoint_same").set_value(True).run()
        app = fill(app, url=fake.url, **SMALL)
        assert ended(start(app)).state == "done"
    (kept,) = Store(own_machine).kept()
    record = Store(own_machine).load(kept.key)
    assert record.accelerator == "l4"
    assert {name: record.rows[0].scenario[name] for name in scenario} == scenario
    assert text("measure.column.before_error", language) in saying(app) or app.get("plotly_chart")


@pytest.mark.parametrize("language", LANGUAGES)
def test_failures_are_counted_by_kind(language: str) -> None:
    with running(fault="429", healthy=2 + 2 + 6) as fake:
        app = fill(opened(language), url=fake.url, **SMALL)
        ended(start(app))
    said = saying(app)
    assert "HTTP 429: 6" in said
    assert text("measure.note.some_requests_failed", language) in said


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_server_that_refuses_is_told_of(language: str) -> None:
    with running(models=("one", "two")) as fake:
        app = fill(opened(language), url=fake.url, **SMALL)
        view = ended(start(app))
    assert view.state == "failed", view.said
    told = text("error.endpoint_needs_model", language, names=("one", "two"))
    assert told in saying(app)
    named(app.button, "measure-put-away").click().run()
    assert told not in saying(app)


def test_cancelling_keeps_what_was_measured(own_machine: Path) -> None:
    with running(fault="hang", healthy=2 + 2 + 6) as fake:
        app = start(fill(opened(), url=fake.url, **SMALL))
        deadline = time.monotonic() + LONG_S
        while len(fake.asked) < 2 + 2 + 6 + 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        app.run()
        named(app.button, "measure-cancel").click().run()
        view = ended(app)
    assert view.state == "cancelled"
    assert text("measure.note.cancelled", "en") in saying(app)
    (kept,) = Store(own_machine).kept()
    rows = Store(own_machine).load(kept.key).rows
    assert [row.counts for row in rows] == [{"done": 6}, {"cut_off": 2}]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"url": "localhost:8000"}, "http://"),
        ({"url": "http://user:pass@host/v1"}, "without a user"),
        ({"url": "http://host/v1", "loads": "1, x"}, "“1,x” isn’t a list"),
        (
            {"url": "http://host/v1", "loads": "0"},
            "Requests in flight (--concurrency): that can be from 1 to 512",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_said_at_once(values: dict[str, Any], said: str) -> None:
    app = fill(opened(), **values)
    assert said in saying(app)
    assert named(app.button, "endpoint-start").disabled


# --- A server with users ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_on_a_public_server_no_address_can_be_given(language: str, public: None) -> None:
    app = opened(language)
    assert not [one for one in app.text_input if str(one.key).startswith("endpoint_")]
    assert not [one for one in app.button if one.key == "endpoint-start"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_calling_other_servers_has_a_switch_of_its_own(
    language: str, public: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADROOM_MEASURE", "on")
    app = opened(language)
    off = text("measure.endpoint_off", language, switch="HEADROOM_MEASURE_ENDPOINT=on")
    assert " ".join(off.split()) in saying(app)
    assert not [one for one in app.button if one.key == "endpoint-start"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_visitor_reaches_nothing_on_the_server_s_machine_and_gets_no_key_out(
    language: str, public: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HEADROOM_MEASURE", "HEADROOM_MEASURE_ENDPOINT"):
        monkeypatch.setenv(name, "on")
    monkeypatch.setenv("HEADROOM_ENDPOINT_KEY", KEY)
    with running() as fake:
        monkeypatch.setenv("HEADROOM_ENDPOINT_URL", fake.url)
        app = fill(opened(language), url=fake.url, **SMALL)
        assert text(
            "measure.endpoint_key_shared", language, variable="HEADROOM_ENDPOINT_KEY"
        ) in saying(app)
        view = ended(start(app))
    assert fake.seen == []
    assert view.state == "failed", view.said
    told = text("error.endpoint_not_public", language, host="127.0.0.1")
    assert told in saying(app)


def test_a_visitor_s_flags_hold_key_and_network_back(
    public: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADROOM_ENDPOINT_KEY", KEY)
    monkeypatch.setenv("HEADROOM_ENDPOINT_URL", "http://127.0.0.1:8000/v1")
    held = ["--no-key", "--public-only"]
    assert measure_endpoint._limits("http://127.0.0.1:8000/v1") == held
    monkeypatch.setattr(measure_switch, "visitor_headers", lambda: AT_HOME)
    assert measure_endpoint._limits("http://127.0.0.1:8000/v1") == []
    assert measure_endpoint._limits("http://127.0.0.1:8001/v1") == ["--no-key"]


def test_on_one_s_own_machine_the_key_is_sent_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, own_machine: Path
) -> None:
    asked: list[Sequence[str]] = []
    command: Callable[[Sequence[str]], list[str]] = jobs_module.measure_command

    def listens(arguments: Sequence[str]) -> list[str]:
        asked.append(arguments)
        return command(arguments)

    monkeypatch.setattr(jobs_module, "measure_command", listens)
    monkeypatch.setenv("HEADROOM_ENDPOINT_KEY", KEY)
    jobs.clear()
    with running(key=KEY) as fake:
        monkeypatch.setenv("HEADROOM_ENDPOINT_URL", fake.url)
        app = fill(opened(), url=fake.url, **SMALL)
        view = ended(start(app))
    assert view.state == "done", view.said
    assert KEY not in repr(asked)
    assert KEY not in saying(app)
    assert all(KEY not in path.read_text() for path in own_machine.rglob("*.json"))
