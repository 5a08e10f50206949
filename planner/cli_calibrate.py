"""The `calibrate` verb: the shipped constants refitted, or somebody's own fitted to their runs."""

from __future__ import annotations

import argparse
import csv
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from planner.catalog.engine_profiles import engine
from planner.catalog.measurements import Measurement, read_measurements
from planner.catalog.own_calibration import OwnCalibration, parse_own_calibration
from planner.cli_output import show
from planner.errors import InvalidInput, Note, PlannerError
from planner.measure.keep import write_whole
from planner.measure.own_fit import calibrated, fitted_to
from planner.measure.predict import resolve_run
from planner.measure.record import (
    MAX_BYTES,
    Record,
    is_measurement,
    json_of,
    measurements_of,
    parse_record,
    record_text,
)
from planner.measure.refit import by_plan, outcome_json, refit, refitted_notes
from planner.measure.write import write
from planner.ui.calibration_words import worse_words
from planner.ui.locale import say_error, say_note, text
from planner.ui.locale.numbers import significant

JSON = ".json"
DIGITS = 4  # of a constant


def run_calibrate(
    arguments: argparse.Namespace, language: str, print_json: Callable[[Any], None]
) -> int:
    """With `--write` all that is shipped is refitted; without, each file's runs give a calibration of their own."""
    paths = [Path(name) for name in arguments.measurements]
    if arguments.write:
        _refit(arguments, paths, language, print_json)
        return 0
    rows = [row for path in paths if path.suffix.lower() != JSON for row in _rows(path)]
    records = [
        calibrated(_record(path, "measurements")) for path in paths if path.suffix.lower() == JSON
    ]
    found = [one.calibration for one in records if one.calibration is not None]
    if rows:
        today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        found += fitted_to(rows, paths[0].stem[:60], today)
    if not rows and not records:
        raise InvalidInput("measurements_no_rows", field="measurements")
    if not found:
        rows += [row for record in records for row in measurements_of(record)]
        raise _nothing_found(rows, language, "measurements")
    if arguments.output is not None:
        if len(found) != 1:
            names = tuple(f"{one.accelerator} {one.engine}" for one in found)
            raise InvalidInput("calibration_several", field="output", names=names)
        _write(Path(arguments.output), records[0] if records else None, found[0])
    if arguments.json:
        print_json({"calibrations": [one.model_dump(mode="json") for one in found]})
    else:
        stated = _stated_versions(rows, records)
        lines = []
        for one in found:
            is_assumed = one.engine_version not in stated
            lines += calibration_lines(one, language, version_assumed=is_assumed)
        if arguments.output is not None:
            lines.append(text("measure.cli.written", language, file=arguments.output))
        show("\n".join(lines))
    return 0


def _stated_versions(rows: Sequence[Measurement], records: Sequence[Record]) -> set[str]:
    """The engine versions that runs say they ran in."""
    every = (*rows, *(row for record in records for row in measurements_of(record)))
    return {str(row.scenario.get("engine_version") or "") for row in every}


def _nothing_found(rows: Sequence[Measurement], language: str, field: str) -> InvalidInput:
    """Why runs gave no calibration: those that can't be answered, with the first one's reason, or too few."""
    dropped = []
    for row in rows:
        try:
            resolve_run(row)
        except PlannerError as error:
            dropped.append((row.id, error))
    if not dropped:
        return InvalidInput("calibration_rows_tell_nothing", field=field)
    row_id, first = dropped[0]
    return InvalidInput(
        "calibration_rows_dropped",
        field=field,
        dropped=len(dropped),
        rows=len(rows),
        row=row_id,
        reason=say_error(first, language),
    )


