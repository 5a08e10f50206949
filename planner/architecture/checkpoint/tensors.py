"""What a checkpoint's header says of its tensors, whichever format it has, and how bytes are read from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Protocol


class ByteSource(Protocol):
    """A file, here or elsewhere, of which parts can be read.

    Attributes:
        name: the file's name, as errors show it.
        size: bytes in all.
    """

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    def read_at(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer at the file's end.

        Raises:
            InvalidInput, Unreachable: where they can't be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint.

    Attributes:
        dtype: storage type as the format names it ("BF16", "Q4_K").
        shape: as the format states it (safetensors: rows first; GGUF: the fastest dimension first).
        bytes: its data.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        return prod(self.shape)
