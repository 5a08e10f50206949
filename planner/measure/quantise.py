"""Linear layers with bitsandbytes' weights in place of a model's own, from whatever weights it has."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from planner.errors import Unsupported

# Weight format by the catalogue's id; bytes per weight with its scales, for a first guess at what fits.
BYTES_PER_WEIGHT = {"nf4": 0.57, "nf4-dq": 0.52, "llm-int8": 1.01}
QUANTISED = tuple(BYTES_PER_WEIGHT)
KEPT = ("lm_head", "embed_out", "output_layer")  # heads stay as they are, as transformers has it


def require_bitsandbytes(weights: str) -> ModuleType:
    """The package that quantises; raises Unsupported `bitsandbytes_missing` where it isn't installed."""
    try:
        return importlib.import_module("bitsandbytes")
    except ImportError as error:
        raise Unsupported("bitsandbytes_missing", field="weights", given=weights) from error


def quantise(model: Any, weights: str, device: str) -> None:
    """Replaces every linear layer but the head; the layers end up on the device.

    Args:
        weights: "nf4", "nf4-dq" (double quantisation) or "llm-int8".

    Raises:
        Unsupported: where bitsandbytes isn't installed (`bitsandbytes_missing`), or has no such format.
    """
    import torch

    if weights not in QUANTISED:
        raise Unsupported(
            "weights_not_measurable", field="weights", given=weights, there=("native", *QUANTISED)
        )
    bnb = require_bitsandbytes(weights)
    places = [
        (parent, name, child)
        for path, parent in model.named_modules()
        for name, child in parent.named_children()
        if type(child) is torch.nn.Linear and name not in KEPT and not path.endswith(KEPT)
    ]
    for parent, name, child in places:
        bias = child.bias is not None
        if weights == "llm-int8":
            layer = bnb.nn.Linear8bitLt(
                child.in_features, child.out_features, bias=bias, has_fp16_weights=False
            )
            layer.weight = bnb.nn.Int8Params(child.weight.data.cpu(), requires_grad=False)
        else:
            layer = bnb.nn.Linear4bit(
                child.in_features,
                child.out_features,
                bias=bias,
                compute_dtype=child.weight.dtype,
                quant_type="nf4",
                compress_statistics=weights == "nf4-dq",
            )
            layer.weight = bnb.nn.Params4bit(
                child.weight.data.cpu(),
                requires_grad=False,
                quant_type="nf4",
                compress_statistics=weights == "nf4-dq",
            )
        if bias:
            layer.bias = child.bias
        setattr(parent, name, layer.to(device))  # moving it is what quantises it


def scale_bytes(model: Any) -> float:
    """What quantised weights keep beside their numbers: scales, and tables of values (bytes)."""
    import torch

    found: dict[int, float] = {}
    for weight in model.parameters():
        state = getattr(weight, "quant_state", None)
        kept = [getattr(weight, "SCB", None)]
        for one in (state, getattr(state, "state2", None)):
            kept += [getattr(one, name, None) for name in ("absmax", "code", "offset")]
        for tensor in kept:
            if isinstance(tensor, torch.Tensor):
                found[tensor.data_ptr()] = float(tensor.numel() * tensor.element_size())
    return sum(found.values())
