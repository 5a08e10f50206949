"""How much is held: requests at once, tokens, the longest context, and what the workload's cache takes.

Engines that allocate their cache at start have a pool, which requests divide. Those that take memory as requests come
hold as many as the whole card has room for, what is computed with them included: the largest number that fits is shown
with the next one, which doesn't.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.architecture.cache import cache_bytes
from planner.explain.parts import (
    Context,
    Explanation,
    Term,
    computed,
    engine_sources,
    explanation_of,
    with_numbers,
)
from planner.memory.budget import (
    MemoryBudget,
    requested_sequences,
    workload_bytes,
)
from planner.memory.pool import sequence_bytes, sequences_bytes
from planner.memory.state_slots import StateSlots, cache_part_bytes, slot_count
from planner.memory_limits import (
    GROWING,
    budget_for_length,
    budget_with,
    most_users,
)
from planner.scenario import MAX_CONCURRENCY, Scenario


@dataclass(frozen=True, slots=True)
class Equation:
    """A formula, the same with its terms' values as a template, and the terms."""

    formula: str
    filled: str
    terms: tuple[Term, ...]


def equation(formula: str, terms: tuple[Term, ...], result: str) -> Equation:
    """A formula that gives `result`, a placeholder."""
    return Equation(formula, f"{with_numbers(formula, terms)} = {result}", terms)


def grows(context: Context) -> bool:
    """The engine takes memory as requests come."""
    return context.budget.settings.policy in GROWING and not context.budget.pool.empty


def slot_terms(slots: StateSlots, pool: float) -> tuple[Term, ...]:
    """Slots of recurrent state, and what they leave for keys and values."""
    count = float(slot_count(slots, pool))
    return (
        Term("S_s", "term.slots", count, "count"),
        Term("k", "term.slots_per_request", float(slots.per_sequence), "count"),
        Term("pool_KV", "term.cache_part", float(cache_part_bytes(slots, pool)), "gib"),
    )


def stored_terms(context: Context, tokens: float, *, beside: bool = True) -> tuple[Term, ...]:
    """One request as the engine stores it on one GPU; `beside`: and by the model alone, where that is another size."""
    layout = context.deployment.rank_layout
    stored = float(sequence_bytes(context.budget.pool, tokens))
    own = float(cache_bytes(layout, tokens))
    terms = [Term("K_1", "term.stored_request", stored, "bytes")]
    if beside and abs(own - stored) > 0.005 * stored:
        terms.append(Term("KV", "term.own_request", own, "bytes"))
    return tuple(terms)


def groups_terms(context: Context) -> tuple[Term, ...]:
    """Data-parallel groups, where there are several."""
    groups = float(context.budget.replicas)
    return (Term("dp", "term.groups", groups, "count"),) if groups > 1 else ()


def _pool_terms(context: Context) -> tuple[Term, ...]:
    budget = context.budget
    pool = float(budget.kv_pool_bytes)
    if budget.pool.slots is not None:
        return slot_terms(budget.pool.slots, pool)
    if budget.pool.page_bytes:
        pool = pool // budget.pool.page_bytes * budget.pool.page_bytes
    return (Term("pool", "figure.kv_pool_bytes_per_gpu", pool, "gib"),)


def cache_of(budget: MemoryBudget, users: float, tokens: float) -> Equation:
    """What the cache of so many requests takes of one GPU; "{K}" is the result's placeholder."""
    pool, slots = budget.pool, budget.pool.slots
    each = float(requested_sequences(users, budget.replicas))
    count, stored = Term("u", "term.users_each", each, "count"), float(sequence_bytes(pool, tokens))
    terms: tuple[Term, ...] = (count, Term("K_1", "term.stored_request", stored, "bytes"))
    formula = "u·K_1"
    if pool.least_states:
        formula = "u·K_1 + max( n − u , 0 )·s"
        terms = (
            *terms,
            Term("n", "term.max_num_seqs", pool.least_states, "count"),
            Term("s", "term.state", pool.idle_state_bytes, "bytes"),
        )
    if slots is not None and slots.fixed:
        formula = f"( S_s + x )·s_GPU + {formula}"
    elif slots is not None:
        formula = f"max( ( u·k + x )·s_GPU / q , {formula} / (1 − q) )"
        terms = (
            *terms,
            Term("k", "term.slots_per_request", float(slots.per_sequence), "count"),
            Term("q", "term.state_share", slots.state_fraction, "number"),
        )
    if slots is not None:
        terms = (
            *terms,
            Term("x", "term.spare_slots", float(slots.spare), "count"),
            Term("s_GPU", "term.slot", slots.slot_bytes, "bytes"),
        )
        if slots.fixed:
            terms = (*terms, Term("S_s", "term.slots", float(slots.fixed), "count"))
    if budget.kv_factor != 1.0:
        bare = formula == "u·K_1"
        formula = f"f·{formula}" if bare else f"f·( {formula} )"
        terms = (Term("f", "term.fragmentation", budget.kv_factor, "number"), *terms)
    return equation(formula, terms, "{K:bytes}")


