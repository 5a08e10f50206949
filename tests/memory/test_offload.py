"""Where llama.cpp puts layers, by its own rule, and that nothing is lost between GPU and host."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.architecture.cache import cache_bytes, cache_layout
from planner.architecture.resolve import architecture_of
from planner.catalog.formats import kv_format
from planner.errors import InvalidInput, Unsupported
from planner.memory.layouts import layouts_of
from planner.memory.offload import Offload, gpu_stages, segments
from planner.memory.weights import StoredWeights, stored_weights
from planner.scenario import Parallelism
from tests.memory.budgets import settings_of

DENSE, TIED, MIXTURE = "Qwen/Qwen3-14B", "google/gemma-3-12b-it", "Qwen/Qwen3-30B-A3B"
DEEPSEEK = "deepseek-ai/DeepSeek-V3"  # its first three layers have no experts


def stored(model: str, offload: Offload | None, pp: int = 1) -> StoredWeights:
    return stored_weights(
        architecture_of(model), "gguf:Q4_K_M", Parallelism(pp=pp), "fp16", offload=offload
    )


@pytest.mark.parametrize(
    ("gpu_layers", "host_layers", "head_on_host"),
    [(None, 0, False), (41, 0, False), (40, 1, False), (1, 40, False), (0, 40, True)],
)
def test_the_output_layer_goes_to_the_gpu_first_and_then_the_last_layers(
    gpu_layers: int | None, host_layers: int, head_on_host: bool
) -> None:
    found = Offload.resolve(architecture_of(DENSE), gpu_layers, None)
    assert (found.host_layers, found.head_on_host) == (host_layers, head_on_host)


@pytest.mark.parametrize(
    ("gpu_layers", "host_layers", "head_on_host"),
    [(None, 0, False), (41, 0, False), (40, 0, True), (39, 1, True), (1, 39, True), (0, 40, True)],
)
def test_in_older_builds_the_output_layer_goes_to_the_gpu_last(
    gpu_layers: int | None, host_layers: int, head_on_host: bool
) -> None:
    """DeepSeek-R1-Distill-Qwen-14B, -ngl 48 of 49 (llama.cpp issue 11752): all layers, but not the output."""
    found = Offload.resolve(architecture_of(DENSE), gpu_layers, None, output_first=False)
    assert (found.host_layers, found.head_on_host) == (host_layers, head_on_host)


def test_layers_lie_in_order_and_none_is_lost() -> None:
    parts = list(segments(40, 3, Offload(host_layers=7, expert_layers=20)))
    assert [one.first for one in parts[1:]] == [one.last for one in parts[:-1]]
    assert (parts[0].first, parts[-1].last) == (0, 40)
    assert parts[0].on_host
    assert not any(one.on_host for one in parts[1:])
    apart = [layer for one in parts if one.experts_on_host for layer in range(one.first, one.last)]
    assert apart == list(range(20))
    assert [first for first, _ in gpu_stages(40, 3, Offload(host_layers=7))] == [7, 18, 29]


@pytest.mark.parametrize("model", [DENSE, TIED, MIXTURE, DEEPSEEK])
def test_the_embedding_alone_leaves_a_gpu_that_holds_all_layers(model: str) -> None:
    whole, without = stored(model, Offload()), stored(model, None)
    assert whole.host is not None
    embedding = whole.host.total_bytes
    architecture = architecture_of(model)
    # A tied table is also the head, which the GPU needs as well.
    twice = embedding if architecture.tied else 0.0
    assert whole.rank_bytes + embedding == pytest.approx(without.rank_bytes + twice)
    assert whole.total_bytes == without.total_bytes
    assert whole.host.read_bytes_per_token_step == 0.0
    assert not whole.host.experts


@settings(deadline=None, max_examples=40)
@given(
    model=st.sampled_from([DENSE, TIED, MIXTURE, DEEPSEEK]),
    layers=st.integers(0, 62),
    experts=st.integers(0, 61),
)
def test_every_byte_lies_on_one_side_and_each_layer_moved_frees_the_gpu(
    model: str, layers: int, experts: int
) -> None:
    architecture = architecture_of(model)
    count = architecture.layers
    experts = min(experts, count) if model in (MIXTURE, DEEPSEEK) else 0
    layers = min(layers, count)
    here = stored(model, Offload.resolve(architecture, layers, experts))
    assert here.host is not None
    twice = here.rank_bytes + here.host.total_bytes - here.total_bytes
    head = stored(model, Offload()).host
    assert head is not None
    expected = head.total_bytes if architecture.tied and layers else 0.0
    assert twice == pytest.approx(expected, abs=1e3)
    more = stored(model, Offload.resolve(architecture, layers + 1, experts))
    assert more.rank_bytes > here.rank_bytes
    assert more.host is not None
    assert more.host.read_bytes_per_token_step <= here.host.read_bytes_per_token_step
    assert here.host.read_bytes_per_token_step <= here.read_bytes_per_token_step * (1 + 1e-12)


def test_experts_alone_are_moved_by_layer() -> None:
    architecture = architecture_of(DEEPSEEK)
    first = stored(DEEPSEEK, Offload.resolve(architecture, None, 3))
    assert first.host is not None
    assert not first.host.experts  # the first three layers are dense
    ten = stored(DEEPSEEK, Offload.resolve(architecture, None, 10))
    assert ten.host is not None
    assert [(group.layers, group.experts) for group in ten.host.experts] == [(7, 256)]
    assert ten.host.read_bytes_per_token_step == 0.0
    assert first.rank_bytes - ten.rank_bytes == pytest.approx(ten.host.experts[0].total_bytes)


def test_a_layer_s_cache_lies_where_its_attention_runs() -> None:
    architecture = architecture_of(DENSE)
    options = settings_of("llama.cpp", "b8000", 79.19)
    kv = kv_format("auto", "fp16")
    found = layouts_of(
        architecture, kv, 2.0, options, Parallelism(), Offload(host_layers=10, expert_layers=20)
    )
    each = cache_bytes(cache_layout(architecture, 2.0, 2.0, 2.0), 4096.0) / architecture.layers
    assert cache_bytes(found.host, 4096.0) == pytest.approx(10 * each)
    assert cache_bytes(found.rank, 4096.0) == pytest.approx(30 * each)
    assert cache_bytes(found.resident, 4096.0) == pytest.approx(30 * each)
    assert cache_bytes(found.model, 4096.0) == pytest.approx(40 * each)


@pytest.mark.parametrize(
    ("model", "gpu_layers", "experts", "code"),
    [
        (DENSE, 42, None, "gpu_layers_too_many"),
        (DENSE, None, 3, "cpu_experts_without_experts"),
        (MIXTURE, None, 49, "cpu_expert_layers_too_many"),
    ],
)
def test_what_there_isn_t_can_t_be_moved(
    model: str, gpu_layers: int | None, experts: int | None, code: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Offload.resolve(architecture_of(model), gpu_layers, experts)
    assert refused.value.code == code


def test_a_model_with_an_encoder_is_refused() -> None:
    with pytest.raises(Unsupported) as refused:
        Offload.resolve(architecture_of("openai/whisper-large-v3"), 3, None)
    assert refused.value.code == "offload_encoder"
