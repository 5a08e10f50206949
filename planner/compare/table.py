"""A scenario on every accelerator of the catalogue: does it hold, how fast, at what price, and if not, why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.catalog.accelerators import Accelerator, accelerator_ids
from planner.catalog.prices import PriceRange, can_rent
from planner.compare.costs import price_of, usd_per_hour, usd_per_million_tokens
from planner.compare.held import Held, smallest_holding
from planner.compare.placements import accelerator_named, own_accelerator, own_gpus, placed
from planner.compare.speeds import Speed, speeds
from planner.errors import Note, PlannerError
from planner.memory.fit import Verdict
from planner.quantity import Estimate
from planner.scenario import Scenario

COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One accelerator.

    Attributes:
        gpus: the smallest number tried that holds the workload; else the largest that the engine can divide the model
            over.
        scenario: what was computed: the scenario asked for, on this accelerator.
        engine, engine_name: as meant or chosen; "" where nothing could be resolved.
        verdict, reason: of the memory; None where nothing could be resolved.
        starts: the engine comes up; those that it can't hold at once wait.
        error: why there is no answer, or none on speed, else None.
        max_concurrency: sequences of this length held at once; served: those that the engine runs at once if memory
            allows, 0 where nothing could be resolved.
        needed_bytes, usable_bytes: per GPU; 0 where nothing could be resolved.
        speed: None where the error says why.
        price: of one GPU-hour; None where no on-demand price is known. usd_per_hour: of all GPUs.
        usd_per_million_output_tokens, usd_per_million_tokens: with the deployment always busy with `concurrency`
            requests; the second counts input and output alike.
    """

    accelerator: Accelerator
    gpus: int
    scenario: Scenario
    engine: str
    engine_name: str
    weights_label: str
    verdict: Verdict | None
    reason: Note | None
    starts: bool
    error: PlannerError | None
    max_concurrency: Estimate | None
    served: int
    needed_bytes: float
    usable_bytes: float
    speed: Speed | None
    can_rent: bool
    price: PriceRange | None
    usd_per_hour: Estimate | None
    usd_per_million_output_tokens: Estimate | None
    usd_per_million_tokens: Estimate | None

    @property
    def holds(self) -> bool:
        """The whole workload has room at once."""
        return self.verdict in (Verdict.FITS, Verdict.TIGHT)

    @property
    def room(self) -> Estimate | None:
        """Sequences that memory and engine together let run at once."""
        held, most = self.max_concurrency, float(self.served)
        if held is None:
            return None
        low, mid, high = (min(float(end), most) for end in (held.low, held.mid, held.high))
        return Estimate(low, mid, high, held.unit, held.basis)

    @property
    def obstacle(self) -> Note | PlannerError | None:
        """Why not, or why not everything: the memory's reason before a missing figure; None for a whole answer."""
        return self.error if self.holds or self.verdict is None else self.reason


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A scenario over accelerators.

    Attributes:
        rows: one each, in the catalogue's order.
        current: the scenario as it is, with its own number of GPUs, whether or not fewer would do.
        counts: numbers of GPUs tried, smallest first.
        utilization: share of the time that costs take the deployment to be busy.
    """

    scenario: Scenario
    rows: tuple[Row, ...]
    current: Row
    counts: tuple[int, ...]
    utilization: float = 1.0


def compare(
    scenario: Scenario,
    counts: Sequence[int] = COUNTS,
    accelerators: Sequence[str] | None = None,
    meets: Callable[[Row], bool] | None = None,
) -> Comparison:
    """The scenario on every accelerator, each with the smallest number of GPUs that holds the workload.

    Engine: the scenario's; where it names none, the default on each accelerator. Degrees of parallelism: the
    scenario's where they come to the number of GPUs, else the engine's own way of dividing. Each row says what
    `evaluate` says for its scenario.

    Args:
        counts: numbers of GPUs to try, ascending.
        accelerators: ids or aliases; None: the whole catalogue.
        meets: what else a row should satisfy; where the smallest number that holds the workload doesn't, more GPUs are
            tried, and the row that satisfies it stands.

    Raises:
        UnknownItem, InvalidConfig, UnsupportedArchitecture: for what no accelerator can change.
    """
    ids = accelerator_ids() if accelerators is None else tuple(accelerators)
    tried = tuple(sorted(counts))
    rows = _rows(scenario, ids, smallest_holding(scenario, ids, tried))
    if meets is not None:
        rows = _with_more_gpus(scenario, rows, tried, meets)
    own = (scenario.gpu if scenario.device is None else own_accelerator(scenario).id,)
    current = _rows(scenario, own, smallest_holding(scenario, own, (own_gpus(scenario),)))
    return Comparison(scenario, rows, current[0], tried)


def _with_more_gpus(
    scenario: Scenario, rows: tuple[Row, ...], counts: Sequence[int], meets: Callable[[Row], bool]
) -> tuple[Row, ...]:
    """The rows, with more GPUs where that satisfies `meets` and the smallest number that holds doesn't."""
    found = list(rows)
    for gpus in counts:
        pending = [
            position
            for position, row in enumerate(found)
            if row.holds and row.gpus < gpus and not meets(row)
        ]
        ids = tuple(found[position].accelerator.id for position in pending)
        larger = _rows(scenario, ids, smallest_holding(scenario, ids, (gpus,))) if ids else ()
        for position, row in zip(pending, larger, strict=True):
            if row.holds and meets(row):
                found[position] = row
    return tuple(found)


