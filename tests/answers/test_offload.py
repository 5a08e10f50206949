"""Layers and experts in host memory through the front door: refusals, the verdict, the order of times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.deployment import resolve
from planner.errors import InvalidInput, Unsupported
from planner.evaluation import evaluate
from planner.explain import explain
from planner.memory_answer import offload_that_fits
from planner.published import evaluation_flat, evaluation_json
from planner.quantity import Basis
from planner.scenario import Scenario
from planner.speed.bounds import tpot_bound, ttft_bound
from planner.speed.host import LENT_FROM_TOKENS, pass_seconds
from planner.speed.step import decode_step
from planner.sweeps import batch_curve, decode_rate_curve, ttft_curve

DENSE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.3-70B-Instruct",
    "gpu": "rtx-4090",
    "engine": "llama.cpp",
    "weights": "gguf:Q4_K_M",
}
MIXTURE = {**DENSE, "model": "openai/gpt-oss-120b", "weights": "gguf:MXFP4"}


def scenario(**values: Any) -> Scenario:
    return Scenario.parse({**DENSE, **values})


@pytest.mark.parametrize(
    ("values", "code", "field"),
    [
        ({"engine": "vllm", "weights": "native", "gpu_layers": 3}, "offload_engine", "gpu_layers"),
        (
            {"engine": "vllm", "weights": "native", "host_memory_gib": 64},
            "offload_engine",
            "host_memory_gib",
        ),
        ({"gpu": "apple-m4-max-40c", "gpu_layers": 3}, "offload_shared_memory", "gpu_layers"),
        ({"gpu": "gb10-dgx-spark", "gpu_layers": 3}, "offload_shared_memory", "gpu_layers"),
        ({"gpu_layers": 82}, "gpu_layers_too_many", "gpu_layers"),
        ({"cpu_expert_layers": 1}, "cpu_experts_without_experts", "cpu_expert_layers"),
    ],
)
def test_what_an_engine_or_a_card_has_no_use_for_is_refused_by_field(
    values: dict[str, Any], code: str, field: str
) -> None:
    with pytest.raises((Unsupported, InvalidInput)) as refused:
        evaluate(scenario(**values))
    assert refused.value.code == code
    assert refused.value.field == field


def test_the_remedy_fits_and_a_layer_more_does_not() -> None:
    (remedy,) = offload_that_fits(scenario())
    assert remedy[0] == "gpu_layers"
    assert evaluate(scenario(gpu_layers=remedy[1])).memory.verdict != "does_not_fit"
    assert evaluate(scenario(gpu_layers=remedy[1] + 1)).memory.verdict == "does_not_fit"
    (experts,) = offload_that_fits(scenario(**MIXTURE))
    assert experts[0] == "cpu_expert_layers"
    fits = evaluate(scenario(**MIXTURE, cpu_expert_layers=experts[1]))
    assert fits.memory.verdict != "does_not_fit"
    fewer = evaluate(scenario(**MIXTURE, cpu_expert_layers=experts[1] - 1))
    assert fewer.memory.verdict == "does_not_fit"
    codes = [note.code for note in fewer.memory.remedies]
    assert "remedy_cpu_expert_layers" in codes


def test_an_engine_that_keeps_nothing_on_the_host_has_no_such_remedy() -> None:
    assert offload_that_fits(scenario(engine="vllm", weights="native")) == ()
    assert offload_that_fits(scenario(gpu="apple-m4-max-40c")) == ()


def test_a_host_that_is_too_small_is_the_reason() -> None:
    large = evaluate(scenario(gpu_layers=40, host_memory_gib=64))
    small = evaluate(scenario(gpu_layers=40, host_memory_gib=16))
    assert large.memory.verdict == "fits"
    assert small.memory.verdict == "does_not_fit"
    assert small.memory.reason.code == "fit_host_memory_exceeded"
    assert not small.memory.starts
    assert small.memory.remedies == ()
    assert small.headline.code == "headline_host_memory"
    assert small.headline.values["host_bytes"] == 16 * 2**30
    assert small.headline.values["needed_bytes"] > 16 * 2**30
    assert small.memory.max_concurrency.high == small.memory.max_context_tokens.high == 0


def test_what_the_host_has_room_for_limits_requests_and_contexts() -> None:
    """The most that are said to be held do fit, and one more does not."""
    enough = evaluate(scenario(gpu_layers=40))
    weights = enough.memory.host_weights_bytes
    assert weights is not None
    room = {"gpu_layers": 40, "host_memory_gib": weights.mid / 2**30 + 1.0}
    held = evaluate(scenario(**room)).memory
    most = held.max_concurrency
    assert 1 < most.mid < enough.memory.max_concurrency.mid
    assert most.low <= most.mid <= most.high
    reason = "fit_host_memory_exceeded"
    assert evaluate(scenario(**room, concurrency=int(most.mid))).memory.reason.code != reason
    assert evaluate(scenario(**room, concurrency=int(most.mid) + 1)).memory.reason.code == reason
    longest = int(held.max_context_tokens.mid)
    assert longest < enough.memory.max_context_tokens.mid
    whole = evaluate(scenario(**room, input_tokens=longest - 256, output_tokens=256)).memory
    assert whole.reason.code != reason


def test_a_host_that_isn_t_described_is_assumed_with_a_wider_range() -> None:
    assumed = evaluate(scenario(gpu_layers=40))
    stated = evaluate(scenario(gpu_layers=40, host_bandwidth_gb_per_s=80))
    assert "host_bandwidth_assumed" in [note.code for note in assumed.assumptions]
    assert "host_bandwidth_assumed" not in [note.code for note in stated.assumptions]
    wide, narrow = assumed.speed.tpot_s, stated.speed.tpot_s
    assert wide is not None
    assert narrow is not None
    assert wide.mid == pytest.approx(narrow.mid)
    assert wide.low < narrow.low
    assert wide.high > narrow.high
    assert wide.basis is Basis.ASSUMED
    assert narrow.basis is Basis.TRANSFERRED
    # The floor of a host that isn't known is that of the fastest there is.
    assert assumed.speed.tpot_bound_s < stated.speed.tpot_bound_s  # type: ignore[operator]


def test_decode_by_hand() -> None:
    """One token of 70B at 40 of 81 layers: the host's bytes over what it reads, and the GPU's by itself."""
    deployment = resolve(scenario(gpu_layers=40, host_bandwidth_gb_per_s=80))
    share, machine = deployment.work.host, deployment.machine
    assert share is not None
    assert machine is not None
    held = deployment.stored.host
    assert held is not None
    assert share.held.layers == 41
    layers_bytes = deployment.stored.read_bytes_per_token_step - 0.86e9  # without the head, about
    assert share.held.read_bytes == pytest.approx(layers_bytes * 41 / 80, rel=0.05)
    context = 1000.0
    step = decode_step(deployment.work, deployment.hardware, deployment.calibration, 1.0, context)
    cache = 41 * 2 * 8 * 128 * 2 * context
    reading = (share.held.read_bytes + cache) / (machine.read_fraction * 80e9)
    assert step.host_weights_s == pytest.approx(reading)
    alone = decode_step(share.resident, deployment.hardware, deployment.calibration, 1.0, context)
    assert step.total_s == pytest.approx(alone.total_s + step.host_weights_s + step.transfer_s)
    assert step.transfer_s == pytest.approx(machine.crossing_s, rel=0.2)


def test_a_prompt_is_lent_the_weights_once_for_each_512_tokens() -> None:
    rates = resolve(scenario(gpu_layers=40, host_bandwidth_gb_per_s=80)).hardware.host_rates()
    times = [
        evaluate(
            scenario(gpu_layers=40, host_bandwidth_gb_per_s=80, input_tokens=tokens)
        ).speed.prefill_parts["transfer"]
        for tokens in (512, 513, 1024)
    ]
    held = resolve(scenario(gpu_layers=40)).work.host
    assert held is not None
    assert times[0] == pytest.approx(held.held.read_bytes / rates.link_bytes_per_s, rel=0.01)
    assert times[1] == pytest.approx(2 * times[0], rel=0.01)
    assert times[2] == pytest.approx(2 * times[0], rel=0.01)


def test_few_tokens_are_computed_by_the_host_and_many_lent() -> None:
    deployment = resolve(scenario(**MIXTURE, cpu_expert_layers=36))
    share, rates = deployment.work.host, deployment.hardware.host_rates()
    assert share is not None
    own, link = pass_seconds(share, rates, LENT_FROM_TOKENS - 1.0, 1.0, 0.0)
    assert own > link > 0.0
    own, link = pass_seconds(share, rates, LENT_FROM_TOKENS, 1.0, 0.0)
    assert own == 0.0
    assert link == pytest.approx(share.held.expert_bytes(32.0) / rates.link_bytes_per_s)
    many = np.array([1.0, 31.0, 32.0, 512.0])
    together = pass_seconds(share, rates, many, 1.0, 0.0)
    for index, tokens in enumerate(many):
        apart = pass_seconds(share, rates, float(tokens), 1.0, 0.0)
        assert together[0][index] == pytest.approx(apart[0])  # type: ignore[index]
        assert together[1][index] == pytest.approx(apart[1])  # type: ignore[index]


def test_each_layer_with_experts_apart_is_crossed_twice() -> None:
    for layers in (1, 36):
        share = resolve(scenario(**MIXTURE, cpu_expert_layers=layers)).work.host
        assert share is not None
        assert share.crossings == 2 * layers
        # Attention and caches stay on the GPU.
        assert share.held.read_bytes == 0.0
        assert sum(score.decode_flops for score in share.held.scores) == 0.0
        assert share.resident.layers == 36


@settings(deadline=None, max_examples=40)
@given(
    layers=st.integers(0, 80),
    users=st.sampled_from([1, 2, 4]),
    prompt=st.sampled_from([8, 100, 3000]),
    bandwidth=st.sampled_from([None, 40.0, 90.0, 400.0]),
)
def test_more_layers_on_the_gpu_are_never_slower_and_parts_make_the_whole(
    layers: int, users: int, prompt: int, bandwidth: float | None
) -> None:
    # A card that holds it all, so that the same number runs at once.
    at = {
        "gpu": "rtx-pro-6000-blackwell",
        "concurrency": users,
        "input_tokens": prompt,
        "host_bandwidth_gb_per_s": bandwidth,
    }
    fewer, more = (evaluate(scenario(gpu_layers=n, **at)) for n in (layers, layers + 1))
    assert more.memory.weights_bytes_per_gpu.mid > fewer.memory.weights_bytes_per_gpu.mid
    for name in ("tpot_s", "ttft_unloaded_s", "ttft_s"):
        assert getattr(more.speed, name).mid <= getattr(fewer.speed, name).mid * (1 + 1e-9)
    for one in (fewer, more):
        speed = one.speed
        assert speed.tpot_s is not None
        assert sum(speed.decode_parts.values()) == pytest.approx(speed.tpot_s.mid)
        assert sum(speed.prefill_parts.values()) == pytest.approx(speed.ttft_unloaded_s.mid)
        assert speed.tpot_s.low >= speed.tpot_bound_s  # type: ignore[operator]
        assert speed.ttft_unloaded_s.low >= speed.ttft_bound_s  # type: ignore[operator]


def test_the_floor_is_the_slower_of_host_and_gpu_not_their_sum() -> None:
    """Weights may be fetched ahead while the GPU works on its own layers."""
    for layers in (10, 70):
        found = resolve(scenario(gpu_layers=layers, host_bandwidth_gb_per_s=600))
        share = found.work.host
        assert share is not None
        gpu = tpot_bound(share.resident, found.hardware, 1.0, 0.0).seconds
        host = share.held.least_weight_bytes / 600e9
        assert tpot_bound(found.work, found.hardware, 1.0, 0.0).seconds == max(gpu, host)
        assert (host > gpu) == (layers == 10)


@pytest.mark.parametrize("gpu", ["rtx-4090", "h100-sxm-80gb"])
def test_the_floor_of_a_host_that_is_not_described_holds_for_a_server_of_two_sockets(
    gpu: str,
) -> None:
    """Two sockets with twelve channels of MRDIMM-8800 each: 2 · 12 · 8 · 8.8e9 = 1.69 TB/s."""
    unknown = evaluate(scenario(gpu=gpu, gpu_layers=0)).speed
    fast = evaluate(scenario(gpu=gpu, gpu_layers=0, host_bandwidth_gb_per_s=1690)).speed
    assert unknown.tpot_bound_s is not None
    assert fast.tpot_bound_s is not None
    assert 0.0 < unknown.tpot_bound_s <= fast.tpot_bound_s


@settings(deadline=None, max_examples=25)
@given(
    layers=st.integers(0, 36),
    batch=st.sampled_from([1.0, 3.0, 31.0, 32.0, 100.0]),
    context=st.sampled_from([16.0, 4000.0]),
)
def test_a_step_is_never_faster_than_its_floor(layers: int, batch: float, context: float) -> None:
    deployment = resolve(scenario(**MIXTURE, cpu_expert_layers=layers))
    work, hardware = deployment.work, deployment.hardware
    step = decode_step(work, hardware, deployment.calibration, batch, context)
    assert step.total_s >= tpot_bound(work, hardware, batch, context).seconds
    assert ttft_bound(work, hardware, context).seconds > 0.0


def test_an_array_of_workloads_gives_what_each_gives_alone() -> None:
    start = scenario(gpu_layers=40, host_bandwidth_gb_per_s=80)
    lengths = np.array([16.0, 700.0, 5000.0])
    first, rate = ttft_curve(start, lengths), decode_rate_curve(start, lengths)
    users = batch_curve(start, np.array([1.0, 4.0]))
    for index, tokens in enumerate(lengths):
        alone = evaluate(start.replace(input_tokens=int(tokens))).speed
        assert first.estimate.mid[index] == pytest.approx(alone.ttft_s.mid)  # type: ignore[index]
        assert first.estimate.high[index] == pytest.approx(alone.ttft_s.high)  # type: ignore[index]
        assert alone.decode_tokens_per_s is not None
        assert rate.estimate.low[index] == pytest.approx(alone.decode_tokens_per_s.low)  # type: ignore[index]
    assert np.all(users.user_rate.high >= users.user_rate.mid)


def test_what_lies_on_the_host_is_published_and_explained() -> None:
    found = evaluate(scenario(gpu_layers=40))
    row = evaluation_flat(found)
    assert row["host_weights_gib"] == pytest.approx(20.1, abs=0.2)
    assert row["host_kv_gib"] == pytest.approx(41 * 2 * 8 * 128 * 2 * 1280 / 2**30, rel=1e-3)
    parts = evaluation_json(found, lambda note: note.code)["speed"]["parts"]["decode_ms"]
    assert {"host_weights", "transfer"} <= parts.keys()
    for figure in ("tpot_s", "tpot_bound_s", "host_weights_bytes", "host_kv_bytes"):
        told = explain(found, figure)
        assert told.sources
    assert any("channels" in source.title for source in explain(found, "tpot_s").sources)
    whole = evaluate(scenario(gpu="rtx-pro-6000-blackwell"))
    assert whole.memory.host_kv_bytes is None
    assert whole.speed.decode_parts.keys().isdisjoint({"host_weights", "transfer"})


def test_which_layer_goes_to_the_gpu_last_is_the_builds_own_rule() -> None:
    """llama.cpp pull request 18148, December 2025."""
    counts = (1, 40, 80, 81)
    older, newer = (
        [
            evaluate(scenario(gpu_layers=n, engine_version=build, host_bandwidth_gb_per_s=80))
            for n in counts
        ]
        for build in ("b7400", "b8000")
    )
    for n, before, after in zip(counts, older, newer, strict=True):
        rows = [one.memory.weights_bytes_per_gpu.mid for one in (before, after)]
        assert before.memory.host_weights_bytes is not None
        assert after.memory.host_weights_bytes is not None
        if n == 81:
            assert rows[0] == rows[1]
            continue
        # One layer of 70B in Q4_K_M is smaller than its head of 128,256 rows in Q6_K, 0.86 GB.
        assert rows[0] < rows[1]
        moved = rows[1] - rows[0]
        on_host = before.memory.host_weights_bytes.mid - after.memory.host_weights_bytes.mid
        assert moved == pytest.approx(on_host)
        assert 0.2e9 < moved < 0.5e9
        held = resolve(before.scenario).work.host
        assert held is not None
        assert held.held.head_flops > 0.0
        assert held.crossings == (1.0 if n == 80 else 2.0)
        assert before.speed.tpot_s is not None
        assert before.speed.tpot_s.low >= before.speed.tpot_bound_s  # type: ignore[operator]


def test_several_gpus_share_the_layers_that_are_left() -> None:
    one = evaluate(scenario(gpu_layers=60, host_bandwidth_gb_per_s=80))
    two = evaluate(scenario(gpu_layers=60, gpus=2, host_bandwidth_gb_per_s=80))
    assert one.memory.verdict == "does_not_fit"
    assert two.memory.verdict == "fits"
    assert two.memory.host_weights_bytes == one.memory.host_weights_bytes
