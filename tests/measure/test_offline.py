"""Runs that start with all their requests: how they are predicted, and which constants are fitted to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.catalog.calibration_constants import Shelf, calibration_figures
from planner.catalog.measurements import measurements, read_measurements
from planner.measure.fit.offline import OLD, TUNED, emptied, parameters, parts
from planner.measure.fit.plans import PLANS, batch_plan, seen_of
from planner.measure.fit.problem import calibration_on, errors
from planner.measure.predict import predicted, run_of
from planner.measure.refit import resolved
from planner.measure.run_bands import band_of
from planner.quantity import Basis

COLUMNS = (
    "id,source,engine,engine_version,model,weights,gpu,max_num_batched_tokens,max_num_seqs,"
    "input_tokens,output_tokens,concurrency,arrivals,constants,output_tokens_per_s,total_tokens_per_s"
)


def run(line):
    return run_of(next(iter(read_measurements([COLUMNS, line], "made-up"))))


def llama(chunk, inputs=256, outputs=256):
    return run(
        f"a,s,llama.cpp,b3700,meta-llama/Meta-Llama-3-8B,gguf:F16,a100-sxm4-80gb,{chunk},,"
        f"{inputs},{outputs},1,together,,1,1"
    )


def test_a_prompt_read_token_by_token_takes_as_many_steps_as_an_answer():
    one = predicted(llama(1))
    # 512 tokens at the rate of decoding, but for the cache that grows meanwhile.
    assert one["total_tokens_per_s"] == pytest.approx(2.0 * one["output_tokens_per_s"])
    whole = predicted(llama(256))
    assert 1.8 < whole["output_tokens_per_s"] / one["output_tokens_per_s"] < 2.0
    between = predicted(llama(16))["output_tokens_per_s"]
    assert one["output_tokens_per_s"] < between < whole["output_tokens_per_s"]


def backlog(concurrency, constants=""):
    return run(
        "a,s,tensorrt-llm,,meta-llama/Llama-2-70b-hf,fp8,h200-sxm-141gb,,512,"
        f"294,292,{concurrency},backlog,{constants},1,1"
    )


def test_a_backlog_fills_every_place_whatever_waits_behind_it():
    short, long = predicted(backlog(2048)), predicted(backlog(65536))
    assert short == long
    loop = replace(backlog(65536).measurement, arrivals="loop")
    assert predicted(run_of(loop))["output_tokens_per_s"] < long["output_tokens_per_s"]
    assert long["total_tokens_per_s"] == pytest.approx(
        long["output_tokens_per_s"] * (294 + 292) / 292
    )


def test_a_measurement_that_names_a_set_of_constants_gets_them():
    tuned, plain = backlog(2048, TUNED), backlog(2048)
    assert tuned.calibration.id == TUNED
    assert plain.calibration is plain.deployment.calibration
    assert plain.calibration.id == "tensorrt-llm"
    assert predicted(tuned)["output_tokens_per_s"] > 1.2 * predicted(plain)["output_tokens_per_s"]


def burst(arrivals, lengths="", concurrency=1000, model="openai/gpt-oss-20b,native"):
    columns = COLUMNS.replace("arrivals,", "arrivals,lengths,")
    line = (
        f"a,s,vllm,0.10.2,{model},h100-sxm-80gb,,,215,195,{concurrency},{arrivals},{lengths},,1,1"
    )
    return run_of(next(iter(read_measurements([columns, line], "made-up"))))


def test_a_burst_takes_longer_at_a_server_than_handed_to_its_engine():
    server, engine = burst("burst"), burst("offline")
    longer = float(server.calibration.burst_time)
    assert longer > 1.0
    slow, fast = predicted(server), predicted(engine)
    assert fast["output_tokens_per_s"] == pytest.approx(longer * slow["output_tokens_per_s"])
    assert slow["total_tokens_per_s"] == pytest.approx(
        slow["output_tokens_per_s"] * (215 + 195) / 195
    )
    # Uneven answers leave places empty for want of requests.
    assert predicted(burst("burst", "varied"))["output_tokens_per_s"] < slow["output_tokens_per_s"]


def test_the_range_of_a_burst_is_that_of_bursts():
    for arrivals in ("burst", "offline"):
        one = burst(arrivals)
        figures = calibration_figures("index")
        stated = tuple(figures[f"bursts.{arrivals}.{end}"].value for end in ("low", "high"))
        assert band_of(one, "output_tokens_per_s", one.calibration) == stated
        guessed = replace(one.calibration, basis=Basis.ASSUMED, tpot_band=(-0.9, 0.1))
        assert band_of(one, "output_tokens_per_s", guessed) == (-0.9, stated[1])
        own = replace(one.calibration, own=True)
        assert band_of(one, "output_tokens_per_s", own) == own.tpot_band
    loop = burst("loop")
    assert band_of(loop, "output_tokens_per_s", loop.calibration) == loop.calibration.tpot_band


def test_a_pool_that_holds_nothing_does_not_limit_what_ran():
    """vLLM 0.10.2 logs −2.14 GiB for the cache of gpt-oss-120b on one H100 by default, and yet some ran it there."""
    one = burst("burst", model="openai/gpt-oss-120b,native")
    assert one.max_running == 1000.0
    assert burst("burst", concurrency=5000).max_running == 1024.0


@pytest.fixture(scope="module")
def old():
    runs, refused = resolved(measurements("batch"))
    assert not refused
    return seen_of(runs, PLANS["batch"])


def test_each_old_version_is_fitted_to_its_own_rows(old):
    found = parts(old, emptied(Shelf(), tuple(OLD)), tuned=False)
    assert [file for file, *_ in found] == list(OLD)
    assert sum(len(mine) for _, mine, _ in found) == len(old)
    for file, mine, _ in found:
        assert {calibration_on(Shelf(), one.run).id for one in mine} == {file}


def test_rates_are_by_class_and_centred_on_what_the_class_says(old):
    shelf = emptied(Shelf(), tuple(OLD))
    file, mine, rounds = parts(old, shelf, tuned=False)[0]
    made = {p.keys[0]: p for p in parameters(file, mine, rounds[0], shelf)}
    assert {"a100.weights.16bit", "cdna3.weights.16bit", "hopper.weights.16bit"} <= made.keys()
    assert "step_s" in made
    one = next(o for o in mine if o.run.deployment.accelerator.id == "mi300x-192gb")
    assert made["cdna3.cache"].centre == pytest.approx(float(calibration_on(shelf, one.run).cache))
    # No row of MI300X has weights in 4 bits.
    assert "a100.weights.int4" in made
    assert "cdna3.weights.int4" not in made


def test_made_up_batches_are_found_again(old):
    mine = [one for one in old if calibration_on(Shelf(), one.run).id == "sglang-0.4"]
    truth = Shelf(values={"sglang-0.4": {"hopper-h20.weights.16bit": 0.6, "layer_s": 8e-5}})
    made = []
    for one in mine:
        said = predicted(one.run, calibration_on(truth, one.run), (one.quantity,))
        measurement = replace(one.run.measurement, measured=said)
        made.append(replace(one, run=replace(one.run, measurement=measurement)))
    shelf, stages = batch_plan(made, Shelf(), {})
    assert {stage.file for stage in stages} == {"sglang-0.4"}
    assert float(np.median(np.abs(errors(made, shelf)))) < 0.02
    found = calibration_on(shelf, made[0].run)
    assert float(found.weights) == pytest.approx(0.6, rel=0.1)


def test_kernels_of_experts_are_found_over_all_kinds_of_weights_first():
    runs, _ = resolved(measurements("mlperf"))
    seen = seen_of(runs, PLANS["mlperf"])
    without = [one for one in seen if one.run.deployment.architecture.model_type != "gpt_oss"]
    shelf, stages = PLANS["mlperf"].run(without, Shelf(), {})
    assert stages[0].parameters[3].name == "tuned:prefill_sequence_s"
    values = shelf.values[TUNED]
    # DeepSeek's NVFP4 is all that tells of experts, and MXFP4 takes it over.
    assert "experts.mxfp4" in values
    assert values["experts.mxfp4"] == pytest.approx(values["experts.fp4"], rel=0.15)
    assert values["experts.mxfp4"] != calibration_figures(TUNED)["experts.mxfp4"].value
