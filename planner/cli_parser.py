"""The verbs and flags of the command line, as argparse reads them."""

from __future__ import annotations

import argparse

from planner.cli_flags import add_scenario_flags
from planner.cli_measure import add_measure
from planner.ui.locale import LANGUAGES


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def build_parser() -> argparse.ArgumentParser:
    """The argument parser, one subparser per verb."""
    parser = argparse.ArgumentParser(
        prog="python -m planner",
        description="LLM inference what-if calculator: does it fit, and how fast is it?",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, summary: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=summary, description=summary)
        sub.add_argument("--json", action="store_true", help="print JSON")
        sub.add_argument(
            "--lang",
            choices=LANGUAGES,
            default=None,
            help="language of sentences (default: the locale's)",
        )
        return sub

    estimate = verb("estimate", "Memory and speed of one scenario, with range and basis.")
    add_scenario_flags(estimate, calibration=True)
    batch = verb("batch", "Answer every row of a CSV file; a bad row carries its error.")
    batch.add_argument(
        "cases", help="CSV file with columns model, gpu and any of the estimate flags"
    )
    batch.add_argument("-o", "--output", required=True, help="CSV file to write")
    fit = verb("fit", "Which catalogue GPUs, counts and formats hold this model at this context.")
    add_scenario_flags(fit, gpu=False)
    fit.add_argument(
        "--gpu", action="append", default=None, help="only these accelerators (may be repeated)"
    )
    fit.add_argument("--formats", default=None, help="weight formats to try, separated by commas")
    fit.add_argument(
        "--max-gpus", type=int, default=8, help="largest number of GPUs to try (default 8)"
    )
    fit.add_argument(
        "--all", action="store_true", help="also list what does not fit, with the reason"
    )
    accuracy = verb("accuracy", "How far the planner's figures are from measured ones.")
    accuracy.add_argument("--markdown", action="store_true", help="print the whole report")
    calibrate = verb(
        "calibrate", "Fit constants to measured runs of your own, or refit what is shipped."
    )
    calibrate.add_argument(
        "measurements",
        nargs="+",
        help="measurements (JSON), or CSV files as in profiles/measurements",
    )
    calibrate.add_argument(
        "-o", "--output", default=None, help="file for the measurement with its calibration"
    )
    calibrate.add_argument(
        "--write",
        action="store_true",
        help="refit all that is shipped to these rows, with hold-outs, and replace profiles/calibrations (slow)",
    )
    add_measure(verb("measure", "Measure this machine, and compare with what is predicted."))
    for name, summary in (
        ("models", "Catalogue models, searched."),
        ("gpus", "Catalogue accelerators, searched."),
    ):
        listing = verb(name, summary)
        listing.add_argument("query", nargs="?", default="", help="words to search for")
        listing.add_argument(
            "--limit", type=_at_least_one, default=None, help="most entries to list"
        )
        if name == "models":
            _add_checks(listing)
    return parser


def _add_checks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check", metavar="FOLDER", help="describe every config.json in a folder, and count it"
    )
    parser.add_argument(
        "--facts",
        metavar="CSV",
        help="with --check: totals to compare with, by file or model_id (default: ../model_facts.csv)",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="how each model type's default configuration compares to transformers",
    )
