"""The command line: `python -m planner estimate|batch|fit|measure|models|gpus|accuracy|calibrate`.

Exit code 0: answered (of `batch`: also with refused rows, which carry their error); 1: refused, with the reason;
2: wrong usage.
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from planner.catalog.search import Kind
from planner.cli_flags import given_model, model_reference, scenario_values
from planner.cli_measure import run_measure
from planner.cli_output import print_json as _print_json
from planner.cli_output import show
from planner.cli_parser import build_parser
from planner.errors import InvalidInput, Note, PlannerError
from planner.ui.locale import pick_language, say_error, say_note


def run_estimate(arguments: argparse.Namespace, language: str) -> int:
    """The `estimate` verb."""
    from planner.evaluation import evaluate
    from planner.published import evaluation_json
    from planner.scenario import Scenario
    from planner.text_report import estimate_text

    values = scenario_values(arguments) | given_model(arguments, language) | {"gpu": arguments.gpu}
    if arguments.calibration is not None:
        from planner.cli_calibrate import calibration_values

        values |= calibration_values(arguments.calibration, arguments.gpu, language)
    evaluation = evaluate(Scenario.parse(values))
    if arguments.json:
        _print_json(evaluation_json(evaluation, lambda note: say_note(note, language)))
    else:
        show(estimate_text(evaluation, language))
    return 0


def run_batch(arguments: argparse.Namespace, language: str) -> int:
    """The `batch` verb."""
    from planner.batch import run_batch_files

    gc.set_threshold(50_000, 20, 20)  # many rows make many objects and hardly a cycle
    done = run_batch_files(
        Path(arguments.cases),
        Path(arguments.output),
        model_reference,
        lambda error: say_error(error, language),
    )
    summary = {"rows": done.rows, "refused": done.refused, "output": arguments.output}
    if done.unread:
        show(
            say_note(Note("batch_unread_columns", {"columns": done.unread}), language),
            file=sys.stderr,
        )
    if arguments.json:
        _print_json({**summary, "unread_columns": done.unread})
    else:
        answered = done.rows - done.refused
        show(say_note(Note("batch_done", {**summary, "answered": answered}), language))
    return 0


def run_fit(arguments: argparse.Namespace, language: str) -> int:
    """The `fit` verb."""
    from planner.compare.holding import holding_json, holding_options
    from planner.ui.holding_text import holding_text

    values = scenario_values(arguments) | given_model(arguments, language)
    options = holding_options(
        values,
        accelerators=arguments.gpu,
        formats=arguments.formats.split(",") if arguments.formats else None,
        max_gpus=arguments.max_gpus,
        include_failing=arguments.all,
    )
    if arguments.json:
        _print_json(holding_json(options, lambda note: say_note(note, language)))
    else:
        show(holding_text(options, language))
    return 0


def run_listing(arguments: argparse.Namespace, language: str) -> int:
    """The `models` and `gpus` verbs."""
    from planner.text_report import listing_json, listing_text

    if arguments.verb == "models" and arguments.check:
        return run_check(arguments)
    if arguments.verb == "models" and arguments.coverage:
        return run_coverage(arguments)
    kind: Kind = "model" if arguments.verb == "models" else "accelerator"
    if arguments.json:
        _print_json(listing_json(kind, arguments.query, arguments.limit))
    else:
        show(listing_text(kind, arguments.query, arguments.limit, language))
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """`models --check FOLDER`: every configuration in a folder, against a table of published totals."""
    from planner.architecture.checking import checked_json, checked_text
    from planner.architecture.config_folder import check_folder

    rows = check_folder(arguments.check, arguments.facts)
    if arguments.json:
        _print_json(checked_json(rows))
    else:
        show(checked_text(rows))
    return 0


def run_coverage(arguments: argparse.Namespace) -> int:
    """`models --coverage`: every model type of transformers against its witness."""
    from planner.architecture.config_folder import read_witnesses
    from planner.architecture.coverage import coverage
    from planner.architecture.coverage_report import coverage_json, coverage_markdown

    rows = coverage(read_witnesses())
    if arguments.json:
        _print_json(coverage_json(rows))
    else:
        show(coverage_markdown(rows), end="")
    return 0


def run_accuracy(arguments: argparse.Namespace, language: str) -> int:
    """The `accuracy` verb."""
    from planner.accuracy_report import accuracy_json, accuracy_markdown, accuracy_text

    if arguments.json:
        _print_json(accuracy_json())
    elif arguments.markdown:
        show(accuracy_markdown(language), end="")
    else:
        show(accuracy_text(language))
    return 0


def run_calibrate(arguments: argparse.Namespace, language: str) -> int:
    """The `calibrate` verb."""
    from planner import cli_calibrate

    return cli_calibrate.run_calibrate(arguments, language, _print_json)


VERBS = {
    "accuracy": run_accuracy,
    "calibrate": run_calibrate,
    "estimate": run_estimate,
    "batch": run_batch,
    "fit": run_fit,
    "measure": run_measure,
    "models": run_listing,
    "gpus": run_listing,
}


def _fill_closed() -> bool:
    """Puts nowhere in place of a closed standard output or error; returns whether the output was closed.

    Python has None there, and `print` takes that of an error for standard output. What lies nowhere also takes the
    number that the next file to be opened would get, which libraries would write their messages into.
    """
    streams: tuple[TextIO | None, TextIO | None] = (sys.stdout, sys.stderr)
    if streams[0] is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if streams[1] is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return streams[0] is None


def _writes_a_file(parsed: argparse.Namespace) -> bool:
    """Whether something comes of it beside what is printed."""
    return bool(getattr(parsed, "output", None) or getattr(parsed, "write", False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb.

    Returns:
        The exit code: 0 answered, 1 refused with a reason. argparse itself exits with 2.
    """
    is_unheard = _fill_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    if parsed.verb == "estimate" and parsed.gpu is None and parsed.calibration is None:
        parser.error("estimate needs --gpu, or --calibration with a measurement")
    language = pick_language(parsed.lang, os.environ.get("LC_ALL") or os.environ.get("LANG"))
    try:
        if is_unheard and not _writes_a_file(parsed):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        code = VERBS[parsed.verb](parsed, language)
        sys.stdout.flush()
        return code
    except PlannerError as error:
        if parsed.json:
            refusal = {
                "code": error.code,
                "field": error.field,
                "message": say_error(error, language),
            }
            _print_json({"error": {**refusal, "values": error.values}})
        show(say_error(error, language), file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has enough. Nothing more may be written, not even what Python still holds.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno is None:  # not a call of the system, such as a library that can't be loaded
            raise
        values = {"file": str(error.filename or "-"), "reason": error.strerror or str(error)}
        show(say_error(InvalidInput("file_cannot_be_written", **values), language), file=sys.stderr)
        return 1
