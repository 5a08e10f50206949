"""A model as transformers runs it, on the device, with random weights: its speed doesn't depend on what they say.

Nothing is downloaded. A model that is too big is built as two slices, the same layers fewer times, and what the whole
would take follows from the difference.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from planner.architecture.checkpoint.sizes import CHECKPOINT_KEY
from planner.architecture.resolve import architecture_from_config
from planner.architecture.totals import parameters
from planner.errors import PlannerError, Unsupported
from planner.measure.clock import OutOfMemory, Timer, understood
from planner.measure.micro import TORCH_NAMES
from planner.measure.quantise import BYTES_PER_WEIGHT, quantise, scale_bytes

# Keys that say how a checkpoint is stored or who made it; the model is built without them.
STORED = (
    "quantization_config", "compression_config", "torch_dtype", "dtype", "auto_map", "_name_or_path",
    "transformers_version", "architectures", "model_type", CHECKPOINT_KEY,
)  # fmt: skip
LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
SECTIONS = ("text_config", "llm_config", "language_config")
CACHE_WORDS = ("cache", "past_key_values", "cache_params")
BLOCK = 1_048_573  # random numbers made once and laid end to end; prime, so that no two rows of a matrix are equal
SCALE = 0.04
ROOM_FRACTION = (
    0.8  # of the free memory that weights may take: the rest is for cache and activations
)


@dataclass(frozen=True, slots=True)
class Built:
    """A model, or a slice of one, ready to run.

    Attributes:
        model: transformers' object; layers: that it has.
        cache_word: what its forward calls the cache.
        weights_bytes: on the device (bytes).
    """

    model: Any
    timer: Timer
    layers: int
    vocabulary: int
    cache_word: str
    weights_bytes: float


@dataclass(frozen=True, slots=True)
class Depths:
    """How many layers are built.

    Attributes:
        whole: of the model; slices: one depth (the whole), or two whose difference gives a layer's share.
    """

    whole: int
    slices: tuple[int, ...]

    @property
    def extrapolated(self) -> bool:
        return len(self.slices) == 2


def _section(config: Mapping[str, Any]) -> str | None:
    """The key under which a multimodal model's language model is described, or None."""
    return next((key for key in SECTIONS if isinstance(config.get(key), dict)), None)


