"""Results of benchmark tools, as read: what ran as far as the file says it, and what was measured.

A tool's reader gives a `ResultsReading`; `complete` makes a measurement's `Record` of it with what its user adds: on
which GPU, with which engine and which weights, and whatever else the file doesn't say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from planner.errors import Note
from planner.measure.readers.untrusted import MIN_MAGNITUDE, finite, positive
from planner.measure.record import (
    KEPT_UP,
    LEAST_ARRIVALS,
    MAX_ROWS,
    Arrivals,
    RecordQuantity,
    Row,
    Spread,
)

Role = Literal["fit", "other"]
NORMAL_P90 = (
    1.2816  # standard deviations between the mean and the 90th percentile of a normal distribution
)
FEW_ROUNDS = 3  # requests for each one in flight, below which start and end of a run weigh too much
MOST_FAILED = 0.05  # share of requests that failed, from which a run doesn't count
RATE_UNKNOWN = "imported_rate_unknown"

# Where the middle of a figure and its range come from; said of each quantity of a row.
Statistic = Literal["median", "mean", "total"]
Ends = Literal["p10_p90", "deviation", "none"]


@dataclass(frozen=True, slots=True)
class Stat:
    """A measured figure in the unit of its name, with its statistics.

    Attributes:
        statistic: of the middle; ends: of the range: 10th and 90th percentile, the mean ± 1.28 standard deviations,
            or none, so that both ends are the middle.
    """

    spread: Spread
    statistic: Statistic
    ends: Ends

    def notes(self, quantity: str) -> list[str]:
        """Codes that say which statistics these are."""
        found = [f"imported_{self.statistic}:{quantity}"]
        if self.statistic != "total" or self.ends != "none":
            found.append(f"imported_range_{self.ends}:{quantity}")
        return found


def stat(
    *,
    repeats: int,
    scale: float = 1.0,
    median: Any = None,
    mean: Any = None,
    deviation: Any = None,
    p10: Any = None,
    p90: Any = None,
    total: Any = None,
) -> Stat | None:
    """A figure from what a tool states of it; None where there is no positive middle.

    Args:
        repeats: what it was taken over (requests, runs).
        scale: from the tool's unit to the one of our name.
        total: of the whole run, in place of a median or mean.
    """
    statistic: Statistic
    middle, statistic = positive(median), "median"
    if middle is None:
        middle, statistic = positive(mean), "mean"
    if middle is None:
        middle, statistic = positive(total), "total"
    if middle is None:
        return None
    low, high, ends = positive(p10), positive(p90), "p10_p90"
    if low is None or high is None:
        centre, width = positive(mean) or middle, finite(deviation)
        reach = NORMAL_P90 * width if width is not None and width >= 0.0 else None
        if reach is None or centre - reach <= MIN_MAGNITUDE:
            low, high, ends = middle, middle, "none"
        else:
            low, high, ends = centre - reach, centre + reach, "deviation"
    spread = Spread(
        median=middle * scale,
        low=min(low, middle) * scale,
        high=max(high, middle) * scale,
        repeats=max(min(repeats, 10_000_000), 1),
    )
    return Stat(spread, statistic, ends)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One run of a tool.

    Attributes:
        workload: input_tokens, output_tokens and concurrency, as far as the file states them.
        measured: figures by quantity.
        notes: codes, further to those of the figures.
        noisy: so much went wrong that it doesn't count.
        request_rate_per_s: at which requests came, for "poisson" alone.
        varied: its requests differ in length, and the workload's lengths are means.
        run: its number among the runs that were read, from 1.
    """

    workload: Mapping[str, int]
    arrivals: Arrivals
    role: Role
    measured: Mapping[RecordQuantity, Stat]
    notes: tuple[str, ...] = ()
    noisy: bool = False
    request_rate_per_s: float | None = None
    varied: bool = False
    run: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class ResultsReading:
    """A file of results as read.

    Attributes:
        tool: id of what wrote it; version: the tool's own, None where it isn't stated.
        known: fields of Scenario that hold for all rows, the model and the GPU by their catalogue ids.
        printed_model, printed_gpu: as printed, "" for nothing; also where the catalogue doesn't have them.
        date: when it ran, as ISO 8601, None where it isn't stated.
        notes: what to know about the reading.
    """

    tool: str
    version: str | None
    rows: tuple[ResultRow, ...]
    known: Mapping[str, Any] = field(default_factory=dict)
    printed_model: str = ""
    printed_gpu: str = ""
    date: str | None = None
    notes: tuple[Note, ...] = ()


def differ(mean: float | None, deviation: float | None) -> bool:
    """Whether answers' lengths lie nearer to an exponential distribution than to one length."""
    return bool(mean and deviation and deviation > mean / 2.0)


