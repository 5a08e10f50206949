"""A model's folder or file: what it's read from, what's missing, and what isn't guessed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from planner.architecture.checkpoint.local import is_model_path, read_model_path
from planner.architecture.checkpoint.sizes import (
    CHECKPOINT_KEY,
    CheckpointBytes,
    Group,
    checkpoint_of,
)
from planner.cli import main
from planner.errors import InvalidConfig, InvalidInput
from tests.architecture.checkpoint import gguf_models as m
from tests.architecture.checkpoint.sentences import assert_said
from tests.architecture.checkpoint.writers import write_gguf, write_safetensors

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 1000, "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}  # fmt: skip
LAYER = [
    ("self_attn.q_proj.weight", (256, 256)), ("self_attn.k_proj.weight", (64, 256)),
    ("self_attn.v_proj.weight", (64, 256)), ("self_attn.o_proj.weight", (256, 256)),
    ("mlp.gate_proj.weight", (512, 256)), ("mlp.up_proj.weight", (512, 256)), ("mlp.down_proj.weight", (256, 512)),
    ("input_layernorm.weight", (256,)), ("post_attention_layernorm.weight", (256,)),
]  # fmt: skip
HEAD_AND_TAIL = [
    ("model.embed_tokens.weight", "BF16", (1000, 256)),
    ("model.norm.weight", "BF16", (256,)),
    ("lm_head.weight", "BF16", (1000, 256)),
]
LAYERS = [
    (f"model.layers.{layer}.{name}", "BF16", shape) for layer in range(2) for name, shape in LAYER
]
PER_LAYER = 2 * (256 * 256 + 2 * 64 * 256 + 256 * 256 + 3 * 512 * 256 + 2 * 256)
TOTAL = 2 * PER_LAYER + 2 * (2 * 1000 * 256 + 256)


def folder_with(path: Path, **changes: Any) -> Path:
    (path / "config.json").write_text(json.dumps(CONFIG | changes))
    return path


def index(path: Path, *files: str, total: int | None = None) -> Path:
    """An index that gives the first file all tensors but one for each of the others."""
    names = [name for name, _, _ in [*HEAD_AND_TAIL, *LAYERS]]
    weight_map = dict.fromkeys(names, files[0]) | dict(zip(names, files, strict=False))
    metadata = {} if total is None else {"total_size": total}
    file = path / "model.safetensors.index.json"
    file.write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}))
    return file


def held(path: Path) -> CheckpointBytes | None:
    return checkpoint_of(read_model_path(path))


def test_a_folder_with_one_file(tmp_path: Path) -> None:
    folder_with(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", [*HEAD_AND_TAIL, *LAYERS])
    for path in (tmp_path, tmp_path / "model.safetensors"):
        checkpoint = held(path)
        assert checkpoint is not None
        assert checkpoint.total_bytes == TOTAL
        assert checkpoint.tensors == 21
        assert checkpoint.by_dtype == {"BF16": TOTAL}
        assert checkpoint.by_group == {
            Group.EMBEDDING: 512_000,
            Group.HEAD: 512_000,
            Group.LAYERS: 2 * PER_LAYER + 512,
        }


def test_a_config_alone_is_read_without_its_folder(tmp_path: Path) -> None:
    folder_with(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    assert read_model_path(tmp_path / "config.json") == CONFIG


def test_an_index_with_its_files_or_with_its_total_alone(tmp_path: Path) -> None:
    folder_with(tmp_path)
    file = index(tmp_path, "model-1.safetensors", "model-2.safetensors", total=TOTAL + 7)
    by_total = held(tmp_path)
    assert by_total is not None
    assert (by_total.total_bytes, by_total.shares, by_total.tensors) == (TOTAL + 7, (), 21)
    write_safetensors(tmp_path / "model-1.safetensors", LAYERS)
    assert held(tmp_path) == by_total
    write_safetensors(tmp_path / "model-2.safetensors", HEAD_AND_TAIL)
    for path in (tmp_path, file):
        by_headers = held(path)
        assert by_headers is not None
        assert by_headers.total_bytes == TOTAL
        assert by_headers.elements == TOTAL // 2


def test_an_index_without_files_or_total_says_what_is_missing(tmp_path: Path) -> None:
    folder_with(tmp_path)
    index(tmp_path, "model-1.safetensors", "model-2.safetensors")
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(tmp_path)
    assert refusal.value.code == "checkpoint_part_missing"
    assert_said(refusal.value)
    assert refusal.value.values["missing"] == "model-1.safetensors"


def test_a_part_stands_for_its_set(tmp_path: Path) -> None:
    folder_with(tmp_path)
    first, second = (tmp_path / f"model-0000{n}-of-00002.safetensors" for n in (1, 2))
    write_safetensors(first, LAYERS)
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(first)
    assert refusal.value.values["missing"] == second.name
    write_safetensors(second, HEAD_AND_TAIL)
    for path in (first, second, tmp_path):
        checkpoint = held(path)
        assert checkpoint is not None
        assert checkpoint.total_bytes == TOTAL


def test_what_lies_beside_a_model_is_not_the_model(tmp_path: Path) -> None:
    folder_with(tmp_path)
    write_safetensors(tmp_path / "weights.safetensors", LAYERS)
    write_safetensors(tmp_path / "consolidated.safetensors", LAYERS)
    write_safetensors(tmp_path / "adapter_model.safetensors", LAYERS)
    checkpoint = held(tmp_path)
    assert checkpoint is not None
    assert checkpoint.total_bytes == 2 * PER_LAYER
    write_safetensors(tmp_path / "more.safetensors", LAYERS)
    assert held(tmp_path) is None  # which of them isn't guessed


def test_next_token_prediction_layers_are_told_by_their_number(tmp_path: Path) -> None:
    folder_with(tmp_path)
    extra = [("model.layers.2.eh_proj.weight", "BF16", (256, 512))]
    extra += [("model.layers.2.mlp.up_proj.weight", "BF16", (512, 256))]
    write_safetensors(tmp_path / "model.safetensors", [*HEAD_AND_TAIL, *LAYERS, *extra])
    checkpoint = held(tmp_path)
    assert checkpoint is not None
    assert checkpoint.by_group[Group.MTP] == 2 * 2 * 256 * 512


def test_weights_without_a_configuration(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", LAYERS)
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(tmp_path / "model.safetensors")
    assert refusal.value.code == "checkpoint_without_config"
    assert_said(refusal.value)
    with pytest.raises(InvalidConfig) as missing:
        read_model_path(tmp_path)
    assert missing.value.code == "config_not_found"


def gguf(path: Path, name: str = "model.gguf", **metadata: Any) -> Path:
    config = CONFIG | {"head_dim": 32}
    layer = [
        *m.attention(config, matrix="F16"),
        *m.norms(256, "attn_norm", "ffn_norm"),
        *m.feed_forward(256, 512, matrix="F16"),
    ]
    tensors = [*m.outer(config, tied=False, matrix="F16"), *m.layers(2, layer)]
    further = {key.replace("__", "."): value for key, value in metadata.items()}
    write_gguf(path / name, m.metadata_of("llama", config) | further, tensors)
    return path / name


def test_a_folder_with_one_gguf_beside_its_projector(tmp_path: Path) -> None:
    path = gguf(tmp_path)
    gguf(tmp_path, "mmproj-model.gguf")
    (tmp_path / "README.md").write_text("text")
    assert read_model_path(tmp_path) == read_model_path(path)


def test_a_folder_with_several_ggufs_is_not_guessed(tmp_path: Path) -> None:
    gguf(tmp_path, "a.gguf")
    gguf(tmp_path, "b.gguf")
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(tmp_path)
    assert refusal.value.code == "checkpoint_several"
    assert_said(refusal.value)
    assert refusal.value.values["files"] == ("a.gguf", "b.gguf")


def split(path: Path, *, count: int = 2, tensors_count: int | None = None) -> list[Path]:
    """A file in two parts: metadata and outer tensors, then the layers."""
    config = CONFIG | {"head_dim": 32}
    outer = list(m.outer(config, tied=False, matrix="F16"))
    layer = [
        *m.attention(config, matrix="F16"),
        *m.norms(256, "attn_norm", "ffn_norm"),
        *m.feed_forward(256, 512, matrix="F16"),
    ]
    layers = list(m.layers(2, layer))
    total = len(outer) + len(layers) if tensors_count is None else tensors_count
    parts = [path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    for number, (part, tensors) in enumerate(zip(parts, (outer, layers), strict=True)):
        metadata = {"split.no": number, "split.count": count, "split.tensors.count": total}
        if number == 0:
            metadata |= m.metadata_of("llama", config)
        write_gguf(part, metadata, tensors)
    return parts


def test_a_split_gguf_is_one_model(tmp_path: Path) -> None:
    parts = split(tmp_path)
    whole = checkpoint_of(read_model_path(gguf(tmp_path, "whole.gguf")))
    assert whole is not None
    (tmp_path / "whole.gguf").unlink()
    for path in (*parts, tmp_path):
        checkpoint = held(path)
        assert checkpoint is not None
        assert checkpoint.shares == whole.shares
    parts[1].unlink()
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(parts[0])
    assert refusal.value.code == "checkpoint_part_missing"
    assert_said(refusal.value)
    assert refusal.value.values["missing"] == parts[1].name


@pytest.mark.parametrize("wrong", [{"count": 3}, {"tensors_count": 5}])
def test_parts_that_are_not_one_set_are_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(split(tmp_path, **wrong)[0])
    assert refusal.value.code == "gguf_split"
    assert_said(refusal.value)


def test_what_names_a_model_here_and_what_is_an_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    assert not is_model_path("gpt2")
    assert not is_model_path("meta-llama/Llama-3.1-8B")
    assert not is_model_path("a\0b")
    assert not is_model_path("x" * 5000)
    assert is_model_path("nothing.gguf")
    assert is_model_path("nothing/config.json")
    folder_with(tmp_path / "gpt2")
    assert is_model_path("gpt2")


@pytest.mark.parametrize(
    "name", ["missing.gguf", "missing.safetensors", "a\0b.gguf", "x" * 5000 + ".gguf"]
)
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(f"{tmp_path}/{name}")
    assert refusal.value.code == "checkpoint_unreadable"
    assert_said(refusal.value)


def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(InvalidInput) as refusal:
        read_model_path(tmp_path / "pipe.gguf")
    assert refusal.value.code == "checkpoint_unreadable"
    assert_said(refusal.value)


def test_a_configuration_does_not_speak_for_its_files(tmp_path: Path) -> None:
    folder_with(tmp_path, **{CHECKPOINT_KEY: {"total_bytes": 1}})
    assert CHECKPOINT_KEY not in read_model_path(tmp_path)


def told(capsys: pytest.CaptureFixture[str], path: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of the command line for a model on this computer."""
    code = main(["estimate", "--model", str(path), "--gpu", "t4", "--json", "--lang", "en", *flags])
    return code, json.loads(capsys.readouterr().out)


