"""The probe asked of another process: the same as here, and a refusal for whatever else it may say."""

from __future__ import annotations

import json
import sys

import pytest

from planner.errors import PlannerError
from planner.measure.job import ROOT
from planner.measure.probe import probe, probe_json
from planner.measure.probe_process import probe_command, probe_from, probed
from tests.ui.machine import CPU, GPU


def says(text: str, code: int = 0) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.stdout.write({text!r}); sys.exit({code})"]


def test_a_probe_comes_back_as_it_was() -> None:
    found = probe(ask_torch=False)
    assert probe_from(json.loads(json.dumps(probe_json(found)))) == found


@pytest.mark.parametrize("data", [CPU, GPU])
def test_it_is_read_from_another_process(data: dict[str, object]) -> None:
    found = probed(says(json.dumps(data)))
    assert json.loads(json.dumps(probe_json(found))) == data


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"targets": 3, "software": {}}', "hello"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(PlannerError, match="reason='JSON'"):
        probed(says(text))


def test_a_failure_says_its_last_line() -> None:
    fails = [sys.executable, "-c", "import sys; sys.exit('The GPU no longer answers.')"]
    with pytest.raises(PlannerError, match="The GPU no longer answers"):
        probed(fails)


def test_a_refusal_comes_back_as_it_was() -> None:
    values = {"package": "torch", "reason": "AttributeError: …", "command": "make clean"}
    with pytest.raises(PlannerError) as refusal:
        probed(says(json.dumps({"error": {"code": "torch_damaged", "values": values}}), 1))
    assert (refusal.value.code, refusal.value.values) == ("torch_damaged", values)


@pytest.mark.parametrize("text", ["[]", '{"error": 1}', '{"error": {"code": 1, "values": []}}'])
def test_what_is_no_refusal_is_a_failure(text: str) -> None:
    with pytest.raises(PlannerError, match="probe_failed"):
        probed(says(text, 1))


def test_one_that_hangs_is_ended() -> None:
    with pytest.raises(PlannerError, match="timeout"):
        probed([sys.executable, "-c", "import time; time.sleep(600)"], deadline_s=0.3)


def test_one_that_is_not_there_is_refused() -> None:
    with pytest.raises(PlannerError, match="probe_failed"):
        probed([str(ROOT / "no such program")])


def test_it_asks_the_command_line_of_this_python() -> None:
    assert probe_command() == [sys.executable, "-m", "planner", "measure", "--probe", "--json"]
