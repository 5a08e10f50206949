"""What moves information between tokens: kinds of attention and recurrence, by what they cache and compute.

A mixer is described by what it caches (`CacheStream`), what it computes against the cache (`Score`) and what it carries
whatever the length (`StateTensor`), so that one set of functions serves every kind of attention.
"""

from __future__ import annotations

from dataclasses import dataclass


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
        taps: k of the causal convolution whose k − 1 last inputs it is, else 0.
    """

    elements: int
    dtype: str | None = None
    shards: int = 1
    recurrent: bool = True
    taps: int = 0


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
        passes: attentions over the same cache: differential attention weighs one half of its values after the other.
    """

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    chunked: bool = False
    caches: bool = True
    causal: bool = True
    passes: int = 1

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
        flops = 2.0 * self.passes * self.heads * (self.key_dim + self.value_dim)
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
