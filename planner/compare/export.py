"""A comparison as CSV, under the published names and units."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from typing import Any

from planner.compare.objectives import ANYTHING, Objectives, verdict_on
from planner.compare.table import Row
from planner.errors import Note, PlannerError
from planner.published import SPEED, Published, estimate_json
from planner.quantity import GIB, worst

# Of a row's speed; the others need a whole evaluation.
SPEEDS = tuple(
    one
    for one in SPEED
    if one.attribute in {"ttft_s", "tpot_s", "decode_tokens_per_s", "output_tokens_per_s", "total_tokens_per_s"}
)  # fmt: skip
MONEY = (
    Published("usd_per_hour", "usd_per_hour"),
    Published("usd_per_million_output_tokens", "usd_per_million_output_tokens"),
    Published("usd_per_million_tokens", "usd_per_million_tokens"),
)
ENDS = (("_low", "low"), ("", "mid"), ("_high", "high"))
COLUMNS = (
    "gpu", "gpu_name", "vendor", "class", "year", "gpus", "engine", "weights_stored_as",
    "verdict", "fits", "objectives", "needed_gib_per_gpu", "usable_gib_per_gpu", "max_concurrency",
    *(f"{one.name}{tail}" for one in SPEEDS for tail, _ in ENDS),
    "bound_by", "can_rent",
    *(f"{one.name}{tail}" for one in MONEY for tail, _ in ENDS),
    "price_oldest", "price_newest", "basis", "why_not",
)  # fmt: skip


def row_flat(
    row: Row, say: Callable[[Note | PlannerError], str], objectives: Objectives
) -> dict[str, Any]:
    """One row under COLUMNS; what isn't known, or wasn't asked, is absent.

    Args:
        say: turns a reason into a sentence in the user's language.
    """
    card = row.accelerator
    flat: dict[str, Any] = {
        "gpu": card.id,
        "gpu_name": card.name,
        "vendor": card.vendor,
        "class": card.accelerator_class,
        "year": card.year,
        "gpus": row.gpus,
        "engine": row.engine,
        "weights_stored_as": row.weights_label,
        "fits": row.holds,
        "objectives": verdict_on(row, objectives),
        "can_rent": row.can_rent,
        "why_not": say(row.obstacle) if row.obstacle else "",
    }
    if row.verdict is not None and row.max_concurrency is not None:
        flat |= {
            "verdict": row.verdict.value,
            "needed_gib_per_gpu": round(row.needed_bytes / GIB, 4),
            "usable_gib_per_gpu": round(row.usable_bytes / GIB, 4),
            "max_concurrency": int(row.max_concurrency.mid),
        }
    bases = []
    figures = [(one, getattr(row.speed, one.attribute, None)) for one in SPEEDS]
    for published, estimate in (*figures, *((one, getattr(row, one.attribute)) for one in MONEY)):
        ends = estimate_json(estimate, published)
        if ends is not None:
            flat |= {f"{published.name}{tail}": ends[end] for tail, end in ENDS}
            bases.append(estimate.basis)
    if row.speed is not None:
        flat["bound_by"] = row.speed.bound_by
    if row.price is not None:
        flat |= {"price_oldest": row.price.oldest, "price_newest": row.price.newest}
    if bases:
        flat["basis"] = worst(*bases).label
    return flat


def comparison_csv(
    rows: Iterable[Row],
    say: Callable[[Note | PlannerError], str],
    objectives: Objectives = ANYTHING,
) -> str:
    """The rows as CSV with a header line; prices in USD, times in milliseconds, sizes in GiB per GPU."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row_flat(row, say, objectives) for row in rows)
    return text.getvalue()
