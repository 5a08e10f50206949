"""What the planner says of a measured run, quantity by quantity."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from planner.catalog.accelerators import Accelerator
from planner.catalog.calibrations import Calibration, calibration_for
from planner.catalog.measurements import POISSON, QUANTITIES, Measurement
from planner.deployment import Deployment, calibration_key, resolve
from planner.errors import MissingFigure
from planner.memory_limits import budget_of
from planner.quantity import Quantity
from planner.scenario import Scenario
from planner.speed.bursts import Burst, bursts_seconds
from planner.speed.open_loop import MOST_STATES, open_loop_point
from planner.speed.prefill import prefill
from planner.speed.serving_point import ServingPoint, mixed_step, serving_point
from planner.speed.step import StepTime, decode_step
from planner.speed_answer import most_running

AT_ONCE = ("burst", "offline")


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
    def calibration_key(self) -> tuple[str, Accelerator, str, str, bool, str]:
        """What its constants are chosen by, as `build_calibration` takes it."""
        key = calibration_key(self.deployment)
        return (*key[:-1], self.measurement.constants or key[-1])

    @property
    def calibration(self) -> Calibration:
        """The constants that apply: the deployment's, or the set that the measurement names."""
        if not self.measurement.constants:
            return self.deployment.calibration
        engine, card, weights, model_type, experts, version = self.calibration_key
        return calibration_for(
            engine, card, weights, model_type=model_type, experts=experts, version=version
        )

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
    if measurement.arrivals == POISSON:
        many = MOST_STATES  # the rate says how many there are; places are as many as there can be
    most = most_running(
        deployment,
        budget,
        input_tokens=float(scenario.input_tokens),
        output_tokens=float(scenario.output_tokens),
        concurrency=float(many),
        max_model_len=scenario.max_model_len,
    )
    settings, groups = deployment.settings, deployment.parallelism.dp
    if deployment.calibration.kind == "static":
        most = float(many)  # it ran, whatever our budget says
    elif most < many and budget.kv_pool.mid <= 0.0 and not budget.pool.empty:
        # A pool that holds nothing is contradicted by the run, and says nothing of how many ran.
        most = min(float(many), float(groups * settings.max_num_seqs))
    return Run(measurement, scenario, deployment, float(most))


