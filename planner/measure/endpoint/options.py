"""What is asked of an endpoint: where it is, which lengths, how many requests at once or how often, and the bounds."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from planner.catalog.devices import Strict, entry_error
from planner.errors import InvalidInput

MAX_REQUESTS = 2_000
MAX_SECONDS = 1_800.0
MAX_TOKENS = 4_000_000
MAX_CONCURRENCY = 512
MAX_LENGTH = 200_000
MAX_LEVELS = 12
MAX_TRACE_BYTES = 1_000_000
MAX_TRACE_LINES = 10_000
KEY_VARIABLE = "HEADROOM_ENDPOINT_KEY"


class Lengths(Strict):
    """One request's prompt and answer (tokens)."""

    input_tokens: int = Field(ge=1, le=MAX_LENGTH)
    output_tokens: int = Field(ge=1, le=MAX_LENGTH)


class Level(Strict):
    """One load: so many requests in flight (a closed loop), or so many starting each second (Poisson).

    Attributes:
        requests: how many are sent in all, beside the warm-up.
    """

    concurrency: int | None = Field(default=None, ge=1, le=MAX_CONCURRENCY)
    rate_per_s: float | None = Field(default=None, gt=0, le=1_000, allow_inf_nan=False)
    requests: int = Field(ge=1, le=MAX_REQUESTS)

    @model_validator(mode="after")
    def _one_way(self) -> Level:
        if (self.concurrency is None) == (self.rate_per_s is None):
            raise ValueError("either concurrency or rate_per_s")
        return self


class EndpointOptions(Strict):
    """A benchmark of an endpoint.

    Attributes:
        url: base address of the API, such as http://127.0.0.1:8000/v1.
        model: name that the server knows; "" for the only one that it lists.
        api: which of OpenAI's interfaces: completions, or chat completions.
        lengths: of the requests, taken in turn: one for fixed lengths, several for a trace.
        levels: loads, one after another.
        warmup: requests sent beforehand, which don't count.
        max_seconds, max_tokens: after so long, or so many tokens asked for, the rest isn't sent.
        timeout_s: for the connection, and for the wait between two pieces of an answer.
        given: fields of the scenario that the server doesn't tell: gpu, engine, weights, tp …
        seed: of the arrivals.
    """

    url: str = Field(min_length=8, max_length=400)
    model: str = Field(default="", max_length=200)
    api: Literal["completions", "chat"] = "completions"
    lengths: list[Lengths] = Field(min_length=1, max_length=MAX_TRACE_LINES)
    levels: list[Level] = Field(min_length=1, max_length=MAX_LEVELS)
    warmup: int = Field(default=2, ge=0, le=50)
    max_seconds: float = Field(default=300.0, gt=0, le=MAX_SECONDS, allow_inf_nan=False)
    max_tokens: int = Field(default=1_000_000, ge=1, le=MAX_TOKENS)
    timeout_s: float = Field(default=60.0, gt=0, le=600.0, allow_inf_nan=False)
    given: dict[str, str | int | float | bool] = Field(default_factory=dict, max_length=40)
    seed: int = 0

    @field_validator("url")
    @classmethod
    def _an_address(cls, given: str) -> str:
        parts = urlsplit(given.strip())
        _ = parts.port  # raises where it isn't one
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an address that begins with http:// or https://")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("an address without a user, a query or a fragment")
        return given.strip().rstrip("/")

    @model_validator(mode="after")
    def _bounded(self) -> EndpointOptions:
        if sum(level.requests for level in self.levels) + self.warmup > MAX_REQUESTS:
            raise ValueError(f"more than {MAX_REQUESTS} requests in all")
        if any(one.input_tokens + one.output_tokens > self.max_tokens for one in self.lengths):
            raise ValueError("a request longer than max_tokens")
        return self


def parse_options(values: dict[str, Any]) -> EndpointOptions:
    """Options from untrusted values.

    Raises:
        InvalidInput: naming the first key that is wrong, and why.
    """
    try:
        return EndpointOptions.model_validate(values)
    except ValidationError as error:
        raise entry_error(error, "endpoint_bad_option", "endpoint") from None


def levels_of(loops: str, rates: str, requests: int | None) -> list[dict[str, Any]]:
    """Loads from lists of numbers with commas in between.

    Args:
        loops: requests in flight, a closed loop each; rates: requests per second, Poisson arrivals each.
        requests: of each load; None for four rounds of a loop, 12 at least, and for 50 Poisson arrivals.

    Raises:
        InvalidInput: where one isn't such a list.
    """
    levels: list[dict[str, Any]] = []
    for one in _cells(loops):
        if not one.isdecimal() or len(one) > 9:
            raise InvalidInput("endpoint_bad_list", field="concurrency", given=loops[:60])
        levels.append({"concurrency": int(one), "requests": requests or max(4 * int(one), 12)})
    for one in _cells(rates):
        try:
            levels.append({"rate_per_s": float(one), "requests": requests or 50})
        except ValueError:
            raise InvalidInput("endpoint_bad_list", field="rate", given=rates[:60]) from None
    return levels


def _cells(given: str) -> list[str]:
    return [one.strip() for one in given.split(",") if one.strip()]


def parse_trace(content: bytes) -> list[dict[str, int]]:
    """Lengths of a small trace: lines of prompt and answer tokens, with a comma, semicolon or blank in between.

    A first line of words is a header and is skipped, and so are empty lines.

    Raises:
        InvalidInput: for a file that is too large, a line that isn't two lengths within bounds, no line, or too many.
    """
    if len(content) > MAX_TRACE_BYTES:
        raise InvalidInput("trace_too_big", field="trace", limit_bytes=MAX_TRACE_BYTES)
    found: list[dict[str, int]] = []
    lines = content.decode("utf-8-sig", "replace").splitlines()
    for number, line in enumerate(lines[: 2 * MAX_TRACE_LINES], 1):
        cells = line.replace(",", " ").replace(";", " ").split()
        if not cells or (number == 1 and not any(cell.isdecimal() for cell in cells)):
            continue
        if len(cells) != 2 or not all(cell.isdecimal() and len(cell) <= 9 for cell in cells):
            raise InvalidInput("trace_bad_line", field="trace", line=number, given=line[:60])
        prompt, answer = map(int, cells)
        if not (1 <= prompt <= MAX_LENGTH and 1 <= answer <= MAX_LENGTH):
            raise InvalidInput("trace_bad_length", field="trace", line=number, limit=MAX_LENGTH)
        found.append({"input_tokens": prompt, "output_tokens": answer})
    if not found or len(found) > MAX_TRACE_LINES:
        raise InvalidInput(
            "trace_empty_or_long", field="trace", rows=len(found), limit=MAX_TRACE_LINES
        )
    return found
