"""Hardware and constants that the speed tests share."""

from __future__ import annotations

from planner.catalog.accelerators import accelerator
from planner.catalog.calibration_constants import Shelf
from planner.catalog.calibrations import Calibration, build_calibration, calibration_for
from planner.speed.hardware import Hardware, hardware_of

# Constants of the published fit that the golden figures of these tests were computed with, whatever is shipped now.
PUBLISHED = Shelf(
    {
        "joint": {
            "step_s": 2.9e-4,
            "layer_s": 4.67e-5,
            "sequence_s": 2.39e-5,
            "compute.16bit": 0.81,
            "compute.8bit": 0.47,
            "compute.4bit": 0.38,
            "weights.16bit": 0.78,
            "weights.fp8": 0.82,
            "weights.fp4": 0.65,
            "weights.mxfp4": 0.65,
            "cache": 1.0,
            "latent_layer_s": 0.0,
            "indexed_layer_s": 0.0,
            "prefill.16bit": 0.35,
            "prefill.8bit": 0.53,
            "prefill.4bit": 0.30,
            "prefill_attention": 0.55,
            "prefill_layer_s": 5.7e-4,
            "prefill_sequence_s": 1.9e-3,
            "prefill_steps": 1.27,
            "prefill_interference": 1.65,
            "prefill_wave": 0.0,
            "prefill_experts": 0.40,
            **{f"experts.{kind}": 0.40 for kind in ("16bit", "fp8", "fp4", "mxfp4")},
            **{f"expert_weights.{kind}": 0.80 for kind in ("16bit", "fp8", "fp4", "mxfp4")},
            "expert_layer_s.16bit": 5.0e-6,
            "expert_layer_s.fp8": 4.5e-5,
            "expert_layer_s.fp4": 3.0e-5,
            "expert_layer_s.mxfp4": 0.0,
            "prefill_mixer_layer_s": 1.0e-3,
        }
    }
)
ANY_ENGINE = "some-other-engine"


def setting(
    gpu: str = "h100-sxm-80gb",
    engine: str = ANY_ENGINE,
    weights: str = "bf16",
    model_type: str = "llama",
    *,
    experts: bool = False,
) -> tuple[Hardware, Calibration]:
    """An accelerator's rates and an engine's constants on it; an unknown engine takes the published joint fit."""
    card = accelerator(gpu)
    if engine == ANY_ENGINE:
        constants = build_calibration(engine, card, weights, model_type, experts, "", PUBLISHED)
        return hardware_of(card), constants
    constants = calibration_for(engine, card, weights, model_type=model_type, experts=experts)
    return hardware_of(card), constants
