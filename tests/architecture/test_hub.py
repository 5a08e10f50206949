"""The Hub, as a server on this computer speaks it: found, gated, missing, renamed, slow, broken, huge.

No test waits for anything but an answer, and none looks at a clock: what could hang would hang the test.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from planner.architecture import hub, hub_cache, hub_fetch
from planner.architecture.checkpoint.sizes import CHECKPOINT_KEY, CheckpointBytes, Group
from planner.architecture.hub import FetchedModel, fetch_model
from planner.errors import InvalidConfig, InvalidInput, PlannerError, Unreachable
from planner.ui.locale import LANGUAGES, say_error
from tests.architecture.checkpoint.sentences import assert_said
from tests.architecture.checkpoint.writers import safetensors_header
from tests.architecture.hub_server import REVISION, Handler, Repository, Server, hub_server

ROOT = Path(__file__).resolve().parents[2]
ID = "some-org/Some.Model_1"
TOKEN = "hf_secretsecretsecret"
CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 100, "max_position_embeddings": 512, "torch_dtype": "bfloat16",
}  # fmt: skip
TENSORS = [
    ("model.embed_tokens.weight", "BF16", (100, 64)),
    ("model.layers.0.self_attn.q_proj.weight", "BF16", (64, 64)),
    ("model.layers.1.mlp.up_proj.weight", "F32", (128, 64)),
    ("lm_head.weight", "BF16", (100, 64)),
]
TOTAL = 2 * (2 * 100 * 64 + 64 * 64) + 4 * 128 * 64
LONG_S = 600.0  # never waited for: each test ends by an answer
SHORT_S = 0.5


def weights(tensors: Any = TENSORS) -> bytes:
    header = safetensors_header(tensors)
    size = {"BF16": 2, "F32": 4}
    data = sum(size[dtype] * shape[0] * shape[1] for _, dtype, shape in tensors)
    return struct.pack("<Q", len(header)) + header + bytes(data)


def config_bytes(**changes: Any) -> bytes:
    return json.dumps(CONFIG | changes).encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server, as what HF_ENDPOINT names, and nobody logged in."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
        monkeypatch.delenv(name, raising=False)
    huggingface_hub.get_session()  # imports and builds what a deadline shouldn't have to wait for
    with hub_server() as running:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "no such file")
        monkeypatch.setattr("huggingface_hub.constants.HF_STORED_TOKENS_PATH", "no such file")
        yield running


def fetch(
    home: Path, model_id: str = ID, deadline_s: float = LONG_S, **options: Any
) -> FetchedModel:
    return fetch_model(model_id, deadline_s=deadline_s, home=str(home), **options)


def refusal(
    home: Path, model_id: str = ID, deadline_s: float = LONG_S, **options: Any
) -> PlannerError:
    """Why a model couldn't be had; the sentence exists in every language and holds no token."""
    with pytest.raises(PlannerError) as caught:
        fetch(home, model_id, deadline_s, **options)
    assert caught.value.field == "model" or caught.value.code.startswith("config_")
    assert_said(caught.value)
    assert all(TOKEN not in say_error(caught.value, language) for language in LANGUAGES)
    assert TOKEN not in str(caught.value)
    return caught.value


def answering(status: int, headers: dict[str, str] | None = None, *, to: str = "") -> Any:
    """A behaviour: this status for everything, or for what is asked for by that name."""

    def behave(handler: Handler, what: str) -> bool:
        if to and what != to:
            return False
        handler.say(status, headers, b"{}")
        return True

    return behave


def waiting(*, to: str) -> Any:
    """A behaviour: no answer to this until the server closes."""

    def behave(handler: Handler, what: str) -> bool:
        if what == to:
            handler.server.leaving.wait()
        return what == to

    return behave


# --- Found ------------------------------------------------------------------------------------------------------------


