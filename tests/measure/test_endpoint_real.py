"""The benchmark of an endpoint against a real server: `transformers serve` on a tiny random model, offline."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.measure.endpoint.prompts import WORDS
from planner.measure.record import parse_record, record_text
from tests.measure.endpoint_runs import bench

pytestmark = [pytest.mark.measure, pytest.mark.slow]
SERVE = "import sys; from transformers.cli.transformers import main; sys.exit(main())"
LONG_S = 180.0
TOKENS = {"input_tokens": 48, "output_tokens": 8}


def make_model(folder: Path) -> None:
    """A random Llama of two small layers, which never ends an answer, and a tokenizer that takes words for tokens."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(("<unk>", "<s>", *WORDS))}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        chat_template="<s> {% for message in messages %}{{ message['content'] }}{% endfor %}",
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=1024, bos_token_id=1, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A running server: its address, and its process."""
    folder = tmp_path_factory.mktemp("served")
    model = folder / "tiny"
    make_model(model)
    port = free_port()
    place = f"http://127.0.0.1:{port}/v1"
    arguments = ["serve", str(model), "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
    log = folder / "log.txt"
    with (
        log.open("w") as said,
        subprocess.Popen(
            [sys.executable, "-c", SERVE, *arguments],
            env=os.environ
            | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"},
            stdout=said,
            stderr=said,
        ) as process,
    ):
        try:
            until = time.monotonic() + LONG_S
            while not answers(place):
                assert process.poll() is None, log.read_text()[-3_000:]
                assert time.monotonic() < until, log.read_text()[-3_000:]
                time.sleep(0.2)
            yield SimpleNamespace(url=place, process=process, model=str(model))
        finally:
            process.kill()


def answers(place: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{place}/models", timeout=5.0):
        return True
    return False


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_real_server_is_measured(served: Any, api: str) -> None:
    levels = [
        {"concurrency": 1, "requests": 3},
        {"concurrency": 2, "requests": 6},
        {"rate_per_s": 20.0, "requests": 4},
    ]
    record = bench(served, api=api, lengths=[TOKENS], levels=levels, timeout_s=60.0)
    assert [row.counts for row in record.rows] == [{"done": 3}, {"done": 6}, {"done": 4}]
    for row in record.rows:
        # The server counts the words; `<s>` is the chat template's.
        assert row.scenario["input_tokens"] == TOKENS["input_tokens"]
        assert row.scenario["output_tokens"] == TOKENS["output_tokens"]
        assert not {"tokens_counted_as_pieces", "prompt_not_counted"} & set(row.notes)
        assert row.measured["ttft_s"].low <= row.measured["e2e_s"].high
        assert row.measured["tpot_s"].repeats == row.counts["done"]
    assert [row.role for row in record.rows] == ["fit", "fit", "other"]
    # It takes no field that OpenAI's API doesn't have.
    assert record.notes == ["ignore_eos_refused"]
    assert record.software["owned_by"] == "local"
    assert parse_record(record_text(record)) == record


def test_a_real_server_killed_midway_leaves_what_was_measured(served: Any) -> None:
    def told(step: dict[str, Any]) -> None:
        if step["phase"] == "requests" and step["done"] == 4:
            served.process.kill()
            served.process.wait(60.0)

    levels = [{"concurrency": 1, "requests": 2}, {"concurrency": 1, "requests": 300}]
    record = bench(served, {"listener": told}, lengths=[TOKENS], levels=levels, timeout_s=60.0)
    assert record.notes == ["ignore_eos_refused", "too_many_failures"]
    assert record.rows[0].counts == {"done": 2}
    assert record.rows[1].counts["done"] == 2
    assert record.rows[1].counts["no_connection"] >= 19
