"""Every code that the core can say has a sentence in both languages, with placeholders that its values fill."""

import ast
import re
from pathlib import Path

import pytest

from planner.architecture.resolve import architecture_of
from planner.catalog.loader import profiles_folder
from planner.catalog.models import model_ids
from planner.errors import Note, PlannerError
from planner.evaluation import evaluate
from planner.scenario import Scenario
from planner.ui.locale import LANGUAGES, catalogue, say_error, say_note

ROOT = Path(__file__).resolve().parents[2]
REFUSALS = {
    "InvalidConfig", "InvalidInput", "Unsupported", "UnsupportedArchitecture", "BadProfile", "Unreachable",
    "PlannerError",
}  # fmt: skip
UNKNOWN = {"UnknownItem": "unknown_"}


def literal_codes() -> set[str]:
    """Keys of all notes and refusals that the code names literally."""
    keys = set()
    for path in sorted((ROOT / "planner").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            first = node.args[0]
            if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
                continue
            if node.func.id == "Note":
                keys.add(f"note.{first.value}")
            elif node.func.id in REFUSALS:
                keys.add(f"error.{first.value}")
            elif node.func.id in UNKNOWN:
                keys.add(f"error.{UNKNOWN[node.func.id]}{first.value}")
    return keys


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_named_code_has_a_sentence(language: str) -> None:
    assert literal_codes() - catalogue(language).keys() == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_profiles_and_models_say_has_a_sentence(language: str) -> None:
    said = set()
    for path in (profiles_folder() / "formats").glob("*.yaml"):
        said |= {
            f"note.{code}" for code in re.findall(r"note: ([a-z_0-9]+)", path.read_text("utf-8"))
        }
    for model in model_ids():
        said |= {f"note.{code}" for code in architecture_of(model).notes}
    assert said - catalogue(language).keys() == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_note_of_many_answers_can_be_said(language: str) -> None:
    spoken = set()
    for model in model_ids():
        for gpu, weights in (
            ("t4", "native"),
            ("h100-sxm-80gb", "fp8"),
            ("rtx-4090", "gguf:Q4_K_M"),
        ):
            for tokens, users, share in ((512, 1, None), (500_000, 1, None), (4096, 512, 0.99)):
                try:
                    answer = evaluate(
                        Scenario(
                            model=model,
                            gpu=gpu,
                            weights=weights,
                            input_tokens=tokens,
                            concurrency=users,
                            gpu_memory_utilization=share,
                        )
                    )
                except PlannerError as error:
                    spoken.add(say_error(error, language))
                    break
                memory = answer.memory
                for note in (
                    answer.headline, memory.reason, *memory.remedies, *answer.warnings, *answer.assumptions,
                ):  # fmt: skip
                    spoken.add(say_note(note, language))
    assert len(spoken) > 500
    assert not [sentence for sentence in spoken if "{" in sentence or "None" in sentence]


def test_a_missing_value_is_found() -> None:
    with pytest.raises(KeyError):
        say_note(Note("fit_room"), "en")
