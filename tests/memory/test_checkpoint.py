"""Weights by a checkpoint's own bytes: the formula's where they agree, the files' where they don't, and said so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.architecture.checkpoint.local import read_model_path
from planner.architecture.checkpoint.sizes import (
    CheckpointBytes,
    Group,
    Share,
    group_of_part,
    with_checkpoint,
)
from planner.architecture.resolve import architecture_of
from planner.architecture.spec import Architecture, Part
from planner.catalog.models import model_profile
from planner.deployment import resolve
from planner.errors import Unsupported
from planner.evaluation import evaluate
from planner.memory.checkpoint import own_format, weights_by_checkpoint
from planner.memory.gguf import gguf_encodings
from planner.memory.weights import stored_weights
from planner.scenario import Parallelism, Scenario
from tests.architecture.checkpoint.test_gguf_config import CASES
from tests.architecture.checkpoint.writers import write_gguf

ONE = Parallelism()
DTYPES = {"bfloat16": ("BF16", 2), "float16": ("F16", 2), "float32": ("F32", 4)}
NATIVE = [
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-30B-A3B",
    "google/gemma-3-12b-it",
    "openai-community/gpt2",
]


def by_formula(architecture: Architecture, *, mtp: bool = True) -> CheckpointBytes:
    """The checkpoint that a formula expects: every weight in the storage type."""
    name, size = DTYPES[architecture.dtype]
    sums: dict[tuple[Group, str], list[int]] = {}
    groups = [(weight, 1) for weight in architecture.outer]
    groups += [(w, count) for kind, count in architecture.kind_counts for w in kind.weights]
    groups += [(weight, 1) for tower in architecture.towers for weight in tower.weights]
    groups += [(weight, 1) for weight in architecture.mtp] if mtp else []
    for weight, count in groups:
        dtype, each = DTYPES[weight.dtype] if weight.dtype else (name, size)
        total = sums.setdefault((group_of_part(weight.part), dtype), [0, 0])
        total[0] += weight.elements * count
        total[1] += weight.elements * count * each
    shares = tuple(Share(*key, *total) for key, total in sums.items())
    return CheckpointBytes("safetensors", "x", 9, sum(one.bytes for one in shares), shares)


@pytest.mark.parametrize(
    "model_id", [*NATIVE, "deepseek-ai/DeepSeek-V2-Lite", "zai-org/GLM-4.5-Air"]
)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("parallelism", [ONE, Parallelism(tp=4), Parallelism(tp=2, pp=2)])
def test_files_as_expected_change_nothing(
    model_id: str, dtype: str, parallelism: Parallelism
) -> None:
    architecture = architecture_of(model_id)
    formula = stored_weights(architecture, "native", parallelism, dtype)
    found = weights_by_checkpoint(
        architecture, by_formula(architecture), "native", parallelism, dtype
    )
    single = stored_weights(architecture, "native", ONE, dtype)
    assert found.total_bytes == pytest.approx(single.total_bytes, rel=1e-12)
    assert found.rank_bytes == pytest.approx(formula.rank_bytes, rel=1e-12)
    assert found.stage_bytes == pytest.approx(formula.stage_bytes, rel=1e-12)
    assert found.read_bytes_per_token_step == pytest.approx(formula.read_bytes_per_token_step)
    assert found.by_part == pytest.approx(formula.by_part)
    for ours, theirs in zip(found.experts, formula.experts, strict=True):
        assert ours.total_bytes == pytest.approx(theirs.total_bytes)
    note = found.notes[0]
    assert note.code == "checkpoint_bytes"
    assert note.values["difference_fraction"] == pytest.approx(0.0, abs=1e-12)


def scaled(checkpoint: CheckpointBytes, group: Group, factor: int) -> CheckpointBytes:
    """The same with more of one group."""
    shares = tuple(
        replace(one, elements=one.elements * factor, bytes=one.bytes * factor)
        if one.group is group
        else one
        for one in checkpoint.shares
    )
    return replace(checkpoint, shares=shares, total_bytes=sum(one.bytes for one in shares))


def test_a_difference_lands_where_the_files_have_it() -> None:
    architecture = architecture_of("Qwen/Qwen3-30B-A3B")
    formula = stored_weights(architecture, "native", ONE, "bf16")
    doubled = scaled(by_formula(architecture), Group.EXPERTS, 2)
    found = weights_by_checkpoint(architecture, doubled, "native", ONE, "bf16")
    experts = formula.by_part[Part.EXPERTS]
    assert found.by_part[Part.EXPERTS] == pytest.approx(2 * experts)
    assert found.by_part[Part.ATTENTION] == formula.by_part[Part.ATTENTION]
    assert found.total_bytes == pytest.approx(formula.total_bytes + experts)
    assert found.experts[0].rank_bytes == pytest.approx(2 * formula.experts[0].rank_bytes)
    assert found.read_bytes_per_token_step == pytest.approx(formula.read_bytes_per_token_step)
    note = found.notes[0]
    assert note.code == "checkpoint_bytes_far"
    assert note.values["difference_fraction"] == pytest.approx(experts / formula.total_bytes)


def test_fp32_files_are_loaded_in_16_bits() -> None:
    architecture = architecture_of("openai-community/gpt2")
    assert architecture.dtype == "float32"
    checkpoint = by_formula(architecture)
    found = weights_by_checkpoint(architecture, checkpoint, "native", ONE, "fp16")
    assert found.total_bytes == pytest.approx(checkpoint.total_bytes / 2, rel=1e-3)
    assert found.notes[0].values["file_bytes"] == checkpoint.total_bytes
    asked = weights_by_checkpoint(architecture, checkpoint, "fp32", ONE, "fp32")
    assert asked.total_bytes == checkpoint.total_bytes


def test_a_copy_of_a_tied_head_and_mtp_layers_are_not_loaded() -> None:
    architecture = architecture_of("google/gemma-2-9b")
    checkpoint = by_formula(architecture)
    table = sum(one.bytes for one in checkpoint.shares if one.group is Group.EMBEDDING)
    copy = Share(Group.HEAD, "BF16", table // 2, table)
    with_copy = replace(
        checkpoint, shares=(*checkpoint.shares, copy), total_bytes=checkpoint.total_bytes + table
    )
    found = weights_by_checkpoint(architecture, with_copy, "native", ONE, "bf16")
    assert found.total_bytes == pytest.approx(checkpoint.total_bytes)
    glm = architecture_of("zai-org/GLM-4.5-Air")
    files = by_formula(glm)
    without = weights_by_checkpoint(glm, files, "native", ONE, "bf16")
    whole = weights_by_checkpoint(glm, files, "native", ONE, "bf16", include_mtp=True)
    assert whole.total_bytes == pytest.approx(files.total_bytes)
    assert whole.total_bytes - without.total_bytes == pytest.approx(whole.by_part[Part.MTP])


@pytest.mark.parametrize("include_mtp", [False, True])
def test_of_a_total_alone_all_parts_have_the_same_share(include_mtp: bool) -> None:
    architecture = architecture_of("zai-org/GLM-4.5-Air")
    files = by_formula(architecture)
    total = CheckpointBytes("safetensors", "index", 9, round(files.total_bytes * 1.01))
    found = weights_by_checkpoint(
        architecture, total, "native", ONE, "bf16", include_mtp=include_mtp
    )
    formula = stored_weights(architecture, "native", ONE, "bf16", include_mtp=include_mtp)
    ratio = found.total_bytes / formula.total_bytes
    assert ratio == pytest.approx(1.01, abs=1e-3)
    assert found.by_part == pytest.approx({p: s * ratio for p, s in formula.by_part.items()})


def test_names_that_tell_nothing_leave_the_total() -> None:
    architecture = architecture_of("meta-llama/Llama-3.1-8B")
    files = by_formula(architecture)
    nameless = replace(
        files,
        shares=(Share(Group.LAYERS, "BF16", files.total_bytes // 2, files.total_bytes),),
    )
    found = weights_by_checkpoint(architecture, nameless, "native", ONE, "bf16")
    formula = stored_weights(architecture, "native", ONE, "bf16")
    assert found.by_part == pytest.approx(formula.by_part)


def test_another_format_is_the_formulas() -> None:
    architecture = architecture_of("meta-llama/Llama-3.1-8B")
    checkpoint = by_formula(architecture)
    for format_id in ("fp8", "gguf:Q4_K_M"):
        formula = stored_weights(architecture, format_id, ONE, "bf16")
        found = weights_by_checkpoint(architecture, checkpoint, format_id, ONE, "bf16")
        assert found.total_bytes == formula.total_bytes
        assert found.notes == formula.notes


def gguf(file_type: str) -> CheckpointBytes:
    return CheckpointBytes(
        "gguf", "m.gguf", 1, 100, (Share(Group.LAYERS, "Q4_K", 1, 100),), file_type
    )


def test_a_gguf_is_in_its_own_format() -> None:
    assert own_format(gguf("Q4_K_M"), "native") == "gguf:Q4_K_M"
    assert own_format(gguf("Q4_K_M"), "gguf:Q4_K_M") == "gguf:Q4_K_M"
    assert own_format(gguf("Q4_K_M"), "bf16") == "bf16"
    assert own_format(gguf("F16"), "gguf:Q8_0") == "gguf:Q8_0"
    assert own_format(None, "native") == "native"
    assert own_format(CheckpointBytes("safetensors", "s", 1, 1), "native") == "native"
    for file_type, format_id, code in (
        ("Q4_K_M", "fp8", "format_on_quantised_checkpoint"),
        ("Q4_K_M", "gguf:Q8_0", "format_on_quantised_checkpoint"),
        ("Q1_0", "native", "gguf_file_type"),
    ):
        with pytest.raises(Unsupported) as refusal:
            own_format(gguf(file_type), format_id)
        assert refusal.value.code == code


def scenario(config: dict[str, Any], **values: Any) -> Scenario:
    return Scenario.parse({"model": "mine", "config": config, "gpu": "h100", **values})


def test_a_scenario_carries_its_checkpoint_to_the_answer() -> None:
    config = model_profile("meta-llama/Llama-3.1-8B").config
    plain = evaluate(scenario(config))
    doubled = scaled(by_formula(architecture_of("meta-llama/Llama-3.1-8B")), Group.LAYERS, 2)
    carried = json.loads(json.dumps(with_checkpoint(config, doubled)))
    heavy = evaluate(scenario(carried))
    assert heavy.memory.weights_bytes.mid == doubled.total_bytes
    assert plain.memory.weights_bytes.mid < heavy.memory.weights_bytes.mid
    assert plain.speed.tpot_s is not None
    assert heavy.speed.tpot_s is not None
    assert plain.speed.tpot_s.mid < heavy.speed.tpot_s.mid
    assert [note.code for note in heavy.assumptions].count("checkpoint_bytes_far") == 1
    assert all(not note.code.startswith("checkpoint") for note in plain.assumptions)
    assert heavy.memory.kv_bytes_per_token == plain.memory.kv_bytes_per_token
    assert resolve(scenario(carried)).stored is resolve(scenario(carried, concurrency=9)).stored


def test_the_published_file_of_llama_in_q4_k_m(tmp_path: Path) -> None:
    """llama.cpp says of it: 4.58 GiB, 4.89 bits per weight."""
    metadata, tensors = CASES["llama"][1]()
    architecture = architecture_of("meta-llama/Llama-3.1-8B")
    wide = {"attn_v": "value", "ffn_down": "down"}
    mixed = []
    for name, dtype, shape in tensors:
        parts = name.split(".")
        if parts[0] == "blk" and parts[2] in wide:
            kind = architecture.layer_kinds[architecture.layer_order[int(parts[1])]]
            chosen = gguf_encodings(architecture, "Q4_K_M").layers[int(parts[1])]
            place = next(i for i, w in enumerate(kind.weights) if w.name == wide[parts[2]])
            encoding = chosen[place]
            assert encoding is not None
            mixed.append((name, encoding.format_id.removeprefix("gguf:"), shape))
        else:
            mixed.append((name, "Q6_K" if name == "output.weight" else dtype, shape))
    mixed.append(("rope_freqs.weight", "F32", (64,)))
    write_gguf(tmp_path / "model.gguf", metadata, mixed)
    config = read_model_path(tmp_path / "model.gguf")
    answer = evaluate(scenario(config, gpu="rtx-4090"))
    assert answer.deployment.weights_format == "gguf:Q4_K_M"
    assert answer.deployment.engine == "llama.cpp"
    held = float(answer.memory.weights_bytes.mid)
    assert held / 2**30 == pytest.approx(4.58, abs=0.005)
    assert 8 * held / float(answer.model.parameters.mid) == pytest.approx(4.89, abs=0.005)
    note = next(note for note in answer.assumptions if note.code == "checkpoint_bytes")
    assert note.values["difference_fraction"] == pytest.approx(0.0, abs=1e-6)
