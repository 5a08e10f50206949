"""Which points are measured, in which order, and how long each may take."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.architecture.resolve import architecture_from_config
from planner.architecture.spec import Architecture
from planner.architecture.totals import active_parameters
from planner.errors import InvalidInput

FIRST_SHAPE = "Qwen/Qwen2.5-0.5B-Instruct"
CHECK_SHAPE = "HuggingFaceTB/SmolLM2-360M-Instruct"
LARGE_SHAPE = "meta-llama/Llama-3.1-8B"
LIMIT_S = {
    "quick": 80.0,
    "full": 560.0,
}  # from the start of the program, after which only single passes are made
PATIENCE = 2.0  # times the limit, after which what is left isn't measured
ROUNDS = 6  # in which each point is visited, where there is time
SPARE_TOKENS = 32  # of the context, beyond a point's own, for what is decoded
STEPS = {"quick": 12, "full": 24}  # of decoding, at most, of one visit
# Shares of the best rates that eager execution reaches, for guessing times; corrected by what was measured.
REACHED_FLOPS, REACHED_BANDWIDTH = 0.4, 0.5
KERNELS_PER_LAYER = 20

Role = Literal["fit", "check"]
Kind = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Point:
    """One row to be measured: a prompt's length, or a cache's, and the number of sequences."""

    kind: Kind
    tokens: int
    batch: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A model to be measured.

    Attributes:
        model: name; config: its configuration.
        pasted: the configuration isn't the catalogue's, and goes into the record.
        weights_from: folder or Hub id of real weights; None for random ones.
    """

    model: str
    config: Mapping[str, Any] = field(repr=False)
    role: Role
    points: tuple[Point, ...]
    pasted: bool = False
    weights_from: str | None = None


def points(*, quick: bool, on_cpu: bool, role: Role, most_tokens: int) -> tuple[Point, ...]:
    """The points of a shape, cheap ones first, so that a failure for want of memory comes last.

    Args:
        most_tokens: context that the model was made for (tokens).
    """
    if quick:
        prompts = [(n, 1) for n in ((64, 128, 256, 512, 1024) if role == "fit" else (96, 384))]
        caches = [(n, 1) for n in ((128, 512, 1024) if role == "fit" else (192, 768))]
    elif on_cpu:
        prompts = [(n, 1) for n in (64, 128, 256, 512, 1024, 2048)] + [(128, 4)]
        caches = [(n, 1) for n in (128, 512, 1024, 2048)] + [(128, b) for b in (2, 4, 8)]
    else:
        prompts = [(n, 1) for n in (64, 256, 1024, 4096, 8000)] + [(512, 8), (512, 32)]
        caches = [(n, 1) for n in (128, 1024, 4096, 8000)]
        caches += [(1024, b) for b in (2, 4, 8, 16, 32, 64)] + [(4096, 8), (8000, 8)]
    found = [Point("prefill", n, b) for n, b in prompts]
    found += [Point("decode", n, b) for n, b in caches]
    return tuple(point for point in found if point.tokens + SPARE_TOKENS <= most_tokens)


def require_context(config: Mapping[str, Any], *, quick: bool) -> None:
    """Refuses a model whose context no point to be fitted to holds within.

    Raises:
        InvalidInput: naming the model's context and the shortest that is measured.
    """
    there = architecture_from_config(config).max_context_tokens
    every = points(quick=quick, on_cpu=True, role="fit", most_tokens=sys.maxsize)
    least = min(point.tokens for point in every) + SPARE_TOKENS
    if there < least:
        raise InvalidInput("context_not_measurable", field="model", given=there, least=least)


@dataclass(frozen=True, slots=True)
class Rates:
    """What the micro-benchmarks found, for guessing times.

    Attributes:
        flops_per_s: best product rate in the dtype; bandwidth_bytes_per_s: memory; launch_s: of a small operation.
    """

    flops_per_s: float
    bandwidth_bytes_per_s: float
    launch_s: float


@dataclass(frozen=True, slots=True)
class Guess:
    """Time that points of a shape should take, before any of them was measured."""

    architecture: Architecture
    weights_bytes: float
    layers: int
    rates: Rates

    def prefill_s(self, tokens: int, batch: int) -> float:
        """One pass over the prompts (s)."""
        flops = 2.0 * active_parameters(self.architecture) * tokens * batch
        attention = 4.0 * tokens**2 * batch * self.architecture.hidden_size * self.layers / 2.0
        share = self.layers / self.architecture.layers
        compute = share * (flops + attention) / (REACHED_FLOPS * self.rates.flops_per_s)
        return compute + self.step_s()

    def step_s(self) -> float:
        """One step of decoding (s)."""
        moved = self.weights_bytes / (REACHED_BANDWIDTH * self.rates.bandwidth_bytes_per_s)
        return moved + KERNELS_PER_LAYER * self.layers * self.rates.launch_s

    def least_s(self, point: Point, steps: int) -> float:
        """One visit of a point (s)."""
        once = self.prefill_s(point.tokens, point.batch)
        return once if point.kind == "prefill" else once + steps / 2 * self.step_s()
