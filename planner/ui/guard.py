"""What stands in the place of a part of a page that failed: a calm word, and the whole story in the server's log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from planner.errors import PlannerError
from planner.ui.state import plain

LOG = logging.getLogger(__name__)


@contextmanager
def guarded(place: str) -> Iterator[None]:
    """Draws what it can; where that fails for a reason nobody foresaw, says that the fault is ours.

    Refusals pass: the caller knows what to do about them. So does whatever Streamlit uses to end a run.

    Args:
        place: unique on the page, for the log and the card.
    """
    try:
        yield
    except PlannerError:
        raise
    except Exception:
        LOG.exception("%s failed", place)
        with st.container(key=f"refusal-fault-{place}"):
            st.markdown(plain("error.unexpected"))
