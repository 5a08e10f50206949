"""What adapters make of configurations: every key counts, every wrong one is named, and the parts fit together."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.architecture.adapters import ADAPTERS, WRAPPERS, adapter_for
from planner.architecture.cache import cache_bytes, cache_layout, marginal_bytes, read_bytes
from planner.architecture.keys import Keys
from planner.architecture.mixers import Attention, CrossAttention
from planner.architecture.resolve import (
    architecture_from_config,
    architecture_of,
    supported_model_types,
)
from planner.architecture.spec import Part, Shape, Shard
from planner.architecture.totals import (
    active_parameters,
    parameters,
    parameters_by_part,
    score_flops,
)
from planner.catalog.models import model_ids, model_profile
from planner.errors import InvalidConfig, PlannerError, UnknownItem, UnsupportedArchitecture
from tests.architecture.counting import all_weights

VARIANTS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "models_attention.json").read_text()
)["variants"]
CONFIGS = [figures["config"] for figures in VARIANTS.values()]
WRAPPED = [
    config
    for model in model_ids()
    if (config := model_profile(model).config)["model_type"] in WRAPPERS
]

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}


ALTERNATING = ["full_attention", "sliding_attention"] * 2


def llama(**keys: Any) -> dict[str, Any]:
    return {**LLAMA, **keys}


# --- what is refused, and how


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("hidden_size", "4096", "config_key_type"),
        ("hidden_size", 4096.0, "config_key_type"),
        ("hidden_size", True, "config_key_type"),
        ("hidden_size", [4096], "config_key_type"),
        ("hidden_size", -4096, "config_key_range"),
        ("hidden_size", 10**8, "config_key_range"),
        ("hidden_size", 10**4000, "config_key_range"),
        ("hidden_size", None, "config_key_missing"),
        ("hidden_size", 130, "config_contradiction"),
        ("num_hidden_layers", 0, "config_key_range"),
        ("num_hidden_layers", 10_001, "config_key_range"),
        ("num_key_value_heads", 0, "config_key_range"),
        ("num_key_value_heads", 3, "config_contradiction"),
        ("tie_word_embeddings", "false", "config_key_type"),
        ("tie_word_embeddings", 1, "config_key_type"),
        ("attention_bias", 0, "config_key_type"),
        ("torch_dtype", "complex64", "config_key_type"),
        ("torch_dtype", 16, "config_key_type"),
        ("quantization_config", "fp8", "config_key_type"),
        ("rope_scaling", "yarn", "config_key_type"),
        ("max_position_embeddings", 0, "config_key_range"),
    ],
)
def test_a_wrong_value_is_refused_by_name(key: str, value: object, code: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        architecture_from_config(llama(**{key: value}))
    assert refusal.value.code == code
    assert refusal.value.values["key"] == key


@pytest.mark.parametrize(
    "key",
    [
        "model_type",
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    ],
)
def test_a_key_that_matters_has_no_default(key: str) -> None:
    config = llama()
    del config[key]
    with pytest.raises(InvalidConfig) as refusal:
        architecture_from_config(config)
    assert (refusal.value.code, refusal.value.values["key"]) == ("config_key_missing", key)


def test_a_key_in_a_section_is_named_with_its_path() -> None:
    config = {"model_type": "gemma3", "text_config": {"num_hidden_layers": "48"}}
    with pytest.raises(InvalidConfig) as refusal:
        architecture_from_config(config)
    assert refusal.value.values["key"] == "text_config.num_hidden_layers"


def test_more_experts_a_token_than_there_are_is_a_contradiction() -> None:
    config = {**VARIANTS["mixtral-0"]["config"], "num_experts_per_tok": 9}
    with pytest.raises(InvalidConfig) as refusal:
        architecture_from_config(config)
    assert refusal.value.values["reason"] == "more_experts_per_token"


@pytest.mark.parametrize(
    ("key", "value"),
    [("layer_types", ["full_attention"]), ("layer_types", ["full_attention"] * 5 + ["mamba"])],
)
def test_a_list_of_layers_has_one_known_entry_a_layer(key: str, value: object) -> None:
    with pytest.raises(InvalidConfig, match="layer_types"):
        architecture_from_config({**VARIANTS["gemma2-0"]["config"], key: value})


def test_an_unknown_model_type_is_named_with_its_neighbours() -> None:
    with pytest.raises(UnsupportedArchitecture) as refusal:
        architecture_from_config(llama(model_type="llama5"))
    assert refusal.value.values["model_type"] == "llama5"
    assert "llama" in refusal.value.values["nearest"]  # type: ignore[operator]


def test_a_type_that_cannot_stand_there_is_not_its_own_neighbour() -> None:
    config = {"model_type": "gemma3", "text_config": {"model_type": "gemma3"}}
    with pytest.raises(UnsupportedArchitecture) as refusal:
        architecture_from_config(config)
    nearest = refusal.value.values["nearest"]
    assert "gemma3" not in nearest  # type: ignore[operator]
    assert "gemma3n" in nearest  # type: ignore[operator]


def test_an_unknown_language_model_in_a_wrapper_is_named() -> None:
    config = {"model_type": "llava", "text_config": llama(model_type="gpt-17")}
    with pytest.raises(UnsupportedArchitecture, match="gpt-17"):
        architecture_from_config(config)


def test_an_unknown_catalogue_model_is_not_guessed() -> None:
    with pytest.raises(UnknownItem):
        architecture_of("meta-llama/Llama-5-1T")


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**9),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.lists(
        st.one_of(st.integers(-1, 300), st.sampled_from(["full_attention", "x", "F"])), max_size=8
    ),
    st.dictionaries(
        st.sampled_from(["type", "factor", "kv_n_heads", "x"]), st.integers(-1, 9), max_size=2
    ),
)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_spoiled_config_gives_an_architecture_or_a_refusal(data: st.DataObject) -> None:
    config = copy.deepcopy(data.draw(st.sampled_from(CONFIGS + WRAPPED)))
    level = config
    if isinstance(config.get("text_config"), dict) and data.draw(st.booleans()):
        level = config["text_config"]
    for key in data.draw(st.lists(st.sampled_from(sorted(level)), min_size=1, max_size=3)):
        if data.draw(st.booleans()):
            level[key] = data.draw(JUNK)
        else:
            level.pop(key, None)
    try:
        architecture = architecture_from_config(config)
    except PlannerError as refusal:
        assert refusal.code  # noqa: PT017 - the refusal is one of two right answers
        return
    assert parameters(architecture) > 0


# --- what is read


def test_every_adapter_can_be_imported() -> None:
    for model_type in ADAPTERS:
        assert callable(adapter_for(model_type))
    for wrapper in WRAPPERS.values():
        assert wrapper.text_type in ADAPTERS
    assert set(supported_model_types()) == {*ADAPTERS, *WRAPPERS}


def test_head_dim_counts_before_hidden_size() -> None:
    wide = architecture_from_config(llama(head_dim=64))
    narrow = architecture_from_config(llama())
    assert cache_layout(wide, 2.0, 2.0, 2.0).groups[0].bytes_per_position == 4 * 2 * 2 * 64 * 2
    assert parameters(wide) - parameters(narrow) == 4 * (2 * 8 + 2 * 2) * (64 - 16) * 128


def test_a_tied_table_is_counted_once_but_multiplied() -> None:
    tied = architecture_from_config(llama(tie_word_embeddings=True))
    own = architecture_from_config(llama(tie_word_embeddings=False))
    assert parameters(own) - parameters(tied) == 1000 * 128
    assert Part.HEAD not in parameters_by_part(tied)
    assert tied.has_head
    assert own.has_head


@pytest.mark.parametrize(
    ("architectures", "has_head"),
    [(["LlamaForCausalLM"], True), (["LlamaModel"], False), ([], True), (None, True)],
)
def test_a_base_model_has_no_head(architectures: list[str] | None, has_head: bool) -> None:
    model = architecture_from_config(llama(architectures=architectures))
    assert model.has_head is has_head
    assert (Part.HEAD in parameters_by_part(model)) is has_head
    assert model.modality == ("text" if has_head else "embedding")


def test_the_storage_type_is_stated_or_said_to_be_assumed() -> None:
    assert architecture_from_config(llama()).notes == ()
    assert architecture_from_config(llama(torch_dtype=None, dtype="float16")).dtype == "float16"
    unstated = architecture_from_config(llama(torch_dtype=None))
    assert (unstated.dtype, unstated.notes) == ("bfloat16", ("dtype_assumed",))
    gpt2 = {**VARIANTS["gpt2-0"]["config"]}
    assert architecture_from_config(gpt2).dtype == "float32"


@pytest.mark.parametrize(
    ("rope", "tokens"),
    [
        (None, 2048),
        ({"rope_type": "linear", "factor": 4.0}, 8192),
        ({"type": "dynamic", "factor": 2}, 4096),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "yarn", "factor": 4.0}, 8192),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 256}, 2048),
        ({"rope_type": "longrope", "short_factor": [1], "long_factor": [2]}, 2048),
        (
            {
                "full_attention": {"rope_type": "yarn", "factor": 2.0},
                "sliding_attention": {"rope_type": "default"},
            },
            4096,
        ),
    ],
)
def test_the_context_follows_the_rope_scaling(rope: object, tokens: int) -> None:
    assert architecture_from_config(llama(rope_scaling=rope)).max_context_tokens == tokens


def test_quantisation_and_storage_type_come_from_the_wrapper_where_the_section_has_none() -> None:
    text = {key: value for key, value in llama().items() if key != "torch_dtype"}
    block = {"quant_method": "awq", "bits": 4}
    model = architecture_from_config(
        {
            "model_type": "llava",
            "text_config": text,
            "torch_dtype": "float16",
            "quantization_config": block,
        }
    )
    assert (model.model_type, model.dtype, model.quantization) == ("llava", "float16", block)
    assert (model.modality, model.towers) == ("text", ())


def test_a_section_may_leave_out_what_its_class_takes_anyway() -> None:
    """A llava config names little more than the vocabulary of its Llama; the rest is LlamaConfig's own."""
    model = architecture_from_config({"model_type": "llava", "text_config": {"vocab_size": 32064}})
    assert (model.layers, model.hidden_size, model.vocabulary_size) == (32, 4096, 32064)


