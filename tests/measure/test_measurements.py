"""The measurements' files: every row loads, names its source, and is a scenario that the planner answers."""

from __future__ import annotations

import csv

import pytest

from planner.catalog.files import profile_lines
from planner.catalog.measurements import (
    MEMORY_FAMILIES,
    SPEED_FAMILIES,
    measurement_sources,
    measurements,
    read_measurements,
)
from planner.errors import BadProfile
from planner.measure.predict import run_of

HEADER = (
    "id,source,engine,model,gpu,input_tokens,output_tokens,concurrency,arrivals,tpot_s,note,lengths"
)


@pytest.mark.parametrize("family", MEMORY_FAMILIES)
def test_memory_rows_have_ids_and_sources_of_their_own(family):
    rows = measurements(family)
    assert len({row.id for row in rows}) == len(rows) > 0
    assert {row.source for row in rows} <= set(measurement_sources())
    assert {row.settings for row in rows} <= {"", "stated", "assumed"}


@pytest.mark.parametrize("family", SPEED_FAMILIES)
def test_rows_have_ids_and_sources_of_their_own(family):
    rows = measurements(family)
    assert len(rows) > {"unloaded": 5, "llama-cpp-offload": 40}.get(family, 50)
    assert len({row.id for row in rows}) == len(rows)
    assert {row.source for row in rows} <= set(measurement_sources())


@pytest.mark.parametrize("family", SPEED_FAMILIES)
def test_every_row_is_a_scenario_that_the_planner_answers(family):
    for row in measurements(family):
        assert run_of(row).scenario.concurrency >= 1


def test_sources_state_where_they_are_and_on_which_terms():
    for name, source in measurement_sources().items():
        assert source["url"].startswith("https://"), name
        assert source["licence"], name
    assert "Apache-2.0" in measurement_sources()["ai-dynamo-aiconfigurator"]["licence"]


def test_sources_count_their_rows():
    counted: dict[str, int] = {}
    for family in SPEED_FAMILIES + MEMORY_FAMILIES:
        for row in measurements(family):
            counted[row.source] = counted.get(row.source, 0) + 1
    for name, source in measurement_sources().items():
        assert int(source["rows"]) == counted.get(name, 0), name


def test_what_was_left_out_has_its_reason():
    rows = list(csv.DictReader(profile_lines("measurements/left-out.csv")))
    assert rows
    for row in rows:
        assert int(row["rows"]) > 0
        assert len(row["reason"]) > 10


def test_every_engine_class_and_kind_of_model_is_there():
    runs = [run_of(row) for family in SPEED_FAMILIES for row in measurements(family)]
    engines = {run.deployment.engine.id for run in runs}
    assert engines == {"vllm", "sglang", "tensorrt-llm", "llama.cpp", "transformers"}
    vendors = {run.deployment.accelerator.vendor for run in runs}
    assert {"NVIDIA", "AMD", "Apple", "Intel"} <= vendors
    for engine in engines:
        kinds = {run.mixture for run in runs if run.deployment.engine.id == engine}
        assert kinds == {False, True}, engine


def test_a_row_as_read():
    (row,) = read_measurements([HEADER, "r1,s,vllm,m,g,10,20,4,together,0.5,why"], "own")
    assert (row.id, row.family, row.source, row.note) == ("r1", "own", "s", "why")
    assert row.scenario["engine"] == "vllm"
    assert "arrivals" not in row.scenario
    assert row.measured == {"tpot_s": 0.5}
    assert (row.arrivals, row.replicas, row.request_rate_per_s) == ("together", 1, 0.0)
    assert not row.varied
    (row,) = read_measurements([HEADER, "r1,s,vllm,m,g,10,20,4,burst,0.5,,varied"], "own")
    assert (row.arrivals, row.varied) == ("burst", True)
    assert "lengths" not in row.scenario


def test_arrivals_at_random_have_their_rate():
    header = HEADER + ",request_rate_per_s"
    (row,) = read_measurements([header, "r1,s,vllm,m,g,10,20,4,poisson,0.5,,,2.5"], "own")
    assert (row.arrivals, row.request_rate_per_s) == ("poisson", 2.5)
    assert row.measured == {"tpot_s": 0.5}
    assert "request_rate_per_s" not in row.scenario
    with pytest.raises(BadProfile):
        list(read_measurements([header, "r1,s,vllm,m,g,10,20,4,loop,0.5,,,2.5"], "own"))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("r1,s,vllm,m,g,10,20,4,loop,-0.5,", "measurement_not_positive"),
        ("r1,s,vllm,m,g,10,20,4,loop,fast,", "measurement_not_positive"),
        ("r1,s,vllm,m,g,10,20,4,loop,inf,", "measurement_not_positive"),
        ("r1,s,vllm,m,g,10,20,4,loop,,", "measurement_incomplete"),
        ("r1,s,vllm,m,g,10,20,4,poisson,0.5,", "measurement_incomplete"),
        ("r1,s,vllm,m,g,10,20,4,loop,0.5,,mixed", "measurement_incomplete"),
    ],
)
def test_a_row_that_says_nothing_usable_is_refused(line, code):
    with pytest.raises(BadProfile) as refused:
        list(read_measurements([HEADER, line], "own"))
    assert refused.value.code == code
