"""What a forward pass needs beside weights and cache: logits, hidden states, expert workspaces, compute buffers.

Each engine sizes this at start by a run of its own; the functions here say how large that run is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from planner.architecture.mixers import Attention, LatentAttention
from planner.architecture.spec import Architecture, LayerKind, Part
from planner.catalog.engines import EngineSettings
from planner.memory.weights import HostWeights
from planner.quantity import Quantity, maximum
from planner.scenario import Parallelism

# Residual stream, its copy, and the attention's input and output beside the feed-forward's three widths.
HIDDEN_COPIES = 4
FEED_FORWARD_COPIES = 3
# Queries as projected, as rotated, and the values weighted by them.
QUERY_COPIES = 3
# An encoder's output is held once as made and once merged into the prompt.
ENCODER_OUTPUT_COPIES = 2


@dataclass(frozen=True, slots=True)
class ActivationShape:
    """The widths that decide a model's activations.

    Attributes:
        vocabulary: rows of the head; 0 without one.
        hidden: width of the residual stream.
        dense_width: 3·I + 4·h of the widest layer, routed experts left out (elements per token).
        experts: (experts per token, width of one) for each kind of layer with routed experts.
        heads: most attention heads of a layer.
        attention_width: elements per token of the widest attention, as llama.cpp computes it: 3·H·d + h; of latent
            attention H·(2·r + d_n + 2·d_r) + 4·h.
        towers: an encoder's output joins the prompt.
        rotary_elements: position tables of the rotary embedding, their positions × rotated dimensions.
    """

    vocabulary: int
    hidden: int
    dense_width: int
    experts: tuple[tuple[int, int], ...]
    heads: int
    attention_width: int
    towers: bool
    rotary_elements: int

    @property
    def step_width(self) -> int:
        """3·I + 4·h + 3·k·I_e (elements per token)."""
        routed = max((per_token * width for per_token, width in self.experts), default=0)
        return self.dense_width + FEED_FORWARD_COPIES * routed


@lru_cache(maxsize=4096)
def activation_shape(architecture: Architecture) -> ActivationShape:
    """The widths of an architecture that activations depend on."""
    hidden = architecture.hidden_size
    dense, heads, rotary, attention = 0, 0, 0, 0
    experts = []
    for kind, _ in architecture.kind_counts:
        width = kind.feed_forward_width
        if kind.experts:
            each = expert_width(kind)
            experts.append((kind.experts_per_token, each))
            width = max(width - kind.experts_per_token * each, 0)
        dense = max(dense, FEED_FORWARD_COPIES * width + HIDDEN_COPIES * hidden)
        for mixer in kind.mixers:
            if isinstance(mixer, Attention):
                heads, rotary = max(heads, mixer.heads), max(rotary, mixer.key_dim)
                width = QUERY_COPIES * mixer.heads * mixer.key_dim + hidden
                attention = max(attention, width)
            elif isinstance(mixer, LatentAttention):
                heads, rotary = max(heads, mixer.heads), max(rotary, mixer.rope_dim)
                each = 2 * (mixer.latent_dim + mixer.rope_dim) + mixer.nope_dim
                attention = max(attention, mixer.heads * each + HIDDEN_COPIES * hidden)
    if any(weight.part is Part.POSITION for weight in architecture.outer):
        rotary = 0  # learned positions
    return ActivationShape(
        architecture.vocabulary_size if architecture.has_head else 0,
        hidden,
        dense,
        tuple(dict.fromkeys(experts)),
        heads,
        attention,
        bool(architecture.towers),
        int(rotary * architecture.max_context_tokens * architecture.rotary_tables),
    )


def expert_width(kind: LayerKind) -> int:
    """Intermediate width of one routed expert: the inputs of its down projection."""
    for weight in kind.weights:
        if weight.part is Part.EXPERTS and weight.name == "down":
            return weight.columns
    return 0


def rotary_bytes(architecture: Architecture, compute_bytes: float) -> float:
    """The rotary embedding's tables of cosines and sines, which engines keep beside the weights (bytes).

    Positions × rotated dimensions: 32 MiB for Llama 3.1 8B, 0.56 GiB for Gemma 3 4B, whose scaled table is eight times
    as long as its context, 2.5 GiB for the ten million positions of Llama 4 Scout, as the loaded sizes in vLLM's log
    show.
    """
    return activation_shape(architecture).rotary_elements * compute_bytes


def profiled_activation_bytes(
    architecture: Architecture,
    settings: EngineSettings,
    parallelism: Parallelism,
    batched_tokens: Quantity,
    compute_bytes: float,
    *,
    with_logits: bool = True,
) -> Quantity:
    """vLLM's profile run: the larger of sampling and one full step, plus expert workspace and encoder output (bytes).

    max(sequences · V · c_L, C · (3·I + 4·h) · b / tp) + C · (k · (max(2·I_e, h) + I_e) + h) · b + 2 · C · h · b, and
    a constant of about 50 MiB. The workspace of fused experts for mixtures only (from 0.17; not for MXFP4, whose
    kernels need none), the encoder's output for models with towers only. c_L holds 16-bit logits; 32-bit ones add 2
    bytes.

    Args:
        batched_tokens: C, tokens of one step.
        with_logits: False for pipeline stages without the head.

    References:
        Checked against 13 dense models (median 1.7 %, mean 2.0 %), six mixtures (−3 to +3 %) and seven vision models
        (−6 to +3 %) in the llm-d-planner accuracy report for vLLM 0.19.
    """
    shape = activation_shape(architecture)
    tp, tokens = parallelism.tp, batched_tokens
    step = tokens * shape.dense_width * compute_bytes / tp
    if with_logits and shape.vocabulary:
        per_logit = settings.logit_bytes + (compute_bytes - 2.0)
        step = maximum(step, settings.max_num_seqs * shape.vocabulary * per_logit)
    total = step + settings.activation_constant_bytes
    if uses_expert_workspace(architecture, settings):
        width = workspace_width(architecture, parallelism) + shape.hidden
        total = total + tokens * width * compute_bytes
    if shape.towers:
        total = total + ENCODER_OUTPUT_COPIES * tokens * shape.hidden * compute_bytes
    return total


def uses_expert_workspace(architecture: Architecture, settings: EngineSettings) -> bool:
    """Whether the engine's fused experts need a workspace."""
    experts = activation_shape(architecture).experts
    return settings.expert_workspace and not _microscaled(architecture) and bool(experts)


