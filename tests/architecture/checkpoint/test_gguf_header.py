"""GGUF headers: what was written is read, in either byte order; what lies is refused by name."""

from __future__ import annotations

import contextlib
import struct
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.architecture.checkpoint import gguf_header
from planner.architecture.checkpoint.gguf_header import GgufHeader, read_gguf_header
from planner.architecture.checkpoint.gguf_types import FILE_TYPES, TENSOR_TYPES
from planner.catalog.formats import gguf_block_elements, gguf_encoding, weight_format_ids
from planner.errors import InvalidInput
from tests.architecture.checkpoint.sentences import assert_said
from tests.architecture.checkpoint.sources import Memory
from tests.architecture.checkpoint.writers import GGML, gguf_bytes

METADATA = {
    "general.architecture": "llama",
    "general.name": "Ünïcode 模型",
    "llama.block_count": 2,
    "llama.rope.freq_base": 10000.0,
    "llama.negative": -5,
    "llama.flag": True,
    "llama.attention.head_count_kv": [8, 8, 4],
    "llama.pattern": [True, False],
    "tokenizer.ggml.tokens": [f"token {number}" for number in range(3000)],
    "tokenizer.chat_template": "x" * 100_000,
    "after": 7,
}
TENSORS = [
    ("token_embd.weight", "Q4_K", (256, 1000)),
    ("blk.0.attn_norm.weight", "F32", (256,)),
    ("blk.0.ffn_down_exps.weight", "MXFP4", (64, 256, 8)),
    ("output.weight", "Q6_K", (256, 1000)),
]


def read(metadata: Any = METADATA, tensors: Any = TENSORS, **options: Any) -> GgufHeader:
    header, data = gguf_bytes(metadata, tensors, **options)
    return read_gguf_header(Memory(header, claimed=len(header) + data))


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_metadata_and_tensors_are_read(version: int, big_endian: bool) -> None:
    header = read(version=version, big_endian=big_endian)
    assert header.version == version
    assert header.metadata["general.name"] == "Ünïcode 模型"
    assert header.metadata["llama.block_count"] == 2
    assert header.metadata["llama.rope.freq_base"] == 10000.0
    assert header.metadata["llama.negative"] == -5
    assert header.metadata["llama.flag"] is True
    assert header.metadata["llama.attention.head_count_kv"] == (8, 8, 4)
    assert header.metadata["llama.pattern"] == (True, False)
    assert header.metadata["tokenizer.chat_template"] == "x" * 300
    assert header.metadata["after"] == 7
    assert "tokenizer.ggml.tokens" not in header.metadata
    assert header.lengths["tokenizer.ggml.tokens"] == 3000
    assert [(one.name, one.dtype, one.shape) for one in header.tensors] == TENSORS
    sizes = [prod(shape) // GGML[dtype][1] * GGML[dtype][2] for _, dtype, shape in TENSORS]
    assert [one.bytes for one in header.tensors] == sizes


def test_a_long_value_and_the_data_are_stepped_over() -> None:
    header, data = gguf_bytes({"a": "x" * 10_000_000, "b": list(range(30_000))}, TENSORS)
    source = Memory(header, claimed=len(header) + data)
    found = read_gguf_header(source)
    assert len(found.tensors) == len(TENSORS)
    assert found.lengths == {"b": 30_000}
    assert "b" not in found.metadata
    assert sum(length for _, length in source.asked) < 1_000_000


values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32, allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=50),
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=20), min_size=1, max_size=20),
)


@given(st.dictionaries(st.text("abc.", min_size=1, max_size=20), values, max_size=8))
def test_any_metadata_are_read_as_written(metadata: dict[str, Any]) -> None:
    header = read(metadata, [])
    for key, value in metadata.items():
        if isinstance(value, list):
            assert header.lengths[key] == len(value)
            if isinstance(value[0], int):
                assert header.metadata[key] == tuple(value)
        else:
            assert header.metadata[key] == value


