"""An endpoint's answers as a record: percentiles over requests, throughput, errors by kind, and what it ran on."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np

from planner.catalog.measurements import POISSON
from planner.measure.endpoint.options import MAX_LENGTH, EndpointOptions, Lengths, Level
from planner.measure.endpoint.prompts import ABSURD, Prompts
from planner.measure.endpoint.stream import Piece
from planner.measure.record import (
    KEPT_UP,
    LEAST_ARRIVALS,
    Conditions,
    Percentiles,
    Record,
    Row,
    Spread,
)
from planner.scenario import Scenario

# In a closed loop the first requests start together and the last ones run alone; with fewer than this many rounds
# those are most of what is seen.
ROUNDS = 2
# How a request may end beside "done" and an HTTP status.
FAILURES = (
    "timeout", "no_connection", "broken_stream", "bad_json", "too_long", "server_error", "empty_answer", "cut_off",
    "not_sent",
)  # fmt: skip
ROW_ID = re.compile(r"endpoint-\d+-([cr])(\d[\d.e+-]{0,11})")
SHORT = 0.9  # of the tokens asked for, below which answers count as ended early


@dataclass(slots=True)
class Answer:
    """One request and what became of it; times in seconds from a clock that all requests share.

    Attributes:
        input_tokens, output_tokens: as the server counted them, else as asked for and pieces counted.
        outcome: "done", or the kind of failure; "cut_off" until it has ended.
        started_s: the request was sent.
        ended_s: the server marked its end, or the last piece with text came.
        pieces_s: when each piece with text came; those that came together have one time.
        blanks_s: when pieces without text came, as long as none with text has.
        counted, prompt_counted: the server stated the answer's, the prompt's tokens.
        absurd: it stated a number that can't be, which was passed over.
        finished, closed: it stated that the answer is complete; that nothing more comes.
    """

    input_tokens: int
    outcome: str = "cut_off"
    started_s: float = 0.0
    ended_s: float = 0.0
    output_tokens: int = 0
    counted: bool = False
    prompt_counted: bool = False
    absurd: bool = False
    finished: bool = False
    closed: bool = False
    pieces_s: array[float] = field(default_factory=lambda: array("d"))
    blanks_s: array[float] = field(default_factory=lambda: array("d"))

    def take(self, piece: Piece, now_s: float) -> None:
        """What a piece brings."""
        if piece.text:
            self.pieces_s.append(now_s)
        elif piece.blank and not self.pieces_s and len(self.blanks_s) < MAX_LENGTH:
            self.blanks_s.append(now_s)
        if piece.text or (piece.finished and not self.finished):
            self.ended_s = now_s
        self.finished = self.finished or piece.finished or piece.done
        self.closed = piece.done
        if piece.completion_tokens:
            self.output_tokens, self.counted = piece.completion_tokens, True
        if piece.prompt_tokens:
            self.input_tokens, self.prompt_counted = piece.prompt_tokens, True

    def doubt(self, asked: Lengths, prompts: Prompts) -> None:
        """Passes over counts that can't be those of what was asked."""
        if self.prompt_counted and not prompts.believes(asked.input_tokens, self.input_tokens):
            self.input_tokens, self.prompt_counted, self.absurd = asked.input_tokens, False, True
        if self.counted and self.output_tokens > ABSURD * asked.output_tokens:
            self.output_tokens, self.counted, self.absurd = 0, False, True

    def end(self, asked: Lengths) -> None:
        """No more comes: what became of it.

        An answer as long as asked for, of special tokens alone, has no text, and was computed all the same.
        """
        if not self.pieces_s and self.counted and self.output_tokens >= asked.output_tokens:
            self.pieces_s = self.blanks_s
        if not self.finished:
            self.outcome = "broken_stream"
        elif not self.pieces_s:
            self.outcome = "empty_answer"
        else:
            self.output_tokens = self.output_tokens or len(self.pieces_s)
            self.outcome = "done"

    @property
    def ttft_s(self) -> float:
        return self.pieces_s[0] - self.started_s

    @property
    def e2e_s(self) -> float:
        return self.ended_s - self.started_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time of the tokens after the first; None for an answer of one."""
        decoded_s = self.ended_s - self.pieces_s[0]
        return decoded_s / (self.output_tokens - 1) if self.output_tokens > 1 else None

    @property
    def gaps_s(self) -> list[float]:
        """Times between pieces; what came together counts as one."""
        return [b - a for a, b in pairwise(self.pieces_s) if b > a]


def level_row(
    options: EndpointOptions,
    model: str,
    level: Level,
    number: int,
    answers: Sequence[Answer],
    begun_s: float,
) -> Row:
    """One load's requests as a row.

    A closed loop of a few rounds in which all went well counts in a calibration, where the server counted the tokens.
    So do Poisson arrivals that the server kept up with: there were enough, and it delivered most of what they asked for
    while they came.

    Args:
        model: as the server names it.
        begun_s: when the load's first request was due, on the answers' clock.
    """
    done = [one for one in answers if one.outcome == "done"]
    wall_s = max((one.ended_s for one in done), default=begun_s) - begun_s
    closed = level.concurrency is not None
    counted = all(one.counted and one.prompt_counted for one in done)
    rate = None if closed else _arrival_rate(answers, level)
    enough = len(done) >= (ROUNDS * (level.concurrency or 1) if closed else LEAST_ARRIVALS)
    kept_up = rate is None or len(done) / max(wall_s, 1e-9) >= KEPT_UP * rate
    scenario: dict[str, str | int | float | bool] = {
        key: value for key, value in options.given.items() if key in Scenario.model_fields
    }
    scenario |= {
        "model": options.given.get("model", model),
        "input_tokens": max(round(_mean([one.input_tokens for one in done])), 1),
        "output_tokens": max(round(_mean([one.output_tokens for one in done])), 1),
        "concurrency": level.concurrency or max(round(_in_flight(done, wall_s)), 1),
    }
    measured, percentiles = _figures(done, wall_s)
    name = f"c{level.concurrency}" if closed else f"r{level.rate_per_s:g}"
    return Row.model_validate(
        {
            "id": f"endpoint-{number}-{name}",
            "scenario": scenario,
            "arrivals": "loop" if closed else POISSON,
            "request_rate_per_s": rate,
            "role": "fit"
            if enough and kept_up and counted and len(done) == len(answers)
            else "other",
            "outcome": "measured" if done else "failed",
            "measured": measured,
            "percentiles": percentiles,
            "counts": dict(Counter(one.outcome for one in answers)),
            "notes": list(
                _notes(options, answers, done, closed=closed, few=not enough, behind=not kept_up)
            ),
        }
    )


def with_busy_client(row: Row) -> Row:
    """The row of a load that this program couldn't keep up with: it doesn't count."""
    return row.model_copy(update={"noisy": True, "notes": [*row.notes, "client_busy"]})


def load_of(row: Row) -> tuple[Literal["closed", "poisson"], float] | None:
    """A row's load, requests in flight or arrivals per second; None for a row of something else."""
    found = ROW_ID.fullmatch(row.id)
    try:
        return ("closed" if found[1] == "c" else "poisson", float(found[2])) if found else None
    except ValueError:
        return None


