"""MiniMax-M3: grouped-query attention to blocks of the past that an indexer selects.

Defaults are those of MiniMaxM3VLTextConfig in transformers 5.24; the published keys (`sparse_attention_config`,
`moe_layer_freq`) and the ones that transformers saves are read alike.
"""

from __future__ import annotations

from planner.architecture.adapters import mixtures
from planner.architecture.adapters.common import (
    assemble,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.decoder import query_key_norms
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import (
    Weights,
    gated_mlp,
    grouped_query_attention,
    linear,
    norm,
)
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import Attention, CacheStream, Composite, Mixer, Score
from planner.architecture.spec import Architecture, LayerKind, Part, Shard
from planner.errors import UnsupportedArchitecture

_FULL, _SPARSE = "full_attention", "minimax_m3_sparse"
_MIXTURE = Mixture(
    experts=("num_local_experts", "num_experts"),
    width=("intermediate_size",),
    shared_width=("shared_intermediate_size",),
    default_shared=3072,
    correction="buffer",
    layers=mixtures.by_mlp_layer_type(mixtures.by_frequency_list),
)
_NO_SECTION = Keys({})


def architecture(keys: Keys) -> Architecture:
    """MiniMax-M3's language model.

    Raises:
        InvalidConfig: where a key is missing or out of range.
        UnsupportedArchitecture: under `attention_output_gate`, whose projections no published model has.
    """
    if keys.flag("attention_output_gate", default=False):
        raise UnsupportedArchitecture(
            "unsupported_option", model_type="minimax_m3", key=keys.path("attention_output_gate")
        )
    hidden = keys.integer("hidden_size")
    layers = layer_count(keys)
    heads = keys.integer("num_attention_heads", maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=4, maximum=heads)
    if heads % kv_heads:
        raise keys.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    head_dim = keys.integer("head_dim", default=128, maximum=100_000)
    attention = (
        *grouped_query_attention(hidden, heads, kv_heads, head_dim),
        *query_key_norms("head", heads, kv_heads, head_dim),
        *norm("norm", hidden, copies=2),
    )
    settings = keys.optional_section("sparse_attention_config") or _NO_SECTION
    index_heads = _setting(keys, settings, "index_n_heads", "sparse_num_index_heads", 4)
    index_dim = _setting(keys, settings, "index_head_dim", "sparse_index_dim", 128)
    block = _setting(keys, settings, "index_block_size", "sparse_block_size", 128)
    blocks = _setting(keys, settings, "index_topk_blocks", "sparse_topk_blocks", 16)
    full = Attention(heads, kv_heads, head_dim, head_dim)
    selecting = _selecting(full, block * blocks, index_heads, index_dim)
    indexer = _indexer(hidden, index_heads, index_dim)
    experts = _MIXTURE.read(keys)
    dense_width = keys.integer("dense_intermediate_size", default=12288)

    def kind(indexed: bool, sparse: bool) -> LayerKind:
        mixer: Mixer = selecting if indexed else full
        weights = (*attention, *indexer) if indexed else attention
        if not sparse:
            return LayerKind(
                (mixer,),
                (*weights, *gated_mlp(hidden, dense_width)),
                feed_forward_width=dense_width,
            )
        return LayerKind(
            (mixer,),
            (*weights, *_MIXTURE.weights(keys, hidden, experts)),
            experts.count,
            experts.per_token,
            experts.active_width,
        )

    kinds: dict[tuple[bool, bool], LayerKind] = {}
    order = []
    sparse_layers = _MIXTURE.layers(keys, layers)
    for pair in zip(_indexed_layers(keys, settings, layers), sparse_layers, strict=True):
        if pair not in kinds:
            kinds[pair] = kind(*pair)
        order.append(kinds[pair])
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=524288),
    )


def _setting(keys: Keys, settings: Keys, name: str, published: str, default: int) -> int:
    if settings.has(published):
        return settings.integer(published, maximum=100_000)
    return keys.integer(name, default=default, maximum=100_000)


def _indexed_layers(keys: Keys, settings: Keys, layers: int) -> tuple[bool, ...]:
    given = keys.texts("layer_types", length=layers, choices=frozenset({_FULL, _SPARSE}))
    if given is not None:
        return tuple(kind == _SPARSE for kind in given)
    frequencies = settings.integers("sparse_attention_freq", length=layers, maximum=1)
    return tuple(value == 1 for value in frequencies or (0,) * layers)


def _indexer(hidden: int, heads: int, head_dim: int) -> Weights:
    part, shard = Part.ATTENTION, Shard.NONE
    return (
        *linear("index_query", part, heads * head_dim, hidden, shard=shard),
        *linear("index_key", part, head_dim, hidden, shard=shard),
        *norm("index_query_norm", head_dim),
        *norm("index_key_norm", head_dim),
    )


def _selecting(full: Attention, selected: int, index_heads: int, index_dim: int) -> Composite:
    """Keys and values of every token are kept, those of the selected blocks read; index keys are kept beside them."""
    selected = min(selected, MAX_CONTEXT)
    flops = 2.0 * full.heads * (full.key_dim + full.value_dim)
    index_flops = 2.0 * index_heads * index_dim
    return Composite(
        "block_sparse",
        (
            CacheStream(
                full.kv_heads * full.key_dim,
                full.kv_heads * full.value_dim,
                shards=full.kv_heads,
                read_limit=selected,
            ),
            CacheStream(index_dim, 0, dtype="bfloat16"),
        ),
        (Score(flops, flops, window=selected), Score(index_flops, index_flops)),
    )
