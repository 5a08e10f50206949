"""What a calibration made worse, in words: for the page and for the command line."""

from __future__ import annotations

from planner.catalog.own_calibration import OwnCalibration
from planner.ui.locale import text
from planner.ui.locale.numbers import format_value


def worse_words(own: OwnCalibration, figure: str, language: str) -> list[str]:
    """A sentence for each group of runs whose error grew.

    Args:
        figure: "tpot" or "ttft".
    """
    error = own.tpot if figure == "tpot" else own.ttft
    return [
        text(
            f"measure.worse.{one.by}",
            language,
            figure=text(f"measure.quantity.{figure}_s", language),
            group=_span(one.low, one.high, language),
            before=one.before_fraction,
            after=one.after_fraction,
            rows=one.rows,
        )
        for one in (error.worse if error else ())
    ]


def _span(low: int, high: int, language: str) -> str:
    ends = dict.fromkeys(format_value(end, "count", language) for end in (low, high))
    return " – ".join(ends)
