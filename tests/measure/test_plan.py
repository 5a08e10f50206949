"""What is built and measured: slices that keep a model's pattern, points that fit, and figures of the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.models import model_profile
from planner.errors import Unsupported
from planner.measure.bench_model import whole
from planner.measure.build import Depths, depths, rhythm, with_layers
from planner.measure.clock import OutOfMemory, spread, understood, variation_fraction
from planner.measure.plan import points
from tests.measure.tiny import GEMMA, LLAMA


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ((0,) * 32, (0, 1)),
        ((0,) * 3 + (1,) * 58, (3, 1)),
        ((0, 0, 0, 0, 0, 1) * 5 + (0, 0), (0, 6)),
        ((0, 1) * 18, (0, 2)),
    ],
    ids=["one kind", "dense first", "five and one", "alternating"],
)
def test_the_pattern_of_layers_is_found(order: tuple[int, ...], expected: tuple[int, int]) -> None:
    assert rhythm(order) == expected


def test_a_slice_has_the_first_layers_and_lists_to_match() -> None:
    cut = with_layers(GEMMA, 6)
    assert cut["num_hidden_layers"] == 6
    assert cut["layer_types"] == GEMMA["layer_types"][:6]
    nested = with_layers({"model_type": "gemma3", "text_config": GEMMA}, 6)
    assert nested["text_config"] == cut
    with pytest.raises(Unsupported):
        with_layers({"model_type": "strange"}, 2)


def test_a_model_that_fits_is_built_whole() -> None:
    assert depths(LLAMA, 2.0, 1e9, None) == Depths(4, (4,))


def test_a_model_that_does_not_fit_is_built_as_the_deepest_two_slices() -> None:
    config = model_profile("meta-llama/Llama-3.1-8B").config
    found = depths(config, 2.0, 10e9, None)
    assert found.whole == 32
    assert found.slices == (9, 18)  # 2.10 GB of embedding and head, 0.436 GB a layer
    with pytest.raises(OutOfMemory):
        depths(config, 2.0, 1e9, None)


def test_slices_keep_whole_periods_and_the_layers_before_them() -> None:
    assert depths(GEMMA, 2.0, 1e9, 11).slices == (6, 12)
    config = model_profile("deepseek-ai/DeepSeek-V3").config
    found = depths(config, 2.0, 150e9, None)
    first, second = found.slices
    assert first > 3
    assert second - 3 == 2 * (first - 3)


@given(
    fixed=st.floats(0.1, 10),
    each=st.floats(0.01, 10),
    slices=st.sampled_from([(2, 4), (3, 5), (8, 16)]),
    layers=st.integers(17, 100),
)
def test_the_whole_follows_from_two_slices(
    fixed: float, each: float, slices: tuple[int, int], layers: int
) -> None:
    found = whole([spread([fixed + each * n] * 3) for n in slices], slices, layers)
    assert found.median == pytest.approx(fixed + each * layers)
    assert found.low <= found.median <= found.high


def test_what_slices_cannot_tell_apart_the_whole_cannot_either() -> None:
    quiet = whole([spread([1.0, 1.0, 1.0]), spread([2.0, 2.0, 2.0])], (2, 4), 40)
    noisy = whole([spread([0.9, 1.0, 1.1]), spread([1.9, 2.0, 2.1])], (2, 4), 40)
    assert quiet.median == noisy.median == pytest.approx(20.0)
    assert quiet.low == quiet.high
    # 0.08 s at each end of each slice, 19 times over.
    assert noisy.high - noisy.median == pytest.approx(0.08 * (18 + 19), rel=0.01)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("on_cpu", [True, False])
def test_points_stay_inside_the_model_s_context(quick: bool, on_cpu: bool) -> None:
    whole_list = points(quick=quick, on_cpu=on_cpu, role="fit", most_tokens=100_000)
    assert {one.kind for one in whole_list} == {"prefill", "decode"}
    assert len(set(whole_list)) == len(whole_list)
    short = points(quick=quick, on_cpu=on_cpu, role="fit", most_tokens=600)
    assert short
    assert all(one.tokens < 600 for one in short)
    assert set(short) < set(whole_list)


def test_quick_has_five_prompts_and_three_contexts() -> None:
    found = points(quick=True, on_cpu=True, role="fit", most_tokens=32_768)
    assert [one.tokens for one in found if one.kind == "prefill"] == [64, 128, 256, 512, 1024]
    assert len([one for one in found if one.kind == "decode"]) == 3


def test_a_spread_is_the_middle_of_the_repeats() -> None:
    found = spread([float(n) for n in range(1, 12)])
    assert (found.low, found.median, found.high, found.repeats) == (2.0, 6.0, 10.0, 11)
    assert variation_fraction([1.0]) == 0.0
    assert variation_fraction([1.0, 3.0]) == pytest.approx(0.7071, rel=1e-3)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), "OutOfMemory"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"), "OutOfMemory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "OutOfMemory"),
        (RuntimeError("CUDA error: unspecified launch failure"), "PlannerError"),
        (RuntimeError("shapes do not match"), "RuntimeError"),
    ],
    ids=["python", "cpu", "cuda", "lost", "other"],
)  # fmt: skip
def test_an_error_of_torch_s_is_understood(error: Exception, expected: str) -> None:
    assert type(understood(error)).__name__ == expected