def workspace_width(architecture: Architecture, parallelism: Parallelism) -> float:
    """Elements per token of that workspace: k·(max(2·I_e, h) + I_e) of the widest layer."""
    shape, widest = activation_shape(architecture), 0.0
    for per_token, width in shape.experts:
        each = width if parallelism.ep > 1 else width / parallelism.tp
        widest = max(widest, per_token * (max(2 * each, shape.hidden) + each))
    return widest


def _microscaled(architecture: Architecture) -> bool:
    quantization = architecture.quantization or {}
    return quantization.get("quant_method") == "mxfp4"


def step_activation_bytes(
    architecture: Architecture,
    settings: EngineSettings,
    parallelism: Parallelism,
    tokens: Quantity,
    logit_rows: Quantity,
    compute_bytes: float,
) -> Quantity:
    """Hidden states of one step and the logits made from it, both held at once (bytes).

    tokens · (3·I + 4·h + routed: k·3·I_e) · b / tp + rows · V · bytes per logit.
    """
    shape = activation_shape(architecture)
    return (
        tokens * shape.step_width * compute_bytes / parallelism.tp
        + logit_rows * shape.vocabulary * settings.logit_bytes
    )


def table_activation_bytes(
    architecture: Architecture, settings: EngineSettings, parallelism: Parallelism
) -> float:
    """TensorRT-LLM: 2 · tokens · hidden size · factor, the factor by tp and doubled for mixtures (bytes).

    References:
        aiconfigurator's memory model.
    """
    shape = activation_shape(architecture)
    factor = table_activation_factor(architecture, settings, parallelism)
    activation = 2.0 * settings.max_num_batched_tokens * shape.hidden * factor
    return max(activation, settings.activation_constant_bytes)


def table_activation_factor(
    architecture: Architecture, settings: EngineSettings, parallelism: Parallelism
) -> float:
    """The factor of that table."""
    index = 0 if parallelism.tp == 1 else 1 if parallelism.tp < 4 else 2
    factor = settings.activation_factors[index]
    experts = activation_shape(architecture).experts
    return factor * settings.expert_activation_factor if experts else factor


def compute_buffer_bytes(
    architecture: Architecture,
    settings: EngineSettings,
    context_tokens: Quantity,
    host: HostWeights | None = None,
) -> Quantity:
    """llama.cpp's compute buffer: the larger of logits and layers (bytes).

    Where a server has logits of each slot's last token, max(n·V·4 + h·ubatch·4, attention + w·ubatch·4), with w the
    elements per token of the widest layer; before that, with logits of the whole batch,
    max(V·ubatch·4, attention) + h·ubatch·4. Attention is the mask with flash attention (2 bytes a cell and token) and
    every head's scores without (4 bytes). What the host holds is lent to the GPU a tensor at a time, and has its place
    there: the head's beside the logits, the others' in place of them.

    Args:
        host: what lies in host memory.

    References:
        Eleven logged buffers (llama.cpp issue 23527, ollama issue 16416, ik_llama.cpp), all within 1.5 %. Logits of
        slots: llama.cpp pull request 23861.
    """
    shape = activation_shape(architecture)
    batch = settings.max_num_batched_tokens
    cell_bytes = 2.0 if settings.flash_attention else 4.0 * shape.heads
    attention, hidden = context_tokens * batch * cell_bytes, shape.hidden * batch * 4.0
    if settings.logits_of_slots:
        logits = settings.max_num_seqs * shape.vocabulary * settings.logit_bytes
        width = max(shape.step_width, shape.attention_width)
        buffer = maximum(logits + hidden, attention + width * batch * 4.0)
    else:
        logits = shape.vocabulary * batch * settings.logit_bytes
        buffer = maximum(logits, attention) + hidden
    if host is None or not host.offload.computes:
        return buffer
    return maximum(buffer + host.head_bytes, host.staged_bytes)
