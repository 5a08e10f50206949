"""What an engine, a card and a model allow together: parallelism, kernels for the weights and for the cache."""

from __future__ import annotations

from planner.architecture.mixers import Attention, LatentAttention
from planner.architecture.quantization import checkpoint_scheme
from planner.architecture.spec import Architecture
from planner.catalog.accelerators import Accelerator
from planner.catalog.engine_profiles import parse_version, range_for
from planner.catalog.engines import EngineProfile, EngineSettings, engine, engine_ids, runs_on
from planner.catalog.formats import KVFormat, supported, weight_format
from planner.catalog.hosts import shares_memory
from planner.catalog.served import Service, served_by
from planner.errors import InvalidInput, Note, Unsupported
from planner.memory.loading import loading_bytes
from planner.memory.offload import Offload
from planner.memory.weights import StoredWeights
from planner.scenario import Parallelism

COMPUTE_BYTES = {"fp16": 2.0, "bf16": 2.0, "fp32": 4.0}
OFFLOADS = "llama.cpp"
CONVERTED = "gguf:MXFP4"  # llama.cpp's own type for what checkpoints call mxfp4, on every backend since b6096
PADS_MXFP4 = frozenset({"vllm", "sglang"})
# Policies of the engines that join a layer's projections when loading and keep PyTorch's blocks.
JOINING = frozenset({"of_total", "static_fraction"})


def resolve_parallelism(
    chosen: EngineProfile,
    degrees: tuple[int | None, int | None, int | None, int | None, int | None],
    architecture: Architecture,
) -> Parallelism:
    """Degrees with the engine's defaults, checked against what the engine and the model allow.

    Args:
        degrees: gpus, tp, pp, ep and dp as given.

    Raises:
        InvalidInput: where they don't multiply out, or tp doesn't divide the heads.
        Unsupported: for a kind of parallelism that the engine doesn't offer.
    """
    gpus, tp, pp, ep, dp = degrees
    if chosen.split == "layers" and tp is None and pp is None and (dp or 1) == 1:
        tp, pp = 1, gpus or 1
    parallelism = Parallelism.resolve(gpus, tp, pp, ep, dp)
    for kind, degree in (
        ("tensor", parallelism.tp),
        ("pipeline", parallelism.pp),
        ("expert", parallelism.ep),
        ("data", parallelism.dp),
    ):
        # Layers spread over cards one after another are this engine's own way, whatever it calls it.
        own_way = kind == "pipeline" and chosen.split == "layers"
        if degree > 1 and kind not in chosen.parallelism and not own_way:
            raise Unsupported(
                "parallelism_unsupported", field=f"{kind[0]}p", engine=chosen.name, kind=kind
            )
    if parallelism.tp > 1:
        for kind_of_layer in architecture.layer_kinds:
            for mixer in kind_of_layer.mixers:
                if isinstance(mixer, Attention | LatentAttention) and mixer.heads % parallelism.tp:
                    raise InvalidInput(
                        "heads_not_divisible",
                        field="tp" if degrees[1] else "gpus",
                        heads=mixer.heads,
                        tp=parallelism.tp,
                        nearest=_divisors_near(mixer.heads, parallelism.tp),
                    )
    return parallelism


def resolve_offload(
    chosen: EngineProfile,
    card: Accelerator,
    architecture: Architecture,
    version: str | None,
    stated: dict[str, float | None],
) -> Offload | None:
    """What lies in host memory; None where the engine keeps everything on the GPU, or host and GPU share a memory.

    Args:
        version: the engine's; None: its newest.
        stated: gpu_layers, cpu_expert_layers and what is said of the host, by field of the scenario.

    Raises:
        Unsupported: where the engine or the card has no use for a field that is stated.
        InvalidInput: as `Offload.resolve`.
    """
    field = next((name for name, value in stated.items() if value is not None), None)
    if chosen.id != OFFLOADS:
        if field is not None:
            raise Unsupported(
                "offload_engine", field=field, engine=chosen.name, nearest=(OFFLOADS,)
            )
        return None
    if shares_memory(card):
        if field is not None:
            raise Unsupported("offload_shared_memory", field=field, accelerator=card.name)
        return None
    layers, experts = stated["gpu_layers"], stated["cpu_expert_layers"]
    rules, _ = range_for(chosen, parse_version(version or chosen.newest))
    return Offload.resolve(
        architecture,
        None if layers is None else int(layers),
        None if experts is None else int(experts),
        output_first=rules.flags["output_layer_first"],
    )


def _divisors_near(heads: int, tp: int) -> tuple[int, ...]:
    """The divisors of `heads` next below and above `tp`."""
    divisors = [number for number in range(1, heads + 1) if heads % number == 0]
    below = [number for number in divisors if number < tp][-1:]
    return (*below, *[number for number in divisors if number > tp][:1])


def stored_as(
    chosen: EngineProfile, architecture: Architecture, format_id: str
) -> tuple[str, list[Note]]:
    """The format in which the engine holds the weights, and what to know about it.

    llama.cpp reads no checkpoint but a GGUF made from it, and an MXFP4 checkpoint's experts stay in their blocks there.

    Args:
        format_id: as asked for, "native" for the checkpoint's own.

    Raises:
        Unsupported: where the checkpoint is stored by an unknown method.

    References:
        llama.cpp pull request 15091 (gpt-oss and MXFP4).
    """
    if chosen.id != "llama.cpp" or format_id not in ("native", "mxfp4"):
        return format_id, []
    scheme = checkpoint_scheme(architecture)
    if scheme is None or scheme.method != "mxfp4":
        return format_id, []
    return CONVERTED, [Note("converted_to_gguf", {"engine": chosen.name, "format": CONVERTED})]


