"""Mixtures of experts as data: under which keys a family states its experts, and which layers have them.

A rule is `function(keys, layers) -> sparse`, one entry per layer: True where the layer routes to experts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.architecture.adapters.common import Flag, flag
from planner.architecture.blocks import Weights, mixture_of_experts
from planner.architecture.keys import MAX_EXPERTS, Keys

SparseRule = Callable[[Keys, int], tuple[bool, ...]]
Names = tuple[str, ...]

_DENSE_OR_SPARSE = frozenset({"dense", "sparse"})


def all_sparse(keys: Keys, layers: int) -> tuple[bool, ...]:
    """Experts on every layer."""
    return (True,) * layers


def by_mlp_layer_type(otherwise: SparseRule) -> SparseRule:
    """`mlp_layer_types` where it's given, else the family's rule."""

    def rule(keys: Keys, layers: int) -> tuple[bool, ...]:
        given = keys.texts("mlp_layer_types", length=layers, choices=_DENSE_OR_SPARSE)
        if given is not None:
            return tuple(kind == "sparse" for kind in given)
        return otherwise(keys, layers)

    return rule


def after_first_dense(default: int | None, *names: str) -> SparseRule:
    """DeepSeek's rule: layers from `first_k_dense_replace` on, every `moe_layer_freq`-th.

    Args:
        default: dense layers at the start where the key is absent; None raises.
        names: other names of the key.
    """

    def rule(keys: Keys, layers: int) -> tuple[bool, ...]:
        name = names[0] if names else "first_k_dense_replace"
        if default is None:
            first = keys.integer(name, *names[1:], minimum=0)
        else:
            first = keys.integer(name, *names[1:], default=default, minimum=0)
        if isinstance(keys.config.get("moe_layer_freq"), list):
            frequencies = keys.integers("moe_layer_freq", length=layers, maximum=1) or ()
            return tuple(frequency == 1 for frequency in frequencies)
        step = keys.integer("moe_layer_freq", default=1, maximum=10_000)
        return tuple(index >= first and index % step == 0 for index in range(layers))

    return rule


def by_sparse_step(dense: tuple[int, ...] = ()) -> SparseRule:
    """Qwen's rule: (i + 1) mod `decoder_sparse_step` = 0 and i not in `mlp_only_layers`.

    Args:
        dense: the configuration class's `mlp_only_layers` where the key is absent.
    """

    def rule(keys: Keys, layers: int) -> tuple[bool, ...]:
        step = keys.integer("decoder_sparse_step", default=1, maximum=10_000)
        given = keys.integers("mlp_only_layers", maximum=10_000)
        only_dense = frozenset(dense if given is None else given)
        return tuple(index not in only_dense and (index + 1) % step == 0 for index in range(layers))

    return rule


def by_frequency_list(keys: Keys, layers: int) -> tuple[bool, ...]:
    """`moe_layer_freq` as a list with 1 for a layer with experts; every layer where it's absent."""
    frequencies = keys.integers("moe_layer_freq", length=layers, maximum=1)
    return (True,) * layers if frequencies is None else tuple(f == 1 for f in frequencies)


def between(keys: Keys, layers: int) -> tuple[bool, ...]:
    """Ernie's rule: every `moe_layer_interval`-th layer from `moe_layer_start_index` to `moe_layer_end_index`."""
    interval = keys.integer("moe_layer_interval", default=1, maximum=10_000)
    start = keys.integer("moe_layer_start_index", default=1, minimum=0)
    end = keys.integer("moe_layer_end_index", default=-1, minimum=-1)
    last = layers - 1 if end == -1 else end
    return tuple((index + 1) % interval == 0 and start <= index <= last for index in range(layers))


@dataclass(frozen=True, slots=True)
class Mixture:
    """How a family states its experts.

    Attributes:
        experts, per_token, width: keys for the routed experts, those a token uses, and each one's intermediate size.
        default_*: what the configuration class takes where the key is absent; None raises.
        shared: keys for the number of shared experts, each as wide as a routed one; () for none.
        shared_width: keys for the shared experts' total width instead; () for none.
        default_shared: the number (or the width) where those keys are absent; None raises.
        shared_gate, shared_bias, router_bias, expert_bias, gated: as in `blocks.mixture_of_experts`.
        correction: "" for none, "buffer" or "parameter" for a score correction per expert.
        layers: which layers have experts.
    """

    experts: Names = ("num_experts", "num_local_experts")
    per_token: Names = ("num_experts_per_tok",)
    width: Names = ("moe_intermediate_size",)
    default_experts: int | None = None
    default_per_token: int | None = None
    default_width: int | None = None
    shared: Names = ()
    shared_width: Names = ()
    default_shared: int | None = None
    shared_gate: bool = False
    shared_bias: Flag = False
    router_bias: bool = False
    expert_bias: bool = False
    gated: bool = True
    correction: str = ""
    layers: SparseRule = all_sparse

    def read(self, keys: Keys) -> Experts:
        """The experts that a configuration describes.

        Raises:
            InvalidConfig: where a key is missing or a token uses more experts than there are.
        """
        experts = _integer(keys, self.experts, self.default_experts, maximum=MAX_EXPERTS)
        per_token = _integer(keys, self.per_token, self.default_per_token, maximum=MAX_EXPERTS)
        if per_token > experts:
            raise keys.contradiction(
                self.per_token[0], "more_experts_per_token", given=per_token, experts=experts
            )
        width = _integer(keys, self.width, self.default_width)
        shared_width = 0
        if self.shared:
            shared_width = width * _integer(
                keys, self.shared, self.default_shared, minimum=0, maximum=MAX_EXPERTS
            )
        elif self.shared_width:
            shared_width = _integer(keys, self.shared_width, self.default_shared, minimum=0)
        return Experts(experts, per_token, width, shared_width)

    def weights(self, keys: Keys, hidden: int, experts: Experts) -> Weights:
        """Router, routed and shared experts of one layer of `hidden` width."""
        return mixture_of_experts(
            hidden,
            experts.count,
            experts.width,
            gated=self.gated,
            bias=self.expert_bias,
            router_bias=self.router_bias,
            router_correction=bool(self.correction),
            correction_is_buffer=self.correction == "buffer",
            shared_width=experts.shared_width,
            shared_bias=flag(keys, self.shared_bias),
            shared_gate=self.shared_gate and experts.shared_width > 0,
        )


@dataclass(frozen=True, slots=True)
class Experts:
    """The experts of one layer: routed count, those a token uses, width of each, width of all shared ones together."""

    count: int
    per_token: int
    width: int
    shared_width: int = 0

    @property
    def active_width(self) -> int:
        return self.per_token * self.width + self.shared_width


def _integer(
    keys: Keys,
    names: Names,
    default: int | None,
    *,
    minimum: int = 1,
    maximum: int = 10_000_000,
) -> int:
    if default is None:
        return keys.integer(*names, minimum=minimum, maximum=maximum)
    return keys.integer(*names, default=default, minimum=minimum, maximum=maximum)
