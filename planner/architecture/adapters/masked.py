"""BERT and its kin with a head over the vocabulary, as a causal decoder or a masked language model is published.

Without a head (an embedding model) they're described in `encoder`. A checkpoint is a decoder, with causal attention and
a cache, where its configuration says `is_decoder`; otherwise every token sees every other and nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.architecture.adapters import encoder, windows
from planner.architecture.adapters.common import (
    assemble,
    is_headless,
    layer_count,
    max_context_of,
)
from planner.architecture.blocks import (
    Weights,
    embedding,
    gated_mlp,
    grouped_query_attention,
    head,
    linear,
    norm,
    plain_mlp,
    positions,
    vector,
)
from planner.architecture.keys import MAX_CONTEXT, Keys
from planner.architecture.mixers import Attention, CrossAttention, Mixer
from planner.architecture.spec import Architecture, LayerKind, Part, Shape, Shard, Weight

_ALSO_ENCODERS = frozenset({"bert", "roberta", "xlm-roberta", "camembert"})
_LANGUAGE_MODELS = ("LMHeadModel", "ForCausalLM", "GenerationDecoder")


@dataclass(frozen=True, slots=True)
class _Family:
    """What these models differ in.

    Attributes:
        offset: rows of the position table before the first token's.
        types: rows of the token-type table where the configuration doesn't say; 0 for no table.
        embedding_norm: a norm after the embedding.
        final_norm: a norm after the last layer, where layers norm their input.
        transform: a square layer and a norm before the head; False: the head alone.
        embedding_size: the key of a narrower embedding, or "".
    """

    offset: int = 0
    types: int = 2
    embedding_norm: bool = True
    final_norm: bool = False
    transform: bool = True
    embedding_size: str = ""


_FAMILIES: dict[str, _Family] = {
    "bert": _Family(),
    "bert-generation": _Family(types=0, transform=False),
    "big_bird": _Family(),
    "blip_text_model": _Family(types=0),
    "camembert": _Family(offset=2),
    "data2vec-text": _Family(offset=2),
    "electra": _Family(embedding_size="embedding_size"),
    "ernie": _Family(),
    "megatron-bert": _Family(embedding_norm=False, final_norm=True),
    "rembert": _Family(embedding_size="input_embedding_size"),
    "roberta": _Family(offset=2),
    "roberta-prelayernorm": _Family(offset=2, final_norm=True),
    "roc_bert": _Family(),
    "roformer": _Family(embedding_size="embedding_size"),
    "xlm-roberta": _Family(offset=2),
    "xlm-roberta-xl": _Family(offset=2, types=1, embedding_norm=False, final_norm=True),
    "xmod": _Family(offset=2),
}


def bert_like(keys: Keys) -> Architecture:
    """BERT-like models: with a head where the checkpoint's class has one, else as an encoder."""
    model_type = keys.text("model_type")
    names = keys.texts("architectures") or ()
    causal = keys.flag("is_decoder", default=model_type == "blip_text_model")
    headed = causal or any(name.endswith(_LANGUAGE_MODELS) for name in names)
    if model_type in _ALSO_ENCODERS and not headed:
        return encoder.bert(keys)
    family = _FAMILIES[model_type]
    hidden = keys.integer("hidden_size", default=768)
    heads = keys.integer("num_attention_heads", default=12, maximum=100_000)
    wide = keys.integer("intermediate_size", default=4 * hidden)
    layers = layer_count(keys)
    crossing = keys.flag("add_cross_attention", default=model_type == "blip_text_model")
    if hidden % heads:
        raise keys.contradiction("hidden_size", "not_divisible", given=hidden, divisor=heads)
    size = hidden // heads
    attention = grouped_query_attention(
        hidden, heads, heads, size, query_bias=True, kv_bias=True, output_bias=True
    )
    weights = (
        *attention,
        *plain_mlp(hidden, wide, bias=True),
        *norm("norm", hidden, kind="layer", copies=2),
        *_adapters(keys, model_type, hidden),
    )
    mixers: tuple[Mixer, ...] = (Attention(heads, heads, size, size, None, False, causal, causal),)
    if crossing:
        weights += encoder_attention(keys, hidden, heads, size)
        mixers += (CrossAttention(heads, heads, size, size, 0),)
    role = "decoder" if causal else encoder.ENCODER
    kind = LayerKind(mixers, weights, feed_forward_width=wide, role=role)
    vocabulary = keys.integer("vocab_size")
    rows = keys.integer("max_position_embeddings", default=512, maximum=MAX_CONTEXT)
    tied = keys.flag("tie_word_embeddings", default=model_type != "rembert")
    narrow = keys.integer(family.embedding_size) if family.embedding_size else hidden
    return assemble(
        keys,
        (kind,) * layers,
        (
            *_embeddings(keys, model_type, family, hidden, narrow, vocabulary, rows),
            *(norm("final_norm", hidden, kind="layer") if family.final_norm else ()),
            *_head(keys, model_type, family, hidden, narrow, vocabulary, tied),
        ),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max(1, rows - family.offset),
        default_dtype="float32",
    )


