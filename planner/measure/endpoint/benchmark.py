"""A benchmark of an endpoint from beginning to end, load by load, bounded in requests, seconds and tokens."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import uuid4

from planner.errors import InvalidInput, PlannerError, Unreachable
from planner.measure.endpoint.options import (
    KEY_VARIABLE,
    MAX_CONCURRENCY,
    EndpointOptions,
    Lengths,
    Level,
)
from planner.measure.endpoint.record import (
    Answer,
    endpoint_record,
    level_row,
    with_busy_client,
)
from planner.measure.endpoint.server import Server, connected
from planner.measure.own_fit import calibrated
from planner.measure.progress import Listener, Teller
from planner.measure.record import Record, Row

WARMUP_TOKENS = 16  # of a warm-up's answer
LOOK_S = 0.05  # how often it is asked whether to stop
GIVE_UP = 20  # failed requests in a row
# Share of a load's time for which this program didn't get to what was due: from here on it measures itself.
BUSY_FRACTION = 0.2
FEWEST_LOOKS = 5
CUT = ("cancelled", "out_of_time")  # what ends requests in flight too
Request = tuple[bytes, Lengths]


def measure_endpoint(
    options: EndpointOptions,
    *,
    name: str = "",
    configs: Mapping[str, dict[str, Any]] | None = None,
    listener: Listener | None = None,
    keep: Callable[[Record], None] = lambda _record: None,
    stop: Callable[[], bool] = lambda: False,
    key: str | None = None,
    public_only: bool = False,
) -> Record:
    """Benchmarks a server; what has been measured is kept however it ends.

    TTFT runs from sending the request on an open connection to the first piece with text.

    Args:
        name: of the record; made from the server's host and the model where it's "".
        configs: configuration of the model that `options.given` names, where the catalogue doesn't have it.
        listener: told what is being done (see `Teller`): the phases are "probe", "warmup" and "requests".
        keep: gets the record after each load, and at the end with its calibration.
        stop: asked often; True ends the benchmark, and drops the requests in flight.
        key: for the server; the environment's HEADROOM_ENDPOINT_KEY where it's None.
        public_only: refuses an address of this machine, its network, or anywhere else that isn't public.

    Raises:
        Unreachable: the server can't be reached, refuses the first requests, or doesn't answer them in time.
        InvalidInput: it lists several models, or none, and none was named; or the key can't be one.
    """
    teller = Teller(listener)
    try:
        secret = _checked(os.environ.get(KEY_VARIABLE, "") if key is None else key)
        benchmark = _Benchmark(options, name, configs or {}, teller, keep, stop)
        asyncio.run(benchmark.measure(secret, public_only=public_only))
        record = calibrated(benchmark.record())
        keep(record)
    except PlannerError as error:
        teller.say("failed", note=error.code)
        raise
    ended = "cancelled" if "cancelled" in record.notes else "done"
    teller.say(ended, left_s=0.0, values={"rows": len(record.rows)})
    return record


def _checked(secret: str) -> str:
    """The key, which must fit into a header; whatever is wrong with it, it isn't shown."""
    tidy = secret.strip()
    if not (tidy.isascii() and tidy.isprintable()):
        raise InvalidInput("endpoint_key_unusable", field="key", variable=KEY_VARIABLE)
    return tidy


def arrival_gaps_s(seed: int, number: int, rate_per_s: float) -> Iterator[float]:
    """Times between arrivals that are independent of each other, at a rate on average (s).

    The same for the same seed and number of the load.
    """
    chance = random.Random(f"{seed} {number}")
    while True:
        yield chance.expovariate(rate_per_s)