def test_the_command_line_counts_what_the_files_hold(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder_with(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", [*HEAD_AND_TAIL, *LAYERS])
    code, answer = told(capsys, tmp_path)
    assert code == 0
    note = next(note for note in answer["assumptions"] if note["code"] == "checkpoint_bytes")
    assert note["values"]["file_bytes"] == note["values"]["loaded_bytes"] == TOTAL
    assert note["values"]["formula_bytes"] == TOTAL
    assert answer["memory"]["weights_gib"] == pytest.approx(TOTAL / 2**30, rel=1e-5)
    (tmp_path / "model.safetensors").write_bytes(b"cut off")
    code, answer = told(capsys, tmp_path)
    assert code == 1
    assert answer["error"]["code"] == "safetensors_truncated"


def test_the_command_line_answers_for_a_gguf_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = gguf(tmp_path, general__file_type=1)
    code, answer = told(capsys, path)
    assert code == 0
    assert answer["deployment"]["engine"] == "llama.cpp"
    assert answer["deployment"]["weights"] == "gguf:F16"
    assert answer["model"]["name"] == "model.gguf"
    # Two layers of two heads of 32, keys and values, in two bytes.
    assert answer["memory"]["kv_bytes_per_token"] == 2 * 2 * 32 * 2 * 2
    assert any(note["code"] == "checkpoint_bytes" for note in answer["assumptions"])
