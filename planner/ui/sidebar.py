"""The scenario, the same on every page: model, hardware, workload, and the link that brings it back."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from planner.allowed import OFFLOADS
from planner.answers import ModelAnswer
from planner.architecture.read_config import parse_config
from planner.catalog.hosts import host_of, shares_memory
from planner.errors import PlannerError
from planner.evaluation import Evaluation
from planner.quantity import GB
from planner.scenario import MAX_CONCURRENCY, MAX_GPUS, MAX_LAYERS, MAX_TOKENS
from planner.ui import choices, hub_fetch_panel, model_filters, sidebar_measured, state
from planner.ui.choices import Choice
from planner.ui.device_words import device_words
from planner.ui.fields import (
    NOBODY_CHOSE,
    amount,
    default_text,
    integer,
    magnitude,
    select,
    shows,
)
from planner.ui.permalink import carries_config
from planner.ui.presets import WORKLOADS, workload_of
from planner.ui.widgets import draw, h, refusal_text, t, weights_label

CUSTOM = "custom"
HOST_FIELDS = ("gpu_layers", "cpu_expert_layers", "host_memory_gib", "host_bandwidth_gb_per_s")


def sidebar(answer: Evaluation | PlannerError) -> None:
    """The three groups, the scenario in words, and its link."""
    evaluation = answer if isinstance(answer, Evaluation) else None
    with st.expander(
        t("sidebar.model"), expanded=True, icon=":material/deployed_code:", key="group-model"
    ):
        _model(evaluation)
    with st.expander(
        t("sidebar.hardware"), expanded=True, icon=":material/memory:", key="group-hardware"
    ):
        _hardware(evaluation)
    with st.expander(
        t("sidebar.workload"), expanded=True, icon=":material/forum:", key="group-workload"
    ):
        _workload(evaluation)
    _words_and_link(evaluation)


# --- Groups ----------------------------------------------------------------------------------------------------------


def _model(evaluation: Evaluation | None) -> None:
    values = state.values()
    if values["config"]:
        draw(
            f'<p class="hr-words">{h("sidebar.config_used", name=values["model"] or "config.json")}</p>'
        )
        st.button(
            t("sidebar.back_to_catalogue"),
            icon=":material/undo:",
            on_click=_drop_config,
            type="tertiary",
        )
        hub_fetch_panel.told()
    else:
        _catalogue_model()
    if evaluation:
        draw(f'<p class="hr-words">{_model_facts(evaluation.model)}</p>')
    with st.popover(
        t("sidebar.paste"), icon=":material/upload_file:", width="stretch", key="paste"
    ):
        _paste()
        st.divider()
        hub_fetch_panel.panel()
    engine_id, card = choices.engine_meant(values), choices.card_of(values)
    _formats(
        "weights",
        choices.weight_choices(engine_id, card, values["weights"]),
        weights_label,
        engine_id,
    )
    _formats("kv", choices.kv_choices(engine_id, card, values["kv"]), _kv_label, engine_id)
    with st.expander(t("sidebar.advanced"), type="compact", key="advanced-model"):
        labels = {id_: id_.upper() for id_ in choices.DTYPES}
        labels["auto"] = state.plain("dtype.auto")
        select("dtype", labels, help_key="help.dtype")
        longest = evaluation.model.max_context_tokens if evaluation else None
        integer("max_model_len", most=MAX_TOKENS, default=longest, help_key="help.max_model_len")
        st.toggle(t("field.include_mtp"), help=t("help.include_mtp"), **shows("include_mtp"))


def _catalogue_model() -> None:
    names = choices.model_labels()
    current = state.values()["model"]
    select(
        "model",
        model_filters.filtered(names if current in names else {current: current, **names}, current),
        help_key="help.model",
    )
    model_filters.filters()


def _model_facts(model: ModelAnswer) -> str:
    facts = [h("sidebar.parameters", count=model.parameters.mid)]
    if float(model.active_parameters.mid) < 0.9 * float(model.parameters.mid):
        facts.append(h("sidebar.active", count=model.active_parameters.mid))
    if model.max_context_tokens:
        facts.append(h("sidebar.context", tokens=model.max_context_tokens))
    return " · ".join(facts)


def _drop_config() -> None:
    state.reset("config")
    state.reset("model")


def _paste() -> None:
    """A config.json from the clipboard or a file; nothing is fetched from anywhere."""
    st.markdown(t("sidebar.paste_about"))
    st.text_area(
        t("sidebar.paste_text"),
        key="config_text",
        height=150,
        placeholder='{"model_type": "llama", …}',
    )
    st.file_uploader(t("sidebar.paste_file"), type="json", key="config_file", max_upload_size=4)
    st.button(t("sidebar.paste_use"), type="primary", on_click=_take_config)
    if error := st.session_state.get("config_error"):
        st.markdown(f":red[**✕**] {refusal_text(error)}")


def _take_config() -> None:
    file = st.session_state.get("config_file")
    given = file.getvalue() if file is not None else st.session_state.get("config_text", "").strip()
    st.session_state["config_error"] = None
    try:
        config = parse_config(given)
    except PlannerError as error:
        st.session_state["config_error"] = error
        return
    name = str(config.get("_name_or_path") or config.get("model_type") or "config.json")
    state.apply(
        {"config": config, "model": name[:100], "weights": "native"}, state.Sentence("undo.config")
    )


def _formats(
    field: str, options: list[Choice], label: Callable[[str], str], engine_id: str
) -> None:
    """A select of formats; one that can't run says so in the list, and why once it's chosen."""
    runs = {choice.id: choice for choice in options}
    labels = {id_: label(id_) + ("" if choice.runs else " · ✕") for id_, choice in runs.items()}
    select(field, labels, help_key=f"help.{field}")
    chosen = runs[state.values()[field]]
    if not chosen.runs:
        told = {
            "format": label(chosen.id),
            "engine": choices.engine_name(engine_id),
            "card": choices.card_name(state.values()),
        }
        if chosen.nearest:
            draw(
                f'<p class="hr-words">✕ {h("sidebar.no_kernel_nearest", nearest=label(chosen.nearest), **told)}</p>'
            )
        else:
            draw(f'<p class="hr-words">✕ {h("sidebar.no_kernel", **told)}</p>')


def _kv_label(id_: str) -> str:
    return state.plain("kv.auto") if id_ == "auto" else id_.upper()


def _hardware(evaluation: Evaluation | None) -> None:
    values = state.values()
    if values["device"]:
        sidebar_measured.select_device(choices.accelerator_labels())
    else:
        _select_card(values["gpu"].partition("@")[0])
    integer("gpus", most=MAX_GPUS, default=evaluation.deployment.gpus if evaluation else 1)
    default = choices.engine_name(choices.engine_meant({**values, "engine": None}))
    labels = {NOBODY_CHOSE: state.plain("sidebar.engine_default", engine=default)}
    model_type = choices.model_type_of(values)
    for choice in choices.engine_choices(choices.card_of(values), model_type):
        labels[choice.id] = choices.engine_name(choice.id) + ("" if choice.runs else " · ✕")
    select("engine", labels, help_key="help.engine")
    if values["calibration"]:
        sidebar_measured.calibration(evaluation)
    with st.expander(t("sidebar.advanced"), type="compact", key="advanced-hardware"):
        _advanced_hardware(evaluation)


def _select_card(base: str) -> None:
    """The accelerator, and its size of memory where that is a choice of its own."""
    select("gpu", choices.accelerator_labels(), help_key="help.gpu", value=base)
    sizes = choices.memory_sizes(base)
    if not sizes:
        return
    size = state.values()["gpu"].partition("@")[2]
    key = state.showing("gpu_size", int(size) if size else sizes[-1])
    st.selectbox(
        state.plain("field.gpu_size"),
        sizes,
        format_func="{} GB".format,
        key=key,
        on_change=_take_size,
        args=(base, key),
    )


def _take_size(base: str, key: str) -> None:
    size = state.chosen("gpu_size", key)
    if size in choices.memory_sizes(base):
        state.change(gpu=f"{base}@{size}")


def _advanced_hardware(evaluation: Evaluation | None) -> None:
    deployment = evaluation.deployment if evaluation else None
    settings = deployment.settings if deployment else {}
    for field in ("tp", "pp", "ep", "dp"):
        integer(
            field, most=MAX_GPUS, default=getattr(deployment, field, 1), help_key=f"help.{field}"
        )
    st.text_input(
        t("field.engine_version"),
        value=None,
        max_chars=40,
        placeholder=state.plain("sidebar.default", value=deployment.engine_version)
        if deployment
        else None,
        **shows("engine_version"),
    )
    st.number_input(
        t("field.gpu_memory_utilization"),
        min_value=0.01, max_value=1.0, value=None, step=0.01,
        placeholder=default_text(settings.get("gpu_memory_utilization")),
        help=t("help.gpu_memory_utilization"),
        **shows("gpu_memory_utilization"),
    )  # fmt: skip
    for field, most in (
        ("max_num_seqs", MAX_CONCURRENCY),
        ("max_num_batched_tokens", MAX_TOKENS),
        ("block_size", 1024),
    ):
        integer(field, most=most, default=settings.get(field), help_key=f"help.{field}")
    amount("gpu_memory_gib")
    stated = any(state.values()[field] is not None for field in HOST_FIELDS)
    if stated or (deployment and _offloads(deployment.engine)):
        _host(evaluation)


def _offloads(engine_id: str) -> bool:
    """Whether the engine keeps a part of a model in host memory on this card."""
    return engine_id == OFFLOADS and not shares_memory(choices.card_of(state.values()))


def _host(evaluation: Evaluation | None) -> None:
    """What lies in host memory, where the engine keeps anything there."""
    most = evaluation.model.layers if evaluation else MAX_LAYERS - 1
    integer("gpu_layers", least=0, most=most + 1, default=most + 1, help_key="help.gpu_layers")
    integer("cpu_expert_layers", least=0, most=most, default=0, help_key="help.cpu_expert_layers")
    amount("host_memory_gib")
    amount("host_bandwidth_gb_per_s", default=_usual_bandwidth())


def _usual_bandwidth() -> float | None:
    """What the host's memory is taken to deliver where nothing is said (GB/s); None where there is no such figure."""
    try:
        return host_of(choices.card_of(state.values())).bandwidth_bytes_per_s / GB
    except PlannerError:
        return None