def test_config_and_headers(server: Server, tmp_path: Path) -> None:
    files = {"config.json": config_bytes(), "model.safetensors": weights(), "README.md": b"text"}
    server.models[ID] = Repository(files)
    steps: list[tuple[str, int, int]] = []
    threads = set()

    def progress(step: str, done: int, total: int) -> None:
        steps.append((step, done, total))
        threads.add(threading.current_thread())

    fetched = fetch(tmp_path, progress=progress)
    assert fetched.config == CONFIG
    assert fetched.revision == REVISION
    assert not fetched.from_cache
    assert fetched.checkpoint is not None
    assert fetched.checkpoint.total_bytes == TOTAL
    assert fetched.checkpoint.source == ID
    assert fetched.checkpoint.by_dtype == {"BF16": TOTAL - 32768, "F32": 32768}
    assert fetched.checkpoint.by_group[Group.HEAD] == 12800
    assert fetched.configuration()[CHECKPOINT_KEY]["total_bytes"] == TOTAL
    assert steps == [("info", 0, 1), ("config", 0, 1), ("headers", 0, 1)]
    assert threads == {threading.current_thread()}
    paths = [path for path, _ in server.requests]
    assert paths == [
        f"/api/models/{ID}",
        f"/{ID}/resolve/{REVISION}/config.json",
        f"/{ID}/resolve/{REVISION}/model.safetensors",
    ]
    assert server.requests[2][1]["range"].startswith("bytes=0-")
    assert all("authorization" not in {key.lower() for key in sent} for _, sent in server.requests)


def sharded(count: int) -> dict[str, bytes]:
    names = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    weight_map = {f"t{number}": name for number, name in enumerate(names)}
    index = {"metadata": {"total_size": count * TOTAL}, "weight_map": weight_map}
    files = {
        "config.json": config_bytes(),
        "model.safetensors.index.json": json.dumps(index).encode(),
    }
    return files | {name: weights() for name in names}


def test_all_shards_by_their_headers(server: Server, tmp_path: Path) -> None:
    server.models[ID] = Repository(sharded(30))
    fetched = fetch(tmp_path)
    assert fetched.checkpoint is not None
    assert fetched.checkpoint.total_bytes == 30 * TOTAL
    assert fetched.checkpoint.tensors == 30 * len(TENSORS)


def test_a_long_header_is_fetched_in_two_parts(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_fetch, "FIRST_BYTES", 100)
    server.models[ID] = Repository({"config.json": config_bytes(), "model.safetensors": weights()})
    fetched = fetch(tmp_path)
    assert fetched.checkpoint is not None
    assert fetched.checkpoint.total_bytes == TOTAL


