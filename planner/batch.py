"""Many scenarios from one CSV: each row answered or refused on its own, other columns passed through."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from planner.errors import InvalidInput, PlannerError
from planner.evaluation import evaluate
from planner.published import FLAT_COLUMNS, evaluation_flat
from planner.scenario import Scenario

COLUMNS = (
    "model", "gpu", "gpus", "tp", "pp", "ep", "dp", "engine", "engine_version", "weights", "kv", "dtype",
    "gpu_memory_gib", "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
    "block_size", "include_mtp", "input_tokens", "output_tokens", "concurrency",
)  # fmt: skip
REQUIRED = ("model", "gpu")
MAX_ROWS = 1_000_000
MAX_CELL = 100_000


ModelReader = Callable[[str], dict[str, Any]]
Say = Callable[[PlannerError], str]


def answer_rows(
    rows: Iterator[dict[str, Any]], read_model: ModelReader, say: Say
) -> Iterator[dict[str, Any]]:
    """Each row with its answer appended, or with its error and no figures.

    Args:
        rows: cells by column; those in COLUMNS are the scenario, the others pass through.
        read_model: what a model cell means, as scenario fields.
        say: turns a refusal into a sentence.
    """
    known_models: dict[str, dict[str, Any]] = {}
    for row in rows:
        answer: dict[str, Any] = dict.fromkeys(FLAT_COLUMNS)
        try:
            if None in row:  # csv's key for cells beyond the header
                raise InvalidInput("batch_row_too_long")
            cells = {column: (row.get(column) or "").strip() for column in COLUMNS}
            name = cells["model"]
            if name not in known_models:
                known_models[name] = read_model(name)
            answer |= evaluation_flat(evaluate(Scenario.parse(cells | known_models[name])))
            answer["error"] = ""
        except PlannerError as error:
            answer["error"] = say(error)
        row.pop(None, None)  # type: ignore[call-overload]  # cells beyond the header
        yield {**row, **answer}


def run_batch(source: TextIO, target: TextIO, read_model: ModelReader, say: Say) -> tuple[int, int]:
    """Reads scenarios from `source` as CSV, writes them with their answers to `target`.

    Returns:
        Rows written, and how many of them carry an error.

    Raises:
        InvalidInput: where the header lacks a required column, or the file isn't CSV.
    """
    csv.field_size_limit(MAX_CELL)
    reader = csv.DictReader(source)
    try:
        header = list(reader.fieldnames or ())
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInput("batch_not_csv", field="cases", reason=str(error)) from error
    missing = [column for column in REQUIRED if column not in header]
    if missing:
        raise InvalidInput("batch_missing_columns", field="cases", columns=tuple(missing))
    passed = [column for column in header if column not in FLAT_COLUMNS]
    writer = csv.DictWriter(
        target, [*passed, *FLAT_COLUMNS], extrasaction="ignore", lineterminator="\n"
    )
    writer.writeheader()
    written = refused = 0
    try:
        for row in answer_rows(reader, read_model, say):
            writer.writerow(row)
            written += 1
            refused += bool(row["error"])
            if written > MAX_ROWS:
                raise InvalidInput("batch_too_many_rows", field="cases", limit=MAX_ROWS)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInput("batch_not_csv", field="cases", reason=str(error)) from error
    return written, refused


def run_batch_files(
    source: Path, target: Path, read_model: ModelReader, say: Say
) -> tuple[int, int]:
    """`run_batch` on files; the target appears only once it is whole.

    Raises:
        InvalidInput: where a file can't be opened, beside `run_batch`'s own.
    """
    partial = target.with_name(target.name + ".part")
    try:
        with (
            source.open(newline="", encoding="utf-8-sig") as reading,
            partial.open("w", newline="", encoding="utf-8") as writing,
        ):
            counts = run_batch(reading, writing, read_model, say)
        partial.replace(target)
    except OSError as error:
        raise InvalidInput(
            "file_unreadable", field=str(error.filename), reason=error.strerror or ""
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return counts
