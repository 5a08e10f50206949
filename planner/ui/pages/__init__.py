"""The pages in the order of the navigation. A new page is one more entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.evaluation import Evaluation
from planner.ui.pages import accuracy, compare, fit, measure, model, speed


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page: path in the address, icon, and what draws it. Its name is `nav.<path>`.

    Attributes:
        draw_without: what draws it where the scenario has no answer; None: the reason for that stands in its place.
    """

    path: str
    icon: str
    draw: Callable[[Evaluation], None]
    draw_without: Callable[[], None] | None = None


PAGES = (
    PageEntry("fit", ":material/memory_alt:", fit.draw_page),
    PageEntry("speed", ":material/speed:", speed.draw_page),
    PageEntry("compare", ":material/compare_arrows:", compare.draw_page),
    PageEntry("model", ":material/schema:", model.draw_page),
    PageEntry("measure", ":material/straighten:", measure.draw_page, measure.draw_without),
    PageEntry("accuracy", ":material/target:", accuracy.draw_page, accuracy.draw_without),
)
