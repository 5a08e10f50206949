"""The command line's answers for people: an estimate as a page of text, catalogue listings as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.catalog.search import Kind, read_index, search
from planner.errors import Note
from planner.evaluation import Evaluation
from planner.quantity import Estimate
from planner.ui.device_words import key_for, note_for
from planner.ui.locale import say_note, text
from planner.ui.locale.numbers import format_value

DEFAULT_LIMIT = 400


def _row(
    key: str,
    estimate: Estimate | None,
    kind: str,
    language: str,
    device: Mapping[str, Any] | None,
) -> str | None:
    if estimate is None:
        return None
    shown = format_value(estimate.mid, kind, language)
    if estimate.low != estimate.high:
        low, high = (format_value(end, kind, language) for end in (estimate.low, estimate.high))
        shown = f"{shown:<14} {low} – {high}"
    label = text(key_for(f"figure.{key}", device, language), language)
    basis = text(f"basis.{estimate.basis.label}", language)
    return f"  {label:<44} {shown:<40} [{basis}]"


MEMORY_ROWS = (
    ("weights_bytes_per_gpu", "gib"),
    ("activation_bytes_per_gpu", "gib"),
    ("overhead_bytes_per_gpu", "gib"),
    ("kv_pool_bytes_per_gpu", "gib"),
    ("state_pool_bytes_per_gpu", "gib"),
    ("needed_bytes_per_gpu", "gib"),
    ("reserved_bytes_per_gpu", "gib"),
    ("usable_bytes_per_gpu", "gib"),
    ("host_weights_bytes", "gib"),
    ("host_kv_bytes", "gib"),
    ("kv_bytes_per_token", "bytes"),
    ("kv_bytes_per_sequence", "bytes"),
    ("state_bytes_per_sequence", "bytes"),
    ("kv_pool_tokens", "count"),
    ("engine_printed_kv_tokens", "count"),
    ("max_concurrency", "count"),
    ("max_context_tokens", "count"),
)
SPEED_ROWS = (
    ("ttft_s", "time"),
    ("ttft_unloaded_s", "time"),
    ("tpot_s", "time"),
    ("decode_tokens_per_s", "rate"),
    ("prefill_tokens_per_s", "rate"),
    ("output_tokens_per_s", "rate"),
    ("total_tokens_per_s", "rate"),
    ("e2e_s", "time"),
)


def estimate_text(evaluation: Evaluation, language: str) -> str:
    """One scenario's answer: the verdict first, then memory, speed, bounds, warnings and assumptions."""
    memory, speed, device = evaluation.memory, evaluation.speed, evaluation.scenario.device

    def said(note: Note) -> str:
        return say_note(note_for(note, device, language), language)

    lines = [said(evaluation.headline).replace("**", "")]
    if evaluation.caveat:
        lines.append(said(evaluation.caveat))
    lines += ["", text("report.memory", language)]
    rows = [_row(name, getattr(memory, name), kind, language, device) for name, kind in MEMORY_ROWS]
    lines += [row for row in rows if row]
    if speed is not None:
        lines += ["", text("report.speed", language)]
        rows = [
            _row(name, getattr(speed, name), kind, language, device) for name, kind in SPEED_ROWS
        ]
        lines += [row for row in rows if row]
        lines.append("  " + text(f"bound_by.{speed.bound_by}", language))
        for key, bound in (
            ("ttft_bound_s", speed.ttft_bound_s),
            ("tpot_bound_s", speed.tpot_bound_s),
        ):
            if bound is not None:
                label = text(f"figure.{key}", language)
                lines.append(f"  {label:<44} {format_value(bound, 'time', language)}")
    for key, notes in (
        ("report.remedies", memory.remedies),
        ("report.warnings", evaluation.warnings),
        ("report.assumptions", evaluation.assumptions),
    ):
        if notes:
            lines += ["", text(key, language)]
            lines += [f"  - {said(note)}" for note in notes]
    return "\n".join(lines)


def listing_json(kind: Kind, query: str, limit: int | None) -> list[dict[str, Any]]:
    """Catalogue entries of `kind` ("model" or "accelerator") that match `query`, best first; all where it's empty."""
    found = (
        search(kind, query, limit=limit or DEFAULT_LIMIT)
        if query.strip()
        else read_index(kind)[:limit]
    )
    return [
        {"id": entry.id, "name": entry.name, "aliases": list(entry.aliases), **entry.fields}
        for entry in found
    ]


def listing_text(kind: Kind, query: str, limit: int | None, language: str) -> str:
    """The same as a table of ids and names."""
    found = listing_json(kind, query, limit)
    if not found:
        return text("report.nothing_found", language, query=query)
    width = max(len(entry["id"]) for entry in found)
    lines = [f"{entry['id']:<{width}}  {entry['name']}" for entry in found]
    return "\n".join([*lines, text("report.listed", language, number=len(found))])
