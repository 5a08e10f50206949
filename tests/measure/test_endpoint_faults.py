"""What becomes of a benchmark whose server breaks in any of its ways: a clear end, nothing lost, no key shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.errors import PlannerError, Unreachable
from planner.measure.endpoint.stream import EventStream, StreamBroken, read_models, read_piece
from planner.measure.record import record_text
from tests.measure.endpoint_runs import bench
from tests.measure.fake_openai import running

BEFORE = 2 + 2  # probes and warm-up
KEY = "sk-headroom-test-0123456789"

KINDS = {
    "429": "http_429",
    "500": "http_500",
    "418": "http_4xx",
    "redirect": "http_3xx",
    "closed": "broken_stream",
    "early_end": "broken_stream",
    "html": "broken_stream",
    "bad_json": "bad_json",
    "error_event": "server_error",
    "endless_line": "too_long",
    "endless_answer": "too_long",
    "empty": "empty_answer",
}


@pytest.mark.parametrize(("fault", "kind"), KINDS.items())
def test_a_fault_amid_the_load_is_counted_by_its_kind(fault: str, kind: str) -> None:
    with running(fault=fault, healthy=BEFORE + 3) as fake:
        record = bench(fake, levels=[{"concurrency": 1, "requests": 5}])
    row = record.rows[0]
    assert row.counts == {"done": 3, kind: 2}
    assert row.outcome == "measured"
    assert row.measured["ttft_s"].repeats == 3
    assert "some_requests_failed" in row.notes
    assert row.role == "other"
    assert record.notes == []


def test_a_kept_connection_that_is_closed_as_a_request_goes_out_is_no_failure() -> None:
    with running(drops_kept=True) as fake:
        row = bench(fake, levels=[{"concurrency": 2, "requests": 6}]).rows[0]
    assert row.counts == {"done": 6}
    assert len(fake.asked) == BEFORE + 6


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_an_answer_of_special_tokens_alone_is_one(api: str) -> None:
    with running(text="", first_s=0.01, token_s=0.01) as fake:
        row = bench(fake, api=api, levels=[{"concurrency": 1, "requests": 3}]).rows[0]
    assert row.counts == {"done": 3}
    assert 0.01 <= row.measured["ttft_s"].low < row.measured["e2e_s"].low
    assert row.measured["tpot_s"].repeats == row.measured["ttft_s"].repeats == 3


def test_nothing_tells_an_answer_without_text_and_count_from_none() -> None:
    with running(text="", counts=False) as fake:
        row = bench(fake, levels=[{"concurrency": 1, "requests": 2}]).rows[0]
    assert row.counts == {"empty_answer": 2}


@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        ("429", "endpoint_refused", "HTTP 429"),
        ("500", "endpoint_refused", "HTTP 500"),
        ("404", "endpoint_no_such_api", None),
        ("401", "endpoint_key_refused", None),
        ("closed", "endpoint_refused", "broken_stream"),
        ("html", "endpoint_refused", "broken_stream"),
        ("bad_json", "endpoint_refused", "bad_json"),
        ("redirect", "endpoint_redirects", None),
    ],
)
def test_a_server_that_never_answers_well_is_refused(
    fault: str, code: str, reason: str | None
) -> None:
    with running(fault=fault) as fake, pytest.raises(Unreachable) as refused:
        bench(fake)
    assert refused.value.code == code
    assert refused.value.values.get("reason") == reason


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_server_that_never_ends_an_answer_is_left_when_time_is_up(fault: str) -> None:
    steps: list[dict[str, Any]] = []
    with running(fault=fault) as fake, pytest.raises(Unreachable) as refused:
        bench(fake, {"listener": steps.append}, max_seconds=1.0, timeout_s=60.0)
    assert refused.value.code == "endpoint_too_slow"
    assert steps[-1]["phase"] == "failed"
    assert steps[-1]["note"] == "endpoint_too_slow"


def test_a_piece_that_does_not_come_is_a_timeout() -> None:
    with running(fault="hang", healthy=BEFORE + 1) as fake:
        row = bench(fake, levels=[{"concurrency": 1, "requests": 2}], timeout_s=0.5).rows[0]
    assert row.counts == {"done": 1, "timeout": 1}


def test_nobody_listens() -> None:
    with running() as fake:
        pass
    with pytest.raises(Unreachable) as refused:
        bench(fake)
    assert refused.value.code == "endpoint_unreachable"


def test_a_server_unplugged_midway_leaves_what_was_measured() -> None:
    with running(token_s=0.002) as fake:

        def told(step: dict[str, Any]) -> None:
            if step["phase"] == "requests" and step["done"] == 7:
                fake.unplug()

        levels = [{"concurrency": 1, "requests": 4}, {"concurrency": 2, "requests": 400}]
        record = bench(fake, {"listener": told}, levels=levels)
    assert record.notes == ["too_many_failures"]
    assert record.rows[0].counts == {"done": 4}
    second = record.rows[1].counts
    assert second["done"] >= 3
    assert second["no_connection"] >= 15
    assert sum(second.values()) < 60


def test_a_load_in_which_everything_fails_is_a_row_that_says_so() -> None:
    with running(fault="500", healthy=BEFORE) as fake:
        record = bench(fake, levels=[{"concurrency": 2, "requests": 6}])
    assert record.rows[0].outcome == "failed"
    assert record.rows[0].counts == {"http_500": 6}
    assert record.rows[0].measured == {}


# --- The key ----------------------------------------------------------------------------------------------------------


def test_the_key_goes_to_the_server_and_into_nothing_else() -> None:
    steps: list[dict[str, Any]] = []
    with running(key=KEY) as fake:
        record = bench(fake, {"key": f" {KEY}\n", "listener": steps.append})
        assert {headers["Authorization"] for _, headers, _ in fake.seen} == {f"Bearer {KEY}"}
    assert record.rows[0].counts == {"done": 6}
    assert KEY not in record_text(record)
    assert KEY not in repr(steps)


@pytest.mark.parametrize("given", ["", "sk-wrong"])
def test_a_wrong_key_is_refused_without_showing_it(given: str) -> None:
    with running(key=KEY) as fake, pytest.raises(Unreachable) as refused:
        bench(fake, {"key": given})
    assert refused.value.code == "endpoint_key_refused"
    assert refused.value.values["variable"] == "HEADROOM_ENDPOINT_KEY"
    assert not given or given not in str(refused.value)


@pytest.mark.parametrize("given", ["sk-ñ-secret", "sk-a\nsk-b"])
def test_a_key_that_fits_no_header_is_refused_without_showing_it(given: str) -> None:
    with running() as fake, pytest.raises(PlannerError) as refused:
        bench(fake, {"key": given})
    assert refused.value.code == "endpoint_key_unusable"
    assert "sk-" not in str(refused.value)
    assert fake.seen == []


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_ENDPOINT_KEY", KEY)
    with running(key=KEY) as fake:
        assert bench(fake, {"key": None}).rows[0].counts == {"done": 6}


@pytest.mark.parametrize("fault", ["redirect", "redirect_models"])
def test_a_redirect_is_not_followed_and_the_key_not_sent_on(fault: str) -> None:
    with (
        running() as other,
        running(fault=fault, elsewhere=other.port) as fake,
        pytest.raises(Unreachable) as refused,
    ):
        bench(fake, {"key": KEY}, model="tiny")
    assert refused.value.code == "endpoint_redirects"
    assert other.seen == []


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as proxy, running() as fake:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        bench(fake)
        assert proxy.seen == []


# --- What is read -----------------------------------------------------------------------------------------------------


def test_events_are_the_same_wherever_the_bytes_were_cut() -> None:
    lines = (
        b": comment\r\n\r\n"
        b'data: {"choices":[{"text":"\xc3\xa9","finish_reason":null}]}\r\n\r\n'
        b'data:{"choices":[{"text":"","finish_reason":"stop"}]}\n\n'
        b'event: x\ndata: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
        b"data: [DONE]\n\n"
    )
    whole = EventStream().feed(lines)
    assert [piece.text for piece in whole] == [True, False, False, False]
    assert [piece.finished for piece in whole] == [False, True, False, False]
    assert (whole[2].prompt_tokens, whole[2].completion_tokens) == (7, 2)
    assert whole[3].done
    for size in (1, 2, 7, 50):
        stream = EventStream()
        parts = [lines[i : i + size] for i in range(0, len(lines), size)]
        assert [piece for part in parts for piece in stream.feed(part)] == whole


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("{", "bad_json"),
        ("[" * 100_000, "bad_json"),
        ("[1]", "bad_json"),
        ('{"choices": [1]}', "bad_json"),
        ('{"error": {"message": "no"}}', "server_error"),
    ],
)
def test_data_that_is_no_piece(said: str, kind: str) -> None:
    with pytest.raises(StreamBroken) as broken:
        read_piece(said)
    assert broken.value.kind == kind


@pytest.mark.parametrize("count", [True, -1, 1.5, "7", 10**12, None])
def test_counts_that_are_none_are_left_out(count: Any) -> None:
    piece = read_piece(json.dumps({"choices": [], "usage": {"completion_tokens": count}}))
    assert piece.completion_tokens is None


@pytest.mark.parametrize("key", ["content", "reasoning_content", "reasoning"])
def test_what_a_chat_says_or_thinks_is_text(key: str) -> None:
    assert read_piece(f'{{"choices": [{{"delta": {{"{key}": "x"}}}}]}}').text
    assert not read_piece(
        f'{{"choices": [{{"delta": {{"role": "assistant", "{key}": ""}}}}]}}'
    ).text


@pytest.mark.parametrize(
    "listed", [b"", b"null", b"[]", b'{"data": 1}', b'{"data": [1, {}]}', b"[" * 100_000]
)
def test_what_lists_no_model(listed: bytes) -> None:
    assert read_models(listed, str) == []


def test_names_of_models_can_be_shown() -> None:
    assert read_models(b'{"data": [{"id": "a\\u001b[31m\\ud800", "owned_by": null}]}', str) == [
        ("a?[31m?", "")
    ]
