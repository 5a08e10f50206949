"""config.json from people one doesn't know: clear refusals, and no cost before them."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.architecture.keys import Keys
from planner.architecture.read_config import (
    LONG_TEXT,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_ITEMS,
    parse_config,
    read_config_path,
)
from planner.errors import InvalidConfig
from planner.ui.locale import say_error

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)

HOSTILE = {
    "config_too_deep": "[" * 10_000,
    "config_too_many_items": "[" + "1," * (MAX_ITEMS + 1),
    "config_duplicate_key": '{"hidden_size": 1, "hidden_size": 2}',
    "config_number": '{"hidden_size": NaN}',
    "config_not_json": '{"hidden_size": 4096',
    "config_not_object": "[1, 2]",
    "config_not_utf8": '{"model_type": "\\ud800"}',
}


@pytest.mark.parametrize(("code", "text"), HOSTILE.items())
def test_hostile_text_is_refused_with_its_reason(code: str, text: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        parse_config(text)
    assert refusal.value.code == code


@pytest.mark.parametrize("number", ["1e999", "9" * 40, "0." + "1" * 200, "-" + "9" * 40])
def test_numbers_that_no_size_needs_are_refused(number: str) -> None:
    with pytest.raises(InvalidConfig, match="config_number_large") as refusal:
        parse_config(f'{{"hidden_size": {number}}}')
    said = say_error(refusal.value, "en")
    assert number[:12] in said
    assert "30 digits" in said


def test_a_limit_of_infinity_is_text_that_no_size_is_read_from() -> None:
    """NVIDIA's hybrids state `time_step_limit: [0.0, Infinity]`."""
    config = parse_config('{"time_step_limit": [0.0, Infinity], "hidden_size": -Infinity}')
    assert config == {"time_step_limit": [0.0, "Infinity"], "hidden_size": "-Infinity"}
    with pytest.raises(InvalidConfig) as refusal:
        Keys(config).integer("hidden_size")
    assert refusal.value.code == "config_key_type"


def test_a_duplicate_key_is_named_however_deep_it_lies() -> None:
    with pytest.raises(InvalidConfig) as refusal:
        parse_config('{"text_config": {"head_dim": 1, "head_dim": 1}}')
    assert refusal.value.values["key"] == "head_dim"


def test_depth_is_counted_outside_strings_only() -> None:
    brackets = "[{" * 1000
    assert parse_config(json.dumps({"chat_template": brackets + '\\"['})) == {
        "chat_template": brackets + '\\"['
    }


@pytest.mark.parametrize(("depth", "allowed"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_depth_is_allowed_up_to_the_limit(depth: int, allowed: bool) -> None:
    text = '{"a": ' * (depth - 1) + "{}" + "}" * (depth - 1)
    if allowed:
        assert parse_config(text)["a"]
    else:
        with pytest.raises(InvalidConfig, match="config_too_deep"):
            parse_config(text)


def test_a_syntax_error_says_where_it_is() -> None:
    with pytest.raises(InvalidConfig) as refusal:
        parse_config('{\n "hidden_size": 4096,\n "x" 1}')
    assert (refusal.value.values["line"], refusal.value.values["column"]) == (3, 6)


def test_too_large_a_text_is_refused_before_it_is_looked_at() -> None:
    text = b"\xff" * (MAX_BYTES + 1)
    with pytest.raises(InvalidConfig) as refusal:
        parse_config(text)
    assert refusal.value.code == "config_too_large"


def test_a_file_of_any_size_costs_no_more_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(500_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidConfig, match="config_too_large"):
            read_config_path(path)
        assert tracemalloc.get_traced_memory()[1] < 3 * MAX_BYTES
    finally:
        tracemalloc.stop()


def test_a_folder_stands_for_its_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert read_config_path(tmp_path) == {"model_type": "llama"}
    assert read_config_path(str(tmp_path / "config.json")) == {"model_type": "llama"}


def test_what_is_not_there_or_not_a_file_is_named(tmp_path: Path) -> None:
    for missing in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(InvalidConfig) as refusal:
            read_config_path(missing)
        assert refusal.value.code == "config_not_found"
        assert str(tmp_path) in str(refusal.value.values["path"])


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000])
def test_a_path_that_no_system_takes_is_refused(path: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        read_config_path(path)
    assert refusal.value.code in ("config_unreadable", "config_not_found")


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    assert parse_config(b'\xef\xbb\xbf{"a": 1}') == parse_config('\ufeff{"a": 1}') == {"a": 1}


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), JSON_VALUES, max_size=5))
def test_any_object_is_read_as_json_reads_it(value: dict[str, object]) -> None:
    text = json.dumps(value)
    assert parse_config(text) == json.loads(text)
    assert parse_config(text.encode()) == json.loads(text)


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    try:
        result = parse_config(text)
    except InvalidConfig:
        return
    assert isinstance(result, dict)


TOKENS = st.sampled_from(
    [*'[]{}:,"', '"a"', '"b":', '"a":', '"]"', '"{"', '":"', "1", "-" + "9" * 30, "9" * 31, "0.5"]
)


def _outcome(text: str) -> tuple[str, object]:
    try:
        return "value", parse_config(text)
    except InvalidConfig as refusal:
        return refusal.code, refusal.values.get("key")


@given(st.lists(TOKENS, max_size=12).map("".join))
@example('"a": 1, "a": 1')
@example('"b": ["]", "["], "a": "}"')
@example('"a": ' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
@example('"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH)
@example('"a": ' + "[{" * MAX_DEPTH + "}]" * MAX_DEPTH)
@example('"a": "' + "]" * 9 + '", "b": ' + "[" * MAX_DEPTH + '"' + "]" * 9 + '"' + "]" * MAX_DEPTH)
def test_plain_text_and_text_with_escapes_are_judged_alike(inside: str) -> None:
    """A backslash anywhere means that every token is looked at; without one, letters are counted first."""
    careful = '{"\\u006d": 0, ' + inside + "}"
    plain = '{"m": 0, ' + inside + "}"
    assert _outcome(plain) == _outcome(careful)


def test_a_long_list_of_experts_is_read_as_its_first() -> None:
    """NVIDIA's MiniMax-M3 lists 22,000 experts' matrices; what isn't an expert, and the last entry, stay."""
    way = {"quant_algo": "MXFP8"}
    modules = {
        f"model.layers.{layer}.{name}": way
        for layer in range(20)
        for name in (
            "self_attn.q_proj",
            *(f"mlp.experts.{expert}.w1" for expert in range(200)),
            "mlp.shared_experts.w1",
        )
    }
    config = {"hidden_size": 8, "quantization_config": {"quantized_layers": modules}, "tied": True}
    text = json.dumps(config, indent=12)
    assert len(text) > LONG_TEXT
    kept = [name for name in modules if "mlp.experts" not in name or ".experts.0." in name]
    assert parse_config(text) == {
        **config,
        "quantization_config": {"quantized_layers": dict.fromkeys(kept, way)},
    }
    assert parse_config(json.dumps(config)) == config
