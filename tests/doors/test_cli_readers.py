"""The verbs that read what other programs wrote: `measure log` and `measure import`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from planner.cli import main
from planner.cli_calibrate import calibration_lines
from planner.measure.record import parse_record, record_text
from planner.measure_report import measured_json, measured_text
from planner.ui.locale import text
from tests.ui.machine import measured

FIXTURES = Path(__file__).parents[1] / "measure" / "readers" / "fixtures"
LOG = str(FIXTURES / "vllm-0.11.log")
SWEEP = str(FIXTURES / "vllm-serve-sweep.jsonl")
ON = ("--gpu", "h100", "--engine-version", "0.11.0", "--weights", "native", "--gpus", "1")
LENGTHS = ("--input-tokens", "512", "--output-tokens", "128", "--concurrency", "8")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["measure", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize(("language", "word"), [("en", "Predicted"), ("es", "Predicho")])
def test_a_log_as_a_table(capsys: pytest.CaptureFixture[str], language: str, word: str) -> None:
    code, out, _ = run(capsys, "log", LOG, "--gpu", "h100", "--lang", language)
    assert code == 0
    assert word in out
    assert "15.3 GiB" in out or "15,3 GiB" in out


def test_a_log_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "log", LOG, "--gpu", "h100", "--json")
    answer = json.loads(out)
    assert code == 0
    assert (answer["engine"], answer["version"], answer["assumed"]) == ("vllm", "0.11.0", [])
    rows = {row["quantity"]: row for row in answer["rows"]}
    weights = rows["weights_bytes_per_gpu"]
    assert weights["printed"] == pytest.approx(15.2683 * 2**30)
    assert weights["error_fraction"] == pytest.approx(
        weights["predicted"]["mid"] / weights["printed"] - 1.0
    )


def test_a_log_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = Path(LOG).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, out, _ = run(capsys, "log", "-", "--gpu", "h100")
    assert code == 0
    assert "Qwen/Qwen3-8B" in out


def test_what_a_file_does_not_say_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = run(capsys, "log", LOG)
    assert code == 1
    assert "--gpu" in said
    code, out, _ = run(capsys, "import", SWEEP, "--gpu", "h100", "--json")
    assert code == 1
    assert json.loads(out)["error"]["values"]["missing"] == ["engine_version", "weights", "gpus"]


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize(
    ("verb", "file", "printed", "flags"),
    [
        ("log", LOG, "Qwen/Qwen3-8B", "--gpu."),
        (
            "import",
            SWEEP,
            "meta-llama/Llama-3.1-8B-Instruct",
            "--gpu, --engine-version, --weights, --gpus.",
        ),
        (
            "import",
            str(FIXTURES / "llama-bench.md"),
            "qwen2 7B Q4_K - Medium",
            "--model, --gpu, --gpus",
        ),
    ],
)
def test_it_is_asked_for_by_flag_beside_what_the_file_names(
    capsys: pytest.CaptureFixture[str],
    language: str,
    verb: str,
    file: str,
    printed: str,
    flags: str,
) -> None:
    code, _, said = run(capsys, verb, file, "--lang", language)
    assert code == 1
    assert printed in said
    assert f": {flags}" in said


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_file_for_the_other_verb_is_sent_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, language: str
) -> None:
    for file in sorted(FIXTURES.iterdir()):
        verb, other = ("import", "log") if file.suffix == ".log" else ("log", "import")
        code, _, said = run(capsys, verb, str(file), "--lang", language)
        assert (code, f"measure {other}" in said) == (1, True), file.name
    own = tmp_path / "measured.json"
    own.write_text(record_text(measured()))
    code, _, said = run(capsys, "log", str(own), "--lang", language)
    assert (code, "measure import" in said) == (1, True)
    own.write_text("neither\n")
    for verb, code in (("log", "log_foreign"), ("import", "results_foreign")):
        assert run(capsys, verb, str(own))[0] == 1
        assert json.loads(run(capsys, verb, str(own), "--json")[1])["error"]["code"] == code


def test_what_cannot_be_opened_or_read_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(capsys, "log", str(tmp_path / "none.log"))[0] == 1
    (tmp_path / "foreign.json").write_text("{}")
    code, _, said = run(capsys, "import", str(tmp_path / "foreign.json"), *ON)
    assert code == 1
    assert "GuideLLM" in said


def test_an_import_is_a_measurement_with_its_calibration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "measured.json"
    code, out, _ = run(capsys, "import", SWEEP, *ON, "--date", "2026-11-30", "-o", str(target))
    assert code == 0
    assert f"estimate --calibration {target}" in out
    record = parse_record(target.read_bytes())
    assert (record.name, record.date[:10], record.origin) == (
        "vllm-serve-sweep",
        "2026-11-30",
        "imported",
    )
    assert record.calibration is not None
    code, out, _ = run(capsys, "import", SWEEP, *ON, "--date", "2026-11-30", "--json")
    assert parse_record(out) == record


@pytest.mark.parametrize(("language", "file"), [("en", "FILE"), ("es", "ARCHIVO")])
def test_an_import_says_what_to_do_with_its_calibration(
    capsys: pytest.CaptureFixture[str], language: str, file: str
) -> None:
    code, out, _ = run(capsys, "import", SWEEP, *ON, "--lang", language)
    assert (code, f"-o {file}" in out, f"estimate --calibration {file}" in out) == (0, True, True)
    few = str(FIXTURES / "vllm-latency.json")
    flags = ("--model", "Qwen/Qwen3-8B", "--engine", "vllm", *LENGTHS)
    code, out, _ = run(capsys, "import", few, *ON, *flags, "--lang", language)
    assert (code, "--calibration" in out) == (0, False)


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_calibration_alone_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, language: str
) -> None:
    own = measured().calibration
    assert own is not None
    file, copy = tmp_path / "calibration.json", tmp_path / "copy.json"
    file.write_text(own.model_dump_json())
    for one in (file, copy):
        code, out, _ = run(capsys, "import", str(one), "--lang", language, "-o", str(copy))
        assert (code, out.splitlines()) == (0, calibration_lines(own, language))
    code, out, _ = run(capsys, "import", str(file), "--json")
    assert (code, json.loads(out)) == (0, measured_json(parse_record(copy.read_bytes()), language))


def test_a_measurement_of_ours_is_shown_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, copy = tmp_path / "measured.json", tmp_path / "copy.json"
    file.write_text(record_text(measured()))
    code, out, _ = run(capsys, "import", str(file), "--lang", "en", "-o", str(copy))
    assert (code, out) == (0, measured_text(measured(), "en") + "\n")
    assert parse_record(copy.read_bytes()) == measured()
    code, out, _ = run(capsys, "import", str(file), "--json")
    assert (code, json.loads(out)) == (0, measured_json(measured(), "en"))
    file.write_text(record_text(measured())[:-200])
    code, _, said = run(capsys, "import", str(file), "--lang", "en")
    assert (code, said) == (1, text("error.measurement_not_json", "en") + "\n")
    assert "isn't whole" in said


@pytest.mark.parametrize(
    ("language", "names", "predicted"),
    [
        ("en", ("Prefill", "Weights, whole model", "Peak memory of tensors"), "Predicted"),
        ("es", ("Prefill", "Pesos, modelo entero", "Memoria máxima de los tensores"), "Predicho"),
    ],
)
@pytest.mark.parametrize("has_calibration", [True, False])
def test_figures_go_by_their_names_and_memory_is_not_calibrated(
    language: str, names: tuple[str, ...], predicted: str, has_calibration: bool
) -> None:
    record = measured()
    blank = {"low": 1e9, "median": 1e9, "high": 1e9, "repeats": 1}
    memory = dict.fromkeys(("weights_bytes", "peak_bytes", "cache_bytes_per_token"), blank)
    first = record.rows[0].model_dump()
    first["measured"] |= memory
    lacking = {"id": "a run that was not", "measured": {}, "outcome": "out_of_memory"}
    rows = [first, {**first, **lacking}, *(row.model_dump() for row in record.rows[1:])]
    changes = {"rows": rows} | ({} if has_calibration else {"calibration": None})
    said = measured_text(type(record).model_validate({**record.model_dump(), **changes}), language)
    for raw in (*memory, "prefill_s", "tpot_s"):
        assert raw not in said
    lines = said.splitlines()
    (head,) = (line for line in lines if f" {predicted} " in line)
    figures = head.index(text("measure.cli.column.figure", language))
    before = head.index(predicted)
    calibrated = head.index(text("measure.cli.column.after", language))
    for name in names:
        line = next(line for line in lines if line[figures:].startswith(f"{name} "))
        assert line[before - 1] == " " != line[before]
        is_shown = name == "Prefill" and has_calibration
        assert (line[calibrated:].split()[:2] != ["–", "–"]) == is_shown
    outcome = text("measure.outcome.out_of_memory", language)
    assert any(line[figures:] == outcome for line in lines)
    assert any(line.startswith("Prefill: ") for line in lines)


def test_a_measurement_of_ours_that_was_not_fitted_yet_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "measured.json"
    file.write_text(record_text(measured().model_copy(update={"calibration": None})))
    code, out, _ = run(capsys, "import", str(file), "--lang", "en")
    assert (code, out) == (0, measured_text(measured(), "en") + "\n")


@pytest.mark.parametrize("language", ["en", "es"])
def test_codes_without_a_sentence_are_shown_as_they_stand(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, language: str
) -> None:
    data = measured().model_dump(mode="json")
    data["figures"] = [
        {
            "name": "novel_{x}",
            "unit": "B/s",
            "value": {"median": 1e9, "low": 1e9, "high": 1e9, "repeats": 2},
        }
    ]
    data["conditions"] = {
        "noisy": True,
        "reasons": [
            {"code": "drift"},  # without what its sentence needs
            {"code": "drift", "drift_fraction": "abc", "times": "x"},
            {"code": "drift", "drift_fraction": 4, "times": 3},
            {"code": "others_during"},
            {"code": "throttled", "why": 9},
            {"code": "throttled", "why": "power_cap"},
            {"code": "of_a_later_version", "why": 9},
            {"code": "{0.__class__}", "key": "x", "language": "x"},
            {"code": 5},
            {"x": 1},
        ],
    }
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(data))
    code, out, _ = run(capsys, "import", str(file), "--lang", language)
    assert code == 0
    assert "  novel {x} " in out
    assert out.splitlines()[-10:] == [
        f"  - {said}"
        for said in (
            "drift",
            "drift",
            text("measure.noise.drift", language, factor=5.0, times=3),
            "others_during",
            "9",
            text("measure.throttle.power_cap", language),
            "of_a_later_version",
            "{0.__class__}",
            "5",
            "?",
        )
    ]


def test_imported_results_are_shown_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = str(tmp_path / "measured.json")
    assert run(capsys, "import", SWEEP, *ON, "-o", file)[0] == 0
    code, out, _ = run(capsys, "import", file, "--lang", "en")
    assert code == 0
    assert "vllm-serve-sweep" in out
    assert text("measure.cli.rates", "en") not in out


def test_its_calibration_is_used_by_estimate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = str(tmp_path / "measured.json")
    assert run(capsys, "import", SWEEP, *ON, "-o", target)[0] == 0
    model = ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--engine", "vllm", "--json"]
    main(["estimate", *model, "--engine-version", "0.11.0", "--calibration", target])
    answer = json.loads(capsys.readouterr().out)
    assert answer["speed"]["tpot_ms"]["basis"] == "calibrated"
    # The runs took 8.6 ms a token alone; what is shipped says 7.4.
    assert answer["speed"]["tpot_ms"]["mid"] == pytest.approx(8.6, rel=0.06)


def test_a_file_with_every_request_in_it_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = json.loads((FIXTURES / "guidellm-0.8.json").read_text())
    report["benchmarks"][0]["requests"]["successful"] = [{"output": "x" * 9_000_000}]
    whole = tmp_path / "benchmarks.json"
    whole.write_text(json.dumps(report))
    code, out, _ = run(capsys, "import", str(whole), *ON, "--engine", "vllm")
    assert code == 0
    assert "4 rows of GuideLLM" in out


@pytest.mark.parametrize(("language", "said"), [("en", "faster than"), ("es", "más rápido de lo")])
def test_tokens_faster_than_the_named_accelerator_can_are_told(
    capsys: pytest.CaptureFixture[str], language: str, said: str
) -> None:
    report = str(FIXTURES / "guidellm-0.8.json")
    code, out, _ = run(capsys, "import", report, *ON, "--engine", "vllm", "--lang", language)
    assert code == 0
    assert said in out
