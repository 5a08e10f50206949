"""The address: every scenario comes back from its link, and no address, however wrong, breaks anything."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.engines import engine_ids
from planner.catalog.formats import weight_format_ids
from planner.catalog.models import model_profile
from planner.errors import InvalidInput, PlannerError, UnknownItem
from planner.scenario import (
    DATA_FIELDS,
    MAX_CONCURRENCY,
    MAX_GPUS,
    MAX_LAYERS,
    MAX_TOKENS,
    Scenario,
)
from planner.ui.permalink import (
    DEFAULTS,
    FIELDS,
    MAX_CONFIG_CHARACTERS,
    MAX_UNPACKED_BYTES,
    carries_config,
    from_query,
    pack_config,
    to_query,
    unpack_config,
)
from planner.ui.presets import OPENING, PRESETS

DEVICE = {
    "name": "here", "kind": "cpu", "memory_usable_bytes": 8e9, "bandwidth_bytes_per_s": 2e10,
    "peaks": {"bf16": 2e11}, "measured_on": "2026-11-30",
}  # fmt: skip
ERROR = {
    "rows": 4, "before_fraction": 0.4, "after_fraction": 0.1, "low_fraction": -0.1, "high_fraction": 0.2,
}  # fmt: skip
CONSTANT = {"value": 0.5, "deviation": 0.1, "identified_fraction": 0.8, "at_bound": False}
CALIBRATION = {
    "schema_version": 1, "name": "mine", "date": "2026-11-30", "accelerator": "own-here", "engine": "transformers",
    "engine_version": "5.24", "kinds": ["16bit"], "experts": False,
    "constants": {"transformers": {"cpu.prefill.16bit": CONSTANT}}, "tpot": ERROR, "ttft": None,
}  # fmt: skip
degrees = st.none() | st.integers(1, MAX_GPUS)
tokens = st.integers(1, MAX_TOKENS)
SCENARIOS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["google/gemma-3-12b-it", "openai/gpt-oss-120b", "gpt2"]).map(
            lambda given: model_profile(given).id
        ),
        "config": st.none(),
        "device": st.none() | st.just(DEVICE),
        "calibration": st.none() | st.just(CALIBRATION),
        "gpu": st.sampled_from(["t4", "h100-sxm-80gb", "apple-m4-max-40c@64"]),
        **dict.fromkeys(("gpus", "tp", "pp", "ep", "dp"), degrees),
        "engine": st.none() | st.sampled_from(engine_ids()),
        "engine_version": st.none() | st.from_regex(r"[0-9]{1,2}\.[0-9]{1,2}", fullmatch=True),
        "weights": st.sampled_from(weight_format_ids()),
        "kv": st.sampled_from(["auto", "fp8", "q8_0/q4_0"]),
        "dtype": st.sampled_from(["auto", "bf16", "fp16"]),
        "include_mtp": st.booleans(),
        "gpu_memory_gib": st.none() | st.floats(0.1, 1000.0),
        **dict.fromkeys(
            ("gpu_layers", "cpu_expert_layers"), st.none() | st.integers(0, MAX_LAYERS)
        ),
        **dict.fromkeys(
            ("host_memory_gib", "host_bandwidth_gb_per_s"), st.none() | st.floats(0.1, 1000.0)
        ),
        "gpu_memory_utilization": st.none() | st.floats(0.01, 1.0),
        **dict.fromkeys(("max_model_len", "max_num_batched_tokens"), st.none() | tokens),
        "max_num_seqs": st.none() | st.integers(1, MAX_CONCURRENCY),
        "block_size": st.none() | st.integers(1, 1024),
        "input_tokens": tokens,
        "output_tokens": tokens,
        "concurrency": st.integers(1, MAX_CONCURRENCY),
    }
)


@given(SCENARIOS)
def test_a_link_brings_the_scenario_back(values: dict[str, Any]) -> None:
    # Through the text of an address, as a browser sends it.
    query = dict(parse_qsl(urlencode(to_query(values))))
    incoming = from_query(query)
    assert incoming.problems == {}
    assert incoming.values == values
    assert Scenario.parse(incoming.values) == Scenario.parse(values)


def test_a_link_carries_a_version_and_every_value() -> None:
    values = {**DEFAULTS, **OPENING, "max_num_seqs": 64}
    query = to_query(values)
    assert query["v"] == "1"
    unset = {name for name in FIELDS if values[name] in (None, False)}
    assert query.keys() - {"v"} == set(FIELDS) - unset


def test_the_strategy_covers_every_field() -> None:
    assert DEFAULTS.keys() == Scenario.model_fields.keys() == {*FIELDS, *DATA_FIELDS}


def test_nothing_asked_is_the_opening_scenario() -> None:
    assert from_query({}).values == {**DEFAULTS, **OPENING}
    assert from_query({"utm_source": "letter", "lang": "es"}).values == {**DEFAULTS, **OPENING}


def test_a_typed_address_changes_the_opening_scenario() -> None:
    values = from_query({"gpu": "L4", "input_tokens": "4096"}).values
    assert values == {**DEFAULTS, **OPENING, "gpu": "l4", "input_tokens": 4096}


def test_a_link_leaves_to_the_engine_what_it_doesnt_say() -> None:
    query = {"v": "1", "model": "gpt2", "gpu": "t4"}
    assert from_query(query).values["engine"] is None
    assert from_query(query).values["weights"] == "native"


def test_names_are_spelt_as_the_catalogue_does() -> None:
    query = {"model": "gemma 3 12b it", "gpu": "NVIDIA L4", "engine": "vLLM", "weights": "AWQ"}
    values = from_query(query).values
    assert (values["model"], values["gpu"]) == ("google/gemma-3-12b-it", "l4")
    assert (values["engine"], values["weights"]) == ("vllm", "awq-int4")
    assert from_query({"dtype": "Float16"}).values["dtype"] == "fp16"


@pytest.mark.parametrize(
    ("field", "given", "kind"),
    [
        ("gpu", "t44", UnknownItem),
        ("model", "gemma-13-12b", UnknownItem),
        ("engine", "vlllm", UnknownItem),
        ("weights", "fp7", UnknownItem),
        ("kv", "fp7", UnknownItem),
        ("dtype", "fp7", UnknownItem),
        ("input_tokens", "-3", InvalidInput),
        ("input_tokens", "1e99", InvalidInput),
        ("output_tokens", "many", InvalidInput),
        ("concurrency", "0", InvalidInput),
        ("gpu_memory_utilization", "1.5", InvalidInput),
        ("gpu_memory_gib", "nan", InvalidInput),
        ("gpus", "9999999999999999999999", InvalidInput),
        ("engine_version", "x" * 5000, InvalidInput),
        ("config", "@@", InvalidInput),
        ("device", "@@", InvalidInput),
        ("calibration", "@@", InvalidInput),
    ],
)
def test_a_wrong_value_is_named_and_costs_nothing_else(
    field: str, given: str, kind: type[PlannerError]
) -> None:
    query = {
        **to_query({**DEFAULTS, **OPENING, "concurrency": 7, "input_tokens": 99}),
        field: given,
    }
    incoming = from_query(query)
    assert list(incoming.problems) == [field]
    assert isinstance(incoming.problems[field], kind)
    assert incoming.problems[field].field == field
    kept = (
        {"concurrency": 7, "input_tokens": 99} | {}
        if field not in {"concurrency", "input_tokens"}
        else {}
    )
    assert {name: incoming.values[name] for name in kept} == kept
    Scenario.parse(incoming.values)


def test_several_wrong_values_are_all_named() -> None:
    problems = from_query({"gpu": "t44", "input_tokens": "x", "tp": "-1"}).problems
    assert problems.keys() == {"gpu", "input_tokens", "tp"}


def test_another_version_of_the_link_is_said() -> None:
    assert from_query({"v": "2", "gpu": "l4"}).problems["v"].code == "link_version_unknown"


@given(st.dictionaries(st.sampled_from([*FIELDS, "config", "v", "lang"]), st.text(max_size=60)))
def test_no_address_breaks_anything(query: dict[str, str]) -> None:
    incoming = from_query(query)
    Scenario.parse(incoming.values)
    assert incoming.problems.keys() <= query.keys()


# --- A configuration in the link --------------------------------------------------------------------------------------

CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "architectures": ["LlamaForCausalLM"],
    "_name_or_path": "ñ",
}


def test_a_configuration_travels_in_the_link() -> None:
    values = {**DEFAULTS, "model": "mine", "gpu": "l4", "config": CONFIG}
    assert carries_config(values)
    incoming = from_query(to_query(values))
    assert incoming.problems == {}
    assert incoming.values == values


def test_the_name_of_a_configuration_is_the_senders_word() -> None:
    query = to_query({**DEFAULTS, "model": "<b>no such model</b>", "gpu": "l4", "config": CONFIG})
    assert from_query(query).problems == {}
    assert from_query(query).values["model"] == "<b>no such model</b>"


def test_a_long_configuration_stays_behind() -> None:
    noise = {f"key{number}": hash((number, "x")) for number in range(2000)}
    values = {**DEFAULTS, **OPENING, "config": noise}
    assert not carries_config(values)
    assert pack_config(noise) is None
    assert "config" not in to_query(values)


def test_a_link_never_grows_beyond_the_limit() -> None:
    packed = pack_config({"a": "b" * 100_000})
    assert packed is not None
    assert len(packed) <= MAX_CONFIG_CHARACTERS


def packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")


@pytest.mark.parametrize(
    "given",
    [
        "",
        "====",
        "not base64 at all",
        packed(b"[1, 2]"),
        packed(b"{'a': 1}"),
        packed(json.dumps(CONFIG).encode())[:-12],
        packed(b" " * (MAX_UNPACKED_BYTES + 1)),
        "A" * (MAX_CONFIG_CHARACTERS + 1),
    ],
    ids=["empty", "padding", "words", "list", "not JSON", "cut off", "bomb", "too long"],
)
def test_what_is_no_configuration_is_refused(given: str) -> None:
    with pytest.raises(PlannerError):
        unpack_config(given)


def test_every_preset_survives_its_link() -> None:
    for preset in PRESETS:
        values = {**DEFAULTS, **preset.values}
        assert from_query(to_query(values)).values == values
