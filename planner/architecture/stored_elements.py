"""What a checkpoint stores beside its parameters, and which of it makes up the difference to a published total.

The Hub counts elements of tensors as stored: two 4-bit floats in a byte are one element, four-bit integers packed into
32-bit words are counted apart, scales and buffers count, and so does a table that's stored twice. Some uploads leave
out layers or scales. So each cause is optional, and what explains a difference is a set of causes that sums to it
exactly; anything else is stated as a rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from planner.architecture.completions import completions
from planner.architecture.keys import Keys
from planner.architecture.mixers import LatentAttention, Recurrence
from planner.architecture.module_paths import original_part
from planner.architecture.quantization import CheckpointScheme, checkpoint_scheme
from planner.architecture.quantization_methods import LINEAR_PARTS
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.spec import Architecture, Part, Shape, Tower, Weight
from planner.architecture.totals import parameters
from planner.architecture.towers import towers_of
from planner.catalog.encodings import Encoding
from planner.catalog.search import read_index
from planner.errors import PlannerError

MOST_CAUSES = 7
# Families whose published checkpoints keep the causal mask of each layer, context² elements.
_KEEP_MASKS = frozenset({"gpt2", "gpt_neo", "gpt_neox", "gptj", "codegen"})
_MTP_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")
# Formats whose 4-bit elements the Hub counts as the bytes that hold two of them.
_COUNTED_AS_BYTES = frozenset({"nvfp4", "mxfp4"})
_INTEGER_METHODS = frozenset({"awq", "gptq"})


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that a stored total may hold or lack beside the parameters: a code, and its elements (signed)."""

    code: str
    elements: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """A stated total against an architecture's parameters.

    Attributes:
        parameters: of the architecture, buffers included, MTP layers apart (count).
        difference: stated total less that.
        causes: those that explain it, smallest set first found.
        rest: what they leave unexplained (count); 0 where they explain it all.
    """

    parameters: int
    difference: int
    causes: tuple[Cause, ...]
    rest: int


def explain(architecture: Architecture, config: Mapping[str, Any], stated: int) -> Explanation:
    """The smallest set of causes that makes up the difference between a stated total and the parameters.

    Where none does, the causes that must be there (a packed format's) are taken, and the rest is stated.

    Args:
        config: the configuration that the architecture was made from.
        stated: elements in the checkpoint as published (count).
    """
    own = parameters(architecture)
    difference = stated - own
    found = causes(architecture, config)
    chosen = _sum_to(found, difference)
    if chosen is None:
        chosen = _completed(architecture, config, stated)
    if chosen is None:
        chosen = _nearest(found, difference)
    rest = difference - sum(cause.elements for cause in chosen)
    return Explanation(own, difference, chosen, rest)


def _completed(
    architecture: Architecture, config: Mapping[str, Any], stated: int
) -> tuple[Cause, ...] | None:
    """Causes after all where the configuration lacks keys, or states others, than the catalogue's of its shape."""
    own = parameters(architecture)
    for other in completions(architecture, config):
        try:
            whole = architecture_from_config(other)
            found = causes(whole, other)
        except PlannerError:
            continue
        added = parameters(whole) - own
        chosen = _sum_to(found, stated - own - added)
        if chosen is not None:
            return (*((Cause("keys_of_the_catalogue", added),) if added else ()), *chosen)
    return None


def _sum_to(found: tuple[Cause, ...], difference: int) -> tuple[Cause, ...] | None:
    for size in range(min(MOST_CAUSES, len(found)) + 1):
        for group in combinations(found, size):
            if sum(cause.elements for cause in group) == difference:
                return group
    return None


def _nearest(found: tuple[Cause, ...], difference: int) -> tuple[Cause, ...]:
    """The causes that leave the least, of those that leave less than a thousandth of the difference; else none."""
    best: tuple[Cause, ...] = ()
    least = abs(difference)
    large = [cause for cause in found if abs(cause.elements) > abs(difference) / 10_000]
    for size in range(1, min(MOST_CAUSES, len(large)) + 1):
        for group in combinations(large, size):
            rest = abs(difference - sum(cause.elements for cause in group))
            if rest < least:
                best, least = group, rest
    return best if least <= abs(difference) / 1000 else ()


def causes(architecture: Architecture, config: Mapping[str, Any]) -> tuple[Cause, ...]:
    """Everything that a checkpoint of this architecture may store beside its parameters, or lack."""
    made = {
        **_layers_and_tables(architecture, config),
        **_buffers(architecture, config),
        **_storage(architecture),
    }
    return tuple(Cause(code, elements) for code, elements in made.items() if elements)


