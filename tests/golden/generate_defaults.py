"""Writes what transformers makes of each model type's default configuration to tests/golden/defaults.json.

    python -m tests.golden.generate_defaults [MODEL_TYPE …]

Needs torch and transformers. With model types, only those are made anew. Each configuration is kept with its figures,
without the keys that no size depends on, and with a hash of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.fx.experimental import _config as fx_config
from transformers import masking_utils
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from tests.golden import defaults_cases as cases
from tests.golden import witness, witness_cache

PATH = Path(__file__).parent / "defaults.json"
# Nothing but these is an answer; anything else is a mistake here.
FAILURES = (
    AssertionError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    RuntimeError,
    TypeError,
    ValueError,
)
Figures = dict[str, Any]

# Both would look at values of positions and masks, which aren't there.
masking_utils.find_packed_sequence_indices = lambda *_: None
masking_utils._ignore_bidirectional_mask_sdpa = lambda *_, **__: False


def type_lists() -> dict[str, dict[str, Any]]:
    """transformers' own lists: class name by model type, for each task."""
    return {
        "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "image": modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    }


def default_configuration(task: str, model_type: str) -> tuple[str, Any]:
    """The class that stands for a model type in a task, and the configuration that its default amounts to."""
    name = type_lists()[task][model_type]
    name = name if isinstance(name, str) else name[0]
    configuration = CONFIG_MAPPING[model_type](**cases.FILLED_IN.get(model_type, {}))
    wanted = getattr(transformers, name).config_class
    if task == "causal" and wanted is not type(configuration):
        section = configuration.get_text_config(decoder=True)
        if isinstance(section, wanted):
            configuration = section
    for level in (configuration, getattr(configuration, "text_config", None)):
        _fill_in(level)
    return name, configuration


def _fill_in(configuration: Any) -> None:
    """Head counts and sizes that a class leaves None, as its model reads them."""
    with contextlib.suppress(*FAILURES):
        if getattr(configuration, "num_key_value_heads", 0) is None:
            configuration.num_key_value_heads = configuration.num_attention_heads
        if getattr(configuration, "head_dim", 0) is None:
            size = configuration.hidden_size // configuration.num_attention_heads
            configuration.head_dim = size


def build(name: str, configuration: Any) -> Any:
    """The model on the meta device, in bfloat16 and with eager attention."""
    configuration.dtype = torch.bfloat16
    cls = getattr(transformers, name)
    options = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
    with torch.device("meta"):
        try:
            model = cls._from_config(configuration, **options)
        except (TypeError, ValueError):
            model = cls._from_config(configuration, attn_implementation="eager")
    return model.eval()


def figures(task: str, model_type: str) -> Figures:
    """Everything that's kept of one model type; what can't be made has its reason instead."""
    try:
        name, configuration = default_configuration(task, model_type)
        # Before the model is built: some fill their configuration in.
        stated = configuration.to_dict()
        model = build(name, configuration)
    except FAILURES as reason:
        return {"not_built": _said(reason)}
    config = {**json.loads(json.dumps(cases.kept(stated), default=str)), "architectures": [name]}
    entry: Figures = {
        "config": config,
        "sha256": config_hash(config),
        "parameters": witness.parameters(model),
    }
    entry |= _attempt("cache", lambda: caches(model, config))
    entry |= _attempt("flops", lambda: flops(model))
    return entry


def config_hash(config: dict[str, Any]) -> str:
    """SHA-256 of a configuration as compact JSON with sorted keys."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _attempt(key: str, make: Callable[[], Any]) -> Figures:
    try:
        return {key: make()}
    except FAILURES as reason:
        return {f"{key}_not_run": _said(reason)}


def _said(reason: Exception) -> str:
    lines = str(reason).strip().splitlines() or [""]
    kind = "no meta kernel" if isinstance(reason, NotImplementedError) else type(reason).__name__
    return f"{kind}: {lines[0][:100]}"


def caches(model: Any, config: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Bytes by kind for each number of tokens, the edges of its window among them; a constant state is asked twice."""
    made: dict[str, dict[str, int]] = {}
    section = config.get("text_config") or config
    positions = next((section[key] for key in cases.POSITION_KEYS if section.get(key)), 0)
    for tokens in sorted({*cases.CACHE_TOKENS, *_edges(config)}):
        try:
            made[str(tokens)] = held(model, tokens)
        except RuntimeError:
            # Longer than its table of positions, or its biases of them.
            if made and positions and tokens > positions:
                break
            raise
        if tokens >= 128 and not made[str(tokens)]["kv"]:
            break
    return made


def held(model: Any, tokens: int) -> dict[str, int]:
    """Bytes by kind; experts that look at which tokens they get are passed over, for they keep nothing.

    What else is picked by a mask is taken whole.
    """
    try:
        return witness_cache.held_bytes(model, tokens)
    except NotImplementedError:
        pick_all = fx_config.patch(meta_nonzero_assume_all_nonzero=True)
        with _without_experts(model), pick_all:
            return witness_cache.held_bytes(model, tokens)


@contextlib.contextmanager
def _without_experts(model: Any) -> Iterator[None]:
    modules = [m for m in model.modules() if type(m).__name__.endswith("Experts")]
    for module in modules:
        module.forward = lambda hidden, *_, **__: torch.zeros_like(hidden)
    try:
        yield
    finally:
        for module in modules:
            del module.forward


def _edges(config: dict[str, Any]) -> set[int]:
    """Around the window of the text's section: one token less, as many, one more."""
    section = config.get("text_config") or config
    found = {section.get(key) for key in cases.WINDOW_KEYS}
    windows = {window for window in found if isinstance(window, int) and 16 < window <= 8192}
    return {window + step for window in windows for step in (-1, 0, 1)}


def flops(model: Any) -> dict[str, int]:
    """FLOP of a forward pass over a text of each length."""
    rows = len(getattr(model, "lm_heads", ())) or 1
    made = {}
    for tokens in cases.FLOP_TOKENS:
        ids = torch.ones(rows, tokens, dtype=torch.long, device="meta")
        with torch.no_grad(), witness.FlopCounterMode(display=False) as counter:
            model(input_ids=ids, use_cache=False)
        made[str(tokens)] = int(counter.get_total_flops())
    return made


def main(only: list[str]) -> None:
    """Makes everything anew, or the model types in `only`."""
    made: Figures = {task: {} for task in cases.TASKS}
    if only and PATH.is_file():
        made = json.loads(PATH.read_text())
    for task, types in type_lists().items():
        for model_type in types:
            if not only or model_type in only:
                made[task][model_type] = figures(task, model_type)
                shown = {
                    k: v
                    for k, v in made[task][model_type].items()
                    if k.endswith(("_run", "_built"))
                }
                print(task, model_type, shown or "", flush=True)
    made["versions"] = witness.versions()
    PATH.write_text(json.dumps(made, sort_keys=True, separators=(",", ":")) + "\n")
    print(PATH.name, {task: len(made[task]) for task in cases.TASKS})


if __name__ == "__main__":
    main(sys.argv[1:])
