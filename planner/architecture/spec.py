"""The types a model is made of: weights, mixers, layer kinds, architectures.

An adapter turns a configuration into these; every formula elsewhere reads only these. A mixer (what moves information
between tokens) is described by what it caches (`CacheStream`), what it computes against the cache (`Score`) and what it
carries whatever the length (`StateTensor`), so that one set of functions serves every kind of attention.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from planner.architecture.mixers import Mixer


class Part(StrEnum):
    """The component that a weight belongs to; formats and sharding are decided by part."""

    EMBEDDING = "embedding"
    POSITION = "position"
    ATTENTION = "attention"
    RECURRENCE = "recurrence"
    FEED_FORWARD = "feed_forward"
    EXPERTS = "experts"
    SHARED_EXPERTS = "shared_experts"
    ROUTER = "router"
    NORM = "norm"
    HEAD = "head"
    VISION = "vision"
    AUDIO = "audio"
    PROJECTOR = "projector"
    MTP = "mtp"


class Shard(StrEnum):
    """How tensor parallelism splits a weight over its ranks."""

    NONE = "none"  # a full copy on every rank
    EVEN = "even"  # divided by tp
    KV_HEADS = "kv_heads"  # divided by tp down to one KV head a rank, then replicated
    EXPERTS = "experts"  # divided over all ranks that share the experts (tp · dp)


class Shape(StrEnum):
    """What a weight is used for, which decides whether formats quantise it and whether it costs FLOPs."""

    LINEAR = "linear"  # a matrix product: rows · columns multiply-adds per token
    TABLE = "table"  # looked up, not multiplied
    VECTOR = "vector"  # norms, biases, scales, per-head constants
    CONVOLUTION = "convolution"  # short convolutions and patch embeddings


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor of the checkpoint, or `copies` equal ones.

    Attributes:
        name: short name within its layer, in the field's terms ("query", "gate", "down").
        rows: output features (of a vector: its length; of a convolution: output channels).
        columns: input features (of a vector: 1; of a convolution: elements per output channel).
        kv_heads: of a KV_HEADS shard: how many heads can be divided.
        dtype: storage type where it differs from the checkpoint's own ("float32" for a router bias), else None.
        buffer: stored in the checkpoint but not counted as a parameter by frameworks.
    """

    name: str
    part: Part
    rows: int
    columns: int = 1
    copies: int = 1
    shape: Shape = Shape.LINEAR
    shard: Shard = Shard.NONE
    kv_heads: int = 0
    dtype: str | None = None
    buffer: bool = False

    @property
    def elements(self) -> int:
        return self.rows * self.columns * self.copies


@dataclass(frozen=True, slots=True)
class LayerKind:
    """One kind of layer: its mixers (none, one, or several side by side), its routing and all its weights.

    Attributes:
        weights: every tensor of the layer, mixers, feed-forward and norms together.
        experts, experts_per_token: routed experts and how many a token uses; 0 where the layer is dense.
        feed_forward_width: widest intermediate activation per token (dense I; experts_per_token · I_e + shared).
        role: "decoder" runs for every token; "encoder" only over the input, once.
    """

    mixers: tuple[Mixer, ...]
    weights: tuple[Weight, ...]
    experts: int = 0
    experts_per_token: int = 0
    feed_forward_width: int = 0
    role: str = "decoder"


@dataclass(frozen=True, slots=True)
class Tower:
    """A vision or audio encoder with its projector, run once per item, outside the token loop.

    Attributes:
        modality: "image" or "audio".
        tokens_per_item: positions that one item takes in the language model (at the default resolution or per
            30-second clip), or None where it depends on the item and `tokens_note` says how.
        flops_per_item: encoder work for one default item, where known.
    """

    name: str
    modality: str
    weights: tuple[Weight, ...]
    tokens_per_item: int | None = None
    flops_per_item: float | None = None
    tokens_note: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Architecture:
    """A model as its layers in order.

    Compared by identity, so that results can be cached by architecture at no cost.

    Attributes:
        model_type: as in config.json.
        layer_order: index into `layer_kinds` for each layer (pipeline stages need the order).
        outer: weights outside the layers: embedding, positions, final norm, head where it isn't tied.
        mtp: next-token-prediction layers, counted apart.
        tied: the head reuses the embedding table.
        has_head: False for an embedding model.
        max_context_tokens: longest input the model was made for.
        rotary_tables: positions that the rotary embedding's tables hold together, over the longest context.
        dtype: the checkpoint's own storage type ("bfloat16", "float16", "float32").
        quantization: the checkpoint's `quantization_config`, as data, or None.
        state_dtype: in which the configuration wants recurrent state kept, or None.
        speaking_parameters: of the parts that speak, which are no part of the language model (count).
        modality: "text", "vision-text", "audio-text", "embedding", "encoder-decoder", "omni".
        notes: codes of what the reader should know (a reconstructed key, a quirk honoured).
    """

    model_type: str
    hidden_size: int
    vocabulary_size: int
    layer_kinds: tuple[LayerKind, ...]
    layer_order: tuple[int, ...]
    outer: tuple[Weight, ...]
    tied: bool
    max_context_tokens: int
    dtype: str = "bfloat16"
    has_head: bool = True
    towers: tuple[Tower, ...] = ()
    mtp: tuple[Weight, ...] = ()
    quantization: dict[str, Any] | None = None
    state_dtype: str | None = None
    speaking_parameters: int = 0
    modality: str = "text"
    notes: tuple[str, ...] = ()
    rotary_tables: float = 1.0
    kind_counts: tuple[tuple[LayerKind, int], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = Counter(self.layer_order)
        pairs = tuple((kind, counts[index]) for index, kind in enumerate(self.layer_kinds))
        object.__setattr__(self, "kind_counts", pairs)

    @property
    def layers(self) -> int:
        return len(self.layer_order)
