"""What every adapter reads alike: storage type, context length, quantisation, and putting the architecture together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.architecture.blocks import Weights, embedding, head, norm, vector
from planner.architecture.keys import MAX_CONTEXT, MAX_LAYERS, REQUIRED, Keys, shown
from planner.architecture.spec import Architecture, LayerKind, Part, Shard, Weight
from planner.errors import InvalidConfig

DTYPES = frozenset({"float32", "float16", "bfloat16"})
Flag = bool | tuple[str, bool]
"""Always so, or the key that says, with what the configuration class takes where the key is absent."""
_HEADLESS = ("Model", "ForSequenceClassification", "ForTokenClassification")
# Rope scalings that leave `max_position_embeddings` as it is: the length they reach is already in it.
_LENGTH_INCLUDED = frozenset({"default", "llama3", "su", "longrope", "mrope", "proportional"})


def flag(keys: Keys, value: Flag) -> bool:
    """A trait that is fixed, or that a key states."""
    return value if isinstance(value, bool) else keys.flag(value[0], default=value[1])


def layer_count(keys: Keys, name: str = "num_hidden_layers", *aliases: str) -> int:
    """Number of layers, at least one."""
    return keys.integer(name, *aliases, maximum=MAX_LAYERS)


def dtype_of(keys: Keys, default: str = "bfloat16") -> tuple[str, bool]:
    """Storage type of the checkpoint's unquantised weights, and whether the configuration states it.

    `dtype` or `torch_dtype`; `default` where neither says.

    Raises:
        InvalidConfig: for a type that no checkpoint is stored in.
    """
    if not keys.has("dtype", "torch_dtype"):
        return default, False
    given = keys.text("dtype", "torch_dtype").removeprefix("torch.")
    if given == "auto":
        return default, False
    if given not in DTYPES:
        raise InvalidConfig(
            "config_key_type",
            key=keys.path("dtype" if keys.has("dtype") else "torch_dtype"),
            expected=", ".join(sorted(DTYPES)),
            given=shown(given),
        )
    return given, True


def max_context_of(
    keys: Keys,
    name: str = "max_position_embeddings",
    *aliases: str,
    default: int | None = None,
    scaled: bool = True,
) -> int:
    """Longest context by the rule that engines derive their default from: positions × rope scaling factor (tokens).

    Under "yarn" the factor applies to `original_max_position_embeddings` where that's given, under "linear", "dynamic"
    and other scalings to the positions themselves; "llama3", "longrope" and unscaled rotary positions have the length
    in `max_position_embeddings` already. With a rope per layer type, the longest counts.

    Args:
        default: positions where the key is absent; None raises.
        scaled: False where the positions already include the scaling.

    References:
        vLLM, config/model.py, `_get_and_verify_max_len`.
    """
    positions = keys.integer(
        name, *aliases, default=REQUIRED if default is None else default, maximum=MAX_CONTEXT
    )
    section = keys.optional_section("rope_scaling") or keys.optional_section("rope_parameters")
    if section is None or not scaled:
        return positions
    nested = [
        section.section(key)
        for key, value in section.config.items()
        if isinstance(value, Mapping) and value
    ]
    return max(_scaled_positions(positions, rope) for rope in nested or [section])


def _scaled_positions(positions: int, rope: Keys) -> int:
    kind = rope.text("rope_type", "type", default="default")
    if kind in _LENGTH_INCLUDED or not rope.has("factor"):
        return positions
    factor = rope.number("factor", minimum=1e-3, maximum=1e6)
    if "yarn" in kind:
        positions = rope.integer(
            "original_max_position_embeddings", default=positions, maximum=MAX_CONTEXT
        )
    return max(1, int(positions * factor))


def quantization_of(keys: Keys) -> dict[str, Any] | None:
    """The checkpoint's `quantization_config` as plain data, or None."""
    section = keys.optional_section("quantization_config", "compression_config")
    if section is None:
        return None
    # DeepSeek-V4 states its experts' own type beside the section that the rest is described by.
    beside = {"expert_dtype": keys.text("expert_dtype")} if keys.has("expert_dtype") else {}
    return {**beside, **section.config}


def _state_dtype(keys: Keys) -> str | None:
    """The type that a configuration states for recurrent state; None for none, or what engines take for none."""
    stated = keys.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype", default="auto")
    return stated if stated in ("float32", "bfloat16", "float16") else None


def is_headless(keys: Keys) -> bool:
    """Whether the checkpoint has no projection to logits: `architectures` names base models or classifiers only."""
    names = keys.texts("architectures") or ()
    return bool(names) and all(
        name.endswith(_HEADLESS) and not name.endswith("LMHeadModel") for name in names
    )


def group(kinds_in_order: Sequence[LayerKind]) -> tuple[tuple[LayerKind, ...], tuple[int, ...]]:
    """Distinct layer kinds in order of appearance, and the index of each layer's kind."""
    index_of: dict[LayerKind, int] = {}
    order = tuple(index_of.setdefault(kind, len(index_of)) for kind in kinds_in_order)
    return tuple(index_of), order


def outer_weights(
    hidden: int,
    vocabulary: int,
    *,
    tied: bool,
    final_norm: str = "rms",
    head_bias: bool = False,
    extra: Weights = (),
) -> Weights:
    """Embedding, whatever is `extra`, final norm, and the head where it isn't the embedding again."""
    weights: list[Weight] = [*embedding(vocabulary, hidden), *extra]
    weights += norm("final_norm", hidden, kind=final_norm)
    if not tied:
        weights += head(vocabulary, hidden, bias=head_bias)
    elif head_bias:
        weights += vector("head_bias", Part.HEAD, vocabulary, shard=Shard.EVEN)
    return tuple(weights)


def assemble(
    keys: Keys,
    layers: Sequence[LayerKind],
    outer: Weights,
    *,
    hidden: int,
    vocabulary: int,
    tied: bool,
    max_context_tokens: int | None = None,
    mtp: Weights = (),
    default_dtype: str = "bfloat16",
    has_head: bool = True,
    modality: str = "text",
    notes: tuple[str, ...] = (),
) -> Architecture:
    """An architecture from its layers in order; what the arguments leave open is read from `keys`.

    Where the configuration doesn't state a storage type, `default_dtype` is taken and the note `dtype_assumed` added.
    """
    kinds, order = group(layers)
    dtype, stated = dtype_of(keys, default_dtype)
    return Architecture(
        model_type=keys.text("model_type"),
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        layer_kinds=kinds,
        layer_order=order,
        outer=outer,
        tied=tied,
        max_context_tokens=(
            max_context_of(keys) if max_context_tokens is None else max_context_tokens
        ),
        dtype=dtype,
        has_head=has_head,
        mtp=mtp,
        quantization=quantization_of(keys),
        state_dtype=_state_dtype(keys),
        modality=modality,
        notes=notes if stated else (*notes, "dtype_assumed"),
    )
