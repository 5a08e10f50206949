"""Writes the witnesses' figures to tests/golden/*.json. Needs torch and transformers: `make golden`.

    python -m tests.golden.generate [--catalogue | --defaults]

An hour or two for everything: `--defaults` makes defaults.json only, `--catalogue` the rest.

Parameters are counted for every model of the catalogue that transformers can build, the cache for some of them at full
size, and parameters, cache and FLOPs for small configurations that switch on what each family can do.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from planner.architecture.resolve import architecture_of
from planner.catalog.models import model_ids, model_profile
from planner.errors import PlannerError
from tests.golden import cases_attention as cases
from tests.golden import generate_other, witness

PATH = Path(__file__).parent / "models_attention.json"
FLOP_TOKENS = (16, 32)


def main() -> None:
    figures = {
        "versions": witness.versions(),
        "parameters": catalogue_parameters(),
        "caches": {
            model: model_caches(model, cases.WHOLE_MODEL_TOKENS) for model in cases.WHOLE_MODELS
        },
        "variants": {
            key: variant(config, cases.VARIANT_TOKENS) for key, config in cases.VARIANTS.items()
        },
    }
    PATH.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    print(PATH.name, {key: len(value) for key, value in figures.items()})


def catalogue_parameters() -> dict[str, int]:
    """Parameters of every catalogue model that transformers builds from its configuration."""
    counted: dict[str, int] = {}
    seen: dict[str, int] = {}
    for model in model_ids():
        config = model_profile(model).config
        if config["model_type"] in cases.NOT_COUNTED:
            continue
        key = json.dumps(
            {k: v for k, v in config.items() if k not in witness.NOT_READ}, sort_keys=True
        )
        try:
            architecture_of(model)
            if key not in seen:
                seen[key] = witness.parameters(witness.build(config))
        except (KeyError, ImportError, PlannerError) as reason:
            print("left out:", model, type(reason).__name__)
            continue
        counted[model] = seen[key]
    return counted


def model_caches(model: str, tokens: Iterable[int]) -> dict[str, int]:
    """Cache elements of a catalogue model by number of tokens."""
    built = witness.build(model_profile(model).config)
    return {str(count): witness.cache_elements(built, count) for count in tokens}


def variant(config: dict[str, Any], tokens: Iterable[int]) -> dict[str, Any]:
    """Figures of a small configuration, which is kept with them."""
    built = witness.build(config)
    figures: dict[str, Any] = {"config": config, "parameters": witness.parameters(built)}
    # A family that picks its experts by their indices can't run without data.
    with contextlib.suppress(NotImplementedError):
        figures["cache_elements"] = {
            str(count): witness.cache_elements(built, count) for count in tokens
        }
        figures["flops"] = {str(count): witness.flops(built, count) for count in FLOP_TOKENS}
    return figures


if __name__ == "__main__":
    wanted = set(sys.argv[1:]) or {"--catalogue", "--defaults"}
    if "--catalogue" in wanted:
        main()
        generate_other.main()
    if "--defaults" in wanted:
        # Last: it changes how transformers looks at masks.
        generate_defaults = importlib.import_module("tests.golden.generate_defaults")
        generate_defaults.main([])
