"""Bytes of a matrix under an encoding: payload, scales, zero points and what is kept per column and per matrix."""

from __future__ import annotations

from planner.architecture import cache
from planner.architecture.spec import Weight
from planner.catalog.encodings import Encoding

DTYPE_BYTES = {
    **cache.DTYPE_BYTES,
    "int32": 4.0,
    "int64": 8.0,
    "fp32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
}


def matrix_bytes(encoding: Encoding, rows: int, columns: int) -> float:
    """Bytes of one matrix of `rows` outputs and `columns` inputs.

    payload + ⌈rows/r⌉·⌈columns/c⌉·(scale + zero point) for blocks of r × c (0: the whole dimension), or
    ⌈rows·columns/g⌉ scales where groups of g run on over rows; ⌈scales/s⌉ second-level scales; constants per column and
    per matrix.
    """
    elements = rows * columns
    if encoding.flat_group:
        blocks = -(-elements // encoding.flat_group)
    else:
        down = -(-rows // encoding.group_rows) if encoding.group_rows else 1
        across = -(-columns // encoding.group_columns) if encoding.group_columns else 1
        blocks = down * across
    bits = elements * encoding.bits + blocks * (encoding.scale_bits + encoding.zero_bits)
    if encoding.second_group:
        bits += -(-blocks // encoding.second_group) * encoding.second_scale_bits
    return (bits + columns * encoding.column_bits + encoding.tensor_bits) / 8.0


def weight_bytes(weight: Weight, encoding: Encoding | None, dtype: str) -> float:
    """Bytes of all copies of a weight.

    Args:
        encoding: None where it's unquantised: then in its own type if it has one, else in `dtype`.
        dtype: "fp16", "bf16" or "fp32".
    """
    if encoding is None:
        return weight.elements * DTYPE_BYTES[weight.dtype or dtype]
    return weight.copies * matrix_bytes(encoding, weight.rows, weight.columns)


# Multiples that kernels pad MXFP4 experts to, (hidden size, intermediate width). Marlin's are in vLLM's code; Triton's
# is read off loaded sizes: gpt-oss-120b takes 65.97 GiB with Marlin and 64.4 with Triton, 60.77 in its files.
MXFP4_PADDING = {"marlin": (256, 128), "triton": (256, 1)}


def mxfp4_padding_bytes(weight: Weight, encoding: Encoding, kernel: str) -> float:
    """What a kernel of MXFP4_PADDING adds to a matrix of MXFP4 experts when it loads them (bytes).

    References:
        vLLM, quantization/mxfp4.py; vLLM issue 23278 (0.10.1, Marlin); llm-d-planner accuracy report (0.19).
    """
    hidden, width = MXFP4_PADDING[kernel]
    row_multiple, column_multiple = (hidden, width) if weight.name == "down" else (width, hidden)
    rows = -(-weight.rows // row_multiple) * row_multiple
    columns = -(-weight.columns // column_multiple) * column_multiple
    added = matrix_bytes(encoding, rows, columns) - matrix_bytes(
        encoding, weight.rows, weight.columns
    )
    return weight.copies * added
