"""The shipped constants are what the fit gives on the shipped rows, and a refit writes files that load."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from planner.catalog import calibration_constants
from planner.catalog.calibration_constants import Shelf, calibration_figures
from planner.catalog.calibrations import calibration_for
from planner.catalog.loader import profiles_folder
from planner.catalog.measurements import measurements
from planner.deployment import calibration_key
from planner.errors import InvalidInput
from planner.measure.fit.plans import PLANS
from planner.measure.refit import Refit, by_plan, refit_family, resolved, unseen_inside
from planner.measure.write import bands, held_out_text, write, written


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
    # Ranges of other kinds of engines stay.
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
    with pytest.raises(InvalidInput):
        by_plan(measurements("unloaded"))


def test_fewer_groups_ask_for_wider_ranges():
    assert unseen_inside(1) == 0.9  # no more than that, whatever so few say
    assert unseen_inside(1000) == pytest.approx(0.8, abs=1e-3)
    asked = [unseen_inside(groups) for groups in (4, 8, 16, 64)]
    assert asked == sorted(asked, reverse=True)
    assert unseen_inside(5, 0.5) == pytest.approx(0.5 * (1 + 0.45 / 5))


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
