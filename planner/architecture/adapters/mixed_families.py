"""More decoders that mix recurrences with attention: Ling (Bailing) hybrids, GLM-5 Next, LaRA mini, LFM3, Zamba.

Defaults are those of each model type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import replace

from planner.architecture import recurrent
from planner.architecture.adapters import latent, mixtures, windows
from planner.architecture.adapters.common import layer_count
from planner.architecture.adapters.decoder import Mtp, mtp_weights
from planner.architecture.adapters.hybrid_parts import self_attention
from planner.architecture.adapters.latent_families import (
    feed_forward,
    finish,
    latent_mixer,
    read_indexer,
)
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import (
    Weights,
    gated_mlp,
    grouped_query_attention,
    latent_attention,
    linear,
    norm,
    vector,
)
from planner.architecture.keys import Keys
from planner.architecture.mixers import Attention, CacheStream, Composite, Mixer, Score
from planner.architecture.spec import Architecture, LayerKind, Part, Shard
from planner.architecture.totals import linear_flops

LINEAR = "linear_attention"
_KINDS = frozenset({LINEAR, "full_attention", "sliding_attention", "indexed_attention", "conv"})


def _types(keys: Keys, layers: int, rule: tuple[str, ...]) -> tuple[str, ...]:
    """`layer_types`, or the family's pattern repeated."""
    given = keys.texts("layer_types", length=layers, choices=_KINDS)
    return given or tuple(rule[index % len(rule)] for index in range(layers))


def bailing_hybrid(keys: Keys) -> Architecture:
    """Ling's hybrids: Kimi Delta Attention with full-rank gates, gated latent attention on every sixth layer."""
    hidden = keys.integer("hidden_size")
    layers = layer_count(keys)
    heads = keys.integer("num_attention_heads", default=32, maximum=100_000)
    group = keys.integer("layer_group_size", default=6, maximum=10_000)
    types = _types(keys, layers, (LINEAR,) * (group - 1) + ("full_attention",))
    size = keys.integer("linear_head_dim", default=128, maximum=100_000)
    kernel = keys.integer("short_conv_kernel_size", "linear_conv_kernel_dim", default=4)
    inner = heads * size
    delta, carried = recurrent.kimi_delta(hidden, heads, size, kernel, full_rank_gate=True)
    delta = (
        *(weight for weight in delta if weight.name not in ("decay_down", "decay_up")),
        *linear("decay_projection", Part.RECURRENCE, inner, hidden),
    )
    sizes = latent.latent_sizes(keys, None)
    attention = (
        *latent.projections(keys, sizes),
        *linear("output_gate", Part.ATTENTION, heads, hidden),
    )
    mixture = Mixture(
        experts=("num_experts", "num_local_experts", "n_routed_experts"),
        per_token=("num_experts_per_token", "num_experts_per_tok"),
        shared=("num_shared_experts", "n_shared_experts"),
        default_shared=1,
        correction="buffer",
        layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(2)),
    )
    norms = norm("norm", hidden, copies=2)
    kinds: dict[tuple[bool, str], LayerKind] = {}
    order = []
    for pair in zip(mixture.layers(keys, layers), types, strict=True):
        if pair not in kinds:
            sparse, kind = pair
            weights, mixer = (
                (delta, carried) if kind == LINEAR else (attention, latent_mixer(sizes))
            )
            kinds[pair] = feed_forward(keys, mixture, hidden, sparse, (mixer,), (*weights, *norms))
        order.append(kinds[pair])
    built = finish(
        Keys(
            {"max_position_embeddings": keys.config.get("model_max_length"), **keys.config},
            keys.prefix,
        ),
        order,
        hidden,
        262144,
    )
    last = next(kind for kind in reversed(order) if kind.experts or kind is order[0])
    mtp = Mtp(names=("num_nextn_predict_layers", "num_mtp_layers"), stores_tables=False)
    return replace(built, mtp=mtp_weights(keys, mtp, hidden, built.vocabulary_size, last.weights))


