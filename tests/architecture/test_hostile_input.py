"""Files and configurations made to hurt: each is refused with a reason, in little memory, or answered.

Files are read in a process of their own, whose whole memory is measured and whose timeout only guards against hanging:
none of them takes a second.
"""

from __future__ import annotations

import contextlib
import copy
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.architecture.adapters import ADAPTERS, WRAPPERS
from planner.architecture.checkpoint.safetensors import MAX_HEADER_BYTES
from planner.architecture.resolve import architecture_from_config
from planner.catalog.models import model_ids, model_profile
from planner.errors import PlannerError
from planner.evaluation import evaluate
from planner.memory.weights import stored_weights
from planner.scenario import Parallelism, Scenario
from tests.architecture.checkpoint.writers import gguf_bytes, safetensors_header

ROOT = Path(__file__).resolve().parents[2]
HALF_GIGABYTE = 500_000_000
MOST_MEMORY_BYTES = 200_000_000
HANG_S = 60

READ = """
import json, resource, sys
from planner.architecture.checkpoint.local import read_model_path
from planner.errors import PlannerError
for path in sys.argv[1:]:
    try:
        read_model_path(path)
        code = "read"
    except PlannerError as error:
        code = error.code
    try:
        # Of this program alone; what getrusage says may be inherited from the process that started it.
        with open("/proc/self/status") as status:
            peak = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([code, peak]))
"""

pytest.importorskip("resource", reason="memory can't be measured on this system")


