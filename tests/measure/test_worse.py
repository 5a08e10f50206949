"""A calibration that predicts most runs better and some clearly worse says which ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest

from planner.catalog.own_calibration import OwnWorse
from planner.measure.fit.problem import Observation, observations
from planner.measure.own_fit import calibrated
from planner.measure.predict import resolve_run
from planner.measure.record import Record, Row, measurements_of
from planner.measure.worse import CLEARLY, worse_groups
from planner.measure_report import measured_text
from planner.ui.calibration_words import worse_words
from planner.ui.locale import LANGUAGES
from tests.measure.test_own_fit import grid, made, scaled

USERS = (1, 2, 4, 8, 32)


def slowed(factor: float, chosen: Callable[[Row], bool]) -> Record:
    """A T4's runs as they are predicted, the chosen ones so many times slower."""
    cases = grid(dtype="fp16", batches=USERS)
    exact, slow = made("t4", cases, truth={}), scaled(made("t4", cases, truth={}), factor)
    rows = [
        there if chosen(here) else here for here, there in zip(exact.rows, slow.rows, strict=True)
    ]
    return exact.model_copy(update={"rows": rows})


@lru_cache(maxsize=1)
def busy_ones_differ() -> Record:
    """What few users see is nearly twice as slow as predicted, what many see isn't: one constant can't be both."""
    return calibrated(slowed(1.8, lambda row: int(row.scenario["concurrency"]) < max(USERS)))


def test_a_fit_that_serves_few_users_and_spoils_many_names_them() -> None:
    own = busy_ones_differ().calibration
    assert own is not None
    assert own.tpot is not None
    assert own.tpot.after_fraction < own.tpot.before_fraction
    (worse,) = own.tpot.worse
    assert (worse.by, worse.low, worse.high, worse.rows) == ("concurrency", 32, 32, 3)
    assert worse.after_fraction > worse.before_fraction + CLEARLY
    # Prompts were read one at a time, and got better.
    assert own.ttft is not None
    assert own.ttft.worse == []


def test_a_fit_that_serves_everyone_names_nobody() -> None:
    for record in (slowed(1.8, lambda _: True), made("t4", grid(dtype="fp16", batches=USERS))):
        own = calibrated(record).calibration
        assert own is not None
        assert own.tpot is not None
        assert own.tpot.after_fraction < own.tpot.before_fraction
        assert own.tpot.worse == []


def test_the_groups_of_prompt_lengths_are_told_too() -> None:
    own = calibrated(slowed(1.8, lambda row: int(row.scenario["input_tokens"]) < 2048)).calibration
    assert own is not None
    assert own.tpot is not None
    assert [(one.by, one.low) for one in own.tpot.worse] == [("input_tokens", 2048)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_command_line_says_it(language: str) -> None:
    record = busy_ones_differ()
    assert record.calibration is not None
    (said,) = worse_words(record.calibration, "tpot", language)
    assert "32" in said
    assert said in measured_text(record, language).splitlines()
    assert worse_words(record.calibration, "ttft", language) == []


# --- The rule --------------------------------------------------------------------------------------------------------


def seen(*users: int) -> list[Observation]:
    """Runs of so many users each."""
    record = slowed(1.0, lambda _: True)
    row = next(one for one in record.rows if "tpot_s" in one.measured)
    (one,) = observations(
        [resolve_run(measurements_of(record.model_copy(update={"rows": [row]}))[0])], ("tpot_s",)
    )
    return [
        dataclasses.replace(
            one,
            run=dataclasses.replace(one.run, scenario=one.run.scenario.replace(concurrency=number)),
        )
        for number in users
    ]


def found(users: list[int], before: list[float], after: list[float]) -> list[OwnWorse]:
    return worse_groups(seen(*users), np.log1p(np.array(before)), np.log1p(np.array(after)))


def test_only_a_clear_loss_counts_to_either_side() -> None:
    users = [1, 1, 16, 16]
    assert found(users, [0.5, 0.5, 0.1, 0.1], [0.0, 0.0, 0.19, 0.19]) == []
    for after in (0.21, -0.21):
        (one,) = found(users, [0.5, 0.5, 0.1, 0.1], [0.0, 0.0, after, after])
        assert (one.low, one.before_fraction, one.after_fraction) == pytest.approx((16, 0.1, 0.21))


def test_the_group_that_lost_most_is_named() -> None:
    (one,) = found([1, 16, 20, 64], [0.5, 0.0, 0.0, 0.0], [0.0, 0.2, 0.2, 0.4])
    assert (one.low, one.high, one.rows) == (64, 64, 1)
    (one,) = found([1, 16, 20, 64], [0.5, 0.0, 0.0, 0.0], [0.0, 0.4, 0.4, 0.2])
    assert (one.low, one.high, one.rows) == (16, 20, 2)


def test_all_runs_and_one_among_many_are_no_group() -> None:
    assert found([8, 8, 8], [0.0] * 3, [0.5] * 3) == []
    many = [1] * 40
    assert found([*many, 64], [0.5] * 40 + [0.0], [0.0] * 40 + [0.5]) == []
    assert found([*many, 64, 64, 64], [0.5] * 40 + [0.0] * 3, [0.0] * 40 + [0.5] * 3)