def glm5_next(keys: Keys) -> Architecture:
    """GLM-5 Next: Kimi Delta Attention, indexed latent attention without rotary positions on every fourth layer.

    The indexer scores pools of `index_kpool` tokens; hyper-connections mix the residual streams around each block.
    """
    hidden = keys.integer("hidden_size")
    layers = layer_count(keys)
    types = tuple(
        LINEAR if kind == LINEAR else "indexed_attention"
        for kind in _types(keys, layers, (LINEAR,) * 3 + ("indexed_attention",))
    )
    runs = latent.indexer_layers(keys, layers)
    section = keys.optional_section("linear_attn_config")
    names = ("num_heads", "head_dim", "short_conv_kernel_size")
    if section is None:
        section = keys
        names = ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    delta, carried = recurrent.kimi_delta(
        hidden,
        section.integer(names[0], default=64, maximum=100_000),
        section.integer(names[1], default=128, maximum=100_000),
        section.integer(names[2], default=4, maximum=1000),
    )
    sizes = latent.LatentSizes(
        hidden=hidden,
        heads=keys.integer("num_attention_heads", maximum=100_000),
        query_rank=keys.integer("q_lora_rank", default=1536),
        latent_dim=keys.integer("kv_lora_rank", default=512),
        rope_dim=keys.integer("qk_rope_head_dim", default=0, minimum=0, maximum=0),
        nope_dim=keys.integer("qk_nope_head_dim", default=256),
        value_dim=keys.integer("v_head_dim", default=256),
    )
    indexer = read_indexer(keys)
    pool = keys.integer("index_kpool", default=16, maximum=100_000)
    attention = latent_attention(
        hidden,
        sizes.heads,
        query_rank=sizes.query_rank,
        latent_dim=sizes.latent_dim,
        rope_dim=0,
        nope_dim=sizes.nope_dim,
        value_dim=sizes.value_dim,
        bias=keys.flag("attention_bias", default=False),
    )
    index = (
        *latent.indexer_weights(
            hidden, sizes.query_rank or hidden, indexer.heads, indexer.head_dim
        ),
        *vector("pool_positions", Part.ATTENTION, pool * indexer.head_dim),
        *linear("pool_gate", Part.ATTENTION, indexer.head_dim, hidden, shard=Shard.NONE),
    )
    whole = latent_mixer(sizes, indexer, own=False)
    score = 2.0 * indexer.heads * indexer.head_dim
    # Keys, their pooling gates and a mark are kept per token; pools are scored.
    pooled = Composite(
        "latent_indexed",
        (*whole.streams, CacheStream(2 * indexer.head_dim + 1, 0)),
        (*whole.scores, Score(score, score, stride=pool)),
    )
    streams = keys.integer("hc_mult", default=4, maximum=64)
    mixes: Weights = ()
    count = (2 + streams) * streams
    for name in ("attention_mix", "mlp_mix"):
        mixes += linear(name, Part.NORM, count, streams * hidden, shard=Shard.NONE, dtype="float32")
        mixes += vector(f"{name}_base", Part.NORM, count, dtype="float32")
        mixes += vector(f"{name}_scale", Part.NORM, 3, dtype="float32")
    mixture = Mixture(
        experts=("n_routed_experts", "num_local_experts", "num_experts"),
        shared=("n_shared_experts",),
        default_shared=1,
        correction="buffer",
        layers=mixtures.by_mlp_layer_type(mixtures.after_first_dense(3)),
    )
    kinds: dict[tuple[bool, str, bool], LayerKind] = {}
    order = []
    for sparse, kind, own in zip(mixture.layers(keys, layers), types, runs, strict=True):
        if (sparse, kind, own) not in kinds:
            weights, mixer = delta, carried  # type: tuple[Weights, Mixer]
            if kind != LINEAR:
                weights, mixer = attention, whole
                if own:
                    weights, mixer = attention + index, pooled
            rest = (*weights, *norm("norm", hidden, copies=2), *mixes)
            kinds[sparse, kind, own] = feed_forward(keys, mixture, hidden, sparse, (mixer,), rest)
        order.append(kinds[sparse, kind, own])
    return finish(keys, order, hidden, 1048576)


def lara_mini(keys: Keys) -> Architecture:
    """LaRA mini: gated delta nets, sliding and full attention in turn, experts and an ungated shared one everywhere."""
    hidden = keys.integer("hidden_size")
    layers = layer_count(keys)
    types = _types(
        keys,
        layers,
        (LINEAR, "sliding_attention", LINEAR, "full_attention", "sliding_attention"),
    )
    window = windows.sliding_window(keys, 512)
    weights, cached = self_attention(keys, hidden, kv_heads=4, head_dim=128, head_norms=True)
    delta, carried = recurrent.gated_delta(
        hidden,
        keys.integer("linear_num_key_heads", default=8, maximum=100_000),
        keys.integer("linear_num_value_heads", default=16, maximum=100_000),
        keys.integer("linear_key_head_dim", default=128, maximum=100_000),
        keys.integer("linear_value_head_dim", default=128, maximum=100_000),
        keys.integer("linear_conv_kernel_dim", default=4, maximum=1000),
    )
    mixture = Mixture(shared_width=("shared_expert_intermediate_size",), default_shared=512)
    norms = norm("norm", hidden, copies=2)
    blocks: dict[str, tuple[Weights, Mixer]] = {
        LINEAR: (delta, carried),
        "full_attention": (weights, cached),
        "sliding_attention": (weights, replace(cached, window=window)),
    }
    kinds = {
        name: feed_forward(keys, mixture, hidden, True, (mixer,), (*block, *norms))
        for name, (block, mixer) in blocks.items()
    }
    return finish(keys, [kinds[name] for name in types], hidden, 131072)


