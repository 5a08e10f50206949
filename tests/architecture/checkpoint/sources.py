"""A file in memory, for readers that are given one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Memory:
    """Bytes as a `ByteSource`, which remembers what was asked of it.

    Attributes:
        claimed: the size it states, where that isn't its own.
    """

    content: bytes
    name: str = "file"
    claimed: int | None = None
    asked: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.content) if self.claimed is None else self.claimed

    def read_at(self, offset: int, length: int) -> bytes:
        self.asked.append((offset, length))
        return self.content[offset : offset + length]
