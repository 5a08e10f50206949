"""Where each weight lies under tensor, pipeline and expert parallelism, and what that adds up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.architecture.quantization import WeightEncodings
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Shard, Weight
from planner.catalog.encodings import COMPUTE, Encoding
from planner.memory.encoding import weight_bytes
from planner.memory.offload import Offload, segments
from planner.scenario import Parallelism


@dataclass(frozen=True, slots=True)
class Placed:
    """A weight with its encoding, where it lies and how often it occurs there; `on_host`: in host memory."""

    weight: Weight
    encoding: Encoding | None
    stage: int
    count: int
    kind: LayerKind | None = None
    tower: bool = False
    on_host: bool = False


@dataclass(slots=True)
class Sums:
    stages: list[float]
    by_part: dict[Part, float] = field(default_factory=dict)
    read_bytes: float = 0.0
    dequantised_elements: float = 0.0
    flops: dict[str, float] = field(default_factory=dict)
    expert_flops: dict[str, float] = field(default_factory=dict)
    experts: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    encoder_read_bytes: float = 0.0
    encoder_flops: dict[str, float] = field(default_factory=dict)

    def run(self, one: Placed, rank_bytes: float, ranks: int) -> None:
        """Counts what a step reads of a weight and computes with it."""
        weight, encoding, kind = one.weight, one.encoding, one.kind
        elements = float(one.count * weight.elements)
        peak = encoding.compute if encoding else COMPUTE
        product = weight.shape in (Shape.LINEAR, Shape.CONVOLUTION)
        if kind is not None and kind.role != "decoder":
            self.encoder_read_bytes += rank_bytes
            if product:
                _add(self.encoder_flops, peak, 2.0 * elements)
            return
        unpacked = elements / ranks if encoding and encoding.separate_dequantisation else 0.0
        if kind is not None and weight.part is Part.EXPERTS:
            group = self.experts.setdefault((kind.experts, kind.experts_per_token), [0.0] * 3)
            for index, value in enumerate((rank_bytes * ranks, rank_bytes, unpacked)):
                group[index] += value
            if product:
                routed = 2.0 * elements * kind.experts_per_token / kind.experts
                _add(self.expert_flops, peak, routed)
                _add(self.flops, peak, routed)
            return
        if weight.shape is not Shape.TABLE:
            self.read_bytes += rank_bytes
            self.dequantised_elements += unpacked
        if product and weight.part is not Part.HEAD:
            _add(self.flops, peak, 2.0 * elements)


def _add(sums: dict[str, float], key: str, value: float) -> None:
    sums[key] = sums.get(key, 0.0) + value


def placed_weights(
    architecture: Architecture,
    encodings: WeightEncodings,
    pp: int,
    gguf: bool,
    include_mtp: bool,
    offload: Offload | None = None,
) -> Iterator[Placed]:
    """Every weight that is held, layer by layer where encodings differ, with its pipeline stage.

    Args:
        offload: what lies in host memory; None for engines that keep everything on the GPU.
    """
    for part in segments(architecture.layers, pp, offload):
        # Layers stored alike mostly share one tuple: its identity is much cheaper to compare than its contents.
        alike: dict[tuple[int, int], tuple[int, tuple[Encoding | None, ...]]] = {}
        for layer in range(part.first, part.last):
            chosen = encodings.layers[layer]
            key = (architecture.layer_order[layer], id(chosen))
            alike[key] = (alike.get(key, (0, chosen))[0] + 1, chosen)
        for (index, _), (count, chosen) in alike.items():
            kind = architecture.layer_kinds[index]
            for weight, encoding in zip(kind.weights, chosen, strict=True):
                on_host = part.on_host or (part.experts_on_host and weight.part is Part.EXPERTS)
                yield Placed(weight, encoding, part.stage, count, kind, on_host=on_host)
    for weight, encoding in zip(architecture.outer, encodings.outer, strict=True):
        before = weight.part in (Part.EMBEDDING, Part.POSITION) or "embedding" in weight.name
        on_host = offload is not None and (before or offload.head_on_host)
        yield Placed(weight, encoding, 0 if before else pp - 1, 1, on_host=on_host)
    if not gguf:
        for tower, chosen in zip(architecture.towers, encodings.towers, strict=True):
            for weight, encoding in zip(tower.weights, chosen, strict=True):
                yield Placed(weight, encoding, 0, 1, tower=True)
    if include_mtp:
        for weight, encoding in zip(architecture.mtp, encodings.mtp, strict=True):
            yield Placed(weight, encoding, pp - 1, 1)


def sharing_ranks(weight: Weight, parallelism: Parallelism) -> int:
    """How many ranks of a stage share a weight."""
    match weight.shard:
        case Shard.EVEN:
            return parallelism.tp
        case Shard.KV_HEADS:
            return min(parallelism.tp, weight.kv_heads or parallelism.tp)
        case Shard.EXPERTS:
            return parallelism.tp * parallelism.dp
        case Shard.NONE:
            return 1


def summed(placed: list[Placed], parallelism: Parallelism, dtype: str) -> Sums:
    """Bytes, reads and work of all placed weights; `dtype` is what unquantised ones are held in."""
    sums = Sums([0.0] * parallelism.pp)
    for one in placed:
        weight, encoding = one.weight, one.encoding
        size = one.count * weight_bytes(weight, encoding, dtype)
        ranks = sharing_ranks(weight, parallelism)
        sums.by_part[weight.part] = sums.by_part.get(weight.part, 0.0) + size
        sums.stages[min(one.stage, parallelism.pp - 1)] += size / ranks
        if one.tower or weight.part is Part.MTP:
            continue
        sums.run(one, size / ranks, ranks)
    return sums
