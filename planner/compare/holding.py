"""Which GPUs, in which number and with which weight format, hold a model at a context and a number of users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from planner.architecture.spec import Architecture
from planner.catalog.accelerators import Accelerator, accelerator, accelerator_ids
from planner.catalog.formats import weight_format
from planner.compare.held import Held, smallest_holding
from planner.compare.placements import has_own_card_fields, model_of, own_gpus
from planner.errors import InvalidInput, Note, PlannerError, Unsupported
from planner.memory.fit import Verdict
from planner.memory.weights import stored_weights
from planner.published import notes_json
from planner.quantity import GIB, Estimate
from planner.scenario import MAX_GPUS, Parallelism, Scenario

# One of each size that people load: as published, 8 bits, 4 bits; and what llama.cpp takes.
DEFAULT_FORMATS = (
    "native",
    "fp8",
    "int8",
    "awq-int4",
    "nf4",
    "nvfp4",
    "gguf:Q8_0",
    "gguf:Q4_K_M",
)
DEGREES = ("gpus", "tp", "pp", "dp")


@dataclass(frozen=True, slots=True, eq=False)
class HoldingOption:
    """An accelerator with a weight format.

    Attributes:
        weights: format id as asked for; weights_label: what it turned out to be stored as.
        gpus: smallest number that holds the workload, else the largest tried that the model can be divided over.
        engine: id, "" where nothing could be resolved.
        verdict: None where nothing could be resolved; then `error` says why.
        reason: what decided the verdict.
        weights_bytes: of the whole model; needed_bytes, usable_bytes: per GPU; 0 where nothing could be resolved.
        max_concurrency: sequences of this length held at once, None where nothing could be resolved.
    """

    accelerator: Accelerator
    weights: str
    weights_label: str
    gpus: int
    engine: str
    verdict: Verdict | None
    reason: Note | None
    error: PlannerError | None
    weights_bytes: float
    needed_bytes: float
    usable_bytes: float
    max_concurrency: Estimate | None

    @property
    def holds(self) -> bool:
        """The whole workload has room at once."""
        return self.verdict in (Verdict.FITS, Verdict.TIGHT)


def holding_options(
    values: dict[str, Any],
    accelerators: Sequence[str] | None = None,
    formats: Sequence[str] | None = None,
    max_gpus: int = 8,
    *,
    include_failing: bool = False,
) -> list[HoldingOption]:
    """Every accelerator with every format, each with the smallest number of GPUs that holds the workload.

    Numbers tried: 1, 2, 4 and so on, and `max_gpus`; only the one that is asked for where `values` name a number of
    GPUs or degrees of parallelism.

    Args:
        values: fields of a scenario without `gpu`; untrusted.
        accelerators: ids or aliases; None: the whole catalogue.
        formats: ids or aliases of weight formats; None: the one in `values`, else those of DEFAULT_FORMATS that the
            checkpoint can be turned into and that it isn't stored in anyway.
        include_failing: also those that don't hold it, with the reason.

    Returns:
        By accelerator in the catalogue's or the given order, then by format in the given order.

    Raises:
        InvalidInput, UnknownItem, InvalidConfig, UnsupportedArchitecture: for values that aren't a scenario, and for
            names that aren't known.
    """
    if not 1 <= max_gpus <= MAX_GPUS:
        code = f"scenario_{'less' if max_gpus > MAX_GPUS else 'greater'}_than_equal"
        raise InvalidInput(code, field="max_gpus", given=max_gpus, ge=1, le=MAX_GPUS)
    if accelerators is None and values.get("gpu_memory_gib") is not None:
        raise InvalidInput("scenario_missing", field="gpu")  # whose memory that is
    ids = accelerator_ids() if accelerators is None else tuple(accelerators)
    scenario = Scenario.parse({**values, "gpu": ids[0] if ids else ""})
    stated = any(values.get(name) for name in DEGREES)
    counts = (own_gpus(scenario),) if stated else _counts(max_gpus)
    rows: list[list[HoldingOption]] = [[] for _ in ids]
    for name in _formats(scenario, formats, stated="weights" in values):
        in_format = scenario.model_copy(update={"weights": name})
        for row, id_, held in zip(rows, ids, _held(in_format, ids, counts), strict=True):
            row.append(_option(accelerator(id_), name, held))
    return [option for row in rows for option in row if option.holds or include_failing]


def _counts(max_gpus: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, and the largest number that is allowed."""
    return (*(2**power for power in range((max_gpus - 1).bit_length())), max_gpus)


