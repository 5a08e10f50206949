"""How an engine's cache pool stores sequences: blocks, windows, padded groups of layers, pages of recurrent state.

The plain sum of what a model caches (planner.architecture.cache) is the floor; an engine's allocator rounds it up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from planner.architecture.cache import CacheGroup, CacheLayout
from planner.architecture.spec import Architecture
from planner.catalog.engines import EngineSettings
from planner.memory.state_slots import (
    StateSlots,
    cache_part_bytes,
    pool_for,
    room_of_each,
    sequences_with_state,
    state_slots_of,
)
from planner.quantity import Quantity, maximum, minimum, round_up
from planner.scenario import MAX_CONCURRENCY, MAX_TOKENS

STATE_ALIGNMENT_TOKENS = 16  # an attention block that holds a page of state is a multiple of it


@dataclass(frozen=True, slots=True)
class PoolGroup:
    """Blocks that one growth rule takes.

    Attributes:
        block_tokens: tokens that one block covers.
        block_bytes: of one block, over all its layers.
        window_tokens: tokens kept at most, or None.
        most_blocks: blocks held at most, or None.
    """

    block_tokens: float
    block_bytes: float
    window_tokens: float | None = None
    most_blocks: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PoolLayout:
    """How one rank's pool stores sequences.

    Attributes:
        groups: what grows with tokens.
        state_bytes: constant part of a sequence, unless slots hold it.
        page_bytes: what the pool is cut into, where every group draws equal pages from one pool; else 0.
        page_groups: groups that draw them.
        window_ratio, window_tokens: of a pool split once between full and windowed layers (0: not split): tokens of the
            windowed part for each of the full part, and their window.
        slots: what is set apart for recurrent state; None: state comes out of the same pool.
        least_states, idle_state_bytes: sequences whose recurrent state is allocated at start, and what it takes of one
            that hasn't come.
    """

    groups: tuple[PoolGroup, ...]
    state_bytes: float
    page_bytes: float = 0.0
    page_groups: int = 1
    window_ratio: float = 0.0
    window_tokens: float = 0.0
    slots: StateSlots | None = None
    least_states: float = 0.0
    idle_state_bytes: float = 0.0

    @property
    def empty(self) -> bool:
        """Nothing is cached: an encoder."""
        return not self.groups and self.state_bytes == 0.0 and self.slots is None


def pool_layout(
    architecture: Architecture,
    layout: CacheLayout,
    settings: EngineSettings,
    *,
    pp: int = 1,
    dp: int = 1,
) -> PoolLayout:
    """How `settings.engine` stores the layout of one rank.

    Args:
        layout: one rank's cache; its windows count only where the engine honours them.
        pp: pipeline stages, which share the layers with recurrent state evenly.
        dp: data-parallel groups.
    """
    windowed = any(group.window is not None for group in layout.groups)
    if settings.paged_groups and layout.groups and (windowed or layout.state_bytes):
        paged = _paged(layout, settings, state_layers(architecture) / pp)
        if paged is not None:
            return paged
    slots = state_slots_of(settings, architecture.model_type, layout.state_bytes, dp=dp)
    constant = layout.constant_bytes if slots is None else layout.cross_bytes
    if settings.window_tokens_ratio and windowed and layout.groups[0].window is None:
        return _split(layout, settings, constant, slots)
    groups = tuple(_plain(group, settings) for group in layout.groups)
    if settings.policy == "context" and layout.state_bytes:
        # llama.cpp's slots share the cells of one cache, but each has a state of its own from the start.
        least = float(settings.max_num_seqs)
        return PoolLayout(groups, constant, least_states=least, idle_state_bytes=layout.state_bytes)
    return PoolLayout(groups, constant, slots=slots)


def state_layers(architecture: Architecture) -> int:
    """Layers that carry recurrent state."""
    return sum(
        count
        for kind, count in architecture.kind_counts
        if any(state.recurrent for mixer in kind.mixers for state in mixer.states)
    )


def _plain(group: CacheGroup, settings: EngineSettings) -> PoolGroup:
    """A group by itself, rounded up to blocks; llama.cpp keeps a batch beside the window."""
    block = float(settings.block_size)
    block_bytes = group.bytes_per_position * block / group.stride
    if group.window is None:
        return PoolGroup(block, block_bytes)
    window = float(group.window * group.stride)
    if settings.policy == "context":
        window += settings.max_num_batched_tokens
        return PoolGroup(block, block_bytes, window, -(-window // block))
    # A window that doesn't start on a block's edge reaches into one block more.
    return PoolGroup(block, block_bytes, window, -(-window // block) + (block > 1))


def _split(
    layout: CacheLayout, settings: EngineSettings, constant: float, slots: StateSlots | None
) -> PoolLayout:
    """SGLang: the pool is split once, `window_tokens_ratio` tokens of windowed layers for each token of full ones."""
    ratio = settings.window_tokens_ratio
    each, window = 0.0, 0.0
    for group in layout.groups:
        size = group.bytes_per_position / group.stride
        each += size if group.window is None else ratio * size
        window = max(window, (group.window or 0) * group.stride)
    block = float(settings.block_size)
    groups = (PoolGroup(block, each * block),)
    return PoolLayout(groups, constant, window_ratio=ratio, window_tokens=window, slots=slots)


def _paged(
    layout: CacheLayout, settings: EngineSettings, layers_with_state: float
) -> PoolLayout | None:
    """vLLM's hybrid allocator: groups of equally many layers draw equal pages from one pool.

    A page holds a block of the layer with most bytes per token; layers with fewer take longer blocks. Where a layer's
    recurrent state is larger than a page, blocks grow until it fits. The number of layers per group is the smallest
    count of a kind (the largest, if within `padding_limit` of it); kinds that it doesn't divide are padded.

    None where the layers' sizes have no common page: then each kind counts by itself.
    """
    kinds: dict[tuple[int | None, int], float] = {}
    for group in layout.groups:
        if group.stride != 1:
            return None
        key = (group.window, group.layers)
        kinds[key] = kinds.get(key, 0.0) + group.bytes_per_position / group.layers
    largest = max(kinds.values())
    if any(largest % each for each in kinds.values()):
        return None
    block = float(settings.block_size)
    counts = [float(layers) for _, layers in kinds]
    page = block * largest
    if layout.state_bytes:
        state_page = layout.state_bytes / layers_with_state
        if state_page > page:
            block = float(round_up(state_page / largest, STATE_ALIGNMENT_TOKENS))
            page = block * largest
        counts.append(layers_with_state)
    size = min(counts)
    if max(counts) < size * settings.padding_limit:
        size = max(counts)
    page_bytes = size * page
    groups = []
    for (window, layers), each in kinds.items():
        tokens = block * largest / each
        most = None if window is None else -(-window // tokens) + 1.0
        shares = math.ceil(layers / size)
        groups.append(PoolGroup(tokens, shares * page_bytes, window, most))
    state_groups = math.ceil(layers_with_state / size) if layout.state_bytes else 0
    return PoolLayout(
        tuple(groups),
        state_groups * settings.state_pages * page_bytes + layout.cross_bytes,
        page_bytes,
        sum(math.ceil(count / size) for count in counts),
    )


def sequence_bytes(pool: PoolLayout, tokens: Quantity) -> Quantity:
    """Bytes of the pool that one sequence of `tokens` tokens holds, rounded up as the engine does; slots apart."""
    if pool.window_ratio:
        # Either part of the split pool may run out first.
        tokens = maximum(tokens, minimum(tokens, pool.window_tokens) / pool.window_ratio)
    total: Quantity = pool.state_bytes
    for group in pool.groups:
        blocks = -(-tokens // group.block_tokens)
        if group.most_blocks is not None:
            blocks = minimum(blocks, group.most_blocks)
        total = total + blocks * group.block_bytes
    return total


def sequences_bytes(pool: PoolLayout, sequences: Quantity, tokens: Quantity) -> Quantity:
    """The smallest pool that holds so many sequences of `tokens` tokens, state that is set apart included."""
    cache = sequences * sequence_bytes(pool, tokens) + _idle_bytes(pool, sequences)
    return cache if pool.slots is None else pool_for(pool.slots, sequences, cache)


def _idle_bytes(pool: PoolLayout, sequences: Quantity) -> Quantity:
    """State that is allocated for sequences that haven't come."""
    return maximum(pool.least_states - sequences, 0.0) * pool.idle_state_bytes


