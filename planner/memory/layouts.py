"""One sequence's cache by where it lies: on the whole model, on the fullest GPU, in host memory."""

from __future__ import annotations

from dataclasses import dataclass

from planner.architecture.cache import CacheLayout, cache_bytes, cache_layout
from planner.architecture.spec import Architecture
from planner.catalog.engines import EngineSettings
from planner.catalog.formats import KVFormat
from planner.memory.offload import Offload, gpu_stages
from planner.scenario import Parallelism

TYPICAL_TOKENS = 4096.0  # where stages of a pipeline are compared for the heaviest cache


@dataclass(frozen=True, slots=True)
class Layouts:
    """One sequence's cache: of the model, of the rank that holds most, and as one step reads it.

    Attributes:
        resident, host: of `step`, what lies on the GPUs and in host memory.
    """

    model: CacheLayout
    rank: CacheLayout
    step: CacheLayout
    resident: CacheLayout
    host: CacheLayout


def layouts_of(
    architecture: Architecture,
    kv: KVFormat,
    compute_bytes: float,
    settings: EngineSettings,
    parallelism: Parallelism,
    offload: Offload | None,
) -> Layouts:
    """The caches of a model as an engine keeps and divides them.

    Args:
        offload: what lies in host memory; None for engines that keep everything on the GPU.

    Raises:
        InvalidInput: for more pipeline stages than layers.
    """

    def layout(
        tp: int, stage: tuple[int, int] | None = None, *, honour_windows: bool = False
    ) -> CacheLayout:
        first, last = stage or (0, None)
        return cache_layout(
            architecture,
            kv.key_bytes,
            kv.value_bytes,
            compute_bytes,
            tp=tp,
            first_layer=first,
            last_layer=last,
            ignore_windows=not (settings.windowed_cache or honour_windows),
            states=settings.states,
        )

    tp, held = parallelism.tp, offload.host_layers if offload else 0
    stages = gpu_stages(architecture.layers, parallelism.pp, offload)
    of_stages = [layout(tp, stage) for stage in stages]
    step = layout(tp, honour_windows=True)
    return Layouts(
        model=layout(1),
        rank=max(of_stages, key=lambda one: cache_bytes(one, TYPICAL_TOKENS)),
        step=step,
        resident=layout(tp, (held, architecture.layers), honour_windows=True) if held else step,
        host=layout(tp, (0, held), honour_windows=True),
    )
