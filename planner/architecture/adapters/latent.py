"""Decoders with multi-head latent attention: DeepSeek-V2 to V3.2, Kimi K2, GLM-4.7-Flash and GLM-5, and their kin.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.architecture.adapters import mixtures
from planner.architecture.adapters.common import (
    Flag,
    assemble,
    flag,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.decoder import Mtp, mtp_weights
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import (
    Weights,
    gated_mlp,
    latent_attention,
    linear,
    norm,
)
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import LatentAttention
from planner.architecture.spec import Architecture, LayerKind, Part, Shard

MLP_BIAS = ("mlp_bias", False)
_ROUTED = ("n_routed_experts", "num_local_experts", "num_experts")

# Engines that run the indexer keep its keys in 8 bits whatever the cache's own type.
INDEXER_DTYPE = "float8_scaled128"


@dataclass(frozen=True, slots=True)
class LatentTraits:
    """A family with latent attention.

    Attributes:
        query_rank: the class's rank of the query projection where the key is absent (null: a full projection).
        max_positions: the class's default; None raises.
        tied, mlp_bias: as in decoder.Traits.
        mixture: experts, or None for a dense model.
        sparse_norms: norms of the hidden size that only layers with experts have.
        indexed: whether a lightning indexer selects the positions that are attended.
        mtp: next-token-prediction layers.
    """

    query_rank: int | None
    max_positions: int | None = None
    tied: bool = False
    mlp_bias: Flag = False
    mixture: Mixture | None = None
    sparse_norms: int = 0
    indexed: bool = False
    mtp: Mtp | None = None


def _experts(
    layers: mixtures.SparseRule, *, correction: str = "buffer", shared_bias: Flag = False
) -> Mixture:
    return Mixture(
        experts=_ROUTED,
        shared=("n_shared_experts", "num_shared_experts"),
        shared_bias=shared_bias,
        correction=correction,
        layers=layers,
    )


_V3 = LatentTraits(
    query_rank=1536,
    max_positions=4096,
    mixture=_experts(mixtures.after_first_dense(3)),
    mtp=Mtp(default=0),
)

FAMILIES: dict[str, LatentTraits] = {
    "deepseek_v2": LatentTraits(
        query_rank=1536,
        max_positions=2048,
        mlp_bias=MLP_BIAS,
        mixture=_experts(mixtures.after_first_dense(0), correction="", shared_bias=MLP_BIAS),
    ),
    "deepseek_v3": _V3,
    "kimi_k2": _V3,
    "deepseek_v32": LatentTraits(
        query_rank=1536,
        max_positions=163840,
        mixture=_experts(mixtures.by_mlp_layer_type(mixtures.after_first_dense(3))),
        indexed=True,
        mtp=Mtp(default=0),
    ),
    "glm_moe_dsa": LatentTraits(
        query_rank=2048,
        max_positions=202752,
        mixture=_experts(mixtures.by_mlp_layer_type(mixtures.after_first_dense(3))),
        indexed=True,
        mtp=Mtp(stores_tables=False),
    ),
    "glm4_moe_lite": LatentTraits(
        query_rank=768,
        max_positions=202752,
        mixture=_experts(mixtures.by_mlp_layer_type(mixtures.after_first_dense(1))),
        mtp=Mtp(),
    ),
    "axk1": LatentTraits(
        query_rank=1536,
        max_positions=32768,
        mixture=_experts(mixtures.by_mlp_layer_type(mixtures.after_first_dense(1))),
        sparse_norms=1,
    ),
    "sarvam_mla": LatentTraits(
        query_rank=None,
        max_positions=4096,
        mixture=_experts(mixtures.after_first_dense(1)),
    ),
    "mistral4": LatentTraits(
        query_rank=1024,
        mixture=_experts(mixtures.after_first_dense(0), correction=""),
    ),
    "minicpm3": LatentTraits(query_rank=768, max_positions=32768, tied=True, mlp_bias=MLP_BIAS),
    "youtu": LatentTraits(query_rank=1536, max_positions=131072, tied=True),
}


@dataclass(frozen=True, slots=True)
class LatentSizes:
    """Sizes of latent attention."""

    hidden: int
    heads: int
    query_rank: int | None
    latent_dim: int
    rope_dim: int
    nope_dim: int
    value_dim: int


def latent_sizes(keys: Keys, default_query_rank: int | None) -> LatentSizes:
    """Sizes of latent attention from the usual keys.

    Raises:
        InvalidConfig: where one is missing or out of range.
    """
    hidden = keys.integer("hidden_size")
    heads = keys.integer("num_attention_heads", maximum=100_000)
    return LatentSizes(
        hidden=hidden,
        heads=heads,
        query_rank=keys.optional_integer("q_lora_rank", default=default_query_rank),
        latent_dim=keys.integer("kv_lora_rank"),
        rope_dim=keys.integer("qk_rope_head_dim"),
        nope_dim=keys.integer("qk_nope_head_dim"),
        value_dim=keys.optional_integer("v_head_dim") or max(1, hidden // heads),
    )


def projections(keys: Keys, sizes: LatentSizes) -> Weights:
    """Weights of one layer's latent attention, without its indexer."""
    return latent_attention(
        sizes.hidden,
        sizes.heads,
        query_rank=sizes.query_rank,
        latent_dim=sizes.latent_dim,
        rope_dim=sizes.rope_dim,
        nope_dim=sizes.nope_dim,
        value_dim=sizes.value_dim,
        bias=keys.flag("attention_bias", default=False),
    )


