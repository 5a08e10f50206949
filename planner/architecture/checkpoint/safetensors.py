"""safetensors headers and indexes from untrusted bytes: names, types, shapes and sizes, never the data.

A file is eight bytes with the header's length (little-endian), the header as JSON, and the data, without gaps or
overlaps. An index names the file of each tensor and, as a rule, the bytes of all.

References:
    Format: https://github.com/huggingface/safetensors#format; types: safetensors/src/tensor.rs, `Dtype`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

from planner.architecture.checkpoint.sizes import MAX_BYTES
from planner.architecture.checkpoint.tensors import ByteSource, Tensor
from planner.errors import InvalidInput

MAX_HEADER_BYTES = 16_000_000
MAX_INDEX_BYTES = 64_000_000
MAX_TENSORS = 200_000
MAX_FILES = 2000
MAX_INDEXED_TENSORS = 500_000
LENGTH_BYTES = 8
_MAX_NAME = 500
_MAX_DIMENSIONS = 16
# A tensor's entry takes at most this many of each; more can only be something else, refused before it's parsed.
_BRACKETS_PER_TENSOR, _COMMAS_PER_TENSOR = 4, 10
_FILE_NAME = re.compile(rb"\w[\w.-]{0,200}\.safetensors")
_WEIGHT_MAP = re.compile(rb'"weight_map"\s*:\s*\{')
_ENTRY = re.compile(rb'\s*"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*:\s*"([^"\\]*+)"\s*([,}])')
_TOTAL_SIZE = re.compile(rb'"total_size"\s*:\s*(\d{1,19}(?:\.\d{1,19})?(?:[eE]\+?\d{1,2})?)\s*[,}]')

DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32, "I64": 64, "U64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Index:
    """What an index says.

    Attributes:
        files: names of the files, each once, in order of appearance.
        tensors: how many tensors it lists.
        total_bytes: of all tensors' data, or None where it doesn't say.
    """

    files: tuple[str, ...]
    tensors: int
    total_bytes: int | None


class _Malformed(Exception):
    """Something in the JSON that the format doesn't have; its text is the reason's code."""


def read_header(source: ByteSource) -> list[Tensor]:
    """The tensors of one file.

    Raises:
        InvalidInput: `safetensors_truncated`, `safetensors_header_too_large`, `safetensors_malformed`,
            `safetensors_too_many_tensors`, `safetensors_dtype_unknown` or `safetensors_offsets`.
    """
    start = source.read_at(0, LENGTH_BYTES)
    if len(start) < LENGTH_BYTES:
        raise InvalidInput(
            "safetensors_truncated",
            field="model",
            file=source.name,
            expected_bytes=LENGTH_BYTES,
            bytes=source.size,
        )
    length = int.from_bytes(start, "little")
    if length > MAX_HEADER_BYTES:
        raise InvalidInput(
            "safetensors_header_too_large",
            field="model",
            file=source.name,
            size_bytes=length,
            maximum_bytes=MAX_HEADER_BYTES,
        )
    content = source.read_at(LENGTH_BYTES, length)
    if len(content) < length:
        raise InvalidInput(
            "safetensors_truncated",
            field="model",
            file=source.name,
            expected_bytes=LENGTH_BYTES + length,
            bytes=source.size,
        )
    return parse_header(content, source.name, data_bytes=source.size - LENGTH_BYTES - length)


def parse_header(content: bytes, name: str, data_bytes: int | None = None) -> list[Tensor]:
    """The tensors that a header lists.

    Args:
        name: of the file, for errors.
        data_bytes: what follows the header in the file; None where that isn't known.

    Raises:
        InvalidInput: as `read_header`.
    """
    entries = _parse(content, name)
    if not isinstance(entries, dict):
        raise _malformed(name, "no_tensor_table")
    spans: list[tuple[int, int, str]] = []
    tensors = []
    for key, entry in entries.items():
        if key == "__metadata__":
            continue
        if not isinstance(entry, tuple):
            raise _malformed(name, "no_tensor_table")
        dtype, shape, begin, end = entry
        bits = DTYPE_BITS.get(dtype)
        if bits is None:
            raise InvalidInput(
                "safetensors_dtype_unknown",
                field="model",
                file=name,
                tensor=key[:120],
                dtype=dtype[:20],
            )
        if 8 * (end - begin) != bits * prod(shape):
            raise InvalidInput(
                "safetensors_offsets",
                field="model",
                file=name,
                tensor=key[:120],
                expected_bytes=bits * prod(shape) // 8,
                bytes=end - begin,
            )
        spans.append((begin, end, key))
        tensors.append(Tensor(key, dtype, shape, end - begin))
    _check_spans(spans, name, data_bytes)
    return tensors


def _check_spans(spans: list[tuple[int, int, str]], name: str, data_bytes: int | None) -> None:
    """Refuse data with gaps or overlaps, and a file that is shorter or longer than its tensors."""
    place = 0
    for begin, end, key in sorted(spans):
        if begin != place:
            raise InvalidInput(
                "safetensors_offsets",
                field="model",
                file=name,
                tensor=key[:120],
                expected_bytes=place,
                bytes=begin,
            )
        place = end
    if data_bytes is not None and data_bytes != place:
        raise InvalidInput(
            "safetensors_truncated",
            field="model",
            file=name,
            expected_bytes=place,
            bytes=data_bytes,
        )


def parse_index(content: bytes, name: str) -> Index:
    """What a `model.safetensors.index.json` says.

    Read entry by entry and not as a whole: the largest indexes list some 300,000 tensors.

    Raises:
        InvalidInput: `safetensors_index_too_large`, `safetensors_malformed`, or `safetensors_index_file` for the name
            of a file that would lie elsewhere.
    """
    if len(content) > MAX_INDEX_BYTES:
        raise InvalidInput(
            "safetensors_index_too_large",
            field="model",
            file=name,
            size_bytes=len(content),
            maximum_bytes=MAX_INDEX_BYTES,
        )
    start = _WEIGHT_MAP.search(content)
    if start is None:
        raise _malformed(name, "no_weight_map")
    place, tensors, more = start.end(), 0, True
    files: dict[bytes, None] = {}
    while more:
        entry = _ENTRY.match(content, place)
        if entry is None:
            raise _malformed(name, "no_weight_map")
        files[entry[1]] = None
        more, place = entry[2] == b",", entry.end()
        tensors += 1
        if len(files) > MAX_FILES or tensors > MAX_INDEXED_TENSORS:
            raise InvalidInput(
                "safetensors_too_many_tensors",
                field="model",
                file=name,
                maximum=MAX_FILES if len(files) > MAX_FILES else MAX_INDEXED_TENSORS,
            )
    for file in files:
        if not _FILE_NAME.fullmatch(file):
            raise InvalidInput(
                "safetensors_index_file",
                field="model",
                file=name,
                given=file[:80].decode("utf-8", "replace"),
            )
    return Index(tuple(file.decode("ascii") for file in files), tensors, _total_size(content))


def _total_size(content: bytes) -> int | None:
    found = _TOTAL_SIZE.search(content)
    if found is None:
        return None
    total = float(found[1])  # some tools write 1.6e10
    return int(total) if total.is_integer() and 0 < total <= MAX_BYTES else None


def _parse(content: bytes, name: str) -> Any:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed(name, "not_utf8") from None
    brackets = text.count("[") + text.count("{")
    if brackets > _BRACKETS_PER_TENSOR * MAX_TENSORS or (
        text.count(",") > _COMMAS_PER_TENSOR * MAX_TENSORS
    ):
        raise InvalidInput(
            "safetensors_too_many_tensors", field="model", file=name, maximum=MAX_TENSORS
        )
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_number,
            parse_float=_refuse_number,
        )
    except json.JSONDecodeError:
        raise _malformed(name, "not_json") from None
    except RecursionError:
        raise _malformed(name, "nested_too_deep") from None
    except _Malformed as error:
        raise _malformed(name, str(error)) from None
    except ValueError:  # a whole number of thousands of digits
        raise _malformed(name, "number_unfit") from None


def _malformed(name: str, reason: str) -> InvalidInput:
    return InvalidInput("safetensors_malformed", field="model", file=name, reason=reason)


def _object(pairs: list[tuple[str, Any]]) -> Any:
    """A tensor's entry as (dtype, shape, begin, end), as soon as it's parsed; anything else as a table."""
    entry = dict(pairs)
    if len(entry) != len(pairs):
        raise _Malformed("name_twice")
    if entry.keys() != {"dtype", "shape", "data_offsets"}:
        if any(len(key) > _MAX_NAME for key in entry):
            raise _Malformed("name_too_long")
        return entry
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str):
        raise _Malformed("dtype_no_text")
    if not _whole_numbers(shape) or len(shape) > _MAX_DIMENSIONS:
        raise _Malformed("shape_no_list")
    if not _whole_numbers(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1]:
        raise _Malformed("offsets_no_pair")
    return dtype, tuple(shape), offsets[0], offsets[1]


def _whole_numbers(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    for item in value:  # noqa: SIM110 — half the time of a generator, on the longest loop over a header
        if type(item) is not int or not 0 <= item <= MAX_BYTES:
            return False
    return True


def _refuse_number(given: str) -> NoReturn:
    raise _Malformed("number_unfit")
