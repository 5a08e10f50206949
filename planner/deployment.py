"""A scenario resolved: every name looked up, every default filled in, everything that the workload doesn't change.

`resolve` is where a scenario's words become objects; `evaluate` and the sweeps only do arithmetic on the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from planner.allowed import (
    COMPUTE_BYTES,
    cache_notes,
    dominant_format,
    format_notes,
    fp8_cache_by_default,
    held_beside,
    padding_of,
    resolve_offload,
    resolve_parallelism,
    served_notes,
    speaking_bytes,
    stored_as,
)
from planner.architecture.cache import CacheLayout, states_kept_otherwise
from planner.architecture.checkpoint.sizes import CheckpointBytes, checkpoint_of
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.spec import Architecture
from planner.catalog.accelerators import Accelerator, accelerator
from planner.catalog.calibrations import Calibration
from planner.catalog.devices import device_from
from planner.catalog.dtypes import resolve_dtype
from planner.catalog.engine_profiles import COMPUTE
from planner.catalog.engines import (
    EngineProfile,
    EngineSettings,
    default_engine,
    engine,
    engine_settings,
    require_support,
    with_overrides,
)
from planner.catalog.formats import GGUF_PREFIX, KVFormat, kv_format, weight_format
from planner.catalog.hosts import Host, host_of
from planner.catalog.models import model_profile
from planner.catalog.own_calibration import chosen_calibration
from planner.errors import InvalidInput, Note
from planner.memory.checkpoint import own_format, weights_by_checkpoint
from planner.memory.layouts import layouts_of
from planner.memory.weights import StoredWeights
from planner.quantity import GB, GIB, Basis
from planner.scenario import GivenConfig, Parallelism, Scenario, canonical_text
from planner.speed.carried import carried
from planner.speed.host import host_rates, with_host
from planner.speed.work import Hardware, Work, hardware_of, product_dtypes, work


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model as named or pasted.

    Attributes:
        stand_in_for: the name asked for where the catalogue only has the nearest, else "".
        profile: stem of its profile file; "" for a pasted configuration.
        notes: what to know about its configuration.
        checkpoint: what its files hold, where their headers were read.
    """

    id: str
    name: str
    architecture: Architecture
    profile: str = ""
    stand_in_for: str = ""
    notes: tuple[Note, ...] = ()
    checkpoint: CheckpointBytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Deployment:
    """A model in a format on accelerators under an engine.

    Attributes:
        usable_bytes: memory per GPU that the engine sees; usable_basis: how far that is known.
        model_layout: one sequence's cache over the whole model, as the engine keeps it.
        rank_layout: the same on the rank that holds most of it.
        step_layout: what one step reads on one tp rank, all pipeline stages together.
        host_layout: the same in host memory; None where the engine keeps nothing there.
        machine: the host, where it does a part of each step; machine_basis: how far its bandwidth is known.
        padding_bytes: what the engine holds on one GPU beside the checkpoint's tensors, its rotary tables apart.
        warnings, assumptions: what a person should know about the resolution.
    """

    model: Model
    accelerator: Accelerator
    engine: EngineProfile
    settings: EngineSettings
    parallelism: Parallelism
    dtype: str
    stored: StoredWeights
    kv: KVFormat
    usable_bytes: float
    usable_basis: Basis
    model_layout: CacheLayout
    rank_layout: CacheLayout
    step_layout: CacheLayout
    hardware: Hardware
    work: Work
    calibration: Calibration
    padding_bytes: float
    host_layout: CacheLayout | None
    machine: Host | None
    machine_basis: Basis
    warnings: tuple[Note, ...]
    assumptions: tuple[Note, ...]

    @property
    def architecture(self) -> Architecture:
        return self.model.architecture

    @property
    def quantised_unread(self) -> bool:
        """The weights are in a format of scales, and no header of their files was read."""
        plain = self.stored.label in COMPUTE_BYTES or self.stored.label.startswith(GGUF_PREFIX)
        return not plain and self.model.checkpoint is None

    @property
    def served_sequences(self) -> int:
        """Sequences that the engine runs at once, over all groups, if memory allows; more wait for a place."""
        return self.settings.max_num_seqs * self.parallelism.dp

    @property
    def compute_bytes(self) -> float:
        return COMPUTE_BYTES[self.dtype]

    def layout_with(self, kv: KVFormat, *, whole: bool = False) -> CacheLayout:
        """The cache of one sequence on the heaviest rank (`whole`: of the model) in another cache format."""
        host = self.stored.host
        layouts = layouts_of(
            self.architecture,
            kv,
            self.compute_bytes,
            self.settings,
            self.parallelism,
            host.offload if host else None,
        )
        return layouts.model if whole else layouts.rank


