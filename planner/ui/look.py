"""How the pages look beyond Streamlit's theme: the theme's own colours as CSS variables, and the few shapes we draw.

Every colour comes from `.streamlit/config.toml`. Charts that Streamlit themes use its placeholders (`SERIES`), which
the browser replaces with the theme's colours, so that they follow a switch of theme by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from planner.ui.sheet import SHEET
from planner.ui.state import plain

# Streamlit's placeholders for the theme's chart colours, first to tenth.
SERIES = tuple(f"#{number:06d}" for number in range(1, 11))
WORDS = {
    "choose-file": "sidebar.choose_file",
    "open-sidebar": "frame.open_sidebar",
    "close-sidebar": "frame.close_sidebar",
}
NEUTRAL = "#7f8c96"  # bounds and references: readable on the light and on the dark page


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of the theme in use: names as in the configuration."""

    accent: str
    ink: str
    page: str
    panel: str
    line: str
    grey: str
    amber: str
    red: str
    green: str
    link: str
    series: tuple[str, ...]


def palette() -> Palette:
    """The colours of the theme that the visitor sees."""
    theme = "dark" if st.context.theme.type == "dark" else "light"

    def colour(name: str) -> str:
        return str(st.get_option(f"theme.{theme}.{name}"))

    return Palette(
        accent=colour("primaryColor"),
        ink=colour("textColor"),
        page=colour("backgroundColor"),
        panel=colour("secondaryBackgroundColor"),
        line=colour("borderColor"),
        grey=colour("grayColor"),
        amber=colour("orangeColor"),
        red=colour("redColor"),
        green=colour("greenColor"),
        link=colour("linkColor"),
        series=tuple(st.get_option(f"theme.{theme}.chartCategoricalColors")),
    )


def ink_on(colour: str) -> str:
    """White or near-black, whichever reads better on `#rrggbb` (WCAG contrast)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.055 else "#10161b"


def apply() -> None:
    """Puts the style sheet into the page."""
    colours = palette()
    variables = "".join(
        f"--hr-{name}:{getattr(colours, name)};"
        for name in (
            "accent",
            "ink",
            "page",
            "panel",
            "line",
            "grey",
            "amber",
            "red",
            "green",
            "link",
        )
    )
    for number, colour in enumerate(colours.series, 1):
        variables += f"--hr-s{number}:{colour};--hr-on-s{number}:{ink_on(colour)};"
    variables += f"--hr-on-grey:{ink_on(colours.grey)};"
    # Words that the style sheet puts where Streamlit has none, or only English ones.
    for name, key in WORDS.items():
        variables += f"--hr-{name}:'{plain(key)}';"
    st.html(f"<style>:root{{{variables}}}{SHEET}</style>")
