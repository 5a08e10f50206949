"""Loads set against what the named model and accelerator can do at best: what is faster ran on something else."""

from __future__ import annotations

from planner.deployment import resolve
from planner.errors import PlannerError
from planner.measure.record import Record, Row, scenario_of
from planner.speed.bounds import tpot_bound

TOLERANCE = 0.98  # clocks and rounding


def without_the_impossible(record: Record) -> Record:
    """The record with loads marked whose tokens came faster than the named weights can be read.

    Such a row says nothing of the named deployment, and doesn't count in a calibration. Rows that the planner has no
    answer for stay as they are.
    """
    if not record.accelerator:
        return record
    rows = [_marked(row) if _is_impossible(record, row) else row for row in record.rows]
    return record.model_copy(update={"rows": rows})


def _marked(row: Row) -> Row:
    notes = [*row.notes, "faster_than_possible"]
    return row.model_copy(update={"role": "other", "notes": notes})


def _is_impossible(record: Record, row: Row) -> bool:
    if "tpot_s" not in row.measured:
        return False
    try:
        scenario = scenario_of(record, row)
        deployment = resolve(scenario)
        # One sequence, with what it has cached at first: fewer bytes than any step really reads.
        bound = tpot_bound(deployment.work, deployment.hardware, 1.0, float(scenario.input_tokens))
    except PlannerError:
        return False
    return bool(bound.from_memory) and row.measured["tpot_s"].median < TOLERANCE * float(
        bound.seconds
    )