@pytest.mark.parametrize(
    ("outer", "inner", "tied"),
    [
        (None, None, True),
        (False, None, False),
        (None, False, False),
        (True, False, True),
        (False, True, True),
    ],
)
def test_a_wrapper_is_tied_where_either_level_says_so(
    outer: bool | None, inner: bool | None, tied: bool
) -> None:
    config = {
        "model_type": "gemma3",
        "tie_word_embeddings": outer,
        "text_config": {"tie_word_embeddings": inner},
    }
    assert architecture_from_config(config).tied is tied


def windows(config: dict[str, Any]) -> list[int | None]:
    architecture = architecture_from_config(config)
    kinds = [architecture.layer_kinds[index].mixers[0] for index in architecture.layer_order]
    assert all(isinstance(kind, Attention) for kind in kinds)
    return [kind.window for kind in kinds if isinstance(kind, Attention)]


@pytest.mark.parametrize(
    ("model_type", "keys", "expected"),
    [
        ("mistral", {"sliding_window": 64}, [64, 64, 64, 64]),
        ("mistral", {"sliding_window": None}, [None] * 4),
        ("mistral", {}, [4096] * 4),
        ("qwen2", {"sliding_window": 64}, [None] * 4),
        (
            "qwen2",
            {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 2},
            [None, None, 64, 64],
        ),
        ("gemma2", {"sliding_window": 64}, [64, None, 64, None]),
        ("gemma3_text", {"sliding_window": 64, "sliding_window_pattern": 4}, [64, 64, 64, None]),
        (
            "gemma3_text",
            {"sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"] * 2},
            [None, 64] * 2,
        ),
        ("exaone4", {"sliding_window": 64, "sliding_window_pattern": "LLGL"}, [64, 64, None, None]),
        ("exaone4", {"sliding_window": 64, "sliding_window_pattern": 2}, [64, None, 64, None]),
        ("exaone4", {"sliding_window": None, "sliding_window_pattern": "LG"}, [None] * 4),
        ("cwm", {"sliding_window": 64}, [None, 64, 64, 64]),
        ("phi3", {}, [None] * 4),
    ],
)
def test_windows_follow_each_familys_own_rule(
    model_type: str, keys: dict[str, Any], expected: list[int | None]
) -> None:
    assert windows(llama(model_type=model_type, **keys)) == expected


