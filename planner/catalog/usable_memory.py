"""Memory that CUDA or an engine sees, where a profile states only what is sold or what the driver lists.

Rules fitted to the profiles that state it; a derived figure has the basis `transferred` and says which rule made it.
`tests/catalog/test_accelerators.py` holds the spreads given here against the profiles.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.catalog.loader import Figure, Source
from planner.quantity import GB, GIB, MIB, Basis

RULE = Source(
    "usable-memory-rule",
    "Rule fitted to profiles that state usable memory",
    "",
    "2026-11",
    "derived",
)
CUDA_CONTEXT_BYTES = 0.42 * GIB
CUDA_CONTEXT_FRACTION = 0.002
NVIDIA_DRIVER_FRACTION = 0.995
ROCM_HELD_BYTES = 16 * MIB
OTHER_FRACTION = 0.97


def derive_usable(vendor: str, figures: Mapping[str, Figure]) -> Figure:
    """Usable memory of a card with its own memory (bytes).

    NVIDIA: the driver's total less 0.42 GiB and 0.2 % of it. The 25 cards that state both lie between 0.7 % below and
    0.4 % above what this gives; Volta and older, whose drivers hold nothing back, up to 3 % above. Without a driver's
    total, 99.5 % of the size sold, read as GiB, takes its place: 99.5 to 99.6 % for Hopper and GDDR7, 93.3 to 100 %
    over all (ECC within GDDR6 takes 1/16).

    AMD: the size sold, read as GiB, less 16 MiB; stated totals lie within 0.8 % of that, 6.3 % below it with ECC within
    GDDR6.

    Others: 97 % of the size sold, read as GiB; stated totals range from 94.4 % (Arc) to 100.8 % (TPU v5p).

    Args:
        vendor: as in the profile.
        figures: must hold `memory_sold_bytes`; `memory_driver_bytes` is used where it is there.
    """
    sold_as_gib = figures["memory_sold_bytes"].value / GB * GIB
    if vendor == "NVIDIA":
        driver = figures.get("memory_driver_bytes")
        total = driver.value if driver else NVIDIA_DRIVER_FRACTION * sold_as_gib
        value = total - CUDA_CONTEXT_BYTES - CUDA_CONTEXT_FRACTION * total
        note = "nvidia_driver_total" if driver else "nvidia_size_sold"
    elif vendor == "AMD":
        value, note = sold_as_gib - ROCM_HELD_BYTES, "amd_size_sold"
    else:
        value, note = OTHER_FRACTION * sold_as_gib, "other_size_sold"
    return Figure(value, RULE, Basis.TRANSFERRED, note)
