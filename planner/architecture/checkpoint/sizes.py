"""A checkpoint's bytes summed by what they belong to, small enough to travel inside a configuration.

A configuration whose checkpoint was read carries the sums under `CHECKPOINT_KEY`; adapters don't look at it, so that
one object says what the model is and what its files hold, wherever a configuration can go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from planner.architecture.checkpoint.tensors import Tensor
from planner.architecture.keys import Keys
from planner.architecture.spec import Part
from planner.errors import InvalidConfig

CHECKPOINT_KEY = "headroom_checkpoint"
KINDS = frozenset({"safetensors", "gguf"})
MAX_BYTES = 10**16  # a hundred times the largest model
MAX_SHARES = 1000
_SHOWN_SOURCE = 120
_LONGEST_DTYPE = 20


class Group(StrEnum):
    """What a tensor belongs to, as far as its name tells: what loaders treat alike."""

    EMBEDDING = "embedding"
    HEAD = "head"
    LAYERS = "layers"  # attention, recurrences, dense and shared feed-forwards, routers, norms
    EXPERTS = "experts"
    TOWER = "tower"
    MTP = "mtp"


_GROUPS = {
    Part.EMBEDDING: Group.EMBEDDING,
    Part.POSITION: Group.EMBEDDING,
    Part.HEAD: Group.HEAD,
    Part.EXPERTS: Group.EXPERTS,
    Part.VISION: Group.TOWER,
    Part.AUDIO: Group.TOWER,
    Part.PROJECTOR: Group.TOWER,
    Part.MTP: Group.MTP,
}


_GROUP_NAMES = frozenset(group.value for group in Group)


def group_of_part(part: Part) -> Group:
    """The group that a component's weights are counted in."""
    return _GROUPS.get(part, Group.LAYERS)


@dataclass(frozen=True, slots=True)
class Share:
    """Tensors of one group in one storage type, summed."""

    group: Group
    dtype: str
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointBytes:
    """What a checkpoint's files hold.

    Attributes:
        kind: "safetensors" or "gguf".
        source: name of the file, folder or repository that says so.
        tensors: how many; 0 where only the total is known.
        total_bytes: data of all tensors, headers and padding apart.
        shares: the same by group and storage type; empty where only the total is known.
        file_type: of a GGUF: the file type that its name would bear ("Q4_K_M"), else "".
    """

    kind: str
    source: str
    tensors: int
    total_bytes: int
    shares: tuple[Share, ...] = ()
    file_type: str = ""

    @property
    def elements(self) -> int | None:
        """Stored elements, packed ones as they are stored; None where only the total is known."""
        return sum(share.elements for share in self.shares) if self.shares else None

    @property
    def by_dtype(self) -> dict[str, int]:
        """Bytes by storage type."""
        sums: dict[str, int] = defaultdict(int)
        for share in self.shares:
            sums[share.dtype] += share.bytes
        return dict(sums)

    @property
    def by_group(self) -> dict[Group, int]:
        """Bytes by group."""
        sums: dict[Group, int] = defaultdict(int)
        for share in self.shares:
            sums[share.group] += share.bytes
        return dict(sums)


class Tally:
    """Adds tensors up, file by file, so that no more than one file's are held at once."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Group, str], list[int]] = defaultdict(lambda: [0, 0])
        self._tensors = 0

    def add(self, tensor: Tensor, group: Group) -> None:
        """Counts one tensor."""
        sums = self._sums[group, tensor.dtype]
        sums[0] += tensor.elements
        sums[1] += tensor.bytes
        self._tensors += 1

    def result(self, kind: str, source: str, file_type: str = "") -> CheckpointBytes:
        """All that was counted."""
        shares = tuple(
            Share(group, dtype, elements, size)
            for (group, dtype), (elements, size) in sorted(self._sums.items())
        )
        total = sum(share.bytes for share in shares)
        return CheckpointBytes(
            kind, source[-_SHOWN_SOURCE:], self._tensors, total, shares, file_type
        )


def with_checkpoint(
    config: Mapping[str, Any], checkpoint: CheckpointBytes | None
) -> dict[str, Any]:
    """The configuration with what its checkpoint holds; without it where there is none."""
    plain = {key: value for key, value in config.items() if key != CHECKPOINT_KEY}
    if checkpoint is None:
        return plain
    shares = [
        [share.group.value, share.dtype, share.elements, share.bytes] for share in checkpoint.shares
    ]
    held = {
        "kind": checkpoint.kind,
        "source": checkpoint.source,
        "tensors": checkpoint.tensors,
        "total_bytes": checkpoint.total_bytes,
        "shares": shares,
        "file_type": checkpoint.file_type,
    }
    return plain | {CHECKPOINT_KEY: held}


def checkpoint_of(config: Mapping[str, Any]) -> CheckpointBytes | None:
    """What a configuration carries of its checkpoint, or None.

    Raises:
        InvalidConfig: where it isn't what `with_checkpoint` writes, naming the key.
    """
    keys = Keys(config).optional_section(CHECKPOINT_KEY)
    if keys is None:
        return None
    kind = keys.text("kind")
    if kind not in KINDS:
        raise InvalidConfig(
            "config_key_type", key=keys.path("kind"), expected=", ".join(sorted(KINDS)), given=kind
        )
    shares = tuple(
        _share(keys, index, item) for index, item in enumerate(keys.sequence("shares") or ())
    )
    total = keys.integer("total_bytes", maximum=MAX_BYTES)
    if len(shares) > MAX_SHARES or (shares and sum(share.bytes for share in shares) != total):
        raise keys.contradiction("total_bytes", "not_the_sum")
    file_type = keys.text("file_type", longest=20) if keys.config.get("file_type") else ""
    return CheckpointBytes(
        kind,
        keys.text("source"),
        keys.integer("tensors", minimum=0),
        total,
        shares,
        file_type,
    )


def _share(keys: Keys, index: int, item: Any) -> Share:
    if isinstance(item, (list, tuple)) and len(item) == 4:
        group, dtype, elements, size = item
        names = isinstance(group, str) and isinstance(dtype, str) and len(dtype) <= _LONGEST_DTYPE
        counts = all(
            type(number) is int and 0 <= number <= MAX_BYTES for number in (elements, size)
        )
        if names and counts and group in _GROUP_NAMES:
            return Share(Group(group), dtype, elements, size)
    raise InvalidConfig(
        "config_key_type",
        key=keys.path(f"shares[{index}]"),
        expected="[group, dtype, elements, bytes]",
        given=type(item).__name__,
    )
