"""Fitting the very model that is shipped: made-up rows give back the constants that made them."""

from __future__ import annotations

import pytest

from planner.catalog.calibration_constants import Shelf
from planner.catalog.measurements import measurements, read_measurements
from planner.measure.fit.plans import PLANS, campaign, seen_of
from planner.measure.fit.problem import (
    balanced,
    calibration_on,
    errors,
    fit,
    observations,
    shelf_of,
)
from planner.measure.fit.solve import Parameter
from planner.measure.predict import predicted, run_of
from planner.measure.refit import accelerator_fold, by_plan, model_fold, refit_family

HEADER = "id,source,engine,model,gpu,tp,weights,input_tokens,output_tokens,concurrency,tpot_s"
MODELS = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B")


def made_up(truth, engine="vllm"):
    """Rows of three dense models whose time per token is what the model says with `truth`."""
    lines = [
        f"r{i},s,{engine},{model},h100-sxm-80gb,{tp},bf16,{inputs},512,{users},1"
        for i, (model, tp, inputs, users) in enumerate(
            (model, tp, inputs, users)
            for model in MODELS
            for tp in (1, 2)
            for inputs in (256, 2048)
            for users in (1, 8, 32)
            if model != MODELS[1] or tp == 2
        )
    ]
    rows = []
    for row in read_measurements([HEADER, *lines], "made-up"):
        run = run_of(row)
        constants = calibration_on(truth, run)
        row.measured["tpot_s"] = predicted(run, constants)["tpot_s"]
        rows.append(row)
    return [run_of(row) for row in rows]


def test_made_up_rows_give_back_their_constants():
    true = {"step_s": 1.2e-3, "layer_s": 7.0e-5, "sequence_s": 4.0e-5, "weights.16bit": 0.7}
    seen = observations(made_up(Shelf({"vllm": true})), ["tpot_s"])
    wide = [
        Parameter("vllm", ("step_s",), 1e-6, 1e-2, 4e-4, 2.0),
        Parameter("vllm", ("layer_s",), 1e-6, 1e-3, 4e-5, 2.0),
        Parameter("vllm", ("sequence_s",), 1e-7, 1e-3, 1e-5, 2.0),
        Parameter("vllm", ("weights.16bit",), 0.05, 1.0, 0.85, 2.0),
    ]
    shelf, solution = fit(seen, wide, Shelf())
    step_s, layer_s, sequence_s, weights = solution.values
    assert (sequence_s, weights) == pytest.approx((4.0e-5, 0.7), rel=0.05)
    # Step and layers trade off between models of similar depth; for 36 layers their sum is told.
    assert step_s + 36 * layer_s == pytest.approx(1.2e-3 + 36 * 7.0e-5, rel=0.05)
    assert abs(errors(seen, shelf)).max() < 0.02


def test_a_shelf_lays_values_over_files_and_leaves_the_rest():
    parameter = Parameter("joint", ("layer_s", "step_s"), 1e-6, 1.0, 1e-4, 1.0)
    shelf = shelf_of([parameter], [5e-5], Shelf({"joint": {"sequence_s": 1e-5}}))
    figures = shelf.figures("joint")
    assert figures["layer_s"].value == figures["step_s"].value == 5e-5
    assert figures["sequence_s"].value == 1e-5
    assert figures["prefill_steps"] == Shelf().figures("joint")["prefill_steps"]


def test_an_uncovered_card_is_answered_as_if_no_fit_had_seen_it():
    run = next(
        run_of(row) for row in measurements("serving") if row.scenario["gpu"] == "h200-sxm-141gb"
    )
    seen = calibration_on(Shelf(), run)
    unseen = calibration_on(Shelf(uncovered=frozenset({"h200-sxm-141gb"})), run)
    assert seen.basis < unseen.basis


def test_balancing_gives_a_large_campaign_more_than_a_small_one_but_not_its_share():
    weights = balanced(["large"] * 9 + ["small"])
    assert weights.mean() == pytest.approx(1.0)
    assert weights[:9].sum() == pytest.approx(3.0 * weights[9])


def test_folds_keep_a_model_together_whatever_its_checkpoint_or_format():
    seen = seen_of([run_of(row) for row in measurements("serving")], PLANS["serving"])
    folds: dict[str, set[str]] = {}
    for one in seen:
        folds.setdefault(one.run.deployment.model.id, set()).add(model_fold(one))
    assert all(len(names) == 1 for names in folds.values())
    assert folds["deepseek-ai/DeepSeek-V3"] == folds["nvidia/DeepSeek-V3.1-NVFP4"]


def test_folds_of_many_cards_put_no_two_of_a_class_together():
    seen = seen_of([run_of(row) for row in measurements("llama-cpp")], PLANS["llama-cpp"])
    fold = accelerator_fold(seen)
    by_card = {one.run.deployment.accelerator.id: fold(one) for one in seen}
    assert len(set(by_card.values())) == 5
    assert by_card["rtx-4080"] != by_card["rtx-4080-super"]


def test_rows_are_fitted_by_the_plan_of_their_engine():
    runs = made_up(Shelf({"vllm": {"step_s": 4e-3}}))
    grouped = by_plan([run.measurement for run in runs])
    assert list(grouped) == ["serving"]


def test_holding_a_model_out_leaves_its_rows_to_a_fit_without_them():
    runs = made_up(Shelf({"vllm": {"weights.16bit": 0.6}}))
    _, outcome = refit_family(PLANS["serving"], runs, Shelf())
    assert set(outcome.held) == {"model", "accelerator"}
    # Its only card left out, nothing is left to fit.
    assert len({campaign(one)[2] for one in outcome.seen}) == 1
    assert abs(outcome.held["model"]).mean() >= abs(outcome.fitted).mean()
