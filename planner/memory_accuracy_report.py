"""The memory part of the accuracy report as text, Markdown or data."""

from __future__ import annotations

from typing import Any

from planner.measure.memory_accuracy import (
    MEMORY_TARGETS,
    MemoryPoint,
    MemorySummary,
    memory_families,
    memory_points,
    worst_memory,
)
from planner.quantity import GIB
from planner.report_tables import fine_percent, percent, plain_table, table, wrapped
from planner.ui.locale import text

_COLUMNS = ("family", "rows", "models", "median", "p90", "bias", "coverage", "held", "target")


def memory_json() -> dict[str, Any]:
    """Memory families and the worst rows, as data."""
    return {
        "families": {
            name: {
                "rows": one.rows,
                "models": one.models,
                "median_error_fraction": one.median,
                "p90_error_fraction": one.p90,
                "bias_fraction": one.bias,
                "coverage_fraction": one.coverage,
                "held_out_median_error_fraction": one.held,
                "target_fraction": MEMORY_TARGETS.get(name),
            }
            for name, one in memory_families().items()
        },
        "worst": [
            {
                "family": one.family,
                "row": one.row.id,
                "run": _run(one),
                "quantity": one.quantity,
                "measured": one.measured,
                "predicted": one.mid,
                "note": one.row.note,
            }
            for one in worst_memory()
        ],
        "refused": [{"code": note.code, **note.values} for note in memory_points()[1]],
    }


def memory_text(language: str) -> list[str]:
    """The memory families as lines of a plain table, for a terminal."""
    header = [_column(name, language) for name in _COLUMNS]
    rows = [_row(name, one, language) for name, one in memory_families().items()]
    return [
        text("memory_accuracy.heading", language),
        "",
        *plain_table(header, rows),
        "",
        text("memory_accuracy.how_to_read", language),
    ]


def memory_markdown(language: str) -> list[str]:
    """The section on memory: families, what misses its target, the worst rows."""

    def say(key: str, **values: Any) -> str:
        return text(f"memory_accuracy.{key}", language, **values)

    families = memory_families()
    lines = [f"## {say('title')}", "", wrapped(say("introduction")), ""]
    lines += table(
        [_column(name, language) for name in _COLUMNS],
        [_row(name, one, language) for name, one in families.items()],
    )
    older = families["vllm.pool.older"]
    lines += ["", wrapped(say("how_to_read")), ""]
    lines += [wrapped(say("older", rows=older.rows, models=older.models)), ""]
    lines += [wrapped(say("missing")), ""]
    lines += _missed(language)
    lines += ["", f"### {say('worst_title')}", "", wrapped(say("worst_introduction")), ""]
    header = [_column(name, language) for name in ("row", "run", "measured", "predicted", "known")]
    lines += table(header, [_worst_row(one, language) for one in worst_memory()])
    return lines


def _missed(language: str) -> list[str]:
    missed = [
        wrapped(
            "- "
            + text(
                "memory_accuracy.missed",
                language,
                family=text(f"memory_accuracy.family.{name}", language),
                error=fine_percent(one.median),
                target=fine_percent(MEMORY_TARGETS[name]),
            )
        )
        for name, one in memory_families().items()
        if name in MEMORY_TARGETS and one.median > MEMORY_TARGETS[name]
    ]
    return missed or [wrapped(text("memory_accuracy.none_missed", language))]


def _column(name: str, language: str) -> str:
    group = "memory_accuracy" if name in ("models", "known") else "accuracy"
    return text(f"{group}.column.{name}", language)


def _row(name: str, one: MemorySummary, language: str) -> list[str]:
    return [
        text(f"memory_accuracy.family.{name}", language),
        str(one.rows),
        str(one.models),
        fine_percent(one.median),
        fine_percent(one.p90),
        fine_percent(one.bias, signed=True),
        percent(one.coverage),
        fine_percent(one.held),
        fine_percent(MEMORY_TARGETS.get(name)),
    ]


def _run(one: MemoryPoint) -> str:
    scenario = one.row.scenario
    return (
        f"{one.deployment.engine.id} {scenario.get('engine_version', '')}, {scenario['model']}, "
        f"{scenario['weights']}, {one.deployment.parallelism.gpus} × {one.deployment.accelerator.id}"
    )


def _worst_row(one: MemoryPoint, language: str) -> list[str]:
    tokens = one.quantity == "kv_pool_tokens"
    sizes = [
        f"{size:,.0f}" if tokens else f"{size / GIB:.3f} GiB" for size in (one.measured, one.mid)
    ]
    family = text(f"memory_accuracy.family.{one.family}", language)
    return [one.row.id, f"{_run(one)}: {family}", *sizes, one.row.note or "–"]
