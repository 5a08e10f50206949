"""What one step of a model has to do, per rank: everything that depends neither on the hardware nor on the workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from planner.architecture.cache import CacheLayout
from planner.architecture.mixers import Attention, CrossAttention, LatentAttention, Mixer, Score
from planner.architecture.spec import Architecture, Part, Shape
from planner.architecture.totals import layer_linear_flops_per_token, linear_flops
from planner.catalog.accelerators import Accelerator
from planner.catalog.formats import supported, weight_format
from planner.memory.weights import ExpertGroup, StoredWeights
from planner.quantity import Quantity
from planner.scenario import Parallelism
from planner.speed.hardware import Hardware, hardware_of, stack_hardware
from planner.speed.kernels import expected_distinct_experts

__all__ = ["Hardware", "Work", "hardware_of", "product_dtypes", "stack_hardware", "work"]

SIXTEEN_BITS = 2.0


@dataclass(frozen=True, slots=True)
class ExpertReads:
    """Routed experts of layers that route alike, on one rank.

    Attributes:
        bytes: of all their experts, over all their layers and stages.
        layers: how many layers.
        dequantised_elements: of all their experts, unpacked where a step touches them.
    """

    experts: float
    experts_per_token: float
    bytes: float
    layers: int
    dequantised_elements: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One rank's share of a model's work; summed over pipeline stages, divided by tp.

    Attributes:
        layers: layers that a generated token passes; encoder_layers: those that only the input passes.
        encoder_tokens: positions of every input to the encoder where that's fixed (Whisper), else None: the prompt's.
        expert_layers: of `layers`, those with routed experts; latent_layers: those with latent attention;
            indexed_layers: of these, those whose indexer selects what is attended; recurrent_layers: those with a
            recurrence in place of attention or beside it.
        query_groups: query heads for each key-value head, averaged over layers with such heads; 1 where there are none.
        read_bytes: weights that a step reads whatever its tokens, without routed experts; encoder_bytes: those of
            encoder layers, read once per input.
        experts: routed experts by geometry.
        linear_flops: FLOP per token by compute dtype, layers only, without routed experts.
        expert_flops: the same of routed experts that a token uses.
        encoder_flops: the same of encoder layers, per input token.
        head_flops, head_dtype: FLOP per token that needs logits.
        scores: attention scores over all layers, one per rule of what is attended; encoder_scores likewise.
        recurrent_flops: FLOP per token of recurrences beside their products.
        expansion_flops: FLOP per cached token that a prompt attends to (latent attention expands it anew).
        dtype: compute dtype, which attention runs in.
        layout: the cache of one sequence on one rank.
        dequantised_elements: elements unpacked into the compute dtype in a step of more than one token, without routed
            experts; dequantises: there are any, or routed experts have.
        activation_bytes: per element of activations.
        dispatch_bytes: per element sent to experts on other ranks.
        generates: False for a model without a head, which only reads its input.
        host: the part that lies in host memory, where an engine keeps any there; the other figures count it too.
    """

    layers: int
    encoder_layers: int
    encoder_tokens: float | None
    expert_layers: int
    latent_layers: int
    indexed_layers: int
    recurrent_layers: int
    query_groups: float
    hidden_size: int
    parallelism: Parallelism
    read_bytes: float
    encoder_bytes: float
    experts: tuple[ExpertReads, ...]
    linear_flops: tuple[tuple[str, float], ...]
    expert_flops: tuple[tuple[str, float], ...]
    encoder_flops: tuple[tuple[str, float], ...]
    head_flops: float
    head_dtype: str
    scores: tuple[Score, ...]
    encoder_scores: tuple[Score, ...]
    recurrent_flops: float
    expansion_flops: float
    dtype: str
    layout: CacheLayout
    dequantised_elements: float
    dequantises: bool
    activation_bytes: float
    dispatch_bytes: float
    generates: bool
    host: HostShare | None = None

    def decoder_tokens(self, new_tokens: Quantity) -> Quantity:
        """Of a prompt's tokens, those that the decoder processes: one where an encoder takes the prompt."""
        if self.encoder_layers and self.layers and self.encoder_tokens is None:
            return 1.0
        return new_tokens

    def expert_bytes(self, tokens: Quantity) -> Quantity:
        """Bytes of routed experts that a step with `tokens` tokens in the whole stage reads on one rank, expected.

        Args:
            tokens: tokens that the experts see, all data-parallel groups together, at least 1.
        """
        total: Quantity = 0.0
        for group in self.experts:
            touched = expected_distinct_experts(group.experts, group.experts_per_token, tokens)
            total = total + group.bytes * (touched / group.experts)
        return total

    def unpacked_elements(self, tokens: Quantity) -> Quantity:
        """Elements that a step with `tokens` tokens in the whole stage unpacks on one rank, expected."""
        total: Quantity = self.dequantised_elements
        for group in self.experts:
            if group.dequantised_elements:
                touched = expected_distinct_experts(group.experts, group.experts_per_token, tokens)
                total = total + group.dequantised_elements * (touched / group.experts)
        return total

    @property
    def least_weight_bytes(self) -> float:
        """Bytes of weights that any step reads on one rank: k experts a layer, as if all tokens agreed."""
        routed = sum(g.bytes * g.experts_per_token / g.experts for g in self.experts)
        return self.read_bytes + routed