@dataclass(frozen=True, slots=True)
class Load:
    """How a serving benchmark sent its requests, as its file states it.

    Attributes:
        completed, failed: requests; sent: as many as were to be sent, which is how many ran where nothing says more.
        in_flight: requests at once at most; None: no limit.
        open_loop: they arrived at a rate of their own, not each after another's end; poisson_rate_per_s: which, where
            it is stated that they came at random and nothing else held them back.
        input_tokens, output_tokens: means; varied: of lengths that differ.
        cut: it was stopped with requests in flight.
        request_throughput_per_s, e2e_s: for the number in flight, where arrivals come at a rate (Little's law).
    """

    completed: int
    failed: int
    sent: int
    in_flight: int | None
    open_loop: bool
    input_tokens: int | None
    output_tokens: int | None
    request_throughput_per_s: float | None = None
    e2e_s: float | None = None
    poisson_rate_per_s: float | None = None
    varied: bool = False
    cut: bool = False


def serving_rows(
    load: Load, measured: Mapping[RecordQuantity, Stat], notes: Sequence[str] = ()
) -> list[ResultRow]:
    """The rows that one run of a serving benchmark gives.

    A closed loop counts in a fit. Where all requests came at once only the rates do, as of a burst: times are those of
    waiting. Where they came at random they count if the server kept up; at a rate of another kind (evenly, in bursts,
    with a limit) nothing does, since the planner has no answer to that. The concurrency is then the mean in flight.
    """
    codes = list(notes)
    sent = max(load.sent, load.completed, 1)
    noisy = load.failed > MOST_FAILED * max(sent, load.failed)
    if load.failed:
        codes.append("imported_failed_requests")
    workload = {
        name: value
        for name, value in (
            ("input_tokens", load.input_tokens),
            ("output_tokens", load.output_tokens),
        )
        if value is not None
    }

    def row(
        concurrency: int | None,
        role: Role,
        chosen: Iterable[RecordQuantity],
        *more: str,
        arrivals: Arrivals = "loop",
    ) -> ResultRow:
        kept = {name: measured[name] for name in chosen if name in measured}
        whole = workload if concurrency is None else {**workload, "concurrency": concurrency}
        return ResultRow(whole, arrivals, role, kept, (*codes, *more), noisy, varied=load.varied)

    every = list(measured)
    if load.open_loop:
        flying = None
        if load.request_throughput_per_s is not None and load.e2e_s is not None:
            flying = max(round(load.request_throughput_per_s * load.e2e_s), 1)
        if flying is None or (load.in_flight is not None and flying > load.in_flight):
            flying = load.in_flight
        rate, served = load.poisson_rate_per_s, load.request_throughput_per_s
        if rate is not None and load.in_flight is None:
            steady = sent >= LEAST_ARRIVALS and served is not None and served >= KEPT_UP * rate
            random = row(flying, "fit" if steady else "other", every, "imported_poisson")
            return [replace(random, arrivals="poisson", request_rate_per_s=rate)]
        return [row(flying, "other", every, "imported_open_loop")]
    if load.in_flight is None or load.in_flight >= sent:
        if load.cut:
            return [row(sent, "other", every, "imported_burst_cut")]
        rates = [name for name in every if name.endswith("_per_s")]
        times = [name for name in every if name not in rates]
        found = []
        if rates:
            found.append(row(sent, "fit", rates, "imported_all_at_once", arrivals="burst"))
        return found + ([row(sent, "other", times, "imported_all_at_once")] if times else [])
    if sent < FEW_ROUNDS * load.in_flight:
        return [row(load.in_flight, "other", every, "imported_few_requests")]
    return [row(load.in_flight, "fit", every)]


def numbered(runs: Iterable[Sequence[ResultRow]]) -> list[ResultRow]:
    """The rows of runs one after another, each with its run's number."""
    return [replace(row, run=number) for number, rows in enumerate(runs, 1) for row in rows]


def capped(rows: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """Rows that say something, as many as a record holds."""
    return tuple(row for row in rows if row.measured)[:MAX_ROWS]


def alike(
    documents: Sequence[Mapping[str, Any]], of: Callable[[Mapping[str, Any]], Any]
) -> tuple[list[Mapping[str, Any]], tuple[Note, ...]]:
    """The documents that are of what the first one is of, and a note on those left out."""
    mine = [one for one in documents if of(one) == of(documents[0])]
    left = len(documents) - len(mine)
    return mine, (Note("results_others_left_out", {"left": left}),) if left else ()


def row_notes(rows: Iterable[Row]) -> list[Note]:
    """What the codes of imported rows say, each once, with the rows and the quantities that it holds for."""
    quantities: dict[str, dict[str, None]] = {}
    counts: dict[str, int] = {}
    for row in rows:
        heads = set()
        for code in row.notes:
            head, _, quantity = code.partition(":")
            own = quantities.setdefault(head, {})
            if quantity:
                own[quantity] = None
            heads.add(head)
        for head in heads:
            counts[head] = counts.get(head, 0) + 1
    return [
        Note(head, {"rows": counts[head], "quantities": tuple(found)})
        for head, found in quantities.items()
    ]
