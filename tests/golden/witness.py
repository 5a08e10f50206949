"""What transformers makes of a configuration on the meta device: parameters, cache elements and FLOPs, no weights."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
logging.disable(logging.WARNING)

import torch  # noqa: E402
import transformers  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402
from transformers import (  # noqa: E402
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedModel,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402

# Looking for padding among the tokens would read values that aren't there.
PreTrainedModel.warn_if_padding_and_no_attention_mask = lambda *_: None

NOT_READ = ("quantization_config", "compression_config", "auto_map")
AUTO_CLASSES = (AutoModelForCausalLM, AutoModelForImageTextToText, AutoModel)
# What a cache layer holds beside keys and values once they're final; buffers of unfinished entries are left out.
CACHE_TENSORS = ("keys", "values", "indexer_keys", "idx_keys", "compressed_kv")


def build(config: dict[str, Any]) -> Any:
    """The model on the meta device, in bfloat16 and with eager attention.

    Of the class that `architectures` names where transformers has it, else of the first automatic one that fits.

    Raises:
        KeyError: for a model type that transformers doesn't know.
    """
    data = copy.deepcopy(config)
    for level in (data, data.get("text_config")):
        if isinstance(level, dict):
            for key in NOT_READ:
                level.pop(key, None)
    parsed = CONFIG_MAPPING[data["model_type"]].from_dict(data)
    parsed.dtype = torch.bfloat16
    options = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
    named = [getattr(transformers, name, None) for name in data.get("architectures") or ()]
    with torch.device("meta"):
        if named and named[0] is not None:
            return named[0]._from_config(parsed, **options)
        for auto in AUTO_CLASSES:
            with contextlib.suppress(ValueError):
                return auto.from_config(parsed, trust_remote_code=False, **options)
    raise KeyError(data["model_type"])


def parameters(model: Any) -> int:
    """Parameters, each counted once however often it's used."""
    return sum({id(p): p.numel() for p in model.parameters()}.values())


def language_model(model: Any) -> Any:
    """The part that reads tokens: a wrapper's language model, or the model itself."""
    inner = getattr(model, "model", model)
    return getattr(inner, "language_model", model)


def cache_elements(model: Any, tokens: int) -> int:
    """Elements in the cache of one sequence after a prefill of `tokens` tokens."""
    ids = torch.ones(1, tokens, dtype=torch.long, device="meta")
    with torch.no_grad():
        output = language_model(model)(input_ids=ids, use_cache=True)
    names = CACHE_TENSORS
    if model.config.model_type == "deepseek_v4":
        # Keys are values there; the generic window layer keeps them twice all the same.
        names = tuple(name for name in names if name != "values")
    cache = output.past_key_values if "past_key_values" in output else output.cache
    found: dict[int, int] = {}
    for layer in cache.layers:
        for name in names:
            value = getattr(layer, name, None)
            tensors = value.values() if isinstance(value, dict) else (value,)
            for tensor in tensors:
                if isinstance(tensor, torch.Tensor):
                    found[id(tensor)] = tensor.numel()
    return sum(found.values())


def flops(model: Any, tokens: int) -> int:
    """FLOP of a forward pass over `tokens` tokens: matrix products and attention, multiply-add = 2."""
    ids = torch.ones(1, tokens, dtype=torch.long, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=ids, use_cache=True)
    return int(counter.get_total_flops())


def versions() -> dict[str, str]:
    """What the figures were made with."""
    return {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
