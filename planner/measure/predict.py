"""What the planner says of a measured run, quantity by quantity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from planner.catalog.calibrations import Calibration
from planner.catalog.measurements import Measurement
from planner.deployment import Deployment, resolve
from planner.memory_limits import budget_of
from planner.scenario import Scenario
from planner.speed.prefill import prefill
from planner.speed.serving_point import ServingPoint, mixed_step, serving_point
from planner.speed.step import decode_step
from planner.speed_answer import most_running

SPEED = ("tpot_s", "ttft_s", "prefill_s", "output_tokens_per_s", "total_tokens_per_s")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A measured run resolved: what stays the same whatever the constants.

    Attributes:
        max_running: sequences that may run at once, by the engine's limit and the cache pool.
    """

    measurement: Measurement
    scenario: Scenario
    deployment: Deployment
    max_running: float

    @property
    def architecture_id(self) -> str:
        return self.deployment.model.id

    @property
    def mixture(self) -> bool:
        """A mixture of experts."""
        return bool(self.deployment.work.experts)


@lru_cache(maxsize=8192)
def run_of(measurement: Measurement) -> Run:
    """`resolve_run` from a cache, for rows that are shipped."""
    return resolve_run(measurement)


def resolve_run(measurement: Measurement) -> Run:
    """The run of a measurement.

    Raises:
        PlannerError: where its scenario can't be answered.
    """
    scenario = Scenario.parse(dict(measurement.scenario))
    deployment = resolve(scenario)
    budget = budget_of(deployment, scenario)
    many = max(scenario.concurrency // measurement.replicas, 1)
    most = most_running(
        deployment,
        budget,
        input_tokens=float(scenario.input_tokens),
        output_tokens=float(scenario.output_tokens),
        concurrency=float(many),
        max_model_len=scenario.max_model_len,
    )
    if deployment.calibration.kind == "static":
        most = float(many)  # it ran, whatever our budget says
    return Run(measurement, scenario, deployment, float(most))


def predicted(
    run: Run, calibration: Calibration | None = None, quantities: Sequence[str] = SPEED
) -> dict[str, float]:
    """The quantities that were measured, of those named, as the model has them.

    Requests that arrive together are read together and then decoded together, without prompts of others in between;
    in a closed loop they are spread out.

    Args:
        calibration: constants in place of the shipped ones.

    Raises:
        MissingFigure: where the hardware or the constants lack a rate that is needed.
    """
    constants = calibration or run.deployment.calibration
    wanted = [name for name in quantities if name in run.measurement.measured]
    found: dict[str, float] = {}
    if "prefill_s" in wanted:
        found["prefill_s"] = _together_prefill(run, constants)
    rest = [name for name in wanted if name != "prefill_s"]
    if not rest:
        return found
    if run.measurement.arrivals == "together" and constants.kind == "continuous":
        return found | _together(run, constants, rest)
    if rest == ["tpot_s"] and constants.kind != "static" and run.deployment.work.generates:
        found["tpot_s"] = _step(run, constants)
        return found
    point = _loop(run, constants)
    values = {
        "tpot_s": point.tpot_s,
        "ttft_s": point.ttft_s,
        "output_tokens_per_s": point.output_tokens_per_s,
        "total_tokens_per_s": point.total_tokens_per_s,
    }
    for name in rest:
        many = run.measurement.replicas if name.endswith("_per_s") else 1
        found[name] = float(values[name]) * many
    return found


def _loop(run: Run, calibration: Calibration) -> ServingPoint:
    scenario, deployment = run.scenario, run.deployment
    return serving_point(
        deployment.work,
        deployment.hardware,
        calibration,
        input_tokens=float(scenario.input_tokens),
        output_tokens=float(scenario.output_tokens),
        concurrency=float(max(scenario.concurrency // run.measurement.replicas, 1)),
        max_running=run.max_running,
        max_num_batched_tokens=float(deployment.settings.max_num_batched_tokens),
    )


def _step(run: Run, calibration: Calibration) -> float:
    """The time per token alone, which takes a third of the whole point's arithmetic."""
    scenario, deployment = run.scenario, run.deployment
    users = float(max(scenario.concurrency // run.measurement.replicas, 1))
    _, step = mixed_step(
        deployment.work,
        deployment.hardware,
        calibration,
        input_tokens=float(scenario.input_tokens),
        output_tokens=float(scenario.output_tokens),
        batch=min(users, run.max_running),
        max_num_batched_tokens=float(deployment.settings.max_num_batched_tokens),
    )
    return float(step.total_s)


def _together_prefill(run: Run, calibration: Calibration) -> float:
    """All prompts read at once; over stages, one after another."""
    deployment, scenario = run.deployment, run.scenario
    return float(
        prefill(
            deployment.work,
            deployment.hardware,
            calibration,
            float(scenario.input_tokens),
            0.0,
            float(scenario.concurrency),
        ).total_s
    )


def _together(run: Run, calibration: Calibration, wanted: list[str]) -> dict[str, float]:
    """One batch from start to end; what the pool doesn't hold runs in further rounds of the same kind."""
    deployment, scenario = run.deployment, run.scenario
    batch = min(float(scenario.concurrency), run.max_running)
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    work, hardware = deployment.work, deployment.hardware
    step = float(decode_step(work, hardware, calibration, batch, inputs + outputs / 2.0).total_s)
    read = float(prefill(work, hardware, calibration, inputs, 0.0, batch).total_s)
    first = read + calibration.prefill_sequence_s * batch + calibration.prefill_steps * step
    whole = float(first + (outputs - 1.0) * step)
    values = {
        "tpot_s": step,
        "ttft_s": float(first),
        "output_tokens_per_s": batch * outputs / whole,
        "total_tokens_per_s": batch * (inputs + outputs) / whole,
    }
    many = run.measurement.replicas
    return {name: values[name] * (many if name.endswith("_per_s") else 1) for name in wanted}
