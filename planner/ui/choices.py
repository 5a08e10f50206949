"""What the selects of the sidebar offer, and which of it the card and the engine can't run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from planner.catalog.accelerators import Accelerator, accelerator
from planner.catalog.devices import device_from
from planner.catalog.engines import default_engine, engine, engine_ids, runs_on
from planner.catalog.formats import (
    KVFormat,
    WeightFormat,
    kv_format,
    kv_format_ids,
    supported,
    weight_format,
    weight_format_ids,
)
from planner.catalog.search import read_index
from planner.catalog.served import may_serve
from planner.deployment import resolve_model
from planner.errors import PlannerError
from planner.quantity import GB
from planner.scenario import GivenConfig, canonical_text

# Steps of a slider over orders of magnitude: powers of two and the halves between them.
TOKEN_STOPS = tuple(
    sorted({2**power for power in range(4, 21)} | {3 * 2**power for power in range(8, 18)})
)
USER_STOPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
DTYPES = ("auto", "bf16", "fp16", "fp32")
# Of llama.cpp's many file types, those that other engines are asked for.
USUAL_GGUF = ("gguf:Q4_K_M", "gguf:Q5_K_M", "gguf:Q6_K", "gguf:Q8_0")


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a select.

    Attributes:
        runs: False where the engine has no way to run it on the card.
        nearest: id of what runs instead, or None.
    """

    id: str
    runs: bool = True
    nearest: str | None = None


@lru_cache(maxsize=1)
def model_names() -> dict[str, str]:
    """Names of the catalogue's models by id, in the order of their names."""
    entries = sorted(read_index("model"), key=lambda entry: entry.name.casefold())
    return {entry.id: entry.name for entry in entries}


@lru_cache(maxsize=1)
def model_labels() -> dict[str, str]:
    """As `model_names`, with the ids, which people paste into a search."""
    return {id_: f"{name} · {id_}" for id_, name in model_names().items()}


@lru_cache(maxsize=1)
def accelerator_labels() -> dict[str, str]:
    """As `accelerator_names`, after who makes them, which people type into a search."""
    makers = {entry.id: str(entry.fields["vendor"]) for entry in read_index("accelerator")}
    return {
        id_: name if name.startswith(makers[id_]) else f"{makers[id_]} {name}"
        for id_, name in accelerator_names().items()
    }


@lru_cache(maxsize=1)
def accelerator_names() -> dict[str, str]:
    """Names of the catalogue's accelerators by id, with the memory that the box promises."""
    names = {}
    for entry in sorted(read_index("accelerator"), key=lambda entry: entry.name.casefold()):
        size = f"{entry.fields['memory_sold_bytes'] / GB:.0f}"
        told = f"{size}GB" in entry.name.replace(" ", "")
        names[entry.id] = entry.name if told else f"{entry.name} · {size} GB"
    return names


def index_fields(kind: str, id_: str) -> dict[str, Any]:
    """What the index knows of an item; nothing of one that it doesn't hold."""
    entries = read_index("model") if kind == "model" else read_index("accelerator")
    return next((entry.fields for entry in entries if entry.id == id_), {})


def stops(all_stops: Iterable[int], current: int, limit: int | None) -> list[int]:
    """Steps of a slider up to a limit, and the current value, whatever it is."""
    return sorted({stop for stop in all_stops if limit is None or stop <= limit} | {current})


def card_of(values: Mapping[str, Any]) -> Accelerator:
    """The accelerator that a scenario's values mean: a described device, else the catalogue's.

    Raises:
        UnknownItem, InvalidInput: there is none.
    """
    text = canonical_text(values["device"])
    return accelerator(values["gpu"]) if text is None else device_from(text)


def card_name(values: Mapping[str, Any]) -> str:
    """What a person calls the accelerator that a scenario's values mean."""
    card = card_of(values)
    return accelerator_names().get(card.id.partition("@")[0], card.name)


def model_type_of(values: Mapping[str, Any]) -> str:
    """The type of the model that a scenario's values mean; "" where there is none."""
    try:
        given = GivenConfig.of(values["config"] or None)
        return resolve_model(values["model"], given).architecture.model_type
    except PlannerError:
        return ""


def engine_choices(card: Accelerator, model_type: str) -> list[Choice]:
    """The engines, first those that run on the card and may serve the type of model."""
    found = [Choice(id_, runs_on(id_, card) and may_serve(id_, model_type)) for id_ in engine_ids()]
    return sorted(found, key=lambda choice: not choice.runs)


def engine_meant(values: dict[str, Any]) -> str:
    """The engine chosen, or the one that is meant by default for this card, format and type of model."""
    if values["engine"]:
        return str(values["engine"])
    return default_engine(values["weights"], card_of(values), model_type_of(values))


def engine_name(id_: str) -> str:
    """An engine's name."""
    return engine(id_).name


def weight_choices(engine_id: str, card: Accelerator, current: str) -> list[Choice]:
    """Weight formats for this engine, first those that it runs on the card; the current one is always there."""
    ids = [
        id_
        for id_ in weight_format_ids()
        if not id_.startswith("gguf:") or engine_id == "llama.cpp" or id_ in USUAL_GGUF
    ]
    if current not in ids:
        ids.append(current)
    found = [_choice(weight_format(id_), engine_id, card) for id_ in ids]
    return sorted(found, key=lambda choice: not choice.runs)


def kv_choices(engine_id: str, card: Accelerator, current: str) -> list[Choice]:
    """Cache formats for this engine in the same order."""
    ids = list(kv_format_ids())
    if current not in ids:
        ids.append(current)
    found = [Choice("auto")]
    for id_ in ids:
        if id_ != "auto":
            choice = _choice(kv_format(id_, "fp16"), engine_id, card)
            found.append(Choice(id_, choice.runs, choice.nearest))
    return sorted(found, key=lambda choice: not choice.runs)


def _choice(format_: WeightFormat | KVFormat, engine_id: str, card: Accelerator) -> Choice:
    if isinstance(format_, WeightFormat) and format_.kind == "native":
        return Choice(format_.id)
    try:
        support = supported(format_, engine_id, card)
    except PlannerError:
        return Choice(format_.id, runs=False)
    return Choice(format_.id, support.ok, support.nearest_format)


def memory_sizes(gpu: str) -> tuple[int, ...]:
    """Sizes (GiB) to choose from where the memory is shared with the processor, else empty."""
    return accelerator(gpu.partition("@")[0]).shared_sizes_gib
