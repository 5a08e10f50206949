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
class CacheStream:
    """Something stored per cached token by one layer.

    Attributes:
        key_elements, value_elements: elements per stored position, over all heads; a latent counts as key.
        window: positions kept at most, or None for all.
        stride: tokens per stored position (a compressed cache keeps one position in `stride`).
        shards: most ranks that can share it: KV heads; 1 for a latent, which every rank holds whole.
        read_limit: positions that one decode step reads at most (sparse selection), or None for all that are held.
        dtype: storage type where the cache format doesn't apply (an indexer's keys), else None.
    """

    key_elements: int
    value_elements: int
    window: int | None = None
    stride: int = 1
    shards: int = 1
    read_limit: int | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """What one new token computes against the positions it attends to.

    Attributes:
        decode_flops, prefill_flops: FLOP per query token and attended position (multiply-add = 2).
        window: positions attended at most, or None.
        stride: tokens per attended position.
        causal: a token attends to itself and what came before; otherwise to the whole input.
    """

    decode_flops: float
    prefill_flops: float
    window: int | None = None
    stride: int = 1
    causal: bool = True


@dataclass(frozen=True, slots=True)
class StateTensor:
    """Something a layer carries per sequence whatever its length; read and written every decode step.

    Attributes:
        elements: count for the whole model.
        dtype: storage type where it's fixed ("float32"), else None for the compute dtype.
        shards: most ranks that can share it.
        recurrent: rewritten each step; a cross-attention cache is only read.
    """

    elements: int
    dtype: str | None = None
    shards: int = 1
    recurrent: bool = True


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with grouped keys and values: full, windowed, chunked, shared or bidirectional.

    Attributes:
        heads, kv_heads: query and key/value heads.
        key_dim, value_dim: per head.
        window: sliding window or chunk length in tokens, or None.
        chunked: the window is a fixed chunk, not a sliding one.
        caches: False where it reads another layer's cache, or where nothing is kept (an encoder).
        causal: False for an encoder.
    """

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    chunked: bool = False
    caches: bool = True
    causal: bool = True

    @property
    def kind(self) -> str:
        if not self.causal:
            return "bidirectional"
        if not self.caches:
            return "shared"
        return "full" if self.window is None else "chunked" if self.chunked else "sliding"

    @property
    def streams(self) -> tuple[CacheStream, ...]:
        if not self.caches:
            return ()
        return (
            CacheStream(
                self.kv_heads * self.key_dim,
                self.kv_heads * self.value_dim,
                self.window,
                shards=self.kv_heads,
            ),
        )

    @property
    def scores(self) -> tuple[Score, ...]:
        flops = 2.0 * self.heads * (self.key_dim + self.value_dim)
        return (Score(flops, flops, self.window, causal=self.causal),)

    @property
    def states(self) -> tuple[StateTensor, ...]:
        return ()

    @property
    def recurrent_flops(self) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA): one compressed latent and one rotary key per token, shared by all heads.

    Decode works on the latent (absorbed): 2·H·(2·r + d_r) FLOP a position; prefill expands keys and values:
    2·H·(d_n + d_r + d_v). With an indexer (sparse attention), only `selected` positions are attended and the indexer's
    keys are cached beside the latent.

    References:
        DeepSeek-V2, arXiv 2405.04434; DeepSeek-V3, arXiv 2412.19437; sparse attention: DeepSeek-V3.2 report.
    """

    heads: int
    latent_dim: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    selected: int | None = None
    indexer_heads: int = 0
    indexer_dim: int = 0
    indexer_dtype: str | None = None

    @property
    def kind(self) -> str:
        return "latent" if self.selected is None else "latent_indexed"

    @property
    def streams(self) -> tuple[CacheStream, ...]:
        latent = CacheStream(self.latent_dim + self.rope_dim, 0, read_limit=self.selected)
        if not self.indexer_dim:
            return (latent,)
        return (latent, CacheStream(self.indexer_dim, 0, dtype=self.indexer_dtype))

    @property
    def scores(self) -> tuple[Score, ...]:
        absorbed = 2.0 * self.heads * (2 * self.latent_dim + self.rope_dim)
        expanded = 2.0 * self.heads * (self.nope_dim + self.rope_dim + self.value_dim)
        main = Score(absorbed, expanded, self.selected)
        if not self.indexer_dim:
            return (main,)
        index = 2.0 * self.indexer_heads * self.indexer_dim
        return (main, Score(index, index))

    @property
    def states(self) -> tuple[StateTensor, ...]:
        return ()

    @property
    def recurrent_flops(self) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A mixer with constant state: Mamba, gated delta nets, linear attention, short convolutions, RWKV.

    Attributes:
        name: which one ("mamba2", "gated_delta", "short_convolution", …).
        states: recurrent and convolution state per sequence.
        recurrent_flops: FLOP per token beside its matrix products (state update and read-out).
    """

    name: str
    states: tuple[StateTensor, ...]
    recurrent_flops: float

    @property
    def kind(self) -> str:
        return self.name

    @property
    def streams(self) -> tuple[CacheStream, ...]:
        return ()

    @property
    def scores(self) -> tuple[Score, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Composite:
    """A mixer described by its streams and scores outright: compressed attention and other mixtures of caches."""

    name: str
    streams: tuple[CacheStream, ...] = ()
    scores: tuple[Score, ...] = ()
    states: tuple[StateTensor, ...] = ()
    recurrent_flops: float = 0.0

    @property
    def kind(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """Attention to another modality or to an encoder; its keys and values are made once per input.

    Attributes:
        source_tokens: positions attended: the encoder's length where it's fixed (Whisper: 1,500); 0 where nothing is
            attended without an image; None where it's the input's own length (T5), which the cache then follows.
    """

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    source_tokens: int | None

    @property
    def kind(self) -> str:
        return "cross"

    @property
    def streams(self) -> tuple[CacheStream, ...]:
        return ()

    @property
    def scores(self) -> tuple[Score, ...]:
        return ()

    @property
    def states(self) -> tuple[StateTensor, ...]:
        if not self.source_tokens:
            return ()
        elements = self.source_tokens * self.kv_heads * (self.key_dim + self.value_dim)
        return (StateTensor(elements, shards=self.kv_heads, recurrent=False),)

    @property
    def recurrent_flops(self) -> float:
        return 2.0 * self.heads * (self.key_dim + self.value_dim) * (self.source_tokens or 0)


Mixer = Attention | LatentAttention | Recurrence | Composite | CrossAttention


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
        dtype: the checkpoint's own storage type ("bfloat16", "float16", "float32").
        quantization: the checkpoint's `quantization_config`, as data, or None.
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
    modality: str = "text"
    notes: tuple[str, ...] = ()
    kind_counts: tuple[tuple[LayerKind, int], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = Counter(self.layer_order)
        pairs = tuple((kind, counts[index]) for index, kind in enumerate(self.layer_kinds))
        object.__setattr__(self, "kind_counts", pairs)

    @property
    def layers(self) -> int:
        return len(self.layer_order)
