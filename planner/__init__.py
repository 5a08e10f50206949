"""Headroom: does this model fit, how fast is it, and how sure are we.

`Scenario` and `evaluate` are the front door; they load on first use so that importing the package stays cheap.
Both refuse what can't be meant or answered with a `planner.errors.PlannerError`, which names the field and what may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.evaluation import Evaluation, evaluate
    from planner.scenario import Scenario

__all__ = ["Evaluation", "Scenario", "evaluate"]


def __getattr__(name: str) -> Any:
    if name == "Scenario":
        from planner.scenario import Scenario

        return Scenario
    if name in {"evaluate", "Evaluation"}:
        from importlib import import_module

        return getattr(import_module("planner.evaluation"), name)
    raise AttributeError(name)
