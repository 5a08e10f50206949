"""What is fitted: each constant's physical range, where it is expected beforehand and how far it may go from there."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("16bit", "fp8", "fp4", "mxfp4")


GENERATIONS = ("hopper", "blackwell")
BY_GENERATION = ("expert_layer_s.", "prefill_layer_s")


FEWEST = 10


EFFICIENCY = (0.05, 0.98)


OVERHEAD = (1e-7, 3e-4)


FIRST = (1e-6, 1e-2)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of the pooled fit.

    Attributes:
        centre, spread: what is expected beforehand, and how far off that may be (standard deviation of the logarithm).
        own: the spread of a group around the pool; None where groups share the pool's value.
    """

    key: str
    low: float
    high: float
    centre: float
    spread: float
    own: float | None


def _step_constants() -> list[Constant]:
    low, high = EFFICIENCY
    found = [
        Constant("step_s", 1e-6, 5e-3, 5e-4, 1.0, 0.7),
        Constant("layer_s", 1e-6, 2e-4, 4.5e-5, 0.5, 0.35),
        Constant("sequence_s", 1e-7, 2e-4, 2.4e-5, 0.7, 0.6),
        Constant("compute.16bit", low, high, 0.75, 0.2, 0.12),
        Constant("compute.8bit", low, high, 0.5, 0.25, 0.2),
        Constant("compute.4bit", low, high, 0.38, 0.25, 0.2),
        Constant("weights.16bit", low, high, 0.82, 0.1, 0.06),
        Constant("weights.fp8", low, high, 0.80, 0.12, 0.08),
        Constant("weights.fp4", low, high, 0.65, 0.15, 0.12),
        Constant("weights.mxfp4", low, high, 0.65, 0.2, 0.12),
        Constant("cache", low, high, 0.9, 0.15, 0.15),
        Constant("latent_layer_s", *OVERHEAD, 1.5e-5, 1.0, None),
        Constant("indexed_layer_s", *OVERHEAD, 2e-5, 1.0, None),
    ]
    expected = {"16bit": (0.85, 0.12), "fp8": (0.8, 0.15), "fp4": (0.65, 0.2), "mxfp4": (0.68, 0.2)}
    for kind in KINDS:
        centre, spread = expected[kind]
        found += [
            Constant(f"experts.{kind}", low, high, 0.35, 0.5, 0.4),
            Constant(f"expert_weights.{kind}", low, high, centre, spread, 0.15),
            Constant(f"expert_layer_s.{kind}", *OVERHEAD, 2e-5, 1.0, 0.9),
        ]
    return found


def _first_token_constants() -> list[Constant]:
    low, high = EFFICIENCY
    return [
        Constant("prefill_layer_s", 1e-6, 3e-3, 5e-4, 0.8, 0.8),
        Constant("prefill_sequence_s", 1e-6, 2e-2, 1.9e-3, 0.8, 0.8),
        # The rest of the step in progress and its own, with one more where the host prepares steps ahead.
        Constant("prefill_steps", 0.3, 3.0, 1.5, 0.3, 0.25),
        Constant("prefill_interference", 0.05, 5.0, 1.0, 0.5, 0.3),
        # Of a run's ten waves the first starts together, and each of its requests waits for half of the others.
        Constant("prefill_wave", 1e-3, 0.8, 0.05, 0.5, 0.3),
        # What products of thousands of tokens reach in kernel tables.
        Constant("prefill.16bit", low, high, 0.7, 0.2, 0.12),
        Constant("prefill.8bit", low, high, 0.48, 0.2, 0.12),
        Constant("prefill.4bit", low, high, 0.38, 0.2, 0.12),
        Constant("prefill_attention", low, high, 0.5, 0.2, None),
        Constant("prefill_experts", low, high, 0.4, 0.3, 0.2),
        Constant("prefill_mixer_layer_s", *FIRST, 5e-4, 0.8, 0.8),
    ]


STEP = _step_constants()


FIRST_TOKEN = _first_token_constants()


SLOT_DECODE = [
    Constant("step_s", 1e-6, 2e-3, 2e-4, 0.7, None),
    Constant("cache", 0.2, 0.98, 0.7, 0.3, None),
    Constant("expert_layer_s.gguf", 1e-7, 1e-3, 5e-5, 1.0, None),
    Constant("weights", 0.2, 0.98, 0.8, 0.2, 0.15),
    Constant("layer_s", 1e-6, 5e-4, 6e-5, 0.5, 0.5),
]


SLOT_PREFILL = [
    Constant("experts", 0.05, 0.98, 0.35, 0.6, None),
    Constant("prefill_layer_s", 1e-7, 5e-4, 2e-5, 1.0, None),
    Constant("prefill.8bit", 0.02, 0.98, 0.18, 0.5, 0.5),
    Constant("prefill.16bit", 0.02, 0.98, 0.4, 0.5, 0.5),
]


# What a layer is expected to cost the host of a server by kind of weights, and other hosts against it.
HOST_LAYER = {
    "16bit": 8e-4,
    "nf4": 1.1e-3,
    "nf4-dq": 1.4e-3,
    "int8": 1.7e-3,
    "int8-decomposed": 3e-3,
    "int4": 9e-4,
    "fp8": 2e-3,
}


HOST_FACTOR = {"server": 1.0, "cloud": 1.4, "desktop": 0.7}


POOLED_NAME = {"weights": "weights.gguf"}
