"""The cases that the product is measured by, through the front door: sizes, engine logs, the T4 experiment."""

import pytest

from planner.evaluation import Evaluation, evaluate
from planner.quantity import GIB, KIB, MIB
from planner.scenario import Scenario
from planner.sweeps import cache_curve, decode_rate_curve, ttft_curve


def answer(**values: object) -> Evaluation:
    return evaluate(Scenario.parse(values))


T4 = {
    "model": "google/gemma-3-12b-it",
    "gpu": "t4",
    "weights": "nf4",
    "engine": "transformers",
    "input_tokens": 2048,
}


class TestGemmaOnT4:
    def test_weights_are_what_bitsandbytes_makes_of_them(self) -> None:
        assert answer(**T4).memory.weights_bytes.mid / GIB == pytest.approx(7.75, abs=0.01)
        double = answer(**{**T4, "weights": "nf4-dq"}).memory.weights_bytes.mid / GIB
        assert 7.0 <= double <= 7.9

    def test_about_half_the_card_is_taken_after_loading(self) -> None:
        memory = answer(**T4).memory
        loaded = memory.weights_bytes_per_gpu.mid + memory.overhead_bytes_per_gpu.mid
        assert 0.45 <= loaded / memory.usable_bytes_per_gpu.mid <= 0.6

    @pytest.mark.parametrize(("tokens", "mebibytes"), [(2048, 448), (32768, 2368)])
    def test_windows_hold_the_cache_down(self, tokens: int, mebibytes: int) -> None:
        curve = cache_curve(Scenario.parse(T4), [tokens])
        assert curve.windowed_bytes[0] == mebibytes * MIB

    def test_cache_at_the_longest_context(self) -> None:
        curve = cache_curve(Scenario.parse(T4), [2048, 131072])
        assert curve.windowed_bytes[1] / GIB == pytest.approx(8.3, abs=0.02)
        assert curve.naive_bytes[0] == 768 * MIB
        assert curve.naive_bytes[1] / GIB == pytest.approx(48, abs=0.1)

    def test_decode_is_host_bound_and_flat(self) -> None:
        evaluation = answer(**T4)
        assert evaluation.speed.bound_by == "host"
        rates = decode_rate_curve(Scenario.parse(T4), [128, 512, 2048, 4096])
        assert 8 <= min(rates.estimate.mid) <= max(rates.estimate.mid) <= 14
        assert max(rates.estimate.mid) / min(rates.estimate.mid) < 1.1
        assert rates.bound is not None
        assert 36 <= min(rates.bound) <= max(rates.bound) <= 42

    def test_first_token_grows_almost_in_line_with_the_prompt(self) -> None:
        times = ttft_curve(Scenario.parse(T4), [512, 1024, 2048, 4096, 8192]).estimate.mid
        per_doubling = times[1:] / times[:-1]
        assert all(1.5 <= ratio <= 2.1 for ratio in per_doubling)
        assert times[2] >= 0.68

    def test_a_model_trained_in_bf16_is_warned_about(self) -> None:
        codes = {note.code: note for note in answer(**T4).warnings}
        assert "fp16_overflows" in codes
        assert codes["fp16_overflows"].values["fp32_ttft_s"] > 0  # type: ignore[operator]


