"""How a figure came about: its formula, the formula with this scenario's numbers, its terms and their sources.

Built only when someone asks. Formulas are in plain symbols, the same in every language; a template names each number
and its format, so that the locale writes it.
"""

from __future__ import annotations

from planner.deployment import resolve
from planner.errors import InvalidInput
from planner.evaluation import Evaluation
from planner.explain.cache import CACHE
from planner.explain.memory import MEMORY
from planner.explain.parts import Context, Explanation, Term
from planner.explain.speed import SPEED
from planner.memory_limits import budget_of

__all__ = ["BUILDERS", "Explanation", "Term", "explain"]

BUILDERS = MEMORY | CACHE | SPEED


def explain(evaluation: Evaluation, figure: str) -> Explanation:
    """How `figure` (an attribute of the memory or speed answer) came about in this evaluation.

    Raises:
        InvalidInput: for a figure that has no explanation.
    """
    builder = BUILDERS.get(figure)
    if builder is None:
        raise InvalidInput("figure_unknown", field="figure", given=figure)
    deployment = resolve(evaluation.scenario)
    return builder(Context(evaluation, deployment, budget_of(deployment, evaluation.scenario)))
