"""Each model type's default configuration against transformers on the meta device: parameters, cache, work.

Pure comparison: the witnesses' figures come from tests/golden/defaults.json, where transformers and torch made them
once. What transformers keeps or computes otherwise than engines do is put right by the rules stated here, each where
it applies; a type that no rule makes equal is listed with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.architecture.cache import DTYPE_BYTES, kept_elements
from planner.architecture.mixers import CacheStream, CrossAttention, LatentAttention
from planner.architecture.resolve import architecture_from_config
from planner.architecture.spec import Architecture, LayerKind, Shape, Weight
from planner.architecture.totals import head_flops_per_token, linear_flops, parameters
from planner.catalog.engine_profiles import engine
from planner.errors import PlannerError

TASKS = {"causal": "causal language models", "image": "image and text"}
ELEMENT_BYTES = 2.0
"""The witnesses are built in bfloat16."""

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure against its witness: equal, different, or None where there's nothing to compare; and why."""

    equal: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """One model type in one of transformers' lists.

    Attributes:
        keeps_cache: transformers keeps something for it, so that the cache's agreement says something.
    """

    task: str
    model_type: str
    parameters: Compared
    cache: Compared
    flops: Compared
    keeps_cache: bool = False


def coverage(witnesses: Figures) -> list[Coverage]:
    """Every model type of the witnesses, in order."""
    return [
        compare(task, model_type, figures)
        for task in TASKS
        for model_type, figures in sorted(witnesses[task].items())
    ]


def compare(task: str, model_type: str, figures: Figures) -> Coverage:
    """One model type against its figures."""
    if "not_built" in figures:
        nothing = Compared(None, _not_built(figures["not_built"]))
        return Coverage(task, model_type, nothing, nothing, nothing)
    try:
        architecture = architecture_from_config(figures["config"])
    except PlannerError as refusal:
        refused = Compared(False, refusal.code)
        return Coverage(task, model_type, refused, refused, refused)
    held = figures.get("cache") or {}
    return Coverage(
        task,
        model_type,
        compare_parameters(architecture, figures, model_type),
        compare_cache(architecture, figures, model_type),
        compare_flops(architecture, figures, model_type),
        keeps_cache=any(sum(kinds.values()) for kinds in held.values()),
    )


def _not_built(reason: str) -> str:
    return "needs_timm" if "timm" in reason else "class_defaults_incomplete"


# Parts of transformers' own messages.
_NOT_RUN = (
    ("meta tensor", "depends_on_values"),
    ("register_meta", "depends_on_values"),
    ("shared_kv_states", "needs_the_model_it_drafts_for"),
    ("pixel_value", "needs_an_image"),
    ("patches", "needs_an_image"),
    ("Bbox", "needs_an_image"),
    ("input_ids", "needs_decoder_tokens"),
    ("scalar type", "not_in_bfloat16"),
)


def _not_run(reason: str) -> str:
    return next((code for part, code in _NOT_RUN if part in reason), "transformers_fails")


# --- parameters

# What transformers allocates and no checkpoint holds.
PARAMETERS_OTHERWISE = {"longcat_flash": "experts_without_weights"}


def compare_parameters(architecture: Architecture, figures: Figures, model_type: str) -> Compared:
    """Parameters, buffers apart."""
    if parameters(architecture, buffers=False) == figures["parameters"]:
        return Compared(True)
    return Compared(False, PARAMETERS_OTHERWISE.get(model_type, "differs"))


# --- cache


@dataclass(frozen=True, slots=True)
class Held:
    """How transformers keeps a type's state otherwise than `held_bytes` says.

    Attributes:
        indexer, recurrent, convolution: bytes per element over ours.
        together: recurrent and convolution state can't be told apart.
        only_cache: constant state isn't in the cache: kept elsewhere, or only once it's needed.
    """

    indexer: float = 1.0
    recurrent: float = 1.0
    convolution: float = 1.0
    together: bool = False
    only_cache: bool = False


HELD = {
    "deepseek_v4": Held(only_cache=True),
    "dots3_note": Held(indexer=2.0),
    "dots3_note_text": Held(indexer=2.0),
    "inkling_text": Held(convolution=2.0),
    "minimax": Held(recurrent=0.5),
    "recurrent_gemma": Held(only_cache=True),
    "rwkv": Held(together=True),
    "xlstm": Held(recurrent=0.5),
    "zaya": Held(together=True),
}
PLAIN = Held()
CACHE_OTHERWISE = {
    "florence2": "its_encoder_reads_them",
    "openai-gpt": "keeps_no_cache",
    "xmod": "keeps_what_it_never_reads",
}


def compare_cache(architecture: Architecture, figures: Figures, model_type: str) -> Compared:
    """Bytes held after a prefill, at every number of tokens, by the rules of `held_bytes`."""
    if "cache" not in figures:
        return Compared(None, _not_run(figures.get("cache_not_run", "")))
    how = HELD.get(model_type, PLAIN)
    for tokens, kinds in figures["cache"].items():
        kv, recurrent, convolution = held_bytes(architecture, int(tokens), how)
        ours = [kv, recurrent, convolution]
        theirs = [kinds["kv"], kinds["recurrent"], kinds["convolution"]]
        if how.only_cache:
            ours, theirs = ours[:1], theirs[:1]
        if how.together:
            ours, theirs = [kv, recurrent + convolution], [theirs[0], sum(theirs[1:])]
        if ours != theirs:
            return Compared(False, CACHE_OTHERWISE.get(model_type, "differs"))
    return Compared(True)