@dataclass(frozen=True, slots=True, eq=False)
class HostShare:
    """A model's work divided between the GPU and the host.

    Attributes:
        resident: what the GPU holds; held: what the host holds.
        crossings: times that a token's hidden state goes from one to the other in a pass.
    """

    resident: Work
    held: Work
    crossings: float


def expert_reads(groups: Sequence[ExpertGroup]) -> tuple[ExpertReads, ...]:
    """What steps read of each group of layers with routed experts, on one rank."""
    return tuple(
        ExpertReads(
            float(group.experts),
            float(group.experts_per_token),
            group.rank_bytes,
            group.layers,
            group.dequantised_elements,
        )
        for group in groups
    )


@lru_cache(maxsize=4096)
def work(
    architecture: Architecture,
    stored: StoredWeights,
    layout_rank: CacheLayout,
    parallelism: Parallelism,
    compute_dtype: str,
    products: tuple[tuple[str, str], ...] = (),
) -> Work:
    """The work of a model as stored and divided, cached by its arguments.

    Args:
        stored: bytes and FLOP of the weights in their format, for this parallelism and compute dtype.
        layout_rank: the cache of one sequence on one tp rank, all stages together.
        compute_dtype: "fp16", "bf16" or "fp32"; stands for "compute" among the peaks of `stored`.
        products: what `product_dtypes` says of the engine's kernels on the hardware at hand.
    """

    def peak_of(stated: str) -> str:
        return peak_used(stated, compute_dtype, products)

    tp = parallelism.tp
    decoder = layer_linear_flops_per_token(architecture)
    encoder = layer_linear_flops_per_token(architecture, "encoder")
    by_dtype: dict[str, float] = {}
    for key, value in stored.flops.items():
        by_dtype[peak_of(key)] = by_dtype.get(peak_of(key), 0.0) + value
    stated = sum(by_dtype.values())
    # With an encoder beside the decoder, the stored FLOP only give the split between dtypes.
    scale = decoder / stated if encoder and stated else 1.0
    layers_by_dtype = {key: value * scale for key, value in by_dtype.items()}
    encoder_by_dtype = {key: value * encoder / stated for key, value in by_dtype.items() if encoder}
    routed = _expert_flops(architecture)
    experts_by_dtype = _narrowest_first(layers_by_dtype, routed)
    roles = {"decoder": 0, "encoder": 0}
    expert_layers = 0
    for kind, count in architecture.kind_counts:
        roles[kind.role] += count
        expert_layers += count if kind.experts else 0
    activation = 4.0 if compute_dtype == "fp32" else SIXTEEN_BITS
    return Work(
        layers=roles["decoder"],
        encoder_layers=roles["encoder"],
        encoder_tokens=_encoder_tokens(architecture),
        expert_layers=expert_layers,
        latent_layers=_mixer_layers(architecture, _latent),
        indexed_layers=_mixer_layers(architecture, _indexed),
        recurrent_layers=_mixer_layers(architecture, _recurrent),
        query_groups=_query_groups(architecture),
        hidden_size=architecture.hidden_size,
        parallelism=parallelism,
        read_bytes=stored.read_bytes_per_token_step,
        encoder_bytes=_encoder_bytes(architecture, stored, activation) if encoder else 0.0,
        experts=expert_reads(stored.experts),
        linear_flops=tuple(
            (key, (value - experts_by_dtype.get(key, 0.0)) / tp)
            for key, value in layers_by_dtype.items()
        ),
        expert_flops=tuple((key, value / tp) for key, value in experts_by_dtype.items()),
        encoder_flops=tuple((key, value / tp) for key, value in encoder_by_dtype.items()),
        head_flops=stored.head_flops / tp,
        head_dtype=peak_of(stored.head_compute),
        scores=scores_of(architecture, "decoder", tp),
        encoder_scores=scores_of(architecture, "encoder", tp),
        recurrent_flops=recurrent_flops(architecture) / tp,
        expansion_flops=_expansion_flops(architecture) / tp,
        dtype=compute_dtype,
        layout=layout_rank,
        dequantised_elements=stored.dequantised_elements_per_step,
        dequantises=bool(stored.dequantised_elements_per_step)
        or any(group.dequantised_elements for group in stored.experts),
        activation_bytes=activation,
        dispatch_bytes=1.0 if "fp8" in experts_by_dtype else activation,
        generates=architecture.has_head,
    )


def peak_used(stated: str, compute_dtype: str, products: tuple[tuple[str, str], ...]) -> str:
    """The dtype whose peak products run at that a format states for `stated`; `products` as for `work`."""
    used = dict(products).get(stated, stated)
    return compute_dtype if used == "compute" else used


