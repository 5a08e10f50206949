"""Each memory line of a start-up log beside what the planner predicts for the scenario that the log states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.answers import MemoryAnswer
from planner.catalog.engine_profiles import engine
from planner.errors import InvalidInput, Note
from planner.evaluation import Evaluation, evaluate, resolve
from planner.measure.readers.log_reading import FigureName, LogReading
from planner.memory.pool import sequence_bytes
from planner.memory_limits import budget_of
from planner.quantity import Estimate
from planner.scenario import Scenario

OF_TIMES = "times_"  # codes of notes begin so

NEEDED = ("model", "gpu")
# In the order in which memory is taken.
COMPARED: tuple[FigureName, ...] = (
    "weights_bytes",
    "weights_bytes_per_gpu",
    "activation_bytes_per_gpu",
    "overhead_bytes_per_gpu",
    "graphs_bytes_per_gpu",
    "state_bytes",
    "kv_pool_bytes_per_gpu",
    "cache_bytes",
    "engine_printed_kv_tokens",
    "max_concurrency",
)


@dataclass(frozen=True, slots=True)
class LogRow:
    """A printed figure and its prediction.

    Attributes:
        printed: bytes, tokens or sequences, as the quantity's name says; step: of the last printed digit.
        predicted: the same; None where the planner has no such figure for this engine.
        error_fraction: predicted / printed − 1; None where either isn't there, or nothing was printed to divide by.
        line: in the log; shown: its text.
    """

    quantity: FigureName
    printed: float
    step: float
    predicted: Estimate | None
    error_fraction: float | None
    line: int
    shown: str

    @property
    def inside(self) -> bool | None:
        """Whether what was printed, as far as it was rounded, meets the predicted range; None without one."""
        if self.predicted is None:
            return None
        low, high = float(self.predicted.low), float(self.predicted.high)
        return low - self.step <= self.printed <= high + self.step


@dataclass(frozen=True, slots=True)
class LogComparison:
    """A log against its prediction.

    Attributes:
        scenario: what was predicted: what the log states, and what was given in addition.
        rows: one for each quantity that was printed.
        assumed: fields that neither states, so that the planner's defaults count.
        notes: of the reading, and of the prediction.
    """

    scenario: Scenario
    rows: tuple[LogRow, ...]
    assumed: tuple[str, ...]
    notes: tuple[Note, ...]


def log_scenario(reading: LogReading, given: Mapping[str, Any]) -> Scenario:
    """The scenario that a log states, with what was given over it.

    Raises:
        InvalidInput: `log_on_cpu` where no GPU was there; `reading_incomplete` or, where a name is printed that the
            catalogue doesn't have, `reading_names_unknown`, naming what is missing; else as `Scenario.parse`.
    """
    if reading.on_cpu:
        raise InvalidInput("log_on_cpu", field="log", tool=engine(reading.tool).name)
    values = {**reading.scenario, **{k: v for k, v in given.items() if v not in (None, "")}}
    if "config" in given:
        values.setdefault("model", reading.printed_model or "config")
    needed: tuple[str, ...] = NEEDED
    if any(note.code == "log_weights_method" for note in reading.notes):
        needed = (
            *NEEDED,
            "weights",
        )  # quantised in a way that is printed, so that no default can be meant
    missing = tuple(name for name in needed if not values.get(name))
    if missing:
        printed = {"model": reading.printed_model, "gpu": reading.printed_gpu}
        unknown = ", ".join(printed[name] for name in missing if printed.get(name))
        if unknown:
            raise InvalidInput(
                "reading_names_unknown", field=missing[0], missing=missing, printed=unknown
            )
        raise InvalidInput("reading_incomplete", field=missing[0], missing=missing)
    context = int(values.get("max_model_len") or 0)
    if reading.tool == "llama.cpp" and context:
        # Each of its slots is given its share of the context at start.
        slots = int(values.get("concurrency") or 1)
        values["max_model_len"] = max(context // slots, 2)
        values.setdefault("input_tokens", max(context // slots - 1, 1))
        values.setdefault("output_tokens", 1)
    elif context:
        values.setdefault("output_tokens", min(256, max(context // 2, 1)))
        values.setdefault("input_tokens", min(1024, max(context - values["output_tokens"], 1)))
    return Scenario.parse(values)


def compare_log(reading: LogReading, given: Mapping[str, Any] | None = None) -> LogComparison:
    """Printed and predicted, quantity by quantity.

    Args:
        given: fields of Scenario that the log doesn't state, or states wrongly.

    Raises:
        InvalidInput: as `log_scenario`; else as `evaluate`.
    """
    scenario = log_scenario(reading, given or {})
    evaluation = evaluate(scenario)
    rows = []
    for name in COMPARED:
        printed = reading.figure(name)
        if printed is None:
            continue
        value, step = printed.value, printed.step
        if name == "state_bytes" and evaluation.memory.state_pool_bytes_per_gpu is None:
            continue  # part of the pool that is compared as a whole
        if name in ("kv_pool_bytes_per_gpu", "cache_bytes"):
            state = reading.figure("state_bytes")
            value += state.value if state is not None else 0.0
            step += state.step if state is not None else 0.0
        predicted = _predicted(name, evaluation, reading.shares_cells)
        error = None
        if predicted is not None and value > 0.0:
            error = float(predicted.mid) / value - 1.0
        rows.append(LogRow(name, value, step, predicted, error, printed.line, printed.shown))
    assumed = tuple(name for name in reading.missing if not getattr(scenario, name, None))
    if "weights" in reading.missing and "weights" not in (given or {}):
        assumed = (*assumed, "weights")
    # A log states memory alone: what is said of times doesn't concern it.
    of_memory = [note for note in evaluation.assumptions if not note.code.startswith(OF_TIMES)]
    notes = (*reading.notes, *of_memory)
    return LogComparison(scenario, tuple(rows), tuple(dict.fromkeys(assumed)), notes)


def _predicted(name: FigureName, evaluation: Evaluation, shares_cells: bool) -> Estimate | None:
    memory: MemoryAnswer = evaluation.memory
    scenario = evaluation.scenario
    if name == "cache_bytes":
        return Estimate.exact(_cache_of_slots(scenario, shares_cells), "bytes")
    if name == "max_concurrency":
        tokens = memory.engine_printed_kv_tokens
        longest = float(scenario.max_model_len or evaluation.model.max_context_tokens)
        if tokens is None or longest <= 0.0:
            return None
        return Estimate(
            tokens.low / longest, tokens.mid / longest, tokens.high / longest, "count", tokens.basis
        )
    if name == "state_bytes":
        return memory.state_pool_bytes_per_gpu
    found: Estimate | None = getattr(memory, name)
    if name == "graphs_bytes_per_gpu" and found is not None and float(found.high) == 0.0:
        return None  # inside another part by this engine's policy
    return found


def _cache_of_slots(scenario: Scenario, shares_cells: bool) -> float:
    """The cache of every slot's whole context, over all GPUs and the host, in the engine's own cells (bytes).

    Where slots share cells, those of windowed layers hold every slot's window, but the batch beside it once.
    """
    whole = scenario.replace(gpus=None, tp=None, pp=None, gpu_layers=None, cpu_expert_layers=None)
    budget = budget_of(resolve(whole), whole)
    context = float(scenario.max_model_len or scenario.input_tokens + scenario.output_tokens)
    slots = scenario.concurrency
    twice = 0.0
    for group in budget.pool.groups if shares_cells else ():
        if group.window_tokens is not None:
            batch = budget.settings.max_num_batched_tokens
            cells = slots * (group.window_tokens - batch) + batch
            each = min(
                -(-context // group.block_tokens), -(-group.window_tokens // group.block_tokens)
            )
            once = min(-(-slots * context // group.block_tokens), -(-cells // group.block_tokens))
            twice += (slots * each - once) * group.block_bytes
    return float(slots * sequence_bytes(budget.pool, context)) - twice
