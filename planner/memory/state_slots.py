"""Memory that an engine sets apart for recurrent state when it starts (SGLang's hybrid models).

What weights leave is divided once: slots, each of one sequence's state on one rank, and the cache gets the rest. A
running sequence holds several slots where finished prefixes keep their state for others. Whichever part runs out first
bounds what runs at once; what is left of the other stays unused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.catalog.engines import EngineSettings
from planner.quantity import Quantity, maximum, minimum


@dataclass(frozen=True, slots=True)
class StateSlots:
    """The rule by which one rank's slots are counted.

    Attributes:
        slot_bytes: state of one sequence on one rank.
        per_sequence: slots that a running sequence holds.
        state_ratio: bytes of state for each byte of cache.
        fixed: slots whatever memory there is; 0: by the ratio.
        spare: slots allocated beside those that sequences get.
    """

    slot_bytes: float
    per_sequence: int
    state_ratio: float
    fixed: int = 0
    spare: int = 0

    @property
    def state_fraction(self) -> float:
        """What of the pool is for state, by the ratio."""
        return self.state_ratio / (1.0 + self.state_ratio)


def state_slots_of(
    settings: EngineSettings, model_type: str, slot_bytes: float, *, dp: int = 1
) -> StateSlots | None:
    """The rule of an engine for a type of model; None where state comes out of the cache's own pool.

    Args:
        slot_bytes: state of one sequence on one rank.
        dp: data-parallel groups, which share a fixed number that nobody stated.
    """
    rule = settings.state_pool
    if not rule.ratio or not slot_bytes:
        return None
    each, fixed = rule.slots_of(model_type), 0
    if each == 1:
        stated = "max_num_seqs" not in settings.defaults
        fixed = settings.max_num_seqs if stated else rule.fixed_slots // dp
    return StateSlots(slot_bytes, each, rule.ratio, fixed, rule.spare_slots)


def slot_count(slots: StateSlots, pool_bytes: Quantity) -> Quantity:
    """Slots that sequences get out of a pool for state and cache together (whole slots)."""
    if slots.fixed:
        return 0.0 * pool_bytes + slots.fixed
    whole = slots.state_fraction * pool_bytes // slots.slot_bytes
    return maximum(whole - slots.spare, 0.0)


def sequences_with_state(slots: StateSlots, pool_bytes: Quantity) -> Quantity:
    """Sequences that have slots at once (whole sequences)."""
    return slot_count(slots, pool_bytes) // slots.per_sequence


def state_part_bytes(slots: StateSlots, pool_bytes: Quantity) -> Quantity:
    """What of the pool holds state, spare slots included; all of it where fixed slots leave nothing for the cache."""
    wanted = (slot_count(slots, pool_bytes) + slots.spare) * slots.slot_bytes
    return minimum(wanted, maximum(pool_bytes, 0.0))


def cache_part_bytes(slots: StateSlots, pool_bytes: Quantity) -> Quantity:
    """What of the pool is left for keys and values: all that isn't state."""
    return maximum(pool_bytes, 0.0) - state_part_bytes(slots, pool_bytes)


def pool_for(slots: StateSlots, sequences: Quantity, kv_bytes: Quantity) -> Quantity:
    """The smallest pool that, divided by the rule, holds so many sequences.

    Args:
        kv_bytes: of all of them, without state.
    """
    if slots.fixed:
        return (slots.fixed + slots.spare) * slots.slot_bytes + kv_bytes
    held = (sequences * slots.per_sequence + slots.spare) * slots.slot_bytes
    return maximum(held / slots.state_fraction, kv_bytes / (1.0 - slots.state_fraction))


def room_of_each(slots: StateSlots, pool_bytes: Quantity, sequences: Quantity) -> Quantity:
    """Bytes of cache for each of so many equal sequences; −1 where not all of them have slots."""
    enough = sequences <= sequences_with_state(slots, pool_bytes)
    room = cache_part_bytes(slots, pool_bytes) / sequences
    if isinstance(enough, (bool, np.bool_)):
        return room if enough else -1.0 + 0.0 * room
    return np.where(enough, room, -1.0)
