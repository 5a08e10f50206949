"""Filters beside the model's select: which of the catalogue's models it offers. The chosen one always stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import streamlit as st

from planner.architecture.resolve import architecture_of
from planner.architecture.totals import parameters
from planner.catalog.search import IndexEntry, read_index
from planner.ui import state
from planner.ui.state import plain
from planner.ui.widgets import draw, h, shown, t

# Upper ends of the classes of size (parameters), and least contexts (tokens) to choose from.
SIZES = (4e9, 15e9, 50e9, 150e9)
CONTEXTS = (8192, 32768, 131072, 262144, 1_000_000)
UNKNOWN = ""  # a licence or a year that isn't certain; weights that aren't quantised
MODALITIES = ("text", "vision-text", "audio-text", "omni", "embedding", "encoder-decoder")
Option = TypeVar("Option", int, str)
NAMES = ("family", "size", "context", "licence", "year", "modality", "quantisation")


@dataclass(frozen=True, slots=True)
class WantedModels:
    """What a model must be; what is empty doesn't matter.

    Attributes:
        sizes: classes of size, as indices: below SIZES[0], between it and SIZES[1], …
        min_context_tokens: least context that it was published for (tokens).
        licences, years, quantisations: UNKNOWN stands for none that is certain, and for weights that aren't quantised.
    """

    families: frozenset[str] = frozenset()
    sizes: frozenset[int] = frozenset()
    min_context_tokens: int | None = None
    licences: frozenset[str] = frozenset()
    years: frozenset[str] = frozenset()
    modalities: frozenset[str] = frozenset()
    quantisations: frozenset[str] = frozenset()


def size_class(count: float) -> int:
    """Index of the class of size that so many parameters are in."""
    return sum(count >= size for size in SIZES)


def _year(entry: IndexEntry) -> str:
    return str(entry.fields["released"] or UNKNOWN)[:4]


@lru_cache(maxsize=1024)
def _parameters(id_: str, stated: int | None) -> int:
    """Parameters as the index has them; where no source states them, as they follow from the configuration."""
    return stated if stated is not None else parameters(architecture_of(id_))


def matches(entry: IndexEntry, wanted: WantedModels) -> bool:
    """Whether a model is what is wanted."""
    fields = entry.fields
    context = fields["context_tokens"]
    return (
        (not wanted.families or fields["family"] in wanted.families)
        and (not wanted.modalities or fields["modality"] in wanted.modalities)
        and (not wanted.licences or (fields["licence"] or UNKNOWN) in wanted.licences)
        and (not wanted.years or _year(entry) in wanted.years)
        and (
            not wanted.quantisations or (fields["quantisation"] or UNKNOWN) in wanted.quantisations
        )
        # A model without a limit of its own takes any context.
        and (
            wanted.min_context_tokens is None
            or context is None
            or context >= wanted.min_context_tokens
        )
        and (
            not wanted.sizes
            or size_class(_parameters(entry.id, fields["parameters"])) in wanted.sizes
        )
    )


@lru_cache(maxsize=256)
def matching(wanted: WantedModels) -> frozenset[str]:
    """Ids of the catalogue's models that are what is wanted."""
    return frozenset(entry.id for entry in read_index("model") if matches(entry, wanted))


# --- The widgets -----------------------------------------------------------------------------------------------------


def chosen() -> WantedModels:
    """What the filters say, whether they are drawn in this run yet or not."""
    said = {name: state.kept(f"models-{name}") for name in NAMES}
    return WantedModels(
        families=frozenset(said["family"] or ()),
        sizes=frozenset(said["size"] or ()),
        min_context_tokens=said["context"],
        licences=frozenset(said["licence"] or ()),
        years=frozenset(said["year"] or ()),
        modalities=frozenset(said["modality"] or ()),
        quantisations=frozenset(said["quantisation"] or ()),
    )


def filtered(names: dict[str, str], current: str) -> dict[str, str]:
    """Those of `names` (by id) that the filters leave, and the current model, whatever it is."""
    wanted = chosen()
    if wanted == WantedModels():
        return names
    left = matching(wanted)
    return {id_: name for id_, name in names.items() if id_ in left or id_ == current}


def filters() -> None:
    """Draws the filters, folded, with how many models they leave; what they say stays on other pages."""
    wanted = chosen()
    total = len(read_index("model"))
    left = len(matching(wanted))
    label = (
        t("filter.title")
        if wanted == WantedModels()
        else t("filter.title_left", left=left, total=total)
    )
    with st.expander(label, type="compact", key="model-filters", icon=":material/filter_list:"):
        _several("family", _by_number(lambda entry: str(entry.fields["family"])), str)
        _pills("size", range(len(SIZES) + 1), _size_words)
        st.selectbox(
            plain("filter.context"),
            CONTEXTS,
            index=None,
            format_func=lambda tokens: plain("filter.at_least", tokens=tokens),
            placeholder=plain("filter.any"),
            key=state.keeping("models-context"),
            persist_state="session",
        )
        _pills("modality", MODALITIES, lambda name: plain(f"modality.{name}"))
        _several(
            "licence", _by_number(lambda entry: entry.fields["licence"] or UNKNOWN), _or_uncertain
        )
        _pills("year", _years(), _or_uncertain)
        _several(
            "quantisation",
            _by_number(lambda entry: entry.fields["quantisation"] or UNKNOWN),
            lambda name: name or plain("filter.not_quantised"),
        )
        if wanted != WantedModels():
            draw(f'<p class="hr-words">{h("filter.left", left=left, total=total)}</p>')
            st.button(
                t("filter.clear"),
                key="models-clear",
                icon=":material/filter_list_off:",
                type="tertiary",
                on_click=clear,
            )


def clear() -> None:
    """Takes every filter off."""
    for name in NAMES:
        st.session_state[state.key_of(f"models-{name}")] = None if name == "context" else []


def _several(name: str, options: Iterable[str], say: Callable[[str], str]) -> None:
    st.multiselect(
        plain(f"filter.{name}"),
        list(options),
        format_func=say,
        placeholder=plain("filter.any"),
        key=state.keeping(f"models-{name}", []),
        persist_state="session",
    )


def _pills(name: str, options: Iterable[Option], say: Callable[[Option], str]) -> None:
    st.pills(
        plain(f"filter.{name}"),
        list(options),
        selection_mode="multi",
        format_func=say,
        key=state.keeping(f"models-{name}", []),
        persist_state="session",
    )


def _years() -> list[str]:
    """Years of the catalogue's models, the newest first, and last those that aren't certain."""
    return sorted({_year(entry) for entry in read_index("model")}, reverse=True)


def _by_number(field: Callable[[IndexEntry], str]) -> list[str]:
    """Values of a field, those of most models first."""
    times = Counter(field(entry) for entry in read_index("model"))
    return sorted(times, key=lambda value: (-times[value], value))


def _size_words(index: int) -> str:
    if index == 0:
        return plain("filter.size_below", to=SIZES[0])
    if index == len(SIZES):
        return plain("filter.size_above", start=SIZES[-1])
    low, high = shown(SIZES[index - 1], "large"), shown(SIZES[index], "large")
    number, _, unit = low.rpartition(" ")
    return f"{number}–{high}" if high.endswith(f" {unit}") else f"{low}–{high}"


def _or_uncertain(value: str) -> str:
    return value or plain("model.unknown")
