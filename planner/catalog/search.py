"""Finding an item by what a person types or a tool prints: exact names, and a ranked search.

Both read the generated index, so that no profile is opened before one is wanted.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from planner.catalog.files import read_index_file
from planner.quantity import GB

Kind = Literal["accelerator", "model"]

WORD = re.compile(r"[a-z0-9]+")
# Words that a driver or a shop puts before the name that tells one card from another.
MAKERS = frozenset(
    WORD.findall(
        "amd apple aws geforce google gpu graphics habana huawei instinct intel nvidia radeon tesla tm"
    )
)
BETWEEN_NUMBERS = re.compile(r"(?<=\d) (?=\d)")
TRADEMARK = re.compile(r"\((?:r|tm)\)|[®™]", re.IGNORECASE)
CLOSE_ENOUGH = 0.65  # similarity (difflib) at which a word counts as misspelt
ALIKE = 0.6  # at which a name is worth suggesting


@dataclass(frozen=True, slots=True, eq=False)
class IndexEntry:
    """One item of the catalogue as the index knows it.

    Attributes:
        kind: "accelerator" or "model".
        aliases: other names that mean exactly this item.
        fields: what lists and filters show (vendor, class, sizes), by name.
    """

    kind: Kind
    id: str
    name: str
    aliases: tuple[str, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Haystack:
    """An entry taken apart: words of its id, of all its names and of its fields; its names run together."""

    entry: IndexEntry
    id_words: frozenset[str]
    words: frozenset[str]
    field_words: frozenset[str]
    run_together: str


def words_of(kind: Kind, text: str) -> list[str]:
    """Words of a name in order, lower case; of an accelerator's without its maker's."""
    found: list[str] = WORD.findall(TRADEMARK.sub(" ", text.lower()))
    if kind == "accelerator":
        return [word for word in found if word not in MAKERS]
    return found


def normalised(kind: Kind, text: str) -> str:
    """A name without case, punctuation and spaces: "NVIDIA GeForce RTX 4090" and "rtx-4090" are one.

    A dot stays between two numbers, so that 1.3b isn't 13b.
    """
    return BETWEEN_NUMBERS.sub(".", " ".join(words_of(kind, text))).replace(" ", "")


@lru_cache(maxsize=2)
def read_index(kind: Kind) -> tuple[IndexEntry, ...]:
    """All entries of a kind, in the index's order.

    Raises:
        BadProfile: where there is no index.
    """
    entries = []
    for data in read_index_file().get(f"{kind}s", []):
        rest = dict(data)
        entries.append(
            IndexEntry(kind, rest.pop("id"), rest.pop("name"), tuple(rest.pop("aliases", ())), rest)
        )
    return tuple(entries)


def name_table(kind: Kind, entries: tuple[IndexEntry, ...]) -> dict[str, set[str]]:
    """Ids by normalised id and alias: one id each, where no two items share an alias."""
    table: dict[str, set[str]] = {}
    for entry in entries:
        for text in (entry.id, *entry.aliases):
            table.setdefault(normalised(kind, text), set()).add(entry.id)
    return table


@lru_cache(maxsize=2)
def _exact_names(kind: Kind) -> dict[str, str]:
    """Id by normalised name; a name that several items share means none of them."""
    entries = read_index(kind)
    shared = name_table(kind, entries)
    titles: dict[str, set[str]] = {}
    for entry in entries:
        titles.setdefault(normalised(kind, entry.name), set()).add(entry.id)
    table = {text: ids for text, ids in titles.items() if text not in shared} | shared
    return {text: next(iter(ids)) for text, ids in table.items() if len(ids) == 1 and text}


def resolve(kind: Kind, given: str) -> str | None:
    """The id that `given` names exactly (as id, alias or name), else None; it never guesses."""
    return _exact_names(kind).get(normalised(kind, given))


def search(kind: Kind, query: str, limit: int = 10) -> list[IndexEntry]:
    """Items that a query may mean, best first; an exact name comes first, misspelt words are corrected.

    Every word has to be found in an item's id, names or fields; only where no item has them all, those with most of
    them are given. An empty query gives the first items of the index.
    """
    wanted = _query_words(kind, query)
    if not wanted:
        return list(read_index(kind)[:limit])
    hits = _ranked(kind, wanted, len(wanted))
    if not hits:
        corrected = [_corrected(kind, word) for word in wanted]
        hits = _ranked(kind, corrected, len(corrected)) or _ranked(kind, corrected, 1)
    exact = resolve(kind, query)
    hits.sort(key=lambda hit: (hit[1].id != exact, -hit[0], len(hit[1].id), hit[1].id))
    return [entry for _, entry in hits[:limit]]


@lru_cache(maxsize=1024)
def nearest(kind: Kind, given: str, limit: int = 5) -> tuple[str, ...]:
    """Ids to suggest for a name that isn't known: search hits, then those with a name that looks alike.

    A hit on some of the words alone has to look alike too: one short word is like another by chance.
    """
    ids = [entry.id for entry in search(kind, given, limit)] if words_of(kind, given) else []
    asked = normalised(kind, given)
    words = _query_words(kind, given)
    if ids and not _ranked(kind, words, len(words)):
        ids = [id_ for id_ in ids if _alike(kind, asked, id_)]
    if len(ids) < limit:
        table = _exact_names(kind)
        alike = difflib.get_close_matches(asked, table, 3 * limit, ALIKE)
        ids += [table[text] for text in alike]
    return tuple(dict.fromkeys(ids))[:limit]


def _alike(kind: Kind, asked: str, id_: str) -> bool:
    """Whether one of an item's names looks like a normalised one."""
    entry = next(entry for entry in read_index(kind) if entry.id == id_)
    names = (normalised(kind, text) for text in (entry.id, entry.name, *entry.aliases))
    return any(difflib.SequenceMatcher(None, asked, name).ratio() >= ALIKE for name in names)


