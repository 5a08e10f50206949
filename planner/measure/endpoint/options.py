"""What is asked of an endpoint: where it is, which lengths, how many requests at once or how often, and the bounds."""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from planner.catalog.devices import FileName, Strict, entry_error
from planner.catalog.measurements import RATE, sane_range
from planner.errors import InvalidInput

MAX_REQUESTS = 2_000
LEAST_S, MAX_SECONDS = 0.001, 1_800.0
LEAST_RATE = sane_range(RATE)[0]  # requests a second, of which a record can be read again
MAX_TOKENS = 4_000_000
MAX_CONCURRENCY = 512
MAX_LENGTH = 200_000
MAX_LEVELS = 12
MOST_DIGITS = 9  # of a whole number that is read
MAX_TRACE_BYTES = 1_000_000
MAX_TRACE_LINES = 10_000
# A number that begins a cell, not one that ends a column's name.
NUMBER = re.compile(r"(?<![^\W\d])\d")
BETWEEN = str.maketrans(',;"', "   ")  # what stands around a trace's numbers
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
    rate_per_s: float | None = Field(default=None, ge=LEAST_RATE, le=1_000, allow_inf_nan=False)
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
        lengths_file: name of the file that the lengths were taken from; None where they weren't.
        given: fields of the scenario that the server doesn't tell: gpu, engine, weights, tp …
        seed: of the arrivals.
    """

    url: str = Field(min_length=8, max_length=400)
    model: str = Field(default="", max_length=200)
    api: Literal["completions", "chat"] = "completions"
    lengths: list[Lengths] = Field(min_length=1, max_length=MAX_TRACE_LINES)
    lengths_file: FileName = None
    levels: list[Level] = Field(min_length=1, max_length=MAX_LEVELS)
    warmup: int = Field(default=2, ge=0, le=50)
    max_seconds: float = Field(default=300.0, ge=LEAST_S, le=MAX_SECONDS, allow_inf_nan=False)
    max_tokens: int = Field(default=1_000_000, ge=1, le=MAX_TOKENS)
    timeout_s: float = Field(default=60.0, ge=LEAST_S, le=600.0, allow_inf_nan=False)
    given: dict[str, str | int | float | bool] = Field(default_factory=dict, max_length=40)
    seed: int = 0

    @field_validator("url")
    @classmethod
    def _an_address(cls, given: str) -> str:
        parts = urlsplit(given.strip())
        _ = parts.port  # raises where it isn't one
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("endpoint_address")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("endpoint_address_alone")
        return given.strip().rstrip("/")


def parse_options(values: dict[str, Any]) -> EndpointOptions:
    """Options from untrusted values.

    Raises:
        InvalidInput: naming the first option that is wrong, and within which limits it can be.
    """
    try:
        options = EndpointOptions.model_validate(values)
    except ValidationError as error:
        raise _out_of_range(error) or entry_error(
            error, "endpoint_bad_option", "endpoint"
        ) from None
    requests = sum(level.requests for level in options.levels) + options.warmup
    if requests > MAX_REQUESTS:
        raise InvalidInput(
            "endpoint_too_many_requests", field="requests", requests=requests, limit=MAX_REQUESTS
        )
    longest = max(one.input_tokens + one.output_tokens for one in options.lengths)
    if longest > options.max_tokens:
        raise InvalidInput(
            "endpoint_request_too_long",
            field="max_tokens",
            tokens=longest,
            limit=options.max_tokens,
        )
    return options


def _out_of_range(error: ValidationError) -> InvalidInput | None:
    """The first thing that is wrong, where it is a number, or a number of loads, beyond its limits."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = next((part for part in reversed(first["loc"]) if isinstance(part, str)), "")
    kinds = ("greater_than", "less_than", "finite_number", "too_short", "too_long")
    limits: dict[str, float] = {}
    for model in (EndpointOptions, Level, Lengths):
        for rule in model.model_fields[name].metadata if name in model.model_fields else ():
            for key in ("ge", "le", "min_length", "max_length"):
                if hasattr(rule, key):
                    limits[key] = getattr(rule, key)
    least, most = (
        limits.get("ge", limits.get("min_length")),
        limits.get("le", limits.get("max_length")),
    )
    if not str(first["type"]).startswith(kinds) or least is None or most is None:
        return None
    return InvalidInput(
        "endpoint_out_of_range", field=name, expected=f"endpoint_{name}", least=least, most=most
    )


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
        if not one.isdecimal():
            raise InvalidInput("endpoint_bad_list", field="concurrency", given=loops[:60])
        many = int(one) if len(one) <= MOST_DIGITS else 10**MOST_DIGITS  # beyond any limit as well
        levels.append({"concurrency": many, "requests": requests or max(4 * many, 12)})
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

    A first line without a number is a header and is skipped, and so are empty lines; numbers may stand in quotes.

    Raises:
        InvalidInput: for a file that is too large, a line that isn't two lengths within bounds, no line, or too many.
    """
    if len(content) > MAX_TRACE_BYTES:
        raise InvalidInput("trace_too_big", field="trace", limit_bytes=MAX_TRACE_BYTES)
    found: list[dict[str, int]] = []
    lines = content.decode("utf-8-sig", "replace").splitlines()
    for number, line in enumerate(lines, 1):
        cells = line.translate(BETWEEN).split()
        if not cells or (number == 1 and not NUMBER.search(line)):
            continue
        if len(cells) != 2 or not all(
            cell.isdecimal() and len(cell) <= MOST_DIGITS for cell in cells
        ):
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