def least_cache_bytes(budget: MemoryBudget, each: float, scenario: Scenario) -> float:
    """What the cache of so many requests of one group takes at least; in llama.cpp its slots' whole context (bytes)."""
    tokens = float(scenario.input_tokens + scenario.output_tokens)
    size = float(workload_bytes(budget, each, tokens))
    if budget.settings.policy == "context" and scenario.max_model_len:
        run = min(each, float(budget.settings.max_num_seqs))
        slots = sequences_bytes(budget.pool, run, float(scenario.max_model_len))
        size = max(size, budget.kv_factor * float(slots))
    return size


def overhead_of(budget: MemoryBudget) -> float:
    """What the engine keeps beside weights, activations and cache on one GPU (bytes)."""
    inside = budget.graphs_bytes if budget.settings.graphs_inside_budget else 0.0
    return float(budget.runtime_bytes + inside)


def needed(context: Context) -> Explanation:
    """Weights, activations, overhead and the workload's cache on one GPU."""
    budget, memory = context.budget, context.evaluation.memory
    users = float(context.evaluation.scenario.concurrency)
    plain = cache_of(budget, users, context.tokens)
    cache = float(
        workload_bytes(budget, requested_sequences(users, budget.replicas), context.tokens)
    )
    terms = (
        Term("W", "figure.weights_bytes_per_gpu", float(budget.weights_bytes), "gib"),
        Term("A", "figure.activation_bytes_per_gpu", float(budget.activation_bytes), "gib"),
        Term("R", "figure.overhead_bytes_per_gpu", overhead_of(budget), "gib"),
        Term("K", "term.workload_cache", cache, "gib"),
    )
    values = {term.symbol: term.value for term in (*plain.terms, *terms)}
    shown = () if budget.pool.empty else (*plain.terms, *stored_terms(context, context.tokens)[1:])
    formula, filled = "W + A + R + K", with_numbers("W + A + R + K", terms) + " = {total:gib}"
    if not budget.pool.empty:
        formula = f"{formula},  K = {plain.formula}"
        filled = f"{filled};  K = {plain.filled}"
    return explanation_of(
        "needed_bytes_per_gpu",
        formula,
        filled,
        [*terms, *shown],
        engine_sources(context.deployment),
        **values,
        total=float(memory.needed_bytes_per_gpu.mid),
    )


def _secant(figure: Callable[[float], float], at: float) -> tuple[float, float]:
    """The straight line through `figure` at a number of requests and at one more: its constant and its slope."""
    here, there = figure(at), figure(at + 1.0)
    return here - at * (there - here), there - here


def _growing(context: Context) -> tuple[str, tuple[Term, ...], float]:
    """Requests that fill a GPU, not rounded, where each takes activations and cache; the line at their number."""
    deployment, scenario, budget = context.deployment, context.evaluation.scenario, context.budget
    groups = float(budget.replicas)
    prompt, answer = float(scenario.input_tokens), float(scenario.output_tokens)
    most = float(most_users(deployment, prompt, answer, scenario.max_model_len))

    def budget_for(each: float) -> MemoryBudget:
        return budget_with(deployment, scenario, each * groups)

    def cache(each: float) -> float:
        return least_cache_bytes(budget_for(each), each, scenario)

    fixed, computing = _secant(lambda each: float(budget_for(each).activation_bytes), most / groups)
    states, stored = _secant(cache, most / groups)
    fixed, factor = fixed + states, budget.kv_factor
    formula, slope = "M − W − R", ("A_1 + " if computing > 1.0 else "")
    terms: list[Term] = [
        Term("M", "figure.usable_bytes_per_gpu", float(budget.usable_bytes), "gib"),
        Term("W", "figure.weights_bytes_per_gpu", float(budget.weights_bytes), "gib"),
        Term("R", "figure.overhead_bytes_per_gpu", overhead_of(budget), "gib"),
    ]
    if abs(fixed) > 1.0:
        formula += " − F"
        terms.append(Term("F", "term.fixed_part", fixed, "gib"))
    if computing > 1.0:
        terms.append(Term("A_1", "term.activations_each", computing, "bytes"))
    if factor != 1.0:
        terms.append(Term("f", "term.fragmentation", factor, "number"))
    slope += "f·K_1" if factor != 1.0 else "K_1"
    terms.append(Term("K_1", "term.stored_request", stored / factor, "bytes"))
    whole = slope if slope == "K_1" else f"( {slope} )"
    return f"( {formula} ) / {whole}", tuple(terms), most


def held(context: Context) -> Explanation:
    """Requests of this length held at once."""
    memory, budget = context.evaluation.memory, context.budget
    groups = groups_terms(context)
    if budget.pool.empty:
        most = (Term("n", "term.max_num_seqs", float(budget.settings.max_num_seqs), "count"),)
        return _held(context, "n", most, groups, float(memory.max_concurrency.mid))
    if grows(context):
        inside, terms, most_held = _growing(context)
        if not most_held:
            inside = f"max( 0 , {inside} )"
        return _held(context, f"⌊ {inside} ⌋", terms, groups, most_held)
    terms = (*_pool_terms(context), *stored_terms(context, context.tokens))
    formula = "⌊ pool / K_1 ⌋"
    if budget.pool.slots is not None:
        formula = "min( ⌊ S_s / k ⌋ , ⌊ pool_KV / K_1 ⌋ )" if budget.pool.groups else "⌊ S_s / k ⌋"
    return _held(context, formula, terms, groups, float(memory.max_concurrency.mid))


