"""How a published checkpoint stores its weights: its own `quantization_config`, resolved weight by weight.

Methods read: AWQ, GPTQ, bitsandbytes, FP8 (per tensor and in blocks, and with 4-bit experts), FBGEMM FP8,
compressed-tensors, NVIDIA Model Optimizer (one format or mixed) and MXFP4. Another method is refused by name: a model
whose storage isn't known has no known size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from planner.architecture.module_paths import ModulePatterns, module_paths, original_part
from planner.architecture.quantization_methods import (
    METHODS,
    Recipe,
    Section,
    kv_scheme_of,
    unknown_method,
)
from planner.architecture.spec import Architecture, Part, Shape, Weight
from planner.catalog.encodings import Encoding
from planner.errors import InvalidConfig

TOWER_PARTS = frozenset({Part.VISION, Part.AUDIO, Part.PROJECTOR})


@dataclass(frozen=True, slots=True, eq=False)
class WeightEncodings:
    """How each weight of a model is stored; None: unquantised.

    Attributes:
        layers: by layer, parallel to its kind's weights.
        outer, mtp: parallel to the architecture's; towers: by tower, parallel to its weights.
    """

    layers: tuple[tuple[Encoding | None, ...], ...]
    outer: tuple[Encoding | None, ...]
    towers: tuple[tuple[Encoding | None, ...], ...]
    mtp: tuple[Encoding | None, ...]

    def used(self) -> tuple[Encoding, ...]:
        """The distinct encodings of the model itself, MTP layers apart, in order of appearance."""
        groups = (*self.layers, self.outer, *self.towers)
        found = dict.fromkeys(one for group in groups for one in group if one is not None)
        return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointScheme:
    """A quantised checkpoint's storage.

    Attributes:
        method: as the configuration names it ("awq", "fp8", "compressed-tensors", …).
        label: short name to show ("fp8-block", "mxfp4 experts", "nvfp4 + fp8").
        formats: catalogue formats whose kernels an engine needs, most used first.
        kv_scheme: the cache format it was calibrated for, or None.
    """

    method: str
    label: str
    formats: tuple[str, ...]
    kv_scheme: str | None
    encodings: WeightEncodings


@lru_cache(maxsize=1024)
def checkpoint_scheme(architecture: Architecture) -> CheckpointScheme | None:
    """The checkpoint's storage, or None where it isn't quantised.

    Raises:
        Unsupported: for a method, or an option of one, that isn't known (`values['method']`).
        InvalidConfig: for an ignore list with a broken regular expression.
    """
    config = architecture.quantization
    if not config:
        return None
    section = config.get("quantization")
    flat: Section = {**config, **section} if isinstance(section, Mapping) else config
    method = str(flat.get("quant_method") or ("modelopt" if flat.get("quant_algo") else ""))
    reader = METHODS.get(method.lower())
    if reader is None:
        raise unknown_method(method or "none")
    try:
        recipe = reader(flat)
        kv_scheme = kv_scheme_of(flat)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InvalidConfig(
            "config_bad_quantization", key="quantization_config", method=method
        ) from error
    chooser = _Chooser(recipe)
    encodings = assign(architecture, chooser, chooser.alike)
    used = encodings.used()
    formats = tuple(dict.fromkeys(one.format_id for one in used))
    label = " + ".join(_bits_said(one) for one in dict.fromkeys(used))
    if recipe.parts == frozenset({Part.EXPERTS}):
        label += " experts"
    return CheckpointScheme(method.lower(), label, formats, kv_scheme, encodings)


def _bits_said(encoding: Encoding) -> str:
    """A format's name with the checkpoint's own bits, where a profile is used for another width ("gptq-int8")."""
    name, stated = encoding.format_id, f"int{encoding.bits:g}"
    return re.sub(r"(?<=[a-z]-)int4$", stated, name)


class _Chooser:
    """Chooses the encoding of one weight by a recipe, remembering what doesn't depend on the layer."""

    __slots__ = ("_anywhere", "_lists", "_numbered", "_recipe")

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        lists = [recipe.ignored, *(patterns for patterns, _ in recipe.rules if patterns)]
        self._lists = lists
        self._numbered = any(patterns.numbered for patterns in lists)
        self._anywhere: dict[tuple[int, Weight, bool], bool] = {}

    def alike(self, layer: int) -> Hashable:
        """What the choice for a layer depends on."""
        return tuple(patterns.said_of(layer) for patterns in self._lists)

    def __call__(
        self, weight: Weight, layer: int | None, layers: int, dense_beside: bool
    ) -> Encoding | None:
        if weight.shape is not Shape.LINEAR or weight.dtype is not None:
            return None
        recipe, part = self._recipe, original_part(weight)
        paths = module_paths(weight, layer, layers, dense_beside=dense_beside)
        if self._means(recipe.ignored, weight, part, paths, dense_beside):
            return None
        for patterns, encoding in recipe.rules:
            if patterns is None:
                if part in recipe.parts and weight.name != "joint_projection":
                    return recipe.experts if recipe.experts and part is Part.EXPERTS else encoding
            elif self._means(patterns, weight, part, paths, dense_beside):
                return encoding
        return None

    def _means(
        self,
        patterns: ModulePatterns,
        weight: Weight,
        part: Part,
        paths: tuple[str, ...],
        dense_beside: bool,
    ) -> bool:
        if part in TOWER_PARTS:
            return patterns.match_tower(paths)
        if self._numbered or weight.part is Part.MTP:
            return patterns.match_in_layer(paths) or patterns.match_anywhere(paths)
        key = (id(patterns), weight, dense_beside)
        anywhere = self._anywhere.get(key)
        if anywhere is None:
            anywhere = self._anywhere[key] = patterns.match_anywhere(paths)
        return anywhere or patterns.match_in_layer(paths)


Choose = Callable[[Weight, int | None, int, bool], Encoding | None]


def _itself(layer: int) -> Hashable:
    return layer


def assign(
    architecture: Architecture, choose: Choose, alike: Callable[[int], Hashable] = _itself
) -> WeightEncodings:
    """Every weight's encoding by a chooser `(weight, layer index or None, layers, dense beside experts)`.

    Args:
        alike: of a layer's index, what its choice depends on: layers of one kind with equal values are chosen once.
    """
    layers = architecture.layers
    chosen: dict[tuple[int, Hashable], tuple[Encoding | None, ...]] = {}
    shared: dict[tuple[Encoding | None, ...], tuple[Encoding | None, ...]] = {}

    def layer(index: int, kind: int) -> tuple[Encoding | None, ...]:
        key = (kind, alike(index))
        if key not in chosen:
            weights = kinds[kind].weights
            beside = {Part.EXPERTS, Part.FEED_FORWARD} <= {weight.part for weight in weights}
            found = tuple(choose(weight, index, layers, beside) for weight in weights)
            # Layers stored alike share one tuple, so that its identity tells them together.
            chosen[key] = shared.setdefault(found, found)
        return chosen[key]

    kinds = architecture.layer_kinds
    return WeightEncodings(
        layers=tuple(layer(index, kind) for index, kind in enumerate(architecture.layer_order)),
        outer=tuple(choose(weight, None, layers, False) for weight in architecture.outer),
        towers=tuple(
            tuple(choose(weight, None, layers, False) for weight in tower.weights)
            for tower in architecture.towers
        ),
        mtp=tuple(choose(weight, None, layers, False) for weight in architecture.mtp),
    )