def with_layers(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """The configuration with fewer layers: the first ones, lists of one entry per layer cut to match.

    Raises:
        Unsupported: where it doesn't say how many it has (`model_not_sliceable`).
    """
    section = _section(config)
    if section is not None and not any(key in config for key in LAYER_KEYS):
        return {**config, section: with_layers(config[section], layers)}
    key = next((one for one in LAYER_KEYS if isinstance(config.get(one), int)), None)
    if key is None:
        raise Unsupported("model_not_sliceable", field="model", model=str(config.get("model_type")))
    whole = config[key]
    cut = {
        name: value[:layers] if isinstance(value, list) and len(value) == whole else value
        for name, value in config.items()
    }
    if isinstance(cut.get("max_window_layers"), int):
        cut["max_window_layers"] = min(cut["max_window_layers"], layers)
    return {**cut, key: layers}


def rhythm(order: tuple[int, ...]) -> tuple[int, int]:
    """Layers before a pattern begins, and its length: (3, 1) of three dense layers and then experts throughout."""
    for length in range(1, len(order) // 2 + 1):
        for first in range(len(order) - 2 * length + 1):
            if first > len(order) // 2:
                break
            rest = order[first:]
            if all(kind == rest[at % length] for at, kind in enumerate(rest)):
                return first, length
    return 0, len(order)


def depths(
    config: Mapping[str, Any], bytes_per_weight: float, room_bytes: float, most_layers: int | None
) -> Depths:
    """How much of a model to build: all of it where it fits, else two slices as deep as fit.

    Args:
        room_bytes: that its weights may take (bytes).
        most_layers: no slice deeper than that, where time is short; None for no limit.

    Raises:
        OutOfMemory: where not even the least slice fits.
    """
    architecture = architecture_from_config(config)
    order = architecture.layer_order
    whole = len(order)

    def size(layers: int) -> float:
        part = architecture_from_config(with_layers(config, layers))
        return parameters(part) * bytes_per_weight

    if (most_layers is None or whole <= most_layers) and size(whole) <= room_bytes:
        return Depths(whole, (whole,))
    first, length = rhythm(order)
    cap = whole if most_layers is None else min(whole, max(most_layers, first + 2 * length))
    many = (cap - first) // (2 * length)
    while many and size(first + 2 * many * length) > room_bytes:
        many -= 1
    if not many:
        raise OutOfMemory(f"{size(min(first + 2 * length, whole)):.0f} bytes")
    return Depths(whole, (first + many * length, first + 2 * many * length))


@contextmanager
def quietly() -> Iterator[None]:
    """Without the library's own advice on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _is_refusal(error: Exception) -> bool:
    """An error by which transformers refuses a configuration; its checks of types have one of their own."""
    kinds = (ValueError, TypeError, KeyError, AttributeError, ImportError)
    return isinstance(error, kinds) or type(error).__name__.startswith("StrictDataclass")


def refused(kind: str, error: Exception, code: str = "model_not_buildable") -> Unsupported:
    """Why transformers can't build, or can't run, a model of this type."""
    from transformers import __version__ as version

    reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    return Unsupported(code, field="model", model=kind, version=version, reason=reason)


def configured(config: Mapping[str, Any]) -> Any:
    """The configuration as transformers' object, of the language model alone.

    Raises:
        Unsupported: where this version of transformers doesn't know it (`model_not_buildable`).
    """
    from transformers import AutoConfig

    kind = str(config.get("model_type", ""))
    plain = {key: value for key, value in config.items() if key not in STORED}
    try:
        with quietly():
            whole = AutoConfig.for_model(kind, **plain)
            return whole.get_text_config(decoder=True)
    except Exception as error:
        if not _is_refusal(error):
            raise
        raise refused(kind, error) from error


def _fill(model: Any) -> None:
    """Random weights of a size that keeps every layer's output finite: norms at 1, the rest around 0."""
    import torch

    blocks: dict[Any, Any] = {}
    generator = torch.Generator().manual_seed(1)
    base = (torch.rand(BLOCK, generator=generator) - 0.5) * SCALE
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not weight.dtype.is_floating_point:
                continue
            if weight.dim() < 2:
                weight.fill_(1.0 if "norm" in name else 0.01)
                continue
            key = (weight.dtype, weight.device)
            if key not in blocks:
                blocks[key] = base.to(device=weight.device, dtype=weight.dtype)
            flat, block = weight.view(-1), blocks[key]
            for at in range(0, flat.numel(), BLOCK):
                part = flat[at : at + BLOCK]
                part.copy_(block[: part.numel()])


@contextmanager
def _uninitialised() -> Iterator[None]:
    """Weights as they lie in memory: they are filled afterwards, ten times faster."""
    try:
        from transformers.initialization import no_init_weights
    except ImportError:
        from transformers.modeling_utils import no_init_weights
    with no_init_weights():
        yield


def build(
    config: Mapping[str, Any], dtype: str, weights: str, timer: Timer, layers: int | None = None
) -> Built:
    """A model with random weights on the device.

    Args:
        dtype: that it computes in ("bf16"); weights: "native", or a format of QUANTISED that bitsandbytes makes.
        layers: of a slice; None for all.

    Raises:
        OutOfMemory: where it doesn't fit.
        Unsupported: where transformers doesn't know it, or bitsandbytes isn't there.
        PlannerError: `gpu_lost`.
    """
    import torch
    from transformers import AutoModelForCausalLM

    shape = configured(config if layers is None else with_layers(config, layers))
    try:
        with quietly(), _uninitialised(), torch.device(timer.device), torch.no_grad():
            model = AutoModelForCausalLM.from_config(
                shape, dtype=getattr(torch, TORCH_NAMES[dtype])
            )
        model.tie_weights()
        _fill(model)
        model.eval()
        if weights != "native":
            quantise(model, weights, timer.device)
        timer.synchronise()
    except (RuntimeError, MemoryError) as error:
        raise understood(error) from error
    except (ValueError, TypeError, KeyError, ImportError, AttributeError) as error:
        raise refused(str(config.get("model_type", "")), error) from error
    return built_from(model, timer)


def load(source: str, dtype: str, weights: str, timer: Timer) -> Built:
    """A model with its real weights, from a folder on this computer or, by its id, from the Hub.

    Only safetensors are read, and no code of the model's own is run.

    Raises:
        OutOfMemory: where it doesn't fit.
        Unsupported: where it can't be loaded (`model_not_loadable`), or bitsandbytes isn't there.
        PlannerError: `gpu_lost`.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with quietly():
            model = AutoModelForCausalLM.from_pretrained(
                source,
                dtype=getattr(torch, TORCH_NAMES[dtype]),
                use_safetensors=True,
                trust_remote_code=False,
            )
        if weights != "native":
            quantise(model, weights, timer.device)
        model = model.to(timer.device).eval()
        timer.synchronise()
    except (RuntimeError, MemoryError) as error:
        raise understood(error) from error
    except (OSError, ValueError, TypeError, KeyError, ImportError) as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise Unsupported(
            "model_not_loadable", field="weights_from", source=source, reason=reason
        ) from error
    return built_from(model, timer)


def built_from(model: Any, timer: Timer) -> Built:
    """A transformers model with what is needed to run it."""
    words = inspect.signature(model.forward).parameters
    word = next((one for one in CACHE_WORDS if one in words), CACHE_WORDS[0])
    tensors = {one.data_ptr(): one for one in (*model.parameters(), *model.buffers())}
    size = float(sum(one.numel() * one.element_size() for one in tensors.values()))
    size += scale_bytes(model)
    shape = model.config.get_text_config(decoder=True)
    return Built(model, timer, int(shape.num_hidden_layers), int(shape.vocab_size), word, size)


def loaded_bytes(config: Mapping[str, Any], dtype: str, weights: str) -> float:
    """Memory that the whole model's weights would take (bytes), from its shape."""
    per_weight = BYTES_PER_WEIGHT.get(weights, 4.0 if dtype == "fp32" else 2.0)
    try:
        return parameters(architecture_from_config(config)) * per_weight
    except PlannerError:
        return float("inf")
