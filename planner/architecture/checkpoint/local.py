"""A model on this computer: a folder, a config.json, a safetensors file or index, a GGUF, each by its own headers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from planner.architecture.checkpoint.files import is_file, is_folder, names_in, opened
from planner.architecture.checkpoint.gguf_config import config_from_gguf
from planner.architecture.checkpoint.gguf_header import GgufHeader, read_gguf_header
from planner.architecture.checkpoint.names import group_by_name
from planner.architecture.checkpoint.safetensors import (
    MAX_INDEX_BYTES,
    Index,
    parse_index,
    read_header,
)
from planner.architecture.checkpoint.sizes import CheckpointBytes, Tally, with_checkpoint
from planner.architecture.read_config import read_config_path
from planner.errors import InvalidInput

CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_INDEX_SUFFIX = ".safetensors.index.json"
# Both formats number the parts of a set like this; the GGUF converter from one.
_PART = re.compile(r"(.+)-(\d{5,6})-of-(\d{5,6})\.(safetensors|gguf)", re.DOTALL)
_MAX_PARTS = 2000
# What else lies beside a model: its projector for images, its imatrix, Mistral's own copy, adapters.
_NOT_THE_MODEL = re.compile(r"(?:.*(?:mmproj|imatrix).*|consolidated.*|adapter_.*)", re.IGNORECASE)


def is_model_path(text: str) -> bool:
    """Whether a reference to a model names something on this computer rather than an id.

    Anything with the ending of a configuration or a checkpoint does, and so does a folder that holds one.
    """
    if text.endswith((".json", ".gguf", ".safetensors")):
        return True
    folder = Path(text)
    if not is_folder(folder):
        return False
    return is_file(folder / CONFIG) or any(
        name.endswith((".gguf", ".safetensors")) for name in names_in(folder)
    )


def read_model_path(text: str | Path) -> dict[str, Any]:
    """The configuration of a model on this computer, with what its checkpoint's headers say where there is one.

    Args:
        text: a folder with a config.json and perhaps safetensors files, or with one GGUF; a config.json (its folder
            isn't looked at); a safetensors file or index beside a config.json; a GGUF, split or not.

    Raises:
        InvalidConfig: as `read_config_path` and `config_from_gguf`.
        InvalidInput: as `read_header`, `parse_index` and `read_gguf_header`, and `checkpoint_without_config`,
            `checkpoint_part_missing`, `checkpoint_several` or `checkpoint_unreadable`.
    """
    path = Path(text)
    name = path.name
    if is_folder(path):
        return _from_folder(path)
    if name.endswith(".gguf"):
        return _from_gguf(path)
    if name.endswith((".safetensors", _INDEX_SUFFIX)):
        if not is_file(path.parent / CONFIG):
            # A file that isn't there at all says so first.
            with opened(path):
                raise InvalidInput("checkpoint_without_config", field="model", file=name)
        config = read_config_path(path.parent)
        layers = model_layers(config)
        if name.endswith(_INDEX_SUFFIX):
            return with_checkpoint(config, _from_index(path, layers))
        return with_checkpoint(config, _summed(_set_of(path), name, layers))
    return read_config_path(path)


def _from_folder(folder: Path) -> dict[str, Any]:
    names = names_in(folder)
    if CONFIG in names:
        config = read_config_path(folder)
        return with_checkpoint(config, _safetensors_in(folder, names, model_layers(config)))
    found = [
        name for name in names if name.endswith(".gguf") and not _NOT_THE_MODEL.fullmatch(name)
    ]
    sets = {_PART.sub(r"\1", name): name for name in reversed(found)}
    if len(sets) > 1:
        raise InvalidInput(
            "checkpoint_several", field="model", file=folder.name, files=tuple(found[:10])
        )
    if not sets:
        return read_config_path(folder)  # which says what is missing
    return _from_gguf(folder / found[0])


def _safetensors_in(
    folder: Path, names: tuple[str, ...], layers: int | None
) -> CheckpointBytes | None:
    """The folder's own checkpoint; None where there is none, or several and no index to say which."""
    if INDEX in names:
        return _from_index(folder / INDEX, layers)
    if SINGLE in names:
        return _summed([folder / SINGLE], folder.name, layers)
    found = [
        name
        for name in names
        if name.endswith(".safetensors") and not _NOT_THE_MODEL.fullmatch(name)
    ]
    if len({_PART.sub(r"\1", name) for name in found}) != 1:
        return None
    return _summed(_set_of(folder / found[0]), folder.name, layers)


def _from_index(path: Path, layers: int | None) -> CheckpointBytes:
    """By the headers of the files that an index names where all are here, else by its own total."""
    with opened(path) as source:
        index: Index = parse_index(source.read_at(0, MAX_INDEX_BYTES + 1), path.name)
    files = [path.parent / name for name in index.files]
    missing = [file.name for file in files if not is_file(file)]
    if not missing:
        return _summed(files, path.name, layers)
    if index.total_bytes is None:
        raise InvalidInput(
            "checkpoint_part_missing", field="model", file=path.name, missing=missing[0]
        )
    return CheckpointBytes("safetensors", path.name, index.tensors, index.total_bytes)


def _summed(files: list[Path], source: str, layers: int | None) -> CheckpointBytes:
    tally = Tally()
    for file in files:
        with opened(file) as opened_file:
            for tensor in read_header(opened_file):
                tally.add(tensor, group_by_name(tensor.name, layers))
    return tally.result("safetensors", source)


def _set_of(path: Path) -> list[Path]:
    """All parts of the set that a file belongs to; itself where it isn't a part.

    Raises:
        InvalidInput: `checkpoint_part_missing` naming the first that isn't there.
    """
    found = _PART.fullmatch(path.name)
    if found is None:
        return [path]
    stem, digits, ending = found[1], len(found[2]), found[4]
    count = int(found[3])
    if not 0 < count <= _MAX_PARTS:
        raise InvalidInput("checkpoint_part_missing", field="model", file=path.name, missing="?")
    parts = [
        path.parent / f"{stem}-{number:0{digits}}-of-{found[3]}.{ending}"
        for number in range(1, count + 1)
    ]
    for part in parts:
        if not is_file(part):
            raise InvalidInput(
                "checkpoint_part_missing", field="model", file=path.name, missing=part.name
            )
    return parts


def _from_gguf(path: Path) -> dict[str, Any]:
    headers: list[GgufHeader] = []
    for part in _set_of(path):
        with opened(part) as source:
            headers.append(read_gguf_header(source))
    return config_from_gguf(headers)


def model_layers(config: dict[str, Any]) -> int | None:
    """The model's own layers, where a configuration states them under a usual name."""
    for section in (config, config.get("text_config"), config.get("llm_config")):
        if isinstance(section, dict):
            value = section.get("num_hidden_layers")
            if type(value) is int:
                return value
    return None
