"""What holds of every answer: bounds, order, monotony, refusals, and the same figures through every door."""

import json
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.architecture.resolve import architecture_of
from planner.catalog.accelerators import accelerator_ids
from planner.catalog.models import model_ids, model_profile
from planner.deployment import resolve
from planner.errors import InvalidInput, PlannerError, UnknownItem, Unsupported
from planner.evaluation import evaluate
from planner.memory_limits import budget_of
from planner.quantity import Estimate
from planner.scenario import Scenario
from planner.speed.step import decode_step
from planner.speed_answer import point_of

FORMATS = ("native", "fp8", "awq-int4", "nf4", "gguf:Q4_K_M")
CONCURRENCIES = (1, 32, 512)


def deployments(models: list[str], formats: tuple[str, ...] = FORMATS) -> Iterator[Scenario]:
    for model in models:
        for gpu in accelerator_ids():
            for weights in formats:
                yield Scenario(model=model, gpu=gpu, weights=weights)


@pytest.mark.parametrize("weights", ["native", "mxfp4"])
@pytest.mark.parametrize("gpu", ["rtx-4090", "apple-m4-max-40c", "rx-7900-xtx"])
def test_llama_cpp_runs_an_mxfp4_checkpoint_as_the_gguf_made_from_it(
    gpu: str, weights: str
) -> None:
    plain = Scenario.parse({"model": "openai/gpt-oss-20b", "gpu": gpu, "engine": "llama.cpp"})
    asked = evaluate(plain.replace(weights=weights))
    converted = evaluate(plain.replace(weights="gguf:MXFP4"))
    assert "converted_to_gguf" in [note.code for note in asked.assumptions]
    assert "converted_to_gguf" not in [note.code for note in converted.assumptions]
    assert asked.memory == converted.memory
    assert asked.speed == converted.speed
    # ggml-org/gpt-oss-20b-GGUF: 12.1 GB.
    assert asked.memory.weights_bytes.mid == pytest.approx(12.11e9, rel=0.003)


def test_no_other_engine_converts_an_mxfp4_checkpoint() -> None:
    found = resolve(Scenario.parse({"model": "openai/gpt-oss-20b", "gpu": "h100-sxm-80gb"}))
    assert found.engine.id == "vllm"
    assert "converted_to_gguf" not in [note.code for note in found.assumptions]


def test_no_estimate_beats_its_bound() -> None:
    """Every catalogue model on some cards, and every card with some models: mid and fast end at or above the floor."""
    every_card = list(
        deployments(["meta-llama/Llama-3.1-8B", "openai/gpt-oss-20b", "google/gemma-3-12b-it"])
    )
    every_model = [
        Scenario(model=model, gpu=gpu, weights=weights)
        for model in model_ids()
        for gpu in ("t4", "h100-sxm-80gb")
        for weights in ("native", "gguf:Q4_K_M")
    ]
    answered = 0
    for scenario in every_card + every_model:
        for concurrency in CONCURRENCIES:
            try:
                evaluation = evaluate(scenario.model_copy(update={"concurrency": concurrency}))
            except PlannerError:
                break
            speed = evaluation.speed
            answered += 1
            for bound, estimate in (
                (speed.ttft_bound_s, speed.ttft_unloaded_s),
                (speed.ttft_bound_s, speed.ttft_s),
                (speed.tpot_bound_s, speed.tpot_s),
            ):
                if bound is not None and estimate is not None:
                    assert estimate.low >= bound * (1 - 1e-9), (scenario, concurrency)
    assert answered > 3000


def test_every_catalogue_model_is_answered_or_refused_by_name() -> None:
    refused = {}
    for model in model_ids():
        try:
            evaluate(Scenario(model=model, gpu="h200-sxm-141gb", gpus=8))
        except PlannerError as error:
            refused[model] = error.code
    # 8 ranks don't divide these models' heads: a refusal that names the reason.
    assert set(refused.values()) <= {
        "heads_not_divisible",
        "format_unsupported",
        "parallelism_unsupported",
    }
    assert len(refused) < 0.2 * len(model_ids())


@pytest.mark.parametrize(
    "model", ["meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b"]
)
def test_step_time_never_falls_with_batch_or_context(model: str) -> None:
    scenario = Scenario(model=model, gpu="h200-sxm-141gb", gpus=8)
    deployment = resolve(scenario)
    batches = np.arange(1.0, 600.0)
    contexts = np.geomspace(1.0, 100_000.0, 200)
    work, hardware, calibration = deployment.work, deployment.hardware, deployment.calibration
    over_batch = decode_step(work, hardware, calibration, batches, 1024.0).total_s
    over_context = decode_step(work, hardware, calibration, 16.0, contexts).total_s
    assert np.all(np.diff(over_batch) >= -1e-15)
    assert np.all(np.diff(over_context) >= -1e-15)