def resolve(scenario: Scenario) -> Deployment:
    """The scenario's deployment, from a cache where it has been asked for before.

    Raises:
        UnknownItem, InvalidInput, InvalidConfig, UnsupportedArchitecture: for what isn't a model, card or engine.
        Unsupported: for a combination that can't run, with the nearest that can.
        MissingFigure: where a profile lacks a figure that the answer needs.
    """
    return _resolve(
        scenario.model,
        GivenConfig.of(scenario.config),
        scenario.gpu,
        canonical_text(scenario.device),
        canonical_text(scenario.calibration),
        (scenario.gpus, scenario.tp, scenario.pp, scenario.ep, scenario.dp),
        scenario.engine,
        scenario.engine_version,
        scenario.weights,
        scenario.kv,
        scenario.dtype,
        scenario.include_mtp,
        scenario.gpu_memory_gib,
        (
            scenario.gpu_memory_utilization,
            scenario.max_num_seqs,
            scenario.max_num_batched_tokens,
            scenario.block_size,
        ),
        (
            ("gpu_layers", scenario.gpu_layers),
            ("cpu_expert_layers", scenario.cpu_expert_layers),
            ("host_memory_gib", scenario.host_memory_gib),
            ("host_bandwidth_gb_per_s", scenario.host_bandwidth_gb_per_s),
        ),
    )


@lru_cache(maxsize=512)
def resolve_model(name: str, given: GivenConfig | None) -> Model:
    """The model of a catalogue id or alias, or of a pasted configuration.

    Raises:
        UnknownItem, InvalidConfig, UnsupportedArchitecture: as their names say.
    """
    if given is not None:
        architecture = architecture_from_config(given.config)
        # Nothing that could turn the text around it, and no more than a line.
        shown = "".join(letter for letter in name if letter.isprintable())[:120]
        shown = shown or architecture.model_type
        return Model(
            shown,
            shown.rstrip("/").rpartition("/")[2] or shown,
            architecture,
            checkpoint=checkpoint_of(given.config),
        )
    if not name:
        raise InvalidInput("scenario_missing", field="model")
    profile = model_profile(name)
    notes = []
    if profile.provenance == "reconstructed":
        notes.append(Note("config_reconstructed", {"model": profile.id}))
    return Model(
        profile.id,
        profile.name,
        architecture_of(profile.id),
        profile.id.replace("/", "--"),
        profile.stand_in_for or "",
        tuple(notes),
    )


