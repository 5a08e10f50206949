"""What transformers makes of hybrids, encoders and towers on the meta device, beside what `witness` counts."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModel,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
    DynamicCache,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

Shape = tuple[int, ...]


def build(config: dict[str, Any], kind: str) -> Any:
    """An encoder, an encoder-decoder of text ("sequence") or speech, or a wrapper of images, on the meta device."""
    parsed = CONFIG_MAPPING[config["model_type"]].from_dict(config)
    parsed.dtype = torch.bfloat16
    auto = {
        "encoder": AutoModel,
        "image": AutoModelForImageTextToText,
        "sequence": AutoModelForSeq2SeqLM,
        "speech": AutoModelForSpeechSeq2Seq,
    }[kind]
    with torch.device("meta"):
        return auto.from_config(parsed, attn_implementation="eager")


def cache(model: Any, tokens: int) -> dict[str, int]:
    """Elements of one sequence's cache after a prefill: keys and values, recurrent and convolution state."""
    found = {"kv": 0, "recurrent": 0, "convolution": 0}
    filled = _filled(model, tokens)
    for layer in filled.layers:
        for attribute, kind in (
            ("keys", "kv"),
            ("values", "kv"),
            ("recurrent_states", "recurrent"),
            ("conv_states", "convolution"),
        ):
            found[kind] += sum(tensor.numel() for tensor in _tensors(layer, attribute))
    # MiniMax keeps the state of its linear layers beside the layers' list.
    for state in getattr(filled, "linear_cache", ()):
        found["recurrent"] += state.numel() if isinstance(state, torch.Tensor) else 0
    return found


def recurrent_dtypes(model: Any, tokens: int = 16) -> list[str]:
    """Storage types of recurrent state."""
    return sorted(
        {
            str(tensor.dtype).removeprefix("torch.")
            for layer in _filled(model, tokens).layers
            for tensor in _tensors(layer, "recurrent_states")
        }
    )


def _filled(model: Any, tokens: int) -> Any:
    """The cache after a prefill: the one that the model makes, or one given to it where it makes none."""
    ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    with torch.no_grad():
        output = model(input_ids=ids, use_cache=True)
        for name in ("past_key_values", "cache_params"):
            if output.get(name) is not None:
                return output[name]
        made = DynamicCache(config=model.config)
        # Some take it under a newer name already.
        takes = inspect.signature(model.forward).parameters
        name = "past_key_values" if "past_key_values" in takes else "cache"
        model(input_ids=ids, use_cache=True, **{name: made})
    return made


def _tensors(layer: Any, attribute: str) -> list[torch.Tensor]:
    value = getattr(layer, attribute, None)
    held = value.values() if isinstance(value, dict) else (value,)
    return [tensor for tensor in held if isinstance(tensor, torch.Tensor)]


def encoder_flops(model: Any, tokens: int) -> int:
    """FLOP of an encoder over one input."""
    ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=ids)
    return int(counter.get_total_flops())


def sequence_figures(model: Any, source: int, target: int, *, mel_bins: int) -> dict[str, int]:
    """FLOP of encoder and decoder over one input, and elements of the decoder's own and its cross-attention's cache.

    Args:
        mel_bins: of a speech model, whose encoder has `source` positions from twice as many frames; 0 for text.
    """
    ids = torch.zeros(1, target, dtype=torch.long, device="meta")
    if mel_bins:
        inputs = {"input_features": torch.zeros(1, mel_bins, 2 * source, device="meta")}
        inputs = {key: value.to(torch.bfloat16) for key, value in inputs.items()}
    else:
        inputs = {"input_ids": torch.zeros(1, source, dtype=torch.long, device="meta")}
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        output = model(**inputs, decoder_input_ids=ids, use_cache=True)
    caches = output.past_key_values
    return {
        "flops": int(counter.get_total_flops()),
        "self": _elements(caches.self_attention_cache),
        "cross": _elements(caches.cross_attention_cache),
    }


def _elements(cache: Any) -> int:
    return sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)


def tower_figures(model: Any) -> dict[str, int]:
    """Parameters outside the language model, and elements of its linear layers."""

    def outside(name: str) -> bool:
        return "language_model" not in name and not name.startswith("lm_head")

    counted = {id(p): p.numel() for name, p in model.named_parameters() if outside(name)}
    linear = {
        id(module): module.weight.numel()
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and outside(name)
    }
    return {"parameters": sum(counted.values()), "linear": sum(linear.values())}


def tower_flops(model: Any, shape: Shape) -> int:
    """FLOP of a wrapper's tower and projector over one item of this shape."""
    inner = getattr(model, "model", model)
    item = torch.zeros(shape, dtype=torch.bfloat16, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        if len(shape) == 3:
            inner.get_audio_features(input_features=item)
        else:
            inner.get_image_features(pixel_values=item)
    return int(counter.get_total_flops())
