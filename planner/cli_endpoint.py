"""The verb `measure endpoint URL`: a server that streams OpenAI's API, measured under load."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from planner.cli_flags import HELP, model_reference

LOOPS = "1,4,16"
GIVEN = ("gpu", "gpus", "tp", "pp", "dp", "engine", "engine_version", "weights", "kv", "dtype")
WHOLE = ("gpus", "tp", "pp", "dp")


def add_endpoint(parser: argparse.ArgumentParser) -> None:
    """The flags of `measure endpoint`: where, what load, the bounds, and what the server doesn't tell."""
    parser.add_argument("url", help="base address of its API, such as http://127.0.0.1:8000/v1")
    parser.add_argument(
        "--model", default="", help="name that the server knows (default: the only one it lists)"
    )
    parser.add_argument(
        "--api", choices=("completions", "chat"), default="completions", help="default completions"
    )
    for flag, default, about in (
        ("--input-tokens", 512, "prompt length"),
        ("--output-tokens", 128, "generated length"),
    ):
        parser.add_argument(
            flag,
            type=int,
            default=default,
            metavar="N",
            help=f"{about} (tokens, default {default})",
        )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        default=None,
        help="lengths of requests instead, taken in turn: lines of prompt and answer tokens; - for standard input",
    )
    parser.add_argument(
        "--trace-name",
        metavar="NAME",
        default=None,
        help="what the measurement calls that file, without its folder (default: its name)",
    )
    parser.add_argument(
        "--concurrency",
        default=None,
        metavar="N,N",
        help=f"closed loops, one after another: requests in flight (default {LOOPS})",
    )
    parser.add_argument(
        "--rate", default="", metavar="R,R", help="Poisson arrivals: requests per second"
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=None,
        metavar="N",
        help="requests of each load (default: four rounds of a closed loop, 12 at least; 50 of Poisson arrivals)",
    )
    parser.add_argument(
        "--warmup", type=int, default=2, metavar="N", help="requests beforehand (default 2)"
    )
    parser.add_argument(
        "--max-seconds", type=float, default=300.0, metavar="S", help="of all of it (default 300)"
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=1_000_000,
        metavar="N",
        help="of all prompts and answers (default 1,000,000)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="longest wait for the next piece of an answer (default 60)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals (default 0)")
    parser.add_argument(
        "--catalogue-model",
        default=None,
        metavar="ID",
        help="the model, to compare with what is predicted: catalogue id, or path of a config.json",
    )
    for name in GIVEN:
        kind = int if name in WHOLE else str
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=kind,
            default=None,
            metavar=kind.__name__.upper(),
            help=HELP[name],
        )
    parser.add_argument(
        "--no-key", action="store_true", help="send no key, whatever the environment holds"
    )
    parser.add_argument(
        "--public-only",
        action="store_true",
        help="refuse addresses of this machine and its network",
    )
    parser.add_argument("--name", default="", help="name of the measurement")
    parser.add_argument("-o", "--output", default=None, help="file to write, anew after every load")
    parser.add_argument(
        "--progress",
        action="store_true",
        help="print a line of JSON for each step, and nothing else",
    )
    parser.epilog = "The server's key, where it asks for one, is read from HEADROOM_ENDPOINT_KEY."


def run_endpoint(arguments: argparse.Namespace, language: str) -> int:
    """`measure endpoint`; returns the exit code: 1 where nothing was measured, or it was cancelled."""
    from planner.cli_output import print_json, show, warn_unwritten
    from planner.endpoint_report import endpoint_json, endpoint_text, step_text
    from planner.measure.endpoint.benchmark import measure_endpoint
    from planner.measure.keep import Keeper, require_writable
    from planner.measure.lock import machine_lock
    from planner.measure.progress import json_lines
    from planner.ui.locale import text

    path = None if arguments.output is None else Path(arguments.output)
    if path is not None:
        require_writable(path)
    options, configs = _options(arguments)

    def tell(step: dict[str, Any]) -> None:
        if shown := step_text(step, language):
            show(shown, file=sys.stderr, flush=True)

    keeper = Keeper(path, warn_unwritten(language))
    with machine_lock(), stopped_by_signal() as stopped:
        record = measure_endpoint(
            options,
            name=arguments.name,
            configs=configs,
            listener=json_lines(sys.stdout) if arguments.progress else tell,
            keep=keeper,
            stop=stopped,
            key="" if arguments.no_key else None,
            public_only=arguments.public_only,
        )
    if not arguments.progress:
        if arguments.json:
            print_json(endpoint_json(record, language))
        else:
            show(endpoint_text(record, language))
        sys.stdout.flush()
    keeper.finish(record)
    if path is not None and not arguments.progress and not arguments.json:
        show(text("endpoint.written", language, file=arguments.output))
    measured = any(row.outcome == "measured" for row in record.rows)
    return 0 if measured and "cancelled" not in record.notes else 1


@contextmanager
def stopped_by_signal() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or SIGTERM came; a second one acts as usual."""
    came: list[int] = []
    usual: dict[int, Any] = {}

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        restore()

    def restore() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        usual[number] = signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        restore()


def _options(arguments: argparse.Namespace) -> tuple[Any, dict[str, dict[str, Any]]]:
    """What is asked for, and the configuration of a model that the catalogue doesn't have.

    Raises:
        PlannerError: what is asked for can't be meant, or what is said of the server can't be.
    """
    from planner.cli_readers import read_file
    from planner.measure.endpoint.options import levels_of, parse_options, parse_trace

    given = {
        name: getattr(arguments, name) for name in GIVEN if getattr(arguments, name) is not None
    }
    configs: dict[str, dict[str, Any]] = {}
    if arguments.catalogue_model is not None:
        found = model_reference(arguments.catalogue_model)
        given["model"] = found["model"]
        if "config" in found:
            configs[found["model"]] = found["config"]
    lengths: list[dict[str, int]] = [
        {"input_tokens": arguments.input_tokens, "output_tokens": arguments.output_tokens}
    ]
    if arguments.trace is not None:
        lengths = parse_trace(read_file(arguments.trace))
    loops = arguments.concurrency
    if loops is None:
        loops = "" if arguments.rate else LOOPS
    options = parse_options(
        {
            "url": arguments.url,
            "model": arguments.model,
            "api": arguments.api,
            "lengths": lengths,
            "lengths_file": _lengths_file(arguments.trace, arguments.trace_name),
            "levels": levels_of(loops, arguments.rate, arguments.requests),
            "warmup": arguments.warmup,
            "max_seconds": arguments.max_seconds,
            "max_tokens": arguments.max_tokens,
            "timeout_s": arguments.timeout,
            "seed": arguments.seed,
            "given": given,
        }
    )
    if "model" in given and "gpu" in given:
        _resolve(given, configs, lengths[0])
    return options, configs


def _lengths_file(trace: str | None, name: str | None) -> str | None:
    """What the file of lengths is called; None without one, or where it has no name."""
    if trace is None:
        return None
    return name or (None if trace == "-" else trace)


def _resolve(
    given: dict[str, Any], configs: dict[str, dict[str, Any]], lengths: dict[str, int]
) -> None:
    """What is said of the server has to be possible, and is said before anything is sent."""
    from planner.deployment import resolve
    from planner.scenario import Scenario

    config = configs.get(given["model"])
    resolve(Scenario.parse(given | lengths | ({"config": config} if config else {})))
