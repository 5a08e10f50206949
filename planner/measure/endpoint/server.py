"""A server at the other end: its models, what it accepts, and one request with its streamed answer.

Connections go only to the address that a person named: no redirect is followed, no proxy of the environment used.
The key is in the connection's header and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2 as httpx

from planner.errors import InvalidInput, Unreachable
from planner.measure.endpoint.options import KEY_VARIABLE, MAX_CONCURRENCY, EndpointOptions, Lengths
from planner.measure.endpoint.prompts import Prompts
from planner.measure.endpoint.public_only import PublicOnly
from planner.measure.endpoint.record import Answer
from planner.measure.endpoint.stream import (
    EventStream,
    StreamBroken,
    read_models,
    read_version,
    tidy,
    without,
)

LISTING_BYTES = 1_000_000
VLLM = "vllm"  # owner of the models that it lists
PROBE_WORDS = (4, 200)  # fewest and most of the first prompt
DRAIN_S = 0.2  # for a server to close an answer that it has marked as complete
# Pieces beyond the tokens that were asked for, from which on it isn't an answer to what was asked.
SPARE_PIECES = 1_000
COUNTED: dict[str, Any] = {"stream_options": {"include_usage": True}}
# Asked for, as far as the server takes it: answers as long as wished, and its own count of tokens.
EXTRAS: tuple[dict[str, Any], ...] = ({"ignore_eos": True, **COUNTED}, COUNTED, {})
REFUSED_FIELD = ("http_400", "http_422")
REFUSED_KEY = ("http_401", "http_403")
NO_SUCH_API = ("http_404", "http_405")
REDIRECTS = "http_3xx"
CLOSED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
TOLD_APART = {400, 401, 403, 404, 405, 408, 413, 422, 429, 500, 502, 503, 504}


class Server:
    """The server, and what is known of it by now.

    Attributes:
        model: as it names it; "" until `list_models` has found out.
        software: what it says of itself.
        extra: fields beyond the standard ones that it takes.
        prompts: how it counts our words.
    """

    def __init__(
        self, options: EndpointOptions, client: httpx.AsyncClient, run: str, secret: str
    ) -> None:
        self.options, self._client, self._hide = options, client, without(secret)
        self.model = options.model
        self.software: dict[str, str] = {"api": options.api}
        self.extra = EXTRAS[0]
        self.prompts = Prompts(run)

    @property
    def fixes_lengths(self) -> bool:
        """It takes the field that makes answers as long as asked for, which doesn't say that it heeds it."""
        return "ignore_eos" in self.extra

    # --- What it is --------------------------------------------------------------------------------------------------

    async def list_models(self) -> None:
        """Finds the model's name, and what the server says of itself.

        Raises:
            Unreachable: it can't be reached, refuses the key, or sends elsewhere.
            InvalidInput: no model was named, and it lists none or several.
        """
        url = self.options.url
        try:
            status, headers, data = await self._get(f"{url}/models")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = _failure(error)
            raise Unreachable("endpoint_unreachable", field="url", url=url, reason=reason) from None
        self._require_open(_outcome(status))
        if server := tidy(headers.get("server", ""), self._hide)[:60]:
            self.software["server"] = server
        found = read_models(data, self._hide) if status == 200 else []
        owners = {owner for _, owner in found if owner}
        if len(owners) == 1:
            self.software["owned_by"] = owners.pop()
        if self.software.get("owned_by") == VLLM:
            await self._ask_version()
        if self.model:
            return
        if not found:
            raise InvalidInput("endpoint_lists_no_model", field="model", url=url)
        if len(found) > 1:
            names = tuple(listed for listed, _ in found[:10])
            raise InvalidInput("endpoint_needs_model", field="model", names=names)
        self.model = found[0][0]

    async def _ask_version(self) -> None:
        """vLLM tells its version beside its API."""
        with suppress(httpx.HTTPError):
            status, _, data = await self._get(f"{self.options.url.removesuffix('/v1')}/version")
            if status == 200 and (version := read_version(data, self._hide)):
                self.software["engine_version"] = version

    async def _get(self, url: str) -> tuple[int, httpx.Headers, bytes]:
        data = b""
        async with self._client.stream("GET", url) as response:
            async for part in response.aiter_raw():
                data += part
                if len(data) > LISTING_BYTES:
                    break
        return response.status_code, response.headers, data

    async def try_out(self) -> None:
        """Learns from two short requests how it counts our words, and which fields it takes.

        Raises:
            Unreachable: it doesn't answer them.
        """
        least, most = PROBE_WORDS
        shortest = min(one.input_tokens for one in self.options.lengths)
        words = min(max(shortest // 8, least), most)
        counts = []
        for times in (1, 2):
            answer = await self._accepted(times * words, f"probe {times}")
            counts.append(answer.input_tokens if answer.prompt_counted else 0)
        self.prompts.learn(words, counts[0], 2 * words, counts[1])

    async def _accepted(self, words: int, salt: str) -> Answer:
        """The answer to a short request, without the fields that the server refuses."""
        asked = Lengths(input_tokens=words, output_tokens=2)
        text = self.prompts.text(words, salt)
        for extra in EXTRAS[EXTRAS.index(self.extra) :]:
            self.extra = extra
            answer = Answer(words)
            await self.ask(self.body(text, asked), asked, answer)
            if answer.outcome not in REFUSED_FIELD:
                break
        if answer.outcome in ("done", "empty_answer"):
            return answer
        self._require_open(answer.outcome)
        url, api = self.options.url, self.options.api
        if answer.outcome in NO_SUCH_API:
            raise Unreachable("endpoint_no_such_api", field="url", url=url, api=api)
        reason = answer.outcome.replace("http_", "HTTP ")
        raise Unreachable("endpoint_refused", field="url", url=url, model=self.model, reason=reason)

    def _require_open(self, outcome: str) -> None:
        url = self.options.url
        if outcome in REFUSED_KEY:
            raise Unreachable("endpoint_key_refused", field="url", url=url, variable=KEY_VARIABLE)
        if outcome == REDIRECTS:
            raise Unreachable("endpoint_redirects", field="url", url=url)

    # --- A request ---------------------------------------------------------------------------------------------------

    def prompt(self, asked: Lengths, salt: str) -> str:
        """A prompt of about the length that is asked for."""
        return self.prompts.text(self.prompts.words_for(asked.input_tokens), salt)

    def body(self, prompt: str, asked: Lengths) -> bytes:
        """A request, written out."""
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": asked.output_tokens,
            "temperature": 0.0,
            "stream": True,
            **self.extra,
        }
        if self.options.api == "chat":
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        return json.dumps(body).encode()

    async def ask(self, body: bytes, asked: Lengths, answer: Answer) -> None:
        """Sends a request and fills the answer as it comes, whatever becomes of it.

        A server may close a connection that it kept just as the next request goes out on it. It hasn't seen that
        request then, which is sent again: a connection made for it ends this.
        """
        while await self._lost_on_its_way(body, asked, answer):
            continue

    async def _lost_on_its_way(self, body: bytes, asked: Lengths, answer: Answer) -> bool:
        """As `ask`; true where a connection of an earlier request was closed before anything came back."""
        answer.started_s = time.perf_counter()
        path = "/chat/completions" if self.options.api == "chat" else "/completions"
        kept, heard = True, False

        async def sending(event: str, _about: Mapping[str, Any]) -> None:
            nonlocal kept
            if event.endswith("connect_tcp.started"):
                kept = False
            # The clock starts once there is a connection.
            if event.endswith("send_request_headers.started"):
                answer.started_s = time.perf_counter()

        try:
            async with self._client.stream(
                "POST",
                self.options.url + path,
                content=body,
                headers={"Content-Type": "application/json"},
                extensions={"trace": sending},
            ) as response:
                heard = True
                if response.status_code == 200:
                    await _read(response, answer, asked)
                    answer.doubt(asked, self.prompts)
                    answer.end(asked)
                else:
                    answer.outcome = _outcome(response.status_code)
        except StreamBroken as broken:
            answer.outcome = broken.kind
        except httpx.HTTPError as error:
            if kept and not heard and isinstance(error, CLOSED):
                return True
            answer.outcome = _failure(error)
        return False


@asynccontextmanager
async def connected(
    options: EndpointOptions, secret: str, run: str, *, public_only: bool = False
) -> AsyncIterator[Server]:
    """The server, with a pool of connections that are closed at the end.

    Args:
        secret: its key, or "".
        run: what tells this run's prompts from others'.
        public_only: no connection is made to this machine or its neighbours.
    """
    limits = httpx.Limits(
        max_connections=MAX_CONCURRENCY, max_keepalive_connections=MAX_CONCURRENCY
    )
    headers = {"Accept-Encoding": "identity"}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    async with httpx.AsyncClient(
        headers=headers,
        timeout=httpx.Timeout(options.timeout_s, pool=None),
        limits=limits,
        transport=PublicOnly(limits) if public_only else None,
        follow_redirects=False,
        trust_env=False,
    ) as client:
        yield Server(options, client, run, secret)


def _failure(error: httpx.HTTPError | httpx.InvalidURL) -> str:
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return "bad_address"
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    return "no_connection" if isinstance(error, httpx.ConnectError) else "broken_stream"


def _outcome(status: int) -> str:
    return f"http_{status}" if status in TOLD_APART else f"http_{status // 100}xx"


async def _read(response: httpx.Response, answer: Answer, asked: Lengths) -> None:
    """Takes the pieces as they come, until the server marks the end or closes."""
    stream = EventStream()
    parts = response.aiter_raw()
    async for data in parts:
        now_s = time.perf_counter()
        for piece in stream.feed(data):
            answer.take(piece, now_s)
        if len(answer.pieces_s) > asked.output_tokens + SPARE_PIECES:
            raise StreamBroken("too_long")
        if answer.closed:
            # The connection can be used again only where the rest is read.
            with suppress(TimeoutError, httpx.HTTPError):
                async with asyncio.timeout(DRAIN_S):
                    async for _ in parts:
                        pass
            break