@lru_cache(maxsize=2048)
def _resolve(
    model_name: str,
    given: GivenConfig | None,
    gpu: str,
    device_text: str | None,
    calibration_text: str | None,
    degrees: tuple[int | None, int | None, int | None, int | None, int | None],
    engine_name: str | None,
    engine_version: str | None,
    weights: str,
    kv: str,
    dtype_name: str,
    include_mtp: bool,
    gpu_memory_gib: float | None,
    overrides: tuple[float | None, int | None, int | None, int | None],
    beside: tuple[tuple[str, float | None], ...],
) -> Deployment:
    model = resolve_model(model_name, given)
    architecture = model.architecture
    card = accelerator(gpu) if device_text is None else device_from(device_text)
    warnings, assumptions = _about_model(model), list(model.notes)
    assumptions.extend(Note(code) for code in architecture.notes)
    format_id = own_format(model.checkpoint, weight_format(weights).id)
    if engine_name is None:
        hint = _format_hint(format_id, architecture)
        chosen = engine(default_engine(hint, card, architecture.model_type))
        assumptions.append(Note("engine_default", {"engine": chosen.name}))
    else:
        chosen = engine(engine_name)
    require_support(chosen.id, card, engine_version)
    format_id, conversion_notes = stored_as(chosen, architecture, format_id)
    assumptions.extend(conversion_notes)
    assumptions.extend(served_notes(chosen, engine_version, architecture.model_type, card))
    parallelism = resolve_parallelism(chosen, degrees, architecture)
    dtype, dtype_notes = resolve_dtype(
        dtype_name, architecture.dtype, card, chosen.id, model_type=architecture.model_type
    )
    warnings.extend(dtype_notes)
    offload = resolve_offload(chosen, card, architecture, engine_version, dict(beside))
    stored = weights_by_checkpoint(
        architecture,
        model.checkpoint,
        format_id,
        parallelism,
        dtype,
        include_mtp=include_mtp,
        offload=offload,
    )
    warnings.extend(format_notes(stored, chosen, card))
    assumptions.extend(stored.notes)
    cache_scheme = stored.kv_scheme
    if kv == "auto" and cache_scheme is None and fp8_cache_by_default(chosen, format_id):
        cache_scheme = "fp8"
        assumptions.append(Note("fp8_cache_by_default", {"engine": chosen.name}))
    cache_format = kv_format(kv, dtype, cache_scheme)
    warnings.extend(cache_notes(cache_format, chosen, card))
    usable, usable_basis = card.memory_usable_bytes, card.memory_usable.basis
    if gpu_memory_gib is not None:
        usable, usable_basis = gpu_memory_gib * GIB, Basis.EXACT
    elif usable_basis is Basis.TRANSFERRED:
        assumptions.append(
            Note("usable_memory_derived", {"accelerator": card.name, "usable_bytes": usable})
        )
    settings = engine_settings(
        chosen.id,
        engine_version,
        usable / GIB,
        card,
        tp=parallelism.tp,
        pp=parallelism.pp,
        dp=parallelism.dp,
    )
    assumptions.extend(settings.notes)
    utilization, sequences, batched, block = overrides
    settings = with_overrides(
        settings,
        gpu_memory_utilization=utilization,
        max_num_seqs=sequences,
        max_num_batched_tokens=batched,
        block_size=block,
    )
    padding = padding_of(stored, chosen, card)
    if padding:
        assumptions.append(Note("mxfp4_experts_padded", {"bytes": padding}))
    speaking, speaking_notes = speaking_bytes(architecture, chosen, parallelism, dtype)
    assumptions.extend(speaking_notes)
    padding += speaking
    calibration, calibration_notes = chosen_calibration(
        calibration_text,
        chosen.id,
        card,
        dominant_format(stored),
        model_type=architecture.model_type,
        experts=bool(stored.experts),
        version=settings.version,
    )
    calibration, carried_notes = carried(
        calibration,
        chosen,
        settings,
        parallelism,
        experts=bool(stored.experts),
        generates=architecture.has_head,
    )
    assumptions.extend((*calibration_notes, *carried_notes))
    compute_bytes = COMPUTE_BYTES[dtype]
    layouts = layouts_of(architecture, cache_format, compute_bytes, settings, parallelism, offload)
    kept = states_kept_otherwise(architecture, settings.states)
    if kept is not None:
        kept = (
            dtype if kept == COMPUTE else {"float32": "fp32", "float16": "fp16"}.get(kept, "bf16")
        )
        assumptions.append(Note("recurrent_state_dtype", {"engine": chosen.name, "dtype": kept}))
    products = product_dtypes(stored, chosen.id, card)
    parts = work(architecture, stored, layouts.step, parallelism, dtype, products)
    hardware = hardware_of(card, sums_in_fp16=settings.sums_in_fp16)
    machine, machine_basis = None, Basis.EXACT
    if offload is not None and offload.computes:
        machine = host_of(card)
        stated_gb_per_s = dict(beside)["host_bandwidth_gb_per_s"]
        bandwidth = None if stated_gb_per_s is None else stated_gb_per_s * GB
        machine_basis = machine.basis if bandwidth is None else Basis.TRANSFERRED
        if bandwidth is None:
            told = {"host": machine.id, "bandwidth_bytes_per_s": machine.bandwidth_bytes_per_s}
            assumptions.append(Note("host_bandwidth_assumed", told))
        hardware = replace(hardware, host=host_rates(machine, card, bandwidth))
        parts = with_host(parts, architecture, stored, layouts.resident, layouts.host, products)
    return Deployment(
        model=model,
        accelerator=card,
        engine=chosen,
        settings=settings,
        parallelism=parallelism,
        dtype=dtype,
        stored=stored,
        kv=cache_format,
        usable_bytes=usable,
        usable_basis=usable_basis,
        model_layout=layouts.model,
        rank_layout=layouts.rank,
        step_layout=layouts.step,
        hardware=hardware,
        work=parts,
        calibration=calibration,
        padding_bytes=padding + held_beside(stored, settings, architecture, parallelism, dtype),
        host_layout=None if offload is None else layouts.host,
        machine=machine,
        machine_basis=machine_basis,
        warnings=tuple(warnings),
        assumptions=tuple(assumptions),
    )


def calibration_key(deployment: Deployment) -> tuple[str, Accelerator, str, str, bool, str]:
    """What a deployment's calibration is chosen by: engine, card, format, model type, routed experts, version."""
    return (
        deployment.engine.id,
        deployment.accelerator,
        dominant_format(deployment.stored),
        deployment.architecture.model_type,
        bool(deployment.stored.experts),
        deployment.settings.version,
    )


def _about_model(model: Model) -> list[Note]:
    if not model.stand_in_for:
        return []
    return [Note("stand_in", {"asked": model.stand_in_for, "model": model.id})]


def _format_hint(format_id: str, architecture: Architecture) -> str:
    """The format that decides the default engine: a checkpoint quantised on loading counts as its own format."""
    if (
        format_id == "native"
        and (architecture.quantization or {}).get("quant_method") == "bitsandbytes"
    ):
        return "nf4"
    return format_id