def architecture(keys: Keys) -> Architecture:
    """The architecture of a decoder with latent attention of any family in the table."""
    traits = FAMILIES[keys.text("model_type")]
    sizes = latent_sizes(keys, traits.query_rank)
    layers = layer_count(keys)
    sparse = traits.mixture.layers(keys, layers) if traits.mixture else (False,) * layers
    indexers = indexer_layers(keys, layers) if traits.indexed else (False,) * layers
    kinds: dict[tuple[bool, bool], LayerKind] = {}
    order = []
    for pair in zip(sparse, indexers, strict=True):
        if pair not in kinds:
            kinds[pair] = _layer(keys, traits, sizes, *pair)
        order.append(kinds[pair])
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=traits.tied)
    mtp: Weights = ()
    if traits.mtp:
        last = _layer(keys, traits, sizes, traits.mixture is not None, traits.indexed)
        mtp = mtp_weights(keys, traits.mtp, sizes.hidden, vocabulary, last.weights)
    return assemble(
        keys,
        order,
        outer_weights(sizes.hidden, vocabulary, tied=tied),
        hidden=sizes.hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=traits.max_positions),
        mtp=mtp,
    )


def indexer_layers(keys: Keys, layers: int) -> tuple[bool, ...]:
    """Which layers run an indexer of their own; the others attend to the positions that the last one selected.

    By `indexer_types` ("full" or "shared"), `index_topk_pattern` ("F" or "S"), or `index_topk_freq` with
    `index_skip_topk_offset`: full where max(i − offset + 1, 0) mod frequency = 0.
    """
    types = keys.texts("indexer_types", length=layers, choices=frozenset({"full", "shared"}))
    if types is not None:
        return tuple(kind == "full" for kind in types)
    if keys.has("index_topk_pattern"):
        if isinstance(keys.config["index_topk_pattern"], str):
            pattern = tuple(keys.text("index_topk_pattern", longest=layers))
        else:
            pattern = keys.texts("index_topk_pattern") or ()
        if len(pattern) != layers or set(pattern) - {"F", "S", "full", "shared"}:
            raise keys.contradiction("index_topk_pattern", "list_length", expected=layers)
        return tuple(kind in ("F", "full") for kind in pattern)
    frequency = keys.integer("index_topk_freq", default=1, maximum=10_000)
    offset = keys.integer("index_skip_topk_offset", default=2, minimum=0, maximum=10_000)
    return tuple(max(index - offset + 1, 0) % frequency == 0 for index in range(layers))


def indexer_weights(hidden: int, query_rank: int, heads: int, head_dim: int) -> Weights:
    """A lightning indexer: queries from the query latent, one key per token, a weight per head; whole on every rank.

    References:
        DeepSeek-V3.2 report, sparse attention.
    """
    part, shard = Part.ATTENTION, Shard.NONE
    return (
        *linear("index_query", part, heads * head_dim, query_rank, shard=shard),
        *linear("index_key", part, head_dim, hidden, shard=shard),
        *norm("index_key_norm", head_dim, kind="layer"),
        *linear("index_weight", part, heads, hidden, shard=shard),
    )


def _layer(
    keys: Keys, traits: LatentTraits, sizes: LatentSizes, sparse: bool, indexer: bool
) -> LayerKind:
    weights = projections(keys, sizes)
    selected = index_heads = index_dim = 0
    if traits.indexed:
        selected = keys.integer("index_topk", maximum=MAX_CONTEXT)
    if indexer:
        if sizes.query_rank is None:
            raise keys.contradiction("q_lora_rank", "indexer_needs_query_rank")
        index_heads = keys.integer("index_n_heads", maximum=100_000)
        index_dim = keys.integer("index_head_dim", maximum=100_000)
        weights += indexer_weights(sizes.hidden, sizes.query_rank, index_heads, index_dim)
    mixer = LatentAttention(
        heads=sizes.heads,
        latent_dim=sizes.latent_dim,
        rope_dim=sizes.rope_dim,
        nope_dim=sizes.nope_dim,
        value_dim=sizes.value_dim,
        selected=selected or None,
        indexer_heads=index_heads,
        indexer_dim=index_dim,
        indexer_dtype=INDEXER_DTYPE if index_dim else None,
    )
    weights += norm("norm", sizes.hidden, copies=2)
    if not sparse or traits.mixture is None:
        width = keys.integer("intermediate_size")
        weights += gated_mlp(sizes.hidden, width, bias=flag(keys, traits.mlp_bias))
        return LayerKind((mixer,), weights, feed_forward_width=width)
    experts = traits.mixture.read(keys)
    weights += traits.mixture.weights(keys, sizes.hidden, experts)
    if traits.sparse_norms:
        weights += norm("sparse_norm", sizes.hidden, copies=traits.sparse_norms)
    return LayerKind((mixer,), weights, experts.count, experts.per_token, experts.active_width)
