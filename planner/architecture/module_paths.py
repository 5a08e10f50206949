"""Which module of a checkpoint a weight lives in: the names that ignore lists of quantisation configs speak of.

Model families name the same thing differently (`self_attn.q_proj`, `attn.wq`, `mixer.q_proj`), and an Architecture
keeps none of these names, so a weight answers to all that are in use. A pattern that matches any of them means it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache

from planner.architecture.spec import Part, Shard, Weight
from planner.errors import InvalidConfig

# Roots before "layers.N" or a top-level module; all mean the same model.
_ROOTS = (
    "model.language_model.model.",
    "model.language_model.",
    "language_model.model.",
    "language_model.backbone.",
    "language_model.",
    "model.decoder.",
    "model.",
    "backbone.",
    "transformer.",
    "decoder.",
)
_QUANTIFIER = re.compile(r"(?<!\\)[*+{]")
_QUANTIFIED_GROUP = re.compile(r"(?<!\\)\)[*+{]")
_OTHER_EXPERT = re.compile(r"experts\.[1-9]")
_WILDCARD = re.compile(r"[*?\[]")
_LAYER = re.compile(r"(?:mtp\.)?layers\.\d+(?=\.|$)")
_REGEX_ROOTS = ("model.", "", "model.language_model.", "language_model.model.", "backbone.")

_LEAVES: dict[str, tuple[str, ...]] = {
    "query": ("q_proj", "wq", "qkv_proj", "query_key_value", "c_attn", "W_pack", "Wqkv", "query"),
    "key": ("k_proj", "wk", "qkv_proj", "query_key_value", "c_attn", "W_pack", "Wqkv", "key"),
    "value": ("v_proj", "wv", "qkv_proj", "query_key_value", "c_attn", "W_pack", "Wqkv", "value"),
    "output": ("o_proj", "wo", "out_proj", "dense", "c_proj"),
    "output_gate": ("g_proj", "gate_proj"),
    "query_down": ("q_a_proj", "wq_a", "fused_wqa_wkv", "fused_qkv_a_proj"),
    "query_up": ("q_b_proj", "wq_b"),
    "kv_down": ("kv_a_proj_with_mqa", "wkv_a", "fused_qkv_a_proj"),
    "kv_up": ("kv_b_proj", "wkv_b"),
    "key_value": ("wkv", "kv_proj", "fused_wqa_wkv"),
    "output_down": ("wo_a",),
    "output_up": ("wo_b",),
    "compressor_key_value": ("compressor.wkv",),
    "compressor_gate": ("compressor.wgate",),
    "index_query": ("indexer.wq_b", "index_q_proj"),
    "index_key": ("indexer.wk", "index_k_proj"),
    "index_weight": ("indexer.weights_proj", "indexers_proj"),
    "index_key_value": ("indexer.compressor.wkv",),
    "index_gate": ("indexer.compressor.wgate",),
    "gate": ("gate_proj", "w1", "gate_up_proj", "wi_0"),
    "up": ("up_proj", "w3", "gate_up_proj", "fc1", "c_fc", "dense_h_to_4h", "wi", "wi_1"),
    "down": ("down_proj", "w2", "fc2", "c_proj", "dense_4h_to_h", "wo"),
    "latent_down": ("fc1_latent_proj",),
    "latent_up": ("fc2_latent_proj",),
    "gate_down": ("g_a_proj",),
    "gate_up": ("g_b_proj",),
    "decay_down": ("f_a_proj",),
    "decay_up": ("f_b_proj",),
    "gate_and_input": ("in_proj",),
    "gates_and_input": ("in_proj",),
    "state_in_out": ("in_proj",),
    "time_step": ("in_proj", "dt_proj"),
    "selection": ("x_proj",),
    "query_key": ("in_proj_qkv", "in_proj_qkvz"),
    "value_and_gate": ("in_proj_qkv", "in_proj_z", "in_proj_qkvz"),
    "query_key_value": ("in_proj_qkv", "qkv_proj", "q_proj", "k_proj", "v_proj"),
    "joint_projections": ("e_proj", "h_proj"),
    "rates": ("in_proj_ba", "in_proj_a", "in_proj_b", "b_proj"),
}
_CONTAINERS: dict[Part, tuple[str, ...]] = {
    Part.ATTENTION: ("self_attn", "attn", "attention", "mixer", "self_attention", "cross_attn"),
    Part.RECURRENCE: (
        "linear_attn",
        "mixer",
        "mamba",
        "conv",
        "self_attn",
        "temporal_block",
        "attention",
    ),
    Part.FEED_FORWARD: ("mlp", "feed_forward", "ffn", "mixer"),
    Part.SHARED_EXPERTS: (
        "mlp.shared_experts",
        "mlp.shared_expert",
        "ffn.shared_experts",
        "block_sparse_moe.shared_experts",
        "mixer.shared_experts",
        "feed_forward.shared_expert",
    ),
    Part.EXPERTS: (
        "mlp.experts",
        "block_sparse_moe.experts",
        "ffn.experts",
        "mixer.experts",
        "feed_forward.experts",
        "moe.experts",
        "experts",
    ),
}
_DENSE = ("mlp.", "feed_forward.", "ffn.")
_ROUTERS = (
    "mlp.gate",
    "mlp.router",
    "block_sparse_moe.gate",
    "ffn.gate",
    "mixer.gate",
    "feed_forward.router",
    "router.proj",
)
_OUTER: dict[Part, tuple[str, ...]] = {
    Part.EMBEDDING: ("embed_tokens", "embed", "embeddings", "wte"),
    Part.POSITION: ("embed_positions", "wpe"),
    Part.HEAD: ("lm_head", "head", "output", "embed_out"),
    Part.NORM: ("norm",),
    Part.VISION: ("vision_tower", "vision_model", "visual", "vision_backbone", "vision_encoder"),
    Part.AUDIO: ("audio_tower", "audio_model", "audio_encoder"),
    Part.PROJECTOR: (
        "visual",  # Qwen's merger is inside its vision tower
        "multi_modal_projector",
        "mm_projector",
        "embed_vision",
        "patch_merge_mlp",
        "connector",
    ),
}


def original_part(weight: Weight) -> Part:
    """The part that a weight of an MTP layer would have in an ordinary layer."""
    if weight.part is not Part.MTP:
        return weight.part
    if weight.shard is Shard.EXPERTS:
        return Part.EXPERTS
    if weight.name in ("embedding", "head"):
        return Part(weight.name)
    if weight.name in ("router", "shared_gate", "router_correction"):
        return Part.ROUTER
    if weight.name in ("gate", "up", "down"):
        return Part.FEED_FORWARD
    return Part.ATTENTION if weight.name in _LEAVES else Part.NORM


@lru_cache(maxsize=4096)
def _relative(part: Part, name: str) -> tuple[str, ...]:
    """Module paths inside a layer (or at the top, for outer parts), without roots."""
    if part in _OUTER:
        return _OUTER[part]
    if part is Part.ROUTER:
        shared = ("mlp.shared_expert_gate", "mlp.shared_experts_gate")
        return shared if name == "shared_gate" else _ROUTERS
    leaves = _LEAVES.get(name, (name,))
    containers = _CONTAINERS.get(part, ())
    if part is Part.EXPERTS:
        return tuple(
            path
            for container in containers
            for leaf in leaves
            for path in (f"{container}.0.{leaf}", f"{container}.{leaf}")  # the first for all
        )
    return tuple(f"{container}.{leaf}" for container in containers for leaf in leaves)


def module_paths(
    weight: Weight, layer: int | None, layers: int, *, dense_beside: bool = False
) -> tuple[str, ...]:
    """Every path that a weight answers to, without a root.

    Args:
        layer: index of its layer; None for what lies outside the layers.
        layers: how many the model has; MTP layers are numbered on from there, or have a list of their own.
        dense_beside: the layer has a dense feed-forward beside its experts, which then lie outside "mlp".
    """
    part = original_part(weight)
    relative = _relative(part, weight.name)
    if dense_beside and part is Part.EXPERTS:
        relative = tuple(path for path in relative if not path.startswith(_DENSE))
    if weight.part is Part.MTP:
        places = ("mtp.layers.0.", "mtp.0.", "mtp.", f"layers.{layers}.")
        joint = ("eh_proj", "fc") if weight.name == "joint_projection" else ()
        return tuple(place + path for place in places for path in (*joint, *relative))
    if layer is None:
        return relative
    return tuple(f"layers.{layer}.{path}" for path in relative)


def without_other_experts(names: Iterable[str]) -> list[str]:
    """The names but those of a layer's second and later experts: the first speaks for all (`module_paths`).

    Files list every expert of every layer, tens of thousands of names.
    """
    return [name for name in names if not _OTHER_EXPERT.search(name)]


class ModulePatterns:
    """A list of module names, wildcards and regular expressions ("re:…"), asked whether it means a weight.

    A plain name means its module and everything inside it, wherever its components occur in a path ("lm_head", "gate",
    "model.layers.0.self_attn"). A wildcard is matched against the whole path, or a module above the weight. A regular
    expression is matched from the start of the path.

    Raises:
        InvalidConfig: for a regular expression that isn't one, or could take long.
    """

    __slots__ = (
        "_last_components",
        "_numbered_regex",
        "_numbered_starts",
        "_plain",
        "_plain_by_layer",
        "_regexes",
        "_tops",
        "_wild",
        "_wild_by_layer",
        "_wild_names",
    )

    def __init__(self, patterns: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._last_components: set[str] = set()
        self._plain_by_layer: dict[str, set[str]] = {}
        self._wild: list[re.Pattern[str]] = []
        self._wild_by_layer: dict[str, list[re.Pattern[str]]] = {}
        self._wild_names: dict[str, list[str]] = {}
        self._numbered_starts: list[str] = []  # what comes before the first wildcard
        self._numbered_regex = False
        self._regexes: list[re.Pattern[str]] = []
        self._tops: set[str] = set()
        for pattern in patterns:
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        if pattern.startswith("re:"):
            self._regexes.append(_regex(pattern.removeprefix("re:")))
            self._numbered_regex |= any(character.isdigit() for character in pattern)
            return
        path = _without_root(pattern)
        self._tops.add(path.partition(".")[0])
        layer = _LAYER.match(path)
        if "*" not in path and layer:
            self._plain_by_layer.setdefault(layer[0], set()).add(path)
        elif "*" not in path:
            self._plain.add(path)
            self._last_components.add(path.rpartition(".")[2])
        elif layer and layer.end() < len(path):
            self._wild_by_layer.setdefault(layer[0], []).append(re.compile(translate(path)))
            self._wild_names.setdefault(layer[0], []).append(path)
        else:
            self._wild.append(re.compile(translate(path)))
            if any(character.isdigit() for character in path):
                self._numbered_starts.append(_WILDCARD.split(path, maxsplit=1)[0])

    @property
    def numbered(self) -> bool:
        """Whether a wildcard or regular expression may mean some layers and not others."""
        return any(re.search(r"\d", one.pattern) for one in (*self._wild, *self._regexes))

    def said_of(self, layer: int) -> Hashable:
        """What the list says of one layer by its number: equal for layers of which it says the same.

        A wildcard or regular expression with digits in it may single out a layer; such a layer equals no other.
        """
        place = f"layers.{layer}"
        plain = {name.removeprefix(place) for name in self._plain_by_layer.get(place, ())}
        start = len(place) + 1
        wild = {name[start:] for name in self._wild_names.get(place, ())}
        own = f"{place}."
        singled = self._numbered_regex or any(
            own.startswith(name) or name.startswith(own) for name in self._numbered_starts
        )
        return frozenset(plain), frozenset(wild), layer if singled else None

    def match_in_layer(self, paths: Sequence[str]) -> bool:
        """Whether a pattern that names a layer means a weight that answers to these paths."""
        for path in paths:
            layer = _LAYER.match(path)
            if layer is None:
                continue
            plain = self._plain_by_layer.get(layer[0])
            wild = self._wild_by_layer.get(layer[0], ())
            if plain or wild:
                above = _above(path)
                if plain and not plain.isdisjoint(above):
                    return True
                if any(one.match(module) for one in wild for module in above):
                    return True
        return False

    def match_anywhere(self, paths: Sequence[str]) -> bool:
        """Whether a pattern that names no layer means a weight that answers to these paths."""
        return any(self._matches(path) for path in paths)

    def match_tower(self, names: Sequence[str]) -> bool:
        """Whether any pattern means a whole tower, or lists modules inside it."""
        return not self._tops.isdisjoint(names) or self.match_anywhere(names)

    def _matches(self, path: str) -> bool:
        parts = path.split(".")
        # A name can only occur where its last component does.
        if not self._last_components.isdisjoint(parts):
            for start in range(len(parts)):
                for end in range(start + 1, len(parts) + 1):
                    if ".".join(parts[start:end]) in self._plain:
                        return True
        if self._wild:
            above = _above(path)
            if any(one.match(module) for one in self._wild for module in above):
                return True
        return any(regex.match(root + path) for regex in self._regexes for root in _REGEX_ROOTS)


def _regex(text: str) -> re.Pattern[str]:
    """A regular expression from a configuration, if it can't take long: a pasted one is nobody's friend."""
    simple = len(text) <= 200 and len(_QUANTIFIER.findall(text)) <= 4
    try:
        if simple and not _QUANTIFIED_GROUP.search(text):
            return re.compile(text)
    except re.error:
        pass
    raise InvalidConfig("config_bad_pattern", key="quantization_config", given=text[:60])


def _above(path: str) -> list[str]:
    """The path and every module above it."""
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _without_root(pattern: str) -> str:
    for root in _ROOTS:
        if pattern.startswith(root):
            return pattern.removeprefix(root)
    return pattern