def calibration_lines(
    own: OwnCalibration, language: str, *, version_assumed: bool = False
) -> list[str]:
    """What a calibration found, as text: errors before and after, then the constants with how sure each is.

    Args:
        version_assumed: no run said which version of the engine it ran in.
    """
    values: dict[str, object] = {
        "name": own.name,
        "accelerator": own.accelerator,
        "engine": own.engine,
    }
    lines = [say_note(Note("calibrated", values), language)]
    if version_assumed:
        version: dict[str, object] = {
            "engine": engine(own.engine).name,
            "version": own.engine_version,
        }
        lines.append("  " + say_note(Note("calibrated_version_assumed", version), language))
    for what, error in (("tpot", own.tpot), ("ttft", own.ttft)):
        if error is not None:
            told: dict[str, object] = {
                "rows": error.rows,
                "before": error.before_fraction,
                "after": error.after_fraction,
                "low": error.low_fraction,
                "high": error.high_fraction,
            }
            lines.append("  " + say_note(Note(f"calibrated_{what}", told), language))
            lines += [f"  {one}" for one in worse_words(own, what, language)]
    for file, entries in own.constants.items():
        for key, constant in entries.items():
            told = {
                "key": f"{file}: {key}",
                "value": significant(constant.value, language, DIGITS),
                "deviation": constant.deviation,
            }
            code = "calibrated_at_bound" if constant.at_bound else "calibrated_constant"
            lines.append("  " + say_note(Note(code, told), language))
    return lines


def calibration_values(path: str, gpu: str | None, language: str) -> dict[str, Any]:
    """What `--calibration FILE` adds to a scenario: the calibration, and the device that was measured.

    Args:
        gpu: the accelerator that was asked for; another one than was measured keeps what is shipped for it.
        language: of the reason in a refusal.

    Raises:
        InvalidInput: where the file isn't a measurement or a calibration, or holds none.
    """
    content = _text(Path(path), "calibration")
    if is_measurement(content):
        record = parse_record(content, "calibration")
        if record.calibration is None:
            record = calibrated(record)
        if record.calibration is None:
            raise _nothing_found(measurements_of(record), language, "calibration")
        found: dict[str, Any] = {"calibration": record.calibration.model_dump(mode="json")}
        if record.device is not None and gpu in (None, record.device.id):
            found |= {"device": record.device.model_dump(mode="json"), "gpu": record.device.id}
        elif gpu is None:
            found["gpu"] = record.accelerator
        return found
    own = _calibration_alone(content)
    return {"calibration": own.model_dump(mode="json")} | (
        {"gpu": own.accelerator} if gpu is None else {}
    )


def _calibration_alone(content: str) -> OwnCalibration:
    data = json_of(content, "calibration")
    if not isinstance(data, dict):
        raise InvalidInput("measurement_foreign", field="calibration")
    return parse_own_calibration(data)


def _refit(
    arguments: argparse.Namespace,
    paths: list[Path],
    language: str,
    print_json: Callable[[Any], None],
) -> None:
    rows = [row for path in paths for row in _runs(path)]
    found = refit(by_plan(rows))
    written = write(found)
    if arguments.json:
        print_json({"families": outcome_json(found), "written": list(written)})
    else:
        show("\n".join([*(say_note(note, language) for note in refitted_notes(found)), *written]))


def _runs(path: Path) -> list[Measurement]:
    """The rows of a table of runs; none of one beside them, as of what was left out."""
    columns = next(csv.reader(_lines(path)[:1]), [])
    return _rows(path) if "id" in columns else []


def _rows(path: Path) -> list[Measurement]:
    return list(read_measurements(_lines(path), path.stem))


def _lines(path: Path) -> list[str]:
    return _text(path, "measurements").splitlines()


def _record(path: Path, field: str) -> Record:
    return parse_record(_text(path, field), field)


def _text(path: Path, field: str) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InvalidInput("measurement_too_big", field=field, limit_bytes=MAX_BYTES)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(
            "file_unreadable", field=str(path), reason=error.strerror or ""
        ) from error
    except UnicodeDecodeError as error:
        if path.suffix.lower() == JSON or field == "calibration":
            raise InvalidInput("measurement_not_json", field=field) from error
        raise InvalidInput("measurements_not_text", field=field, file=path.name) from error


def _write(path: Path, record: Record | None, own: OwnCalibration) -> None:
    content = record_text(record) if record else own.model_dump_json(indent=1) + "\n"
    write_whole(path, content)
