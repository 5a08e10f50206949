"""The measurements' files: every row loads, names its source, and is a scenario that the planner answers."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from planner.catalog.files import profile_lines
from planner.catalog.measurements import (
    ARRIVALS,
    MEMORY_FAMILIES,
    SPEED_FAMILIES,
    measurement_sources,
    measurements,
    read_measurements,
)
from planner.errors import BadProfile
from planner.measure.predict import run_of, waiting_steps
from planner.ui.locale import say_error

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
    assert (row.poll_steps, row.hold_steps) == (1.0, 0.0)
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


def test_what_lets_prompts_wait_is_no_part_of_the_scenario():
    header, line = HEADER + ",poll_steps,hold_steps", "r1,s,sglang,m,g,10,20,4,waves,0.5,,,30,"
    (row,) = read_measurements([header, line], "own")
    assert (row.arrivals, row.poll_steps, row.hold_steps) == ("waves", 30.0, 0.0)
    assert not {"poll_steps", "hold_steps"} & set(row.scenario)
    with pytest.raises(BadProfile) as refused:
        list(read_measurements([header, line.replace(",30,", ",30,-1")], "own"))
    assert refused.value.code == "measurement_out_of_range"


def test_only_the_engine_that_has_a_setting_states_it():
    rows = measurements("serving")
    assert {row.scenario["engine"] for row in rows if row.poll_steps > 1.0} == {"sglang"}
    assert {row.scenario["engine"] for row in rows if row.hold_steps} == {"tensorrt-llm"}
    waves = [row for row in rows if row.arrivals == "waves"]
    assert {row.scenario["engine"] for row in waves} == {"sglang"}
    assert not any("0.9 of nominal" in row.note for row in waves)  # those lengths vary


def test_a_prompt_waits_for_half_the_steps_between_two_looks():
    (row,) = read_measurements([HEADER, "r1,s,sglang,m,g,10,20,4,loop,0.5,"], "own")
    assert waiting_steps(row, 64.0, 1000.0) == 0.0
    assert waiting_steps(replace(row, poll_steps=31.0), 64.0, 1000.0) == 15.0


def test_a_prompt_that_is_held_back_waits_less_the_more_come_meanwhile():
    (row,) = read_measurements([HEADER, "r1,s,tensorrt-llm,m,g,10,20,4,loop,0.5,"], "own")
    held = replace(row, hold_steps=20.0)
    alone, some, many = (waiting_steps(held, users, 1000.0) for users in (1e-6, 50.0, 1e6))
    assert alone == pytest.approx(20.0)
    assert some == pytest.approx(15.0)  # two in all: one waits 20 steps, the other 10
    assert many == pytest.approx(10.0, rel=1e-3)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("r1,s,vllm,m,g,10,20,4,loop,-0.5,", "measurement_out_of_range"),
        ("r1,s,vllm,m,g,10,20,4,loop,fast,", "measurement_out_of_range"),
        ("r1,s,vllm,m,g,10,20,4,loop,inf,", "measurement_out_of_range"),
        ("r1,s,vllm,m,g,10,20,4,loop,1e-310,", "measurement_out_of_range"),
        ("r1,s,vllm,m,g,10,20,4,loop,1e8,", "measurement_out_of_range"),
        ("r1,s,vllm,m,g,10,20,4,Poisson,0.5,", "measurement_arrivals_unknown"),
        ("r1,s,vllm,m,g,10,20,4,loop,,", "measurement_incomplete"),
        ("r1,s,vllm,m,g,10,20,4,poisson,0.5,", "measurement_rate_missing"),
        ("r1,s,vllm,m,g,10,20,4,loop,0.5,,mixed", "measurement_lengths_unknown"),
    ],
)
def test_a_row_that_says_nothing_usable_is_refused(line, code):
    with pytest.raises(BadProfile) as refused:
        list(read_measurements([HEADER, line], "own"))
    assert refused.value.code == code


MORE = HEADER + ",request_rate_per_s,replicas,poll_steps,hold_steps,output_tokens_per_s"


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ("loop,0.5,,,2.5,,,,", "measurement_rate_spare"),
        ("poisson,0.5,,,1e300,,,,", "measurement_out_of_range"),
        ("poisson,0.5,,,-1,,,,", "measurement_out_of_range"),
        ("burst,,,,,0,,,1000", "measurement_replicas_unknown"),
        ("burst,,,,,²,,,1000", "measurement_replicas_unknown"),
        ("burst,,,,," + "9" * 5000 + ",,,1000", "measurement_replicas_unknown"),
        ("burst,,,,,10001,,,1000", "measurement_replicas_unknown"),
        ("burst,,,,,,,,1e-310", "measurement_out_of_range"),
        ("burst,,,,,,,,1e300", "measurement_out_of_range"),
        ("loop,0.5,,,,,0.5,,", "measurement_out_of_range"),
        ("loop,0.5,,,,,1e200,,", "measurement_out_of_range"),
        ("loop,0.5,,,,,,1e160,", "measurement_out_of_range"),
        ("loop,0.5,,,,,,-1,", "measurement_out_of_range"),
    ],
)
@pytest.mark.parametrize("language", ["en", "es"])
def test_how_requests_came_is_refused_by_its_column_in_a_short_sentence(cells, code, language):
    with pytest.raises(BadProfile) as refused:
        list(read_measurements([MORE, "r1,s,vllm,m,g,10,20,4," + cells], "own"))
    assert refused.value.code == code
    said = say_error(refused.value, language)
    assert "r1" in said
    assert len(said) < 300


def test_a_way_of_arriving_that_there_is_not_is_told_those_there_are():
    with pytest.raises(BadProfile) as refused:
        list(read_measurements([HEADER, "r1,s,vllm,m,g,10,20,4,wave,0.5,"], "own"))
    assert all(one in say_error(refused.value, "en") for one in ARRIVALS)


def test_prompts_that_are_not_held_back_may_say_so():
    (row,) = read_measurements([MORE, "r1,s,vllm,m,g,10,20,4,loop,0.5,,,,,1,0,"], "own")
    assert (row.poll_steps, row.hold_steps) == (1.0, 0.0)
