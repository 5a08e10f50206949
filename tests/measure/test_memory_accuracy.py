"""Memory figures against what engines logged: targets, held-out constants, ranges, and how rows are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.accuracy_report import accuracy_json, accuracy_markdown, accuracy_text
from planner.catalog.measurements import MEMORY_QUANTITIES, measurements, read_measurements
from planner.deployment import resolve
from planner.measure.memory_accuracy import (
    MEMORY_TARGETS,
    MemoryPoint,
    memory_families,
    memory_family,
    memory_points,
    memory_scenario,
    memory_summary,
    worst_memory,
)
from planner.measure.memory_constants import held_out_shifts, logit_bytes_of
from planner.quantity import GIB
from planner.ui.locale import catalogue

FAMILIES = memory_families()
# Families with rows enough for a share to mean something: their ranges hold at least this much.
RANGES = {
    "vllm.pool.baseline": 0.9,
    "vllm.pool.current": 0.8,
    "vllm.pool.older": 0.8,
    "vllm.activation.current": 0.8,
    "vllm.weights.plain": 0.9,
    "llama-cpp.weights": 0.8,
    "llama-cpp.kv": 1.0,
    "transformers.allocated.plain": 0.8,
}


def rows_by_id(family: str = "vllm-memory"):
    return {row.id: row for row in measurements(family)}


def test_no_row_is_refused():
    assert memory_points()[1] == ()


def test_every_target_has_its_family():
    assert set(MEMORY_TARGETS) <= set(FAMILIES)


@pytest.mark.parametrize("name", sorted(MEMORY_TARGETS))
def test_targets_are_met(name):
    assert FAMILIES[name].median <= MEMORY_TARGETS[name]


def test_the_thirteen_dense_models_are_each_within_the_target():
    points = [one for one in memory_points()[0] if one.family == "vllm.pool.baseline"]
    assert len({one.row.scenario["model"] for one in points}) == 13
    for one in points:
        assert abs(one.error) < 0.005, one.row.id
        assert one.held is not None
        assert abs(one.held / one.measured - 1.0) < 0.005, one.row.id


# How far a row may be off, and the rows that are further off, each with what is known of it in its note.
EACH = {
    "activation_bytes": (0.05, {"vm103", "vm104", "vm105", "vm145", "vm192"}),
    "kv_pool_bytes": (0.03, {"vm105", "vm109", "vm126", "vm145", "sm001"}),
    "kv_pool_tokens": (0.005, {"vm105", "vm108", "vm109", "vm124"}),
    "allocated_bytes": (0.03, {"hm002", "hm030", "hm033", "hm036", "hm072"}),
    "compute_buffer_bytes": (0.05, {"lm052", "lm101", "lm103"}),
}


@pytest.mark.parametrize("quantity", sorted(EACH))
def test_each_row_is_near(quantity):
    limit, further = EACH[quantity]
    off = {
        one.row.id
        for one in memory_points()[0]
        if one.quantity == quantity and one.family != "llama-cpp.compute.fork"
        if abs(one.error) > limit
    }
    assert off == further


@pytest.mark.parametrize("name", sorted(RANGES))
def test_ranges_hold(name):
    assert FAMILIES[name].coverage >= RANGES[name]


def test_figures_of_fitted_constants_have_a_held_out_error():
    for name, one in FAMILIES.items():
        fitted = name.startswith(("vllm.pool", "vllm.activation", "vllm.runtime"))
        assert (one.held is not None) == fitted, name


def test_a_held_out_constant_owes_nothing_to_its_model():
    """A log that is far off moves the others' figures, and never its own."""
    rows = rows_by_id()
    ids = ("vm001", "vm003", "vm008")
    seen = [(rows[id_], resolve(memory_scenario(rows[id_]))) for id_ in ids]
    before = held_out_shifts(seen)
    wrong = replace(rows["vm001"], measured={"activation_bytes": 5.0 * GIB})
    after = held_out_shifts([(wrong, seen[0][1]), *seen[1:]])
    assert after["vm001", "activation_bytes"] == before["vm001", "activation_bytes"]
    assert after["vm003", "activation_bytes"] > before["vm003", "activation_bytes"] + 0.1 * GIB


def test_bytes_per_logit_come_from_logs_that_the_logits_decide():
    rows = rows_by_id()
    each = {
        id_: logit_bytes_of(rows[id_], resolve(memory_scenario(rows[id_])))
        for id_ in ("vm001", "vm004", "vm025", "vm031", "vm045")
    }
    assert each["vm001"] == pytest.approx(15.0, abs=0.1)  # Llama 3.1 8B
    assert each["vm004"] is None  # CodeLlama: a small vocabulary
    assert each["vm025"] is None  # a mixture
    assert each["vm031"] is None  # with a tower
    assert each["vm045"] == pytest.approx(38.0, abs=0.5)  # 0.11


def test_pools_are_counted_by_what_their_log_states():
    rows = rows_by_id()

    def family(id_, quantity="kv_pool_bytes"):
        return memory_family(rows[id_], resolve(memory_scenario(rows[id_])), quantity)

    assert family("vm001") == "vllm.pool.baseline"
    assert family("vm014") == "vllm.pool.current"  # tp 2
    assert family("vm020") == "vllm.pool.current"  # 8-bit cache
    assert family("vm031") == "vllm.pool.current"  # with a tower
    assert family("vm103") == "vllm.pool.older"
    assert family("vm109") == "vllm.pool.assumed"
    assert family("vm120") is None
    assert family("vm120", "kv_pool_tokens") == "vllm.tokens"
    assert family("vm108", "kv_pool_tokens") == "vllm.pool.assumed"


def point(measured: float, mid: float) -> MemoryPoint:
    (row,) = read_measurements(["id,source,model,weights_bytes", f"a,s,m,{measured}"], "own")
    return MemoryPoint("f", row, None, "weights_bytes", measured, 0.9 * mid, mid, 1.1 * mid, None)


def test_a_summary():
    one = memory_summary([point(100.0, 110.0), point(100.0, 95.0), point(100.0, 80.0)])
    assert one.rows == 3
    assert one.models == 1
    assert one.median == pytest.approx(0.10)
    assert one.bias == pytest.approx(-0.05)
    assert one.coverage == pytest.approx(2.0 / 3.0)
    assert one.held is None
    with pytest.raises(ValueError, match="no points"):
        memory_summary([])


def test_worst_rows_come_first():
    ratios = [abs(one.mid / one.measured - 1.0) for one in worst_memory(20)]
    assert len(ratios) == 20
    assert min(ratios[:3]) > max(ratios[15:])


@pytest.mark.parametrize("language", ["en", "es"])
def test_the_report_names_every_memory_family(language):
    sentences = catalogue(language)
    names = {sentences[f"memory_accuracy.family.{name}"] for name in FAMILIES}
    assert len(names) == len(FAMILIES)
    document, table = accuracy_markdown(language), accuracy_text(language)
    for name in names:
        assert f"| {name} |" in document
        assert name in table


def test_the_report_as_data():
    memory = accuracy_json()["memory"]
    assert set(memory["families"]) == set(FAMILIES)
    baseline = memory["families"]["vllm.pool.baseline"]
    assert baseline["rows"] == 13
    assert baseline["target_fraction"] == 0.02
    assert {row["quantity"] for row in memory["worst"]} <= set(MEMORY_QUANTITIES)
    assert memory["refused"] == []
