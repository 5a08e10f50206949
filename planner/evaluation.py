"""The front door: a scenario in, a traceable and bounded answer out."""

from __future__ import annotations

from dataclasses import dataclass

from planner.answers import DeploymentAnswer, MemoryAnswer, ModelAnswer, SpeedAnswer
from planner.architecture.totals import active_parameters, parameters
from planner.deployment import Deployment, resolve
from planner.errors import Note, PlannerError
from planner.memory.fit import Verdict
from planner.memory_answer import memory_answer, verdict_of
from planner.memory_limits import budget_of
from planner.quantity import Estimate, worst
from planner.scenario import Scenario
from planner.speed.carried import FEWEST_TOGETHER
from planner.speed_answer import rates_basis, speed_answer

__all__ = ["Deployment", "Evaluation", "evaluate", "resolve"]

IN_FP16 = frozenset({"fp16_of_bf16_model", "fp16_overflows"})
# Warnings that make a verdict worth little by itself: said beside it.
BESIDE_VERDICT = frozenset({"fp16_overflows", "fp16_overflows_no_fp32"})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer to a scenario.

    Attributes:
        headline: the verdict in one sentence, as a note.
        warnings: what may hurt; assumptions: what was filled in.
    """

    scenario: Scenario
    model: ModelAnswer
    deployment: DeploymentAnswer
    memory: MemoryAnswer
    speed: SpeedAnswer
    headline: Note
    warnings: tuple[Note, ...]
    assumptions: tuple[Note, ...]

    @property
    def caveat(self) -> Note | None:
        """What belongs beside the verdict where something fits but may be no use; else None."""
        if self.memory.verdict == Verdict.DOES_NOT_FIT:
            return None
        for note in self.warnings:
            if note.code in BESIDE_VERDICT:
                return Note(f"caveat_{note.code}", note.values)
        return None


def evaluate(scenario: Scenario) -> Evaluation:
    """Memory, speed, bounds and what they rest on, for one scenario.

    Raises:
        PlannerError: where the scenario can't be answered; the subclass and its code say why.
    """
    deployment = resolve(scenario)
    budget = budget_of(deployment, scenario)
    verdict = verdict_of(deployment, scenario, budget)
    memory = memory_answer(deployment, scenario, budget, verdict)
    speed = speed_answer(deployment, scenario, budget)
    warnings = [_with_fp32(note, scenario) for note in deployment.warnings]
    warnings.extend(verdict.notes)
    if not verdict.starts:
        warnings.append(Note("speed_if_it_fitted"))
    if speed.tpot_s is None:
        warnings.append(Note("no_decode"))
    elif speed.tpot_bound_s is None:
        warnings.append(Note("no_memory_bound", {"accelerator": deployment.accelerator.name}))
    return Evaluation(
        scenario=scenario,
        model=_model(deployment),
        deployment=_deployment(deployment),
        memory=memory,
        speed=speed,
        headline=_headline(deployment, scenario, memory, float(budget.allowed_bytes)),
        warnings=tuple(warnings),
        assumptions=(*deployment.assumptions, *_lonely(deployment, speed)),
    )


def _lonely(deployment: Deployment, speed: SpeedAnswer) -> tuple[Note, ...]:
    """Why a first token is worth less than the constants: hardly any was measured among so few requests."""
    known = worst(deployment.calibration.ttft_basis, rates_basis(deployment))
    if speed.ttft_s.basis <= known:
        return ()
    return (Note("times_few_transferred", {"measured": FEWEST_TOGETHER}),)


def _with_fp32(note: Note, scenario: Scenario) -> Note:
    """A warning about FP16 with what FP32, the safe choice, would cost; without where that can't run either."""
    if note.code not in IN_FP16:
        return note
    try:
        safe = scenario.model_copy(update={"dtype": "fp32"})
        deployment = resolve(safe)
        budget = budget_of(deployment, safe)
        speed = speed_answer(deployment, safe, budget)
        verdict = verdict_of(deployment, safe, budget)
    except PlannerError:
        return Note(note.code + "_no_fp32", note.values)
    beside = {
        "fp32_ttft_s": speed.ttft_unloaded_s.mid,
        "fp32_tokens_per_s": speed.decode_tokens_per_s.mid if speed.decode_tokens_per_s else 0.0,
        "fp32_needed_bytes": verdict.needed_bytes,
    }
    return Note(note.code, note.values | beside)


def _model(deployment: Deployment) -> ModelAnswer:
    architecture, model = deployment.architecture, deployment.model
    return ModelAnswer(
        id=model.id,
        name=model.name,
        model_type=architecture.model_type,
        modality=architecture.modality,
        parameters=Estimate.exact(float(parameters(architecture)), "count"),
        active_parameters=Estimate.exact(float(active_parameters(architecture)), "count"),
        layers=architecture.layers,
        max_context_tokens=architecture.max_context_tokens,
        stand_in_for=model.stand_in_for,
    )


def _deployment(deployment: Deployment) -> DeploymentAnswer:
    parallelism = deployment.parallelism
    return DeploymentAnswer(
        accelerator=deployment.accelerator.id,
        accelerator_name=deployment.accelerator.name,
        gpus=parallelism.gpus,
        tp=parallelism.tp,
        pp=parallelism.pp,
        ep=parallelism.ep,
        dp=parallelism.dp,
        engine=deployment.engine.id,
        engine_version=deployment.settings.version,
        weights_format=deployment.stored.format_id,
        weights_label=deployment.stored.label,
        kv_format=deployment.kv.id,
        dtype=deployment.dtype,
        settings=deployment.settings.shown,
        defaults=deployment.settings.defaults,
    )


def _headline(
    deployment: Deployment, scenario: Scenario, memory: MemoryAnswer, allowed_bytes: float
) -> Note:
    """The verdict first, then what the model takes of the card and how many people it has room for."""
    values: dict[str, object] = {
        "model": deployment.model.name,
        "format": deployment.stored.label,
        "accelerator": deployment.accelerator.name,
        "gpus": deployment.parallelism.gpus,
        "weights_bytes": memory.weights_bytes_per_gpu.mid,
        "needed_bytes": memory.needed_bytes_per_gpu.mid,
        "usable_bytes": memory.usable_bytes_per_gpu.mid,
        "allowed_bytes": allowed_bytes,
        "tokens": scenario.input_tokens,
        "people": min(
            float(memory.max_concurrency.mid),
            float(deployment.served_sequences),
        ),
        "concurrency": scenario.concurrency,
    }
    if memory.reason.code == "fit_max_model_len_too_long":
        return Note(
            "headline_too_long",
            values
            | {"tokens": scenario.max_model_len or 0, "maximum": memory.reason.values["room"]},
        )
    if memory.reason.code.startswith("fit_context"):
        return Note("headline_too_long", values | memory.reason.values)
    if memory.reason.code == "fit_host_memory_exceeded":
        return Note("headline_host_memory", values | memory.reason.values)
    several = "_several" if deployment.parallelism.gpus > 1 else ""
    held = float(memory.max_concurrency.mid)
    fewer = deployment.served_sequences < held and memory.verdict != Verdict.DOES_NOT_FIT
    served = "_served" if fewer else ""
    return Note(f"headline_{memory.verdict}{several}{served}", values | {"held": held})
