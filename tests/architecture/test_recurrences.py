"""Recurrent mixers: their stated work is that of their recurrence, run step by step with numbers that count."""

from __future__ import annotations

import random
from collections.abc import Callable

from planner.architecture import recurrent
from planner.architecture.spec import Shape


class Counted:
    """A number that counts the operations done with it; constants made beforehand cost nothing."""

    operations = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def _count(self, value: float) -> Counted:
        Counted.operations += 1
        return Counted(value)

    def __add__(self, other: Counted) -> Counted:
        return self._count(self.value + other.value)

    def __sub__(self, other: Counted) -> Counted:
        return self._count(self.value - other.value)

    def __mul__(self, other: Counted) -> Counted:
        return self._count(self.value * other.value)

    def function(self) -> Counted:
        """An elementary function: an exponential or a square root."""
        return self._count(self.value)


def numbers(count: int) -> list[Counted]:
    return [Counted(random.Random(count + index).random()) for index in range(count)]


def table(rows: int, columns: int) -> list[list[Counted]]:
    return [numbers(columns) for _ in range(rows)]


def counted(step: Callable[[], None]) -> int:
    Counted.operations = 0
    step()
    return Counted.operations


def delta_step(key_dim: int, value_dim: int, *, per_channel: bool) -> None:
    """One token of a gated delta rule on one head: the whole state decays alike, or each key channel by itself."""
    state, key, query, value = (
        table(key_dim, value_dim),
        numbers(key_dim),
        numbers(key_dim),
        numbers(value_dim),
    )
    decay, rate = numbers(key_dim) if per_channel else numbers(1) * key_dim, Counted(0.5)
    for i in range(key_dim):
        state[i] = [held * decay[i] for held in state[i]]
    for j in range(value_dim):
        read = Counted(0.0)
        for i in range(key_dim):
            read = read + state[i][j] * key[i]
        delta = (value[j] - read) * rate
        output = Counted(0.0)
        for i in range(key_dim):
            state[i][j] = state[i][j] + key[i] * delta
            output = output + state[i][j] * query[i]


def test_gated_delta_work_is_that_of_its_recurrence() -> None:
    _, mixer = recurrent.gated_delta(32, 2, 3, 4, 5, 3)
    assert mixer.recurrent_flops == 3 * counted(lambda: delta_step(4, 5, per_channel=False))


def test_kimi_delta_work_is_that_of_its_recurrence() -> None:
    _, mixer = recurrent.kimi_delta(32, 3, 4, 3)
    assert mixer.recurrent_flops == 3 * counted(lambda: delta_step(4, 4, per_channel=True))


def state_space_step(channels: int, size: int, *, decay_per_element: bool) -> None:
    """One token of Mamba: `size` state elements for each channel, a decay for each of them or one for all."""
    state, into, out = table(channels, size), numbers(size), numbers(size)
    rates, fixed = table(channels, size), Counted(0.9)
    for channel in range(channels):
        x, time_step, skip = numbers(3)
        scaled = time_step * x
        output = skip * x
        for n in range(size):
            decay = (time_step * rates[channel][n]).function() if decay_per_element else fixed
            state[channel][n] = state[channel][n] * decay + scaled * into[n]
            output = output + state[channel][n] * out[n]


def test_mamba_work_is_that_of_its_recurrence() -> None:
    _, mixer = recurrent.mamba(16, 6, 4, 2, 3)
    assert mixer.recurrent_flops == counted(lambda: state_space_step(6, 4, decay_per_element=True))


def test_mamba2_work_is_that_of_its_recurrence() -> None:
    _, mixer = recurrent.mamba2(16, recurrent.StateSpace(3, 4, 5, 1, 4))
    assert mixer.recurrent_flops == counted(
        lambda: state_space_step(12, 5, decay_per_element=False)
    )


def linear_attention_step(size: int, *, bonus: bool) -> None:
    """One token of linear attention on one head, with the current token's own term weighted apart or not."""
    state, key, value, query = table(size, size), numbers(size), numbers(size), numbers(size)
    decay, weight = numbers(size), numbers(size)
    for j in range(size):
        output = Counted(0.0)
        for i in range(size):
            new = key[i] * value[j]
            if bonus:
                output = output + query[i] * (weight[i] * new + state[i][j])
                state[i][j] = state[i][j] * decay[i] + new
            else:
                state[i][j] = state[i][j] * decay[i] + new
                output = output + query[i] * state[i][j]


def test_lightning_work_is_that_of_its_recurrence() -> None:
    _, mixer = recurrent.lightning(16, 3, 5)
    assert mixer.recurrent_flops == 3 * counted(lambda: linear_attention_step(5, bonus=False))


def test_rwkv_work_is_that_of_its_recurrence() -> None:
    _, mixer = recurrent.rwkv5(16, 20, 5)
    assert mixer.recurrent_flops == 4 * counted(lambda: linear_attention_step(5, bonus=True))


def griffin_step(width: int) -> None:
    one = Counted(1.0)
    for _ in range(width):
        x, gate, rate, open_fraction, held = numbers(5)
        decay = (rate * open_fraction).function()
        entering = (one - decay * decay).function() * (gate * x)
        held = held * decay + entering


def test_griffin_work_is_that_of_its_recurrence() -> None:
    _, mixer = recurrent.gated_linear_recurrence(16, 12, 3, 4)
    assert mixer.recurrent_flops == counted(lambda: griffin_step(12))


def test_what_a_group_shares_is_repeated_once_ranks_outnumber_groups() -> None:
    sizes = recurrent.StateSpace(heads=16, head_dim=8, state=32, groups=2, kernel=4)
    weights, mixer = recurrent.mamba2(64, sizes)
    by_shards = {state.shards: state.elements for state in mixer.states[1:]}
    assert by_shards == {16: 3 * 16 * 8, 2: 3 * 2 * 2 * 32}
    shared = [weight for weight in weights if weight.kv_heads]
    assert {weight.kv_heads for weight in shared} == {2}
    assert sum(weight.rows for weight in shared if weight.shape is Shape.LINEAR) == 2 * 2 * 32
