"""More decoders with latent attention: A.X-K2, HunYuan V4, LongCat Flash, Mistral Large 4.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.architecture.adapters import latent, mixtures
from planner.architecture.adapters.common import (
    assemble,
    layer_count,
    max_context_of,
    outer_weights,
)
from planner.architecture.adapters.latent import LatentSizes
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import (
    Weights,
    gated_mlp,
    latent_attention,
    linear,
    norm,
    vector,
)
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import Composite, LatentAttention, Mixer
from planner.architecture.spec import Architecture, LayerKind, Part, Shard

ROUTED = ("n_routed_experts", "num_local_experts", "num_experts")
INDEXED, FULL, SLIDING = "indexed_attention", "full_attention", "sliding_attention"


@dataclass(frozen=True, slots=True)
class Indexer:
    """Sizes of a lightning indexer: heads, their width, and how many positions it selects."""

    heads: int
    head_dim: int
    selected: int


def read_indexer(keys: Keys) -> Indexer:
    """The indexer that a configuration describes."""
    return Indexer(
        keys.integer("index_n_heads", maximum=100_000),
        keys.integer("index_head_dim", maximum=100_000),
        keys.integer("index_topk", maximum=MAX_CONTEXT),
    )


def latent_mixer(
    sizes: LatentSizes, indexer: Indexer | None = None, *, own: bool = True
) -> LatentAttention:
    """Latent attention over all positions, or over those that an indexer selects (its `own`, or an earlier layer's)."""
    return LatentAttention(
        heads=sizes.heads,
        latent_dim=sizes.latent_dim,
        rope_dim=sizes.rope_dim,
        nope_dim=sizes.nope_dim,
        value_dim=sizes.value_dim,
        selected=indexer.selected if indexer else None,
        indexer_heads=indexer.heads if indexer and own else 0,
        indexer_dim=indexer.head_dim if indexer and own else 0,
        indexer_dtype=latent.INDEXER_DTYPE if indexer and own else None,
    )


def feed_forward(
    keys: Keys,
    mixture: Mixture,
    hidden: int,
    sparse: bool,
    mixers: tuple[Mixer, ...],
    rest: Weights,
) -> LayerKind:
    """A layer from its mixers and its other weights: experts where it's `sparse`, else a gated feed-forward."""
    if not sparse:
        wide = keys.integer("intermediate_size")
        return LayerKind(mixers, (*rest, *gated_mlp(hidden, wide)), feed_forward_width=wide)
    experts = mixture.read(keys)
    return LayerKind(
        mixers,
        (*rest, *mixture.weights(keys, hidden, experts)),
        experts.count,
        experts.per_token,
        experts.active_width,
    )


def finish(
    keys: Keys, order: list[LayerKind], hidden: int, positions: int, extra: Weights = ()
) -> Architecture:
    """The architecture around these layers."""
    vocabulary = keys.integer("vocab_size")
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        order,
        outer_weights(hidden, vocabulary, tied=tied, extra=extra),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=positions),
    )


def _experts(first_dense: int) -> Mixture:
    return Mixture(
        experts=ROUTED,
        shared=("n_shared_experts", "num_shared_experts"),
        default_shared=1,
        correction="buffer",
        layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(first_dense)),
    )


def axk2(keys: Keys) -> Architecture:
    """A.X-K2: queries and an output gate from two query latents at once, an indexer, low-rank gates on norms."""
    sizes = latent.latent_sizes(keys, 384)
    if sizes.query_rank is None:
        raise keys.contradiction("q_lora_rank", "indexer_needs_query_rank")
    hidden, rank = sizes.hidden, sizes.query_rank
    indexer = read_indexer(keys)
    gate_rank = keys.integer("gated_norm_rank", default=16)
    layers = layer_count(keys)
    mixture = _experts(1)
    plain = latent.projections(keys, sizes)
    weights = (
        *(weight for weight in plain if weight.name != "query_up"),
        *linear(
            "query_and_gate",
            Part.ATTENTION,
            sizes.heads * (sizes.nope_dim + sizes.rope_dim + sizes.value_dim),
            2 * rank,
        ),
        *latent.indexer_weights(hidden, rank, indexer.heads, indexer.head_dim),
        *norm("norm", hidden, copies=2),
    )
    gate = (
        *linear("norm_gate_down", Part.NORM, gate_rank, hidden, shard=Shard.NONE),
        *linear("norm_gate_up", Part.NORM, hidden, gate_rank, shard=Shard.NONE),
    )
    mixers = (latent_mixer(sizes, indexer),)
    # A dense layer gates the norm before attention only.
    kinds = {
        sparse: feed_forward(
            keys, mixture, hidden, sparse, mixers, (*weights, *gate * (2 if sparse else 1))
        )
        for sparse in set(mixture.layers(keys, layers))
    }
    order = [kinds[sparse] for sparse in mixture.layers(keys, layers)]
    return finish(keys, order, hidden, 131072)


