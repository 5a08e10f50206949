"""What vision and audio towers are made of: patch embeddings, encoder layers, projectors, and their work per item.

A tower's matrices follow the tensor parallelism of the language model (the engines' default); patch embeddings,
position tables and norms are kept whole by every rank. Formats that quantise linear layers quantise a tower's too, so
what is a linear layer in the published code is LINEAR here and what is a convolution or a bare parameter is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from planner.architecture.blocks import Weights, gated_mlp, linear, norm, plain_mlp, vector
from planner.architecture.keys import Keys
from planner.architecture.spec import Part, Shape, Weight
from planner.architecture.totals import linear_flops


@dataclass(frozen=True, slots=True)
class Encoder:
    """A tower before its projector.

    Attributes:
        weights: all of its tensors.
        width: of its output.
        positions: it outputs for one item at the default resolution, or None where that depends on the item.
        flops: its work on them (FLOP), or None.
    """

    weights: Weights
    width: int
    positions: int | None = None
    flops: float | None = None


def table(name: str, part: Part, rows: int, columns: int, copies: int = 1) -> Weights:
    """A learned table (positions, tiles): looked up and added, never multiplied."""
    return (Weight(name, part, rows, columns, copies, shape=Shape.TABLE),)


def patches(
    part: Part, width: int, elements: int, *, bias: bool, name: str = "patch_embedding"
) -> Weights:
    """A patch embedding stored as a convolution: `elements` input values (channels × frames × side²) to `width`."""
    weights: Weights = (Weight(name, part, width, elements, shape=Shape.CONVOLUTION),)
    return weights + vector(f"{name}_bias", part, width) if bias else weights


def bare_matrix(name: str, part: Part, rows: int, columns: int) -> Weights:
    """A matrix product whose weight is no linear layer in the published code, so formats leave it as it is."""
    return (Weight(name, part, rows, columns, shape=Shape.CONVOLUTION),)


def encoder_layers(
    part: Part,
    layers: int,
    width: int,
    feed_forward: int,
    *,
    attention_width: int | None = None,
    attention_bias: bool = True,
    key_bias: bool | None = None,
    output_bias: bool | None = None,
    gated: bool = False,
    mlp_bias: bool = True,
    norm_kind: str = "layer",
    norms: int = 2,
) -> Weights:
    """`layers` equal transformer layers: self-attention over all heads, feed-forward and norms.

    Args:
        attention_width: heads × head size where it isn't `width`.
        attention_bias: on query and value; on key and output too unless `key_bias`, `output_bias` say otherwise.
        gated: gate, up and down projections, else up and down.
        norms: normalisations a layer, of kind `norm_kind` ("layer": weight and bias, "rms": weight).
    """
    inner = width if attention_width is None else attention_width
    with_key = attention_bias if key_bias is None else key_bias
    with_output = attention_bias if output_bias is None else output_bias
    mlp = gated_mlp if gated else plain_mlp
    return (
        *linear("query", part, inner, width, bias=attention_bias, copies=layers),
        *linear("key", part, inner, width, bias=with_key, copies=layers),
        *linear("value", part, inner, width, bias=attention_bias, copies=layers),
        *linear("output", part, width, inner, bias=with_output, copies=layers, row_parallel=True),
        *mlp(width, feed_forward, bias=mlp_bias, part=part, copies=layers),
        *norm("norm", width, kind=norm_kind, copies=norms * layers, part=part),
    )


def projector(*widths: int, bias: bool) -> Weights:
    """A projector of linear layers from the first width through the others to the last."""
    weights: Weights = ()
    for index, (columns, rows) in enumerate(pairwise(widths)):
        weights += linear(
            f"projector_{index + 1}",
            Part.PROJECTOR,
            rows,
            columns,
            bias=bias,
            row_parallel=index % 2 == 1,
        )
    return weights


def encoder_flops(
    weights: Weights,
    positions: float,
    *,
    layers: int,
    attention_width: int,
    attended: float | None = None,
) -> float:
    """FLOP of an encoder over its positions: matrix products, and attention of every position to all (`attended`).

    2·N·T + 4·layers·width·T·T: as for a language model, without causality.
    """
    pairs = positions * (positions if attended is None else attended)
    return linear_flops(weights) * positions + 4.0 * layers * attention_width * pairs


def text_width(keys: Keys, default: int) -> int:
    """Width of the language model that a projector ends in: of its section, else of the top level."""
    text = keys.optional_section("text_config", "llm_config") or keys
    return text.integer("hidden_size", default=default)
