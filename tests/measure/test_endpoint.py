"""The benchmark of an endpoint against a server with known timings: what it counts, orders and leaves out.

Times are compared with what the server can't undercut, never with a clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from planner.errors import InvalidInput
from planner.measure.endpoint.benchmark import arrival_gaps_s
from planner.measure.endpoint.options import (
    EndpointOptions,
    Lengths,
    Level,
    levels_of,
    parse_options,
    parse_trace,
)
from planner.measure.endpoint.prompts import Prompts
from planner.measure.endpoint.record import Answer, level_row
from planner.measure.record import Percentiles, Record, Row, parse_record, record_text
from planner.ui.locale import say_error
from tests.measure.endpoint_runs import SHORT, bench
from tests.measure.fake_openai import MODEL, Fake, running

FIRST_S, TOKEN_S, TOKENS = 0.08, 0.01, 6


@pytest.fixture(scope="module")
def timed() -> Iterator[tuple[Fake, Record]]:
    levels: list[dict[str, Any]] = [
        {"concurrency": 1, "requests": 3},
        {"concurrency": 4, "requests": 12},
        {"rate_per_s": 40.0, "requests": 9},
    ]
    lengths = [{"input_tokens": 200, "output_tokens": TOKENS}]
    with running(first_s=FIRST_S, token_s=TOKEN_S) as fake:
        yield fake, bench(fake, lengths=lengths, levels=levels)


def ends(percentiles: Percentiles) -> list[float]:
    return [percentiles.p50, percentiles.p90, percentiles.p95, percentiles.p99]


def test_each_load_is_a_row_with_all_of_its_requests(timed: tuple[Fake, Record]) -> None:
    record = timed[1]
    assert [(row.id, row.role, row.counts) for row in record.rows] == [
        ("endpoint-1-c1", "fit", {"done": 3}),
        ("endpoint-2-c4", "fit", {"done": 12}),
        ("endpoint-3-r40", "other", {"done": 9}),
    ]
    assert all(row.scenario["output_tokens"] == TOKENS for row in record.rows)
    assert record.notes == []
    assert record.origin == "endpoint"
    assert record.software["owned_by"] == "fake"


def test_no_time_is_shorter_than_the_server_takes(timed: tuple[Fake, Record]) -> None:
    for row in timed[1].rows:
        assert row.measured["ttft_s"].low >= FIRST_S
        # A delay shows between the first piece and the last, however late each of them is read.
        least_s = FIRST_S + (TOKENS - 1) * TOKEN_S
        assert row.measured["e2e_s"].low >= least_s
        assert row.measured["e2e_s"].median >= row.measured["ttft_s"].median


def test_percentiles_are_in_order_and_hold_the_median(timed: tuple[Fake, Record]) -> None:
    for row in timed[1].rows:
        assert {"ttft_s", "tpot_s", "itl_s", "e2e_s"} <= row.percentiles.keys()
        for name, percentiles in row.percentiles.items():
            assert ends(percentiles) == sorted(ends(percentiles))
            spread = row.measured[name]
            assert spread.low <= spread.median == percentiles.p50 <= spread.high


def test_throughput_is_tokens_over_time(timed: tuple[Fake, Record]) -> None:
    for row in timed[1].rows:
        done = row.counts["done"]
        rate = row.measured["output_tokens_per_s"].median
        longest_s = row.percentiles["e2e_s"].p99
        # All requests one after another would take this long at most, and none can be shorter than the longest.
        assert rate <= done * TOKENS / row.measured["e2e_s"].low
        if row.id.endswith("c1"):
            assert rate <= TOKENS / (FIRST_S + (TOKENS - 1) * TOKEN_S)
        assert longest_s > 0.0
        whole = row.measured["total_tokens_per_s"].median
        inputs, outputs = int(row.scenario["input_tokens"]), int(row.scenario["output_tokens"])
        assert whole / rate == pytest.approx((inputs + outputs) / outputs, rel=0.05)


def test_the_prompt_has_the_length_that_was_asked_for_as_the_server_counts(
    timed: tuple[Fake, Record],
) -> None:
    fake, record = timed
    for row in record.rows:
        assert row.scenario["input_tokens"] == pytest.approx(200, abs=fake.tokens_per_word)


def test_a_record_of_it_is_read_back_as_it_was(timed: tuple[Fake, Record]) -> None:
    assert parse_record(record_text(timed[1])) == timed[1]


# --- Loads ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_a_closed_loop_keeps_so_many_in_flight(at_once: int) -> None:
    with running(gate=threading.Barrier(at_once), healthy=2) as fake:
        levels = [{"concurrency": at_once, "requests": 4 * at_once}]
        record = bench(fake, levels=levels, warmup=0, timeout_s=60.0)
        assert fake.most_in_flight == at_once
    assert record.rows[0].counts == {"done": 4 * at_once}
    assert record.rows[0].scenario["concurrency"] == at_once


def test_warm_up_and_probes_are_sent_and_not_counted() -> None:
    with running() as fake:
        record = bench(fake, warmup=3, levels=[{"concurrency": 1, "requests": 4}])
        assert len(fake.asked) == 2 + 3 + 4
    assert record.rows[0].counts == {"done": 4}


def test_no_two_prompts_of_a_run_or_of_two_runs_are_the_same() -> None:
    with running() as fake:
        bench(fake)
        bench(fake)
        prompts = [body["prompt"] for body in fake.asked]
    assert len(set(prompts)) == len(prompts)


def test_a_trace_is_taken_in_turn() -> None:
    trace = [{"input_tokens": 30, "output_tokens": n} for n in (2, 4, 6)]
    with running() as fake:
        record = bench(
            fake,
            lengths=trace,
            lengths_file="/somewhere/private/mine.csv",
            levels=[{"concurrency": 1, "requests": 6}],
        )
        assert [body["max_tokens"] for body in fake.asked[-6:]] == [2, 4, 6, 2, 4, 6]
    assert record.lengths_file == "mine.csv"
    assert "private" not in record_text(record)


def test_poisson_arrivals_are_as_many_and_the_same_for_the_same_seed() -> None:
    gaps = list(islice(arrival_gaps_s(7, 1, 4.0), 4_000))
    assert gaps == list(islice(arrival_gaps_s(7, 1, 4.0), 4_000))
    assert gaps != list(islice(arrival_gaps_s(8, 1, 4.0), 4_000))
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(1 / 4.0, rel=0.05)
    assert deviation == pytest.approx(mean, rel=0.08)  # of an exponential distribution


def test_poisson_arrivals_do_not_wait_for_answers() -> None:
    with running(gate=threading.Barrier(12), healthy=2) as fake:
        levels = [{"rate_per_s": 1_000.0, "requests": 12}]
        record = bench(fake, levels=levels, warmup=0, timeout_s=60.0)
        assert fake.most_in_flight == 12
    assert record.rows[0].counts == {"done": 12}


def test_poisson_arrivals_are_kept_with_the_rate_that_they_came_at() -> None:
    with running() as fake:
        levels = [{"rate_per_s": rate, "requests": requests} for rate, requests in LOADS]
        rows = bench(fake, levels=levels, warmup=0, timeout_s=60.0).rows
    for row, (rate, requests) in zip(rows, LOADS, strict=True):
        gaps = list(islice(arrival_gaps_s(0, rows.index(row) + 1, rate), requests - 1))
        assert row.arrivals == "poisson"
        assert row.request_rate_per_s == pytest.approx((requests - 1) / sum(gaps), rel=0.15)
    assert [row.role for row in rows] == ["fit", "other"]
    assert "too_few_arrivals" in rows[1].notes


LOADS = ((40.0, 40), (40.0, 6))


def test_arrivals_that_outrun_the_server_do_not_count() -> None:
    """All come within the first tenth of the time that they take to be answered."""
    answers = [
        Answer(10, "done", i * 0.01, 5.0 + i * 0.1, 8, counted=True, prompt_counted=True)
        for i in range(50)
    ]
    for answer in answers:
        answer.pieces_s.extend((answer.ended_s - 0.5, answer.ended_s))
    level = Level(rate_per_s=100.0, requests=50)
    options = EndpointOptions(
        url="http://127.0.0.1:1/v1",
        lengths=[Lengths(input_tokens=10, output_tokens=8)],
        levels=[level],
    )
    row = level_row(options, "m", level, 1, answers, 0.0)
    assert (row.role, row.request_rate_per_s) == ("other", pytest.approx(100.0))
    assert "arrivals_not_kept_up_with" in row.notes


# --- Bounds -----------------------------------------------------------------------------------------------------------

SPARE = {"concurrency": 1, "requests": 2}


def test_no_more_tokens_are_asked_for_than_allowed() -> None:
    with running() as fake:
        record = bench(
            fake, levels=[{"concurrency": 1, "requests": 50}, SPARE], max_tokens=7 * 45, warmup=0
        )
        assert len(fake.asked) == 2 + 7
    assert record.notes == ["out_of_tokens"]
    assert [row.counts for row in record.rows] == [{"done": 7}]


def test_what_is_in_flight_when_time_is_up_is_counted() -> None:
    with running(fault="hang", healthy=2 + 2 + 4) as fake:
        levels = [{"concurrency": 2, "requests": 40}, SPARE]
        record = bench(fake, levels=levels, max_seconds=3.0)
    assert record.notes == ["out_of_time"]
    assert len(record.rows) == 1
    assert record.rows[0].counts["cut_off"] == 2
    assert "some_requests_failed" in record.rows[0].notes
    assert record.rows[0].role == "other"


def test_what_is_in_flight_when_it_is_cancelled_is_counted() -> None:
    with running(fault="hang", healthy=2 + 2 + 4) as fake:
        levels = [{"concurrency": 2, "requests": 40}, SPARE]
        record = bench(fake, {"stop": lambda: len(fake.asked) == 2 + 2 + 4 + 2}, levels=levels)
    assert record.notes == ["cancelled"]
    assert [row.counts for row in record.rows] == [{"done": 4, "cut_off": 2}]


def test_cancelling_keeps_what_was_measured() -> None:
    with running() as fake:
        record = bench(
            fake,
            {"stop": lambda: len(fake.asked) >= 2 + 2 + 5},
            levels=[{"concurrency": 1, "requests": 3}, {"concurrency": 1, "requests": 500}],
        )
    assert record.notes == ["cancelled"]
    assert record.rows[0].counts == {"done": 3}
    assert sum(record.rows[1].counts.values()) < 500


def test_the_record_is_kept_after_each_load() -> None:
    kept: list[Record] = []
    with running() as fake:
        record = bench(fake, {"keep": kept.append}, levels=[SPARE, SPARE])
    assert [len(one.rows) for one in kept] == [1, 2, 2]
    assert kept[-1] == record


def test_steps_are_told_in_order() -> None:
    steps: list[dict[str, Any]] = []
    with running() as fake:
        bench(fake, {"listener": steps.append}, levels=[SPARE, SPARE])
    assert list(dict.fromkeys(step["phase"] for step in steps)) == [
        "probe", "warmup", "requests", "done",
    ]  # fmt: skip
    told = [(step["done"], step["total"]) for step in steps if step["phase"] == "requests"]
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


# --- Servers that differ ----------------------------------------------------------------------------------------------


def test_chat_completions() -> None:
    with running() as fake:
        record = bench(fake, api="chat")
        assert {path for path, _, body in fake.seen if body} == {"/v1/chat/completions"}
        assert fake.asked[-1]["messages"][0]["role"] == "user"
    assert record.rows[0].counts == {"done": 6}
    assert record.software["api"] == "chat"


def test_without_counts_pieces_are_counted_and_the_row_only_tells() -> None:
    with running(counts=False) as fake:
        row = bench(fake).rows[0]
    assert row.scenario["output_tokens"] == SHORT["output_tokens"]
    assert {"tokens_counted_as_pieces", "prompt_not_counted"} <= set(row.notes)
    assert row.role == "other"


@pytest.mark.parametrize(
    ("refuses", "still_sent", "note"),
    [
        (("ignore_eos",), {"stream_options"}, ["ignore_eos_refused"]),
        (("ignore_eos", "stream_options"), set(), ["ignore_eos_refused"]),
        ((), {"ignore_eos", "stream_options"}, []),
    ],
)
def test_fields_that_are_refused_are_left_out(
    refuses: tuple[str, ...], still_sent: set[str], note: list[str]
) -> None:
    with running(refuses=refuses) as fake:
        record = bench(fake)
        assert {"ignore_eos", "stream_options"} & fake.asked[-1].keys() == still_sent
    assert record.notes == note
    assert record.rows[0].counts == {"done": 6}


def test_answers_that_end_early_are_noted() -> None:
    with running(stop_after=3) as fake:
        row = bench(fake).rows[0]
    assert "answers_ended_early" in row.notes
    assert row.scenario["output_tokens"] == 3


def test_the_only_model_needs_no_name_and_several_do() -> None:
    with running() as fake:
        assert bench(fake).rows[0].scenario["model"] == MODEL
    with running(models=("one", "two")) as fake:
        with pytest.raises(InvalidInput) as refused:
            bench(fake)
        assert refused.value.code == "endpoint_needs_model"
        assert refused.value.values["names"] == ("one", "two")
        assert bench(fake, model="two").rows[0].scenario["model"] == "two"
    with running(models=()) as fake:
        with pytest.raises(InvalidInput) as refused:
            bench(fake)
        assert refused.value.code == "endpoint_lists_no_model"


@pytest.mark.parametrize(
    ("version", "owner", "known"),
    [
        (b'{"version": "0.11.0"}', "vllm", "0.11.0"),
        (b'{"version": 7}', "vllm", None),
        (b"hello", "vllm", None),
        (None, "vllm", None),
        (b'{"version": "0.11.0"}', "library", None),
    ],
)
def test_a_vllm_server_tells_its_version(
    version: bytes | None, owner: str, known: str | None
) -> None:
    with running(owner=owner, version=version) as fake:
        record = bench(fake, levels=[SPARE])
    assert record.software["owned_by"] == owner
    assert record.software.get("engine_version") == known


def test_a_short_load_is_noted_and_only_tells() -> None:
    with running() as fake:
        row: Row = bench(fake, levels=[{"concurrency": 4, "requests": 5}]).rows[0]
    assert "too_few_rounds" in row.notes
    assert row.role == "other"


def test_a_program_that_cannot_keep_up_says_that_it_measured_itself() -> None:
    """As told steps hold it up, an answer that came long ago is read late."""

    def holds_up(step: dict[str, Any]) -> None:
        if step["phase"] == "requests":
            time.sleep(0.1)

    with running() as fake:
        levels = [{"concurrency": 4, "requests": 40}]
        row = bench(fake, {"listener": holds_up}, levels=levels).rows[0]
    assert "client_busy" in row.notes
    assert row.noisy


def test_what_is_faster_than_the_named_card_can_be_counts_in_no_calibration() -> None:
    given = {"gpu": "l4", "engine": "vllm", "model": "Qwen/Qwen2.5-0.5B-Instruct"}
    # Half a billion weights of two bytes at 300 GB/s: 3.3 ms a token at the very best.
    levels = [{"concurrency": 1, "requests": 6}, {"concurrency": 2, "requests": 6}]
    with running() as fake:
        record = bench(fake, given=given, levels=levels)
    assert all("faster_than_possible" in row.notes for row in record.rows)
    assert {row.role for row in record.rows} == {"other"}
    assert record.calibration is None
    with running(first_s=0.02, token_s=0.005) as fake:
        possible = bench(fake, given=given, levels=levels)
        large = bench(fake, given=given | {"model": "Qwen/Qwen2.5-7B-Instruct"}, levels=levels)
    assert not any("faster_than_possible" in row.notes for row in possible.rows)
    assert possible.accelerator == "l4"
    assert all("faster_than_possible" in row.notes for row in large.rows)


# --- Options ----------------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "url": "http://127.0.0.1:1/v1",
    "lengths": [SHORT],
    "levels": [{"concurrency": 1, "requests": 1}],
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://host/v1"},
        {"url": "http://user:pass@host/v1"},
        {"url": "http://host/v1?key=secret"},
        {"url": "http://host:99999/v1"},
        {"url": "http://[::1/v1"},
        {"levels": []},
        {"levels": [{"requests": 1}]},
        {"levels": [{"concurrency": 1, "rate_per_s": 1.0, "requests": 1}]},
        {"levels": [{"concurrency": 1, "requests": 1_500}] * 2},
        {"levels": [{"rate_per_s": float("nan"), "requests": 1}]},
        {"lengths": [{"input_tokens": 10, "output_tokens": 0}]},
        {"max_tokens": 20},
        {"max_seconds": 1e9},
        {"other": 1},
    ],
)
def test_options_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    parse_options(GOOD)
    with pytest.raises(InvalidInput) as refused:
        parse_options(GOOD | wrong)
    assert refused.value.code.startswith("endpoint_")
    assert "secret" not in str(refused.value.values)


@pytest.mark.parametrize(
    ("wrong", "flag", "most"),
    [
        ({"levels": levels_of("99999999999999", "", None)}, "--concurrency", "512"),
        ({"levels": levels_of("0", "", None)}, "--concurrency", "512"),
        ({"levels": levels_of("1,4", "1e300", None)}, "--rate", "1,000"),
        ({"levels": levels_of("", "1e-300", None)}, "--rate", "1,000"),
        ({"levels": levels_of("", "nan", None)}, "--rate", "1,000"),
        ({"levels": levels_of("", "-1", None)}, "--rate", "1,000"),
        ({"levels": levels_of("1", "", 5000)}, "--requests", "2,000"),
        ({"levels": levels_of("1,4,16,64", "", 600)}, "--requests", "2,000"),
        ({"levels": levels_of("1," * 13, "", 1)}, "--rate", "12"),
        ({"levels": []}, "--rate", "12"),
        ({"lengths": [{"input_tokens": 0, "output_tokens": 1}]}, "--input-tokens", "200,000"),
        ({"lengths": [{"input_tokens": 1, "output_tokens": 10**6}]}, "--output-tokens", "200,000"),
        ({"max_seconds": float("nan")}, "--max-seconds", "1,800"),
        ({"timeout_s": -1.0}, "--timeout", "600"),
        ({"warmup": 51}, "--warmup", "50"),
        ({"max_tokens": 20}, "--max-tokens", "20"),
    ],
)
def test_an_option_beyond_its_limits_is_called_as_people_know_it(
    wrong: dict[str, Any], flag: str, most: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_options(GOOD | wrong)
    said = say_error(refused.value, "en")
    assert flag in said
    assert most in said
    assert "_" not in said
    assert len(said) < 250
    assert flag in say_error(refused.value, "es") != said


@pytest.mark.parametrize("url", ["ftp://host/v1", "http://host/v1?key=secret"])
def test_an_address_that_is_none_is_said_in_words(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_options(GOOD | {"url": url})
    for language, word in (("en", "address"), ("es", "dirección")):
        said = say_error(refused.value, language)
        assert word in said
        assert "endpoint_" not in said


def test_a_trace_is_read_from_lines() -> None:
    wanted = [{"input_tokens": 100, "output_tokens": 20}, {"input_tokens": 5, "output_tokens": 1}]
    assert parse_trace(b"input,output\n100,20\n\n5; 1\n") == wanted
    assert parse_trace(b'"input1","output1"\n"100","20"\n"5" "1"\n') == wanted


@pytest.mark.parametrize(
    ("bad", "code", "line"),
    [
        ("", "trace_empty_or_long", None),
        ("one two\n", "trace_empty_or_long", None),
        ("1,2\n3\n", "trace_bad_line", 2),
        ("1.5,2.5\n512,128\n", "trace_bad_line", 1),
        ("1e3,1e2\n512,128\n", "trace_bad_line", 1),
        ("512k,128k\n512,128\n", "trace_bad_line", 1),
        ("5,5\n" + "\n" * 20_000 + "nonsense", "trace_bad_line", 20_002),
        ("1,-2\n", "trace_bad_line", 1),
        ("1,2,3\n", "trace_bad_line", 1),
        ("²,1\n", "trace_bad_line", 1),
        ("prompt,answer\n1,2\n0,2\n", "trace_bad_length", 3),
        ("1,200001\n", "trace_bad_length", 1),
        ("1,2\n" * 10_001, "trace_empty_or_long", None),
        ("1,2\n" * 260_000, "trace_too_big", None),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(bad: str, code: str, line: int | None) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_trace(bad.encode())
    assert (refused.value.code, refused.value.values.get("line")) == (code, line)


def test_prompts_grow_to_the_length_that_the_server_counts() -> None:
    prompts = Prompts("run")
    prompts.learn(10, 23, 20, 43)  # two tokens a word, and three beside
    assert prompts.words_for(203) == 100
    prompts.refine(100, 253)
    assert prompts.words_for(253) == 100
    prompts.learn(10, 0, 20, 0)
    assert prompts.words_for(253) == 100
    assert prompts.words_for(1) == 1
