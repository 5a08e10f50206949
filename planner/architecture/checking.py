"""A folder of configurations, one after the other: what each amounts to, and how that compares to a published total."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.architecture.resolve import architecture_from_config
from planner.architecture.stored_elements import Explanation, explain
from planner.architecture.totals import parameters
from planner.errors import PlannerError

# Columns of a table of facts that state a total, the first that is filled in counts.
STATED_COLUMNS = ("hf_safetensors_total", "params_computed")


@dataclass(frozen=True, slots=True)
class Checked:
    """One configuration's answer, or its refusal.

    Attributes:
        name: of the file.
        seconds: reading, describing and counting it.
        parameters: buffers included, MTP layers apart; with_mtp: those too; buffers: of `parameters` (counts).
        explanation: against the stated total, or None where there is none.
        refusal: why there is no answer.
    """

    name: str
    seconds: float
    model_type: str = ""
    parameters: int = 0
    with_mtp: int = 0
    buffers: int = 0
    explanation: Explanation | None = None
    refusal: PlannerError | None = None

    @property
    def explained(self) -> bool:
        """Whether the stated total is met, or the difference made up by named causes."""
        return self.explanation is not None and self.explanation.rest == 0


def check(name: str, read: Callable[[], Mapping[str, Any]], stated: int | None) -> Checked:
    """Describes one configuration.

    Args:
        read: gives the configuration, or raises what it's refused with.
        stated: elements of the checkpoint as published, or None.
    """
    start = time.perf_counter()
    try:
        config = read()
        architecture = architecture_from_config(config)
        own = parameters(architecture)
        with_mtp = parameters(architecture, mtp=True)
        buffers = own - parameters(architecture, buffers=False)
        seconds = time.perf_counter() - start
        found = None if stated is None else explain(architecture, config, stated)
    except PlannerError as refusal:
        return Checked(name, time.perf_counter() - start, refusal=refusal)
    return Checked(name, seconds, architecture.model_type, own, with_mtp, buffers, found)


def stated_total(row: Mapping[str, str]) -> int | None:
    """The total that a row of facts states, by STATED_COLUMNS; None where none is a number."""
    for column in STATED_COLUMNS:
        text = (row.get(column) or "").strip()
        if text.isdecimal():
            return int(text)
    return None


def checked_json(rows: Iterable[Checked]) -> list[dict[str, Any]]:
    """Every row as plain data; times in seconds."""
    return [_plain(row) for row in rows]


def _plain(row: Checked) -> dict[str, Any]:
    plain: dict[str, Any] = {"file": row.name, "seconds": row.seconds}
    if row.refusal is not None:
        return {**plain, "error": row.refusal.code, "values": row.refusal.values}
    plain |= {
        "model_type": row.model_type,
        "parameters": row.parameters,
        "parameters_with_mtp": row.with_mtp,
        "buffers": row.buffers,
    }
    if row.explanation is not None:
        plain |= {
            "difference": row.explanation.difference,
            "causes": {cause.code: cause.elements for cause in row.explanation.causes},
            "unexplained": row.explanation.rest,
        }
    return plain


def checked_text(rows: Iterable[Checked]) -> str:
    """A table of refusals and of differences, each with its causes, and one line of counts.

    Rows that meet their total, or have none, are only counted.
    """
    rows = list(rows)
    lines = []
    for row in rows:
        if row.refusal is not None:
            values = json.dumps(row.refusal.values, default=str)
            lines.append(f"refused      {row.name}  {row.refusal.code} {values}")
        elif row.explanation is not None and row.explanation.difference:
            named = ", ".join(
                f"{cause.code} {cause.elements:+,}" for cause in row.explanation.causes
            )
            state = "explained" if row.explained else "unexplained"
            rest = f"  rest {row.explanation.rest:+,}" if row.explanation.rest else ""
            lines.append(
                f"{state:<11}  {row.name}  {row.explanation.difference:+,} = {named or '?'}{rest}"
            )
    return "\n".join([*lines, *(f"{key}: {value}" for key, value in summary(rows).items())])


def summary(rows: Iterable[Checked]) -> dict[str, Any]:
    """How many were read, refused, equal, explained and not, and the slowest (the first of a family imports it)."""
    rows = list(rows)
    stated = [row for row in rows if row.explanation is not None]
    timed = sorted(rows, key=lambda row: row.seconds)
    slowest = timed[-1] if timed else None
    return {
        "files": len(rows),
        "answered": sum(row.refusal is None for row in rows),
        "refused": sum(row.refusal is not None for row in rows),
        "with a stated total": len(stated),
        "equal": sum(
            row.explanation is not None and not row.explanation.difference for row in stated
        ),
        "difference explained": sum(
            row.explained and row.explanation is not None and bool(row.explanation.difference)
            for row in stated
        ),
        "difference unexplained": sum(not row.explained for row in stated),
        "slowest": f"{slowest.name} {slowest.seconds * 1e3:.1f} ms" if slowest else "",
    }