def test_a_server_without_ranges_is_read_no_further_than_needed(
    server: Server, tmp_path: Path
) -> None:
    huge = 50_000_000_000

    def behave(handler: Handler, what: str) -> bool:
        if what != "model.safetensors":
            return False
        tensors = [("model.embed_tokens.weight", "BF16", (1, huge // 2))]
        header = safetensors_header(tensors)
        handler.send_response(200)
        handler.send_header("content-length", str(8 + len(header) + huge))
        handler.end_headers()
        handler.wfile.write(struct.pack("<Q", len(header)) + header)
        try:
            while not handler.server.leaving.is_set():
                handler.wfile.write(bytes(65536))
        except OSError:
            pass
        return True

    server.models[ID] = Repository(
        {"config.json": config_bytes(), "model.safetensors": b""}, behave
    )
    fetched = fetch(tmp_path)
    assert fetched.checkpoint is not None
    assert fetched.checkpoint.total_bytes == huge


def test_more_files_than_are_read_are_counted_by_the_index(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_fetch, "MAX_HEADERS", 3)
    server.models[ID] = Repository(sharded(4))
    fetched = fetch(tmp_path)
    assert fetched.checkpoint == CheckpointBytes("safetensors", ID, 4, 4 * TOTAL)
    assert not any(path.endswith(".safetensors") for path, _ in server.requests)


def test_without_safetensors_the_configuration_is_the_answer(
    server: Server, tmp_path: Path
) -> None:
    server.models[ID] = Repository({"config.json": config_bytes(), "pytorch_model.bin": b"pickle"})
    assert fetch(tmp_path).checkpoint is None
    assert all("pytorch" not in path for path, _ in server.requests)


def test_a_configuration_does_not_speak_for_its_files(server: Server, tmp_path: Path) -> None:
    forged = config_bytes(**{CHECKPOINT_KEY: {"total_bytes": 1}})
    server.models[ID] = Repository({"config.json": forged})
    assert CHECKPOINT_KEY not in fetch(tmp_path).configuration()


# --- Refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model_id",
    ["", "gpt2", "a/b/c", "../etc", "a/..", "org/na me", "org/na\nme", "https://x/y", "a--b/c", "org/.x", "org/x.",
     "-a/b", "org/\u00e9", "o" * 97 + "/m", "org/m?x=1", "org/m#x", "org/m%2f", "org/"],
)  # fmt: skip
def test_what_is_no_id_is_refused_before_anything(
    server: Server, tmp_path: Path, model_id: str
) -> None:
    error = refusal(tmp_path, model_id)
    assert isinstance(error, InvalidInput)
    assert error.code == "hub_bad_id"
    assert server.requests == []


GATED = {"x-error-code": "GatedRepo", "x-error-message": "Access to model is restricted"}
BAD_TOKEN = {"x-error-message": "Invalid credentials in Authorization header"}
DISABLED = {"x-error-message": "Access to this resource is disabled."}


@pytest.mark.parametrize(
    ("behave", "token", "code"),
    [
        (answering(401, GATED, to="config.json"), "", "hub_gated"),
        (answering(403, GATED, to="config.json"), TOKEN, "hub_gated_for_token"),
        (answering(401, BAD_TOKEN), TOKEN, "hub_bad_token"),
        (answering(403, DISABLED), "", "hub_disabled"),
        (answering(403, to="config.json"), TOKEN, "hub_forbidden"),
        (answering(404, {"x-error-code": "RepoNotFound"}), TOKEN, "hub_not_found_for_token"),
        (answering(401), "", "hub_not_found"),
        (answering(404), "", "hub_not_found"),
        (
            answering(404, {"x-error-code": "EntryNotFound"}, to="config.json"),
            "",
            "hub_file_missing",
        ),
        (answering(429), "", "hub_busy"),
        (answering(500), "", "hub_server_error"),
        (answering(503), "", "hub_server_error"),
        (answering(418), "", "hub_server_error"),
    ],
)
def test_each_refusal_has_its_own_code(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    behave: Any,
    token: str,
    code: str,
) -> None:
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    server.models[ID] = Repository({"config.json": config_bytes()}, behave)
    error = refusal(tmp_path)
    assert isinstance(error, Unreachable)
    assert error.code == code


def test_a_missing_model(server: Server, tmp_path: Path) -> None:
    assert refusal(tmp_path, "nobody/nothing").code == "hub_not_found"


def test_a_gated_model_names_the_page_where_access_is_given(server: Server, tmp_path: Path) -> None:
    server.models[ID] = Repository({"config.json": b""}, answering(401, GATED, to="config.json"))
    assert refusal(tmp_path).values["page"] == f"{server.url}/{ID}"


def test_a_renamed_model_is_named_anew(server: Server, tmp_path: Path) -> None:
    moved = answering(307, {"location": "/api/models/new-org/New"})
    server.models[ID] = Repository({}, moved)
    error = refusal(tmp_path)
    assert error.code == "hub_renamed"
    assert error.values["now"] == "new-org/New"
    assert len(server.requests) == 1


def test_a_model_without_a_configuration(server: Server, tmp_path: Path) -> None:
    server.models[ID] = Repository({"model-Q4_K_M.gguf": b"GGUF"})
    error = refusal(tmp_path)
    assert isinstance(error, InvalidConfig)
    assert error.code == "hub_no_config"


# --- Broken and huge --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "info",
    [b"", b"<html>", b"[]", b"{}", b'{"siblings": 1, "sha": "x"}', b'{"siblings": [], "sha": 5}',
     b'{"siblings": [], "sha": "../../x"}', b'{"siblings": [{}], "sha": "' + REVISION.encode() + b'"}',
     b"[" * 100_000],
)  # fmt: skip
def test_an_answer_that_is_none(server: Server, tmp_path: Path, info: bytes) -> None:
    def behave(handler: Handler, what: str) -> bool:
        handler.say(200, body=info)
        return True

    server.models[ID] = Repository({}, behave)
    assert refusal(tmp_path).code == "hub_broken_answer"


def test_a_broken_configuration_is_refused_as_a_pasted_one(server: Server, tmp_path: Path) -> None:
    server.models[ID] = Repository({"config.json": b'{"model_type": '})
    assert refusal(tmp_path).code == "config_not_json"
    server.models[ID] = Repository({"config.json": b"[" * 10_000})
    assert refusal(tmp_path).code == "config_too_deep"


def test_a_broken_header_is_named(server: Server, tmp_path: Path) -> None:
    server.models[ID] = Repository(
        {"config.json": config_bytes(), "model.safetensors": struct.pack("<Q", 5) + b"{{{{{"}
    )
    error = refusal(tmp_path)
    assert error.code == "safetensors_malformed"
    assert error.values["file"] == "model.safetensors"


def test_a_cut_off_file_is_named(server: Server, tmp_path: Path) -> None:
    files = {"config.json": config_bytes(), "model.safetensors": weights()[:-1]}
    server.models[ID] = Repository(files)
    assert refusal(tmp_path).code == "safetensors_truncated"


def endless(name: str) -> Any:
    """A behaviour: data without end, and without a stated length."""

    def behave(handler: Handler, what: str) -> bool:
        if what != name:
            return False
        handler.send_response(200)
        handler.send_header("connection", "close")
        handler.end_headers()
        try:
            while not handler.server.leaving.is_set():
                handler.wfile.write(b" " * 65536)
        except OSError:
            pass
        return True

    return behave


@pytest.mark.parametrize("name", ["info", "config.json", "model.safetensors.index.json"])
def test_data_without_end_are_read_up_to_the_limit(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(hub_fetch, "MAX_INDEX_BYTES", 1_000_000)
    server.models[ID] = Repository(sharded(1), endless(name))
    error = refusal(tmp_path)
    assert error.code == "hub_too_large"
    assert error.values["file"] == name


def test_a_compressed_answer_is_not_unpacked(server: Server, tmp_path: Path) -> None:
    def behave(handler: Handler, what: str) -> bool:
        handler.say(200, {"content-encoding": "gzip"}, b"\x1f\x8b\x08\x00" + bytes(100))
        return True

    server.models[ID] = Repository({}, behave)
    assert refusal(tmp_path).code == "hub_broken_answer"


@pytest.mark.parametrize(
    "location",
    ["/loop", "file:///etc/passwd", "http://127.0.0.2:1/x", "ftp://127.0.0.1/x", "http://[", "//:99999/x"],
)  # fmt: skip
def test_a_redirect_that_leads_nowhere_safe(server: Server, tmp_path: Path, location: str) -> None:
    target = f"/{ID}/resolve/{REVISION}/config.json" if location == "/loop" else location
    behave = answering(302, {"location": target}, to="config.json")
    server.models[ID] = Repository({"config.json": config_bytes()}, behave)
    assert refusal(tmp_path).code in ("hub_redirect", "hub_unreachable")
    assert len(server.requests) <= 2 + hub.MAX_REDIRECTS


def test_a_file_kept_elsewhere_is_fetched_there_without_the_token(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with hub_server() as storage:
        storage.models["store/file"] = Repository({"w": weights()})
        there = f"{storage.url}/store/file/resolve/x/w"
        server.models[ID] = Repository(
            {"config.json": config_bytes(), "model.safetensors": b""},
            answering(302, {"location": there}, to="model.safetensors"),
        )
        fetched = fetch(tmp_path)
        assert fetched.checkpoint is not None
        assert fetched.checkpoint.total_bytes == TOTAL
        authorised = [
            {key.lower(): value for key, value in sent.items()}.get("authorization")
            for _, sent in [*server.requests, *storage.requests]
        ]
        assert authorised == [f"Bearer {TOKEN}"] * 3 + [None]


def test_the_older_name_of_the_token_counts_too(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", TOKEN)
    server.models[ID] = Repository({"config.json": config_bytes()})
    fetch(tmp_path)
    sent = {key.lower(): value for key, value in server.requests[0][1].items()}
    assert sent["authorization"] == f"Bearer {TOKEN}"
    assert all(TOKEN not in file.read_text() for file in tmp_path.rglob("*.json"))


# --- Slow, unreachable, offline ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["info", "config.json", "model.safetensors.index.json"])
def test_a_silent_server_is_left_at_the_deadline(server: Server, tmp_path: Path, name: str) -> None:
    server.models[ID] = Repository(sharded(2), waiting(to=name))
    error = refusal(tmp_path, deadline_s=SHORT_S)
    assert error.code == "hub_timeout"
    assert error.values["deadline_s"] == SHORT_S
    assert not server.leaving.is_set()


def test_a_dripping_server_is_left_at_the_deadline(server: Server, tmp_path: Path) -> None:
    def behave(handler: Handler, what: str) -> bool:
        handler.send_response(200)
        handler.send_header("content-length", "1000000")
        handler.end_headers()
        try:
            while not handler.server.leaving.wait(0.05):
                handler.wfile.write(b" ")
        except OSError:
            pass
        return True

    server.models[ID] = Repository({}, behave)
    assert refusal(tmp_path, deadline_s=SHORT_S).code == "hub_timeout"


def test_headers_that_do_not_come_leave_the_configuration(server: Server, tmp_path: Path) -> None:
    files = sharded(2)
    server.models[ID] = Repository(files, waiting(to="model-00002-of-00002.safetensors"))
    fetched = fetch(tmp_path, deadline_s=6 * SHORT_S)  # time enough for the rest
    assert fetched.config == CONFIG
    assert fetched.headers_missing
    assert fetched.checkpoint == CheckpointBytes("safetensors", ID, 2, 2 * TOTAL)
    assert list(tmp_path.rglob("*.json")) == []  # half an answer isn't kept


def test_a_server_that_hangs_up_while_headers_are_read(server: Server, tmp_path: Path) -> None:
    def behave(handler: Handler, what: str) -> bool:
        if what != "model.safetensors":
            return False
        handler.close_connection = True
        return True

    server.models[ID] = Repository(
        {"config.json": config_bytes(), "model.safetensors": b""}, behave
    )
    fetched = fetch(tmp_path)
    assert fetched.headers_missing
    assert fetched.checkpoint is None


def test_a_name_server_that_does_not_answer_is_left_at_the_deadline(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can interrupt a look-up, so the thread that waits for it is left behind."""
    released = threading.Event()
    monkeypatch.setattr(
        "huggingface_hub.get_session", lambda: released.wait() and pytest.fail("asked")
    )
    try:
        assert refusal(tmp_path, deadline_s=SHORT_S).code == "hub_timeout"
    finally:
        monkeypatch.undo()
        released.set()


def test_an_unreachable_host_is_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub_server() as gone:
        url = gone.url
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    error = refusal(tmp_path)
    assert error.code == "hub_unreachable"
    assert error.values["host"] == "127.0.0.1"


@pytest.mark.parametrize(
    "endpoint", ["", "nonsense", "http://[", "http://exa mple.org", "ftp://127.0.0.1"]
)
def test_an_endpoint_that_is_no_address(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    assert refusal(tmp_path).code in ("hub_redirect", "hub_unreachable")


def test_offline_is_said_at_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    server.models[ID] = Repository({"config.json": config_bytes()})
    assert refusal(tmp_path).code == "hub_offline"
    assert server.requests == []


# --- Kept -------------------------------------------------------------------------------------------------------------


def test_what_was_fetched_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    server.models[ID] = Repository({"config.json": config_bytes(), "model.safetensors": weights()})
    first = fetch(tmp_path)
    asked = len(server.requests)
    again = fetch(tmp_path)
    assert len(server.requests) == asked
    assert again.from_cache
    assert (again.config, again.checkpoint, again.revision, again.fetched_at) == (
        first.config,
        first.checkpoint,
        first.revision,
        first.fetched_at,
    )
    assert fetch(tmp_path / "elsewhere").from_cache is False


def test_what_is_old_is_fetched_anew_where_that_can_be(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.models[ID] = Repository({"config.json": config_bytes()})
    fetch(tmp_path)
    server.models[ID] = Repository({"config.json": config_bytes(vocab_size=200)})
    assert fetch(tmp_path, fresh_s=-1.0).config["vocab_size"] == 200
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    offline = fetch(tmp_path, fresh_s=-1.0)
    assert offline.from_cache
    assert offline.config["vocab_size"] == 200
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    server.models[ID] = Repository({}, waiting(to="info"))
    assert fetch(tmp_path, deadline_s=SHORT_S, fresh_s=-1.0).from_cache
    server.models[ID] = Repository({}, answering(403, DISABLED))
    assert refusal(tmp_path, fresh_s=-1.0).code == "hub_disabled"


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b"[" * 10_000, b'{"schema": 1, "id": "x/y"}',
     b'{"schema": 1, "id": "some-org/Some.Model_1", "config": [], "revision": "r", "fetched_at": "2026-01-01"}',
     b'{"schema": 1, "id": "some-org/Some.Model_1", "config": {"headroom_checkpoint": 5}, "revision": "r"}'],
)  # fmt: skip
def test_a_damaged_entry_is_no_entry(server: Server, tmp_path: Path, content: bytes) -> None:
    server.models[ID] = Repository({"config.json": config_bytes()})
    fetch(tmp_path)
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(content)
    assert not fetch(tmp_path).from_cache


def test_a_folder_that_cannot_be_written_costs_only_the_memory(
    server: Server, tmp_path: Path
) -> None:
    server.models[ID] = Repository({"config.json": config_bytes()})
    (tmp_path / "file").write_text("in the way")
    assert not fetch(tmp_path / "file").from_cache
    assert not fetch(tmp_path / "file").from_cache


def test_no_more_is_kept_than_the_limits(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_cache, "MAX_FILES", 3)
    for number in range(6):
        server.models[f"org/m{number}"] = Repository({"config.json": config_bytes()})
        fetch(tmp_path, f"org/m{number}")
        for file in tmp_path.rglob(f"org--m{number}-*.json"):
            os.utime(file, (1000 + number, 1000 + number))
    kept = sorted(file.name[:7] for file in tmp_path.rglob("*.json"))
    assert kept == ["org--m3", "org--m4", "org--m5"]
    monkeypatch.setattr(hub_cache, "MAX_TOTAL_BYTES", 1)
    fetch(tmp_path, "org/m0")
    assert list(tmp_path.rglob("*.json")) == []


def test_the_folder_is_the_users_to_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADROOM_HOME", str(tmp_path))
    assert hub_cache.default_home() == str(tmp_path)
    monkeypatch.delenv("HEADROOM_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert hub_cache.default_home() == str(tmp_path / "headroom")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert hub_cache.default_home().endswith("Caches/headroom")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert hub_cache.default_home() == str(tmp_path / "headroom" / "cache")


# --- The command line -------------------------------------------------------------------------------------------------


def command(server: Server, home: Path, *arguments: str, **environment: str) -> Any:
    """The command line in a process of its own, with the server as its Hub."""
    return subprocess.run(
        [sys.executable, "-m", "planner", "estimate", "--gpu", "t4", "--json", "--lang", "en", *arguments],
        cwd=ROOT,
        env=os.environ | {"HF_ENDPOINT": server.url, "HEADROOM_HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip


def test_the_command_line_fetches_only_when_told_to(server: Server, tmp_path: Path) -> None:
    server.models[ID] = Repository({"config.json": config_bytes(), "model.safetensors": weights()})
    unasked = command(server, tmp_path, "--model", ID)
    assert unasked.returncode == 1
    assert json.loads(unasked.stdout)["error"]["code"] == "unknown_model"
    assert server.requests == []
    asked = command(server, tmp_path, "--model", ID, "--hub")
    assert asked.returncode == 0, asked.stderr
    notes = {note["code"]: note for note in json.loads(asked.stdout)["assumptions"]}
    assert notes["checkpoint_bytes_far"]["values"]["file_bytes"] == TOTAL
    assert len(server.requests) == 3
    again = command(server, tmp_path, "--model", ID, "--hub", HF_HUB_OFFLINE="1")
    assert again.returncode == 0
    assert "fetched before" in again.stderr
    assert len(server.requests) == 3


def test_the_command_line_says_why_not(server: Server, tmp_path: Path) -> None:
    refused = command(server, tmp_path, "--model", "nobody/nothing", "--hub")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["code"] == "hub_not_found"
    offline = command(server, tmp_path, "--model", ID, "--hub", HF_HUB_OFFLINE="1")
    assert json.loads(offline.stdout)["error"]["code"] == "hub_offline"
    assert "Traceback" not in refused.stderr + offline.stderr
