"""A record's rows predicted: each measured figure beside the planner's, with shipped constants and with its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from planner.answers import MemoryAnswer
from planner.architecture.cache import cache_bytes
from planner.catalog.calibrations import Calibration
from planner.catalog.measurements import POISSON, QUANTITIES, READ
from planner.catalog.own_calibration import OwnCalibration, holds_for, own_calibration_for
from planner.deployment import calibration_key
from planner.errors import PlannerError
from planner.measure.impossible import most_tokens_per_s
from planner.measure.predict import (
    Run,
    burst_times,
    predicted,
    resolve_run,
)
from planner.measure.record import Record, Row, Spread, counting, measurement_of
from planner.measure.run_bands import band_of, for_first_token
from planner.memory_answer import memory_answer, verdict_of
from planner.memory_limits import budget_of
from planner.quantity import Basis, Estimate, worst
from planner.scenario import canonical_text
from planner.speed.bounds import tpot_bound
from planner.speed_answer import first_token_bound, rates_basis


@dataclass(frozen=True, slots=True)
class Compared:
    """One measured figure beside what the planner says of it, in the unit that the figure's name ends with.

    Attributes:
        row, quantity: which; role, noisy: as in the record; counts: for a fit, or for its test (`counting`).
        measured: median and spread.
        before: with the shipped constants; after: with the record's own calibration, None where it has none that holds.
    """

    row: str
    quantity: str
    role: str
    noisy: bool
    counts: bool
    measured: Spread
    before: Estimate
    after: Estimate | None

    @property
    def before_error_fraction(self) -> float:
        """Predicted / measured − 1 with the shipped constants."""
        return float(self.before.mid) / self.measured.median - 1.0

    @property
    def after_error_fraction(self) -> float | None:
        """The same with the record's own calibration."""
        return None if self.after is None else float(self.after.mid) / self.measured.median - 1.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """All of a record's figures that the planner has an answer for, and the rows that it has none for, with why."""

    figures: tuple[Compared, ...]
    refused: tuple[tuple[str, PlannerError], ...]


def compare_record(record: Record) -> Comparison:
    """Every measured figure of a record predicted, noisy rows and rows held back included."""
    figures: list[Compared] = []
    refused: list[tuple[str, PlannerError]] = []
    own = _text_of(record.calibration)
    count = {row.id for role in ("fit", "check") for row in counting(record, role)}
    found: list[tuple[Row, _Both | PlannerError]] = []
    for row in record.rows:
        if row.outcome != "measured":
            continue
        try:
            run = resolve_run(measurement_of(record, row))
            found.append(
                (row, _Both(run, run.deployment.calibration, _own(run, record.calibration, own)))
            )
        except PlannerError as error:
            found.append((row, error))
    runs = [both for _, both in found if isinstance(both, _Both)]
    shipped_s = iter(burst_times([(one.run, one.shipped) for one in runs]))
    own_s = iter(burst_times([(one.run, one.own) for one in runs if one.own is not None]))
    for row, both in found:
        if isinstance(both, PlannerError):
            refused.append((row.id, both))
            continue
        try:
            times = next(shipped_s), next(own_s) if both.own is not None else None
            figures.extend(
                _row(row, both, times, counts=row.id in count)
            )  # those that come before a refusal are kept
        except PlannerError as error:
            refused.append((row.id, error))
    return Comparison(tuple(figures), tuple(refused))


@dataclass(frozen=True, slots=True)
class _Both:
    """A run with the shipped constants, and with the record's own where it has some that hold."""

    run: Run
    shipped: Calibration
    own: Calibration | None


def is_rate(quantity: str) -> bool:
    """Whether a figure is a throughput (tokens/s)."""
    return quantity.endswith("_per_s")


def is_time(quantity: str) -> bool:
    """Whether a figure is a time (s); the name of a rate ends like one."""
    return quantity.endswith("_s") and not is_rate(quantity)


def counted(figures: Sequence[Compared]) -> list[Compared]:
    """Figures that count in an overall error: every time, and one rate of each row.

    Output and total rate of a row are the same requests over the same seconds, so that they err alike.
    """
    rated: set[str] = set()
    found = []
    for one in figures:
        if is_time(one.quantity) or (is_rate(one.quantity) and one.row not in rated):
            found.append(one)
        if is_rate(one.quantity):
            rated.add(one.row)
    return found


def _row(
    row: Row, both: _Both, times: tuple[float | None, float | None], *, counts: bool
) -> Iterator[Compared]:
    """A row's figures; `times` is what `burst_times` has of it with either."""
    run, shipped, after = both.run, both.shipped, both.own
    names = tuple(name for name in QUANTITIES if name in row.measured)
    before_s = predicted(run, shipped, names, times[0])
    after_s = _finite(predicted(run, after, names, times[1])) if after else {}
    for name in names:
        if name not in _finite(before_s):
            continue
        yield Compared(
            row.id,
            name,
            row.role,
            row.noisy,
            counts,
            row.measured[name],
            _estimate(run, name, before_s[name], shipped),
            _estimate(run, name, after_s[name], after) if after and name in after_s else None,
        )
    yield from _memory(run, row, counts=counts)
    if len(_finite(before_s)) < len(names):
        raise PlannerError("arrivals_outrun", rate_per_s=row.request_rate_per_s)


