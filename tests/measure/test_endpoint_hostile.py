"""Servers that lie about what they count, or send back what they were given: nothing grows, counts or shows by it."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from planner.errors import InvalidInput, Unreachable
from planner.measure.endpoint import public_only
from planner.measure.endpoint.prompts import MOST_WORDS_PER_TOKEN, Prompts
from planner.measure.record import record_text
from tests.measure.endpoint_runs import SHORT, bench
from tests.measure.fake_openai import running

KEY = "sk-headroom-echoed-2468013579"


# --- Counts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [1, 5, 999_999_999])
def test_no_prompt_grows_by_what_a_server_says_it_counts(said: int) -> None:
    with running(says={"prompt_tokens": said}) as fake:
        record = bench(fake)
        longest = max(len(body["prompt"].split()) for body in fake.asked)
    assert longest <= MOST_WORDS_PER_TOKEN * SHORT["input_tokens"]
    row = record.rows[0]
    assert row.role == "other"
    assert {"counts_absurd", "prompt_not_counted"} <= set(row.notes)
    assert row.scenario["input_tokens"] == SHORT["input_tokens"]


def test_answers_longer_than_was_asked_for_do_not_count() -> None:
    with running(says={"completion_tokens": 999_999_999}) as fake:
        row = bench(fake).rows[0]
    assert row.role == "other"
    assert {"counts_absurd", "tokens_counted_as_pieces"} <= set(row.notes)
    assert row.scenario["output_tokens"] == SHORT["output_tokens"]


def test_a_server_that_counts_as_tokenizers_do_is_believed() -> None:
    for per_word, overhead in ((1, 0), (2, 3), (7, 40), (1, 900)):
        with running(tokens_per_word=per_word, overhead=overhead) as fake:
            row = bench(fake).rows[0]
        assert row.role == "fit", (per_word, overhead)
        assert "counts_absurd" not in row.notes


@pytest.mark.parametrize(
    ("counts", "ratio"),
    [
        ((4, 1, 8, 2), 4.0),
        ((4, 20, 8, 40), 0.2),
        ((4, 1, 400, 2), 1.0),
        ((4, 1, 8, 999_999_999), 1.0),
        ((4, 900_000, 8, 900_004), 1.0),
    ],
)
def test_what_no_tokenizer_counts_is_not_learnt(
    counts: tuple[int, int, int, int], ratio: float
) -> None:
    prompts = Prompts("run")
    prompts.learn(*counts)
    assert prompts.words_per_token == ratio
    prompts.refine(1_000_000, 1_000)
    assert prompts.words_per_token == ratio
    assert prompts.words_for(200_000) <= MOST_WORDS_PER_TOKEN * 200_000


def test_a_stop_is_heeded_while_prompts_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    text = Prompts.text

    def slowly(prompts: Prompts, words: int, salt: str) -> str:
        written.append(salt)
        if not salt.startswith(("probe", "warmup")):
            time.sleep(0.06)  # longer than between two looks
        return text(prompts, words, salt)

    monkeypatch.setattr(Prompts, "text", slowly)
    with running() as fake:
        levels: list[dict[str, Any]] = [{"concurrency": 1, "requests": 500}]
        record = bench(fake, {"stop": lambda: len(written) >= 10}, levels=levels)
    assert record.notes == ["cancelled"]
    assert record.rows == []
    assert len(written) < 30


# --- The key ---------------------------------------------------------------------------------------------------------


def echoing(**more: Any) -> dict[str, Any]:
    """A server that sends back the key wherever it may say something."""
    said = json.dumps({"version": f"1.0 {KEY}"}).encode()
    return {"key": KEY, "software": f"x/{KEY}", "owner": "vllm", "version": said} | more


@pytest.mark.parametrize(
    "behaviour",
    [
        echoing(models=(f"tiny-{KEY}",)),
        echoing(models=("y" * 180 + KEY,)),
        echoing(owner="z" * 50 + KEY),
    ],
)
def test_a_key_that_the_server_sends_back_is_kept_nowhere(behaviour: dict[str, Any]) -> None:
    steps: list[dict[str, Any]] = []
    with running(**behaviour) as fake:
        record = bench(fake, {"key": KEY, "listener": steps.append})
    assert record.rows[0].counts == {"done": 6}
    for part in (KEY, KEY[:12], KEY[-12:]):  # nor cut in two
        assert part not in record_text(record) + repr(steps)
    assert "***" in record_text(record)


def test_a_key_among_the_names_of_several_models_is_not_told() -> None:
    with running(**echoing(models=("a", KEY))) as fake, pytest.raises(InvalidInput) as refused:
        bench(fake, {"key": KEY})
    assert refused.value.values["names"] == ("a", "***")


def test_a_word_too_short_for_a_secret_leaves_names_as_they_are() -> None:
    with running(models=("mixtral",), key="x") as fake:
        assert bench(fake, {"key": "x"}).rows[0].scenario["model"] == "mixtral"


# --- Where it may go -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("::ffff:8.8.8.8", True), ("2002:808:808::1", True),
        ("64:ff9b::808:808", True), ("127.0.0.1", False), ("::1", False), ("0.0.0.0", False), ("::", False),
        ("10.1.2.3", False), ("172.16.0.1", False), ("192.168.1.5", False), ("169.254.169.254", False),
        ("100.64.0.1", False), ("224.0.0.1", False), ("255.255.255.255", False), ("fe80::1%eth0", False),
        ("fd00::1", False), ("ff02::1", False), ("::ffff:127.0.0.1", False), ("::ffff:10.0.0.1", False),
        ("2002:7f00:1::1", False), ("64:ff9b::7f00:1", False), ("64:ff9b::a9fe:a9fe", False), ("nonsense", False),
    ],
)  # fmt: skip
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert public_only.is_public(address) is public


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0"])
def test_no_name_of_this_machine_gets_through(host: str) -> None:
    with running() as fake, pytest.raises(Unreachable) as refused:
        bench(fake, {"public_only": True}, url=f"http://{host}:{fake.port}/v1")
    # Where the system knows a number as no name, nothing is reached either.
    assert refused.value.code in ("endpoint_not_public", "endpoint_unreachable")
    assert fake.seen == []


def looked_up(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Makes each look-up give the next of these lists of addresses; returns the names that are looked up."""
    names: list[str] = []

    def found(host: str, port: int, *_: object, **__: object) -> list[tuple[Any, ...]]:
        names.append(host)
        given = answers[min(len(names), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in given]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    return names


def test_one_private_address_among_a_name_s_is_enough_to_refuse_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up(monkeypatch, ["8.8.8.8", "127.0.0.1"])
    with running() as fake, pytest.raises(Unreachable) as refused:
        bench(fake, {"public_only": True}, url=f"http://mixed.example:{fake.port}/v1")
    assert refused.value.code == "endpoint_not_public"
    assert fake.seen == []


def test_a_name_that_resolves_elsewhere_later_leads_to_the_checked_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_public = public_only.is_public
    # Stands for a public server: the fake one has no other address.
    monkeypatch.setattr(public_only, "is_public", lambda one: one == "127.0.0.1" or is_public(one))
    with running() as fake:
        names = looked_up(monkeypatch, ["127.0.0.1"], ["127.0.0.9"])
        url = f"http://rebound.example:{fake.port}/v1"
        record = bench(fake, {"public_only": True}, url=url)
        assert {headers["Host"] for _, headers, _ in fake.seen} == {f"rebound.example:{fake.port}"}
    assert record.rows[0].counts == {"done": 6}
    assert names.count("rebound.example") == 1