@pytest.mark.parametrize("gpu", accelerator_ids())
def test_step_time_never_falls_on_any_card(gpu: str) -> None:
    for weights in ("native", "gguf:Q4_K_M"):
        try:
            deployment = resolve(Scenario(model="google/gemma-3-12b-it", gpu=gpu, weights=weights))
        except PlannerError:
            continue
        batches, contexts = np.meshgrid(np.arange(1.0, 65.0), np.geomspace(16.0, 32768.0, 40))
        total = decode_step(
            deployment.work, deployment.hardware, deployment.calibration, batches, contexts
        ).total_s
        total = np.broadcast_to(total, batches.shape)
        assert np.all(np.diff(total, axis=0) >= -1e-15)
        assert np.all(np.diff(total, axis=1) >= -1e-15)


@settings(max_examples=60)
@given(
    input_tokens=st.integers(1, 200_000),
    output_tokens=st.integers(1, 20_000),
    concurrency=st.integers(1, 4096),
    gpu=st.sampled_from(["t4", "l4", "h100-sxm-80gb", "mi300x-192gb"]),
    kv=st.sampled_from(["auto", "fp16"]),
)
def test_ranges_are_in_order_and_memory_adds_up(
    input_tokens: int, output_tokens: int, concurrency: int, gpu: str, kv: str
) -> None:
    evaluation = evaluate(
        Scenario(
            model="Qwen/Qwen3-8B",
            gpu=gpu,
            kv=kv,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            concurrency=concurrency,
        )
    )
    memory, speed = evaluation.memory, evaluation.speed
    for part in (memory, speed):
        for name in part.__dataclass_fields__:
            value = getattr(part, name)
            if isinstance(value, Estimate):
                assert 0 <= value.low <= value.mid <= value.high, name
    assert memory.reserved_bytes_per_gpu.mid <= memory.usable_bytes_per_gpu.mid
    assert speed.tpot_s is not None
    assert sum(speed.decode_parts.values()) == pytest.approx(speed.tpot_s.mid, rel=0.2)
    if memory.verdict == "fits":
        assert memory.max_concurrency.mid >= min(
            concurrency, evaluation.deployment.settings["max_num_seqs"]
        )


def test_more_users_never_make_anyone_faster() -> None:
    times = [
        evaluate(Scenario(model="Qwen/Qwen3-8B", gpu="h100-sxm-80gb", concurrency=users)).speed
        for users in (1, 2, 4, 8, 16, 32, 64, 128, 256)
    ]
    tpots = [speed.tpot_s.mid for speed in times if speed.tpot_s]
    assert tpots == sorted(tpots)
    firsts = [speed.ttft_s.mid for speed in times]
    assert firsts == sorted(firsts)


def test_parts_sum_to_the_whole() -> None:
    speed = evaluate(Scenario(model="Qwen/Qwen3-8B", gpu="h100-sxm-80gb")).speed
    assert speed.tpot_s is not None
    assert sum(speed.decode_parts.values()) == pytest.approx(speed.tpot_s.mid)
    assert sum(speed.prefill_parts.values()) == pytest.approx(speed.ttft_unloaded_s.mid)


def test_requests_beyond_the_pool_wait() -> None:
    few = evaluate(Scenario(model="Qwen/Qwen3-8B", gpu="l4", input_tokens=4000, concurrency=2))
    many = evaluate(Scenario(model="Qwen/Qwen3-8B", gpu="l4", input_tokens=4000, concurrency=64))
    assert few.speed.queue_wait_s == 0
    assert many.speed.queue_wait_s > 0
    assert many.speed.running_batch < 64
    assert many.speed.ttft_s.mid > many.speed.queue_wait_s


def test_an_embedding_model_has_no_decode() -> None:
    evaluation = evaluate(Scenario(model="BAAI/bge-m3", gpu="l4"))
    assert evaluation.speed.tpot_s is None
    assert evaluation.speed.decode_tokens_per_s is None
    assert evaluation.memory.kv_bytes_per_token.mid == 0
    assert "no_decode" in {note.code for note in evaluation.warnings}


def test_a_pasted_configuration_gives_the_catalogue_s_answer() -> None:
    config = dict(model_profile("google/gemma-3-12b-it").config)
    pasted = evaluate(Scenario(model="mine", config=config, gpu="t4", weights="nf4"))
    named = evaluate(Scenario(model="google/gemma-3-12b-it", gpu="t4", weights="nf4"))
    assert pasted.memory == named.memory
    assert pasted.speed == named.speed
    assert pasted.model.parameters == named.model.parameters
    assert architecture_of("google/gemma-3-12b-it").layers == pasted.model.layers


