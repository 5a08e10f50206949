"""Another tool's results on the page: what the file doesn't say is asked for, and the rest is a measurement."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.measure.comparison import compare_record, counted, is_rate, is_time
from planner.measure.readers import read_results
from planner.measure.store import Store
from planner.ui.locale import LANGUAGES, text
from tests.measure.test_record import document, row
from tests.ui.driver import charts, clean, markup, named, open_app, words

FIXTURES = Path(__file__).resolve().parents[1] / "measure" / "readers" / "fixtures"


def upload(language: str, name: str, content: bytes | None = None, **query: str) -> AppTest:
    app = open_app("measure", locale=language, **query)
    content = content or (FIXTURES / name).read_bytes()
    named(app.file_uploader, "measure_import_file").set_value((name, content, "text/plain"))
    app.run()
    clean(app)
    return app


def press(app: AppTest) -> AppTest:
    named(app.button, "measure-import").click().run()
    clean(app)
    return app


def fields(app: AppTest) -> dict[str, str]:
    every = (*app.text_input, *app.selectbox, *app.number_input)
    return {
        one.key.removeprefix("measure_results_"): str(one.value or "")
        for one in every
        if (one.key or "").startswith("measure_results_")
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_file_does_not_say_is_asked_for(language: str, own_machine: Path) -> None:
    app = upload(language, "vllm-serve-sweep.jsonl")
    assert "vllm bench serve" in words(app)
    # The sidebar is set to another model, of which nothing is taken.
    assert fields(app) == dict.fromkeys(("gpu", "engine_version", "weights", "gpus"), "")
    press(app)
    assert Store(own_machine).kept() == []
    asked = [text(f"field.{name}", language) for name in ("engine_version", "weights")]
    missing = ["GPU", *asked, text("asked.gpus", language)]
    assert text("error.reading_incomplete", language, missing=missing) in words(app).replace(
        "\\", ""
    )
    app.text_input(key="measure_results_engine_version").set_value("0.11.0")
    app.selectbox(key="measure_results_weights").set_value("native")
    app.number_input(key="measure_results_gpus").set_value(1)
    app.selectbox(key="measure_results_gpu").set_value("h100-sxm-80gb").run()
    press(app)
    (kept,) = Store(own_machine).kept()
    assert Store(own_machine).load(kept.key).calibration is not None
    (chart,) = charts(app)
    # A throughput is no time: it stands in the table alone.
    rate = text("measure.quantity.output_tokens_per_s", language)
    assert rate not in chart.spec
    assert text("measure.quantity.tpot_s", language) in chart.spec
    # Good news, so without the mark of a warning.
    note = re.escape(text("note.imported", language))
    assert re.findall(rf'class="hr-note hr-(\w+)">[^\n]{{0,40}}<span>{note}', markup(app)) == [
        "info"
    ]


def test_a_row_counts_one_rate(own_machine: Path) -> None:
    given = {"gpu": "h100-sxm-80gb", "engine_version": "0.11.0", "weights": "native", "gpus": 1}
    content = (FIXTURES / "vllm-serve-sweep.jsonl").read_bytes()
    figures = compare_record(read_results(content, "sweep", given)).figures
    rates = [one for one in figures if is_rate(one.quantity)]
    rows = {one.row for one in rates}
    assert len(rates) == 2 * len(rows) > 0
    found = counted(figures)
    assert [one.row for one in found if is_rate(one.quantity)] == list(
        dict.fromkeys(one.row for one in rates)
    )
    assert {one.quantity for one in found if is_time(one.quantity)} == {"ttft_s", "tpot_s"}


def test_what_the_sidebar_shares_with_the_file_is_filled_in(own_machine: Path) -> None:
    app = upload(
        "en",
        "vllm-serve-sweep.jsonl",
        model="meta-llama/Llama-3.1-8B-Instruct",
        gpu="l4",
        engine="vllm",
        weights="fp8",
    )
    filled = fields(app)
    assert (filled["gpu"], filled["weights"], filled["gpus"]) == ("l4", "fp8", "")


def test_a_file_that_says_everything_asks_for_nothing(own_machine: Path) -> None:
    app = upload("en", "llama-bench.json")
    assert fields(app) == {}
    press(app)


def test_a_name_that_the_catalogue_lacks_is_shown(own_machine: Path) -> None:
    app = upload("en", "llama-bench.md")
    assert {"model", "gpu", "gpus"} == set(fields(app))
    assert "qwen2 7B" in words(app)
    app.text_input(key="measure_results_model").set_value("nobody/nothing")
    app.number_input(key="measure_results_gpus").set_value(1)
    app.selectbox(key="measure_results_gpu").set_value("l4").run()
    press(app)
    assert "nobody/nothing" in words(app).replace("\\", "")
    assert Store(own_machine).kept() == []
    assert text("error.reading_empty", "en") not in words(app)


def test_what_is_left_out_of_a_file_is_said(own_machine: Path) -> None:
    report = json.loads((FIXTURES / "guidellm-0.5.json").read_bytes())
    report["benchmarks"][1]["config"]["strategy"] = {"type_": "poisson", "rate": 2e6}
    app = upload("es", "guidellm.json", json.dumps(report).encode())
    assert "request_rate_per_s no está entre 0,000001 y 1.000.000: número 2 (2000000.0)" in words(
        app
    )


def test_a_measurement_that_says_odd_things_is_shown_all_the_same(own_machine: Path) -> None:
    """Codes of other sentences, lengths that are none: by hand, or from another version."""
    odd = {"model": "gpt2", "input_tokens": "many", "output_tokens": "nan", "concurrency": "1e999"}
    rows = [row("a", scenario=odd, notes=["batch_done", "imported", "imported_mean:tpot_s"])]
    for origin in ("imported", "endpoint"):
        record = document(name=origin, rows=rows, origin=origin, notes=["results_version_unread"])
        app = upload("en", "odd.json", json.dumps(record).encode())
        press(app)
        assert {one.name for one in Store(own_machine).kept()} >= {origin}
        assert "batch_done" in words(app)  # as it stands, without the sentence of another
