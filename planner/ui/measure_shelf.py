"""Where a visitor's measurements are: in the computer's store, or, on a server with users, in their own session."""

from __future__ import annotations

from typing import Protocol
from uuid import uuid4

import streamlit as st

from planner.catalog.devices import MAX_NAME
from planner.errors import InvalidInput
from planner.measure.job import Jobs
from planner.measure.record import Record
from planner.measure.store import Kept, Store, key_of, renamed, summary
from planner.ui.measure_switch import sharing_is_on

MAX_IN_SESSION = 30
SHELF_KEY = "measure_shelf"
OWNER_KEY = "measure_owner"


class Shelf(Protocol):
    """What the page asks of either place; refusals are PlannerErrors, as in the store."""

    def kept(self) -> list[Kept]:
        """All measurements, the newest first."""

    def load(self, key: str) -> Record:
        """One of them."""

    def save_new(self, record: Record) -> tuple[str, Record]:
        """Keeps one more under a name that isn't taken; its key, and the record as kept."""

    def rename(self, key: str, name: str) -> str:
        """Another name; the new key."""

    def delete(self, key: str) -> str:
        """Away with it; what `restore` takes."""

    def restore(self, token: str) -> str:
        """Back with it; its key."""


class SessionShelf:
    """Measurements in one visitor's session: nobody else sees them, and they go with it."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._deleted: dict[str, Record] = {}

    def kept(self) -> list[Kept]:
        """All measurements, the newest first."""
        found = [summary(record, key) for key, record in self._records.items()]
        return sorted(found, key=lambda one: one.date, reverse=True)

    def load(self, key: str) -> Record:
        """One of them; raises InvalidInput where it isn't there."""
        if key not in self._records:
            raise InvalidInput("measurement_gone", field="measurement")
        return self._records[key]

    def save_new(self, record: Record) -> tuple[str, Record]:
        """Keeps one more under a name that isn't taken; raises InvalidInput where there are too many."""
        key, number, wanted = key_of(record.name), 2, record.name
        while key in self._records and self._records[key] != record:
            ending = f" ({number})"
            record = renamed(record, wanted[: MAX_NAME - len(ending)] + ending)
            key, number = key_of(record.name), number + 1
        if key not in self._records and len(self._records) >= MAX_IN_SESSION:
            raise InvalidInput("measurements_full", field="measurement", limit=MAX_IN_SESSION)
        self._records[key] = record
        return key, record

    def rename(self, key: str, name: str) -> str:
        """Another name; raises InvalidInput where it is none, or taken."""
        record = renamed(self.load(key), name)
        new = key_of(record.name)
        if new != key and new in self._records:
            raise InvalidInput("measurement_name_taken", field="name", name=record.name)
        del self._records[key]
        self._records[new] = record
        return new

    def delete(self, key: str) -> str:
        """Away with it; what `restore` takes."""
        token = uuid4().hex
        self._deleted = {token: self.load(key)}  # one undo, as on every page
        del self._records[key]
        return token

    def restore(self, token: str) -> str:
        """Back with it; raises InvalidInput where it isn't there any more."""
        if token not in self._deleted:
            raise InvalidInput("measurement_gone", field="measurement")
        return self.save_new(self._deleted.pop(token))[0]


@st.cache_resource
def jobs() -> Jobs:
    """The machine's measurements, the same for every session; what a run that lost its server left is kept first."""
    return Jobs(Store())


def shelf() -> Shelf:
    """This visitor's measurements."""
    if sharing_is_on():
        return jobs().store
    state = st.session_state
    if SHELF_KEY not in state:
        state[SHELF_KEY] = SessionShelf()
    found: SessionShelf = state[SHELF_KEY]
    return found


def owner() -> str:
    """A token that tells this session's runs from others'."""
    token: str = st.session_state.setdefault(OWNER_KEY, uuid4().hex)
    return token
