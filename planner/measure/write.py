"""Calibration files as text: what a refit found, laid into the files that it builds on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from planner.catalog.calibration_constants import BURSTS, calibration_data
from planner.catalog.files import profile_lines, write_profile
from planner.catalog.measurements import DECODED, READ
from planner.errors import BadProfile
from planner.measure.bands import bands, named_by
from planner.measure.fit.offline import OLD, TUNED
from planner.measure.fit.plans import ENGINES, OFFLINE, POOL, Stage
from planner.measure.fit.problem import Observation
from planner.measure.refit import Outcome, Refit
from planner.quantity import FloatArray

FOLDER = "calibrations"
KNOWN_FROM = 0.1  # a value that the rows narrowed by less than this is what was expected beforehand
HEADERS = {
    "vllm": "vLLM on data-centre NVIDIA GPUs: its own constants around those of all engines.",
    "sglang": "SGLang on data-centre NVIDIA GPUs: its own constants around those of all engines.",
    "tensorrt-llm": "TensorRT-LLM on data-centre NVIDIA GPUs: its own constants around those of all engines.",
    BURSTS: "Requests that all reach a server at once: what its steps take against the loops that constants are from.",
}


def written(refit: Refit) -> dict[str, str]:
    """Path and text of every file that a refit changes; raises BadProfile where one that it builds on doesn't load."""
    found = {}
    for outcome in refit.outcomes:
        for file in _files(outcome):
            found[f"{FOLDER}/{file}.yaml"] = _file_text(file, outcome)
        found[f"{FOLDER}/held-out-{outcome.family}.csv"] = held_out_text(outcome)
    found[f"{FOLDER}/index.yaml"] = _index_text(refit)
    return found


def write(refit: Refit) -> tuple[str, ...]:
    """Writes them; returns their paths."""
    texts = written(refit)
    for path, text in texts.items():
        write_profile(path, text)
    return tuple(texts)


def held_out_text(outcome: Outcome) -> str:
    """Measured / predicted of every row in sample and by folds that left its model, card or engine out, as CSV."""
    kinds = tuple(outcome.held)
    lines = [",".join(("id", "quantity", "in_sample", *kinds))]
    for i, one in enumerate(outcome.seen):
        values = (outcome.fitted[i], *(outcome.held[kind][i] for kind in kinds))
        shown = ("" if np.isnan(value) else f"{np.exp(-value):.4f}" for value in values)
        lines.append(",".join((one.run.measurement.id, one.quantity, *shown)))
    return "\n".join(lines) + "\n"


def _files(outcome: Outcome) -> list[str]:
    return sorted({stage.file for stage in outcome.stages})


def _existing(file: str) -> dict[str, Any]:
    try:
        return dict(calibration_data(file))
    except BadProfile:
        if file in ENGINES:
            return {
                "id": file,
                "kind": "continuous",
                "base": POOL,
                "figures": {},
            }
        raise


def _header(file: str) -> list[str]:
    try:
        lines = profile_lines(f"{FOLDER}/{file}.yaml")
    except BadProfile:
        return [f"# {HEADERS[file]}"]
    return [line for line in lines[:12] if line.startswith("#")]


