"""DeepSeek-V4: a short sliding window beside a compressed past, hyper-connections, and hash-routed first layers.

Every layer keeps one shared key/value head for the last `sliding_window` tokens. Compressed sparse layers add one
entry per 4 tokens, of which an indexer selects `index_topk`; heavily compressed layers add one entry per 128, all
attended. References: DeepSeek-V4 report, §2.3; transformers 5.24, model type deepseek_v4.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.architecture.adapters.common import (
    assemble,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import (
    Weights,
    linear,
    norm,
    vector,
    with_part,
)
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import CacheStream, Composite, Score, StateTensor
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Shard, Weight

SLIDING = "sliding_attention"
SPARSE = "compressed_sparse_attention"
HEAVY = "heavily_compressed_attention"
_RATE_OF_TYPE = {SPARSE: 4, HEAVY: 128}
_TYPE_OF_RATE = {0: SLIDING, 4: SPARSE, 128: HEAVY}
_HASHED = 3
_MIXTURE = Mixture(
    experts=("n_routed_experts", "num_local_experts"),
    shared=("n_shared_experts",),
    default_shared=1,
)
# The indexer's keys are kept in 8 bits whatever the cache's own type.
_INDEXER_DTYPE = "float8_scaled128"


@dataclass(frozen=True, slots=True)
class _Sizes:
    hidden: int
    heads: int
    head_dim: int
    query_rank: int
    output_rank: int
    output_groups: int
    window: int
    index_heads: int
    index_dim: int
    selected: int
    streams: int


def architecture(keys: Keys) -> Architecture:
    """The architecture of a DeepSeek-V4 configuration, as published or as transformers saves it.

    Raises:
        InvalidConfig: where a key is missing or out of range, or a layer type or compression rate unknown.
    """
    sizes = _Sizes(
        hidden=keys.integer("hidden_size"),
        heads=keys.integer("num_attention_heads", maximum=100_000),
        head_dim=keys.integer("head_dim", maximum=100_000),
        query_rank=keys.integer("q_lora_rank"),
        output_rank=keys.integer("o_lora_rank"),
        output_groups=keys.integer("o_groups", maximum=100_000),
        window=keys.integer("sliding_window", maximum=MAX_CONTEXT),
        index_heads=keys.integer("index_n_heads", maximum=100_000),
        index_dim=keys.integer("index_head_dim", maximum=100_000),
        selected=keys.integer("index_topk", maximum=MAX_CONTEXT),
        streams=keys.integer("hc_mult", default=4, maximum=64),
    )
    layers = layer_count(keys)
    types = _layer_types(keys, layers)
    rates = _rates(keys)
    hashed = _hashed_layers(keys, layers)
    vocabulary = keys.integer("vocab_size")
    kinds: dict[tuple[str, bool], LayerKind] = {}
    order = []
    for pair in zip(types, hashed, strict=True):
        if pair not in kinds:
            kinds[pair] = _layer(keys, sizes, rates, vocabulary, *pair)
        order.append(kinds[pair])
    tied = keys.flag("tie_word_embeddings", default=False)
    extra = _hyper_head(sizes)
    return assemble(
        keys,
        order,
        outer_weights(sizes.hidden, vocabulary, tied=tied, extra=extra),
        hidden=sizes.hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=1048576),
        mtp=_mtp(keys, sizes, rates, vocabulary),
    )


def _layer_types(keys: Keys, layers: int) -> tuple[str, ...]:
    given = keys.texts("layer_types", length=layers, choices=frozenset({SLIDING, SPARSE, HEAVY}))
    if given is not None:
        return given
    # One entry more than layers is the next-token-prediction layer's.
    ratios = keys.integers("compress_ratios")
    if ratios is None:
        rest = (SPARSE if index % 2 else HEAVY for index in range(max(layers - 2, 0)))
        return (*(HEAVY,) * min(layers, 2), *rest)
    if len(ratios) < layers or not set(ratios) <= set(_TYPE_OF_RATE):
        raise keys.contradiction("compress_ratios", "list_length", expected=layers)
    return tuple(_TYPE_OF_RATE[ratio] for ratio in ratios[:layers])


def _rates(keys: Keys) -> dict[str, int]:
    section = keys.optional_section("compress_rates")
    rates = dict(_RATE_OF_TYPE)
    for kind, legacy in ((SPARSE, "compress_rate_csa"), (HEAVY, "compress_rate_hca")):
        if section is not None and section.has(kind):
            rates[kind] = section.integer(kind, maximum=100_000)
        rates[kind] = keys.integer(legacy, default=rates[kind], maximum=100_000)
    return rates


def _hashed_layers(keys: Keys, layers: int) -> tuple[bool, ...]:
    given = keys.texts("mlp_layer_types", length=layers, choices=frozenset({"hash_moe", "moe"}))
    if given is not None:
        return tuple(kind == "hash_moe" for kind in given)
    count = keys.integer("num_hash_layers", default=_HASHED, minimum=0, maximum=10_000)
    return tuple(index < count for index in range(layers))


def _layer(
    keys: Keys, sizes: _Sizes, rates: dict[str, int], vocabulary: int, kind: str, hashed: bool
) -> LayerKind:
    experts = _MIXTURE.read(keys)
    bias = keys.flag("attention_bias", default=False)
    weights = _attention(sizes, bias) + _compressor(sizes, kind, rates)
    weights += norm("norm", sizes.hidden, copies=2)
    weights += _hyper_connection("attention_mix", sizes) + _hyper_connection("mlp_mix", sizes)
    weights += _MIXTURE.weights(keys, sizes.hidden, experts)
    if hashed:
        # Token id → experts, a fixed table of integers.
        weights += (
            Weight(
                "expert_of_token",
                Part.ROUTER,
                vocabulary,
                experts.per_token,
                shape=Shape.TABLE,
                dtype="int64",
                buffer=True,
            ),
        )
    else:
        weights += vector(
            "router_correction", Part.ROUTER, experts.count, dtype="float32", buffer=True
        )
    return LayerKind(
        (_mixer(sizes, kind, rates),),
        weights,
        experts.count,
        experts.per_token,
        experts.active_width,
    )


def _attention(sizes: _Sizes, bias: bool) -> Weights:
    part = Part.ATTENTION
    values = sizes.heads * sizes.head_dim
    return (
        *vector("sinks", part, sizes.heads, shard=Shard.EVEN),
        *linear("query_down", part, sizes.query_rank, sizes.hidden, bias=bias, shard=Shard.NONE),
        *norm("query_norm", sizes.query_rank),
        *linear("query_up", part, values, sizes.query_rank),
        *linear("key_value", part, sizes.head_dim, sizes.hidden, bias=bias, shard=Shard.NONE),
        *norm("key_value_norm", sizes.head_dim),
        # Block-diagonal: each group of heads has a projection of its own.
        *linear(
            "output_down",
            part,
            sizes.output_groups * sizes.output_rank,
            values // sizes.output_groups,
        ),
        *linear(
            "output_up",
            part,
            sizes.hidden,
            sizes.output_groups * sizes.output_rank,
            bias=bias,
            row_parallel=True,
        ),
    )


def _compressor(sizes: _Sizes, kind: str, rates: dict[str, int]) -> Weights:
    if kind == SLIDING:
        return ()
    part, shard = Part.ATTENTION, Shard.NONE
    rate = rates[kind]
    if kind == HEAVY:
        return _pooling("compressor", sizes.hidden, sizes.head_dim, sizes.head_dim, rate)
    return (
        # Two overlapping series per token.
        *_pooling("compressor", sizes.hidden, 2 * sizes.head_dim, sizes.head_dim, rate),
        *_pooling("index", sizes.hidden, 2 * sizes.index_dim, sizes.index_dim, rate),
        *linear(
            "index_query", part, sizes.index_heads * sizes.index_dim, sizes.query_rank, shard=shard
        ),
        *linear("index_weight", part, sizes.index_heads, sizes.hidden, shard=shard),
    )


def _pooling(name: str, hidden: int, width: int, entry: int, rate: int) -> Weights:
    part, shard = Part.ATTENTION, Shard.NONE
    return (
        *linear(f"{name}_key_value", part, width, hidden, shard=shard),
        *linear(f"{name}_gate", part, width, hidden, shard=shard),
        *vector(f"{name}_position_bias", part, rate * width, dtype="float32"),
        *norm(f"{name}_norm", entry),
    )


def _hyper_connection(name: str, sizes: _Sizes) -> Weights:
    mixes = (2 + sizes.streams) * sizes.streams
    return (
        *linear(
            name,
            Part.NORM,
            mixes,
            sizes.streams * sizes.hidden,
            shard=Shard.NONE,
            dtype="float32",
        ),
        *vector(f"{name}_base", Part.NORM, mixes, dtype="float32"),
        *vector(f"{name}_scale", Part.NORM, 3, dtype="float32"),
    )


def _hyper_head(sizes: _Sizes) -> Weights:
    n = sizes.streams
    return (
        *linear("head_mix", Part.NORM, n, n * sizes.hidden, shard=Shard.NONE, dtype="float32"),
        *vector("head_mix_base", Part.NORM, n, dtype="float32"),
        *vector("head_mix_scale", Part.NORM, 1, dtype="float32"),
    )


def _mixer(sizes: _Sizes, kind: str, rates: dict[str, int]) -> Composite:
    """Keys and values are one vector per token, shared by all heads, so each stream is held whole by every rank."""
    flops = 4.0 * sizes.heads * sizes.head_dim
    recent = CacheStream(sizes.head_dim, 0, window=sizes.window)
    near = Score(flops, flops, window=sizes.window)
    if kind == SLIDING:
        return Composite("sliding", (recent,), (near,))
    rate = rates[kind]
    if kind == HEAVY:
        past = CacheStream(sizes.head_dim, 0, stride=rate)
        # Projected keys and gates of the entry that isn't full yet.
        pending = StateTensor(rate * 2 * sizes.head_dim, dtype="float32")
        return Composite(
            "heavily_compressed",
            (recent, past),
            (near, Score(flops, flops, stride=rate)),
            (pending,),
        )
    selected = CacheStream(sizes.head_dim, 0, stride=rate, read_limit=sizes.selected)
    index = CacheStream(sizes.index_dim, 0, stride=rate, dtype=_INDEXER_DTYPE)
    index_flops = 2.0 * sizes.index_heads * sizes.index_dim
    # Two series over two windows, of the compressor and of the indexer.
    pending = StateTensor(2 * rate * 4 * (sizes.head_dim + sizes.index_dim), dtype="float32")
    return Composite(
        "compressed_sparse",
        (recent, selected, index),
        (
            near,
            Score(flops, flops, window=sizes.selected, stride=rate),
            Score(index_flops, index_flops, stride=rate),
        ),
        (pending,),
    )


def _mtp(keys: Keys, sizes: _Sizes, rates: dict[str, int], vocabulary: int) -> Weights:
    count = keys.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=100)
    if not count:
        return ()
    layer = _layer(keys, sizes, rates, vocabulary, SLIDING, False).weights
    weights = (
        *layer,
        *linear(
            "joint_projections", Part.MTP, sizes.hidden, sizes.hidden, copies=2, shard=Shard.NONE
        ),
        *norm("mtp_norm", sizes.hidden, copies=3),
        *_hyper_head(sizes),
    )
    return with_part(weights, Part.MTP) * count