@pytest.mark.parametrize(
    ("values", "error", "code", "field"),
    [
        ({"model": "no-such-model", "gpu": "t4"}, UnknownItem, "unknown_model", "model"),
        ({"model": "", "gpu": "t4"}, InvalidInput, "scenario_missing", "model"),
        ({"model": "gpt2", "gpu": "no-such-gpu"}, UnknownItem, "unknown_accelerator", "gpu"),
        (
            {"model": "gpt2", "gpu": "t4", "weights": "fp7"},
            UnknownItem,
            "unknown_format",
            "weights",
        ),
        ({"model": "gpt2", "gpu": "t4", "kv": "q9"}, UnknownItem, "unknown_kv_format", "kv"),
        (
            {"model": "gpt2", "gpu": "t4", "engine": "ollama2"},
            UnknownItem,
            "unknown_engine",
            "engine",
        ),
        ({"model": "gpt2", "gpu": "t4", "dtype": "bf17"}, UnknownItem, "unknown_dtype", "dtype"),
        (
            {"model": "Qwen/Qwen3-8B", "gpu": "h100", "tp": 3},
            InvalidInput,
            "heads_not_divisible",
            "tp",
        ),
        (
            {"model": "gpt2", "gpu": "t4", "gpus": 4, "tp": 3},
            InvalidInput,
            "parallelism_mismatch",
            "gpus",
        ),
        (
            {"model": "Qwen/Qwen3-8B", "gpu": "h100", "ep": 2},
            InvalidInput,
            "expert_parallelism_mismatch",
            "ep",
        ),
        (
            {"model": "Qwen/Qwen3-8B", "gpu": "h100", "pp": 64},
            InvalidInput,
            "more_stages_than_layers",
            "pp",
        ),
        (
            {"model": "Qwen/Qwen3-8B", "gpu": "t4", "weights": "nvfp4", "engine": "transformers"},
            Unsupported,
            "format_unsupported",
            "weights",
        ),
        (
            {"model": "Qwen/Qwen3-8B", "gpu": "apple-m4-max-40c", "engine": "vllm"},
            Unsupported,
            "engine_not_on_accelerator",
            "engine",
        ),
        (
            {"model": "deepseek-ai/DeepSeek-V3", "gpu": "h200", "gpus": 8, "weights": "nf4"},
            Unsupported,
            "format_on_quantised_checkpoint",
            "weights",
        ),
    ],
)
def test_refusals_name_the_field(
    values: dict[str, object], error: type[PlannerError], code: str, field: str
) -> None:
    with pytest.raises(error) as caught:
        evaluate(Scenario.parse(values))
    assert (caught.value.code, caught.value.field) == (code, field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input_tokens", -1),
        ("input_tokens", "nan"),
        ("input_tokens", 1e30),
        ("output_tokens", "many"),
        ("concurrency", 0),
        ("gpu_memory_utilization", 1.5),
        ("gpu_memory_gib", float("inf")),
        ("gpus", 2.5),
        ("nonsense", 1),
    ],
)
def test_bad_values_name_the_field(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        Scenario.parse({"model": "gpt2", "gpu": "t4", field: value})
    assert caught.value.field == field


def test_a_scenario_survives_json() -> None:
    scenario = Scenario(model="gpt2", gpu="t4", input_tokens=77, gpu_memory_utilization=0.8)
    again = Scenario.parse(json.loads(scenario.model_dump_json()))
    assert again == scenario


def test_arrays_and_numbers_agree() -> None:
    scenario = Scenario(model="Qwen/Qwen3-30B-A3B", gpu="h100-sxm-80gb", concurrency=8)
    deployment, people = resolve(scenario), np.array([1.0, 8.0, 64.0])
    budget = budget_of(deployment, scenario)
    over = point_of(
        deployment,
        budget,
        input_tokens=1024.0,
        output_tokens=256.0,
        concurrency=people,
        max_model_len=None,
    )
    for index, users in enumerate(people):
        one = point_of(
            deployment,
            budget,
            input_tokens=1024.0,
            output_tokens=256.0,
            concurrency=float(users),
            max_model_len=None,
        )
        assert over.ttft_s[index] == pytest.approx(one.ttft_s)  # type: ignore[index]
        assert over.tpot_s[index] == pytest.approx(one.tpot_s)  # type: ignore[index]
