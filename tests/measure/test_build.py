"""Models built on the device with random weights: finite, tied where they are, and quantised where that is asked."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from planner.errors import Unsupported
from planner.measure.build import build, configured
from planner.measure.clock import Timer
from tests.measure.tiny import EXPERTS, GEMMA, LLAMA, STATE

pytestmark = pytest.mark.measure
CPU = Timer("cpu", "cpu")


@pytest.mark.parametrize("config", [LLAMA, GEMMA, EXPERTS, STATE], ids=lambda c: c["model_type"])
def test_outputs_are_finite_and_differ(config: dict[str, Any]) -> None:
    import torch

    built = build(config, "fp32", "native", CPU)
    with torch.inference_mode():
        out = built.model(input_ids=torch.arange(8).view(1, 8)).logits
    assert bool(out.isfinite().all())
    assert float(out.std()) > 0.0
    assert built.layers == config["num_hidden_layers"]


def test_a_tied_head_is_counted_once() -> None:
    tied = build(LLAMA, "fp32", "native", CPU)
    apart = build(LLAMA | {"tie_word_embeddings": False}, "fp32", "native", CPU)
    assert apart.weights_bytes - tied.weights_bytes == 500 * 64 * 4


def test_a_slice_has_its_layers() -> None:
    assert build(GEMMA, "fp32", "native", CPU, 6).layers == 6


def test_a_checkpoint_s_own_quantisation_is_left_out() -> None:
    config = LLAMA | {"quantization_config": {"quant_method": "awq", "bits": 4}}
    assert build(config, "bf16", "native", CPU).weights_bytes == pytest.approx(
        build(LLAMA, "bf16", "native", CPU).weights_bytes
    )


@pytest.mark.parametrize(
    "config",
    [{"model_type": "nobody-knows", "num_hidden_layers": 2}, LLAMA | {"hidden_size": "many"}],
    ids=["type", "value"],
)
def test_what_transformers_cannot_build_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(Unsupported) as refusal:
        configured(config)
    assert refusal.value.code == "model_not_buildable"


def fake_bitsandbytes() -> ModuleType:
    """Its classes as far as they are asked for: half a byte or a byte per weight, and scales."""
    import torch

    class Params(torch.nn.Parameter):
        pass

    class Layer(torch.nn.Module):
        def __init__(self, rows: int, columns: int, bias: bool, **settings: Any) -> None:
            super().__init__()
            self.settings, self.weight, self.bias = settings, None, None

    def packed(weight: Any, requires_grad: bool, **settings: Any) -> Any:
        per_byte = 2 if settings else 1
        found = torch.nn.Parameter(
            torch.zeros(weight.numel() // per_byte, dtype=torch.uint8), requires_grad=requires_grad
        )
        scales = torch.zeros(weight.shape[0], dtype=torch.float32)
        if settings:
            found.quant_state = SimpleNamespace(absmax=scales)  # type: ignore[attr-defined]
        else:
            found.SCB = scales  # type: ignore[attr-defined]
        return found

    module: Any = ModuleType("bitsandbytes")
    module.nn = SimpleNamespace(
        Linear4bit=Layer, Linear8bitLt=Layer, Params4bit=packed, Int8Params=packed
    )
    return module


@pytest.mark.parametrize(("weights", "per_weight"), [("nf4", 0.5), ("llm-int8", 1.0)])
def test_linear_layers_are_replaced_and_the_head_is_not(
    monkeypatch: pytest.MonkeyPatch, weights: str, per_weight: float
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", fake_bitsandbytes())
    config = LLAMA | {"tie_word_embeddings": False}
    plain = build(config, "bf16", "native", CPU)
    built = build(config, "bf16", weights, CPU)
    kinds = {name: type(one).__name__ for name, one in built.model.named_modules()}
    assert kinds["lm_head"] == "Linear"
    assert {kind for name, kind in kinds.items() if name.endswith("_proj")} == {"Layer"}
    linear = 4 * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 128 * 3)
    scales = 4 * 4 * (64 + 32 + 32 + 64 + 128 + 128 + 64)
    assert built.weights_bytes == plain.weights_bytes - linear * (2.0 - per_weight) + scales


def test_without_bitsandbytes_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(Unsupported) as refusal:
        build(LLAMA, "bf16", "nf4", CPU)
    assert refusal.value.code == "bitsandbytes_missing"
