"""The range that an answer gives with what a run measured."""

from __future__ import annotations

from planner.catalog.calibration_constants import BURSTS, INDEX, calibration_figures
from planner.catalog.calibrations import Calibration
from planner.catalog.measurements import READ
from planner.measure.predict import Run, comes_at_once
from planner.quantity import Basis
from planner.speed.carried import FEWEST_TOGETHER, few_together
from planner.speed.prefill import prefill
from planner.speed.step import decode_step
from planner.speed_answer import widened


def for_first_token(run: Run, calibration: Calibration) -> Calibration:
    """The constants with the basis and the range that a first token has among as many requests as ran."""
    together = min(run.scenario.concurrency / run.measurement.replicas, run.max_running)
    if together >= FEWEST_TOGETHER:
        return calibration
    return few_together(calibration, experts=run.mixture)


def band_of(run: Run, quantity: str, calibration: Calibration) -> tuple[float, float]:
    """The relative range of a quantity's time, wider for what goes to host memory, as an answer has it (fractions)."""
    first = quantity in READ
    constants = for_first_token(run, calibration) if first else calibration
    band = constants.ttft_band if first else constants.tpot_band
    if quantity.endswith("_per_s") and comes_at_once(run, calibration) and not calibration.own:
        band = _burst_band(run, calibration)
    deployment, scenario = run.deployment, run.scenario
    if deployment.machine is None:
        return band
    work, hardware = deployment.work, deployment.hardware
    inputs, users = float(scenario.input_tokens), float(scenario.concurrency)
    if first:
        time = prefill(work, hardware, calibration, inputs, 0.0, users)
    else:
        halfway = inputs + scenario.output_tokens / 2.0
        time = decode_step(work, hardware, calibration, users, halfway)
    low, high = widened(deployment, band, time.offloaded_fraction)
    return float(low), float(high)


def _burst_band(run: Run, calibration: Calibration) -> tuple[float, float]:
    """The range of requests that all come at once, from runs of such; no narrower than a card's that none is like."""
    figures = calibration_figures(INDEX)
    name = f"{BURSTS}.{run.measurement.arrivals}"
    low, high = figures[f"{name}.low"].value, figures[f"{name}.high"].value
    if calibration.basis <= Basis.TRANSFERRED:
        return low, high
    return min(low, calibration.tpot_band[0]), max(high, calibration.tpot_band[1])