def held_bytes(architecture: Architecture, tokens: int, how: Held = PLAIN) -> tuple[int, int, int]:
    """Bytes that transformers holds for one sequence after a prefill: keys and values, recurrent, convolution state.

    As `planner.architecture.cache` has it for transformers, in bfloat16, except that a sliding layer keeps one token
    less than its window (the next one completes it), and an indexer's keys are in the compute dtype.
    """
    states = engine("transformers").ranges[-1].states
    kv = recurrent = convolution = 0.0
    for index in architecture.layer_order:
        kind = architecture.layer_kinds[index]
        for mixer in kind.mixers:
            kv += sum(_stream_bytes(stream, tokens, how) for stream in mixer.streams)
            if isinstance(mixer, CrossAttention):
                continue
            for state in mixer.states:
                if not state.recurrent:
                    kv += state.elements * ELEMENT_BYTES
                elif state.dtype is not None:
                    recurrent += state.elements * DTYPE_BYTES[state.dtype] * how.recurrent
                else:
                    kept = kept_elements(mixer, state, states)
                    convolution += kept * ELEMENT_BYTES * how.convolution
    return round(kv), round(recurrent), round(convolution)


def _stream_bytes(stream: CacheStream, tokens: int, how: Held) -> float:
    positions = tokens // stream.stride
    if stream.window is not None:
        positions = min(positions, stream.window - 1)
    each = ELEMENT_BYTES * (how.indexer if stream.dtype else 1.0)
    return positions * (stream.key_elements + stream.value_elements) * each


def _convolutions(kind: LayerKind) -> Iterator[Weight]:
    for weight in kind.weights:
        if weight.shape is Shape.CONVOLUTION and weight.name.endswith("convolution"):
            yield weight


# --- work

RUNS_ALL_EXPERTS = frozenset({"llama4", "llama4_text"})
# Streams of the residual are mixed by a matrix product before each half of a layer.
MIXES_STREAMS = {"deepseek_v4": 4}
# Tokens put before the text.
PROMPT_TOKENS = {"cpmant": 32}
FLOPS_OTHERWISE = {
    "electra": "head_of_another_width",
    "florence2": "its_encoder_reads_them",
    "gemma3n_text": "unused_projections_and_mixed_streams",
    "prophetnet": "predicts_several_tokens",
    "rembert": "head_of_another_width",
    "zaya": "positions_before_the_first",
}


def compare_flops(architecture: Architecture, figures: Figures, model_type: str) -> Compared:
    """FLOP of a forward pass at every length; a recurrence's own counts where it is computed token by token."""
    if "flops" not in figures:
        return Compared(None, _not_run(figures.get("flops_not_run", "")))
    recurrent = sum(
        count * mixer.recurrent_flops
        for kind, count in architecture.kind_counts
        for mixer in kind.mixers
    )
    counted = {int(tokens): flops for tokens, flops in figures["flops"].items()}
    plain = {tokens: uncaused_flops(architecture, tokens, model_type) for tokens in counted}
    padding = _padding_flops(architecture)
    for own in {0.0, recurrent}:
        for before in {0.0, padding}:
            if all(round(plain[n] + own * n + before) == flops for n, flops in counted.items()):
                return Compared(True)
    if recurrent:
        return Compared(None, "recurrence_in_chunks")
    return Compared(False, FLOPS_OTHERWISE.get(model_type, "differs"))


def uncaused_flops(architecture: Architecture, tokens: int, model_type: str = "") -> float:
    """FLOP of a forward pass over `tokens` tokens as an eager implementation does it: every token attends to all.

    Matrix products of all layers and the head for each token, and scores of every pair, windows and causality
    notwithstanding, an indexer's sum over its heads included; without towers and what attends to another input.
    """
    total = tokens * head_flops_per_token(architecture)
    tokens += PROMPT_TOKENS.get(model_type, 0)
    for kind, count in architecture.kind_counts:
        if kind.mixers and all(isinstance(mixer, CrossAttention) for mixer in kind.mixers):
            continue  # passed over without an image
        share = kind.experts_per_token / kind.experts if kind.experts else 1.0
        if model_type in RUNS_ALL_EXPERTS:
            share = 1.0
        own = [weight for weight in kind.weights if not weight.name.startswith("cross_")]
        total += count * tokens * linear_flops(own, share)
        for mixer in kind.mixers:
            for score in mixer.scores:
                total += count * score.prefill_flops * tokens * (tokens // score.stride)
            if isinstance(mixer, LatentAttention):
                total += count * 2.0 * mixer.indexer_heads * tokens**2
    mixed = MIXES_STREAMS.get(model_type, 0)
    total += architecture.layers * tokens * 2 * 2.0 * mixed**2 * architecture.hidden_size
    for weight in architecture.outer:
        if weight.name != "head":
            once = weight.name.startswith("pooler")  # reads the first token only
            total += (1 if once else tokens) * linear_flops((weight,))
    return total


def _padding_flops(architecture: Architecture) -> float:
    """What convolutions compute at the k − 1 positions before the text, cut off afterwards."""
    return sum(
        count * (weight.columns - 1) * linear_flops((weight,))
        for kind, count in architecture.kind_counts
        for weight in _convolutions(kind)
    )


def agreeing(rows: Iterable[Coverage], figure: str, task: str | None = None) -> set[str]:
    """Model types whose figure ("parameters", "cache", "flops") equals its witness, in one task or in any."""
    return {
        row.model_type
        for row in rows
        if task in (None, row.task) and getattr(row, figure).equal is True
    }
