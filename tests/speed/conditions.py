"""Hardware and constants that the speed tests share."""

from __future__ import annotations

from planner.catalog.accelerators import accelerator
from planner.catalog.calibrations import Calibration, calibration_for
from planner.speed.hardware import Hardware, hardware_of


def setting(
    gpu: str = "h100-sxm-80gb",
    engine: str = "some-other-engine",
    weights: str = "bf16",
    model_type: str = "llama",
    *,
    experts: bool = False,
) -> tuple[Hardware, Calibration]:
    """An accelerator's rates and an engine's constants on it; an unknown engine takes the joint fit."""
    card = accelerator(gpu)
    constants = calibration_for(engine, card, weights, model_type=model_type, experts=experts)
    return hardware_of(card), constants
