"""Strict reading of a model configuration: every key is checked for type and range, and named where it's wrong.

`null` and an absent key differ only for `optional_*`: a configuration class with a default of its own takes it for an
absent key, while `null` says "none".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from planner.errors import InvalidConfig

MAX_DIMENSION = 10_000_000
MAX_LAYERS = 10_000
MAX_EXPERTS = 100_000
MAX_CONTEXT = 1_000_000_000
_SHOWN_CHARACTERS = 60


class _Required:
    """The type of the marker for a key without which nothing can be said."""


REQUIRED: Final = _Required()
_T = TypeVar("_T", bool, int, float, str)


def shown(value: object) -> str:
    """A value as an error shows it: short, whatever was given."""
    if isinstance(value, int) and value.bit_length() > 200:
        return "…"  # Python refuses to print a number of thousands of digits
    if isinstance(value, str):
        value = value[: _SHOWN_CHARACTERS + 1]
    text = repr(value) if isinstance(value, (str, int, float)) else type(value).__name__
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


class Keys:
    """A configuration, or a section of one, read key by key.

    Args:
        config: the keys and values.
        prefix: path of the section with a trailing dot ("text_config."), for error messages; "" at the top.

    Every reader takes the key's name and any aliases; the first that is present counts. All raise InvalidConfig with
    the codes `config_key_missing`, `config_key_type` (with `expected`, `given`) or `config_key_range` (with `minimum`,
    `maximum`, `given`), and the full path of the key in `key`.
    """

    __slots__ = ("config", "prefix")

    def __init__(self, config: Mapping[str, Any], prefix: str = "") -> None:
        self.config = config
        self.prefix = prefix

    def path(self, name: str) -> str:
        """The key's full path, as errors name it."""
        return self.prefix + name

    def has(self, *names: str) -> bool:
        """Whether any of these keys is present and not null."""
        return any(self.config.get(name) is not None for name in names)

    def given(self, *names: str) -> bool:
        """Whether any of these keys is present, null included."""
        return any(name in self.config for name in names)

    def integer(
        self,
        name: str,
        *aliases: str,
        default: int | _Required = REQUIRED,
        minimum: int = 1,
        maximum: int = MAX_DIMENSION,
    ) -> int:
        """A whole number in range; null counts as absent."""
        key, value = self._find(name, aliases)
        if value is None:
            return self._default(name, default)
        return self._whole(key, value, minimum, maximum)

    def optional_integer(
        self,
        name: str,
        *aliases: str,
        default: int | None = None,
        minimum: int = 1,
        maximum: int = MAX_DIMENSION,
    ) -> int | None:
        """A whole number in range, or None where the key says null; `default` where it's absent."""
        if not self.given(name, *aliases):
            return default
        key, value = self._find(name, aliases)
        return None if value is None else self._whole(key, value, minimum, maximum)

    def number(
        self,
        name: str,
        *aliases: str,
        default: float | _Required = REQUIRED,
        minimum: float = 0.0,
        maximum: float = 1e12,
    ) -> float:
        """A finite number in range; null counts as absent."""
        key, value = self._find(name, aliases)
        if value is None:
            return self._default(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong_type(key, "number", value)
        if not (minimum <= value <= maximum) or not math.isfinite(value):
            raise self._out_of_range(key, value, minimum, maximum)
        return float(value)

    def flag(self, name: str, *aliases: str, default: bool | _Required = REQUIRED) -> bool:
        """true or false; null counts as absent."""
        key, value = self._find(name, aliases)
        if value is None:
            return self._default(name, default)
        if not isinstance(value, bool):
            raise self._wrong_type(key, "boolean", value)
        return value

    def text(
        self,
        name: str,
        *aliases: str,
        default: str | _Required = REQUIRED,
        longest: int = 200,
    ) -> str:
        """A non-empty string of at most `longest` characters; null counts as absent."""
        key, value = self._find(name, aliases)
        if value is None:
            return self._default(name, default)
        if not isinstance(value, str) or not 0 < len(value) <= longest:
            raise self._wrong_type(key, "text", value)
        return value

    def texts(
        self,
        name: str,
        *aliases: str,
        length: int | None = None,
        choices: frozenset[str] | None = None,
    ) -> tuple[str, ...] | None:
        """A list of strings (one per layer where `length` is given), or None where it's absent or null."""
        key, values = self._list(name, aliases, length)
        if values is None:
            return None
        for index, value in enumerate(values):
            if not isinstance(value, str) or (choices is not None and value not in choices):
                expected = "one of " + ", ".join(sorted(choices)) if choices else "text"
                raise self._wrong_type(f"{key}[{index}]", expected, value)
        return tuple(values)

    def integers(
        self,
        name: str,
        *aliases: str,
        length: int | None = None,
        minimum: int = 0,
        maximum: int = MAX_DIMENSION,
    ) -> tuple[int, ...] | None:
        """A list of whole numbers (one per layer where `length` is given), or None where it's absent or null."""
        key, values = self._list(name, aliases, length)
        if values is None:
            return None
        return tuple(
            self._whole(f"{key}[{index}]", value, minimum, maximum)
            for index, value in enumerate(values)
        )

    def sequence(
        self, name: str, *aliases: str, length: int | None = None
    ) -> tuple[Any, ...] | None:
        """A list of anything (one item per layer where `length` is given), or None where it's absent or null."""
        _, values = self._list(name, aliases, length)
        return None if values is None else tuple(values)

    def section(self, name: str, *aliases: str) -> Keys:
        """A nested object as Keys of its own."""
        section = self.optional_section(name, *aliases)
        if section is None:
            raise self._missing(name)
        return section

    def optional_section(self, name: str, *aliases: str) -> Keys | None:
        """A nested object as Keys of its own, or None where it's absent or null."""
        key, value = self._find(name, aliases)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong_type(key, "object", value)
        return Keys(value, self.path(key) + ".")

    def contradiction(self, name: str, reason: str, **values: Any) -> InvalidConfig:
        """The error for a key that is well-formed but can't be meant; `reason` is a code, `values` its details."""
        return InvalidConfig("config_contradiction", key=self.path(name), reason=reason, **values)

    def _find(self, name: str, aliases: tuple[str, ...]) -> tuple[str, Any]:
        value = self.config.get(name)
        if value is not None or not aliases:
            return name, value
        for alias in aliases:
            value = self.config.get(alias)
            if value is not None:
                return alias, value
        return name, None

    def _default(self, name: str, default: _T | _Required) -> _T:
        if isinstance(default, _Required):
            raise self._missing(name)
        return default

    def _list(
        self, name: str, aliases: tuple[str, ...], length: int | None
    ) -> tuple[str, list[Any] | None]:
        key, value = self._find(name, aliases)
        if value is None:
            return key, None
        if not isinstance(value, (list, tuple)):
            raise self._wrong_type(key, "list", value)
        if length is not None and len(value) != length:
            raise self.contradiction(key, "list_length", expected=length, given=len(value))
        return key, list(value)

    def _whole(self, key: str, value: Any, minimum: int, maximum: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong_type(key, "integer", value)
        if not minimum <= value <= maximum:
            raise self._out_of_range(key, value, minimum, maximum)
        return value

    def _missing(self, name: str) -> InvalidConfig:
        return InvalidConfig("config_key_missing", key=self.path(name))

    def _wrong_type(self, key: str, expected: str, given: object) -> InvalidConfig:
        return InvalidConfig(
            "config_key_type", key=self.path(key), expected=expected, given=shown(given)
        )

    def _out_of_range(
        self, key: str, given: float, minimum: float, maximum: float
    ) -> InvalidConfig:
        return InvalidConfig(
            "config_key_range",
            key=self.path(key),
            minimum=minimum,
            maximum=maximum,
            given=shown(given),
        )
