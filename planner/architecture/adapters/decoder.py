"""Decoders that differ from each other in names, biases, norms, windows and experts only: one table row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from planner.architecture.adapters.common import (
    Flag,
    assemble,
    flag,
    is_headless,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.adapters.windows import WindowRule, no_windows
from planner.architecture.blocks import (
    Weights,
    gated_mlp,
    grouped_query_attention,
    head,
    linear,
    norm,
    plain_mlp,
    positions,
    with_part,
)
from planner.architecture.keys import Keys
from planner.architecture.mixers import Attention
from planner.architecture.spec import Architecture, LayerKind, Part, Shard


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The sizes that every decoder has."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class Mtp:
    """Next-token-prediction layers as checkpoints store them: one more decoder layer and what joins it to the model.

    Attributes:
        names: keys for their number.
        default: the number where no key says.
        norms: norms of the hidden size beside the layer's own (of the embedding, of the hidden state, before the head).
        stores_tables: whether each layer holds its own copy of the embedding and the head; stores_head: of the head.
        sparse: whether its layer has experts where the model has.
    """

    names: tuple[str, ...] = ("num_nextn_predict_layers", "num_mtp_layers")
    default: int = 0
    norms: int = 3
    stores_tables: bool = True
    stores_head: bool = False
    sparse: bool = True


@dataclass(frozen=True, slots=True)
class Traits:
    """A family of decoders.

    Attributes:
        names: keys under which the family states a quantity, where not the usual one.
        kv_heads: what the configuration class takes where the key is absent; None: as many as query heads.
            `grouped` False: always that, whatever a key says.
        head_dim: the class's default; None: hidden size / heads. `reads_head_dim` False: always that.
        max_positions: the class's default; None raises. `length_scales` False: rope scaling is already in it.
        tied: whether head and embedding are one table where the key is absent.
        qkv_bias, output_bias, mlp_bias, head_bias: biases of the projections.
        gated: three feed-forward matrices (gate, up, down) or two.
        norm: "rms", "layer" or "none"; norms: how many of the hidden size per layer (`norms_if_parallel`: under
            `use_parallel_residual`).
        width_over_hidden: intermediate size as a multiple of the hidden size where no key states it; None raises.
        qk_norm: "" for none, "head" (one weight per head dim), "head_layer" or "full": see `query_key_norms`.
        qk_norm_if: where the family has query and key norms at all.
        output_gate: "" for none, "head" (one value per head) or "full".
        sinks: a learned logit per head.
        positions: learned absolute positions, with `positions_offset` more rows than the context.
        embedding_norm: a norm after the embedding.
        windows: the rule for sliding windows.
        mixture: the experts, or None for a dense model.
        passes: attentions over the same cache in one layer.
        mtp: next-token-prediction layers, or None where the family has none.
        base_has_head: checkpoints named after the base model are language models all the same.
        extra: further weights of every layer, from the sizes and the intermediate width.
        dtype: storage type where the configuration doesn't say.
    """

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kv_heads: int | None = None
    grouped: bool = True
    head_dim: int | None = None
    reads_head_dim: bool = True
    max_positions: int | None = None
    length_scales: bool = True
    tied: bool = False
    qkv_bias: Flag = False
    output_bias: Flag = False
    mlp_bias: Flag = False
    head_bias: Flag = False
    gated: bool = True
    norm: str = "rms"
    norms: int = 2
    norms_if_parallel: int | None = None
    width_over_hidden: int | None = None
    qk_norm: str = ""
    qk_norm_if: Flag = True
    output_gate: str = ""
    sinks: bool = False
    positions: bool = False
    positions_offset: int = 0
    embedding_norm: bool = False
    windows: WindowRule = no_windows
    passes: int = 1
    mixture: Mixture | None = None
    mtp: Mtp | None = None
    base_has_head: bool = False
    extra: Callable[[Keys, Dimensions, int], Weights] | None = None
    dtype: str = "bfloat16"

    def key(self, name: str) -> tuple[str, ...]:
        """The names under which this family states a quantity."""
        return self.names.get(name, (name,))


def dimensions(keys: Keys, traits: Traits) -> Dimensions:
    """Sizes from a configuration.

    Raises:
        InvalidConfig: where one is missing or out of range, or heads don't divide by KV heads or the hidden size by
            heads.
    """
    hidden = keys.integer(*traits.key("hidden_size"))
    heads = keys.integer(*traits.key("num_attention_heads"), maximum=100_000)
    kv_heads = kv_heads_of(keys, traits, heads)
    head_dim = None
    if traits.reads_head_dim:
        head_dim = keys.optional_integer(
            *traits.key("head_dim"), default=traits.head_dim, maximum=100_000
        )
    if head_dim is None:
        if hidden % heads:
            raise keys.contradiction(
                traits.key("hidden_size")[0], "not_divisible", given=hidden, divisor=heads
            )
        head_dim = hidden // heads
    return Dimensions(
        hidden=hidden,
        layers=layer_count(keys, *traits.key("num_hidden_layers")),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocabulary=keys.integer(*traits.key("vocab_size")),
    )


def kv_heads_of(keys: Keys, traits: Traits, heads: int) -> int:
    """Key/value heads, which divide the query heads."""
    if not traits.grouped:
        return heads
    names = traits.key("num_key_value_heads")
    kv_heads = keys.optional_integer(*names, default=traits.kv_heads, maximum=100_000) or heads
    if heads % kv_heads:
        raise keys.contradiction(names[0], "not_divisible", given=heads, divisor=kv_heads)
    return kv_heads


def attention_weights(keys: Keys, traits: Traits, sizes: Dimensions) -> Weights:
    """Projections, norms on queries and keys, gate and sinks of one layer's attention."""
    qkv_bias = flag(keys, traits.qkv_bias)
    gate = {"": 0, "head": sizes.heads, "full": sizes.heads * sizes.head_dim}[traits.output_gate]
    weights = grouped_query_attention(
        sizes.hidden,
        sizes.heads,
        sizes.kv_heads,
        sizes.head_dim,
        query_bias=qkv_bias,
        kv_bias=qkv_bias,
        output_bias=flag(keys, traits.output_bias),
        output_gate=gate,
        sinks=traits.sinks,
    )
    if traits.qk_norm and flag(keys, traits.qk_norm_if):
        weights += query_key_norms(traits.qk_norm, sizes.heads, sizes.kv_heads, sizes.head_dim)
    return weights


