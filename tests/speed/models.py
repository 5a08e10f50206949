"""Models built by hand for the speed tests, from their dimensions, with weights stored plainly.

Independent of the adapters and of the memory room, so that a speed test fails for speed's own mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from planner.architecture.cache import cache_layout
from planner.architecture.mixers import Attention, LatentAttention
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Shard, Weight
from planner.architecture.totals import layer_linear_flops_per_token
from planner.scenario import Parallelism
from planner.speed.work import Work, work


@dataclass(frozen=True)
class Experts:
    layers: int
    experts: int
    experts_per_token: int
    rank_bytes: float
    dequantised_elements: float = 0.0


@dataclass(frozen=True, eq=False)
class Stored:
    read_bytes_per_token_step: float
    flops: dict[str, float]
    head_flops: float
    head_compute: str = "compute"
    experts: tuple[Experts, ...] = ()
    dequantised_elements_per_step: float = 0.0


@dataclass(frozen=True)
class Dimensions:
    """A decoder's sizes; `experts` per layer of width `expert_width`, `window` on all but every sixth layer."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    vocabulary: int
    tied: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    window: int | None = None
    latent: LatentAttention | None = field(default=None)


LLAMA_8B = Dimensions(32, 4096, 32, 8, 128, 14336, 128256)
# Elements of the 8B's matrices that a token passes: layers and head.
MATRICES = 32 * (2 * 4096**2 + 2 * 1024 * 4096 + 3 * 4096 * 14336) + 128256 * 4096
LLAMA_70B = Dimensions(80, 8192, 64, 8, 128, 28672, 128256)
QWEN3_32B = Dimensions(64, 5120, 64, 8, 128, 25600, 151936)
QWEN3_30B_A3B = Dimensions(
    48, 2048, 32, 4, 128, 0, 151936, experts=128, experts_per_token=8, expert_width=768
)
GEMMA3_12B = Dimensions(48, 3840, 16, 8, 256, 15360, 262208, tied=True, window=1024)
LLAMA2_7B = Dimensions(32, 4096, 32, 32, 128, 11008, 32000)
QWEN25_3B = Dimensions(36, 2048, 16, 2, 128, 11008, 151936, tied=True)
DEEPSEEK_LATENT = LatentAttention(128, 512, 64, 128, 128)
DEEPSEEK_LIKE = Dimensions(4, 7168, 128, 128, 192, 18432, 129280, latent=DEEPSEEK_LATENT)


def _mixer_weights(d: Dimensions) -> list[Weight]:
    query = d.heads * d.head_dim
    if d.latent is not None:
        m = d.latent
        return [
            Weight("query", Part.ATTENTION, m.heads * (m.nope_dim + m.rope_dim), d.hidden),
            Weight("latent", Part.ATTENTION, m.latent_dim + m.rope_dim, d.hidden),
            Weight("expand", Part.ATTENTION, m.heads * (m.nope_dim + m.value_dim), m.latent_dim),
            Weight("output", Part.ATTENTION, d.hidden, m.heads * m.value_dim, shard=Shard.EVEN),
        ]
    return [
        Weight("query", Part.ATTENTION, query, d.hidden, shard=Shard.EVEN),
        Weight("key", Part.ATTENTION, d.kv_heads * d.head_dim, d.hidden, shard=Shard.KV_HEADS),
        Weight("value", Part.ATTENTION, d.kv_heads * d.head_dim, d.hidden, shard=Shard.KV_HEADS),
        Weight("output", Part.ATTENTION, d.hidden, query, shard=Shard.EVEN),
    ]


@lru_cache
def architecture(d: Dimensions) -> Architecture:
    """The architecture with these sizes."""
    weights = _mixer_weights(d)
    if d.width:
        weights.append(Weight("mlp", Part.FEED_FORWARD, d.width, d.hidden, copies=3))
    if d.experts:
        weights.append(Weight("router", Part.ROUTER, d.experts, d.hidden))
        weights.append(
            Weight(
                "experts",
                Part.EXPERTS,
                d.expert_width,
                d.hidden,
                copies=3 * d.experts,
                shard=Shard.EXPERTS,
            )
        )

    def layer(window: int | None) -> LayerKind:
        mixer = d.latent or Attention(d.heads, d.kv_heads, d.head_dim, d.head_dim, window)
        return LayerKind((mixer,), tuple(weights), d.experts, d.experts_per_token)

    kinds = (layer(None),) if d.window is None else (layer(None), layer(d.window))
    order = tuple(int(d.window is not None and (i + 1) % 6 != 0) for i in range(d.layers))
    outer = [Weight("embedding", Part.EMBEDDING, d.vocabulary, d.hidden, shape=Shape.TABLE)]
    if not d.tied:
        outer.append(Weight("head", Part.HEAD, d.vocabulary, d.hidden))
    return Architecture("llama", d.hidden, d.vocabulary, kinds, order, tuple(outer), d.tied, 131072)


def matrix_elements(d: Dimensions, *, experts: bool = False) -> float:
    """Elements of the layers' matrices, with or without routed experts."""
    return sum(
        weight.elements * count
        for kind, count in architecture(d).kind_counts
        for weight in kind.weights
        if (weight.part is Part.EXPERTS) == experts or (experts and weight.part != Part.EXPERTS)
    )


@lru_cache
def work_of(
    d: Dimensions,
    *,
    weight_bytes: float = 2.0,
    compute: str = "compute",
    dtype: str = "bf16",
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    ep: int = 1,
    kv_bytes: float = 2.0,
    dequantised: bool = False,
    head_bytes: float | None = None,
) -> Work:
    """Work of a model whose matrices all take `weight_bytes` an element; the head `head_bytes`, by default the same."""
    model = architecture(d)
    head = d.vocabulary * d.hidden
    plain = matrix_elements(d)
    read = plain * weight_bytes + head * (weight_bytes if head_bytes is None else head_bytes)
    experts: tuple[Experts, ...] = ()
    if d.experts:
        size = 3.0 * d.experts * d.expert_width * d.hidden * d.layers * weight_bytes
        experts = (Experts(d.layers, d.experts, d.experts_per_token, size / (tp * dp)),)
    stored = Stored(
        read_bytes_per_token_step=read / tp,
        flops={compute: layer_linear_flops_per_token(model)},
        head_flops=2.0 * head,
        head_compute=compute if head_bytes is None else "compute",
        experts=experts,
        dequantised_elements_per_step=plain / tp if dequantised else 0.0,
    )
    layout = cache_layout(model, kv_bytes, kv_bytes, 2.0, tp=tp)
    return work(model, stored, layout, Parallelism(tp, pp, ep, dp), dtype)