def test_a_pattern_of_other_letters_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="window_letters"):
        architecture_from_config(
            llama(model_type="exaone4", sliding_window=64, sliding_window_pattern="LLX")
        )


def test_llama_4_attends_in_chunks_on_three_layers_of_four() -> None:
    scout = architecture_of("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    kinds = [scout.layer_kinds[index].mixers[0].kind for index in scout.layer_order]
    assert kinds == ["chunked", "chunked", "chunked", "full"] * 12


def test_gemma_3n_keeps_nothing_on_its_last_fifteen_layers() -> None:
    model = architecture_of("google/gemma-3n-E4B-it")
    kinds = [model.layer_kinds[index].mixers[0].kind for index in model.layer_order]
    assert kinds[:20].count("full") == 4
    assert kinds[20:] == ["shared"] * 15


def test_llama_3_2_vision_keeps_nothing_for_an_image_that_is_not_there() -> None:
    model = architecture_of("meta-llama/Llama-3.2-11B-Vision-Instruct")
    crossing = [
        index
        for index, kind in enumerate(model.layer_order)
        if isinstance(model.layer_kinds[kind].mixers[0], CrossAttention)
    ]
    assert crossing == [3, 8, 13, 18, 23, 28, 33, 38]
    layout = cache_layout(model, 2.0, 2.0, 2.0)
    assert layout.constant_bytes == 0.0
    assert cache_bytes(layout, 1000.0) == 1000 * 32 * 2 * 8 * 128 * 2


def test_sparse_attention_reads_what_it_selects_and_keeps_everything() -> None:
    model = architecture_of("deepseek-ai/DeepSeek-V3.2")
    layout = cache_layout(model, 2.0, 2.0, 2.0)
    latent, index = 61 * 576 * 2, 61 * (128 + 4)  # fp8 keys with a 32-bit scale
    assert cache_bytes(layout, 100_000.0) == 100_000 * (latent + index)
    assert read_bytes(layout, 100_000.0) == 2048 * latent + 100_000 * index


def test_a_compressed_past_grows_by_an_entry_in_four_and_in_a_hundred_and_twenty_eight() -> None:
    model = architecture_of("deepseek-ai/DeepSeek-V4-Flash")
    layout = cache_layout(model, 2.0, 2.0, 2.0)
    grown = cache_bytes(layout, 12_800.0) - cache_bytes(layout, 0.0)
    window = 43 * 128 * 512 * 2
    sparse = 21 * 3200 * (512 * 2 + 128 + 4)
    heavy = 20 * 100 * 512 * 2
    assert grown == window + sparse + heavy


# --- tensor parallelism


def test_each_block_is_divided_as_tensor_parallelism_divides_it() -> None:
    expected = {
        "query": Shard.EVEN,
        "key": Shard.KV_HEADS,
        "value": Shard.KV_HEADS,
        "output": Shard.EVEN,
        "gate": Shard.EXPERTS,
        "down": Shard.EXPERTS,
        "router": Shard.NONE,
        "norm": Shard.NONE,
        "embedding": Shard.EVEN,
        "head": Shard.EVEN,
    }
    weights = all_weights(architecture_of("Qwen/Qwen3-30B-A3B"))
    assert {weight.name: weight.shard for weight in weights if weight.name in expected} == expected
    assert {weight.kv_heads for weight in weights if weight.shard is Shard.KV_HEADS} == {4}


def test_every_rank_holds_the_down_projections_of_latent_attention() -> None:
    weights = all_weights(architecture_of("deepseek-ai/DeepSeek-V3"))
    whole = {
        weight.name
        for weight in weights
        if weight.part == "attention" and weight.shard is Shard.NONE
    }
    assert whole == {"query_down", "kv_down"}
    layout_1 = cache_layout(architecture_of("deepseek-ai/DeepSeek-V3"), 2.0, 2.0, 2.0)
    layout_8 = cache_layout(architecture_of("deepseek-ai/DeepSeek-V3"), 2.0, 2.0, 2.0, tp=8)
    assert cache_bytes(layout_1, 1000.0) == cache_bytes(layout_8, 1000.0)


@pytest.mark.parametrize(("tp", "share"), [(1, 1), (2, 2), (8, 8), (16, 8)])
def test_a_cache_is_divided_down_to_one_head(tp: int, share: int) -> None:
    model = architecture_of("meta-llama/Llama-3.1-8B-Instruct")
    whole = cache_bytes(cache_layout(model, 2.0, 2.0, 2.0), 100.0)
    assert cache_bytes(cache_layout(model, 2.0, 2.0, 2.0, tp=tp), 100.0) == whole / share


def test_a_row_parallel_bias_stays_whole() -> None:
    weights = all_weights(architecture_from_config(llama(attention_bias=True, mlp_bias=True)))
    biases = {weight.name: weight.shard for weight in weights if weight.name.endswith("_bias")}
    assert biases == {
        "query_bias": Shard.EVEN,
        "key_bias": Shard.KV_HEADS,
        "value_bias": Shard.KV_HEADS,
        "output_bias": Shard.NONE,
        "gate_bias": Shard.EVEN,
        "up_bias": Shard.EVEN,
        "down_bias": Shard.NONE,
    }


# --- properties of every architecture

ARCHITECTURES = [architecture_from_config(config) for config in CONFIGS]


@pytest.mark.parametrize("config", CONFIGS, ids=list(VARIANTS))
def test_parts_sum_to_the_whole(config: dict[str, Any]) -> None:
    architecture = architecture_from_config(config)
    parts = parameters_by_part(architecture)
    mtp = parts.pop(Part.MTP, 0)
    assert sum(parts.values()) == parameters(architecture)
    assert sum(parts.values()) + mtp == parameters(architecture, mtp=True)
    assert mtp + sum(parts.values()) == sum(weight.elements for weight in all_weights(architecture))
    assert 0 < active_parameters(architecture) <= parameters(architecture)


@pytest.mark.parametrize("config", CONFIGS, ids=list(VARIANTS))
def test_weights_are_well_formed(config: dict[str, Any]) -> None:
    for weight in all_weights(architecture_from_config(config)):
        assert weight.rows > 0
        assert weight.columns > 0
        assert weight.copies > 0
        assert (weight.columns == 1) or weight.shape is not Shape.VECTOR
        assert (weight.shard is Shard.KV_HEADS) == (weight.kv_heads > 0)
        assert weight.kv_heads == 0 or weight.rows % weight.kv_heads == 0
        assert (weight.shard is Shard.EXPERTS) == (weight.part is Part.EXPERTS)


@given(
    architecture=st.sampled_from(ARCHITECTURES),
    tokens=st.integers(0, 2000),
    more=st.integers(0, 2000),
    tp=st.sampled_from([1, 2, 4]),
)
def test_a_cache_grows_with_tokens_and_never_beyond_one_without_windows(
    architecture: Any, tokens: int, more: int, tp: int
) -> None:
    layout = cache_layout(architecture, 2.0, 1.0, 2.0, tp=tp)
    everything = cache_layout(architecture, 2.0, 1.0, 2.0, tp=tp, ignore_windows=True)
    held = cache_bytes(layout, float(tokens))
    assert layout.constant_bytes <= held <= cache_bytes(layout, float(tokens + more))
    assert held <= cache_bytes(everything, float(tokens))
    assert 0 <= marginal_bytes(layout, float(tokens)) <= marginal_bytes(everything, float(tokens))


@given(
    architecture=st.sampled_from(ARCHITECTURES),
    cached=st.integers(0, 500),
    first=st.integers(1, 300),
    second=st.integers(1, 300),
)
def test_prefill_work_does_not_depend_on_how_it_is_cut(
    architecture: Any, cached: int, first: int, second: int
) -> None:
    def work(new: int, before: int) -> Any:
        return score_flops(architecture, float(new), float(before), phase="prefill")

    whole = work(first + second, cached)
    assert work(first, cached) + work(second, cached + first) == pytest.approx(whole)


def test_a_configuration_is_left_as_it_was() -> None:
    for config in (*CONFIGS, *WRAPPED):
        before = json.dumps(config)
        architecture_from_config(config)
        assert json.dumps(config) == before


def test_equal_layers_share_one_kind() -> None:
    gpt_oss = architecture_of("openai/gpt-oss-120b")
    assert [count for _, count in gpt_oss.kind_counts] == [18, 18]
    assert gpt_oss.layer_order[:4] == (0, 1, 0, 1)


def test_keys_read_null_as_absent_except_where_none_is_meant() -> None:
    keys = Keys({"a": None, "b": 3})
    assert keys.integer("a", default=7) == 7
    assert keys.integer("a", "b") == 3
    assert keys.optional_integer("a", default=7) is None
    assert keys.optional_integer("c", default=7) == 7