def product_dtypes(
    stored: StoredWeights, engine: str, accelerator: Accelerator
) -> tuple[tuple[str, str], ...]:
    """Where an engine's kernels multiply in another dtype than the stored format is made for.

    Weight-only kernels (Marlin) unpack FP8 or FP4 weights and multiply in the compute dtype.

    Returns:
        Pairs of a peak that the format names and the one that its kernel uses, for `work`.
    """
    changed = {}
    for id_ in stored.formats:
        format_ = weight_format(id_)
        support = supported(format_, engine, accelerator)
        made_for = format_.encoding.compute if format_.encoding else support.compute
        if support.ok and support.compute != made_for:
            changed[made_for] = support.compute
    return tuple(sorted(changed.items()))


def _mixer_layers(architecture: Architecture, chosen: Callable[[Mixer], bool]) -> int:
    """Decoder layers with a mixer of the chosen kind."""
    return sum(
        count
        for kind, count in architecture.kind_counts
        if kind.role == "decoder" and any(chosen(mixer) for mixer in kind.mixers)
    )


def _latent(mixer: Mixer) -> bool:
    return isinstance(mixer, LatentAttention)


def _indexed(mixer: Mixer) -> bool:
    return isinstance(mixer, LatentAttention) and mixer.selected is not None


def _recurrent(mixer: Mixer) -> bool:
    return bool(mixer.states)


def _query_groups(architecture: Architecture) -> float:
    """Query heads for each key-value head, averaged over the decoder's layers that have such heads."""
    ratios = [
        (count, mixer.heads / mixer.kv_heads)
        for kind, count in architecture.kind_counts
        if kind.role == "decoder"
        for mixer in kind.mixers
        if isinstance(mixer, Attention)
    ]
    layers = sum(count for count, _ in ratios)
    return sum(count * ratio for count, ratio in ratios) / layers if layers else 1.0


def _encoder_tokens(architecture: Architecture) -> float | None:
    for kind in architecture.layer_kinds:
        for mixer in kind.mixers:
            if isinstance(mixer, CrossAttention) and mixer.source_tokens and kind.role == "decoder":
                return float(mixer.source_tokens)
    return None


def _encoder_bytes(
    architecture: Architecture, stored: StoredWeights, activation_bytes: float
) -> float:
    """Bytes of encoder layers on one rank: what is held but neither read by a step, looked up, nor part of a tower.

    Tables count at the compute dtype, so that the rest is never too large.
    """
    towers = sum(
        stored.by_part.get(part, 0.0) for part in (Part.VISION, Part.AUDIO, Part.PROJECTOR)
    )
    tables = sum(
        weight.elements
        for weight in architecture.outer
        if weight.shape is Shape.TABLE and not (architecture.tied and weight.name == "embedding")
    )
    held = sum(stored.stage_bytes) - sum(group.rank_bytes for group in stored.experts)
    rest = held - stored.read_bytes_per_token_step - towers - tables * activation_bytes
    return max(rest, 0.0)


def _expert_flops(architecture: Architecture) -> float:
    """FLOP per token of the routed experts that it uses, all layers."""
    total = 0.0
    for kind, count in architecture.kind_counts:
        if kind.experts and kind.role == "decoder":
            experts = [weight for weight in kind.weights if weight.part is Part.EXPERTS]
            total += count * linear_flops(experts, kind.experts_per_token / kind.experts)
    return total


# Formats quantise experts before anything else, so that their products run in the narrowest dtype there is.
_NARROWEST = ("fp4", "int8", "fp8", "fp16", "bf16", "fp32")


def _narrowest_first(flops: Mapping[str, float], routed: float) -> dict[str, float]:
    """The routed experts' part of FLOP by dtype."""
    found: dict[str, float] = {}
    left = routed
    for dtype in sorted(flops, key=_NARROWEST.index):
        taken = min(left, flops[dtype])
        if taken > 0:
            found[dtype] = taken
        left -= taken
    return found


def scores_of(architecture: Architecture, role: str = "decoder", tp: int = 1) -> tuple[Score, ...]:
    """Scores of all layers of a role, summed where the rule of what is attended is the same."""
    grouped: dict[tuple[int | None, int, bool], list[float]] = {}
    for kind, count in architecture.kind_counts:
        if kind.role != role:
            continue
        for mixer in kind.mixers:
            for score in mixer.scores:
                entry = grouped.setdefault((score.window, score.stride, score.causal), [0.0, 0.0])
                entry[0] += count * score.decode_flops / tp
                entry[1] += count * score.prefill_flops / tp
    return tuple(
        Score(decode, prefill, window, stride, causal)
        for (window, stride, causal), (decode, prefill) in grouped.items()
    )


def recurrent_flops(architecture: Architecture) -> float:
    """FLOP per token of the decoder's recurrences beside their products."""
    return sum(
        count * mixer.recurrent_flops
        for kind, count in architecture.kind_counts
        if kind.role == "decoder"
        for mixer in kind.mixers
    )


def _expansion_flops(architecture: Architecture) -> float:
    """FLOP to expand one cached latent into keys and values: 2·r·H·(d_n + d_v) a layer."""
    return sum(
        count * 2.0 * mixer.latent_dim * mixer.heads * (mixer.nope_dim + mixer.value_dim)
        for kind, count in architecture.kind_counts
        for mixer in kind.mixers
        if isinstance(mixer, LatentAttention)
    )
