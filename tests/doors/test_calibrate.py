"""`calibrate` on a measurement, and `estimate --calibration` with what it wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from planner.catalog.engine_profiles import engine
from planner.cli import main
from planner.measure.record import Record, Row, Spread, parse_record, record_text

HOST_SLOWER = 2.0


def spread(value: float) -> Spread:
    return Spread(median=value, low=value * 0.98, high=value * 1.02, repeats=5)


def record() -> Record:
    """A T4 that decodes at half of the speed that is shipped for it."""
    rows = [
        Row(
            id=f"decode-{context}",
            scenario={
                "model": "Qwen/Qwen2.5-0.5B",
                "engine": "transformers",
                "dtype": "fp16",
                "input_tokens": context,
                "output_tokens": 33,
            },
            arrivals="together",
            measured={"tpot_s": spread(HOST_SLOWER * 0.0268)},
        )
        for context in (64, 512, 1024)
    ]
    document = {
        "format": "headroom-measurement",
        "schema_version": 1,
        "name": "my T4",
        "date": "2026-11-30T12:00:00+00:00",
        "origin": "device",
        "accelerator": "t4",
        "conditions": {"noisy": False},
        "rows": [row.model_dump() for row in rows],
    }
    return Record.model_validate(document)


def estimate(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, object]:
    base = ["estimate", "--model", "Qwen/Qwen2.5-1.5B", "--engine", "transformers", "--json"]
    assert main([*base, "--dtype", "fp16", *flags]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_measurement_calibrates_and_the_estimate_uses_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, done = tmp_path / "raw.json", tmp_path / "done.json"
    raw.write_text(record_text(record()), encoding="utf-8")
    assert main(["calibrate", str(raw), "-o", str(done), "--lang", "en"]) == 0
    assert "my T4: fitted for t4 with transformers" in capsys.readouterr().out
    own = parse_record(done.read_bytes()).calibration
    assert own is not None
    before = estimate(capsys, "--gpu", "t4")["speed"]
    for flags in (["--gpu", "t4", "--calibration", str(done)], ["--calibration", str(done)]):
        after = estimate(capsys, *flags)["speed"]
        assert after["calibration"] == "my T4"  # type: ignore[index]
        assert after["tpot_ms"]["basis"] == "calibrated"  # type: ignore[index]
        assert after["tpot_ms"]["mid"] > 1.4 * before["tpot_ms"]["mid"]  # type: ignore[index]
    elsewhere = estimate(capsys, "--gpu", "l4", "--calibration", str(done))
    assert elsewhere["speed"]["calibration"] == "transformers"  # type: ignore[index]


def test_a_group_of_runs_that_gets_worse_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Few users see half of the shipped speed, and 32 what is shipped."""
    head = "id,model,gpu,engine,dtype,input_tokens,output_tokens,concurrency,tpot_s"
    runs = [(users, context) for users in (1, 2, 4, 32) for context in (64, 512, 1024)]
    rows = [
        f"{users}-{context},Qwen/Qwen2.5-0.5B,t4,transformers,fp16,{context},33,{users},"
        f"{0.0268 * (1.0 if users == 32 else HOST_SLOWER)}"
        for users, context in runs
    ]
    table = tmp_path / "runs.csv"
    table.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    for language, said in (
        (
            "en",
            r"Worse with 32 people at once, time per token: \S+ % before, \S+ % after \(3 runs\)",
        ),
        (
            "es",
            r"Peor con 32 personas a la vez, tiempo por token: \S+ % antes, \S+ % después \(3 ejec",
        ),
    ):
        assert main(["calibrate", str(table), "--lang", language]) == 0
        assert re.search(said, capsys.readouterr().out.replace("\u00a0", " "))
    assert main(["calibrate", str(table), "--json"]) == 0
    (own,) = json.loads(capsys.readouterr().out)["calibrations"]
    assert [one["by"] for one in own["tpot"]["worse"]] == ["concurrency"]


