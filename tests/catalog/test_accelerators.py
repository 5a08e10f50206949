"""Accelerators: every profile loads, its figures hang together, and the rules for what isn't stated hold."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from planner.catalog import accelerators, loader, search
from planner.catalog.accelerators import (
    FIGURE_KEYS,
    PEAK_KEYS,
    Accelerator,
    accelerator,
    accelerator_from,
    accelerator_ids,
    accelerator_table,
)
from planner.catalog.files import profile_ids
from planner.catalog.usable_memory import derive_usable
from planner.errors import BadProfile, MissingFigure, UnknownItem
from planner.quantity import GB, GIB, Basis

IDS = profile_ids("accelerators")
T4 = "accelerators/t4.yaml"


def usable_gib(name: str) -> float:
    return accelerator(name).memory_usable_bytes / GIB


@pytest.fixture
def t4_data() -> dict[str, Any]:
    return copy.deepcopy(loader.read_yaml(T4))


# --- Every profile --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id_", IDS)
def test_every_profile_loads_and_hangs_together(id_: str) -> None:
    part = accelerator(id_)
    assert part.id == id_
    assert 4e9 <= part.memory_sold_bytes <= 6e11
    assert 5e10 <= part.bandwidth_bytes_per_s <= 3e13
    # Sold sizes are decimal on the box and binary in the chip; the compiler's limit of TPU v5p is 96 of "95".
    assert 0.6 * GIB / GB < part.memory_usable_bytes / part.memory_sold_bytes < 1.01 * GIB / GB
    assert part.memory_usable_bytes <= part.figures.get(
        "memory_driver_bytes", part.figures["memory_usable_bytes"]
    ).value * (1 + 1e-6)
    for key, (least, most) in {"tdp_w": (10, 3000), "sm_count": (1, 1000)}.items():
        assert not part.has(key) or least <= part.value(key) <= most
    assert part.notes.strip()
    assert part.peaks, "a part without any peak can't be planned with"


@pytest.mark.parametrize("id_", IDS)
def test_peaks_are_in_order(id_: str) -> None:
    peaks = accelerator(id_).peaks
    for slower, faster in itertools.pairwise(("bf16", "fp8", "fp4")):
        if slower in peaks and faster in peaks:
            assert peaks[faster] >= peaks[slower]
    for dtype in ("fp16", "fp8"):
        if f"{dtype}_fp16acc" in peaks:
            assert peaks[f"{dtype}_fp16acc"] >= peaks[dtype]
    if {"fp16", "tf32"} <= peaks.keys():
        assert peaks["fp16"] >= peaks["tf32"]
    assert all(1e10 <= peak <= 1e17 for peak in peaks.values())


@pytest.mark.parametrize("id_", IDS)
def test_what_no_second_source_confirms_is_marked(id_: str) -> None:
    part = accelerator(id_)
    assert [key for key in part.unverified if part.figure(key).basis is Basis.EXACT] == []
    recalled = [key for key, figure in part.figures.items() if figure.source.kind == "assumed"]
    assert [key for key in recalled if part.figure(key).basis is not Basis.ASSUMED] == []


def test_shared_memory_has_sizes_and_a_limit() -> None:
    for part in accelerator_table().accelerators:
        shared = part.accelerator_class in {"unified", "edge"}
        assert (part.unified is not None) == shared
        if part.unified:
            assert part.shared_sizes_gib[-1] == round(part.memory_sold_bytes / GB)
            assert part.unified.note


# --- Figures that are known -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gib"),
    [("t4", 14.56), ("h100", 79.19), ("l4", 22.03), ("rtx 4090", 23.52), ("b200", 178.35)],
)
def test_usable_memory_is_what_engines_print(name: str, gib: float) -> None:
    assert usable_gib(name) == pytest.approx(gib, abs=0.005)
    assert accelerator(name).memory_usable.basis is Basis.MEASURED


@pytest.mark.parametrize(
    ("name", "dtype", "teraflops"),
    [
        ("t4", "fp16", 65),
        ("l4", "fp16", 121),
        ("l4", "fp8", 242.5),
        ("a10g", "fp16", 70),
        ("a100 80gb", "bf16", 312),
        ("h100", "bf16", 989.4),
        ("h100", "fp8", 1978.9),
        ("rtx 4090", "fp16", 165.2),
        ("mi300x", "bf16", 1307.4),
        ("tpu v5e", "bf16", 197),
    ],
)
def test_peaks_are_dense_and_accumulate_as_engines_do(
    name: str, dtype: str, teraflops: float
) -> None:
    assert accelerator(name).peak_flops_per_s(dtype) == pytest.approx(teraflops * 1e12)


def test_what_the_hardware_lacks_is_missing_not_zero() -> None:
    t4 = accelerator("t4")
    assert not t4.has_peak("bf16")
    with pytest.raises(MissingFigure) as missing:
        t4.peak_flops_per_s("bf16")
    assert missing.value.values == {"profile": "t4", "key": "peak_bf16_flops_per_s"}
    with pytest.raises(MissingFigure):
        accelerator("apple-m1").value("tdp_w")


def test_links_are_per_device_and_direction() -> None:
    assert accelerator("h100").link_bytes_per_s == pytest.approx(450e9)
    assert accelerator("l4").link_bytes_per_s == pytest.approx(16 * 1.969e9)
    with pytest.raises(MissingFigure):
        _ = accelerator("apple-m1").link_bytes_per_s


def test_a_common_figure_is_a_plain_number() -> None:
    part = accelerator("h100-sxm-80gb")
    for value in (part.memory_usable_bytes, part.bandwidth_bytes_per_s, part.l2_bytes, part.tdp_w):
        assert type(value) is float
    assert type(part.peak_flops_per_s("bf16")) is float
    assert part.compute_capability == (9, 0)
    assert accelerator("h100") is part


# --- Usable memory where it isn't stated ----------------------------------------------------------------------------


def relative_errors(vendor: str, *, with_driver: bool) -> dict[str, float]:
    """Stated usable memory relative to what the rule gives, for cards with measured totals."""
    errors = {}
    for part in accelerator_table().accelerators:
        stated = part.memory_usable
        if part.vendor != vendor or stated.basis is not Basis.MEASURED or part.unified:
            continue
        if part.has("memory_driver_bytes") == with_driver:
            rule = derive_usable(vendor, part.figures)
            errors[part.id] = stated.value / rule.value - 1
    return errors


def test_the_rule_for_nvidia_is_as_good_as_it_says() -> None:
    errors = relative_errors("NVIDIA", with_driver=True)
    volta = [errors.pop(id_) for id_ in list(errors) if id_.startswith("v100")]
    assert len(errors) == 25
    assert min(errors.values()) >= -0.004
    assert max(errors.values()) <= 0.007
    assert max(volta) <= 0.03


def test_the_rule_for_amd_is_as_good_as_it_says() -> None:
    errors = relative_errors("AMD", with_driver=False)
    assert errors.pop("radeon-pro-w7900") == pytest.approx(-0.063, abs=0.001)
    assert len(errors) == 7
    assert max(map(abs, errors.values())) <= 0.008


def test_a_derived_figure_says_so() -> None:
    part = accelerator("a30")
    assert part.memory_usable.basis is Basis.TRANSFERRED
    assert part.memory_usable.source.kind == "derived"
    assert part.memory_usable.note == "nvidia_driver_total"
    assert usable_gib("a30") == pytest.approx(24 - 0.42 - 0.048)
    assert usable_gib("mi325x") == pytest.approx(256 - 1 / 64)


def test_shared_memory_comes_in_sizes() -> None:
    whole, half = accelerator("m4 max"), accelerator("apple-m4-max-40c@64")
    assert whole.shared_sizes_gib == (48, 64, 128)
    assert usable_gib("m4 max") == pytest.approx(107.52)
    assert half.id == "apple-m4-max-40c@64"
    assert half.memory_sold_bytes == 64e9
    assert half.memory_usable_bytes == pytest.approx(0.81 * 64 * GIB)
    assert half.bandwidth_bytes_per_s == whole.bandwidth_bytes_per_s
    assert accelerator("M4 Max 64GB").id == half.id
    assert accelerator("mi300x 192gb") is accelerator("mi300x")


# --- Names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("H100", "h100-sxm-80gb"),
        ("A100 80GB", "a100-sxm4-80gb"),
        ("m3 max", "apple-m3-max-40c"),
        ("Intel(R) Arc(TM) A770 Graphics", "arc-a770-16gb"),
        ("AMD Instinct MI300X", "mi300x-192gb"),
    ],
)
def test_names_that_people_and_tools_use(name: str, id_: str) -> None:
    assert accelerator(name).id == id_


@pytest.mark.parametrize(
    "name", ["a100", "v100", "", "nvidia", "no such card", "t4 32gb", "4060 ti"]
)
def test_an_unclear_name_is_refused_with_suggestions(name: str) -> None:
    with pytest.raises(UnknownItem) as unknown:
        accelerator(name)
    assert unknown.value.code == "unknown_accelerator"
    assert unknown.value.field == "gpu"
    assert len(unknown.value.values["nearest"]) <= 5
    assert all(accelerator(id_) for id_ in unknown.value.values["nearest"])


def test_suggestions_are_close() -> None:
    with pytest.raises(UnknownItem) as unknown:
        accelerator("a100")
    assert all("a100" in id_ for id_ in unknown.value.values["nearest"][:4])
    with pytest.raises(UnknownItem) as unknown:
        accelerator("m3 max 32gb")
    assert unknown.value.values["nearest"] == tuple(
        f"apple-m3-max-40c@{size}" for size in (48, 64, 128)
    )


# --- The table ------------------------------------------------------------------------------------------------------


def test_the_table_holds_every_figure() -> None:
    table = accelerator_table()
    assert table.ids == accelerator_ids() == IDS
    assert set(table.figures) == set(FIGURE_KEYS)
    assert all(column.shape == (len(IDS),) for column in table.figures.values())
    assert not np.isnan(table.memory_usable_bytes).any()
    assert not np.isnan(table.bandwidth_bytes_per_s).any()
    row = table.ids.index("t4")
    assert np.isnan(table.peak_flops_per_s("bf16")[row])
    assert table.peak_flops_per_s("fp16")[row] == 65e12
    assert set(PEAK_KEYS.values()) <= set(table.figures)
    assert accelerator_table() is table


# --- What doesn't load ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"surprise": 1}, "profile_bad_schema"),
        ({"year": "2018"}, "profile_bad_schema"),
        ({"class": "gaming"}, "profile_bad_schema"),
        ({"id": "t5"}, "profile_bad_schema"),
        ({"source": "nobody"}, "profile_bad_schema"),
        ({"unverified": ["peak_bf16_flops_per_s"]}, "profile_bad_schema"),
        ({"compute_capability": 7.5}, "profile_bad_schema"),
    ],
)
def test_a_broken_profile_does_not_load(
    t4_data: dict[str, Any], change: dict[str, Any], code: str
) -> None:
    with pytest.raises(BadProfile) as bad:
        accelerator_from(t4_data | change, T4)
    assert bad.value.code == code
    assert bad.value.values["file"] == T4


@pytest.mark.parametrize(
    ("key", "figure", "code"),
    [
        ("bandwidth_bytes_per_s", "3.2e11", "profile_bad_schema"),
        ("bandwidth_bytes_per_s", None, "profile_bad_schema"),
        ("bandwidth_bytes_per_s", -1.0, "profile_bad_schema"),
        ("bandwidth_bytes_per_s", True, "profile_bad_schema"),
        ("bandwidth_gb_per_s", 320, "profile_bad_schema"),
        ("tdp_w", {"value": 70, "source": "nobody"}, "profile_figure_without_source"),
        ("tdp_w", {"value": 70, "basis": "gut feeling"}, "profile_bad_schema"),
        ("tdp_w", {"value": 70, "watt": 70}, "profile_bad_schema"),
    ],
)
def test_a_broken_figure_does_not_load(
    t4_data: dict[str, Any], key: str, figure: object, code: str
) -> None:
    t4_data["figures"][key] = figure
    with pytest.raises(BadProfile) as bad:
        accelerator_from(t4_data, T4)
    assert bad.value.code == code


@pytest.fixture
def own_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, t4_data: dict[str, Any]
) -> Iterator[Path]:
    """An empty folder in the place of the project's profiles, after `t4_data` was read; no cache outlives it."""
    caches = (
        loader.read_yaml,
        search.read_index,
        search._exact_names,
        search._haystacks,
        search._vocabulary,
        search._scores,
        search.nearest,
        accelerators._whole,
        accelerators._with_size,
        accelerator,
        accelerator_table,
    )
    monkeypatch.setenv("HEADROOM_PROFILES", str(tmp_path))
    (tmp_path / "accelerators").mkdir()
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


def test_an_operator_can_keep_other_profiles(own_profiles: Path, t4_data: dict[str, Any]) -> None:
    own = t4_data | {"id": "own", "name": "Own card", "aliases": ["my card"]}
    (own_profiles / "accelerators" / "own.yaml").write_text(yaml.safe_dump(own))
    index = '{"accelerators": [{"id": "own", "name": "Own card", "aliases": ["my card"]}]}'
    (own_profiles / "index.json").write_text(index)
    assert accelerator_ids() == ("own",)
    part: Accelerator = accelerator("My Card")
    assert part.memory_usable_bytes / GIB == pytest.approx(14.56, abs=0.005)
    with pytest.raises(UnknownItem):
        accelerator("t4")


def test_a_folder_without_an_index_is_refused(own_profiles: Path) -> None:
    with pytest.raises(BadProfile) as bad:
        accelerator("t4")
    assert bad.value.code == "profile_unreadable"
    (own_profiles / "index.json").write_text("[]")
    with pytest.raises(BadProfile):
        accelerator("t4")
