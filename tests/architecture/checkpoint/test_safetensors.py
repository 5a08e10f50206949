"""safetensors headers and indexes: what the format's own package would find, and refusals for what isn't one."""

from __future__ import annotations

import contextlib
import json
import struct
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.architecture.checkpoint.safetensors import (
    DTYPE_BITS,
    MAX_HEADER_BYTES,
    MAX_TENSORS,
    parse_header,
    parse_index,
    read_header,
)
from planner.architecture.checkpoint.tensors import Tensor
from planner.errors import InvalidInput
from tests.architecture.checkpoint.sentences import assert_said
from tests.architecture.checkpoint.sources import Memory
from tests.architecture.checkpoint.writers import SAFETENSORS_BYTES, safetensors_header

TENSORS = [
    ("model.embed_tokens.weight", "BF16", (100, 16)),
    ("model.layers.0.mlp.gate.weight", "F32", (8, 16)),
    ("model.layers.0.scale", "F32", ()),
    ("model.layers.0.empty", "BF16", (0, 16)),
    ("model.layers.0.mlp.down_proj.weight", "F8_E4M3", (16, 32)),
]


def file_of(header: bytes, data: int, *, length: int | None = None) -> Memory:
    stated = len(header) if length is None else length
    return Memory(struct.pack("<Q", stated) + header, claimed=8 + len(header) + data)


def data_of(tensors: list[tuple[str, str, tuple[int, ...]]]) -> int:
    return sum(SAFETENSORS_BYTES[dtype] * prod(shape) for _, dtype, shape in tensors)


def test_names_types_shapes_and_sizes() -> None:
    source = file_of(safetensors_header(TENSORS, {"format": "pt"}), data_of(TENSORS))
    assert read_header(source) == [
        Tensor("model.embed_tokens.weight", "BF16", (100, 16), 3200),
        Tensor("model.layers.0.mlp.gate.weight", "F32", (8, 16), 512),
        Tensor("model.layers.0.scale", "F32", (), 4),
        Tensor("model.layers.0.empty", "BF16", (0, 16), 0),
        Tensor("model.layers.0.mlp.down_proj.weight", "F8_E4M3", (16, 32), 512),
    ]


def test_data_are_never_read() -> None:
    header = safetensors_header(TENSORS)
    source = file_of(header, data_of(TENSORS))
    read_header(source)
    assert sum(length for _, length in source.asked) == 8 + len(header)


def test_padding_after_the_header_is_part_of_it() -> None:
    header = safetensors_header(TENSORS) + b"     "
    assert len(read_header(file_of(header, data_of(TENSORS)))) == len(TENSORS)


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(
    lambda name: name != "__metadata__"
)
tensors = st.lists(
    st.tuples(
        names,
        st.sampled_from(sorted(SAFETENSORS_BYTES)),
        st.lists(st.integers(0, 1000), max_size=4).map(tuple),
    ),
    max_size=10,
    unique_by=lambda tensor: tensor[0],
)


@given(tensors)
def test_any_header_is_read_as_written(listed: list[tuple[str, str, tuple[int, ...]]]) -> None:
    found = read_header(file_of(safetensors_header(listed), data_of(listed)))
    assert [(one.name, one.dtype, one.shape) for one in found] == listed
    assert sum(one.bytes for one in found) == data_of(listed)


def test_types_narrower_than_a_byte() -> None:
    entry = {"dtype": "F4", "shape": [4, 32], "data_offsets": [0, 64]}
    assert parse_header(json.dumps({"w": entry}).encode(), "f")[0].bytes == 64
    assert DTYPE_BITS["F6_E2M3"] == 6


def refused(header: Any, *, data: int = 0) -> InvalidInput:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    with pytest.raises(InvalidInput) as refusal:
        read_header(file_of(content, data))
    assert refusal.value.field == "model"
    assert_said(refusal.value)
    return refusal.value