def hy_v4(keys: Keys) -> Architecture:
    """HunYuan V4: latent attention with sinks, an indexer on some layers, gated output, hyper-connections."""
    sizes = latent.latent_sizes(keys, 1536)
    hidden, heads = sizes.hidden, sizes.heads
    layers = layer_count(keys)
    indexer = read_indexer(keys)
    runs = latent.indexer_layers(keys, layers)
    streams = keys.integer("hc_mult", default=4, maximum=64)
    mixture = _experts(1)
    # Two mixes a layer, of pre- and post-weights for each stream, and one before the head.
    mixes: Weights = ()
    for name in ("attention_mix", "mlp_mix"):
        mixes += linear(
            name, Part.NORM, 2 * streams, streams * hidden, shard=Shard.NONE, dtype="float32"
        )
        mixes += vector(f"{name}_base", Part.NORM, 2 * streams, dtype="float32")
        mixes += vector(f"{name}_scale", Part.NORM, 2, dtype="float32")
    weights = (
        *latent.projections(keys, sizes),
        *linear("output_gate", Part.ATTENTION, heads * sizes.value_dim, hidden),
        *vector("sinks", Part.ATTENTION, heads, shard=Shard.EVEN),
        *norm("norm", hidden, copies=2),
        *mixes,
    )
    if sizes.query_rank is None:
        raise keys.contradiction("q_lora_rank", "indexer_needs_query_rank")
    index = latent.indexer_weights(hidden, sizes.query_rank, indexer.heads, indexer.head_dim)
    kinds: dict[tuple[bool, bool], LayerKind] = {}
    order = []
    for sparse, own in zip(mixture.layers(keys, layers), runs, strict=True):
        if (sparse, own) not in kinds:
            mixers = (latent_mixer(sizes, indexer, own=own),)
            rest = (*weights, *(index if own else ()))
            kinds[sparse, own] = feed_forward(keys, mixture, hidden, sparse, mixers, rest)
        order.append(kinds[sparse, own])
    return finish(keys, order, hidden, 262144, head_mix(hidden, streams))


def head_mix(hidden: int, streams: int) -> Weights:
    """What joins the residual streams of hyper-connections before the head."""
    return (
        *linear(
            "head_mix", Part.NORM, streams, streams * hidden, shard=Shard.NONE, dtype="float32"
        ),
        *vector("head_mix_base", Part.NORM, streams, dtype="float32"),
        *vector("head_mix_scale", Part.NORM, 1, dtype="float32"),
    )


