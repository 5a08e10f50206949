"""Model profiles: what is known of each published model, read one file at a time.

A profile carries the architecture keys of the model's config.json under `config`, so that a model
of the catalogue and a pasted config walk the same path. Long lists of module names inside
`quantization_config` are kept short in the files (`model.layers.{0..61}.self_attn`) and are whole
again in what is read here.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, ValidationError

from planner.catalog.accelerator_profile import FigureEntry, SourceEntry, Strict
from planner.catalog.files import profile_ids
from planner.catalog.loader import Figure, read_figures, read_yaml
from planner.catalog.search import nearest, normalised, read_index, resolve
from planner.errors import BadProfile, UnknownItem

FOLDER = "models"
STAND_INS = f"{FOLDER}/_stand_ins.yaml"

Modality = Literal["text", "vision-text", "audio-text", "embedding", "encoder-decoder", "omni"]
Provenance = Literal["copied", "reconstructed"]
StandInReason = Literal["other_context", "other_format", "other_vocabulary", "same_shape"]
FigureKey = Literal["parameters", "stored_elements", "active_parameters", "checkpoint_bytes"]

NUMBERS_IN_BRACES = re.compile(r"\{([0-9][0-9.,]*)\}")
EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


@dataclass(frozen=True, slots=True, eq=False)
class ModelProfile:
    """A model as the catalogue knows it.

    Attributes:
        id: organisation and name as on the Hugging Face Hub.
        family: lineage shown in the picker ("gemma", "llama").
        aliases: other names of exactly this model, among them checkpoints of the same
            architecture, dtype and context.
        released: year, or "yyyy-mm"; None where it isn't certain.
        licence: short id ("apache-2.0"); None where it isn't certain.
        context_tokens: longest context the model is published for (tokens); None where the
            architecture sets no limit.
        provenance: "copied" from a config.json, or "reconstructed" from published shapes.
        config: architecture keys of config.json, nested as they are there. Lookups share it: read
            it, don't change it.
        figures: `parameters` (weights of the model without next-token-prediction layers, count),
            `active_parameters` (those a token passes through, as the vendor states them, count),
            `stored_elements` (tensor elements in the checkpoint, where packed weights, scales,
            copies or further layers make them differ from the parameters, count) and
            `checkpoint_bytes` (weight files, bytes); each only where a source gives it.
        stand_in_for: name of the model that was asked for, where this is only the nearest one of
            known architecture.
        stand_in_reason: how the two differ, as a code; None where `stand_in_for` is.
    """

    id: str
    name: str
    family: str
    organisation: str
    aliases: tuple[str, ...]
    modality: Modality
    released: int | str | None
    licence: str | None
    context_tokens: int | None
    provenance: Provenance
    config: dict[str, Any]
    figures: dict[str, Figure]
    notes: str
    stand_in_for: str | None = None
    stand_in_reason: StandInReason | None = None


class _ModelFile(Strict):
    """One file under profiles/models."""

    id: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    name: str
    family: str = Field(pattern=r"^[a-z0-9-]+$")
    organisation: str
    aliases: list[str]
    modality: Modality
    released: int | str | None
    licence: str | None
    context_tokens: int | None = Field(gt=0)
    provenance: Provenance
    source: str
    figures: dict[FigureKey, FigureEntry | float]
    notes: str = ""
    config: dict[str, Any] = Field(min_length=1)
    sources: list[SourceEntry] = Field(min_length=1)


class _StandIn(Strict):
    """A model that people ask for and that has no profile, and the nearest one that has."""

    name: str
    aliases: list[str]
    nearest: str
    reason: StandInReason


class _StandInFile(Strict):
    stand_ins: list[_StandIn]


@lru_cache(maxsize=2048)
def model_profile(id_or_alias: str) -> ModelProfile:
    """The model of that name.

    An id counts with and without its organisation, an alias and a display name too, whatever their
    case and separators. Where only the nearest model of known architecture can answer, the profile
    says so in `stand_in_for`.

    Raises:
        UnknownItem: where no model has the name; `values['nearest']` lists close ids.
        BadProfile: where the model's file breaks the schema.
    """
    if id_ := resolve("model", id_or_alias):
        return _read(id_)
    if stand_in := _stand_ins_by_name().get(normalised("model", id_or_alias)):
        return dataclasses.replace(
            _read(stand_in.nearest), stand_in_for=stand_in.name, stand_in_reason=stand_in.reason
        )
    raise UnknownItem("model", id_or_alias, nearest("model", id_or_alias))


def model_ids() -> tuple[str, ...]:
    """All ids, from the index: no profile is read."""
    return tuple(entry.id for entry in read_index("model"))


def index_entries() -> list[dict[str, Any]]:
    """What the generated index holds of each model: id, names and what lists and filters show.

    The aliases include the id without its organisation, where no other model has the same.
    `quantisation` is a label for lists, `mixture_of_experts` tells whether tokens are routed.

    Raises:
        BadProfile: for the first profile that doesn't load.
    """
    profiles = [_load(stem) for stem in profile_ids(FOLDER) if not stem.startswith("_")]
    short = [profile.id.partition("/")[2] for profile in profiles]
    times = Counter(normalised("model", name) for name in short)
    entries = []
    for profile, own in zip(profiles, short, strict=True):
        alone = times[normalised("model", own)] == 1
        figures = {key: int(figure.value) for key, figure in profile.figures.items()}
        entries.append(
            {
                "id": profile.id,
                "name": profile.name,
                "aliases": [own, *profile.aliases] if alone else list(profile.aliases),
                "family": profile.family,
                "organisation": profile.organisation,
                "modality": profile.modality,
                "released": profile.released,
                "licence": profile.licence,
                "context_tokens": profile.context_tokens,
                "parameters": figures.get("parameters"),
                "active_parameters": figures.get("active_parameters"),
                "model_type": profile.config["model_type"],
                "mixture_of_experts": _routed_experts(profile.config) > 1,
                "quantisation": quantisation_label(profile.config),
                "provenance": profile.provenance,
            }
        )
    return entries


def quantisation_label(config: dict[str, Any]) -> str | None:
    """How a checkpoint is quantised, in one word for lists ("fp8", "awq-int4", "nvfp4", "mixed").

    None where it isn't. Only a label: the bytes of each weight follow from the whole block.
    """
    block = config.get("quantization_config") or (config.get("text_config") or {}).get(
        "quantization_config"
    )
    if not block:
        return None
    method = block["quant_method"]
    if method in {"awq", "gptq"}:
        return f"{method}-int{block['bits']}"
    if method == "bitsandbytes":
        return str(block["bnb_4bit_quant_type"]) if block.get("load_in_4bit") else "int8"
    if method == "compressed-tensors":
        labels = {_group_label(block, group) for group in block["config_groups"].values()}
        return labels.pop() if len(labels) == 1 else "mixed"
    if block.get("quant_algo") == "MIXED_PRECISION" or config.get("expert_dtype") == "fp4":
        return "mixed"
    return str(block.get("quant_algo") or method).lower()


def _group_label(block: dict[str, Any], group: dict[str, Any]) -> str:
    packed = str(group.get("format") or block.get("format"))
    for name in ("nvfp4", "mxfp4"):
        if packed.startswith(name):
            return name
    weights = group["weights"]
    return f"{'fp' if weights['type'] == 'float' else 'int'}{weights['num_bits']}"


def _routed_experts(config: dict[str, Any]) -> int:
    """Routed experts of the layers that have them: the largest count in any part, or 0."""
    own = max((int(config.get(key) or 0) for key in EXPERT_KEYS), default=0)
    parts = [part for part in config.values() if isinstance(part, dict)]
    return max([own, *(_routed_experts(part) for part in parts)])


@lru_cache(maxsize=1)
def _stand_ins_by_name() -> dict[str, _StandIn]:
    if "_stand_ins" not in profile_ids(FOLDER):
        return {}
    try:
        file = _StandInFile.model_validate(read_yaml(STAND_INS))
    except ValidationError as error:
        raise _bad_schema(STAND_INS, error) from error
    return {
        normalised("model", name): one
        for one in file.stand_ins
        for name in (one.name, *one.aliases)
    }


def _read(id_: str) -> ModelProfile:
    return _load(id_.replace("/", "--"))


@lru_cache(maxsize=1024)
def _load(stem: str) -> ModelProfile:
    """The profile in `models/<stem>.yaml`.

    Raises:
        BadProfile: where the file is missing, breaks the schema, names another id, or has a figure
            without a source.
    """
    relative = f"{FOLDER}/{stem}.yaml"
    data = read_yaml(relative)
    try:
        file = _ModelFile.model_validate(data)
    except ValidationError as error:
        raise _bad_schema(relative, error) from error
    if file.id.replace("/", "--") != stem:
        raise BadProfile(
            "profile_bad_schema", file=relative, key="id", reason="not the file's name"
        )
    if not isinstance(file.config.get("model_type"), str):
        raise BadProfile(
            "profile_bad_schema", file=relative, key="config.model_type", reason="missing"
        )
    return ModelProfile(
        id=file.id,
        name=file.name,
        family=file.family,
        organisation=file.organisation,
        aliases=tuple(file.aliases),
        modality=file.modality,
        released=file.released,
        licence=file.licence,
        context_tokens=file.context_tokens,
        provenance=file.provenance,
        config=_with_whole_lists(file.config),
        figures=read_figures(data, relative),
        notes=file.notes,
    )


def _bad_schema(relative: str, error: ValidationError) -> BadProfile:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    return BadProfile("profile_bad_schema", file=relative, key=key, reason=first["msg"])


def _with_whole_lists(config: dict[str, Any]) -> dict[str, Any]:
    """The config with all module names of its `quantization_config`, as they are in config.json."""
    whole = dict(config)
    if "quantization_config" in config:
        whole["quantization_config"] = _written_out(config["quantization_config"])
    if isinstance(config.get("text_config"), dict):
        whole["text_config"] = _with_whole_lists(config["text_config"])
    return whole


def _written_out(value: Any) -> Any:
    if isinstance(value, dict):
        named: dict[str, Any] = {}
        for key, item in value.items():
            named |= dict.fromkeys(_names(key), _written_out(item))
        return named
    if isinstance(value, list):
        whole: list[Any] = []
        for item in value:
            whole.extend(_names(item) if isinstance(item, str) else [_written_out(item)])
        return whole
    return value


def _names(pattern: str) -> list[str]:
    """Module names that `layers.{0..2,5}.mlp` stands for; an expression ("re:...") is itself."""
    found = None if pattern.startswith("re:") else NUMBERS_IN_BRACES.search(pattern)
    if found is None:
        return [pattern]
    names: list[str] = []
    for part in found[1].split(","):
        first, _, last = part.partition("..")
        for number in range(int(first), int(last or first) + 1):
            names += _names(f"{pattern[: found.start()]}{number}{pattern[found.end() :]}")
    return names