class _Benchmark:
    """One run.

    Attributes:
        server: None until it is connected.
        tokens_asked: of prompts and answers so far; failures: requests in a row that failed.
        finished: requests of the loads before.
        cut: why less was sent than asked for, or None.
        looks, late_s: how often this program looked up during the load, and by how much it was late in all.
    """

    def __init__(
        self,
        options: EndpointOptions,
        name: str,
        configs: Mapping[str, dict[str, Any]],
        teller: Teller,
        keep: Callable[[Record], None],
        stop: Callable[[], bool],
    ) -> None:
        self.options, self.name, self.configs = options, name, configs
        self.teller, self.keep, self.stop = teller, keep, stop
        self.server: Server | None = None
        self.tokens_asked = self.failures = self.in_flight = self.finished = 0
        self.cut: str | None = None
        self.looks, self.late_s = 0, 0.0
        self.rows: list[Row] = []

    def record(self) -> Record:
        """What has been measured by now."""
        notes: list[str] = []
        software: dict[str, str] = {"api": self.options.api}
        options = self.options
        if self.server is not None:
            notes = [] if self.server.fixes_lengths else ["ignore_eos_refused"]
            software = self.server.software
            options = options.model_copy(update={"model": self.server.model})
        notes += [self.cut] if self.cut else []
        return endpoint_record(
            options, self.rows, name=self.name, configs=self.configs, software=software, notes=notes
        )

    async def measure(self, secret: str, *, public_only: bool) -> None:
        """All of it, watched: once time is up or somebody stops it, what is in flight is dropped."""
        async with connected(self.options, secret, uuid4().hex, public_only=public_only) as server:
            self.server = server
            work = asyncio.create_task(self._work(server))
            try:
                while not work.done() and self._over() not in CUT:
                    due_s = time.perf_counter() + LOOK_S
                    await asyncio.wait({work}, timeout=LOOK_S)
                    self.looks += 1
                    self.late_s += max(time.perf_counter() - due_s, 0.0)
                if not work.done():
                    self.cut = self._over()
            finally:
                work.cancel()
                await asyncio.wait({work})
            if not work.cancelled():
                work.result()
        if self.cut == "out_of_time" and not self.rows:
            url, limit_s = self.options.url, self.options.max_seconds
            raise Unreachable("endpoint_too_slow", field="url", url=url, limit=limit_s)

    def _is_busy(self) -> bool:
        """What came in lay about before this program read it, which makes the server look slower than it is."""
        whole_s = self.looks * LOOK_S + self.late_s
        return self.looks >= FEWEST_LOOKS and self.late_s > BUSY_FRACTION * whole_s

    def _over(self) -> str | None:
        """Why no further request may be sent, or None."""
        if self.stop():
            return "cancelled"
        if self.teller.elapsed_s >= self.options.max_seconds:
            return "out_of_time"
        return "too_many_failures" if self.failures >= GIVE_UP else None

    async def _work(self, server: Server) -> None:
        self.teller.say("probe")
        await server.list_models()
        await server.try_out()
        await self._warm_up(server)
        for number, level in enumerate(self.options.levels, 1):
            await self._level(server, number, level)
            if self.cut:
                return

    async def _warm_up(self, server: Server) -> None:
        """Requests that don't count; a prompt of the real length tells better how the server counts."""
        warmup, lengths = self.options.warmup, self.options.lengths
        for number in range(warmup):
            self.teller.say("warmup", number, warmup)
            asked = lengths[number % len(lengths)]
            tokens = min(asked.output_tokens, WARMUP_TOKENS)
            asked = asked.model_copy(update={"output_tokens": tokens})
            prompt = server.prompt(asked, f"warmup {number}")
            answer = Answer(asked.input_tokens)
            await server.ask(server.body(prompt, asked), asked, answer)
            if answer.prompt_counted:
                server.prompts.refine(prompt.count(" ") + 1, answer.input_tokens)
        self.teller.say("warmup", warmup, warmup)

    async def _level(self, server: Server, number: int, level: Level) -> None:
        """Sends a load's requests, and makes a row of them even where it is broken off."""
        requests = await self._requests(server, number, level)
        answers: list[Answer] = []
        self.looks, self.late_s = 0, 0.0
        begun_s = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as group:
                if level.rate_per_s is None:
                    todo = iter(requests)
                    for _ in range(level.concurrency or 1):
                        group.create_task(self._worker(server, todo, answers))
                else:
                    gaps_s = arrival_gaps_s(self.options.seed, number, level.rate_per_s)
                    await self._arrivals(server, group, requests, gaps_s, answers)
        finally:
            self.finished += level.requests
            if answers:
                row = level_row(self.options, server.model, level, number, answers, begun_s)
                self.rows.append(with_busy_client(row) if self._is_busy() else row)
                self.keep(self.record())
        if len(requests) < level.requests:
            self.cut = self.cut or "out_of_tokens"

    async def _requests(self, server: Server, number: int, level: Level) -> list[Request]:
        """The requests that the bound on tokens leaves room for, written out before the clock runs.

        Between two of them whoever watches the time gets a turn, since long ones take a while.
        """
        lengths, found = self.options.lengths, []
        for i in range(level.requests):
            asked = lengths[i % len(lengths)]
            tokens = asked.input_tokens + asked.output_tokens
            if self.tokens_asked + tokens > self.options.max_tokens:
                break
            self.tokens_asked += tokens
            await asyncio.sleep(0)
            found.append((server.body(server.prompt(asked, f"{number} {i}"), asked), asked))
        return found

    async def _worker(self, server: Server, todo: Iterator[Request], answers: list[Answer]) -> None:
        """One place in a closed loop: a request after another."""
        for request in todo:
            if self._declines():
                return
            await self._send(server, request, answers)

    async def _arrivals(
        self,
        server: Server,
        group: asyncio.TaskGroup,
        requests: list[Request],
        gaps_s: Iterator[float],
        answers: list[Answer],
    ) -> None:
        """Requests that start when they are due, whatever became of those before."""
        due_s = time.perf_counter()
        for request, gap_s in zip(requests, gaps_s, strict=False):
            await asyncio.sleep(max(due_s - time.perf_counter(), 0.0))
            due_s += gap_s
            if self._declines():
                return
            if self.in_flight >= MAX_CONCURRENCY:
                answers.append(Answer(request[1].input_tokens, outcome="not_sent"))
                continue
            self.in_flight += 1
            sent = group.create_task(self._send(server, request, answers))
            sent.add_done_callback(self._landed)

    def _landed(self, _sent: asyncio.Task[None]) -> None:
        self.in_flight -= 1

    def _declines(self) -> bool:
        self.cut = self.cut or self._over()
        return self.cut is not None

    async def _send(self, server: Server, request: Request, answers: list[Answer]) -> None:
        body, asked = request
        answer = Answer(asked.input_tokens)
        answers.append(answer)
        await server.ask(body, asked, answer)
        self.failures = 0 if answer.outcome == "done" else self.failures + 1
        done = self.finished + sum(one.outcome != "cut_off" for one in answers)
        total = sum(level.requests for level in self.options.levels)
        elapsed_s = self.teller.elapsed_s
        left_s = min(elapsed_s / done * (total - done), self.options.max_seconds - elapsed_s)
        self.teller.say("requests", done, total, left_s=left_s)
