"""What engines hold beside a checkpoint's tensors once loaded: copies for latent attention, unsplit blocks.

Both are of engines on PyTorch that join a layer's projections when loading (vLLM, SGLang).
"""

from __future__ import annotations

from functools import lru_cache

from planner.architecture.mixers import LatentAttention
from planner.architecture.spec import Architecture, LayerKind, Shape, Weight
from planner.memory.placement import sharing_ranks
from planner.quantity import MIB, round_up
from planner.scenario import Parallelism

# PyTorch's caching allocator: requests from 10 MiB on get a segment of their own, in steps of 2 MiB, and a block keeps
# what is left of its segment where that is no more than 1 MiB.
SEGMENT_FROM_BYTES = 10 * MIB
SEGMENT_STEP_BYTES = 2 * MIB
KEPT_BYTES = 1 * MIB
# Projections that engines join into one matrix, by the name of the first.
_JOINED = {
    "key": "query",
    "value": "query",
    "output_gate": "query",
    "up": "gate",
    "value_and_gate": "query_key",
}


@lru_cache(maxsize=4096)
def loading_bytes(
    architecture: Architecture,
    parallelism: Parallelism,
    compute_bytes: float,
    *,
    plain: bool,
    absorbed_copies: bool,
) -> float:
    """Bytes on one rank beside the checkpoint's tensors, the rotary table apart.

    Args:
        compute_bytes: per element of weights that aren't quantised.
        plain: the weights aren't quantised, so that their blocks are known.
        absorbed_copies: latent attention's up-projections are held again for decoding on its latent.
    """
    total = 0.0
    if absorbed_copies:
        total += _absorbed_copies(architecture, compute_bytes) / (parallelism.tp * parallelism.pp)
    if plain:
        total += _unsplit(architecture, parallelism, compute_bytes)
    return total


def _absorbed_copies(architecture: Architecture, compute_bytes: float) -> float:
    """Up-projections of keys and values, held again in the shapes of absorbed decoding: H · r · (d_n + d_v) a layer.

    References:
        vLLM, MLACommonImpl.process_weights_after_loading (W_UK_T and W_UV beside kv_b_proj).
    """
    total = 0.0
    for kind, count in architecture.kind_counts:
        for mixer in kind.mixers:
            if isinstance(mixer, LatentAttention):
                total += count * mixer.heads * mixer.latent_dim * (mixer.nope_dim + mixer.value_dim)
    return total * compute_bytes


def _unsplit(architecture: Architecture, parallelism: Parallelism, compute_bytes: float) -> float:
    """What blocks of weights keep beyond their size, over one rank's layers and tables.

    References:
        PyTorch, c10/cuda/CUDACachingAllocator (kMinLargeAlloc, kRoundLarge, kSmallSize); explains the 56 MiB that
        Qwen2.5-7B takes above its tensors on one card, 20 on each of two and none on four (llm-d-planner's report).
    """
    layers = sum(
        count * sum(_kept(size) for size in _matrices(kind, parallelism, compute_bytes))
        for kind, count in architecture.kind_counts
    )
    outer = sum(
        _kept(_rank_bytes(weight, parallelism, compute_bytes)) for weight in architecture.outer
    )
    return layers / parallelism.pp + outer


def _matrices(kind: LayerKind, parallelism: Parallelism, compute_bytes: float) -> list[float]:
    joined: dict[tuple[str, str], float] = {}
    for weight in kind.weights:
        if weight.shape is not Shape.LINEAR:
            continue
        name = _JOINED.get(weight.name, weight.name)
        size = _rank_bytes(weight, parallelism, compute_bytes)
        key = (weight.part.value, name)
        joined[key] = joined.get(key, 0.0) + size
    return list(joined.values())


def _rank_bytes(weight: Weight, parallelism: Parallelism, compute_bytes: float) -> float:
    return weight.elements * compute_bytes / sharing_ranks(weight, parallelism)


def _kept(size: float) -> float:
    if size < SEGMENT_FROM_BYTES:
        return 0.0
    rest = float(round_up(size, SEGMENT_STEP_BYTES)) - size
    return rest if rest <= KEPT_BYTES else 0.0
