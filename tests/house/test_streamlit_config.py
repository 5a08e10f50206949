"""How the app is served and how it looks: options that exist, safe defaults, contrast, colours that stay apart."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
THEMES = {name: CONFIG["theme"][name] for name in ("light", "dark")}
STATUS = (
    "redColor",
    "orangeColor",
    "greenColor",
    "grayColor",
    "yellowColor",
    "violetColor",
    "blueColor",
)


def matrix(*numbers: float) -> NDArray[np.float64]:
    return np.array(numbers).reshape(3, 3)


# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
# fmt: off
SIGHT = {
    "normal": np.eye(3),
    "protan": matrix(0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998),
    "deutan": matrix(0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881),
    "tritan": matrix(1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900),
}
TO_XYZ = matrix(0.4124564, 0.3575761, 0.1804375, 0.2126729, 0.7151522, 0.0721750, 0.0193339, 0.1191920, 0.9503041)
# fmt: on
WHITE = np.array([0.95047, 1.0, 1.08883])

Colour = NDArray[np.float64]


def linear(colour: str) -> Colour:
    """Linear RGB, 0–1, of `#rrggbb`."""
    assert re.fullmatch("#[0-9a-f]{6}", colour), colour
    srgb = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG contrast ratio, 1–21."""
    dark, light = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(colour: str, sight: str) -> Colour:
    """CIELAB (D65) of a colour as seen with a kind of sight."""
    ratio = TO_XYZ @ np.clip(SIGHT[sight] @ linear(colour), 0, 1) / WHITE
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def hue(colour: str) -> float:
    """CIELAB hue angle (degrees)."""
    _, a, b = lab(colour, "normal")
    return float(np.degrees(np.arctan2(b, a)))


def difference(one: str, other: str, sight: str = "normal") -> float:
    """CIEDE2000 colour difference (Sharma, Wu and Dalal 2005); about 2 is just noticeable side by side."""
    (l1, a1, b1), (l2, a2, b2) = lab(one, sight), lab(other, sight)
    chroma = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(chroma**7 / (chroma**7 + 25**7))
    c1, c2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, stretch * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180
    hue = h1 + turn / 2
    d_hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    weights = ((1, 0, 0), (-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.2, 4, -63))
    t = sum(w * np.cos(np.radians(n * hue + shift)) for w, n, shift in weights)
    s_l = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2)
    s_c, s_h = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    twist = 2 * np.sqrt(chroma**7 / (chroma**7 + 25**7))
    r_t = -np.sin(np.radians(60 * np.exp(-(((hue % 360 - 275) / 25) ** 2)))) * twist
    parts = (l2 - l1) / s_l, (c2 - c1) / s_c, d_hue / s_h
    return float(np.sqrt(sum(part**2 for part in parts) + r_t * parts[1] * parts[2]))


def closest(colours: list[str], sight: str) -> float:
    """Smallest difference between any two of the colours, as seen with a kind of sight."""
    return min(difference(one, other, sight) for one, other in combinations(colours, 2))


def shown_by_streamlit(folder: Path) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("STREAMLIT_")}
    return subprocess.run(
        [sys.executable, "-m", "streamlit", "config", "show"],
        cwd=folder, env=env | {"HOME": str(folder)}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip


def test_streamlit_knows_every_option() -> None:
    assert shown_by_streamlit(ROOT).stderr == ""


def test_an_unknown_option_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text("[theme.light]\ninkColor = '#000000'\n")
    assert "not a valid config option" in shown_by_streamlit(tmp_path).stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("server.address", "127.0.0.1"),
        ("server.headless", True),
        ("server.enableXsrfProtection", True),
        ("server.enableCORS", True),
        ("server.runOnSave", False),
        ("client.showErrorDetails", "none"),
        ("client.toolbarMode", "minimal"),
        ("browser.gatherUsageStats", False),
    ],
)
def test_defaults_are_safe(option: str, value: Any) -> None:
    section, name = option.split(".")
    assert CONFIG[section][name] == value


def test_uploads_are_small() -> None:
    assert 1 <= CONFIG["server"]["maxUploadSize"] <= 16


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read(theme: str) -> None:
    colours = THEMES[theme]
    keys = ("backgroundColor", "secondaryBackgroundColor")
    surfaces = [part[key] for part in (colours, colours["sidebar"]) for key in keys]
    for surface in surfaces:
        assert contrast(colours["textColor"], surface) >= 7
        assert contrast(colours["linkColor"], surface) >= 4.5
        assert contrast(colours["primaryColor"], surface) >= (4.5 if theme == "light" else 3.5)
        for name in STATUS:
            assert contrast(colours[name], surface) >= 4.5, (name, surface)
    # Streamlit's main buttons: white on the accent, in both themes.
    assert contrast("#ffffff", colours["primaryColor"]) >= (4.5 if theme == "light" else 4)


@pytest.mark.parametrize("theme", THEMES)
def test_chart_colours_can_be_told_apart(theme: str) -> None:
    colours = THEMES[theme]["chartCategoricalColors"]
    assert len(colours) == 10, "with fewer than ten, plotly figures lose the theme's colours"
    assert abs(hue(colours[0]) - hue(THEMES[theme]["primaryColor"])) < 10, "the accent comes first"
    for colour in colours:
        assert contrast(colour, THEMES[theme]["backgroundColor"]) >= 3, colour
    for sight in SIGHT:
        assert closest(colours, sight) >= 12, sight
        # Few charts have more than three series.
        assert closest(colours[:3], sight) >= 15, sight


@pytest.mark.parametrize("theme", THEMES)
def test_no_chart_colour_looks_like_a_verdict(theme: str) -> None:
    for colour in THEMES[theme]["chartCategoricalColors"]:
        for name in ("redColor", "orangeColor"):
            assert difference(colour, THEMES[theme][name]) >= 10, (colour, name)


@pytest.mark.parametrize("theme", THEMES)
def test_scales_run_one_way(theme: str) -> None:
    lightness = [lab(colour, "normal")[0] for colour in THEMES[theme]["chartSequentialColors"]]
    steps = np.diff(lightness)
    assert len(lightness) == 10
    assert np.all(steps < -2) if theme == "light" else np.all(steps > 2), (
        "strongest last, away from the page"
    )
    assert len(THEMES[theme]["chartDivergingColors"]) == 10


def test_the_difference_is_ciede2000() -> None:
    # Pure black against white is 100; two colours that only hue sets apart, from colour-science references.
    assert difference("#000000", "#ffffff") == pytest.approx(100, abs=0.1)
    assert difference("#ff0000", "#00ff00") == pytest.approx(86.6, abs=0.2)