def test_types_are_those_of_the_catalogue() -> None:
    described = {name: (block, size) for name, block, size in TENSOR_TYPES.values()}
    for id_ in weight_format_ids():
        if not id_.startswith("gguf:"):
            continue
        name = id_.removeprefix("gguf:")
        assert name in FILE_TYPES.values()
    names = (
        *("F32", "F16", "BF16", "Q4_0", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS"),
        *("IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"),
    )  # fmt: skip
    for name in names:
        block, size = described[name]
        assert gguf_block_elements(name) == block, name
        assert gguf_encoding(name).bits == 8.0 * size / block, name


def refusal(content: bytes, claimed: int | None = None) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        read_gguf_header(Memory(content, claimed=claimed))
    assert caught.value.field == "model"
    assert_said(caught.value)
    return caught.value


def start(version: int = 3, tensors: int = 0, metadata: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, metadata)


def text(value: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(value) if length is None else length) + value


def tensor(
    name: bytes = b"w", shape: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0
) -> bytes:
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dimensions + struct.pack("<IQ", kind, offset)


HUGE = 2**63


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "gguf_truncated"),
        (b"GGML" + bytes(20), "gguf_magic"),
        (b"<!DOCTYPE html>" + bytes(20), "gguf_magic"),
        (start(version=1), "gguf_version"),
        (start(version=0), "gguf_version"),
        (start(version=4), "gguf_version"),
        (start(tensors=HUGE), "gguf_count"),
        (start(metadata=HUGE), "gguf_count"),
        (start(metadata=1), "gguf_truncated"),
        (start(metadata=1) + text(b"key", HUGE), "gguf_string"),
        (start(metadata=1) + text(b"\xff\xfe"), "gguf_string"),
        (start(metadata=1) + text(b"key") + struct.pack("<I", 99), "gguf_value_type"),
        (start(metadata=1) + text(b"key") + struct.pack("<IQ", 8, HUGE), "gguf_truncated"),
        (start(metadata=1) + text(b"key") + struct.pack("<IIQ", 9, 0, HUGE), "gguf_truncated"),
        (start(metadata=1) + text(b"key") + struct.pack("<IIQ", 9, 8, HUGE), "gguf_count"),
        (start(metadata=1) + text(b"key") + struct.pack("<IIQ", 9, 8, 100_000), "gguf_truncated"),
        (start(metadata=1) + text(b"key") + struct.pack("<IIQQ", 9, 8, 2, HUGE), "gguf_truncated"),
        (start(metadata=1) + text(b"key") + struct.pack("<IIQ", 9, 9, HUGE), "gguf_nested"),
        (start(metadata=1) + text(b"key") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 8, "gguf_nested"),
        (start(metadata=1) + text(b"key") + struct.pack("<IIQ", 9, 99, 3), "gguf_value_type"),
        (start(metadata=2) + (text(b"key") + struct.pack("<IB", 0, 1)) * 2, "gguf_duplicate"),
        (start(tensors=1) + text(b"w", HUGE), "gguf_string"),
        (start(tensors=1) + text(b"w") + struct.pack("<I", HUGE >> 33), "gguf_count"),
        (start(tensors=1) + tensor(kind=4), "gguf_tensor_type"),
        (start(tensors=1) + tensor(shape=(100,), kind=12), "gguf_tensor_shape"),
        (start(tensors=1) + tensor(shape=(0,)), "gguf_tensor_shape"),
        (start(tensors=1) + tensor(shape=(HUGE, 2)), "gguf_tensor_shape"),
        (start(tensors=1) + tensor(offset=32), "gguf_tensor_outside"),
        (start(tensors=1) + tensor(shape=(1 << 40,)), "gguf_tensor_outside"),
        (start(tensors=2) + tensor(offset=0) + tensor(offset=64), "gguf_duplicate"),
        (start(tensors=2) + tensor(offset=0) + tensor(b"v", offset=64), "gguf_tensor_outside"),
        (start(tensors=1, metadata=1) + text(b"general.alignment") + struct.pack("<II", 4, 48) + tensor(),
         "gguf_alignment"),
        (start(tensors=1, metadata=1) + text(b"general.alignment") + struct.pack("<II", 4, 0) + tensor(),
         "gguf_alignment"),
    ],
)  # fmt: skip
def test_a_header_that_lies_is_refused(content: bytes, code: str) -> None:
    assert refusal(content, claimed=len(content) + 160).code == code


def test_a_tensor_beyond_the_end_is_named() -> None:
    header, data = gguf_bytes(METADATA, TENSORS)
    error = refusal(header, claimed=len(header) + data - 100_000)
    assert error.code == "gguf_tensor_outside"
    assert error.values["tensor"] == "output.weight"
    assert error.values["bytes"] == len(header) + data - 100_000


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_a_header_or_refused(content: bytes, with_start: bool) -> None:
    content = b"GGUF" + struct.pack("<I", 3) + content if with_start else content
    with contextlib.suppress(InvalidInput):
        assert read_gguf_header(Memory(content)).version in (2, 3)


@given(st.data())
def test_any_cut_of_a_file_is_refused(data: st.DataObject) -> None:
    header, _ = gguf_bytes(METADATA | {"tokenizer.chat_template": "short"}, TENSORS)
    cut = data.draw(st.integers(0, len(header) - 1))
    assert refusal(header[:cut]).code in ("gguf_truncated", "gguf_tensor_outside")


def test_strings_that_straddle_the_window_are_stepped_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_header, "_WINDOW", 64)
    header = read(
        {"tokens": [f"{number}" * (number % 90) for number in range(500)], "after": 5}, []
    )
    assert header.metadata["after"] == 5