def sequence_room(pool: PoolLayout, pool_bytes: Quantity, sequences: Quantity) -> Quantity:
    """What of the pool each of so many equal sequences may hold (bytes); below 0 where they can't all be held."""
    if pool.slots is None:
        return (pool_bytes - _idle_bytes(pool, sequences)) / sequences
    return room_of_each(pool.slots, pool_bytes, sequences)


def longest_sequence(pool: PoolLayout, room_bytes: Quantity) -> Quantity:
    """Tokens of the longest sequence that holds at most `room_bytes`; MAX_TOKENS where length costs nothing.

    What a sequence holds grows ever more slowly as windows fill, so it is the smallest of the straight lines that it
    is made of, and the longest length is the largest that any of them allows; then rounded down to whole blocks.
    """
    room = room_bytes - pool.state_bytes
    if not pool.groups:
        return maximum(0.0 * room + MAX_TOKENS * _sign(room), 0.0)
    ordered = sorted(pool.groups, key=lambda group: group.most_blocks or math.inf)
    longest: Quantity = 0.0 * room
    full = 0.0
    slope = sum(group.block_bytes / group.block_tokens for group in ordered)
    for group in ordered:
        longest = maximum(longest, (room - full) / slope)
        if group.most_blocks is None:
            break
        full += group.most_blocks * group.block_bytes
        slope -= group.block_bytes / group.block_tokens
    else:
        longest = maximum(longest, MAX_TOKENS * _sign(room - full))
    block = max(group.block_tokens for group in pool.groups)
    if pool.window_ratio:
        # Below the window the windowed part runs out first; beyond window / ratio the full part does.
        short = minimum(pool.window_ratio * longest, pool.window_tokens)
        longest = maximum(short, longest * _sign(longest - pool.window_tokens / pool.window_ratio))
    return minimum(longest // block * block, float(MAX_TOKENS))


def _sign(room: Quantity) -> Quantity:
    return np.asarray(room >= 0, np.float64) if isinstance(room, np.ndarray) else float(room >= 0)


def held_sequences(pool: PoolLayout, pool_bytes: Quantity, tokens: Quantity) -> Quantity:
    """Sequences of `tokens` tokens that the pool holds at once (not rounded); MAX_CONCURRENCY at most."""
    if pool.empty:
        return 0.0 * pool_bytes + MAX_CONCURRENCY
    most: Quantity = float(MAX_CONCURRENCY)
    if pool.slots is not None:
        most = minimum(sequences_with_state(pool.slots, pool_bytes), most)
        if not pool.groups:
            return most
        pool_bytes = cache_part_bytes(pool.slots, pool_bytes)
    elif pool.page_bytes:
        pool_bytes = pool_bytes // pool.page_bytes * pool.page_bytes
    each = sequence_bytes(pool, tokens)
    held = pool_bytes / each
    if pool.least_states:
        # Below that number a sequence more takes its tokens only: its state is there already.
        room = maximum(pool_bytes - pool.least_states * pool.idle_state_bytes, 0.0)
        fewer = room / (each - pool.idle_state_bytes) if pool.groups else 0.0 * room
        held = held + (1.0 - _sign(held - pool.least_states)) * (fewer - held)
    return minimum(held, most)


def kv_pool_tokens(pool: PoolLayout, pool_bytes: Quantity, tokens: Quantity) -> Quantity:
    """Tokens that the pool holds in sequences of `tokens` tokens: windows, blocks and state counted."""
    return held_sequences(pool, pool_bytes, tokens) * tokens


def engine_printed_tokens(
    pool: PoolLayout, pool_bytes: Quantity, settings: EngineSettings, max_model_len: int
) -> Quantity:
    """The cache size that the engine logs, by its own rule (tokens).

    vLLM up to 0.20: blocks over groups, times the block; later: its concurrency at max_model_len, times that. Others
    print the tokens of their pool.
    """
    if not pool.groups:
        return 0.0 * pool_bytes
    if pool.slots is not None:
        pool_bytes = cache_part_bytes(pool.slots, pool_bytes)
    block = min(group.block_tokens for group in pool.groups)
    whole = pool.page_bytes or sum(group.block_bytes for group in pool.groups)
    blocks = pool_bytes // whole
    if not settings.printed_by_concurrency or not pool.page_bytes:
        return blocks // pool.page_groups * block
    return engine_concurrency(pool, pool_bytes, settings, max_model_len) * max_model_len // 1


def engine_concurrency(
    pool: PoolLayout, pool_bytes: Quantity, settings: EngineSettings, max_model_len: int
) -> Quantity:
    """Sequences of max_model_len tokens that vLLM's log grants: a window counts with a whole step's tokens."""
    each = pool.state_bytes + sum(_logged_bytes(pool.groups, settings, max_model_len))
    if pool.page_bytes:
        pool_bytes = pool_bytes // pool.page_bytes * pool.page_bytes
    return pool_bytes / each


def _logged_bytes(
    groups: Iterable[PoolGroup], settings: EngineSettings, max_model_len: int
) -> Iterable[float]:
    for group in groups:
        tokens, extra = float(max_model_len), 0.0
        if group.window_tokens is not None:
            step = settings.max_num_batched_tokens
            tokens, extra = min(tokens, group.window_tokens - 1 + step), 1.0
        yield (-(-tokens // group.block_tokens) + extra) * group.block_bytes