def _file_text(file: str, outcome: Outcome) -> str:
    data = _existing(file)
    stages = [stage for stage in outcome.stages if stage.file == file]
    mine = _served(file, outcome)
    figures = {**data.get("figures", {}), **_fitted_figures(stages, data["kind"])}
    convention = data.get("convention") or calibration_data(POOL)["convention"]
    lines = [*_header(file), f"id: {data['id']}", f"kind: {data['kind']}"]
    if "base" in data:
        lines.append(f"base: {data['base']}")
    lines += ["convention:", *(f"  {key}: {_scalar(v)}" for key, v in convention.items())]
    types = sorted(
        {
            one.run.deployment.architecture.model_type
            for one, of in zip(outcome.seen, outcome.files, strict=True)
            if (of == file if outcome.family in OFFLINE else _in(file, one))
        }
    )
    lines += ["fitted_on:", f"  measurements: [measurements/{outcome.family}.csv]"]
    lines += [f"  model_types: [{', '.join(types)}]"]
    if "accelerators" in data.get("fitted_on", {}) or file in ENGINES:
        lines += ["  accelerators:", *_covered(file, outcome)]
    for block, quantities in (
        ("fit", DECODED),
        ("first_token_fit", READ),
    ):
        lines += _fit_lines(block, outcome, mine, quantities)
    lines += ["source: fit", "figures:"]
    lines += [f"  {key}: {_figure(value, data)}" for key, value in figures.items()]
    lines += ["sources:", *_sources(figures, data, outcome)]
    return "\n".join(lines) + "\n"


def _in(file: str, one: Observation) -> bool:
    return file not in ENGINES or one.run.deployment.engine.id == file


def _served(file: str, outcome: Outcome) -> FloatArray:
    """Which observations a file's constants answer; a pool's are all."""
    if file == POOL:
        return np.ones(len(outcome.seen), dtype=bool)
    return np.array([of == file for of in outcome.files])


def _fitted_figures(stages: Sequence[Stage], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stage in stages:
        s = stage.solution
        for i, parameter in enumerate(stage.parameters):
            seen = s.gain[i] >= KNOWN_FROM and not s.at_bound[i]
            entry: dict[str, Any] = {"value": float(f"{s.values[i]:.4g}"), "source": "fit"}
            carried = kind != "continuous" or stage.file in (*OLD, TUNED)
            entry["basis"] = "transferred" if carried else "calibrated"
            if s.at_bound[i]:
                entry["note"] = "at the end of its range: not identified"
            elif not seen:
                entry["note"] = "not identified by the rows: as expected beforehand"
            for key in parameter.keys:
                found[key] = entry
    return found


def _covered(file: str, outcome: Outcome) -> list[str]:
    rates = calibration_data(POOL)["fitted_on"]["accelerators"]
    counts: dict[str, int] = {}
    for one in outcome.seen:
        if _in(file, one):
            card = one.run.deployment.accelerator.id
            counts[card] = counts.get(card, 0) + 1
    return [
        f"    {card}: {_flow({**entry, 'rows': counts.get(card, 0)})}"
        for card, entry in rates.items()
    ]


def _fit_lines(
    block: str, outcome: Outcome, mine: FloatArray, quantities: Sequence[str]
) -> list[str]:
    chosen = np.array([one.quantity in quantities for one in outcome.seen]) & mine.astype(bool)
    if not chosen.any():
        return []
    error = np.expm1(outcome.fitted[chosen])
    lines = [
        f"{block}:",
        f"  rows: {int(chosen.sum())}",
        f"  median_error_fraction: {np.median(np.abs(error)):.3f}",
        f"  p10_error_fraction: {np.quantile(error, 0.1):.3f}",
        f"  p90_error_fraction: {np.quantile(error, 0.9):.3f}",
    ]
    for kind, held in outcome.held.items():
        values = held[chosen]
        values = values[~np.isnan(values)]
        if len(values):
            median = np.median(np.abs(np.expm1(values)))
            lines.append(f"  held_out_{kind}_median_error_fraction: {median:.3f}")
    return lines


def _figure(value: Any, data: Mapping[str, Any]) -> str:
    default = data.get("source", "fit")
    if not isinstance(value, Mapping):
        return _flow({"value": value, "source": default})
    return _flow(value if "source" in value else {**value, "source": default})


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(entry)}" for key, entry in value.items()) + "}"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and any(mark in value for mark in ':,{}[]"#%'):
        return '"' + value.replace('"', '\\"') + '"'
    if isinstance(value, float):
        text = f"{value:.6g}"
        return (
            text if "e" not in text or "." in text.partition("e")[0] else text.replace("e", ".0e")
        )
    return str(value)