def _notes(
    options: EndpointOptions,
    answers: Sequence[Answer],
    done: Sequence[Answer],
    *,
    closed: bool,
    few: bool,
    behind: bool,
) -> Iterator[str]:
    yield "ttft_from_sending"
    if behind:
        yield "arrivals_not_kept_up_with"
    if any(not one.counted for one in done):
        yield "tokens_counted_as_pieces"
    if any(not one.prompt_counted for one in done):
        yield "prompt_not_counted"
    if any(one.absurd for one in done):
        yield "counts_absurd"
    if len(done) < len(answers):
        yield "some_requests_failed"
    if few:
        yield "too_few_rounds" if closed else "too_few_arrivals"
    asked = [options.lengths[i % len(options.lengths)].output_tokens for i in range(len(answers))]
    if done and _mean([one.output_tokens for one in done]) < SHORT * _mean(asked):
        yield "answers_ended_early"


def _figures(
    done: Sequence[Answer], wall_s: float
) -> tuple[dict[str, Spread], dict[str, Percentiles]]:
    samples = {
        "ttft_s": [one.ttft_s for one in done],
        "tpot_s": [one.tpot_s for one in done if one.tpot_s is not None],
        "itl_s": [gap for one in done for gap in one.gaps_s],
        "e2e_s": [one.e2e_s for one in done],
    }
    measured, percentiles = {}, {}
    for name, values in samples.items():
        kept = np.array([value for value in values if value > 0.0])
        if not len(kept):
            continue
        p10, p50, p90, p95, p99 = (float(x) for x in np.quantile(kept, (0.1, 0.5, 0.9, 0.95, 0.99)))
        measured[name] = Spread(median=p50, low=p10, high=p90, repeats=len(kept))
        percentiles[name] = Percentiles(p50=p50, p90=p90, p95=p95, p99=p99)
    out = sum(one.output_tokens for one in done)
    whole = out + sum(one.input_tokens for one in done)
    if done and wall_s > 0.0:
        for name, tokens in (("output_tokens_per_s", out), ("total_tokens_per_s", whole)):
            if tokens:
                rate = tokens / wall_s
                measured[name] = Spread(median=rate, low=rate, high=rate, repeats=1)
    return measured, percentiles


def _arrival_rate(answers: Sequence[Answer], level: Level) -> float:
    """Requests per second as they really came, which of few differ from what was asked for by chance."""
    begun = sorted(one.started_s for one in answers if one.outcome != "not_sent")
    span_s = begun[-1] - begun[0] if begun else 0.0
    return (len(begun) - 1) / span_s if span_s > 0.0 else level.rate_per_s or 0.0


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def _in_flight(done: Sequence[Answer], wall_s: float) -> float:
    """Mean number of requests in flight, by Little's law."""
    return sum(one.e2e_s for one in done) / wall_s if wall_s > 0.0 else 1.0


def endpoint_record(
    options: EndpointOptions,
    rows: Sequence[Row],
    *,
    name: str,
    configs: Mapping[str, dict[str, Any]],
    software: Mapping[str, str],
    notes: Sequence[str],
) -> Record:
    """The rows as a record of now; its accelerator is the one that was named, or none.

    Args:
        name: "" for one made of the model and the server's host.
    """
    made = f"{options.model or '?'} · {urlsplit(options.url).hostname}"
    return Record(
        format="headroom-measurement",
        schema_version=1,
        name=" ".join((name or made).split())[:80],
        date=datetime.now(tz=UTC).isoformat(timespec="seconds"),
        origin="endpoint",
        accelerator=str(options.given.get("gpu", "")),
        software=dict(software),
        conditions=Conditions(noisy=False),
        rows=list(rows),
        configs=dict(configs),
        lengths_file=options.lengths_file,
        notes=list(notes),
    )
