"""Encoder-only and encoder-decoder models: parameters, caches, and the work of each stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.architecture.cache import cache_bytes, cache_layout
from planner.architecture.mixers import CrossAttention
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.spec import Architecture, Part
from planner.architecture.totals import (
    head_flops_per_token,
    layer_linear_flops_per_token,
    linear_flops,
    parameters,
    score_flops,
)
from planner.catalog.models import model_ids, model_profile
from planner.errors import InvalidConfig

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "models_other.json").read_text())
ENCODERS: dict[str, dict[str, Any]] = GOLDEN["encoder_variants"]
SEQUENCES: dict[str, dict[str, Any]] = GOLDEN["sequence_variants"]
ENCODER_TYPES = ("bert", "xlm-roberta", "nomic_bert")
SEQUENCE_TYPES = ("t5", "whisper")


def of_types(*types: str) -> list[str]:
    return [model for model in model_ids() if model_profile(model).config["model_type"] in types]


def outer_flops(architecture: Architecture, name: str) -> float:
    """FLOP for one position of the weights of this name outside the layers."""
    return linear_flops(weight for weight in architecture.outer if weight.name == name)


# --- Encoders -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", sorted(ENCODERS))
def test_encoders_have_the_parameters_that_transformers_builds(key: str) -> None:
    assert (
        parameters(architecture_from_config(ENCODERS[key]["config"]))
        == (ENCODERS[key]["parameters"])
    )


@pytest.mark.parametrize("key", sorted(ENCODERS))
def test_encoders_do_the_work_that_transformers_does(key: str) -> None:
    architecture = architecture_from_config(ENCODERS[key]["config"])
    for tokens, counted in ENCODERS[key]["flops"].items():
        n = float(tokens)
        linear = layer_linear_flops_per_token(architecture, role="encoder") * n
        scores = score_flops(architecture, n, 0.0, phase="prefill", role="encoder")
        # The pooler reads the first position only.
        assert linear + scores + outer_flops(architecture, "pooler") == counted


@pytest.mark.parametrize("model", of_types(*ENCODER_TYPES))
def test_an_embedding_model_has_no_cache_and_no_head(model: str) -> None:
    architecture = architecture_of(model)
    layout = cache_layout(architecture, 2.0, 2.0, 4.0)
    assert cache_bytes(layout, 512.0) == 0
    assert head_flops_per_token(architecture) == 0
    assert layer_linear_flops_per_token(architecture) == 0
    assert layer_linear_flops_per_token(architecture, role="encoder") > 0
    assert all(weight.part is not Part.HEAD for weight in architecture.outer)
    assert architecture.modality == "embedding"


@pytest.mark.parametrize(
    ("model", "published", "context"),
    [
        ("BAAI/bge-base-en-v1.5", 109_482_240, 512),
        ("BAAI/bge-large-en-v1.5", 335_141_888, 512),
        ("BAAI/bge-small-en-v1.5", 33_360_000, 512),
        ("BAAI/bge-m3", 567_754_752, 8192),
        ("nomic-ai/nomic-embed-text-v1.5", 136_731_648, 8192),
    ],
)
def test_encoders_have_their_published_size_and_length(
    model: str, published: int, context: int
) -> None:
    architecture = architecture_of(model)
    assert parameters(architecture) == published
    assert architecture.max_context_tokens == context


def test_bert_base_is_the_sum_of_its_parts() -> None:
    hidden, wide, vocabulary = 768, 3072, 30_522
    layer = 4 * (hidden**2 + hidden) + 2 * hidden * wide + wide + hidden + 4 * hidden
    embeddings = (vocabulary + 512 + 2) * hidden + 2 * hidden
    pooler = hidden**2 + hidden
    assert parameters(architecture_of("BAAI/bge-base-en-v1.5")) == 12 * layer + embeddings + pooler


def test_a_window_bounds_what_modernbert_attends_to() -> None:
    architecture = architecture_from_config(
        {"model_type": "modernbert", "num_hidden_layers": 22, "hidden_size": 768}
    )
    assert parameters(architecture) == 149_014_272
    windows = [
        architecture.layer_kinds[index].mixers[0].scores[0].window
        for index in architecture.layer_order
    ]
    assert windows == [None if index % 3 == 0 else 128 for index in range(22)]
    # 8 layers see all of 1,000 tokens, 14 see 128 of them.
    each = 4.0 * 768
    assert score_flops(architecture, 1000.0, 0.0, phase="prefill", role="encoder") == (
        each * 1000 * (8 * 1000 + 14 * 128)
    )


# --- Encoder-decoders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", sorted(SEQUENCES))
def test_encoder_decoders_have_the_parameters_that_transformers_builds(key: str) -> None:
    architecture = architecture_from_config(SEQUENCES[key]["config"])
    assert parameters(architecture, buffers=False) == SEQUENCES[key]["parameters"]


@pytest.mark.parametrize("key", sorted(SEQUENCES))
def test_encoder_decoders_do_the_work_and_keep_the_cache_of_transformers(key: str) -> None:
    architecture = architecture_from_config(SEQUENCES[key]["config"])
    layout = cache_layout(architecture, 1.0, 1.0, 1.0)
    for run in SEQUENCES[key]["runs"]:
        source, target = float(run["source"]), float(run["target"])
        assert cache_bytes(layout, target) - layout.constant_bytes == run["self"]
        assert layout.state_bytes == 0
        encoder = layer_linear_flops_per_token(architecture, role="encoder") * source
        encoder += score_flops(architecture, source, 0.0, phase="prefill", role="encoder")
        # The first convolution runs over every frame, the second over every other one.
        encoder += outer_flops(architecture, "convolution_1") * 2 * source
        encoder += outer_flops(architecture, "convolution_2") * source
        decoder = layer_linear_flops_per_token(architecture) * target
        decoder += head_flops_per_token(architecture) * target
        # transformers computes the scores of all pairs and masks what lies ahead.
        pairs = {
            "self": target**2,
            "cross": target * source,
        }
        mixers = [
            mixer
            for index in architecture.layer_order
            for mixer in architecture.layer_kinds[index].mixers
            if architecture.layer_kinds[index].role == "decoder"
        ]
        for mixer in mixers:
            kind = "cross" if isinstance(mixer, CrossAttention) else "self"
            decoder += 2.0 * mixer.heads * (mixer.key_dim + mixer.value_dim) * pairs[kind]
        assert encoder + decoder == run["flops"]


@pytest.mark.parametrize("model", of_types(*SEQUENCE_TYPES))
def test_catalogue_encoder_decoders_have_their_stated_parameters(model: str) -> None:
    stated = model_profile(model).figures["parameters"].value
    assert parameters(architecture_of(model)) == stated


def test_whisper_holds_1500_encoder_positions_whatever_it_has_written() -> None:
    architecture = architecture_of("openai/whisper-large-v3")
    layout = cache_layout(architecture, 2.0, 2.0, 2.0)
    assert layout.cross_bytes == 32 * 1500 * 2 * 1280 * 2
    assert layout.state_bytes == 0
    assert cache_bytes(layout, 448.0) == layout.cross_bytes + 448 * 32 * 2 * 1280 * 2
    # 20 heads divide over 4 ranks and over 20, and no further.
    assert cache_layout(architecture, 2.0, 2.0, 2.0, tp=4).cross_bytes == layout.cross_bytes / 4
    assert cache_layout(architecture, 2.0, 2.0, 2.0, tp=32).cross_bytes == layout.cross_bytes / 20
    each = 4.0 * 1280
    assert score_flops(architecture, 1.0, 0.0, phase="decode") == 32 * each * (1500 + 1)


def test_t5_caches_the_input_as_much_as_the_output() -> None:
    """Cross-attention keeps for a token of the input what self-attention keeps for one of the output, so a context of
    both together has the whole cache."""
    architecture = architecture_of("google-t5/t5-base")
    layout = cache_layout(architecture, 2.0, 2.0, 2.0)
    assert layout.constant_bytes == 0
    assert cache_bytes(layout, 1.0) == 12 * 2 * 12 * 64 * 2
    (run, _) = SEQUENCES["t5-0"]["runs"]
    assert run["cross"] / run["source"] == run["self"] / run["target"]


def test_a_decoded_token_reads_no_projection_of_the_encoders_output() -> None:
    architecture = architecture_of("openai/whisper-tiny")
    for kind in architecture.layer_kinds:
        names = {weight.name for weight in kind.weights}
        assert ("cross_key" in names) <= (kind.role == "encoder")
        assert ("cross_query" in names) == (kind.role == "decoder")
    projections = [
        weight.elements
        for kind, count in architecture.kind_counts
        for weight in kind.weights
        if weight.name in ("cross_key", "cross_value")
        for _ in range(count)
    ]
    assert projections == [4 * 384 * 384] * 2


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"model_type": "bert", "num_hidden_layers": 2}, "vocab_size"),
        ({**ENCODERS["bert-0"]["config"], "num_attention_heads": 7}, "hidden_size"),
        (
            {**SEQUENCES["bart-0"]["config"], "decoder_attention_heads": 7},
            "decoder_attention_heads",
        ),
        ({**SEQUENCES["whisper-0"]["config"], "encoder_layers": 0}, "encoder_layers"),
        ({**SEQUENCES["t5-0"]["config"], "d_kv": 1.5}, "d_kv"),
    ],
)
def test_a_contradiction_is_refused_by_its_key(config: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        architecture_from_config(config)
    assert refusal.value.values["key"] == named
