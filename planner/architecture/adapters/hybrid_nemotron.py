"""Nemotron-H and Nemotron 3: single-mixer layers (Mamba-2, attention, feed-forward, experts) in a stated order."""

from __future__ import annotations

from collections.abc import Callable

from planner.architecture import recurrent
from planner.architecture.adapters.common import assemble, outer_weights
from planner.architecture.adapters.hybrid_parts import (
    ATTENTION,
    MLP,
    MOE,
    RECURRENT,
    layer_pattern,
    self_attention,
)
from planner.architecture.blocks import (
    Weights,
    gated_mlp,
    linear,
    norm,
    plain_mlp,
    vector,
    with_part,
)
from planner.architecture.keys import MAX_EXPERTS, MAX_LAYERS, Keys
from planner.architecture.spec import Architecture, LayerKind, Part, Shard

Build = Callable[[Keys, int], LayerKind]

_LETTERS = {"M": RECURRENT, "*": ATTENTION, "-": MLP, "E": MOE}


def nemotron_h(keys: Keys) -> Architecture:
    """Nemotron-H: every layer is one norm and one of four blocks; experts may work on a narrower latent."""
    hidden, vocabulary = keys.integer("hidden_size"), keys.integer("vocab_size")
    pattern = _pattern(keys, ("layer_types", "layers_block_type"), "hybrid_override_pattern", None)
    if not pattern or len(pattern) > MAX_LAYERS:
        raise keys.contradiction("layers_block_type", "list_length", given=len(pattern or ()))
    stated = keys.optional_integer("num_hidden_layers", maximum=MAX_LAYERS)
    if stated is not None and stated != len(pattern):
        raise keys.contradiction(
            "num_hidden_layers", "list_length", expected=len(pattern), given=stated
        )
    build: dict[str, Build] = {
        RECURRENT: _mamba,
        ATTENTION: _attention,
        MLP: _feed_forward,
        MOE: _experts,
    }
    kinds = {name: build[name](keys, hidden) for name in dict.fromkeys(pattern)}
    tied = keys.flag("tie_word_embeddings", default=False)
    return assemble(
        keys,
        [kinds[name] for name in pattern],
        outer_weights(hidden, vocabulary, tied=tied),
        hidden=hidden,
        vocabulary=vocabulary,
        tied=tied,
        mtp=_mtp(keys, hidden, build),
    )


def _pattern(
    keys: Keys, names: tuple[str, ...], letters: str, default: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """The order of layers, as a list or as one letter each."""
    given = layer_pattern(keys, *names)
    if given is not None or not keys.has(letters):
        return given or default
    text = keys.config[letters]
    if not isinstance(text, str) or any(letter not in _LETTERS for letter in text):
        raise keys.contradiction(letters, "unknown_layer_type", expected="".join(_LETTERS))
    return tuple(_LETTERS[letter] for letter in text)


def _mamba(keys: Keys, hidden: int) -> LayerKind:
    sizes = recurrent.StateSpace(
        keys.integer("mamba_num_heads", default=128, maximum=100_000),
        keys.integer("mamba_head_dim", default=64, maximum=100_000),
        keys.integer("ssm_state_size", default=128, maximum=100_000),
        keys.integer("n_groups", "mamba_n_groups", default=8, maximum=100_000),
        keys.integer("conv_kernel", "mamba_d_conv", default=4, maximum=1000),
    )
    weights, mixer = recurrent.mamba2(
        hidden,
        sizes,
        conv_bias=keys.flag("use_conv_bias", "mamba_conv_bias", default=True),
        proj_bias=keys.flag("use_bias", default=False),
    )
    return LayerKind((mixer,), (*weights, *norm("norm", hidden)))


def _attention(keys: Keys, hidden: int) -> LayerKind:
    weights, mixer = self_attention(keys, hidden, kv_heads=8, head_dim=128, bias=False)
    return LayerKind((mixer,), (*weights, *norm("norm", hidden)))


def _feed_forward(keys: Keys, hidden: int) -> LayerKind:
    wide = keys.integer("intermediate_size", default=21504)
    weights = plain_mlp(hidden, wide, bias=keys.flag("mlp_bias", default=False))
    return LayerKind((), (*weights, *norm("norm", hidden)), feed_forward_width=wide)


def _experts(keys: Keys, hidden: int) -> LayerKind:
    experts = keys.integer("n_routed_experts", default=8, maximum=MAX_EXPERTS)
    chosen = keys.integer("num_experts_per_tok", default=2, maximum=experts)
    wide = keys.integer("moe_intermediate_size", default=7688)
    latent = keys.optional_integer("moe_latent_size")
    shared = keys.integer("moe_shared_expert_intermediate_size", default=7688, minimum=0)
    biased = keys.flag("mlp_bias", default=False)
    weights = (
        *routed_experts(hidden, latent or hidden, experts, wide, gated=False),
        *(latent_projections(hidden, latent, bias=biased) if latent else ()),
    )
    if shared:
        weights += plain_mlp(hidden, shared, bias=biased, part=Part.SHARED_EXPERTS)
    return LayerKind((), (*weights, *norm("norm", hidden)), experts, chosen, chosen * wide + shared)


def routed_experts(hidden: int, latent: int, experts: int, width: int, *, gated: bool) -> Weights:
    """A router on the hidden state, with its score correction, and bias-free experts on `latent` features."""
    mlp = gated_mlp if gated else plain_mlp
    return (
        *linear("router", Part.ROUTER, experts, hidden, shard=Shard.NONE),
        *vector("router_correction", Part.ROUTER, experts, dtype="float32", buffer=True),
        *mlp(latent, width, part=Part.EXPERTS, copies=experts, shard=Shard.EXPERTS),
    )


def latent_projections(hidden: int, latent: int, *, bias: bool = False) -> Weights:
    """Projections into the experts' latent and out of it, whole on every rank; every token passes through both."""
    part = Part.SHARED_EXPERTS
    return (
        *linear("latent_down", part, latent, hidden, bias=bias, shard=Shard.NONE),
        *linear("latent_up", part, hidden, latent, bias=bias, shard=Shard.NONE),
    )


def _mtp(keys: Keys, hidden: int, build: dict[str, Build]) -> Weights:
    """Prediction layers: a joint projection with two norms, the blocks of one pattern, and a final norm."""
    count = keys.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=100)
    if not count:
        return ()
    names = _pattern(
        keys, ("mtp_layers_block_type",), "mtp_hybrid_override_pattern", (ATTENTION, MOE)
    )
    weights = (
        *linear("joint_projection", Part.MTP, hidden, 2 * hidden, shard=Shard.NONE),
        *norm("mtp_norm", hidden, copies=3),
    )
    for name in names or ():
        weights += build[name](keys, hidden).weights
    return with_part(weights, Part.MTP) * count