def encoder_attention(keys: Keys, hidden: int, heads: int, size: int) -> Weights:
    """Attention to another encoder's output (`encoder_hidden_size` wide) and its norm."""
    source = keys.integer("encoder_hidden_size", default=hidden)
    part = Part.ATTENTION
    return (
        *linear("cross_query", part, heads * size, hidden, bias=True),
        *linear("cross_key", part, heads * size, source, bias=True),
        *linear("cross_value", part, heads * size, source, bias=True),
        *linear("cross_output", part, hidden, heads * size, bias=True, row_parallel=True),
        *norm("cross_norm", hidden, kind="layer"),
    )


def _embeddings(
    keys: Keys,
    model_type: str,
    family: _Family,
    hidden: int,
    narrow: int,
    vocabulary: int,
    rows: int,
) -> Weights:
    weights = embedding(vocabulary, narrow)
    if model_type == "roformer":
        heads = keys.integer("num_attention_heads", default=12, maximum=100_000)
        weights += positions(rows, hidden // heads)
    else:
        weights += positions(rows, narrow)
    types = keys.integer("type_vocab_size", default=family.types, minimum=0) if family.types else 0
    if types:
        weights += (_table("token_types", types, narrow),)
    if model_type == "ernie" and keys.flag("use_task_id", default=False):
        weights += (_table("task_types", keys.integer("task_type_vocab_size", default=3), narrow),)
    if model_type == "roc_bert":
        weights += _sound_and_shape(keys, hidden)
    if family.embedding_norm:
        weights += norm("embedding_norm", narrow, kind="layer")
    if narrow != hidden:
        weights += linear("embedding_projection", Part.EMBEDDING, hidden, narrow, bias=True)
    if model_type == "big_bird":
        weights += linear("pooler", Part.FEED_FORWARD, hidden, hidden, bias=True, shard=Shard.NONE)
    return weights


def _sound_and_shape(keys: Keys, hidden: int) -> Weights:
    """RoCBERT's tables of how a character sounds and looks, joined with its meaning by one layer."""
    weights: Weights = ()
    joined = hidden
    for name, used, size, rows in (
        ("pronunciation", "enable_pronunciation", 768, 910),
        ("shape", "enable_shape", 512, 24858),
    ):
        if keys.flag(used, default=True):
            width = keys.integer(f"{name}_embed_dim", default=size)
            weights += (_table(name, keys.integer(f"{name}_vocab_size", default=rows), width),)
            joined += width
    if keys.flag("concat_input", default=True):
        weights += linear("joined_embeddings", Part.EMBEDDING, hidden, joined, bias=True)
    return weights


def _table(name: str, rows: int, width: int) -> Weight:
    return Weight(name, Part.EMBEDDING, rows, width, shape=Shape.TABLE)


def _head(
    keys: Keys,
    model_type: str,
    family: _Family,
    hidden: int,
    narrow: int,
    vocabulary: int,
    tied: bool,
) -> Weights:
    """The transform before the head, the head where it isn't the embedding again, and its bias."""
    width = narrow
    if model_type == "rembert":
        width = keys.integer("output_embedding_size", default=1664)
    weights: Weights = ()
    if family.transform:
        weights += linear("head_dense", Part.HEAD, width, hidden, bias=True, shard=Shard.NONE)
        weights += norm("head_norm", width, kind="layer")
    if not tied:
        return weights + head(vocabulary, width, bias=True)
    return weights + vector("head_bias", Part.HEAD, vocabulary, shard=Shard.EVEN)


def _adapters(keys: Keys, model_type: str, hidden: int) -> Weights:
    """X-MOD's bottleneck for each language, of which a text uses one."""
    if model_type != "xmod":
        return ()
    languages = len(keys.texts("languages") or ("en_XX",))
    factor = keys.number("adapter_reduction_factor", default=2, minimum=0.01, maximum=1000.0)
    inner = max(1, int(hidden // factor))
    part = Part.FEED_FORWARD
    weights = (
        *linear("adapter_down", part, inner, hidden, bias=True, copies=languages),
        *linear("adapter_up", part, hidden, inner, bias=True, copies=languages),
    )
    if keys.flag("adapter_layer_norm", default=False):
        weights += norm("adapter_norm", hidden, kind="layer")
    return weights


def modernbert_decoder(keys: Keys) -> Architecture:
    """ModernBERT's decoder: bias-free gated layers, two of three with a window, a dense layer before the tied head.

    The window reaches `local_attention` / 2 back, where the encoder's looks half to each side.
    """
    hidden = keys.integer("hidden_size", default=768)
    heads = keys.integer("num_attention_heads", default=12, maximum=100_000)
    wide = keys.integer("intermediate_size", default=1152)
    vocabulary = keys.integer("vocab_size", default=50_368)
    layers = layer_count(keys)
    if hidden % heads:
        raise keys.contradiction("hidden_size", "not_divisible", given=hidden, divisor=heads)
    size = hidden // heads
    kind_of_norm = "layer" if keys.flag("norm_bias", default=False) else "rms"
    bias = keys.flag("attention_bias", default=False)
    half = keys.integer("local_attention", default=128, minimum=2, maximum=MAX_CONTEXT) // 2
    block = (
        *grouped_query_attention(
            hidden, heads, heads, size, query_bias=bias, kv_bias=bias, output_bias=bias
        ),
        *gated_mlp(hidden, wide, bias=keys.flag("mlp_bias", default=False)),
    )
    order = []
    kinds: dict[tuple[int | None, bool], LayerKind] = {}
    for index, window in enumerate(windows.by_layer_type(half, windows.starting(3))(keys, layers)):
        first = index == 0  # the norm after the embedding serves the first layer's attention too
        if (window, first) not in kinds:
            kinds[window, first] = LayerKind(
                (Attention(heads, heads, size, size, window),),
                (*block, *norm("norm", hidden, kind=kind_of_norm, copies=2 - first)),
                feed_forward_width=wide,
            )
        order.append(kinds[window, first])
    tied = keys.flag("tie_word_embeddings", default=True)
    headless = is_headless(keys)
    outer = (
        *embedding(vocabulary, hidden),
        *norm("embedding_norm", hidden, kind=kind_of_norm),
        *norm("final_norm", hidden, kind=kind_of_norm),
    )
    if not headless:
        biased = keys.flag("classifier_bias", default=False)
        outer += linear("head_dense", Part.HEAD, hidden, hidden, bias=biased, shard=Shard.NONE)
        outer += norm("head_norm", hidden, kind=kind_of_norm)
        if not tied:
            outer += head(vocabulary, hidden)
        if keys.flag("decoder_bias", default=True):
            outer += vector("head_bias", Part.HEAD, vocabulary, shard=Shard.EVEN)
    return assemble(
        keys,
        order,
        outer,
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        max_context_tokens=max_context_of(keys, default=8192),
        default_dtype="float32",
        has_head=not headless,
        modality="embedding" if headless else "text",
    )