class TestSevenCases:
    """Weights and cache of the seven models that no other calculator gets right together."""

    @pytest.mark.parametrize(
        ("values", "weights_gib", "kib_per_token"),
        [
            ({"model": "meta-llama/Llama-3.1-8B", "gpu": "l4"}, 14.96, 128),
            ({"model": "deepseek-ai/DeepSeek-V3", "gpu": "h200", "gpus": 8}, 626.9, 68.625),
            (
                {"model": "deepseek-ai/DeepSeek-V3", "gpu": "h200", "gpus": 8, "include_mtp": True},
                641.3,
                68.625,
            ),
            ({"model": "Qwen/Qwen3-30B-A3B", "gpu": "a100-sxm4-80gb"}, 56.9, 96),
            ({"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "gpu": "h100", "gpus": 4}, 148.4, 24),
            ({"model": "openai/gpt-oss-120b", "gpu": "h100"}, 60.8, 36),
            ({**T4}, 7.75, 64),
        ],
    )
    def test_weights_and_marginal_cache(
        self, values: dict[str, object], weights_gib: float, kib_per_token: float
    ) -> None:
        memory = answer(**values).memory
        assert memory.weights_bytes.mid / GIB == pytest.approx(weights_gib, rel=1e-3)
        assert memory.kv_bytes_per_token.mid == kib_per_token * KIB

    def test_grouped_heads_are_shared_by_tensor_parallel_ranks(self) -> None:
        memory = answer(
            model="meta-llama/Llama-3.1-70B-Instruct", gpu="h100", gpus=4, weights="fp8"
        ).memory
        assert memory.kv_bytes_per_token.mid == 320 * KIB
        assert memory.kv_bytes_per_token_per_gpu.mid == 80 * KIB
        assert memory.weights_bytes.mid / GIB == pytest.approx(67.7, abs=0.1)

    def test_the_latent_lies_whole_on_every_rank(self) -> None:
        memory = answer(model="deepseek-ai/DeepSeek-V3", gpu="h200", gpus=8).memory
        assert memory.kv_bytes_per_token_per_gpu.mid == memory.kv_bytes_per_token.mid == 70_272

    def test_state_is_constant_per_sequence(self) -> None:
        short = answer(model="Qwen/Qwen3-Next-80B-A3B-Instruct", gpu="h100", gpus=4)
        long = answer(
            model="Qwen/Qwen3-Next-80B-A3B-Instruct", gpu="h100", gpus=4, input_tokens=64_000
        )
        state = short.memory.state_bytes_per_sequence.mid
        assert state == long.memory.state_bytes_per_sequence.mid
        assert 38 <= state / 1e6 <= 78

    def test_half_of_the_layers_are_windowed(self) -> None:
        scenario = Scenario.parse({"model": "openai/gpt-oss-120b", "gpu": "h100"})
        curve = cache_curve(scenario, [100, 8192])
        assert curve.naive_bytes[0] == curve.windowed_bytes[0] == 100 * 72 * KIB
        assert curve.windowed_bytes[1] == (8192 + 128) * 36 * KIB


class TestVllmLogs:
    """Pools that vLLM printed (llm-d-planner accuracy report for 0.19, and an L4)."""

    @pytest.mark.parametrize(
        ("model", "pool_gib", "tokens"),
        [("meta-llama/Llama-3.1-8B", 58.1, 476_016), ("Qwen/Qwen2.5-7B", 58.53, 1_096_000)],
    )
    def test_h100(self, model: str, pool_gib: float, tokens: int) -> None:
        memory = answer(
            model=model,
            gpu="h100",
            engine="vllm",
            engine_version="0.19",
            gpu_memory_utilization=0.95,
        ).memory
        assert memory.kv_pool_bytes_per_gpu.mid / GIB == pytest.approx(pool_gib, rel=0.01)
        assert memory.engine_printed_kv_tokens is not None
        assert memory.engine_printed_kv_tokens.mid == pytest.approx(tokens, rel=0.01)

    def test_l4_does_not_get_an_h100_s_activations(self) -> None:
        memory = answer(
            model="meta-llama/Llama-3.1-8B",
            gpu="l4",
            gpu_memory_gib=22.03,
            engine="vllm",
            engine_version="0.19",
            gpu_memory_utilization=0.9,
            max_num_seqs=256,
            max_num_batched_tokens=2048,
        ).memory
        assert memory.engine_printed_kv_tokens is not None
        assert memory.engine_printed_kv_tokens.mid == pytest.approx(33_400, rel=0.03)


def test_gemma_4_12b_is_a_model_of_its_own() -> None:
    evaluation = answer(model="gemma 4 12b", gpu="l4")
    assert "gemma-4-12" in evaluation.model.id.lower()
    assert evaluation.model.stand_in_for == ""