def _finite(values: dict[str, float]) -> dict[str, float]:
    """Without the waits in a queue that grows as long as requests come: they last as long as the run did."""
    return {name: value for name, value in values.items() if value < float("inf")}


def _text_of(own: OwnCalibration | None) -> str | None:
    return None if own is None else canonical_text(own.model_dump(mode="json"))


def _own(run: Run, own: OwnCalibration | None, text: str | None) -> Calibration | None:
    if own is None or text is None:
        return None
    engine, card, weights_format, model_type, experts, version = calibration_key(run.deployment)
    if not holds_for(own, card.id, engine, weights_format):
        return None
    return own_calibration_for(
        text,
        engine,
        card,
        weights_format,
        model_type=model_type,
        experts=experts,
        version=version,
    )


def _estimate(run: Run, name: str, middle: float, calibration: Calibration) -> Estimate:
    """The middle with the range of its kind of figure, held inside what no implementation can beat."""
    first = name in READ
    rates = Basis.EXACT if calibration.own else rates_basis(run.deployment)
    stated = for_first_token(run, calibration).ttft_basis if first else calibration.basis
    basis = worst(stated, rates)
    band = band_of(run, name, calibration)
    if name.endswith("_per_s"):
        least = 1.0 / most_tokens_per_s(run, name)
        rate = Estimate.banded(1.0 / middle, band, "s", basis, floor=least).inverse(1.0, "tokens/s")
        return _offered(run, name, rate)
    scenario, work, hardware = run.scenario, run.deployment.work, run.deployment.hardware
    inputs = float(scenario.input_tokens)
    if first:
        floor = first_token_bound(run.deployment, inputs)
    else:
        alone = (
            run.measurement.arrivals == POISSON
        )  # so many as were in flight on average are no bound
        batch = 1.0 if alone else max(min(float(scenario.concurrency), run.max_running), 1.0)
        floor = tpot_bound(work, hardware, batch, inputs + scenario.output_tokens / 2.0)
    seconds = float(floor.seconds) if floor.from_memory else 0.0
    return Estimate.banded(middle, band, "s", basis, floor=seconds)


def _offered(run: Run, name: str, rate: Estimate) -> Estimate:
    """A throughput, which isn't more than came where requests came at a rate."""
    measurement, scenario = run.measurement, run.scenario
    if measurement.arrivals != POISSON:
        return rate
    inputs = scenario.input_tokens if name.startswith("total") else 0
    most = measurement.request_rate_per_s * (inputs + scenario.output_tokens)
    return replace(rate, high=max(min(rate.high, most), rate.mid))


def _memory(run: Run, row: Row, *, counts: bool) -> Iterator[Compared]:
    """Memory doesn't depend on a calibration: the same before and after."""
    names = [name for name in ("weights_bytes", "peak_bytes") if name in row.measured]
    deployment, scenario = run.deployment, run.scenario
    if names:
        budget = budget_of(deployment, scenario)
        answer = memory_answer(
            deployment, scenario, budget, verdict_of(deployment, scenario, budget)
        )
        answers = {
            "weights_bytes": answer.weights_bytes_per_gpu,
            "peak_bytes": _tensors(answer),
        }
        for name in names:
            yield _same(row, name, answers[name], counts=counts)
    if "cache_bytes_per_token" in row.measured:
        tokens = float(scenario.input_tokens)
        layout = deployment.rank_layout
        growth = float(cache_bytes(layout, tokens + 1.0)) - float(cache_bytes(layout, tokens))
        yield _same(row, "cache_bytes_per_token", Estimate.exact(growth, "bytes"), counts=counts)


def _tensors(answer: MemoryAnswer) -> Estimate:
    """What is needed without context and libraries, which were there before the measurement began to count."""
    needed, held = answer.needed_bytes_per_gpu, answer.overhead_bytes_per_gpu
    middle = needed.mid - held.mid
    return Estimate(
        min(needed.low - held.low, middle),
        middle,
        max(needed.high - held.high, middle),
        "bytes",
        needed.basis,
    )


def _same(row: Row, name: str, estimate: Estimate, *, counts: bool) -> Compared:
    spread = next(value for key, value in row.measured.items() if key == name)
    return Compared(row.id, name, row.role, row.noisy, counts, spread, estimate, estimate)


@dataclass(frozen=True, slots=True)
class MedianError:
    """Median absolute relative error of figures, before and after the calibration (None where some have no after)."""

    before_fraction: float
    after_fraction: float | None
    figures: int
    rows: int


def median_error(figures: Sequence[Compared]) -> MedianError:
    """The median errors of figures, of which there is at least one."""
    after = [abs(error) for one in figures if (error := one.after_error_fraction) is not None]
    return MedianError(
        median(abs(one.before_error_fraction) for one in figures),
        median(after) if len(after) == len(figures) else None,
        len(figures),
        len({one.row for one in figures}),
    )


def that_count(figures: Sequence[Compared], role: str) -> list[Compared]:
    """The figures of a role whose rows count."""
    return [one for one in figures if one.role == role and one.counts]


def median_errors(figures: Sequence[Compared], role: str) -> dict[str, MedianError]:
    """Errors by quantity over the rows of a role that count."""
    mine = that_count(figures, role)
    return {
        name: median_error([one for one in mine if one.quantity == name])
        for name in dict.fromkeys(one.quantity for one in mine)
    }