def _layers_and_tables(architecture: Architecture, config: Mapping[str, Any]) -> dict[str, int]:
    hidden, vocabulary = architecture.hidden_size, architecture.vocabulary_size
    table = sum(w.elements for w in architecture.outer if w.name == "embedding")
    stated = sum(weight.elements for weight in architecture.mtp)
    made = {"mtp_layers": stated}
    if not stated:
        made["mtp_layer_not_in_config"] = _unmentioned_mtp(config)
    layers = stated or made.get("mtp_layer_not_in_config", 0)
    if layers:
        made["mtp_tables"] = -2 * vocabulary * hidden if _has_tables(architecture) else 0
        made["mtp_tables_too"] = 2 * vocabulary * hidden
        made["mtp_buffers"] = -sum(w.elements for w in architecture.mtp if w.buffer)
    made["speaking_parts"] = architecture.speaking_parameters
    made["tied_copy"] = table if architecture.tied else 0
    made["no_head"] = -sum(w.elements for w in architecture.outer if w.part is Part.HEAD)
    for tower in architecture.towers:
        made[f"no_{tower.modality}_tower"] = -_tower_elements((tower,))
    return made | _missing_towers(architecture, config)


def _tower_elements(towers: Iterable[Tower]) -> int:
    return sum(weight.elements for tower in towers for weight in tower.weights)


def _missing_towers(architecture: Architecture, config: Mapping[str, Any]) -> dict[str, int]:
    """Towers that the configuration has no section for: those of the class's defaults, and of a catalogue model."""
    model_type = architecture.model_type
    made: dict[str, int] = {}
    for name in (model_type, f"{model_type}_vl"):
        for section in ("vision_config", "audio_config"):
            if config.get(section) is not None:
                continue
            try:
                added = towers_of({**config, "model_type": name, section: {}})
            except PlannerError:
                continue
            modality = "audio" if section == "audio_config" else "image"
            elements = _tower_elements(tower for tower in added if tower.modality == modality)
            if elements:
                made[f"{modality}_tower_not_in_config"] = elements
    if not architecture.towers:
        for entry in read_index("model"):
            if entry.fields.get("model_type") == model_type:
                towers = architecture_of(entry.id).towers
                if towers:
                    made["tower_of_the_catalogue"] = _tower_elements(towers)
                    break
    return made


def _has_tables(architecture: Architecture) -> bool:
    return any(weight.shape is Shape.TABLE for weight in architecture.mtp)


def _unmentioned_mtp(config: Mapping[str, Any]) -> int:
    """Elements of one next-token-prediction layer that the configuration leaves out, 0 where the family has none."""
    section = config.get("text_config")
    for key in _MTP_KEYS:
        changed = dict(config)
        if isinstance(section, Mapping):
            changed["text_config"] = {**section, key: 1}
        else:
            changed[key] = 1
        try:
            mtp = architecture_from_config(changed).mtp
        except PlannerError:
            continue
        if mtp:
            return sum(weight.elements for weight in mtp)
    return 0


def _buffers(architecture: Architecture, config: Mapping[str, Any]) -> dict[str, int]:
    """What frameworks register but don't learn: router biases, masks, positions, rotary frequencies."""
    made = {
        "router_biases_not_counted": parameters(architecture, buffers=False)
        - parameters(architecture)
    }
    layers, rows = architecture.layers, architecture.max_context_tokens
    if architecture.model_type in _KEEP_MASKS:
        made["causal_masks"] = layers * rows**2
    positions = [w.rows for w in architecture.outer if w.part is Part.POSITION]
    if positions:
        made["position_ids"] = positions[0]
    made["rotary_frequencies"] = layers * _rotary_pairs(architecture, config)
    made["sinks_of_other_layers"] = _sinks_of_other_layers(architecture)
    made["padded_decays"] = _padded_decays(architecture)
    return made


def _padded_decays(architecture: Architecture) -> int:
    """What Kimi-K3's files add to each delta layer's decays: zeros from the number of heads up to the head size.

    References:
        TensorRT-LLM, modeling_kimi_linear.py: "[96] -> [128]".
    """
    padding = 0
    for kind, count in architecture.kind_counts:
        if any(
            isinstance(mixer, Recurrence) and mixer.name == "kimi_delta" for mixer in kind.mixers
        ):
            sizes = {weight.name: weight.elements for weight in kind.weights}
            padding += count * max(0, sizes["gated_norm"] - sizes["decay"])
    return padding


def _sinks_of_other_layers(architecture: Architecture) -> int:
    """Sinks that layers would have which have none, in a model where others do."""
    with_sinks = [
        next((weight.elements for weight in kind.weights if weight.name == "sinks"), 0)
        for kind in architecture.layer_kinds
    ]
    most = max(with_sinks, default=0)
    return sum(most for index in architecture.layer_order if not with_sinks[index])


