"""What an explanation is made of, and where its facts come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from planner.catalog.loader import Figure, Source, read_sources, read_yaml
from planner.catalog.own_calibration import own_calibration_from
from planner.deployment import Deployment
from planner.evaluation import Evaluation
from planner.memory.budget import MemoryBudget
from planner.scenario import canonical_text


@dataclass(frozen=True, slots=True)
class Term:
    """One symbol of a formula: what it means (a locale key), its value and the format it is shown in."""

    symbol: str
    note_key: str
    value: float
    kind: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A figure taken apart.

    Attributes:
        title_key: locale key of the figure's name.
        formula: in symbols.
        filled: a template of the same formula, with `{name:format}` where numbers go; `values` holds them.
        terms: the symbols, in order.
        sources: where the facts among them come from, each once.
    """

    title_key: str
    formula: str
    filled: str
    values: dict[str, float]
    terms: tuple[Term, ...]
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Context:
    evaluation: Evaluation
    deployment: Deployment
    budget: MemoryBudget

    @property
    def tokens(self) -> float:
        scenario = self.evaluation.scenario
        return float(scenario.input_tokens + scenario.output_tokens)


SYMBOL = re.compile(r"[A-Za-z]\w*")


def with_numbers(formula: str, terms: Iterable[Term]) -> str:
    """The formula with each term's value, as a template, where its symbol stands."""
    kinds = {term.symbol: term.kind for term in terms}
    return SYMBOL.sub(
        lambda found: f"{{{found[0]}:{kinds[found[0]]}}}" if found[0] in kinds else found[0],
        formula,
    )


def computed(
    figure: str,
    formula: str,
    terms: Sequence[Term],
    sources: Iterator[Source],
    result: float,
    kind: str,
) -> Explanation:
    """An explanation whose formula says all: with the terms' values in it, it gives `result`, shown as `kind`."""
    filled = f"{with_numbers(formula, terms)} = {{result:{kind}}}"
    if formula in {term.symbol for term in terms}:  # the figure is a fact by itself
        filled = f"{{result:{kind}}}"
    values = {term.symbol: term.value for term in terms}
    return explanation_of(figure, formula, filled, list(terms), sources, **values, result=result)


def explanation_of(
    figure: str,
    formula: str,
    filled: str,
    terms: list[Term],
    sources: Iterator[Source],
    **values: float,
) -> Explanation:
    """An explanation of `figure`, each source once; `values` fill the template."""
    unique = {source.id + source.title: source for source in sources}
    return Explanation(
        f"figure.{figure}", formula, filled, values, tuple(terms), tuple(unique.values())
    )


def accelerator_sources(deployment: Deployment, *keys: str) -> Iterator[Source]:
    """Sources of the card's figures under these keys."""
    figures: dict[str, Figure] = deployment.accelerator.figures
    for key in keys:
        if key in figures:
            yield figures[key].source


def _profile_sources(relative: str) -> Iterator[Source]:
    yield from read_sources(read_yaml(relative), relative).values()


def engine_sources(deployment: Deployment) -> Iterator[Source]:
    """Sources of the engine's settings and overheads."""
    yield from _profile_sources(f"engines/{deployment.engine.id}.yaml")


def calibration_sources(context: Context) -> Iterator[Source]:
    """Sources of the constants that times are made with: somebody's own runs where they count, else what is shipped."""
    deployment = context.deployment
    text = canonical_text(context.evaluation.scenario.calibration)
    if deployment.calibration.own and text is not None:
        own = own_calibration_from(text)
        rows = [error.rows for error in (own.tpot, own.ttft) if error is not None]
        title = f"{own.name} (n = {max(rows)})"
        yield Source("own-calibration", title, "", own.date, "measured")
        return
    yield from _profile_sources(f"calibrations/{deployment.calibration.file}.yaml")


def host_sources(deployment: Deployment) -> Iterator[Source]:
    """Sources of the host's figures, where it does a part of each step."""
    if deployment.machine is not None:
        yield from _profile_sources(f"hosts/{deployment.machine.id}.yaml")


def model_sources(deployment: Deployment) -> Iterator[Source]:
    """Sources of the model's configuration; none for a pasted one."""
    if deployment.model.profile:
        yield from _profile_sources(f"models/{deployment.model.profile}.yaml")