def _held(
    context: Context, formula: str, terms: tuple[Term, ...], groups: tuple[Term, ...], most: float
) -> Explanation:
    """The formula for all groups, and what else bounds the number: host memory, or what is counted at all."""
    result = float(context.evaluation.memory.max_concurrency.mid)
    if groups:
        formula, terms = f"dp·{formula}", (*terms, *groups)
    if result < most:
        formula, terms = (
            f"min( {formula} , u_h )",
            (*terms, Term("u_h", "term.held_by_host", result, "count")),
        )
    elif result >= MAX_CONCURRENCY:
        formula = f"min( {formula} , u_max )"
        terms = (*terms, Term("u_max", "term.most_counted", float(MAX_CONCURRENCY), "count"))
    return computed(
        "max_concurrency", formula, terms, engine_sources(context.deployment), result, "count"
    )


def tokens_held(context: Context) -> Explanation:
    """Tokens that the cache holds in requests of this length."""
    held_tokens = context.evaluation.memory.kv_pool_tokens
    length = Term("S", "term.tokens", context.tokens, "count")
    terms: tuple[Term, ...]
    if context.budget.pool.empty or not context.budget.kv_pool_bytes:
        formula, terms = "0", ()
    elif grows(context):
        formula, terms, most = _growing(context)
        formula = formula if most else f"max( 0 , {formula} )"
    else:
        terms = (*_pool_terms(context), *stored_terms(context, context.tokens))
        formula = "pool / K_1"
        if context.budget.pool.slots is not None:
            few = context.budget.pool.groups
            formula = "min( ⌊ S_s / k ⌋ , pool_KV / K_1 )" if few else "⌊ S_s / k ⌋"
    groups = groups_terms(context)
    return computed(
        "kv_pool_tokens",
        f"dp·{formula}·S" if groups else f"{formula}·S",
        (*terms, *groups, length),
        engine_sources(context.deployment),
        float(held_tokens.mid) if held_tokens else 0.0,
        "count",
    )


def longest(context: Context) -> Explanation:
    """The longest request that all users can have at once."""
    memory, scenario = context.evaluation.memory, context.evaluation.scenario
    tokens, budget = float(memory.max_context_tokens.mid), context.budget
    limit = context.deployment.architecture.max_context_tokens
    ends = (
        Term("S", "term.longest", tokens, "count"),
        Term(
            "S_max", "term.model_limit", float(min(limit, scenario.max_model_len or limit)), "count"
        ),
    )
    tried = max(tokens, 1.0)
    holds = "≤" if tokens else ">"
    users = Term(
        "u",
        "term.users_each",
        float(requested_sequences(scenario.concurrency, budget.replicas)),
        "count",
    )
    stored = Term("K_S", "term.stored_longest", float(sequence_bytes(budget.pool, tried)), "bytes")
    if grows(context):
        budget = budget_for_length(context.deployment, scenario, tried)
        plain = cache_of(budget, float(scenario.concurrency), tried)
        cache = float(workload_bytes(budget, users.value, tried))
        terms: tuple[Term, ...] = (
            Term("W", "figure.weights_bytes_per_gpu", float(budget.weights_bytes), "gib"),
            Term("A", "term.activations_longest", float(budget.activation_bytes), "gib"),
            Term("R", "figure.overhead_bytes_per_gpu", overhead_of(budget), "gib"),
            Term("K", "term.cache_longest", cache, "gib"),
            Term("M", "figure.usable_bytes_per_gpu", float(budget.usable_bytes), "gib"),
        )
        formula = "W + A(S) + R + K(S) ≤ M"
        filled = with_numbers(f"W + A + R + K {holds} M", terms)
        filled = f"K = {plain.filled};  {filled}"
        terms = (*terms, *plain.terms)
    elif budget.pool.slots is not None:
        terms = (*_pool_terms(context), stored, users)
        formula = "u·K(S) ≤ pool_KV,  u·k ≤ S_s"
        filled = with_numbers(f"u·K_S {holds} pool_KV", terms)
        if tokens:
            filled += with_numbers(";  u·k ≤ S_s", terms)
        elif users.value * budget.pool.slots.per_sequence > terms[0].value:
            filled = with_numbers("u·k > S_s", terms)
    else:
        terms = (*_pool_terms(context), stored, users)
        formula = "u·K(S) ≤ pool"
        filled = with_numbers(f"u·K_S {holds} pool", terms)
    values = {term.symbol: term.value for term in (*terms, *ends)}
    return explanation_of(
        "max_context_tokens",
        f"max S :  {formula},  S ≤ S_max",
        f"S = {{S:count}};  {filled}",
        [*ends, *terms],
        engine_sources(context.deployment),
        **values,
    )
