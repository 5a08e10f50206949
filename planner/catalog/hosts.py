"""The machine around a card: how fast its own memory and processor are, where an engine uses them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from planner.catalog.accelerators import Accelerator
from planner.catalog.files import profile_ids
from planner.catalog.loader import Figure, read_figures, read_yaml, require
from planner.errors import MissingFigure, Unsupported
from planner.quantity import Basis

SHARED_CLASSES = frozenset({"unified", "edge"})  # the GPU's memory is the host's


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """A class of machines; every figure with its source in `figures`.

    Attributes:
        bandwidth_bytes_per_s: of its memory; most_bandwidth_bytes_per_s: that of the fastest machine of any class.
        read_fraction: share of the bandwidth that the engine's kernels on the processor reach.
        flops_per_s: rate of matrix products on the processor.
        link_fraction: share of the PCIe rate at which weights are lent to the GPU.
        crossing_s: one hand-over of a token between host and GPU (s).
        stated_band, assumed_band: relative range of the host's part of a time, with a bandwidth that is known, and
            with the one of the class.
        basis: of the bandwidth.
    """

    id: str
    name: str
    bandwidth_bytes_per_s: float
    most_bandwidth_bytes_per_s: float
    read_fraction: float
    flops_per_s: float
    link_fraction: float
    crossing_s: float
    stated_band: tuple[float, float]
    assumed_band: tuple[float, float]
    basis: Basis
    figures: dict[str, Figure]


@lru_cache(maxsize=16)
def host(id_: str) -> Host:
    """One class of machines by its id.

    Raises:
        BadProfile, MissingFigure: where its profile doesn't state what is needed.
    """
    file = f"hosts/{id_}.yaml"
    data = read_yaml(file)
    figures = read_figures(data, file)

    def value(key: str) -> float:
        return require(figures, key, file).value

    return Host(
        id=str(data["id"]),
        name=str(data["name"]),
        bandwidth_bytes_per_s=value("bandwidth_bytes_per_s"),
        most_bandwidth_bytes_per_s=value("most_bandwidth_bytes_per_s"),
        read_fraction=value("read_fraction"),
        flops_per_s=value("flops_per_s"),
        link_fraction=value("link_fraction"),
        crossing_s=value("crossing_s"),
        stated_band=(value("stated_low_fraction"), value("stated_high_fraction")),
        assumed_band=(value("assumed_low_fraction"), value("assumed_high_fraction")),
        basis=figures["bandwidth_bytes_per_s"].basis,
        figures=figures,
    )


def shares_memory(card: Accelerator) -> bool:
    """The card has no memory of its own: host and GPU use the same."""
    return card.unified is not None or card.accelerator_class in SHARED_CLASSES


def host_of(card: Accelerator) -> Host:
    """The class of machines that a card is usually put into.

    Raises:
        Unsupported: where the card's memory is the host's.
        MissingFigure: where no profile names the card's class.
    """
    if shares_memory(card):
        raise Unsupported("offload_shared_memory", field="gpu", accelerator=card.name)
    for id_ in profile_ids("hosts"):
        if card.accelerator_class in read_yaml(f"hosts/{id_}.yaml")["classes"]:
            return host(id_)
    raise MissingFigure(card.id, "host")
