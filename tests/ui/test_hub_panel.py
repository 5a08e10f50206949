"""Fetching a model from the Hub on the page: only on a click, into the scenario, or a refusal as a card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from streamlit.testing.v1 import AppTest

from planner.architecture.checkpoint.sizes import CheckpointBytes, Group, Share
from planner.architecture.hub import FetchedModel
from planner.architecture.resolve import architecture_from_config
from planner.architecture.totals import parameters
from planner.errors import Unreachable
from planner.ui import hub_fetch_panel
from planner.ui.locale import LANGUAGES, say_error, text
from planner.ui.locale.numbers import format_value
from tests.architecture.hub_server import REVISION, Repository, Server, hub_server
from tests.ui.driver import clean, go, named, open_app, words

ID = "some-org/Some.Model_1"
CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2048, "num_attention_heads": 8,
    "num_hidden_layers": 7, "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """What was asked of a Hub that knows one model; nothing leaves this process."""
    found: list[tuple[str, float]] = []

    def fetch(model_id: str, *, deadline_s: float, progress: Any) -> FetchedModel:
        found.append((model_id, deadline_s))
        for step in ("info", "config", "index", "headers"):
            progress(step, 0, 1)
        if model_id != ID:
            raise Unreachable("hub_not_found", field="model", model=model_id)
        return FetchedModel(ID, CONFIG, None, REVISION, datetime.now(UTC), headers_missing=True)

    monkeypatch.delenv("HEADROOM_HUB", raising=False)
    monkeypatch.setattr(hub_fetch_panel, "fetch_model", fetch)
    return found


def fetch(app: AppTest, model_id: str) -> AppTest:
    named(app.text_input, "hub_id").set_value(model_id).run()
    named(app.button, "hub-fetch").click().run()
    clean(app)
    return app


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_fetched_model_becomes_the_scenarios(
    asked: list[tuple[str, float]], language: str
) -> None:
    app = fetch(open_app(locale=language), f" {ID} ")
    assert asked == [(ID, 20.0)]
    said = " ".join(words(app).split())
    assert text("sidebar.config_used", language, name=ID).replace("**", "") in said
    assert app.query_params["model"] == ID
    assert "config" in app.query_params
    assert text("note.hub_headers_unread", language, model=ID) in said
    assert text("frame.applied", language, what=text("undo.hub", language, model=ID)) in (
        said.replace("\\", "")
    )
    named(app.button, "undo-button").click().run()
    clean(app)
    assert named(app.selectbox, "model").value == "google/gemma-3-12b-it"


def test_nothing_is_asked_before_the_button_is_pressed(asked: list[tuple[str, float]]) -> None:
    app = open_app()
    named(app.text_input, "hub_id").set_value(ID).run()
    app.run()
    assert asked == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_refusal_is_a_card_and_loses_nothing(
    asked: list[tuple[str, float]], language: str
) -> None:
    app = fetch(open_app(locale=language, concurrency="3"), "some-org/nothing")
    error = Unreachable("hub_not_found", field="model", model="some-org/nothing")
    assert say_error(error, language) in words(app).replace("\\", "")
    assert named(app.selectbox, "model").value == "google/gemma-3-12b-it"
    assert named(app.number_input, "concurrency").value == 3
    fetch(app, ID)
    assert say_error(error, language) not in words(app).replace("\\", "")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("switch", ["off", "OFF", "0", "false", "no"])
def test_an_operator_can_switch_it_off(
    monkeypatch: pytest.MonkeyPatch, language: str, switch: str
) -> None:
    monkeypatch.setenv("HEADROOM_HUB", switch)
    app = open_app(locale=language)
    clean(app)
    assert text("hub.off", language) in words(app)
    assert not [button for button in app.button if button.key == "hub-fetch"]


def test_anything_else_leaves_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for switch in ("", "on", "yes"):
        monkeypatch.setenv("HEADROOM_HUB", switch)
        assert hub_fetch_panel.is_on()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_model_page_shows_what_the_headers_say(
    asked: list[tuple[str, float]], monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    elements = parameters(architecture_from_config(CONFIG))
    wide = 4 * 1000 * 1024
    shares = (
        Share(Group.LAYERS, "BF16", elements - 2 * 1000 * 1024, 2 * elements - wide),
        Share(Group.EMBEDDING, "BF16", 1000 * 1024, wide // 2),
        Share(Group.HEAD, "BF16", 1000 * 1024, wide // 2),
    )
    held = CheckpointBytes("safetensors", ID, 66, 2 * elements, shares)
    found = FetchedModel(ID, CONFIG, held, REVISION, datetime.now(UTC))
    monkeypatch.setattr(hub_fetch_panel, "fetch_model", lambda *_, **__: found)
    app = go(fetch(open_app(locale=language), ID), "model")
    clean(app)
    said = " ".join(words(app).split())
    size = format_value(2 * elements, "gib", language)
    assert text("model.stored_read", language) in said
    assert f"{text('model.stored_in', language, dtype='BF16')} {size}" in said
    assert f"{text('model.stored_tensors', language)} 66" in said
    assert text("model.origin_config", language, model=ID) in said


# --- Against a server that speaks the Hub's API -----------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE", "HEADROOM_HUB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADROOM_HOME", str(tmp_path))
    huggingface_hub.get_session()  # imports and builds what a deadline shouldn't have to wait for
    with hub_server() as running:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "no such file")
        monkeypatch.setattr("huggingface_hub.constants.HF_STORED_TOKENS_PATH", "no such file")
        monkeypatch.setattr(hub_fetch_panel, "DEADLINE_S", 600.0)  # never waited for
        yield running


def test_it_reads_what_a_hub_says(server: Server) -> None:
    server.models[ID] = Repository({"config.json": json.dumps(CONFIG).encode()})
    app = fetch(open_app(), ID)
    assert app.query_params["model"] == ID
    assert [path for path, _ in server.requests] == [
        f"/api/models/{ID}",
        f"/{ID}/resolve/{REVISION}/config.json",
    ]


def test_a_broken_configuration_is_refused_by_key(server: Server) -> None:
    broken = json.dumps(CONFIG | {"hidden_size": -4}).encode()
    server.models[ID] = Repository({"config.json": broken})
    app = fetch(open_app(), ID)
    assert "hidden_size" in words(app).replace("\\", "")


def test_a_gated_model_is_explained(server: Server) -> None:
    def gated(handler: Any, what: str) -> bool:
        handler.say(403, {"x-error-code": "GatedRepo"}, b"{}")
        return True

    server.models[ID] = Repository({}, gated)
    app = fetch(open_app(locale="es"), ID)
    told = {"model": ID, "page": f"{server.url}/{ID}"}
    error = Unreachable("hub_gated", field="model", **told)
    assert say_error(error, "es") in words(app).replace("\\", "")
