"""Files changed as accidents and ill will change them: the same for the same seed."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

# What may stand where a number or a word stood.
VALUES = (
    "NaN", "Infinity", "-Infinity", "1e400", "-1", "0", "-0.0", "1e-320", "1.5", "1e18", "9" * 4000, "-" + "9" * 30,
    "true", "null", '""', '"x"', '"\\ud800"', '"\\u0000"', '"NaN"', '"1e5"', '"inf"', '"٣"', '"{0}{x}"', '"<b>"',
    '"' + "a" * 70_000 + '"', "[]", "{}", "[[]]", "[{}]", "[" * 300 + "]" * 300, "[" * 900 + "]" * 900,
    '{"a":' * 300 + "1" + "}" * 300, '{"a":' * 930 + "1" + "}" * 930,
)  # fmt: skip
NUMBERS = (
    "0", "9" * 18, "9" * 30, "9" * 5000, "-5", "1e999", "nan", "0.000000001", "1,000,000,000", "٣", "²", "1.2.3", "",
    "999999999", "4294967296",
)  # fmt: skip
LETTERS = (
    "\0",
    "\u2028",
    "\x1c",
    "\r",
    "\ufeff",
    '"',
    "'",
    ",",
    "|",
    "\\",
    "=",
    "(",
    "x" * 140_000,
)
TOKEN = re.compile(r'-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|"(?:[^"\\]|\\.)*"|true|false|null')
NUMBER = re.compile(r"\d+(?:\.\d+)?")
Mutation = Callable[[Random, str], str]


def mutated_json(chance: Random, text: str) -> str:
    """JSON with a few places changed: values, keys that come twice, lines."""
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        found = list(TOKEN.finditer(text))
        kind = chance.random()
        if kind < 0.7 and found:
            text = _in_place(text, chance.choice(found), chance.choice(VALUES))
            continue
        keys = [one for one in found if text[one.end() : one.end() + 1] == ":"]
        if kind < 0.8 and keys:
            twice = chance.choice(keys)
            other = f"{twice[0]}: {chance.choice(VALUES)}, "
            text = text[: twice.start()] + other + text[twice.start() :]
        else:
            text = mutated_lines(chance, text)
    return text


def mutated_lines(chance: Random, text: str) -> str:
    """A text of lines with one of them changed, moved, gone or cut, or all that follows."""
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    kind = chance.randrange(7)
    if kind == 0:
        lines.insert(at, chance.choice(lines))
    elif kind == 1:
        del lines[at]
    elif kind == 2:
        lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
    elif kind == 3:
        place = chance.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:place] + chance.choice(LETTERS) + lines[at][place:]
    elif kind == 4:
        found = list(NUMBER.finditer(lines[at]))
        if found:
            lines[at] = _in_place(lines[at], chance.choice(found), chance.choice(NUMBERS))
    elif kind == 5:
        return text[: chance.randrange(len(text) + 1)]
    else:
        lines[at] *= chance.choice((2, 50))
    return "\n".join(lines)


def mutated_file(chance: Random, text: str, mutation: Mutation) -> bytes:
    """The bytes of a changed text, of which now and then some are others."""
    content = bytearray(mutation(chance, text).encode())
    if content and chance.random() < 0.1:
        for _ in range(3):
            content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def _in_place(text: str, found: re.Match[str], other: str) -> str:
    return text[: found.start()] + other + text[found.end() :]