def query_key_norms(kind: str, heads: int, kv_heads: int, head_dim: int) -> Weights:
    """Norms on queries and keys.

    Args:
        kind: "head" (RMS, weights shared by all heads), "head_layer" (the same with bias), "full" (RMS over all heads
            together, or each head with weights of its own).
    """
    if kind == "head":
        return (*norm("query_norm", head_dim), *norm("key_norm", head_dim))
    if kind == "head_layer":
        return (
            *norm("query_norm", head_dim, kind="layer"),
            *norm("key_norm", head_dim, kind="layer"),
        )
    if kind == "full":
        return (
            *norm("query_norm", heads * head_dim),
            *norm("key_norm", kv_heads * head_dim),
        )
    raise ValueError(f"no such norm: {kind}")


def architecture(keys: Keys, traits: Traits) -> Architecture:
    """The architecture of a decoder whose family differs from the others by `traits` only."""
    sizes = dimensions(keys, traits)
    attention = attention_weights(keys, traits, sizes)
    parallel = traits.norms_if_parallel and keys.flag("use_parallel_residual", default=False)
    copies = traits.norms_if_parallel if parallel else traits.norms
    rest = (*attention, *norm("norm", sizes.hidden, kind=traits.norm, copies=copies or 0))

    @cache
    def kind_without_mixer(is_sparse: bool) -> LayerKind:
        if is_sparse and traits.mixture:
            return _sparse(keys, traits.mixture, sizes, rest)
        return _dense(keys, traits, sizes, rest)

    @cache
    def kind(is_sparse: bool, window: int | None) -> LayerKind:
        mixer = Attention(
            sizes.heads,
            sizes.kv_heads,
            sizes.head_dim,
            sizes.head_dim,
            window,
            passes=traits.passes,
        )
        return replace(kind_without_mixer(is_sparse), mixers=(mixer,))

    sparse = (
        traits.mixture.layers(keys, sizes.layers) if traits.mixture else (False,) * sizes.layers
    )
    spans = traits.windows(keys, sizes.layers)
    layers = [kind(*pair) for pair in zip(sparse, spans, strict=True)]
    tied = keys.flag("tie_word_embeddings", default=traits.tied)
    max_context = max_context_of(
        keys,
        *traits.key("max_position_embeddings"),
        default=traits.max_positions,
        scaled=traits.length_scales and not traits.positions,
    )
    extra: Weights = ()
    if traits.positions:
        extra += positions(max_context + traits.positions_offset, sizes.hidden)
    if traits.embedding_norm:
        extra += norm("embedding_norm", sizes.hidden, kind=traits.norm)
    mtp: Weights = ()
    if traits.mtp:
        layer = kind_without_mixer(traits.mtp.sparse and traits.mixture is not None).weights
        mtp = mtp_weights(keys, traits.mtp, sizes.hidden, sizes.vocabulary, layer)
    headless = not traits.base_has_head and is_headless(keys)
    return assemble(
        keys,
        layers,
        outer_weights(
            sizes.hidden,
            sizes.vocabulary,
            tied=tied or headless,
            final_norm=traits.norm,
            head_bias=not headless and flag(keys, traits.head_bias),
            extra=extra,
        ),
        hidden=sizes.hidden,
        vocabulary=sizes.vocabulary,
        tied=tied,
        max_context_tokens=max_context,
        mtp=mtp,
        default_dtype=traits.dtype,
        has_head=not headless,
        modality="embedding" if headless else "text",
    )