def _rows(scenario: Scenario, ids: tuple[str, ...], held: Sequence[Held]) -> tuple[Row, ...]:
    members: dict[int, list[int]] = {}
    for one in held:
        if one.memory is not None:
            members.setdefault(id(one.memory), []).append(one.index)
    computed: dict[int, dict[int, Speed | PlannerError]] = {}
    for one in held:
        if one.memory is not None and id(one.memory) not in computed:
            computed[id(one.memory)] = speeds(one.memory, scenario, members[id(one.memory)])
    return tuple(
        _row(
            scenario,
            accelerator_named(scenario, id_),
            one,
            one.error if one.memory is None else computed[id(one.memory)][one.index],
        )
        for id_, one in zip(ids, held, strict=True)
    )


def _row(
    scenario: Scenario, card: Accelerator, held: Held, speed: Speed | PlannerError | None
) -> Row:
    deployment, fit = held.deployment, held.fit
    price = price_of(card.id, held.gpus)
    hourly = usd_per_hour(price) if price else None
    error, known = (speed, None) if isinstance(speed, PlannerError) else (None, speed)
    return Row(
        accelerator=card,
        gpus=held.gpus,
        scenario=placed(scenario, card.id, held.gpus),
        engine=deployment.engine.id if deployment else "",
        engine_name=deployment.engine.name if deployment else "",
        weights_label=deployment.stored.label if deployment else "",
        verdict=fit.verdict if fit else None,
        reason=fit.reason if fit else None,
        starts=bool(fit and fit.starts),
        error=error,
        max_concurrency=held.memory.held_at(held.index) if held.memory else None,
        served=deployment.served_sequences if deployment else 0,
        needed_bytes=fit.needed_bytes if fit else 0.0,
        usable_bytes=deployment.usable_bytes if deployment else 0.0,
        speed=known,
        can_rent=can_rent(card.id),
        price=price,
        usd_per_hour=hourly,
        usd_per_million_output_tokens=_per_million(hourly, known, output_only=True),
        usd_per_million_tokens=_per_million(hourly, known, output_only=False),
    )


def _per_million(
    hourly: Estimate | None, speed: Speed | None, *, output_only: bool
) -> Estimate | None:
    if hourly is None or speed is None:
        return None
    rate = speed.output_tokens_per_s if output_only else speed.total_tokens_per_s
    return usd_per_million_tokens(hourly, rate) if rate else None
