"""The shipped constants are what the fit gives on the shipped rows, and a refit writes files that load."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from planner.catalog import calibration_constants
from planner.catalog.calibration_constants import Shelf, calibration_data, calibration_figures
from planner.catalog.calibrations import calibration_for
from planner.catalog.loader import profiles_folder
from planner.catalog.measurements import measurements
from planner.deployment import calibration_key
from planner.errors import InvalidInput
from planner.measure.bands import bands
from planner.measure.fit.plans import ENGINES, PLANS
from planner.measure.refit import (
    Refit,
    by_plan,
    engine_fold,
    model_fold,
    refit_family,
    resolved,
)
from planner.measure.spread import spread_unseen
from planner.measure.write import held_out_text, write, written


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(PLANS))
def test_fitting_again_gives_what_is_shipped(family):
    runs, refused = resolved(measurements(family))
    assert not refused
    shelf, _ = refit_family(PLANS[family], runs, Shelf(), hold_out=False)
    for file, values in shelf.values.items():
        shipped = calibration_figures(file)
        for key, value in values.items():
            figure = shipped[key]
            if figure.source.id != "fit" or figure.note:
                continue  # as expected beforehand, or replaced by a group's own
            assert value == pytest.approx(figure.value, rel=0.10), f"{file}:{key}"


@pytest.fixture
def own_profiles(tmp_path, monkeypatch):
    """A copy of the facts to write into, with the caches emptied before and after."""
    shutil.copytree(profiles_folder() / "calibrations", tmp_path / "calibrations")
    caches = (calibration_constants.read_yaml, calibration_figures, calibration_for)
    monkeypatch.setenv("HEADROOM_PROFILES", str(tmp_path))
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


@pytest.fixture(scope="module")
def eager():
    """transformers refitted on a few of its rows, hold-outs included."""
    runs, _ = resolved(measurements("transformers")[::3])
    shelf, outcome = refit_family(PLANS["transformers"], runs, Shelf())
    return Refit(shelf, (outcome,), ())


def test_written_files_load_and_hold_the_fitted_values(eager, own_profiles):
    before = calibration_data("index")
    paths = write(eager)
    assert set(paths) == {
        "calibrations/transformers.yaml",
        "calibrations/transformers-4.yaml",
        "calibrations/held-out-transformers.csv",
        "calibrations/index.yaml",
    }
    for cache in (calibration_constants.read_yaml, calibration_figures):
        cache.cache_clear()
    assert set(eager.shelf.values) == {"transformers", "transformers-4"}
    for file, values in eager.shelf.values.items():
        figures = calibration_figures(file)
        for key, value in values.items():
            assert figures[key].value == pytest.approx(value, rel=1e-3), key
            assert figures[key].source.id == "fit"
    low = calibration_figures("index")["static.transferred.dense.tpot.low"].value
    assert low == pytest.approx(
        bands(eager.outcomes[0])["static.transferred.dense.tpot"][0], abs=1e-3
    )
    # Ranges of other kinds of engines stay, and what no fit changes.
    kept = before.keys() - {"figures", "sources"}
    assert {"rules", "formats", "stand_ins"} <= kept
    assert {key: calibration_data("index")[key] for key in kept} == {k: before[k] for k in kept}
    assert "continuous.calibrated.dense.tpot.low" in calibration_figures("index")


def test_writing_twice_changes_nothing(eager, own_profiles):
    first = written(eager)
    write(eager)
    for cache in (calibration_constants.read_yaml, calibration_figures):
        cache.cache_clear()
    assert written(eager) == first


def test_rows_that_are_kept_as_a_check_are_never_fitted():
    loaded = measurements("serving")[:5]
    assert by_plan([*measurements("unloaded"), *loaded]) == {"serving": list(loaded)}
    bursts = measurements("serving-throughput")[:5]
    assert by_plan(bursts) == {"serving-throughput": list(bursts)}
    with pytest.raises(InvalidInput):
        by_plan(measurements("unloaded"))


def test_a_class_that_few_models_tell_of_has_no_narrower_range_than_its_file():
    runs, _ = resolved(measurements("mlperf"))
    _, outcome = refit_family(PLANS["mlperf"], runs, Shelf())
    found = bands(outcome)
    least, most = spread_unseen(-outcome.held["model"], [model_fold(one) for one in outcome.seen])
    # MI300X and MI325X ran one model only; what its rows were off by says little of another's.
    low, high = found["tuned.cdna3.tpot"]
    assert low <= least < 0.0 < most <= high
    # Five models ran on Blackwell, and tell of it alone.
    assert found["tuned.blackwell.tpot"] != (least, most)


@pytest.fixture(scope="module")
def bursts():
    """The bursts refitted over what is shipped."""
    runs, refused = resolved(measurements("serving-throughput"))
    assert not refused
    return refit_family(PLANS["serving-throughput"], runs, Shelf())


def test_a_burst_s_steps_are_fitted_by_engine_to_servers_alone(bursts):
    shelf, outcome = bursts
    servers = [one for one in outcome.seen if one.run.measurement.arrivals == "burst"]
    assert outcome.stages[0].rows == len(servers) < len(outcome.seen)
    values = shelf.values["bursts"]
    assert set(values) == {"burst_time", *(f"{name}.burst_time" for name in ENGINES)}
    rates = np.array([one.run.measurement.arrivals == "burst" for one in outcome.seen])
    assert abs(np.median(outcome.fitted[rates])) < 0.05
    for name in ENGINES:
        mine = [i for i, one in enumerate(outcome.seen) if rates[i] and engine_fold(one) == name]
        assert abs(np.median(outcome.fitted[mine])) < 0.15, name
    assert set(bands(outcome)) == {"bursts.burst", "bursts.offline"}


def test_an_engine_left_out_takes_what_the_others_say(bursts):
    _, outcome = bursts
    left = outcome.folds["engine"]["tensorrt-llm"].values["bursts"]
    assert left["tensorrt-llm.burst_time"] == left["burst_time"]
    assert left["burst_time"] < bursts[0].values["bursts"]["burst_time"]


def test_folds_build_on_constants_that_have_not_seen_them_either(bursts):
    """A burst's figure where its model is left out is that of the serving fit without the model."""
    runs, _ = resolved(measurements("serving-throughput"))
    slow = Shelf({file: {"sequence_s": 2e-4} for file in ENGINES})
    under = {"model": {"gpt_oss-36": slow}}
    _, outcome = refit_family(PLANS["serving-throughput"], runs, Shelf(), under=under)
    for i, one in enumerate(outcome.seen):
        same = bool(outcome.held["model"][i] == bursts[1].held["model"][i])
        assert same is (model_fold(one) != "gpt_oss-36")


def test_held_out_rows_are_stored_as_measured_over_predicted(eager):
    outcome = eager.outcomes[0]
    lines = held_out_text(outcome).splitlines()
    assert lines[0] == "id,quantity,in_sample,model,accelerator"
    assert len(lines) == 1 + len(outcome.seen)
    first = lines[1].split(",")
    assert float(first[2]) == pytest.approx(float(np.exp(-outcome.fitted[0])), abs=1e-4)


def test_every_kept_run_has_a_key_that_chooses_its_constants(eager):
    for one in eager.outcomes[0].seen:
        engine, card, *_ = calibration_key(one.run.deployment)
        assert engine == "transformers"
        assert card is one.run.deployment.accelerator
