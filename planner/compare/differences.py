"""Two accelerators against each other in words: how many times faster, dearer, roomier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from planner.compare.table import Row
from planner.errors import Note
from planner.quantity import Estimate

SAME_WITHIN = 1.05  # a ratio that no range of ours can tell from 1


@dataclass(frozen=True, slots=True)
class Aspect:
    """Something that two rows are compared in.

    Attributes:
        code: of its notes: `difference_<code>_more`, `_less` and `_same`.
        figure: of a row; None where it has none.
    """

    code: str
    figure: Callable[[Row], Estimate | None]


ASPECTS = (
    Aspect("ttft", lambda row: row.speed.ttft_s if row.speed else None),
    Aspect("user_speed", lambda row: row.speed.decode_tokens_per_s if row.speed else None),
    Aspect("throughput", lambda row: row.speed.total_tokens_per_s if row.speed else None),
    Aspect("hour", lambda row: row.usd_per_hour),
    Aspect("output_price", lambda row: row.usd_per_million_output_tokens),
    Aspect("token_price", lambda row: row.usd_per_million_tokens),
)


def about_the_same(a: Estimate, b: Estimate) -> bool:
    """Whether two figures can't be told apart: within 5 %, or each middle within the other's range."""
    if max(a.mid, b.mid) <= SAME_WITHIN * min(a.mid, b.mid):
        return True
    return bool(a.low <= b.mid <= a.high and b.low <= a.mid <= b.high)


def differences(row: Row, against: Row) -> tuple[Note, ...]:
    """What sets `row` apart from `against`, aspect by aspect: those that both have a figure for.

    Returns:
        Notes `difference_<aspect>_more`, `_less` or `_same` with `times`, at least 1 and to two figures, which is all
        that the ranges bear; before them `difference_only_this_holds`, `difference_only_other_holds` and
        `difference_gpus` where they apply. Each names both accelerators (`accelerator`, `other`).
    """
    return tuple(_notes(row, against))


def _notes(row: Row, against: Row) -> Iterator[Note]:
    names: dict[str, object] = {
        "accelerator": row.accelerator.name,
        "other": against.accelerator.name,
    }
    if row.holds and not against.holds:
        yield Note("difference_only_this_holds", names)
    elif against.holds and not row.holds:
        yield Note("difference_only_other_holds", names)
    if row.gpus != against.gpus:
        counts: dict[str, object] = {"gpus": row.gpus, "other_gpus": against.gpus}
        yield Note("difference_gpus", names | counts)
    for aspect in ASPECTS:
        if aspect.code != "hour" and not (row.holds and against.holds):
            continue  # speeds of what doesn't run say nothing
        mine, theirs = aspect.figure(row), aspect.figure(against)
        if mine is None or theirs is None:
            continue
        # One price for tokens: output tokens where there are any.
        if aspect.code == "token_price" and row.usd_per_million_output_tokens is not None:
            continue
        yield _difference(aspect.code, mine, theirs, names)


def _difference(code: str, mine: Estimate, theirs: Estimate, names: dict[str, object]) -> Note:
    ratio = float(mine.mid / theirs.mid)
    if about_the_same(mine, theirs):
        return Note(f"difference_{code}_same", names)
    more = ratio > 1.0
    times = float(f"{max(ratio, 1.0 / ratio):.2g}")
    return Note(f"difference_{code}_{'more' if more else 'less'}", names | {"times": times})
