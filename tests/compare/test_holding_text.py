"""The listing of `fit` for people: a line an option, why not under those that fail, in both languages."""

from __future__ import annotations

import re

import pytest

from planner.compare.holding import HoldingOption, holding_options
from planner.ui.holding_text import holding_text
from planner.ui.locale import LANGUAGES, catalogue

QUERY = {"model": "meta-llama/Llama-3.3-70B-Instruct", "input_tokens": 8192}


def options(*, include_failing: bool = False) -> list[HoldingOption]:
    return holding_options(
        QUERY,
        accelerators=["h100", "t4", "mi300x"],
        formats=["native", "nvfp4"],
        max_gpus=4,
        include_failing=include_failing,
    )


def test_a_line_for_each_option_under_its_head() -> None:
    lines = holding_text(options(), "en").splitlines()
    assert len(lines) == len(options()) + 2
    assert re.split(r"\s{2,}", lines[0])[:3] == ["GPU", "How many", "Weights"]
    native = re.split(r"\s{2,}", lines[1])
    assert native[:5] == ["H100 SXM5 80GB", "2", "bf16", "vllm", "Tight"]
    assert native[5].endswith("/ 79.2 GiB")
    assert lines[-1].startswith(f"{len(options())} options")
    starts = {line.index("vllm") for line in lines[1:-1]}
    assert len(starts) == 1  # columns stand under each other


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_fails_says_why_under_its_line(language: str) -> None:
    everything = options(include_failing=True)
    lines = holding_text(everything, language).splitlines()
    failing = [option for option in everything if not option.holds]
    reasons = [line for line in lines if line.startswith("    ")]
    assert len(failing) == len(reasons) > 1
    assert not any("{" in line or "**" in line for line in lines)
    first = next(n for n, line in enumerate(lines) if line.startswith("    "))
    assert lines[first - 1].startswith(failing[0].accelerator.name)


def test_numbers_are_the_language_s() -> None:
    assert "79,2 GiB" in holding_text(options(), "es")


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_said_as_such(language: str) -> None:
    assert holding_text([], language) == catalogue(language)["holding.nothing"]