def entry(dtype: Any = "BF16", shape: Any = (2, 2), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ([], "no_tensor_table"),
        ({"a": 1}, "no_tensor_table"),
        ({"a": {"dtype": "BF16"}}, "no_tensor_table"),
        ({"a": entry(dtype=16)}, "dtype_no_text"),
        ({"a": entry(shape=4)}, "shape_no_list"),
        ({"a": entry(shape=[2, -2])}, "shape_no_list"),
        ({"a": entry(shape=[True, 2])}, "shape_no_list"),
        ({"a": entry(shape=[1] * 17)}, "shape_no_list"),
        ({"a": entry(offsets=[0])}, "offsets_no_pair"),
        ({"a": entry(offsets=[8, 0])}, "offsets_no_pair"),
        ({"a": entry(shape=[2.5, 2])}, "number_unfit"),
        ({"a": entry(shape=[10**30])}, "shape_no_list"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number_unfit"),
        (b'{"a": NaN}', "number_unfit"),
        (b'{"a": {}, "a": {}}', "name_twice"),
        ({"a" * 501: entry()}, "name_too_long"),
        (b"{", "not_json"),
        (b"\xff\xfe{}", "not_utf8"),
    ],
)
def test_what_is_no_header_is_refused_with_the_reason(header: Any, reason: str) -> None:
    error = refused(header, data=8)
    assert error.code == "safetensors_malformed"
    assert error.values["reason"] == reason


@pytest.mark.parametrize(
    ("header", "data", "code"),
    [
        ({"a": entry(dtype="Q4")}, 8, "safetensors_dtype_unknown"),
        ({"a": entry(offsets=[0, 7])}, 7, "safetensors_offsets"),
        ({"a": entry(offsets=[1, 9])}, 9, "safetensors_offsets"),  # a gap
        ({"a": entry(), "b": entry(offsets=[4, 12])}, 12, "safetensors_offsets"),  # an overlap
        ({"a": entry()}, 7, "safetensors_truncated"),
        ({"a": entry()}, 9, "safetensors_truncated"),
    ],
)
def test_tensors_and_data_must_match(header: dict[str, Any], data: int, code: str) -> None:
    assert refused(header, data=data).code == code


def test_a_length_beyond_the_file_or_any_header() -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_header(file_of(b"{}", 0, length=100))
    assert refusal.value.code == "safetensors_truncated"
    source = file_of(b"{}", 0, length=2**63)
    with pytest.raises(InvalidInput) as refusal:
        read_header(source)
    assert refusal.value.code == "safetensors_header_too_large"
    assert refusal.value.values["maximum_bytes"] == MAX_HEADER_BYTES
    assert sum(length for _, length in source.asked) == 8


@pytest.mark.parametrize("content", [b"", b"\x01\x00\x00"])
def test_a_file_that_is_hardly_one(content: bytes) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_header(Memory(content))
    assert refusal.value.code == "safetensors_truncated"


def index_of(weight_map: dict[str, str], **metadata: Any) -> bytes:
    return json.dumps({"metadata": metadata, "weight_map": weight_map}, indent=2).encode()


def test_an_index_names_files_once_and_the_total() -> None:
    content = index_of({"a": "x-1.safetensors", 'b"\\n': "x-2.safetensors", "c": "x-1.safetensors"},
                       total_size=12)  # fmt: skip
    index = parse_index(content, "index")
    assert index.files == ("x-1.safetensors", "x-2.safetensors")
    assert index.tensors == 3
    assert index.total_bytes == 12


@pytest.mark.parametrize(
    ("total", "known"), [("1.6e10", 16_000_000_000), ("1.5", None), ("-4", None), ('"12"', None)]
)
def test_a_total_is_a_whole_number_or_unknown(total: str, known: int | None) -> None:
    text = f'{{"weight_map": {{"a": "m.safetensors"}}, "metadata": {{"total_size": {total}}}}}'
    assert parse_index(text.encode(), "index").total_bytes == known


@pytest.mark.parametrize(
    "name", ["../m.safetensors", "/m.safetensors", "a/m.safetensors", "m.bin", "..safetensors", ""]
)
def test_a_file_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_index(index_of({"a": name}), "index")
    assert refusal.value.code == "safetensors_index_file"
    assert_said(refusal.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b'{"weight_map": {}}', b'{"weight_map": []}', b'{"weight_map": {"a": 1}}',
     b'{"weight_map": {"a": "m.safetensors"', b'{"weight_map": {"a": "m.safetensors",}}'],
)  # fmt: skip
def test_what_is_no_index_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_index(content, "index")
    assert refusal.value.code == "safetensors_malformed"
    assert refusal.value.values["reason"] == "no_weight_map"


@given(st.binary(max_size=300))
def test_any_bytes_are_a_header_an_index_or_refused(content: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        assert sum(one.bytes for one in read_header(Memory(content))) < len(content)
    with contextlib.suppress(InvalidInput):
        assert parse_index(content, "index").files


def test_more_entries_than_any_model_has() -> None:
    lists = b'{"a":[' + b",".join([b"[]"] * (4 * MAX_TENSORS + 1)) + b"]}"
    assert refused(lists).code == "safetensors_too_many_tensors"
