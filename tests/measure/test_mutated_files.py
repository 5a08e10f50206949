"""Every file from outside, changed a thousand ways: it is read, or refused with a sentence, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from planner.catalog.measurements import read_measurements
from planner.cli_calibrate import calibration_values
from planner.errors import InvalidInput, Note, PlannerError
from planner.measure.comparison import compare_record
from planner.measure.endpoint.options import parse_trace
from planner.measure.predict import predicted, resolve_run
from planner.measure.readers import compare_log, complete, read_log, recognise
from planner.measure.record import Record, calibration_record, parse_record, record_text
from planner.measure.store import renamed, summary
from planner.readings_report import comparison_json, comparison_text, import_text
from planner.ui.locale import LANGUAGES, catalogue, say_error, say_note
from tests.measure.mutate import mutated_file, mutated_json, mutated_lines
from tests.measure.readers.fixture_results import FIXTURES, RESULTS, data, given_for
from tests.measure.test_own_fit import CPU
from tests.measure.test_record import SPREAD, document, row

LOGS = sorted(path.name for path in FIXTURES.glob("*.log"))
OWN: dict[str, Any] = {
    "schema_version": 1,
    "name": "mine",
    "date": "2026-11-30",
    "accelerator": "t4",
    "engine": "vllm",
    "engine_version": "0.11.0",
    "kinds": ["16bit"],
    "experts": False,
    "constants": {
        "vllm": {
            "turing.layer_s": {
                "value": 4e-5,
                "deviation": 0.1,
                "identified_fraction": 0.5,
                "at_bound": False,
            }
        }
    },
    "tpot": {
        "rows": 3,
        "before_fraction": 0.2,
        "after_fraction": 0.1,
        "low_fraction": -0.2,
        "high_fraction": 0.2,
    },
    "ttft": None,
}
TABLE = """\
id,engine,model,gpu,weights,input_tokens,output_tokens,concurrency,arrivals,request_rate_per_s,tpot_s,ttft_s,output_tokens_per_s
a,vllm,Qwen/Qwen3-8B,h100,bf16,1000,200,1,,,0.0071,0.061,
b,vllm,Qwen/Qwen3-8B,h100,bf16,1000,200,16,poisson,2.5,0.0098,0.140,
c,vllm,Qwen/Qwen3-8B,h100,bf16,1000,200,64,burst,,,,900
d,vllm,Qwen/Qwen3-8B,h100,bf16,1000,200,64,waves,,0.01,,
"""
TRACE = "input,output\n" + "".join(f"{11 * i},{3 * i}\n" for i in range(1, 9))


def read_or_refused(read: Callable[[], None]) -> bool:
    """Whether it was read; whatever a refusal says, it says it in each language."""
    refusal = None
    try:
        read()
    except PlannerError as error:
        refusal = error
    for language in LANGUAGES if refusal else ():
        assert f"error.{refusal.code}" in catalogue(language)
        assert say_error(refusal, language)
    return refusal is None


def each(seeds: int, read: Callable[[Random], None]) -> None:
    """Each seed read or refused; of so many some are either."""
    outcomes = {read_or_refused(lambda seed=seed: read(Random(seed))) for seed in range(seeds)}  # type: ignore[misc]
    assert outcomes == {True, False}


def said(notes: tuple[Note, ...]) -> None:
    for language in LANGUAGES:
        assert all(say_note(note, language) for note in notes)


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_tools(name: str) -> None:
    text = data(name).decode()
    mutation = mutated_json if name.endswith((".json", ".jsonl")) else mutated_lines

    def read(chance: Random) -> None:
        reading = recognise(mutated_file(chance, text, mutation))
        said(reading.notes)
        record = complete(reading, given_for(name), name)
        assert parse_record(record_text(record)) == record
        assert import_text(reading, record, None, "es")

    each(120, read)


@pytest.mark.parametrize("name", LOGS)
def test_logs_of_engines(name: str) -> None:
    text = (FIXTURES / name).read_text(encoding="utf-8")
    unknown = "model" in read_log(text).missing  # to the catalogue

    def read(chance: Random) -> None:
        reading = read_log(mutated_file(chance, text, mutated_lines))
        said(reading.notes)
        given = {"gpu": "h100"} if "gpu" in reading.missing else {}
        if unknown and chance.random() < 0.7:
            given["model"] = "google/gemma-3-1b-it"
        compared = compare_log(reading, given)
        assert comparison_text(reading, compared, "es")
        assert json.dumps(comparison_json(reading, compared, "en"))

    each(150, read)


def measurement(chance: Random) -> str:
    """A record with all that one may hold."""
    lengths = {"output_tokens": 8, "concurrency": 3}
    rows = [
        row("a", arrivals=chance.choice(("loop", "together", "burst", "offline"))),
        row("b", arrivals="poisson", request_rate_per_s=2.0),
        row(
            "endpoint-1-c4",
            measured={"output_tokens_per_s": SPREAD | {"median": 100, "high": 120}},
            percentiles={"tpot_s": {"p50": 1, "p90": 1, "p95": 1, "p99": 1}},
            counts={"done": 3, "timeout": 1},
            notes=["cpu"],
        ),
    ]
    for one in rows:
        one["scenario"] |= lengths | {"engine": chance.choice(("vllm", "transformers"))}
    figure = {"name": "matmul", "dtype": "bf16", "size": 10, "unit": "FLOP/s", "value": SPREAD}
    whole = document(
        rows=rows,
        calibration=OWN,
        figures=[figure],
        device=chance.choice((None, CPU)),
        origin=chance.choice(("device", "endpoint", "imported")),
    )
    return json.dumps(whole, indent=1)


def use(record: Record) -> None:
    assert parse_record(record_text(record)) == record
    assert record_text(record).encode()
    assert summary(record, "key").name == record.name
    assert renamed(record, "another").name == "another"
    for _, refusal in compare_record(record).refused:
        assert say_error(refusal, "es")


def test_measurements() -> None:
    each(
        2_500,
        lambda chance: use(parse_record(mutated_file(chance, measurement(chance), mutated_json))),
    )


def test_calibrations_alone(tmp_path: Path) -> None:
    file = tmp_path / "own.json"

    def read(chance: Random) -> None:
        content = mutated_file(chance, json.dumps(OWN, indent=1), mutated_json)
        if (record := calibration_record(content)) is not None:
            use(record)
        file.write_bytes(content)
        assert calibration_values(str(file), None, "en")

    each(1_200, read)


def test_tables_of_runs() -> None:
    def read(chance: Random) -> None:
        content = mutated_file(chance, TABLE, mutated_lines)
        lines = content.decode(errors="replace").splitlines(keepends=True)
        for one in read_measurements(lines, "mine"):
            assert predicted(resolve_run(one))

    each(700, read)


def test_traces() -> None:
    def read(chance: Random) -> None:
        assert parse_trace(mutated_file(chance, TRACE, mutated_lines))

    each(700, read)


# --- What such files once broke --------------------------------------------------------------------------------------


def with_config(text: str) -> bytes:
    whole = json.dumps(document(configs={"tiny": {"model_type": "@"}}))
    return whole.replace('"@"', text).encode()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (with_config("[" * 400 + "]" * 400), "config_too_deep"),
        (with_config('"\\ud800"'), "measurement_not_json"),
        (json.dumps(document(name="\ud800")).encode(), "measurement_not_json"),
        (json.dumps(document()).encode().replace(b"here", b"\xed\xa0\x80"), "measurement_not_json"),
        (json.dumps(document(date=10**4000)).encode(), "measurement_bad_entry"),
        (json.dumps(document(rows=[row("a", counts={"done": 10**400})])), "measurement_bad_entry"),
        (
            json.dumps(document(rows=[row("a", scenario={"input_tokens": float("inf")})])),
            "measurement_bad_entry",
        ),
    ],
)
def test_what_could_be_read_and_not_written_again_is_refused(
    content: bytes | str, code: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_record(content)
    assert refusal.value.code == code


@pytest.mark.parametrize("none", ["Infinity", "9" * 4000])
def test_a_limit_that_is_none_is_kept_as_configurations_have_it(none: str) -> None:
    record = parse_record(with_config(f'"llama", "time_step_limit": [0.0, {none}]'))
    assert record.configs["tiny"]["time_step_limit"] == [0.0, "Infinity"]
    assert parse_record(record_text(record)) == record