def _workload(evaluation: Evaluation | None) -> None:
    current = workload_of(state.values())
    labels = {name: state.plain(f"workload.{name}") for name in (*WORKLOADS, CUSTOM)}
    key = state.showing("workload", current or CUSTOM, state.language())
    st.selectbox(
        state.plain("field.workload"),
        list(labels),
        format_func=labels.__getitem__,
        key=key,
        on_change=_take_workload,
        args=(key,),
    )
    longest = evaluation.model.max_context_tokens if evaluation else None
    magnitude("input_tokens", choices.TOKEN_STOPS, longest, MAX_TOKENS)
    magnitude("output_tokens", choices.TOKEN_STOPS, 32768, MAX_TOKENS)
    magnitude("concurrency", choices.USER_STOPS, None, MAX_CONCURRENCY)


def _take_workload(key: str) -> None:
    chosen = state.chosen("workload", key)
    if chosen in WORKLOADS:
        state.apply(WORKLOADS[chosen], state.Sentence(f"workload.{chosen}"))


# --- In words, and as a link -----------------------------------------------------------------------------------------


def _words_and_link(evaluation: Evaluation | None) -> None:
    if evaluation:
        draw(f'<p class="hr-words">{scenario_words(evaluation)}</p>')
    if not carries_config(state.values()):
        draw(f'<p class="hr-words">{h("sidebar.link_without_config")}</p>')
    with st.container(key="link", gap="xxsmall"):
        draw(f'<p class="hr-words">{h("sidebar.link")}</p>')
        st.code(state.link(), language=None)


def scenario_words(evaluation: Evaluation) -> str:
    """The scenario as one sentence, in HTML."""
    scenario, deployment = evaluation.scenario, evaluation.deployment
    return h(
        "sidebar.words",
        model=evaluation.model.name,
        weights=deployment.weights_label,
        gpus=deployment.gpus,
        card=device_words(deployment.accelerator_name, state.language()),
        engine=choices.engine_name(deployment.engine),
        version=deployment.engine_version,
        users=scenario.concurrency,
        input=scenario.input_tokens,
        output=scenario.output_tokens,
    )
