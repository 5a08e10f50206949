"""Calibrations: every figure sourced, the right one chosen, rates as fitted, and honest about what they rest on."""

from __future__ import annotations

from dataclasses import replace

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
from planner.catalog.formats import weight_format_ids
from planner.catalog.loader import profiles_folder
from planner.errors import BadProfile, MissingFigure
from planner.quantity import Basis

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
        assert data.get("base", "joint") == "joint"
        assert data["kind"] in ("continuous", "static", "slots")


def test_every_file_is_used():
    used = {rule["use"] for rule in calibration_data("index")["rules"]}
    used |= {"index", "kernels", "collectives", "accelerator-classes"}
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
    # The fit took a B200 at 7.7 TB/s; the catalogue has 8.0.
    b200 = accelerator("b200-sxm-180gb")
    found = calibration_for("vllm", b200, "nvfp4")
    assert found.weights * b200.bandwidth_bytes_per_s == pytest.approx(0.65 * 7.7e12)
    h100 = accelerator("h100-sxm-80gb")
    joint = calibration_for("some-other-engine", h100, "bf16")
    assert joint.efficiency("bf16") * h100.peaks["bf16"] == pytest.approx(0.81 * 989e12)
    assert joint.efficiency("fp8") * h100.peaks["fp8"] == pytest.approx(0.47 * 1979e12)
    assert joint.weights * h100.bandwidth_bytes_per_s == pytest.approx(0.78 * 3.35e12)
    assert joint.reduce_fraction[1] * h100.link_bytes_per_s == pytest.approx(300e9)


def test_the_engines_own_fit_comes_first_where_it_covers_the_gpu():
    def chosen(engine, gpu, weights):
        return calibration_for(engine, accelerator(gpu), weights).id

    assert chosen("vllm", "h100-sxm-80gb", "bf16") == "vllm-16bit"
    assert chosen("vllm", "h100-sxm-80gb", "fp8") == "joint"
    assert chosen("vllm", "h200-sxm-141gb", "bf16") == "joint"
    assert chosen("sglang", "h100-sxm-80gb", "fp16") == "sglang-16bit"
    assert chosen("tensorrt-llm", "b200-sxm-180gb", "nvfp4") == "tensorrt-llm"
    assert chosen("tensorrt-llm", "l4", "fp8") == "joint"
    assert chosen("transformers", "h100-sxm-80gb", "nf4") == "transformers"
    assert chosen("llama.cpp", "apple-m1", "gguf:Q4_0") == "llama-cpp"


@pytest.mark.parametrize(
    ("engine", "gpu", "weights", "model_type", "experts", "basis", "band"),
    [
        ("vllm", "h100-sxm-80gb", "bf16", "qwen3", False, Basis.CALIBRATED, (-0.10, 0.10)),
        ("vllm", "h100-sxm-80gb", "bf16", "gemma3", False, Basis.CALIBRATED, (-0.30, 0.40)),
        ("vllm", "h100-sxm-80gb", "fp8", "llama", False, Basis.CALIBRATED, (-0.10, 0.10)),
        ("vllm", "h100-sxm-80gb", "awq-int4", "llama", False, Basis.TRANSFERRED, (-0.35, 0.60)),
        ("vllm", "h100-sxm-80gb", "fp8", "deepseek_v3", True, Basis.TRANSFERRED, (-0.35, 0.60)),
        ("vllm", "a100-sxm4-80gb", "bf16", "llama", False, Basis.TRANSFERRED, (-0.35, 0.60)),
        ("vllm", "rtx-4090", "bf16", "llama", False, Basis.PHYSICS, (-0.35, 0.60)),
        ("vllm", "mi300x-192gb", "bf16", "llama", False, Basis.ASSUMED, (-0.45, 0.90)),
        ("transformers", "t4", "nf4", "gemma3_text", False, Basis.PHYSICS, (-0.35, 0.60)),
        ("llama.cpp", "rtx-4090", "gguf:Q4_0", "llama", False, Basis.TRANSFERRED, (-0.35, 0.60)),
        ("llama.cpp", "t4", "gguf:Q4_0", "llama", False, Basis.ASSUMED, (-0.45, 0.90)),
    ],
)
def test_basis_and_range_say_how_far_the_constants_were_carried(
    engine, gpu, weights, model_type, experts, basis, band
):
    found = calibration_for(
        engine, accelerator(gpu), weights, model_type=model_type, experts=experts
    )
    assert found.basis is basis
    assert found.tpot_band == band


def test_classes_stand_in_with_their_own_figures():
    l40s = calibration_for("vllm", accelerator("l40s"), "bf16")
    assert l40s.efficiency("bf16") == 0.58
    assert l40s.weights == 0.74
    # Other kinds of weights keep the joint fit's proportion.
    fp8 = calibration_for("vllm", accelerator("l40s"), "fp8")
    assert fp8.weights == pytest.approx(0.74 * 0.82 / 0.78)
    # Overheads are the joint fit's, but where the class has its own.
    assert l40s.layer_s == 4.67e-5
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

    assert host("t4", "fp16") == 1.1e-3
    assert host("t4", "nf4") == 1.7e-3
    assert host("t4", "nf4-dq") == 2.0e-3
    assert host("h100-sxm-80gb", "nf4") == 1.04e-3
    assert host("rtx-4090", "nf4") < host("h100-sxm-80gb", "nf4")
    # bitsandbytes decomposes outliers unless told otherwise.
    assert host("t4", "llm-int8") == 4.6e-3
    # Engines with CUDA graphs don't wait for it.
    assert calibration_for("vllm", accelerator("t4"), "fp16").host_layer_s == 0.0


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
    assert (fit.rows, fit.median_error_fraction) == (1045, 0.078)
    assert (fit.first_token_rows, fit.first_token_error_fraction) == (325, 0.185)
    own = calibration_for("vllm", accelerator("h100-sxm-80gb"), "bf16").fit
    assert own.rows == 90
    assert own.first_token_rows == 325


def test_a_missing_efficiency_is_named():
    found = calibration_for("vllm", accelerator("h100-sxm-80gb"), "bf16")
    with pytest.raises(MissingFigure, match=r"compute\.8bit"):
        replace(found, compute={}).efficiency("fp8")


def test_a_refit_takes_effect_by_replacing_its_file(tmp_path, monkeypatch):
    folder = tmp_path / "calibrations"
    folder.mkdir()
    for path in (profiles_folder() / "calibrations").glob("*.yaml"):
        text = path.read_text()
        if path.stem == "vllm-16bit":
            text = text.replace("sequence_s: {value: 4.4e-05", "sequence_s: {value: 1.0e-05")
        (folder / path.name).write_text(text)
    card = accelerator("h100-sxm-80gb")
    before = calibration_for("vllm", card, "bf16").sequence_s
    monkeypatch.setenv("HEADROOM_PROFILES", str(tmp_path))
    caches = (calibration_constants.read_yaml, calibration_figures, calibration_for)
    for cache in caches:
        cache.cache_clear()
    after = calibration_for("vllm", card, "bf16").sequence_s
    for cache in caches:
        cache.cache_clear()
    assert (before, after) == (4.4e-5, 1.0e-5)


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
