"""The scenario of one visitor: where it comes from (address, widgets, presets) and how it gets back into the address.

Everything here lives in `st.session_state`, which belongs to one browser tab. `values` is the one truth: widgets show
it and write to it, the address is written from it, and a new address (a link, the Back button) replaces it.

The address is written by hand rather than bound to widgets: it then holds every value under the scenario's own names,
the same in both languages, changes once for a change of many values, and a wrong value can be named instead of dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from planner.errors import PlannerError
from planner.evaluation import Evaluation, evaluate
from planner.scenario import Scenario
from planner.ui.device_words import key_for
from planner.ui.locale import pick_language, text
from planner.ui.permalink import DEFAULTS, VERSION_KEY, Incoming, from_query, to_query
from planner.ui.presets import OPENING

LANGUAGE_KEY = "lang"
NOTHING = object()  # what a widget that is gone has to say
# What a refusal may offer to set back, and which of it names something that a refusal may know close names for.
RESETTABLE = (*DEFAULTS, VERSION_KEY)
CHOICES = ("model", "gpu", "engine", "weights", "kv", "dtype")


# --- Language --------------------------------------------------------------------------------------------------------


# Asked for hundreds of times in a run, and the same throughout: each run has a thread, and so a context, of its own.
_language: ContextVar[str | None] = ContextVar("language", default=None)


def language() -> str:
    """The language of this visitor: the address's, else the browser's, else English."""
    known = _language.get()
    return known or pick_language(st.session_state.get(LANGUAGE_KEY), st.context.locale)


def choose_language(chosen: str) -> None:
    st.session_state[LANGUAGE_KEY] = chosen
    _language.set(chosen)


def plain(key: str, /, **values: Any) -> str:
    """The sentence under `key` in the visitor's language, for what is no Markdown and no HTML."""
    return text(spoken(key), language(), **values)


def device() -> dict[str, Any] | None:
    """The scenario's own device, described in it; None for one of the catalogue's, and before there is a scenario."""
    found: dict[str, Any] | None = st.session_state.get("values", {}).get("device")
    return found


def spoken(key: str) -> str:
    """The key of a sentence as it is said of this visitor's device."""
    return key_for(key, device(), language())


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that is said later, in the language of then.

    Attributes:
        fields: fields of the scenario that it names.
    """

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[str, ...] = ()

    def words(self) -> str:
        """It in the visitor's language, as plain text."""
        named = [plain(f"field.{name}") for name in self.fields]
        return plain(self.key, **self.values, **({"fields": named} if named else {}))


# --- The scenario ----------------------------------------------------------------------------------------------------


def begin_run() -> None:
    """What each run of a page begins with: a new address is taken over, and the language is settled."""
    _language.set(None)
    _take_address()
    _language.set(language())


def _take_address() -> None:
    """Takes over a new address: the one that the visit began with, or one that Back or Forward brought.

    Any other difference between the address and the scenario is a change that the browser hasn't heard of yet.
    """
    state = st.session_state
    state.setdefault("generations", {})
    state.setdefault("said", {})
    state.setdefault("unheard", frozenset())
    query = st.query_params.to_dict()
    if "values" in state and (query == state["address"] or not _is_history_navigation()):
        return
    if (asked := query.get(LANGUAGE_KEY)) is not None or "values" in state:
        state[LANGUAGE_KEY] = asked
    incoming: Incoming = from_query(query)
    state["values"], state["problems"] = incoming.values, incoming.problems
    state["address"], state["undo"] = query, None


def _is_history_navigation() -> bool:
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def values() -> dict[str, Any]:
    """The scenario's fields by name; not to be changed, `change` does that."""
    current: dict[str, Any] = st.session_state["values"]
    return current


def problems() -> dict[str, PlannerError]:
    """What was wrong with the address, by field, as long as nobody has set the field right."""
    found: dict[str, PlannerError] = st.session_state["problems"]
    return found


def change(**changes: Any) -> None:
    """Sets some of the scenario's fields; a problem with one of them is settled.

    What was applied before can't be undone any more: that would take this change back with it.
    """
    changed = {**values(), **changes}
    if changed != values():
        st.session_state["undo"] = None
    st.session_state["values"] = changed
    st.session_state["problems"] = {
        name: error for name, error in problems().items() if name not in changes
    }


def reset(name: str) -> None:
    """Sets one field back to what it is without a user, and drops what was wrong with it."""
    if name == "device":  # which went by a name of its own
        change(device=None, gpu=OPENING["gpu"])
    elif name in DEFAULTS:
        change(**{name: OPENING[name] if name in ("model", "gpu") else DEFAULTS[name]})
    else:
        st.session_state["problems"] = {n: e for n, e in problems().items() if n != name}


