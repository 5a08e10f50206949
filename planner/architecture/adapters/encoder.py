"""Encoder-only models, as embedding models and rerankers use them: no cache, no head, every token sees every other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.architecture.adapters.common import assemble, layer_count
from planner.architecture.blocks import (
    Weights,
    embedding,
    gated_mlp,
    grouped_query_attention,
    linear,
    norm,
    plain_mlp,
    positions,
)
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import Attention
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Weight

ENCODER = "encoder"


@dataclass(frozen=True, slots=True)
class _Family:
    """What BERT-like encoders differ in.

    Attributes:
        offset: position rows before the first token's.
        learned: a table of absolute positions.
        types: rows of the token-type table where the configuration doesn't say; 0 for no table.
        biased: all projections have biases.
        gated: three feed-forward matrices.
        pooler: a square layer on the first token.
    """

    offset: int = 0
    learned: bool = True
    types: int = 2
    biased: bool = True
    gated: bool = False
    pooler: bool = True


_FAMILIES: dict[str, _Family] = {
    "bert": _Family(),
    "roberta": _Family(offset=2),
    "xlm-roberta": _Family(offset=2),
    "camembert": _Family(offset=2),
    "distilbert": _Family(types=0, pooler=False),
    "nomic_bert": _Family(learned=False, biased=False, gated=True, pooler=False),
}


def bert(keys: Keys) -> Architecture:
    """BERT, RoBERTa and XLM-RoBERTa, DistilBERT, Nomic BERT: post-norm layers with layer norms."""
    family = _FAMILIES[keys.text("model_type")]
    hidden = keys.integer("hidden_size", "dim", "n_embd", default=768)
    heads = keys.integer("num_attention_heads", "n_heads", "n_head", default=12)
    wide = keys.integer("intermediate_size", "hidden_dim", "n_inner", default=4 * hidden)
    layers = layer_count(keys, "num_hidden_layers", "n_layers", "n_layer")
    vocabulary = keys.integer("vocab_size")
    rows = keys.integer("max_position_embeddings", "n_positions", default=512, maximum=MAX_CONTEXT)
    types = keys.integer("type_vocab_size", default=family.types, minimum=0) if family.types else 0
    mlp = gated_mlp if family.gated else plain_mlp
    weights = (
        *_attention(keys, hidden, heads, biased=family.biased),
        *mlp(hidden, wide, bias=family.biased),
        *norm("norm", hidden, kind="layer", copies=2),
    )
    kind = LayerKind((_mixer(hidden, heads),), weights, feed_forward_width=wide, role=ENCODER)
    outer = embedding(vocabulary, hidden)
    if family.learned:
        outer += positions(rows, hidden)
    if types:
        outer += (Weight("token_types", Part.EMBEDDING, types, hidden, shape=Shape.TABLE),)
    outer += norm("embedding_norm", hidden, kind="layer")
    if family.pooler:
        outer += linear("pooler", Part.FEED_FORWARD, hidden, hidden, bias=True)
    limit = max(1, rows - family.offset)
    return _model(keys, (kind,) * layers, outer, hidden, vocabulary, limit)


def modernbert(keys: Keys) -> Architecture:
    """ModernBERT: pre-norm gated layers without biases; every third attends to all, the others within a window."""
    hidden = keys.integer("hidden_size", default=768)
    heads = keys.integer("num_attention_heads", default=12, maximum=100_000)
    wide = keys.integer("intermediate_size", default=1152)
    layers = layer_count(keys)
    vocabulary = keys.integer("vocab_size", default=50_368)
    biased = keys.flag("attention_bias", default=False)
    kind_of_norm = "layer" if keys.flag("norm_bias", default=False) else "rms"
    every = keys.integer("global_attn_every_n_layers", default=3, maximum=10_000)
    window = keys.integer("local_attention", "sliding_window", default=128, maximum=MAX_CONTEXT)
    attention = _attention(keys, hidden, heads, biased=biased)
    mlp = gated_mlp(hidden, wide, bias=keys.flag("mlp_bias", default=False))
    given = keys.texts(
        "layer_types", length=layers, choices=frozenset({"full_attention", "sliding_attention"})
    )
    kinds: dict[tuple[bool, bool], LayerKind] = {}
    order = []
    for index in range(layers):
        full = index % every == 0 if given is None else given[index] == "full_attention"
        first = index == 0  # the norm after the embedding serves the first layer's attention too
        if (full, first) not in kinds:
            kinds[full, first] = LayerKind(
                (_mixer(hidden, heads, None if full else window),),
                (*attention, *mlp, *norm("norm", hidden, kind=kind_of_norm, copies=2 - first)),
                feed_forward_width=wide,
                role=ENCODER,
            )
        order.append(kinds[full, first])
    outer = (
        *embedding(vocabulary, hidden),
        *norm("embedding_norm", hidden, kind=kind_of_norm),
        *norm("final_norm", hidden, kind=kind_of_norm),
    )
    limit = keys.integer("max_position_embeddings", default=8192, maximum=MAX_CONTEXT)
    return _model(keys, order, outer, hidden, vocabulary, limit)


def _attention(keys: Keys, hidden: int, heads: int, *, biased: bool) -> Weights:
    if hidden % heads:
        raise keys.contradiction("hidden_size", "not_divisible", given=hidden, divisor=heads)
    return grouped_query_attention(
        hidden,
        heads,
        heads,
        hidden // heads,
        query_bias=biased,
        kv_bias=biased,
        output_bias=biased,
    )


def _mixer(hidden: int, heads: int, window: int | None = None) -> Attention:
    size = hidden // heads
    return Attention(heads, heads, size, size, window, caches=False, causal=False)


def _model(
    keys: Keys,
    layers: Sequence[LayerKind],
    outer: Weights,
    hidden: int,
    vocabulary: int,
    limit: int,
) -> Architecture:
    return assemble(
        keys,
        layers,
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=True,
        max_context_tokens=limit,
        default_dtype="float32",
        has_head=False,
        modality="embedding",
    )