def dominant_format(stored: StoredWeights) -> str:
    """The format that most bytes are in: the quantised one where there are several."""
    return next((name for name in stored.formats if name not in COMPUTE_BYTES), stored.formats[0])


def served_notes(
    chosen: EngineProfile, version: str | None, model_type: str, card: Accelerator
) -> list[Note]:
    """What to know about the engine and this type of model.

    Raises:
        Unsupported: where the engine doesn't serve it, naming in `nearest` those that do and run on the accelerator:
            first those that list it.
    """
    lists = served_by(chosen.id)
    found = lists.of(model_type, version or chosen.newest)
    if found is Service.LISTED:
        return []
    if found is Service.UNLISTED:
        code = "model_unlisted_otherwise" if lists.otherwise else "model_unlisted"
        values: dict[str, object] = {"engine": chosen.name, "model_type": model_type}
        return [Note(code, values | {"otherwise": lists.otherwise} if lists.otherwise else values)]
    able = [name for name in engine_ids() if runs_on(name, card)]
    said = {name: served_by(name).of(model_type, engine(name).newest) for name in able}
    able = [name for name in able if said[name] is not Service.LACKING]
    raise Unsupported(
        "model_not_served",
        field="engine",
        engine=chosen.name,
        model_type=model_type,
        nearest=tuple(sorted(able, key=lambda name: said[name] is Service.UNLISTED)),
    )


def format_notes(stored: StoredWeights, chosen: EngineProfile, card: Accelerator) -> list[Note]:
    """What to know about the engine's kernels for the weights.

    Raises:
        Unsupported: where it has none on this card, with the nearest format that works.
    """
    notes = []
    for name in stored.formats:
        support = supported(weight_format(name), chosen.id, card)
        if not support.ok:
            raise Unsupported(
                "format_unsupported",
                field="weights",
                format=name,
                engine=chosen.name,
                accelerator=card.name,
                nearest=support.nearest_format or "",
            )
        if support.note:
            notes.append(Note(support.note, {"format": name, "kernel": support.kernel}))
    return notes


def padding_of(stored: StoredWeights, chosen: EngineProfile, card: Accelerator) -> float:
    """What the engine's kernels add to the weights on one GPU when loading (bytes)."""
    if not stored.padding_rank_bytes or chosen.id not in PADS_MXFP4:
        return 0.0
    kernel = supported(weight_format("mxfp4"), chosen.id, card).kernel
    return stored.padding_rank_bytes.get(kernel, 0.0)


def speaking_bytes(
    architecture: Architecture, chosen: EngineProfile, parallelism: Parallelism, dtype: str
) -> tuple[float, list[Note]]:
    """What the parts that speak take of one GPU (bytes), and what to know about them.

    Only transformers loads them with the language model; the other engines serve what reads and listens.
    """
    count = architecture.speaking_parameters
    if not count:
        return 0.0, []
    values: dict[str, object] = {"engine": chosen.name, "parameters": float(count)}
    if chosen.id != "transformers":
        return 0.0, [Note("speech_parts_left_out", values)]
    size = count * COMPUTE_BYTES[dtype]
    return size / parallelism.pp, [Note("speech_parts_loaded", values | {"bytes": size})]


def held_beside(
    stored: StoredWeights,
    settings: EngineSettings,
    architecture: Architecture,
    parallelism: Parallelism,
    dtype: str,
) -> float:
    """What an engine that joins projections when loading holds on one GPU beside the weights' tensors (bytes)."""
    if settings.policy not in JOINING:
        return 0.0
    plain = stored.label in COMPUTE_BYTES
    size = COMPUTE_BYTES[stored.label if plain else dtype]
    # Only vLLM's logs show the copies for latent attention.
    copies = settings.latent_cache and settings.policy == "of_total"
    return loading_bytes(architecture, parallelism, size, plain=plain, absorbed_copies=copies)


def cache_notes(format_: KVFormat, chosen: EngineProfile, card: Accelerator) -> list[Note]:
    """What to know about the cache format under the engine.

    Raises:
        Unsupported: where the engine can't keep it on this card, with the nearest that it can.
    """
    support = supported(format_, chosen.id, card)
    if not support.ok:
        raise Unsupported(
            "kv_format_unsupported",
            field="kv",
            format=format_.id,
            engine=chosen.name,
            accelerator=card.name,
            nearest=support.nearest_format or "",
        )
    return (
        [Note(support.note, {"format": format_.id, "kernel": support.kernel})]
        if support.note
        else []
    )


def fp8_cache_by_default(chosen: EngineProfile, format_id: str) -> bool:
    """Whether weights made in this format for the engine come with an FP8 cache: its own recipes quantise both.

    References:
        TensorRT-LLM, examples/quantization: FP8 and NVFP4 recipes with `--kv_cache_dtype fp8`.
    """
    return chosen.id == "tensorrt-llm" and format_id in {"fp8", "nvfp4"}