def predicted(
    run: Run,
    calibration: Calibration | None = None,
    quantities: Sequence[str] = QUANTITIES,
    burst_s: float | None = None,
) -> dict[str, float]:
    """The quantities that were measured, of those named, as the model has them.

    Requests that arrive together are read together and then decoded together, without prompts of others in between;
    in a closed loop they are spread out. Where they came at a rate there are as many as the rate makes: the first token
    is the median, as a record's figures are, and infinite where more came than can be served.

    Args:
        calibration: constants in place of the shipped ones.
        burst_s: what `burst_times` has of the run with them, where that is known (s).

    Raises:
        MissingFigure: where the hardware or the constants lack a rate that is needed.
    """
    constants = calibration or run.calibration
    wanted = [name for name in quantities if name in run.measurement.measured]
    found: dict[str, float] = {}
    if "prefill_s" in wanted:
        found["prefill_s"] = _together_prefill(run, constants)
    rest = [name for name in wanted if name != "prefill_s"]
    if not rest:
        return found
    arrivals = run.measurement.arrivals
    if arrivals == "together" and constants.kind == "continuous":
        return found | _together(run, constants, rest)
    if arrivals == "together" and constants.kind == "slots" and rest != ["tpot_s"]:
        return found | _in_chunks(run, constants, rest)
    if comes_at_once(run, constants):
        found |= _at_once(run, constants, rest, burst_s)
        rest = [name for name in rest if name not in found]
        if not rest:
            return found
    if arrivals == "backlog":
        return found | _saturated(run, constants, rest)
    if arrivals == POISSON:
        return found | _arriving(run, constants, rest)
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
    users = float(max(scenario.concurrency // run.measurement.replicas, 1))
    return serving_point(
        deployment.work,
        deployment.hardware,
        calibration,
        input_tokens=float(scenario.input_tokens),
        output_tokens=float(scenario.output_tokens),
        concurrency=users,
        max_running=run.max_running,
        max_num_batched_tokens=float(deployment.settings.max_num_batched_tokens),
        waiting_steps=waiting_steps(run.measurement, users, float(scenario.output_tokens)),
        in_waves=run.measurement.arrivals == "waves",
    )


def waiting_steps(measurement: Measurement, users: float, output_tokens: float) -> float:
    """Decode steps that a run's settings let a new prompt wait, on average over prompts.

    An engine that looks for new requests every p steps finds one that came at any of them: (p − 1)/2. One that holds
    the first prompt back for h steps reads with it those that come meanwhile, 1 + h·users/output tokens in all, spread
    evenly, of which the last doesn't wait.

    Args:
        users: requests in flight over the whole deployment, each of output_tokens tokens.
    """
    held = measurement.hold_steps
    together = 1.0 + held * users / output_tokens
    return (measurement.poll_steps - 1.0) / 2.0 + held * (together + 1.0) / (2.0 * together)


def _step(run: Run, calibration: Calibration) -> float:
    """The time per token alone, which takes a third of the whole point's arithmetic."""
    return float(_mixed(run, calibration)[1].total_s)


def _mixed(run: Run, calibration: Calibration) -> tuple[Quantity, StepTime]:
    scenario, deployment = run.scenario, run.deployment
    users = float(max(scenario.concurrency // run.measurement.replicas, 1))
    return mixed_step(
        deployment.work,
        deployment.hardware,
        calibration,
        input_tokens=float(scenario.input_tokens),
        output_tokens=float(scenario.output_tokens),
        batch=min(users, run.max_running),
        max_num_batched_tokens=float(deployment.settings.max_num_batched_tokens),
    )


def _saturated(run: Run, calibration: Calibration, wanted: list[str]) -> dict[str, float]:
    """Every place always taken: what the mixed step delivers, whatever each request waited before it."""
    decoding, step = _mixed(run, calibration)
    inputs, outputs = float(run.scenario.input_tokens), float(run.scenario.output_tokens)
    # What the host spends on each request that comes in, spread over the steps as the prompts are.
    groups = run.deployment.parallelism.dp
    incoming = float(decoding / groups / outputs * calibration.prefill_sequence_s)
    rate = float(decoding) / (float(step.total_s) + incoming) * run.measurement.replicas
    values = {
        "tpot_s": float(step.total_s),
        "output_tokens_per_s": rate,
        "total_tokens_per_s": rate * (inputs + outputs) / outputs,
    }
    return {name: values[name] for name in wanted if name in values}


def comes_at_once(run: Run, calibration: Calibration) -> bool:
    """Whether the run is a burst that the model has: of an engine that batches by step, and a model that generates."""
    arrives = run.measurement.arrivals in AT_ONCE
    return arrives and calibration.kind == "continuous" and run.deployment.work.generates


def burst_times(asked: Sequence[tuple[Run, Calibration]]) -> list[float | None]:
    """How long each of many bursts takes, those of one deployment together (s); None for runs that are none.

    None also where the hardware or the constants lack a rate, which `predicted` then says of each.
    """
    alike: dict[tuple[int, int, int], list[int]] = {}
    for i, (run, constants) in enumerate(asked):
        if run.measurement.arrivals in AT_ONCE and comes_at_once(run, constants):
            deployment = run.deployment
            key = (id(deployment.work), id(deployment.hardware), id(constants))
            alike.setdefault(key, []).append(i)
    found: list[float | None] = [None] * len(asked)
    for group in alike.values():
        run, constants = asked[group[0]]
        bursts = [_burst(asked[i][0]) for i in group]
        with suppress(MissingFigure):
            times = bursts_seconds(run.deployment.work, run.deployment.hardware, constants, bursts)
            for i, seconds in zip(group, times, strict=True):
                found[i] = seconds
    return found


def _burst(run: Run) -> Burst:
    scenario = run.scenario
    return Burst(
        requests=float(max(scenario.concurrency // run.measurement.replicas, 1)),
        places=run.max_running,
        input_tokens=float(scenario.input_tokens),
        output_tokens=float(scenario.output_tokens),
        max_num_batched_tokens=float(run.deployment.settings.max_num_batched_tokens),
        varied=run.measurement.varied,
    )


def _at_once(
    run: Run, calibration: Calibration, wanted: list[str], burst_s: float | None
) -> dict[str, float]:
    """Rates of a burst from its first request to its last answer's end, by how the requests reach the engine."""
    burst, row = _burst(run), run.measurement
    seconds = burst_s
    if seconds is None:
        work, hardware = run.deployment.work, run.deployment.hardware
        (seconds,) = bursts_seconds(work, hardware, calibration, [burst])
    if row.arrivals == "burst":
        seconds *= float(calibration.burst_time)
    inputs, outputs = burst.input_tokens, burst.output_tokens
    values = {
        "output_tokens_per_s": burst.requests * outputs / seconds * row.replicas,
        "total_tokens_per_s": burst.requests * (inputs + outputs) / seconds * row.replicas,
    }
    return {name: float(values[name]) for name in wanted if name in values}


def _arriving(run: Run, calibration: Calibration, wanted: list[str]) -> dict[str, float]:
    """Arrivals at random, shared out evenly between the replicas."""
    measurement, scenario, deployment = run.measurement, run.scenario, run.deployment
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    point = open_loop_point(
        deployment.work,
        deployment.hardware,
        calibration,
        input_tokens=inputs,
        output_tokens=outputs,
        request_rate_per_s=measurement.request_rate_per_s / measurement.replicas,
        max_running=run.max_running,
        max_num_batched_tokens=float(deployment.settings.max_num_batched_tokens),
    )
    served = point.request_rate_per_s * measurement.replicas
    values = {
        "tpot_s": point.tpot_s,
        "ttft_s": point.ttft_median_s,
        "output_tokens_per_s": served * outputs,
        "total_tokens_per_s": served * (inputs + outputs),
    }
    return {name: values[name] for name in wanted}


def _in_chunks(run: Run, calibration: Calibration, wanted: list[str]) -> dict[str, float]:
    """One sequence in llama.cpp: its prompt in passes of the batch that the run states, each at least a step."""
    deployment, scenario = run.deployment, run.scenario
    work, hardware = deployment.work, deployment.hardware
    inputs, outputs = float(scenario.input_tokens), float(scenario.output_tokens)
    chunk = min(float(deployment.settings.max_num_batched_tokens), inputs)
    early = decode_step(work, hardware, calibration, 1.0, inputs / 2.0).total_s
    once = prefill(work, hardware, calibration, chunk, 0.0, 1.0).total_s
    passes, stages = inputs / chunk, float(work.parallelism.pp)
    # Stages work on successive chunks at once; the first and the last fill and drain.
    filled = (passes + stages - 1.0) / (stages * calibration.pipeline) if stages > 1 else passes
    read = min(float(filled), passes) * max(float(once), float(early))
    step = float(decode_step(work, hardware, calibration, 1.0, inputs + outputs / 2.0).total_s)
    whole = read + outputs * step
    values = {
        "tpot_s": step,
        "ttft_s": read + step,
        "output_tokens_per_s": outputs / whole,
        "total_tokens_per_s": (inputs + outputs) / whole,
    }
    return {name: values[name] for name in wanted}


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
