"""Public runs with layers or experts in host memory against the planner, row by row."""

from __future__ import annotations

import re

import numpy as np
import pytest

from planner.catalog.measurements import measurement_sources, measurements
from planner.measure.predict import predicted, run_of
from tests.docs.documents import ROOT

ROWS = measurements("llama-cpp-offload")
SAID = re.compile(
    r"median\s+error (\d+) % of the time per token on (\d+) runs,.*? and (\d+) % of the prefill on (\d+)",
    re.DOTALL,
)


def errors(quantity: str) -> list[float]:
    """Predicted / measured − 1 of every row that has the quantity."""
    return [
        predicted(run_of(row))[quantity] / row.measured[quantity] - 1.0
        for row in ROWS
        if quantity in row.measured
    ]


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_each_row_lies_in_the_range_of_a_host_that_is_stated(row) -> None:
    run = run_of(row)
    machine = run.deployment.machine
    assert machine is not None
    assert row.scenario["host_bandwidth_gb_per_s"]
    low, high = machine.stated_band
    for quantity, seconds in predicted(run).items():
        assert 1.0 + low <= row.measured[quantity] / seconds <= 1.0 + high


def test_the_median_errors_are_what_the_documents_say() -> None:
    said = SAID.search((ROOT / "docs/formulas.md").read_text())
    assert said is not None
    for quantity, error, rows in (("tpot_s", *said.group(1, 2)), ("prefill_s", *said.group(3, 4))):
        found = np.abs(errors(quantity))
        assert len(found) == int(rows)
        assert round(100 * float(np.median(found))) == int(error) <= 10


def test_dense_models_and_mixtures_and_all_three_machines_are_there() -> None:
    runs = [run_of(row) for row in ROWS]
    assert {run.mixture for run in runs} == {False, True}
    assert len({run.deployment.accelerator.id for run in runs}) == 3
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.source for row in ROWS} <= measurement_sources().keys()
