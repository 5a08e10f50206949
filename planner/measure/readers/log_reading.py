"""What a start-up log says: the tool and its version, the scenario that it states, and each memory line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from planner.catalog.engine_profiles import parse_version
from planner.catalog.search import resolve
from planner.errors import Note, PlannerError
from planner.measure.readers.untrusted import Size, known_model, name_in, version_between

MAX_FIGURES = 2_000
MAX_SHOWN = 200  # characters of a line that are kept
FigureName = Literal[
    "weights_bytes",
    "weights_bytes_per_gpu",
    "activation_bytes_per_gpu",
    "overhead_bytes_per_gpu",
    "graphs_bytes_per_gpu",
    "kv_pool_bytes_per_gpu",
    "state_bytes",
    "cache_bytes",
    "engine_printed_kv_tokens",
    "max_concurrency",
]
# Of figures that each GPU prints, the one that counts: of what is taken the most, of what is left the least.
LEAST = frozenset({"kv_pool_bytes_per_gpu", "engine_printed_kv_tokens", "max_concurrency"})
# A cache in several parts, each printed once: together they are what the model needs.
ADDED_UP = frozenset({"cache_bytes", "state_bytes"})
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}


@dataclass(frozen=True, slots=True)
class LogFigure:
    """A memory figure as printed.

    Attributes:
        value: bytes, tokens, or sequences at once (`max_concurrency`), as the name says; step: of its last digit.
        line: its line in the log, from 1; shown: the line itself, cut to MAX_SHOWN characters.
    """

    name: FigureName
    value: float
    step: float
    line: int
    shown: str


@dataclass(frozen=True, slots=True)
class LogReading:
    """A log as read.

    Attributes:
        tool: id of the engine that wrote it; version: as printed, None where it isn't.
        scenario: fields of Scenario that it states, the model and the GPU by their catalogue ids.
        printed_model, printed_gpu: as printed, "" for nothing; also where the catalogue doesn't have them.
        figures: every memory line, in order.
        missing: fields that a prediction needs and that the log doesn't state.
        notes: what to know about the reading.
        on_cpu: it says that the engine ran on a processor.
        shares_cells: slots share the cells of one cache, also of windowed layers.
    """

    tool: str
    version: str | None
    scenario: Mapping[str, Any]
    printed_model: str
    printed_gpu: str
    figures: tuple[LogFigure, ...]
    missing: tuple[str, ...]
    notes: tuple[Note, ...]
    on_cpu: bool = False
    shares_cells: bool = False

    def figure(self, name: FigureName) -> LogFigure | None:
        """What counts of a name's figures: the fullest GPU's, or the parts' sum; None where none is printed."""
        found = [one for one in self.figures if one.name == name]
        if not found:
            return None
        if name in ADDED_UP and self.tool == "llama.cpp":
            value, step = sum(one.value for one in found), sum(one.step for one in found)
            return replace(found[0], value=value, step=step)
        pick: Callable[..., LogFigure] = min if name in LEAST else max
        return pick(found, key=lambda one: one.value)


@dataclass(slots=True)
class LogParts:
    """What a reader gathers while it goes through a log's lines."""

    tool: str
    version: str | None = None
    model: str = ""
    gpu: str = ""
    on_cpu: bool = False
    shares_cells: bool = False
    scenario: dict[str, Any] = field(default_factory=dict)
    figures: list[LogFigure] = field(default_factory=list)
    notes: dict[str, Note] = field(default_factory=dict)

    def add(self, name: FigureName, size: Size | None, line: int, text: str) -> None:
        """A printed size; None is none."""
        if size is not None:
            self.add_count(name, size.bytes, size.step_bytes, line, text)

    def add_count(
        self, name: FigureName, value: float | None, step: float, line: int, text: str
    ) -> None:
        """A printed number of tokens or sequences; None is none."""
        if value is not None and value <= 0.0:
            self.note("log_figure_not_positive", line=line)
        elif value is not None and len(self.figures) < MAX_FIGURES:
            shown = name_in(text[:MAX_SHOWN]) or ""
            self.figures.append(LogFigure(name, value, step, line, shown))

    def state(self, key: str, value: Any) -> None:
        """A field of the scenario; what was stated first stays, None states nothing."""
        if value is not None:
            self.scenario.setdefault(key, value)

    def note(self, code: str, **values: object) -> None:
        """Something to know, said once."""
        self.notes.setdefault(code, Note(code, values))

    def reading(self, known: tuple[str, str]) -> LogReading:
        """The whole, with what is missing.

        Args:
            known: first and last version whose lines the reader was written from.
        """
        model, card = known_model(self.model), resolve("accelerator", self.gpu)
        self.state("model", model)
        self.state("gpu", card)
        self.scenario["engine"] = self.tool
        if self.version is None:
            self.note("log_version_not_printed", tool=self.tool)
        elif not version_between(self.version, known):
            first, last = known
            values = {"tool": self.tool, "given": self.version, "first": first, "last": last}
            self.note("log_version_unread", **values)
        if self.version is not None and _readable(self.version):
            self.state("engine_version", self.version)
        if not self.figures and "log_verbosity" not in self.notes:
            self.note("log_without_memory", tool=self.tool)
        wanted = ("model", "gpu", "engine_version", "weights")
        return LogReading(
            tool=self.tool,
            version=self.version,
            scenario=self.scenario,
            printed_model=self.model,
            printed_gpu=self.gpu,
            figures=tuple(self.figures),
            missing=tuple(name for name in wanted if name not in self.scenario),
            notes=tuple(self.notes.values()),
            on_cpu=self.on_cpu,
            shares_cells=self.shares_cells,
        )


def _readable(version: str) -> bool:
    try:
        parse_version(version)
    except PlannerError:
        return False
    return len(version) <= 40


def dtype_of(printed: str | None) -> str | None:
    """The planner's name of a compute dtype as torch or an engine prints it; None for "auto" and others."""
    return DTYPES.get((printed or "").removeprefix("torch."))
