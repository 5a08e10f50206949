"""Sentences in English and Spanish, and the one place where numbers become text.

The catalogues are YAML files of `key: sentence` in one folder per language; both hold the same keys and placeholders.
A placeholder names its format: `{tokens:count}`, `{size:gib}`, `{time:time}`, `{share:percent}`; a word that goes with
a number names both of its forms: `{users:count} {users:one person|people}`. Imports no Streamlit,
so that the command line can speak too.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any

from planner.errors import Note, PlannerError
from planner.ui.locale.numbers import format_value

LANGUAGES = ("en", "es")
DEFAULT_LANGUAGE = "en"


@lru_cache(maxsize=4)
def catalogue(language: str) -> dict[str, str]:
    """All sentences of one language by key.

    Raises:
        ValueError: where two files of the language define one key.
    """
    import yaml  # here: reading YAML is not on the import path

    sentences: dict[str, str] = {}
    for path in sorted((Path(__file__).parent / language).glob("*.yaml")):
        with path.open("rb") as stream:
            entries = yaml.load(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
        for key, sentence in entries.items():
            if key in sentences:
                raise ValueError(f"{path.name}: {key} is defined twice")
            sentences[key] = str(sentence).strip()
    return sentences


def pick_language(requested: str | None, browser_locale: str | None = None) -> str:
    """The language to speak: the one asked for, else the browser's, else English."""
    for wish in (requested, browser_locale):
        code = (wish or "")[:2].lower()
        if code in LANGUAGES:
            return code
    return DEFAULT_LANGUAGE


class _Speaker(Formatter):
    def __init__(self, language: str) -> None:
        self.language = language

    def format_field(self, value: Any, format_spec: str) -> str:
        return format_value(value, format_spec, self.language)


def text(key: str, language: str, /, **values: Any) -> str:
    """The sentence under `key`, its placeholders filled.

    Raises:
        KeyError: for a key or a placeholder that isn't there; a test keeps both from happening.
    """
    sentence = catalogue(language)[key]
    return _Speaker(language).format(sentence, **values) if "{" in sentence else sentence


def fill(template: str, language: str, /, **values: Any) -> str:
    """A template that is the same in every language, such as a formula, with its numbers written in this one."""
    return _Speaker(language).format(template, **values)


def say_note(note: Note, language: str) -> str:
    """A note as a sentence."""
    return text(f"note.{note.code}", language, **note.values)


def say_error(error: PlannerError, language: str) -> str:
    """A refusal as a sentence: what, why, and what to do."""
    sentences = catalogue(language)
    values = {"field": error.field or "", **error.values}
    for name in ("reason", "expected"):  # some are words that have a translation
        word = f"word.{values.get(name)}"
        if word in sentences:
            values[name] = text(word, language, **values)
    key = f"error.{error.code}"
    if not values.get("nearest", True) and f"{key}_alone" in sentences:
        key = f"{key}_alone"
    if key not in sentences:
        key, values = "error.other", {"code": error.code, "field": error.field or ""}
    return text(key, language, **values)