def apply(changes: dict[str, Any], what: Sentence, *, whole: bool = False) -> None:
    """Applies a preset or a what-if in one go, and remembers the scenario before it.

    Args:
        what: the change in a few words, for "undo".
        whole: what `changes` leaves out gets its default.
    """
    before = {"values": values(), "problems": problems(), "what": what}
    change(**({**DEFAULTS, **changes} if whole else changes))
    if whole:
        st.session_state["problems"] = {}
    st.session_state["undo"] = before


def undoable() -> str | None:
    """The words for the change that can be undone, or None."""
    before = st.session_state.get("undo")
    return before["what"].words() if before else None


def undo() -> None:
    """Brings back the scenario before the last preset or what-if."""
    before = st.session_state["undo"]
    st.session_state.update(values=before["values"], problems=before["problems"], undo=None)


def scenario() -> Scenario:
    """The scenario as the planner takes it.

    Raises:
        PlannerError: what is wrong with the address, or with a value.
    """
    for error in problems().values():
        raise error
    return Scenario.parse(values())


def answer() -> Evaluation | PlannerError:
    """What the planner says to the scenario: its answer, or its refusal. Worked out once for each scenario."""
    state = st.session_state
    try:
        asked = scenario()
        if "answered" not in state or state["answered"].scenario != asked:
            state["answered"] = evaluate(asked)
        answered: Evaluation = state["answered"]
    except PlannerError as refusal:
        return refusal
    return answered


# --- Widgets that show it --------------------------------------------------------------------------------------------


def showing(name: str, value: Any, said: object = None) -> str:
    """Key of a widget that shows `value` from here on, whatever it showed before.

    A widget whose value the program changes gets a new key. Under its old one the browser could send the old value
    again, with the next event, before it has heard of the new one, and that would count as the visitor's wish. So does
    a widget of options whose words change: of an option the browser sends the words that it showed.

    Args:
        said: what its words depend on: the language, the words themselves.
    """
    state = st.session_state
    key = key_of(name)
    if key in state and (state[key] != value or state["said"].get(name) != said):
        state["generations"] = {**state["generations"], name: state["generations"].get(name, 0) + 1}
        key = key_of(name)
    state["said"] = {**state["said"], name: said}
    # What a run that was cut short has set the browser may never hear of: it's told again.
    if key not in state or key in state["unheard"]:
        state[key] = value
        state["unheard"] |= {key}
    return key


def keeping(name: str, first: Any = None) -> str:
    """Key of a widget of options that is no field of the scenario: in another language it keeps what was chosen."""
    return showing(name, kept(name, first), language())


def kept(name: str, first: Any = None) -> Any:
    """What a widget that is no field of the scenario was left at, drawn in this run or not yet; `first` at first."""
    return st.session_state.get(key_of(name), first)


def chosen(name: str, key: str) -> Any:
    """What the visitor chose in the widget under `key`; NOTHING where that widget has made way for a newer one."""
    return st.session_state[key] if key == key_of(name) else NOTHING


def key_of(name: str) -> str:
    """Key of the newest widget of that name."""
    generation = st.session_state["generations"].get(name, 0)
    return f"{name}~{generation}" if generation else name


# --- The address -----------------------------------------------------------------------------------------------------


def query(*, with_language: bool = True) -> dict[str, str]:
    """The query that restores this scenario.

    As long as nobody has changed anything it's the one that the visit began with: none at all, as a rule.
    """
    asked = st.session_state.get(LANGUAGE_KEY)
    spoken = {LANGUAGE_KEY: language()} if asked and with_language else {}
    address: dict[str, str] = st.session_state["address"]
    untouched = VERSION_KEY not in address and values() == {**DEFAULTS, **OPENING}
    if problems() or (untouched and with_language):
        return {**address, **spoken}
    return {**to_query(values()), **spoken}


def link() -> str:
    """The whole address that restores this scenario, in the reader's own language."""
    base = (st.context.url or "").partition("?")[0]
    slash = "" if "/" in base.partition("://")[2] else "/"
    return f"{base}{slash}?{urlencode(query(with_language=False), safe='/:@')}"


def end_run() -> None:
    """Writes the scenario into the address, where it isn't there yet; one entry of the browser's history."""
    st.session_state["unheard"] = frozenset()
    wanted = query()
    if wanted != st.session_state["address"]:
        st.session_state["address"] = wanted
        st.query_params.from_dict(wanted)
