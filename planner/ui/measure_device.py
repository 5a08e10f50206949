"""Measuring this machine, on the page: what there is, and one button."""

from __future__ import annotations

import html
from collections.abc import Iterator

import streamlit as st

from planner.errors import PlannerError
from planner.measure.nvml import Gpu
from planner.measure.probe import Probe, Target
from planner.measure.probe_process import probed
from planner.measure.system import load_average
from planner.ui import choices, state
from planner.ui.device_words import device_words
from planner.ui.measure_run import is_running, start, start_button
from planner.ui.measure_switch import MEASURE, is_local, measuring_is_on
from planner.ui.state import language, plain
from planner.ui.widgets import draw, h, notes_html, refusal_text, t

BUSY_FRACTION = 0.5  # of the processors, from which on other programs end up in the figures
PROBE_KEPT_S = 30.0  # clocks and who else is there change
STANDARD = ""  # the models that the measurement chooses itself
# What a run takes, for the button; once it runs, it says itself how long it has left (s).
ABOUT_S = {"quick": 90.0, "full": 600.0}
INSTALL = "make measure-setup"


def device_tab() -> None:
    """All of it, or that the operator has left it switched off."""
    if not measuring_is_on():
        st.markdown(t("measure.off", switch=f"{MEASURE}=on"))
        return
    if is_running():
        draw(f'<p class="hr-about">{h("measure.wait")}</p>')
        return
    with st.spinner(plain("measure.probing")):
        try:
            found = _probe()
        except PlannerError as refusal:
            _failed_probe(refusal)
            return
    target = _target(found)
    device_card(found, target)
    draw(f'<p class="hr-about">{h("measure.scenario_unused")}</p>')
    if not (found.torch and found.transformers):
        draw(notes_html([h("measure.no_torch", command=INSTALL)], "warn"))
        return
    if warning := busy_words(found, target):
        draw(notes_html([warning], "warn"))
    start_controls(target)


def busy_words(found: Probe, target: Target) -> str:
    """Why a measurement had better not begin now, as HTML; "" where nothing is known against it."""
    gpu = next((one for one in found.nvidia.gpus if one.uuid and one.uuid == target.uuid), None)
    if gpu is not None and gpu.state.processes:
        return h("measure.gpu_busy_now")
    load, threads = load_average(), max(found.processor.threads, 1)
    if load is None or load / threads <= BUSY_FRACTION:
        return ""
    return h("measure.busy_now", load=load, threads=threads)


@st.cache_data(ttl=PROBE_KEPT_S, max_entries=1, show_spinner=False)
def _probe() -> Probe:
    return probed()


def _failed_probe(refusal: PlannerError) -> None:
    with st.container(key="refusal-probe"):
        st.markdown(refusal_text(refusal))
        st.button(t("measure.probe_again"), key="probe-again", on_click=_probe.clear)


# --- What there is ---------------------------------------------------------------------------------------------------


def _target(found: Probe) -> Target:
    """The device to measure: the only one, or the one chosen."""
    by_device = {target.device: target for target in found.targets}
    if len(by_device) == 1:
        return found.targets[0]
    chosen = st.selectbox(
        plain("measure.device"),
        list(by_device),
        format_func=lambda device: f"{by_device[device].name} · {device}",
        key="measure_device",
        persist_state="session",
    )
    return by_device.get(chosen, found.targets[0])


def device_card(found: Probe, target: Target) -> None:
    """Name and state of a device, and what is missing for a better one."""
    gpu = next((one for one in found.nvidia.gpus if one.uuid and one.uuid == target.uuid), None)
    facts = list(_gpu_facts(gpu, found) if gpu else _facts(found, target))
    if not target.is_cpu and target.accelerator is None:
        facts.append(h("measure.cli.not_in_catalogue"))
    told = "".join(f"<div>{fact}</div>" for fact in facts)
    says = [h("measure.cpu_only")] if target.is_cpu and len(found.targets) == 1 else []
    if not found.nvidia.gpus and found.nvidia.missing:
        says.append(h(f"measure.cli.no_nvidia.{found.nvidia.missing}"))
    about = f'<p class="hr-about">{" ".join(says)}</p>' if says else ""
    draw(
        f'<div class="hr-device"><p class="hr-card-title">{html.escape(device_words(target.name, language()))}</p>'
        f'<div class="hr-facts">{told}</div>{about}</div>'
    )


