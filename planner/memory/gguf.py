"""Sizes of GGUF models by llama.cpp's own rules: which tensor gets which type under a file type such as Q4_K_M.

llama-quantize mixes types: some layers' value and feed-forward down projections get more bits, the output table gets
its own type, norms and routers stay in FP32, and a row that doesn't divide into blocks falls back to another type.
Vision and audio towers aren't in the file (they are an mmproj file of their own), nor are MTP layers by default. Types
below three bits and IQ3 are as made with an importance matrix, which they need; IQ4 and the rest as made without (with
one, IQ4 is 0.8 % smaller).

References:
    llama.cpp, src/llama-quant.cpp at 007dbbf (2026): type per tensor, fallbacks, which tensors stay;
    convert_hf_to_gguf.py: what is FP32 whatever the output type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from planner.architecture.mixers import Attention, LatentAttention
from planner.architecture.module_paths import original_part
from planner.architecture.quantization import WeightEncodings, assign, checkpoint_scheme
from planner.architecture.spec import Architecture, Part, Shape, Weight
from planner.catalog.encodings import Encoding
from planner.catalog.formats import gguf_block_elements, gguf_encoding, weight_format

# Families whose GGUF keeps query, key and value as one tensor, which then counts as a value projection.
_FUSED_QKV = frozenset(
    {
        *("bloom", "chatglm", "dbrx", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "jais"),
        *("mpt", "persimmon", "phi3", "qwen"),
    }
)
# Families with a size that llama.cpp calls 70B: 80 layers, grouped-query attention.
_70B = frozenset({"llama", "qwen2", "qwen2_vl", "qwen2_5_vl", "deci"})
_FALLBACK = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S"), "IQ4_NL"),
    **dict.fromkeys(("IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    **dict.fromkeys(("Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}
_LOWEST = frozenset({"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M"})
_WIDER_LOW = frozenset({"IQ2_S", "IQ2_M"})
_PLAIN = frozenset({"F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class Geometry:
    """What the rules ask of a model.

    Attributes:
        experts: routed experts per layer, 0 for a dense model.
        group: query heads per key/value head.
        large: what llama.cpp calls a 70B model.
        order_of_values: by layer, its index among the layers that have a value (or fused) projection.
    """

    layers: int
    experts: int
    group: int
    large: bool
    fused: bool
    falcon: bool
    tied: bool
    order_of_values: tuple[int, ...]
    values: int


@lru_cache(maxsize=512)
def geometry(architecture: Architecture) -> Geometry:
    """The model's figures that decide types; a latent attention counts as one key/value head."""
    group = 1
    for kind in architecture.layer_kinds:
        for mixer in kind.mixers:
            if isinstance(mixer, (Attention, LatentAttention)):
                kv_heads = mixer.kv_heads if isinstance(mixer, Attention) else 1
                group = max(group, mixer.heads // kv_heads)
    has_value = [
        any(_is_value(weight) for weight in kind.weights) for kind in architecture.layer_kinds
    ]
    order, count = [], 0
    for index in architecture.layer_order:
        order.append(count)
        count += has_value[index]
    layers = architecture.layers
    family = architecture.model_type.removesuffix("_text")
    return Geometry(
        layers=layers,
        experts=max(kind.experts for kind in architecture.layer_kinds),
        group=group,
        large=layers == 80 and group > 1 and family in _70B,
        fused=family in _FUSED_QKV,
        falcon=family == "falcon",
        tied=architecture.tied,
        order_of_values=tuple(order),
        values=count,
    )


def _is_value(weight: Weight) -> bool:
    attention = weight.part is Part.ATTENTION and weight.name in ("value", "query_key_value")
    return attention or (weight.part is Part.RECURRENCE and weight.name == "query_key")


@lru_cache(maxsize=1024)
def gguf_encodings(architecture: Architecture, file_type: str) -> WeightEncodings:
    """The tensor type of every weight in a GGUF of this file type; a checkpoint's MXFP4 experts stay as they are.

    Args:
        file_type: llama-quantize's name ("Q4_K_M").

    Raises:
        UnknownItem: for another name.
        Unsupported: where the checkpoint itself is stored by an unknown method.
    """
    format_ = weight_format(f"gguf:{file_type}")
    assert format_.encoding is not None  # every file type has a main tensor type
    main = format_.encoding.format_id.removeprefix("gguf:")
    shape = geometry(architecture)
    scheme = checkpoint_scheme(architecture)
    keeps_experts = scheme is not None and scheme.method == "mxfp4"
    latent = next(
        (
            mixer
            for kind in architecture.layer_kinds
            for mixer in kind.mixers
            if isinstance(mixer, LatentAttention)
        ),
        None,
    )

    def choose(weight: Weight, layer: int | None, layers: int, beside: bool) -> Encoding | None:
        del layers, beside
        part = original_part(weight)
        if part in (Part.ROUTER, Part.NORM, Part.POSITION) or weight.shape in (
            Shape.VECTOR,
            Shape.CONVOLUTION,
        ):
            return gguf_encoding("F32")
        if keeps_experts and part is Part.EXPERTS:
            return gguf_encoding("MXFP4")
        if main in _PLAIN:
            return gguf_encoding(main)
        if weight.name == "value_and_gate":  # half of it lies in the fused projection
            kinds = [_type(shape, format_.gguf_type, main, role, layer) for role in ("value", "")]
            return _mixed([(one, weight.columns, 0.5) for one in kinds])
        role = _role(shape, part, weight)
        kind = _type(shape, format_.gguf_type, main, role, layer)
        if weight.name == "kv_up" and latent is not None:
            # Two tensors: keys in rows of the head's own width, values in rows of the latent.
            keys = latent.nope_dim / (latent.nope_dim + latent.value_dim)
            return _mixed([(kind, latent.nope_dim, keys), (kind, weight.columns, 1.0 - keys)])
        return _mixed([(kind, weight.columns, 1.0)])

    return assign(architecture, choose)


def _mixed(shares: list[tuple[str, int, float]]) -> Encoding:
    """One encoding for a weight stored as several tensors: (type, row length, share of the weights) of each."""
    encodings = [
        (gguf_encoding(fitting_type(kind, columns)), share) for kind, columns, share in shares
    ]
    if len({encoding for encoding, _ in encodings}) == 1:
        return encodings[0][0]
    return replace(encodings[0][0], bits=sum(one.bits * share for one, share in encodings))


def fitting_type(tensor_type: str, columns: int) -> str:
    """The type that a row of this length gets: another one where it doesn't divide into blocks."""
    if columns % gguf_block_elements(tensor_type) == 0:
        return tensor_type
    smaller = _FALLBACK.get(tensor_type, "F16")
    return smaller if columns % gguf_block_elements(smaller) == 0 else "F16"


def _role(shape: Geometry, part: Part, weight: Weight) -> str:
    """The rules' name for a tensor: "output", "embedding", "value", "key", "query", "attention_output", "down",
    "gate", "up", or "" for one without a rule of its own.
    """
    if part is Part.HEAD:
        return "output"
    if part is Part.EMBEDDING:
        return "output" if shape.tied else "embedding"
    if part in (Part.FEED_FORWARD, Part.EXPERTS, Part.SHARED_EXPERTS):
        return weight.name if weight.name in ("down", "gate", "up") else ""
    if _is_value(weight):
        return "value"
    if part is not Part.ATTENTION:
        return ""
    if weight.name in ("query", "key"):
        return "value" if shape.fused else weight.name
    return "attention_output" if weight.name == "output" else ""


def _more_bits(index: int, count: int) -> bool:
    """The first and last eighth of the layers, and every third between."""
    eighth = count // 8
    return index < eighth or index >= 7 * count // 8 or (index - eighth) % 3 == 2


def _type(shape: Geometry, file: str, main: str, role: str, layer: int | None) -> str:
    """The tensor type before fallbacks."""
    if file == "MXFP4":
        return "MXFP4" if role in ("down", "gate", "up") and shape.experts else "Q8_0"
    if role == "output":
        if shape.falcon or main == "Q8_0":
            return "Q8_0"
        return "Q5_K" if file in _LOWEST or file == "IQ3_XXS" else "Q6_K"
    if role == "embedding":
        return _embedding_type(file, main)
    if layer is None:
        return main
    if role == "value":
        return _value_type(shape, file, main, layer)
    if file in _LOWEST:
        return _low_bit_type(shape, file, main, role, layer)
    if role == "key" and shape.experts == 8:
        return "Q8_0"
    if role in ("key", "query"):
        return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(file, main)
    if role == "down":
        return _down_type(shape, file, main, layer)
    if role == "attention_output":
        return _attention_output_type(shape, file, main)
    middle = shape.layers // 8 <= layer < 7 * shape.layers // 8
    if role in ("gate", "up") and file == "IQ3_XS" and middle:
        return "IQ3_XXS"
    return main


def _embedding_type(file: str, main: str) -> str:
    if file in ("IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"):
        return "Q2_K"
    if file in ("IQ2_S", "IQ2_M", "IQ3_XXS"):
        return "IQ3_S"
    return "Q4_K" if file in ("TQ1_0", "TQ2_0") else main


def _low_bit_type(shape: Geometry, file: str, main: str, role: str, layer: int) -> str:
    """Below three bits: everything but values, which have their own rule."""
    wider = "IQ3_S" if file in _WIDER_LOW else "Q2_K"
    if role == "key" and shape.experts == 8:
        return "Q4_K"
    if role == "down" and layer < shape.layers // 8:
        return wider
    if role == "attention_output":
        if shape.experts == 8:
            return "Q5_K"
        if file in ("IQ1_S", "IQ1_M"):
            return "IQ2_XXS"
        return "IQ3_S" if file in _WIDER_LOW else main
    return main


def _value_type(shape: Geometry, file: str, main: str, layer: int) -> str:
    grouped, index = shape.group >= 4, shape.order_of_values[layer]
    if file in _LOWEST:
        if grouped or shape.experts >= 4:
            return "Q4_K"
        return "IQ3_S" if file in _WIDER_LOW else "Q2_K"
    kind = main
    if file == "Q2_K":
        kind = "Q4_K" if grouped else "Q3_K"
    elif file == "IQ3_M" or (grouped and file in ("Q2_K_S", "IQ3_XXS", "IQ3_XS", "IQ3_S")):
        kind = "Q4_K"
    elif file == "Q3_K_M":
        kind = "Q5_K" if index < 2 else "Q4_K"
    elif file == "Q3_K_L" or (file in ("IQ4_NL", "IQ4_XS") and grouped):
        kind = "Q5_K"
    elif file in ("Q4_K_M", "Q5_K_M") and _more_bits(index, shape.values):
        kind = "Q6_K"
    elif file == "Q4_K_S" and index < 4:
        kind = "Q5_K"
    if shape.large and kind in ("Q3_K", "Q4_K"):
        kind = "Q5_K"
    return "Q8_0" if shape.experts == 8 else kind


def _down_type(shape: Geometry, file: str, main: str, layer: int) -> str:
    more = _more_bits(layer, shape.layers)
    if file == "Q2_K":
        return "Q3_K"
    if file == "Q2_K_S":
        return "Q4_K" if layer < shape.layers // 8 else main
    if file == "Q3_K_M":
        if layer < shape.layers // 16:
            return "Q5_K"
        return "Q4_K" if more or not shape.falcon else "Q3_K"
    if file == "Q3_K_L":
        return "Q4_K" if shape.falcon else "Q5_K"
    if file == "IQ3_M":
        wide = layer < shape.layers // 8 or (shape.experts == 8 and more)
        return "Q4_K" if wide else main
    if file == "Q4_K_M" and shape.falcon:
        return "Q6_K" if layer < shape.layers // 16 else "Q5_K" if more else "Q4_K"
    if file in ("Q4_K_M", "Q5_K_M"):
        return "Q6_K" if more else main
    first = layer < shape.layers // 8
    if first and (file in ("IQ4_NL", "IQ4_XS") or (file == "Q4_K_S" and not shape.falcon)):
        return "Q5_K"
    return main


def _attention_output_type(shape: Geometry, file: str, main: str) -> str:
    if shape.falcon:
        return "Q4_K" if file == "Q3_K_L" else main
    if shape.experts == 8:
        fives = ("Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M")
        return "Q5_K" if file in (*fives, "IQ3_S", "IQ3_M", "IQ4_XS") else main
    own = {"Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K", "IQ3_M": "Q4_K"}
    return own.get(file, main)
