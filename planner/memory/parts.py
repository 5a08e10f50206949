"""The parts of a memory budget with their ranges, and the range of the pool that they leave.

Ranges are the 10th to the 90th percentile of what engines logged over what the planner says, from the rows that
`python -m planner accuracy` counts; where a percentile is nearer than the figure can be known, a little more.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.architecture.spec import Architecture
from planner.catalog.engines import EngineSettings
from planner.memory.activations import activation_shape
from planner.quantity import GIB, Basis, Estimate, Quantity, maximum, minimum, worst
from planner.scenario import Parallelism

# Relative bands, (down, up). Loaded sizes of 47 unquantised models: within 0.05 %, all within 0.5 %.
WEIGHTS_BAND = (-0.003, 0.005)
# Twelve quantised ones: what a checkpoint leaves unquantised is a publisher's choice.
QUANTISED_WEIGHTS_BAND = (-0.005, 0.021)
# Profile runs of 36 dense models, and of ten mixtures and models with towers.
ACTIVATION_BAND = (-0.042, 0.032)
WIDE_ACTIVATION_BAND = (-0.03, 0.08)
# llama.cpp's compute buffers: exact for most builds, up to a seventh more where a build splits its graph.
COMPUTE_BUFFER_BAND = (-0.01, 0.15)
UNKNOWN_ACTIVATION_BAND = (-0.30, 0.30)
# Libraries, (down, up): 32 logs on one card, 13 on several. Graphs took 0.51 to 1.85 GiB.
RUNTIME_BAND_BYTES = (0.05 * GIB, 0.2 * GIB)
RUNTIME_BAND_PARALLEL_BYTES = (0.1 * GIB, 0.2 * GIB)
GRAPHS_BAND_BYTES = (0.52 * GIB, 0.82 * GIB)
# The pool of a version, card or engine that the figures weren't read off.
UNKNOWN_POOL_BAND = 0.08


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """One part of the budget with its range (bytes) and what it rests on."""

    mid: Quantity
    low: Quantity
    high: Quantity
    basis: Basis

    @property
    def estimate(self) -> Estimate:
        """The part as it is shown."""
        return Estimate(self.low, self.mid, self.high, "bytes", self.basis)


def components(
    architecture: Architecture,
    settings: EngineSettings,
    parallelism: Parallelism,
    weights_bytes: float,
    activation_bytes: Quantity,
    runtime_bytes: Quantity,
    graphs_bytes: Quantity,
    *,
    quantised: bool,
) -> tuple[Component, Component, Component, Component]:
    """Weights, activation, runtime and graphs with their ranges.

    Args:
        quantised: the weights are in a format of scales and no header of their files was read.
    """
    basis, shape = settings.basis, activation_shape(architecture)
    if basis > Basis.CALIBRATED:
        band = UNKNOWN_ACTIVATION_BAND
    elif settings.policy == "context":
        band = COMPUTE_BUFFER_BAND
    elif shape.experts or shape.towers:
        band = WIDE_ACTIVATION_BAND
    else:
        band = ACTIVATION_BAND
    loaded = QUANTISED_WEIGHTS_BAND if quantised else WEIGHTS_BAND
    less, more = RUNTIME_BAND_BYTES if parallelism.gpus == 1 else RUNTIME_BAND_PARALLEL_BYTES
    down, up = GRAPHS_BAND_BYTES if settings.graphs_bytes else (0.0, 0.0)
    return (
        Component(
            weights_bytes,
            weights_bytes * (1.0 + loaded[0]),
            weights_bytes * (1.0 + loaded[1]),
            Basis.CALIBRATED,
        ),
        Component(
            activation_bytes,
            activation_bytes * (1.0 + band[0]),
            activation_bytes * (1.0 + band[1]),
            basis,
        ),
        Component(runtime_bytes, maximum(runtime_bytes - less, 0.0), runtime_bytes + more, basis),
        Component(
            graphs_bytes,
            maximum(graphs_bytes - down, 0.0),
            graphs_bytes + up,
            worst(basis, Basis.TRANSFERRED),
        ),
    )


def pool_component(
    kv_pool_bytes: Quantity,
    parts: tuple[Component, ...],
    settings: EngineSettings,
    basis: Basis,
) -> Component:
    """The pool and its range: what its parts leave open, and no less than the band of its engine."""
    less: Quantity = 0.0 * kv_pool_bytes
    more: Quantity = 0.0 * kv_pool_bytes
    for part in parts:
        less, more = less + (part.high - part.mid), more + (part.mid - part.low)
    band = settings.pool_band
    if settings.basis > Basis.CALIBRATED:
        band = max(band, UNKNOWN_POOL_BAND)
    mid = maximum(kv_pool_bytes, 0.0)
    low = maximum(minimum(kv_pool_bytes - less, mid * (1.0 - band)), 0.0)
    high = maximum(maximum(kv_pool_bytes + more, mid * (1.0 + band)), 0.0)
    return Component(mid, low, high, basis)
