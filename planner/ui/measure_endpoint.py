"""A running server measured under load, on the page: where it is, what load, and what runs there."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import streamlit as st

from planner.measure.record import Record, RecordQuantity, Row
from planner.scenario import DATA_FIELDS
from planner.ui import choices, state
from planner.ui.measure_run import is_running, start, start_button
from planner.ui.measure_switch import MEASURE, endpoint_key_is_set, measuring_is_on
from planner.ui.state import plain
from planner.ui.widgets import draw, h, shown, t, table_html

KEY = "HEADROOM_ENDPOINT_KEY"
APIS = ("completions", "chat")
LONGEST_URL = 300
MOST_TOKENS = 200_000
LEAST_S, MOST_S = 10, 1800
LOADS = "1,4,16"
# Fields of the scenario that the command line takes for what runs behind the address.
TOLD = ("gpu", "gpus", "tp", "pp", "dp", "engine", "engine_version", "weights", "kv", "dtype")
TIMES: tuple[RecordQuantity, ...] = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
ENDS = ("p50", "p90", "p95", "p99")


def endpoint_tab() -> None:
    """Address, load, bounds, and whether the scenario is what runs there."""
    if not measuring_is_on():
        st.markdown(t("measure.off", switch=f"{MEASURE}=on"))
        return
    if is_running():
        draw(f'<p class="hr-about">{h("measure.wait")}</p>')
        return
    draw(f'<p class="hr-about">{h("measure.endpoint_about")}</p>')
    with st.grid(2, min_column_width=260, gap="small"):
        url = st.text_input(
            plain("measure.endpoint_url"),
            key="endpoint_url",
            max_chars=LONGEST_URL,
            placeholder="http://127.0.0.1:8000/v1",
            persist_state="session",
        ).strip()
        model = st.text_input(
            plain("measure.endpoint_model"),
            key="endpoint_model",
            max_chars=LONGEST_URL,
            help=t("measure.endpoint_model_help"),
            persist_state="session",
        ).strip()
    load = _load()
    same = st.toggle(
        plain("measure.endpoint_same"), value=True, key="endpoint_same",
        help=t("measure.endpoint_same_help"), persist_state="session",
    )  # fmt: skip
    told = _told() if same else {}
    draw(f'<p class="hr-about">{_same_words(told)}</p>' if same else "")
    start_button(
        t("measure.endpoint_start"),
        "endpoint-start",
        lambda: start(
            arguments(url, model, load, told), {"device": urlsplit(url).netloc.rpartition("@")[2]}
        ),
        ready=_is_address(url),
    )
    key = "measure.endpoint_key_set" if endpoint_key_is_set(KEY) else "measure.endpoint_key_unset"
    draw(f'<p class="hr-about">{h(key, variable=KEY)}</p>')


def _load() -> dict[str, str]:
    """Values of the flags that say what is sent."""
    with st.grid(5, min_column_width=150, gap="small"):
        api = st.selectbox(
            plain("measure.endpoint_api"), APIS, key="endpoint_api", persist_state="session"
        )
        inputs = st.number_input(
            plain("field.input_tokens"), 1, MOST_TOKENS, 512, 1, key="endpoint_input", persist_state="session"
        )  # fmt: skip
        outputs = st.number_input(
            plain("field.output_tokens"), 1, MOST_TOKENS, 128, 1, key="endpoint_output", persist_state="session"
        )  # fmt: skip
        loops = st.text_input(
            plain("measure.endpoint_loads"), LOADS, key="endpoint_loads", max_chars=60, persist_state="session"
        )  # fmt: skip
        longest = st.number_input(
            plain("measure.endpoint_seconds"), LEAST_S, MOST_S, 120, 10, key="endpoint_seconds", persist_state="session"
        )  # fmt: skip
    return {
        "api": str(api or APIS[0]),
        "input-tokens": str(inputs),
        "output-tokens": str(outputs),
        "concurrency": loops.strip() or LOADS,
        "max-seconds": str(longest),
    }


def arguments(url: str, model: str, load: Mapping[str, str], told: Mapping[str, str]) -> list[str]:
    """The verb and its flags; each value is tied to its flag, so that none is taken for a flag itself."""
    values = {"model": model, **load, **told}
    return ["endpoint", url, *(f"--{name}={value}" for name, value in values.items() if value)]


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _told() -> dict[str, str]:
    """Flags that say that the scenario runs there; none where the command line can't be told, as of a pasted model."""
    now = state.values()
    if any(now[name] for name in DATA_FIELDS if name != "calibration"):
        return {}
    said = {name: now[name] for name in TOLD if now[name] not in (None, "", "auto")}
    said["engine"] = choices.engine_meant(now)
    flags = {name.replace("_", "-"): str(value) for name, value in said.items()}
    return {"catalogue-model": str(now["model"]), **flags}


def _same_words(told: Mapping[str, Any]) -> str:
    if not told:
        return h("measure.endpoint_same_not")
    names = choices.model_names()
    return h(
        "measure.endpoint_same_words",
        model=names.get(told["catalogue-model"], told["catalogue-model"]),
        card=choices.card_name(state.values()),
        engine=choices.engine_name(told["engine"]),
    )


# --- What came of it -------------------------------------------------------------------------------------------------


def loads_table(record: Record) -> str:
    """Percentiles of each load's times, and what became of its requests; nothing for other measurements."""
    rows = [cells for row in record.rows for cells in _cells(row)]
    if not rows:
        return ""
    head = (h("measure.column.load"), h("measure.column.figure"), *ENDS)
    failed = [words for row in record.rows if (words := _failures(row))]
    told = "".join(f'<p class="hr-about">{words}</p>' for words in failed)
    return table_html(h("measure.loads"), head, rows, wrap=(0,)) + told


def _cells(row: Row) -> Sequence[Sequence[str]]:
    words, found = _load_words(row), []
    for name in TIMES:
        if name in row.percentiles:
            ends = row.percentiles[name]
            times = [html.escape(shown(getattr(ends, end), "time")) for end in ENDS]
            found.append((words, h(f"measure.quantity.{name}"), *times))
            words = ""
    return found


def _load_words(row: Row) -> str:
    load = row.id.rpartition("-")[2]
    try:
        value = float(load[1:])
    except ValueError:
        return html.escape(row.id)
    return h(
        "endpoint.closed" if load.startswith("c") else "endpoint.poisson",
        load=value,
        done=row.counts.get("done", 0),
        all=sum(row.counts.values()),
        input=int(row.scenario.get("input_tokens", 0)),
        output=int(row.scenario.get("output_tokens", 0)),
    )


def _failures(row: Row) -> str:
    kinds = [f"{_kind(kind)}: {number}" for kind, number in row.counts.items() if kind != "done"]
    return h("endpoint.failures", kinds="; ".join(kinds)) if kinds else ""


def _kind(kind: str) -> str:
    if kind.startswith("http_"):
        return f"HTTP {kind.removeprefix('http_')}"
    try:
        return plain(f"word.{kind}")
    except KeyError:  # of a later version
        return kind
