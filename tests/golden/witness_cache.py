"""What transformers keeps after a prefill, by kind: bytes of keys and values, of recurrent and of convolution state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from transformers import DynamicCache

# Attributes of a cache's layers, older state classes included; what isn't here isn't state (counters, masks).
KINDS = {
    "keys": "kv",
    "values": "kv",
    "indexer_keys": "kv",
    "idx_keys": "kv",
    "compressed_kv": "kv",
    "prefill_keys": "kv",
    "prefill_values": "kv",
    "recurrent_states": "recurrent",
    "rnn_state": "recurrent",
    "conv_states": "convolution",
}
OUTPUTS = ("past_key_values", "cache", "cache_params", "state")


def held_bytes(model: Any, tokens: int) -> dict[str, int]:
    """Bytes that one sequence of `tokens` tokens holds after a prefill, as the tensors are stored, by kind.

    Where keys are values (DeepSeek-V4), what the generic class keeps twice counts once.
    """
    found = {"kv": 0, "recurrent": 0, "convolution": 0}
    seen: set[int] = set()
    cache = _filled(model, tokens)
    once = getattr(model.config, "model_type", "") == "deepseek_v4"
    for name, tensor in _named(cache):
        kind = KINDS.get(name)
        if kind is None or id(tensor) in seen or (once and name == "values"):
            continue
        seen.add(id(tensor))
        found[kind] += tensor.numel() * tensor.element_size()
    return found


def unknown_names(model: Any, tokens: int = 16) -> set[str]:
    """Attributes with tensors of more than a few elements that `KINDS` doesn't name."""
    return {
        name
        for name, tensor in _named(_filled(model, tokens))
        if name not in KINDS and tensor.numel() > 64
    }


def _filled(model: Any, tokens: int) -> Any:
    """The cache after a prefill: the one that the model makes, or one given to it; None where it makes none."""
    # A model of sound reads one row of codes per codebook.
    rows = len(getattr(model, "lm_heads", ())) or 1
    ids = torch.ones(rows, tokens, dtype=torch.long, device="meta")
    with torch.no_grad():
        try:
            output = model(input_ids=ids, use_cache=True)
        except IndexError:
            # Made for as many layers as the encoder has, where the decoder has more.
            output = model(input_ids=ids, use_cache=True, past_key_values=DynamicCache())
    for name in OUTPUTS:
        if output.get(name) is not None:
            return output[name]
    return _given(model, ids)


def _given(model: Any, ids: torch.Tensor) -> Any:
    """A cache handed in, for a model that doesn't say which one it filled; None where it leaves it empty."""
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    with torch.no_grad():
        try:
            model(input_ids=ids, use_cache=True, past_key_values=cache)
        except (TypeError, ValueError):
            return None
    return cache


def _named(cache: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of a cache with the name of the attribute that holds it."""
    if cache is None:
        return
    if isinstance(cache, (list, tuple)):
        for tensor in cache:
            if isinstance(tensor, torch.Tensor):
                yield "recurrent_states", tensor
        return
    for part in ("self_attention_cache", "cross_attention_cache"):
        yield from _named(getattr(cache, part, None))
    layers = getattr(cache, "layers", None)
    for holder in layers if layers is not None else [cache]:
        for name, value in vars(holder).items():
            for tensor in _tensors(value):
                yield name, tensor
    # MiniMax keeps the state of its linear layers beside the layers' list.
    for tensor in _tensors(getattr(cache, "linear_cache", None)):
        yield "recurrent_states", tensor


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
