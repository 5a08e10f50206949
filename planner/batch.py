"""Many scenarios from one CSV: each row answered or refused on its own, other columns passed through."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TextIO

from planner.errors import InvalidInput, PlannerError
from planner.evaluation import evaluate
from planner.published import FLAT_COLUMNS, evaluation_flat
from planner.scenario import DATA_FIELDS, Scenario

COLUMNS = tuple(name for name in Scenario.model_fields if name not in DATA_FIELDS)
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


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """What became of a batch: rows written, how many carry an error, and columns that look like fields but weren't."""

    rows: int
    refused: int
    unread: tuple[str, ...]


def run_batch(source: TextIO, target: TextIO, read_model: ModelReader, say: Say) -> BatchSummary:
    """Reads scenarios from `source` as CSV, writes them with their answers to `target`.

    Commas separate, or semicolons or tabs where the header has no comma. Columns are found whatever their case, with
    dashes or underscores; a column of the input that has an answer's name is kept as `given_<name>`.

    Raises:
        InvalidInput: where the header lacks a required column or names one twice, or the file isn't CSV.
    """
    csv.field_size_limit(MAX_CELL)
    try:
        first = source.readline(MAX_CELL)
        delimiter = next((one for one in ",;\t" if one in first), ",")
        names = next(csv.reader([first], delimiter=delimiter, strict=True), [])
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInput("batch_not_csv", field="cases", reason=str(error)) from error
    header = _header(names)
    reader = csv.DictReader(source, fieldnames=header, delimiter=delimiter)
    writer = csv.DictWriter(
        target, [*header, *FLAT_COLUMNS], extrasaction="ignore", lineterminator="\n"
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
    return BatchSummary(written, refused, tuple(filter(_nearly_a_field, header)))


def _header(names: list[str]) -> list[str]:
    """The header's names as fields where they mean one, each once.

    Raises:
        InvalidInput: where a required column is missing or a name comes twice.
    """
    header = []
    for name in names:
        plain = name.strip().lower().replace("-", "_").replace(" ", "_")
        known = plain if plain in COLUMNS else name
        header.append(f"given_{known}" if known in FLAT_COLUMNS else known)
    missing = [column for column in REQUIRED if column not in header]
    if missing:
        raise InvalidInput("batch_missing_columns", field="cases", columns=tuple(missing))
    twice = tuple(dict.fromkeys(name for name in header if header.count(name) > 1))
    if twice:
        raise InvalidInput("batch_columns_twice", field="cases", columns=twice)
    return header


def _nearly_a_field(name: str) -> bool:
    return name not in COLUMNS and bool(get_close_matches(name.lower(), COLUMNS, 1, 0.85))


def run_batch_files(source: Path, target: Path, read_model: ModelReader, say: Say) -> BatchSummary:
    """`run_batch` on files; the target appears only once it is whole.

    Raises:
        InvalidInput: where a file can't be opened or the target is the source, beside `run_batch`'s own.
    """
    try:
        with source.open(newline="", encoding="utf-8-sig") as reading:
            # A link stays one: the file that it means is written.
            place = target.resolve()
            if place.exists() and place.samefile(source):
                raise InvalidInput("batch_onto_itself", field="output")
            return _written_whole(
                place, lambda writing: run_batch(reading, writing, read_model, say)
            )
    except (OSError, ValueError) as error:
        name = str(getattr(error, "filename", None) or source)
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput("file_unreadable", field=name, reason=reason) from error


def _written_whole(place: Path, write: Callable[[TextIO], BatchSummary]) -> BatchSummary:
    try:
        descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=".headroom-", suffix=".csv")
    except OSError as error:
        values = {"file": str(place), "reason": error.strerror or str(error)}
        raise InvalidInput("file_cannot_be_written", field="output", **values) from error
    try:
        with os.fdopen(descriptor, "w", newline="", encoding="utf-8") as writing:
            summary = write(writing)
        mask = os.umask(0)  # the file is to have the rights of any other that the user makes
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, place)
    except OSError as error:
        values = {"file": str(place), "reason": error.strerror or str(error)}
        raise InvalidInput("file_cannot_be_written", field="output", **values) from error
    finally:
        Path(name).unlink(missing_ok=True)
    return summary
