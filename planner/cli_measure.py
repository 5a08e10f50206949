"""The verb `measure`: what there is to measure here, and what else is measured or read under its name.

What stands behind `measure` alone is in `planner/cli_measure_own.py`. A verb of its own below it (`measure log FILE`)
is one entry of SUB_VERBS.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from planner.cli_endpoint import add_endpoint, run_endpoint
from planner.cli_measure_own import add_own, run_own
from planner.cli_output import print_json
from planner.cli_readers import add_import, add_log, run_import, run_log
from planner.ui.locale import LANGUAGES

Run = Callable[[argparse.Namespace, str], int]


@dataclass(frozen=True, slots=True)
class SubVerb:
    """A verb below `measure`.

    Attributes:
        name, summary: as `--help` shows them.
        add: puts its flags on its parser; `--json` and `--lang` are there already.
        run: takes the parsed arguments and the language, and returns the exit code; a PlannerError is said by the
            caller.
    """

    name: str
    summary: str
    add: Callable[[argparse.ArgumentParser], None]
    run: Run


SUB_VERBS: tuple[SubVerb, ...] = (
    SubVerb(
        "endpoint",
        "A server that streams OpenAI's API, under load.",
        add_endpoint,
        run_endpoint,
    ),
    SubVerb(
        "log", "An engine's start-up log, line by line against the prediction.", add_log, run_log
    ),
    SubVerb(
        "import", "Results of another benchmark tool as a measurement.", add_import, run_import
    ),
)


def add_measure(parser: argparse.ArgumentParser) -> None:
    """Puts the flags of `measure` and the verbs below it on its parser."""
    add_own(parser)
    if not SUB_VERBS:
        return
    verbs = parser.add_subparsers(dest="measure_verb", required=False, metavar="VERB")
    for one in SUB_VERBS:
        sub = verbs.add_parser(one.name, help=one.summary, description=one.summary)
        # Suppressed: a flag that stands before the verb isn't overwritten by the verb's default.
        sub.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
        sub.add_argument(
            "--lang", choices=LANGUAGES, default=argparse.SUPPRESS, help="language of sentences"
        )
        one.add(sub)


def run_measure(arguments: argparse.Namespace, language: str) -> int:
    """The `measure` verb, or the one below it that was named."""
    wanted = getattr(arguments, "measure_verb", None)
    for one in SUB_VERBS:
        if one.name == wanted:
            return one.run(arguments, language)
    return run_own(arguments, language, print_json)