def runs_of(version: str) -> str:
    """A table of two runs, of a version of the engine or of none that is stated."""
    head = (
        "id,engine,engine_version,model,gpu,weights,input_tokens,output_tokens,concurrency,tpot_s"
    )
    runs = ((1, 0.0071), (16, 0.0098))
    rows = [
        f"{users},vllm,{version},Qwen/Qwen3-8B,h100,bf16,1000,200,{users},{tpot_s}"
        for users, tpot_s in runs
    ]
    return "\n".join([head, *rows]) + "\n"


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_version_that_was_assumed_is_said(
    language: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, written = tmp_path / "runs.csv", tmp_path / "own.json"
    newest = engine("vllm").newest
    for version, is_said in (("", True), ("0.11.0", False)):
        table.write_text(runs_of(version))
        assert main(["calibrate", str(table), "-o", str(written), "--lang", language]) == 0
        said = capsys.readouterr().out
        assert (f"vLLM {newest}" in said, "engine_version" in said) == (is_said, is_said)
        assert json.loads(written.read_text())["engine_version"] == (version or newest)


@pytest.mark.parametrize(("language", "said"), [("en", "Written to"), ("es", "Escrito en")])
def test_the_file_that_was_written_is_said(
    language: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, written = tmp_path / "runs.csv", tmp_path / "own.json"
    table.write_text(runs_of("0.11.0"))
    flags = ["calibrate", str(table), "--lang", language]
    assert main([*flags, "-o", str(written)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{said} {written}."
    assert main(flags) == 0
    assert said not in capsys.readouterr().out
    assert main([*flags, "-o", str(written), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["calibrations"]) == 1


@pytest.mark.parametrize(("language", "point"), [("en", "."), ("es", ",")])
def test_constants_are_written_as_the_language_does(
    language: str, point: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "runs.csv"
    table.write_text(runs_of("0.11.0"))
    assert main(["calibrate", str(table), "--lang", language]) == 0
    values = re.findall(r"vllm: \S+ = (\S+?),? ", capsys.readouterr().out)
    assert values
    assert all(re.fullmatch(rf"0{re.escape(point)}\d+", value) for value in values)


HEADER = "model,gpu,engine,tpot_s,note\n"
RUN = "Qwen/Qwen2.5-0.5B,t4,transformers,0.05,"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            (HEADER + RUN + "fine\n" + RUN + '"open\n' + RUN + "x\n").encode(),
            ("runs", "line 3"),
        ),
        ((HEADER + RUN + "x,more\n").encode(), ("runs", "line 2")),
        ((HEADER + RUN + "x\n").encode("utf-16"), ("runs.csv", "UTF-8 CSV")),
        (b"\x89PNG\r\n\x1a\n\x00\xff", ("runs.csv", "UTF-8 CSV")),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--write"]])
def test_a_table_that_is_none_is_refused_by_name_and_line(
    content: bytes,
    said: tuple[str, ...],
    flags: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(content.replace(b"model,", b"id,model,", 1).replace(b"\nQ", b"\na,Q"))
    assert main(["calibrate", str(path), *flags, "--lang", "en"]) == 1
    line = capsys.readouterr().err
    assert len(line.splitlines()) == 1
    for part in said:
        assert part in line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("Qwen/Qwen2.5-0.5B", "nobody/nothing"), "nobody/nothing"),
        (("512", "many"), "input_tokens"),
    ],
)
@pytest.mark.parametrize(("language", "start"), [("en", "2 of 2"), ("es", "2 de 2")])
def test_rows_that_were_dropped_are_said_with_why(
    change: tuple[str, str],
    said: str,
    language: str,
    start: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "runs.csv"
    rows = "".join(f"{name},Qwen/Qwen2.5-0.5B,t4,transformers,512,0.05\n" for name in "ab")
    content = "id,model,gpu,engine,input_tokens,tpot_s\n" + rows
    path.write_text(content.replace(*change))
    assert main(["calibrate", str(path), "--lang", language]) == 1
    line = capsys.readouterr().err
    for part in (start, "a: ", said):
        assert part in line


@pytest.mark.parametrize(
    ("text", "code"),
    [("{", "measurement_not_json"), ("[]", "measurement_foreign"), ("{}", "calibration_bad_entry")],
)
def test_a_file_that_is_no_calibration_is_refused(
    text: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    flags = ["estimate", "--model", "gpt2", "--gpu", "t4", "--calibration", str(path), "--json"]
    assert main(flags) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_runs_that_tell_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_text(record_text(record().model_copy(update={"rows": []})), encoding="utf-8")
    assert main(["calibrate", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "calibration_rows_tell_nothing"


def test_estimate_and_calibrate_say_the_same_of_runs_that_give_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here the device that was measured is in no catalogue, nor described."""
    path = tmp_path / "file.json"
    nowhere = record().model_copy(
        update={"accelerator": "own-nowhere", "device": None, "calibration": None}
    )
    path.write_text(record_text(nowhere), encoding="utf-8")
    found = []
    for verb in (
        ["calibrate", str(path)],
        ["estimate", "--model", "gpt2", "--calibration", str(path)],
    ):
        assert main([*verb, "--lang", "en"]) == 1
        found.append(capsys.readouterr().err)
    assert "own-nowhere" in found[0]
    assert found[0] == found[1]


def test_estimate_needs_an_accelerator(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["estimate", "--model", "gpt2"])
    assert stopped.value.code == 2
    assert "--gpu" in capsys.readouterr().err


def test_all_tables_of_measurements_can_be_named_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--write` every table of runs is taken, and what was left out of them is not."""
    from planner import cli_calibrate
    from planner.catalog.loader import profiles_folder

    given: dict[str, int] = {}

    def refit(families: dict[str, list[object]]) -> str:
        given.update({family: len(rows) for family, rows in families.items()})
        return "found"

    monkeypatch.setattr(cli_calibrate, "refit", refit)
    monkeypatch.setattr(cli_calibrate, "write", lambda found: (found,))
    monkeypatch.setattr(cli_calibrate, "refitted_notes", lambda _: [])
    tables = sorted(str(path) for path in (profiles_folder() / "measurements").glob("*.csv"))
    assert any("left-out" in name for name in tables)
    assert main(["calibrate", *tables, "--write"]) == 0
    assert capsys.readouterr().out == "found\n"
    assert given.keys() == {
        "serving",
        "serving-throughput",
        "llama-cpp",
        "transformers",
        "batch",
        "mlperf",
    }
    assert min(given.values()) >= 90


@pytest.mark.parametrize("content", ["", "id,engine,model\n"])
def test_a_table_without_rows_is_told_so(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(content)
    assert main(["calibrate", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "measurements_no_rows"


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_what_a_file_holds_is_never_done_by_the_terminal(
    as_json: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model's name comes from the file into the refusal; escapes begin with ESC, or with one letter of Latin-1."""
    document = record().model_dump(mode="json")
    for row in document["rows"]:
        row["scenario"]["model"] = "\x1b[31mred\x9b5mblink\u202e"
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(document))
    assert main(["calibrate", str(path), "--lang", "en", *as_json]) == 1
    said = capsys.readouterr()
    assert not set("\x1b\x9b\u202e") & set(said.out + said.err)
    assert r"\u001b[31mred\u009b5mblink" in said.err
    if as_json:
        assert "\x1b[31mred\x9b5mblink" in json.loads(said.out)["error"]["message"]
