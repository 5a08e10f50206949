"""Servers that lie about what they count, or send back what they were given: nothing grows, counts or shows by it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from planner.errors import InvalidInput
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
