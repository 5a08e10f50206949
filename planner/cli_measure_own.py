"""`measure` without a verb below it: this machine probed, or measured."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def add_own(parser: argparse.ArgumentParser) -> None:
    """Puts the flags of `measure` alone on its parser."""
    parser.add_argument(
        "--probe",
        action="store_true",
        help="only say what there is to measure: devices, memory, clocks, links, who else is on them",
    )
    parser.add_argument(
        "--device",
        default=None,
        help="cuda:0, xpu:0, mps or cpu (default: the first GPU, else cpu)",
    )
    parser.add_argument(
        "--model",
        default=None,
        help="catalogue id, or path of a config.json or of a folder holding one; built with random weights "
        "(default: Llama 3.1 8B on a large GPU, else Qwen2.5 0.5B)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="few points, in a minute and a half at most"
    )
    parser.add_argument(
        "--dtype",
        default=None,
        help="bf16, fp16 or fp32 (default: the fastest that the device has)",
    )
    parser.add_argument(
        "--weights",
        default="native",
        help="native, or with bitsandbytes nf4, nf4-dq or llm-int8 (default native)",
    )
    parser.add_argument(
        "--weights-from",
        default=None,
        metavar="FOLDER|ID",
        help="real weights: a folder, or an id on the Hugging Face Hub, which downloads them",
    )
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="leave out the second model, which tests the calibration",
    )
    parser.add_argument("--name", default=None, help="name of the measurement")
    parser.add_argument(
        "-o", "--output", default=None, help="file to write, anew after every row that is finished"
    )
    parser.add_argument(
        "--progress",
        action="store_true",
        help="print a line of JSON for each step, and nothing else",
    )


def run_own(arguments: argparse.Namespace, language: str, print_json: Callable[[Any], None]) -> int:
    """The `measure` verb; returns the exit code."""
    started_s = (
        time.monotonic()
    )  # the limit of time counts from here, imports of what measures included
    if arguments.probe:
        return _probe(arguments, language, print_json)
    from planner.catalog.devices import MAX_NAME
    from planner.cli_output import show, warn_unwritten
    from planner.measure.keep import Keeper, require_writable
    from planner.measure.progress import json_lines
    from planner.measure.readers.untrusted import name_in
    from planner.measure.run import Cancelled, Options, Run
    from planner.measure_report import about_text, measured_json, measured_text, step_text
    from planner.ui.locale import text

    if arguments.output:
        require_writable(Path(arguments.output))
    options = Options(
        device=arguments.device,
        quick=arguments.quick,
        dtype=arguments.dtype,
        weights=arguments.weights,
        weights_from=arguments.weights_from,
        check=not arguments.no_check,
        name=(name_in(arguments.name) or "")[:MAX_NAME] or None,
        **_model(arguments),
    )

    def tell(step: dict[str, Any]) -> None:
        if shown := step_text(step, language):
            show(shown, file=sys.stderr, flush=True)

    keeper = Keeper(Path(arguments.output) if arguments.output else None, warn_unwritten(language))
    listener = json_lines(sys.stdout) if arguments.progress else tell
    try:
        with raised_by_signal(Cancelled):
            if not arguments.progress:
                show(about_text(options.time_limit_s, language), file=sys.stderr, flush=True)
            record = Run(options, listener, keeper, start_s=started_s).measure()
    except Cancelled:
        with suppress(OSError):
            said = "cancelled_kept" if keeper.written else "cancelled"
            show(text(f"measure.cli.{said}", language, file=arguments.output), file=sys.stderr)
        return 1
    if arguments.progress:
        keeper.finish(record)
        return 0
    if arguments.json:
        print_json(measured_json(record, language))
    else:
        show(measured_text(record, language))
    sys.stdout.flush()
    keeper.finish(record)
    if arguments.output and not arguments.json:
        show(text("measure.cli.written", language, file=arguments.output))
    return 0


@contextmanager
def raised_by_signal(error: type[BaseException]) -> Iterator[None]:
    """Has the first Ctrl-C or SIGTERM raise `error` here; later ones do nothing until this ends."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop(*_: object) -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)  # what there is is being written
        raise error

    usual = {number: signal.getsignal(number) for number in signals}
    try:
        for number in signals:
            signal.signal(number, stop)
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _model(arguments: argparse.Namespace) -> dict[str, Any]:
    """The model that was named, as fields of Options; of real weights, their own configuration."""
    from planner.architecture.checkpoint.local import is_model_path
    from planner.cli_flags import model_reference

    source = arguments.weights_from
    if arguments.model is None and source is None:
        return {}
    if arguments.model is None and not is_model_path(source):
        found = model_reference(source, hub=True)
    else:
        found = model_reference(arguments.model or source)
    name = (
        str(found["model"]).rstrip("/").rpartition("/")[2] if "config" in found else found["model"]
    )
    return {"model": name or "model", "config": found.get("config")}


def _probe(arguments: argparse.Namespace, language: str, print_json: Callable[[Any], None]) -> int:
    from planner.cli_output import show
    from planner.measure.probe import probe, probe_json
    from planner.measure_report import probe_text

    found = probe()
    if arguments.json:
        print_json(probe_json(found))
    else:
        show(probe_text(found, language))
    return 0
