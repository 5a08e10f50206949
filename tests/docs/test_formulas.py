"""docs/formulas.md names functions that exist, leaves no module out, and quotes figures as the profiles state them."""

from __future__ import annotations

import ast
import re

import pytest

from planner.catalog.accelerators import accelerator
from planner.catalog.calibration_constants import calibration_data, calibration_figures
from planner.catalog.engines import engine_settings
from planner.memory.fit import TIGHT_FRACTION
from planner.memory.parts import UNKNOWN_POOL_BAND, WEIGHTS_BAND
from tests.docs.documents import ROOT, read, results

DOCUMENT = "docs/formulas.md"
PLACE = re.compile(r"`(planner/[\w/]+\.py)`:\s((?:`\w+`(?:,\s)?)+)")


def places() -> list[tuple[str, str]]:
    """Every module and name that the document says something is computed in."""
    return [
        (module, name)
        for module, names in PLACE.findall(read(DOCUMENT))
        for name in re.findall(r"\w+", names)
    ]


def defined(module: str) -> set[str]:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_what_is_named_is_there() -> None:
    assert len(places()) > 25
    assert [place for place in places() if place[1] not in defined(place[0])] == []


@pytest.mark.parametrize("room", ["memory", "speed"])
def test_no_module_of_a_room_is_left_out(room: str) -> None:
    # What only prepares figures for the others holds no equation of its own.
    prepares = {"planner/speed/hardware.py", "planner/speed/work.py"}
    modules = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "planner" / room).glob("*.py")
        if path.name != "__init__.py"
    }
    assert sorted(modules - prepares - set(re.findall(r"planner/[\w/]+\.py", read(DOCUMENT)))) == []


def logit_bytes(version: str) -> float:
    return engine_settings("vllm", version, 79.19, accelerator("h100-sxm-80gb")).logit_bytes


def joint(key: str) -> float:
    return calibration_figures("joint")[key].value


def quoted() -> dict[str, tuple[float, ...]]:
    """Sentences of the document with the figures that they quote, as the code has them."""
    fit = calibration_data("joint")["fit"]
    first = calibration_data("joint")["first_token_fit"]
    grow = engine_settings("transformers", None, 14.56, accelerator("t4"))
    vllm = engine_settings("vllm", "0.19", 79.19, accelerator("h100-sxm-80gb"))
    return {
        r"c: ([\d.]+) bytes per logit from 0\.17, ([\d.]+) before": (
            logit_bytes("0.17"),
            logit_bytes("0.16"),
        ),
        r"\(M − W − ([\d.]+)·A − context\) / ([\d.]+)": (
            1.0 + grow.fragmentation_fraction,
            1.0 + grow.fragmentation_fraction,
        ),
        r"For all engines together c = ([\d.]+), s = ([\d.]+) steps and t_first = ([\d.]+) ms": (
            joint("prefill_interference"),
            joint("prefill_steps"),
            1e3 * joint("prefill_sequence_s"),
        ),
        r"L·t_host, ([\d.]+) times where weights are unpacked": (
            calibration_figures("transformers")["host_dequantise"].value,
        ),
        r"together least squares on ([\d,]+) runs": (fit["rows"],),
        r"median error ([\d.]+) % in sample, ([\d.]+) % on a GPU and ([\d.]+) % on a model": (
            100 * fit["median_error_fraction"],
            100 * fit["held_out_accelerator_median_error_fraction"],
            100 * fit["held_out_model_median_error_fraction"],
        ),
        r"least squares on ([\d,]+) runs of the same table, median error ([\d.]+) %": (
            first["rows"],
            100 * first["median_error_fraction"],
        ),
        r"tight above ([\d.]+) %": (100 * TIGHT_FRACTION,),
        r"within −([\d.]+) and \+([\d.]+) %": tuple(100 * abs(end) for end in WEIGHTS_BAND),
        r"within ([\d.]+) % for a documented version of vLLM and ([\d.]+) % otherwise": (
            100 * vllm.pool_band,
            100 * UNKNOWN_POOL_BAND,
        ),
    }


@pytest.mark.parametrize("sentence", quoted())
def test_a_figure_is_quoted_as_it_is(sentence: str) -> None:
    text = re.sub(r"\s+", " ", read(DOCUMENT))
    match = re.search(sentence, text)
    assert match, "the sentence is gone"
    assert [float(part.replace(",", "")) for part in match.groups()] == pytest.approx(
        quoted()[sentence]
    )


def test_the_worked_step_is_what_the_planner_answers() -> None:
    ((block, printed),) = results(DOCUMENT)
    assert block.output
    assert printed == block.output.content, "python -m tests.docs.documents"
    *lines, last = printed.splitlines()
    times = [re.findall(r"([\d.]+) ms", line) for line in lines]
    assert len(times) == 5
    assert [pair for pair in times if pair[0] != pair[1] or float(pair[0]) == 0.0] == []
    assert last == "left out: []"
