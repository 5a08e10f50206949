"""Models so small that they are measured in a blink, and a measurement of one, to be run in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "vocab_size": 500,
    "torch_dtype": "bfloat16",
}
GEMMA: dict[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 12,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "sliding_window": 32,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 2,
    "max_position_embeddings": 2048,
    "vocab_size": 500,
}
EXPERTS: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "vocab_size": 500,
}
STATE: dict[str, Any] = {
    "model_type": "mamba",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "state_size": 8,
    "vocab_size": 500,
}


def main(output: str, mark: str) -> None:
    """Measures the tiny model at so many points that somebody has to stop it; writes `mark` once there are rows."""
    import torch

    from planner.cli import main as command_line
    from planner.measure import plan, run

    torch.set_num_threads(1)
    many = tuple(plan.Point("decode", tokens, 1) for tokens in range(16, 316))
    run.points = lambda **_: many  # type: ignore[assignment]
    rows = run.Run._take

    def take(self: run.Run, row: Any) -> None:
        rows(self, row)
        if len(self.rows) == 3:
            Path(mark).write_text("three rows")

    run.FIGURE_S = {"quick": 0.02}
    run.Run._take = take  # type: ignore[method-assign]
    folder = Path(output).parent
    sys.exit(
        command_line(
            [
                *("measure", "--device", "cpu", "--quick", "--no-check", "--progress"),
                *("--model", str(folder / "config.json"), "-o", output),
            ]
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
