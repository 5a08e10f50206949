"""What llama.cpp keeps in host memory: whole layers, or only the routed experts of layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.architecture.spec import Architecture
from planner.errors import InvalidInput, Unsupported
from planner.memory.stages import pipeline_stages


@dataclass(frozen=True, slots=True)
class Offload:
    """Where layers lie; the token embedding always lies in host memory.

    Attributes:
        host_layers: first layers that the host holds, their caches too, and computes.
        head_on_host: the output layer as well.
        expert_layers: first layers whose routed experts the host holds; attention and caches stay on the GPU.
    """

    host_layers: int = 0
    head_on_host: bool = False
    expert_layers: int = 0

    @property
    def computes(self) -> bool:
        """The host does a part of each step."""
        return self.host_layers > 0 or self.head_on_host or self.expert_layers > 0

    @property
    def first_layers(self) -> int:
        """First layers of which the host holds at least the experts."""
        return max(self.host_layers, self.expert_layers)

    @classmethod
    def resolve(
        cls,
        architecture: Architecture,
        gpu_layers: int | None,
        cpu_expert_layers: int | None,
        *,
        output_first: bool = True,
    ) -> Offload:
        """Layers divided as the engine divides them.

        Args:
            gpu_layers: layers on the GPU, the output layer counted as one, the last layers first; None: all.
            cpu_expert_layers: first layers whose routed experts stay in host memory; None: none.
            output_first: the output layer goes to the GPU before any other, else after all others.

        Raises:
            InvalidInput: for more layers than there are, or experts of a model without.
            Unsupported: for a model with an encoder.

        References:
            llama.cpp, llama-model.cpp, load_tensors: i_gpu_start = max(n_layer + 1 − n_gpu_layers, 0), before pull
            request 18148 max(n_layer − n_gpu_layers, 0);
            common/arg.cpp, --n-cpu-moe: tensors ffn_(up|down|gate)_exps of blocks 0 to N − 1.
        """
        layers = architecture.layers
        if gpu_layers is None and cpu_expert_layers is None:
            return cls()
        if any(kind.role != "decoder" for kind in architecture.layer_kinds):
            raise Unsupported(
                "offload_encoder",
                field="gpu_layers" if gpu_layers is not None else "cpu_expert_layers",
            )
        if gpu_layers is not None and gpu_layers > layers + 1:
            raise InvalidInput(
                "gpu_layers_too_many", field="gpu_layers", given=gpu_layers, layers=layers + 1
            )
        if cpu_expert_layers:
            if not any(kind.experts for kind in architecture.layer_kinds):
                raise InvalidInput("cpu_experts_without_experts", field="cpu_expert_layers")
            if cpu_expert_layers > layers:
                raise InvalidInput(
                    "cpu_expert_layers_too_many",
                    field="cpu_expert_layers",
                    given=cpu_expert_layers,
                    layers=layers,
                )
        kept = layers + 1 if gpu_layers is None else gpu_layers
        experts = cpu_expert_layers or 0
        if output_first:
            return cls(min(layers + 1 - kept, layers), kept == 0, experts)
        return cls(max(layers - kept, 0), kept <= layers, experts)


@dataclass(frozen=True, slots=True)
class Segment:
    """Layers from `first` to before `last` that lie alike; a layer in host memory has stage 0."""

    stage: int
    first: int
    last: int
    on_host: bool
    experts_on_host: bool


def segments(layers: int, pp: int, offload: Offload | None) -> Iterator[Segment]:
    """All layers in order, the host's first; the others are divided over the pipeline's stages.

    Raises:
        InvalidInput: for more stages than layers.
    """
    held = offload or Offload()
    if held.host_layers:
        yield Segment(0, 0, held.host_layers, True, True)
    for stage, (first, last) in enumerate(gpu_stages(layers, pp, offload)):
        middle = min(max(held.expert_layers, first), last)
        for start, stop, on_host in ((first, middle, True), (middle, last, False)):
            if start < stop:
                yield Segment(stage, start, stop, False, on_host)


def gpu_stages(layers: int, pp: int, offload: Offload | None) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of the layers on each GPU; one empty range where the host holds all.

    Raises:
        InvalidInput: for more stages than layers.
    """
    skipped = offload.host_layers if offload else 0
    if skipped == layers:
        return ((layers, layers),) * pp
    stages = pipeline_stages(layers - skipped, pp)
    return tuple((first + skipped, last + skipped) for first, last in stages)
