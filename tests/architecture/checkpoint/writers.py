"""Small writers of safetensors and GGUF files, by the formats' documentation; data are holes, never written."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

SAFETENSORS_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4}
# Type number, weights and bytes per block, from ggml.h and ggml-common.h.
GGML = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210),
        "BF16": (30, 1, 2), "MXFP4": (39, 32, 17)}  # fmt: skip

Tensors = Iterable[tuple[str, str, Sequence[int]]]
"""Name, type and shape of each; a GGUF's shapes begin with the input features."""


def safetensors_header(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """A header without its length."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    place = 0
    for name, dtype, shape in tensors:
        size = SAFETENSORS_BYTES[dtype] * prod(shape)
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [place, place + size],
        }
        place += size
    return json.dumps(header).encode()


def write_safetensors(
    path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None
) -> int:
    """A file whose data are a hole; returns how many bytes of data it claims."""
    listed = list(tensors)
    header = safetensors_header(listed, metadata)
    data = sum(SAFETENSORS_BYTES[dtype] * prod(shape) for _, dtype, shape in listed)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + data)
    return data


def gguf_value(value: Any, order: str = "<") -> bytes:
    """A typed value: whole numbers as uint32 or uint64, lists by their first item."""
    number, body = _typed(value, order)
    return struct.pack(order + "I", number) + body


def _typed(value: Any, order: str) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return 7, struct.pack(order + "?", value)
    if isinstance(value, int):
        wide = not 0 <= value < 1 << 32
        return (
            (11, struct.pack(order + "q", value)) if wide else (4, struct.pack(order + "I", value))
        )
    if isinstance(value, float):
        return 6, struct.pack(order + "f", value)
    if isinstance(value, str):
        text = value.encode()
        return 8, struct.pack(order + "Q", len(text)) + text
    items = [_typed(item, order) for item in value]
    kind = items[0][0] if items else 4
    return 9, struct.pack(order + "IQ", kind, len(items)) + b"".join(body for _, body in items)


def gguf_bytes(
    metadata: Mapping[str, Any],
    tensors: Tensors,
    *,
    version: int = 3,
    big_endian: bool = False,
    alignment: int = 32,
) -> tuple[bytes, int]:
    """A header up to the aligned start of the data, and how many bytes of data follow, padding between included."""
    order = ">" if big_endian else "<"
    listed = list(tensors)
    parts = [b"GGUF", struct.pack(order + "IQQ", version, len(listed), len(metadata))]
    for key, value in metadata.items():
        name = key.encode()
        parts += [struct.pack(order + "Q", len(name)), name, gguf_value(value, order)]
    place = 0
    for tensor, dtype, shape in listed:
        number, block, size = GGML[dtype]
        name = tensor.encode()
        parts += [struct.pack(order + "Q", len(name)), name, struct.pack(order + "I", len(shape))]
        parts.append(struct.pack(f"{order}{len(shape)}Q", *shape))
        parts.append(struct.pack(order + "IQ", number, place))
        place += -(-(prod(shape) // block * size) // alignment) * alignment
    header = b"".join(parts)
    return header + bytes(-len(header) % alignment), place


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Tensors, **options: Any) -> None:
    """A file whose data are a hole."""
    header, data = gguf_bytes(metadata, tensors, **options)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + data)
