"""A run on the page, whatever it measures: started once, followed while it lasts, and how it ended."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from planner.errors import PlannerError
from planner.measure.job import JobView, Progress
from planner.measure.lock import holder
from planner.ui.measure_shelf import jobs, owner
from planner.ui.measure_switch import is_local
from planner.ui.state import language
from planner.ui.widgets import draw, h, notes_html, refusal_text, shown, t

EVERY_S = 1.0
STEPS = {"done", "cancelled", "failed"}  # phases that only say that it's over
REFUSED_KEY = "measure_refused"


def is_running() -> bool:
    """Whether this server measures something."""
    view = jobs().view()
    return view is not None and not view.ended


def run_state() -> None:
    """Why a run couldn't be started; the run that is on, or how the last one ended; nothing before the first."""
    if refused := st.session_state.pop(REFUSED_KEY, None):
        with st.container(key="refusal-start"):
            st.markdown(refusal_text(_in_local_time(refused)))
    view = jobs().view()
    if view is None:
        return
    if not view.ended:
        running()
    elif is_mine(view):
        ended(view)


def is_mine(view: JobView) -> bool:
    """Whether a visitor may see what is measured, cancel it and put it away: who started it, and who sits here."""
    return is_local() or view.owner == owner()


# --- Starting --------------------------------------------------------------------------------------------------------


def start_button(label: str, key: str, press: Callable[[], None], *, ready: bool = True) -> None:
    """A button that starts a run, off while another program measures.

    Args:
        ready: what is needed is filled in.
    """
    busy = holder()
    st.button(
        label,
        key=key,
        type="primary",
        icon=":material/play_arrow:",
        disabled=busy is not None or not ready,
        on_click=press,
    )
    if busy is not None:
        error = PlannerError("measuring_already", pid=busy.pid, since=busy.since)
        st.markdown(refusal_text(_in_local_time(error)))


def _in_local_time(error: PlannerError) -> PlannerError:
    """The refusal with the visitor's time of day in place of an ISO date in UTC."""
    try:
        since = datetime.fromisoformat(str(error.values.get("since")))
        zone = ZoneInfo(str(st.context.timezone))
    except (ValueError, OSError, ZoneInfoNotFoundError):  # "?", or no zone that is known here
        return error
    values = {key: value for key, value in error.values.items() if key != "field"}
    local = since.astimezone(zone).strftime("%H:%M")
    return PlannerError(error.code, field=error.field, **{**values, "since": local})


def rounded_left(seconds: float) -> float:
    """Time left, as exactly as it can be known: steps of 5 s, from two minutes on of half a minute (s)."""
    step = 5.0 if seconds < 120.0 else 30.0
    return max(round(seconds / step), 1) * step


def start(arguments: Sequence[str], about: Mapping[str, str], given: bytes = b"") -> None:
    """Starts `measure` with these arguments and standard input; a refusal is kept for `run_state` to say."""
    try:
        jobs().start([*arguments, "--lang", language()], owner=owner(), about=about, given=given)
    except PlannerError as refusal:
        st.session_state[REFUSED_KEY] = refusal


# --- While it runs ---------------------------------------------------------------------------------------------------


@st.fragment(run_every=EVERY_S)
def running() -> None:
    """How far the run is, told again every second, and the way to stop it; to others only that there is one."""
    view = jobs().view()
    if view is None or view.ended:
        st.rerun()
    if not is_mine(view):
        since = time.strftime("%H:%M", time.gmtime(view.started_at))
        draw(
            f'<p class="hr-card-title" role="status">{h("measure.running_other", since=since)}</p>'
        )
        return
    draw(progress_html(view))
    latest = view.latest
    passed_s = latest.elapsed_s if latest and latest.elapsed_s else time.time() - view.started_at
    left_s = latest.left_s if latest else None
    share = passed_s / (passed_s + left_s) if left_s is not None and passed_s + left_s > 0 else 0.0
    st.progress(
        min(share, 1.0),
        text=t("measure.left", left=rounded_left(left_s))
        if left_s is not None
        else t("measure.left_unknown"),
    )
    st.button(
        t("measure.cancelling" if view.state == "cancelling" else "measure.cancel"),
        key="measure-cancel",
        icon=":material/stop:",
        disabled=view.state == "cancelling",
        on_click=_cancel,
    )
    draw(f'<p class="hr-about">{h("measure.running_about")}</p>')


def _cancel() -> None:
    """Cancels the run that is on now, which may be another than the one that the button was drawn for."""
    view = jobs().view()
    if view is not None and is_mine(view):
        jobs().cancel()


def _put_away() -> None:
    view = jobs().view()
    if view is not None and is_mine(view):
        jobs().put_away()


def progress_html(view: JobView) -> str:
    """Each phase that has begun, with its steps; those that are over are ticked."""
    phases = [one for one in view.phases if one.phase not in STEPS]
    rows = "".join(_phase(one, over=one is not phases[-1]) for one in phases)
    title = h("measure.running", device=view.about.get("device", ""))
    told = "".join(f'<p class="hr-about">{one}</p>' for one in _lengths_words(view))
    return f'<p class="hr-card-title" role="status">{title}</p>{told}<div class="hr-phases">{rows}</div>'


def _lengths_words(view: JobView) -> list[str]:
    """The file from which the requests' lengths were taken, as HTML; nothing without one."""
    if "file" not in view.about:
        return []
    return [h("measure.lengths_from", file=view.about["file"], rows=int(view.about["rows"]))]


def _phase(one: Progress, *, over: bool) -> str:
    steps = f"{shown(one.done, 'count')} / {shown(one.total, 'count')}" if one.total > 1 else ""
    words = h(f"measure.phase.{one.phase}")
    if over:
        return f'<div class="hr-over-with"><i aria-hidden="true">✓</i><span>{words}</span></div>'
    model = html.escape(str(one.values.get("model", "")).rpartition("/")[2])
    return (
        f'<div class="hr-now"><i aria-hidden="true">●</i><span>{words}{" · " if model else ""}{model}</span>'
        f"<span>{steps}</span></div>"
    )


# --- How it ended ----------------------------------------------------------------------------------------------------


def ended(view: JobView) -> None:
    """What became of a visitor's own run, until they put it away."""
    kept = h("measure.kept_nothing")
    if view.record is not None:
        rows = sum(row.outcome == "measured" for row in view.record.rows)
        kept = h("measure.kept", rows=rows)
    says = [h(f"measure.ended_{view.state}"), kept, *_lengths_words(view)]
    if view.state == "failed" and view.exit_code is not None and view.exit_code < 0:
        says.append(h("measure.ended_signal", signal=str(-view.exit_code)))
    told = view.said.strip().splitlines() if view.state == "failed" else []
    if told:  # what a program says last is why it ended
        says.append(f"<br>{html.escape(told[-1])}")
    with st.container(key="measure-ended", gap="xsmall"):
        draw(notes_html([" ".join(says)], "info" if view.state == "done" else "warn"))
        if view.kept_refusal is not None:
            st.markdown(refusal_text(view.kept_refusal))
        if len(told) > 1:
            with st.expander(t("measure.said"), key="measure-said", type="compact"):
                st.code(view.said, language=None)
        st.button(
            t("measure.put_away"), key="measure-put-away", type="tertiary",
            icon=":material/close:", on_click=_put_away,
        )  # fmt: skip