def mtp_weights(keys: Keys, mtp: Mtp, hidden: int, vocabulary: int, layer: Weights) -> Weights:
    """Next-token-prediction layers: each a decoder layer, a projection of two hidden states to one, and norms."""
    count = keys.integer(*mtp.names, default=mtp.default, minimum=0, maximum=100)
    if not count:
        return ()
    weights = (
        *layer,
        *linear("joint_projection", Part.MTP, hidden, 2 * hidden, shard=Shard.NONE),
        *norm("mtp_norm", hidden, copies=mtp.norms),
    )
    if mtp.stores_tables:
        weights += outer_weights(hidden, vocabulary, tied=False, final_norm="none")
    elif mtp.stores_head:
        weights += head(vocabulary, hidden)
    return with_part(weights, Part.MTP) * count


def _dense(keys: Keys, traits: Traits, sizes: Dimensions, rest: Weights) -> LayerKind:
    names = traits.key("intermediate_size")
    ratio = traits.width_over_hidden
    width = keys.integer(*names, default=ratio * sizes.hidden) if ratio else keys.integer(*names)
    mlp = gated_mlp if traits.gated else plain_mlp
    weights = mlp(sizes.hidden, width, bias=flag(keys, traits.mlp_bias))
    if traits.extra:
        weights += traits.extra(keys, sizes, width)
    return LayerKind((), (*rest, *weights), feed_forward_width=width)


def _sparse(keys: Keys, mixture: Mixture, sizes: Dimensions, rest: Weights) -> LayerKind:
    experts = mixture.read(keys)
    return LayerKind(
        (),
        (*rest, *mixture.weights(keys, sizes.hidden, experts)),
        experts.count,
        experts.per_token,
        experts.active_width,
    )
