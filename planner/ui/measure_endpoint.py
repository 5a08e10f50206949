"""A running server measured under load, on the page: where it is, what load, and what runs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import streamlit as st

from planner.errors import PlannerError
from planner.measure.endpoint.options import (
    KEY_VARIABLE,
    MAX_LENGTH,
    MAX_REQUESTS,
    MAX_SECONDS,
    levels_of,
    parse_options,
)
from planner.scenario import DATA_FIELDS
from planner.ui import choices, state
from planner.ui.measure_run import is_running, start, start_button
from planner.ui.measure_switch import (
    ENDPOINT,
    KEY_ADDRESS,
    MEASURE,
    endpoint_key_address,
    endpoint_key_goes_to,
    endpoint_key_is_set,
    endpoints_are_on,
    is_local,
    measuring_is_on,
)
from planner.ui.measure_trace import trace_file
from planner.ui.number_lists import decimals, whole_numbers
from planner.ui.state import plain
from planner.ui.widgets import draw, h, refusal_text, shown, t

APIS = ("completions", "chat")
LONGEST_URL = 300
LEAST_S, MOST_S = 10, int(MAX_SECONDS)
LOADS = "1,4,16"
# Fields of the scenario that the command line takes for what runs behind the address.
TOLD = ("gpu", "gpus", "tp", "pp", "dp", "engine", "engine_version", "weights", "kv", "dtype")


def endpoint_tab() -> None:
    """Address, load, bounds, and whether the scenario is what runs there."""
    if not measuring_is_on():
        st.markdown(t("measure.off", switch=f"{MEASURE}=on"))
        return
    if not endpoints_are_on():
        st.markdown(t("measure.endpoint_off", switch=f"{ENDPOINT}=on"))
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
            help=t("measure.endpoint_url_help"),
            persist_state="session",
        ).strip()
        model = st.text_input(
            plain("measure.endpoint_model"),
            key="endpoint_model",
            max_chars=LONGEST_URL,
            placeholder=plain("measure.example", example="Qwen/Qwen3-8B"),
            help=t("measure.endpoint_model_help"),
            persist_state="session",
        ).strip()
    file = trace_file()
    trace = None if file is None else file.lengths
    load = _load(lengths=not trace)
    if load and file is not None and trace:
        load |= {"trace-name": file.name}
    same = st.toggle(
        plain("measure.endpoint_same"), value=False, key="endpoint_same",
        help=t("measure.endpoint_same_help"), persist_state="session",
    )  # fmt: skip
    told = _told() if same else {}
    draw(f'<p class="hr-about">{_same_words(told)}</p>' if same else "")
    start_button(
        t("measure.endpoint_start"),
        "endpoint-start",
        lambda: start(
            [*arguments(url, model, load, told), *_limits(url)],
            {"device": urlsplit(url).netloc}
            | ({"file": file.name, "rows": str(len(file.lengths))} if file and file.name else {}),
            _written(trace or []),
        ),
        ready=bool(url and load) and trace is not None and _possible(url, model, load, trace),
    )
    draw(f'<p class="hr-about">{_key_words(url)}</p>')


def _limits(url: str) -> list[str]:
    """Flags for what isn't allowed: a visitor's request goes neither to this machine nor to its neighbours."""
    no_key = [] if endpoint_key_goes_to(url) else ["--no-key"]
    return [*no_key, *([] if is_local() else ["--public-only"])]


def _key_words(url: str) -> str:
    """Whether a key is sent along, and why not: whoever names the address would else choose where the key goes."""
    if not is_local():
        return h("measure.endpoint_key_shared", variable=KEY_VARIABLE)
    address = endpoint_key_address()
    names = {"variable": KEY_VARIABLE, "address_variable": KEY_ADDRESS}
    if not (endpoint_key_is_set() and address):
        return h("measure.endpoint_key_unset", **names)
    if endpoint_key_goes_to(url):
        return h("measure.endpoint_key_set", variable=KEY_VARIABLE, address=address)
    return h("measure.endpoint_key_elsewhere", address=address, **names)


def _written(trace: Sequence[Mapping[str, int]]) -> bytes:
    """A trace as the command line reads it, of nothing but the numbers that were understood."""
    lines = (f"{one['input_tokens']},{one['output_tokens']}\n" for one in trace)
    return "".join(lines).encode()


def _load(*, lengths: bool) -> dict[str, str]:
    """Values of the flags that say what is sent; without `lengths` those stand in the trace on standard input.

    Empty where a list of loads may mean two things, which is said.
    """
    with st.grid(4, min_column_width=150, gap="small"):
        api = st.selectbox(
            plain("measure.endpoint_api"),
            APIS,
            key="endpoint_api",
            help=t("measure.endpoint_api_help"),
            persist_state="session",
        )
        inputs = st.number_input(
            plain("field.input_tokens"), 1, MAX_LENGTH, 512, 1, key="endpoint_input", persist_state="session",
            disabled=not lengths,
        )  # fmt: skip
        outputs = st.number_input(
            plain("field.output_tokens"), 1, MAX_LENGTH, 128, 1, key="endpoint_output", persist_state="session",
            disabled=not lengths,
        )  # fmt: skip
        loops = st.text_input(
            plain("measure.endpoint_loads"), LOADS, key="endpoint_loads", max_chars=60,
            help=t("measure.endpoint_loads_help"), persist_state="session",
        )  # fmt: skip
        rates = st.text_input(
            plain("measure.endpoint_rates"), key="endpoint_rates", max_chars=60,
            placeholder=plain("measure.example", example=f"{shown(0.5, 'number')}; 2"),
            help=t("measure.endpoint_rates_help"), persist_state="session",
        )  # fmt: skip
        requests = st.number_input(
            plain("measure.endpoint_requests"), 1, MAX_REQUESTS, None, 1, key="endpoint_requests",
            help=t("measure.endpoint_requests_help"), persist_state="session",
        )  # fmt: skip
        longest = st.number_input(
            plain("measure.endpoint_seconds"), LEAST_S, MOST_S, 120, 10, key="endpoint_seconds",
            help=t("measure.endpoint_seconds_help"), persist_state="session",
        )  # fmt: skip
    try:
        flying = whole_numbers(loops, "concurrency")
        starting = decimals(rates, "rate")
    except PlannerError as refusal:
        with st.container(key="refusal-loads"):
            st.markdown(refusal_text(refusal))
        return {}
    return {
        "api": str(api or APIS[0]),
        "input-tokens": str(inputs) if lengths else "",
        "output-tokens": str(outputs) if lengths else "",
        "trace": "" if lengths else "-",
        "concurrency": flying or ("" if starting else LOADS),
        "rate": starting,
        "requests": "" if requests is None else str(requests),
        "max-seconds": str(longest),
    }


def arguments(url: str, model: str, load: Mapping[str, str], told: Mapping[str, str]) -> list[str]:
    """The verb and its flags; each value is tied to its flag, so that none is taken for a flag itself."""
    values = {"model": model, **load, **told}
    return ["endpoint", url, *(f"--{name}={value}" for name, value in values.items() if value)]


def _possible(
    url: str, model: str, load: Mapping[str, str], trace: Sequence[Mapping[str, int]]
) -> bool:
    """Whether that can be asked for; says what is wrong where it can't."""
    lengths = list(trace) or [
        {name: int(load[name.replace("_", "-")]) for name in ("input_tokens", "output_tokens")}
    ]
    requests = int(load["requests"]) if load["requests"] else None
    try:
        levels = levels_of(load["concurrency"], load["rate"], requests)
        parse_options({"url": url, "model": model, "lengths": lengths, "levels": levels})
    except PlannerError as refusal:
        with st.container(key="refusal-endpoint"):
            st.markdown(refusal_text(refusal))
        return False
    return True


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
