"""A model on many accelerators: resolved once, and grouped so that those that differ in rates only are one call.

Nothing here depends on the workload, so that a changed prompt length or number of users finds it all in a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from planner.catalog.accelerators import Accelerator, accelerator
from planner.catalog.calibrations import stack_calibrations
from planner.catalog.devices import device_from
from planner.catalog.engines import EngineSettings
from planner.deployment import Deployment, Model, resolve, resolve_model
from planner.errors import InvalidConfig, PlannerError, UnknownItem, UnsupportedArchitecture
from planner.scenario import GivenConfig, Scenario, canonical_text
from planner.speed.hardware import stack_hardware

# Of a deployment; the rest of a scenario is its workload.
DEPLOYMENT_FIELDS = (
    "model", "tp", "pp", "ep", "dp", "engine", "engine_version", "weights", "kv", "dtype", "include_mtp",
    "gpu_layers", "cpu_expert_layers", "host_memory_gib", "host_bandwidth_gb_per_s",
    "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "block_size",
)  # fmt: skip
# Said of the scenario's own card and of the host around it: they hold nowhere else.
OFFLOAD_FIELDS = ("gpu_layers", "cpu_expert_layers", "host_memory_gib", "host_bandwidth_gb_per_s")
OWN_CARD_FIELDS = ("gpu_memory_gib", *OFFLOAD_FIELDS)
# Settings that may differ inside a group: the first as an array, the others say nothing about the arithmetic.
OF_EACH_CARD = frozenset({"gpu_memory_utilization", "notes", "defaults"})


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Deployments that one call computes together.

    Attributes:
        positions: of each in the list of accelerators that was asked for.
        deployments: as resolved one by one.
        together: the same as one deployment: the first one's, with arrays for memory, rates and constants where there
            are several.
    """

    positions: tuple[int, ...]
    deployments: tuple[Deployment, ...]
    together: Deployment


@dataclass(frozen=True, slots=True, eq=False)
class Placements:
    """A scenario's model on every accelerator asked for, with one number of GPUs.

    Attributes:
        groups: those that resolve.
        refused: by position, why the others don't.
    """

    groups: tuple[Group, ...]
    refused: dict[int, PlannerError]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A scenario, equal to others that ask for the same deployment."""

    key: tuple[object, ...]
    scenario: Scenario = field(compare=False)


def model_of(scenario: Scenario) -> Model:
    """The scenario's model; raises as `resolve_model` does."""
    return resolve_model(scenario.model, GivenConfig.of(scenario.config))


def own_gpus(scenario: Scenario) -> int:
    """GPUs that the scenario itself asks for."""
    return scenario.gpus or (scenario.tp or 1) * (scenario.pp or 1) * (scenario.dp or 1)


def placed(scenario: Scenario, accelerator_id: str, gpus: int) -> Scenario:
    """The scenario on another accelerator, with another number of GPUs.

    Its parallel degrees hold where they come to that number; elsewhere the engine's own way of dividing does. A usable
    memory, layers in host memory and a host that were given for the scenario's own card say nothing about others, and
    are dropped there: another card is asked to hold the whole model.
    """
    described = scenario.device is not None and accelerator_id == own_accelerator(scenario).id
    changes: dict[str, Any] = {"gpu": accelerator_id, "gpus": gpus}
    if gpus != own_gpus(scenario):
        changes |= dict.fromkeys(("tp", "pp", "ep", "dp"))
    if has_own_card_fields(scenario) and not _own_card(scenario, accelerator_id):
        changes |= dict.fromkeys(OWN_CARD_FIELDS)
    if not described:
        changes["device"] = None
    return scenario.model_copy(update=changes)


def has_own_card_fields(scenario: Scenario) -> bool:
    """Whether something was said that holds for the scenario's own card only."""
    return any(getattr(scenario, name) is not None for name in OWN_CARD_FIELDS)


def own_accelerator(scenario: Scenario) -> Accelerator:
    """The scenario's accelerator: the device that it describes, else the catalogue's.

    Raises:
        UnknownItem, InvalidInput: there is none.
    """
    text = canonical_text(scenario.device)
    return accelerator(scenario.gpu) if text is None else device_from(text)


def accelerator_named(scenario: Scenario, accelerator_id: str) -> Accelerator:
    """The accelerator of an id: the catalogue's, or the one that the scenario describes.

    Raises:
        UnknownItem: there is none.
    """
    own = own_accelerator(scenario)
    return own if accelerator_id == own.id else accelerator(accelerator_id)


def _own_card(scenario: Scenario, accelerator_id: str) -> bool:
    return own_accelerator(scenario) is accelerator_named(scenario, accelerator_id)


def placements(scenario: Scenario, accelerator_ids: tuple[str, ...], gpus: int) -> Placements:
    """The scenario's model and settings on each accelerator, with `gpus` of it.

    Args:
        accelerator_ids: ids or aliases.

    Raises:
        UnknownItem, InvalidConfig, UnsupportedArchitecture: for what no accelerator can change.
    """
    key = (
        GivenConfig.of(scenario.config),
        canonical_text(scenario.calibration),
        canonical_text(scenario.device),
        own_gpus(scenario),
        scenario.gpu_memory_gib,
        scenario.gpu if has_own_card_fields(scenario) else None,
        *(getattr(scenario, name) for name in DEPLOYMENT_FIELDS),
    )
    return _placements(_Asked(key, scenario), accelerator_ids, gpus)


@lru_cache(maxsize=64)
def _placements(asked: _Asked, accelerator_ids: tuple[str, ...], gpus: int) -> Placements:
    grouped: dict[tuple[object, ...], list[tuple[int, Deployment]]] = {}
    refused: dict[int, PlannerError] = {}
    for position, id_ in enumerate(accelerator_ids):
        try:
            deployment = resolve(placed(asked.scenario, id_, gpus))
        except (UnknownItem, InvalidConfig, UnsupportedArchitecture):
            raise
        except PlannerError as error:
            # Without its traceback, which would keep every frame alive.
            refused[position] = error.with_traceback(None)
            continue
        grouped.setdefault(_alike(deployment), []).append((position, deployment))
    groups = []
    for members in grouped.values():
        deployments = tuple(deployment for _, deployment in members)
        positions = tuple(position for position, _ in members)
        groups.append(Group(positions, deployments, _together(deployments)))
    return Placements(tuple(groups), refused)


def _alike(deployment: Deployment) -> tuple[object, ...]:
    """What deployments must share for their arithmetic to be one; cached objects are compared by identity."""
    calibration = deployment.calibration
    settings = deployment.settings
    return (
        id(deployment.work),
        id(deployment.stored),
        id(deployment.rank_layout),
        calibration.kind,
        calibration.head_every_token,
        calibration.order,
        *(
            getattr(settings, one.name)
            for one in fields(EngineSettings)
            if one.name not in OF_EACH_CARD
        ),
    )


def _together(deployments: Sequence[Deployment]) -> Deployment:
    """One deployment that stands for several, with arrays in their order."""
    first = deployments[0]
    if len(deployments) == 1:
        return first
    shares = [one.settings.gpu_memory_utilization for one in deployments]
    settings = first.settings
    if any(share != shares[0] for share in shares):
        settings = replace(settings, gpu_memory_utilization=cast("float", np.array(shares)))
    return replace(
        first,
        settings=settings,
        usable_bytes=cast("float", np.array([one.usable_bytes for one in deployments])),
        hardware=stack_hardware([one.hardware for one in deployments]),
        calibration=stack_calibrations([one.calibration for one in deployments]),
    )