def _facts(found: Probe, target: Target) -> Iterator[str]:
    cpu = found.processor
    if target.is_cpu:
        yield h("measure.cli.processor", name=cpu.name, cores=cpu.cores, threads=cpu.threads)
        if cpu.quota_cores is not None:
            yield h("measure.cli.quota", cores=cpu.quota_cores)
        if cpu.cache_bytes is not None:
            yield h("measure.cli.cache", size=cpu.cache_bytes)
    if target.memory_total_bytes is not None and target.memory_free_bytes is not None:
        yield h(
            "measure.cli.memory", total=target.memory_total_bytes, free=target.memory_free_bytes
        )
    if found.torch and found.transformers:
        yield h("measure.cli.software", torch=found.torch, transformers=found.transformers)


def _gpu_facts(gpu: Gpu, found: Probe) -> Iterator[str]:
    """What the driver says of a GPU; what it doesn't say is left out."""
    now = gpu.state

    def say(key: str, **values: float | int | str | None) -> Iterator[str]:
        if all(value is not None for value in values.values()):
            yield h(f"measure.cli.gpu.{key}", **values)

    yield from say("memory", total=gpu.memory_total_bytes, used=now.memory_used_bytes)
    yield h("measure.cli.driver", driver=found.nvidia.driver or "–", cuda=found.nvidia.cuda or "–")
    yield from say(
        "clocks", sm=now.sm_clock_mhz, sm_max=gpu.sm_clock_max_mhz, memory=now.memory_clock_mhz
    )
    yield from say("power", now=now.power_w, limit=gpu.power_limit_w)
    yield from say("temperature", degrees=now.temperature_c)
    yield from say("pcie", generation=gpu.pcie_generation, lanes=gpu.pcie_lanes)
    yield from say("nvlink", links=gpu.nvlinks)
    if gpu.ecc is not None:
        yield from say("ecc_on" if gpu.ecc else "ecc_off")
    if gpu.mig:
        yield from say("mig", parts=len(gpu.slices))
    yield from (h(f"measure.throttle.{reason}") for reason in now.throttle_reasons)
    if not is_local():  # whose programs run here is no visitor's business
        if now.processes:
            yield h("measure.others", number=len(now.processes))
        return
    for one in now.processes:
        used = one.memory_used_bytes or 0.0
        yield from say("process", pid=str(one.pid), name=one.name or "?", used=used)


# --- Starting --------------------------------------------------------------------------------------------------------


def start_controls(target: Target) -> None:
    """Which model and how thoroughly, and the button."""
    names = choices.model_names()
    mine = state.values()["model"]
    ids = [STANDARD, *([mine] if mine in names else []), *(id_ for id_ in names if id_ != mine)]
    labels = {STANDARD: plain("measure.models_standard"), **names}
    if mine in names:
        labels[mine] = plain("measure.models_scenario", model=names[mine])
    shown = state.kept("measure_model", STANDARD)
    with st.container(key="measure-controls", horizontal=True, vertical_alignment="bottom"):
        model = st.selectbox(
            plain("measure.models"),
            ids,
            format_func=labels.__getitem__,
            key=state.showing("measure_model", shown, labels.get(shown)),
            help=t("measure.models_help"),
            persist_state="session",
            width=420,
        )
        thorough = st.toggle(
            plain("measure.thorough"),
            key="measure_thorough",
            help=t("measure.thorough_help"),
            persist_state="session",
        )
    quick = [] if thorough else ["--quick"]
    about_s = ABOUT_S["full" if thorough else "quick"]
    start_button(
        t("measure.start_cpu" if target.is_cpu else "measure.start_gpu", about=about_s),
        "measure-start",
        lambda: start(
            ["--device", target.device, *(["--model", model] if model else []), *quick],
            {"device": device_words(target.name, language())},
        ),
    )
    draw(f'<p class="hr-about">{h("measure.start_about")}</p>')
