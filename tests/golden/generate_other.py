"""Writes the witnesses' figures for hybrids, encoders and towers to tests/golden/models_other.json.

    python -m tests.golden.generate_other

Needs torch and transformers. Each small configuration is kept with its figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planner.catalog.models import model_profile
from tests.golden import cases_other, cases_towers, witness, witness_other

PATH = Path(__file__).parent / "models_other.json"


def main() -> None:
    made = figures()
    PATH.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    print(PATH.name, {key: len(value) for key, value in made.items()})


def figures() -> dict[str, Any]:
    """Everything that the file holds."""
    return {
        "versions": witness.versions(),
        "caches": {model: whole_model(model) for model in cases_other.WHOLE_MODELS},
        "towers": {model: tower(model) for model in cases_towers.TOWER_MODELS},
        "hybrid_variants": {key: hybrid(config) for key, config in cases_other.HYBRIDS.items()},
        "encoder_variants": {key: encoder(config) for key, config in cases_other.ENCODERS.items()},
        "sequence_variants": {
            key: sequence(config) for key, config in cases_other.ENCODER_DECODERS.items()
        },
        "tower_variants": {
            key: {
                "config": config,
                **witness_other.tower_figures(
                    witness_other.build(
                        config, "sequence" if "vision_config" not in config else "image"
                    )
                ),
            }
            for key, config in cases_towers.TOWERS.items()
        },
    }


def whole_model(model: str) -> dict[str, Any]:
    """Cache of a catalogue model by number of tokens, and how its recurrent state is stored."""
    built = witness.build(model_profile(model).config)
    return {
        "tokens": {
            str(count): witness_other.cache(built, count)
            for count in cases_other.WHOLE_MODEL_TOKENS
        },
        "recurrent_dtypes": witness_other.recurrent_dtypes(built),
    }


def tower(model: str) -> dict[str, Any]:
    """Towers of a catalogue model, and their work on one item where its shape is given."""
    built = witness.build(model_profile(model).config)
    counted: dict[str, Any] = witness_other.tower_figures(built)
    if model in cases_towers.TOWER_INPUTS:
        counted["flops"] = witness_other.tower_flops(built, cases_towers.TOWER_INPUTS[model])
    return counted


def hybrid(config: dict[str, Any]) -> dict[str, Any]:
    built = witness.build(config)
    return {
        "config": config,
        "parameters": witness.parameters(built),
        "cache": {
            str(count): witness_other.cache(built, count) for count in cases_other.HYBRID_TOKENS
        },
    }


def encoder(config: dict[str, Any]) -> dict[str, Any]:
    built = witness_other.build(config, "encoder")
    return {
        "config": config,
        "parameters": witness.parameters(built),
        "flops": {
            str(count): witness_other.encoder_flops(built, count)
            for count in cases_other.ENCODER_TOKENS
        },
    }


def sequence(config: dict[str, Any]) -> dict[str, Any]:
    mel_bins = config.get("num_mel_bins", 0)
    built = witness_other.build(config, "speech" if mel_bins else "sequence")
    return {
        "config": config,
        "parameters": witness.parameters(built),
        "runs": [
            {
                "source": source,
                "target": target,
                **witness_other.sequence_figures(built, source, target, mel_bins=mel_bins),
            }
            for source, target in cases_other.SEQUENCE_TOKENS
        ],
    }


if __name__ == "__main__":
    main()