def _sources(figures: Mapping[str, Any], data: Mapping[str, Any], outcome: Outcome) -> list[str]:
    used = {
        (entry.get("source") if isinstance(entry, Mapping) else None) or data.get("source")
        for entry in figures.values()
    }
    lines = [
        "  - id: fit",
        f'    title: "python -m planner calibrate, on profiles/measurements/{outcome.family}.csv'
        + (
            ' (rows from AIConfigurator and InferenceX: Apache-2.0)"'
            if outcome.family == "serving"
            else '"'
        ),
        '    date: "2026-11"',
        "    kind: derived",
    ]
    for source in data.get("sources", ()):
        if source["id"] == "fit" or source["id"] not in used:
            continue
        lines.append(f"  - id: {source['id']}")
        lines += [
            f"    {key}: {_quoted(source[key])}"
            for key in ("title", "url", "date", "kind")
            if source.get(key)
        ]
    return lines


def _quoted(value: Any) -> str:
    text = str(value)
    return text if text.isalpha() else '"' + text.replace('"', '\\"') + '"'


def _index_text(refit: Refit) -> str:
    data = calibration_data("index")
    replaced = []
    for outcome in refit.outcomes:
        replaced += named_by(outcome)
    figures = {
        key: value
        for key, value in data["figures"].items()
        if not key.startswith(tuple(f"{name}." for name in replaced))
    }
    for outcome in refit.outcomes:
        for name, (low, high) in bands(outcome).items():
            figures[f"{name}.low"] = {"value": round(low, 3), "source": "held-out"}
            figures[f"{name}.high"] = {"value": round(high, 3), "source": "held-out"}
    lines = _header("index")
    lines += ["id: index", "rules:"]
    lines += [f"  - {_flow(rule)}" for rule in _rules(data["rules"])]
    lines += [
        "# Kinds of weights that differ in what their kernels reach, by format id.",
        "formats:",
    ]
    lines += [f"  {key}: {value}" for key, value in data["formats"].items()]
    lines += [
        "# Kinds that take the figures of another where none of their own are stated.",
        "stand_ins:",
    ]
    lines += [f"  {key}: {value}" for key, value in data["stand_ins"].items()]
    lines += [f"source: {data['source']}", "figures:"]
    lines.append(
        "  # Range of measured against predicted, p10 to p90, by kind of engine, basis, kind of model and figure."
    )
    lines += [f"  {key}: {_figure(value, data)}" for key, value in figures.items()]
    lines += ["sources:"]
    for source in [_HELD_OUT, *(s for s in data["sources"] if s["id"] != "held-out")]:
        lines.append(f"  - id: {source['id']}")
        lines += [
            f"    {key}: {_quoted(source[key])}"
            for key in ("title", "url", "date", "kind")
            if source.get(key)
        ]
    return "\n".join(lines) + "\n"


_HELD_OUT = {
    "id": "held-out",
    "title": "python -m planner calibrate: residuals of runs that a fit hadn't seen (held-out-*.csv beside this file)",
    "date": "2026-11",
    "kind": "derived",
}


def _rules(existing: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    own = [
        {"version": TUNED, "use": TUNED},
        {"engine": "vllm", "before": "0.7", "use": "vllm-0.6"},
        {"engine": "vllm", "use": "vllm"},
        {"engine": "sglang", "before": "0.5", "use": "sglang-0.4"},
        {"engine": "sglang", "use": "sglang"},
        {"engine": "tensorrt-llm", "before": "0.13", "use": "tensorrt-llm-0.12"},
        {"engine": "tensorrt-llm", "use": "tensorrt-llm"},
    ]
    rest = [
        dict(rule)
        for rule in existing
        if rule.get("engine") not in ENGINES and rule.get("version") != TUNED
    ]
    return own + rest