def lfm3(keys: Keys) -> Architecture:
    """LFM3: short convolutions, full attention every fourth layer, sliding attention between, norms on both sides."""
    hidden = keys.integer("hidden_size")
    layers = layer_count(keys)
    given = keys.texts("layer_types", length=layers, choices=_KINDS)
    types = given or tuple(
        "full_attention"
        if index % 4 == 2
        else "sliding_attention"
        if index and index % 4 == 0
        else "conv"
        for index in range(layers)
    )
    window = windows.sliding_window(keys, 256)
    weights, cached = self_attention(keys, hidden, kv_heads=4, head_dim=128, head_norms=True)
    if keys.flag("use_attention_gate", default=True):
        weights += linear("output_gate", Part.ATTENTION, cached.heads, hidden)
    short, carried = recurrent.short_convolution(
        hidden,
        keys.integer("conv_L_cache", default=7, maximum=1000),
        bias=keys.flag("conv_bias", default=False),
    )
    wide = keys.integer("intermediate_size")
    copies = 4 if keys.flag("use_sandwich_norm", default=True) else 2
    rest = (*gated_mlp(hidden, wide), *norm("norm", hidden, copies=copies))
    blocks: dict[str, tuple[Weights, Mixer]] = {
        "conv": (short, carried),
        "full_attention": (weights, cached),
        "sliding_attention": (weights, replace(cached, window=window)),
    }
    kinds = {
        name: LayerKind((mixer,), (*block, *rest), feed_forward_width=wide)
        for name, (block, mixer) in blocks.items()
    }
    tied = keys.flag("tie_word_embeddings", default=True)
    settled = Keys({**keys.config, "tie_word_embeddings": tied}, keys.prefix)
    return finish(settled, [kinds[name] for name in types], hidden, 128000)


def zamba(keys: Keys) -> Architecture:
    """Zamba: Mamba layers, some of which first run one transformer block that all of them share.

    Its weights are stored with the first of them; later uses cost its FLOPs and a cache of their own. It attends over
    the residual stream and the embedding side by side.
    """
    hidden, layers = keys.integer("hidden_size"), layer_count(keys)
    inner = keys.integer("mamba_expand", default=2, maximum=1000) * hidden
    rank = keys.config.get("mamba_dt_rank")
    mamba, carried = recurrent.mamba(
        hidden,
        inner,
        keys.integer("mamba_d_state", default=16, maximum=100_000),
        -(-hidden // 16) if rank in (None, "auto") else keys.integer("mamba_dt_rank"),
        keys.integer("mamba_d_conv", default=4, maximum=1000),
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        proj_bias=keys.flag("mamba_proj_bias", default=False),
    )
    wide = keys.integer("intermediate_size", default=14848)
    heads = keys.integer("num_attention_heads", default=16, maximum=100_000)
    kv_heads = keys.integer("num_key_value_heads", default=heads, maximum=heads)
    if heads % kv_heads:
        raise keys.contradiction(
            "num_key_value_heads", "not_divisible", given=heads, divisor=kv_heads
        )
    source = keys.optional_integer("attention_hidden_size") or 2 * hidden
    size = keys.optional_integer("attention_head_dim") or max(1, 2 * hidden // heads)
    projections = grouped_query_attention(source, heads, kv_heads, size)
    block = (
        *(weight for weight in projections if weight.name != "output"),
        *linear("output", Part.ATTENTION, hidden, heads * size, row_parallel=True),
        *gated_mlp(hidden, wide),
        *norm("block_norm", source),
        *norm("norm", hidden),
    )
    plain = (*mamba, *norm("norm", hidden))
    joined = (*plain, *linear("block_output", Part.FEED_FORWARD, hidden, hidden))
    cached = Attention(heads, kv_heads, size, size)
    again = Composite("shared_block", recurrent_flops=linear_flops(block))
    recurring = LayerKind((carried,), plain)
    first = LayerKind((cached, carried), (*block, *joined), feed_forward_width=wide)
    later = LayerKind((cached, carried, again), joined, feed_forward_width=wide)
    order: list[LayerKind] = []
    for name in _zamba_pattern(keys, layers):
        seen = first in order
        order.append((later if seen else first) if name == "hybrid" else recurring)
    tied = keys.flag("tie_word_embeddings", default=True)
    settled = Keys({**keys.config, "tie_word_embeddings": tied}, keys.prefix)
    return finish(settled, order, hidden, 4096)


def _zamba_pattern(keys: Keys, layers: int) -> tuple[str, ...]:
    known = frozenset({"hybrid", "mamba", LINEAR})
    given = keys.texts("layers_block_type", "layer_types", length=layers, choices=known)
    if given is not None:
        return given
    period = keys.integer("attn_layer_period", default=6, maximum=10_000)
    offset = keys.integer("attn_layer_offset", default=4, minimum=0, maximum=10_000)
    rest = ("hybrid" if index % period == offset else LINEAR for index in range(layers))
    return (LINEAR, LINEAR, "hybrid", *rest)[:layers]
