"""Decoders from before the Llama shape: learned or ALiBi positions, plain feed-forwards, layer norms with biases.

Each turns its own names into the usual ones and adds what its family has beside. Defaults are those of each model
type's configuration class in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.architecture.adapters.decoder import Traits
from planner.architecture.adapters.decoder import architecture as build
from planner.architecture.adapters.mixtures import Mixture
from planner.architecture.blocks import embedding, linear
from planner.architecture.keys import Keys
from planner.architecture.spec import Architecture, Part, Shard

_GPT_NAMES = {
    "hidden_size": ("n_embd", "hidden_size"),
    "num_attention_heads": ("n_head", "num_attention_heads"),
    "num_hidden_layers": ("n_layer", "num_hidden_layers"),
    "intermediate_size": ("n_inner",),
    "max_position_embeddings": ("n_positions", "max_position_embeddings"),
}
_GPT2 = Traits(
    names=_GPT_NAMES,
    grouped=False,
    reads_head_dim=False,
    max_positions=1024,
    tied=True,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    norm="layer",
    width_over_hidden=4,
    positions=True,
    dtype="float32",
)
_GPTJ = Traits(
    names=_GPT_NAMES,
    grouped=False,
    reads_head_dim=False,
    max_positions=2048,
    mlp_bias=True,
    head_bias=True,
    gated=False,
    norm="layer",
    norms=1,
    width_over_hidden=4,
)
_NEOX = Traits(
    max_positions=2048,
    grouped=False,
    reads_head_dim=False,
    qkv_bias=("attention_bias", True),
    output_bias=("attention_bias", True),
    mlp_bias=True,
    gated=False,
    norm="layer",
)
_BLOOM = Traits(
    names={
        "hidden_size": ("n_embed", "hidden_size"),
        "num_attention_heads": ("n_head", "num_attention_heads"),
        "num_hidden_layers": ("n_layer", "num_hidden_layers"),
        "intermediate_size": ("n_inner",),
        "max_position_embeddings": ("seq_length",),
    },
    grouped=False,
    reads_head_dim=False,
    max_positions=2048,
    tied=True,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    norm="layer",
    width_over_hidden=4,
    embedding_norm=True,
    # Published as BloomModel, and used as language models.
    base_has_head=True,
)
_XGLM = Traits(
    names={
        "hidden_size": ("d_model",),
        "num_attention_heads": ("attention_heads",),
        "num_hidden_layers": ("num_layers",),
        "intermediate_size": ("ffn_dim",),
    },
    grouped=False,
    reads_head_dim=False,
    max_positions=2048,
    tied=True,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    norm="layer",
)
_GPT_NEO = Traits(
    names={
        "num_attention_heads": ("num_heads",),
        "num_hidden_layers": ("num_layers",),
    },
    grouped=False,
    reads_head_dim=False,
    max_positions=2048,
    tied=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    norm="layer",
    width_over_hidden=4,
    positions=True,
    dtype="float32",
)
_OPT = Traits(
    names={"intermediate_size": ("ffn_dim",)},
    grouped=False,
    reads_head_dim=False,
    max_positions=2048,
    tied=True,
    qkv_bias=("enable_bias", True),
    output_bias=("enable_bias", True),
    mlp_bias=("enable_bias", True),
    gated=False,
    norm="layer",
    positions=True,
    # The first two rows of the table are for padding.
    positions_offset=2,
    dtype="float16",
)


def gpt2(keys: Keys) -> Architecture:
    """GPT-2: learned positions, biases throughout."""
    return build(keys, _GPT2)


def gpt_bigcode(keys: Keys) -> Architecture:
    """GPT-BigCode: GPT-2 with one key/value head under `multi_query`."""
    if not keys.flag("multi_query", default=True):
        return build(keys, _GPT2)
    return build(_with(keys, num_key_value_heads=1), replace(_GPT2, grouped=True))


def gptj(keys: Keys) -> Architecture:
    """GPT-J and CodeGen: attention and feed-forward side by side after one norm, a bias on the head."""
    return build(keys, _GPTJ)


def gpt_neox(keys: Keys) -> Architecture:
    """GPT-NeoX and Pythia."""
    return build(keys, _NEOX)


def gpt_neo(keys: Keys) -> Architecture:
    """GPT-Neo. Its local layers mask all but the last 256 tokens, but keep and compute everything all the same."""
    return build(keys, _GPT_NEO)


def bloom(keys: Keys) -> Architecture:
    """BLOOM: ALiBi positions, a norm after the embedding."""
    return build(keys, _BLOOM)


def xglm(keys: Keys) -> Architecture:
    """XGLM: sinusoidal positions, which are computed and not stored."""
    return build(keys, _XGLM)


def opt(keys: Keys) -> Architecture:
    """OPT: a narrower embedding with projections in and out where `word_embed_proj_dim` says so."""
    before = keys.flag("do_layer_norm_before", default=True)
    affine = keys.flag("layer_norm_elementwise_affine", default=True)
    base = build(keys, _OPT if affine else replace(_OPT, norm="none"))
    width = keys.optional_integer("word_embed_proj_dim") or base.hidden_size
    kept = [
        weight
        for weight in base.outer
        if weight.part is Part.POSITION or (weight.part is Part.NORM and before)
    ]
    outer = [*embedding(base.vocabulary_size, width), *kept]
    if width != base.hidden_size:
        outer += linear("project_in", Part.EMBEDDING, base.hidden_size, width, shard=Shard.NONE)
        outer += linear("project_out", Part.HEAD, width, base.hidden_size, shard=Shard.NONE)
    if not base.tied:
        outer += linear("head", Part.HEAD, base.vocabulary_size, width)
    return replace(base, outer=tuple(outer))


def mpt(keys: Keys) -> Architecture:
    """MPT: ALiBi positions, norms without bias; grouped or multi-query attention where `attn_config` says so."""
    attention = keys.optional_section("attn_config")
    heads = keys.integer("n_heads", maximum=100_000)
    kind = attention.text("attn_type", default="") if attention else ""
    kv_heads = {"multiquery_attention": 1}.get(kind, heads)
    if attention and kind == "grouped_query_attention":
        kv_heads = attention.integer("kv_n_heads", maximum=heads)
    biased = not keys.flag("no_bias", default=True)
    traits = Traits(
        names={
            "hidden_size": ("d_model",),
            "num_attention_heads": ("n_heads",),
            "num_hidden_layers": ("n_layers",),
            "max_position_embeddings": ("max_seq_len",),
        },
        reads_head_dim=False,
        max_positions=2048,
        tied=True,
        qkv_bias=biased,
        output_bias=biased,
        mlp_bias=biased,
        gated=False,
        # Weights without biases, as an RMS norm has.
        norm="layer" if biased else "rms",
    )
    width = keys.integer("expansion_ratio", default=4, maximum=64) * keys.integer("d_model")
    return build(_with(keys, num_key_value_heads=kv_heads, intermediate_size=width), traits)


def falcon(keys: Keys) -> Architecture:
    """Falcon: one key/value head under `multi_query` whatever `num_kv_heads` says, except in the new architecture."""
    new = keys.flag("new_decoder_architecture", default=False)
    parallel = keys.flag("parallel_attn", default=True)
    heads = keys.integer("num_attention_heads", "n_head", maximum=100_000)
    if new:
        kv_heads = keys.integer("num_kv_heads", "n_head_kv", default=heads, maximum=heads)
    else:
        kv_heads = 1 if keys.flag("multi_query", default=True) else heads
    norms = keys.optional_integer("num_ln_in_parallel_attn", maximum=2) or (2 if new else 1)
    biased = keys.flag("bias", default=False)
    traits = Traits(
        names={
            "hidden_size": ("n_embed", "hidden_size"),
            "num_attention_heads": ("num_attention_heads", "n_head"),
            "num_hidden_layers": ("num_hidden_layers", "n_layer"),
            "intermediate_size": ("ffn_hidden_size",),
        },
        reads_head_dim=False,
        max_positions=2048,
        tied=True,
        qkv_bias=biased,
        output_bias=biased,
        mlp_bias=biased,
        gated=False,
        norm="layer",
        norms=norms if parallel else 2,
        width_over_hidden=4,
    )
    return build(_with(keys, num_key_value_heads=kv_heads), traits)


def dbrx(keys: Keys) -> Architecture:
    """DBRX: sizes in nested sections, norms without bias, experts on every layer."""
    attention, experts = keys.section("attn_config"), keys.section("ffn_config")
    traits = Traits(
        names={
            "hidden_size": ("d_model",),
            "num_attention_heads": ("n_heads",),
            "num_hidden_layers": ("n_layers",),
            "max_position_embeddings": ("max_seq_len",),
        },
        reads_head_dim=False,
        mixture=Mixture(),
    )
    flat = _with(
        keys,
        num_key_value_heads=attention.integer("kv_n_heads", maximum=100_000),
        num_experts=experts.integer("moe_num_experts", maximum=100_000),
        num_experts_per_tok=experts.integer("moe_top_k", maximum=100_000),
        moe_intermediate_size=experts.integer("ffn_hidden_size"),
    )
    return build(flat, traits)


def _with(keys: Keys, **values: Any) -> Keys:
    """The same configuration with some keys stated under their usual names."""
    return Keys({**keys.config, **values}, keys.prefix)
