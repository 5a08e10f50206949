"""The CSV holds what the rows hold, in the published names and units."""

from __future__ import annotations

import csv
import io

import pytest

from planner.compare.export import COLUMNS, comparison_csv
from planner.compare.objectives import Objectives, verdict_on
from planner.errors import Note, PlannerError
from planner.published import FLAT_COLUMNS
from planner.quantity import GIB
from tests.compare.rows import rows


def say(reason: Note | PlannerError) -> str:
    return f"<{reason.code}>"


def read(size: str) -> dict[str, dict[str, str]]:
    reader = csv.DictReader(io.StringIO(comparison_csv(rows(size).values(), say)))
    assert tuple(reader.fieldnames or ()) == COLUMNS
    return {line["gpu"]: line for line in reader}


def test_every_row_with_its_figures_in_published_units() -> None:
    lines, known = read("8B"), rows("8B")
    assert list(lines) == list(known)
    row, line = known["l4"], lines["l4"]
    assert row.speed is not None
    assert row.usd_per_hour is not None
    assert float(line["ttft_ms"]) == pytest.approx(1e3 * row.speed.ttft_s.mid, rel=1e-5)
    assert float(line["ttft_ms_high"]) == pytest.approx(1e3 * row.speed.ttft_s.high, rel=1e-5)
    assert float(line["usd_per_hour_low"]) == pytest.approx(row.usd_per_hour.low, rel=1e-5)
    assert float(line["needed_gib_per_gpu"]) == pytest.approx(row.needed_bytes / GIB, abs=1e-4)
    assert (line["verdict"], line["fits"], line["why_not"]) == ("fits", "True", "")


def test_what_is_not_known_is_empty_and_says_why() -> None:
    lines = read("70B")
    refused = [line for line in lines.values() if line["why_not"]]
    assert len(refused) > 20
    assert {"<missing_figure>"} < {line["why_not"] for line in refused}
    for line in lines.values():
        assert bool(line["why_not"]) == (line["fits"] == "False" or not line["ttft_ms"])
        assert bool(line["price_oldest"]) == bool(line["usd_per_hour"])
        assert bool(line["basis"]) == bool(line["ttft_ms"] or line["usd_per_hour"])


def test_the_names_are_those_of_other_exports() -> None:
    speeds = ("ttft", "tpot", "decode", "output_tok", "total_tok")
    shared = {name for name in COLUMNS if name.startswith(speeds)}
    assert len(shared) == 15
    ends = {f"{name}{tail}" for name in FLAT_COLUMNS for tail in ("_low", "_high")}
    assert shared <= set(FLAT_COLUMNS) | ends


def test_how_objectives_are_met_stands_in_the_file_where_there_are_any() -> None:
    asked, known = Objectives(0.5, 30.0), rows("8B")
    text = comparison_csv(known.values(), say, asked)
    said = {line["gpu"]: line["objectives"] for line in csv.DictReader(io.StringIO(text))}
    assert said == {id_: verdict_on(row, asked) for id_, row in known.items()}
    assert {"meets", "may_miss", "misses"} == set(said.values())
    assert {line["objectives"] for line in read("8B").values()} == {""}