def longcat_flash(keys: Keys) -> Architecture:
    """LongCat Flash: a layer holds two latent attentions, two dense feed-forwards and one mixture beside them.

    Some of the experts that a token may be routed to do nothing and have no weights, so a token runs fewer than
    `moe_topk` on average.
    """
    sizes = latent.latent_sizes(keys, 1536)
    hidden = sizes.hidden
    experts = keys.integer("n_routed_experts", "num_experts", default=512, maximum=100_000)
    zero = keys.integer("zero_expert_num", default=256, minimum=0, maximum=100_000)
    chosen = keys.integer("moe_topk", "num_experts_per_tok", default=12, maximum=experts + zero)
    inner = keys.integer("expert_ffn_hidden_size", "moe_intermediate_size", default=2048)
    wide = keys.integer("ffn_hidden_size", "intermediate_size", default=12288)
    biased = keys.flag("router_bias", default=False)
    part, shard = Part.EXPERTS, Shard.EXPERTS
    weights = (
        *latent.projections(keys, sizes) * 2,
        *gated_mlp(hidden, wide) * 2,
        *norm("norm", hidden, copies=4),
        *linear("router", Part.ROUTER, experts + zero, hidden, bias=biased, shard=Shard.NONE),
        *vector("router_correction", Part.ROUTER, experts + zero, dtype="float32", buffer=True),
        *gated_mlp(hidden, inner, part=part, copies=experts, shard=shard),
    )
    run = max(1, round(chosen * experts / (experts + zero)))
    kind = LayerKind((latent_mixer(sizes),) * 2, weights, experts, run, run * inner + 2 * wide)
    count = layer_count(keys, "num_layers")
    return finish(keys, [kind] * count, hidden, 131072)


def mistral_large4(keys: Keys) -> Architecture:
    """Mistral Large 4: full-rank queries, an indexer that reads the hidden state, latents shared between layers.

    Layers without rotary positions put the rotary part into the rest of the key. A layer whose `kv_source_layers` entry
    isn't its own index reads that layer's latents and stores none.
    """
    hidden = keys.integer("hidden_size")
    layers = layer_count(keys)
    indexer = read_indexer(keys)
    interval = keys.integer("no_rope_layer_interval", default=4, maximum=10_000)
    rotary = keys.integers("no_rope_layers", length=layers, maximum=1) or tuple(
        int((index + 1) % interval != 0) for index in range(layers)
    )
    sources = keys.integers("kv_source_layers", length=layers) or tuple(range(layers))
    runs = latent.indexer_layers(keys, layers)
    sizes = replace(latent.latent_sizes(keys, None), query_rank=None)
    heads = sizes.heads
    mixture = _experts(1)
    index = (
        *latent.indexer_weights(hidden, hidden, indexer.heads, indexer.head_dim),
        *norm("index_query_norm", hidden, kind="layer"),
        *vector("index_scale", Part.ATTENTION, indexer.heads, copies=2),
    )
    kinds: dict[tuple[bool, int, bool, bool], LayerKind] = {}
    order = []
    for number, key in enumerate(
        zip(mixture.layers(keys, layers), rotary, runs, sources, strict=True)
    ):
        sparse, rotates, own, source = key
        stores = source == number
        if (sparse, rotates, own, stores) not in kinds:
            here = sizes
            if not rotates:
                here = replace(sizes, rope_dim=0, nope_dim=sizes.nope_dim + sizes.rope_dim)
            shared = () if stores else ("kv_down", "kv_norm")
            bias = keys.flag("attention_bias", default=False)
            weights = (
                *(w for w in latent_projections(here, bias) if w.name not in shared),
                *vector("query_scale", Part.ATTENTION, heads, copies=2, shard=Shard.EVEN),
                *(index if own else ()),
                *norm("norm", hidden, copies=2),
            )
            whole = latent_mixer(here, indexer, own=own)
            mixer: Mixer = whole if stores else _without_latents(whole)
            kinds[sparse, rotates, own, stores] = feed_forward(
                keys, mixture, hidden, sparse, (mixer,), weights
            )
        order.append(kinds[sparse, rotates, own, stores])
    # One learned rotation speed for each pair of the rotary part.
    speeds = vector("rotary_speeds", Part.POSITION, max(1, sizes.rope_dim // 2))
    return finish(keys, order, hidden, 1048576, speeds)


def latent_projections(sizes: LatentSizes, bias: bool) -> Weights:
    """The projections of one latent attention of these sizes."""
    return latent_attention(
        sizes.hidden,
        sizes.heads,
        query_rank=sizes.query_rank,
        latent_dim=sizes.latent_dim,
        rope_dim=sizes.rope_dim,
        nope_dim=sizes.nope_dim,
        value_dim=sizes.value_dim,
        bias=bias,
    )


def _without_latents(mixer: LatentAttention) -> Composite:
    """The same attention over latents that an earlier layer stores; an indexer's own keys stay."""
    return Composite("shared", mixer.streams[1:], mixer.scores)
