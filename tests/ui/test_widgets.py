"""The small pieces: escaping, ranges, badges, ink on colours, slider steps."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.accelerators import accelerator
from planner.quantity import Basis, Estimate
from planner.ui import choices, widgets
from planner.ui.charts.base import FINE_TIME_TICKS, linear_axis, log_axis, rows_at, whole_powers
from planner.ui.look import SERIES, ink_on
from planner.ui.widgets import BASIS_MARKS, escape_markdown, range_text, table_html, value_html

CONFIG = tomllib.loads(
    (Path(__file__).resolve().parents[2] / ".streamlit" / "config.toml").read_text()
)
SPECIAL = re.escape("\\`*_{}[]()<>#+-.!|$~:&")


@given(st.text(max_size=80))
def test_escaped_markdown_is_one_line_of_the_same_words(given_text: str) -> None:
    shown = escape_markdown(given_text)
    assert "\n" not in shown
    assert re.sub(rf"\\([{SPECIAL}])", r"\1", shown) == " ".join(given_text.split())


def test_every_character_that_streamlit_reads_is_escaped() -> None:
    for special in (
        "*_`[]()<>#$:|~{}\\&"
    ):  # emphasis, code, links, HTML, headings, formulas, colours and icons
        assert escape_markdown(special) == "\\" + special


def estimate(low: float, mid: float, high: float) -> Estimate:
    return Estimate(low, mid, high, "s", Basis.PHYSICS)


@pytest.mark.parametrize(
    ("low", "high", "kind", "shown"),
    [
        (8.9, 12.1, "rate", "8.9 – 12.1 tok/s"),
        (0.5, 2.0, "time", "500 ms – 2 s"),
        (1.0, 1.0, "time", ""),
        (1000.0, 1000.4, "rate", ""),
        (11.0, 13.0, "count", "11 – 13"),
    ],
)
def test_a_range_names_its_unit_once(low: float, high: float, kind: str, shown: str) -> None:
    assert range_text(estimate(low, (low + high) / 2, high), kind) == shown


def test_number_and_unit_are_apart() -> None:
    assert value_html(estimate(1.0, 1.5, 2.0), "time") == '1.5<span class="hr-unit">s</span>'
    assert (
        value_html(estimate(1.0, 12345.0, 20000.0), "count")
        == '12,345<span class="hr-unit"></span>'
    )


def test_each_basis_has_a_mark_of_its_own() -> None:
    assert BASIS_MARKS.keys() == set(Basis)
    assert len(set(BASIS_MARKS.values())) == len(Basis)
    assert "title=" in widgets.badge(Basis.ASSUMED)


def test_a_table_has_a_head_and_a_caption() -> None:
    shown = table_html("What", ("a", "b"), [("x", "1"), ("y", "2")])
    assert shown.count('<th scope="col">') == 2
    assert "<caption>What</caption>" in shown
    assert shown.count("<tr>") == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_on_theme_colours_can_be_read(theme: str) -> None:
    def luminance(colour: str) -> float:
        channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colour in CONFIG["theme"][theme]["chartCategoricalColors"]:
        bright, dark = sorted((luminance(colour), luminance(ink_on(colour))), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 3.9, colour


def test_series_are_streamlits_placeholders() -> None:
    assert SERIES[0] == "#000001"
    assert SERIES[-1] == "#000010"


@given(st.integers(1, 10**8), st.integers(1, 10**7))
def test_a_slider_holds_the_exact_value(current: int, limit: int) -> None:
    steps = choices.stops(choices.TOKEN_STOPS, current, limit)
    assert current in steps
    assert steps == sorted(set(steps))
    assert all(step <= limit or step == current for step in steps)


@given(st.floats(1e-3, 1e5), st.floats(1.5, 1e6))
def test_ticks_lie_on_the_axis(low: float, ratio: float) -> None:
    high = low * ratio
    for kind, base in (("number", 10), ("count", 2), ("time", 10)):
        axis = log_axis("x", np.array([low, high]), kind, base=base)
        assert 2 <= len(axis["tickvals"]) <= max(12, len(FINE_TIME_TICKS))
        assert all(low * 0.999 <= tick <= high * 1.001 for tick in axis["tickvals"])
        assert len(axis["ticktext"]) == len(axis["tickvals"])


@given(st.floats(1e-6, 1e12))
def test_linear_ticks_start_at_nought_and_stay_below_the_top(top: float) -> None:
    axis = linear_axis("y", top, "number")
    assert axis["tickvals"][0] == 0.0
    assert 3 <= len(axis["tickvals"]) <= 6
    assert axis["tickvals"][-1] <= top * 1.001


def test_rows_of_a_table_are_found_on_the_axis() -> None:
    x = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 5.0])
    assert [x[i] for i in rows_at([*whole_powers(1.0, 5.0), 5.0], x)] == [1.0, 2.0, 4.0, 5.0]


def test_formats_that_run_come_first() -> None:
    found = choices.weight_choices("vllm", accelerator("t4"), "nvfp4")
    runs = [choice.runs for choice in found]
    assert runs == sorted(runs, reverse=True)
    assert False in runs
    assert all(
        choice.nearest for choice in found if not choice.runs and not choice.id.startswith("gguf")
    )


def test_llama_cpp_is_offered_its_own_formats() -> None:
    ids = {
        choice.id
        for choice in choices.weight_choices("llama.cpp", accelerator("t4"), "native")
        if choice.runs
    }
    assert "gguf:Q4_K_M" in ids
    assert "gguf:IQ2_XXS" in ids


def test_the_current_format_is_always_offered() -> None:
    assert "gguf:IQ1_S" in {
        choice.id for choice in choices.weight_choices("vllm", accelerator("t4"), "gguf:IQ1_S")
    }
    assert "q8_0/q4_0" in {
        choice.id for choice in choices.kv_choices("llama.cpp", accelerator("t4"), "q8_0/q4_0")
    }
