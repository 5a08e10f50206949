"""Configurations and tables as files: a folder of config.json files with published totals, and the witnesses."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

from planner.architecture.checking import Checked, check, stated_total
from planner.architecture.read_config import read_config_path
from planner.errors import InvalidInput

FACTS = "model_facts.csv"
WITNESSES = Path(__file__).resolve().parents[2] / "tests" / "golden" / "defaults.json"


def check_folder(folder: str, facts: str | None = None) -> list[Checked]:
    """Every configuration of a folder: `NAME.json` files, and folders that hold a config.json.

    Args:
        facts: a CSV with `file` or `model_id` and a column of `checking.STATED_COLUMNS`; the file FACTS beside the
            folder where it's not given and there.

    Raises:
        InvalidInput: where the folder or the table can't be read.
    """
    place = Path(folder)
    if not place.is_dir():
        raise InvalidInput("file_unreadable", field=folder, reason="not a folder")
    table = Path(facts) if facts else place.parent / FACTS
    stated = _stated(table) if facts or table.is_file() else {}
    found = sorted({*place.glob("*.json"), *(path.parent for path in place.glob("*/config.json"))})
    return [
        check(path.name, partial(_config, path), stated.get(path.name.removesuffix(".json")))
        for path in found
    ]


def _stated(table: Path) -> dict[str, int | None]:
    stated: dict[str, int | None] = {}
    try:
        with table.open(encoding="utf-8-sig", newline="") as stream:
            for row in csv.DictReader(stream):
                name = Path(row.get("file") or "").name or row["model_id"].replace("/", "--")
                stated[name.removesuffix(".json")] = stated_total(row)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput("file_unreadable", field=str(table), reason=reason) from error
    except (KeyError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput("file_unreadable", field=str(table), reason=str(error)) from error
    return stated


def _config(path: Path) -> dict[str, Any]:
    """A configuration with the quantisation that Model Optimizer writes into a file beside it."""
    config = read_config_path(path)
    beside = path.parent / "hf_quant" / f"{path.stem}.hf_quant_config.json"
    if path.is_dir():
        beside = path / "hf_quant_config.json"
    if not config.get("quantization_config") and beside.is_file():
        config["quantization_config"] = read_config_path(beside)
    return config


def read_witnesses(path: Path = WITNESSES) -> dict[str, Any]:
    """What transformers made of each model type's default configuration, as tests/golden/generate_defaults.py wrote it.

    Raises:
        InvalidInput: where the file isn't there: an installation without the tests.
    """
    try:
        witnesses: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInput("file_unreadable", field=path.name, reason=str(error)) from error
    return witnesses
