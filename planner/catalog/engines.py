"""What an engine does on a card: where it runs, its settings by version and card, and which one is meant by default.

Between and outside the versions that a profile documents the nearest ones' figures are used, and the answer says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from planner.catalog.engine_profiles import (
    EngineProfile,
    StatePoolRule,
    StateRule,
    engine,
    engine_ids,
    parse_version,
    range_for,
)
from planner.catalog.loader import Figure, require
from planner.catalog.served import may_serve
from planner.errors import Note, Unsupported
from planner.quantity import GIB, Basis, worst

__all__ = [
    "EngineProfile",
    "EngineSettings",
    "default_engine",
    "engine",
    "engine_ids",
    "engine_settings",
    "require_support",
    "runs_on",
    "with_overrides",
]

# Tried in this order where the weights don't decide.
PREFERENCE = ("vllm", "sglang", "transformers", "llama.cpp")
ON_LOAD_QUANTIZED = frozenset({"nf4", "nf4-dq", "llm-int8"})
USER_SETTINGS = ("gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "block_size")


class Device(Protocol):
    """What an engine asks of an accelerator."""

    @property
    def name(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def architecture(self) -> str: ...
    @property
    def compute_capability(self) -> tuple[int, int] | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class EngineSettings:
    """An engine's settings and overheads on one card, every default filled in.

    Compared by identity: settings come from a cache, so that results can be cached by them.

    Attributes:
        basis: how far the figures of this version are known for this card.
        gpu_memory_utilization: fraction of the card (of_total), of the card for weights and cache (static_fraction) or
            of what is free (of_free); 1 for engines that reserve nothing.
        max_num_seqs: sequences run at once at most.
        max_num_batched_tokens: tokens of one engine step at most (a prefill chunk).
        block_size: tokens of a cache block.
        logit_bytes: held per sampled row and vocabulary entry (bytes).
        activation_constant_bytes, context_bytes, graphs_bytes: as named (bytes).
        runtime_library_bytes: beside torch's own memory, one card; `_tensor` with tp ≥ 2, `_pipeline` with pp > 1 and
            tp 1.
        graphs_inside_budget: CUDA graphs are kept within the engine's fraction.
        windowed_cache: windowed layers keep their window only; otherwise every layer keeps the full context.
        latent_cache: latent attention is cached compressed.
        paged_groups: layers of different kinds share one pool of equal pages (vLLM's hybrid allocator).
        printed_by_concurrency: the logged size is concurrency · max_model_len, not blocks / groups · block.
        state_pages: pages of recurrent state per sequence and layer.
        padding_limit: ratio of layer counts up to which groups are padded to the larger count.
        expert_workspace: fused experts keep their workspace beside the logits.
        batched_tokens_follow_context: a prompt is profiled whole, so that a step is as long as the context.
        logits_for_all_tokens: prefill computes logits of every prompt token.
        logits_of_slots: the compute buffer has room for logits of each slot's last token, not of a whole batch.
        flash_attention: attention needs no score matrix.
        sums_in_fp16: products in fp16 are summed up in fp16, which some cards do faster than in fp32.
        states: how recurrent state and the inputs of convolutions are kept; state_pool: what is set apart for it.
        fragmentation_fraction: of activations and cache lost to the allocator.
        window_tokens_ratio: tokens of windowed layers for each token of full layers in a pool split once; 0: not split.
        activation_factors: activations over 2 · tokens · hidden size, for tp 1, 2 and 4 or more; empty: not used.
        expert_activation_factor: their multiple for a mixture of experts.
        pool_band: relative half-width of the cache pool's range where the version is documented.
        defaults: names of the settings that the engine chose, not the user.
    """

    engine: str
    version: str
    policy: str
    basis: Basis
    gpu_memory_utilization: float
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    logit_bytes: float
    activation_constant_bytes: float
    context_bytes: float
    runtime_library_bytes: float
    runtime_library_bytes_tensor: float
    runtime_library_bytes_pipeline: float
    graphs_bytes: float
    graphs_inside_budget: bool
    windowed_cache: bool
    latent_cache: bool
    paged_groups: bool
    printed_by_concurrency: bool
    state_pages: int
    padding_limit: float
    expert_workspace: bool
    batched_tokens_follow_context: bool
    logits_for_all_tokens: bool
    logits_of_slots: bool
    flash_attention: bool
    sums_in_fp16: bool
    states: StateRule
    state_pool: StatePoolRule
    fragmentation_fraction: float
    window_tokens_ratio: float
    activation_factors: tuple[float, ...]
    expert_activation_factor: float
    pool_band: float
    defaults: tuple[str, ...]
    notes: tuple[Note, ...] = ()

    @property
    def shown(self) -> dict[str, float | int | str | bool]:
        """The settings that a user can change, by name."""
        return {name: getattr(self, name) for name in USER_SETTINGS}


def runs_on(engine_id: str, accelerator: Device, version: str | None = None) -> bool:
    """Whether the engine (in a version, else its newest) runs on the accelerator."""
    profile = engine(engine_id)
    chosen, _ = range_for(profile, parse_version(version or profile.newest))
    for rule in profile.runs_on:
        if rule.vendor.lower() != accelerator.vendor.lower():
            continue
        name = accelerator.architecture.lower()
        if any(name.startswith(part.lower()) for part in rule.except_architectures):
            return False
        if rule.architectures and not any(
            name.startswith(part.lower()) for part in rule.architectures
        ):
            return False
        capability = accelerator.compute_capability
        if capability is None:
            return True
        least = require(chosen.figures, "min_compute_capability", profile.id).value
        return capability[0] + capability[1] / 10 >= least
    return False


def require_support(engine_id: str, accelerator: Device, version: str | None = None) -> None:
    """Refuses an engine that doesn't run on the accelerator.

    Raises:
        Unsupported: naming the engines that do, in `nearest`.
    """
    if not runs_on(engine_id, accelerator, version):
        able = tuple(name for name in engine_ids() if runs_on(name, accelerator))
        raise Unsupported(
            "engine_not_on_accelerator",
            field="engine",
            engine=engine(engine_id).name,
            accelerator=accelerator.name,
            nearest=able,
        )


def default_engine(weights_id: str, accelerator: Device, model_type: str = "") -> str:
    """The engine that is meant where none is named.

    llama.cpp for GGUF files and on Apple's chips, transformers for weights quantised on loading, else vLLM; where that
    doesn't run on the card, or doesn't serve the type of model, the first of `PREFERENCE` that does.

    Raises:
        Unsupported: where no engine runs on the card.
    """
    if weights_id.startswith("gguf") or accelerator.vendor.lower() == "apple":
        wanted: tuple[str, ...] = ("llama.cpp",)
    elif weights_id in ON_LOAD_QUANTIZED:
        wanted = ("transformers",)
    else:
        wanted = ()
    able = [name for name in (*wanted, *PREFERENCE) if runs_on(name, accelerator)]
    for candidate in (*(name for name in able if may_serve(name, model_type)), *able):
        return candidate
    raise Unsupported("no_engine_for_accelerator", field="gpu", accelerator=accelerator.name)


def engine_settings(
    engine_id: str,
    version: str | None,
    usable_gib: float,
    accelerator: Device,
    *,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
) -> EngineSettings:
    """Settings and overheads of an engine on a card, with all defaults.

    Args:
        version: as people write it; None: the newest documented one, which a note says.
        usable_gib: the card's usable memory (GiB).
        tp, pp, dp: parallel degrees, on which SGLang's fraction depends.

    Raises:
        UnknownItem: for an unknown engine.
        InvalidInput: for something that isn't a version.
        MissingFigure: where the profile lacks a figure.
    """
    profile = engine(engine_id)
    return _settings(
        profile.id, version, usable_gib, accelerator.name, accelerator.vendor, tp, pp, dp
    )


@lru_cache(maxsize=4096)
def _settings(
    engine_id: str,
    version: str | None,
    usable_gib: float,
    name: str,
    vendor: str,
    tp: int,
    pp: int,
    dp: int,
) -> EngineSettings:
    profile = engine(engine_id)
    chosen, documented = range_for(profile, parse_version(version or profile.newest))
    notes: tuple[Note, ...] = ()
    if version is None:
        values: dict[str, object] = {"engine": profile.name, "version": profile.newest}
        notes = (Note("engine_version_default", values),)
    elif not (documented and chosen.stated):
        values = {"engine": profile.name, "given": version, "nearest": chosen.last}
        notes = (Note("engine_version_transferred", values),)
    basis = worst(chosen.basis, Basis.CALIBRATED if documented else Basis.TRANSFERRED)
    if vendor.lower() != "nvidia":  # the overheads were read off NVIDIA cards
        basis = worst(basis, Basis.TRANSFERRED)
    figures = dict(chosen.figures)
    for tier in chosen.tiers:
        named = any(part in name.lower() for part in tier.except_names)
        if usable_gib >= tier.min_usable_gib and not named:
            figures.update(tier.figures)

    def value(key: str) -> float:
        return require(figures, key, profile.id).value

    def optional(key: str, default: float = 0.0) -> float:
        # Of another engine's way of working: absent means that it doesn't apply.
        return figures[key].value if key in figures else default

    flags = chosen.flags
    if profile.policy == "static_fraction":
        utilization = _static_fraction(figures, profile.id, usable_gib, tp, pp, dp)
    else:
        utilization = value("gpu_memory_utilization")
    factors = tuple(optional(f"activation_factor{tail}") for tail in ("", "_tp2", "_tp4"))
    return EngineSettings(
        engine=profile.id,
        version=version or profile.newest,
        policy=profile.policy,
        basis=basis,
        gpu_memory_utilization=utilization,
        max_num_seqs=int(value("max_num_seqs")),
        max_num_batched_tokens=int(value("max_num_batched_tokens")),
        block_size=int(value("block_size")),
        logit_bytes=value("logit_bytes"),
        activation_constant_bytes=value("activation_constant_bytes"),
        context_bytes=value("context_bytes"),
        runtime_library_bytes=value("runtime_library_bytes"),
        runtime_library_bytes_tensor=value("runtime_library_bytes_tensor"),
        runtime_library_bytes_pipeline=value("runtime_library_bytes_pipeline"),
        graphs_bytes=value("graphs_bytes"),
        graphs_inside_budget=flags["graphs_inside_budget"],
        windowed_cache=flags["windowed_cache"],
        latent_cache=flags["latent_cache"],
        paged_groups=flags.get("paged_groups", False),
        printed_by_concurrency=flags.get("printed_by_concurrency", False),
        state_pages=int(optional("state_pages", 1.0)),
        padding_limit=optional("padding_limit", 1.0),
        expert_workspace=flags.get("expert_workspace", False),
        batched_tokens_follow_context=flags.get("batched_tokens_follow_context", False),
        logits_for_all_tokens=flags.get("logits_for_all_tokens", False),
        logits_of_slots=flags.get("logits_of_slots", False),
        flash_attention=flags.get("flash_attention", True),
        sums_in_fp16=flags.get("sums_in_fp16", False),
        states=chosen.states,
        state_pool=chosen.state_pool,
        fragmentation_fraction=optional("fragmentation_fraction"),
        window_tokens_ratio=optional("window_tokens_ratio"),
        activation_factors=factors if all(factors) else (),
        expert_activation_factor=optional("expert_activation_factor", 1.0),
        pool_band=value("pool_band"),
        defaults=USER_SETTINGS if version else ("engine_version", *USER_SETTINGS),
        notes=notes,
    )


def _static_fraction(
    figures: dict[str, Figure], profile: str, usable_gib: float, tp: int, pp: int, dp: int
) -> float:
    """SGLang's own choice of mem_fraction_static: what is left after a reserve for activations and graphs.

    Reserve: a constant, 1.5 MiB a token of a prefill chunk, 2 MiB a sequence of the largest graph (3 more for each
    data-parallel group, 4.5 above 300), 1 GiB for eight ranks; at least 10 GiB above 60 GiB.
    """

    def value(key: str) -> float:
        return require(figures, key, profile).value

    memory = usable_gib * GIB
    graph = value("largest_graph_tensor" if tp >= 4 else "largest_graph")
    reserve = value("activation_constant_bytes")
    reserve += max(value("max_num_batched_tokens"), 2048) * value("reserve_bytes_per_token")
    reserve += graph * value("reserve_bytes_per_graph") + tp * pp * value("reserve_bytes_per_rank")
    if dp > 1:
        reserve += graph * dp * value("reserve_bytes_per_graph") * (2.25 if graph > 300 else 1.5)
    if usable_gib > 60:
        reserve = max(reserve, value("reserve_floor_bytes"))
    return max(round(1.0 - reserve / memory, 3), 0.0)


def with_overrides(
    settings: EngineSettings,
    *,
    gpu_memory_utilization: float | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    block_size: int | None = None,
) -> EngineSettings:
    """The settings with what a user chose; None keeps the engine's default."""
    given: dict[str, Any] = {
        "gpu_memory_utilization": gpu_memory_utilization,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "block_size": block_size,
    }
    changes = {name: chosen for name, chosen in given.items() if chosen is not None}
    if not changes:
        return settings
    left = tuple(name for name in settings.defaults if name not in changes)
    return replace(settings, defaults=left, **changes)
