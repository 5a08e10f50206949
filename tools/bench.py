"""Times the calculator against named baselines measured in the same run, and prints the ratios.

Baselines: for work inside a process, parsing a 2 kB JSON document once (`json.loads`); for whole processes, starting
Python to do nothing; for pages, an AppTest rerun of a one-line script. A ratio moves less between machines than a
time does.
"""

from __future__ import annotations

import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 7
DOCUMENT = json.dumps({f"key_{index}": [index, index / 3, str(index)] for index in range(60)})


def median_seconds(
    action: Callable[[], object], *, calls: int = 1, repeats: int = REPEATS
) -> float:
    """Median over `repeats` of the mean time of `calls` calls (s)."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            action()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def process_seconds(*arguments: str) -> float:
    """Median time of a whole Python process (s)."""
    command = [sys.executable, *arguments]
    return median_seconds(lambda: subprocess.run(command, check=True, capture_output=True))


def report(name: str, seconds: float, baseline: float, baseline_name: str, goal: str) -> None:
    print(
        f"{name:<44} {seconds * 1e3:9.3f} ms   {seconds / baseline:8.2f} × {baseline_name:<22} goal {goal}"
    )


def bench_evaluate() -> None:
    """Warm evaluations: the same scenario, one whose workload changes, one whose deployment changes."""
    from planner import Scenario, evaluate

    parse = median_seconds(lambda: json.loads(DOCUMENT), calls=2000)
    common = {"model": "meta-llama/Llama-3.1-8B", "gpu": "h100-sxm-80gb"}
    fixed = Scenario.parse(common)
    evaluate(fixed)
    report(
        "evaluate, same scenario",
        median_seconds(lambda: evaluate(fixed), calls=500),
        parse,
        "json.loads 2 kB",
        "≤ 1 ms",
    )
    lengths = iter(range(1, 10**9))

    def next_length() -> None:
        evaluate(Scenario.parse({**common, "input_tokens": 100 + next(lengths) % 8000}))

    report(
        "evaluate, another prompt length",
        median_seconds(next_length, calls=500),
        parse,
        "json.loads 2 kB",
        "≤ 1 ms",
    )
    gemma = Scenario.parse(
        {"model": "google/gemma-3-12b-it", "gpu": "t4", "weights": "nf4", "engine": "transformers"}
    )
    evaluate(gemma)
    report(
        "evaluate, windowed model on a T4",
        median_seconds(lambda: evaluate(gemma), calls=500),
        parse,
        "json.loads 2 kB",
        "≤ 1 ms",
    )


def bench_compare() -> None:
    """One scenario over the whole catalogue."""
    from planner.compare.table import compare
    from planner.scenario import Scenario

    parse = median_seconds(lambda: json.loads(DOCUMENT), calls=2000)
    lengths = iter(range(1, 10**9))

    def next_length() -> None:
        values = {
            "model": "meta-llama/Llama-3.1-70B-Instruct",
            "gpu": "t4",
            "input_tokens": 1000 + next(lengths),
        }
        compare(Scenario.parse(values))

    next_length()
    report(
        "compare, whole catalogue",
        median_seconds(next_length),
        parse,
        "json.loads 2 kB",
        "≤ 200 ms",
    )


def bench_processes() -> None:
    """Whole processes: import and command line."""
    bare = process_seconds("-c", "pass")
    estimate = (
        "-m",
        "planner",
        "estimate",
        "--model",
        "google/gemma-3-12b-it",
        "--gpu",
        "t4",
        "--weights",
        "nf4",
    )
    for name, arguments, goal in (
        ("import planner", ("-c", "import planner"), "≤ 0.3 s"),
        (
            "import planner, front door loaded",
            ("-c", "from planner import Scenario, evaluate"),
            "≤ 0.3 s",
        ),
        ("CLI cold: gpus t4", ("-m", "planner", "gpus", "t4"), "≤ 0.6 s"),
        ("CLI cold: estimate", (*estimate, "--engine", "transformers"), "≤ 0.6 s"),
    ):
        report(name, process_seconds(*arguments), bare, "python -c pass", goal)


def bench_pages() -> None:
    """Reruns of the pages, and how much of them is our own: the rest is a rerun of a one-line script."""
    from streamlit.testing.v1 import AppTest
    from streamlit.util import calc_hash

    from planner.ui.pages import PAGES

    def one_line() -> None:
        import streamlit

        streamlit.write("x")

    empty = AppTest.from_function(one_line, default_timeout=30)
    empty.run()
    baseline = median_seconds(empty.run, calls=3)
    for page in PAGES:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        app.context = {"locale": "en-GB", "theme": "light", "url": "http://localhost:8501"}
        # A page drawn by a function has no file; its identity is the hash of its path.
        app._page_hash = calc_hash("" if page is PAGES[0] else page.path)
        app.run()
        app.run()
        seconds = median_seconds(app.run, calls=3)
        report(
            f"page {page.path}, own time of a rerun",
            seconds - baseline,
            baseline,
            "one-line script",
            "≤ 50 ms",
        )


def main() -> None:
    """Runs every benchmark."""
    logging.getLogger("streamlit").setLevel(logging.ERROR)
    bench_evaluate()
    bench_compare()
    bench_processes()
    bench_pages()


if __name__ == "__main__":
    main()
