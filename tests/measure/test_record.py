"""The file of a measurement: a round trip, and refusals that name what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.errors import InvalidInput
from planner.measure.record import (
    MAX_BYTES,
    counting,
    measurements_of,
    parse_record,
    record_text,
    scenario_of,
)
from planner.ui.locale import say_error

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
SPREAD = {"median": 0.1, "low": 0.09, "high": 0.12, "repeats": 5}


def row(id_: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "scenario": {"model": "tiny", "engine": "transformers", "input_tokens": 64},
        "arrivals": "together",
        "measured": {"tpot_s": SPREAD, "peak_bytes": SPREAD | {"median": 0.11}},
    } | changes


def document(**changes: Any) -> dict[str, Any]:
    return {
        "format": "headroom-measurement",
        "schema_version": 1,
        "name": "here",
        "date": "2026-11-30T12:00:00+00:00",
        "origin": "device",
        "accelerator": "t4",
        "conditions": {"noisy": False},
        "rows": [row("a"), row("b", noisy=True), row("c", outcome="out_of_memory", measured={})],
        "configs": {"tiny": CONFIG},
    } | changes


def test_round_trip() -> None:
    record = parse_record(json.dumps(document()))
    assert parse_record(record_text(record)) == record


@pytest.mark.parametrize(
    ("changes", "there"),
    [
        ({"arrivals": "poisson", "request_rate_per_s": 2.0}, True),
        ({"arrivals": "poisson"}, False),
        ({"arrivals": "poisson", "request_rate_per_s": 0.0}, False),
        ({"arrivals": "loop", "request_rate_per_s": 2.0}, False),
        # As written before the rate was kept: mean requests in flight, as of a loop.
        ({"id": "endpoint-1-r2", "arrivals": "loop", "notes": ["poisson_arrivals"]}, True),
    ],
)
def test_arrivals_at_random_have_a_rate_and_others_none(
    changes: dict[str, Any], there: bool
) -> None:
    text = json.dumps(document(rows=[row("a") | changes]))
    if not there:
        with pytest.raises(InvalidInput):
            parse_record(text)
        return
    record = parse_record(text)
    assert record.rows[0].request_rate_per_s == changes.get("request_rate_per_s")
    assert measurements_of(record)[0].request_rate_per_s == changes.get("request_rate_per_s", 0.0)


def test_only_quiet_rows_that_were_measured_count() -> None:
    record = parse_record(json.dumps(document()))
    found = measurements_of(record)
    assert [one.id for one in found] == ["a"]
    assert found[0].measured == {"tpot_s": 0.1}


DRIFTED = {"code": "drift", "drift_fraction": 0.9, "times": 20}
BUSY = {"code": "others_during", "load_fraction": 0.4}


@pytest.mark.parametrize(
    ("reasons", "quiet", "there"),
    [
        ([DRIFTED], (), ["0", "1", "2", "3"]),
        ([DRIFTED], ("0",), ["0", "1", "2", "3"]),
        (
            [DRIFTED],
            ("0", "1", "2"),
            ["0", "1", "2", "3"],
        ),  # of the other figure there is one alone
        ([DRIFTED], ("0", "1", "3"), ["0", "1", "3"]),
        ([DRIFTED, BUSY], ("0",), ["0"]),  # whoever else was there can be waited for
        ([BUSY], (), []),
        ([], (), []),
    ],
)
def test_on_a_machine_that_is_only_unsteady_all_rows_count_where_too_few_are_quiet(
    reasons: list[dict[str, Any]], quiet: tuple[str, ...], there: list[str]
) -> None:
    names = ("prefill_s", "prefill_s", "prefill_s", "tpot_s")
    rows = [
        row(str(number), noisy=str(number) not in quiet, measured={name: SPREAD})
        for number, name in enumerate(names)
    ]
    failed = row("failed", outcome="failed", measured={})
    conditions = {"noisy": bool(reasons), "reasons": reasons}
    record = parse_record(json.dumps(document(rows=[*rows, failed], conditions=conditions)))
    assert [one.id for one in counting(record)] == there
    assert counting(record, "check") == []


def test_a_row_becomes_a_scenario_with_the_record_s_configuration() -> None:
    record = parse_record(json.dumps(document()))
    scenario = scenario_of(record, record.rows[0])
    assert scenario.config == CONFIG
    assert (scenario.gpu, scenario.input_tokens) == ("t4", 64)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "measurement_not_json"),
        ("[" * 100_000, "measurement_not_json"),
        ("[]", "measurement_foreign"),
        ('{"format": "other"}', "measurement_foreign"),
        (json.dumps(document(schema_version=2)), "measurement_version_unknown"),
        (json.dumps(document(rows=[row("a", outcome="fine")])), "measurement_bad_entry"),
        (" " * (MAX_BYTES + 1), "measurement_too_big"),
    ],
    ids=["cut", "deep", "list", "foreign", "newer", "bad row", "huge"],
)
def test_what_is_no_record_is_refused(text: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_record(text)
    assert refusal.value.code == code


def test_a_name_keeps_only_what_can_be_shown() -> None:
    """A terminal acts on control characters, and a page on line breaks."""
    record = parse_record(json.dumps(document(name="\x1b[31mred\n" + "x" * 200)))
    assert record.name == "[31mred" + "x" * 73
    with pytest.raises(InvalidInput):
        parse_record(json.dumps(document(name="\x00\n")))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("lengths.csv", "lengths.csv"),
        ("/data/private/lengths.csv", "lengths.csv"),
        ("C:\\private\\lengths.csv", "lengths.csv"),
        ("x" * 200 + ".csv", "x" * 80),
        ("\x1b[31mred", "[31mred"),
        ("/data/private/", None),
        ("", None),
        (None, None),
    ],
)
def test_a_file_of_lengths_is_kept_by_its_name_alone(given: str | None, kept: str | None) -> None:
    record = parse_record(json.dumps(document(lengths_file=given)))
    assert record.lengths_file == kept
    assert parse_record(record_text(record)) == record


@pytest.mark.parametrize(
    ("changes", "figure"),
    [
        ({"measured": {"tpot_s": SPREAD | {"median": 1e-310}}}, "tpot_s"),
        ({"measured": {"tpot_s": SPREAD | {"low": 1e-310}}}, "tpot_s"),
        ({"measured": {"output_tokens_per_s": SPREAD | {"high": 1e300}}}, "output_tokens_per_s"),
        ({"arrivals": "poisson", "request_rate_per_s": 1e300}, "request_rate_per_s"),
        ({"arrivals": "poisson", "request_rate_per_s": 1e-300}, "request_rate_per_s"),
        ({"arrivals": "poisson", "request_rate_per_s": 0.0}, "request_rate_per_s"),
        ({"arrivals": "poisson", "request_rate_per_s": -1.0}, "request_rate_per_s"),
        ({"arrivals": "poisson", "request_rate_per_s": float("nan")}, "request_rate_per_s"),
    ],
)
def test_a_figure_that_nobody_measured_is_refused_with_its_row(
    changes: dict[str, Any], figure: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_record(json.dumps(document(rows=[row("a"), row("b", **changes)])))
    assert refused.value.code == "measurement_row_out_of_range"
    assert (refused.value.values["row"], refused.value.values["figure"]) == ("b", figure)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"arrivals": "poisson", "request_rate_per_s": 0},
            ("fila b: request_rate_per_s es 0.0", "entre 0,000001 y 1.000.000"),
        ),
        ({"arrivals": "poisson"}, ("rows.1", "request_rate_per_s, de 0,000001 a 1.000.000")),
        ({"request_rate_per_s": 2.0}, ("rows.1", "es solo de las llegadas «poisson»")),
        (
            {"arrivals": "waves"},
            ("rows.1.arrivals", "es «waves»", "uno de loop, together, burst, offline, poisson"),
        ),
        (
            {"measured": {"tpot_ms": SPREAD}},
            ("rows.1.measured.tpot_ms", "es «tpot_ms»", "uno de tpot_s, ttft_s"),
        ),
        (
            {"measured": {"tpot_s": SPREAD | {"repeats": 0}}},
            ("rows.1.measured.tpot_s.repeats", "es 0; lo mínimo es 1"),
        ),
        (
            {"measured": {"tpot_s": SPREAD | {"low": 0}}},
            ("rows.1.measured.tpot_s.low", "es 0 y debe ser mayor que 0"),
        ),
        ({"varied": "yes"}, ("rows.1.varied", "es yes, de otro tipo")),
        ({"notes": ["x"] * 21}, ("rows.1.notes", "demasiado largo; como mucho 20")),
        ({"id": ""}, ("rows.1.id", "demasiado corto; al menos 1")),
    ],
)
def test_a_refusal_says_what_was_given_and_what_may_be(
    changes: dict[str, Any], said: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_record(json.dumps(document(rows=[row("a"), row("b", **changes)])))
    sentence = say_error(refused.value, "es")
    for part in said:
        assert part in sentence, sentence


@pytest.mark.parametrize(
    ("date", "there"),
    [
        ("2026-11-30", True),
        ("2026-11-30T12:00:00+00:00", True),
        ("2026-11-30T12:00Z", True),
        ("1 December 2026", False),
        ("9999-99-99T99:99", False),
        ("2026-W49-1", False),
        ("20261130T120000", False),
        ("٢٠٢٦-11-30", False),
        ("", False),
    ],
)
def test_a_date_is_one_or_is_refused_with_how_to_write_it(date: str, there: bool) -> None:
    text = json.dumps(document(date=date))
    if there:
        assert parse_record(text).date == date
        return
    with pytest.raises(InvalidInput) as refused:
        parse_record(text)
    for language in ("en", "es"):
        said = say_error(refused.value, language)
        assert "2026-11-30T12:00:00+00:00" in said
        assert "date" in said
        assert date in said


@pytest.mark.parametrize("ends", [{"low": 0.11}, {"high": 0.09}, {"median": 0.2}, {"median": 0.05}])
@pytest.mark.parametrize("language", ["en", "es"])
def test_ends_on_the_wrong_side_of_their_median_are_refused_with_their_row(
    ends: dict[str, float], language: str
) -> None:
    wrong = row("b", measured={"tpot_s": SPREAD | ends})
    figure = {"name": "launch", "unit": "s", "value": SPREAD | ends}
    for name, changes in (("b", {"rows": [row("a"), wrong]}), ("launch", {"figures": [figure]})):
        with pytest.raises(InvalidInput) as refused:
            parse_record(json.dumps(document(**changes)))
        said = say_error(refused.value, language)
        assert f" {name}:" in said
        assert str(next(iter(ends.values()))) in said


def test_ends_may_be_their_median_but_for_rounding() -> None:
    close = {"median": 0.1, "low": 0.1 * (1 + 1e-12), "high": 0.1 * (1 - 1e-12)}
    assert parse_record(json.dumps(document(rows=[row("a", measured={"tpot_s": SPREAD | close})])))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("drift_fraction", -5),
        ("drift_fraction", -1.0),
        ("drift_fraction", 1e308),
        ("times", -3),
        ("times", 10**18),
        ("load_fraction", float("nan")),
        ("programs", -1),
    ],
)
def test_what_cannot_have_disturbed_anything_is_refused(name: str, value: float) -> None:
    reasons = [{"code": "drift", "drift_fraction": 4.5, "times": 8}, {"code": "odd", name: value}]
    conditions = {"noisy": True, "reasons": reasons}
    with pytest.raises(InvalidInput) as refused:
        parse_record(json.dumps(document(conditions=conditions)))
    assert refused.value.code == "measurement_row_out_of_range"
    assert (refused.value.values["row"], refused.value.values["figure"]) == ("odd", name)
    reasons.pop()
    assert parse_record(json.dumps(document(conditions=conditions))).conditions.reasons == reasons
