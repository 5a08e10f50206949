"""What `measure` found, as text and as data: the probe, and a measurement beside what is predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.measure.comparison import (
    Compared,
    Comparison,
    compare_record,
    is_rate,
    is_time,
    median_errors,
)
from planner.measure.impossible import NOTE
from planner.measure.nvml import Gpu, Nvidia
from planner.measure.probe import Probe, Target
from planner.measure.record import Figure, Record
from planner.quantity import Estimate
from planner.report_tables import left_table
from planner.ui.calibration_words import worse_words
from planner.ui.coded import coded, reason_values
from planner.ui.device_words import device_words
from planner.ui.locale import say_error, text
from planner.ui.locale.numbers import format_value


def probe_text(found: Probe, language: str) -> str:
    """What there is to measure here: the devices, then what is missing."""
    lines = [text("measure.cli.devices", language)]
    lines += [f"  {_target(one, language)}" for one in found.targets]
    for gpu in found.nvidia.gpus:
        lines += ["", *_gpu(gpu, language)]
    if found.nvidia.gpus:
        lines.append(_driver(found.nvidia, language))
    else:
        lines += ["", text(f"measure.cli.no_nvidia.{found.nvidia.missing}", language)]
    cpu = found.processor
    lines += [
        "",
        text(
            "measure.cli.processor", language, name=cpu.name, cores=cpu.cores, threads=cpu.threads
        ),
    ]
    if cpu.quota_cores is not None:
        lines.append("  " + text("measure.cli.quota", language, cores=cpu.quota_cores))
    lines.append(
        "  "
        + text(
            "measure.cli.memory",
            language,
            total=cpu.memory_total_bytes,
            free=cpu.memory_free_bytes or 0.0,
        )
    )
    if cpu.cache_bytes is not None:
        lines.append("  " + text("measure.cli.cache", language, size=cpu.cache_bytes))
    key = "measure.cli.software" if found.torch and found.transformers else "measure.cli.no_torch"
    lines += [
        "",
        text(key, language, torch=found.torch or "–", transformers=found.transformers or "–"),
    ]
    return "\n".join(lines)


def _target(one: Target, language: str) -> str:
    shown = f"{one.device:<8} {one.name}"
    if one.is_cpu:
        return f"{shown} ({text('measure.cli.is_cpu', language)})"
    if one.accelerator is None:
        return f"{shown} ({text('measure.cli.not_in_catalogue', language)})"
    return f"{shown} ({one.accelerator})"


def _gpu(gpu: Gpu, language: str) -> list[str]:
    state = gpu.state

    def say(key: str, **values: float | int | str | None) -> str | None:
        if any(value is None for value in values.values()):
            return None
        return "  " + text(f"measure.cli.gpu.{key}", language, **values)

    lines = [
        f"GPU {gpu.index}: {gpu.name}",
        say("memory", total=gpu.memory_total_bytes, used=state.memory_used_bytes),
        say(
            "clocks",
            sm=state.sm_clock_mhz,
            sm_max=gpu.sm_clock_max_mhz,
            memory=state.memory_clock_mhz,
        ),
        say("power", now=state.power_w, limit=gpu.power_limit_w),
        say("temperature", degrees=state.temperature_c),
        say("pcie", generation=gpu.pcie_generation, lanes=gpu.pcie_lanes),
        say("nvlink", links=gpu.nvlinks),
    ]
    if gpu.ecc is not None:
        lines.append(say("ecc_on" if gpu.ecc else "ecc_off"))
    if gpu.mig:
        lines.append(say("mig", parts=len(gpu.slices)))
    lines += [f"  {text(f'measure.throttle.{one}', language)}" for one in state.throttle_reasons]
    for one in state.processes:
        used = one.memory_used_bytes
        lines.append(
            say(
                "process",
                pid=str(one.pid),
                name=one.name or "?",
                used=used if used is not None else 0.0,
            )
        )
    return [line for line in lines if line is not None]


def _driver(found: Nvidia, language: str) -> str:
    return text("measure.cli.driver", language, driver=found.driver or "–", cuda=found.cuda or "–")


def about_text(limit_s: float, language: str) -> str:
    """What is said before a measurement begins: how long it takes."""
    return text("measure.cli.about", language, limit=limit_s)


def step_text(step: dict[str, Any], language: str) -> str | None:
    """A step of a measurement for a person; None where there is nothing to say."""
    values, phase = step["values"], step["phase"]
    left = step["left_s"]
    if phase == "visits":
        return text(
            f"measure.cli.step.{values['kind']}",
            language,
            left=0.0 if left is None else float(left),
            **{key: values[key] for key in ("model", "tokens", "batch", "turn", "turns")},
        )
    if phase == "load":
        return text("measure.cli.step.load", language, model=values["model"])
    return None


def _unit(figure: Figure) -> str:
    return {"B/s": "bandwidth", "FLOP/s": "flops", "s": "time"}[figure.unit]


def _figures(record: Record, language: str) -> Iterator[str]:
    """The best of each kind of figure, beside the data sheet's."""
    best: dict[tuple[str, str], Figure] = {}
    for one in record.figures:
        key = (one.name, one.dtype)
        if key not in best or one.value.median > best[key].value.median:
            best[key] = one
    for one in best.values():
        name = coded(f"measure.figure.{one.name}", {}, language) or one.name.replace("_", " ")
        kind = _unit(one)
        shown = format_value(one.value.median, kind, language)
        ends = f"{format_value(one.value.low, kind, language)} – {format_value(one.value.high, kind, language)}"
        line = f"  {f'{name} {one.dtype}'.strip():<36} {shown:<14} {ends:<32}"
        if one.stated is not None:
            line += text(
                "measure.cli.stated",
                language,
                stated=format_value(one.stated, kind, language),
                share=one.value.median / one.stated,
            )
        yield line.rstrip()


