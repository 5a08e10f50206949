"""The verbs `measure log FILE` and `measure import FILE`: what other programs wrote against what is predicted."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.cli_flags import add_scenario_flags, given_model, scenario_values
from planner.errors import InvalidInput

if TYPE_CHECKING:
    from planner.measure.readers import LogReading, ResultsReading
    from planner.measure.record import Record

ASKING = ("reading_incomplete", "reading_names_unknown")
SPARE_BYTES = 1  # read beyond the limit, to see that there is more


def add_log(parser: argparse.ArgumentParser) -> None:
    """The flags of `measure log`: the file, and whatever the log doesn't state."""
    parser.add_argument(
        "file", help="start-up log of vLLM, SGLang or llama.cpp; - for standard input"
    )
    add_scenario_flags(parser, required=False)


def run_log(arguments: argparse.Namespace, language: str) -> int:
    """`measure log`: each memory line, printed against predicted."""
    from planner.cli_output import print_json, show
    from planner.measure.readers import compare_log
    from planner.readings_report import comparison_json, comparison_text

    reading = _log(read_file(arguments.file), language)
    with _asking_by_flag(reading, arguments):
        found = compare_log(reading, _given(arguments, language))
    if arguments.json:
        print_json(comparison_json(reading, found, language))
    else:
        show(comparison_text(reading, found, language))
    return 0


def _log(content: bytes, language: str) -> LogReading:
    """A log as read.

    Raises:
        InvalidInput: where it is none, which names `measure import` where the file is meant for that.
    """
    from planner.measure.readers import read_log, recognise
    from planner.measure.record import calibration_record, is_measurement
    from planner.ui.locale import text

    if is_measurement(content) or calibration_record(content) is not None:
        raise InvalidInput("log_is_own", field="log")
    try:
        return read_log(content)
    except InvalidInput as refusal:
        if refusal.code != "log_foreign":
            raise
        try:
            tool = text(f"import.tool.{recognise(content).tool}", language)
        except InvalidInput:
            raise refusal from None
        raise InvalidInput("log_is_results", field="log", tool=tool) from None


def _results(content: bytes) -> ResultsReading:
    """Another tool's results as read.

    Raises:
        InvalidInput: where they are none, which names `measure log` where the file is meant for that.
    """
    from planner.catalog.engine_profiles import engine
    from planner.measure.readers import read_log, recognise
    from planner.measure.readers.untrusted import OWN_MAX_BYTES

    try:
        return recognise(content, limit_bytes=OWN_MAX_BYTES)
    except InvalidInput as refusal:
        if refusal.code not in ("results_foreign", "results_not_json"):
            raise
        try:
            tool = engine(read_log(content).tool).name
        except InvalidInput:
            raise refusal from None
        raise InvalidInput("results_are_log", field="results", tool=tool) from None


@contextmanager
def _asking_by_flag(
    reading: LogReading | ResultsReading, arguments: argparse.Namespace
) -> Iterator[None]:
    """Has what a file doesn't say asked for by its flags, beside the model and the GPU that it names; data keep fields.

    Raises:
        InvalidInput: what was raised inside, so put.
    """
    try:
        yield
    except InvalidInput as refusal:
        code, values = refusal.code, dict(refusal.values)
        missing = values.get("missing")
        if arguments.json or code not in ASKING or not isinstance(missing, tuple):
            raise
        values["missing"] = tuple(f"--{name.replace('_', '-')}" for name in missing)
        printed = [one for one in (reading.printed_model, reading.printed_gpu) if one]
        if code == "reading_incomplete" and printed:
            code = "reading_incomplete_beside"
            values["printed"] = " · ".join(printed)
        raise InvalidInput(code, field=refusal.field, **values) from None


def add_import(parser: argparse.ArgumentParser) -> None:
    """The flags of `measure import`: the file, and whatever it doesn't state."""
    parser.add_argument(
        "file",
        help="results of vllm bench, SGLang's bench_serving, GuideLLM, AIPerf, GenAI-Perf or llama-bench, or a "
        "measurement or calibration of ours, to see it again; - for standard input",
    )
    add_scenario_flags(parser, required=False)
    parser.add_argument(
        "--name", default=None, help="what the measurement is called (default: the file's name)"
    )
    parser.add_argument(
        "--date", default=None, help="when it ran, as YYYY-MM-DD (default: the file's, else today)"
    )
    parser.add_argument(
        "-o", "--output", default=None, help="measurement to write, as measure does"
    )


def run_import(arguments: argparse.Namespace, language: str) -> int:
    """`measure import`: another tool's results as a measurement, with the calibration that they give.

    A measurement or calibration of ours is shown as it is.
    """
    from planner.cli_output import print_json, show
    from planner.measure.keep import keep, require_writable
    from planner.measure.own_fit import calibrated
    from planner.measure.readers import complete
    from planner.measure.readers.untrusted import OWN_MAX_BYTES
    from planner.measure.record import calibration_record, is_measurement, parse_record
    from planner.readings_report import import_text

    if arguments.output is not None:
        require_writable(Path(arguments.output))
    content = read_file(arguments.file, OWN_MAX_BYTES)
    if is_measurement(content):
        return _show_own(parse_record(content), arguments, language)
    if (alone := calibration_record(content)) is not None:
        return _show_own(alone, arguments, language)
    reading = _results(content)
    given = _given(arguments, language) | {"name": arguments.name, "date": arguments.date}
    with _asking_by_flag(reading, arguments):
        record = complete(reading, given, "" if arguments.file == "-" else arguments.file)
    record = calibrated(record)
    if arguments.output is not None:
        keep(Path(arguments.output), record)
    if arguments.json:
        print_json(record.model_dump(mode="json"))
    else:
        show(import_text(reading, record, arguments.output, language))
    return 0


def _show_own(record: Record, arguments: argparse.Namespace, language: str) -> int:
    """What `measure`, `measure endpoint` or `calibrate` wrote, with today's predictions; fitted where it wasn't yet."""
    from planner.cli_output import print_json, show
    from planner.endpoint_report import endpoint_json, endpoint_text
    from planner.measure.keep import keep
    from planner.measure.own_fit import calibrated
    from planner.measure_report import measured_json, measured_text

    record = record if record.calibration is not None else calibrated(record)
    is_endpoint = record.origin == "endpoint"
    if arguments.output is not None:
        keep(Path(arguments.output), record)
    if arguments.json:
        print_json((endpoint_json if is_endpoint else measured_json)(record, language))
    elif record.calibration is not None and "calibration_alone" in record.notes:
        from planner.cli_calibrate import calibration_lines

        show("\n".join(calibration_lines(record.calibration, language)))
    else:
        show((endpoint_text if is_endpoint else measured_text)(record, language))
    return 0


def _given(arguments: argparse.Namespace, language: str) -> dict[str, Any]:
    values = scenario_values(arguments)
    if arguments.model is not None:
        values |= given_model(arguments, language)
    if arguments.gpu is not None:
        values["gpu"] = arguments.gpu
    return values


def read_file(name: str, limit_bytes: int | None = None) -> bytes:
    """The bytes of a file, or of standard input for "-", no more than one beyond what is read.

    Raises:
        InvalidInput: where it can't be opened.
    """
    from planner.measure.readers.untrusted import MAX_BYTES

    limit = (limit_bytes or MAX_BYTES) + SPARE_BYTES
    if name == "-":
        return sys.stdin.buffer.read(limit) if sys.stdin is not None else b""
    try:
        with Path(name).open("rb") as stream:
            return stream.read(limit)
    except OSError as error:
        raise InvalidInput("file_unreadable", field=name, reason=error.strerror or "") from error
