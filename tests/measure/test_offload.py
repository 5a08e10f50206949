"""Public runs with layers or experts in host memory against the planner, row by row."""

from __future__ import annotations

import re

import numpy as np
import pytest

from planner.catalog.measurements import measurements
from planner.measure.predict import predicted, run_of
from tests.docs.documents import ROOT

ROWS = measurements("llama-cpp-offload")


def errors(rows=ROWS) -> np.ndarray:
    found = [predicted(run_of(row))["tpot_s"] / row.measured["tpot_s"] - 1.0 for row in rows]
    return np.array(found)


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_each_row_lies_in_the_range_of_a_host_that_is_stated(row) -> None:
    run = run_of(row)
    machine = run.deployment.machine
    assert machine is not None
    assert row.scenario["host_bandwidth_gb_per_s"]
    low, high = machine.stated_band
    ratio = row.measured["tpot_s"] / predicted(run)["tpot_s"]
    assert 1.0 + low <= ratio <= 1.0 + high


def test_the_median_error_is_what_the_documents_say() -> None:
    median = float(np.median(np.abs(errors())))
    assert median <= 0.12
    said = re.search(
        r"llama-cpp-offload\.csv`\): median error (\d+) %", (ROOT / "docs/formulas.md").read_text()
    )
    assert said is not None
    assert round(100 * median) == int(said.group(1))


def test_dense_models_and_mixtures_and_both_machines_are_there() -> None:
    runs = [run_of(row) for row in ROWS]
    assert {run.mixture for run in runs} == {False, True}
    assert len({run.deployment.accelerator.id for run in runs}) == 2
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert all(row.source.startswith("https://") for row in ROWS)
