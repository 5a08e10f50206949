"""The comparison says of every accelerator what one evaluation says, finds the smallest count, and never guesses."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from planner import Scenario, evaluate
from planner.catalog.accelerators import accelerator_ids
from planner.catalog.prices import hourly_price
from planner.compare import held, speeds
from planner.compare.costs import usd_per_million_tokens
from planner.compare.placements import placed, placements
from planner.compare.table import Row, compare
from planner.errors import MissingFigure, PlannerError, UnknownItem, Unsupported
from planner.evaluation import Evaluation, resolve
from planner.memory.fit import Verdict
from planner.memory_answer import verdict_of
from planner.memory_limits import budget_of
from planner.quantity import Basis, Estimate

TOLERANCE = 1e-9
SCENARIOS = {
    "dense": Scenario(
        model="meta-llama/Llama-3.1-70B-Instruct", gpu="h100", input_tokens=3000, concurrency=30
    ),
    "experts": Scenario(model="Qwen/Qwen3-30B-A3B", gpu="l40s", weights="fp8", concurrency=64),
    "latent": Scenario(
        model="deepseek-ai/DeepSeek-V3", gpu="h200", gpus=8, concurrency=400, input_tokens=4000
    ),
    "windowed nf4": Scenario(model="google/gemma-3-12b-it", gpu="t4", weights="nf4"),
    "gguf": Scenario(
        model="meta-llama/Llama-3.1-8B-Instruct", gpu="rtx-4090", weights="gguf:Q4_K_M"
    ),
    "embedding": Scenario(
        model="Snowflake/snowflake-arctic-embed-m", gpu="l4", input_tokens=400, output_tokens=1
    ),
    "own fraction": Scenario(
        model="meta-llama/Llama-3.1-8B-Instruct",
        gpu="a100-sxm4-80gb",
        engine="sglang",
        concurrency=300,
    ),
    "slots of state": Scenario(
        model="Qwen/Qwen3-Next-80B-A3B-Instruct",
        gpu="h100",
        engine="sglang",
        concurrency=120,
        input_tokens=3000,
    ),
    "fixed slots": Scenario(
        model="Qwen/Qwen3-Next-80B-A3B-Instruct",
        gpu="h100",
        engine="sglang",
        engine_version="0.5.3",
        max_num_seqs=100,
        concurrency=90,
    ),
    "heads of their own": Scenario(model="tiiuae/falcon-7b", gpu="t4", input_tokens=1500),
    "degrees": Scenario(
        model="deepseek-ai/DeepSeek-V3", gpu="h200", tp=1, dp=8, ep=8, concurrency=64
    ),
    "quantised on loading": Scenario(
        model="Qwen/Qwen2.5-32B-Instruct", gpu="rtx-3090", engine="transformers", weights="nf4"
    ),
}
FIGURES = (
    "ttft_s",
    "tpot_s",
    "decode_tokens_per_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
)


def same(a: Estimate | None, b: Estimate | None) -> bool:
    if a is None or b is None:
        return a is b
    ends = [
        math.isclose(getattr(a, e), getattr(b, e), rel_tol=TOLERANCE)
        for e in ("low", "mid", "high")
    ]
    return all(ends) and (a.unit, a.basis) == (b.unit, b.basis)


def answer(scenario: Scenario) -> Evaluation | PlannerError:
    try:
        return evaluate(scenario)
    except PlannerError as error:
        return error


def departures(row: Row) -> list[str]:
    """In what a row differs from the evaluation of its scenario."""
    single = answer(row.scenario)
    if isinstance(single, PlannerError):
        alike = row.error is not None and (row.error.code, row.error.values) == (
            single.code,
            single.values,
        )
        return [] if alike and row.speed is None else [f"error {row.error!r}, not {single!r}"]
    memory, speed = single.memory, single.speed
    found = [
        name
        for name, mine, other in (
            ("verdict", row.verdict, memory.verdict),
            ("reason", row.reason, memory.reason),
            ("starts", row.starts, memory.starts),
            ("needed", row.needed_bytes, memory.needed_bytes_per_gpu.mid),
            ("usable", row.usable_bytes, memory.usable_bytes_per_gpu.mid),
            ("engine", row.engine, single.deployment.engine),
            ("label", row.weights_label, single.deployment.weights_label),
            ("bound_by", row.speed and row.speed.bound_by, speed.bound_by),
        )
        if mine != other
    ]
    found += [
        name
        for name in FIGURES
        if row.speed is None or not same(getattr(row.speed, name), getattr(speed, name))
    ]
    if not same(row.max_concurrency, memory.max_concurrency):
        found.append("max_concurrency")
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_row_says_what_the_evaluation_says(name: str) -> None:
    comparison = compare(SCENARIOS[name])
    assert [row.accelerator.id for row in comparison.rows] == list(accelerator_ids())
    wrong = {row.accelerator.id: found for row in comparison.rows if (found := departures(row))}
    assert wrong == {}
    assert departures(comparison.current) == []
    assert len([row for row in comparison.rows if row.speed]) > 20


def brute_force(scenario: Scenario, id_: str, counts: tuple[int, ...]) -> int:
    """The smallest count whose evaluation holds, else the largest that could be resolved at all."""
    resolved = []
    for gpus in counts:
        one = placed(scenario, id_, gpus)
        try:
            deployment = resolve(one)
        except PlannerError:
            continue
        resolved.append(gpus)
        fit = verdict_of(deployment, one, budget_of(deployment, one))
        if fit.verdict is not Verdict.DOES_NOT_FIT:
            return gpus
    return resolved[-1] if resolved else counts[0]


@pytest.mark.parametrize("name", ["dense", "heads of their own", "latent"])
def test_the_smallest_count_that_holds_is_found(name: str) -> None:
    scenario = SCENARIOS[name]
    rows = compare(scenario).rows
    wanted = {id_: brute_force(scenario, id_, (1, 2, 4, 8)) for id_ in accelerator_ids()}
    assert {row.accelerator.id: row.gpus for row in rows} == wanted
    assert len({row.gpus for row in rows if row.holds}) >= (1 if name != "dense" else 4)


def test_counts_are_tried_smallest_first_whatever_their_order() -> None:
    scenario = SCENARIOS["dense"]
    a, b = compare(scenario, (8, 2, 4, 1)), compare(scenario, (1, 2, 4, 8))
    assert a.counts == b.counts == (1, 2, 4, 8)
    assert [row.gpus for row in a.rows] == [row.gpus for row in b.rows]


def test_no_count_makes_a_sequence_shorter() -> None:
    rows = compare(SCENARIOS["heads of their own"].replace(input_tokens=100_000)).rows
    answered = [row for row in rows if row.reason]
    assert len(answered) > 100
    assert {(row.gpus, row.reason.code) for row in answered if row.reason} == {
        (1, "fit_context_above_model")
    }


def test_a_group_is_computed_once_and_every_accelerator_is_in_one() -> None:
    scenario = SCENARIOS["dense"]
    there = placements(scenario, accelerator_ids(), 4)
    positions = [p for group in there.groups for p in group.positions] + list(there.refused)
    assert sorted(positions) == list(range(len(accelerator_ids())))
    assert len(there.groups) < len(accelerator_ids()) / 4
    assert placements(scenario.replace(input_tokens=17), accelerator_ids(), 4) is there


def test_one_call_computes_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def counted(module: object, name: str) -> None:
        original = getattr(module, name)

        def wrapper(*arguments: object, **named: object) -> object:
            calls[name] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(module, name, wrapper)

    scenario = SCENARIOS["gguf"]
    counted(held, "budget_of")
    counted(speeds, "point_of")
    counted(speeds, "tpot_bound")
    rows = compare(scenario).rows
    groups = sum(len(placements(scenario, accelerator_ids(), gpus).groups) for gpus in (1, 2, 4, 8))
    assert 0 < calls["point_of"] <= groups
    assert 0 < calls["budget_of"] <= groups + 1  # the current deployment by itself
    assert calls["tpot_bound"] == calls["point_of"]
    assert len(rows) > 4 * groups


# --- The scenario on another accelerator ----------------------------------------------------------------------------


def test_degrees_hold_where_they_come_to_the_count() -> None:
    scenario = Scenario(model="deepseek-ai/DeepSeek-V3", gpu="h200", tp=2, dp=4, ep=8)
    moved = placed(scenario, "b200", 8)
    assert (moved.gpu, moved.gpus, moved.tp, moved.dp, moved.ep) == ("b200", 8, 2, 4, 8)
    fewer = placed(scenario, "b200", 4)
    assert (fewer.gpus, fewer.tp, fewer.pp, fewer.ep, fewer.dp) == (4, None, None, None, None)


def test_a_memory_that_was_given_is_the_own_card_s_only() -> None:
    scenario = Scenario(model="meta-llama/Llama-3.1-8B-Instruct", gpu="T4", gpu_memory_gib=40.0)
    comparison = compare(scenario)
    by_id = {row.accelerator.id: row for row in comparison.rows}
    assert by_id["t4"].usable_bytes == 40.0 * 2**30
    assert by_id["t4"].scenario.gpu_memory_gib == 40.0
    assert by_id["l4"].usable_bytes < 24e9
    assert by_id["l4"].scenario.gpu_memory_gib is None
    assert comparison.current.usable_bytes == 40.0 * 2**30
    # The same model with the catalogue's memory isn't answered from the same cache.
    assert compare(scenario.replace(gpu_memory_gib=None)).current.usable_bytes < 16e9


def test_layers_in_host_memory_are_the_own_card_s_only() -> None:
    scenario = Scenario(
        model="meta-llama/Llama-3.1-8B-Instruct",
        gpu="RTX 3060",
        engine="llama.cpp",
        weights="gguf:Q8_0",
        gpu_layers=10,
        host_bandwidth_gb_per_s=50.0,
    )
    comparison = compare(scenario)
    by_id = {row.accelerator.id: row for row in comparison.rows}
    own = comparison.current.accelerator.id
    assert (by_id[own].scenario.gpu_layers, by_id[own].scenario.host_bandwidth_gb_per_s) == (10, 50)
    larger, whole = (
        by_id["rtx-4090"],
        compare(
            scenario.replace(gpu="rtx-4090", gpu_layers=None, host_bandwidth_gb_per_s=None)
        ).current,
    )
    assert (larger.scenario.gpu_layers, larger.scenario.host_bandwidth_gb_per_s) == (None, None)
    assert larger.speed is not None
    assert whole.speed is not None
    assert larger.speed.tpot_s == whole.speed.tpot_s
    # Cards that share their memory with the host hold it as they would without those fields.
    shared = [row for row in comparison.rows if row.accelerator.unified]
    assert shared
    codes = {row.error.code for row in shared if row.error}
    assert not [code for code in codes if "host" in code or "offload" in code], codes
    # Another own card, and its layers aren't taken from the same cache.
    moved = {row.accelerator.id: row for row in compare(scenario.replace(gpu="rtx-4090")).rows}
    assert moved["rtx-4090"].scenario.gpu_layers == 10
    assert moved[own].scenario.gpu_layers is None


def test_the_current_deployment_keeps_its_own_count() -> None:
    scenario = Scenario(model="meta-llama/Llama-3.1-8B-Instruct", gpu="h100", gpus=4)
    comparison = compare(scenario)
    own = next(row for row in comparison.rows if row.accelerator.id == "h100-sxm-80gb")
    assert (own.gpus, comparison.current.gpus) == (1, 4)
    assert comparison.current.accelerator is own.accelerator


# --- Why not ---------------------------------------------------------------------------------------------------------


def test_an_engine_that_does_not_run_there_names_those_that_do() -> None:
    scenario = Scenario(model="meta-llama/Llama-3.1-8B-Instruct", gpu="h100", engine="vllm")
    row = next(row for row in compare(scenario).rows if row.accelerator.vendor.lower() == "apple")
    assert isinstance(row.error, Unsupported)
    assert row.obstacle is row.error
    assert (row.error.code, row.verdict, row.speed) == ("engine_not_on_accelerator", None, None)
    assert "llama.cpp" in row.error.values["nearest"]  # type: ignore[operator]
    assert row.max_concurrency is row.usd_per_million_output_tokens is None


def test_a_format_without_a_kernel_names_the_nearest() -> None:
    scenario = Scenario(model="meta-llama/Llama-3.1-8B-Instruct", gpu="h100", weights="fp8")
    row = next(row for row in compare(scenario).rows if row.accelerator.id == "v100-sxm2-16gb")
    assert row.error is not None
    assert row.error.code == "format_unsupported"
    assert row.error.values["nearest"]


def test_a_missing_figure_costs_the_speed_and_not_the_memory() -> None:
    rows = compare(SCENARIOS["dense"]).rows
    lacking = [row for row in rows if isinstance(row.error, MissingFigure) and row.holds]
    assert lacking
    for row in lacking:
        assert row.obstacle is row.error
        assert row.speed is row.usd_per_million_tokens is None
        assert row.error is not None
        assert row.error.values["profile"] == row.accelerator.id


def test_what_does_not_fit_says_why_before_what_is_missing() -> None:
    rows = compare(SCENARIOS["dense"]).rows
    failing = [row for row in rows if row.verdict is Verdict.DOES_NOT_FIT]
    assert {row.gpus for row in failing} == {8}
    assert all(row.obstacle is row.reason is not None for row in failing)
    assert any(row.error for row in failing)
    assert all(row.obstacle is None for row in rows if row.holds and row.speed)


@pytest.mark.parametrize("change", [{"model": "nobody/nothing"}, {"gpu": "z9"}, {"kv": "fp3"}])
def test_what_no_accelerator_can_change_is_refused_at_once(change: dict[str, str]) -> None:
    with pytest.raises(UnknownItem):
        compare(SCENARIOS["gguf"].replace(**change))


def test_a_pasted_configuration_is_compared_like_its_catalogue_model() -> None:
    from planner.catalog.models import model_profile

    named = Scenario(model="Qwen/Qwen2.5-7B-Instruct", gpu="l4")
    config = dict(model_profile("Qwen/Qwen2.5-7B-Instruct").config)
    pasted = Scenario(model="mine", config=config, gpu="l4")
    for a, b in zip(compare(named).rows, compare(pasted).rows, strict=True):
        assert (a.gpus, a.verdict) == (b.gpus, b.verdict)
        assert (a.speed and a.speed.ttft_s) == (b.speed and b.speed.ttft_s)


# --- Money -----------------------------------------------------------------------------------------------------------


def test_a_million_tokens_by_hand() -> None:
    # 2 $/h delivering 100 tokens/s: 360,000 tokens an hour, so 5.555… $ a million.
    hourly = Estimate(1.0, 2.0, 4.0, "USD/h", Basis.TRANSFERRED)
    rate = Estimate(50.0, 100.0, 200.0, "tokens/s", Basis.CALIBRATED)
    cost = usd_per_million_tokens(hourly, rate)
    assert cost.mid == pytest.approx(2.0 / 0.36)
    assert cost.low == pytest.approx(1.0 / 0.72)
    assert cost.high == pytest.approx(4.0 / 0.18)
    assert (cost.unit, cost.basis) == ("USD", Basis.TRANSFERRED)


def test_prices_are_the_catalogue_s_times_the_count() -> None:
    priced = [row for row in compare(SCENARIOS["dense"]).rows if row.price]
    assert len(priced) > 20
    for row in priced:
        price = hourly_price(row.accelerator.id, row.gpus)
        assert row.price is price
        assert row.usd_per_hour is not None
        assert row.usd_per_hour.mid == pytest.approx(row.gpus * price.usd_per_gpu_hour.mid)
        if row.speed and row.speed.output_tokens_per_s and row.usd_per_million_output_tokens:
            # What an hour costs is what the tokens of an hour cost.
            tokens = 3600.0 * row.speed.output_tokens_per_s.mid
            spent = tokens / 1e6 * row.usd_per_million_output_tokens.mid
            assert spent == pytest.approx(row.usd_per_hour.mid)


def test_what_nobody_rents_has_no_price() -> None:
    rows = compare(SCENARIOS["gguf"]).rows
    bought = [row for row in rows if not row.can_rent]
    assert bought
    assert all(row.price is row.usd_per_hour is None for row in bought)
    assert all(row.usd_per_million_tokens is None for row in bought)


def test_an_embedding_model_has_a_price_for_its_input_only() -> None:
    row = next(row for row in compare(SCENARIOS["embedding"]).rows if row.accelerator.id == "l4")
    assert row.speed is not None
    assert row.speed.tpot_s is row.speed.output_tokens_per_s is None
    assert row.usd_per_million_output_tokens is None
    assert row.usd_per_million_tokens is not None
    assert row.usd_per_million_tokens.mid > 0
