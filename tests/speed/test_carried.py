"""Times carried beyond what was measured are worth less, with a range to match, and the answer says why."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog.accelerators import accelerator
from planner.catalog.calibrations import as_transferred, calibration_for
from planner.catalog.engine_profiles import newer_than_documented
from planner.catalog.engines import engine
from planner.evaluation import evaluate
from planner.quantity import Basis
from planner.scenario import Scenario
from planner.sweeps import ttft_curve
from tests.catalog.test_own_calibration import asked, calibration

LLAMA = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "h100",
    "engine": "vllm",
    "concurrency": 8,
}


def answer(**changes):
    return evaluate(Scenario.parse({**LLAMA, **changes}))


def codes(evaluation):
    return [note.code for note in evaluation.assumptions if note.code.startswith("times_")]


def test_a_release_after_the_last_documented_is_transferred_in_time_as_in_memory():
    known, newer = answer(engine_version="0.19"), answer(engine_version="99")
    assert codes(known) == []
    assert known.speed.tpot_s.basis is known.speed.ttft_s.basis is Basis.CALIBRATED
    assert codes(newer) == ["times_version_transferred"]
    for figure in ("ttft_s", "ttft_unloaded_s", "tpot_s", "e2e_s", "output_tokens_per_s"):
        before, after = getattr(known.speed, figure), getattr(newer.speed, figure)
        assert after.basis is Basis.TRANSFERRED
        if figure != "ttft_unloaded_s":  # which is transferred with any release
            assert after.high / after.low > before.high / before.low
        assert after.mid == pytest.approx(before.mid)


def test_a_first_token_among_fewer_requests_than_were_measured_is_transferred():
    alone, several = answer(concurrency=3), answer(concurrency=4)
    assert codes(alone) == ["times_few_transferred"]
    assert codes(several) == []
    assert (alone.speed.ttft_s.basis, several.speed.ttft_s.basis) == (
        Basis.TRANSFERRED,
        Basis.CALIBRATED,
    )
    assert alone.speed.ttft_s.high / alone.speed.ttft_s.mid > 2.0
    assert several.speed.ttft_s.high / several.speed.ttft_s.mid < 2.0
    # That of nobody else around is the same figure, whoever asks.
    assert several.speed.ttft_unloaded_s == alone.speed.ttft_unloaded_s
    assert alone.speed.tpot_s.basis is Basis.CALIBRATED
    # What was transferred before stays as it was, and so do somebody's own constants.
    assert codes(answer(concurrency=1, gpu="l4")) == []
    assert not any(
        note.code == "times_few_transferred"
        for note in evaluate(asked(calibration=calibration(), concurrency=1)).assumptions
    )


@pytest.mark.parametrize("users", [1, 8])
def test_a_curve_has_the_range_of_the_answer(users):
    asked_for = Scenario.parse(LLAMA | {"concurrency": users, "input_tokens": 2048})
    curve, found = ttft_curve(asked_for, np.array([512.0, 2048.0])), evaluate(asked_for)
    assert curve.estimate.high[1] == pytest.approx(found.speed.ttft_s.high)
    assert curve.estimate.basis is found.speed.ttft_s.basis


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp"])
def test_the_newest_documented_release_isnt_newer_than_documented(name):
    profile = engine(name)
    assert not newer_than_documented(profile, profile.newest)
    assert not newer_than_documented(profile, profile.ranges[0].first)
    assert newer_than_documented(profile, "b999999" if name == "llama.cpp" else "99.1")


def test_a_patch_of_the_newest_release_is_that_release():
    profile = engine("vllm")
    assert not newer_than_documented(profile, f"{profile.newest}.7")


def test_collectives_over_more_ranks_than_measured_are_carried_over():
    eight, sixteen = answer(tp=8), answer(tp=16)
    assert codes(eight) == []
    assert codes(sixteen) == ["times_ranks_transferred"]
    assert eight.speed.tpot_s.basis is Basis.CALIBRATED
    assert sixteen.speed.tpot_s.basis is sixteen.speed.ttft_s.basis is Basis.TRANSFERRED
    # Replicas of a dense model and stages don't share a collective.
    assert codes(answer(tp=4, dp=4)) == codes(answer(tp=8, pp=2)) == []
    mixture = answer(model="Qwen/Qwen3-30B-A3B", tp=4, dp=4)
    assert codes(mixture) == ["times_ranks_transferred"]


def test_a_basis_is_never_made_better_nor_a_range_narrower():
    for gpu in ("h100-sxm-80gb", "l4", "mi300x-192gb"):
        found = calibration_for("vllm", accelerator(gpu), "bf16", model_type="llama")
        changed = as_transferred(found, experts=False)
        assert changed.basis is max(found.basis, Basis.TRANSFERRED)
        for band in ("tpot_band", "ttft_band"):
            low, high = getattr(found, band)
            assert getattr(changed, band)[0] <= low < high <= getattr(changed, band)[1]
        first = as_transferred(found, experts=False, first_only=True)
        assert (first.basis, first.tpot_band) == (found.basis, found.tpot_band)
        assert (first.ttft_basis, first.ttft_band) == (changed.ttft_basis, changed.ttft_band)


def test_somebodys_own_constants_keep_what_their_runs_justify():
    ran_with = calibration(engine_version="99")
    found = evaluate(asked(engine_version="99", calibration=ran_with))
    assert found.speed.tpot_s.basis is Basis.CALIBRATED
    assert codes(found) == []
    assert codes(evaluate(asked(engine_version="99"))) == ["times_version_transferred"]
