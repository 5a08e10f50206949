"""The pages in the order of the navigation. A new page is one more entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.evaluation import Evaluation
from planner.ui.pages import compare, fit, model, speed


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page: path in the address, icon, and what draws it. Its name is `nav.<path>`."""

    path: str
    icon: str
    draw: Callable[[Evaluation], None]


PAGES = (
    PageEntry("fit", ":material/memory_alt:", fit.draw_page),
    PageEntry("speed", ":material/speed:", speed.draw_page),
    PageEntry("compare", ":material/compare_arrows:", compare.draw_page),
    PageEntry("model", ":material/schema:", model.draw_page),
)