def _rotary_pairs(architecture: Architecture, config: Mapping[str, Any]) -> int:
    """Half of the rotary part of a head."""
    for kind in architecture.layer_kinds:
        for mixer in kind.mixers:
            if isinstance(mixer, LatentAttention):
                return mixer.rope_dim // 2
            size = getattr(mixer, "key_dim", 0)
            if size:
                keys = Keys(config)
                share = 1.0
                for name in ("partial_rotary_factor", "rotary_pct"):
                    if isinstance(config.get(name), (int, float)):
                        share = keys.number(name, minimum=0.0, maximum=1.0)
                return int(size * share) // 2
    return 0


Stored = tuple[Weight, int, Encoding]


def _encoded(architecture: Architecture, scheme: CheckpointScheme) -> Iterator[tuple[Stored, bool]]:
    """Every quantised weight with how often it occurs and its encoding; and whether it's an MTP layer's."""
    groups: Iterable[tuple[Any, Any, bool]] = (
        *(
            (architecture.layer_kinds[kind].weights, scheme.encodings.layers[index], False)
            for index, kind in enumerate(architecture.layer_order)
        ),
        (architecture.outer, scheme.encodings.outer, False),
        *(
            (tower.weights, scheme.encodings.towers[index], False)
            for index, tower in enumerate(architecture.towers)
        ),
        (architecture.mtp, scheme.encodings.mtp, True),
    )
    for weights, encodings, mtp in groups:
        for weight, encoding in zip(weights, encodings, strict=True):
            if encoding is not None:
                yield (weight, weight.copies, encoding), mtp


def scale_count(encoding: Encoding, rows: int, columns: int) -> int:
    """Blocks of one matrix that have a scale of their own; 0 for a format without scales (count)."""
    if not encoding.scale_bits:
        return 0
    if encoding.flat_group:
        return -(-rows * columns // encoding.flat_group)
    down = -(-rows // encoding.group_rows) if encoding.group_rows else 1
    across = -(-columns // encoding.group_columns) if encoding.group_columns else 1
    return down * across


def _storage(architecture: Architecture) -> dict[str, int]:
    """What a quantised checkpoint's formats add and take away."""
    scheme = checkpoint_scheme(architecture)
    if scheme is None:
        return _unmentioned_scales(architecture)
    made: dict[str, int] = {}

    def add(code: str, elements: float, mtp: bool) -> None:
        name = f"mtp_{code}" if mtp else code
        made[name] = made.get(name, 0) + int(elements)

    for (weight, copies, encoding), mtp in _encoded(architecture, scheme):
        rows, columns, id_ = weight.rows, weight.columns, encoding.format_id
        if id_ in _COUNTED_AS_BYTES:
            add(f"{id_}_packed_in_bytes", -copies * rows * columns * (1 - encoding.bits / 8), mtp)
        if scheme.method in _INTEGER_METHODS:
            add("output_biases", copies * rows, mtp)
            continue
        scales = copies * scale_count(encoding, rows, columns)
        if scheme.method == "bitsandbytes":
            _add_bitsandbytes(add, scales, copies, encoding, mtp)
            continue
        add(f"{id_}_scales", scales, mtp)
        if weight.part is not Part.EXPERTS and not mtp:
            made["only_experts_have_scales"] = made.get("only_experts_have_scales", 0) - scales
        if id_ == "w4a16" and encoding.group_columns:
            add("a_scale_a_row_instead", copies * rows, mtp)
        if encoding.tensor_bits:
            add(f"{id_}_matrix_scales", copies * encoding.tensor_bits / 32, mtp)
        if mtp and id_ == "nvfp4":
            # Modules that a requantised checkpoint left as the original had them.
            add("left_in_mxfp4_scales", copies * rows * columns / 32, mtp)
    if scheme.kv_scheme:
        made["cache_scales"] = 2 * architecture.layers
    return made


def _unmentioned_scales(architecture: Architecture) -> dict[str, int]:
    """A scale for each row of every linear module in the layers, of a format that the configuration leaves out."""

    def rows(weights: Iterable[Weight]) -> int:
        return sum(
            weight.copies * weight.rows
            for weight in weights
            if weight.shape is Shape.LINEAR
            and weight.dtype is None
            and original_part(weight) in LINEAR_PARTS
            and weight.name != "joint_projection"
        )

    return {
        "row_scales_not_in_config": sum(
            count * rows(kind.weights) for kind, count in architecture.kind_counts
        ),
        "mtp_row_scales_not_in_config": rows(
            weight for weight in architecture.mtp if weight.name not in ("embedding", "head")
        ),
    }


def _add_bitsandbytes(add: Any, scales: int, copies: int, encoding: Encoding, mtp: bool) -> None:
    """Scales in bytes, which the Hub counts as pairs of 4-bit elements; their own scales; the code books."""
    if encoding.bits > 4:
        add("scales", scales, mtp)
        return
    add("scales", 2 * scales if encoding.second_group else scales, mtp)
    if encoding.second_group:
        add("scales_of_scales", -(-scales // encoding.second_group), mtp)
        add("code_books", copies * (16 + 256), mtp)
    else:
        add("code_books", copies * 16, mtp)