def _ratio(error: float | None, language: str) -> str:
    if error is None:
        return "–"
    shown = round(error, 3)
    return ("+" if shown > 0 else "") + format_value(shown, "percent", language)


def _row(one: Compared, impossible: bool, language: str) -> list[str]:
    kind = "time" if is_time(one.quantity) else "rate" if is_rate(one.quantity) else "bytes"
    measured, before = (
        format_value(value, kind, language)
        for value in (one.measured.median, float(one.before.mid))
    )
    # Memory doesn't depend on a calibration, so that it has nothing to show there.
    own, own_error = (None, None) if kind == "bytes" else (one.after, one.after_error_fraction)
    after = "–" if own is None else format_value(float(own.mid), kind, language)
    marks = {"noisy_mark": one.noisy, "impossible_mark": impossible}
    mark = ", ".join(text(f"measure.cli.{key}", language) for key, holds in marks.items() if holds)
    return [
        one.row,
        text(f"figure.{one.quantity}", language),
        measured,
        before,
        _ratio(one.before_error_fraction, language),
        after,
        _ratio(own_error, language),
        mark,
    ]


def _compared(record: Record, found: Comparison, language: str) -> list[str]:
    """Each figure predicted and measured, then the runs that weren't measured with why; an error has no heading."""
    columns = ("row", "figure", "measured", "before", "", "after", "", "")
    header = [text(f"measure.cli.column.{name}", language) if name else "" for name in columns]
    fast = {row.id for row in record.rows if NOTE in row.notes}
    # Of a row that is too fast the times are; its memory is what it is.
    lines = [
        _row(one, one.row in fast and is_time(one.quantity), language) for one in found.figures
    ]
    for row in record.rows:
        if row.outcome != "measured":
            said = [row.id, text(f"measure.outcome.{row.outcome}", language)]
            lines.append([*said, *("" for _ in columns[len(said) :])])
    return [f"  {line}" for line in left_table([header, *lines])]


