"""GGUF headers (versions 2 and 3) from untrusted bytes: metadata and tensors, read in small steps.

A file is a magic number, a version, two counts, the metadata (keys with typed values), the tensors' names, shapes,
types and offsets, and then the data. Whatever the counts claim, no more is held than what is kept: vocabularies and
other long values are stepped over, and a count that can't be meant is refused before anything is read for it.

References:
    ggml/docs/gguf.md and ggml/src/gguf.cpp (llama.cpp, 2026-10).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import NoReturn

from planner.architecture.checkpoint.gguf_types import TENSOR_TYPES
from planner.architecture.checkpoint.sizes import MAX_BYTES
from planner.architecture.checkpoint.tensors import ByteSource, Tensor
from planner.errors import InvalidInput

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_METADATA = 5000
MAX_TENSORS = 100_000
MAX_HEADER_BYTES = 200_000_000
MAX_STRINGS = 2_000_000  # in arrays; the largest vocabularies have some 700,000 tokens and merges
MAX_KEPT_ITEMS = 20_000
MAX_KEPT_CHARACTERS = 300
MAX_NAME_BYTES = 512
MAX_DEPTH = 4
MAX_DIMENSIONS = 4
_WINDOW = 1 << 18

_STRING, _ARRAY = 8, 9
# Number of a value's type: its struct code and size.
_SCALARS = {
    0: ("B", 1), 1: ("b", 1), 2: ("H", 2), 3: ("h", 2), 4: ("I", 4), 5: ("i", 4), 6: ("f", 4), 7: ("?", 1),
    10: ("Q", 8), 11: ("q", 8), 12: ("d", 8),
}  # fmt: skip

Value = int | float | bool | str | tuple[int | float | bool, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GgufHeader:
    """What a GGUF says of itself.

    Attributes:
        metadata: values by key; texts cut to 300 characters; of arrays only those of at most 20,000 numbers.
        lengths: number of items of every array, kept or not.
        tensors: in the file's order.
    """

    name: str
    version: int
    metadata: dict[str, Value]
    lengths: dict[str, int]
    tensors: tuple[Tensor, ...]


def read_gguf_header(source: ByteSource) -> GgufHeader:
    """The header of one file.

    Raises:
        InvalidInput: `gguf_magic`, `gguf_version`, `gguf_truncated`, `gguf_count`, `gguf_string`, `gguf_value_type`,
            `gguf_nested`, `gguf_duplicate`, `gguf_tensor_type`, `gguf_tensor_shape`, `gguf_alignment` or
            `gguf_tensor_outside`.
    """
    reader = _Reader(source)
    if reader.take(4) != MAGIC:
        raise InvalidInput("gguf_magic", field="model", file=source.name)
    version = reader.number("I")
    if version and version & 0xFFFF == 0:  # written on a machine of the other byte order
        version >>= 16
        version = (version >> 8) | (version & 0xFF) << 8
        reader.big_endian()
    if version not in VERSIONS:
        raise InvalidInput(
            "gguf_version", field="model", file=source.name, given=version, known=VERSIONS
        )
    tensor_count = reader.count("Q", "tensors", MAX_TENSORS)
    metadata_count = reader.count("Q", "metadata", MAX_METADATA)
    metadata: dict[str, Value] = {}
    lengths: dict[str, int] = {}
    keys = set()
    for _ in range(metadata_count):
        key = reader.text("metadata", MAX_NAME_BYTES)
        if key in keys:
            raise InvalidInput("gguf_duplicate", field="model", file=source.name, key=key[:100])
        keys.add(key)
        value = reader.value(key, lengths)
        if value is not None:
            metadata[key] = value
    placed = [_tensor(reader) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise InvalidInput(
            "gguf_alignment", field="model", file=source.name, given=str(alignment)[:30]
        )
    start = -(-reader.place // alignment) * alignment
    _check_places(placed, source, start, alignment)
    return GgufHeader(
        source.name, version, metadata, lengths, tuple(tensor for tensor, _ in placed)
    )


def _tensor(reader: _Reader) -> tuple[Tensor, int]:
    name = reader.text("tensors", MAX_NAME_BYTES)
    dimensions = reader.count("I", "dimensions", MAX_DIMENSIONS)
    shape = tuple(reader.number("Q") for _ in range(dimensions))
    number, offset = reader.number("I"), reader.number("Q")
    known = TENSOR_TYPES.get(number)
    if known is None:
        raise InvalidInput(
            "gguf_tensor_type", field="model", file=reader.name, tensor=name[:100], given=number
        )
    dtype, block, size = known
    elements = prod(shape)
    if not 0 < elements <= MAX_BYTES or (shape[0] if shape else 1) % block:
        raise InvalidInput(
            "gguf_tensor_shape",
            field="model",
            file=reader.name,
            tensor=name[:100],
            type=dtype,
            given=shape,
        )
    return Tensor(name, dtype, shape, elements // block * size), offset


def _check_places(
    placed: list[tuple[Tensor, int]], source: ByteSource, start: int, alignment: int
) -> None:
    """Refuse tensors that repeat a name, lie outside the file or on top of each other."""
    names = set()
    end = 0
    for tensor, offset in sorted(placed, key=lambda pair: pair[1]):
        if tensor.name in names:
            raise InvalidInput(
                "gguf_duplicate", field="model", file=source.name, key=tensor.name[:100]
            )
        names.add(tensor.name)
        if offset < end or offset % alignment or start + offset + tensor.bytes > source.size:
            raise InvalidInput(
                "gguf_tensor_outside",
                field="model",
                file=source.name,
                tensor=tensor.name[:100],
                expected_bytes=start + offset + tensor.bytes,
                bytes=source.size,
            )
        end = offset + tensor.bytes


class _Reader:
    """Reads a header from front to back through a small window."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._window = b""
        self._at = 0  # within the window
        self._start = 0  # of the window within the file
        self._order = "<"
        self._strings = 0
        self._longs = struct.Struct("<Q")

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def place(self) -> int:
        """Bytes read or stepped over so far."""
        return self._start + self._at

    def big_endian(self) -> None:
        """From here on, numbers have their highest byte first."""
        self._order = ">"
        self._longs = struct.Struct(">Q")

    def take(self, length: int) -> bytes:
        """The next bytes; a handful, never as many as a file claims."""
        if len(self._window) - self._at < length:
            self._refill(max(length, 8))
            if len(self._window) < length:
                self._truncated(length)
        taken = self._window[self._at : self._at + length]
        self._at += length
        return taken

    def skip(self, length: int) -> None:
        """Steps over bytes without reading them."""
        if length > self._source.size - self.place:
            self._truncated(length)
        self._at += length

    def number(self, code: str) -> int:
        """A whole number of the struct code I or Q."""
        (value,) = struct.unpack(self._order + code, self.take(4 if code == "I" else 8))
        return int(value)

    def count(self, code: str, of: str, maximum: int) -> int:
        """A number of things, refused where there can't be as many."""
        value = self.number(code)
        if value > maximum:
            raise InvalidInput(
                "gguf_count", field="model", file=self.name, reason=of, given=value, maximum=maximum
            )
        return value

    def text(self, of: str, longest: int) -> str:
        """A name: whole, or refused."""
        length = self.number("Q")
        if length > longest:
            raise InvalidInput(
                "gguf_string",
                field="model",
                file=self.name,
                reason=of,
                given=length,
                maximum=longest,
            )
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInput(
                "gguf_string",
                field="model",
                file=self.name,
                reason=of,
                given=length,
                maximum=longest,
            ) from None

    def value(self, key: str, lengths: dict[str, int]) -> Value | None:
        """The value of a key, or None where it's an array that isn't kept; `lengths` gets an array's length."""
        kind = self.number("I")
        if kind == _STRING:
            length = self.number("Q")
            kept = self.take(min(length, MAX_KEPT_CHARACTERS))
            self.skip(length - len(kept))
            return kept.decode("utf-8", "replace")
        if kind == _ARRAY:
            return self._array(key, lengths)
        return self._scalars(key, kind, 1)[0]

    def _array(self, key: str, lengths: dict[str, int]) -> Value | None:
        kind, length = self.number("I"), self.number("Q")
        lengths[key] = length
        if kind == _ARRAY:
            self._skip_arrays(key, length, 2)
            return None
        if kind == _STRING:
            self._skip_strings(length)
            return None
        if length <= MAX_KEPT_ITEMS:
            return self._scalars(key, kind, length)
        self._skip_scalars(key, kind, length)
        return None

    def _skip_arrays(self, key: str, count: int, depth: int) -> None:
        if depth > MAX_DEPTH or count > MAX_KEPT_ITEMS:
            raise InvalidInput("gguf_nested", field="model", file=self.name, key=key[:100])
        for _ in range(count):
            kind, length = self.number("I"), self.number("Q")
            if kind == _ARRAY:
                self._skip_arrays(key, length, depth + 1)
            elif kind == _STRING:
                self._skip_strings(length)
            else:
                self._skip_scalars(key, kind, length)
            self._strings += 1
            self._check_strings(0)

    def _skip_scalars(self, key: str, kind: int, count: int) -> None:
        self.skip(self._scalar(key, kind)[1] * count)

    def _scalars(self, key: str, kind: int, count: int) -> tuple[int | float | bool, ...]:
        code, size = self._scalar(key, kind)
        return struct.unpack(f"{self._order}{count}{code}", self.take(size * count))

    def _scalar(self, key: str, kind: int) -> tuple[str, int]:
        found = _SCALARS.get(kind)
        if found is None:
            raise InvalidInput(
                "gguf_value_type", field="model", file=self.name, key=key[:100], given=kind
            )
        return found

    def _skip_strings(self, count: int) -> None:
        """Steps over a list of strings: the one long loop over a header."""
        self._check_strings(count)
        self._strings += count
        unpack, size = self._longs.unpack_from, self._source.size
        window, at = self._window, self._at
        last = len(window) - 8
        for _ in range(count):
            if at > last:
                self._at = at
                self._refill(8)
                window, at, last = self._window, 0, len(self._window) - 8
                if last < 0:
                    self._truncated(8)
            at += 8 + unpack(window, at)[0]
            if at > size:
                self._at = at
                self._truncated(0)
        self._at = at
        self.skip(0)

    def _check_strings(self, count: int) -> None:
        if self._strings + count > MAX_STRINGS:
            raise InvalidInput(
                "gguf_count",
                field="model",
                file=self.name,
                reason="strings",
                given=self._strings + count,
                maximum=MAX_STRINGS,
            )

    def _refill(self, length: int) -> None:
        self._start, self._at = self.place, 0
        if self._start > MAX_HEADER_BYTES:
            raise InvalidInput(
                "gguf_count",
                field="model",
                file=self.name,
                reason="header_bytes",
                given=self._start,
                maximum=MAX_HEADER_BYTES,
            )
        self._window = self._source.read_at(self._start, max(length, _WINDOW))

    def _truncated(self, length: int) -> NoReturn:
        raise InvalidInput(
            "gguf_truncated",
            field="model",
            file=self.name,
            expected_bytes=min(self.place + length, MAX_BYTES),
            bytes=self._source.size,
        )
