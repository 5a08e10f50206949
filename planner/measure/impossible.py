"""Rows set against what the named model and accelerator can do at best: what is faster ran on something else."""

from __future__ import annotations

from dataclasses import replace

from planner.catalog.measurements import POISSON, RATES
from planner.errors import PlannerError
from planner.measure.predict import Run, resolve_run
from planner.measure.record import Record, Row, measurement_of
from planner.speed.bounds import tpot_bound, ttft_bound

NOTE = "faster_than_possible"
COPIES = "imported_copies"  # a row of several copies of what is named, which are faster than one
# Clocks and rounding; cards that run above their rated clock; rates that were themselves measured.
BANDWIDTH_TOLERANCE, COMPUTE_TOLERANCE, MEASURED_TOLERANCE = 0.95, 0.75, 0.6
LONGEST_S = 86_400.0  # a token, or a prompt, that takes a day isn't one


def is_impossible(run: Run) -> bool:
    """Whether a time lies below its physical bound or a rate above it, or a time is none of an answer."""
    deployment, scenario = run.deployment, run.scenario
    inputs = float(scenario.input_tokens)
    own = deployment.accelerator.accelerator_class in ("own", "cpu")
    measured = run.measurement.measured
    for name in ("tpot_s", "ttft_s", "prefill_s"):
        value = measured.get(name)
        if value is None:
            continue
        if name == "tpot_s":
            # One sequence, with what it has cached at first: fewer bytes than any step really reads.
            bound = tpot_bound(deployment.work, deployment.hardware, 1.0, inputs)
            share = BANDWIDTH_TOLERANCE
        else:
            bound = ttft_bound(deployment.work, deployment.hardware, inputs)
            share = COMPUTE_TOLERANCE
        floor = float(bound.seconds) * (min(share, MEASURED_TOLERANCE) if own else share)
        if value > LONGEST_S or (bound.from_memory and value < floor):
            return True
    share = min(COMPUTE_TOLERANCE, MEASURED_TOLERANCE) if own else COMPUTE_TOLERANCE
    return any(
        measured[name] * share > most_tokens_per_s(run, name) for name in RATES if name in measured
    )


def most_tokens_per_s(run: Run, name: str) -> float:
    """What no implementation can exceed of a rate of RATES (tokens/s); infinite where memory sets no floor.

    A request takes at least its prompt's floor and, each alone, its steps'; so many as were in flight finish in that
    time at most. All prompts have to be computed, whatever runs beside them; and a step with everything that was in
    flight gives a token to each.
    """
    scenario, work, hardware = run.scenario, run.deployment.work, run.deployment.hardware
    copies = run.measurement.replicas
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    # How many arrivals at a rate make is the model's to say; there are no more than there are places.
    arriving = run.measurement.arrivals == POISSON
    flying = max(run.max_running if arriving else scenario.concurrency / copies, 1.0)
    first, alone = ttft_bound(work, hardware, inputs), tpot_bound(work, hardware, 1.0, inputs)
    if not first.from_memory:
        return float("inf")
    unhindered = replace(hardware, bandwidth_bytes_per_s=float("inf"))
    computed = float(ttft_bound(work, unhindered, inputs).seconds) / work.parallelism.dp
    least = [float(first.seconds) / flying, computed]
    if work.generates and alone.from_memory:
        least[0] += (outputs - 1.0) * float(alone.seconds) / flying
        least.append(outputs * float(tpot_bound(work, hardware, flying, inputs).seconds) / flying)
    tokens = outputs + (inputs if name.startswith("total") else 0.0)
    return copies * tokens / max(least)


def without_the_impossible(record: Record) -> Record:
    """The record with rows marked that are faster than the named model can be read or computed there.

    Such a row says nothing of the named deployment, and doesn't count in a calibration. Rows that the planner has no
    answer for stay as they are.
    """
    if not record.accelerator:
        return record
    rows = [_marked(row) if _row_is_impossible(record, row) else row for row in record.rows]
    return record.model_copy(update={"rows": rows})


def _marked(row: Row) -> Row:
    notes = row.notes if NOTE in row.notes else [*row.notes, NOTE]
    return row.model_copy(update={"role": "other", "notes": notes})


def _row_is_impossible(record: Record, row: Row) -> bool:
    if row.outcome != "measured" or COPIES in row.notes:
        return False
    try:
        return is_impossible(resolve_run(measurement_of(record, row)))
    except PlannerError:
        return False