def reading(*paths: Path) -> list[tuple[str, int]]:
    """How reading each path ends, and the most memory that the process has had by then (bytes)."""
    result = subprocess.run(
        [sys.executable, "-c", READ, *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return [tuple(json.loads(line)) for line in result.stdout.splitlines()]


Content = bytes | Callable[[], bytes]
"""What a file begins with; the large ones are only made where they're needed."""


def stretched(path: Path, content: Content, size: int = 0) -> Path:
    """A file that begins so and goes on as zeros up to a size: a hole on disk."""
    begin = content if isinstance(content, bytes) else content()
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(max(size, len(begin)))
    return path


Write = Callable[[Path], Path]


def config(content: Content, size: int = 0) -> Write:
    return lambda folder: stretched(folder / "config.json", content, size)


def beside_a_config(name: str, content: Content, size: int) -> Write:
    def write(folder: Path) -> Path:
        (folder / "config.json").write_text('{"model_type": "llama"}')
        return stretched(folder / name, content, size)

    return write


def safetensors(header: Content, *, length: int | None = None, size: int = HALF_GIGABYTE) -> Write:
    def content() -> bytes:
        told = header if isinstance(header, bytes) else header()
        return struct.pack("<Q", len(told) if length is None else length) + told

    return beside_a_config("model.safetensors", content, size)


def index(content: Content, size: int = 0) -> Write:
    return beside_a_config("model.safetensors.index.json", content, size)


def gguf(content: Content) -> Write:
    return lambda folder: stretched(folder / "model.gguf", content, HALF_GIGABYTE)


def start(tensors: int, metadata: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, metadata)


def padded(
    begin: bytes, filling: bytes, end: bytes, size: int = MAX_HEADER_BYTES - 100
) -> Callable[[], bytes]:
    """As much of a filling as goes into a size."""
    return lambda: begin + filling * ((size - len(begin) - len(end)) // len(filling)) + end


def many_tensors() -> bytes:
    """As many tensors as a header may list, one on top of the other."""
    entry = b'"%06d":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}'
    return b"{" + b",".join(entry % number for number in range(190_000)) + b"}"


def many_files() -> bytes:
    return b'{"weight_map":{' + b",".join(b'"t":"m%d.safetensors"' % n for n in range(5000)) + b"}}"


def large_index() -> bytes:
    """As the largest published ones, and more."""
    entry = b'"model.layers.60.mlp.experts.%d.down_proj.weight_scale_2": "model-00011-of-000061.safetensors"'
    return b'{"weight_map":{' + b",".join(entry % n for n in range(450_000)) + b"}}"


def large_vocabulary() -> bytes:
    return gguf_bytes({"t": [f"token number {n}" for n in range(700_000)]}, [])[0]


KEY = struct.pack("<Q", 1) + b"k"
FILES: dict[str, tuple[Write, set[str]]] = {
    "config of zeros": (config(b"", HALF_GIGABYTE), {"config_too_large"}),
    "config nested deep": (config(b"[" * 10_000 + b"]" * 10_000), {"config_too_deep"}),
    "config of lists": (config(padded(b'{"a":[', b"[],", b"[]]}", 4_900_000)), {"config_too_many_items"}),
    "config of numbers": (config(padded(b'{"a":[', b"999,", b"9]}", 4_900_000)), {"config_too_many_items"}),
    "config with a long number": (config(b'{"a":' + b"9" * 4_900_000 + b"}"), {"config_number_large"}),
    "config with one long string": (config(b'{"a":"' + b"x" * 4_900_000 + b'"}'), {"read"}),
    "safetensors of zeros": (safetensors(b""), {"safetensors_malformed"}),
    "safetensors, length 2^63": (safetensors(b"", length=2**63), {"safetensors_header_too_large"}),
    "safetensors, length of the file": (
        safetensors(b"", length=HALF_GIGABYTE - 8), {"safetensors_header_too_large"}),
    "safetensors of blanks": (safetensors(padded(b"", b" ", b"", MAX_HEADER_BYTES)), {"safetensors_malformed"}),
    "safetensors nested deepest": (safetensors(b"[" * 1_000_000), {"safetensors_too_many_tensors"}),
    "safetensors nested deep": (safetensors(b"[" * 10_000), {"safetensors_malformed"}),
    "safetensors of lists": (safetensors(padded(b'{"a":[', b"[],", b"[]]}")), {"safetensors_too_many_tensors"}),
    "safetensors of tables": (safetensors(padded(b'{"a":[', b"{},", b"{}]}")), {"safetensors_too_many_tensors"}),
    "safetensors of numbers": (safetensors(padded(b'{"a":[', b"999,", b"9]}")), {"safetensors_too_many_tensors"}),
    "safetensors of longer numbers": (
        safetensors(padded(b'{"a":[', b"123456789,", b"9]}")), {"safetensors_malformed"}),
    "safetensors with one long string": (safetensors(padded(b'{"a":"', b"x", b'"}')), {"safetensors_malformed"}),
    "safetensors with a long name": (safetensors(padded(b'{"', b"x", b'":1}')), {"safetensors_malformed"}),
    "safetensors with many tensors": (
        safetensors(many_tensors), {"safetensors_offsets"}),
    "safetensors, cut off": (
        safetensors(safetensors_header([("a", "F32", (1000, 1000))]), size=1_000_000), {"safetensors_truncated"}),
    "index of zeros": (index(b"", HALF_GIGABYTE), {"safetensors_index_too_large"}),
    "index of zeros within the limit": (index(b"", 60_000_000), {"safetensors_malformed"}),
    "index with many entries": (
        index(padded(b'{"weight_map":{', b'"t":"m.safetensors",', b'"t":"m.safetensors"}}', 60_000_000)),
        {"safetensors_too_many_tensors"}),
    "index with one long name": (
        index(padded(b'{"weight_map":{"', b"x", b'":"m.safetensors"}}', 60_000_000)), {"checkpoint_part_missing"}),
    "index that never ends": (
        index(padded(b'{"weight_map":{"', b"\\\\", b"", 60_000_000)), {"safetensors_malformed"}),
    "index with many files": (
        index(many_files), {"safetensors_too_many_tensors"}),
    "index, the largest": (index(large_index), {"checkpoint_part_missing"}),
    "GGUF of zeros": (gguf(start(0, 0)), {"config_key_missing"}),
    "GGUF, 2^63 tensors": (gguf(start(2**63, 0)), {"gguf_count"}),
    "GGUF, 2^63 metadata": (gguf(start(0, 2**63)), {"gguf_count"}),
    "GGUF, as many as allowed": (gguf(start(100_000, 5000)), {"gguf_duplicate"}),
    "GGUF, as many tensors as allowed": (gguf(start(100_000, 0)), {"gguf_duplicate"}),
    "GGUF with an endless string": (gguf(start(0, 1) + KEY + struct.pack("<IQ", 8, 2**63)), {"gguf_truncated"}),
    "GGUF with a string of the file": (
        gguf(start(0, 1) + KEY + struct.pack("<IQ", 8, HALF_GIGABYTE - 100)), {"config_key_missing"}),
    "GGUF with an endless list": (gguf(start(0, 1) + KEY + struct.pack("<IIQ", 9, 4, 2**62)), {"gguf_truncated"}),
    "GGUF with a list of the file": (
        gguf(start(0, 1) + KEY + struct.pack("<IIQ", 9, 0, HALF_GIGABYTE - 100)), {"config_key_missing"}),
    "GGUF with endless strings": (gguf(start(0, 1) + KEY + struct.pack("<IIQ", 9, 8, 2**62)), {"gguf_count"}),
    "GGUF with as many strings as allowed": (
        gguf(start(0, 1) + KEY + struct.pack("<IIQ", 9, 8, 2_000_000)), {"config_key_missing"}),
    "GGUF with nested lists": (
        gguf(start(0, 1) + KEY + struct.pack("<I", 9) + struct.pack("<IQ", 9, 20_000) * 4), {"gguf_nested"}),
    "GGUF with a large vocabulary": (
        gguf(large_vocabulary), {"config_key_missing"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["config", "safetensors", "index", "GGUF"])
def test_files_made_to_hurt_are_refused_in_little_memory(kind: str, tmp_path: Path) -> None:
    names = [name for name in FILES if name.startswith(kind)]
    paths = []
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths.append(FILES[name][0](folder))
    found = dict(zip(names, reading(*paths), strict=True))
    wrong = {name: code for name, (code, _) in found.items() if code not in FILES[name][1]}
    assert wrong == {}
    heavy = {name: peak for name, (_, peak) in found.items() if peak > MOST_MEMORY_BYTES}
    assert heavy == {}


# --- Configurations ---------------------------------------------------------------------------------------------------

HOSTILE = st.one_of(
    st.sampled_from([0, -1, 1, 2, 3, 7, 2**31, 2**63, -(2**63), 10**29, True, False, None]),
    st.sampled_from(["", "8", "auto", "x" * 1000, [], {}, [0], [[]], {"a": 1}, [None] * 100]),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(-3, 3), max_size=5),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
)


def of_each_model_type() -> list[str]:
    """One catalogue model of each type and way of quantising, so that every adapter in use is met."""
    found: dict[tuple[str, str], str] = {}
    for id_ in model_ids():
        told = model_profile(id_).config
        quantisation = told.get("quantization_config") or {}
        found.setdefault((told["model_type"], str(quantisation.get("quant_method"))), id_)
    return sorted(found.values())


MODELS = of_each_model_type()


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A configuration of the catalogue with one to three keys removed, or set to something that hurts."""
    told = copy.deepcopy(model_profile(draw(st.sampled_from(MODELS))).config)
    for _ in range(draw(st.integers(1, 3))):
        section: dict[str, Any] = told
        while True:
            key = draw(st.sampled_from(sorted(section)))
            if isinstance(section[key], dict) and section[key] and draw(st.booleans()):
                section = section[key]
                continue
            break
        if draw(st.integers(0, 4)) == 0:
            del section[key]
        else:
            section[key] = draw(HOSTILE)
        if not section:
            break
    return told


@settings(max_examples=800, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_a_damaged_configuration_is_described_or_refused(told: dict[str, Any]) -> None:
    with contextlib.suppress(PlannerError):
        architecture = architecture_from_config(told)
        assert architecture.layers > 0
        stored = stored_weights(architecture, "native", Parallelism(), "bf16")
        assert stored.total_bytes > 0


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_a_damaged_configuration_is_answered_or_refused(told: dict[str, Any]) -> None:
    with contextlib.suppress(PlannerError):
        answer = evaluate(Scenario.parse({"model": "x", "config": told, "gpu": "h100"}))
        assert answer.memory.weights_bytes.mid > 0


@given(
    st.sampled_from(sorted({*ADAPTERS, *WRAPPERS})),
    st.dictionaries(
        st.sampled_from(
            ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size",
             "num_key_value_heads", "head_dim", "text_config", "layer_types", "quantization_config", "num_experts"]
        ),
        HOSTILE,
        max_size=8,
    ),
)  # fmt: skip
def test_any_values_for_any_type_are_described_or_refused(
    model_type: str, values: dict[str, Any]
) -> None:
    with contextlib.suppress(PlannerError):
        assert architecture_from_config({"model_type": model_type, **values}).layers > 0
