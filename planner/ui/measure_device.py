"""Measuring this machine, on the page: what there is, one button, how far it is, and how it ended."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator

import streamlit as st

from planner.errors import PlannerError
from planner.measure.job import JobView, Progress
from planner.measure.lock import holder
from planner.measure.nvml import Gpu
from planner.measure.probe import Probe, Target
from planner.measure.probe_process import probed
from planner.ui import choices, state
from planner.ui.measure_shelf import jobs, owner
from planner.ui.measure_switch import MEASURE, is_local, measuring_is_on
from planner.ui.state import language, plain
from planner.ui.widgets import draw, h, notes_html, refusal_text, shown, t

PROBE_KEPT_S = 30.0  # clocks and who else is there change
EVERY_S = 1.0
STANDARD = ""  # the models that the measurement chooses itself
# What a run takes, for the button; once it runs, it says itself how long it has left (s).
ABOUT_S = {("cpu", True): 90.0, ("cpu", False): 300.0, ("gpu", True): 90.0, ("gpu", False): 420.0}
INSTALL = "make measure-setup"
STEPS = {"done", "cancelled", "failed"}  # phases that only say that it's over


def device_tab() -> None:
    """All of it, or that the operator has left it switched off."""
    if not measuring_is_on():
        st.markdown(t("measure.off", switch=f"{MEASURE}=on"))
        return
    view = jobs().view()
    if view is not None and not view.ended:
        running()
        return
    if view is not None:
        ended(view)
    with st.spinner(plain("measure.probing")):
        try:
            found = _probe()
        except PlannerError as refusal:
            _failed_probe(refusal)
            return
    target = _target(found)
    device_card(found, target)
    if not (found.torch and found.transformers):
        draw(notes_html([h("measure.no_torch", command=INSTALL)], "warn"))
        return
    start_controls(target)


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
        f'<div class="hr-device"><p class="hr-card-title">{html.escape(target.name)}</p>'
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
    with st.container(key="measure-controls", horizontal=True, vertical_alignment="bottom"):
        model = st.selectbox(
            plain("measure.models"),
            ids,
            format_func=labels.__getitem__,
            key="measure_model",
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
    about_s = ABOUT_S["cpu" if target.is_cpu else "gpu", not thorough]
    busy = holder()
    st.button(
        t("measure.start_cpu" if target.is_cpu else "measure.start_gpu", about=about_s),
        key="measure-start",
        type="primary",
        icon=":material/play_arrow:",
        disabled=busy is not None,
        on_click=_start,
        args=(target, model or STANDARD, thorough),
    )
    draw(f'<p class="hr-about">{h("measure.start_about")}</p>')
    if busy is not None:
        error = PlannerError("measuring_already", pid=busy.pid, since=busy.since)
        st.markdown(refusal_text(error))
    if refused := st.session_state.get("measure_refused"):
        st.markdown(f":red[**✕**] {refusal_text(refused)}")


def _start(target: Target, model: str, thorough: bool) -> None:
    arguments = ["--lang", language(), "--device", target.device]
    arguments += ["--model", model] if model else []
    arguments += [] if thorough else ["--quick"]
    st.session_state["measure_refused"] = None
    try:
        jobs().start(arguments, owner=owner(), about={"device": target.name, "model": model})
    except PlannerError as refusal:
        st.session_state["measure_refused"] = refusal


# --- While it runs ---------------------------------------------------------------------------------------------------


@st.fragment(run_every=EVERY_S)
def running() -> None:
    """How far the run is, told again every second, and the way to stop it."""
    view = jobs().view()
    if view is None or view.ended:
        st.rerun()
    draw(progress_html(view))
    latest = view.latest
    passed_s = latest.elapsed_s if latest and latest.elapsed_s else time.time() - view.started_at
    left_s = latest.left_s if latest else None
    share = passed_s / (passed_s + left_s) if left_s is not None and passed_s + left_s > 0 else 0.0
    st.progress(
        min(share, 1.0),
        text=t("measure.left", left=left_s) if left_s is not None else t("measure.left_unknown"),
    )
    st.button(
        t("measure.cancelling" if view.state == "cancelling" else "measure.cancel"),
        key="measure-cancel",
        icon=":material/stop:",
        disabled=view.state == "cancelling",
        on_click=jobs().cancel,
    )
    draw(f'<p class="hr-about">{h("measure.running_about")}</p>')


def progress_html(view: JobView) -> str:
    """Each phase that has begun, with its steps; those that are over are ticked."""
    phases = [one for one in view.phases if one.phase not in STEPS]
    rows = "".join(_phase(one, over=one is not phases[-1]) for one in phases)
    title = h("measure.running", device=view.about.get("device", ""))
    return f'<p class="hr-card-title" role="status">{title}</p><div class="hr-phases">{rows}</div>'


def _phase(one: Progress, *, over: bool) -> str:
    steps = f"{shown(one.done, 'count')} / {shown(one.total, 'count')}" if one.total else ""
    return (
        f'<div class="{"hr-over-with" if over else "hr-now"}"><i aria-hidden="true">{"✓" if over else "●"}</i>'
        f"<span>{h(f'measure.phase.{one.phase}')}</span><span>{steps}</span></div>"
    )


# --- How it ended ----------------------------------------------------------------------------------------------------


def ended(view: JobView) -> None:
    """What became of the last run, until somebody puts it away."""
    mine = is_local() or view.owner == owner()
    kept = h("measure.kept_nothing")
    if view.record is not None:
        rows = sum(row.outcome == "measured" for row in view.record.rows)
        kept = h("measure.kept", rows=rows)
    says = [h(f"measure.ended_{view.state}"), kept]
    if view.state == "failed" and view.exit_code is not None and view.exit_code < 0:
        says.append(h("measure.ended_signal", signal=str(-view.exit_code)))
    with st.container(key="measure-ended", gap="xsmall"):
        draw(notes_html([" ".join(says)], "info" if view.state == "done" else "warn"))
        if mine and view.kept_refusal is not None:
            st.markdown(refusal_text(view.kept_refusal))
        if mine and view.said and view.state == "failed":
            with st.expander(t("measure.said"), key="measure-said", type="compact"):
                st.code(view.said, language=None)
        st.button(
            t("measure.put_away"), key="measure-put-away", type="tertiary",
            icon=":material/close:", on_click=jobs().put_away,
        )  # fmt: skip
