"""Calibrations: every figure sourced, the right one chosen, rates as fitted, and honest about what they rest on."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest

from planner.catalog import calibration_constants
from planner.catalog.accelerators import accelerator, accelerator_ids
from planner.catalog.calibration_constants import (
    accelerator_class,
    calibration_data,
    calibration_figures,
    weights_kind,
)
from planner.catalog.calibrations import calibration_for, stack_calibrations
from planner.catalog.devices import device_from
from planner.catalog.formats import weight_format_ids
from planner.catalog.loader import profiles_folder
from planner.errors import BadProfile, MissingFigure
from planner.quantity import Basis
from tests.measure.test_own_fit import CPU

FILES = sorted(path.stem for path in (profiles_folder() / "calibrations").glob("*.yaml"))
ENGINES = ("vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp")


@pytest.mark.parametrize("file", FILES)
def test_every_figure_has_a_source_and_every_source_is_used(file):
    figures = calibration_figures(file)
    assert figures
    stated = {source["id"] for source in calibration_data(file)["sources"]}
    assert {figure.source.id for figure in figures.values()} == stated
    assert calibration_data(file)["id"] == file
    assert all(np.isfinite(figure.value) for figure in figures.values())


@pytest.mark.parametrize("file", FILES)
def test_parts_are_parts(file):
    parts = ("compute", "weights", "cache", "prefill", "attention", "fraction", "experts")
    for key, figure in calibration_figures(file).items():
        name = key.split(".")
        if file != "index" and set(name) & set(parts) and not key.endswith("_s"):
            assert 0 < figure.value <= 1, key


def test_every_rule_names_a_file_and_the_last_one_takes_the_rest():
    rules = calibration_data("index")["rules"]
    assert set(rules[-1]) == {"use"}
    assert {rule["use"] for rule in rules} <= set(FILES)
    for file in {rule["use"] for rule in rules}:
        data = calibration_data(file)
        assert data.get("base", "joint") in FILES
        assert data["kind"] in ("continuous", "static", "slots")


def test_every_file_is_used():
    used = {rule["use"] for rule in calibration_data("index")["rules"]}
    used |= {"index", "kernels", "collectives", "accelerator-classes", "bursts"}
    assert used == set(FILES)


def test_every_accelerator_engine_and_format_has_constants():
    for id_ in accelerator_ids():
        for engine in ENGINES:
            for weights in ("bf16", "fp8", "awq-int4", "nf4", "mxfp4", "gguf:Q4_K_M"):
                found = calibration_for(engine, accelerator(id_), weights)
                assert found.tpot_band[0] < 0 < found.tpot_band[1]
                assert found.ttft_band[0] < 0 < found.ttft_band[1]
                assert 0 < found.weights <= 1
                assert 0 < found.expert_weights <= 1
                assert 0 < found.cache <= 1
                for table in (found.compute, found.prefill):
                    assert table["16bit"]
                    assert all(0 < part <= 1 for part in table.values())


def test_every_catalogued_format_has_a_kind():
    for format_id in weight_format_ids():
        if format_id != "native":
            assert weights_kind(format_id)
    with pytest.raises(BadProfile):
        weights_kind("bits-of-my-own")


def test_fitted_rates_come_out_as_fitted():
    def fitted(file, key):
        return calibration_figures(file)[key].value

    # The fit took a B200 at 7.7 TB/s; the catalogue has 8.0.
    b200 = accelerator("b200-sxm-180gb")
    found = calibration_for("vllm", b200, "nvfp4")
    assert found.weights * b200.bandwidth_bytes_per_s == pytest.approx(
        fitted("vllm", "weights.fp4") * 7.7e12
    )
    h100 = accelerator("h100-sxm-80gb")
    joint = calibration_for("some-other-engine", h100, "bf16")
    for dtype, group in (("bf16", "16bit"), ("fp8", "8bit")):
        used = {"16bit": 989e12, "8bit": 1979e12}[group]
        rate = joint.efficiency(dtype) * h100.peaks[dtype]
        assert rate == pytest.approx(fitted("joint", f"compute.{group}") * used)
    assert joint.weights * h100.bandwidth_bytes_per_s == pytest.approx(
        fitted("joint", "weights.16bit") * 3.35e12
    )
    assert joint.reduce_fraction[1] * h100.link_bytes_per_s == pytest.approx(300e9)


def test_the_first_rule_that_matches_engine_and_version_chooses_the_file():
    def chosen(engine, gpu, weights, version=""):
        return calibration_for(engine, accelerator(gpu), weights, version=version).id

    assert chosen("vllm", "h100-sxm-80gb", "bf16") == "vllm"
    assert chosen("vllm", "l4", "fp8") == "vllm"
    assert chosen("sglang", "h100-sxm-80gb", "fp16") == "sglang"
    assert chosen("sglang", "h100-sxm-80gb", "fp16", "0.5.9") == "sglang"
    assert chosen("sglang", "h100-sxm-80gb", "fp16", "0.5.10.post1") == "sglang"
    assert chosen("sglang", "h100-sxm-80gb", "fp16", "0.5") == "sglang"
    assert chosen("sglang", "h20-96gb", "bf16", "0.4.6.post1") == "sglang-0.4"
    assert chosen("vllm", "mi300x-192gb", "bf16", "0.6.1") == "vllm-0.6"
    assert chosen("vllm", "mi300x-192gb", "bf16", "0.7.0") == "vllm"
    assert chosen("tensorrt-llm", "a100-sxm4-40gb", "fp16", "0.11.0") == "tensorrt-llm-0.12"
    assert chosen("llama.cpp", "a100-sxm4-40gb", "gguf:F16", "b3700") == "llama.cpp-b3999"
    assert chosen("llama.cpp", "a100-sxm4-40gb", "gguf:F16", "b4000") == "llama-cpp"
    assert chosen("transformers", "h20-96gb", "bf16", "4.51.3") == "transformers-4"
    assert chosen("tensorrt-llm", "b200-sxm-180gb", "nvfp4", "tuned") == "tuned"
    assert chosen("tensorrt-llm", "b200-sxm-180gb", "nvfp4", "1.2.0") == "tensorrt-llm"
    assert chosen("tensorrt-llm", "b200-sxm-180gb", "nvfp4", "1.0.0") == "tensorrt-llm"
    assert chosen("transformers", "h100-sxm-80gb", "nf4") == "transformers"
    assert chosen("llama.cpp", "apple-m1", "gguf:Q4_0") == "llama-cpp"
    assert chosen("some-other-engine", "h100-sxm-80gb", "bf16") == "joint"


def test_an_earlier_version_differs_only_in_what_its_file_states():
    card = accelerator("h100-sxm-80gb")
    old = calibration_for("transformers", card, "bf16", version="4.51.3")
    new = calibration_for("transformers", card, "bf16")
    assert old.host_expert_s > new.host_expert_s == 0.0
    assert (old.layer_s, old.weights, old.cache) == (new.layer_s, new.weights, new.cache)


def test_an_earlier_version_is_answered_by_what_it_reached_on_that_class():
    card = accelerator("mi300x-192gb")
    old = calibration_for("vllm", card, "bf16", version="0.6.1")
    new = calibration_for("vllm", card, "bf16")
    assert old.efficiency("bf16") < 0.1 * new.efficiency("bf16")
    assert old.tpot_band[1] > 0.5  # seven models of two sizes, far from each other
    # Where the old rows have no such card, its class says what it reaches and the old version what it costs.
    l40s = calibration_for("vllm", accelerator("l40s"), "bf16", version="0.6.1")
    assert l40s.weights == calibration_for("vllm", accelerator("l40s"), "bf16").weights
    assert l40s.sequence_s == calibration_figures("vllm-0.6")["sequence_s"].value
    assert l40s.tpot_band == calibration_for("vllm", accelerator("l40s"), "bf16").tpot_band


def test_a_version_that_loops_over_experts_says_what_each_costs():
    card = accelerator("h20-96gb")
    old = calibration_for("transformers", card, "bf16", experts=True, version="4.51.3")
    new = calibration_for("transformers", card, "bf16", experts=True)
    assert old.host_expert_s > 1e-5
    assert new.host_expert_s == 0.0
    assert old.host_layer_s == new.host_layer_s


def test_experts_have_constants_of_their_generation_and_kind():
    h200, b200 = accelerator("h200-sxm-141gb"), accelerator("b200-sxm-180gb")
    hopper = calibration_for("tensorrt-llm", h200, "mxfp4", experts=True)
    blackwell = calibration_for("tensorrt-llm", b200, "mxfp4", experts=True)
    figures = calibration_figures("tensorrt-llm")
    assert hopper.expert_layer_s == figures["hopper.expert_layer_s.mxfp4"].value
    assert blackwell.expert_layer_s == figures["blackwell.expert_layer_s.mxfp4"].value
    assert hopper.experts == blackwell.experts == figures["experts.mxfp4"].value
    # Kinds that no row has take the figure for all.
    awq = calibration_for("vllm", h200, "awq-int4", experts=True)
    assert awq.experts == calibration_figures("joint")["experts"].value


def test_a_generations_other_cards_take_what_the_fit_found():
    seen = calibration_for("vllm", accelerator("h200-sxm-141gb"), "bf16")
    unseen = calibration_for("vllm", accelerator("gh200-144gb"), "bf16")
    assert unseen.basis is Basis.TRANSFERRED
    assert unseen.weights == pytest.approx(seen.weights)


@pytest.mark.parametrize(
    ("engine", "gpu", "weights", "model_type", "experts", "basis", "band"),
    [
        ("vllm", "h100-sxm-80gb", "bf16", "qwen3", False, Basis.CALIBRATED, "calibrated"),
        ("vllm", "h100-sxm-80gb", "bf16", "gemma3", False, Basis.TRANSFERRED, "other-model"),
        ("vllm", "h100-sxm-80gb", "fp8", "gpt_oss", True, Basis.CALIBRATED, "calibrated"),
        ("vllm", "h100-sxm-80gb", "awq-int4", "llama", False, Basis.TRANSFERRED, "transferred"),
        ("tensorrt-llm", "gb200", "bf16", "llama", False, Basis.TRANSFERRED, "transferred"),
        ("vllm", "a100-sxm4-80gb", "bf16", "llama", False, Basis.TRANSFERRED, "transferred"),
        ("vllm", "rtx-4090", "bf16", "llama", False, Basis.PHYSICS, "physics"),
        ("vllm", "mi300x-192gb", "bf16", "llama", False, Basis.ASSUMED, "assumed"),
    ],
)
def test_basis_and_range_say_how_far_the_constants_were_carried(
    engine, gpu, weights, model_type, experts, basis, band
):
    found = calibration_for(
        engine, accelerator(gpu), weights, model_type=model_type, experts=experts
    )
    assert found.basis is basis
    figures = calibration_figures("index")
    name = f"continuous.{band}.{'experts' if experts else 'dense'}"
    for what, shown in (("tpot", found.tpot_band), ("ttft", found.ttft_band)):
        assert shown == (figures[f"{name}.{what}.low"].value, figures[f"{name}.{what}.high"].value)


def test_eager_execution_and_slots_have_ranges_of_their_own():
    figures = calibration_figures("index")
    eager = calibration_for("transformers", accelerator("t4"), "nf4", model_type="gemma3_text")
    assert eager.basis is Basis.PHYSICS
    assert eager.tpot_band[1] == figures["static.physics.dense.tpot.high"].value
    slots = calibration_for("llama.cpp", accelerator("rtx-4090"), "gguf:Q4_0")
    assert slots.basis is Basis.TRANSFERRED
    assert slots.tpot_band[0] == figures["slots.transferred.dense.tpot.low"].value


def test_ranges_widen_with_what_they_rest_on():
    figures = calibration_figures("index")

    def width(group, model, what):
        name = f"continuous.{group}.{model}.{what}"
        return (1 + figures[f"{name}.high"].value) / (1 + figures[f"{name}.low"].value)

    for model in ("dense", "experts"):
        for what in ("tpot", "ttft"):
            assert width("calibrated", model, what) < width("other-model", model, what)
            assert width("calibrated", model, what) < width("transferred", model, what)
            assert width("transferred", model, what) < width("physics", model, what)
            assert width("physics", model, what) < width("assumed", model, what)


def test_classes_stand_in_with_their_own_figures():
    l40s = calibration_for("vllm", accelerator("l40s"), "bf16")
    assert l40s.efficiency("bf16") == 0.58
    assert l40s.weights == 0.74
    # Other kinds of weights keep the joint fit's proportion.
    fp8 = calibration_for("vllm", accelerator("l40s"), "fp8")
    joint = calibration_figures("joint")
    ratio = joint["weights.fp8"].value / joint["weights.16bit"].value
    assert fp8.weights == pytest.approx(0.74 * ratio)
    # Overheads are the engine's, but where the class has its own.
    assert l40s.layer_s == calibration_figures("vllm")["layer_s"].value
    assert calibration_for("vllm", accelerator("a100-sxm4-80gb"), "bf16").layer_s == 5.7e-5


def test_class_of_an_accelerator():
    def name(id_):
        return accelerator_class(accelerator(id_)).name

    assert name("h100-pcie-80gb") == "hopper-pcie"
    assert name("h20-96gb") == "hopper-h20"
    assert name("a10g") == "ampere-cloud"
    assert name("rtx-3090") == "geforce-ampere"
    assert name("jetson-agx-orin-64gb") == "tegra"
    assert name("gb10-dgx-spark") == "tegra"
    assert name("apple-m4-max-40c@64") == "apple"
    assert name("tpu-v5e") == "other"


def test_hosts_differ_for_eager_execution():
    def host(gpu, weights):
        return calibration_for("transformers", accelerator(gpu), weights).host_layer_s

    figures = calibration_figures("transformers")
    for gpu, group in (("t4", "cloud"), ("h100-sxm-80gb", "server"), ("rtx-4090", "desktop")):
        for weights, kind in (("fp16", "16bit"), ("nf4", "nf4"), ("nf4-dq", "nf4-dq")):
            assert host(gpu, weights) == figures[f"host_layer_s.{group}.{kind}"].value
    assert host("rtx-4090", "nf4") < host("h100-sxm-80gb", "nf4") < host("t4", "nf4")
    # bitsandbytes decomposes outliers unless told otherwise.
    assert host("t4", "llm-int8") == figures["host_layer_s.cloud.int8-decomposed"].value
    # Engines with CUDA graphs don't wait for it.
    assert calibration_for("vllm", accelerator("t4"), "fp16").host_layer_s == 0.0


def test_wide_weights_take_the_figures_of_16_bits_where_they_have_none_of_their_own():
    for engine, card in (("transformers", "a10"), ("vllm", "h100-sxm-80gb"), ("llama.cpp", "l4")):
        wide, plain = (calibration_for(engine, accelerator(card), of) for of in ("fp32", "bf16"))
        assert asdict(wide) == asdict(plain)


def test_a_processor_attends_in_16_bits_at_a_ninth_of_its_rate_in_32():
    device = device_from(json.dumps(CPU))
    wide, narrow = (calibration_for("transformers", device, of) for of in ("fp32", "bf16"))
    assert narrow.cache_repeats > 4 * wide.cache_repeats
    assert asdict(wide) | {"cache_repeats": 0.0} == asdict(narrow) | {"cache_repeats": 0.0}
    # Reading weights and multiplying by them add up there.
    assert (narrow.order, calibration_for("transformers", accelerator("a10"), "bf16").order) == (
        1.0,
        2.0,
    )


def test_links():
    def constants(gpu):
        found = calibration_for("vllm", accelerator(gpu), "bf16")
        return found.reduce_latency_s, found.reduce_fraction

    latency, fraction = constants("a100-sxm4-80gb")
    assert latency == (4.9e-6, 5.6e-6, 6.7e-6)
    assert fraction[2] * 300e9 == pytest.approx(141e9)
    latency, fraction = constants("l40s")
    assert fraction[0] * accelerator("l40s").link_bytes_per_s == pytest.approx(19e9, rel=0.01)
    # The RTX PRO 6000 has PCIe 5.
    assert constants("rtx-pro-6000-blackwell")[1] == (0.603, 0.397, 0.317)
    # Without CUDA graphs an all-reduce waits for its launch.
    eager = calibration_for("transformers", accelerator("h100-sxm-80gb"), "bf16")
    assert min(eager.reduce_latency_s) == 2.2e-5


def test_rows_and_errors_travel_with_the_constants():
    fit = calibration_for("vllm", accelerator("h100-sxm-80gb"), "fp8").fit
    stated = calibration_data("vllm")
    assert fit.rows == stated["fit"]["rows"] > 40
    assert fit.median_error_fraction == stated["fit"]["median_error_fraction"]
    assert fit.held_out_error_fraction == stated["fit"]["held_out_model_median_error_fraction"]
    assert fit.first_token_rows == stated["first_token_fit"]["rows"]
    pooled = calibration_for("some-other-engine", accelerator("h100-sxm-80gb"), "fp8").fit
    assert pooled.rows > fit.rows


def test_a_missing_efficiency_is_named():
    found = calibration_for("vllm", accelerator("h100-sxm-80gb"), "bf16")
    with pytest.raises(MissingFigure, match=r"compute\.8bit"):
        replace(found, compute={}).efficiency("fp8")


def test_a_refit_takes_effect_by_replacing_its_file(tmp_path, monkeypatch):
    folder = tmp_path / "calibrations"
    folder.mkdir()
    for path in (profiles_folder() / "calibrations").glob("*.yaml"):
        text = path.read_text()
        if path.stem == "vllm":
            text = re.sub(r"(\n  sequence_s: {value: )[^,]+", r"\g<1>1.0e-05", text)
        (folder / path.name).write_text(text)
    card = accelerator("h100-sxm-80gb")
    before = calibration_for("vllm", card, "bf16").sequence_s
    assert before == calibration_figures("vllm")["sequence_s"].value
    monkeypatch.setenv("HEADROOM_PROFILES", str(tmp_path))
    caches = (calibration_constants.read_yaml, calibration_figures, calibration_for)
    for cache in caches:
        cache.cache_clear()
    after = calibration_for("vllm", card, "bf16").sequence_s
    for cache in caches:
        cache.cache_clear()
    assert after == 1.0e-5 != before


def test_stacking():
    cards = [accelerator(id_) for id_ in ("h100-sxm-80gb", "tesla-p40", "l4")]
    apart = [calibration_for("vllm", card, "bf16") for card in cards]
    together = stack_calibrations(apart)
    assert together.weights.tolist() == [one.weights for one in apart]
    assert together.reduce_latency_s[2].tolist() == [one.reduce_latency_s[2] for one in apart]
    assert together.compute["16bit"].tolist() == [one.compute["16bit"] for one in apart]
    assert together.order == 2.0
    other = calibration_for("transformers", cards[0], "bf16")
    with pytest.raises(ValueError, match="kind"):
        stack_calibrations([apart[0], other])