def _formats(scenario: Scenario, formats: Sequence[str] | None, *, stated: bool) -> tuple[str, ...]:
    """The formats to try; of the usual ones those that the checkpoint can be turned into."""
    if formats is not None:
        return tuple(dict.fromkeys(weight_format(name).id for name in formats))
    if stated:
        return (weight_format(scenario.weights).id,)
    architecture = model_of(scenario).architecture
    sizes = {name: _total_bytes(architecture, name) for name in DEFAULT_FORMATS}
    return tuple(
        name
        for name, size in sizes.items()
        if name == "native" or (size is not None and size != sizes["native"])
    )


def _total_bytes(architecture: Architecture, name: str) -> float | None:
    """Weights of the model in a format; None where the checkpoint can't be turned into it."""
    try:
        return stored_weights(architecture, name, Parallelism(), "bf16").total_bytes
    except Unsupported:
        return None


def _held(scenario: Scenario, ids: tuple[str, ...], counts: tuple[int, ...]) -> list[Held]:
    if not has_own_card_fields(scenario):
        return smallest_holding(scenario, ids, counts)
    # A memory or an offload that is given holds for each accelerator that is named.
    return [
        held
        for id_ in ids
        for held in smallest_holding(scenario.model_copy(update={"gpu": id_}), (id_,), counts)
    ]


def _option(card: Accelerator, weights: str, held: Held) -> HoldingOption:
    deployment, fit = held.deployment, held.fit
    return HoldingOption(
        accelerator=card,
        weights=weights,
        weights_label=deployment.stored.label if deployment else "",
        gpus=held.gpus,
        engine=deployment.engine.id if deployment else "",
        verdict=fit.verdict if fit else None,
        reason=fit.reason if fit else None,
        error=held.error,
        weights_bytes=deployment.stored.total_bytes if deployment else 0.0,
        needed_bytes=fit.needed_bytes if fit else 0.0,
        usable_bytes=deployment.usable_bytes if deployment else 0.0,
        max_concurrency=held.memory.held_at(held.index) if held.memory else None,
    )


def holding_json(
    options: Iterable[HoldingOption], say: Callable[[Note], str]
) -> list[dict[str, Any]]:
    """The options as plain data, sizes in GiB per GPU; what couldn't be resolved has an error and no figures.

    Args:
        say: turns a note into a sentence in the user's language.
    """
    return [_json(option, say) for option in options]


def _json(option: HoldingOption, say: Callable[[Note], str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "gpu": option.accelerator.id,
        "gpu_name": option.accelerator.name,
        "gpus": option.gpus,
        "weights": option.weights,
        "weights_stored_as": option.weights_label or None,
        "engine": option.engine or None,
        "fits": option.holds,
        "verdict": option.verdict.value if option.verdict else None,
        "needed_gib_per_gpu": None,
        "usable_gib_per_gpu": None,
        "max_concurrency": None,
        "reason": None,
        "error": None,
    }
    if option.max_concurrency is not None:
        entry["needed_gib_per_gpu"] = round(option.needed_bytes / GIB, 4)
        entry["usable_gib_per_gpu"] = round(option.usable_bytes / GIB, 4)
        entry["max_concurrency"] = int(option.max_concurrency.mid)
    if option.reason is not None:
        entry["reason"] = notes_json((option.reason,), say)[0]
    if option.error is not None:
        error = option.error
        entry["error"] = {"code": error.code, "field": error.field, "values": error.values}
    return entry