def reason_text(reason: Mapping[str, Any], language: str) -> str:
    """Why a measurement is noisy, as a sentence; a code of a later version as it stands."""
    code = str(reason.get("code", "?"))
    return coded(f"measure.noise.{code}", reason_values(reason, language), language) or code


def measured_text(record: Record, language: str) -> str:
    """A measurement: rates, each row predicted and measured, what disturbed it, and what the calibration is worth."""
    found = compare_record(record)
    lines = [
        text(
            "measure.cli.title",
            language,
            name=device_words(record.name, language),
            device=device_words(_device(record), language),
        ),
        "",
    ]
    if "cpu" in record.notes:
        lines += [text("measure.cli.on_cpu", language), ""]
    if "memory_kept" in record.notes:
        lines += [text("measure.note.memory_kept", language), ""]
    if record.figures:
        lines += [text("measure.cli.rates", language), *_figures(record, language), ""]
    lines += _compared(record, found, language)
    lines += [f"  {row}: {say_error(error, language)}" for row, error in found.refused]
    if any(NOTE in row.notes for row in record.rows):
        lines += ["", text("measure.cli.impossible", language)]
    if any("extrapolated" in row.notes for row in record.rows):
        lines += ["", text("measure.cli.extrapolated", language)]
    lines.append("")
    for role in ("fit", "check"):
        for quantity, error in median_errors(found.figures, role).items():
            if quantity.endswith("_s"):
                alone = "_alone" if error.after_fraction is None else ""
                lines.append(
                    text(
                        f"measure.cli.error.{role}{alone}",
                        language,
                        quantity=text(f"figure.{quantity}", language),
                        before=error.before_fraction,
                        after=error.after_fraction,
                        rows=error.rows,
                    )
                )
    if own := record.calibration:
        lines += [one for what in ("ttft", "tpot") for one in worse_words(own, what, language)]
        if _is_untested(record, found.figures):
            lines.append(text("measure.cli.untested", language))
    else:
        lines.append(text("measure.cli.no_calibration", language))
    if record.conditions.noisy:
        said = "unsteady" if record.conditions.only_unsteady else "noisy"
        lines += ["", text(f"measure.cli.{said}", language)]
        lines += [f"  - {reason_text(one, language)}" for one in record.conditions.reasons]
    return "\n".join(lines)


def _is_untested(record: Record, figures: Sequence[Compared]) -> bool:
    """Whether a second model was to test the calibration, and none of its rows counts."""
    tested = any(name.endswith("_s") for name in median_errors(figures, "check"))
    return any(row.role == "check" for row in record.rows) and not tested


def _device(record: Record) -> str:
    return record.device.name if record.device else record.accelerator


def measured_json(record: Record, language: str) -> dict[str, Any]:
    """A measurement and its comparison as plain data: s, bytes, and errors as predicted / measured − 1."""
    found = compare_record(record)
    return {
        "measurement": record.model_dump(mode="json"),
        "comparison": [
            {
                "row": one.row,
                "quantity": one.quantity,
                "role": one.role,
                "noisy": one.noisy,
                "counts": one.counts,
                "measured": one.measured.median,
                "predicted": _plain(one.before),
                "error_fraction": one.before_error_fraction,
                "calibrated": None if one.after is None else _plain(one.after),
                "calibrated_error_fraction": one.after_error_fraction,
            }
            for one in found.figures
        ],
        "refused": [
            {"row": row, "code": error.code, "message": say_error(error, language)}
            for row, error in found.refused
        ],
        "median_errors": {
            role: {
                name: {
                    "before_fraction": error.before_fraction,
                    "after_fraction": error.after_fraction,
                    "rows": error.rows,
                }
                for name, error in median_errors(found.figures, role).items()
            }
            for role in ("fit", "check")
        },
    }


def _plain(estimate: Estimate) -> dict[str, float | str]:
    return {
        "low": float(estimate.low),
        "mid": float(estimate.mid),
        "high": float(estimate.high),
        "basis": estimate.basis.label,
    }
