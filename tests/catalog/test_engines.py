"""Engine profiles: sources, versions, defaults by card, and which engine is meant."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.accelerators import accelerator
from planner.catalog.engine_profiles import newer_than_documented, parse_version, range_for
from planner.catalog.engines import (
    default_engine,
    engine,
    engine_ids,
    engine_settings,
    require_support,
    runs_on,
    with_overrides,
)
from planner.catalog.files import profile_ids
from planner.errors import InvalidInput, UnknownItem, Unsupported
from planner.quantity import GIB, Basis


@dataclass(frozen=True)
class Card:
    name: str = "H100 SXM5 80GB"
    vendor: str = "NVIDIA"
    architecture: str = "Hopper"
    compute_capability: tuple[int, int] | None = (9, 0)


H100, L4 = Card(), Card("L4", architecture="Ada Lovelace", compute_capability=(8, 9))
A100 = Card("A100 SXM4 80GB", architecture="Ampere", compute_capability=(8, 0))


def test_there_are_five_engines_with_different_ways_to_take_memory() -> None:
    assert set(engine_ids()) == {"vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp"}
    policies = {name: engine(name).policy for name in engine_ids()}
    assert policies == {
        "vllm": "of_total",
        "sglang": "static_fraction",
        "tensorrt-llm": "of_free",
        "transformers": "grow",
        "llama.cpp": "context",
    }


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp"])
def test_every_range_has_every_figure_with_a_source(name: str) -> None:
    for part in engine(name).ranges:
        for figure in part.figures.values():
            assert figure.source.title
        tiers = {key for tier in part.tiers for key in tier.figures}
        needed = {
            "max_num_seqs",
            "max_num_batched_tokens",
            "block_size",
            "logit_bytes",
            "context_bytes",
            "runtime_library_bytes",
            "runtime_library_bytes_tensor",
            "runtime_library_bytes_pipeline",
            "graphs_bytes",
            "min_compute_capability",
            "pool_band",
        }
        assert needed <= set(part.figures) | tiers
        assert {"graphs_inside_budget", "windowed_cache", "latent_cache"} <= set(part.flags)


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp"])
def test_ranges_follow_each_other_and_hold_their_own_ends(name: str) -> None:
    profile = engine(name)
    before: tuple[int, ...] = ()
    for part in profile.ranges:
        first, last = parse_version(part.first), parse_version(part.last)
        assert before < first <= last
        assert range_for(profile, first) == (part, True)
        assert range_for(profile, last) == (part, True)
        assert range_for(profile, (*last, 99)) == (part, True)
        before = last


@pytest.mark.parametrize("version", ["0.1", "v0.4.0", "0.5.0-dev", "b0", "b10700"])
def test_llama_cpp_s_releases_come_after_its_builds(version: str) -> None:
    profile = engine("llama.cpp")
    assert range_for(profile, parse_version(version)) == (profile.ranges[-1], False)
    assert newer_than_documented(profile, version)
    assert range_for(profile, parse_version("b1900")) == (profile.ranges[0], False)


@pytest.mark.parametrize(
    ("given_name", "identifier"),
    [
        ("vLLM", "vllm"),
        ("trtllm", "tensorrt-llm"),
        ("TensorRT-LLM", "tensorrt-llm"),
        ("hf", "transformers"),
        ("llama-server", "llama.cpp"),
        ("Ollama", "llama.cpp"),
        (" sglang ", "sglang"),
    ],
)
def test_engines_have_other_names(given_name: str, identifier: str) -> None:
    assert engine(given_name).id == identifier


def test_an_unknown_engine_is_refused_with_close_names() -> None:
    with pytest.raises(UnknownItem) as caught:
        engine("vlm")
    assert "vllm" in caught.value.values["nearest"]
    assert caught.value.field == "engine"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.19", (0, 19)),
        ("v0.19.1", (0, 19, 1)),
        ("0.11.0rc2", (0, 11, 0)),
        ("0.19.1rc1.dev329+g8f89533d1", (0, 19, 1)),
        ("0.15.x", (0, 15)),
        ("b4567", (4567,)),
        ("4567", (4567,)),
        ("1.3.0rc25", (1, 3, 0)),
        ("0.5.post2", (0, 5)),
    ],
)
def test_versions_are_read_as_people_write_them(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_version(text) == numbers


@pytest.mark.parametrize("text", ["latest", "", "v", "x.y", "-1", "0..1", "nightly 2026"])
def test_what_is_not_a_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        engine_settings("vllm", text or "?", 79.19, H100)
    assert caught.value.field == "engine_version"


@given(st.text(max_size=12))
def test_any_text_is_a_version_or_refused(text: str) -> None:
    try:
        numbers = parse_version(text)
    except InvalidInput:
        return
    assert numbers
    assert all(number >= 0 for number in numbers)


@pytest.mark.parametrize(
    ("version", "utilization", "logit_bytes", "graphs_inside", "basis"),
    [
        ("0.11.0", 0.90, 38.9, False, Basis.CALIBRATED),
        ("0.16.3", 0.90, 38.9, False, Basis.CALIBRATED),
        ("0.17", 0.90, 15.0, False, Basis.CALIBRATED),
        ("0.19.1", 0.90, 15.0, False, Basis.CALIBRATED),
        ("0.20.2", 0.90, 15.0, False, Basis.TRANSFERRED),
        ("0.22", 0.92, 15.0, True, Basis.CALIBRATED),
        ("0.31", 0.92, 15.0, True, Basis.CALIBRATED),
        ("0.99", 0.92, 15.0, True, Basis.TRANSFERRED),
        ("0.2.4", 0.90, 38.9, False, Basis.TRANSFERRED),
    ],
)
def test_vllm_by_version(
    version: str, utilization: float, logit_bytes: float, graphs_inside: bool, basis: Basis
) -> None:
    settings = engine_settings("vllm", version, 79.19, H100)
    assert settings.gpu_memory_utilization == utilization
    assert settings.logit_bytes == logit_bytes
    assert settings.graphs_inside_budget is graphs_inside
    assert settings.basis is basis
    said = [note.code for note in settings.notes]
    assert said == (["engine_version_transferred"] if basis is Basis.TRANSFERRED else [])


def test_without_a_version_the_newest_is_meant_and_said() -> None:
    settings = engine_settings("vllm", None, 79.19, H100)
    assert settings.version == engine("vllm").newest
    assert [note.code for note in settings.notes] == ["engine_version_default"]
    assert settings.defaults[0] == "engine_version"
    assert "engine_version" not in engine_settings("vllm", "0.31", 79.19, H100).defaults


@pytest.mark.parametrize(
    ("card", "usable_gib", "version", "sequences", "tokens"),
    [
        (H100, 79.19, "0.19", 1024, 8192),
        (L4, 22.03, "0.19", 256, 2048),
        (A100, 79.15, "0.19", 256, 2048),
        (Card("B200 SXM", compute_capability=(10, 0)), 178.35, "0.27", 1024, 8192),
        (Card("B200 SXM", compute_capability=(10, 0)), 178.35, "0.28", 1024, 16384),
        (Card("GB10 (DGX Spark)", compute_capability=(12, 1)), 119.6, "0.24", 256, 2048),
        (Card("Instinct MI300X", "AMD", "CDNA3 (gfx942)", None), 191.98, "0.19", 1024, 8192),
    ],
)
def test_vllm_sizes_its_steps_by_the_card(
    card: Card, usable_gib: float, version: str, sequences: int, tokens: int
) -> None:
    settings = engine_settings("vllm", version, usable_gib, card)
    assert (settings.max_num_seqs, settings.max_num_batched_tokens) == (sequences, tokens)


@pytest.mark.parametrize(
    ("usable_gib", "tp", "version", "reserve_mib"),
    [
        # 512 + 1.5 · chunk + 2 · graph + 128 · ranks, at least 10 GiB above 60 GiB
        (14.56, 1, "0.5.0", 512 + 1.5 * 2048 + 2 * 8 + 128),
        (23.52, 1, "0.5.0", 512 + 1.5 * 2048 + 2 * 24 + 128),
        (23.52, 4, "0.5.0", 512 + 1.5 * 2048 + 2 * 80 + 512),
        (39.49, 1, "0.5.0", 512 + 1.5 * 4096 + 2 * 32 + 128),
        (79.19, 1, "0.5.0", 512 + 1.5 * 8192 + 2 * 256 + 128),
        (79.19, 8, "0.5.0", 512 + 1.5 * 8192 + 2 * 512 + 1024),
        (178.35, 1, "0.5.0", 512 + 1.5 * 16384 + 2 * 512 + 128),
    ],
)
def test_sglang_reserves_by_chunk_and_graphs(
    usable_gib: float, tp: int, version: str, reserve_mib: float
) -> None:
    settings = engine_settings("sglang", version, usable_gib, H100, tp=tp)
    expected = 1.0 - reserve_mib / (1024 * usable_gib)
    assert settings.gpu_memory_utilization == pytest.approx(expected, abs=0.0006)


def test_sglang_keeps_ten_gib_on_large_cards_with_small_chunks() -> None:
    small = engine_settings("sglang", "0.5.0", 60.5, H100).gpu_memory_utilization
    assert (1.0 - small) * 60.5 >= 10.0 - 0.05


def test_sglang_reserves_more_for_data_parallel_attention() -> None:
    alone = engine_settings("sglang", "0.5.0", 139.8, H100, tp=8)
    shared = engine_settings("sglang", "0.5.0", 139.8, H100, tp=8, dp=8)
    extra_mib = 512 * 8 * 4.5
    difference = alone.gpu_memory_utilization - shared.gpu_memory_utilization
    assert difference == pytest.approx(extra_mib / (139.8 * 1024), abs=0.0011)


def test_llama_cpp_by_build() -> None:
    old, new = (engine_settings("llama.cpp", build, 24.0, L4) for build in ("b4000", "b8000"))
    assert (old.max_num_seqs, old.flash_attention) == (1, False)
    assert (new.max_num_seqs, new.flash_attention) == (4, True)


def test_figures_from_other_vendors_cards_are_transferred() -> None:
    amd = Card("Instinct MI300X", "AMD", "CDNA3 (gfx942)", None)
    assert engine_settings("vllm", "0.19", 191.98, amd).basis is Basis.TRANSFERRED


def test_what_a_user_sets_is_no_default() -> None:
    settings = engine_settings("vllm", "0.19", 79.19, H100)
    changed = with_overrides(settings, gpu_memory_utilization=0.95, block_size=32)
    assert changed.shown["gpu_memory_utilization"] == 0.95
    assert changed.shown["block_size"] == 32
    assert changed.defaults == ("max_num_seqs", "max_num_batched_tokens")
    assert with_overrides(settings) is settings


@pytest.mark.parametrize(
    ("weights", "card", "expected"),
    [
        ("native", "h100-sxm-80gb", "vllm"),
        ("fp8", "mi300x-192gb", "vllm"),
        ("gguf:Q4_K_M", "rtx-4090", "llama.cpp"),
        ("native", "apple-m3-max-40c", "llama.cpp"),
        ("nf4", "apple-m3-max-40c", "llama.cpp"),
        ("nf4", "t4", "transformers"),
        ("llm-int8", "a100-sxm4-80gb", "transformers"),
        ("native", "tesla-p40", "transformers"),
        ("native", "mi50-16gb", "llama.cpp"),
        ("native", "tpu-v5e", "vllm"),
        ("native", "trainium2", "vllm"),
        ("native", "gaudi3", "vllm"),
    ],
)
def test_the_engine_that_is_meant(weights: str, card: str, expected: str) -> None:
    assert default_engine(weights, accelerator(card)) == expected


def test_every_accelerator_has_an_engine_that_runs_on_it() -> None:
    for identifier in profile_ids("accelerators"):
        card = accelerator(identifier)
        assert runs_on(default_engine("native", card), card), identifier


@pytest.mark.parametrize(
    ("name", "version", "card", "runs"),
    [
        ("vllm", "0.19", "v100-sxm2-32gb", True),
        ("vllm", "0.31", "v100-sxm2-32gb", False),
        ("vllm", "0.31", "t4", True),
        ("vllm", "0.19", "tesla-p40", False),
        ("vllm", None, "apple-m4-pro", False),
        ("vllm", None, "mi100-32gb", False),
        ("vllm", None, "mi210-64gb", True),
        ("tensorrt-llm", None, "t4", False),
        ("tensorrt-llm", None, "l4", True),
        ("tensorrt-llm", None, "mi300x-192gb", False),
        ("llama.cpp", None, "apple-m1", True),
        ("llama.cpp", None, "gaudi2", False),
        ("sglang", None, "mi210-64gb", False),
    ],
)
def test_where_engines_run(name: str, version: str | None, card: str, runs: bool) -> None:
    assert runs_on(name, accelerator(card), version) is runs


def test_an_engine_that_does_not_run_on_a_card_is_refused_with_those_that_do() -> None:
    require_support("vllm", accelerator("l4"))
    with pytest.raises(Unsupported) as caught:
        require_support("tensorrt-llm", accelerator("rx-7900-xtx"))
    assert "vllm" in caught.value.values["nearest"]


def test_a_card_without_an_engine_is_refused() -> None:
    with pytest.raises(Unsupported, match="no_engine_for_accelerator"):
        default_engine("native", Card("X1", "Nobody", "One", None))


@given(st.floats(1.0, 400.0), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_a_fraction_is_a_fraction_on_every_card(usable_gib: float, tp: int, pp: int) -> None:
    settings = engine_settings("sglang", "0.5.0", usable_gib, H100, tp=tp, pp=pp)
    assert 0.0 <= settings.gpu_memory_utilization < 1.0
    assert settings.context_bytes < 1.0 * GIB
