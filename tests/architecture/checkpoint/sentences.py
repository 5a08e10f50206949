"""A refusal as people read it."""

from __future__ import annotations

from planner.errors import PlannerError
from planner.ui.locale import LANGUAGES, catalogue, say_error


def assert_said(error: PlannerError) -> None:
    """The refusal has a sentence of its own in every language, and its values fill it."""
    for language in LANGUAGES:
        assert f"error.{error.code}" in catalogue(language)
        said = say_error(error, language)
        assert len(said) < 2000
        reason = error.values.get("reason")
        if isinstance(reason, str) and "_" in reason:
            assert reason not in said
