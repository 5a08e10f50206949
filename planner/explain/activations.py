"""What a forward pass holds beside weights and cache, in the symbols of the engine's own rule."""

from __future__ import annotations

from collections.abc import Callable

from planner.deployment import Deployment
from planner.explain.parts import Context, Explanation, Term, computed, engine_sources
from planner.memory.activations import (
    ENCODER_OUTPUT_COPIES,
    FEED_FORWARD_COPIES,
    activation_shape,
    table_activation_factor,
    uses_expert_workspace,
    workspace_width,
)
from planner.memory.budget import running_sequences

Rule = tuple[str, list[Term]]


def _count(symbol: str, note: str, value: float) -> Term:
    return Term(symbol, f"term.{note}", value, "count")


def _bytes(symbol: str, note: str, value: float) -> Term:
    return Term(symbol, f"term.{note}", value, "bytes")


def _sequences(context: Context) -> float:
    deployment, scenario = context.deployment, context.evaluation.scenario
    return float(
        running_sequences(scenario.concurrency, deployment.parallelism.dp, context.budget.settings)
    )


def _context_tokens(context: Context) -> float:
    return float(context.evaluation.scenario.max_model_len or context.tokens)


def _widths(deployment: Deployment, per_logit: float) -> list[Term]:
    shape = activation_shape(deployment.architecture)
    return [
        _count("V", "vocabulary", float(shape.vocabulary)),
        _bytes("c", "logit_bytes", per_logit),
        _count("w", "layer_width", float(shape.dense_width)),
        _bytes("b", "element_bytes", deployment.compute_bytes),
        _count("tp", "tp", float(deployment.parallelism.tp)),
    ]


def _profiled(context: Context) -> Rule:
    """vLLM: its profile run."""
    deployment, settings = context.deployment, context.budget.settings
    shape = activation_shape(deployment.architecture)
    batched = float(settings.max_num_batched_tokens)
    if settings.batched_tokens_follow_context:
        batched = max(batched, _context_tokens(context))
    formula = "max( n·V·c , C·w·b / tp ) + A_0"
    terms = [
        _count("n", "max_num_seqs", float(settings.max_num_seqs)),
        _count("C", "max_num_batched_tokens", batched),
        *_widths(deployment, settings.logit_bytes + deployment.compute_bytes - 2.0),
        _bytes("A_0", "activation_constant", settings.activation_constant_bytes),
    ]
    if uses_expert_workspace(deployment.architecture, settings):
        formula += " + C·w_e·b"
        width = workspace_width(deployment.architecture, deployment.parallelism) + shape.hidden
        terms.append(_count("w_e", "expert_width", width))
    if shape.towers:
        formula += f" + {ENCODER_OUTPUT_COPIES}·C·h·b"
        terms.append(_count("h", "hidden_size", float(shape.hidden)))
    return formula, terms


def _step(context: Context) -> Rule:
    """SGLang and transformers: hidden states of one step, and logits."""
    deployment, settings = context.deployment, context.budget.settings
    scenario, shape = context.evaluation.scenario, activation_shape(deployment.architecture)
    sequences = _sequences(context)
    grows = settings.policy == "grow"
    step = float(settings.max_num_batched_tokens)
    rows, factor = sequences, []
    if grows:
        step = float(scenario.input_tokens) * sequences
        rows = step if settings.logits_for_all_tokens else sequences
        factor = [Term("f", "term.fragmentation", context.budget.kv_factor, "number")]
    routed = max((each * width for each, width in shape.experts), default=0)
    widths = _widths(deployment, settings.logit_bytes)
    formula = "C·w·b / tp + r·V·c"
    if routed:
        formula = f"C·(w + {FEED_FORWARD_COPIES}·w_r)·b / tp + r·V·c"
        widths.append(_count("w_r", "routed_width", float(routed)))
    return f"f·( {formula} )" if grows else formula, [
        _count("C", "prompt_tokens_together" if grows else "max_num_batched_tokens", step),
        _count("r", "logit_rows", rows),
        *widths,
        *factor,
    ]


def _table(context: Context) -> Rule:
    """TensorRT-LLM: by a table of factors."""
    deployment, settings = context.deployment, context.budget.settings
    factor = table_activation_factor(deployment.architecture, settings, deployment.parallelism)
    hidden = activation_shape(deployment.architecture).hidden
    return "max( 2·C·h·A_f , A_0 )", [
        _count("C", "max_num_batched_tokens", float(settings.max_num_batched_tokens)),
        _count("h", "hidden_size", float(hidden)),
        _bytes("A_f", "activation_factor", factor),
        _bytes("A_0", "activation_least", settings.activation_constant_bytes),
    ]


def _buffer(context: Context) -> Rule:
    """llama.cpp: its compute buffer, with room for what the host lends."""
    deployment, settings = context.deployment, context.budget.settings
    shape, host = activation_shape(deployment.architecture), deployment.stored.host
    formula, widest = "max( C·V·c , S·C·m ) + 4·C·h", list[Term]()
    if settings.logits_of_slots:
        formula = "max( n·V·c + 4·C·h , S·C·m + 4·C·w )"
        width = max(shape.step_width, shape.attention_width)
        widest = [
            _count("n", "max_num_seqs", float(settings.max_num_seqs)),
            _count("w", "buffer_width", float(width)),
        ]
    terms = [
        _count("C", "max_num_batched_tokens", float(settings.max_num_batched_tokens)),
        _count("V", "vocabulary", float(shape.vocabulary)),
        _bytes("c", "logit_bytes", settings.logit_bytes),
        _count("S", "tokens_of_slots", _context_tokens(context) * _sequences(context)),
        _bytes("m", "cell_bytes", 2.0 if settings.flash_attention else 4.0 * shape.heads),
        _count("h", "hidden_size", float(shape.hidden)),
        *widest,
    ]
    if host is not None and host.offload.computes:
        formula = f"max( {formula} + W_o , W_t )"
        terms.append(_bytes("W_o", "head_in_host", host.head_bytes))
        terms.append(_bytes("W_t", "lent_tensor", host.staged_bytes))
    return formula, terms


RULES: dict[str, Callable[[Context], Rule]] = {
    "of_total": _profiled,
    "static_fraction": _step,
    "of_free": _table,
    "grow": _step,
    "context": _buffer,
}


def activation(context: Context) -> Explanation:
    """What the engine takes to compute with, on one GPU."""
    formula, terms = RULES[context.budget.settings.policy](context)
    return computed(
        "activation_bytes_per_gpu",
        formula,
        terms,
        engine_sources(context.deployment),
        float(context.evaluation.memory.activation_bytes_per_gpu.mid),
        "gib",
    )
