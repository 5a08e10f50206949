"""What the planner says in other than numbers: refusals and notes.

Neither carries a sentence. Each carries a message code and the values that fill it; the sentences, in every
language, live in `planner/ui/locale`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know about an answer: a warning or an assumption.

    Attributes:
        code: key of the sentence in the locale catalogues (`note.<code>`).
        values: what fills the sentence's placeholders; numbers stay numbers so that a formatter can show them.
    """

    code: str
    values: dict[str, object] = field(default_factory=dict)


class PlannerError(Exception):
    """An expected refusal: the planner knows why it can't answer.

    Attributes:
        code: key of the sentence in the locale catalogues (`error.<code>`).
        field: name of the input that caused it, as in `Scenario`, or None.
        values: what fills the sentence's placeholders.
    """

    def __init__(self, code: str, *, field: str | None = None, **values: object) -> None:
        self.code = code
        self.field = field
        self.values = values
        detail = ", ".join(f"{key}={value!r}" for key, value in values.items())
        super().__init__(f"{code}({detail})")


class InvalidInput(PlannerError):
    """A value that can't be meant: wrong type, out of range, contradictory."""


class InvalidConfig(InvalidInput):
    """A model configuration that isn't one, or whose keys contradict each other; `values['key']` names the key."""


class UnsupportedArchitecture(PlannerError):
    """A model type that no adapter describes; named, never guessed."""


class UnknownItem(PlannerError):
    """An id that the catalogue doesn't hold; `values['nearest']` lists close ids."""

    def __init__(
        self,
        kind: str,
        given: str,
        nearest: tuple[str, ...] = (),
        *,
        field: str | None = None,
    ) -> None:
        super().__init__(f"unknown_{kind}", field=field or kind, given=given, nearest=nearest)


class MissingFigure(PlannerError):
    """A figure that the profile doesn't state; never replaced by a default."""

    def __init__(self, profile: str, key: str) -> None:
        super().__init__("missing_figure", profile=profile, key=key)


class Unsupported(PlannerError):
    """A combination that no engine or card can run; `values['nearest']` names one that works, where there is one."""


class BadProfile(PlannerError):
    """A profile file that breaks the schema; `values` name the file and the key."""


class Unreachable(PlannerError):
    """A network resource that didn't answer, isn't there, or isn't open to this user."""


class Busy(PlannerError):
    """Something that only one can do at a time, and another does."""


def brief(value: object, most: int = 60) -> str:
    """A value as a refusal shows it: no more than `most` characters, and of what isn't one value only its type."""
    if (
        isinstance(value, int) and value.bit_length() > 4 * most
    ):  # Python writes no number of any length
        return f"{'-' if value < 0 else ''}2^{value.bit_length() - 1}"
    if value is None or isinstance(value, (str, int, float)):
        return str(value)[:most]
    return type(value).__name__
