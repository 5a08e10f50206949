"""A device and a calibration of somebody's own: they count where they were measured, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from planner import Scenario, evaluate
from planner.catalog.devices import parse_device
from planner.catalog.own_calibration import parse_own_calibration
from planner.errors import InvalidInput
from planner.quantity import Basis
from planner.ui.locale import say_error
from planner.ui.locale.numbers import format_value

DEVICE: dict[str, Any] = {
    "name": "Some CPU, 2 cores",
    "kind": "cpu",
    "memory_usable_bytes": 24e9,
    "bandwidth_bytes_per_s": 20e9,
    "peaks": {"bf16": 2e11, "fp32": 1.5e11},
    "measured_on": "2026-11-30",
}


CONSTANT = {"value": 0.3, "deviation": 0.1, "identified_fraction": 0.9, "at_bound": False}


def calibration(**changes: Any) -> dict[str, Any]:
    error = {
        "rows": 300,
        "before_fraction": 0.5,
        "after_fraction": 0.05,
        "low_fraction": -0.2,
        "high_fraction": 0.2,
    }
    return {
        "schema_version": 1,
        "name": "mine",
        "date": "2026-11-30",
        "accelerator": "own-some-cpu-2-cores",
        "engine": "transformers",
        "engine_version": "5.24",
        "kinds": ["16bit"],
        "experts": False,
        "constants": {"transformers": {"cpu.weights": CONSTANT}},
        "tpot": error,
        "ttft": None,
    } | changes


def asked(**changes: Any) -> Scenario:
    values = {
        "model": "Qwen/Qwen2.5-0.5B",
        "gpu": "here",
        "device": DEVICE,
        "engine": "transformers",
        "dtype": "bf16",
    }
    return Scenario.parse(values | changes)


def codes(scenario: Scenario) -> list[str]:
    return [note.code for note in evaluate(scenario).assumptions]


def test_a_described_device_is_answered_from_its_own_rates() -> None:
    slow = evaluate(asked())
    fast = evaluate(asked(device=DEVICE | {"bandwidth_bytes_per_s": 40e9}))
    assert slow.deployment.accelerator_name == "Some CPU, 2 cores"
    assert slow.memory.usable_bytes_per_gpu.basis is Basis.MEASURED
    assert slow.speed.tpot_s is not None
    assert fast.speed.tpot_s is not None
    assert fast.speed.tpot_s.mid < slow.speed.tpot_s.mid
    assert slow.speed.tpot_s.basis is Basis.ASSUMED


def test_a_calibration_changes_what_it_measured_and_only_that() -> None:
    before, after = evaluate(asked()).speed, evaluate(asked(calibration=calibration())).speed
    assert before.tpot_s is not None
    assert after.tpot_s is not None
    assert after.tpot_s.basis is Basis.CALIBRATED
    assert after.tpot_s.mid > before.tpot_s.mid * 1.1
    assert after.tpot_s.high / after.tpot_s.mid == pytest.approx(1.2)
    assert after.calibration == "mine"
    assert after.ttft_s.basis is before.ttft_s.basis
    assert "own_calibration" in codes(asked(calibration=calibration()))


@pytest.mark.parametrize(
    "elsewhere",
    [{"accelerator": "t4"}, {"engine": "vllm"}, {"kinds": ["nf4"]}],
    ids=["another card", "another engine", "another kind of weights"],
)
def test_a_calibration_from_elsewhere_is_not_used(elsewhere: dict[str, Any]) -> None:
    scenario = asked(calibration=calibration(**elsewhere))
    assert evaluate(scenario).speed.tpot_s == evaluate(asked()).speed.tpot_s
    assert "own_calibration_elsewhere" in codes(scenario)


def test_a_mixture_of_experts_is_transferred_from_dense_runs() -> None:
    scenario = asked(
        model="Qwen/Qwen3-30B-A3B",
        device=DEVICE | {"memory_usable_bytes": 1e12},
        calibration=calibration(),
    )
    tpot = evaluate(scenario).speed.tpot_s
    assert tpot is not None
    assert tpot.basis is Basis.TRANSFERRED
    assert tpot.high / tpot.mid == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"bandwidth_bytes_per_s": float("nan")}, "bandwidth_bytes_per_s"),
        ({"bandwidth_bytes_per_s": 0.001}, "bandwidth_bytes_per_s"),
        ({"memory_usable_bytes": -1.0}, "memory_usable_bytes"),
        ({"cache_bytes": 0.5}, "cache_bytes"),
        ({"peaks": {"bf16": 1e12, "fp32": 0.0}}, "peaks.fp32"),
        ({"peaks": {"bf16": 1e30}}, "peaks.bf16"),
        ({"peaks": {}}, "peaks"),
        ({"peaks": {"bf17": 1e12}}, "peaks.bf17"),
        ({"rotten": 1}, "rotten"),
        ({"kind": "abacus"}, "kind"),
    ],
)
def test_a_device_that_is_none_is_refused_by_key(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_device(DEVICE | changes)
    assert str(refusal.value.values["key"]).startswith(key)


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_refused_rate_comes_with_its_limit(language: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_device(DEVICE | {"bandwidth_bytes_per_s": 0.001})
    said = say_error(refusal.value, language)
    assert "0.001" in said
    assert format_value(1e7, "number", language) in said


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"tpot": None}, "-"),
        ({"constants": {str(i): {} for i in range(9)}}, "constants"),
        ({"constants": {}}, "-"),
        ({"constants": {"../../x": {"cpu.weights": CONSTANT}}}, "-"),
        ({"constants": {"transformers": {"cpu.colour": CONSTANT}}}, "-"),
        ({"constants": {"transformers": {"cpu.weights": CONSTANT | {"value": 1e-300}}}}, "-"),
        ({"constants": {"transformers": {"cpu.layer_s": CONSTANT | {"value": 1e5}}}}, "-"),
        ({"date": "yesterday"}, "date"),
        ({"date": "2026-99-99"}, "date"),
        ({"kinds": ["16bit", "\x1b[31mred"]}, "kinds.1"),
        ({"engine": "\x1b[5mblink"}, "engine"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_calibration_that_is_none_is_refused_by_key(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_own_calibration(calibration(**changes))
    assert refusal.value.values["key"] == key


def test_another_version_of_the_engine_is_transferred_with_a_wider_range() -> None:
    scenario = asked(calibration=calibration(), engine_version="4.46")
    tpot = evaluate(scenario).speed.tpot_s
    assert tpot is not None
    assert tpot.basis is Basis.TRANSFERRED
    assert tpot.high / tpot.mid == pytest.approx(1.4)
    assert "own_calibration_other_version" in codes(scenario)


def test_what_was_not_measured_is_said() -> None:
    assert "own_calibration_no_ttft" in codes(asked(calibration=calibration()))
    error = calibration()["tpot"]
    assert "own_calibration_no_tpot" in codes(asked(calibration=calibration(tpot=None, ttft=error)))
    assert "own_calibration_disturbed" not in codes(asked(calibration=calibration()))
    assert "own_calibration_disturbed" in codes(asked(calibration=calibration(disturbed=True)))
    both = codes(asked(calibration=calibration(ttft=error)))
    assert not any("own_calibration_no" in code for code in both)


def test_few_runs_leave_a_wide_range_whatever_the_file_says() -> None:
    none = calibration()["tpot"] | {"rows": 2, "low_fraction": 0.0, "high_fraction": 0.0}
    tpot = evaluate(asked(calibration=calibration(tpot=none))).speed.tpot_s
    assert tpot is not None
    assert tpot.high / tpot.mid == pytest.approx(1.0 + 0.15 * 2.5)
