"""The catalogues of sentences: complete in both languages, nothing missing, nothing left over, and readable.

What the code asks for is read from its syntax tree: a literal key counts as it stands, an f-string as a pattern.
"""

from __future__ import annotations

import ast
import re
import string
from functools import lru_cache
from pathlib import Path

import pytest

from planner.catalog.formats import weight_format_ids
from planner.errors import Note
from planner.quantity import Basis
from planner.scenario import Scenario
from planner.ui.device_words import OF_PROCESSOR
from planner.ui.locale import LANGUAGES, catalogue, say_note, text
from planner.ui.locale.numbers import BITS, FORMATS, ONE, format_value
from planner.ui.pages import PAGES
from planner.ui.presets import PRESETS, WORKLOADS

ROOT = Path(__file__).resolve().parents[2]
KEY = re.compile(r"[a-z]\w*(\.[\w:-]+)+")
# Notes and refusals are named by a code alone, and the sentence is looked up under one of these.
CODED = ("note", "error", "word")


@lru_cache(maxsize=1)
def literals() -> tuple[frozenset[str], tuple[re.Pattern[str], ...]]:
    """Every literal text in the program, and every f-string with a literal beginning as a pattern."""
    plain, patterns = set(), set()
    for path in sorted((ROOT / "planner").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                plain.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                first = node.values[0]
                if isinstance(first, ast.Constant) and "." in str(first.value):
                    parts = (
                        re.escape(part.value) if isinstance(part, ast.Constant) else ".+"
                        for part in node.values
                    )
                    patterns.add("".join(parts))
    return frozenset(plain), tuple(map(re.compile, sorted(patterns)))


@lru_cache(maxsize=1)
def codes() -> frozenset[str]:
    """Every literal text that could be a code, f-strings' beginnings and ends among them; profiles say codes too."""
    found = set(literals()[0])
    for path in sorted((ROOT / "planner").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found |= {part.value for part in node.values if isinstance(part, ast.Constant)}
    for path in (ROOT / "profiles").rglob("*.yaml"):
        found |= set(re.findall(r"(?:note|reason): ([a-z_0-9]+)\b", path.read_text("utf-8")))
    return frozenset(found)


def is_used(key: str) -> bool:
    plain, patterns = literals()
    key = key.removesuffix(OF_PROCESSOR)  # said in place of the sentence without
    if key in plain:
        return True
    group, _, code = key.partition(".")
    if group in CODED:
        known = codes()
        # A code may be put together: "headline_" + verdict + "_several", "scenario_" + pydantic's own.
        ends = [at for at in range(1, len(code)) if code[:at] in known and code[at - 1] == "_"]
        return code in known or bool(ends) or any(
            code[:at] in known and code[at:] in known for at in range(1, len(code))
        )  # fmt: skip
    return any(pattern.fullmatch(key) for pattern in patterns)


def placeholders(sentence: str) -> set[tuple[str, str]]:
    """Names with their formats; words that go with a number differ between languages and don't count."""
    return {
        (name, form or "")
        for _, name, form, _ in string.Formatter().parse(sentence)
        if name is not None and not (form or "").startswith(ONE)
    }


def test_both_languages_hold_the_same_keys() -> None:
    assert catalogue("en").keys() == catalogue("es").keys()


def test_a_sentence_has_the_same_placeholders_in_both_languages() -> None:
    english, spanish = catalogue("en"), catalogue("es")
    assert {
        key for key in english if placeholders(english[key]) != placeholders(spanish[key])
    } == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_format_exists(language: str) -> None:
    asked = {
        form for sentence in catalogue(language).values() for _, form in placeholders(sentence)
    }
    assert asked <= FORMATS.keys() | {BITS}


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_said_of_a_processor_is_the_same_in_other_words(language: str) -> None:
    sentences = catalogue(language)
    own = [key for key in sentences if key.endswith(OF_PROCESSOR)]
    assert own
    for key in own:
        assert placeholders(sentences[key]) <= placeholders(
            sentences[key.removesuffix(OF_PROCESSOR)]
        )
        plain = re.sub(r"\{.*?\}", "", sentences[key])
        assert not re.search(r"GPU|VRAM|\bcard|tarjeta", plain), key


def test_no_sentence_is_left_over() -> None:
    assert [key for key in catalogue("en") if not is_used(key)] == []


def test_a_sentence_that_nobody_says_is_found() -> None:
    assert not is_used("frame.nobody_says_this")
    assert not is_used("note.nobody_says_this")
    assert not is_used("error.nobody_says_this")


def test_every_literal_key_of_the_pages_has_a_sentence() -> None:
    groups = {key.partition(".")[0] for key in catalogue("en")}
    asked = set()
    for path in sorted((ROOT / "planner" / "ui").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            first = node.args[0]
            if node.func.id in {"t", "h", "plain", "text", "say"} and isinstance(
                first, ast.Constant
            ):
                asked.add(str(first.value))
    asked = {key for key in asked if KEY.fullmatch(key) and key.partition(".")[0] in groups}
    assert len(asked) > 80
    assert asked - catalogue("en").keys() == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_named_by_data_has_a_name(language: str) -> None:
    known = catalogue(language)
    named = [f"field.{name}" for name in Scenario.model_fields]
    named += [f"format.{id_}" for id_ in weight_format_ids() if not id_.startswith("gguf:")]
    named += [f"preset.{preset.id}" for preset in PRESETS]
    named += [f"workload.{name}" for name in (*WORKLOADS, "custom")]
    named += [f"nav.{page.path}" for page in PAGES]
    named += [f"basis{part}.{basis.label}" for basis in Basis for part in ("", "_about")]
    named += [f"verdict.{name}" for name in ("fits", "tight", "does_not_fit")]
    named += [f"limit.{name}" for name in ("bandwidth", "compute", "host", "communication")]
    assert [key for key in named if not known.get(key)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_written_out(language: str) -> None:
    for key, sentence in catalogue(language).items():
        assert sentence, key
        assert not re.search(r"\bTODO\b|\s{2,}|\s[,;.!?]( |$)", sentence.replace(" … ", " ")), key
        assert sentence.count("**") % 2 == 0, key


def test_spanish_is_not_english() -> None:
    """Sentences differ; what is the same is short: field terms ("Prefill", "KV cache") and names."""
    words = {
        language: {
            key: re.sub(r"\{.*?\}|<br>|\W", "", sentence)
            for key, sentence in catalogue(language).items()
        }
        for language in LANGUAGES
    }
    same = [key for key, said in words["en"].items() if said == words["es"][key] and len(said) > 24]
    assert same == []


def test_next_to_nothing_is_no_row_of_zeros() -> None:
    assert format_value(1e-300, "gib", "en") == format_value(1e-300, "gib", "es") == "≈ 0 GiB"
    assert format_value(-1e-12, "number", "en") == "≈ 0"
    assert format_value(0.0, "number", "en") == "0"
    assert format_value(1.5e-9, "number", "en") == "0.0000000015"


@pytest.mark.parametrize(
    ("language", "said"), [("en", "16-bit, nf4 weights"), ("es", "pesos de 16 bits, nf4")]
)
def test_kinds_of_weights_are_said_by_their_width(language: str, said: str) -> None:
    values = {"name": "mine", "date": "2026-11-30", "accelerator": "L4", "engine": "vLLM"}
    note = Note("own_calibration_elsewhere", {**values, "kinds": ("16bit", "nf4")})
    assert said in say_note(note, language)


def test_numbers_in_sentences_follow_the_language() -> None:
    assert text("chart.at_tokens", "en", tokens=131072) == "131,072 tokens"
    assert text("chart.at_tokens", "es", tokens=131072) == "131.072 tokens"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_word_that_goes_with_a_number_names_two_forms(language: str) -> None:
    forms = [
        (key, name, form)
        for key, sentence in catalogue(language).items()
        for _, name, form, _ in string.Formatter().parse(sentence)
        if name is not None and form and form.startswith(ONE)
    ]
    assert forms
    for key, name, form in forms:
        assert form.count("|") == 1, key
        # The number itself is in the sentence too.
        assert (name, "count") in placeholders(catalogue(language)[key]), key


def test_one_of_something_is_singular() -> None:
    assert text("whatif.users", "en", users=1) == "1 person at once"
    assert text("whatif.users", "en", users=2.0) == "2 people at once"
    assert text("whatif.users", "es", users=1.0) == "1 persona a la vez"
    assert text("whatif.users", "es", users=0) == "0 personas a la vez"


@pytest.mark.parametrize(
    ("gib", "en", "es"),
    [
        (9_990.0, "9,990 GiB", "9.990 GiB"),
        (10_240.0, "10 TiB", "10 TiB"),
        (3_050_000.0, "2.91 PiB", "2,91 PiB"),
    ],
)
def test_memory_beyond_any_card_is_written_in_larger_units(gib: float, en: str, es: str) -> None:
    assert format_value(gib * 2.0**30, "gib", "en") == en
    assert format_value(gib * 2.0**30, "gib", "es") == es