@lru_cache(maxsize=2)
def _haystacks(kind: Kind) -> tuple[_Haystack, ...]:
    stacks = []
    for entry in read_index(kind):
        texts = (entry.id, entry.name, *entry.aliases)
        stacks.append(
            _Haystack(
                entry,
                frozenset(words_of(kind, entry.id)),
                frozenset(word for text in texts for word in words_of(kind, text)),
                _field_words(entry),
                " ".join(normalised(kind, text) for text in texts),
            )
        )
    return tuple(stacks)


def _field_words(entry: IndexEntry) -> frozenset[str]:
    """Words of the fields that are text, and a size of memory as it is written on the box."""
    texts = [value.lower() for value in entry.fields.values() if isinstance(value, str)]
    if sold := entry.fields.get("memory_sold_bytes"):
        texts.append(f"{sold / GB:.0f}gb")
    return frozenset(word for text in texts for word in WORD.findall(text))


@lru_cache(maxsize=2)
def _vocabulary(kind: Kind) -> frozenset[str]:
    stacks = _haystacks(kind)
    return frozenset(word for stack in stacks for word in stack.words | stack.field_words)


def _query_words(kind: Kind, query: str) -> list[str]:
    """Words of a query; a maker's name counts where a field holds it ("amd 24gb")."""
    found: list[str] = WORD.findall(TRADEMARK.sub(" ", query.lower()))
    if kind == "accelerator":
        return [word for word in found if word not in MAKERS or word in _vocabulary(kind)]
    return found


def _corrected(kind: Kind, word: str) -> str:
    """The word itself, or the known word that it most resembles."""
    if any(word in stack.run_together for stack in _haystacks(kind)):
        return word
    likely = [known for known in _vocabulary(kind) if abs(len(known) - len(word)) <= 2]
    return next(iter(difflib.get_close_matches(word, sorted(likely), 1, CLOSE_ENOUGH)), word)


def _ranked(kind: Kind, wanted: list[str], at_least: int) -> list[tuple[float, IndexEntry]]:
    """Score and entry of all items that hold at least so many of the words.

    The mean over the words, less a little for each word of the id that wasn't asked for: of two that match, the plainer
    one is meant.
    """
    hits = []
    columns = [_scores(kind, word) for word in wanted]
    for stack, *scores in zip(_haystacks(kind), *columns, strict=True):
        if sum(score > 0.0 for score in scores) >= at_least:
            unasked = len(stack.id_words.difference(wanted)) / len(stack.id_words)
            hits.append((sum(scores) / len(scores) - 0.15 * unasked, stack.entry))
    return hits


@lru_cache(maxsize=512)
def _scores(kind: Kind, word: str) -> tuple[float, ...]:
    """How well a word fits each item: queries share most of their words."""
    return tuple(_score(word, stack) for stack in _haystacks(kind))


def _score(word: str, stack: _Haystack) -> float:
    """How well one word of a query fits: whole word, start of one, inside one, a field's word, not at all."""
    if word in stack.id_words:
        return 1.0
    if word in stack.words:
        return 0.95
    if len(word) > 1 and any(known.startswith(word) for known in stack.words):
        return 0.8
    if len(word) > 2 and word in stack.run_together:
        return 0.6
    return 0.5 if word in stack.field_words else 0.0
